"""Keys of the rows of a table, which prediction compares with thresholds.

The glossary of :mod:`hedgerow.kernels.prediction.predict` defines rows, slot and rank.

Glossary
--------
coding      ``[shift, flip, minus_zero, bottom, top, lowest, highest]`` in the width of the bits.
            A float's key is its bits, with the lower bits flipped if it is negative (``flip`` is
            0 for integers, which are their own keys).  -0.0 has the key of 0.0.  A key outside
            ``bottom .. top`` is a NaN or ``MISSING_KEY``
categories  ``(bins, bins_start, sets)``, empty without sets: slot ``-1 - s`` tests whether the
            bin of row r, ``bins[bins_start[s] + r]``, is in ``sets[4 s : 4 s + 4]``
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import AnyArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.primitives.intrinsics import trailing_zeros

_ONE = np.uint64(1)

_SEARCHES = np.uint64(8)
"""Keys that are ranked side by side; arrays of keys have room for a multiple of this number."""


@kernel(inner=True)
def fill_set_keys(
    slots: IntArray, first_row: int, n_rows: int, keys: AnyArray, row_step_out: int,
    slot_step_out: int, categories: tuple[Any, ...],
) -> None:  # fmt: skip
    """Write the keys of sets of categories, which are the negative slots; see :func:`fill_keys`."""
    bins, bins_start, sets = categories
    for slot in range(np.uint64(len(slots))):
        if slots[slot] >= 0:
            continue
        number = np.uint64(-1 - slots[slot])
        start, words = np.uint64(bins_start[number]), np.uint64(4) * number
        out = slot * slot_step_out
        for i in range(n_rows):
            bin_ = np.uint64(bins[start + first_row + i])
            word = sets[words + (bin_ >> np.uint64(6))]
            outside = _ONE - ((word >> (bin_ & np.uint64(63))) & _ONE)
            keys[out + i * row_step_out] = outside


@kernel(inline=True, inner=True)
def fill_number_keys(
    rows: tuple[Any, ...], slots: IntArray, first_row: int, n_rows: int, keys: AnyArray,
    row_step_out: int, slot_step_out: int,
) -> None:  # fmt: skip
    """Write the keys of columns of numbers, which are the other slots; see :func:`fill_keys`."""
    bits, coding, origin, row_step, column_step = rows
    shift, flip, minus_zero = coding[0], coding[1], coding[2]
    bottom, top = coding[3], coding[4]
    for slot in range(np.uint64(len(slots))):
        # :func:`fill_set_keys` fills sets of categories later; until then they read column 0.
        start = origin + (max(slots[slot], 0) >> 1) * column_step
        missing = coding[np.uint64(5) + np.uint64(slots[slot] & 1)]
        out = slot * slot_step_out
        for i in range(n_rows):
            here = start + np.int64(first_row + i) * row_step
            key = bits[np.uint64(here)]
            key = key ^ ((key >> shift) & flip)
            key = key if key != minus_zero else key ^ key
            key = key if (key >= bottom) & (key <= top) else missing
            keys[out + i * row_step_out] = key


@kernel(inline=True, inner=True)
def fill_keys(
    rows: tuple[Any, ...],
    slots: IntArray,
    categories: tuple[Any, ...],
    first_row: int,
    n_rows: int,
    keys: AnyArray,
    row_step_out: int,
    slot_step_out: int,
) -> None:
    """Write keys of ``n_rows`` rows: row i, slot s to ``i * row_step_out + s * slot_step_out``."""
    fill_number_keys(rows, slots, first_row, n_rows, keys, row_step_out, slot_step_out)
    if len(categories[2]) > 0:
        fill_set_keys(slots, first_row, n_rows, keys, row_step_out, slot_step_out, categories)


KeyRows: TypeAlias = tuple[kt.ReadOnly[kt.Int64_1D], kt.Int64_1D, int, int, int]
"""Values of a table: bits, coding, origin, row step and column step, see the glossary of
:mod:`hedgerow.kernels.prediction.predict`."""

BothWidths: TypeAlias = tuple[tuple[kt.ReadOnly[kt.Int32_1D], kt.Int32_1D, int, int, int], KeyRows]
"""Values of a table as words of 32 and of 64 bits; one of both is empty."""

CategorySets: TypeAlias = tuple[kt.UInt8_1D, kt.Int64_1D, kt.UInt64_1D]
"""Bins of columns with sets of categories, and the sets, see the glossary."""


class Ranks(NamedTuple):
    """Thresholds of each slot, which turn keys into ranks.

    cuts   int64: distinct thresholds, ascending; the cuts of a slot are padded with the largest key
           to one less than a power of two
    start  uint64, one per slot and one more: start of the cuts of a slot.  The second slot of a
           column has no cuts of its own: both slots use the thresholds of the column.
    """

    cuts: kt.Int64_1D
    start: kt.UInt64_1D


NO_RANKS = Ranks(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.uint64))


@kernel(inline=True, inner=True)
def above(cuts: IntArray, start: int, shift: int, rank: int, key: int) -> int:
    """Return ``rank``, plus ``2 ** shift`` if the key is above the cut in the middle."""
    # The code shifts a comparison instead of choosing a number: for a choice the compiler makes a
    # branch, and half of the branches are mispredicted (14 ns per key instead of 4, with AVX2).
    half = _ONE << shift
    return rank + (np.uint64(cuts[start + rank + half - _ONE] < key) << shift)


@kernel(inline=True, inner=True)
def rank_keys(
    cuts: IntArray, start: int, n_steps: int, values: AnyArray, i: int, keys: AnyArray, out: int
) -> None:
    """Write the ranks of eight keys: while one search waits for a cut, the others go on."""
    # In a loop over rows the compiler would gather the cuts of eight rows at once, which takes
    # twice as long on AMD processors.
    a = b = c = d = e = f = g = h = np.uint64(0)
    i1, i2, i3 = i + _ONE, i + np.uint64(2), i + np.uint64(3)
    i4, i5, i6, i7 = i + np.uint64(4), i + np.uint64(5), i + np.uint64(6), i + np.uint64(7)
    v0, v1, v2, v3 = values[i], values[i1], values[i2], values[i3]
    v4, v5, v6, v7 = values[i4], values[i5], values[i6], values[i7]
    for k in range(np.uint64(n_steps)):
        shift = np.uint64(n_steps) - _ONE - k
        a, b = above(cuts, start, shift, a, v0), above(cuts, start, shift, b, v1)
        c, d = above(cuts, start, shift, c, v2), above(cuts, start, shift, d, v3)
        e, f = above(cuts, start, shift, e, v4), above(cuts, start, shift, f, v5)
        g, h = above(cuts, start, shift, g, v6), above(cuts, start, shift, h, v7)
    o1, o2, o3 = out + _ONE, out + np.uint64(2), out + np.uint64(3)
    o4, o5, o6, o7 = out + np.uint64(4), out + np.uint64(5), out + np.uint64(6), out + np.uint64(7)
    keys[out], keys[o1], keys[o2], keys[o3] = a, b, c, d
    keys[o4], keys[o5], keys[o6], keys[o7] = e, f, g, h


@kernel(inner=True)
def fill_ranks(
    rows: tuple[Any, ...],
    slots: IntArray,
    ranks: Ranks,
    categories: tuple[Any, ...],
    first_row: int,
    n_rows: int,
    keys: AnyArray,
    slot_step_out: int,
    values: AnyArray,
) -> None:
    """Write ranks in place of keys: row i, slot s to ``i + s * slot_step_out``."""
    # A key is above a threshold exactly if its rank is above the rank of the threshold:
    #     cuts   2 5 5.5 max      key 5.2: cut 5 is below, so rank >= 2; cut 5.5 is not: rank 2
    cuts, lowest = ranks.cuts, rows[1][np.uint64(5)]
    for slot in range(np.uint64(len(slots))):
        start, out = ranks.start[slot], slot * slot_step_out
        n_cuts = ranks.start[slot + _ONE] - start
        if n_cuts == 0 and slots[slot] >= 0:
            # The same column as before, with missing values on the other side.
            n_cuts = start - ranks.start[slot - _ONE]
            for i in range(n_rows):
                rank = keys[out - slot_step_out + i]
                keys[out + i] = np.int32(n_cuts) if values[i] == lowest else rank
            continue
        column = slots[slot : slot + _ONE]
        fill_number_keys(rows, column, first_row, n_rows, values, _ONE, _ONE)
        n_steps = trailing_zeros(n_cuts + _ONE)
        for i in range(np.uint64(0), np.uint64(n_rows), _SEARCHES):
            rank_keys(cuts, start, n_steps, values, i, keys, out + i)
    if len(categories[2]) > 0:
        fill_set_keys(slots, first_row, n_rows, keys, _ONE, slot_step_out, categories)
