"""Numbers that stand for the values of rows, so that copies of a row share one.

A key is the sum (mod 2**64) over the columns of a hash of column and value, with 0 for
the value 0.  So it depends neither on the order of the rows, nor on whether a table is
sparse::

    row      column 0   column 1        key
      0        1.5         0       hash(0, 1.5)
      1        1.5         2       hash(0, 1.5) + hash(1, 2)
      2        1.5         0       hash(0, 1.5)               a copy of row 0

What is drawn by these keys comes out the same whether a row is repeated or has a
weight of as much.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray
from hedgerow.boosting.stopping import hash_rows, mix
from hedgerow.data import AnyTable, SparseTable

MOST_CELLS = 10_000_000
"""Values that are hashed at most: a tenth of a second or so."""

KEY_STREAM = 4


def row_keys(table: AnyTable, seed: int) -> npt.NDArray[np.uint64] | None:
    """The keys of all rows.

    Parameters
    ----------
    table : AnyTable
    seed : int

    Returns
    -------
    uint64 (n_rows,), or None
        None for tables of more than :data:`MOST_CELLS` values.

    Examples
    --------
    >>> from hedgerow.data import read_any
    >>> keys = row_keys(read_any([[1.5, 0.0], [1.5, 2.0], [1.5, 0.0]]), 0)
    >>> [int(key == keys[0]) for key in keys]
    [1, 0, 1]
    """
    columns = hash_rows(seed, KEY_STREAM, table.n_features)
    if isinstance(table, SparseTable):
        if table.n_entries > MOST_CELLS:
            return None
        keys = np.zeros(table.n_rows, dtype=np.uint64)
        row = np.repeat(np.arange(table.n_rows), np.diff(table.row_start))
        np.add.at(keys, row, _hashes(table.value, columns[table.column]))
        return keys
    if table.values.size > MOST_CELLS:
        return None
    keys = np.zeros(table.n_rows, dtype=np.uint64)
    for column, start in enumerate(columns):
        keys += _hashes(table.values[:, column], start)
    return keys


def _hashes(values: AnyArray, start: npt.NDArray[np.uint64] | np.uint64) -> AnyArray:
    """Hash of each value; 0 for 0, and one for all missing ones."""
    numbers = values.astype(np.float64)
    numbers[np.isnan(numbers)] = np.nan
    bits = numbers.view(np.uint64)
    with np.errstate(over="ignore"):
        hashed = mix(mix(bits + start) + start)
    hashed[numbers == 0.0] = 0
    return hashed


__all__ = ["MOST_CELLS", "row_keys"]
