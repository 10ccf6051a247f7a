"""Scores of test rows with intervals, and scores of the best constant.

Rows are drawn with replacement (bootstrap; Efron 1979).  For rankings, complete queries are
drawn, because the rows of a query depend on each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.errors import DataError
from hedgerow.metrics import Metric, make_metrics, metrics_of_queries
from hedgerow.metrics.queries import query_rows
from hedgerow.objectives import Objective

RESAMPLES = 200
_SAME_AS_LOSS = {
    "squared_error": "rmse", "absolute_error": "mae", "logistic": "logloss", "softmax": "logloss",
}  # fmt: skip

Link: TypeAlias = "Callable[[FloatArray], FloatArray]"


@dataclass(frozen=True, slots=True)
class Score:
    """One score of the test rows."""

    name: str
    value: float
    low: float  # low, high: ends of the interval of the value
    high: float
    constant: float  # score of the best constant prediction for the same rows
    higher_is_better: bool


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The scored rows; ``target`` has shape (n_rows,) or (n_rows, n_targets)."""

    target: FloatArray
    weight: FloatArray | None
    query: IntArray | None


@dataclass(frozen=True, slots=True, eq=False)
class _Draw:
    """Drawn rows, with new query numbers."""

    rows: IntArray
    query: IntArray | None


def scores_of(
    objective: Objective,
    names: Sequence[str],
    rows: Rows,
    raw: FloatArray,
    corrected: Link | None = None,
) -> list[Score]:
    """Return scores of some names, and the loss if it is not among them.

    Undefined scores are left out, such as the AUC of rows of one class.
    """
    metrics = make_metrics(list(names), objective) if names else ()
    if _SAME_AS_LOSS.get(objective.name) not in names:
        metrics = (*metrics, *make_metrics(None, objective))
    start = np.zeros(objective.n_outputs)  # of rankings, any constant
    if rows.query is None:
        start = objective.initial_score(rows.target, rows.weight)
    constant = np.repeat(start[:, None], len(rows.target), axis=1)
    rng = np.random.default_rng(0)
    draws = [_draw(rows, rng) for _ in range(RESAMPLES)]
    every = _Draw(np.arange(len(rows.target)), rows.query)
    found = []
    for metric in metrics:
        score = partial(_score, metric, objective, rows)
        try:
            value, base = score(every, raw, corrected), score(every, constant)
        except DataError:  # rows of one class only
            continue
        values = []
        for draw in draws:
            with suppress(DataError):
                values.append(score(draw, raw, corrected))
        finite = np.array(values)[np.isfinite(values)]
        low, high = np.percentile(finite, [2.5, 97.5]) if len(finite) else (np.nan, np.nan)
        better = metric.higher_is_better
        found.append(Score(metric.name, value, float(low), float(high), base, better))
    return found


def _draw(rows: Rows, rng: np.random.Generator) -> _Draw:
    n_rows = len(rows.target)
    if rows.query is None:
        return _Draw(rng.integers(0, n_rows, n_rows), None)
    order = np.argsort(rows.query, kind="stable")
    _, start, size = np.unique(rows.query[order], return_index=True, return_counts=True)
    drawn = rng.integers(0, len(start), len(start))
    places = [order[start[k] : start[k] + size[k]] for k in drawn.tolist()]
    return _Draw(np.concatenate(places), np.repeat(np.arange(len(drawn)), size[drawn]))


def _score(
    metric: Metric,
    objective: Objective,
    rows: Rows,
    draw: _Draw,
    raw: FloatArray,
    corrected: Link | None = None,
) -> float:
    """Return the score of drawn rows; raise ``DataError`` if it is undefined for them."""
    given = np.ascontiguousarray(raw[:, draw.rows])
    if not metric.from_raw:
        given = objective.predict(given)
        given = given if corrected is None else corrected(given)
    weight = None if rows.weight is None else rows.weight[draw.rows]
    if weight is not None and not weight.any():
        return float("nan")
    if draw.query is not None:
        queries = query_rows(draw.query, len(draw.rows))
        (metric,) = metrics_of_queries([metric], objective, queries)
    return float(metric.function(rows.target[draw.rows], given, weight))
