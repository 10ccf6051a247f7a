"""The interface of a metric.

Glossary
--------
score       one number for a set of rows
prediction  result of the objective for raw scores: shape (n_rows,), or
            (n_rows, n_classes) with the probabilities of the classes
raw         raw scores, shape (n_outputs, n_rows)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.errors import DataError
from hedgerow.metrics.scores import Explained, Mean, RowSums

if TYPE_CHECKING:
    from hedgerow.objectives.base import Objective

MetricFunction: TypeAlias = Callable[[FloatArray, FloatArray, FloatArray | None], float]
"""``function(y_true, prediction, weight) -> float``; class indices for classes.

``weight`` is None if all weights are equal; rows of weight 0 are left out.
"""

Task: TypeAlias = Literal[
    "regression", "two classes", "classes", "labels", "quantiles", "survival", "ranking"
]


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


def task_of(objective: Objective) -> Task:
    """Return the kind of target of an objective."""
    known: Task = getattr(objective, "task", "regression")
    return known


def scored_as(objective: Objective) -> Task:
    """Return the kind of predictions for metrics; few metrics take several numbers per row."""
    known: Task = getattr(objective, "scored_as", task_of(objective))
    return known


MetricChoice: TypeAlias = (
    str
    | MetricFunction
    | Callable[..., Any]
    | Sequence[str | MetricFunction | Callable[..., Any]]
    | None
)
"""The values of ``eval_metric``."""
