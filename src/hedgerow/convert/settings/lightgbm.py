"""Parameters of LightGBM (docs/Parameters.rst of version 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hedgerow.convert.settings.lightgbm_others import OTHER_ALIASES, OTHERS
from hedgerow.convert.settings.metrics import lightgbm_metrics
from hedgerow.convert.settings.rules import (
    IMPORTANCE,
    OFF,
    SPEED,
    Library,
    Rule,
    Translation,
    Values,
    by_canonical_name,
    of_the_kind,
    of_the_loss,
    united,
)
from hedgerow.convert.settings.rules import translate as _translate
from hedgerow.convert.settings.values import (
    MOST_BINS,
    MOST_LEVELS,
    above,
    as_list,
    as_lists,
    as_numbers,
    at_most,
    bins,
    choice,
    class_weights,
    columns,
    device,
    directions,
    flag,
    half,
    limit,
    number,
    patience,
    unchanged,
    whole,
)
from hedgerow.peer_words import LIGHTGBM_OBJECTIVES

_BOOSTING = {"gbdt": "gbdt", "gbrt": "gbdt", "dart": "dart", "rf": "rf", "random_forest": "rf"}
_UNLIKE = "the random numbers differ, so models differ in detail"
_NO_LIMIT = 10_000_000


def _below_one(value: Any) -> bool:
    return bool(number(value) < 1)


_RULES: dict[str, Rule] = {
    "objective": Rule("objective", convert=choice("objective", LIGHTGBM_OBJECTIVES)),
    "boosting": Rule("boosting", "gbdt", convert=choice("boosting", _BOOSTING)),
    "num_iterations": Rule("n_estimators", 100),
    "learning_rate": Rule("learning_rate", 0.1),
    "num_leaves": Rule("max_leaves", 31),
    "max_depth": Rule("max_depth", -1, convert=limit),
    "min_data_in_leaf": Rule(
        "min_samples_leaf",
        20,
        convert=lambda value: max(1, whole(value)),
    ),
    "min_sum_hessian_in_leaf": Rule("min_child_weight", 1e-3),
    "lambda_l1": Rule("reg_alpha", 0.0),
    "lambda_l2": Rule("reg_lambda", 0.0),
    "min_gain_to_split": Rule(
        "gamma",
        0.0,
        "half the value: LightGBM's gain is twice the reduction of the loss.",
        half,
        when=above(0),
    ),
    "max_delta_step": Rule("max_delta_step", 0.0, convert=lambda value: max(0.0, number(value))),
    "bagging_fraction": Rule(
        "subsample", 1.0, "with bagging_freq above 0, each round draws new rows.", when=_below_one
    ),
    "bagging_freq": Rule(note="each round draws new rows.", when=above(0)),
    "feature_fraction": Rule("colsample_bytree", 1.0),
    "feature_fraction_bynode": Rule("colsample_bynode", 1.0),
    "data_sample_strategy": Rule(
        "sampling", convert=choice("data_sample_strategy", {"bagging": "uniform", "goss": "goss"})
    ),
    "top_rate": Rule("goss_top_rate"),
    "other_rate": Rule("goss_other_rate"),
    "max_bin": Rule("max_bins", 255, "a column has at most 255 bins.", bins, when=above(MOST_BINS)),
    "max_bin_by_feature": Rule("max_bins_by_feature", convert=as_list),
    "min_data_in_bin": Rule(note="bins are quantiles of the column."),
    "bin_construct_sample_cnt": Rule(note="Hedgerow sets the size of the sample for bins."),
    "seed": Rule("random_state", note=f"{_UNLIKE}."),
    "num_threads": Rule("n_jobs", convert=limit),
    "device_type": Rule("device", convert=device),
    "early_stopping_round": Rule(convert=patience),
    "early_stopping_min_delta": Rule("min_delta"),
    "first_metric_only": Rule(note="early stopping uses the first metric."),
    "metric": Rule("eval_metric", convert=unchanged),
    "num_class": Rule(note="the number of classes comes from y."),
    "categorical_feature": Rule(
        "categorical_features",
        note="for hedgerow.train it is a parameter of Dataset.",
        convert=columns,
    ),
    "max_cat_threshold": Rule(
        "max_cat_threshold", 32, "it is at most 254.", at_most(MOST_LEVELS), when=above(MOST_LEVELS)
    ),
    "max_cat_to_onehot": Rule(
        "max_cat_to_onehot", 4, "it is at most 254.", at_most(MOST_LEVELS), when=above(MOST_LEVELS)
    ),
    "cat_l2": Rule("cat_l2", 10.0),
    "cat_smooth": Rule("cat_smooth", 10.0),
    "min_data_per_group": Rule("min_data_per_group", 100),
    "monotone_constraints": Rule("monotone_constraints", convert=directions),
    "monotone_constraints_method": Rule(note="there is one method for monotone constraints."),
    "interaction_constraints": Rule(
        "interaction_constraints",
        convert=as_lists,
        note="LightGBM never uses columns in no list; Hedgerow lets them interact: "
        "set their feature_penalties to 0.",
    ),
    "zero_as_missing": Rule("zero_as_missing", convert=flag),
    "linear_tree": Rule(
        "linear_leaves",
        convert=flag,
        note="a leaf uses three features at most and stays in the range of its rows.",
        when=flag,
    ),
    "linear_lambda": Rule("linear_lambda"),
    "drop_rate": Rule("drop_rate"),
    "max_drop": Rule("max_drop", convert=lambda value: limit(value) or _NO_LIMIT),
    "skip_drop": Rule("skip_drop"),
    "alpha": Rule(
        convert=lambda value: {"alpha": number(value)},
        note="it becomes quantile for objective 'quantile' and delta for 'huber'.",
    ),
    "fair_c": Rule(
        convert=lambda value: {"fair_c": number(value)}, note="it becomes delta for 'fair'."
    ),
    "tweedie_variance_power": Rule("tweedie_power"),
    "sigmoid": Rule(harmless=(1, 1.0), note="raw scores are log-odds."),
    "scale_pos_weight": Rule(
        harmless=(1, 1.0), note="use class_weight, which keeps probabilities calibrated."
    ),
    "is_unbalance": Rule(harmless=(False,), note="use class_weight='balanced'."),
    "boost_from_average": Rule(harmless=(True,), note="the model starts from the best constant."),
    "reg_sqrt": Rule(harmless=(False,), note="transform y."),
    "use_missing": Rule(harmless=(True,), note="missing values are always treated as missing."),
    "extra_trees": Rule(
        "extra_trees",
        convert=flag,
        note="cuts are drawn between the values in the node.",
        when=flag,
    ),
    "forcedsplits_filename": Rule("forced_splits", convert=lambda path: path or None),
    "path_smooth": Rule("path_smooth"),
    "monotone_penalty": Rule("monotone_penalty"),
    "lambdarank_truncation_level": Rule("truncation_level"),
    "label_gain": Rule("label_gain", convert=as_numbers),
    "class_weight": Rule(
        "class_weight",
        convert=class_weights,
        note="probabilities stay calibrated, while those of LightGBM follow the weights; for "
        "hedgerow.train use weight of Dataset.",
    ),
    "use_quantized_grad": Rule(note="gradients are always quantised to integers."),
    "deterministic": Rule(note="results never depend on threads."),
    "enable_bundle": Rule(
        "bundle_features", convert=lambda value: "auto" if flag(value) else False
    ),
    "cegb_penalty_split": Rule(harmless=(0, 0.0), note="use gamma."),
    "pred_early_stop": Rule(harmless=(False,), note="use booster.predict_decided(X)."),
    "pred_early_stop_freq": Rule(note="use the argument every of booster.predict_decided."),
    "pred_early_stop_margin": Rule(note="use the argument margin of booster.predict_decided."),
    "feature_contri": Rule(harmless=(None, "", []), note="use feature_penalties."),
    "tree_learner": Rule(
        harmless=("serial", "data", "feature"), note="see docs/distributed.md for a cluster."
    ),
    "importance_type": Rule(note=IMPORTANCE),
    **dict.fromkeys(
        (
            *("verbosity", "force_col_wise", "force_row_wise", "histogram_pool_size"),
            *("is_enable_sparse", "feature_pre_filter", "two_round"),
            *("silent", "task"),
        ),
        Rule(note=SPEED),
    ),
    **dict.fromkeys(
        (
            *("bagging_seed", "feature_fraction_seed", "data_random_seed", "drop_seed"),
            *("extra_seed", "objective_seed"),
        ),
        Rule(note=f"random_state is the only seed; {_UNLIKE}."),
    ),
}

_ALIASES: dict[str, tuple[str, ...]] = {
    "objective": ("objective_type", "app", "application", "loss"),
    "boosting": ("boosting_type", "boost"),
    "num_iterations": (
        *("num_iteration", "n_iter", "num_tree", "num_trees", "num_round", "num_rounds"),
        *("nrounds", "num_boost_round", "n_estimators", "max_iter"),
    ),
    "learning_rate": ("shrinkage_rate", "eta"),
    "num_leaves": ("num_leaf", "max_leaves", "max_leaf", "max_leaf_nodes"),
    "min_data_in_leaf": (
        *("min_data_per_leaf", "min_data", "min_child_samples", "min_samples_leaf"),
    ),
    "min_sum_hessian_in_leaf": (
        *("min_sum_hessian_per_leaf", "min_sum_hessian", "min_hessian", "min_child_weight"),
    ),
    "lambda_l1": ("reg_alpha", "l1_regularization"),
    "lambda_l2": ("reg_lambda", "lambda", "l2_regularization"),
    "min_gain_to_split": ("min_split_gain",),
    "max_delta_step": ("max_tree_output", "max_leaf_output"),
    "bagging_fraction": ("sub_row", "subsample", "bagging"),
    "bagging_freq": ("subsample_freq",),
    "feature_fraction": ("sub_feature", "colsample_bytree"),
    "feature_fraction_bynode": ("sub_feature_bynode", "colsample_bynode"),
    "max_bin": ("max_bins",),
    "bin_construct_sample_cnt": ("subsample_for_bin",),
    "seed": ("random_seed", "random_state"),
    "num_threads": ("num_thread", "nthread", "nthreads", "n_jobs"),
    "early_stopping_round": (*("early_stopping_rounds", "early_stopping", "n_iter_no_change"),),
    "metric": ("metrics", "metric_types"),
    "num_class": ("num_classes",),
    "categorical_feature": (
        *("cat_feature", "categorical_column", "cat_column", "categorical_features"),
    ),
    "monotone_constraints": ("mc", "monotone_constraint", "monotonic_cst"),
    "linear_tree": ("linear_trees",),
    "drop_rate": ("rate_drop",),
    "is_unbalance": ("unbalance", "unbalanced_sets"),
    "enable_bundle": ("is_enable_bundle", "bundle"),
    "verbosity": ("verbose",),
    "device_type": ("device",),
}

LIGHTGBM = Library(
    "LightGBM",
    united(_RULES, OTHERS),
    {other: name for name, others in united(_ALIASES, OTHER_ALIASES).items() for other in others},
)


def from_lightgbm_params(params: Mapping[str, Any], *, defaults: bool = True) -> Translation:
    """Translate LightGBM's parameters to Hedgerow's.

    Parameters
    ----------
    params : mapping
        As for ``lightgbm.train`` or an estimator of LightGBM, aliases included.
    defaults : bool, default=True
        Also set LightGBM's defaults (31 leaves, 100 rounds, ...), so that the trees are of the
        same kind.  Without them, parameters keep Hedgerow's defaults, which depend on the data.

    Returns
    -------
    Translation
        ``params`` for an estimator or :func:`hedgerow.train`, and ``differences``.

    Raises
    ------
    ParameterError
        For a name that LightGBM does not have, and for unsupported values.

    Examples
    --------
    >>> from hedgerow import from_lightgbm_params
    >>> found = from_lightgbm_params({"num_leaves": 63, "eta": 0.05}, defaults=False)
    >>> found.params
    {'max_leaves': 63, 'learning_rate': 0.05}
    """
    given = by_canonical_name(LIGHTGBM, params)
    notes = _arrange(given)
    found = _translate(LIGHTGBM, given, defaults)
    said = dict(found.params)
    _name_parameters_of_losses(said)
    if defaults:
        of_loss = _DEFAULTS_OF_LOSSES.get(str(said.get("objective")), {})
        said = {**OFF, "target_statistics": False, **of_loss, **said}
        if said["linear_leaves"]:
            said.setdefault("linear_lambda", 0.0)
    if said.get("sampling") == "goss":
        said.pop("subsample", None)
    if said.get("boosting") == "rf":
        said.pop("learning_rate", None)
    if said.get("objective") in _OF_LOSSES:
        notes.append(f"objective: {_OF_LOSSES[said['objective']]}")
    if isinstance(said.get("eval_metric"), list) and said.get("early_stopping"):
        notes.append(_OF_METRICS)
    said, unused = of_the_kind(LIGHTGBM, said)
    return of_the_loss(LIGHTGBM, said, (*found.differences, *notes, *unused))


_DEFAULTS_OF_LOSSES: dict[str, Values] = {
    "quantile": {"quantile": 0.9},
    "huber": {"delta": 0.9},
    "lambdarank": {"truncation_level": 30},
}
_OF_LOSSES = {
    "poisson": "LightGBM multiplies second derivatives of 'poisson' by exp(poisson_max_delta_step),"
    " 2.01 by default, so its steps are shorter; divide learning_rate by it for such steps.",
    "fair": "second derivatives of 'fair' are larger than LightGBM's far from the target, so steps "
    "are shorter.",
    "mape": "LightGBM divides errors by max(1, |y|), Hedgerow by |y|.",
}
"""Differences of losses with the same name."""
_OF_METRICS = (
    "metric: LightGBM stops when any metric no longer improves, unless first_metric_only is set; "
    "Hedgerow uses the first one."
)


def _arrange(given: Values) -> list[str]:
    """Change parameters whose meaning depends on others; return notes."""
    if str(given.get("boosting")).lower() == "goss":
        del given["boosting"]
        given["data_sample_strategy"] = "goss"
    if "metric" in given:
        given["metric"] = lightgbm_metrics(given["metric"], given)
    forest = _BOOSTING.get(str(given.get("boosting"))) == "rf"
    if forest or "bagging_fraction" not in given:
        return []
    try:
        drawn = number(given.get("bagging_freq", 0)) > 0
        below = _below_one(given["bagging_fraction"])
    except (TypeError, ValueError):
        return []  # the rules refuse these values
    if drawn or not below:
        return []
    given["bagging_fraction"] = 1.0
    return [
        "bagging_fraction: without bagging_freq LightGBM uses all rows, and so does subsample=1.0."
    ]


def _name_parameters_of_losses(said: Values) -> None:
    """Replace LightGBM's ``alpha`` and ``fair_c`` by the parameter of the objective."""
    alpha, bend = said.pop("alpha", None), said.pop("fair_c", None)
    name = {"quantile": "quantile", "huber": "delta"}.get(str(said.get("objective")))
    if alpha is not None and name is not None:
        said[name] = alpha
    if bend is not None and said.get("objective") == "fair":
        said["delta"] = bend
