"""Compute test scores with the same function for every library."""

from __future__ import annotations

import numpy as np

from settings import Task

METRICS: dict[Task, str] = {"binary": "logloss", "multiclass": "logloss", "regression": "rmse"}


def score(task: Task, y: np.ndarray, prediction: np.ndarray) -> dict[str, float]:
    """Return scores of predictions.  Tables show the first one; smaller is better."""
    if task == "regression":
        error = prediction - y
        return {"rmse": float(np.sqrt(np.mean(error**2))), "mae": float(np.mean(np.abs(error)))}
    if task == "multiclass":
        chosen = prediction[np.arange(len(y)), y.astype(np.int64)].astype(np.float64)
        return {
            "logloss": float(-np.mean(np.log(np.clip(chosen, 1e-15, 1.0)))),
            "accuracy": float(np.mean(prediction.argmax(axis=1) == y)),
        }
    p = np.clip(prediction.astype(np.float64), 1e-15, 1.0 - 1e-15)
    return {
        "logloss": float(-np.mean(np.where(y > 0.5, np.log(p), np.log1p(-p)))),
        "auc": _auc(y, prediction),
    }


def _auc(y: np.ndarray, prediction: np.ndarray) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(y, prediction))
