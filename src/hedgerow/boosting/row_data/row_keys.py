"""Hash keys of rows: identical rows have the same key.

A key is the sum (mod 2**64) over the columns of a hash of column and value.  Values that a
sparse table does not store contribute 0: the value 0 and, with ``zero_as_missing``, every
missing value.  So keys depend neither on the order of the rows nor on the storage
format::

    row      column 0   column 1        key
      0        1.5         0       hash(0, 1.5)
      1        1.5         2       hash(0, 1.5) + hash(1, 2)
      2        1.5         0       hash(0, 1.5)               a copy of row 0

Keys only tell which rows are equal.  Nothing is drawn by them, because they depend on the units of
the values.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import MISSING_KEY, AnyArray, BoolArray, IntArray
from hedgerow.boosting.validation.stopping import hash_rows, mix
from hedgerow.data import AnyTable, SparseTable

MOST_CELLS = 10_000_000
"""Largest number of hashed values, which takes about 0.1 s.  Zeros are never hashed."""

KEY_STREAM = 4
_BLOCK_ROWS = 1 << 16


def row_keys(table: AnyTable, seed: int) -> npt.NDArray[np.uint64] | None:
    """Return the keys of all rows.

    Examples
    --------
    >>> from hedgerow.data import read_any
    >>> keys = row_keys(read_any([[1.5, 0.0], [1.5, 2.0], [1.5, 0.0]]), 0)
    >>> [int(key == keys[0]) for key in keys]
    [1, 0, 1]
    """
    if values_of(table).size > MOST_CELLS and recorded_by_column(table).sum() > MOST_CELLS:
        return None
    return keys_of_rows(table, seed)


def values_of(table: AnyTable) -> AnyArray:
    """Return the stored values of a table."""
    return table.value if isinstance(table, SparseTable) else table.values


def recorded_by_column(table: AnyTable) -> IntArray:
    """Return the number of values of each column that are hashed for keys."""
    values, zero_missing = values_of(table), table.schema.zero_missing
    starts = range(0, len(values), _BLOCK_ROWS)
    blocks = (is_recorded(values[i : i + _BLOCK_ROWS], zero_missing) for i in starts)
    if isinstance(table, SparseTable):
        kept = np.concatenate([np.zeros(0, dtype=np.bool_), *blocks])
        return np.bincount(table.column[kept], minlength=table.n_features)
    zeros = np.zeros(table.n_features, dtype=np.int64)
    return sum((np.count_nonzero(block, axis=0) for block in blocks), zeros)


def keys_of_rows(table: AnyTable, seed: int) -> npt.NDArray[np.uint64]:
    """Return the keys of all rows, for any number of values."""
    values, zero_missing = values_of(table), table.schema.zero_missing
    columns = hash_rows(seed, KEY_STREAM, table.n_features)
    keys = np.zeros(table.n_rows, dtype=np.uint64)
    if isinstance(table, SparseTable):
        row = np.repeat(np.arange(table.n_rows), np.diff(table.row_start))
        np.add.at(keys, row, _hashes(values, columns[table.column], zero_missing))
        return keys
    for column, start in enumerate(columns):
        keys += _hashes(values[:, column], start, zero_missing)
    return keys


def _hashes(
    values: AnyArray, start: npt.NDArray[np.uint64] | np.uint64, zero_missing: bool
) -> AnyArray:
    """Hash each value: 0 for values that a sparse table omits, one hash for missing values."""
    numbers = values.astype(np.float64)
    numbers[np.isnan(numbers)] = np.nan  # one bit pattern for all NaN
    bits = numbers.view(np.uint64)
    with np.errstate(over="ignore"):
        hashed = mix(mix(bits + start) + start)
    hashed[~is_recorded(values, zero_missing)] = 0
    return hashed


def is_recorded(values: AnyArray, zero_missing: bool) -> BoolArray:
    """Return whether a sparse table must store each value."""
    recorded = values != 0
    if not zero_missing:
        return recorded
    is_missing = values == MISSING_KEY if values.dtype.kind == "i" else np.isnan(values)
    return recorded & ~is_missing
