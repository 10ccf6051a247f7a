"""Commands to a GPU from compiled code: copies, launches and waiting.

Compiled code calls the functions of the driver at their addresses, so that a tree grows without
a step back to Python: a call takes a few microseconds.  Where arrays lie, and all arguments of
launches but those that change, are written into tables before (:class:`GpuCommands`).

The first error of the driver is kept, and all later commands are left out.

An order divides the rows of a node between its children, adds up the histogram of some rows, or
both.  The orders of a batch lie side by side in a list.  A block finds its order by its number::

    order      0            1    2         3
    rows       10,000       900  9,000     0       of the node, 4,096 for each block
    blocks     0  1  2      3    4  5  6   -

A launch for one order has that order among its arguments, and reads no list: copying it to the
GPU would take as long as the work on a small node.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.compile import kernel
from hedgerow.kernels.histograms.histogram import HistogramSums
from hedgerow.kernels.primitives.intrinsics import call_function

CALL_LAUNCH, CALL_UPLOAD, CALL_DOWNLOAD, CALL_FILL, CALL_WAIT, CALL_STREAM, CALLS = range(7)
"""Addresses of the driver's functions, and the stream in which commands are carried out."""

KERNEL_HANDLE, KERNEL_PLACES, KERNEL_THREADS, KERNEL_BYTES, KERNEL_FIELDS = range(5)
"""Fields of a kernel: its handle, the place of its arguments' addresses, threads of a block, and
bytes of memory that they share."""

COPY_HOST, COPY_DEVICE, COPY_FIELDS = range(3)
"""Fields of an array: its address in host memory, and in GPU memory."""

COUNT_ROWS, PACK_ROWS, COUNT_LEFT, DIVIDE, COPY_BACK, ADD, HAND_OVER, FINISH, KERNELS = range(9)
"""Kernels: rows of ``kernels`` and ``values``."""

(
    SCALARS, QUANTIZED, WORDS, ROW_IDS, LEAF_STARTS, LEAF_NODES, LEAF_SUMS, LEAF_OF, ORDERS, COPIES,
) = range(10)  # fmt: skip
"""Arrays that are copied: rows of ``copies``."""

# Words of the arguments that change.  Orders come first: the only one, their number, the first
# in the list, rows of a block, and two words for the list itself.
WORD_N_ORDERS, WORD_FIRST_ORDER, WORD_PER_BLOCK = range(13, 16)
ADD_PART = 18
FINISH_N_LEAVES, FINISH_N_ROWS = range(2)

THREADS = 512
"""Threads of a block.  The kernels' registers allow two such blocks on a multiprocessor."""

ROWS_PER_BLOCK = 4096
"""Rows of a node that one block divides between its children.  With three times as many, and one
launch instead of three for nodes of up to as many rows, trees of depth 8 took 10% longer."""

MOST_VALUES = 48
"""Words of the arguments of a kernel."""

N_ORDERS, N_FREE, SPARE, IS_PENDING, COUNTS = range(5)
"""Orders in the list, free places, which of the two spare places comes next, and whether the
host has not waited for commands yet."""

PART_WORD, PART_START, PART_TO, PART_CELLS, PART_COUNT_BITS, PART_HESSIAN_BITS, PART_G_APART = (
    range(7)
)
PART_FIELDS = 7
"""Fields of a launch that sums histograms:
:class:`hedgerow.kernels.cuda.histogram.Part`, and how the
numbers are packed (:class:`hedgerow.kernels.histograms.histogram.Packing`)."""


class Ahead(NamedTuple):
    """The work that is ordered from the GPU, partly long before the host needs it.

    listed   int64 (orders, ORDER_FIELDS): see ``Order``
    counts   int64 (COUNTS,)
    free     int64 (places,): places of histograms that hold none
    of_parent  int64 (nodes,): place of the histogram of the smaller child of a node; ORDERED:
             none, but its rows are divided; NOT_ORDERED
    of_node  int64 (nodes,): place of the histogram of a node that is taken from there
    kept     histograms, to which the GPU writes
    n_cells  of a place
    n_likely  nodes that are ordered with another because they will probably be split
    """

    listed: kt.Int64_2D
    counts: kt.Int64_1D
    free: kt.Int64_1D
    of_parent: kt.Int64_1D
    of_node: kt.Int64_1D
    kept: HistogramSums
    n_cells: np.int64
    n_likely: np.int64


class GpuCommands(NamedTuple):
    """The parts of commands.

    used     1: a GPU has the rows; 0: the arrays are empty
    calls    int64 (CALLS,)
    kernels  int64 (kernels, KERNEL_FIELDS)
    values   int64 (kernels, MOST_VALUES): words of the arguments of each kernel
    copies   int64 (arrays, COPY_FIELDS)
    parts    int64 (launches, PART_FIELDS): launches that add up a histogram
    n_parts  int64 (1,): how many of them there are
    status   int64 (1,): the first error, 0 if there is none
    n_tiles  tiles of columns
    n_processors  multiprocessors of the GPU
    leaves   int64 (2, leaves): first places of the leaves, and their nodes
    sums     int64 (leaves, 2): exact sums of the leaves
    leaf_of  int32 (n_rows,): node of the leaf of each row; -1: none
    ahead    orders of the tree, and the histograms that the GPU has handed over
    """

    used: np.int64
    calls: kt.Int64_1D
    kernels: kt.Int64_2D
    values: kt.Int64_2D
    copies: kt.Int64_2D
    parts: kt.Int64_2D
    n_parts: kt.Int64_1D
    status: kt.Int64_1D
    n_tiles: np.int64
    n_processors: np.int64
    leaves: kt.Int64_2D
    sums: kt.Int64_2D
    leaf_of: kt.Int32_1D
    ahead: Ahead


@kernel(inner=True)
def launch(gpu: GpuCommands, which: int, n_blocks: int, n_tiles: int) -> None:
    """Launch a kernel with the words of ``gpu.values`` as arguments."""
    if gpu.status[0] == 0 and n_blocks > 0:
        row, one = gpu.kernels[which], np.int64(1)
        gpu.status[0] = call_function(
            gpu.calls[CALL_LAUNCH],
            (
                row[KERNEL_HANDLE], n_blocks, n_tiles, one, row[KERNEL_THREADS], one, one,
                row[KERNEL_BYTES], gpu.calls[CALL_STREAM], row[KERNEL_PLACES], np.int64(0),
            ),
        )  # fmt: skip


@kernel(inner=True)
def upload(gpu: GpuCommands, which: int, first: int, to: int, n_bytes: int) -> None:
    """Copy bytes of an array, from ``first`` on, to the GPU, from ``to`` on."""
    if gpu.status[0] == 0 and n_bytes > 0:
        row, stream = gpu.copies[which], gpu.calls[CALL_STREAM]
        given = (row[COPY_DEVICE] + to, row[COPY_HOST] + first, n_bytes, stream)
        gpu.status[0] = call_function(gpu.calls[CALL_UPLOAD], given)


@kernel(inner=True)
def download(gpu: GpuCommands, which: int, n_bytes: int) -> None:
    """Copy the first bytes of an array from the GPU; they are there after :func:`wait`."""
    if gpu.status[0] == 0 and n_bytes > 0:
        row = gpu.copies[which]
        given = (row[COPY_HOST], row[COPY_DEVICE], n_bytes, gpu.calls[CALL_STREAM])
        gpu.status[0] = call_function(gpu.calls[CALL_DOWNLOAD], given)


@kernel(inner=True)
def fill(gpu: GpuCommands, which: int, byte: int, n_bytes: int) -> None:
    """Fill the first bytes of an array on the GPU."""
    if gpu.status[0] == 0 and n_bytes > 0:
        given = (gpu.copies[which, COPY_DEVICE], byte, n_bytes, gpu.calls[CALL_STREAM])
        gpu.status[0] = call_function(gpu.calls[CALL_FILL], given)


@kernel(inner=True)
def wait(gpu: GpuCommands) -> None:
    """Wait until the GPU has carried out all commands."""
    if gpu.status[0] == 0:
        given = (gpu.calls[CALL_STREAM],)
        gpu.status[0] = call_function(gpu.calls[CALL_WAIT], given)


# -- orders, as kernels read them ----------------------------------------------------------------

ORDER_BLOCK, ORDER_HISTOGRAM_BLOCK, ORDER_FIELDS = 8, 11, 13
"""Fields of :class:`Order` by which blocks find theirs, and how many fields there are."""

_FIELDS = np.int64(ORDER_FIELDS)


class Order(NamedTuple):
    """An order.

    column, start, count  how rows are divided: by which column, and the rows of the node
    n_left                how many of them go left
    set_0 .. set_3        bit b of the four words tells whether bin b goes left
    block                 first block of the division
    first_row, n_rows     rows of a histogram
    histogram_block       first block of the histogram
    place                 where its sums lie, counted in histograms
    """

    column: np.int64
    start: np.int64
    count: np.int64
    n_left: np.int64
    set_0: np.int64
    set_1: np.int64
    set_2: np.int64
    set_3: np.int64
    block: np.int64
    first_row: np.int64
    n_rows: np.int64
    histogram_block: np.int64
    place: np.int64


class Orders(NamedTuple):
    """The orders of a launch.

    only       the order, if it is the only one
    n          how many there are
    first      number of the first in the list
    per_block  rows of a block
    listed     int64, flat: (orders, ORDER_FIELDS)
    """

    only: Order
    n: np.int64
    first: np.int64
    per_block: np.int64
    listed: kt.Int64_1D


@kernel(inner=True)
def nth_order(orders: Orders, number: int) -> Order:
    """Return the order with this number in the batch."""
    if orders.n == 1:
        return orders.only
    at, listed = (orders.first + number) * _FIELDS, orders.listed
    return Order(
        listed[at], listed[at + 1], listed[at + 2], listed[at + 3], listed[at + 4],
        listed[at + 5], listed[at + 6], listed[at + 7], listed[at + 8], listed[at + 9],
        listed[at + 10], listed[at + 11], listed[at + 12],
    )  # fmt: skip


@kernel(inner=True)
def order_of(orders: Orders, field: int, block: int) -> Order:
    """Return the order of a block: the last one whose first block, in ``field``, is not later."""
    low, high = np.int64(0), orders.n
    while high - low > 1:
        middle = (low + high) // 2
        if orders.listed[(orders.first + middle) * _FIELDS + field] <= block:
            low = middle
        else:
            high = middle
    return nth_order(orders, low)
