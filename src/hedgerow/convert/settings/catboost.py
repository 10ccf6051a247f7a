"""Parameters of CatBoost (reference of the training parameters, version 1.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hedgerow.convert.settings.rules import Library, Rule, Translation, choice, device, limit
from hedgerow.convert.settings.rules import translate as _translate
from hedgerow.errors import ParameterError
from hedgerow.peer_words import CATBOOST_METRICS, CATBOOST_OBJECTIVES

_PARAMETERS = {
    "quantile": ("alpha", "quantile"),
    "expectile": ("alpha", "expectile"),
    "huber": ("delta", "delta"),
    "tweedie": ("variance_power", "tweedie_power"),
}


def _objective(value: Any) -> Any:
    """Convert an objective with parameters, such as ``Quantile:alpha=0.9``."""
    if not isinstance(value, str):
        raise ParameterError(f"loss_function must be text; got {value!r}.")
    name, _, rest = value.partition(":")
    ours = choice("loss_function", CATBOOST_OBJECTIVES)(name)
    found: dict[str, Any] = {"objective": ours}
    given = dict(part.split("=", 1) for part in rest.replace(";", ",").split(",") if "=" in part)
    if ours in _PARAMETERS and _PARAMETERS[ours][0] in given:
        peer_name, here = _PARAMETERS[ours]
        try:
            found[here] = float(given[peer_name])
        except ValueError:
            raise ParameterError(f"{value!r}: {peer_name} must be a number.") from None
    return found


def _metric(value: Any) -> Any:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple):
        raise ParameterError(f"eval_metric must be a name, or names; got {value!r}.")
    found = [choice("eval_metric", CATBOOST_METRICS)(str(name).partition(":")[0]) for name in names]
    return found[0] if len(found) == 1 else found


def _stopping(value: Any) -> Any:
    if not value:
        return {"early_stopping": False}
    return {"early_stopping": True, "patience": int(value)}


def _detector(value: Any) -> Any:
    if value != "Iter":
        raise ParameterError(f"od_type={value!r} is not supported: use 'Iter', a number of rounds.")
    return {}


_GROW = {"symmetrictree": "symmetric", "depthwise": "depthwise", "lossguide": "leafwise"}
_SAMPLING = {"bernoulli": "uniform", "mvs": "mvs", "no": "uniform"}
_SPEED = Rule(note="it affects only speed, memory or messages, so it has no counterpart.")
_RULES: dict[str, Rule] = {
    "loss_function": Rule(convert=_objective),
    "iterations": Rule("n_estimators", 1000),
    "learning_rate": Rule(
        "learning_rate", note="without a value, CatBoost and Hedgerow choose a rate from the data."
    ),
    "depth": Rule("max_depth", 6),
    "l2_leaf_reg": Rule("reg_lambda", 3.0),
    "grow_policy": Rule("grow_policy", "SymmetricTree", convert=choice("grow_policy", _GROW)),
    "max_leaves": Rule("max_leaves", convert=limit),
    "min_data_in_leaf": Rule("min_samples_leaf", 1),
    "subsample": Rule("subsample"),
    "bootstrap_type": Rule(
        "sampling",
        convert=choice("bootstrap_type", _SAMPLING),
        note="Hedgerow has no Bayesian bootstrap.",
    ),
    "bagging_temperature": Rule(note="Hedgerow has no Bayesian bootstrap."),
    "random_strength": Rule(
        note="gains get no noise; target statistics of a training row come from other rows."
    ),
    "rsm": Rule("colsample_bylevel", 1.0),
    "border_count": Rule("max_bins", 254, convert=lambda value: max(2, min(255, int(value) + 1))),
    "feature_border_type": Rule(note="bins are quantiles of the column."),
    "one_hot_max_size": Rule("max_cat_to_onehot", convert=lambda v: max(1, min(254, int(v)))),
    "max_ctr_complexity": Rule(
        "statistics_order",
        convert=lambda value: max(1, min(2, int(value))),
        note="target statistics use one column or two.",
    ),
    "simple_ctr": Rule(note="Hedgerow has one kind of target statistic."),
    "combinations_ctr": Rule(note="Hedgerow has one kind of target statistic."),
    "cat_features": Rule(
        "categorical_features", note="for hedgerow.train it is a parameter of Dataset."
    ),
    "nan_mode": Rule(
        harmless=("Min", "Max", "Forbidden"),
        note="each split sends missing values to the better side.",
    ),
    "leaf_estimation_method": Rule(
        "leaf_estimation",
        convert=choice(
            "leaf_estimation_method",
            {"newton": "newton", "gradient": "gradient", "exact": "line_search"},
        ),
    ),
    "leaf_estimation_iterations": Rule(note="leaf values take one Newton step, or a line search."),
    "boosting_type": Rule(
        note="trees are grown on all rows ('Plain'); target statistics of a training row never "
        "hold its own target."
    ),
    "boost_from_average": Rule(harmless=(True,), note="the model starts from the best constant."),
    "class_weights": Rule("class_weight"),
    "auto_class_weights": Rule(
        "class_weight", convert=choice("auto_class_weights", {"balanced": "balanced"})
    ),
    "scale_pos_weight": Rule(
        harmless=(1, 1.0), note="use class_weight, which keeps probabilities calibrated."
    ),
    "monotone_constraints": Rule("monotone_constraints"),
    "feature_weights": Rule(harmless=(None,), note="use feature_penalties."),
    "random_seed": Rule(
        "random_state", note="the random numbers differ, so models differ in detail."
    ),
    "thread_count": Rule("n_jobs", convert=limit),
    "task_type": Rule("device", convert=device),
    "early_stopping_rounds": Rule(convert=_stopping),
    "od_type": Rule(convert=_detector),
    "eval_metric": Rule("eval_metric", convert=_metric),
    "classes_count": Rule(note="the number of classes comes from y."),
    "use_best_model": Rule(note="a model ends at its best round with early stopping."),
    "model_shrink_rate": Rule(harmless=(0, 0.0), note="Hedgerow does not shrink earlier trees."),
    "langevin": Rule(harmless=(False,), note="gradients get no noise."),
    "posterior_sampling": Rule(harmless=(False,), note="gradients get no noise."),
    "text_features": Rule(harmless=(None, []), note="turn texts into numbers first."),
    "embedding_features": Rule(harmless=(None, []), note="make a column for each number."),
    **dict.fromkeys(
        (
            *("verbose", "logging_level", "devices", "allow_writing_files"),
            *("train_dir", "metric_period", "used_ram_limit", "gpu_ram_part", "save_snapshot"),
            *("snapshot_file", "snapshot_interval", "model_size_reg", "score_function"),
            *("has_time", "name", "custom_metric", "sampling_frequency", "sampling_unit"),
            *("leaf_estimation_backtracking", "approx_on_full_history", "fold_permutation_block"),
            *("fold_len_multiplier", "per_float_feature_quantization", "penalties_coefficient"),
        ),
        _SPEED,
    ),
}
_ALIASES: dict[str, str] = {
    "objective": "loss_function",
    **dict.fromkeys(("num_boost_round", "n_estimators", "num_trees"), "iterations"),
    "eta": "learning_rate",
    "max_depth": "depth",
    "reg_lambda": "l2_leaf_reg",
    "num_leaves": "max_leaves",
    "min_child_samples": "min_data_in_leaf",
    "colsample_bylevel": "rsm",
    "max_bin": "border_count",
    "random_state": "random_seed",
    "od_wait": "early_stopping_rounds",
    "silent": "verbose",
    "verbose_eval": "verbose",
}
CATBOOST = Library("CatBoost", _RULES, _ALIASES)


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
    found = _translate(CATBOOST, params, defaults)
    said = dict(found.params)
    if said.get("grow_policy") == "symmetric":
        said.pop("max_leaves", None)
    elif said.get("grow_policy") == "depthwise":
        said["max_leaves"] = None
    return Translation(said, found.differences)
