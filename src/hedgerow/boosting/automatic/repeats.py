"""Repeated rows: copies of one observation, or separate observations.

copies        one observation that is in the table several times: a file read twice, rows
              repeated to balance classes, a row with a large weight.  Folds keep copies together,
              because tested rows must not be among the training rows.
observations  separate draws with the same values, because the columns have few values: a
              survey, a contingency table, a sensor with coarse steps.  Observations are assigned
              to folds one by one, because new rows will repeat known rows, too.

Copies have the same target, while the targets of observations sometimes differ::

    columns   a a a a   b b b   c     repeated: the rows of a and b
    target    0 0 1 0   1 1 1   0     a differs, so 4 of 7 repeated rows do: observations

If all targets of equal rows are the same, as they are without noise, the columns decide.  Rows are
observations, too, if they are repeated very often, or about as often as the few values of the
columns explain.  They are copies if every row occurs a multiple of the same number of times,
because then the table itself is repeated.

If all weights are integers, they count rows, so the folds of a contingency table are the same with
a row for each person and with a row for each cell, if the cells first occur in the same order.

Rows are compared by keys: sums (mod 2**64) over the columns of a hash of column and value.  Values
that a sparse table does not store contribute 0, so keys depend neither on the order of the rows nor
on the kind of table.  They only tell which rows are equal: folds are drawn by numbers of different
rows, in the order in which they first occur, so no unit or name changes the folds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import MISSING_KEY, AnyArray, BoolArray, FloatArray, IntArray, distinct
from hedgerow.boosting.loop.sample import Sample
from hedgerow.data import AnyTable, SparseTable
from hedgerow.kernels.primitives.hashing import hash_numbers, hash_range, mixed_bits
from hedgerow.metrics.queries import first_seen

MOST_CELLS = 10_000_000
"""Largest number of hashed values, which takes about 0.1 s.  Zeros are never hashed."""

KEY_STREAM = 4


def row_keys(table: AnyTable, seed: int) -> npt.NDArray[np.uint64] | None:
    """Return the keys of all rows."""
    values = table.value if isinstance(table, SparseTable) else table.values
    zero_missing = table.schema.zero_missing
    if values.size > MOST_CELLS:
        blocks = np.array_split(values, values.size // MOST_CELLS + 1)
        if sum(np.count_nonzero(is_recorded(part, zero_missing)) for part in blocks) > MOST_CELLS:
            return None
    columns = hash_range(seed, KEY_STREAM, 0, table.n_features)
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
    hashed = mixed_bits(mixed_bits(bits + start) + start)
    hashed[~is_recorded(values, zero_missing)] = 0
    return hashed


def is_recorded(values: AnyArray, zero_missing: bool) -> BoolArray:
    """Return whether a sparse table must store each value."""
    recorded = values != 0
    if not zero_missing:
        return recorded
    is_missing = values == MISSING_KEY if values.dtype.kind == "i" else np.isnan(values)
    return recorded & ~is_missing


COPY_STREAM = 6
"""Stream of :mod:`hedgerow.kernels.primitives.hashing` for the order of observations."""

_DIFFERING = 0.1
"""Share of repeated rows with differing targets from which on rows are observations."""

_MANY_TIMES = 10
"""Mean number of repetitions from which on rows are observations even if all targets agree."""

_BY_CHANCE = 10.0
"""Largest number of pairs of equal rows that columns explain, over that of independent columns."""

_TELLING_ROWS = 10
"""Number of different rows whose counts do not have a common divisor by chance."""

_MOST_DEALT = 4_000_000
"""Largest number of observations; with larger weights, each observation has more weight."""


@dataclass(frozen=True, slots=True, eq=False)
class Repeats:
    """Rows with the same values, and the observations that they stand for.

    number    int64 (n_rows,): number of each row's values, in the order in which they first occur
    observed  int64 and uint64 (n_observations,): the row of each observation, and hashes that put
              them in random order; None if rows with the same values are copies
    """

    number: IntArray
    observed: tuple[IntArray, npt.NDArray[np.uint64]] | None = None


def find_repeats(sample: Sample, seed: int, is_classes: bool) -> Repeats | None:
    """Decide whether rows with the same values are copies or observations."""
    keys = row_keys(sample.table, seed)
    if keys is None:
        return None
    times, n_different = _times(sample.weight), len(distinct(keys))
    if n_different < 2 or (times is None and n_different == len(keys)):
        return None
    number = first_seen(keys)
    pair = number
    for column in sample.target.reshape(len(number), -1).T:
        values, value = np.unique(column, return_inverse=True)
        pair = first_seen(pair * len(values) + value.reshape(-1))
    are_observations = _differ(number, pair, times, is_classes)
    # Few columns are looked at, and only if keys and targets do not decide.
    if not (are_observations or _repeat_by_chance(sample.table, number, times)):
        return Repeats(number)
    row = np.arange(len(keys))
    if times is not None:
        row = np.repeat(row, np.minimum(times, max(1, _MOST_DEALT // len(keys))))
    return Repeats(number, (row, _order(pair[row], seed)))


def _counts_of_values(table: AnyTable, times: IntArray | None) -> Iterator[IntArray | FloatArray]:
    """Yield, for each column, how many rows have each of its values."""
    zero_missing = table.schema.zero_missing
    total = table.n_rows if times is None else times.sum()
    columns: Iterable[tuple[AnyArray, AnyArray | slice]]
    if isinstance(table, SparseTable):
        row_of = np.repeat(np.arange(table.n_rows), np.diff(table.row_start))
        order = np.argsort(table.column, kind="stable")
        parts = np.split(order, np.cumsum(np.bincount(table.column))[:-1])
        columns = ((table.value[own], row_of[own]) for own in parts)
    else:
        columns = ((column, slice(None)) for column in table.values.T)
    for values, row in columns:
        recorded = is_recorded(values, zero_missing)
        _, value = np.unique(values[recorded], return_inverse=True)
        counts = np.bincount(value, weights=None if times is None else times[row][recorded])
        others = total - counts.sum()  # the zeros
        yield np.append(counts, others) if others > 0 else counts


def _times(weight: FloatArray | None) -> IntArray | None:
    """Return how many rows each row counts as; None if each counts as one row."""
    if weight is None or bool((weight != np.floor(weight)).any()):
        return None
    return np.minimum(weight, _MOST_DEALT).astype(np.int64)


def _differ(number: IntArray, pair: IntArray, times: IntArray | None, is_classes: bool) -> bool:
    """Return whether the targets of rows with the same values differ often enough."""
    n_times = np.bincount(number, weights=times)
    n_values = np.bincount(number[np.unique(pair, return_index=True)[1]])
    # One row of each class is a pair by design or a table of shares: no class is repeated.
    differs = (n_values > 1) & (~np.array(is_classes) | (n_times > n_values))
    repeated = n_times[n_times > 1].sum()
    return bool(n_times[differs].sum() >= _DIFFERING * repeated > 0.0)


def _repeat_by_chance(table: AnyTable, number: IntArray, times: IntArray | None) -> bool:
    """Return whether the few values of the columns explain how often rows are repeated."""
    n_times = np.bincount(number, weights=times)
    n_different = len(n_times)
    if n_different >= _TELLING_ROWS and np.gcd.reduce(n_times.astype(np.int64)) > 1:
        return False  # the table itself is repeated
    if len(number) >= _MANY_TIMES * n_different:
        return True
    n, n_columns = n_times.sum(), 0
    observed = float((n_times * (n_times - 1.0)).sum() / max(n * (n - 1.0), 1.0))
    expected = 1.0
    for count in _counts_of_values(table, times):
        n_columns += len(count) > 1
        # Sorted, so that the sum has the same bits for every kind of table and order of values.
        expected *= float(np.sum((np.sort(count) / n) ** 2))
        if observed > _BY_CHANCE * expected:
            return False
    return n_columns > 1 and observed > 0.0


def _order(pair: IntArray, seed: int) -> npt.NDArray[np.uint64]:
    """Return hashes of the pairs of values and target and, of equal ones, of their number."""
    order = np.argsort(pair, kind="stable")
    copy = np.empty(len(order), dtype=np.uint64)
    copy[order] = np.arange(len(order)) - np.searchsorted(pair[order], pair[order])
    return hash_numbers(seed, COPY_STREAM, hash_numbers(seed, COPY_STREAM, pair) + copy)
