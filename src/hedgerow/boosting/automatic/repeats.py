"""Repeated rows: copies of one observation, or observations of their own.

Two rows with the same values can mean two things:

copies        one observation that is in the table several times: a file read twice, rows
              repeated to balance classes, a row with a large weight.  Folds keep them together,
              or the rows that are tested would be among those that are trained on.
observations  draws of their own that happen to agree, because the columns have few values: a
              survey, a contingency table, a sensor with coarse steps.  Folds deal them out one
              by one, as new rows will repeat the known ones too.

The targets tell which it is.  Copies agree in the target, while observations differ now and
then::

    columns   a a a a   b b b   c     repeated: the rows of a and b
    target    0 0 1 0   1 1 1   0     a differs, so 4 of 7 repeated rows do: observations

Where all targets agree, as they do without noise, the columns tell it: rows that repeat each other
about as often as columns of so few values must, or very often, are observations too.  If each row
is there a multiple of the same number of times, the table is.

Weights that are all whole numbers count rows: a row of weight k stands for k rows here.  So a
contingency table is divided alike with a row for each person and with a row for each cell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.row_data.row_keys import row_keys
from hedgerow.boosting.validation.stopping import hash_numbers
from hedgerow.data import AnyTable, SparseTable

COPY_STREAM = 6
"""Stream of :mod:`hedgerow.kernels.primitives.hashing` for the order of observations."""

_DIFFERING = 0.1
"""Share of the repeated rows whose targets differ, from which on rows are observations."""

_MANY_TIMES = 10
"""Rows that are repeated as often on average are observations even where all targets agree."""

_BY_CHANCE = 10.0
"""Pairs of equal rows over those of columns that are independent of each other: up to so many are
no surprise, as columns depend on each other."""

_TELLING_ROWS = 10
"""Different rows that do not have a divisor of their counts in common by chance."""

_MOST_DEALT = 4_000_000
"""Observations that are dealt out; rows of larger weights stand for fewer, of more weight each."""


@dataclass(frozen=True, slots=True, eq=False)
class Repeats:
    """What is known of rows with the same values.

    Attributes
    ----------
    keys : uint64 (n_rows,)
        One number for all rows with the same values.
    hashes : uint64 (n_observations,), or None
        A random order of the observations; None if rows with the same values are copies.
    row : int64 (n_observations,), or None
        The row of each observation.
    """

    keys: npt.NDArray[np.uint64]
    hashes: npt.NDArray[np.uint64] | None = None
    row: IntArray | None = None


def find_repeats(sample: Sample, seed: int, is_classes: bool) -> Repeats | None:
    """Tell copies from observations.

    Parameters
    ----------
    sample : Sample
        Without rows of weight 0.
    seed : int
    is_classes : bool
        Whether targets are classes.

    Returns
    -------
    Repeats or None
        None if all rows are alike, or if there are too many values to compare.
    """
    keys = row_keys(sample.table, seed)
    if keys is None:
        return None
    _, number, n_rows = np.unique(keys, return_inverse=True, return_counts=True)
    number = number.reshape(-1)
    if len(n_rows) < 2:
        return None
    times = _times(sample.weight)
    if times is None and len(n_rows) == len(keys):
        return Repeats(keys)  # all rows differ
    if not (
        _differ(number, sample.target, times, is_classes)
        or _repeat_by_chance(sample.table, number, times)
    ):
        return Repeats(keys)
    row = np.arange(len(keys))
    if times is not None:
        row = np.repeat(row, np.minimum(times, max(1, _MOST_DEALT // len(keys))))
    return Repeats(keys, _order(keys, sample.target, row, seed), row)


def _times(weight: FloatArray | None) -> IntArray | None:
    """How many rows each row stands for; None if it is one for all."""
    if weight is None or bool((weight != np.floor(weight)).any()):
        return None
    return np.minimum(weight, _MOST_DEALT).astype(np.int64)


def _differ(number: IntArray, target: FloatArray, times: IntArray | None, is_classes: bool) -> bool:
    """Whether rows with the same values differ in their targets often enough."""
    targets = _target_keys(target)
    n_times = np.bincount(number, weights=times)
    order = np.lexsort((targets, number))
    group, value = number[order], targets[order]
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (group[1:] != group[:-1]) | (value[1:] != value[:-1])
    n_values = np.bincount(group, weights=is_new)
    # A row of each class is a pair by design, or a table of shares: no class is repeated in it.
    differs = (n_values > 1) & (~np.array(is_classes) | (n_times > n_values))
    repeated = n_times[n_times > 1].sum()
    return bool(n_times[differs].sum() >= _DIFFERING * repeated > 0.0)


def _repeat_by_chance(table: AnyTable, number: IntArray, times: IntArray | None) -> bool:
    """Whether columns of so few values make rows repeat each other as often as they do."""
    n_times = np.bincount(number, weights=times)
    n_different = len(n_times)
    if n_different >= _TELLING_ROWS and np.gcd.reduce(n_times.astype(np.int64)) > 1:
        return False  # the whole table is there several times
    if len(number) >= _MANY_TIMES * n_different:
        return True
    if isinstance(table, SparseTable) or table.n_features < 2:
        return False
    n = n_times.sum()
    observed = float((n_times * (n_times - 1.0)).sum() / max(n * (n - 1.0), 1.0))
    expected = 1.0
    for column in table.values.T:
        _, value = np.unique(column, return_inverse=True)
        shares = np.bincount(value.reshape(-1), weights=times) / n
        expected *= float(np.sum(shares**2))
        if observed > _BY_CHANCE * expected:
            return False
    return observed > 0.0


def _target_keys(target: FloatArray) -> npt.NDArray[np.uint64]:
    """A number for each different target."""
    columns = target.reshape(len(target), -1)
    keys = np.zeros(len(target), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for number, column in enumerate(columns.T):
            bits = (column + 0.0).view(np.uint64)
            keys += hash_numbers(number, COPY_STREAM, bits)
    return keys


def _order(keys: AnyArray, target: FloatArray, row: IntArray, seed: int) -> npt.NDArray[np.uint64]:
    """A hash of values, target and number among those that agree in both."""
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


__all__ = ["Repeats", "find_repeats"]
