"""Sparse rows: their recorded entries are sorted by column, binned, and made dense.

Glossary
--------
entry    a recorded value and its column; a value that is not recorded is 0 (or
         missing, where the number 0 is a missing value)
code     bin of a value in its feature; one past the last bin for a missing value
default_bin  the code of a value that is not recorded
cell     a number in a column of the binned matrix
active   an entry that differs from the default of its column: any value where values that are not
         recorded are missing (``present`` is 1), else a missing value or one outside
         ``low[j] .. high[j]``
place    int64: where the next entry or row of each column is written, advanced by each

::

    row_start  0     2  3     5          the entries of row r are
    column     1  4  0  1  2             row_start[r] : row_start[r + 1]
    value      .5 2. 1. 7. nan

A column of the binned matrix holds one feature, whose cells are its bins, or a
bundle.  In a bundle cell 0 means that every feature has its default bin, and each
feature has cells of its own for all other codes (:mod:`hedgerow.data.binning.bundles`).

No kernel touches values that are not recorded: time is linear in the entries.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import MISSING_KEY
from hedgerow.compile import kernel
from hedgerow.kernels.tables.values import FLOAT32, ValueList, key_in_list

_ONE = np.uint64(1)
_ROWS = np.uint64(512)  # rows that are binned before they are copied column by column


class Entries(NamedTuple):
    """Recorded entries, row by row.

    row_start  int64 (n_rows + 1,)
    column     int32
    value      never 0 if 0 is a missing value
    """

    row_start: kt.ReadOnly[kt.Int64_1D]
    column: kt.ReadOnly[kt.Int32_1D]
    value: ValueList


class Places(NamedTuple):
    """Positions of the codes of each feature in the binned matrix.

    cuts         keys of the cuts of feature 0, then of feature 1, ...
    cut_start    int64 (n_features + 1,)
    default_bin  int32 (n_features,): code of a value that is not recorded
    column       int32 (n_features,): column of the matrix; -1 if the feature always
                 has its default bin
    first        int32 (n_features,): first cell of the feature; -1 if its column
                 holds this feature alone, and cells are codes
    last         int32 (n_features,): last cell that the feature may take
    missing_bin  int64: cell of a missing value in a column of one feature
    per_tile     int64: columns per tile; the last tile may have fewer
    """

    cuts: kt.Int64_1D
    cut_start: kt.Int64_1D
    default_bin: kt.Int32_1D
    column: kt.Int32_1D
    first: kt.Int32_1D
    last: kt.Int32_1D
    missing_bin: np.int64
    per_tile: np.int64


@kernel
def gather_entries(
    entries: Entries,
    rows: kt.Int64_1D,
    mass: kt.Float64_1D,
    place: kt.Int64_1D,
    values: tuple[kt.Float32_1D, kt.Int64_1D],
    masses: kt.Float64_1D,
) -> None:
    """Write the entries of ``rows`` (all rows if empty) by column, and the masses of their rows."""
    # Within a column entries are in the order of ``rows``.  Without ``mass`` no masses are written;
    # without ``values`` entries are only counted: places from 0 on become their numbers.
    listed, weighted = len(rows) > 0, len(mass) > 0
    narrow, wide = values
    written = len(narrow) + len(wide) > 0
    n = np.uint64(len(rows) if listed else len(entries.row_start) - 1)
    for i in range(n):
        row = np.uint64(rows[i]) if listed else i
        for e in range(np.uint64(entries.row_start[row]), np.uint64(entries.row_start[row + _ONE])):
            j = np.uint64(entries.column[e])
            to = np.uint64(place[j])
            place[j] += 1
            if not written:
                continue
            if entries.value.kind == FLOAT32:
                narrow[to] = entries.value.narrow[e]
            else:
                wide[to] = entries.value.wide[e]
            if weighted:
                masses[to] = mass[i]


@kernel
def list_active(
    entries: Entries,
    low: kt.Int64_1D,
    high: kt.Int64_1D,
    present: int,
    place: kt.Int64_1D,
    rows: kt.UInt32_1D,
    part: kt.Int64_1D,
) -> None:
    """Write the rows of active entries among ``part[0]:part[1]``, by column, if there is room."""
    listed = len(rows) > 0
    for row in range(np.uint64(part[0]), np.uint64(part[1])):
        for e in range(np.uint64(entries.row_start[row]), np.uint64(entries.row_start[row + _ONE])):
            j = np.uint64(entries.column[e])
            key = key_in_list(entries.value, e)
            inside = (key >= low[j]) & (key <= high[j])
            active = key != MISSING_KEY if present == 1 else not inside
            # -1 omits a column.
            to = place[j]
            if active and to >= 0:
                if listed:
                    rows[np.uint64(to)] = row
                place[j] = to + 1


@kernel
def bin_entries(
    entries: Entries,
    places: Places,
    by_row: kt.UInt8_3D,
    by_column: kt.UInt8_2D,
    start: int,
    stop: int,
) -> int:
    """Write the cells of rows ``start`` to ``stop``; return the number of values without a cell."""
    # ``by_row`` already holds the cells of the default bins; ``by_column`` may have no columns.
    n_columns, per_tile = np.uint64(by_column.shape[0]), np.uint64(places.per_tile)
    lost = np.int64(0)
    first, end = np.uint64(start), np.uint64(stop)
    while first < end:
        last = min(first + _ROWS, end)
        for row in range(first, last):
            begin = np.uint64(entries.row_start[row])
            for e in range(begin, np.uint64(entries.row_start[row + _ONE])):
                j = np.uint64(entries.column[e])
                if places.column[j] < 0:
                    continue
                key = key_in_list(entries.value, e)
                begin_cuts = low = np.uint64(places.cut_start[j])
                n = np.uint64(places.cut_start[j + _ONE]) - low
                code = np.int64(n) + 1
                if key != MISSING_KEY:
                    while n > 0:
                        half = n >> _ONE
                        above = places.cuts[low + half] < key
                        low = low + half + _ONE if above else low
                        n = n - half - _ONE if above else half
                    code = np.int64(low - begin_cuts)
                place = np.uint64(places.column[j])
                tile, place = place // per_tile, place % per_tile
                default_bin = np.int64(places.default_bin[j])
                if places.first[j] < 0:
                    n_bins = places.cut_start[j + _ONE] - places.cut_start[j] + 1
                    cell = code if code < n_bins else places.missing_bin
                    by_row[tile, row, place] = np.uint8(cell)
                elif code != default_bin:
                    cell = np.int64(places.first[j]) + code - np.int64(code > default_bin)
                    held = np.int64(by_row[tile, row, place])
                    fits = cell <= np.int64(places.last[j])
                    # A value of a later feature of the bundle replaces it, or its code has no cell.
                    lost += np.int64(held > 0 or not fits)
                    if fits:
                        by_row[tile, row, place] = np.uint8(max(held, cell))
        for k in range(n_columns):
            tile, place = k // per_tile, k % per_tile
            for row in range(first, last):
                by_column[k, row] = by_row[tile, row, place]
        first = last
    return lost


@kernel
def spread_entries(
    entries: Entries,
    place: kt.Int32_1D,
    absent: tuple[kt.Float32_1D, kt.Int64_1D],
    table: tuple[kt.Float32_2D, kt.Int64_2D],
    start: int,
    stop: int,
) -> None:
    """Write rows ``start`` to ``stop`` as a dense table, without features of ``place`` -1."""
    # ``place`` is the column of each feature; ``absent[0]`` is the value that is not recorded.
    narrow, wide = table
    for i in range(np.uint64(stop - start)):
        for k in range(np.uint64(narrow.shape[1])):
            narrow[i, k] = absent[0][0]
        for k in range(np.uint64(wide.shape[1])):
            wide[i, k] = absent[1][0]
        row = np.uint64(start) + i
        for e in range(np.uint64(entries.row_start[row]), np.uint64(entries.row_start[row + _ONE])):
            to = place[np.uint64(entries.column[e])]
            if to >= 0:
                if entries.value.kind == FLOAT32:
                    narrow[i, np.uint64(to)] = entries.value.narrow[e]
                else:
                    wide[i, np.uint64(to)] = entries.value.wide[e]


@kernel
def list_cells(
    by_row: kt.UInt8_3D,
    tile: int,
    default_bin: kt.UInt8_1D,
    stride: int,
    row_start: kt.UInt32_1D,
    cells: kt.UInt16_1D,
) -> int:
    """Write the start of the list of each row of a tile, and the end; return the end."""
    # Positions after the last column of the tile hold zeros in ``by_row`` and ``default_bin``.
    at, listed = np.uint64(0), len(cells) > 0
    row_start[0] = 0
    for row in range(np.uint64(len(row_start) - 1)):
        for k in range(np.uint64(len(default_bin))):
            cell = by_row[tile, row, k]
            if listed and cell != default_bin[k]:
                cells[at] = k * np.uint64(stride) + np.uint64(cell)
            at += np.uint64(cell != default_bin[k])
        row_start[row + _ONE] = at
    return np.int64(at)
