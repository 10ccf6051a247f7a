"""Leaf values: line searches, and limits on Newton steps.

A line search minimises the loss itself (Friedman 2001, algorithm 1, line 5).

A tree that fits the negative gradient groups the rows.  A line search then finds the step of
all rows of a leaf::

    c = argmin  sum over the rows of  w L(y, raw + c)

Squared, absolute, quantile and exponential loss have a closed form.  For other
losses, Newton steps find the root of the derivative in c, which increases for a convex loss.
Bisection replaces a step that leaves the interval known to contain the root.

All leaves are searched at once: the rows of a leaf are consecutive, and sums are
taken over segments.

Limits on Newton steps
----------------------
The hessian of logistic losses and of losses of log means changes by at most a factor of
``exp(c)`` if all raw scores of a leaf change by c (``|L'''| <= L''``).  So with sums G and H of
gradients and hessians, and a change c against the gradient::

    loss(c) - loss(0)  <=  -|G| c + H (exp(c) - 1 - c)

A change of ``c = rate * |G| / H`` surely lowers the loss as long as
``exp(c) < 1 + c + c**2 / rate``: up to c = 1.79 at a rate of 1, and up to 5.86 at 0.1.  Longer
changes may raise it.  Hessians then fall towards 0, and steps grow from round to round, up to 1e16.
Penalties bound these steps: by the sum of the gradients of a leaf, if ``reg_lambda`` is 1.  For
probabilities this is enough, as their gradients are at most 1, but log means need low rates, too.
The sum is at most the total weight, so for large weights a penalty of 1 is next to none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.kernels.primitives.exact_sum import ExactSum, exact_sum

LONGEST_STEP = 16.0
"""Limit on the step of a leaf with rows of one class, whose loss has no minimum.

A raw score of 16 is a probability of 1 - 1e-7.
"""

FAR_RATIO = 500.0
"""Ratio of a target to the mean from which on Newton steps in log means have a limit."""

SAFE_RATE = 0.3 + 1e-9  # the rate of parallel trees is divided by their number and multiplied again
"""Learning rate up to which penalties alone bound the steps of log means."""

PENALIZED_WEIGHT = 100_000.0
"""Total weight of the rows up to which a penalty of 1 bounds the steps.

The total, and not the largest weight, because a row of weight k must act like k rows.
"""

_STEPS = 100
_CLOSE = 1e-12
PLAY = 1e-7
"""Share of a leaf's weight that is ignored in comparisons.  Weights of sampled rows come from
rounded gradients.  With MVS and a loss of constant derivative, all rows of a leaf have the same
weight, so the cumulative weight often equals the level except for rounding."""
_UNIT_BITS = 46


def unit_of(total: ExactSum | int) -> float:
    """Return the unit for integer weights whose sums must not be rounded."""
    # It is that of all rows of a fit, sampled or not, and about 2**46 units, so weights of sampled
    # rows may be some thousand times as large.
    mass = float(total)
    return math.ldexp(1.0, math.frexp(mass)[1] - _UNIT_BITS)


def masses_of(weight: FloatArray, unit: float) -> IntArray:
    """Return weights in units, at least one each."""
    return np.maximum(np.rint(weight / unit), 1.0).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class QuantileRule:
    """Leaves whose step is a quantile of the steps of their rows.

    Rows on ranks use the same rule (:mod:`hedgerow.boosting.loop.rank_leaves`).
    """

    # best step of each row, from its target and its raw score for the output
    wanted: Callable[[FloatArray, FloatArray], FloatArray]
    level: float | None  # None: the share of class 1 in the weight of the leaf
    divisor: Callable[[FloatArray], FloatArray] | None = None  # of the weights, from the target

    def weights(self, target: FloatArray, weight: FloatArray) -> FloatArray:
        """Return the weights of the rows in the quantile."""
        return weight if self.divisor is None else weight / self.divisor(target)


Slopes: TypeAlias = "tuple[FloatArray, FloatArray]"
"""First and second derivatives of the losses of some rows."""


@dataclass(frozen=True, slots=True, eq=False)
class RootRule:
    """Leaves whose step is the root of the sum of the first derivatives of their rows.

    The functions take targets and raw scores (n_outputs, n_rows) of some rows.
    """

    # returns a function from the step of each row to their derivatives, unweighted; the first must
    # not decrease as the step grows
    slopes: Callable[[FloatArray, FloatArray], Callable[[FloatArray], Slopes]]
    # returns a step for each row: the root is between the smallest and the largest of a leaf; None:
    # it is at most ``LONGEST_STEP`` from 0
    reach: Callable[[FloatArray, FloatArray], FloatArray] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SumsRule:
    """Leaves whose step is a function of sums over their rows."""

    # from targets and raw scores (n_outputs, n_rows) to the values that are summed, unweighted
    values: Callable[[FloatArray, FloatArray], Sequence[FloatArray]]
    step: Callable[..., FloatArray]  # from the weighted sums of each leaf, one for each value


LeafRule: TypeAlias = QuantileRule | RootRule | SumsRule
"""The rule by which a loss finds leaf values; an objective with one has ``leaf_rule(output)``."""


def root_rule(
    slopes: Callable[[FloatArray, FloatArray], Slopes],
    output: int,
    reach: Callable[[FloatArray, FloatArray], FloatArray] | None = None,
) -> RootRule:
    """Return the rule of a loss whose ``slopes`` take targets and raw scores of one output."""
    return RootRule(lambda target, raw: lambda step: slopes(target, raw[output] + step), reach)


def mean_rule(values: Callable[[FloatArray, FloatArray], FloatArray]) -> SumsRule:
    """Return the rule of leaves whose step is the weighted mean of ``values(target, raw)``."""

    def summed(target: FloatArray, raw: FloatArray) -> Sequence[FloatArray]:
        return values(target, raw), np.ones(len(target))

    return SumsRule(summed, lambda above, below: above / below)


def log_ratio_rule(
    values: Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]], factor: float = 1.0
) -> SumsRule:
    """Return the rule of a loss whose steps are the logarithm of the ratio of two sums."""

    def step(above: FloatArray, below: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            steps = factor * (np.log(above) - np.log(below))
        return np.clip(steps, -LONGEST_STEP, LONGEST_STEP)

    return SumsRule(values, step)


@dataclass(frozen=True, slots=True, eq=False)
class LeafRows:
    """The rows of a tree, grouped by leaf."""

    target: FloatArray
    raw: FloatArray  # (n_outputs, n_rows); scores before the tree
    weight: FloatArray
    starts: IntArray  # first row of each leaf, and the number of rows; no leaf is empty
    unit: float = 0.0  # see :func:`unit_of`; 0 means the unit of these rows

    def sums(self, values: FloatArray) -> FloatArray:
        """Return the weighted sum of ``values`` in each leaf."""
        return np.asarray(np.add.reduceat(values * self.weight, self.starts[:-1]))

    def quantiles(self, values: FloatArray, level: FloatArray | float) -> FloatArray:
        """Return the weighted quantile of ``values`` in each leaf; ``level`` may differ."""
        # The smallest value at which the cumulative weight reaches ``level`` of the total; at
        # equality the midpoint to the next value.  It is never -0.0, which would depend on the
        # order of the rows.  Sums of integer units are not rounded, so ranks agree.
        found = np.empty(len(self.starts) - 1)
        levels = np.full(len(found), level)
        masses = masses_of(self.weight, self.unit or unit_of(exact_sum(self.weight)))
        alike = bool((masses == masses[0]).all()) if len(masses) > 0 else True
        for leaf, (start, stop) in enumerate(zip(self.starts, self.starts[1:], strict=False)):
            if alike:
                found[leaf] = _quantile_alike(values[start:stop], int(masses[0]), levels[leaf])
                continue
            order = np.argsort(values[start:stop])  # the order of equal values does not matter
            ordered = values[start:stop][order]
            below = np.cumsum(masses[start:stop][order]).astype(np.float64)
            least, most = around(below[-1:], levels[leaf])
            at = int(np.searchsorted(below, least[0]))
            after = int(np.searchsorted(ordered, ordered[at], side="right"))
            exact = below[after - 1] <= most[0] and after < len(ordered)
            found[leaf] = 0.5 * (ordered[at] + ordered[after]) if exact else ordered[at]
        return found + 0.0

    def steps_by(self, rule: LeafRule, output: int) -> FloatArray:
        """Return the step of each leaf according to a rule."""
        if isinstance(rule, SumsRule):
            return rule.step(*map(self.sums, rule.values(self.target, self.raw)))
        if isinstance(rule, RootRule):
            slopes = rule.slopes(self.target, self.raw)
            if rule.reach is None:
                return self.search(slopes)
            reach, starts = rule.reach(self.target, self.raw), self.starts[:-1]
            ends = np.minimum.reduceat(reach, starts), np.maximum.reduceat(reach, starts)
            return self.search(slopes, *ends)
        rows = self
        if rule.divisor is not None:  # the unit follows the divided weights
            rows = replace(self, weight=rule.weights(self.target, self.weight), unit=0.0)
        level: FloatArray | float = rows.shares() if rule.level is None else rule.level
        return rows.quantiles(rule.wanted(self.target, self.raw[output]), level)

    def shares(self) -> FloatArray:
        """Return the share of class 1 in the weight of each leaf, from sums in units."""
        masses = masses_of(self.weight, self.unit or unit_of(exact_sum(self.weight)))
        of_one = np.add.reduceat(np.where(self.target > 0.0, masses, 0), self.starts[:-1])
        return share_of(of_one, np.add.reduceat(masses, self.starts[:-1]))

    def search(
        self,
        slopes: Callable[[FloatArray], Slopes],
        lowest: FloatArray | float = -LONGEST_STEP,
        highest: FloatArray | float = LONGEST_STEP,
    ) -> FloatArray:
        """Return the root of the sum of the first derivatives in each leaf."""
        n_leaves, sizes = len(self.starts) - 1, np.diff(self.starts)
        low: FloatArray = np.full(n_leaves, lowest)
        high: FloatArray = np.full(n_leaves, highest)
        step = np.clip(np.zeros(n_leaves), low, high)
        for _ in range(_STEPS):
            slope, curvature = map(self.sums, slopes(np.repeat(step, sizes)))
            high = np.where(slope > 0.0, step, high)
            low = np.where(slope < 0.0, step, low)
            with np.errstate(all="ignore"):
                proposed = step - slope / curvature
            inside = (proposed > low) & (proposed < high)
            # At a root the Newton step may round to the present step, which is an end of the
            # interval: bisection would leave the root again.
            at_root = np.abs(proposed - step) <= _CLOSE * np.maximum(1.0, np.abs(step))
            inside |= at_root & (proposed >= low) & (proposed <= high)
            following = np.where(inside, proposed, 0.5 * (low + high))
            following = np.where(slope == 0.0, step, following)
            moved = np.abs(following - step)
            step = following
            if (moved <= _CLOSE * np.maximum(1.0, np.abs(step))).all():
                break
        return step


def _quantile_alike(values: FloatArray, mass: int, level: float) -> float:
    """Return the quantile of values of equal weight ``mass`` by selection, without sorting."""
    # Most tables have no weights, and selection takes linear time.
    bounds = around(np.array([float(len(values) * mass)]), level)
    least, most = float(bounds[0][0]), float(bounds[1][0])
    at = min(int(least // mass), len(values) - 1)
    while at > 0 and float(at * mass) >= least:
        at -= 1
    while float((at + 1) * mass) < least and at < len(values) - 1:
        at += 1
    chosen = float(np.partition(values, at)[at])
    after = int(np.count_nonzero(values <= chosen))
    if float(after * mass) <= most and after < len(values):
        return 0.5 * (chosen + float(values[values > chosen].min()))
    return chosen


def share_of(of_one: IntArray, whole: IntArray) -> FloatArray:
    """Return the share of class 1 in the weight, from sums in units."""
    return of_one.astype(np.float64) / np.maximum(whole, 1).astype(np.float64)


def residuals(target: FloatArray, raw: FloatArray) -> FloatArray:
    """Return residuals: the best steps for losses of ``|y - raw|``."""
    return target - raw


def around(whole: FloatArray, level: FloatArray | float) -> tuple[FloatArray, FloatArray]:
    """Return the two sums of weights between which ``level`` is reached exactly."""
    goal, play = level * whole, PLAY * whole
    return np.maximum(goal - play, 1.0), goal + play


@lru_cache(maxsize=64)
def descending_step(rate: float) -> float:
    """Return the longest step, before the learning rate, that surely lowers the loss of a leaf."""
    # Rates above 1 are too large for any such step: the change is then that of a rate of 1.  A
    # rate of 0 means that steps do not add up, as in a random forest; then there is no limit.
    if rate == 0.0:
        return math.inf
    share = min(rate, 1.0)
    low, high = 0.0, 1.0
    while math.exp(high) < 1.0 + high + high * high / share:
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        if math.exp(middle) < 1.0 + middle + middle * middle / share:
            low = middle
        else:
            high = middle
    return low / rate


def limit_without_penalty(reg_lambda: float, rate: float) -> float:
    """Return the limit on steps of logits; ``reg_lambda`` from 1 on bounds them, too."""
    return math.inf if reg_lambda >= 1.0 else descending_step(rate)
