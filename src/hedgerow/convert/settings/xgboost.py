"""Parameters of XGBoost (doc/parameter.rst of version 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hedgerow.convert.settings.metrics import xgboost_metrics
from hedgerow.convert.settings.rules import (
    IMPORTANCE,
    OFF,
    SPEED,
    Library,
    Rule,
    Translation,
    Values,
    of_the_kind,
    of_the_loss,
)
from hedgerow.convert.settings.rules import translate as _translate
from hedgerow.convert.settings.values import (
    MOST_BINS,
    MOST_LEVELS,
    above,
    as_lists,
    as_numbers,
    at_most,
    bins,
    choice,
    device,
    directions,
    flag,
    half,
    is_nan,
    limit,
    number,
    patience,
)
from hedgerow.errors import ParameterError
from hedgerow.peer_words import XGBOOST_OBJECTIVES


def _booster(value: Any) -> Any:
    known = {"gbtree": "gbdt", "dart": "dart"}
    if value == "gblinear":
        raise ParameterError(
            "booster='gblinear' is not supported: Hedgerow has no linear boosters."
        )
    return choice("booster", known)(value)


def _missing(value: Any) -> dict[str, Any]:
    """Translate the value that stands for missing; NaN always does."""
    if is_nan(value):
        return {}
    if number(value) == 0:
        return {"zero_as_missing": True}
    raise ValueError("replace this value by NaN in the data; only NaN and 0 can be missing")


def _levels(value: Any) -> Any:
    """Return one level, or several as a list."""
    if not isinstance(value, str):
        return value
    listed = as_numbers(value)
    return listed[0] if len(listed) == 1 else listed


_OF_LINEAR = Rule(note="it concerns linear models, which Hedgerow does not have.")
_UNLIKE = Rule(note="the random numbers differ, so models differ in detail.")
_OF_GOALS = {"one_output_per_tree": "one_output_per_tree", "multi_output_tree": "multi_output_tree"}
_OF_AFT = {name: name for name in ("normal", "logistic", "extreme")}
_NO_LIMIT = 10_000_000
_MOST_LEAVES = 65_535
_RULES: dict[str, Rule] = {
    "objective": Rule("objective", convert=choice("objective", XGBOOST_OBJECTIVES)),
    "booster": Rule("boosting", "gbtree", convert=_booster),
    "n_estimators": Rule("n_estimators", 100),
    "learning_rate": Rule("learning_rate", 0.3),
    "max_depth": Rule("max_depth", 6, convert=limit),
    "max_leaves": Rule(
        "max_leaves",
        convert=limit,
        note="with grow_policy 'depthwise' the last level may split other nodes.",
        when=above(0),
    ),
    "grow_policy": Rule(
        "grow_policy",
        "depthwise",
        convert=choice("grow_policy", {"depthwise": "depthwise", "lossguide": "leafwise"}),
    ),
    "min_child_weight": Rule("min_child_weight", 1.0),
    "gamma": Rule(
        "gamma",
        0.0,
        "half the value: XGBoost's gain is twice the reduction of the loss. XGBoost prunes splits "
        "with less gain; Hedgerow does not make them.",
        half,
        when=above(0),
    ),
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
    "max_bin": Rule("max_bins", 255, "a column has at most 255 bins.", bins, when=above(MOST_BINS)),
    "max_cat_to_onehot": Rule(
        "max_cat_to_onehot", 4, "it is at most 254.", at_most(MOST_LEVELS), when=above(MOST_LEVELS)
    ),
    "max_cat_threshold": Rule(
        "max_cat_threshold", 64, "it is at most 254.", at_most(MOST_LEVELS), when=above(MOST_LEVELS)
    ),
    "monotone_constraints": Rule("monotone_constraints", convert=directions),
    "interaction_constraints": Rule(
        "interaction_constraints",
        convert=as_lists,
        note="in XGBoost columns in no list interact with no other column; Hedgerow lets them "
        "interact: add a list for each, such as [2].",
    ),
    "feature_weights": Rule("feature_weights", convert=as_numbers),
    "multi_strategy": Rule("multi_strategy", convert=choice("multi_strategy", _OF_GOALS)),
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
    "early_stopping_rounds": Rule(convert=patience),
    "eval_metric": Rule(
        "eval_metric",
        convert=xgboost_metrics,
        note="XGBoost stops by the last metric and Hedgerow by the first, so the last comes first.",
        when=lambda value: not isinstance(value, str) and len(value) > 1,
    ),
    "num_class": Rule(note="the number of classes comes from y."),
    "enable_categorical": Rule(
        note="columns of categories are found by type, or use categorical_features."
    ),
    "feature_types": Rule(harmless=(None,), note="use categorical_features."),
    "missing": Rule(
        convert=_missing,
        note="NaN and 0 can be missing (0: zero_as_missing=True); replace other values by NaN.",
        when=lambda value: not is_nan(value),
    ),
    "process_type": Rule(harmless=("default",), note="to update leaves, use refit."),
    "updater": Rule(harmless=(None,), note="use tree_method and grow_policy."),
    "callbacks": Rule(harmless=(None,), note="callbacks receive a Round (training-control.md)."),
    "tweedie_variance_power": Rule("tweedie_power"),
    "huber_slope": Rule("delta"),
    "quantile_alpha": Rule("quantile", convert=_levels),
    "expectile_alpha": Rule("expectile"),
    "aft_loss_distribution": Rule(
        "aft_distribution", convert=choice("aft_loss_distribution", _OF_AFT)
    ),
    "aft_loss_distribution_scale": Rule("aft_scale"),
    "lambdarank_pair_method": Rule(
        "pair_method",
        convert=choice("lambdarank_pair_method", {"topk": "topk", "mean": "mean"}),
    ),
    "lambdarank_num_pair_per_sample": Rule("pairs_per_row"),
    "lambdarank_normalization": Rule("normalize_pairs", convert=flag),
    "lambdarank_score_normalization": Rule(note="use normalize_pairs."),
    "lambdarank_unbiased": Rule(harmless=(False,), note="use position of the Dataset."),
    "lambdarank_bias_norm": Rule(note="use position_bias_regularization."),
    "ndcg_exp_gain": Rule(harmless=(True,), note="use label_gain."),
    "refresh_leaf": Rule(note="it concerns updater='refresh': use refit of the booster."),
    "seed_per_iteration": _UNLIKE,
    **dict.fromkeys(("feature_selector", "top_k"), _OF_LINEAR),
    "importance_type": Rule(note=IMPORTANCE),
    **dict.fromkeys(
        (
            *("verbosity", "disable_default_eval_metric"),
            *("validate_parameters", "max_cached_hist_node", "use_rmm", "use_cuda_async_pool"),
            "predictor",
        ),
        Rule(note=SPEED),
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
    said, notes = dict(found.params), list(found.differences)
    if defaults:
        said = {**_defaults_of(said), **said}
        if said.get("objective") == "poisson" and not _is_given(params, "max_delta_step"):
            said["max_delta_step"] = 0.7
        if said["max_depth"] is None and said["max_leaves"] is None:
            said["max_leaves"] = _MOST_LEAVES
    if said.get("pair_method") != "mean" and "pairs_per_row" in said:
        said["truncation_level"] = said.pop("pairs_per_row")  # its name with "topk"
    if said.get("sampling") == "mvs" and said.get("subsample", 0.0) >= 1.0:
        del said["sampling"]  # all rows are in the sample
    if said.get("tree_method") in ("approx", "exact") and "max_bins" in said:
        del said["max_bins"]
        if _is_given(params, "max_bin"):
            notes.append(_OF_BINS)
    if said.get("objective") in _OF_LOSSES:
        notes.append(f"objective: {_OF_LOSSES[said['objective']]}")
    said, unused = of_the_kind(XGBOOST, said)
    return of_the_loss(XGBOOST, said, [*notes, *unused])


_OF_BINS = "max_bin: only tree_method 'hist' has bins; with 'approx' use sketch_eps=1/max_bin."
_RANKING_BY_PAIRS = ("lambdarank", "rank_map", "rank_pairwise")
_OF_LOSSES = {
    "poisson": "XGBoost multiplies second derivatives of 'count:poisson' by exp(max_delta_step), "
    "2.01 by default, so its steps are shorter; divide learning_rate by it for about such steps.",
    "softmax": "XGBoost multiplies second derivatives of several classes by 2, Hedgerow by "
    "K / (K - 1) for K classes, so XGBoost's steps are shorter.",
    "pseudo_huber": "second derivatives of 'pseudo_huber' are larger than XGBoost's far from the "
    "target, so steps are shorter.",
    "squared_log_error": "Hedgerow fits log(1 + y) by least squares; XGBoost minimises the same "
    "loss with y as raw score.",
    **dict.fromkeys(
        _RANKING_BY_PAIRS,
        "XGBoost multiplies second derivatives of rankings by 2, so its steps are shorter; divide "
        "learning_rate by 2 for about such steps.",
    ),
    "cox": "events at the same time count by Efron's method; XGBoost uses Breslow's.",
    "hinge": "leaves of 'hinge' have the values with the least loss; XGBoost's are Newton steps "
    "with second derivatives of 1.",
}
"""Differences of losses with the same name."""


def _is_given(params: Mapping[str, Any], name: str) -> bool:
    return any(
        value is not None and XGBOOST.canonical(given) == name for given, value in params.items()
    )


def _defaults_of(said: Values) -> Values:
    """Return XGBoost's defaults that have no rule of their own."""
    found = {
        **OFF,
        "target_statistics": False,
        "max_leaves": None,  # only the depth limits a tree
        "min_samples_leaf": 1,
        # Splits may use categories with few rows, and do not regularise them.
        "min_data_per_group": 1,
        "cat_smooth": 0.0,
        "cat_l2": 0.0,
    }
    if said.get("boosting") == "dart":
        found |= {"drop_rate": 0.0, "skip_drop": 0.0, "max_drop": _NO_LIMIT}
    if said.get("objective") in _RANKING_BY_PAIRS and said.get("pair_method") != "mean":
        found["pairs_per_row"] = 32
    return found
