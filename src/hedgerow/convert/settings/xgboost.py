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
        raise ParameterError("booster='gblinear' is not here: use a linear model.")
    return choice("booster", known)(value)


def _stopping(value: Any) -> Any:
    if not value:
        return {"early_stopping": False}
    return {"early_stopping": True, "patience": int(value)}


_SPEED = Rule(note="it has no counterpart: it changes speed or memory alone.")
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
    "gamma": Rule("gamma", 0.0, "XGBoost prunes splits below it, here they are not made."),
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
    "one_drop": Rule(harmless=(0, False), note="a round may drop no tree."),
    "sample_type": Rule(harmless=("uniform",), note="trees are dropped uniformly."),
    "normalize_type": Rule(harmless=("tree",), note="dropped trees are scaled as by 'tree'."),
    "num_parallel_tree": Rule("num_parallel_tree", 1),
    "base_score": Rule(
        harmless=(None,), note="models start from the best constant; give an offset to change it."
    ),
    "scale_pos_weight": Rule(
        harmless=(1, 1.0), note="use class_weight, which keeps probabilities true."
    ),
    "random_state": Rule("random_state", note="random numbers differ, so models differ in detail."),
    "n_jobs": Rule("n_jobs", convert=limit),
    "early_stopping_rounds": Rule(convert=_stopping),
    "eval_metric": Rule("eval_metric", convert=_metric),
    "num_class": Rule(note="classes are counted in y."),
    "enable_categorical": Rule(note="categories are found by their type, or by name."),
    "feature_types": Rule(harmless=(None,), note="use categorical_features."),
    "missing": Rule(note="NaN is missing; other values must be replaced, 0 by zero_as_missing."),
    "process_type": Rule(harmless=("default",), note="to update leaves, use refit."),
    "updater": Rule(harmless=(None,), note="tree_method chooses how trees are grown."),
    "callbacks": Rule(harmless=(None,), note="callbacks here get a Round (training-control.md)."),
    "tweedie_variance_power": Rule("tweedie_power"),
    "huber_slope": Rule("delta"),
    "quantile_alpha": Rule("quantile"),
    "aft_loss_distribution": Rule("aft_distribution"),
    "aft_loss_distribution_scale": Rule("aft_scale"),
    "lambdarank_pair_method": Rule("pair_method"),
    "lambdarank_num_pair_per_sample": Rule("pairs_per_row"),
    "lambdarank_normalization": Rule("normalize_pairs", convert=bool),
    "lambdarank_score_normalization": Rule(note="pairs are normalized by normalize_pairs."),
    "lambdarank_unbiased": Rule(harmless=(False,), note="give position to the Dataset."),
    "lambdarank_bias_norm": Rule(note="positions are weighed by position_bias_regularization."),
    "ndcg_exp_gain": Rule(harmless=(True,), note="give label_gain."),
    "feature_selector": Rule(note="it is of linear models, which are not here."),
    "top_k": Rule(note="it is of linear models, which are not here."),
    **dict.fromkeys(
        (
            *("verbosity", "device", "disable_default_eval_metric", "importance_type"),
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
    """Say parameters of XGBoost in the names of Hedgerow.

    Parameters
    ----------
    params : mapping
        As for ``xgboost.train`` or an estimator of XGBoost.
    defaults : bool, default=True
        Also set what XGBoost takes where nothing is given (depth 6, rate 0.3, ...), so that
        trees are of the same kind; otherwise our defaults, which follow the data.

    Returns
    -------
    Translation
        ``params`` for an estimator or :func:`hedgerow.train`, and ``differences``.

    Raises
    ------
    ParameterError
        For a name that XGBoost does not have, and for what cannot be done here.

    Examples
    --------
    >>> from hedgerow import from_xgboost_params
    >>> from_xgboost_params({"eta": 0.1, "lambda": 2.0}, defaults=False).params
    {'learning_rate': 0.1, 'reg_lambda': 2.0}
    """
    found = _translate(XGBOOST, params, defaults)
    said = dict(found.params)
    if defaults:
        said.setdefault("max_leaves", None)  # the depth alone limits a tree
        said.setdefault("min_samples_leaf", 1)
        # Categories of few rows are split by, and are not drawn towards the others.
        said |= {"min_data_per_group": 1, "cat_smooth": 0.0, "cat_l2": 0.0}
    if said.get("pair_method") != "mean" and "pairs_per_row" in said:
        said["truncation_level"] = said.pop("pairs_per_row")  # of "topk" it is the depth
    return of_the_loss(XGBOOST, said, found.differences)
