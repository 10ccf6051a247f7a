"""The best constant on top of an offset: the initial score of a fit with an offset.

::

    raw score of a row  =  offset + constant + trees        sum of w * loss  ->  least

A Poisson model with the logarithm of the exposure as offset starts at the log of all counts
over all exposures, like the intercept of a generalised linear model.  If the offsets are the
scores of a good model, the best constant is about 0.

==========================  ===========================================================
loss                        the constant
==========================  ===========================================================
the residual ``y - raw``    the best constant for the residuals, in closed form
a mean, with a log link     logarithm of the ratio of two sums
classes (softmax)           iterative proportional fitting: predicted shares become the
                            shares of the classes
order only (Cox, ranking)   0: a constant changes nothing
several raw scores          one output after the other, until no constant changes
any other                   root of the mean first derivative, between
                            ``plain - largest offset`` and ``plain - smallest offset``,
                            where ``plain`` is the best constant without the offset
==========================  ===========================================================

All sums are exact, so the bits do not depend on batches, ranks or threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.comm.base import Alone, Communicator
from hedgerow.kernels.primitives.exact_sum import ExactSum, weighted_sums
from hedgerow.objectives.base import Objective
from hedgerow.objectives.domain import LOWEST_MEAN
from hedgerow.objectives.global_sums import AllRows, Batch, merged
from hedgerow.objectives.line_search import Slopes
from hedgerow.objectives.precomputed import LossRows
from hedgerow.objectives.rowwise import bracket_of, extent_of, root_of
from hedgerow.objectives.targets import SeveralTargets

OffsetBatch: TypeAlias = "tuple[FloatArray, FloatArray | None, FloatArray]"
"""Targets, weights (None: all 1) and offsets, shape (n_outputs, n_rows), of some rows."""

_MOST_CYCLES = 100
_CLOSE = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class OffsetRows:
    """The rows of a fit with their offsets.

    Attributes
    ----------
    batches : callable
        Returns an iterator over the rows of this rank, in order, at each call.
    """

    batches: Callable[[], Iterable[OffsetBatch]]
    communicator: Communicator

    @staticmethod
    def of(target: FloatArray, weight: FloatArray | None, offset: FloatArray) -> OffsetRows:
        """Make an object for rows in memory."""
        return OffsetRows(lambda: [(target, weight, offset)], Alone())

    def plain(self) -> AllRows:
        """Return the rows without their offsets."""
        return self.changed(lambda target, weight, offset: (target, weight))

    def residuals(self, output: int) -> AllRows:
        """Return the targets minus the offsets of an output."""
        return self.changed(lambda target, weight, offset: (target - offset[output], weight))

    def changed(self, change: Callable[..., Batch]) -> AllRows:
        """Return rows with the targets and weights of ``change(target, weight, offset)``."""
        return AllRows(lambda: (change(*batch) for batch in self.batches()), self.communicator)

    def of_target(self, column: int) -> OffsetRows:
        """Return the rows with one of several targets and its offsets."""

        def batches() -> Iterable[OffsetBatch]:
            for target, weight, offset in self.batches():
                own = np.ascontiguousarray(target[:, column])
                yield own, weight, offset[column : column + 1]

        return OffsetRows(batches, self.communicator)

    def means(self, values: Callable[[LossRows], Sequence[FloatArray]], n: int) -> list[float]:
        """Return the weighted mean of each of the ``n`` arrays that ``values`` returns."""
        sums = [ExactSum()] * (2 * n)
        for target, weight, offset in self.batches():
            arrays = values(LossRows(target, offset, weight))
            parts = [part for array in arrays for part in weighted_sums(array, weight)]
            sums = [total + part for total, part in zip(sums, parts, strict=True)]
        sums = merged(sums, self.communicator)
        return [above.over(below) for above, below in zip(sums[::2], sums[1::2], strict=True)]

    def extent(self, output: int) -> tuple[float, float]:
        """Return the smallest and largest offset of an output."""
        return extent_of(self.changed(lambda target, weight, offset: (offset[output], weight)))


def start_beside(objective: Objective, rows: OffsetRows) -> FloatArray:
    """Return the constant that minimises the weighted loss when added to the offsets."""
    if isinstance(objective, SeveralTargets):
        parts = [
            start_beside(single, rows.of_target(k)) for k, single in enumerate(objective.singles)
        ]
        return np.concatenate(parts)
    own = getattr(objective, "start_beside", None)
    if own is not None:
        return np.asarray(own(rows))
    if getattr(objective, "of_residuals", False):
        outputs = range(objective.n_outputs)
        return np.array([objective.start_of(rows.residuals(k))[k] for k in outputs])
    plain = objective.start_of(rows.plain())
    if objective.n_outputs == 1:
        smallest, largest = rows.extent(0)
        low, high = float(plain[0]) - largest, float(plain[0]) - smallest
        return np.array([_root(objective, rows, plain, 0, 0.5 * low + 0.5 * high, (low, high))])
    return _by_turns(objective, rows, plain)


def start_of(objective: Objective, rows: AllRows, offset: FloatArray | None) -> FloatArray:
    """Return the initial score of rows whose arrays are in memory on each rank.

    ``offset`` are those of the rows of this rank; None: no rank has one.
    """
    if offset is not None:
        batches = [(*batch, offset) for batch in rows.batches()]
        return start_beside(objective, OffsetRows(lambda: batches, rows.communicator))
    if rows.communicator.size > 1:
        return objective.start_of(rows)
    return objective.initial_score(*next(iter(rows.batches())))


def _root(
    objective: Objective,
    rows: OffsetRows,
    base: FloatArray,
    output: int,
    start: float,
    within: tuple[float, float] | None = None,
) -> float:
    """Find the constant of one output where the mean first derivative is 0, others fixed."""

    def mean(part: int, at: float) -> float:
        moved = base.copy()
        moved[output] = at

        def values(given: LossRows) -> Sequence[FloatArray]:
            raw = given.raw + moved[:, None]
            return [_slopes(objective, given._replace(raw=raw), output)[part]]

        return rows.means(values, 1)[0]

    if within is None:
        low, high = bracket_of(lambda step: mean(0, start + step))
        within = (start + low, start + high)
    return root_of(mean, start, *within)


def _slopes(objective: Any, rows: LossRows, output: int) -> Slopes:
    """Return the first and second derivative of each row in the raw score of an output."""
    if hasattr(objective, "slopes_of"):
        found: Slopes = objective.slopes_of(rows.target, rows.raw, output)
        return found
    if hasattr(objective, "slopes") and objective.n_outputs == 1:
        found = objective.slopes(rows.target, rows.raw[0])
        return found
    g, h = np.empty((2, rows.raw.shape[1]))
    objective.derivatives(rows, output, g, h)
    return g, h


def _by_turns(objective: Objective, rows: OffsetRows, plain: FloatArray) -> FloatArray:
    """Find the constants of several outputs, each while the others are fixed."""
    base = plain.copy()
    for _ in range(_MOST_CYCLES):
        before = base.copy()
        for output in range(len(base)):
            base[output] = _root(objective, rows, base, output, float(base[output]))
        if (np.abs(base - before) <= _CLOSE * (1.0 + np.abs(base))).all():
            break
    return base


def by_ratio(
    rows: OffsetRows,
    parts: Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]],
) -> FloatArray:
    """Return the log of the ratio of falling to rising part, the constant of a log link.

    ``parts(target, raw)`` returns the rising and the falling part of the first derivative;
    a constant c multiplies the ratio of the two parts by ``exp(c)``.
    """
    smallest, largest = rows.extent(0)
    middle = 0.5 * smallest + 0.5 * largest  # so that exponentials do not overflow
    up, down = rows.means(lambda given: parts(given.target, given.raw[0] - middle), 2)
    return np.array([math.log(max(down, LOWEST_MEAN)) - math.log(max(up, LOWEST_MEAN)) - middle])


def by_shares(
    rows: OffsetRows, predict: Callable[[FloatArray], FloatArray], start: FloatArray
) -> FloatArray:
    """Return constants for which the mean probability of each class equals its share.

    ``start`` holds the logarithms of the shares.  Each cycle adds the logarithm of
    share over mean probability to each class, which always raises the likelihood.
    """
    base, n_classes = start.copy(), len(start)
    for _ in range(_MOST_CYCLES):

        def chances(given: LossRows, base: FloatArray = base) -> Sequence[FloatArray]:
            return list(np.ascontiguousarray(predict(given.raw + base[:, None]).T))

        means = np.array(rows.means(chances, n_classes))
        steps = start - np.log(np.maximum(means, 1e-300))
        steps -= steps.mean()
        base = base + steps
        if np.abs(steps).max() <= _CLOSE:
            break
    return np.asarray(base - base.mean())
