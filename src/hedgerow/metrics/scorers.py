"""Scorers of scikit-learn as metrics: by name, from ``make_scorer``, or custom.

A scorer calls ``predict``, ``predict_proba`` or
``decision_function`` of an estimator.  During training there is no estimator, so the scorer gets a
substitute that returns the scores of the round, through scikit-learn's public interface only.
Higher is better, as for every scorer (``neg_log_loss``).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hedgerow.argument_types import name_of_function, parameters_of
from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.errors import ParameterError
from hedgerow.metrics.base import Metric, MetricFunction, Task

if TYPE_CHECKING:
    from hedgerow.objectives.base import Objective

_METHODS = {
    "y_proba": "predict_proba",
    "y_score": ("decision_function", "predict_proba"),
    "pred_decision": "decision_function",
}
"""Methods of an estimator whose result is an argument of scikit-learn's metric functions."""

_TASKS: tuple[Task, ...] = ("regression", "two classes", "classes")


def is_scorer(item: object) -> bool:
    """Return whether a callable is a scorer: its first parameter is ``estimator``."""
    known = (parameters_of(item) if callable(item) else None) or []
    return [each.name for each in known[:1]] == ["estimator"]


def scorer_metric(item: Any, objective: Objective, task: Task) -> Metric:
    """Return the metric of a scorer; raise for tasks without scorers in scikit-learn."""
    from sklearn.metrics import get_scorer

    name = item if isinstance(item, str) else name_of(item)
    if task not in _TASKS:
        raise ParameterError(
            f"eval_metric {name!r} is a scorer of scikit-learn, for {' or '.join(_TASKS)}; this "
            f"model is for {task}: use a metric by name, or a function of (y_true, prediction, "
            "weight)."
        )
    score = functools.partial(_score, name, get_scorer(item), objective, task)
    return Metric(name, score, True, _TASKS, from_raw=True)


def sklearn_metric(function: Callable[..., Any], objective: Objective, task: Task) -> Metric | None:
    """Return the metric of scikit-learn's ``function(y_true, y_pred)``; None for others."""
    inner = function.func if isinstance(function, functools.partial) else function
    module = getattr(inner, "__module__", None)
    is_known = isinstance(module, str) and module.startswith("sklearn.metrics.")
    if task not in _TASKS or not is_known:
        return None
    from sklearn.metrics import make_scorer

    name = name_of(inner)
    second = list(inspect.signature(function).parameters)[1]
    method: Any = "predict"
    if task != "regression" and (second in _METHODS or name == "log_loss"):
        method = _METHODS.get(second, "predict_proba")
        if second == "y_score" and task == "classes":
            method = "predict_proba"
    scorer = make_scorer(function, response_method=method)
    score = functools.partial(_score, name, scorer, objective, task)
    # By their names, scores and coefficients are better if higher, all others if lower.
    higher = getattr(function, "higher_is_better", name.endswith(("_score", "_corrcoef")))
    return Metric(name, score, bool(higher), _TASKS, from_raw=True)


def no_weights(name: str) -> ParameterError:
    """Return the error of a metric that takes no weights, for rows that have some."""
    return ParameterError(
        f"eval_metric {name!r} takes no weights, but the rows have weights (from sample_weight or "
        "class_weight): leave them out, or use another eval_metric."
    )


def with_weight(function: Callable[..., float]) -> MetricFunction:
    """Return a function of target, prediction and weight; raise if it cannot be called so."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # perhaps a C function: the call will show
        return function
    try:
        signature.bind(None, None, None)
    except TypeError as fault:
        reason = fault
    else:
        return function
    for weighted in (True, False):
        try:
            signature.bind(None, None, **({"sample_weight": None} if weighted else {}))
        except TypeError:
            continue
        return functools.partial(_of_two_arguments, function, weighted)
    raise ParameterError(
        f"eval_metric {name_of(function)!r} is called with (y_true, prediction, weight), or with "
        f"(y_true, prediction) and sample_weight=..., but takes {signature}: {reason}. Change its "
        "arguments; weight is None if rows have no weights."
    )


def _of_two_arguments(
    function: Callable[..., float],
    weighted: bool,
    y_true: FloatArray,
    prediction: FloatArray,
    weight: FloatArray | None = None,
) -> float:
    """Return ``function(y_true, prediction)``, with a ``sample_weight`` if it is ``weighted``."""
    if weight is None:
        return function(y_true, prediction)
    if not weighted:
        raise no_weights(name_of_function(function))
    return function(y_true, prediction, sample_weight=weight)


def name_of(scorer: object) -> str:
    """Return the name of a function; of a scorer without one its text, if that has no address."""
    function = getattr(scorer, "_score_func", None)
    if function is None or hasattr(scorer, "__name__"):
        return name_of_function(scorer)
    text = str(scorer)
    return name_of_function(function) if " at 0x" in text else text


def _score(
    name: str,
    scorer: Callable[..., Any],
    objective: Objective,
    task: Task,
    y_true: FloatArray,
    raw: FloatArray,
    weight: FloatArray | None,
) -> float:
    """Return ``scorer(estimator, X, y, sample_weight=...)`` for raw scores (n_outputs, n_rows)."""
    rows = np.arange(len(y_true)).reshape(-1, 1)
    target: AnyArray = y_true if task == "regression" else y_true.astype(np.int64)
    given: dict[str, Any] = {}
    if weight is not None:
        known = parameters_of(getattr(scorer, "_score_func", scorer)) or ()
        takes = (p.name == "sample_weight" or p.kind is p.VAR_KEYWORD for p in known)
        if known and not any(takes):
            raise no_weights(name)
        given["sample_weight"] = weight
    found = scorer(_stand_in(raw, objective, task), rows, target, **given)
    value: float = found.item() if hasattr(found, "item") else found
    return value


def _stand_in(raw: FloatArray, objective: Objective, task: Task) -> Any:
    """Return the substitute for the model; its X has one column, the number of the row."""
    # Most fits do not need scikit-learn.
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

    class OfRows(BaseEstimator):  # type: ignore[misc]
        def __sklearn_is_fitted__(self) -> bool:
            return True

    class Regressor(RegressorMixin, OfRows):  # type: ignore[misc]
        def predict(self, X: Any) -> FloatArray:
            return objective.predict(raw[:, _rows(X)])

    class Classifier(ClassifierMixin, OfRows):  # type: ignore[misc]
        classes_: npt.NDArray[np.int64] = np.arange(max(2, len(raw)))

        def predict(self, X: Any) -> npt.NDArray[np.int64]:
            chosen = raw[:, _rows(X)]
            return (chosen[0] > 0.0).astype(np.int64) if len(raw) == 1 else chosen.argmax(axis=0)

        def predict_proba(self, X: Any) -> FloatArray:
            return objective.predict(raw[:, _rows(X)])

        def decision_function(self, X: Any) -> FloatArray:
            chosen = raw[:, _rows(X)]
            if len(raw) == 1:
                return chosen[0]
            return chosen[1] - chosen[0] if len(raw) == 2 else np.ascontiguousarray(chosen.T)

    return Regressor() if task == "regression" else Classifier()


def _rows(X: Any) -> npt.NDArray[np.intp]:
    return np.asarray(X).reshape(-1).astype(np.intp)
