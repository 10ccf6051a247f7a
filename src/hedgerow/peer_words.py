"""Objectives and metrics by their names in LightGBM, XGBoost and CatBoost.

The tables serve to translate parameter sets (:mod:`hedgerow.convert.settings`), and to name
the intended objective or metric in errors.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from hedgerow.errors import brief, did_you_mean

LIGHTGBM_OBJECTIVES: dict[str, str] = {
    **dict.fromkeys(("regression", "l2", "mse", "rmse", "mean_squared_error"), "squared_error"),
    **dict.fromkeys(("regression_l2", "l2_root", "root_mean_squared_error"), "squared_error"),
    **dict.fromkeys(("regression_l1", "l1", "mae", "mean_absolute_error"), "absolute_error"),
    **{name: name for name in ("huber", "fair", "poisson", "quantile", "gamma", "tweedie")},
    **dict.fromkeys(("mape", "mean_absolute_percentage_error"), "mape"),
    "binary": "logistic",
    **dict.fromkeys(("multiclass", "softmax"), "softmax"),
    **dict.fromkeys(("multiclassova", "multiclass_ova", "ova", "ovr"), "one_vs_all"),
    **dict.fromkeys(("cross_entropy", "xentropy"), "cross_entropy"),
    "lambdarank": "lambdarank",
    **dict.fromkeys(("rank_xendcg", "xendcg", "xe_ndcg", "xendcg_mart"), "rank_xendcg"),
}
LIGHTGBM_METRICS: dict[str, Any] = {
    **dict.fromkeys(("l2", "mse", "mean_squared_error", "regression", "regression_l2"), "mse"),
    **dict.fromkeys(("rmse", "l2_root", "root_mean_squared_error"), "rmse"),
    **dict.fromkeys(("l1", "mae", "mean_absolute_error", "regression_l1"), "mae"),
    "quantile": "pinball",
    **{name: name for name in ("mape", "huber", "fair", "auc", "auc_mu", "average_precision")},
    "poisson": "poisson",
    "gamma": "gamma_nloglik",
    "tweedie": "tweedie_nloglik",
    **dict.fromkeys(("kldiv", "kullback_leibler"), "kldiv"),
    **dict.fromkeys(("binary_logloss", "binary", "multi_logloss", "multiclass"), "logloss"),
    **dict.fromkeys(("binary_error", "multi_error"), "error"),
    **dict.fromkeys(("cross_entropy", "xentropy"), "cross_entropy"),
    **dict.fromkeys(("ndcg", "lambdarank"), "ndcg"),
    **dict.fromkeys(("map", "mean_average_precision"), "map"),
    **dict.fromkeys(("", "none", "null", "custom", "na"), None),
}
XGBOOST_OBJECTIVES: dict[str, str] = {
    "reg:squarederror": "squared_error",
    "reg:squaredlogerror": "squared_log_error",
    "reg:absoluteerror": "absolute_error",
    "reg:pseudohubererror": "pseudo_huber",
    "reg:quantileerror": "quantile",
    "reg:expectileerror": "expectile",
    "reg:logistic": "cross_entropy",
    "binary:logistic": "logistic",
    "binary:logitraw": "logistic",
    "binary:hinge": "hinge",
    "multi:softmax": "softmax",
    "multi:softprob": "softmax",
    "count:poisson": "poisson",
    "reg:gamma": "gamma",
    "reg:tweedie": "tweedie",
    "survival:cox": "cox",
    "survival:aft": "aft",
    "rank:ndcg": "lambdarank",
    "rank:map": "rank_map",
    "rank:pairwise": "rank_pairwise",
}
XGBOOST_METRICS: dict[str, Any] = {
    **{name: name for name in ("rmse", "mae", "mape", "auc", "aucpr", "logloss", "error")},
    "mlogloss": "logloss",
    "merror": "error",
    **{name: name for name in ("rmsle", "ndcg", "map", "expectile")},
    "mphe": "pseudo_huber",
    "quantile": "pinball",
    "pre": "precision",
    "poisson-nloglik": "poisson_nloglik",
    "gamma-nloglik": "gamma_nloglik",
    "gamma-deviance": "gamma_deviance",
    "tweedie-nloglik": "tweedie_nloglik",
    **dict.fromkeys(("cox-nloglik", "aft-nloglik"), "loss"),
}
CATBOOST_OBJECTIVES: dict[str, str] = {
    "rmse": "squared_error",
    "multirmse": "squared_error",
    "mae": "absolute_error",
    **{name: name for name in ("mape", "quantile", "huber", "expectile", "poisson", "tweedie")},
    **{name: name for name in ("focal", "cox")},
    "multiquantile": "quantile",
    "logcosh": "log_cosh",
    "logloss": "logistic",
    "multilogloss": "logistic",
    "crossentropy": "cross_entropy",
    "multiclass": "softmax",
    "multiclassonevsall": "one_vs_all",
    "lambdamart": "lambdarank",
    "pairlogit": "rank_pairwise",
    "querycrossentropy": "rank_xendcg",
    "queryrmse": "rank_pairwise",
    "yetirank": "lambdarank",
}
CATBOOST_METRICS: dict[str, Any] = {
    **{name: name for name in ("rmse", "mae", "mape", "auc", "logloss", "accuracy", "mcc", "f1")},
    **{name: name for name in ("r2", "kappa", "precision", "recall", "ndcg", "mrr", "err", "map")},
    **{name: name for name in ("poisson", "expectile", "huber", "smape", "msle")},
    "multiclass": "logloss",
    "crossentropy": "cross_entropy",
    "prauc": "aucpr",
    "precisionat": "precision",
    "recallat": "recall",
    "quantile": "pinball",
    "tweedie": "tweedie_nloglik",
    "logcosh": "log_cosh",
    "medianabsoluteerror": "median_error",
    "balancedaccuracy": "balanced_accuracy",
    "brierscore": "brier",
    "zerooneloss": "error",
    "hingeloss": "hinge",
}

_CHOICES: dict[str, dict[str, str]] = {
    "device": dict.fromkeys(("gpu", "cuda:0"), "cuda"),
    "boosting": {**dict.fromkeys(("gbtree", "plain"), "gbdt"), "random_forest": "rf"},
    "grow_policy": {
        **dict.fromkeys(("lossguide", "best_first"), "leafwise"),
        **dict.fromkeys(("symmetrictree", "oblivious"), "symmetric"),
        "levelwise": "depthwise",
    },
    "tree_method": dict.fromkeys(("gpu_hist", "histogram"), "hist"),
    "sampling": {"gradient_based": "mvs", "bernoulli": "uniform", "bagging": "uniform"},
    "leaf_estimation": {"exact": "line_search"},
}
"""Values of parameters in other libraries, in small letters, and in Hedgerow."""


def choice_hint(name: str, value: object, known: Collection[str]) -> str:
    """Return a sentence on Hedgerow's word for a value of a parameter, or on the nearest one.

    >>> choice_hint("device", "gpu", ["cpu", "cuda"])
    " In place of 'gpu', give 'cuda'."
    """
    word = value.lower() if isinstance(value, str) else ""
    ours = _CHOICES.get(name, {}).get(word)
    return did_you_mean(value, known) if ours is None else f" In place of {value!r}, give {ours!r}."


def objective_hint(word: object, known: Collection[str]) -> str:
    """Return a sentence on the Hedgerow name of a peer's objective, or on the nearest name.

    >>> objective_hint("reg:squarederror", ["squared_error", "poisson"])
    " XGBoost's 'reg:squarederror' is 'squared_error' here."
    """
    return _hint(word, known, (LIGHTGBM_OBJECTIVES, XGBOOST_OBJECTIVES, CATBOOST_OBJECTIVES))


def metric_hint(word: object, known: Collection[str]) -> str:
    """Return a sentence on the Hedgerow name of a peer's metric, or on the nearest name."""
    return _hint(word, known, (LIGHTGBM_METRICS, XGBOOST_METRICS, CATBOOST_METRICS))


def _hint(word: object, known: Collection[str], tables: tuple[dict[str, Any], ...]) -> str:
    text = word if isinstance(word, str) else brief(word)
    for library, table in zip(("LightGBM", "XGBoost", "CatBoost"), tables, strict=True):
        # CatBoost's names ignore case, and parameters follow ':'.
        ours = table.get(text.lower().partition(":")[0] if library == "CatBoost" else text)
        if ours is None:
            continue
        if ours in known:
            return f" {library}'s {text!r} is {ours!r} here."
        if ours in ("logistic", "softmax", "one_vs_all"):
            return f" {library}'s {text!r} is {ours!r} here, an objective of a HedgerowClassifier."
        if ours in ("lambdarank", "rank_pairwise", "rank_map", "rank_xendcg"):
            return f" {library}'s {text!r} is {ours!r} here, an objective of a HedgerowRanker."
    return did_you_mean(text, known)
