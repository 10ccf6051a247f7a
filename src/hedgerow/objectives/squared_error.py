"""Squared error ``1/2 (raw - y)^2``: g = raw - y, h = 1; identity link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.errors import DataError
from hedgerow.objectives import derivatives

LARGEST_TARGET = 1e140
"""Beyond it a gain, the square of a sum of gradients, is not finite."""


@dataclass(frozen=True, slots=True)
class SquaredError:
    """Least squares; the prediction is the conditional mean (SPEC of GBDT: Friedman 2001)."""

    name: ClassVar[str] = "squared_error"
    kernel_id: ClassVar[int] = derivatives.SQUARED_ERROR
    constant_hessian: ClassVar[bool] = True
    n_outputs: int = 1

    def check_target(self, target: FloatArray) -> None:
        """Refuse targets whose square is not a finite float64."""
        outside = ~(np.abs(target) <= LARGEST_TARGET)
        if outside.any():
            row = int(np.argmax(outside))
            raise DataError(
                f"objective 'squared_error' needs targets between -{LARGEST_TARGET:g} and "
                f"{LARGEST_TARGET:g}; row {row} holds {target[row]!r}: rescale the target."
            )

    def initial_score(self, target: FloatArray, weight: FloatArray | None) -> FloatArray:
        # Relative to the first value: exact for a constant target of any size.
        origin = float(target[0])
        mean = origin + float(np.average(target - origin, weights=weight))
        return np.array([mean])

    def predict(self, raw: FloatArray) -> FloatArray:
        return raw[0]

    def loss(self, target: FloatArray, raw: FloatArray, weight: FloatArray | None) -> float:
        return 0.5 * float(np.average((raw[0] - target) ** 2, weights=weight))
