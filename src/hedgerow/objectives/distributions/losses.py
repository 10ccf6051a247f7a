"""Losses that learn a distribution for each row: all of its parameters are boosted.

=================  =====================================  ====================  ==========
name               raw scores of a row                    loss: -log density    targets
=================  =====================================  ====================  ==========
normal             location, log scale                    of y                  all
log_normal         the same of log y                      of y                  above 0
gamma_dist         log mean, log shape                    of y                  above 0
negative_binomial  log mean, log size                     of the count y        0, 1, ...
=================  =====================================  ====================  ==========

(``poisson`` has one parameter, its mean, so it is an ordinary objective.)

The step is the *natural gradient* (Duan et al., NGBoost, 2020): the gradient of
the loss times the inverse of the Fisher information F, which is diagonal for these
parameters.  So a step does not depend on the parametrisation of the distribution.
There are two ways to take the step::

    mean of the steps of rows      g = gradient / F    h = 1     leaf = mean(gradient / F)
    expected information           g = gradient        h = F     leaf = sum(gradient) / sum(F)

``normal`` and ``log_normal`` use the first.  With the second, ``reg_lambda`` and
``min_child_weight`` would have the unit 1 / target**2, and the hessians would have to be
summed; with a suitable unit both do about as well.  ``gamma_dist`` and
``negative_binomial`` use the second: their information has no unit.  A count of mean
0.01 says almost nothing about its parameters, so its own natural gradient is noise.
``benchmarks/uncertainty.py`` compares both ways on real data.

The step of scale and shape is half as long as the step of the mean.  Scales are learned from
the residuals of training rows, which are too small.  With full steps the model would become
overconfident and stop before it has learned the mean.

Outputs are not coupled: the second tree of a round uses the scores after the first.  So
rows in chunks need no extra storage and give the same bytes.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import betaln, digamma, gammaln

from hedgerow.arrays import FloatArray
from hedgerow.objectives import line_search as ls
from hedgerow.objectives.base import LossRows, RowLoss
from hedgerow.objectives.derivatives import SMALLEST_HESSIAN
from hedgerow.objectives.distributions import predicted
from hedgerow.objectives.domain import LOWEST_MEAN, POSITIVE, Domain, refuse_first
from hedgerow.objectives.global_sums import AllRows, root_of_mean
from hedgerow.objectives.line_search import limit_of_log_means
from hedgerow.params import Interval

_MOST_COUNTED = 1e15
"""float64 represents whole numbers up to here."""

_FARTHEST_SCALE = 250.0
"""Logarithms of scales are clipped here."""
_FARTHEST_RATE = 300.0
"""Logarithms of means are clipped here."""
_FARTHEST_SHAPE = 15.0
"""Logarithms of shapes and sizes are clipped here.

A gamma distribution of shape exp(15) is nearly normal, and a negative binomial distribution of
this size is nearly Poisson.
"""
_SQUARE = 81.0
"""Limit on the squared distance of a row from its location, in scales.

A scale that is far too small then grows over a few rounds, not in one step.
"""
_LONGEST = 20.0
"""Limit on derivatives in log shapes and sizes, whose information is at most 1."""
_TRIGAMMA_STEPS = 10
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_NARROWEST = 1e-8
"""Least initial scale, as a share of the location, because all targets may be equal."""


class DistributionLoss(RowLoss):
    """Base class: minus the log density of each row; two raw scores.

    ``raw_names`` are the names of the two raw scores.
    """

    raw_names: ClassVar[tuple[str, str]] = ("location", "log scale")
    n_outputs: int = 2

    def __post_init__(self) -> None:
        # make_objective passes the number of classes, which this objective ignores.
        object.__setattr__(self, "n_outputs", 2)

    @abstractmethod
    def distribution(self, raw: FloatArray) -> predicted.Distribution:
        """Return the distribution of each row, for raw scores of shape (2, n_rows)."""

    def predict(self, raw: FloatArray) -> FloatArray:
        """Return the mean of the distribution."""
        return self.distribution(raw).mean

    @abstractmethod
    def slopes_of(self, target: FloatArray, raw: FloatArray, output: int) -> ls.Slopes:
        """Return the first and second derivative of each row in the raw score of an output."""

    def leaf_rule(self, output: int) -> ls.LeafRule:
        return ls.root_rule_of_scores(self.slopes_of, output)


@dataclass(frozen=True, slots=True)
class NormalLoss(DistributionLoss):
    """Location and log scale; F is ``1 / scale**2`` and 2."""

    name: ClassVar[str] = "normal"
    squares: ClassVar[bool] = True
    constant_hessian: ClassVar[bool] = True
    n_outputs: int = 2

    def compared(self, target: FloatArray) -> FloatArray:
        """Return the normally distributed values: the targets themselves."""
        return target

    def distribution(self, raw: FloatArray) -> predicted.Distribution:
        return predicted.Normal(raw[0], np.exp(_clipped(raw[1], _FARTHEST_SCALE)))

    def start_of(self, rows: AllRows) -> FloatArray:
        """Return the mean and the log of the standard deviation."""
        first = self.compared
        origin = rows.center() if first(np.ones(1))[0] == 1.0 else rows.mean(first)
        variance = rows.mean(lambda target: (first(target) - origin) ** 2)
        least = max(_NARROWEST * abs(origin), math.exp(-_FARTHEST_SCALE))
        return np.array([origin, math.log(max(math.sqrt(variance), least))])

    def _far(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        """Return the distance from the location in scales."""
        with np.errstate(over="ignore"):
            far = (self.compared(target) - raw[0]) * np.exp(-_clipped(raw[1], _FARTHEST_SCALE))
        return np.clip(far, -1e70, 1e70)

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        far = self._far(target, raw)
        scale = _clipped(raw[1], _FARTHEST_SCALE)
        return np.asarray(0.5 * far * far + scale + predicted.HALF_LOG_2PI)

    def derivatives(self, rows: LossRows, output: int, g: FloatArray, h: FloatArray) -> None:
        h[:] = 1.0
        if output == 0:
            np.subtract(rows.raw[0], self.compared(rows.target), out=g)
        else:
            far = self._far(rows.target, rows.raw)
            g[:] = 0.25 * (1.0 - np.minimum(far * far, _SQUARE))

    def slopes_of(self, target: FloatArray, raw: FloatArray, output: int) -> ls.Slopes:
        far = self._far(target, raw)
        if output == 1:
            return 1.0 - far * far, 2.0 * far * far
        precision = np.exp(-_clipped(raw[1], 0.5 * _FARTHEST_SCALE))
        return -far * precision, precision * precision

    def leaf_rule(self, output: int) -> ls.LeafRule:
        """Return the rule: means weighted by precision, or log root mean squares in scales."""

        def of_location(target: FloatArray, raw: FloatArray) -> Sequence[FloatArray]:
            precision = np.exp(-2.0 * _clipped(raw[1], 0.5 * _FARTHEST_SCALE))
            return (self.compared(target) - raw[0]) * precision, precision

        def of_scale(target: FloatArray, raw: FloatArray) -> Sequence[FloatArray]:
            return self._far(target, raw) ** 2, np.ones(len(target))

        if output == 0:
            return ls.SumsRule(of_location, lambda above, below: above / below)
        return ls.SumsRule(of_scale, _log_root)


@dataclass(frozen=True, slots=True)
class LogNormalLoss(NormalLoss):
    """The normal loss of the logarithm, as a density of the target itself."""

    name: ClassVar[str] = "log_normal"
    domain: ClassVar[Domain] = POSITIVE
    n_outputs: int = 2

    def compared(self, target: FloatArray) -> FloatArray:
        return np.log(target)

    def distribution(self, raw: FloatArray) -> predicted.Distribution:
        return predicted.LogNormal(raw[0], np.exp(_clipped(raw[1], _FARTHEST_SCALE)))

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        return NormalLoss.losses(self, target, raw) + np.log(target)


@dataclass(frozen=True, slots=True)
class LogMeanLoss(DistributionLoss):
    """Base class of losses whose first raw score is the logarithm of the mean.

    The Newton step of a leaf in a log mean is the ratio of targets and means, minus 1, but the best
    step is about its logarithm.  Without penalties, hessians of nearly 0 make steps longer, too.
    """

    longest_line: ClassVar[float] = ls.LONGEST_STEP
    _unit: ClassVar[float] = 0.0
    n_outputs: int = 2

    def needs_limit(self, rows: AllRows) -> bool:
        """Return whether a target is far above the mean."""
        return rows.extent()[1] > ls.FAR_RATIO * (self._unit + rows.mean())

    def step_limit(self, reg_lambda: float, rate: float) -> float:
        limit = limit_of_log_means(reg_lambda, rate)
        return min(limit, ls.LONGEST_STEP) if self.has_far_targets or reg_lambda < 1.0 else limit


@dataclass(frozen=True, slots=True)
class GammaLoss(LogMeanLoss):
    """Log mean and log shape k; F is ``k`` and ``k (k trigamma(k) - 1)``, from 1/2 to 1."""

    name: ClassVar[str] = "gamma_dist"
    domain: ClassVar[Domain] = POSITIVE
    raw_names: ClassVar[tuple[str, str]] = ("log mean", "log shape")

    def distribution(self, raw: FloatArray) -> predicted.Distribution:
        return predicted.Gamma(np.exp(_clipped(raw[0], _FARTHEST_RATE)), _shape_of(raw))

    def start_of(self, rows: AllRows) -> FloatArray:
        mean = rows.mean()
        gap = math.log(mean) - rows.mean(np.log)
        return np.array([math.log(mean), _log_shape_of_gap(gap)])

    @staticmethod
    def _far(target: FloatArray, raw: FloatArray) -> FloatArray:
        """Return the log of target over mean."""
        return np.minimum(np.log(target) - _clipped(raw[0], _FARTHEST_RATE), 200.0)

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        far, shape = self._far(target, raw), _shape_of(raw)
        own = shape - shape * np.log(shape) + gammaln(shape)
        return np.asarray(shape * (np.expm1(far) - far) + own + np.log(target))

    def _slope_of_shape(self, target: FloatArray, raw: FloatArray) -> ls.Slopes:
        """Return the derivative of the loss in log shape, and its information."""
        far, shape = self._far(target, raw), _shape_of(raw)
        slope = shape * (np.expm1(far) - far - np.log(shape) + digamma(shape))
        return slope, shape * (shape * trigamma(shape) - 1.0)

    def derivatives(self, rows: LossRows, output: int, g: FloatArray, h: FloatArray) -> None:
        if output == 0:
            h[:] = _shape_of(rows.raw)
            g[:] = -h * np.expm1(self._far(rows.target, rows.raw))
        else:
            slope, information = self._slope_of_shape(rows.target, rows.raw)
            np.clip(slope, -_LONGEST, _LONGEST, out=g)
            np.multiply(information, 2.0, out=h)

    def slopes_of(self, target: FloatArray, raw: FloatArray, output: int) -> ls.Slopes:
        if output == 1:
            slope, information = self._slope_of_shape(target, raw)
            return slope, slope + information
        shape, ratio = _shape_of(raw), np.exp(self._far(target, raw))
        return shape * (1.0 - ratio), shape * ratio


@dataclass(frozen=True, slots=True)
class NegativeBinomialLoss(LogMeanLoss):
    """Log mean m and log size r; F is ``m r / (m + r)`` and :func:`size_information`."""

    name: ClassVar[str] = "negative_binomial"
    domain: ClassVar[Domain] = Interval(0.0, _MOST_COUNTED)
    _unit: ClassVar[float] = 1.0
    raw_names: ClassVar[tuple[str, str]] = ("log mean", "log size")

    def check_target(
        self, target: FloatArray, first_row: int = 0, origin: FloatArray | None = None
    ) -> None:
        DistributionLoss.check_target(self, target, first_row, origin)
        refuse_first(
            target != np.floor(target), target, first_row,
            f"objective {self.name!r} needs counts, which are whole numbers; row {{row}} holds "
            "{value}: use 'gamma_dist' for amounts.",
        )  # fmt: skip

    def distribution(self, raw: FloatArray) -> predicted.Distribution:
        return predicted.NegativeBinomial(np.exp(_clipped(raw[0], _FARTHEST_RATE)), _shape_of(raw))

    def start_of(self, rows: AllRows) -> FloatArray:
        """Return log mean and most likely log size; counts with little variance get the largest."""
        mean = rows.mean()
        variance = rows.mean(lambda target: (target - mean) ** 2)
        log_mean = math.log(max(mean, LOWEST_MEAN))
        if variance <= mean:
            return np.array([log_mean, _FARTHEST_SHAPE])

        def slopes(target: FloatArray, size: FloatArray) -> ls.Slopes:
            return self.slopes_of(target, np.stack([np.full(len(target), log_mean), size]), 1)

        start = math.log(mean) - math.log((variance - mean) / mean)
        far = _FARTHEST_SHAPE
        return np.array([log_mean, root_of_mean(rows, slopes, start, (-far, far))])

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        log_m, size = _clipped(raw[0], _FARTHEST_RATE), _shape_of(raw)
        more = np.log1p(np.exp(log_m) / size)
        ways = -betaln(size, target + 1.0) - np.log(target + size)
        return np.asarray(size * more - target * (log_m - np.log(size) - more) - ways)

    def derivatives(self, rows: LossRows, output: int, g: FloatArray, h: FloatArray) -> None:
        mean, size = np.exp(_clipped(rows.raw[0], _FARTHEST_RATE)), _shape_of(rows.raw)
        if output == 0:
            share = size / (size + mean)
            g[:] = share * (mean - rows.target)
            np.maximum(share * mean, SMALLEST_HESSIAN, out=h)
        else:
            np.clip(_slope_of_size(rows.target, mean, size), -_LONGEST, _LONGEST, out=g)
            np.maximum(2.0 * size_information(mean, size), SMALLEST_HESSIAN, out=h)

    def slopes_of(self, target: FloatArray, raw: FloatArray, output: int) -> ls.Slopes:
        mean, size = np.exp(_clipped(raw[0], _FARTHEST_RATE)), _shape_of(raw)
        total = size + mean
        if output == 0:
            return size * (mean - target) / total, size * mean * ((size + target) / total) / total
        gap = (mean - target) / total
        bend = trigamma(target + size) - trigamma(size) + mean / size / total - gap / total
        slope = _slope_of_size(target, mean, size)
        return slope, slope - size * size * bend


def _slope_of_size(target: FloatArray, mean: FloatArray, size: FloatArray) -> FloatArray:
    """Return the derivative of the loss in the log size of a negative binomial distribution."""
    gap = (mean - target) / (size + mean)
    inner = digamma(target + size) - digamma(size) - np.log1p(mean / size) + gap
    return np.asarray(-size * inner)


def size_information(mean: FloatArray, size: FloatArray) -> FloatArray:
    """Approximate the Fisher information of the log size of a negative binomial distribution.

    The information is a series without closed form.  It is ``m**2 / (2 r (r + 1))`` for
    small means and ``r (r trigamma(r) - 1)`` for large ones.  This function interpolates:
    ``(small**-0.5 + large**-0.5)**-2``.  In between it is too large, by a factor of at most 1.2
    for sizes of 1 or more and 1.9 for sizes of 0.3 or more, which makes steps shorter.
    """
    small = 0.5 * mean / size * (mean / (size + 1.0))
    large = size * (size * trigamma(size) - 1.0)
    return np.asarray(small / (1.0 + np.sqrt(small / large)) ** 2)


def _log_root(squares: FloatArray, weight: FloatArray) -> FloatArray:
    """Return logarithms of root mean squares, the steps of log scales."""
    with np.errstate(divide="ignore"):
        steps = 0.5 * np.log(squares / weight)
    return np.clip(steps, -ls.LONGEST_STEP, ls.LONGEST_STEP)


def _clipped(raw: FloatArray, most: float) -> FloatArray:
    return np.clip(raw, -most, most)


def _shape_of(raw: FloatArray) -> FloatArray:
    """Return the shape or size from its logarithm, the second raw score."""
    return np.asarray(np.exp(_clipped(raw[1], _FARTHEST_SHAPE)))


def _log_shape_of_gap(gap: float) -> float:
    """Return the log of the shape k with ``log k - digamma(k) = gap``, by bisection."""
    low, high = -_FARTHEST_SHAPE, _FARTHEST_SHAPE
    for _ in range(80):
        middle = 0.5 * (low + high)
        is_above = gap - (middle - float(digamma(math.exp(middle)))) > 0.0
        low, high = (low, middle) if is_above else (middle, high)
    return 0.5 * (low + high)


def trigamma(x: FloatArray) -> FloatArray:
    """Return the second derivative of ``log gamma(x)``, for positive numbers.

    SciPy's, which is a zeta function, takes several times as long.  ``trigamma(x) = 1 / x**2 +
    trigamma(x + 1)`` leads to numbers of 10 and more, where the asymptotic series ``1 / z +
    1 / (2 z**2) + sum over k of B(2 k) / z**(2 k + 1)`` has full precision.
    """
    inverse = 1.0 / (x + float(_TRIGAMMA_STEPS))
    square = inverse * inverse
    series = np.full(np.shape(x), _BERNOULLI[-1])
    for number in reversed(_BERNOULLI[:-1]):
        series *= square
        series += number
    total = inverse * (1.0 + inverse * (0.5 + inverse * series))
    for step in reversed(range(_TRIGAMMA_STEPS)):  # the smallest terms first
        at = x + float(step)
        at *= at
        total += np.divide(1.0, at, out=at)
    return np.asarray(total)
