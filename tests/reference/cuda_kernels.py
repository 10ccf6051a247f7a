"""Twins of the GPU kernels in NumPy, with the arguments of the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.growing.core.state import (
    IS_COUNT_BITS,
    IS_DROPPED_BITS,
    IS_FIRST_ROW,
    IS_G_APART,
    IS_HESSIAN_BITS,
    IS_TREE,
)
from hedgerow.kernels.cuda.commands import ORDER_FIELDS, Order, Orders
from hedgerow.kernels.cuda.histogram import Part, TiledBins
from hedgerow.kernels.cuda.rows import Columns
from hedgerow.kernels.histograms.histogram import HistogramSums, Packing
from hedgerow.kernels.primitives.hashing import hash_range

Array = np.ndarray[Any, Any]


def _listed(orders: Orders) -> list[Order]:
    """Return all orders of a launch."""
    if orders.n == 1:
        return [orders.only]
    rows = orders.listed.reshape(-1, ORDER_FIELDS)[orders.first : orders.first + orders.n]
    return [Order(*row.tolist()) for row in rows]


def add_histogram(
    orders: Orders, summed: Part, packing: Packing, bins: TiledBins, packed: Array, rows: Array,
    sums: HistogramSums,
) -> None:  # fmt: skip
    """Unpack each number before adding it."""
    assert packing.count_bits == 0 or orders.per_block < 1 << packing.count_bits
    value = packed[summed.start :]
    below = (1 << packing.count_bits) - 1
    n, h = value & below, value >> packing.count_bits
    g = np.zeros_like(value)
    if packing.g_apart == 0:
        g = value >> (packing.count_bits + packing.hessian_bits)
        h = h & ((1 << packing.hessian_bits) - 1) if packing.hessian_bits > 0 else n
    elif summed.word == 0:
        g, h, n = value, np.zeros_like(value), np.zeros_like(value)
    for order in _listed(orders):
        own = rows[order.first_row : order.first_row + order.n_rows]
        for j in range(bins.n_columns):
            tile, place = divmod(j, bins.features_per_tile)
            word = bins.by_row[tile * bins.tile_size + own * bins.tile_width + place // 4]
            at = order.place * summed.n_cells + summed.to + j * bins.stride
            at = at + (word.astype(np.int64) >> 8 * (place % 4) & 0xFF)
            for total, numbers in zip(sums, (g, h, n), strict=True):
                np.add.at(total, at, numbers[own].astype(total.dtype))


def hand_over(orders: Orders, n_cells: int, sums: HistogramSums, kept: HistogramSums) -> None:
    """Copy a histogram and clear it."""
    for order in _listed(orders):
        if order.n_rows > 0:
            cells = slice(order.place * n_cells, (order.place + 1) * n_cells)
            for own, other in zip(sums, kept, strict=True):
                other[cells] = own[cells]
                own[cells] = 0


def lay_rows(n_rows: int, columns: Columns, bins: TiledBins) -> None:
    """Lay out rows column by column; bytes without a column are 0."""
    bins.by_row[:] = 0
    for j, column in enumerate(columns.bins.reshape(-1, columns.length)):
        tile, place = divmod(j, bins.features_per_tile)
        of_tile = bins.by_row[tile * bins.tile_size : (tile + 1) * bins.tile_size]
        of_tile.view(np.uint8).reshape(n_rows, -1)[:, place] = column[:n_rows]


def count_rows(n_rows: int, rows: Array) -> None:
    """Count all numbers at once."""
    rows[:n_rows] = np.arange(n_rows)


def _goes_left(columns: Columns, order: Order, rows: Array) -> Array:
    bins = columns.bins.reshape(-1, columns.length)[order.column, rows]
    words = np.array(order[4:8], dtype=np.int64).view(np.uint8)
    return np.unpackbits(words, bitorder="little")[bins].astype(bool)


def count_left(orders: Orders, columns: Columns, rows: Array, counts: Array) -> None:
    """Count the left rows of one block after the other."""
    for order in _listed(orders):
        own = rows[order.start : order.start + order.count]
        is_left = _goes_left(columns, order, own)
        for block, first in enumerate(range(0, len(own), orders.per_block)):
            counts[order.block + block] = is_left[first : first + orders.per_block].sum()


def divide_rows(
    orders: Orders, columns: Columns, rows: Array, counts: Array, scratch: Array
) -> None:
    """Divide all rows at once, and copy few of them back."""
    for order in _listed(orders):
        place = slice(order.start, order.start + order.count)
        own = rows[place]
        is_left = _goes_left(columns, order, own)
        assert is_left.sum() == order.n_left
        scratch[place] = np.concatenate((own[is_left], own[~is_left]))
        if order.count <= orders.per_block:
            rows[place] = scratch[place]


def copy_rows(orders: Orders, rows: Array, scratch: Array) -> None:
    """Copy all rows at once."""
    for order in _listed(orders):
        if order.count > orders.per_block:
            place = slice(order.start, order.start + order.count)
            rows[place] = scratch[place]


def finish_rows(
    n_leaves: int, n_rows: int, starts: Array, nodes: Array, quantized: Array, rows: Array,
    sums: Array, leaf_of: Array,
) -> None:  # fmt: skip
    """Add the leaf values of one leaf after the other."""
    stops = [*starts[1:n_leaves].tolist(), n_rows]
    for leaf, (start, stop) in enumerate(zip(starts[:n_leaves], stops, strict=True)):
        own = rows[start:stop]
        of_leaf = quantized.reshape(-1, 2)[own].sum(axis=0, dtype=np.int64)
        sums.reshape(-1, 2)[leaf] += of_leaf
        leaf_of[own] = nodes[leaf]


def pack_rows(
    constant: int, seed: int, scalars: Array, ids: Array, quantized: Array, packed: Array
) -> None:
    """Pack all rows at once in one of the three ways."""
    g, h = quantized.reshape(-1, 2).astype(np.int64).T
    words, count_bits = packed.reshape(2, -1), int(scalars[IS_COUNT_BITS])
    if constant == 1:
        words[0] = (g << count_bits) + 1
    elif scalars[IS_G_APART] == 1:
        words[0], words[1] = g, (h << count_bits) + 1
    else:
        first, dropped = int(scalars[IS_FIRST_ROW]), int(scalars[IS_DROPPED_BITS])
        stream, mask = int(scalars[IS_TREE]), (1 << dropped) - 1
        random = hash_range(int(seed), stream, first, first + len(g))
        noise = (random >> np.uint64(1)).astype(np.int64)
        upper_g = (g + (noise & mask)) >> dropped
        upper_h = (h + ((noise >> 31) & mask)) >> dropped
        shifted = (upper_g << int(scalars[IS_HESSIAN_BITS])) + upper_h
        words[0] = (shifted << count_bits) + 1


def pack_vectors(
    n_outputs: int, n_rows: int, width: int, constant: int, words: Array, packed: Array
) -> None:
    """Pack output by output, from lines of eight g and eight h, or of sixteen g."""
    lines = words.reshape(n_rows, -1).astype(np.int64)
    assert lines.shape[1] == width
    for output in range(n_outputs):
        line, place = divmod(output, 16 if constant == 1 else 8)
        h = 1 if constant == 1 else lines[:, 16 * line + 8 + place]
        packed[output * n_rows : (output + 1) * n_rows] = lines[:, 16 * line + place] * 2**32 + h
    if constant == 0:
        packed[n_outputs * n_rows : (n_outputs + 1) * n_rows] = 1
