"""Histograms of gradient, hessian and row count, in exact integers.

Glossary
--------
packed    one int64 that holds (g, h, 1) of a row, or the sums of a few
          thousand rows, in three bit fields; one addition adds all three
cell      the packed sum of one bin of one feature
apart     a layout for small data and heavy tails, which may lose no bit: g has
          a word of its own, and the packed number holds (h, 1)
histograms  the unpacked sums: int64 g, int64 h, int32 count per bin

::

    63            count_bits + hessian_bits      count_bits          0
     |  g (signed)         |  h                   |  row count       |

Why packed: adding a row costs one read-modify-write per feature instead of
three, and the cells of 28 features x 256 bins take 57 KB, about the size of a
first-level cache.  On one Zen 5 core a row of 28 features costs 7.6 ns packed
and 10.9 ns with 128-bit cells (``benchmarks/designs.py``).

Columns stand ``SPACING`` cells apart, a cache line more than 256 cells, however few bins
they have.  At a distance of a power of two, the first cells of all columns would compete
for the same few cache sets, and a processor that compares the last twelve bits of
addresses would delay each read until the write of another column has ended
(``benchmarks/designs.py --bins 5``).

A field holds the sum of ``2**count_bits - 1`` rows at most, so the cells are emptied
into the histogram sums after that many rows (:func:`build_histogram`).  The count is
exact, which keeps ``min_samples_leaf`` exact.  Every sum is an integer, so neither the
order of rows nor the number of threads changes any bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import BinArray, IntArray, RowArray
from hedgerow.compile import kernel
from hedgerow.kernels.histograms.pairs import SPACING, Pairs, add_rows_apart, fold_pairs
from hedgerow.kernels.primitives.intrinsics import prefetch

PREFETCH_ROWS = 16
"""Bins and gradients are prefetched this many rows ahead: a scattered row of
28 features costs 9 ns with prefetching, 13 to 80 ns without (``benchmarks/designs.py``)."""

_SPACING = np.uint64(SPACING)

_NEAR = 8
"""Up to this many cells after the last bin are not worth a loop of their own."""

ROWS_TO_PAIR = 100
"""Fewer rows than this are added to the two features of a pair separately."""


class Bins(NamedTuple):
    """A binned matrix in tiles of up to 32 features (``data.matrix``).

    by_row             uint8, flat: tile, then row, then feature within the tile
    by_column          uint8 (n_features, n_rows + padding)
    tile_size          cells of one tile
    tile_width         bytes from one row to the next within a tile
    features_per_tile  features per tile; the last tile may have fewer
    n_bins             int32 (n_features,): value bins of each feature
    stride             bins reserved per feature, a power of two; the last bin
                       holds missing values
    """

    by_row: kt.UInt8_1D
    by_column: kt.UInt8_2D
    tile_size: np.int64
    tile_width: np.int64
    features_per_tile: np.int64
    n_bins: kt.Int32_1D
    stride: np.int64


class Packing(NamedTuple):
    """Layout of (g, h, 1) in a packed int64; see the drawing above."""

    count_bits: np.int64
    hessian_bits: np.int64  # 0: the hessian is the row count
    g_apart: np.int64  # 1: two words a row, the first holds g alone


class HistogramSums(NamedTuple):
    """Sums of every bin, flat over (slot, feature, bin)."""

    g: kt.Int64_1D
    h: kt.Int64_1D
    n: kt.Int32_1D


class Columns(NamedTuple):
    """The features that a tree may use.

    feature   int32, ascending
    position  int32, position of each feature within its tile
    pairs     bytes that hold the features, if two share a byte
    """

    feature: kt.Int32_1D
    position: kt.Int32_1D
    pairs: Pairs


@kernel(inline=True, inner=True)
def add_row(by_row: BinArray, at: int, first: int, last: int, value: int, cells: IntArray) -> None:
    """Add ``value`` to the cells of features ``first`` to ``last`` of one row."""
    # With this loop in :func:`add_rows` itself a tree took a tenth longer.
    for j in range(first, last + np.uint64(1)):
        cells[j * _SPACING + np.uint64(by_row[at + j])] += value


@kernel(inner=True)
def add_rows(
    bins: Bins,
    tile: int,
    columns: Columns,
    part: tuple[int, int],
    rows: RowArray,
    start: int,
    stop: int,
    packed: IntArray,
    word_start: int,
    cells: IntArray,
) -> None:
    """Add the packed numbers of ``rows[start:stop]`` to the cells of some columns of a tile."""
    width = np.uint64(bins.tile_width)
    position = columns.position
    k_start, k_stop = np.uint64(part[0]), np.uint64(part[1])
    first = np.uint64(position[k_start])
    last = np.uint64(position[k_stop - np.uint64(1)])
    # Columns ``part[0]:part[1]`` of the list all lie in ``tile``.  If they are consecutive (no
    # column sampling), the list is not read: a row of 28 features takes 8.1 instead of 13 ns.
    consecutive = last - first == k_stop - k_start - np.uint64(1)
    base = np.uint64(tile * bins.tile_size)
    word = np.uint64(word_start)
    by_row = bins.by_row
    for i in range(np.uint64(start), np.uint64(stop)):
        ahead = np.uint64(rows[i + np.uint64(PREFETCH_ROWS)])
        prefetch(by_row, np.intp(base + ahead * width))
        prefetch(packed, np.intp(word + ahead))
        row = np.uint64(rows[i])
        value = packed[word + row]
        at = base + row * width
        if not consecutive:
            for k in range(k_start, k_stop):
                j = np.uint64(position[k])
                cells[j * _SPACING + np.uint64(by_row[at + j])] += value
        else:
            add_row(by_row, at, first, last, value, cells)


class RowLists(NamedTuple):
    """Lists of the cells of rows outside the default bins (:mod:`hedgerow.growing.core.grower`).

    used         1: some tile may have lists; 0: the rest is empty
    listed       uint8 (n_tiles,): 1 for tiles that have lists
    base         int64 (n_tiles + 1,): start of the lists of each tile in ``cells``
    row_start    uint32 (n_tiles, n_rows + 1): start of the list of each row, from ``base`` on
    cells        uint16: column within the tile times ``SPACING``, plus the cell
    default_bin  int64 (n_columns,): default bin of each column
    """

    used: np.int64
    listed: kt.UInt8_1D
    base: kt.Int64_1D
    row_start: kt.UInt32_2D
    cells: kt.UInt16_1D
    default_bin: kt.Int64_1D


@kernel(inner=True)
def add_listed(
    lists: RowLists,
    tile: int,
    first: int,
    last: int,
    stride: int,
    rows: RowArray,
    start: int,
    stop: int,
    packed: IntArray,
    word_start: int,
    cells: IntArray,
) -> None:
    """Add rows to all columns ``first`` to ``last - 1`` of a tile, from the tile's lists."""
    row_start, listed = lists.row_start[tile], lists.cells
    base, word = np.uint64(lists.base[tile]), np.uint64(word_start)
    one, total = np.uint64(1), np.int64(0)
    for i in range(np.uint64(start), np.uint64(stop)):
        ahead = np.uint64(rows[i + np.uint64(PREFETCH_ROWS)])
        prefetch(row_start, np.intp(ahead))
        prefetch(packed, np.intp(word + ahead))
        row = np.uint64(rows[i])
        value = packed[word + row]
        total += value
        for e in range(base + np.uint64(row_start[row]), base + np.uint64(row_start[row + one])):
            cells[np.uint64(listed[e])] += value
    # The sum of a default bin is the sum of all rows minus the sums of the other cells.
    for column in range(first, last):
        at = (column - first) * SPACING
        away = np.int64(0)
        for c in range(np.uint64(at), np.uint64(at + stride)):
            away += cells[c]
        cells[at + lists.default_bin[column]] = total - away


@kernel(inline=True, inner=True)
def filled_cells(bins: Bins, column: int, whole: bool) -> int:
    """Return how many cells at the front of a column can hold rows, or ``stride`` if most can."""
    # The last cell of a column can hold rows, too; the cells between stay 0.  ``whole`` is True
    # where columns are not features.
    n = (np.int64(bins.n_bins[column]) + _NEAR - 1) // _NEAR * _NEAR
    return bins.stride if whole or n + _NEAR >= bins.stride else n


@kernel(inner=True)
def unpack_g(
    cells: IntArray,
    shift: int,
    histograms: HistogramSums,
    to: int,
    start: int,
    stop: int,
    keep: int,
) -> None:
    """Move g, all bits above ``shift``, from cells ``start:stop`` to ``histograms``."""
    # ``keep`` is -1 to add to the present sums, 0 to overwrite them.
    g, below, offset = histograms.g, (np.int64(1) << shift) - 1, np.uint64(to)
    for c in range(np.uint64(start), np.uint64(stop)):
        value = cells[c]
        cells[c] = value & below
        g[offset + c] = (g[offset + c] & keep) + (value >> shift)


@kernel(inner=True)
def unpack_h(
    cells: IntArray,
    packing: Packing,
    histograms: HistogramSums,
    to: int,
    start: int,
    stop: int,
    keep: int,
) -> None:
    """Move h and the row count, without g, from cells to ``histograms``; clear the cells."""
    count_bits = packing.count_bits
    mask = (np.int64(1) << count_bits) - 1
    count_is_hessian = np.int64(1) if packing.hessian_bits == 0 else np.int64(0)
    h, n, offset, keep_n = histograms.h, histograms.n, np.uint64(to), np.int32(keep)
    for c in range(np.uint64(start), np.uint64(stop)):
        value = cells[c]
        cells[c] = 0
        count = value & mask
        h[offset + c] = (h[offset + c] & keep) + (value >> count_bits) + count * count_is_hessian
        n[offset + c] = (n[offset + c] & keep_n) + np.int32(count)


@kernel(inner=True)
def add_part(
    bins: Bins,
    tile: int,
    columns: Columns,
    part: tuple[int, int],
    rows: RowArray,
    place: tuple[int, int],
    packed: IntArray,
    word: int,
    cells: IntArray,
    lists: RowLists,
) -> int:
    """Add rows in range ``place`` to columns ``part`` of a tile; return where the cells begin."""
    start, stop, pairs, stride = place[0], place[1], columns.pairs, bins.stride
    if lists.used == 1:
        first = tile * bins.features_per_tile
        last = min(first + bins.features_per_tile, len(lists.default_bin))
        if lists.listed[tile] == 1 and part[1] - part[0] == last - first:
            add_listed(lists, tile, first, last, stride, rows, start, stop, packed, word, cells)
            return np.int64(0)
    if pairs.used == 0:
        add_rows(bins, tile, columns, part, rows, start, stop, packed, word, cells)
        return np.int64(0)
    byte, size, width = pairs.byte, bins.tile_size, bins.tile_width
    held = (np.int64(pairs.held_in[part[0]]), np.int64(pairs.held_in[part[1] - 1]) + 1)
    margins = bins.features_per_tile // 2 * SPACING
    if stop - start < ROWS_TO_PAIR:
        base = tile * size
        add_rows_apart(
            bins.by_row, base, width, byte, held, rows, place, packed, word, cells, margins
        )
    else:
        alone = Columns(byte, byte, pairs)
        add_rows(bins, tile, alone, held, rows, start, stop, packed, word, cells)
        fold_pairs(byte, held[0], held[1], cells, margins)
    return margins


@kernel(inner=True)
def build_histogram(
    bins: Bins,
    packing: Packing,
    packed: IntArray,
    columns: Columns,
    part: tuple[int, int],
    rows: RowArray,
    start: int,
    stop: int,
    cells: IntArray,
    histograms: HistogramSums,
    to: int,
    lists: RowLists,
) -> None:
    """Sum ``rows[start:stop]`` over the bins of columns ``part`` into the slot at ``to``."""
    # Cells that cannot hold rows are not written (:func:`filled_cells`).  ``cells`` is scratch
    # space for one tile, zero before and after.  ``packed`` holds the words of all rows, one after
    # another.  ``lists`` replace tiles in which few cells differ from the default bins.
    per_tile, stride = bins.features_per_tile, bins.stride
    most, apart = (np.int64(1) << packing.count_bits) - 1, packing.g_apart == 1
    last = part[0]
    while last < part[1]:
        first, tile = last, columns.feature[last] // per_tile
        while last < part[1] and columns.feature[last] // per_tile == tile:
            last += 1
        for word in range(1 + packing.g_apart):
            word_start, g_alone, h_alone = word * (len(packed) // 2), apart and word == 0, word > 0
            shift = np.int64(0) if g_alone else packing.count_bits + packing.hessian_bits
            begin, keep = start, np.int64(0)
            while begin < stop or keep == 0:
                place = (begin, min(begin + most, stop))
                own = add_part(
                    bins,
                    tile,
                    columns,
                    (first, last),
                    rows,
                    place,
                    packed,
                    word_start,
                    cells,
                    lists,
                )
                for k in range(first, last):
                    # The margins of pairs are contiguous.
                    position = columns.position[k]
                    at = position * SPACING if own == 0 else own + position * stride
                    shifted = to + columns.feature[k] * stride - at
                    filled = filled_cells(bins, columns.feature[k], lists.used == 1)
                    while True:
                        if not h_alone:
                            unpack_g(cells, shift, histograms, shifted, at, at + filled, keep)
                        if not g_alone:
                            unpack_h(cells, packing, histograms, shifted, at, at + filled, keep)
                        if filled == stride or filled == 1:
                            break
                        at, filled = at + stride - 1, np.int64(1)  # missing values
                begin, keep = place[1], np.int64(-1)


@kernel(inner=True)
def add_histogram_sums(
    histograms: HistogramSums, target: int, source: int, size: int, sign: int
) -> None:
    """Add ``sign`` times ``size`` sums from ``source`` to ``target``: merge (1), subtract (-1)."""
    g, h, n = histograms.g, histograms.h, histograms.n
    a, b, s = np.uint64(target), np.uint64(source), np.int64(sign)
    for c in range(np.uint64(size)):
        g[a + c] += s * g[b + c]
        h[a + c] += s * h[b + c]
        n[a + c] += np.int32(s) * n[b + c]
