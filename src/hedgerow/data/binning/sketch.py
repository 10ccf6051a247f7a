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
*outwards*, lower bounds down and upper bounds up, and only where the sum is not exact, so the
bounds also hold for real numbers, and ``error`` includes the rounding.  Four more additions give
the exact rounding error of a sum ``a + b`` (:func:`_lost`)::

    a + b  =  sum + lost        lost < 0: the sum was rounded up, so step down

All additions have a fixed order, so the same input gives the same bytes on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import MISSING_KEY, FloatArray, IntArray, distinct
from hedgerow.errors import DataError, ParameterError, brief
from hedgerow.kernels.tables.keys import keys_of_floats

MOST_WEIGHT = 1e280
"""Largest weight of a value: the sum over all rows that fit in memory is finite."""


@dataclass(frozen=True, eq=False)
class QuantileSketch:
    """Bounds of the ranks of all values of a weighted column, derived from a few values.

    :meth:`of` makes a sketch; :meth:`merge` and :meth:`prune` return new ones.  Sketches of int64
    columns and of float columns cannot be told apart: merge only sketches of the same column.

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow.data.binning.sketch import QuantileSketch
    >>> halves = QuantileSketch.of(np.arange(100)).merge(QuantileSketch.of(np.arange(100, 200)))
    >>> halves.query([100.0]), halves.prune(4).value, halves.prune(4).error <= 1 / 4
    (array([100]), array([  0,  50, 100, 150, 199]), True)
    """

    value: IntArray  # ascending keys of the kept values, with the smallest and the largest
    rank_low: FloatArray  # lower bound of the weight of all smaller values
    rank_high: FloatArray  # upper bound of the weight of all smaller and equal values
    weight: FloatArray  # lower bound of the weight of the values equal to this one

    @classmethod
    def of(cls, values: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> QuantileSketch:
        """Make a summary that keeps every distinct value of a column of floats or keys."""
        column = np.asarray(values)
        keys: IntArray = column if column.dtype == np.int64 else keys_of_floats(column)
        mass = np.ones(len(keys)) if weights is None else np.asarray(weights, dtype=np.float64)
        fine = (mass >= 0) & (mass <= MOST_WEIGHT)
        if mass.shape != keys.shape or not fine.all():
            raise DataError(
                f"weights must be a number from 0 to {MOST_WEIGHT} for each of the {len(keys)} "
                "values."
            )
        present = (keys != MISSING_KEY) & (mass > 0)
        keys, mass = keys[present], mass[present]
        if not len(keys):
            return cls(keys, mass, mass, mass)
        order = np.argsort(keys, kind="stable")  # also fixes the order of sums of equal keys
        keys, mass = keys[order], mass[order]
        start = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
        stop = np.append(start[1:], len(keys))
        low, high = prefix_bounds(mass)
        together = np.maximum(add_down(low[stop], -high[start]), 0.0)
        mass = np.where(stop - start == 1, mass[start], together)
        low, high = low[start], high[stop]
        return cls(keys[start], low, high, fit_weights(low, high, mass))

    def __len__(self) -> int:
        return len(self.value)

    @property
    def total(self) -> float:
        """Weight of the column, rounded up if its sum is not exact."""
        return float(self.rank_high[-1]) if len(self) else 0.0

    @cached_property
    def error(self) -> float:
        """The bound ``epsilon``, from 0 to 1, relative to the total weight."""
        # Computed from the bounds, it is often below the sum of ``1/size`` over all prunings.
        if not len(self):
            return 0.0
        own = add_up(add_up(self.rank_high, -self.rank_low), -self.weight)
        between = add_up(self.rank_high[1:], -self.rank_low[:-1])
        between = add_up(add_up(between, -self.weight[1:]), -self.weight[:-1])
        gap = max(float(own.max()), float(between.max(initial=0.0)))
        return min(1.0, float(np.nextafter(gap / self._total_low(), np.inf))) if gap > 0.0 else 0.0

    def bounds(self, keys: npt.ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return bounds of ``r-``, ``r+`` and the weight of any values, kept or not."""
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
        # ``high - low - weight`` is at most ``error * total``, except for rounding.
        return low, high, np.where(kept, self.weight[here], 0.0)

    def merge(self, other: QuantileSketch) -> QuantileSketch:
        """Return the summary of both columns together, with every value that either keeps."""
        # The error is at most the larger of both, plus one rounding if sums are not exact.  The
        # kept values depend on the order of merges if sketches are pruned in between.
        if not len(self) or not len(other):
            return other if len(other) else self
        keys = distinct(np.concatenate([self.value, other.value]))
        low, high, weight = self.bounds(keys)
        other_low, other_high, other_weight = other.bounds(keys)
        low, high = add_down(low, other_low), add_up(high, other_high)
        weight = fit_weights(low, high, add_down(weight, other_weight))
        return QuantileSketch(keys, low, high, weight)

    def prune(self, size: int) -> QuantileSketch:
        """Keep at most ``size + 1`` values, which adds at most ``1 / size`` to ``error``."""
        # About ``10 / eps`` is enough for an error of ``eps``.
        if size < 1:
            raise ParameterError(f"size must be at least 1, got {brief(size)}.")
        if len(self) <= size + 1:
            return self
        # Scale by a power of two near the total, because tiny totals would lose bits.
        _, exponent = np.frexp(self.total)
        summary = self.rank_low, self.rank_high, self.weight
        low, high, weight = (np.ldexp(array, -int(exponent)) for array in summary)
        kept = np.zeros(len(self), dtype=np.bool_)
        kept[nearest(low, high, weight, high[-1] * (np.arange(1, size) / size))] = True
        kept[[0, -1]] = True
        return QuantileSketch(self.value[kept], *(array[kept] for array in summary))

    def query(self, rank: npt.ArrayLike) -> IntArray:
        """Return the kept values nearest to ranks from 0 to ``total``."""
        ranks = np.asarray(rank, dtype=np.float64)
        inside = (ranks >= 0) & (ranks <= self.total)
        if not (len(self) and inside.all()):
            raise ParameterError(
                f"rank must lie from 0 to the total weight {self.total!r} of a column with values: "
                "multiply a quantile by .total."
            )
        # Keys ``x`` with ``r-(x) - t <= rank <= r+(x) + t``, ``t = error * total / 2``.
        return self.value[nearest(self.rank_low, self.rank_high, self.weight, ranks)]

    def cuts(self, eps: float) -> IntArray:
        """Return candidates for splits, ascending keys whose ranks lie less than ``eps`` apart."""
        if not self.error < eps <= 1:
            raise ParameterError(
                f"eps must be above the error of the sketch, {self.error!r}, and at most 1; "
                f"got {brief(eps)}; a sketch of larger size has a smaller error."
            )
        if not len(self):
            return self.value
        # Relative weights below neighbours differ by less than ``eps``, unless the lower one alone
        # weighs ``eps - error`` or more: then the next kept value follows.  With the smallest and
        # the largest value there are at most about ``2 / (eps - error)``.
        rank_before = add_up(self.rank_high, -self.weight)  # at least r-
        width = float(np.nextafter(float(eps) * self._total_low(), 0.0))
        reach = np.searchsorted(rank_before, add_down(self.rank_low, np.full(len(self), width))) - 1
        after = np.maximum(reach, np.arange(1, len(self) + 1)).tolist()
        chosen, last = [0], len(self) - 1
        while chosen[-1] < last:
            chosen.append(after[chosen[-1]])
        return self.value[chosen]

    def _total_low(self) -> float:
        """Compute the total weight, rounded down."""
        return float(add_down(self.rank_low[-1:], self.weight[-1:])[0])


def _lost(a: FloatArray, b: FloatArray, total: FloatArray) -> FloatArray:
    """Compute ``a + b - total`` exactly, where ``total`` is the rounded sum ``a + b``."""
    part = total - a
    return (a - (total - part)) + (b - part)


def add_down(a: FloatArray, b: FloatArray) -> FloatArray:
    """Compute the largest float64 that is not above ``a + b``."""
    total = a + b
    return np.where(_lost(a, b, total) < 0, np.nextafter(total, -np.inf), total)


def add_up(a: FloatArray, b: FloatArray) -> FloatArray:
    """Compute the smallest float64 that is not below ``a + b``."""
    total = a + b
    return np.where(_lost(a, b, total) > 0, np.nextafter(total, np.inf), total)


def prefix_bounds(weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bound the sums of the first 0, 1, ..., n weights of at least 0, whose sum is finite."""
    # The plain cumulative sum is off by the sum of the rounding errors of its additions.
    # That sum is added back.  It is rounded, too, but its error is at most ``n * 2**-52``
    # of the sum of its absolute terms, so the bounds are an ulp or two apart.
    total = np.append(0.0, np.cumsum(weight))
    lost = np.append(0.0, _lost(total[:-1], weight, total[1:]))
    if not lost.any():
        return total, total
    missing, size = np.cumsum(lost), np.cumsum(np.abs(lost))
    slack = size * (len(weight) * 2.0**-52)
    slack = np.where(size > 0, np.nextafter(slack, np.inf), 0.0)
    low = np.maximum(add_down(add_down(total, missing), -slack), 0.0)
    high = add_up(add_up(total, missing), slack)
    # Each sum is at least as large as the one before it, and so must be the bounds.
    return np.maximum.accumulate(low), np.minimum.accumulate(high[::-1])[::-1]


def fit_weights(low: FloatArray, high: FloatArray, weight: FloatArray) -> FloatArray:
    """Lower weights to the distance between the bounds; only rounding makes this necessary."""
    # Afterwards ``low[i] + weight[i] <= low[i + 1]`` and
    # ``high[i] + weight[i + 1] <= high[i + 1]`` hold for the real sums, so that bounds
    # taken between two values never cross those at the values.
    above = add_down(np.append(low[1:], high[-1]), -low)
    below = add_down(high, -np.append(0.0, high[:-1]))
    return np.minimum(weight, np.minimum(above, below))


def nearest(low: FloatArray, high: FloatArray, weight: FloatArray, rank: FloatArray) -> IntArray:
    """Find the positions of the values whose ranks are nearest to ``rank``."""
    # Between the middles of the bounds of two values, the first value is nearer where twice
    # the rank lies below the sum of the bounds of a value between them (the query function of
    # the XGBoost paper, appendix A).
    last = len(low) - 1
    twice = 2 * rank
    before = np.searchsorted(low + high, twice, side="right") - 1
    first = np.clip(before, 0, max(last - 1, 0))
    second = np.minimum(first + 1, last)
    between = (low[first] + weight[first]) + (high[second] - weight[second])
    found = np.where(twice < between, first, second)
    return np.where(before < 0, 0, np.where(before >= last, last, found))
