"""Squared error ``1/2 (raw - y)^2``: g = raw - y, h = 1; identity link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.objectives import derivatives
from hedgerow.objectives.base import MeanLoss
from hedgerow.objectives.global_sums import AllRows
from hedgerow.objectives.line_search import LeafRule, mean_rule


@dataclass(frozen=True, slots=True)
class SquaredError(MeanLoss):
    """Least squares; the prediction is the conditional mean (Friedman 2001)."""

    name: ClassVar[str] = "squared_error"
    kernel_id: ClassVar[int] = derivatives.SQUARED_ERROR
    constant_hessian: ClassVar[bool] = True
    of_residuals: ClassVar[bool] = True
    squares: ClassVar[bool] = True
    n_outputs: int = 1

    def start_of(self, rows: AllRows) -> FloatArray:
        return np.array([rows.center()])

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        return np.asarray(0.5 * (raw[0] - target) ** 2)

    def leaf_rule(self, output: int) -> LeafRule:
        """Return the rule: the mean residual of each leaf."""
        return mean_rule(lambda target, raw: target - raw[output])
