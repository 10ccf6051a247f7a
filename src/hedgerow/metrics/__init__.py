"""Scores by name, weighted, for learning curves and early stopping.

====================  ==============  ======  ===================================
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
====================  ==============  ======  ===================================

Of several targets, or labels, a score by name is the mean of the scores of each of them;
a function of the user's is given them all, as arrays of shape (n_rows, n_targets).
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hedgerow.arrays import FloatArray
from hedgerow.errors import HedgerowError, LossError, ParameterError, did_you_mean
from hedgerow.metrics import scores
from hedgerow.metrics.base import Metric, MetricFunction, Task
from hedgerow.metrics.ranking import NAMES, RankingMetric, ranking_metric
from hedgerow.metrics.regression import PLAIN, WITH_PARAMETER, MeanOf, RowValues
from hedgerow.metrics.scores import Explained, Mean, RowSums
from hedgerow.metrics.survival import Concordance
from hedgerow.metrics.targets import MeanOfTargets
from hedgerow.objectives.targets import SeveralTargets

if TYPE_CHECKING:
    from hedgerow.kernels.ranking import QueryRows
    from hedgerow.objectives.base import Objective

_LOSS = "loss"
_CLASSES: tuple[Task, ...] = ("two classes", "classes")

_NUMBERS: tuple[Task, ...] = ("regression",)


def _named(
    name: str,
    function: MetricFunction,
    sums: RowSums | None,
    tasks: tuple[Task, ...],
    *,
    higher_is_better: bool = False,
) -> Metric:
    return Metric(name, function, higher_is_better, tasks, sums=sums)


def _mean_of(name: str, values: RowValues) -> Metric:
    return _named(name, MeanOf(values), Mean(values), _NUMBERS)


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        _named("rmse", scores.rmse, Mean(scores.squared_errors, math.sqrt), _NUMBERS),
        _named("mae", scores.mae, Mean(scores.absolute_errors), _NUMBERS),
        _named("r2", scores.r2, Explained(), _NUMBERS, higher_is_better=True),
        _named("logloss", scores.logloss, Mean(scores.log_losses), _CLASSES),
        _named("accuracy", scores.accuracy, Mean(scores.hits), _CLASSES, higher_is_better=True),
        _named("error", scores.error, Mean(scores.misses), _CLASSES),
        _named("auc", scores.auc, None, ("two classes",), higher_is_better=True),
        _named("concordance", Concordance(), None, ("survival",), higher_is_better=True),
        *(_mean_of(name, values) for name, values in PLAIN.items()),
        *(_mean_of(name, make(value)) for name, (make, _, value) in WITH_PARAMETER.items()),
    )
}


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
    eval_metric: str | MetricFunction | Sequence[str | MetricFunction] | None,
    objective: Objective,
) -> tuple[Metric, ...]:
    """Build the metrics that ``eval_metric`` names; early stopping watches the first.

    Parameters
    ----------
    eval_metric : str, callable, sequence of these, or None
        Names in :data:`METRICS`, or ``"loss"`` for the loss of the objective,
        which ``None`` stands for, too.  A callable takes ``(y_true, prediction, weight)`` and
        returns a number, lower being better unless the callable has a true
        attribute ``higher_is_better``; its ``__name__`` is its name.
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
    if isinstance(eval_metric, str) or callable(eval_metric):
        eval_metric = (eval_metric,)
    if not isinstance(eval_metric, Sequence) or len(eval_metric) == 0:
        raise ParameterError(
            "eval_metric must be a name, a callable, a sequence of these, or None; "
            f"got {eval_metric!r}."
        )
    metrics = tuple(
        Metric(_LOSS, objective.loss, from_raw=True, sums=Mean(objective.losses))
        if item == _LOSS
        else _make_metric(item, objective)
        for item in eval_metric
    )
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
    if callable(item):
        name = getattr(item, "__name__", type(item).__name__)
        return Metric(name, item, bool(getattr(item, "higher_is_better", False)))
    usable = [_LOSS, *(name for name, metric in METRICS.items() if task in metric.tasks)]
    if task == "ranking":
        usable += NAMES
        gains = getattr(objective, "label_gain", None)
        found = ranking_metric(item, gains) if isinstance(item, str) else None
        if found is not None:
            return Metric(str(item), found, higher_is_better=True, tasks=("ranking",))
    if isinstance(objective, SeveralTargets):
        single = _make_metric(item, objective.single)
        return replace(single, function=MeanOfTargets(single.function, objective), sums=None)
    if not isinstance(item, str) or item not in METRICS:
        known = ", ".join(map(repr, usable))
        raise ParameterError(
            f"unknown eval_metric {item!r}; known here: {known}.{did_you_mean(str(item), METRICS)}"
        )
    metric = METRICS[item]
    if task not in metric.tasks:
        raise ParameterError(
            f"eval_metric {item!r} is for {' or '.join(metric.tasks)}, but this model is for "
            f"{task}; use one of {', '.join(map(repr, usable))}."
        )
    if item == "concordance":
        return replace(metric, function=Concordance(float(getattr(objective, "risk_sign", 1.0))))
    if item in WITH_PARAMETER:
        make, attribute, default = WITH_PARAMETER[item]
        return _mean_of(item, make(float(getattr(objective, attribute, default))))
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
        if metric.from_raw:
            of_queries: Callable[..., Objective] = getattr(objective, "of_queries")  # noqa: B009
            return replace(metric, function=of_queries(queries).loss)
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
    if metric.from_raw or metric is METRICS.get(metric.name):
        return metric.function(target, prediction, weight)
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
            f"eval_metric {metric.name!r} returned {score!r}; it must return one number, not NaN."
        )
    return float(score)


def _read_only(array: FloatArray) -> FloatArray:
    """A view that a user's function cannot write to: the memory is that of the fit."""
    view = array.view()
    view.flags.writeable = False
    return view


__all__ = [
    "METRICS",
    "Metric",
    "MetricFunction",
    "Task",
    "evaluate",
    "make_metrics",
    "metrics_of_queries",
    "scored_as",
    "task_of",
]
