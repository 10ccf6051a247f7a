"""Parameters of LightGBM (docs/Parameters.rst of version 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hedgerow.convert.settings import rules as r
from hedgerow.convert.settings import values as v
from hedgerow.convert.settings.rules import Rule, Translation, Values
from hedgerow.errors import ParameterError, brief
from hedgerow.peers import LIGHTGBM_METRICS, LIGHTGBM_OBJECTIVES

_BOOSTING = {"gbdt": "gbdt", "gbrt": "gbdt", "dart": "dart", "rf": "rf", "random_forest": "rf"}
_SAMPLES = {"bagging": "uniform", "goss": "goss"}
_NO_LIMIT = 10_000_000
_AT_OF_LIGHTGBM = (1, 2, 3, 4, 5)
_NOTHING: tuple[Any, ...] = ("", [], ())


def _below_one(value: Any) -> bool:
    return bool(v.number(value) < 1)


_COUNTERPARTS: dict[str, tuple[str, Any]] = {
    "num_iterations": ("n_estimators", 100),
    "learning_rate": ("learning_rate", 0.1),
    "num_leaves": ("max_leaves", 31),
    "max_depth": ("max_depth", -1),
    "min_sum_hessian_in_leaf": ("min_child_weight", 1e-3),
    "lambda_l1": ("reg_alpha", 0.0),
    "lambda_l2": ("reg_lambda", 0.0),
    "feature_fraction": ("colsample_bytree", 1.0),
    "feature_fraction_bynode": ("colsample_bynode", 1.0),
    "top_rate": ("goss_top_rate", None),
    "other_rate": ("goss_other_rate", None),
    "max_bin": ("max_bins", 255),
    "max_bin_by_feature": ("max_bins_by_feature", None),
    "seed": ("random_state", None),
    "num_threads": ("n_jobs", None),
    "device_type": ("device", None),
    "early_stopping_min_delta": ("min_delta", None),
    "categorical_feature": ("categorical_features", None),
    "max_cat_threshold": ("max_cat_threshold", 32),
    "max_cat_to_onehot": ("max_cat_to_onehot", 4),
    "cat_l2": ("cat_l2", 10.0),
    "cat_smooth": ("cat_smooth", 10.0),
    "min_data_per_group": ("min_data_per_group", 100),
    "monotone_constraints": ("monotone_constraints", None),
    "monotone_penalty": ("monotone_penalty", None),
    "zero_as_missing": ("zero_as_missing", None),
    "linear_lambda": ("linear_lambda", None),
    "drop_rate": ("drop_rate", None),
    "skip_drop": ("skip_drop", None),
    "tweedie_variance_power": ("tweedie_power", None),
    "path_smooth": ("path_smooth", None),
    "lambdarank_truncation_level": ("truncation_level", None),
    "lambdarank_norm": ("normalize_pairs", None),
    "label_gain": ("label_gain", None),
    "is_provide_training_metric": ("train_scores", None),
}
_RULES: dict[str, Rule] = {
    "objective": Rule("objective", convert=v.choice("objective", LIGHTGBM_OBJECTIVES)),
    "boosting": Rule("boosting", "gbdt", convert=v.choice("boosting", _BOOSTING)),
    "data_sample_strategy": Rule("sampling", convert=v.choice("data_sample_strategy", _SAMPLES)),
    "metric": Rule("eval_metric", convert=v.unchanged),
    "early_stopping_round": Rule(convert=v.patience),
    "min_data_in_leaf": Rule("min_samples_leaf", 20, convert=lambda value: max(1, v.whole(value))),
    "max_delta_step": Rule("max_delta_step", 0.0, convert=lambda value: max(0.0, v.number(value))),
    "max_drop": Rule("max_drop", convert=lambda value: v.limit(value) or _NO_LIMIT),
    "enable_bundle": Rule("bundle_features", convert=lambda on: "auto" if v.flag(on) else False),
    "min_gain_to_split": Rule(
        "gamma",
        0.0,
        "half the value: LightGBM's gain is twice the reduction of the loss.",
        v.half,
        when=v.above(0),
    ),
    "bagging_fraction": Rule(
        "subsample", 1.0, "with bagging_freq above 0, each round draws new rows.", when=_below_one
    ),
    "bagging_freq": Rule(note="each round draws new rows.", when=v.above(0)),
    "interaction_constraints": Rule(
        "interaction_constraints",
        note="LightGBM never uses columns in no list; Hedgerow lets them interact: "
        "set their feature_penalties to 0.",
        convert=v.as_lists,
    ),
    "linear_tree": Rule(
        "linear_leaves",
        note="a leaf uses three features at most and stays in the range of its rows.",
        convert=v.flag,
        when=v.flag,
    ),
    "extra_trees": Rule(
        "extra_trees",
        note="cuts are drawn between the values in the node.",
        convert=v.flag,
        when=v.flag,
    ),
    "alpha": Rule(
        note="it becomes quantile for objective 'quantile' and delta for 'huber'.",
        convert=lambda value: {"alpha": v.number(value)},
    ),
    "fair_c": Rule(
        note="it becomes delta for 'fair'.", convert=lambda value: {"fair_c": v.number(value)}
    ),
    "class_weight": Rule(
        "class_weight",
        note="probabilities stay calibrated, while those of LightGBM follow the weights; for "
        "hedgerow.train use weight of Dataset.",
        convert=v.class_weights,
    ),
}
_REFUSED: dict[str, tuple[str, tuple[Any, ...]]] = {
    "sigmoid": ("raw scores are log-odds.", (1,)),
    "scale_pos_weight": (r.CLASS_WEIGHT, (1,)),
    "is_unbalance": ("use class_weight='balanced'.", (False,)),
    "boost_from_average": (r.FROM_BEST, (True,)),
    "reg_sqrt": ("transform y.", (False,)),
    "use_missing": ("missing values are always treated as missing.", (True,)),
    "cegb_penalty_split": ("use gamma.", (0,)),
    "cegb_tradeoff": ("use gamma and feature_penalties.", (1,)),
    "cegb_penalty_feature_lazy": ("use feature_penalties.", _NOTHING),
    "cegb_penalty_feature_coupled": ("use feature_penalties.", _NOTHING),
    "feature_contri": ("use feature_penalties.", _NOTHING),
    "pred_early_stop": ("all trees of a row are added.", (False,)),
    "tree_learner": ("see docs/distributed.md for a cluster.", ("serial", "data", "feature")),
    "num_machines": ("see docs/distributed.md.", (1,)),
    "multi_error_top_k": ("use eval_metric='top_k_error@2'.", (1,)),
    "auc_mu_weights": ("pairs of classes weigh the same.", _NOTHING),
    "bagging_by_query": ("sampling draws rows, not queries.", (False,)),
    "pos_bagging_fraction": ("sampling treats all classes alike.", (1,)),
    "neg_bagging_fraction": ("sampling treats all classes alike.", (1,)),
    "forcedbins_filename": ("give the numbers of the bins as the column.", ("",)),
    "forcedsplits_filename": ("leave it out: every split is searched for.", ("",)),
    "xgboost_dart_mode": ("dropped trees are scaled as in DART.", (False,)),
    "lambdarank_position_bias_regularization": (r.POSITIONS, (0,)),
    "snapshot_freq": ("use checkpoint.", (-1, 0)),
}
_WITHOUT: dict[str, str] = {
    r.SPEED: "verbosity force_col_wise force_row_wise histogram_pool_size is_enable_sparse "
    "feature_pre_filter two_round silent task",
    "it affects only speed or memory, so it has no counterpart.": "gpu_device_id "
    "gpu_device_id_list gpu_platform_id gpu_use_dp num_gpu top_k",
    f"random_state is the only seed; {r.UNLIKE}": "bagging_seed feature_fraction_seed "
    "data_random_seed drop_seed extra_seed objective_seed",
    "it concerns files: use Dataset.from_files or the command line.": "config data valid header "
    "label_column weight_column group_column ignore_column pre_partition precise_float_parser "
    "parser_config_file save_binary output_result",
    "it concerns model files: use save and load.": "input_model output_model convert_model "
    "convert_model_language saved_feature_importance_type",
    "it is an argument of predict.": "predict_raw_score predict_leaf_index predict_contrib "
    "predict_disable_shape_check start_iteration_predict num_iteration_predict",
    "it concerns a cluster: see docs/distributed.md.": "machines machine_list_filename "
    "local_listen_port time_out",
    "gradients are always quantised to integers.": "use_quantized_grad num_grad_quant_bins "
    "quant_train_renew_leaf stochastic_rounding",
    "bins are quantiles of the column.": "min_data_in_bin",
    "Hedgerow sets the size of the sample for bins.": "bin_construct_sample_cnt",
    "early stopping uses the first metric.": "first_metric_only",
    r.IMPORTANCE: "importance_type",
    r.CLASSES_OF_Y: "num_class",
    "there is one method for monotone constraints.": "monotone_constraints_method",
    "results never depend on threads.": "deterministic",
    "all trees of a row are added.": "pred_early_stop_freq pred_early_stop_margin",
    "the names of 'ndcg' and 'map' have it: eval_metric='ndcg@5'.": "eval_at",
    "second derivatives of 'poisson' are not enlarged; use a smaller learning_rate.": (
        "poisson_max_delta_step"
    ),
    "trees are dropped uniformly.": "uniform_drop",
    "it is an argument of refit.": "refit_decay_rate",
    "every round is evaluated.": "metric_freq",
}
_ALIASES: dict[str, str] = {
    "objective": "objective_type app application loss",
    "boosting": "boosting_type boost",
    "num_iterations": "num_iteration n_iter num_tree num_trees num_round num_rounds nrounds "
    "num_boost_round n_estimators max_iter",
    "learning_rate": "shrinkage_rate eta",
    "num_leaves": "num_leaf max_leaves max_leaf max_leaf_nodes",
    "min_data_in_leaf": "min_data_per_leaf min_data min_child_samples min_samples_leaf",
    "min_sum_hessian_in_leaf": "min_sum_hessian_per_leaf min_sum_hessian min_hessian "
    "min_child_weight",
    "lambda_l1": "reg_alpha l1_regularization",
    "lambda_l2": "reg_lambda lambda l2_regularization",
    "min_gain_to_split": "min_split_gain",
    "max_delta_step": "max_tree_output max_leaf_output",
    "bagging_fraction": "sub_row subsample bagging",
    "bagging_freq": "subsample_freq",
    "feature_fraction": "sub_feature colsample_bytree",
    "feature_fraction_bynode": "sub_feature_bynode colsample_bynode",
    "max_bin": "max_bins",
    "bin_construct_sample_cnt": "subsample_for_bin",
    "seed": "random_seed random_state",
    "num_threads": "num_thread nthread nthreads n_jobs",
    "early_stopping_round": "early_stopping_rounds early_stopping n_iter_no_change",
    "metric": "metrics metric_types",
    "num_class": "num_classes",
    "categorical_feature": "cat_feature categorical_column cat_column categorical_features",
    "monotone_constraints": "mc monotone_constraint monotonic_cst",
    "monotone_constraints_method": "monotone_constraining_method mc_method",
    "monotone_penalty": "monotone_splits_penalty ms_penalty mc_penalty",
    "linear_tree": "linear_trees",
    "drop_rate": "rate_drop",
    "is_unbalance": "unbalance unbalanced_sets",
    "enable_bundle": "is_enable_bundle bundle",
    "verbosity": "verbose",
    "device_type": "device",
    "config": "config_file",
    "task": "task_type",
    "data": "train train_data train_data_file data_filename",
    "valid": "test valid_data valid_data_file test_data test_data_file valid_filenames",
    "tree_learner": "tree tree_type tree_learner_type",
    "histogram_pool_size": "hist_pool_size",
    "pos_bagging_fraction": "pos_sub_row pos_subsample pos_bagging",
    "neg_bagging_fraction": "neg_sub_row neg_subsample neg_bagging",
    "bagging_seed": "bagging_fraction_seed",
    "extra_trees": "extra_tree",
    "top_k": "topk",
    "feature_contri": "feature_contrib fc fp feature_penalty",
    "forcedsplits_filename": "fs forced_splits_filename forced_splits_file forced_splits",
    "input_model": "model_input model_in",
    "output_model": "model_output model_out",
    "snapshot_freq": "save_period",
    "data_random_seed": "data_seed",
    "is_enable_sparse": "is_sparse enable_sparse sparse",
    "pre_partition": "is_pre_partition",
    "two_round": "two_round_loading use_two_round_loading",
    "header": "has_header",
    "label_column": "label",
    "weight_column": "weight",
    "group_column": "group group_id query_column query query_id",
    "ignore_column": "ignore_feature blacklist",
    "save_binary": "is_save_binary is_save_binary_file",
    "predict_raw_score": "is_predict_raw_score predict_rawscore raw_score",
    "predict_leaf_index": "is_predict_leaf_index leaf_index",
    "predict_contrib": "is_predict_contrib contrib",
    "output_result": "predict_result prediction_result predict_name prediction_name pred_name "
    "name_pred",
    "convert_model": "convert_model_file",
    "metric_freq": "output_freq",
    "is_provide_training_metric": "training_metric is_training_metric train_metric",
    "eval_at": "ndcg_eval_at ndcg_at map_eval_at map_at",
    "num_machines": "num_machine",
    "local_listen_port": "local_port port",
    "machine_list_filename": "machine_list_file machine_list mlist",
    "machines": "workers nodes",
}
_DEFAULTS_OF_LOSSES: dict[str, Values] = {
    "quantile": {"quantile": 0.9},
    "huber": {"delta": 0.9},
    "lambdarank": {"truncation_level": 30},
}
_LOSS_NOTES = {
    "poisson": "LightGBM multiplies second derivatives of 'poisson' by exp(poisson_max_delta_step),"
    " 2.01 by default, so its steps are shorter; divide learning_rate by it for such steps.",
    "fair": "second derivatives of 'fair' are larger than LightGBM's far from the target, so steps "
    "are shorter.",
    "mape": "LightGBM divides errors by max(1, |y|), Hedgerow by |y|.",
}


_OF_METRICS = (
    "metric: LightGBM stops when any metric no longer improves, unless first_metric_only is set; "
    "Hedgerow uses the first one."
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
    return r.translate(LIGHTGBM, params, defaults)


def _arrange(given: Values) -> list[str]:
    """Change parameters whose meaning depends on others."""
    if str(given.get("boosting")).lower() == "goss":
        del given["boosting"]
        given["data_sample_strategy"] = "goss"
    if "metric" in given:
        found = _metrics(given.pop("metric"), given)
        given |= {} if found is None else {"metric": found}
    forest = _BOOSTING.get(str(given.get("boosting"))) == "rf"
    if forest or "bagging_fraction" not in given:
        return []
    try:
        drawn = v.number(given.get("bagging_freq", 0)) > 0
        below = _below_one(given["bagging_fraction"])
    except (TypeError, ValueError):
        return []  # the rules refuse these values
    if drawn or not below:
        return []
    given["bagging_fraction"] = 1.0
    return [
        "bagging_fraction: without bagging_freq LightGBM uses all rows, and so does subsample=1.0."
    ]


def _adjust(said: Values, given: Values, defaults: bool) -> list[str]:
    """Name the parameters of losses, add defaults, and leave out what a kind of model ignores."""
    loss = str(said.get("objective"))
    alpha, bend = said.pop("alpha", None), said.pop("fair_c", None)
    name = {"quantile": "quantile", "huber": "delta"}.get(loss)
    if alpha is not None and name is not None:
        said[name] = alpha
    if bend is not None and loss == "fair":
        said["delta"] = bend
    if defaults:
        said |= {**r.OFF, "target_statistics": False, **_DEFAULTS_OF_LOSSES.get(loss, {}), **said}
        if said["linear_leaves"]:
            said.setdefault("linear_lambda", 0.0)
    if said.get("sampling") == "goss":
        said.pop("subsample", None)
    if said.get("boosting") == "rf":
        said.pop("learning_rate", None)
    if isinstance(said.get("eval_metric"), list) and said.get("early_stopping"):
        return [_OF_METRICS]
    return []


def _metrics(value: Any, given: Mapping[str, Any]) -> Any:
    """Translate LightGBM's ``metric``."""
    listed = value.split(",") if isinstance(value, str) else value
    found: list[str] = []
    for each in v.listed_names("metric", listed):
        base, at, rank = str(each).strip().partition("@")
        known = v.choice("metric", LIGHTGBM_METRICS)(base)
        if known in ("ndcg", "map"):
            ranks = v.whole(rank) if at else v.as_list(given.get("eval_at", _AT_OF_LIGHTGBM))
            found += [f"{known}@{k}" for k in ([ranks] if isinstance(ranks, int) else ranks)]
        elif at:
            raise ParameterError(f"metric={brief(each)} is not supported: {base!r} has no ranks.")
        elif known is not None:
            of_loss = {"pinball": "quantile", "huber": "huber"}.get(known)
            own = of_loss is None or given.get("objective") == of_loss  # has the same ``alpha``
            found.append(known if own else f"{known}@{v.number(given.get('alpha', 0.9))}")
    return v.one_or_all(found)


LIGHTGBM = r.library(
    "LightGBM", _COUNTERPARTS, _RULES, _REFUSED, _WITHOUT, _ALIASES,
    adjust=_adjust, arrange=_arrange, loss_notes=_LOSS_NOTES,
)  # fmt: skip
