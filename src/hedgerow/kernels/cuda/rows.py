"""GPU kernels on the rows of nodes: partition, sums, and the leaf of each row.

::

    blocks   rows 0 to 4095 of the node | rows 4096 to 8191 | ...
    pass 1   each block counts its rows that go left
    pass 2   each block adds up the counts of the blocks before, and writes its rows to scratch:
             left rows behind those of the blocks before, right rows behind all left ones
    pass 3   scratch is copied back

A node of one block is divided in pass 2 alone.  A launch divides the rows of several nodes
(:mod:`hedgerow.kernels.cuda.commands`).  The rows of a child stay in the order in which they were
in the parent, as on the processor (:mod:`hedgerow.kernels.histograms.partition`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import IntArray, RowArray
from hedgerow.compile import kernel
from hedgerow.kernels.cuda import intrinsics as gpu
from hedgerow.kernels.cuda.commands import ORDER_BLOCK, ROWS_PER_BLOCK, Order, Orders, order_of
from hedgerow.kernels.cuda.histogram import TiledBins
from hedgerow.kernels.primitives.intrinsics import count_ones

MOST_WARPS = 32
"""Words of shared memory of a block of :func:`divide_rows`."""


_WARP = np.int64(gpu.WARP)
_PER_BLOCK = np.int64(ROWS_PER_BLOCK)
_PER_THREAD = np.int64(8)


class Columns(NamedTuple):
    """Bins column by column: uint8, flat, each column ``length`` bytes."""

    bins: kt.UInt8_1D
    length: np.int64


@kernel
def lay_rows(n_rows: int, columns: Columns, bins: TiledBins) -> None:
    """Write the bins of all columns row by row, in tiles; a block for each tile."""
    step, tile = gpu.n_blocks() * gpu.block_size(), gpu.block_number(1)
    first = tile * bins.features_per_tile
    n_here = min(bins.features_per_tile, bins.n_columns - first)
    for row in range(gpu.block_number(0) * gpu.block_size() + gpu.thread_number(), n_rows, step):
        to = tile * bins.tile_size + row * bins.tile_width
        for word in range(bins.tile_width):
            found = np.uint32(0)
            for j in range(4 * word, min(4 * word + 4, n_here)):
                bin_ = np.uint32(columns.bins[(first + j) * columns.length + row])
                found = np.uint32(found | (bin_ << np.uint32(8 * (j & 3))))
            bins.by_row[to + word] = found


@kernel
def count_rows(n_rows: int, rows: kt.UInt32_1D) -> None:
    """Write the numbers of all rows."""
    step = gpu.n_blocks() * gpu.block_size()
    for row in range(gpu.block_number(0) * gpu.block_size() + gpu.thread_number(), n_rows, step):
        rows[row] = np.uint32(row)


@kernel(inline=True, inner=True)
def goes_left(columns: Columns, order: Order, row: int) -> int:
    """Return whether a row goes left: 1 or 0."""
    bin_ = np.int64(columns.bins[order.column * columns.length + row])
    lower = order.set_0 if bin_ < 64 else order.set_1
    upper = order.set_2 if bin_ < 192 else order.set_3
    word = lower if bin_ < 128 else upper
    return (word >> (bin_ & 63)) & 1


@kernel
def count_left(orders: Orders, columns: Columns, rows: kt.UInt32_1D, counts: kt.Int64_1D) -> None:
    """Count the rows of each block that go left."""
    thread, block = gpu.thread_number(), gpu.block_number(0)
    order = order_of(orders, ORDER_BLOCK, block)
    first = (block - order.block) * orders.per_block
    total, start = gpu.shared_words(np.int64(1)), order.start
    if thread == 0:
        total[0] = 0
    gpu.sync_block()
    n_left, stop = np.int64(0), min(first + orders.per_block, order.count)
    for i in range(start + first + thread, start + stop, gpu.block_size()):
        n_left += goes_left(columns, order, np.int64(rows[i]))
    gpu.add_shared(total, np.int64(0), np.int32(n_left))
    gpu.sync_block()
    if thread == 0:
        counts[block] = np.int64(total[0])


@kernel(inner=True)
def left_before(first_block: int, counts: IntArray, total: np.ndarray) -> int:
    """Return the number of left rows of the previous blocks; all threads of the block cooperate."""
    thread = gpu.thread_number()
    if thread == 0:
        total[0] = 0
        total[1] = 0
    gpu.sync_block()
    n_left = np.int64(0)
    for block in range(first_block + thread, gpu.block_number(0), gpu.block_size()):
        n_left += counts[block]
    # ``total`` are two words of shared memory: a sum may exceed 31 bits.
    gpu.add_shared(total, np.int64(0), np.int32(n_left & 0xFFFF))
    gpu.add_shared(total, np.int64(1), np.int32(n_left >> 16))
    gpu.sync_block()
    return (np.int64(total[1]) << 16) + np.int64(total[0])


@kernel(inner=True)
def lefts_of(order: Order, columns: Columns, rows: RowArray, first: int, stop: int) -> int:
    """Return the bits of a few rows from place ``first`` on: 1 for rows that go left."""
    lefts = np.int64(0)
    for k in range(_PER_THREAD):  # always as many: LLVM unrolls the loop
        row = np.int64(rows[min(first + k, stop - 1)])
        is_inside = np.int64(first + k < stop)
        lefts |= (goes_left(columns, order, row) & is_inside) << k
    return lefts


@kernel(inner=True)
def count_before(own: int, words: np.ndarray) -> tuple[int, int]:
    """Return the sum of ``own`` over the block's earlier threads, and over all of its threads."""
    thread = gpu.thread_number()
    lane, warp, n_warps = thread % _WARP, thread // _WARP, gpu.block_size() // _WARP
    up_to, step = own, np.int64(1)
    while step < _WARP:
        other = gpu.read_lane(up_to, max(lane - step, np.int64(0)))
        up_to += other if lane >= step else np.int64(0)
        step *= 2
    if lane == _WARP - 1:
        words[warp] = np.int32(up_to)
    gpu.sync_block()
    before, total = up_to - own, np.int64(0)
    for w in range(n_warps):
        if w < warp:
            before += np.int64(words[w])
        total += np.int64(words[w])
    gpu.sync_block()
    return before, total


@kernel
def divide_rows(
    orders: Orders, columns: Columns, rows: kt.UInt32_1D, counts: kt.Int64_1D, scratch: kt.UInt32_1D
) -> None:
    """Write the rows of each block to where they belong, in ``scratch``; few are copied back."""
    # Each thread has eight adjacent rows, whose bins it reads at the same time.
    thread, size, block = gpu.thread_number(), gpu.block_size(), gpu.block_number(0)
    order = order_of(orders, ORDER_BLOCK, block)
    start, first_row = order.start, (block - order.block) * orders.per_block
    words = gpu.shared_words(np.int64(MOST_WARPS))
    n_before = left_before(order.block, counts, words)
    gpu.sync_block()
    left_at = start + n_before
    right_at = start + order.n_left + first_row - n_before
    stop = start + min(first_row + orders.per_block, order.count)
    for block_first in range(start + first_row, stop, _PER_THREAD * size):
        first = block_first + _PER_THREAD * thread
        lefts = lefts_of(order, columns, rows, first, stop)
        before, total = count_before(count_ones(lefts), words)
        to_left, to_right = left_at + before, right_at + _PER_THREAD * thread - before
        for k in range(min(_PER_THREAD, stop - first)):
            is_left = (lefts >> k) & 1
            scratch[to_left if is_left == 1 else to_right] = rows[first + k]
            to_left += is_left
            to_right += 1 - is_left
        left_at += total
        right_at += _PER_THREAD * size - total
    if order.count <= orders.per_block:
        gpu.sync_block()
        for i in range(start + thread, stop, size):
            rows[i] = scratch[i]


@kernel
def copy_rows(orders: Orders, rows: kt.UInt32_1D, scratch: kt.UInt32_1D) -> None:
    """Copy the rows of nodes of several blocks back."""
    block = gpu.block_number(0)
    order = order_of(orders, ORDER_BLOCK, block)
    if order.count <= orders.per_block:
        return
    first = (block - order.block) * orders.per_block
    stop = order.start + min(first + orders.per_block, order.count)
    for i in range(order.start + first + gpu.thread_number(), stop, gpu.block_size()):
        rows[i] = scratch[i]


@kernel(inner=True)
def leaf_at(starts: IntArray, n_leaves: int, place: int) -> int:
    """Return the last leaf that starts at ``place`` or before."""
    low, high = np.int64(0), n_leaves
    while high - low > 1:
        middle = (low + high) // 2
        if starts[middle] <= place:
            low = middle
        else:
            high = middle
    return low


@kernel
def finish_rows(
    n_leaves: int,
    n_rows: int,
    starts: kt.Int64_1D,
    nodes: kt.Int64_1D,
    quantized: kt.Int32_1D,
    rows: kt.UInt32_1D,
    sums: kt.Int64_1D,
    leaf_of: kt.Int32_1D,
) -> None:
    """Compute exact sums of the leaves, and the leaf node of each row."""
    # ``starts`` are the first places of the leaves, ascending, and ``nodes`` their nodes.
    first = gpu.block_number(0) * _PER_BLOCK + gpu.thread_number()
    stop = min((gpu.block_number(0) + 1) * _PER_BLOCK, n_rows)
    leaf, g, h = np.int64(-1), np.int64(0), np.int64(0)
    for place in range(first, stop, gpu.block_size()):
        found = leaf_at(starts, n_leaves, place)
        if found != leaf:
            if leaf >= 0:
                gpu.add_global(sums, 2 * leaf, g)
                gpu.add_global(sums, 2 * leaf + 1, h)
            leaf, g, h = found, np.int64(0), np.int64(0)
        row = np.int64(rows[place])
        g += np.int64(quantized[2 * row])
        h += np.int64(quantized[2 * row + 1])
        leaf_of[row] = np.int32(nodes[leaf])
    if leaf >= 0:
        gpu.add_global(sums, 2 * leaf, g)
        gpu.add_global(sums, 2 * leaf + 1, h)
