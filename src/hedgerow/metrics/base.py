"""The interface of a metric, and its evaluation.

Glossary
--------
score       one number for a set of rows
prediction  result of the objective for raw scores: shape (n_rows,), or
            (n_rows, n_classes) with the probabilities of the classes
raw         raw scores, shape (n_outputs, n_rows)
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from hedgerow.arrays import FloatArray, IntArray, read_only
from hedgerow.errors import DataError, HedgerowError, LossError
from hedgerow.metrics.scores import Explained, Mean, RowSums
from hedgerow.objectives.catalogue import AnyTask

if TYPE_CHECKING:
    from hedgerow.objectives.base import Objective

MetricFunction: TypeAlias = Callable[[FloatArray, FloatArray, FloatArray | None], float]
"""``function(y_true, prediction, weight) -> float``; class indices for classes.

``weight`` is None if all weights are equal; rows of weight 0 are left out.
"""

Task: TypeAlias = AnyTask

UNNAMED = "the metric"
"""Beginning of errors of functions that several metrics share."""


def of_counted_rows(
    name: str,
    function: MetricFunction,
    from_raw: bool,
    y_true: FloatArray,
    prediction: FloatArray,
    weight: FloatArray | None = None,
) -> float:
    """Return the score of a metric without the rows of weight 0, of which not all may be."""
    if weight is None or np.all(weight):
        return _named(name, function, np.arange(len(y_true)), y_true, prediction, weight)
    rows = np.flatnonzero(weight)
    if len(rows) == 0:
        raise DataError(
            f"metric {name!r} needs a row with a weight above 0, but the weights of all "
            f"{len(weight)} rows are 0."
        )
    counted = rows_of(prediction, rows, from_raw)
    return _named(name, function, rows, y_true[rows], counted, weight[rows])


def _named(name: str, function: MetricFunction, rows: IntArray, *values: Any) -> float:
    """Return the score of some rows; errors name the metric and its row of all rows."""
    try:
        return function(*values)
    except DataError as error:
        error.args = (str(error).replace(UNNAMED, f"metric {name!r}", 1),)
        if error.row is not None:
            row = int(rows[error.row])
            error.name_row(lambda _: f"row {row}")
            error.at(row)
        raise


def rows_of(prediction: FloatArray, rows: IntArray, from_raw: bool) -> FloatArray:
    """Return some rows of predictions or raw scores."""
    return np.ascontiguousarray(prediction[:, rows]) if from_raw else prediction[rows]


@dataclass(frozen=True, slots=True)
class Metric:
    """A named score; ``y_true`` of its function holds numbers, or class indices 0, 1, ..."""

    name: str  # key in the history of a fit
    function: MetricFunction
    higher_is_better: bool = False
    tasks: tuple[Task, ...] = ()  # empty for all tasks
    from_raw: bool = False  # whether the function takes raw scores instead of predictions
    # the same score, to the last bit, from parts of the rows; None: it needs all rows at once
    sums: RowSums | None = None
    what: str = ""  # for the table of all metrics
    built_in: bool = False  # a function of Hedgerow gets writable arrays; its result is not checked

    def improves(self, score: float, best: float, min_delta: float = 0.0) -> bool:
        """Return whether ``score`` is better than ``best`` by more than ``min_delta``."""
        gain = score - best if self.higher_is_better else best - score
        return gain > min_delta


def built_in(
    name: str,
    score: MetricFunction,
    tasks: tuple[Task, ...] = (),
    what: str = "",
    *,
    higher: bool = False,
    from_raw: bool = False,
) -> Metric:
    """Return the metric of a function of Hedgerow, by sums over rows if it is a :class:`Mean`."""
    sums = score if isinstance(score, Mean | Explained) else None
    counted = partial(of_counted_rows, name, score, from_raw)
    return Metric(name, counted, higher, tasks, from_raw, sums, what, built_in=True)


MetricChoice: TypeAlias = (
    str
    | MetricFunction
    | Callable[..., Any]
    | Sequence[str | MetricFunction | Callable[..., Any]]
    | None
)
"""The values of ``eval_metric``."""


def evaluate(
    metrics: Sequence[Metric],
    objective: Objective,
    target: FloatArray,
    raw: FloatArray,
    weight: FloatArray | None,
) -> dict[str, float]:
    """Compute the score of each metric for raw scores of shape (n_outputs, n_rows)."""
    prediction = raw if all(m.from_raw for m in metrics) else objective.predict(raw)
    return {
        metric.name: _checked(metric, target, raw if metric.from_raw else prediction, weight)
        for metric in metrics
    }


def evaluate_rounds(
    metrics: Sequence[Metric], targets: FloatArray, raw: FloatArray, weight: FloatArray | None
) -> dict[str, list[float]] | None:
    """Compute the scores of several rounds, whose terms are computed together."""
    # NaN is possible; None if some metric is not a mean over the rows.
    if not all(m.built_in and m.from_raw and type(m.sums) is Mean for m in metrics):
        return None
    n_rounds, targets = raw.shape[1], targets[: raw[0].size]
    together, scores = raw.reshape(len(raw), -1), {}
    for metric in metrics:
        assert isinstance(metric.sums, Mean)
        terms = metric.sums.values(targets, together).reshape(n_rounds, -1)
        scores[metric.name] = metric.sums.means(terms, weight)
    return scores


def _checked(
    metric: Metric, target: FloatArray, prediction: FloatArray, weight: FloatArray | None
) -> float:
    if metric.built_in:
        return not_nan(metric.name, metric.function(target, prediction, weight))
    try:
        score = metric.function(
            read_only(target), read_only(prediction), None if weight is None else read_only(weight)
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
    """Return the score of a built-in metric."""
    if math.isnan(score):
        raise LossError(
            f"the metric {name!r} is NaN, so it cannot choose a round: a prediction or a "
            "target is too large or outside the metric's domain. Use another eval_metric, a "
            "smaller learning_rate, or early_stopping=False."
        )
    return score


def _shown(score: object) -> str:
    """Return text for the result of a metric; for a long result, its shape or beginning."""
    if shape := getattr(score, "shape", ()):
        return f"an array of shape {shape}"
    text = repr(score)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _advice(score: object) -> str:
    """Return advice for a wrong result."""
    if isinstance(score, tuple | list):
        return (
            " Return the number alone: the name of the metric is the function's __name__, and "
            "higher is better if its attribute higher_is_better is True."
        )
    if getattr(score, "shape", ()):
        return " Return the mean over the rows, weighted by the third argument."
    return " Does the function return its score?" if score is None else ""
