"""Accelerated failure time: ``log t = raw + scale * z``, z of a known distribution.

Rows have an interval that holds their time (Barnwal, Cho and Hocking 2022)::

    lower == upper      the time itself          -log density
    upper == inf        censored on the right    -log P(t > lower)
    lower == 0          censored on the left     -log P(t <= upper)
    else                between two visits       -log P(lower < t <= upper)

With z = (log t - raw) / scale, r = density / P and k = d log density / dz at both ends::

    g = (r_u - r_l) / scale        h = ((r_u - r_l)**2 - k_u r_u + k_l r_l) / scale**2

All three distributions are log-concave, so h is not negative.  P, r and h are computed
from the tail in which the interval lies.

Targets are two columns, lower and upper.  One column of times means intervals of a single
time; a minus sign marks a censored row, whose interval ends at infinity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from scipy.special import erfcx, expit, log_expit, log_ndtr

from hedgerow.argument_types import is_one_of
from hedgerow.arrays import FloatArray
from hedgerow.errors import DataError, ParameterError, brief
from hedgerow.objectives.base import RowLoss, check_number
from hedgerow.objectives.distributions.predicted import HALF_LOG_2PI
from hedgerow.objectives.domain import LARGEST
from hedgerow.objectives.global_sums import AllRows, root_of_mean
from hedgerow.objectives.line_search import (
    LONGEST_STEP,
    LeafRule,
    Slopes,
    descending_step,
    root_rule,
)
from hedgerow.params import Interval

Distribution = Literal["normal", "logistic", "extreme"]

_NARROW = 1e-3
"""Width in z below which intervals use the density at their midpoint.

The differences in the formulas would lose too many digits.
"""
_FARTHEST = 1e5
"""z is clipped to this range, so that its square keeps its digits."""
_FARTHEST_EXTREME = 190.0
"""Limit on z for the extreme value distribution, which squares exp(z)."""
_ROOT_2_OVER_PI = math.sqrt(2.0 / math.pi)
_LEAST_LOG = -1e300


@dataclass(frozen=True, slots=True)
class AcceleratedFailureTime(RowLoss):
    """Negative log-likelihood of times that may be censored."""

    name: ClassVar[str] = "aft"
    scored_as: ClassVar[str] = "survival"
    risk_sign: ClassVar[float] = -1.0
    n_outputs: int = 1
    aft_distribution: Distribution = "normal"
    aft_scale: float = 1.0

    def __post_init__(self) -> None:
        known = get_args(Distribution)
        if not is_one_of(self.aft_distribution, known):
            raise ParameterError(
                f"aft_distribution must be one of {', '.join(map(repr, known))}; "
                f"got {brief(self.aft_distribution)}."
            )
        check_number(self.aft_scale, "aft_scale", Interval(1e-6, 1e6))

    def check_target(
        self, target: FloatArray, first_row: int = 0, origin: FloatArray | None = None
    ) -> None:
        lower, upper = intervals_of(target)
        smallest, largest = 1.0 / LARGEST, LARGEST
        inside = (lower == 0.0) | ((lower >= smallest) & (lower <= largest))
        inside &= (upper == np.inf) | ((upper >= smallest) & (upper <= largest))
        inside &= (lower <= upper) & ((lower > 0.0) | (upper < np.inf))
        if not inside.all():
            row = int(np.argmin(inside))
            raise DataError(
                f"objective 'aft' needs intervals with lower <= upper, in [{smallest:g}, "
                f"{largest:g}], or lower = 0 (censored on the left), or upper = inf (censored on "
                f"the right); row {first_row + row} holds {float(lower[row])!r} to "
                f"{float(upper[row])!r}."
            ).at(first_row + row)

    def slopes(self, target: FloatArray, raw: FloatArray) -> Slopes:
        ends, name, scale = self._ends(target, raw), self.aft_distribution, self.aft_scale
        slope, curve = _point(ends.middle, name)
        of_low, of_high, second = _interval(ends.low, ends.high, name)
        with np.errstate(invalid="ignore"):
            first = np.where(ends.exact, slope, of_high - of_low)
        second = np.where(ends.exact, curve, second)
        return first / scale, np.maximum(second, 0.0) / (scale * scale)

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        ends = self._ends(target, raw[0])
        lower, upper = intervals_of(target)
        density = _log_density(ends.middle, self.aft_distribution)
        with np.errstate(divide="ignore", invalid="ignore"):
            # Known times have a density in t, other intervals a probability.
            known = -np.log(self.aft_scale * lower)
            measure = np.where(lower == upper, known, np.log(ends.width))
        log_p = _log_probability(ends.low, ends.high, self.aft_distribution)
        return np.asarray(-np.where(ends.exact, density + measure, log_p))

    def _ends(self, target: FloatArray, raw: FloatArray) -> _Ends:
        lower, upper = intervals_of(target)
        with np.errstate(divide="ignore"):
            low = (np.log(lower) - raw) / self.aft_scale
            high = (np.log(upper) - raw) / self.aft_scale
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            width = np.log1p((upper - lower) / lower) / self.aft_scale
            # Both ends are clipped together, so that a distant interval keeps its width.
            most = _FARTHEST_EXTREME if self.aft_distribution == "extreme" else _FARTHEST
            low, high = low - np.maximum(low - most, 0.0), high - np.maximum(low - most, 0.0)
            low, high = low - np.minimum(high + _FARTHEST, 0.0), np.maximum(high, -_FARTHEST)
        low = np.where(lower == 0.0, -np.inf, np.maximum(low, -2.0 * _FARTHEST))
        exact = width < _NARROW
        return _Ends(low, high, width, exact, np.where(exact, 0.5 * low + 0.5 * high, 0.0))

    def start_of(self, rows: AllRows) -> FloatArray:
        """Return the root of the mean first derivative, between the smallest and largest time."""
        lower, upper = intervals_of(rows.target)
        ends = np.concatenate([lower[lower > 0.0], upper[upper < np.inf]])
        first, last = replace(rows, target=np.log(ends)).extent()
        far = LONGEST_STEP * self.aft_scale
        low, high = first - far, last + far
        return np.array([root_of_mean(rows, self.slopes, 0.5 * (low + high), (low, high))])

    def predict(self, raw: FloatArray) -> FloatArray:
        """Return the time ``exp(raw)``, the median of the normal and logistic distributions."""
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(raw[0]))

    def step_limit(self, reg_lambda: float, rate: float) -> float:
        """Return the limit on steps, in scales; steps of the normal distribution need none."""
        # Gradients rise as the scale falls: at a scale of 0.5, a rate of 0.1 and a penalty of 1 the
        # first round of the extreme distribution raised the loss to 1e47.
        if self.aft_distribution == "normal":
            return math.inf
        return self.aft_scale * descending_step(rate)

    def leaf_rule(self, output: int) -> LeafRule:
        return root_rule(self.slopes, output)

    def survival(self, raw: FloatArray, times: FloatArray) -> FloatArray:
        """Return the probability of no event up to each of ``times``, shape (n_rows, n_times)."""
        with np.errstate(divide="ignore"):
            z = (np.log(times)[None, :] - raw[:, None]) / self.aft_scale
        return np.asarray(np.exp(_log_above(z, self.aft_distribution)))


@dataclass(frozen=True, slots=True, eq=False)
class _Ends:
    """z at both ends and in the middle, the width in z, and whether the width is negligible."""

    low: FloatArray
    high: FloatArray
    width: FloatArray
    exact: Any
    middle: FloatArray


def intervals_of(target: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper ends."""
    if target.ndim == 2:
        return target[:, 0], target[:, 1]
    time = np.abs(target)
    return time, np.where(target > 0.0, time, np.inf)


def _log_probability(low: FloatArray, high: FloatArray, name: Distribution) -> FloatArray:
    """Return log P(low < z <= high), computed from the tail in which the interval lies."""
    right = low > 0.0
    nearer = np.where(right, _log_above(low, name), _log_below(high, name))
    less, rest = _shares(low, high, name)
    with np.errstate(divide="ignore", invalid="ignore"):
        # The log of 1 - less; rest equals 1 - less with full precision where less is near 1.
        found = nearer + np.where(less < 0.5, np.log1p(-less), np.log(rest))
    return np.maximum(np.nan_to_num(found, nan=_LEAST_LOG), _LEAST_LOG)


def _shares(low: FloatArray, high: FloatArray, name: Distribution) -> tuple[FloatArray, FloatArray]:
    """Return the share of the nearer end's tail behind the other end, and one minus the share."""
    right = low > 0.0
    with np.errstate(invalid="ignore"):
        above = _log_above(high, name) - _log_above(low, name)
        below = _log_below(low, name) - _log_below(high, name)
        log_share = np.minimum(np.nan_to_num(np.where(right, above, below), nan=0.0), 0.0)
    return np.exp(log_share), np.maximum(-np.expm1(log_share), 1e-300)


def _interval(
    low: FloatArray, high: FloatArray, name: Distribution
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return r at both ends and scale**2 times h, for intervals of some width."""
    # Hazards at the end in the thicker part, and shares of its tail, never subtract large numbers.
    right = low > 0.0
    share, rest = _shares(low, high, name)
    near, far = np.where(right, low, high), np.where(right, high, low)
    hazard, bend = _hazard(near, right, name)
    of_far, _ = _hazard(far, right, name)
    slope_far = np.where(np.isinf(far), 0.0, _point(np.where(np.isinf(far), 0.0, far), name)[0])
    with np.errstate(invalid="ignore", over="ignore"):  # results of points are not used
        r_near = np.where(np.isinf(near), 0.0, hazard / rest)
        r_far = np.where((share == 0.0) | np.isinf(far), 0.0, of_far * share / rest)
        sign = np.where(right, 1.0, -1.0)
        second = r_near * (bend + hazard * share / rest)
        second += r_far * (r_far - 2.0 * r_near - sign * slope_far)
    return np.where(right, r_near, r_far), np.where(right, r_far, r_near), second


def _hazard(z: FloatArray, right: Any, name: Distribution) -> tuple[FloatArray, FloatArray]:
    """Return the density over the tail above (``right``) or below z, and its growth."""
    # ``hazard + k`` above, ``hazard - k`` below, with k the slope of log density, not cancelling.
    z = np.where(np.isinf(z), 0.0, z)
    if name == "normal":
        outward = np.where(right, z, -z)
        hazard = _ROOT_2_OVER_PI / erfcx(outward * math.sqrt(0.5))
        return hazard, hazard - outward
    if name == "logistic":
        outward = np.where(right, z, -z)
        return expit(outward), expit(-outward)
    e = _exp(z)
    with np.errstate(over="ignore", invalid="ignore"):
        below = np.where(e < 1e-5, 1.0 - 0.5 * e, e / np.expm1(np.minimum(e, 700.0)))
    grows = np.where(e < 1e-5, 0.5 * e, below - 1.0 + e)
    return np.where(right, e, below), np.where(right, 1.0, grows)


def _exp(z: FloatArray) -> FloatArray:
    return np.asarray(np.exp(np.minimum(z, 300.0)))


def _log_density(z: FloatArray, name: Distribution) -> FloatArray:
    if name == "normal":
        return -0.5 * z * z - HALF_LOG_2PI
    if name == "logistic":
        size = np.abs(z)
        return -size - 2.0 * np.log1p(np.exp(-size))
    return z - _exp(z)


def _point(z: FloatArray, name: Distribution) -> tuple[FloatArray, FloatArray]:
    """Return the first derivative of log density in z (scale times g), and minus the second."""
    if name == "normal":
        return -z, np.ones(z.shape)
    if name == "logistic":
        half = np.tanh(0.5 * z)
        return -half, 0.5 * (1.0 - half * half)
    e = _exp(z)
    return 1.0 - e, e


def _log_below(z: FloatArray, name: Distribution) -> FloatArray:
    """Return log P(Z <= z)."""
    if name == "normal":
        return np.asarray(log_ndtr(z))
    if name == "logistic":
        return np.asarray(log_expit(z))
    with np.errstate(divide="ignore"):
        e = _exp(z)
        near = np.where(z > 0.0, np.log1p(-np.exp(-e)), np.log(-np.expm1(-e)))
        return np.where(z < -30.0, z, near)


def _log_above(z: FloatArray, name: Distribution) -> FloatArray:
    """Return log P(Z > z)."""
    if name == "normal":
        return np.asarray(log_ndtr(-z))
    if name == "logistic":
        return np.asarray(log_expit(-z))
    return np.where(z == np.inf, -np.inf, -_exp(z))
