"""Names of LightGBM's metrics, and the metrics of ours behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hedgerow.errors import ParameterError

_MAIN = {
    **dict.fromkeys(
        ("l2", "mse", "mean_squared_error", "regression", "regression_l2"), "l2"
    ),
    **dict.fromkeys(("l1", "mae", "mean_absolute_error", "regression_l1"), "l1"),
    **dict.fromkeys(("rmse", "l2_root", "root_mean_squared_error"), "rmse"),
    **dict.fromkeys(("mape", "mean_absolute_percentage_error"), "mape"),
    **dict.fromkeys(("binary_logloss", "binary"), "binary_logloss"),
    **dict.fromkeys(
        ("multi_logloss", "multiclass", "softmax", "multiclassova", "multiclass_ova", "ova", "ovr"),
        "multi_logloss",
    ),
    **dict.fromkeys(("cross_entropy", "xentropy"), "cross_entropy"),
    **dict.fromkeys(("kullback_leibler", "kldiv"), "kullback_leibler"),
    **dict.fromkeys(("ndcg", "lambdarank", "rank_xendcg", "xendcg"), "ndcg"),
    **dict.fromkeys(("map", "mean_average_precision"), "map"),
    "error": "binary_error",
    **{
        name: name
        for name in (
            *("quantile", "huber", "fair", "poisson", "gamma", "gamma_deviance", "tweedie"),
            *("auc", "average_precision", "binary_error", "multi_error", "auc_mu"),
        )
    },
}  # fmt: skip
_OURS = {
    "l2": "mse",
    "l1": "mae",
    "rmse": "rmse",
    "mape": "mape",
    "quantile": "pinball",
    "binary_logloss": "logloss",
    "multi_logloss": "logloss",
    "cross_entropy": "cross_entropy",
    "kullback_leibler": "kldiv",
    "huber": "huber",
    "fair": "fair",
    "poisson": "poisson",
    "gamma": "gamma_nloglik",
    "gamma_deviance": "gamma_deviance",
    "tweedie": "tweedie_nloglik",
    "auc": "auc",
    "average_precision": "average_precision",
    "binary_error": "error",
    "multi_error": "error",
    "auc_mu": "auc_mu",
}
HIGHER = ("auc", "average_precision", "ndcg", "map", "auc_mu")
NONE = ("none", "None", "null", "custom", "na")


def their_names(names: list[str], at: list[int], given: Mapping[str, Any]) -> list[str]:
    """Main names, one for each position of rankings; without those that stand for none."""
    found: list[str] = []
    for name in names:
        main = _MAIN.get(name.strip())
        if name in NONE:
            continue
        if main is None:
            base, _, k = name.partition("@")
            if base in ("ndcg", "map") and k:
                found += [f"{base}@{part}" for part in k.split(",")]
                continue
            raise ParameterError(f"metric {name!r} is not known to the adapter")
        if main in ("ndcg", "map"):
            found += [f"{main}@{k}" for k in at]
        elif main == "multi_error" and given.get("multi_error_top_k", 1) != 1:
            found.append(f"multi_error@{given['multi_error_top_k']}")
        else:
            found.append(main)
    return list(dict.fromkeys(found))


def default_metric(objective: str, at: Sequence[int] = (1, 2, 3, 4, 5)) -> list[str]:
    """Return the metric that goes with an objective."""
    if objective in ("lambdarank", "rank_xendcg"):
        return [f"ndcg@{k}" for k in at]
    main = _MAIN.get(objective)
    return [] if objective == "custom" or main is None else [main]


def our_metric(name: str) -> Any:
    """Return the metric of ours."""
    base, _, k = name.partition("@")
    if base in ("ndcg", "map"):
        return name
    if base == "multi_error" and k:
        return f"top_k_error@{k}"
    return _OURS[name]


def fitting(name: str, ours: Any, objective: str) -> Any:
    """Return a metric of ours for predictions of any kind: LightGBM asks no metric for what it is."""
    from hedgerow.metrics import make_metrics
    from hedgerow.objectives import make_objective

    base = name.partition("@")[0]
    if base in ("ndcg", "map"):
        return ours
    of_classes = base in (
        *("auc", "average_precision", "binary_logloss", "binary_error"),
        *("multi_logloss", "multi_error", "auc_mu"),
    )
    two = objective == "logistic"
    if objective in ("softmax", "one_vs_all") or (two and of_classes):
        return "auc" if base == "auc_mu" and two else ours
    if not two and not of_classes and objective not in ("lambdarank", "rank_xendcg", "custom"):
        return ours
    (metric,) = make_metrics(ours, make_objective("logistic" if of_classes else "squared_error"))

    def scored(y: Any, prediction: Any, weight: Any) -> float:
        shown = np.asarray(prediction)
        if of_classes and shown.ndim == 1:
            shown = np.column_stack([1.0 - shown, shown])
        elif not of_classes and shown.ndim == 2:
            shown = np.ascontiguousarray(shown[:, 1])
        return metric.function(y, shown, weight)

    scored.__name__ = name
    scored.higher_is_better = metric.higher_is_better
    return scored


def is_higher_better(name: str) -> bool:
    """Return whether a metric of LightGBM's should rise."""
    return name.partition("@")[0] in HIGHER


__all__ = ["HIGHER", "default_metric", "fitting", "is_higher_better", "our_metric", "their_names"]
