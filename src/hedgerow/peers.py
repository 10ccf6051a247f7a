"""Names of LightGBM, XGBoost and CatBoost: objectives, metrics, arguments, methods, attributes.

The tables of objectives and metrics serve to translate parameter sets
(:mod:`hedgerow.convert.settings`), and to name the intended one in errors.

Python's errors for unknown names cannot say what to give instead.  A wrapper would take 5% of the
time to predict one row, so methods that predict collect other arguments themselves
(``**others: Never``, which type checkers refuse) and call :func:`refuse_arguments`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, ParamSpec, TypeVar

from hedgerow.errors import AbsentAttributeError, UnknownNameError, brief, did_you_mean

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
    "position": "give weight, one over how often its position is looked at (ranking.md).",
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
    **dict.fromkeys(
        ("pred_early_stop", "pred_early_stop_margin"), "nothing: all trees of a row are added."
    ),
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
    **dict.fromkeys(("create_tree_digraph", "to_graphviz"), "call plot_tree()."),
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
    "get_split_value_histogram": "take the threshold of its rows in to_frame().",
    "update": "call hedgerow.train with init_model; hedgerow.Training adds single rounds.",
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
