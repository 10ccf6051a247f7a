"""Pairs: two features of few bins in one byte of a row, and their histograms.

Glossary
--------
pair     features 2k and 2k + 1 of a binned matrix with 16 bins a feature
cell     16 * bin of the first + bin of the second: a byte
margins  the histograms of the two, one after the other: sums along the rows and
         along the columns of the 16 x 16 cells

::

                 second   0    1   ...  15        margin of the first
    first   0             0    1   ...  15        sum of each row
            1            16   17   ...  31
           ...
           15           240  241   ... 255
    margin of the second: sum of each column

One addition per row serves two features.  A pair has as many cells as a feature with 255
bins, and each node sums them up to the margins once.  A node of few rows therefore adds
to the margins directly (:func:`add_rows_apart`).  All sums are integers: the margins
equal the histograms to the last bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import BinArray, IntArray, RowArray
from hedgerow.compile import kernel

PAIR_STRIDE = 16
"""Bins of each feature of a pair."""

SPACING = 264
"""Cells from one byte of a row to the next in the packed sums of a histogram.
It is a constant, so the distance between the cells of neighbouring bytes is constant."""

_SIDE = np.uint64(PAIR_STRIDE)
_CELLS = np.uint64(SPACING)
_ONE = np.uint64(1)
_FOUR = np.uint64(4)
_BLOCK = np.uint64(512)


class Pairs(NamedTuple):
    """The bytes that hold the features in a list of columns.

    used     1: features share bytes; 0: each has its own byte, and the arrays are empty
    byte     int32: positions of the bytes within their tile, ascending in each tile
    held_in  int32, for each feature of the list: index in ``byte`` of the byte that holds it
    """

    used: np.int64
    byte: kt.Int32_1D
    held_in: kt.Int32_1D


@kernel
def put_in_pairs(
    by_row: kt.UInt8_3D, paired: kt.UInt8_3D, n_features: int, start: int, stop: int
) -> None:
    """Write the pairs of rows ``start`` to ``stop``."""
    # Features are in order, in tiles that are equally large, but for the last; so are pairs.  A
    # last feature without a partner is paired with 0.
    n_features, n_pairs = np.uint64(n_features), (np.uint64(n_features) + _ONE) >> _ONE
    per_tile = (n_features - _ONE) // np.uint64(by_row.shape[0]) + _ONE
    pairs_per_tile = (n_pairs - _ONE) // np.uint64(paired.shape[0]) + _ONE
    stop = np.uint64(stop)
    for block in range(np.uint64(start), stop, _BLOCK):
        for pair in range(n_pairs):
            tile, place = pair // pairs_per_tile, pair % pairs_per_tile
            first = pair << _ONE
            second = min(first + _ONE, n_features - _ONE)
            keep = np.uint64(0 if second == first else 15)
            a_tile, a, b_tile, b = (
                first // per_tile, first % per_tile, second // per_tile, second % per_tile
            )  # fmt: skip
            for i in range(block, np.uint64(min(block + _BLOCK, stop))):
                high, low = np.uint64(by_row[a_tile, i, a]), np.uint64(by_row[b_tile, i, b])
                paired[tile, i, place] = np.uint8((high << _FOUR) | (low & keep))


@kernel(inner=True)
def fold_pairs(byte: np.ndarray, first: int, last: int, cells: IntArray, margins: int) -> None:
    """Sum the cells of pairs ``byte[first:last]`` to margins from ``margins`` on; clear them."""
    for k in range(np.uint64(first), np.uint64(last)):
        pair = np.uint64(byte[k])
        at = pair * _CELLS
        to = np.uint64(margins) + pair * (_SIDE + _SIDE)
        for b in range(at, at + _SIDE):
            total = np.int64(0)
            for a in range(_SIDE):
                total += cells[b + a * _SIDE]
            cells[to + _SIDE + b - at] = total
        for a in range(_SIDE):
            total = np.int64(0)
            for b in range(_SIDE):
                total += cells[at + a * _SIDE + b]
                cells[at + a * _SIDE + b] = 0
            cells[to + a] = total


@kernel(inner=True)
def add_rows_apart(
    by_row: BinArray,
    base: int,
    width: int,
    byte: np.ndarray,
    part: tuple[int, int],
    rows: RowArray,
    place: tuple[int, int],
    packed: IntArray,
    word_start: int,
    cells: IntArray,
    margins: int,
) -> None:
    """Write the margins of pairs ``byte[part[0]:part[1]]``: sums over rows in range ``place``."""
    start_row, step, word = np.uint64(base), np.uint64(width), np.uint64(word_start)
    for k in range(np.uint64(part[0]), np.uint64(part[1])):
        # Earlier sums of features that were not requested may still be here.
        to = np.uint64(margins) + np.uint64(byte[k]) * (_SIDE + _SIDE)
        for c in range(to, to + _SIDE + _SIDE):
            cells[c] = 0
    for i in range(np.uint64(place[0]), np.uint64(place[1])):
        row = np.uint64(rows[i])
        value = packed[word + row]
        for k in range(np.uint64(part[0]), np.uint64(part[1])):
            pair = np.uint64(byte[k])
            cell = np.uint64(by_row[start_row + row * step + pair])
            to = np.uint64(margins) + pair * (_SIDE + _SIDE)
            cells[to + (cell >> _FOUR)] += value
            cells[to + _SIDE + (cell & np.uint64(15))] += value
