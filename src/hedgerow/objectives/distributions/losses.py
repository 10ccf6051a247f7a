"""Losses that learn a distribution for each row: all of its parameters are boosted.

==========  =====================  ====================  =======
name        raw scores of a row    loss: -log density    targets
==========  =====================  ====================  =======
normal      location, log scale    of y                  all
log_normal  the same of log y      of y                  above 0
==========  =====================  ====================  =======

(``poisson`` has one parameter, its mean, so it is an ordinary objective.)

The step is the *natural gradient* (Duan et al., NGBoost, 2020): the gradient of
the loss times the inverse of the Fisher information, which is diagonal for these
parameters.  So a step does not depend on the parametrisation of the distribution.  Leaves take the
mean of the steps of their rows: h is 1.  With the information as h, ``reg_lambda`` and
``min_child_weight`` would have the unit 1 / target**2.

The step of the scale is half as long as the step of the mean.  Scales are learned from
the residuals of training rows, which are too small.  With full steps the model would become
overconfident and stop before it has learned the mean.

Outputs are not coupled: the second tree of a round uses the scores after the first.  So
rows in chunks need no extra storage and give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.objectives import line_search as ls
from hedgerow.objectives.base import LossRows, RowLoss
from hedgerow.objectives.distributions import predicted
from hedgerow.objectives.domain import POSITIVE, Domain
from hedgerow.objectives.global_sums import AllRows

_FARTHEST_SCALE = 250.0
"""Logarithms of scales are clipped here."""
_SQUARE = 81.0
"""Limit on the squared distance of a row from its location, in scales.

A scale that is far too small then grows over a few rounds, not in one step.
"""
_NARROWEST = 1e-8
"""Least initial scale, as a share of the location, because all targets may be equal."""


@dataclass(frozen=True, slots=True)
class NormalLoss(RowLoss):
    """Minus the log density: location and log scale; the information is ``1 / scale**2`` and 2."""

    name: ClassVar[str] = "normal"
    raw_names: ClassVar[tuple[str, str]] = ("location", "log scale")
    squares: ClassVar[bool] = True
    constant_hessian: ClassVar[bool] = True
    n_outputs: int = 2

    def __post_init__(self) -> None:
        # make_objective passes the number of classes, which this objective ignores.
        object.__setattr__(self, "n_outputs", 2)

    def compared(self, target: FloatArray) -> FloatArray:
        """Return the normally distributed values: the targets themselves."""
        return target

    def distribution(self, raw: FloatArray) -> predicted.Distribution:
        """Return the distribution of each row, for raw scores of shape (2, n_rows)."""
        return predicted.Normal(raw[0], np.exp(_clipped(raw[1], _FARTHEST_SCALE)))

    def predict(self, raw: FloatArray) -> FloatArray:
        """Return the mean of the distribution."""
        return self.distribution(raw).mean

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
        """Return the first and second derivative of each row in the raw score of an output."""
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

        if output == 0:
            return ls.SumsRule(of_location, lambda above, below: above / below)
        return ls.SumsRule(
            lambda target, raw: (self._far(target, raw) ** 2, np.ones(len(target))), _log_root
        )


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


def _log_root(squares: FloatArray, weight: FloatArray) -> FloatArray:
    """Return logarithms of root mean squares, the steps of log scales."""
    with np.errstate(divide="ignore"):
        steps = 0.5 * np.log(squares / weight)
    return np.clip(steps, -ls.LONGEST_STEP, ls.LONGEST_STEP)


def _clipped(raw: FloatArray, most: float) -> FloatArray:
    return np.clip(raw, -most, most)
