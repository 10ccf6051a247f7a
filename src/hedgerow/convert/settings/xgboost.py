"""Parameters of XGBoost (doc/parameter.rst of version 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hedgerow.convert.settings.rules import (
    Library,
    Rule,
    Translation,
    as_list,
    as_lists,
    choice,
    device,
    limit,
    of_the_loss,
)
from hedgerow.convert.settings.rules import translate as _translate
from hedgerow.errors import ParameterError
from hedgerow.peer_words import XGBOOST_METRICS, XGBOOST_OBJECTIVES


def _metric(value: Any) -> Any:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple):
        raise ParameterError(f"eval_metric must be a name, or names; got {value!r}.")
    found = [_one_metric(str(name)) for name in names]
    return found[0] if len(found) == 1 else found


def _one_metric(name: str) -> Any:
    base, at, k = name.partition("@")
    known = choice("eval_metric", XGBOOST_METRICS)(base)
    return f"{known}@{k}" if at and known in ("ndcg", "map", "precision") else known


def _booster(value: Any) -> Any:
    known = {"gbtree": "gbdt", "dart": "dart"}
    if value == "gblinear":
        raise ParameterError(
            "booster='gblinear' is not supported: Hedgerow has no linear boosters."
        )
    return choice("booster", known)(value)


def _stopping(value: Any) -> Any:
    if not value:
        return {"early_stopping": False}
    return {"early_stopping": True, "patience": int(value)}


_SPEED = Rule(note="it affects only speed or memory, so it has no counterpart.")
_RULES: dict[str, Rule] = {
    "objective": Rule("objective", convert=choice("objective", XGBOOST_OBJECTIVES)),
    "booster": Rule("boosting", "gbtree", convert=_booster),
    "n_estimators": Rule("n_estimators", 100),
    "learning_rate": Rule("learning_rate", 0.3),
    "max_depth": Rule("max_depth", 6, convert=limit),
    "max_leaves": Rule("max_leaves", convert=limit),
    "grow_policy": Rule(
        "grow_policy",
        "depthwise",
        convert=choice("grow_policy", {"depthwise": "depthwise", "lossguide": "leafwise"}),
    ),
    "min_child_weight": Rule("min_child_weight", 1.0),
    "gamma": Rule("gamma", 0.0, "XGBoost prunes such splits; Hedgerow does not make them."),
    "reg_lambda": Rule("reg_lambda", 1.0),
    "reg_alpha": Rule("reg_alpha", 0.0),
    "max_delta_step": Rule("max_delta_step", 0.0),
    "subsample": Rule("subsample", 1.0),
    "sampling_method": Rule(
        "sampling",
        convert=choice("sampling_method", {"uniform": "uniform", "gradient_based": "mvs"}),
    ),
    "colsample_bytree": Rule("colsample_bytree", 1.0),
    "colsample_bylevel": Rule("colsample_bylevel", 1.0),
    "colsample_bynode": Rule("colsample_bynode", 1.0),
    "tree_method": Rule(
        "tree_method",
        "hist",
        convert=choice(
            "tree_method", {"auto": "hist", "hist": "hist", "approx": "approx", "exact": "exact"}
        ),
    ),
    "max_bin": Rule("max_bins", 255, convert=lambda value: max(2, min(255, int(value)))),
    "max_cat_to_onehot": Rule("max_cat_to_onehot", 4, convert=lambda v: min(254, int(v))),
    "max_cat_threshold": Rule("max_cat_threshold", 64, convert=lambda v: min(254, int(v))),
    "monotone_constraints": Rule("monotone_constraints", convert=as_list),
    "interaction_constraints": Rule("interaction_constraints", convert=as_lists),
    "feature_weights": Rule("feature_weights", convert=as_list),
    "multi_strategy": Rule("multi_strategy"),
    "rate_drop": Rule("drop_rate"),
    "skip_drop": Rule("skip_drop"),
    "one_drop": Rule(harmless=(0, False), note="a round may drop no trees."),
    "sample_type": Rule(harmless=("uniform",), note="trees are dropped uniformly."),
    "normalize_type": Rule(harmless=("tree",), note="dropped trees are scaled as with 'tree'."),
    "num_parallel_tree": Rule("num_parallel_tree", 1),
    "base_score": Rule(
        harmless=(None,), note="the model starts from the best constant; use offset to change it."
    ),
    "scale_pos_weight": Rule(
        harmless=(1, 1.0), note="use class_weight, which keeps probabilities calibrated."
    ),
    "random_state": Rule(
        "random_state", note="the random numbers differ, so models differ in detail."
    ),
    "n_jobs": Rule("n_jobs", convert=limit),
    "device": Rule("device", convert=device),
    "early_stopping_rounds": Rule(convert=_stopping),
    "eval_metric": Rule("eval_metric", convert=_metric),
    "num_class": Rule(note="the number of classes comes from y."),
    "enable_categorical": Rule(
        note="columns of categories are found by type, or use categorical_features."
    ),
    "feature_types": Rule(harmless=(None,), note="use categorical_features."),
    "missing": Rule(note="NaN is missing; replace other values, or set zero_as_missing for 0."),
    "process_type": Rule(harmless=("default",), note="to update leaves, use refit."),
    "updater": Rule(harmless=(None,), note="use tree_method and grow_policy."),
    "callbacks": Rule(harmless=(None,), note="callbacks receive a Round (training-control.md)."),
    "tweedie_variance_power": Rule("tweedie_power"),
    "huber_slope": Rule("delta"),
    "quantile_alpha": Rule("quantile"),
    "aft_loss_distribution": Rule("aft_distribution"),
    "aft_loss_distribution_scale": Rule("aft_scale"),
    "lambdarank_pair_method": Rule("pair_method"),
    "lambdarank_num_pair_per_sample": Rule("pairs_per_row"),
    "lambdarank_normalization": Rule("normalize_pairs", convert=bool),
    "lambdarank_score_normalization": Rule(note="use normalize_pairs."),
    "lambdarank_unbiased": Rule(harmless=(False,), note="use position of the Dataset."),
    "lambdarank_bias_norm": Rule(note="use position_bias_regularization."),
    "ndcg_exp_gain": Rule(harmless=(True,), note="use label_gain."),
    "feature_selector": Rule(note="it concerns linear models, which Hedgerow does not have."),
    "top_k": Rule(note="it concerns linear models, which Hedgerow does not have."),
    **dict.fromkeys(
        (
            *("verbosity", "disable_default_eval_metric", "importance_type"),
            *(
                "validate_parameters",
                "seed_per_iteration",
                "refresh_leaf",
            ),
            *(
                "max_cached_hist_node",
                "use_rmm",
                "use_cuda_async_pool",
                "predictor",
            ),
        ),
        _SPEED,
    ),
}
_ALIASES: dict[str, str] = {
    "eta": "learning_rate",
    "num_boost_round": "n_estimators",
    "num_round": "n_estimators",
    "min_split_loss": "gamma",
    "lambda": "reg_lambda",
    "alpha": "reg_alpha",
    "seed": "random_state",
    "nthread": "n_jobs",
    "max_bins": "max_bin",
}
XGBOOST = Library("XGBoost", _RULES, _ALIASES)


def from_xgboost_params(params: Mapping[str, Any], *, defaults: bool = True) -> Translation:
    """Translate XGBoost's parameters to Hedgerow's.

    Parameters
    ----------
    params : mapping
        As for ``xgboost.train`` or an estimator of XGBoost.
    defaults : bool, default=True
        Also set XGBoost's defaults (depth 6, rate 0.3, ...), so that the trees are of the same
        kind.  Without them, parameters keep Hedgerow's defaults, which depend on the data.

    Returns
    -------
    Translation
        ``params`` for an estimator or :func:`hedgerow.train`, and ``differences``.

    Raises
    ------
    ParameterError
        For a name that XGBoost does not have, and for unsupported values.

    Examples
    --------
    >>> from hedgerow import from_xgboost_params
    >>> from_xgboost_params({"eta": 0.1, "lambda": 2.0}, defaults=False).params
    {'learning_rate': 0.1, 'reg_lambda': 2.0}
    """
    found = _translate(XGBOOST, params, defaults)
    said = dict(found.params)
    if defaults:
        said.setdefault("max_leaves", None)  # only the depth limits a tree
        said.setdefault("min_samples_leaf", 1)
        # Splits may use categories with few rows, and do not regularise them.
        said |= {"min_data_per_group": 1, "cat_smooth": 0.0, "cat_l2": 0.0}
    if said.get("pair_method") != "mean" and "pairs_per_row" in said:
        said["truncation_level"] = said.pop("pairs_per_row")  # its name with "topk"
    return of_the_loss(XGBOOST, said, found.differences)
