"""Metrics of numbers; each is 0 for a perfect prediction.

A metric with a parameter uses the parameter of the training loss, if it has it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln, xlogy

from hedgerow.arrays import FloatArray
from hedgerow.errors import DataError
from hedgerow.metrics.base import UNNAMED
from hedgerow.objectives.base import MeanLoss


def loss_of(objective: MeanLoss, y_true: FloatArray, prediction: FloatArray) -> FloatArray:
    """Return the loss of each row by an objective whose raw score is the prediction."""
    return objective.losses(y_true, prediction[None])


def _require(inside: Any, values: FloatArray, what: str) -> None:
    """Raise ``DataError`` with the first row where ``inside`` is false."""
    if not inside.all():
        row = int(np.argmin(inside))
        raise DataError(
            f"{UNNAMED} needs {what}, but row {row} has {float(values[row])!r}: use "
            "another eval_metric, or an objective with such predictions."
        ).at(row)


def _check_pair(y_true: FloatArray, prediction: FloatArray, *, zero_target: bool) -> None:
    inside = y_true >= 0.0 if zero_target else y_true > 0.0
    _require(inside, y_true, "targets of 0 or more" if zero_target else "positive targets")
    _require(prediction > 0.0, prediction, "positive predictions")


def poisson_deviances(y_true: FloatArray, prediction: FloatArray) -> FloatArray:
    """Return ``2 (y log(y / m) - y + m)`` of each row."""
    _check_pair(y_true, prediction, zero_target=True)
    return np.asarray(2.0 * (xlogy(y_true, y_true / prediction) - y_true + prediction))


def gamma_deviances(y_true: FloatArray, prediction: FloatArray) -> FloatArray:
    """Return ``2 (y / m - log(y / m) - 1)`` of each row."""
    _check_pair(y_true, prediction, zero_target=False)
    ratio = y_true / prediction
    return np.asarray(2.0 * (ratio - np.log(ratio) - 1.0))


def tweedie_deviances(power: float, y_true: FloatArray, prediction: FloatArray) -> FloatArray:
    """Return the Tweedie deviance of each row, for a power between 1 and 2."""
    _check_pair(y_true, prediction, zero_target=True)
    a, b = 1.0 - power, 2.0 - power
    known = y_true**b / (a * b)
    return np.asarray(2.0 * (known - y_true * prediction**a / a + prediction**b / b))


def percentage_errors(y_true: FloatArray, prediction: FloatArray) -> FloatArray:
    """Return ``|y - m| / |y|`` of each row; the float64 epsilon replaces a target of 0."""
    size = np.maximum(np.abs(y_true), np.finfo(np.float64).eps)
    return np.asarray(np.abs(y_true - prediction) / size)


def squared_log_errors(y_true: FloatArray, prediction: FloatArray) -> FloatArray:
    """Return ``(log(1 + y) - log(1 + m))**2`` of each row."""
    _require(y_true > -1.0, y_true, "targets above -1")
    _require(prediction > -1.0, prediction, "predictions above -1")
    return np.asarray((np.log1p(y_true) - np.log1p(prediction)) ** 2)


def symmetric_errors(y_true: FloatArray, prediction: FloatArray) -> FloatArray:
    """Return ``2 |y - m| / (|y| + |m|)`` of each row; 0 if both are 0."""
    below = np.abs(y_true) + np.abs(prediction)
    out = np.zeros(len(y_true))
    return np.asarray(
        np.divide(2.0 * np.abs(y_true - prediction), below, out=out, where=below > 0.0)
    )


def poisson_losses(y_true: FloatArray, prediction: FloatArray) -> FloatArray:
    """Return ``m - y log m`` of each row: the likelihood's part with m, as in LightGBM."""
    _check_pair(y_true, prediction, zero_target=True)
    return np.asarray(prediction - xlogy(y_true, prediction))


def poisson_likelihoods(y_true: FloatArray, prediction: FloatArray) -> FloatArray:
    """Return the negative log-likelihood of each count, as in XGBoost."""
    return np.asarray(poisson_losses(y_true, prediction) + gammaln(y_true + 1.0))


def gamma_likelihoods(y_true: FloatArray, prediction: FloatArray) -> FloatArray:
    """Return ``y / m + log m`` of each row: exponential likelihood, as in both libraries."""
    _check_pair(y_true, prediction, zero_target=False)
    return np.asarray(y_true / prediction + np.log(prediction))


def tweedie_likelihoods(power: float, y_true: FloatArray, prediction: FloatArray) -> FloatArray:
    """Return the part of the negative log-likelihood that depends on m, as in both libraries."""
    _check_pair(y_true, prediction, zero_target=True)
    a, b = 1.0 - power, 2.0 - power
    return np.asarray(prediction**b / b - y_true * prediction**a / a)


def largest_error(
    y_true: FloatArray, prediction: FloatArray, weight: FloatArray | None = None
) -> float:
    """Return the largest absolute error of a row; weights have no effect."""
    return float(np.abs(y_true - prediction).max())


def median_error(
    y_true: FloatArray, prediction: FloatArray, weight: FloatArray | None = None
) -> float:
    """Return the median of the absolute errors: the first that reaches half of the weight."""
    # If it has exactly half, the mean of this and the next error: the median of 1, 2, 3, 4 is 2.5.
    values = np.abs(y_true - prediction)
    order = np.argsort(values, kind="stable")
    mass = np.ones(len(values)) if weight is None else weight[order]
    so_far = np.cumsum(mass)
    goal = 0.5 * so_far[-1]
    place = min(int(np.searchsorted(so_far, goal)), len(values) - 1)
    following = min(place + (so_far[place] == goal), len(values) - 1)
    return float(0.5 * (values[order[place]] + values[order[following]]))
