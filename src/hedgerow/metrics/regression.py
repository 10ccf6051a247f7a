"""Scores that belong to losses of numbers; each is 0 for a perfect prediction.

Those with a parameter take that of the loss the model is trained with, if it has it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import xlogy

from hedgerow.arrays import FloatArray
from hedgerow.errors import DataError
from hedgerow.kernels.exact_sum import weighted_mean

RowValues = Callable[[FloatArray, FloatArray], FloatArray]


@dataclass(frozen=True, slots=True)
class MeanOf:
    """Weighted mean of a value of each row, as a metric."""

    values: RowValues

    def __call__(
        self, y_true: FloatArray, prediction: FloatArray, weight: FloatArray | None = None
    ) -> float:
        return weighted_mean(self.values(y_true, prediction), weight)


def _require(inside: Any, values: FloatArray, metric: str, what: str) -> None:
    """Raise ``DataError`` that names the first row where ``inside`` is false."""
    if not inside.all():
        row = int(np.argmin(inside))
        raise DataError(
            f"metric {metric!r} needs {what}, but that of row {row} is {float(values[row])!r}: use "
            "another eval_metric, or an objective whose predictions are such numbers."
        )


def _check_pair(
    y_true: FloatArray, prediction: FloatArray, metric: str, *, zero_target: bool
) -> None:
    inside = y_true >= 0.0 if zero_target else y_true > 0.0
    _require(inside, y_true, metric, "targets of 0 or more" if zero_target else "positive targets")
    _require(prediction > 0.0, prediction, metric, "positive predictions")


def poisson_deviances(y_true: FloatArray, prediction: FloatArray) -> FloatArray:
    """``2 (y log(y / m) - y + m)`` of each row."""
    _check_pair(y_true, prediction, "poisson_deviance", zero_target=True)
    return np.asarray(2.0 * (xlogy(y_true, y_true / prediction) - y_true + prediction))


def gamma_deviances(y_true: FloatArray, prediction: FloatArray) -> FloatArray:
    """``2 (y / m - log(y / m) - 1)`` of each row."""
    _check_pair(y_true, prediction, "gamma_deviance", zero_target=False)
    ratio = y_true / prediction
    return np.asarray(2.0 * (ratio - np.log(ratio) - 1.0))


@dataclass(frozen=True, slots=True)
class TweedieDeviances:
    """Of each row, for a power between 1 and 2."""

    power: float

    def __call__(self, y_true: FloatArray, prediction: FloatArray) -> FloatArray:
        _check_pair(y_true, prediction, "tweedie_deviance", zero_target=True)
        a, b = 1.0 - self.power, 2.0 - self.power
        known = y_true**b / (a * b)
        return np.asarray(2.0 * (known - y_true * prediction**a / a + prediction**b / b))


@dataclass(frozen=True, slots=True)
class PinballLosses:
    """Of each row, for a quantile level."""

    level: float

    def __call__(self, y_true: FloatArray, prediction: FloatArray) -> FloatArray:
        over = prediction - y_true
        return np.asarray(np.maximum((1.0 - self.level) * over, -self.level * over))


@dataclass(frozen=True, slots=True)
class ExpectileLosses:
    """Asymmetric squares of each row."""

    level: float

    def __call__(self, y_true: FloatArray, prediction: FloatArray) -> FloatArray:
        over = prediction - y_true
        return np.asarray(np.where(over > 0.0, 1.0 - self.level, self.level) * over * over)


@dataclass(frozen=True, slots=True)
class HuberLosses:
    """Half squares of each row, linear from ``delta`` on."""

    delta: float

    def __call__(self, y_true: FloatArray, prediction: FloatArray) -> FloatArray:
        size = np.abs(y_true - prediction)
        inner = np.minimum(size, self.delta)
        return np.asarray(inner * (size - 0.5 * inner))


def percentage_errors(y_true: FloatArray, prediction: FloatArray) -> FloatArray:
    """``|y - m| / |y|`` of each row; a target of 0 counts as the float64 epsilon."""
    size = np.maximum(np.abs(y_true), np.finfo(np.float64).eps)
    return np.asarray(np.abs(y_true - prediction) / size)


def squared_log_errors(y_true: FloatArray, prediction: FloatArray) -> FloatArray:
    """``(log(1 + y) - log(1 + m))**2`` of each row."""
    _require(y_true > -1.0, y_true, "msle", "targets above -1")
    _require(prediction > -1.0, prediction, "msle", "predictions above -1")
    return np.asarray((np.log1p(y_true) - np.log1p(prediction)) ** 2)


PLAIN: dict[str, RowValues] = {
    "mape": percentage_errors,
    "msle": squared_log_errors,
    "poisson_deviance": poisson_deviances,
    "gamma_deviance": gamma_deviances,
}

WITH_PARAMETER: dict[str, tuple[Callable[[float], RowValues], str, float]] = {
    "tweedie_deviance": (TweedieDeviances, "tweedie_power", 1.5),
    "pinball": (PinballLosses, "level", 0.5),
    "expectile": (ExpectileLosses, "expectile", 0.5),
    "huber": (HuberLosses, "delta", 1.0),
}
"""What makes the score of a row, the attribute of objectives that has the parameter, and
its value where the objective has none."""
