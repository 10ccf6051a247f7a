"""Histograms of several outputs, the outputs of a bin side by side in memory.

Glossary
--------
line   sixteen int32, 64 bytes, which one operation adds
cell   the sums of one bin of one column: a line for every eight outputs, with g and
       then h; with a constant hessian, which is the row count, a line of g alone for
       every sixteen outputs
words  the same layout for one row; a cell is the sum of the words of its rows

::

    cell    g0 g1 ... g7 h0 h1 ... h7 | g8 g9 ... g15 h8 h9 ... h15 | ...
    cells   column 0: bin 0, bin 1, ..., missing | column 1: bin 0, ... | ...
    n       one int32 for each cell: its number of rows

Adding a row to a column takes one addition per line, however many outputs the line
holds.  The units are chosen so that the sum over all rows fits an int32
(:mod:`hedgerow.growing.vectors.gradients`): nothing overflows, and sums are exact.

**Empty cells are not written.**  Where ``n`` is 0 a cell holds arbitrary values: the
first row of a bin overwrites the cell, and readers visit only the bins with rows
(:func:`list_filled`).  A node of few rows has few such bins.  The other bins are neither
cleared, nor subtracted, nor searched.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import IntArray, RowArray
from hedgerow.compile import kernel
from hedgerow.kernels.histograms.histogram import Bins, Columns
from hedgerow.kernels.primitives.intrinsics import prefetch
from hedgerow.kernels.simd.lanes import LINE, N_LANES, keep_line, load_line, store_line

_FAR = np.uint64(16)
"""Rows are prefetched this far ahead."""

_LINE = np.uint64(LINE)


class Sums(NamedTuple):
    """Histograms of all slots.

    cells     int32, flat: slot, column, bin, then the words of the bin
    n         int32, flat: slot, column, bin
    width     words of a cell
    constant  1: cells hold g alone, and the hessian is the row count
    """

    cells: kt.Int32_1D
    n: kt.Int32_1D
    width: np.int64
    constant: np.int64


def width_of(n_outputs: int, constant: bool) -> int:
    """Return the number of words of a cell."""
    per_line = LINE if constant else N_LANES
    return -(-n_outputs // per_line) * LINE


@kernel(inline=True, inner=True)
def place_of_g(constant: int, output: int) -> int:
    """Return the position of an output's g in a cell; its h follows ``N_LANES`` words later."""
    return output if constant == 1 else output + output // N_LANES * N_LANES


@kernel(inner=True)
def list_filled(n: np.ndarray, at: int, n_bins: int, stride: int, filled: IntArray) -> int:
    """List the bins with rows of the column at ``at``, missing values last; return their number."""
    found, first = np.uint64(0), np.uint64(at)
    for b in range(np.uint64(n_bins)):
        filled[found] = b
        found += np.uint64(n[first + b] != 0)
    filled[found] = stride - 1
    return np.int64(found) + np.int64(n[at + stride - 1] != 0)


@kernel(inline=True, inner=True)
def add_line(cells: np.ndarray, at: int, line: Any, keep: int) -> None:
    """Add to a line of cells, or overwrite the line if ``keep`` is 0."""
    place = np.int64(at)
    store_line(cells, place, keep_line(load_line(cells, place), keep) + line)


@kernel(inner=True)
def add_rows(
    bins: Bins,
    tile: int,
    columns: Columns,
    part: tuple[int, int],
    rows: RowArray,
    place: tuple[int, int],
    words: np.ndarray,
    sums: Sums,
    slot_start: int,
) -> None:
    """Add ``rows[place[0]:place[1]]`` to columns ``part`` of the list, which lie in ``tile``."""
    by_row, cells, n, pairs = bins.by_row, sums.cells, sums.n, columns.pairs
    feature, position = columns.feature, columns.position
    row_width, width, stride = (
        np.uint64(bins.tile_width), np.uint64(sums.width), np.uint64(bins.stride)
    )  # fmt: skip
    base, first = np.uint64(tile * bins.tile_size), np.uint64(slot_start)
    half, one_half, one = np.uint64(pairs.used), np.uint64(1), np.int32(1)
    k_start, k_stop = np.uint64(part[0]), np.uint64(part[1])
    for i in range(np.uint64(place[0]), np.uint64(place[1])):
        ahead = np.uint64(rows[i + _FAR])
        prefetch(by_row, np.intp(base + ahead * row_width))
        row = np.uint64(rows[i])
        at, word = base + row * row_width, row * width
        for k_line in range(np.uint64(0), width, _LINE):
            prefetch(words, np.intp(ahead * width + k_line))
        # The loop over lines is inside the loop over columns; otherwise each line would look up the
        # cell and its count again.  Two lines of the row stay in registers; loading them for each
        # column made trees of ten classes a tenth slower.
        line = second = load_line(words, np.int64(word))
        if width > _LINE:
            second = load_line(words, np.int64(word + _LINE))
        for k in range(k_start, k_stop):
            j = np.uint64(position[k])
            bin_ = np.uint64(by_row[at + (j >> half)])
            if half == one_half:  # two columns share the byte
                bin_ = (bin_ >> (np.uint64(4) * (one_half - (j & one_half)))) & np.uint64(15)
            cell = first + np.uint64(feature[k]) * stride + bin_
            count = n[cell]
            n[cell] = count + one
            keep, to = -np.int64(count != 0), cell * width
            add_line(cells, to, line, keep)
            if width > _LINE:
                add_line(cells, to + _LINE, second, keep)
            for further in range(_LINE + _LINE, width, _LINE):
                add_line(cells, to + further, load_line(words, np.int64(word + further)), keep)


@kernel(inner=True)
def empty_columns(
    columns: Columns, part: tuple[int, int], stride: int, sums: Sums, slot_start: int
) -> None:
    """Leave no row in columns ``part`` of a slot."""
    n = sums.n
    for k in range(part[0], part[1]):
        at = np.uint64(slot_start + np.int64(columns.feature[k]) * stride)
        for b in range(at, at + np.uint64(stride)):
            n[b] = 0


@kernel(inner=True)
def add_to_columns(
    bins: Bins,
    columns: Columns,
    part: tuple[int, int],
    rows: RowArray,
    place: tuple[int, int],
    words: np.ndarray,
    sums: Sums,
    slot_start: int,
) -> None:
    """Add ``rows[place[0]:place[1]]`` to the bins of columns ``part`` of a slot."""
    per_tile, first = bins.features_per_tile, np.int64(part[0])
    while first < part[1]:
        tile = np.int64(columns.feature[first]) // per_tile
        last = first
        while last < part[1] and np.int64(columns.feature[last]) // per_tile == tile:
            last += 1
        span = (first, last)
        add_rows(bins, tile, columns, span, rows, place, words, sums, slot_start)
        first = last


@kernel(inner=True)
def add_cells(
    sums: Sums, target: int, source: int, filled: IntArray, n_filled: int, sign: int
) -> None:
    """Add ``filled`` bins of the column at ``source`` to that at ``target``, or subtract (-1)."""
    cells, n, width = sums.cells, sums.n, sums.width
    for e in range(n_filled):
        a, b = target + filled[e], source + filled[e]
        keep = -np.int64(n[a] != 0)
        n[a] += np.int32(sign) * n[b]
        for k in range(0, width, LINE):
            kept, more = load_line(cells, a * width + k), load_line(cells, b * width + k)
            if sign > 0:
                store_line(cells, a * width + k, keep_line(kept, keep) + more)
            else:
                store_line(cells, a * width + k, kept - more)
