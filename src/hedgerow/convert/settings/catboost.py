"""Parameters of CatBoost (reference of the training parameters, version 1.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hedgerow.convert.settings import options as o
from hedgerow.convert.settings import rules as r
from hedgerow.convert.settings import values as v
from hedgerow.convert.settings.rules import Rule, Translation, Values
from hedgerow.errors import ParameterError, brief


def _detector(value: Any) -> Any:
    if str(value).lower() != "iter":
        raise ParameterError(
            f"od_type={brief(value)} is not supported: use 'Iter', a number of rounds."
        )
    return {"early_stopping": True, "patience": 20}


_GROW = {"symmetrictree": "symmetric", "depthwise": "depthwise", "lossguide": "leafwise"}
_SAMPLING = {"bernoulli": "uniform", "mvs": "mvs", "no": "uniform"}
_BALANCED = {"balanced": "balanced", "none": None}
_STEPS = {"newton": "newton", "gradient": "gradient", "exact": "line_search"}
_OF_CLASSES = ("softmax", "one_vs_all")
_NOTHING: tuple[Any, ...] = ("", [], {})
_WEIGHTS = (
    "probabilities stay calibrated, while those of CatBoost follow the weights; for hedgerow.train "
    "use weight of Dataset."
)
_ONE_STEP = "leaf values take one Newton step, or a line search."
_NOT_PLAIN = "it concerns boosting_type='Ordered', which Hedgerow does not have."
_COUNTERPARTS: dict[str, tuple[str, Any]] = {
    "iterations": ("n_estimators", 1000),
    "l2_leaf_reg": ("reg_lambda", 3.0),
    "min_data_in_leaf": ("min_samples_leaf", 1),
    "subsample": ("subsample", None),
    "rsm": ("colsample_bylevel", 1.0),
    "one_hot_max_size": ("max_cat_to_onehot", 2),
    "cat_features": ("categorical_features", None),
    "monotone_constraints": ("monotone_constraints", None),
    "random_seed": ("random_state", None),
    "thread_count": ("n_jobs", None),
    "task_type": ("device", None),
}
_RULES: dict[str, Rule] = {
    "loss_function": Rule(convert=o.catboost_loss),
    "eval_metric": Rule("eval_metric", convert=o.catboost_metrics),
    "od_type": Rule(convert=_detector),
    "early_stopping_rounds": Rule(convert=v.patience),
    "grow_policy": Rule("grow_policy", "SymmetricTree", convert=v.choice("grow_policy", _GROW)),
    "depth": Rule("max_depth", 6),
    "max_leaves": Rule("max_leaves", convert=v.limit),
    "leaf_estimation_method": Rule(
        "leaf_estimation", convert=v.choice("leaf_estimation_method", _STEPS)
    ),
    "learning_rate": Rule(
        "learning_rate", note="without a value, CatBoost and Hedgerow choose a rate from the data."
    ),
    "bootstrap_type": Rule(
        "sampling",
        note="Hedgerow has no Bayesian bootstrap.",
        convert=v.choice("bootstrap_type", _SAMPLING),
    ),
    "border_count": Rule(
        "max_bins",
        254,
        "a column has at most 254 borders.",
        lambda value: v.bins(v.whole(value) + 1),
        when=v.above(254),
    ),
    "max_ctr_complexity": Rule(
        "statistics_order",
        note="target statistics use one column or two.",
        convert=v.at_most(2),
        when=v.above(2),
    ),
    "class_weights": Rule(
        "class_weight",
        note="a list has the weights of the classes 0, 1, ...: use a mapping for others; "
        f"{_WEIGHTS}",
        convert=v.class_weights,
    ),
    "auto_class_weights": Rule(
        "class_weight", note=_WEIGHTS, convert=v.choice("auto_class_weights", _BALANCED)
    ),
}
_REFUSED: dict[str, tuple[str, tuple[Any, ...]]] = {
    "nan_mode": (
        "each split sends missing values to the better side.",
        ("Min", "Max", "Forbidden"),
    ),
    "boost_from_average": (r.FROM_BEST, (True,)),
    "scale_pos_weight": (r.CLASS_WEIGHT, (1,)),
    "feature_weights": ("use feature_penalties.", ()),
    "first_feature_use_penalties": ("use feature_penalties.", _NOTHING),
    "per_object_feature_penalties": ("use feature_penalties.", _NOTHING),
    "penalties_coefficient": ("use feature_penalties.", (1,)),
    "model_shrink_rate": ("Hedgerow does not shrink earlier trees.", (0,)),
    "langevin": ("gradients get no noise.", (False,)),
    "posterior_sampling": ("gradients get no noise.", (False,)),
    "text_features": ("turn texts into numbers first.", ([],)),
    **dict.fromkeys(
        ("tokenizers", "dictionaries", "feature_calcers", "text_processing"),
        ("turn texts into numbers first.", ([], {})),
    ),
    "embedding_features": ("make a column for each number.", ([],)),
    "sampling_unit": ("sampling draws rows, not groups.", ("Object",)),
    "sampling_frequency": ("rows are drawn once for each tree.", ("PerTree",)),
    "mvs_reg": ("MVS finds its regularisation from the gradients.", ()),
    "has_time": ("target statistics use a random order of the rows.", (False,)),
    "approx_on_full_history": (_NOT_PLAIN, (False,)),
    "fold_len_multiplier": (_NOT_PLAIN, (2,)),
    "fold_permutation_block": (
        "target statistics use an order of single rows, not of blocks.",
        (0, 1),
    ),
    "per_float_feature_quantization": ("use max_bins_by_feature or forced_bins.", _NOTHING),
    "input_borders": ("use forced_bins.", ("", [])),
    "fixed_binary_splits": ("use forced_bins.", ("", [])),
    "sparse_features_conflict_fraction": ("use bundle_features and max_conflict_rate.", (0,)),
    "ignored_features": ("leave these columns out of the data.", ([],)),
    "target_border": ("make two classes of y first.", ()),
    "od_pval": ("use early_stopping_rounds, a number of rounds.", (0,)),
    "best_model_min_trees": ("a model may end at any round.", (1,)),
    "eval_fraction": ("use early_stopping=True, which holds out validation_fraction.", (0,)),
    "callback": ("callbacks receive a Round (training-control.md).", ()),
}
_WITHOUT: dict[str, str] = {
    r.SPEED: "verbose logging_level devices device_config allow_writing_files train_dir "
    "metric_period used_ram_limit gpu_ram_part save_snapshot snapshot_file snapshot_interval name "
    "metadata output_borders pinned_memory_size gpu_cat_features_storage data_partition "
    "dev_score_calc_obj_block_size dev_efb_max_buckets",
    "Hedgerow has one kind of target statistic.": "simple_ctr combinations_ctr counter_calc_method "
    "ctr_leaf_count_limit store_all_simple_ctr per_feature_ctr ctr_description "
    "ctr_target_border_count final_ctr_computation_mode ctr_history_unit",
    "Hedgerow has no Bayesian bootstrap.": "bagging_temperature",
    "gains get no noise; target statistics of a training row come from other rows.": (
        "random_strength"
    ),
    "gains get no noise.": "random_score_type",
    "gains are those of Newton steps, CatBoost's 'NewtonL2'; its default is 'Cosine'.": (
        "score_function"
    ),
    "bins are quantiles of the column.": "feature_border_type",
    _ONE_STEP: "leaf_estimation_iterations leaf_estimation_backtracking",
    "trees are grown on all rows ('Plain'); target statistics of a training row never hold its own "
    "target.": "boosting_type",
    r.CLASSES_OF_Y: "classes_count",
    "the names of the classes come from y.": "class_names",
    "a constant target is allowed.": "allow_const_label",
    "a model ends at its best round only with early stopping.": "use_best_model",
    "target statistics of many levels have no penalty.": "model_size_reg",
    "Hedgerow does not shrink earlier trees.": "model_shrink_mode",
    "it concerns langevin, which Hedgerow does not have.": "diffusion_temperature",
    "give all metrics in eval_metric.": "custom_metric custom_loss",
}
_ALIASES: dict[str, str] = {
    "loss_function": "objective",
    "iterations": "num_boost_round n_estimators num_trees",
    "learning_rate": "eta",
    "depth": "max_depth",
    "l2_leaf_reg": "reg_lambda",
    "max_leaves": "num_leaves",
    "min_data_in_leaf": "min_child_samples",
    "rsm": "colsample_bylevel",
    "border_count": "max_bin",
    "random_seed": "random_state",
    "early_stopping_rounds": "od_wait",
    "verbose": "silent verbose_eval",
}
_METRIC_NOTES = {
    "recallat": "the recall of a query without relevant rows is 1 in CatBoost and 0 here.",
    "err": "chances of CatBoost's ERR are the labels; here they are (2**label - 1) / 2**largest.",
}


def from_catboost_params(params: Mapping[str, Any], *, defaults: bool = True) -> Translation:
    """Translate CatBoost's parameters to Hedgerow's.

    Parameters
    ----------
    params : mapping
        As for ``catboost.CatBoost``.
    defaults : bool, default=True
        Also set CatBoost's defaults (symmetric trees of depth 6, 1000 rounds, ...), so that the
        trees are of the same kind.  Without them, parameters keep Hedgerow's defaults, which
        depend on the data.

    Returns
    -------
    Translation
        ``params`` for an estimator or :func:`hedgerow.train`, and ``differences``.

    Raises
    ------
    ParameterError
        For a name that CatBoost does not have, and for unsupported values.

    Examples
    --------
    >>> from hedgerow import from_catboost_params
    >>> from_catboost_params({"depth": 4, "l2_leaf_reg": 5}, defaults=False).params
    {'max_depth': 4, 'reg_lambda': 5}
    """
    return r.translate(CATBOOST, params, defaults)


def _arrange(given: Values) -> list[str]:
    """Let a number of rounds stand for its detector."""
    if "early_stopping_rounds" in given:
        _detector(given.pop("od_type", "Iter"))
    return []


def _adjust(said: Values, given: Values, defaults: bool) -> list[str]:
    """Add defaults, and leave out what a kind of tree ignores."""
    notes: list[str] = []
    if defaults:
        r.add_defaults(said, _defaults_of(said, given))
        if said.get("objective") in _OF_CLASSES and "bootstrap_type" not in given:
            notes.append(
                "bootstrap_type: CatBoost's default for several classes is 'Bayesian', which "
                "Hedgerow does not have: each tree takes all rows, unless subsample is given."
            )
    if said.get("grow_policy") == "symmetric":
        said.pop("max_leaves", None)
        if said.get("min_samples_leaf", 1) != 1:
            said["min_samples_leaf"] = 1
            notes.append("min_data_in_leaf: it has no effect on symmetric trees and is left out.")
    elif said.get("grow_policy") == "depthwise":
        said["max_leaves"] = None
    name, _ = o.read_options("loss_function", str(given.get("loss_function", "")))
    if name.lower() in o.LOSS_NOTES:
        notes.append(f"loss_function: {o.LOSS_NOTES[name.lower()]}")
    name, options = o.read_options("eval_metric", str(given.get("eval_metric", "")))
    if name.lower() == "ndcg" and options.get("type", "Base").lower() != "exp":
        notes.append(
            "eval_metric: gains of CatBoost's NDCG are the labels unless type=Exp; here they are "
            "2**label - 1 unless label_gain is set."
        )
    if name.lower() in _METRIC_NOTES:
        notes.append(f"eval_metric: {_METRIC_NOTES[name.lower()]}")
    return notes


def _defaults_of(said: Values, given: Values) -> Values:
    """Return CatBoost's defaults that have no rule of their own."""
    found = {**r.OFF, "colsample_bynode": 1.0, "min_child_weight": 0.0}
    if said.get("categorical_features"):
        found["target_statistics"] = True
    if said.get("grow_policy") == "leafwise":
        found["max_leaves"] = 31
    several = said.get("objective") in _OF_CLASSES
    # The bootstrap of several classes is Bayesian, which Hedgerow does not have.
    bootstrap = str(given.get("bootstrap_type", "no" if several else "mvs")).lower()
    if several and bootstrap != "mvs":  # which vector leaves do not have
        found["multi_strategy"] = "multi_output_tree"
    takes_all = bootstrap == "no"
    return found | ({"subsample": 1.0} if takes_all else {"subsample": 0.8, "sampling": "mvs"})


CATBOOST = r.library(
    "CatBoost", _COUNTERPARTS, _RULES, _REFUSED, _WITHOUT, _ALIASES,
    adjust=_adjust, arrange=_arrange,
)  # fmt: skip
