"""Absolute error and quantile (pinball) loss: g = [raw > y] - level, identity link.

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
from hedgerow.objectives import derivatives
from hedgerow.objectives.domain import check_spread
from hedgerow.objectives.line_search import LeafRows


@dataclass(frozen=True, slots=True)
class Quantile:
    """Pinball loss ``level * (y - raw)`` above and ``(1 - level) * (raw - y)`` below.

    The prediction is the conditional quantile.
    """

    name: ClassVar[str] = "quantile"
    kernel_id: ClassVar[int] = derivatives.QUANTILE
    constant_hessian: ClassVar[bool] = True
    second_order: ClassVar[bool] = False
    n_outputs: int = 1
    level: float = 0.5

    def __post_init__(self) -> None:
        number = isinstance(self.level, numbers.Real) and not isinstance(self.level, bool)
        if not number or not 0.0 < self.level < 1.0:
            raise ParameterError(
                f"quantile must be a number greater than 0 and less than 1; got {self.level!r}."
            )

    def check_target(self, target: FloatArray) -> None:
        check_spread(target, self.name)

    def initial_score(self, target: FloatArray, weight: FloatArray | None) -> FloatArray:
        mass = np.ones(len(target)) if weight is None else weight
        everything = LeafRows(target, np.zeros((1, len(target))), mass, np.array([0, len(target)]))
        return everything.quantiles(target, self.level)

    def predict(self, raw: FloatArray) -> FloatArray:
        return raw[0]

    def loss(self, target: FloatArray, raw: FloatArray, weight: FloatArray | None) -> float:
        over = raw[0] - target
        return float(np.average(np.maximum((1.0 - self.level) * over, -self.level * over),
                                weights=weight))  # fmt: skip

    def leaf_steps(self, leaves: LeafRows, output: int) -> FloatArray:
        """Quantile of the residuals of each leaf."""
        return leaves.quantiles(leaves.target - leaves.raw[output], self.level)


@dataclass(frozen=True, slots=True)
class AbsoluteError(Quantile):
    """Absolute error, twice the pinball loss at level 0.5; predicts the conditional median."""

    name: ClassVar[str] = "absolute_error"

    def loss(self, target: FloatArray, raw: FloatArray, weight: FloatArray | None) -> float:
        return float(np.average(np.abs(raw[0] - target), weights=weight))
