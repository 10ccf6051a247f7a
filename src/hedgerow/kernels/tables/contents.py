"""What rows and columns hold, whatever their order: hashes of rows, and the values of columns.

The hash of a row is a sum over its columns, so a column that adds 0 need not be visited::

    hash = mix(sum of factor[j] * spread(value[j]))      spread(0) = 0, as in sparse rows

Equal numbers have equal hashes in every type: a float counts as the bits of its float64, and an
integer as those of the float64 that equals it, if there is one.

A column is left as soon as more than ``most`` distinct values are found (-1: it is not looked at);
their keys are kept in ``slots``, a hash table of ``N_SLOTS`` keys that are missing at first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import MISSING_KEY
from hedgerow.compile import kernel
from hedgerow.kernels.primitives.intrinsics import bits_of_float
from hedgerow.kernels.tables.sparse import Entries
from hedgerow.kernels.tables.values import ValueList, Values, key_in_list, key_in_table

N_SLOTS = 512
"""Length of a hash table of the values of a column: twice the most bins."""

_MULTIPLIER = np.uint64(0xD6E8FEB86659FD93)  # odd, of irregular bits
_ODD = np.uint64(0x5851F42D4C957F2D)
_HALF = np.uint64(32)
_SLOT_SHIFT = np.uint64(55)  # leaves the 9 bits of a slot
_LAST_SLOT = np.uint64(N_SLOTS - 1)
_LOW_63 = np.int64(0x7FFFFFFFFFFFFFFF)
_ROWS = np.uint64(512)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)


@kernel(inline=True, inner=True)
def spread_bits(bits: Any) -> Any:
    """Return the bits of a number, scrambled; 0 stays 0."""
    found = np.uint64(bits) * _MULTIPLIER
    return found ^ (found >> _HALF)


@kernel(inline=True, inner=True)
def spread_key(key: int, is_int: int) -> Any:
    """Return :func:`spread_bits` of the number behind a key of a float, or of an integer."""
    number = float(key)
    inside = number < 9223372036854775808.0
    exact = is_int == 1 and inside and np.int64(number if inside else 0.0) == key
    if exact:
        return spread_bits(bits_of_float(number))
    if is_int == 1:
        return spread_bits(np.uint64(key) * _ODD)  # no float equals it
    return spread_bits(key ^ ((key >> np.int64(63)) & _LOW_63))


@kernel
def hash_values(
    values: Values,
    factors: kt.UInt64_1D,
    is_int: kt.UInt8_1D,
    absent: np.uint64,
    hashes: kt.UInt64_1D,
    start: int,
    stop: int,
) -> None:
    """Add the columns of rows ``start`` to ``stop`` to their hashes; factor 0 omits a column."""
    # A column holds floats or keys of floats (0 in ``is_int``), or integers (1).
    n_features = np.uint64(len(factors))
    first, end = np.uint64(start), np.uint64(stop)
    while first < end:
        last = min(first + _ROWS, end)
        for j in range(n_features):
            factor = factors[j]
            if factor != _ZERO:
                for i in range(first, last):
                    key = key_in_table(values, i, j)
                    found = spread_key(key, is_int[j]) if key != MISSING_KEY else absent
                    hashes[i] += factor * found
        first = last


@kernel
def hash_entries(
    entries: Entries,
    factors: kt.UInt64_1D,
    is_int: kt.UInt8_1D,
    absent: np.uint64,
    hashes: kt.UInt64_1D,
    start: int,
    stop: int,
) -> None:
    """Do the work of :func:`hash_values` for sparse rows."""
    for row in range(np.uint64(start), np.uint64(stop)):
        found = _ZERO
        for e in range(np.uint64(entries.row_start[row]), np.uint64(entries.row_start[row + _ONE])):
            j = np.uint64(entries.column[e])
            key = key_in_list(entries.value, e)
            spread = spread_key(key, is_int[j]) if key != MISSING_KEY else absent
            found += factors[j] * spread
        hashes[row] += found


@kernel
def note_values(
    values: Values,
    n_rows: int,
    most: kt.Int64_1D,
    slots: kt.Int64_2D,
    counts: kt.Int64_1D,
    start: int,
    stop: int,
) -> None:
    """Collect and count the distinct values of columns ``start`` to ``stop``, up to ``most``."""
    end, first = np.uint64(n_rows), _ZERO
    n_open = stop - start
    while first < end and n_open > 0:
        last = min(first + _ROWS, end)
        n_open = 0
        for j in range(np.uint64(start), np.uint64(stop)):
            n_found, limit = counts[j], most[j]
            if n_found > limit:
                continue
            own = slots[j]
            for i in range(first, last):
                key = key_in_table(values, i, j)
                if key == MISSING_KEY:
                    continue
                place = spread_bits(key) >> _SLOT_SHIFT
                while own[place] != MISSING_KEY and own[place] != key:
                    place = (place + _ONE) & _LAST_SLOT
                if own[place] == MISSING_KEY:
                    own[place] = key
                    n_found += 1
                    if n_found > limit:
                        break
            counts[j] = n_found
            n_open += np.int64(n_found <= limit)
        first = last


@kernel
def note_entries(
    start: kt.Int64_1D,
    values: ValueList,
    most: int,
    many: kt.UInt8_1D,
    slots: tuple[kt.Int64_1D, kt.Int64_1D],
    found: tuple[kt.Int64_1D, kt.Int64_1D],
) -> int:
    """Write the columns and places of distinct values, sorted by column; return their number."""
    # A column of more than ``most`` values is marked in ``many``; marked columns are passed over.
    held, stamps = slots
    columns, places = found
    n_pairs = 0
    for j in range(np.uint64(len(start) - 1)):
        if many[j] != 0:
            continue
        before, stamp = n_pairs, np.int64(j) + 1
        for e in range(np.uint64(start[j]), np.uint64(start[j + _ONE])):
            key = key_in_list(values, e)
            if key == MISSING_KEY:
                continue
            place = spread_bits(key) >> _SLOT_SHIFT
            while stamps[place] == stamp and held[place] != key:
                place = (place + _ONE) & _LAST_SLOT
            if stamps[place] == stamp:
                continue
            stamps[place], held[place] = stamp, key
            if n_pairs - before == most:
                many[j], n_pairs = 1, before
                break
            columns[n_pairs], places[n_pairs] = np.int64(j), np.int64(e)
            n_pairs += 1
    return n_pairs
