"""The histograms of nodes on a GPU.

A block adds some rows of the node to the bins of one tile of columns, in memory that its threads
share, and adds its sums to those of the node at the end::

    block   (part of the rows of a node, tile of columns)
    warp    reads 32 rows, then the bins of 4 to 16 rows at a time, each thread 4 columns of a row
    cells   column 0  | low words of bins 0, 1, ... 255
            column 1  | low words of bins 255, 0, ... 254
            ...
            then the high words of all, in the same order

A row is one packed number, as on the processor (:mod:`hedgerow.kernels.histograms.histogram`),
and a cell holds 64 bits as two words: shared memory adds 32 bits in one step, 64 only by trial.
The bins of a column are rotated, so that the same bin of all columns lies in other banks of the
memory: in most rows of a sparse table, all columns have the same bin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import IntArray, RowArray
from hedgerow.compile import kernel
from hedgerow.kernels.cuda import intrinsics as gpu
from hedgerow.kernels.cuda.commands import ORDER_HISTOGRAM_BLOCK, Orders, nth_order, order_of
from hedgerow.kernels.histograms.histogram import HistogramSums, Packing

_WARP = np.int64(gpu.WARP)
_IN_WORD = np.int64(4)


class TiledBins(NamedTuple):
    """Bins of rows in tiles of columns.

    by_row             uint32, flat: tile, then row, then bins of four columns of the tile, the
                       first in the lowest byte
    tile_size          words of a tile
    tile_width         words of a row of a tile: 2, 4 or 8
    features_per_tile  columns of a tile; the last may have fewer
    n_columns
    stride             bins of a column, a power of two
    """

    by_row: kt.UInt32_1D
    tile_size: np.int64
    tile_width: np.int64
    features_per_tile: np.int64
    n_columns: np.int64
    stride: np.int64


class Part(NamedTuple):
    """The input of one launch.

    word    which word of a row: of two, the first holds g alone
    start   first number of that word among those of all rows
    to      first cell of its sums in a place
    n_cells  cells of a place
    """

    word: np.int64
    start: np.int64
    to: np.int64
    n_cells: np.int64


def words_of_tile(features_per_tile: int, stride: int) -> int:
    """Return the words of shared memory that a block needs."""
    return 2 * features_per_tile * stride


@kernel(inline=True, inner=True)
def cell_of(column: int, bin_: int, stride: int) -> int:
    """Return the cell of a bin."""
    return column * stride + ((bin_ + column) & (stride - 1))


@kernel(inline=True, inner=True)
def add_value(words: np.ndarray, cell: int, n_cells: int, value: int) -> None:
    """Add a number of 64 bits to a cell."""
    low = np.uint32(value & 0xFFFFFFFF)
    before = np.uint32(gpu.add_shared(words, cell, np.int32(low)))
    carry = np.int64(before) + np.int64(low) >> 32
    gpu.add_shared(words, cell + n_cells, np.int32((value >> 32) + carry))


@kernel(inline=True, inner=True)
def add_columns(
    words: np.ndarray, first: int, n_here: int, bins: int, stride: int, n_cells: int, value: int
) -> None:
    """Add a number to the cells of four columns, whose bins are bytes of a word."""
    for j in range(_IN_WORD):
        if first + j < n_here:
            bin_ = (bins >> (8 * j)) & 0xFF
            add_value(words, cell_of(first + j, bin_, stride), n_cells, value)


@kernel(inner=True)
def add_block_rows(
    bins: TiledBins,
    packed: IntArray,
    word_start: int,
    rows: RowArray,
    place: tuple[int, int],
    part: tuple[int, int],
    words: np.ndarray,
) -> None:
    """Add the rows at ``place`` to the cells of ``part``: a tile, and how many columns it has."""
    thread, n_warps = gpu.thread_number(), gpu.block_size() // _WARP
    lane, warp = thread % _WARP, thread // _WARP
    tile, n_here = part
    start, stop = place
    width, at_once = bins.tile_width, _WARP // bins.tile_width
    column, own = lane % width * _IN_WORD, lane // width
    base, stride = tile * bins.tile_size + lane % width, bins.stride
    n_cells = bins.features_per_tile * stride
    for first in range(start + _WARP * warp, stop, _WARP * n_warps):
        row, value, n = np.int32(0), np.int64(0), min(gpu.WARP, stop - first)
        if lane < n:
            row = np.int32(rows[first + lane])
            value = packed[word_start + np.int64(rows[first + lane])]
        for k in range(0, n, 4 * at_once):
            k_0, k_1 = k + own, k + own + at_once
            k_2, k_3 = k_1 + at_once, k_1 + 2 * at_once
            row_0, row_1 = gpu.read_lane(row, k_0), gpu.read_lane(row, k_1)
            row_2, row_3 = gpu.read_lane(row, k_2), gpu.read_lane(row, k_3)
            value_0, value_1 = gpu.read_lane(value, k_0), gpu.read_lane(value, k_1)
            value_2, value_3 = gpu.read_lane(value, k_2), gpu.read_lane(value, k_3)
            if column < n_here:
                # The four reads are under way together.
                bins_0 = np.int64(bins.by_row[base + np.int64(np.uint32(row_0)) * width])
                bins_1 = np.int64(bins.by_row[base + np.int64(np.uint32(row_1)) * width])
                bins_2 = np.int64(bins.by_row[base + np.int64(np.uint32(row_2)) * width])
                bins_3 = np.int64(bins.by_row[base + np.int64(np.uint32(row_3)) * width])
                if k_0 < n:
                    add_columns(words, column, n_here, bins_0, stride, n_cells, value_0)
                if k_1 < n:
                    add_columns(words, column, n_here, bins_1, stride, n_cells, value_1)
                if k_2 < n:
                    add_columns(words, column, n_here, bins_2, stride, n_cells, value_2)
                if k_3 < n:
                    add_columns(words, column, n_here, bins_3, stride, n_cells, value_3)


@kernel(inner=True)
def empty_words(packing: Packing, word: int, value: int, sums: HistogramSums, to: int) -> None:
    """Take the packed sums of a cell apart, and add them to those of the node."""
    g_alone = packing.g_apart == 1 and word == 0
    shift = np.int64(0) if g_alone else packing.count_bits + packing.hessian_bits
    if packing.g_apart == 0 or word == 0:
        gpu.add_global(sums.g, to, value >> shift)
    if not g_alone:
        rest = value & ((np.int64(1) << shift) - 1) if packing.g_apart == 0 else value
        count = rest & ((np.int64(1) << packing.count_bits) - 1)
        gpu.add_count(sums.n, to, np.int32(count))
        gpu.add_global(
            sums.h, to, count if packing.hessian_bits == 0 else rest >> packing.count_bits
        )


@kernel
def add_histogram(
    orders: Orders,
    summed: Part,
    packing: Packing,
    bins: TiledBins,
    packed: kt.Int64_1D,
    rows: kt.UInt32_1D,
    sums: HistogramSums,
) -> None:
    """Add a part of the numbers of rows to the sums of their nodes."""
    thread, size, stride = gpu.thread_number(), gpu.block_size(), bins.stride
    block, tile = gpu.block_number(0), gpu.block_number(1)
    order = order_of(orders, ORDER_HISTOGRAM_BLOCK, block)
    first_row = (block - order.histogram_block) * orders.per_block
    first = tile * bins.features_per_tile
    n_here = min(bins.features_per_tile, bins.n_columns - first)
    n_cells = bins.features_per_tile * stride
    words = gpu.shared_words(2 * n_cells)
    for cell in range(thread, 2 * n_cells, size):
        words[cell] = 0
    gpu.sync_block()
    last_row = min(first_row + orders.per_block, order.n_rows)
    part = (order.first_row + first_row, order.first_row + last_row)
    add_block_rows(bins, packed, summed.start, rows, part, (tile, n_here), words)
    gpu.sync_block()
    to = order.place * summed.n_cells + summed.to + first * stride
    for k in range(thread, n_here * stride, size):
        cell = cell_of(k // stride, k % stride, stride)
        value = np.int64(np.uint32(words[cell])) | (np.int64(words[cell + n_cells]) << 32)
        if value != 0:
            empty_words(packing, summed.word, value, sums, to + k)


@kernel
def hand_over(orders: Orders, n_cells: int, sums: HistogramSums, kept: HistogramSums) -> None:
    """Move the sums of nodes to the host, to the same places; a block for each order."""
    order, step = nth_order(orders, gpu.block_number(1)), gpu.n_blocks() * gpu.block_size()
    if order.n_rows == 0:
        return
    first, stop = order.place * n_cells, (order.place + 1) * n_cells
    for cell in range(
        first + gpu.block_number(0) * gpu.block_size() + gpu.thread_number(), stop, step
    ):
        kept.g[cell] = sums.g[cell]
        kept.h[cell] = sums.h[cell]
        kept.n[cell] = sums.n[cell]
        sums.g[cell] = 0
        sums.h[cell] = 0
        sums.n[cell] = np.int32(0)
