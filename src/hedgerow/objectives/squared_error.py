"""Squared error ``1/2 (raw - y)^2``: g = raw - y, h = 1; identity link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.kernels.primitives.exact_sum import weighted_mean
from hedgerow.objectives import derivatives
from hedgerow.objectives.domain import check_spread
from hedgerow.objectives.global_sums import AllRows
from hedgerow.objectives.line_search import LeafRows


@dataclass(frozen=True, slots=True)
class SquaredError:
    """Least squares; the prediction is the conditional mean (Friedman 2001)."""

    name: ClassVar[str] = "squared_error"
    kernel_id: ClassVar[int] = derivatives.SQUARED_ERROR
    constant_hessian: ClassVar[bool] = True
    second_order: ClassVar[bool] = True
    of_residuals: ClassVar[bool] = True
    squares: ClassVar[bool] = True
    level: ClassVar[float] = 0.5
    n_outputs: int = 1

    def check_target(
        self, target: FloatArray, first_row: int = 0, origin: float | None = None
    ) -> None:
        """Raise if targets are so far apart that squares of residuals overflow."""
        check_spread(target, self.name, first_row, origin)

    def initial_score(self, target: FloatArray, weight: FloatArray | None) -> FloatArray:
        return self.start_of(AllRows.of(target, weight))

    def start_of(self, rows: AllRows) -> FloatArray:
        return np.array([rows.center()])

    def predict(self, raw: FloatArray) -> FloatArray:
        return raw[0]

    def loss(self, target: FloatArray, raw: FloatArray, weight: FloatArray | None) -> float:
        return weighted_mean(self.losses(target, raw), weight)

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        return np.asarray(0.5 * (raw[0] - target) ** 2)

    def leaf_steps(self, leaves: LeafRows, output: int) -> FloatArray:
        """Return the mean residual of each leaf."""
        return leaves.means(leaves.target - leaves.raw[output])
