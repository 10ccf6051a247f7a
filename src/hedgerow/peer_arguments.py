"""Arguments of LightGBM's, XGBoost's and CatBoost's functions that Hedgerow's functions lack.

Python's TypeError for an unknown argument cannot say what to give instead.  Methods that predict
keep it: a check would take 5% of the time for one row.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

from hedgerow.errors import UnknownNameError, did_you_mean

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
    "as_pandas": "call to_frame() of the result.",
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


def advised(
    replacements: Mapping[str, str], otherwise: str = ""
) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Return a decorator: the error for unknown arguments says what to give in their place.

    Parameters
    ----------
    replacements : mapping from str to str
        Instruction for each argument of another library.
    otherwise : str
        Sentence for all other arguments that resemble none of the function.

    Examples
    --------
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

    Examples
    --------
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
