"""Metrics by the names of XGBoost."""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.errors import ParameterError
from hedgerow.metrics import make_metrics
from hedgerow.objectives import make_objective

_OF_CLASSES = {
    "logloss": "logloss",
    "error": "error",
    "auc": "auc",
    "aucpr": "aucpr",
}
_OF_SEVERAL = {"mlogloss": "logloss", "merror": "error", "auc": "auc", "aucpr": "aucpr"}
_OF_NUMBERS = {
    **{name: name for name in ("rmse", "mae", "mape", "rmsle")},
    "mphe": "pseudo_huber",
    "quantile": "pinball",
    "expectile": "expectile",
    "poisson-nloglik": "poisson_nloglik",
    "gamma-nloglik": "gamma_nloglik",
    "gamma-deviance": "gamma_deviance",
    "tweedie-nloglik": "tweedie_nloglik",
}
_OF_RANKINGS = {"ndcg": "ndcg", "map": "map", "pre": "precision"}


def our_metric(name: str, objective: str, several_levels: bool = False) -> Any:
    """Return the metric of ours; a function where the kind of prediction is another one."""
    base, _, value = name.partition("@")
    if base in _OF_RANKINGS:
        return _OF_RANKINGS[base] + (f"@{value.rstrip('-')}" if value.rstrip("-") else "")
    if base in ("cox-nloglik", "aft-nloglik") or (base == "quantile" and several_levels):
        return "loss"
    several = objective in ("softmax", "one_vs_all")
    two = objective in ("logistic", "hinge")
    if several and base in _OF_SEVERAL:
        return _OF_SEVERAL[base]
    if base in ("mlogloss", "merror"):
        return _OF_SEVERAL[base]
    if base in _OF_CLASSES:
        known = f"error_at@{value}" if base == "error" and value else _OF_CLASSES[base]
        return known if two else _fitted(name, known, "logistic")
    if base in _OF_NUMBERS:
        known = _OF_NUMBERS[base] + (f"@{value}" if value else "")
        return known if not (two or several) else _fitted(name, known, "squared_error")
    raise ParameterError(f"Unknown metric function {name}: the adapter does not know it")


def _fitted(name: str, known: str, objective: str) -> Any:
    (metric,) = make_metrics(known, make_objective(objective))

    def scored(y: Any, prediction: Any, weight: Any) -> float:
        shown = np.asarray(prediction)
        if objective == "logistic" and shown.ndim == 1:
            shown = np.column_stack([1.0 - shown, shown])
        elif objective != "logistic" and shown.ndim == 2:
            shown = np.ascontiguousarray(shown[:, 1])
        return metric.function(y, shown, weight)

    scored.__name__ = name
    scored.higher_is_better = metric.higher_is_better
    return scored


__all__ = ["our_metric"]
