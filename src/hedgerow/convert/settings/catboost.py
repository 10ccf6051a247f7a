"""Parameters of CatBoost (reference of the training parameters, version 1.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hedgerow.convert.settings.catboost_others import OTHERS
from hedgerow.convert.settings.metrics import catboost_metrics
from hedgerow.convert.settings.options import LOSS_NOTES, catboost_loss, read_options
from hedgerow.convert.settings.rules import (
    OFF,
    Library,
    Rule,
    Translation,
    Values,
    by_canonical_name,
    united,
)
from hedgerow.convert.settings.rules import translate as _translate
from hedgerow.convert.settings.values import (
    MOST_LEVELS,
    above,
    at_most,
    bins,
    choice,
    class_weights,
    columns,
    device,
    directions,
    limit,
    patience,
    whole,
)
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
_WEIGHTS = (
    "probabilities stay calibrated, while those of CatBoost follow the weights; for hedgerow.train "
    "use weight of Dataset."
)
_RULES: dict[str, Rule] = {
    "loss_function": Rule(convert=catboost_loss),
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
    "border_count": Rule(
        "max_bins",
        254,
        "a column has at most 254 borders.",
        lambda value: bins(whole(value) + 1),
        when=above(254),
    ),
    "feature_border_type": Rule(note="bins are quantiles of the column."),
    "one_hot_max_size": Rule(
        "max_cat_to_onehot", 2, "it is at most 254.", at_most(MOST_LEVELS), when=above(MOST_LEVELS)
    ),
    "max_ctr_complexity": Rule(
        "statistics_order",
        convert=at_most(2),
        note="target statistics use one column or two.",
        when=above(2),
    ),
    "simple_ctr": Rule(note="Hedgerow has one kind of target statistic."),
    "combinations_ctr": Rule(note="Hedgerow has one kind of target statistic."),
    "cat_features": Rule(
        "categorical_features",
        note="for hedgerow.train it is a parameter of Dataset.",
        convert=columns,
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
    "class_weights": Rule(
        "class_weight",
        convert=class_weights,
        note="a list has the weights of the classes 0, 1, ...: use a mapping for others; "
        f"{_WEIGHTS}",
    ),
    "auto_class_weights": Rule(
        "class_weight", convert=choice("auto_class_weights", _BALANCED), note=_WEIGHTS
    ),
    "scale_pos_weight": Rule(
        harmless=(1, 1.0), note="use class_weight, which keeps probabilities calibrated."
    ),
    "monotone_constraints": Rule("monotone_constraints", convert=directions),
    "feature_weights": Rule(harmless=(None,), note="use feature_penalties."),
    "random_seed": Rule(
        "random_state", note="the random numbers differ, so models differ in detail."
    ),
    "thread_count": Rule("n_jobs", convert=limit),
    "task_type": Rule("device", convert=device),
    "od_type": Rule(convert=_detector),
    "early_stopping_rounds": Rule(convert=patience),
    "eval_metric": Rule("eval_metric", convert=catboost_metrics),
    "classes_count": Rule(note="the number of classes comes from y."),
    "use_best_model": Rule(note="a model ends at its best round only with early stopping."),
    "model_shrink_rate": Rule(harmless=(0, 0.0), note="Hedgerow does not shrink earlier trees."),
    "langevin": Rule(harmless=(False,), note="gradients get no noise."),
    "posterior_sampling": Rule(harmless=(False,), note="gradients get no noise."),
    "text_features": Rule(harmless=(None, []), note="turn texts into numbers first."),
    "embedding_features": Rule(harmless=(None, []), note="make a column for each number."),
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
CATBOOST = Library("CatBoost", united(_RULES, OTHERS), _ALIASES)


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
    given = by_canonical_name(CATBOOST, params)
    if "early_stopping_rounds" in given:
        _detector(given.pop("od_type", "Iter"))
    found = _translate(CATBOOST, given, defaults)
    said, notes = dict(found.params), list(found.differences)
    if defaults:
        said = {**_defaults_of(said, given), **said}
        if said.get("objective") in _OF_CLASSES and "bootstrap_type" not in given:
            notes.append(_OF_BOOTSTRAP)
    if said.get("sampling") == "mvs" and said.get("subsample", 0.0) >= 1.0:
        del said["sampling"]  # all rows are in the sample
    if said.get("grow_policy") == "symmetric":
        said.pop("max_leaves", None)
        if said.get("min_samples_leaf", 1) != 1:
            said["min_samples_leaf"] = 1
            notes.append("min_data_in_leaf: it has no effect on symmetric trees and is left out.")
    elif said.get("grow_policy") == "depthwise":
        said["max_leaves"] = None
    return Translation(said, (*notes, *_notes_of(given)))


_OF_GAINS = (
    "eval_metric: gains of CatBoost's NDCG are the labels unless type=Exp; here they are "
    "2**label - 1 unless label_gain is set."
)
_METRIC_NOTES = {
    "recallat": "the recall of a query without relevant rows is 1 in CatBoost and 0 here.",
    "err": "chances of CatBoost's ERR are the labels; here they are (2**label - 1) / 2**largest.",
}
_OF_BOOTSTRAP = (
    "bootstrap_type: CatBoost's default for several classes is 'Bayesian', which Hedgerow does not "
    "have: each tree takes all rows, unless subsample is given."
)
_OF_CLASSES = ("softmax", "one_vs_all")


def _defaults_of(said: Values, given: Mapping[str, Any]) -> Values:
    """Return CatBoost's defaults that have no rule of their own."""
    found = {**OFF, "colsample_bynode": 1.0, "min_child_weight": 0.0}
    if said.get("categorical_features"):
        found["target_statistics"] = True
    if said.get("grow_policy") == "leafwise":
        found["max_leaves"] = 31
    several = said.get("objective") in _OF_CLASSES
    if several:
        found["multi_strategy"] = "multi_output_tree"
    # The bootstrap of several classes is Bayesian, which Hedgerow does not have.
    takes_all = str(given.get("bootstrap_type", "no" if several else "mvs")).lower() == "no"
    if takes_all:
        return found | {"subsample": 1.0}
    return found | {"subsample": 0.8, "sampling": "mvs"}


def _notes_of(given: Mapping[str, Any]) -> list[str]:
    """Return the differences of the loss and of the metric."""
    notes = []
    name, _ = read_options("loss_function", str(given.get("loss_function", "")))
    if name.lower() in LOSS_NOTES:
        notes.append(f"loss_function: {LOSS_NOTES[name.lower()]}")
    name, options = read_options("eval_metric", str(given.get("eval_metric", "")))
    if name.lower() == "ndcg" and options.get("type", "Base").lower() != "exp":
        notes.append(_OF_GAINS)
    if name.lower() in _METRIC_NOTES:
        notes.append(f"eval_metric: {_METRIC_NOTES[name.lower()]}")
    return notes
