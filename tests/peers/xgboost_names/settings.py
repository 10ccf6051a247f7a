"""Parameters of XGBoost as ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hedgerow import from_xgboost_params
from hedgerow.convert.settings.values import as_list
from hedgerow.convert.settings.xgboost import XGBOOST

_DEFAULT_METRICS = {
    "reg:squarederror": "rmse",
    "reg:squaredlogerror": "rmsle",
    "reg:absoluteerror": "mae",
    "reg:pseudohubererror": "mphe",
    "reg:quantileerror": "quantile",
    "reg:expectileerror": "expectile",
    "reg:logistic": "rmse",
    "binary:logistic": "logloss",
    "binary:logitraw": "logloss",
    "binary:hinge": "error",
    "multi:softmax": "mlogloss",
    "multi:softprob": "mlogloss",
    "count:poisson": "poisson-nloglik",
    "reg:gamma": "gamma-nloglik",
    "reg:tweedie": "tweedie-nloglik@1.5",
    "survival:cox": "cox-nloglik",
    "survival:aft": "aft-nloglik",
    "rank:ndcg": "ndcg",
    "rank:pairwise": "ndcg",
    "rank:map": "map",
}
_NOT_TRANSLATED = (
    *("eval_metric", "n_estimators", "early_stopping_rounds", "num_class", "base_score"),
    *("disable_default_eval_metric", "process_type", "updater"),
    *("refresh_leaf", "max_bin", "missing", "enable_categorical", "feature_types"),
    "scale_pos_weight",
)


def by_name(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters by their main name; those that XGBoost does not have are left out."""
    found = {}
    for name, value in params.items():
        known = XGBOOST.canonical(name)
        if known is not None and value is not None:
            found[known] = value
    return found


def metrics_of(given: Mapping[str, Any], named: list[str]) -> list[str]:
    """Return names of the metrics that are asked for."""
    if named:
        alpha = given.get("quantile_alpha")
        if isinstance(alpha, float):
            named = [f"quantile@{alpha}" if name == "quantile" else name for name in named]
        return list(dict.fromkeys(named))
    if str(given.get("disable_default_eval_metric", 0)) in ("1", "True", "true"):
        return []
    objective = str(given.get("objective", "reg:squarederror"))
    name = _DEFAULT_METRICS.get(objective)
    if objective == "reg:tweedie":
        name = f"tweedie-nloglik@{given.get('tweedie_variance_power', 1.5)}"
    if name in ("ndcg", "map") and given.get("lambdarank_pair_method", "topk") == "topk":
        k = given.get("lambdarank_num_pair_per_sample", 32)
        name = f"{name}@{k}"
    return [] if name is None else [name]


def ours(given: Mapping[str, Any], fractions: bool = False, n_columns: int = 0) -> dict[str, Any]:
    """Return parameters of trees and loss for :func:`hedgerow.train`."""
    kept = {name: _number(value) for name, value in given.items() if name not in _NOT_TRANSLATED}
    if given.get("process_type", "default") != "default":
        kept["process_type"] = given["process_type"]  # refused, with a reason
    if "max_bin" in given and str(given.get("tree_method", "hist")) in ("hist", "auto"):
        kept["max_bin"] = int(given["max_bin"])
    if n_columns and isinstance(kept.get("monotone_constraints"), str | list | tuple):
        signs = as_list(kept["monotone_constraints"])
        kept["monotone_constraints"] = [*signs, *([0] * (n_columns - len(signs)))]
    said = dict(from_xgboost_params(kept).params)
    for name in ("n_estimators", "early_stopping", "patience", "eval_metric"):
        said.pop(name, None)
    if said.get("tree_method") in ("approx", "exact"):
        said.pop("max_bins", None)
    if fractions and said.get("objective") == "logistic":
        said["objective"] = "cross_entropy"
    if said.get("max_depth") is None and said.get("max_leaves") is None:
        said["max_leaves"] = 65_535
    return said


def _number(value: Any) -> Any:
    """Return numbers that are given as text."""
    if not isinstance(value, str):
        return value
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


__all__ = ["by_name", "metrics_of", "ours"]
