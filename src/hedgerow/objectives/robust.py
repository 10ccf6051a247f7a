"""Squared error, and robust losses of a number, where outliers have less influence.

===============  ===================================  =================================
name             loss of a row, r = raw - y           predicts
===============  ===================================  =================================
squared_error    r**2 / 2                             the mean
huber            r**2 / 2, linear from |r| = delta    between mean and median
pseudo_huber     the same, smooth                     between mean and median
fair             delta |r| - delta**2 log(1 + |r| /   between mean and median
                 delta)
log_cosh         log cosh r                           between mean and median
expectile        level r**2 below y, (1 - level)      the expectile; at 0.5 the mean
                 r**2 above
mape             |r| / |y|                            a median weighted towards small
                                                      targets
===============  ===================================  =================================

``delta`` is a distance in units of the target, and the same in all rounds.  (The delta of
scikit-learn's GradientBoostingRegressor is a quantile of the residuals of each round, so
its fit does not minimise one loss.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.objectives import derivatives, row_kernels
from hedgerow.objectives.base import MeanLoss, RowLoss
from hedgerow.objectives.domain import LARGEST, check_spread, refuse_first
from hedgerow.objectives.global_sums import AllRows
from hedgerow.objectives.line_search import LeafRule, QuantileRule, Slopes, mean_rule, residuals
from hedgerow.params import Interval


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


@dataclass(frozen=True, slots=True)
class _WithDelta(RowLoss):
    """A loss of residuals that grows more slowly where they are larger than ``delta``."""

    of_residuals: ClassVar[bool] = True
    squares: ClassVar[bool] = True
    parameter = "delta", Interval(0.0, LARGEST, low_open=True)
    n_outputs: int = 1
    delta: float = 1.0


@dataclass(frozen=True, slots=True)
class Huber(_WithDelta):
    """Huber's loss (1964)."""

    name: ClassVar[str] = "huber"
    row_kernel = row_kernels.HUBER
    constant_hessian: ClassVar[bool] = True

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        size = np.abs(raw[0] - target)
        inner = np.minimum(size, self.delta)
        return np.asarray(inner * (size - 0.5 * inner))

    def slopes(self, target: FloatArray, raw: FloatArray) -> Slopes:
        r = raw - target
        return np.clip(r, -self.delta, self.delta), (np.abs(r) <= self.delta).astype(np.float64)


@dataclass(frozen=True, slots=True)
class PseudoHuber(_WithDelta):
    """``delta**2 (sqrt(1 + (r / delta)**2) - 1)``, as in XGBoost."""

    name: ClassVar[str] = "pseudo_huber"
    row_kernel = row_kernels.PSEUDO_HUBER

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        r = raw[0] - target
        root = np.sqrt(1.0 + (r / self.delta) ** 2)
        return np.asarray(r * r / (1.0 + root))  # = delta**2 (root - 1), without cancellation

    def slopes(self, target: FloatArray, raw: FloatArray) -> Slopes:
        r = raw - target
        slope = 1.0 / np.sqrt(1.0 + (r / self.delta) ** 2)
        return r * slope, slope**3


@dataclass(frozen=True, slots=True)
class Fair(_WithDelta):
    """``delta**2 (|r| / delta - log(1 + |r| / delta))`` (Fair 1974), as in LightGBM."""

    name: ClassVar[str] = "fair"
    row_kernel = row_kernels.FAIR

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        size = np.abs(raw[0] - target)
        share = size / self.delta
        # Near 0 the difference cancels: use the series of x - log(1 + x).
        near = share * share * (0.5 - share * (1.0 / 3.0 - 0.25 * share))
        far = share - np.log1p(share)
        return np.asarray(self.delta * (self.delta * np.where(share < 1e-4, near, far)))

    def slopes(self, target: FloatArray, raw: FloatArray) -> Slopes:
        r = raw - target
        slope = self.delta / (np.abs(r) + self.delta)
        return r * slope, slope * slope


@dataclass(frozen=True, slots=True)
class LogCosh(RowLoss):
    """``log cosh r``: like ``r**2 / 2`` near 0 and like ``|r|`` far away."""

    name: ClassVar[str] = "log_cosh"
    row_kernel = row_kernels.LOG_COSH
    of_residuals: ClassVar[bool] = True
    squares: ClassVar[bool] = True
    n_outputs: int = 1

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        size = np.abs(raw[0] - target)
        far = size + np.log1p(np.exp(-2.0 * size)) - math.log(2.0)
        # Near 0 the formula for large r loses all digits.
        return np.where(size < 1e-3, 0.5 * size * size, far)

    def slopes(self, target: FloatArray, raw: FloatArray) -> Slopes:
        tanh = np.tanh(raw - target)
        return tanh, 1.0 - tanh * tanh


@dataclass(frozen=True, slots=True)
class Expectile(RowLoss):
    """Asymmetric squares (Newey and Powell 1987); at level 0.5 the squared error."""

    name: ClassVar[str] = "expectile"
    row_kernel = row_kernels.EXPECTILE
    of_residuals: ClassVar[bool] = True
    squares: ClassVar[bool] = True
    parameter = "expectile", Interval(0.0, 1.0, low_open=True, high_open=True)
    n_outputs: int = 1
    expectile: float = 0.5

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        r = raw[0] - target
        return np.asarray(np.where(r > 0.0, 1.0 - self.expectile, self.expectile) * r * r)

    def slopes(self, target: FloatArray, raw: FloatArray) -> Slopes:
        r = raw - target
        factor = 2.0 * np.where(r > 0.0, 1.0 - self.expectile, self.expectile)
        return factor * r, factor


@dataclass(frozen=True, slots=True)
class AbsolutePercentage(RowLoss):
    """Absolute error relative to the target; leaves take a weighted median."""

    name: ClassVar[str] = "mape"
    row_kernel = row_kernels.MAPE
    constant_hessian: ClassVar[bool] = True
    second_order: ClassVar[bool] = False
    n_outputs: int = 1

    def check_target(
        self, target: FloatArray, first_row: int = 0, origin: FloatArray | None = None
    ) -> None:
        size = np.abs(target)
        outside = (size < 1.0 / LARGEST) | (size > LARGEST)
        refuse_first(
            outside, target, first_row,
            f"objective 'mape' divides by the target: |y| must lie in [{1.0 / LARGEST:g}, "
            f"{LARGEST:g}]; row {{row}} holds {{value}}: leave the row out, or use "
            "objective='absolute_error'.",
        )  # fmt: skip
        check_spread(target, self.name, first_row, origin)

    def start_of(self, rows: AllRows) -> FloatArray:
        """Return the weighted median of the targets, or of what is left of them beside offsets."""
        weight = (1.0 if rows.weight is None else rows.weight) / np.abs(rows.target)
        left = rows.target if rows.offset is None else rows.target - rows.offset[0]
        return np.array([replace(rows, target=left, weight=weight).quantile(0.5)])

    start_beside = start_of

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        return np.asarray(np.abs(raw[0] - target) / np.abs(target))

    def leaf_rule(self, output: int) -> QuantileRule:
        """Return the rule: the median of the residuals of each leaf, weighted with 1 / |y|."""
        return QuantileRule(residuals, 0.5, np.abs)
