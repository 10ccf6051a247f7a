"""The scores themselves, each weighted; ``weight=None`` means that all rows count alike."""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.errors import DataError


def rmse(y_true: FloatArray, prediction: FloatArray, weight: FloatArray | None = None) -> float:
    """Root of the mean squared error; 0 is perfect."""
    return float(np.sqrt(np.average((y_true - prediction) ** 2, weights=weight)))


def mae(y_true: FloatArray, prediction: FloatArray, weight: FloatArray | None = None) -> float:
    """Mean absolute error; 0 is perfect."""
    return float(np.average(np.abs(y_true - prediction), weights=weight))


def r2(y_true: FloatArray, prediction: FloatArray, weight: FloatArray | None = None) -> float:
    """Share of the variance that is explained; 1 is perfect, 0 the mean of ``y_true``."""
    from sklearn.metrics import r2_score

    return float(r2_score(y_true, prediction, sample_weight=weight))


def logloss(y_true: FloatArray, prediction: FloatArray, weight: FloatArray | None = None) -> float:
    """Mean of ``-log(probability of the true class)``; 0 is perfect.

    Parameters
    ----------
    y_true : array of shape (n_rows,)
        Class indices.
    prediction : array of shape (n_rows, n_classes)
        Probabilities; those below the float64 epsilon count as epsilon.
    weight : array of shape (n_rows,), optional
    """
    chosen = prediction[np.arange(len(y_true)), y_true.astype(np.intp)]
    return float(-np.average(np.log(np.maximum(chosen, np.finfo(float).eps)), weights=weight))


def accuracy(y_true: FloatArray, prediction: FloatArray, weight: FloatArray | None = None) -> float:
    """Share of the rows whose most probable class is the true one."""
    return float(np.average(prediction.argmax(axis=1) == y_true, weights=weight))


def error(y_true: FloatArray, prediction: FloatArray, weight: FloatArray | None = None) -> float:
    """Share of the rows whose most probable class is not the true one."""
    return float(np.average(prediction.argmax(axis=1) != y_true, weights=weight))


def auc(y_true: FloatArray, prediction: FloatArray, weight: FloatArray | None = None) -> float:
    """Area under the ROC curve of two classes: 1 is perfect, 0.5 is chance.

    Raises
    ------
    DataError
        If ``y_true`` holds one class only, for which it is not defined.
    """
    from sklearn.metrics import roc_auc_score

    if (y_true == y_true[0]).all():
        raise DataError(
            f"metric 'auc' needs rows of both classes, but all {len(y_true)} rows have class "
            f"index {y_true[0]:g}: give other validation rows or use eval_metric='logloss'."
        )
    return float(roc_auc_score(y_true, prediction[:, 1], sample_weight=weight))
