"""Scores of test rows with intervals, and scores of the best constant.

Rows are drawn with replacement (bootstrap; Efron 1979).  For rankings, complete queries are
drawn, because the rows of a query depend on each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.errors import DataError
from hedgerow.metrics import Metric, make_metrics, metrics_of_queries
from hedgerow.metrics.queries import query_rows
from hedgerow.objectives import Objective

RESAMPLES = 200

Link: TypeAlias = "Callable[[FloatArray], FloatArray]"


@dataclass(frozen=True, slots=True)
class Score:
    """One score of the test rows.

    Attributes
    ----------
    value, low, high : float
        Score of the rows, and the ends of its interval.
    constant : float
        Score of the best constant prediction for the same rows.
    """

    name: str
    value: float
    low: float
    high: float
    constant: float
    higher_is_better: bool


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The scored rows.

    Attributes
    ----------
    target : float64 (n_rows,) or (n_rows, n_targets)
    weight : float64 (n_rows,), or None
    query : int64 (n_rows,), or None
    """

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
    if not _is_among(objective, names):
        metrics = (*metrics, *make_metrics(None, objective))
    start = _constant(objective, rows)
    constant = np.repeat(start[:, None], len(rows.target), axis=1)
    models = (raw, corrected or _unchanged), (constant, _unchanged)
    rng = np.random.default_rng(0)
    draws = [_draw(rows, rng) for _ in range(RESAMPLES)]
    found = [_score(metric, objective, rows, models, draws) for metric in metrics]
    return [score for score in found if score is not None]


def _constant(objective: Objective, rows: Rows) -> FloatArray:
    """Return the raw scores of the best constant; for rankings, of any constant."""
    if rows.query is not None:
        return np.zeros(objective.n_outputs)
    return objective.initial_score(rows.target, rows.weight)


def _is_among(objective: Objective, names: Sequence[str]) -> bool:
    """Return whether the loss is already one of the scores."""
    same = {"squared_error": "rmse", "absolute_error": "mae", "logistic": "logloss"}
    return same.get(objective.name, "logloss" if objective.name == "softmax" else "") in names


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
    models: tuple[tuple[FloatArray, Link], tuple[FloatArray, Link]],
    draws: Sequence[_Draw],
) -> Score | None:
    every = _Draw(np.arange(len(rows.target)), rows.query)

    def score(model: tuple[FloatArray, Link], draw: _Draw) -> float:
        raw, corrected = model
        own = np.ascontiguousarray(raw[:, draw.rows])
        given = own if metric.from_raw else corrected(objective.predict(own))
        some = None if rows.weight is None else rows.weight[draw.rows]
        if some is not None and not some.any():
            return float("nan")
        bound = metric
        if draw.query is not None:
            queries = query_rows(draw.query, len(draw.rows))
            bound = metrics_of_queries([metric], objective, queries)[0]
        return float(bound.function(rows.target[draw.rows], given, some))

    try:
        value, constant = score(models[0], every), score(models[1], every)
    except DataError:  # rows of one class only
        return None
    values = np.array([_score_or_nan(lambda draw: score(models[0], draw), draw) for draw in draws])
    values = values[np.isfinite(values)]
    low, high = np.percentile(values, [2.5, 97.5]) if len(values) else (np.nan, np.nan)
    return Score(
        metric.name, value, float(low), float(high), constant, metric.higher_is_better,
    )  # fmt: skip


def _score_or_nan(score: Callable[[_Draw], float], draw: _Draw) -> float:
    """Return the score of drawn rows; NaN if it is undefined for them."""
    try:
        return score(draw)
    except DataError:
        return float("nan")


def _unchanged(prediction: FloatArray) -> FloatArray:
    return prediction
