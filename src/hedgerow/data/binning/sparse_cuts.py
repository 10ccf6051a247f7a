"""Choose cuts from the stored entries of a sparse table, equal to the cuts of a dense table.

The zeros of a column are treated as a single entry with the mass of all of them::

    dense    -2  -1   0  0  0  0  0  0  3   3       mass before   0 1 2 3 ... 9 10
    sparse   -2  -1   0                 3   3                     0 1 2       8 9 10

Masses are integers and their sums are exact, so
:func:`hedgerow.kernels.tables.binning.choose_cuts` gets the same numbers in both cases.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray, FloatArray, IntArray
from hedgerow.data.binning.forced_bins import cuts_of_column, sort_column
from hedgerow.data.sparse import SparseTable
from hedgerow.kernels.tables.sparse import count_entries, gather_entries
from hedgerow.threads import run_blocks

_COLUMNS_PER_THREAD = 200

_NO_ROWS: IntArray = np.zeros(0, dtype=np.int64)
_NO_MASS: FloatArray = np.zeros(0)


def find_sparse_cuts(
    table: SparseTable,
    rows: IntArray,
    mass: FloatArray | None,
    most_bins: IntArray,
    forced: dict[int, AnyArray],
    n_threads: int,
) -> list[tuple[AnyArray, AnyArray]]:
    """Find the values just below and just above each cut of each column."""
    entries, n_features = table.entries(), table.n_features
    listed = _NO_ROWS if len(rows) == table.n_rows else rows
    counts = np.zeros(n_features, dtype=np.int64)
    count_entries(entries, listed, counts)
    start = np.concatenate(([0], np.cumsum(counts)))
    values = np.empty(start[-1], dtype=table.value.dtype)
    masses = np.empty(0 if mass is None else start[-1])
    gather_entries(
        entries, listed, _NO_MASS if mass is None else mass, start[:-1].copy(), values, masses
    )
    unrecorded: FloatArray = float(len(rows)) - counts.astype(np.float64)
    if mass is not None:
        unrecorded = mass.sum() - _sums(masses, start)
    if table.schema.zero_missing:
        unrecorded = np.zeros(n_features)
    found, rest = _cuts_of_constants(values, start, unrecorded, forced)

    def find(first: int, last: int) -> None:
        runs = np.empty(counts.max(initial=0) + 2, dtype=np.int64)
        space = runs, np.empty(most_bins.max(), dtype=np.int64)
        for j in rest[first:last].tolist():
            part = slice(start[j], start[j + 1])
            part_masses = None if mass is None else masses[part]
            ordered, mass_before = _with_zeros(values[part], part_masses, unrecorded[j])
            most = int(most_bins[j])
            found[j] = cuts_of_column(ordered, mass_before, forced.get(j), most, space)

    run_blocks(find, len(rest), n_threads, _COLUMNS_PER_THREAD)
    return found


def _sums(masses: FloatArray, start: IntArray) -> FloatArray:
    """Return the sum of the integer masses of each column, which is exact."""
    before = np.concatenate(([0.0], np.cumsum(masses)))
    return before[start[1:]] - before[start[:-1]]


def _cuts_of_constants(
    values: AnyArray, start: IntArray, unrecorded: FloatArray, forced: dict[int, AnyArray]
) -> tuple[list[tuple[AnyArray, AnyArray]], IntArray]:
    """Return the cuts of columns with at most one stored value, and the other columns.

    Such columns, typically indicators, need no sorting: their only cut is between 0 and
    the value, if both occur.
    """
    n_features = len(start) - 1
    none = values[:0]
    found = [(none, none)] * n_features
    held = np.flatnonzero(start[1:] > start[:-1])
    if len(held) == 0:
        return found, held
    low = np.minimum.reduceat(values, start[held])
    high = np.maximum.reduceat(values, start[held])
    constant = low == high  # NaN is not
    if values.dtype == np.int64:
        constant &= low != MISSING_KEY
    constant &= ~np.isin(held, list(forced))
    cut = constant & (unrecorded[held] > 0) & (low != 0)
    zero = np.zeros(1, values.dtype)
    for j, k in zip(held[cut], np.flatnonzero(cut), strict=True):
        value = low[k : k + 1]
        found[j] = (zero, value) if value[0] > 0 else (value, zero)
    return found, held[~constant]


def _with_zeros(
    column: AnyArray, masses: FloatArray | None, unrecorded: float
) -> tuple[AnyArray, FloatArray]:
    """Return the sorted non-missing values with a single 0, and the mass before each.

    ``column`` is sorted in place.
    """
    counts = np.arange(len(column) + 1, dtype=np.float64)
    ordered, mass_before = sort_column(column, masses, counts)
    left, right = (int(np.searchsorted(ordered, 0, side=side)) for side in ("left", "right"))
    if unrecorded == 0 and left == right:
        return ordered, mass_before
    zero = np.zeros(1, column.dtype)
    return (
        np.concatenate([ordered[:left], zero, ordered[right:]]),
        np.concatenate([mass_before[: left + 1], mass_before[right:] + unrecorded]),
    )
