"""Arguments, methods and attributes of LightGBM, XGBoost and CatBoost that Hedgerow lacks.

Python's errors for unknown names cannot say what to give instead.  A wrapper would take 5% of the
time to predict one row, so methods that predict collect other arguments themselves
(``**others: Never``, which type checkers refuse) and call :func:`refuse_arguments`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, ParamSpec, TypeVar

from hedgerow.errors import AbsentAttributeError, UnknownNameError, did_you_mean

_P = ParamSpec("_P")
_T = TypeVar("_T")

_NEEDLESS = "nothing: "
_ROUNDS = "give n_estimators among the parameters."
_PATIENCE = "give patience among the parameters."
_METRIC = "give eval_metric among the parameters."
_LOSS = "give the function as objective among the parameters."
_VALID = "give valid, a Dataset or {'name': Dataset}."
_BAR = "give progress=True."
_SEED = "give random_state among the parameters."
_OF_DATA = "give it to the Dataset."

OF_TRAIN: dict[str, str] = {
    **dict.fromkeys(("num_boost_round", "iterations", "num_rounds", "n_estimators"), _ROUNDS),
    **dict.fromkeys(("early_stopping_rounds", "early_stopping_round", "patience"), _PATIENCE),
    **dict.fromkeys(("feval", "custom_metric", "metrics", "eval_metric"), _METRIC),
    **dict.fromkeys(("fobj", "obj", "objective"), _LOSS),
    **dict.fromkeys(("valid_sets", "evals", "eval_set", "valid_names"), _VALID),
    **dict.fromkeys(("verbose_eval", "verbose", "logging_level"), _BAR),
    **dict.fromkeys(("categorical_feature", "feature_name", "weight", "sample_weight"), _OF_DATA),
    **dict.fromkeys(("train_set", "dtrain", "pool"), "give dataset."),
    "evals_result": "read evals_result of the booster.",
    "xgb_model": "give init_model.",
    "seed": _SEED,
}
"""Arguments of ``train``."""

OF_CV: dict[str, str] = {
    **OF_TRAIN,
    **dict.fromkeys(("nfold", "fold_count", "n_splits", "cv"), "give folds."),
    **dict.fromkeys(("partition_random_seed", "random_state"), _SEED),
    **dict.fromkeys(("valid_sets", "evals", "eval_set"), "nothing: the folds are scored."),
    "return_cvbooster": "give keep_models=True.",
    "as_pandas": "give mean['validation'] of the result to pandas.DataFrame.",
    "shuffle": "give folds, a splitter of scikit-learn; a number draws them at random.",
    "pool": "give dataset.",
    "dtrain": "give dataset.",
}
"""Arguments of ``cv``."""

OF_DATASET: dict[str, str] = {
    "data": "give X.",
    **dict.fromkeys(("label", "labels", "target"), "give y."),
    "sample_weight": "give weight.",
    **dict.fromkeys(("group", "group_id"), "give qid, the query of each row."),
    **dict.fromkeys(("init_score", "base_margin", "baseline"), "give offset."),
    **dict.fromkeys(
        ("categorical_feature", "cat_features", "feature_types"), "give categorical_features."
    ),
    "enable_categorical": "nothing: columns of categories are found by type.",
    "feature_name": "give feature_names.",
    "reference": "nothing: validation rows are binned as the training rows.",
    "missing": "replace the value by NaN, or give zero_as_missing among the parameters.",
    "free_raw_data": "nothing: the table is never copied.",
    "params": "give the parameters to train.",
}
"""Arguments of ``Dataset``."""

_RAW = "give kind='raw'."
_LEAVES = "give kind='leaf'."
_SOME_ROUNDS = "give first_round and n_rounds."

OF_PREDICT: dict[str, str] = {
    **dict.fromkeys(("raw_score", "output_margin"), _RAW),
    "pred_leaf": _LEAVES,
    **dict.fromkeys(("pred_contrib", "pred_contribs", "approx_contribs"), "call explain(X)."),
    "pred_interactions": "call explain(X, interactions=True).",
    "prediction_type": "give kind: 'value', 'raw' or 'probability'.",
    **dict.fromkeys(("num_iteration", "ntree_limit"), "give n_rounds."),
    "start_iteration": "give first_round.",
    **dict.fromkeys(("iteration_range", "ntree_start", "ntree_end"), _SOME_ROUNDS),
    **dict.fromkeys(("pred_early_stop", "pred_early_stop_margin"), "call predict_decided(X)."),
    **dict.fromkeys(("num_threads", "thread_count", "nthread"), "give n_jobs."),
    "base_margin": "give offset.",
    "data": "give X.",
    **dict.fromkeys(
        ("validate_features", "predict_disable_shape_check"),
        "nothing: columns are matched by name, and their number is checked.",
    ),
    "data_has_header": "call predict_files, which reads the header.",
    "strict_shape": "reshape the result.",
    **dict.fromkeys(("training", "task_type", "verbose"), "nothing: a prediction is the same."),
}
"""Arguments of ``Booster.predict``."""

OF_ESTIMATORS_PREDICT: dict[str, str] = {
    name: advice
    if advice.startswith((_NEEDLESS, "call explain", "give offset", "give X", "reshape"))
    else f"use booster_.predict: {advice}"
    for name, advice in OF_PREDICT.items()
}
"""Arguments of the ``predict`` and ``predict_proba`` of estimators."""

_OF_TABLES = ("num_iteration", "start_iteration", "iteration_range", "base_margin")
OF_PREDICT_ONE: dict[str, str] = {
    **{name: OF_PREDICT[name] for name in ("raw_score", "output_margin", "pred_leaf")},
    **dict.fromkeys(("pred_contrib", "pred_contribs"), "call explain([row])."),
    **{name: f"call predict([row]): {OF_PREDICT[name]}" for name in _OF_TABLES},
    **{name: f"call predict([row], {name}=...)." for name in ("first_round", "n_rounds", "offset")},
}
"""Arguments of ``predict_one``, which uses all rounds."""

OF_IMPORTANCE: dict[str, str] = {
    "importance_type": "give kind.",
    "iteration": "nothing: importances are those of all rounds.",
}
"""Arguments of ``feature_importance``."""

_OF_MODELS: dict[str, str] = {
    **dict.fromkeys(("save_model", "save_raw"), "call save(path)."),
    "load_model": "call hedgerow.load(path).",
    **dict.fromkeys(("plot_metric", "plot_metrics"), "call plot_history()."),
    **dict.fromkeys(("get_score", "get_fscore", "get_feature_importance"), "call importance()."),
}

OF_BOOSTER: dict[str, str] = {
    **_OF_MODELS,
    **dict.fromkeys(("dump_model", "get_dump"), "call export('model.json') or to_frame()."),
    **dict.fromkeys(("model_to_string", "save_config"), "call to_bytes()."),
    **dict.fromkeys(("trees_to_dataframe",), "call to_frame()."),
    **dict.fromkeys(("create_tree_digraph", "to_graphviz"), "call to_dot()."),
    **dict.fromkeys(("feature_name", "feature_names_"), "read feature_names."),
    **dict.fromkeys(("num_feature", "num_features_"), "read num_features."),
    **dict.fromkeys(("num_boosted_rounds", "current_iteration"), "read num_rounds."),
    "tree_count_": "read num_trees.",
    **dict.fromkeys(("best_score", "best_score_"), "read evals_result, at best_iteration."),
    **dict.fromkeys(("best_iteration_", "best_ntree_limit"), "read best_iteration."),
    **dict.fromkeys(("get_evals_result", "evals_result_"), "read evals_result."),
    "staged_decision_function": "call staged_predict(X, kind='raw').",
    "classes_": "read classes.",
    "feature_importances_": "call feature_importance().",
    "predict_contrib": "call explain(X).",
    **dict.fromkeys(("calc_leaf_indexes", "apply"), "call predict(X, kind='leaf')."),
    "decision_function": "call predict(X, kind='raw').",
    "get_split_value_histogram": "call split_values(column), and numpy.histogram.",
    "update": "call hedgerow.train with init_model.",
}
"""Methods and attributes of boosters."""

OF_ESTIMATORS: dict[str, str] = {
    **_OF_MODELS,
    **dict.fromkeys(("get_booster", "_Booster"), "read booster_."),
    **dict.fromkeys(
        ("dump_model", "get_dump"), "call booster_.export('model.json') or booster_.to_frame()."
    ),
    "trees_to_dataframe": "call booster_.to_frame().",
    **dict.fromkeys(("best_score_", "best_score"), "read evals_result_, at best_iteration_."),
    **dict.fromkeys(("best_iteration", "best_ntree_limit"), "read best_iteration_."),
    **dict.fromkeys(("evals_result", "get_evals_result"), "read evals_result_."),
    **dict.fromkeys(("n_estimators_", "tree_count_", "get_num_boosting_rounds"), "read n_iter_."),
    **dict.fromkeys(("feature_name_", "feature_names_"), "read booster_.feature_names."),
    "objective_": "read booster_.objective.",
    "calc_leaf_indexes": "call apply(X).",
}
"""Methods and attributes of estimators."""


class NamesOfPeers:
    """Mixin of models: the error for a method or attribute of another library names ours."""

    _names_of_peers: ClassVar[Mapping[str, str]]

    if not TYPE_CHECKING:  # type checkers find absent attributes themselves

        def __getattr__(self, name: str) -> Any:
            """Raise; Python calls this only after a look-up has failed."""
            ours = self._names_of_peers.get(name)
            if ours is None:
                return object.__getattribute__(self, name)  # raises the error of the look-up
            raise AbsentAttributeError(
                f"{type(self).__name__} has no attribute {name!r}. {advice(name, ours)}"
            )


def refuse_arguments(
    method: Callable[..., Any], others: Iterable[str], replacements: Mapping[str, str]
) -> NoReturn:
    """Raise ``UnknownNameError`` for arguments that a method does not have."""
    known = frozenset(inspect.signature(method).parameters) - {"others"}
    raise _unknown(method.__qualname__, set(others), known, replacements, "")


def advised(
    replacements: Mapping[str, str], otherwise: str = ""
) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Return a decorator: the error for unknown arguments says what to give in their place.

    ``otherwise`` is a sentence for arguments of no library that resemble none of the function.

    >>> @advised({"label": "give y."})
    ... def size(y):
    ...     return len(y)
    >>> size(label=[1, 2])
    Traceback (most recent call last):
        ...
    hedgerow.errors.UnknownNameError: size has no argument 'label'. In place of 'label', give y.
    """

    def decorate(function: Callable[_P, _T]) -> Callable[_P, _T]:
        known = frozenset(inspect.signature(function).parameters)

        @functools.wraps(function)
        def checked(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            for name in kwargs:
                if name not in known:
                    where = function.__qualname__.removesuffix(".__init__")
                    raise _unknown(where, kwargs.keys() - known, known, replacements, otherwise)
            return function(*args, **kwargs)

        return checked

    return decorate


def advice(name: str, replacement: str) -> str:
    """Return the sentence about an argument of another library.

    >>> advice("label", "give y.")
    "In place of 'label', give y."
    >>> advice("reference", "nothing: validation rows are binned as the training rows.")
    "'reference' is not needed: validation rows are binned as the training rows."
    """
    if replacement.startswith(_NEEDLESS):
        return f"{name!r} is not needed: {replacement.removeprefix(_NEEDLESS)}"
    return f"In place of {name!r}, {replacement}"


def _unknown(
    where: str,
    wrong: set[str],
    known: frozenset[str],
    replacements: Mapping[str, str],
    otherwise: str,
) -> UnknownNameError:
    names = sorted(wrong)
    hints = []
    for name in names:
        if name in replacements:
            hints.append(f" {advice(name, replacements[name])}")
        else:
            hints.append(did_you_mean(name, known - {"self"}) or (otherwise and f" {otherwise}"))
    text = "".join(dict.fromkeys(hints))
    return UnknownNameError(f"{where} has no argument {', '.join(map(repr, names))}.{text}")
