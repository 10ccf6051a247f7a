"""What takes the place of stages over rows if the rows are on a GPU.

Thread 0 gives the commands (:mod:`hedgerow.kernels.cuda.commands`); the search of splits, which
histograms decide, is that of all trees::

    gradients, sample      host
    start_rows             gradients to the GPU, packed there
    divide_node            rows of a node; nothing waits for it
    build_node             histogram of a node, handed over to the host, which waits for it
    finish_leaves          exact sums of the leaves, leaf of each row
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core.batch import JOB_PARENT
from hedgerow.growing.core.state import (
    IS_COUNT_BITS,
    IS_G_APART,
    IS_HESSIAN_BITS,
    IS_N_NODES,
    IS_N_ROWS,
    N_SCALARS,
    NODE_COLUMN,
    NODE_COUNT,
    NODE_LEFT,
    NODE_N_LEFT,
    NODE_RIGHT,
    NODE_SET,
    NODE_START,
    NUMBER_VALUE,
    SET_WORDS,
)
from hedgerow.kernels.cuda.commands import (
    ROWS_PER_BLOCK,
    GpuCommands,
    download,
    fill,
    launch,
    upload,
    wait,
)
from hedgerow.kernels.histograms.histogram import HistogramSums
from hedgerow.kernels.primitives.barrier import share

# Kernels of the tables of commands, and the words of their arguments that change.
COUNT_ROWS, PACK_ROWS, COUNT_LEFT, DIVIDE, COPY_BACK, ADD, HAND_OVER, FINISH, KERNELS = range(9)
(
    DIVISION_COLUMN, DIVISION_START, DIVISION_COUNT, DIVISION_N_LEFT, DIVISION_PER_BLOCK,
    DIVISION_SET,
) = range(6)  # fmt: skip
ADD_START, ADD_COUNT, ADD_PER_BLOCK, ADD_WORD, ADD_PACKING = range(5)
HAND_OVER_TO = 0
FINISH_N_LEAVES, FINISH_N_ROWS = range(2)

# Arrays that are copied.
SCALARS, QUANTIZED, ROW_IDS, LEAF_STARTS, LEAF_NODES, LEAF_SUMS, LEAF_OF, COPIES = range(8)

THREADS = 512
"""Of a block.  With the registers of the kernels, two such blocks share a multiprocessor."""

_LEAST_ROWS = 512
_BLOCKS_PER_PROCESSOR = 4
_NO_LEAF = 0xFF


@kernel(inline=True, inner=True)
def n_parts(count: int, size: int) -> int:
    """How many parts of ``size`` hold ``count``."""
    return (count + size - 1) // size


@kernel(inner=True)
def start_rows(thread: int, scalars: IntArray, n_rows: int, gpu: GpuCommands) -> None:
    """Thread 0: gradients of all rows and the row ids of the sample, on the GPU."""
    if thread > 0:
        return
    upload(gpu, SCALARS, np.int64(8 * N_SCALARS))
    upload(gpu, QUANTIZED, 8 * n_rows)
    n_blocks = min(16 * gpu.n_processors, n_parts(n_rows, THREADS))
    if scalars[IS_N_ROWS] < n_rows:
        upload(gpu, ROW_IDS, 4 * scalars[IS_N_ROWS])
    else:
        launch(gpu, COUNT_ROWS, n_blocks, np.int64(1))
    launch(gpu, PACK_ROWS, n_blocks, np.int64(1))
    words = gpu.values[ADD]
    words[ADD_PACKING] = scalars[IS_COUNT_BITS]
    words[ADD_PACKING + 1] = scalars[IS_HESSIAN_BITS]
    words[ADD_PACKING + 2] = scalars[IS_G_APART]


@kernel(inner=True)
def write_division(row: IntArray, words: IntArray) -> None:
    """Write how the rows of a node are divided to the arguments of a kernel."""
    words[DIVISION_COLUMN] = row[NODE_COLUMN]
    words[DIVISION_START] = row[NODE_START]
    words[DIVISION_COUNT] = row[NODE_COUNT]
    words[DIVISION_N_LEFT] = row[NODE_N_LEFT]
    words[DIVISION_PER_BLOCK] = ROWS_PER_BLOCK
    for w in range(SET_WORDS):
        words[DIVISION_SET + w] = row[NODE_SET + w]


@kernel(inner=True)
def divide_node(row: IntArray, gpu: GpuCommands) -> None:
    """Thread 0: divide the rows of a node between its children."""
    n_blocks, one = n_parts(row[NODE_COUNT], ROWS_PER_BLOCK), np.int64(1)
    write_division(row, gpu.values[DIVIDE])
    if n_blocks == 1:
        launch(gpu, DIVIDE, n_blocks, one)
        return
    write_division(row, gpu.values[COUNT_LEFT])
    write_division(row, gpu.values[COPY_BACK])
    launch(gpu, COUNT_LEFT, n_blocks, one)
    launch(gpu, DIVIDE, n_blocks, one)
    launch(gpu, COPY_BACK, n_blocks, one)


@kernel(inner=True)
def divide_batch(
    thread: int, table: IntArray, batch: IntArray, n_jobs: int, gpu: GpuCommands
) -> None:
    """Thread 0: divide the rows of all parents of a batch."""
    if thread == 0:
        for j in range(n_jobs):
            parent = batch[j, JOB_PARENT]
            if parent >= 0:
                divide_node(table[parent], gpu)


@kernel(inner=True)
def build_histogram(
    place: tuple[int, int], cells: tuple[int, int], histograms: HistogramSums, gpu: GpuCommands
) -> None:
    """Thread 0: histogram of the rows at ``place`` (start, count), in ``cells`` of the host."""
    start, count = place
    words, first, n_cells = gpu.values[ADD], cells[0], cells[1]
    # No sum may exceed its bits; else, enough blocks for the whole GPU.
    most = (np.int64(1) << words[ADD_PACKING]) - 1
    wanted = max(1, _BLOCKS_PER_PROCESSOR * gpu.n_processors // gpu.n_tiles)
    per_block = min(most, max(_LEAST_ROWS, n_parts(count, wanted)))
    words[ADD_START] = start
    words[ADD_COUNT] = count
    words[ADD_PER_BLOCK] = per_block
    for word in range(1 + words[ADD_PACKING + 2]):
        words[ADD_WORD] = word
        launch(gpu, ADD, n_parts(count, per_block), gpu.n_tiles)
    gpu.values[HAND_OVER, HAND_OVER_TO] = first
    launch(gpu, HAND_OVER, n_parts(n_cells, THREADS), np.int64(1))
    wait(gpu)
    if gpu.status[0] != 0:  # no split is found in zeros
        for cell in range(first, first + n_cells):
            histograms.g[cell] = 0
            histograms.h[cell] = 0
            histograms.n[cell] = 0


@kernel(inner=True)
def list_leaves(table: IntArray, n_rows: int, leaves: IntArray) -> int:
    """List first places and nodes of the leaves that have rows; return how many there are."""
    place, n_leaves = np.int64(0), np.int64(0)
    while place < n_rows:
        node = np.int64(0)
        while table[node, NODE_LEFT] != 0:
            right = table[node, NODE_RIGHT]
            node = right if place >= table[right, NODE_START] else table[node, NODE_LEFT]
        leaves[0, n_leaves] = place
        leaves[1, n_leaves] = node
        n_leaves += 1
        place = table[node, NODE_START] + table[node, NODE_COUNT]
    return n_leaves


@kernel(inner=True)
def finish_leaves(
    table: IntArray, scalars: IntArray, adds_scores: int, sums: IntArray, gpu: GpuCommands
) -> None:
    """Thread 0: exact sums of the leaves, int64 (2, nodes), and the leaf of each row."""
    n_inside, n_rows = scalars[IS_N_ROWS], np.int64(len(gpu.leaf_of))
    n_leaves = list_leaves(table, n_inside, gpu.leaves)
    upload(gpu, LEAF_STARTS, 8 * n_leaves)
    upload(gpu, LEAF_NODES, 8 * n_leaves)
    fill(gpu, LEAF_SUMS, np.int64(0), 16 * n_leaves)
    if n_inside < n_rows:
        fill(gpu, LEAF_OF, np.int64(_NO_LEAF), 4 * n_rows)
    gpu.values[FINISH, FINISH_N_LEAVES] = n_leaves
    gpu.values[FINISH, FINISH_N_ROWS] = n_inside
    launch(gpu, FINISH, n_parts(n_inside, ROWS_PER_BLOCK), np.int64(1))
    download(gpu, LEAF_SUMS, 16 * n_leaves)
    if adds_scores == 1:
        download(gpu, LEAF_OF, 4 * n_rows)
    wait(gpu)
    for node in range(scalars[IS_N_NODES]):
        sums[0, node] = 0
        sums[1, node] = 0
    for leaf in range(n_leaves):
        sums[0, gpu.leaves[1, leaf]] = gpu.sums[leaf, 0]
        sums[1, gpu.leaves[1, leaf]] = gpu.sums[leaf, 1]


@kernel(inner=True)
def add_leaf_values(
    thread: int, n_threads: int, numbers: FloatArray, raw: np.ndarray, gpu: GpuCommands
) -> None:
    """Add the value of its leaf to the raw score of each row that has one."""
    if gpu.status[0] != 0:
        return
    first, last = share(len(raw), thread, n_threads)
    leaf_of = gpu.leaf_of
    for row in range(np.uint64(first), np.uint64(last)):
        leaf = np.int64(leaf_of[row])
        if leaf >= 0:
            raw[row] += numbers[leaf, NUMBER_VALUE]
