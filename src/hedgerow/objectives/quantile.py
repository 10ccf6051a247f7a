"""Absolute error and quantile (pinball) loss, identity link; one level or several.

g is 1 - level where raw is above y, -level where raw is below y, and 0 where they are equal.  0
is a subgradient for any level.  With another subgradient, rows at a frequent value would look
like rows on one side of it.
The second derivative is zero wherever it exists, so trees fit the negative
gradient by least squares and leaves take the quantile of their residuals
(Friedman 2001, algorithm 3).

Each of several levels has one raw score, one tree per round and its own pinball loss.
Raw scores may cross: a row's score for 0.9 may be below its score for 0.5.  Predictions are the
scores in ascending order (rearrangement: Chernozhukov, Fernandez-Val and Galichon 2010),
which never has a larger pinball loss than the scores themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.errors import ParameterError, brief
from hedgerow.objectives import derivatives, row_kernels
from hedgerow.objectives.base import MeanLoss, RowLoss, check_number
from hedgerow.objectives.global_sums import AllRows
from hedgerow.objectives.line_search import QuantileRule, residuals
from hedgerow.params import Interval

_LEVEL = Interval(0.0, 1.0, low_open=True, high_open=True)
MOST_LEVELS = 1000
"""Most levels of one model."""


@dataclass(frozen=True, slots=True)
class Quantile(MeanLoss):
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
        check_number(self.level, "quantile", _LEVEL)

    def start_of(self, rows: AllRows) -> FloatArray:
        return np.array([rows.quantile(self.level)])

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        over = raw[0] - target
        return np.asarray(np.maximum((1.0 - self.level) * over, -self.level * over))

    def leaf_rule(self, output: int) -> QuantileRule:
        """Return the rule: a quantile of the residuals of each leaf."""
        return QuantileRule(residuals, self.level)


@dataclass(frozen=True, slots=True)
class AbsoluteError(Quantile):
    """Absolute error, twice the pinball loss at level 0.5; predicts the conditional median."""

    name: ClassVar[str] = "absolute_error"

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        return np.asarray(np.abs(raw[0] - target))


@dataclass(frozen=True, slots=True)
class SeveralQuantiles(RowLoss):
    """Mean of the pinball losses of all levels, at predictions in ascending order.

    ``levels`` ascend.
    """

    name: ClassVar[str] = "quantile"
    row_kernel = row_kernels.QUANTILE
    scored_as: ClassVar[str] = "quantiles"
    constant_hessian: ClassVar[bool] = True
    second_order: ClassVar[bool] = False
    of_residuals: ClassVar[bool] = True
    levels: tuple[float, ...] = (0.1, 0.5, 0.9)

    def __post_init__(self) -> None:
        for level in self.levels:
            Quantile(1, level)
        if not 1 <= len(self.levels) <= MOST_LEVELS or any(
            a >= b for a, b in pairwise(self.levels)
        ):
            raise ParameterError(
                f"quantile must be a number, or at most {MOST_LEVELS} numbers in ascending order, "
                f"none twice; got {brief(list(self.levels))}."
            )

    @property
    def n_outputs(self) -> int:  # type: ignore[override]
        return len(self.levels)

    def numbers(self, output: int) -> FloatArray:
        return np.array([float(self.levels[output])])

    def start_of(self, rows: AllRows) -> FloatArray:
        return np.array([rows.quantile(level) for level in self.levels])

    def predict(self, raw: FloatArray) -> FloatArray:
        """Return a column per level, in order, shape (n_rows, n_levels)."""
        return np.sort(raw.T, axis=1)

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        total = np.zeros(len(target))
        for level, score in zip(self.levels, np.sort(raw, axis=0), strict=True):
            over = score - target
            total += np.maximum((1.0 - level) * over, -level * over)
        return total / len(self.levels)

    def leaf_rule(self, output: int) -> QuantileRule:
        """Return the rule: a quantile of the residuals of each leaf."""
        return QuantileRule(residuals, self.levels[output])
