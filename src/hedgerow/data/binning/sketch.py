"""Weighted quantile sketch: ranks of a column that need not fit in memory.

Glossary
--------
key       the int64 that represents a value (:mod:`hedgerow.kernels.tables.keys`), so that
          float32, float64, int64 and dates are handled alike
rank      sum of the weights of the smaller values, ``r-(y)``; including the weight of the
          value itself it is ``r+(y) = r-(y) + w(y)``
summary   a few of the values, each with a lower bound of ``r-``, an upper bound of ``r+``
          and a lower bound of ``w``
error     ``epsilon``: the uncertainty of the rank of every value, kept or not, is at most
          ``epsilon`` times the total weight

::

    kept value       x0             x1                  x2
    r- at least      0              l1                  l2
    r+ at most       h0             h1                  h2
    value y between x1 and x2:   l1 + w1  <=  r-(y) = r+(y)  <=  h2 - w2

*Merging* adds the bounds of two summaries at every value that either of them keeps.  The
error of the result is the larger of the two errors.  *Pruning* to ``size`` keeps the values
nearest to the ranks ``0, 1/size, 2/size, ... 1`` of the total, and adds at most ``1/size`` to
the error.  Both operations are defined in appendix A of "XGBoost: A Scalable Tree Boosting
System" (KDD 2016).

Numbers are float64.  Sums of integer weights up to 2**53 are exact.  Other sums are rounded
outwards, lower bounds down and upper bounds up, so the bounds also hold for real numbers, and
``error`` includes the rounding.  All additions have a fixed order, so the same input gives
the same bytes on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import MISSING_KEY, AnyArray, FloatArray, IntArray
from hedgerow.errors import DataError, DataTypeError, ParameterError, brief
from hedgerow.kernels.tables.keys import keys_of_floats
from hedgerow.kernels.tables.sketch import add_down, add_up, fit_weights, nearest, prefix_bounds

Summary: TypeAlias = tuple[IntArray, FloatArray, FloatArray, FloatArray]
"""``value``, ``rank_low``, ``rank_high``, ``weight``."""

MOST_WEIGHT: Final = 1e280
"""Largest weight of a value: the sum over all rows that fit in memory is finite."""

_MOST_TOTAL: Final = 1e300
_LARGEST_SIZE: Final = 2**24


@dataclass(frozen=True, eq=False)
class QuantileSketch:
    """Bounds of the ranks of all values of a weighted column, derived from a few values.

    :meth:`of` makes a sketch.  A sketch is immutable: :meth:`merge` and :meth:`prune` return new
    sketches, and the arrays are read-only copies.  Two sketches are equal if they hold the same
    numbers.

    Raises
    ------
    DataError
        If the arrays are not a summary: values do not ascend, lengths differ, or bounds
        contradict each other.

    Notes
    -----
    Sketches of int64 columns and of float columns cannot be distinguished: merge only
    sketches of the same column.

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow.data.binning.sketch import QuantileSketch
    >>> from hedgerow.kernels.tables.keys import floats_of_keys
    >>> sketch = QuantileSketch.of(np.array([0.5, 2.0, 2.0, np.nan]), [1.0, 2.0, 1.0, 5.0])
    >>> floats_of_keys(sketch.value), sketch.rank_low, sketch.total, sketch.error
    (array([0.5, 2. ]), array([0., 1.]), 4.0, 0.0)
    >>> halves = QuantileSketch.of(np.arange(100)).merge(QuantileSketch.of(np.arange(100, 200)))
    >>> halves.query([100.0]), halves.prune(4).value, halves.prune(4).error <= 1 / 4
    (array([100]), array([  0,  50, 100, 150, 199]), True)
    """

    # int64 (n_values,); ascending keys of the kept values, including the smallest and the largest
    # of the column.  ``hedgerow.kernels.tables.keys.floats_of_keys`` converts keys of a float
    # column to numbers.
    value: IntArray
    rank_low: FloatArray  # float64 (n_values,); lower bound of the weight of all smaller values
    # float64 (n_values,); upper bound of the weight of all smaller and equal values
    rank_high: FloatArray
    # float64 (n_values,); lower bound of the weight of the values equal to this one
    weight: FloatArray

    def __post_init__(self) -> None:
        for field in fields(self):
            dtype = np.int64 if field.name == "value" else np.float64
            array = np.asarray(getattr(self, field.name)).astype(dtype, order="C", casting="safe")
            array.setflags(write=False)
            object.__setattr__(self, field.name, array)
        check(self._summary)

    @classmethod
    def of(cls, values: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> QuantileSketch:
        """Make a summary that keeps every distinct value of a column."""
        values, weights = read_column(values, weights)
        return cls(*summarize(*present(values, weights)))

    def __len__(self) -> int:
        return len(self.value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, QuantileSketch):
            return NotImplemented
        return all(map(np.array_equal, self._summary, other._summary))

    def __hash__(self) -> int:
        return hash(tuple(array.tobytes() for array in self._summary))

    def __reduce__(self) -> tuple[type[QuantileSketch], Summary]:
        return QuantileSketch, self._summary

    @property
    def total(self) -> float:
        """Weight of the column, rounded up if its sum is not exact."""
        return float(self.rank_high[-1]) if len(self) else 0.0

    @property
    def min(self) -> int:
        """Key of the smallest value; raises ``DataError`` if there are no values."""
        self._require_values("min")
        return int(self.value[0])

    @property
    def max(self) -> int:
        """Key of the largest value; raises ``DataError`` if there are no values."""
        self._require_values("max")
        return int(self.value[-1])

    @cached_property
    def error(self) -> float:
        """The bound ``epsilon``, from 0 to 1, relative to the total weight.

        It is computed from the bounds, so it is often smaller than the sum of ``1/size``
        over all prunings.
        """
        if not len(self):
            return 0.0
        own = add_up(add_up(self.rank_high, -self.rank_low), -self.weight)
        between = add_up(self.rank_high[1:], -self.rank_low[:-1])
        between = add_up(add_up(between, -self.weight[1:]), -self.weight[:-1])
        gap = max(float(own.max()), float(between.max(initial=0.0)))
        total = self._total_low()
        if gap >= total:
            return 1.0
        error = gap / total
        if Fraction(error) * Fraction(total) < Fraction(gap):
            error = float(np.nextafter(error, np.inf))
        return error

    def bounds(self, keys: npt.ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return bounds of the ranks of any values, kept or not: of ``r-``, ``r+`` and the weight.

        ``rank_high - rank_low - weight`` is at most ``error * total``, except for rounding.
        """
        keys = np.asarray(keys, dtype=np.int64)
        if not len(self):
            return np.zeros(keys.shape), np.zeros(keys.shape), np.zeros(keys.shape)
        at = np.searchsorted(self.value, keys)  # first kept value that is not smaller
        here = np.minimum(at, len(self) - 1)
        kept = self.value[here] == keys
        low_after = np.append(0.0, add_down(self.rank_low, self.weight))
        high_before = np.append(add_up(self.rank_high, -self.weight), self.total)
        high_before[0] = 0.0
        low = np.where(kept, self.rank_low[here], low_after[at])
        high = np.where(kept, self.rank_high[here], high_before[at])
        return low, high, np.where(kept, self.weight[here], 0.0)

    def merge(self, other: QuantileSketch) -> QuantileSketch:
        """Return the summary of both columns together.

        It keeps every value that either sketch keeps.  Its ``error`` is at most the larger
        of the two errors, plus one rounding if sums are not exact.  The *bound* does not
        depend on the order of merges.  The kept values do, if sketches are pruned between
        merges.
        """
        if not len(self) or not len(other):
            return other if len(other) else self
        keys = np.concatenate([self.value, other.value])
        keys.sort()
        keys = keys[np.append(True, keys[1:] != keys[:-1])]
        low, high, weight = self.bounds(keys)
        other_low, other_high, other_weight = other.bounds(keys)
        low, high = add_down(low, other_low), add_up(high, other_high)
        weight = fit_weights(low, high, add_down(weight, other_weight))
        return QuantileSketch(keys, low, high, weight)

    def prune(self, size: int) -> QuantileSketch:
        """Keep at most ``size + 1`` values, which adds at most ``1 / size`` to ``error``.

        The smallest and the largest value are kept.  A sketch that is small enough is
        returned unchanged.
        """
        size = checked_size(size)
        if len(self) <= size + 1:
            return self
        # Scale by a power of two near the total, because tiny totals would lose bits.
        _, exponent = np.frexp(self.total)
        low, high, weight = (np.ldexp(array, -int(exponent)) for array in self._summary[1:])
        ranks = high[-1] * (np.arange(1, size) / size)
        kept = np.zeros(len(self), dtype=bool)
        kept[nearest(low, high, weight, ranks)] = True
        kept[[0, -1]] = True
        value, low, high, weight = self._summary
        return QuantileSketch(value[kept], low[kept], high[kept], weight[kept])

    def query(self, rank: npt.ArrayLike) -> IntArray:
        """Return the kept values nearest to ranks from 0 to ``total``.

        They are keys ``x`` with ``r-(x) - t <= rank <= r+(x) + t``, ``t = error * total / 2``.
        """
        self._require_values("query")
        ranks = np.asarray(rank, dtype=np.float64)
        inside = (ranks >= 0) & (ranks <= self.total)
        if not inside.all():
            raise ParameterError(
                f"rank must lie from 0 to the total weight {self.total!r}, "
                f"got {brief(float(ranks[~inside][0]))}; multiply a quantile by .total."
            )
        return self.value[nearest(self.rank_low, self.rank_high, self.weight, ranks)]

    def cuts(self, eps: float) -> IntArray:
        """Return candidates for splits, ascending keys whose ranks lie less than ``eps`` apart.

        Let ``r(z)`` be the weight of the values below ``z`` relative to the total.  Then
        ``r(s[j + 1]) - r(s[j]) < eps`` for all neighbours, unless ``s[j]`` alone weighs
        ``eps - error`` or more; the next kept value follows such a value directly.  There are as
        few as the bounds allow, with ``min`` and ``max``: at most about ``2 / (eps - error)``.
        """
        if isinstance(eps, bool) or not self.error < eps <= 1:
            raise ParameterError(
                f"eps must be above the error of the sketch, {self.error!r}, and at most 1; "
                f"got {brief(eps)}; a sketch of larger size has a smaller error."
            )
        if not len(self):
            return self.value
        rank_before = add_up(self.rank_high, -self.weight)  # at least r-
        width = float(np.nextafter(float(eps) * self._total_low(), 0.0))
        reach = np.searchsorted(rank_before, add_down(self.rank_low, np.full(len(self), width))) - 1
        after = np.maximum(reach, np.arange(1, len(self) + 1)).tolist()
        chosen, last = [0], len(self) - 1
        while chosen[-1] < last:
            chosen.append(after[chosen[-1]])
        return self.value[chosen]

    @property
    def _summary(self) -> Summary:
        return self.value, self.rank_low, self.rank_high, self.weight

    def _total_low(self) -> float:
        """Compute the total weight, rounded down."""
        return float(add_down(self.rank_low[-1:], self.weight[-1:])[0])

    def _require_values(self, wanted: str) -> None:
        if not len(self):
            raise DataError(
                f"{wanted} of an empty sketch: every value was missing or had weight 0."
            )


def checked_size(size: int) -> int:
    """Return the size of a pruned sketch; raise ``ParameterError`` if it is invalid."""
    whole = isinstance(size, int | np.integer) and not isinstance(size, bool)
    if not whole or not 1 <= size <= _LARGEST_SIZE:
        raise ParameterError(
            f"size must be an integer from 1 to {_LARGEST_SIZE}, got {brief(size)}; "
            "about 10 / eps is enough for an error of eps."
        )
    return int(size)


def read_column(
    values: npt.ArrayLike, weights: npt.ArrayLike | None
) -> tuple[AnyArray, FloatArray | None]:
    """Validate all values and weights of a chunk, and return them as arrays."""
    column = np.asarray(values)
    if column.dtype not in (np.float32, np.float64, np.int64):
        raise DataTypeError(
            f"values must be float32, float64 or int64 keys, got {column.dtype}: convert them."
        )
    if column.ndim != 1:
        raise DataError(f"values must be one column, got shape {column.shape}.")
    if weights is None:
        return column, None
    given = np.asarray(weights)
    if given.dtype.kind not in "biuf":
        raise DataTypeError(f"weights must be numbers, got {given.dtype}.")
    if given.shape != column.shape:
        raise DataError(
            f"weights must have one number for each of the {len(column)} values, "
            f"got shape {given.shape}."
        )
    masses: FloatArray = given.astype(np.float64, copy=False)
    fine = (masses >= 0) & (masses <= MOST_WEIGHT)
    if not fine.all():
        row = int(np.argmin(fine))
        raise DataError(
            f"weights must be from 0 to {MOST_WEIGHT}, got {float(masses[row])} in row {row}."
        )
    return column, masses


def present(values: AnyArray, weights: FloatArray | None) -> tuple[IntArray, FloatArray]:
    """Return the keys and weights of the present values with positive weight."""
    keys: IntArray = values if values.dtype == np.int64 else keys_of_floats(values)
    weights = np.ones(len(keys)) if weights is None else weights
    there = (keys != MISSING_KEY) & (weights > 0)
    return keys[there], weights[there]


def summarize(keys: IntArray, weights: FloatArray) -> Summary:
    """Make a summary that keeps all keys, from keys in any order with positive weights."""
    if not len(keys):
        return keys, weights, weights, weights
    order = np.argsort(keys, kind="stable")  # also fixes the order in which equal keys are added
    keys, weights = keys[order], weights[order]
    start = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    stop = np.append(start[1:], len(keys))
    low, high = prefix_bounds(weights)
    together = np.maximum(add_down(low[stop], -high[start]), 0.0)
    weight = np.where(stop - start == 1, weights[start], together)
    low, high = low[start], high[stop]
    return keys[start], low, high, fit_weights(low, high, weight)


def check(summary: Summary) -> None:
    """Raise ``DataError`` unless the arrays are a valid summary."""
    value, low, high, weight = summary
    if any(array.shape != (value.size,) for array in summary):
        raise DataError("the arrays of a sketch must be flat and of one length.")
    if not len(value):
        return
    # Comparisons with NaN are false.  Sums are compared as real numbers: the float64 `weight`
    # is at most a difference if and only if it is at most the difference rounded down.
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        rules = {
            "value must ascend, without MISSING_KEY": (value[1:] > value[:-1]).all()
            and value[0] != MISSING_KEY,
            "rank_low must begin with 0": low[0] == 0,
            f"ranks and weights must lie from 0 to {_MOST_TOTAL}": all(
                ((array >= 0) & (array <= _MOST_TOTAL)).all() for array in (low, high, weight)
            ),
            "the total must be positive": low[-1] + weight[-1] > 0,
            "rank_low + weight must not exceed the next rank_low": (
                weight[:-1] <= add_down(low[1:], -low[:-1])
            ).all(),
            "rank_high plus the next weight must not exceed the next rank_high": (
                weight <= add_down(high, -np.append(0.0, high[:-1]))
            ).all(),
            "rank_low + weight must not exceed rank_high": (weight <= add_down(high, -low)).all(),
        }
    broken = [rule for rule, holds in rules.items() if not holds]
    if broken:
        raise DataError(f"not a summary of a column: {broken[0]}.")
