"""Logistic loss of two classes (target 0 or 1): g = p - y, h = p (1 - p); sigmoid link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit

from hedgerow.arrays import FloatArray
from hedgerow.kernels.primitives.exact_sum import weighted_mean
from hedgerow.objectives import derivatives
from hedgerow.objectives.base import both_classes
from hedgerow.objectives.domain import check_two_classes
from hedgerow.objectives.global_sums import AllRows
from hedgerow.objectives.line_search import LeafRows


@dataclass(frozen=True, slots=True)
class Logistic:
    """Negative binomial log-likelihood; raw score is the log-odds of class 1."""

    name: ClassVar[str] = "logistic"
    kernel_id: ClassVar[int] = derivatives.LOGISTIC
    constant_hessian: ClassVar[bool] = False
    second_order: ClassVar[bool] = True
    level: ClassVar[float] = 0.5
    n_outputs: int = 1

    def check_target(
        self, target: FloatArray, first_row: int = 0, origin: float | None = None
    ) -> None:
        check_two_classes(target, self.name, first_row)

    def initial_score(self, target: FloatArray, weight: FloatArray | None) -> FloatArray:
        return self.start_of(AllRows.of(target, weight))

    def start_of(self, rows: AllRows) -> FloatArray:
        rate = rows.mean()
        # With one class only, the log-odds are infinite; stop where p has 15 digits.
        rate = min(max(rate, 1e-15), 1.0 - 1e-15)
        return np.array([np.log(rate) - np.log1p(-rate)])

    def slopes(self, target: FloatArray, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the first and second derivative of each row."""
        p = expit(raw)
        return p - target, p * (1.0 - p)

    def predict(self, raw: FloatArray) -> FloatArray:
        positive = expit(raw[0])
        return both_classes(positive)

    def loss(self, target: FloatArray, raw: FloatArray, weight: FloatArray | None) -> float:
        return weighted_mean(self.losses(target, raw), weight)

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        # log(1 + exp(-m)) with m the margin; logaddexp does not overflow.
        other = np.where(target > 0.0, -raw[0], raw[0])
        return np.asarray(np.logaddexp(0.0, other))

    def leaf_steps(self, leaves: LeafRows, output: int) -> FloatArray:
        """Return the root of the sum of p(raw + c) - y in each leaf; there is no closed form."""
        return leaves.search(lambda step: self.slopes(leaves.target, leaves.raw[output] + step))
