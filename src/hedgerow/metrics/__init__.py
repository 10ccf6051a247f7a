"""Scores by name, weighted, for learning curves and early stopping.

name                  for             better  what
====================  ==============  ======  ===================================
``loss``              everything      lower   what the objective minimises
``rmse``              regression      lower   root of the mean squared error
``mae``               regression      lower   mean absolute error
``r2``                regression      higher  explained share of the variance
``mape``              regression      lower   mean of |y - m| / |y|
``msle``              regression      lower   mean squared error of log(1 + y)
``poisson_deviance``  regression      lower   mean deviance, targets from 0 on
``gamma_deviance``    regression      lower   mean deviance, positive targets
``tweedie_deviance``  regression      lower   mean deviance, ``tweedie_power``
``pinball``           regression      lower   mean pinball loss at ``quantile``
``expectile``         regression      lower   mean asymmetric square
``huber``             regression      lower   mean of Huber's loss at ``delta``
``logloss``           classification  lower   mean of -log(p of the true class)
``accuracy``          classification  higher  share of rows classified correctly
``error``             classification  lower   share of rows classified wrongly
``auc``               two classes     higher  area under the ROC curve
``concordance``       survival        higher  share of the pairs in right order
``ndcg``, ``ndcg@k``  ranking         higher  discounted gains of the first k rows
``map``, ``map@k``    ranking         higher  mean average precision
``mrr``, ``mrr@k``    ranking         higher  1 / rank of the first relevant row
``precision@k``       ranking         higher  share of relevant rows of the first k
``err``, ``err@k``    ranking         higher  expected reciprocal rank
``auc``               ranking         higher  share of the pairs in right order
====================  ==============  ======  ===================================

Of several targets, or labels, a score by name is the mean of the scores of each of them;
a function of the user's is given them all, as arrays of shape (n_rows, n_targets).
=======
============  ==================================================================
``loss``      what the objective minimises, for every task
by name       :data:`METRICS` and :data:`ALIASES` (:mod:`hedgerow.metrics.catalogue`);
              rankings: :mod:`hedgerow.metrics.ranking`
scorers       of scikit-learn, by name or as made by ``make_scorer``
              (:mod:`hedgerow.metrics.scorers`)
groups        :class:`GroupedMetric`: a metric for each group of rows
functions     ``function(y_true, prediction, weight) -> float``
============  ==================================================================

Of several targets, or labels, a score by name is the mean of the scores of each of them,
as is that of a scorer; a function of the user's is given them all, as arrays of shape
(n_rows, n_targets).

``docs/metrics.md`` has the table of all names.
"""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hedgerow.arrays import FloatArray
from hedgerow.errors import HedgerowError, LossError, ParameterError
from hedgerow.metrics.base import Metric, MetricFunction, OfCountedRows, Task
from hedgerow.metrics.catalogue import ALIASES, METRICS, find_metric
from hedgerow.metrics.distributions import OF_DISTRIBUTIONS, distribution_metric
from hedgerow.metrics.groups import GroupedMetric, MetricChoice, by_group, grouped
from hedgerow.metrics.ranking import NAMES, RankingMetric, ranking_metric
from hedgerow.metrics.scorers import is_scorer, name_of, scorer_metric, scorer_names
from hedgerow.metrics.scores import Mean
from hedgerow.metrics.survival import Concordance
from hedgerow.metrics.targets import of_targets
from hedgerow.objectives.targets import SeveralTargets
from hedgerow.peer_words import metric_hint

if TYPE_CHECKING:
    from hedgerow.kernels.ranking import QueryRows
    from hedgerow.objectives.base import Objective

_LOSS = "loss"


def task_of(objective: Objective) -> Task:
    """What kind of target an objective learns."""
    known: Task | None = getattr(objective, "task", None)
    if known is not None:
        return known
    if objective.name in ("logistic", "exponential"):
        return "two classes"
    if objective.name == "softmax" and objective.n_outputs == 2:
        return "two classes"
    return "classes" if objective.name == "softmax" else "regression"


def make_metrics(
    eval_metric: MetricChoice,
    objective: Objective,
) -> tuple[Metric, ...]:
    """Build the metrics that ``eval_metric`` names; early stopping watches the first.

    Parameters
    ----------
    eval_metric : str, callable, GroupedMetric, sequence of these, or None
        Names in :data:`METRICS`, :data:`ALIASES` and of scikit-learn's scorers, or
        ``"loss"`` for the loss of the objective, which ``None`` stands for, too.  A
        callable is a scorer ``(estimator, X, y)``, higher being better; or takes
        ``(y_true, prediction, weight)`` and returns a number, lower being better unless
        it has a true attribute ``higher_is_better``; its ``__name__`` is its name.
    objective : Objective

    Returns
    -------
    tuple of Metric

    Raises
    ------
    ParameterError
        If a name is unknown, occurs twice, or is of no use for the task.

    Examples
    --------
    >>> from hedgerow.metrics import make_metrics
    >>> from hedgerow.objectives import make_objective
    >>> metrics = make_metrics(["mae", "r2"], make_objective("squared_error"))
    >>> [metric.name for metric in metrics]
    ['mae', 'r2']
    """
    if eval_metric is None:
        eval_metric = _LOSS
    if isinstance(eval_metric, str | GroupedMetric) or callable(eval_metric):
        eval_metric = (eval_metric,)
    if not isinstance(eval_metric, Sequence) or len(eval_metric) == 0:
        raise ParameterError(
            "eval_metric must be a name, a callable, a GroupedMetric, a sequence of these, or "
            f"None; got {eval_metric!r}."
        )
    metrics = tuple(_make_metric(item, objective) for item in eval_metric)
    names = [metric.name for metric in metrics]
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(f"eval_metric {name!r} is given twice; leave one of them out.")
    return metrics


def scored_as(objective: Objective) -> Task:
    """What kind of predictions metrics get: those of several numbers have few."""
    known: Task = getattr(objective, "scored_as", task_of(objective))
    return known


def _make_metric(item: object, objective: Objective) -> Metric:
    task = scored_as(objective)
    if isinstance(item, GroupedMetric):
        return _grouped(item, objective, task)
    if isinstance(item, str) and item == _LOSS:
        return Metric(
            _LOSS, objective.loss, from_raw=True, sums=Mean(objective.losses), built_in=True
        )
    own_function = callable(item) and not is_scorer(item)
    if isinstance(objective, SeveralTargets) and not own_function:
        return of_targets(_make_metric(item, objective.single), objective)
    if is_scorer(item):
        return scorer_metric(item, objective, task)
    if callable(item):
        _check_arguments(item)
        return Metric(name_of(item), item, bool(getattr(item, "higher_is_better", False)))
    if isinstance(item, str) and task == "ranking":
        found = ranking_metric(item, getattr(objective, "label_gain", None))
        if found is not None:
            return Metric(item, found, True, ("ranking",), built_in=True)
    return _by_name(item, objective, task)


def _grouped(item: GroupedMetric, objective: Objective, task: Task) -> Metric:
    if task == "ranking":
        raise ParameterError(
            "a GroupedMetric scores rows, but this model ranks the rows of queries: give the "
            "metric itself."
        )
    if item.metric == _LOSS and not getattr(objective, "rowwise", True):
        raise ParameterError(
            f"the loss of objective {objective.name!r} compares rows with each other, so that "
            "groups have none of their own: use another metric in GroupedMetric."
        )
    return grouped(item, _make_metric(item.metric, objective))


def _by_name(item: object, objective: Objective, task: Task) -> Metric:
    """A metric of the catalogue, or a scorer of scikit-learn."""
    usable = [_LOSS, *(name for name, metric in METRICS.items() if task in metric.tasks)]
    usable += NAMES if task == "ranking" else ()
    if hasattr(objective, "distribution"):
        usable += OF_DISTRIBUTIONS
        if item in OF_DISTRIBUTIONS:
            return distribution_metric(item, objective)
    elif item in OF_DISTRIBUTIONS:
        raise ParameterError(
            f"eval_metric {item!r} is for objectives that learn a distribution, such as 'normal'; "
            f"this model is of {objective.name!r}: use one of {', '.join(map(repr, usable))}."
        )

    def parameter_of(attribute: str) -> float | None:
        value = getattr(objective, attribute, None) if attribute else None
        return None if value is None else float(value)

    metric = find_metric(item, parameter_of) if isinstance(item, str) else None
    if metric is None:
        known = scorer_names() if isinstance(item, str) else []
        if item in known:
            return scorer_metric(item, objective, task)
        hint = metric_hint(item, [*METRICS, *ALIASES, *NAMES, *known])
        raise ParameterError(
            f"unknown eval_metric {item!r}; known here: {', '.join(map(repr, usable))}, and "
            f"names of scikit-learn's scorers.{hint}"
        )
    if task not in metric.tasks:
        raise ParameterError(
            f"eval_metric {item!r} is for {' or '.join(metric.tasks)}, but this model is for "
            f"{task}; use one of {', '.join(map(repr, usable))}."
        )
    if metric.name == "concordance":
        function = Concordance(float(getattr(objective, "risk_sign", 1.0)))
        return replace(metric, function=OfCountedRows(metric.name, function))
    return metric


def metrics_of_queries(
    metrics: Sequence[Metric], objective: Objective, queries: QueryRows
) -> tuple[Metric, ...]:
    """The metrics of a ranking for rows of these queries; a user's function is as it was.

    Parameters
    ----------
    metrics : sequence of Metric
    objective : Objective
        Whose loss may be among them.
    queries : QueryRows
    """

    def bound(metric: Metric) -> Metric:
        if metric.name == _LOSS:
            of_queries: Callable[..., Objective] = getattr(objective, "of_queries")  # noqa: B009
            return replace(metric, function=of_queries(queries).loss, sums=None)
        if isinstance(metric.function, RankingMetric):
            return replace(metric, function=metric.function.of_queries(queries))
        return metric

    return tuple(bound(metric) for metric in metrics)


def evaluate(
    metrics: Sequence[Metric],
    objective: Objective,
    target: FloatArray,
    raw: FloatArray,
    weight: FloatArray | None,
) -> dict[str, float]:
    """Compute the score of each metric for raw scores of shape (n_outputs, n_rows).

    Raises
    ------
    LossError
        If a metric raises, or returns something that is not a number or is NaN.
    """
    prediction = raw if all(m.from_raw for m in metrics) else objective.predict(raw)
    return {
        metric.name: _checked(metric, target, raw if metric.from_raw else prediction, weight)
        for metric in metrics
    }


def _checked(
    metric: Metric, target: FloatArray, prediction: FloatArray, weight: FloatArray | None
) -> float:
    if metric.built_in:
        return not_nan(metric.name, metric.function(target, prediction, weight))
    try:
        score = metric.function(
            _read_only(target),
            _read_only(prediction),
            None if weight is None else _read_only(weight),
        )
    except HedgerowError:
        raise
    except Exception as fault:
        raise LossError(f"eval_metric {metric.name!r} raised {fault!r}.") from fault
    if isinstance(score, bool) or not isinstance(score, numbers.Real) or math.isnan(score):
        raise LossError(
            f"eval_metric {metric.name!r} returned {_shown(score)}; it must return one number, not "
            f"NaN.{_advice(score)}"
        )
    return float(score)


def not_nan(name: str, score: float) -> float:
    """The score of a built-in metric.

    Raises
    ------
    LossError
        If it is NaN: no round could be better than another.
    """
    if math.isnan(score):
        raise LossError(
            f"the metric {name!r} is NaN, so that no round can be chosen by it: a prediction or a "
            "target is too large or outside of what it is defined for. Use another eval_metric, a "
            "smaller learning_rate, or early_stopping=False."
        )
    return score


def _shown(score: object) -> str:
    """What a metric returned, or of something long its shape or the beginning."""
    if shape := getattr(score, "shape", ()):
        return f"an array of shape {shape}"
    text = repr(score)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _advice(score: object) -> str:
    """What to do about it."""
    if isinstance(score, tuple | list):
        return (
            " Return the number alone: the name of the metric is the function's __name__, and "
            "higher is better if its attribute higher_is_better is True."
        )
    if getattr(score, "shape", ()):
        return " Return the mean over the rows, weighted by the third argument."
    return " Does the function return its score?" if score is None else ""


def _check_arguments(function: Callable[..., object]) -> None:
    """Refuse a function that cannot be called with target, prediction and weight."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of C, perhaps: known when it is called
        return
    try:
        signature.bind(None, None, None)
    except TypeError as fault:
        raise ParameterError(
            f"eval_metric {name_of(function)!r} is called with three arguments, (y_true, "
            f"prediction, weight), but its are {signature}: {fault}. Add what is missing; weight "
            "is None where rows have no weights."
        ) from None


def _read_only(array: FloatArray) -> FloatArray:
    """A view that a user's function cannot write to: the memory is that of the fit."""
    view = array.view()
    view.flags.writeable = False
    return view


__all__ = [
    "ALIASES",
    "METRICS",
    "GroupedMetric",
    "Metric",
    "MetricChoice",
    "MetricFunction",
    "Task",
    "by_group",
    "evaluate",
    "make_metrics",
    "metrics_of_queries",
    "not_nan",
    "scored_as",
    "task_of",
]
