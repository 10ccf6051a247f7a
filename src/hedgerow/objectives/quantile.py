"""Absolute error and quantile (pinball) loss, identity link.

g is 1 - level where raw is above y, -level where raw is below y, and 0 where they are equal.  0
is a subgradient for any level.  With another subgradient, rows at a frequent value would look
like rows on one side of it.
The second derivative is zero wherever it exists, so trees fit the negative
gradient by least squares and leaves take the quantile of their residuals
(Friedman 2001, algorithm 3).
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.errors import ParameterError
from hedgerow.kernels.primitives.exact_sum import weighted_mean
from hedgerow.objectives import derivatives
from hedgerow.objectives.domain import check_spread
from hedgerow.objectives.global_sums import AllRows
from hedgerow.objectives.line_search import LeafRows, QuantileRule, residuals


@dataclass(frozen=True, slots=True)
class Quantile:
    """Pinball loss ``level * (y - raw)`` above and ``(1 - level) * (raw - y)`` below.

    The prediction is the conditional quantile.
    """

    name: ClassVar[str] = "quantile"
    kernel_id: ClassVar[int] = derivatives.QUANTILE
    constant_hessian: ClassVar[bool] = True
    second_order: ClassVar[bool] = False
    of_residuals: ClassVar[bool] = True
    n_outputs: int = 1
    level: float = 0.5

    def __post_init__(self) -> None:
        number = isinstance(self.level, numbers.Real) and not isinstance(self.level, bool)
        if not number or not 0.0 < self.level < 1.0:
            raise ParameterError(
                f"quantile must be a number greater than 0 and less than 1; got {self.level!r}."
            )

    def check_target(
        self, target: FloatArray, first_row: int = 0, origin: float | None = None
    ) -> None:
        check_spread(target, self.name, first_row, origin)

    def initial_score(self, target: FloatArray, weight: FloatArray | None) -> FloatArray:
        return self.start_of(AllRows.of(target, weight))

    def start_of(self, rows: AllRows) -> FloatArray:
        return np.array([rows.quantile(self.level)])

    def predict(self, raw: FloatArray) -> FloatArray:
        return raw[0]

    def loss(self, target: FloatArray, raw: FloatArray, weight: FloatArray | None) -> float:
        return weighted_mean(self.losses(target, raw), weight)

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        over = raw[0] - target
        return np.asarray(np.maximum((1.0 - self.level) * over, -self.level * over))

    def leaf_rule(self, output: int) -> QuantileRule:
        """Return the rule: a quantile of the residuals of each leaf."""
        return QuantileRule(residuals, self.level)

    def leaf_steps(self, leaves: LeafRows, output: int) -> FloatArray:
        return leaves.steps_by(self.leaf_rule(output), output)


@dataclass(frozen=True, slots=True)
class AbsoluteError(Quantile):
    """Absolute error, twice the pinball loss at level 0.5; predicts the conditional median."""

    name: ClassVar[str] = "absolute_error"

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        return np.asarray(np.abs(raw[0] - target))
