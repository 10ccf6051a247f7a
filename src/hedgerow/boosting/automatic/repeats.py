"""Repeated rows: copies of one observation, or separate observations.

Two rows with the same values can mean two things:

copies        one observation that is in the table several times: a file read twice, rows
              repeated to balance classes, a row with a large weight.  Folds keep copies together,
              because tested rows must not be among the training rows.
observations  separate draws with the same values, because the columns have few values: a
              survey, a contingency table, a sensor with coarse steps.  Observations are assigned
              to folds one by one, because new rows will repeat known rows, too.

The targets distinguish the two.  Copies have the same target, while the targets of observations
sometimes differ::

    columns   a a a a   b b b   c     repeated: the rows of a and b
    target    0 0 1 0   1 1 1   0     a differs, so 4 of 7 repeated rows do: observations

If all targets of equal rows are the same, as they are without noise, the columns decide.  Rows are
observations, too, if they are repeated very often, or about as often as the few values of the
columns explain.  They are copies if every row occurs a multiple of the same number of times,
because then the table itself is repeated.

If all weights are integers, they count rows: a row of weight k counts as k rows here.  So the folds
of a contingency table are the same with a row for each person and with a row for each cell.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.row_data.row_keys import row_keys
from hedgerow.boosting.validation.stopping import hash_numbers
from hedgerow.data import SparseTable

COPY_STREAM = 6
"""Stream of :mod:`hedgerow.kernels.primitives.hashing` for the order of observations."""

_DIFFERING = 0.1
"""Share of repeated rows with differing targets from which on rows are observations."""

_MANY_TIMES = 10
"""Mean number of repetitions from which on rows are observations even if all targets agree."""

_BY_CHANCE = 10.0
"""Largest number of pairs of equal rows that columns explain, as a multiple of the number for
independent columns.  Real columns depend on each other, so they have more pairs."""

_TELLING_ROWS = 10
"""Number of different rows whose counts do not have a common divisor by chance."""

_MOST_DEALT = 4_000_000
"""Largest number of observations; with larger weights, each observation has more weight."""


@dataclass(frozen=True, slots=True, eq=False)
class Repeats:
    """Rows with the same values, and the observations that they stand for.

    Attributes
    ----------
    keys : uint64 (n_rows,)
        A number that is the same for all rows with the same values.
    hashes : uint64 (n_observations,), or None
        Hashes that put observations in random order; None if rows with the same values are copies.
    row : int64 (n_observations,), or None
        The row of each observation; None for copies.
    """

    keys: npt.NDArray[np.uint64]
    hashes: npt.NDArray[np.uint64] | None = None
    row: IntArray | None = None


def find_repeats(sample: Sample, seed: int, is_classes: bool) -> Repeats | None:
    """Decide whether rows with the same values are copies or observations.

    Parameters
    ----------
    sample : Sample
        Rows of positive weight.
    seed : int
    is_classes : bool
        Whether targets are classes.

    Returns
    -------
    Repeats or None
        None if all rows are equal, or if there are too many values to compare.
    """
    table = sample.table
    keys = row_keys(table, seed)
    if keys is None:
        return None
    columns = () if isinstance(table, SparseTable) or table.n_features < 2 else table.values.T
    return repeats_of(keys, sample.target, sample.weight, columns, seed, is_classes)


def repeats_of(
    keys: npt.NDArray[np.uint64],
    target: FloatArray,
    weight: FloatArray | None,
    columns: Iterable[AnyArray],
    seed: int,
    is_classes: bool,
) -> Repeats | None:
    """Decide as :func:`find_repeats`, from the keys of the rows.

    ``columns`` has the values of each column; none if their values do not matter.  Few columns are
    looked at, and only if keys and targets do not decide.
    """
    _, number, n_rows = np.unique(keys, return_inverse=True, return_counts=True)
    number = number.reshape(-1)
    if len(n_rows) < 2:
        return None
    times = _times(weight)
    if times is None and len(n_rows) == len(keys):
        return Repeats(keys)  # all rows differ
    if not (
        _differ(number, target, times, is_classes) or _repeat_by_chance(columns, number, times)
    ):
        return Repeats(keys)
    row = np.arange(len(keys))
    if times is not None:
        row = np.repeat(row, np.minimum(times, max(1, _MOST_DEALT // len(keys))))
    return Repeats(keys, _order(keys, target, row, seed), row)


def _times(weight: FloatArray | None) -> IntArray | None:
    """Return how many rows each row counts as; None if each counts as one row."""
    if weight is None or bool((weight != np.floor(weight)).any()):
        return None
    return np.minimum(weight, _MOST_DEALT).astype(np.int64)


def _differ(number: IntArray, target: FloatArray, times: IntArray | None, is_classes: bool) -> bool:
    """Return whether the targets of rows with the same values differ often enough."""
    targets = _target_keys(target)
    n_times = np.bincount(number, weights=times)
    order = np.lexsort((targets, number))
    group, value = number[order], targets[order]
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (group[1:] != group[:-1]) | (value[1:] != value[:-1])
    n_values = np.bincount(group, weights=is_new)
    # One row of each class is a pair by design or a table of shares: no class is repeated.
    differs = (n_values > 1) & (~np.array(is_classes) | (n_times > n_values))
    repeated = n_times[n_times > 1].sum()
    return bool(n_times[differs].sum() >= _DIFFERING * repeated > 0.0)


def _repeat_by_chance(
    columns: Iterable[AnyArray], number: IntArray, times: IntArray | None
) -> bool:
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
    for column in columns:
        n_columns += 1
        _, value = np.unique(column, return_inverse=True)
        shares = np.bincount(value.reshape(-1), weights=times) / n
        expected *= float(np.sum(shares**2))
        if observed > _BY_CHANCE * expected:
            return False
    return n_columns > 0 and observed > 0.0


def _target_keys(target: FloatArray) -> npt.NDArray[np.uint64]:
    """Return a number for each row that is the same for equal targets."""
    columns = target.reshape(len(target), -1)
    keys = np.zeros(len(target), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for number, column in enumerate(columns.T):
            bits = (column + 0.0).view(np.uint64)
            keys += hash_numbers(number, COPY_STREAM, bits)
    return keys


def _order(keys: AnyArray, target: FloatArray, row: IntArray, seed: int) -> npt.NDArray[np.uint64]:
    """Return hashes of values, target, and number among observations equal in both."""
    with np.errstate(over="ignore"):
        cell = hash_numbers(seed, COPY_STREAM, keys + _target_keys(target))[row]
    order = np.argsort(cell, kind="stable")
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = cell[order][1:] != cell[order][:-1]
    place = np.arange(len(order))
    copy = np.empty(len(order), dtype=np.uint64)
    copy[order] = place - np.maximum.accumulate(np.where(is_new, place, 0))
    with np.errstate(over="ignore"):
        return hash_numbers(seed, COPY_STREAM, cell + copy)
