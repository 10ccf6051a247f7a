"""Findings about a model on test rows: scores, importances, drift, surprises, warnings.

Glossary
--------
interval  range of a score in 95 of 100 resamples of the rows (bootstrap; Efron 1979)
shift     difference between test rows and training rows at the splits of a column: the root
          mean square, over the splits, of the difference of the shares that go left, in units
          of its standard deviation, minus the value expected by chance
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.booster import Booster, objective_of
from hedgerow.boosting.row_data.checks import check_weight
from hedgerow.boosting.row_data.classes import true_probabilities
from hedgerow.boosting.row_data.offsets import features_of_rows
from hedgerow.data.reading.frames import columns_by_name
from hedgerow.errors import DataError
from hedgerow.inspection import Importances, PartialDependence, permutation_importance
from hedgerow.inspection.importance import read_queries, read_targets
from hedgerow.metrics import Metric, make_metrics, metrics_of_queries
from hedgerow.metrics.queries import query_rows
from hedgerow.objectives import Objective
from hedgerow.objectives.catalogue import SURVIVAL, scored_as
from hedgerow.plot.classifier import calibration_of

RESAMPLES = 200
_SAME_AS_LOSS = {
    "squared_error": "rmse", "absolute_error": "mae", "logistic": "logloss", "softmax": "logloss",
}  # fmt: skip

SAMPLE = 2000
"""Maximum number of rows for importances, effects of probabilities, and shifts."""

STRONG_SHIFT = 0.1
STRONG_SHARE = 0.8
_SCORES = {
    "regression": ("r2", "rmse", "mae"),
    "two classes": ("auc", "logloss", "accuracy"),
    "classes": ("logloss", "accuracy", "f1_macro"),
    "labels": ("auc", "accuracy"),
    "quantiles": (),
    "survival": ("concordance",),
    "ranking": ("ndcg", "map"),
}
_NO_LOSS_OF_ROWS = ("cox",)
_POINTS = 60
_STRONG_ERROR = 0.05
_FEWEST = 200
"""Number of test rows below which scores are uncertain."""


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


@dataclass(frozen=True, slots=True)
class Surprise:
    """A row whose target is far from the prediction."""

    row: int  # from 0
    target: object  # target, predicted: tuples for several targets or quantiles
    predicted: object
    loss: float


@dataclass(frozen=True, eq=False)
class Findings:
    """All findings about a model on its test rows.

    Attributes
    ----------
    booster : Booster
    task : str
        Result of :func:`hedgerow.objectives.catalogue.scored_as`; of each target, if several.
    X : mapping from str to array
        The rows, as columns.
    y : ndarray
        Targets as passed by the user: labels or numbers; for several targets, shape
        (n_rows, n_targets).
    classes : ndarray or None
        Labels by index.
    probability : float64 (n_rows, n_classes) or (n_rows, n_labels), or None
    predicted : ndarray
        Labels or numbers; for several targets or quantiles, shape (n_rows, n_outputs).
    weight : float64 (n_rows,), or None
    query : int64 (n_rows,), or None
        For rankings, the query number of each row.
    scores : tuple of Score
    permutation : Importances
    effects : PartialDependence
        For all columns, on the scale of predictions.
    shifts : mapping from str to float
        For the columns with splits; the largest first.
    unseen : mapping from str to int
        Number of rows with a category that no training row has, by column.
    surprises : tuple of Surprise
        Empty if the loss of a row depends on other rows: rankings, ``cox``.
    warnings : tuple of str
    explanation : Explanation or None
        For the surprising rows, if the booster can explain.
    overview : Explanation or None
        For a sample of the rows.
    """

    booster: Booster
    task: str
    X: Mapping[str, AnyArray]
    y: AnyArray
    classes: AnyArray | None
    probability: FloatArray | None
    predicted: AnyArray
    weight: FloatArray | None
    query: IntArray | None
    scores: tuple[Score, ...]
    permutation: Importances
    effects: PartialDependence
    shifts: Mapping[str, float]
    unseen: Mapping[str, int]
    surprises: tuple[Surprise, ...]
    warnings: tuple[str, ...]
    explanation: Any
    overview: Any


def find(
    booster: Booster,
    X: Any,
    y: Any,
    *,
    classes: AnyArray | None = None,
    sample_weight: Any = None,
    qid: Any = None,
    n_surprises: int = 4,
    n_jobs: int | None = None,
) -> Findings:
    """Evaluate a model on test rows.

    Parameters
    ----------
    booster : Booster
    X : data frame, mapping from str to array, or array of shape (n_rows, n_features)
        Columns by name, including offset columns if the model has them; those of an array are in
        the order of training.
    y : array-like of shape (n_rows,) or (n_rows, n_targets)
        For survival: times, where censored rows have a minus sign, or event and time.
    classes : ndarray, optional
        Labels by index, if the booster does not know them.
    sample_weight : array-like of shape (n_rows,), optional
    qid : array-like of shape (n_rows,), optional
        For rankings, the query of each row.
    n_surprises : int, default=4
        Number of rows with the largest loss to list.
    n_jobs : int, optional

    Raises
    ------
    ParameterError
        If qid is missing for a ranking model, or passed for another model.
    DataError, DataTypeError
        If the rows do not fit the model.
    """
    objective = objective_of(booster.model)
    task = scored_as(objective)
    known = classes if classes is not None else booster.classes
    known = known if task in ("two classes", "classes") else None
    columns = columns_by_name(X, booster.feature_names)
    booster.reset_unseen_categories()
    raw = booster.raw_scores(columns, n_jobs=n_jobs)
    n_rows = raw.shape[1]
    labels, target = read_targets(objective, y, known, n_rows)
    if target.ndim == 2 and objective.name in SURVIVAL:
        raise DataError(
            "y holds intervals. A report on times needs the time of each row, with a minus sign "
            "where it is censored, or the columns event and time."
        )
    weight, query = check_weight(sample_weight, n_rows), read_queries(objective, qid, n_rows)
    unseen = booster.unseen_categories
    has_chances = known is not None or task == "labels"
    probability = booster.from_raw(raw, "probability") if has_chances else None
    value = booster.from_raw(raw, "value")
    predicted = value if known is None else known[value]
    rows = sampled(n_rows, query)
    part = {name: column[rows] for name, column in columns.items()}
    some = Rows(target[rows], part_of(weight, rows), part_of(query, rows))
    importance = permutation_importance(
        booster.model, part, some.target, sample_weight=some.weight, qid=some.query, n_jobs=n_jobs,
    )  # fmt: skip
    kind: Any = "probability" if has_chances else "value"
    kind = "raw" if task in ("ranking", "survival") else kind
    effects = booster.partial_dependence(
        part, kind=kind, n_points=_POINTS, n_jobs=n_jobs, sample_weight=some.weight
    )
    corrected = partial(true_probabilities, booster.model)
    scored = Rows(target, weight, query)
    scores = tuple(scores_of(objective, _SCORES[task], scored, raw, corrected))
    surprises: tuple[Surprise, ...] = ()
    if objective.name not in _NO_LOSS_OF_ROWS and task != "ranking":
        losses = objective.losses(target, raw)
        surprises = tuple(
            Surprise(row, _plain(labels[row]), _plain(predicted[row]), float(losses[row]))
            for row in np.argsort(-losses, kind="stable")[:n_surprises].tolist()
        )
    explanation = overview = None
    if booster.num_trees > 0:
        overview = booster.explain(part)
        if surprises:
            at = [surprise.row for surprise in surprises]
            explanation = booster.explain({name: column[at] for name, column in columns.items()})
    found = Findings(
        booster, task, columns, labels, known, probability, predicted, weight, query, scores,
        importance, effects, shifts_of(booster, part), unseen, surprises, (), explanation, overview,
    )  # fmt: skip
    return replace(found, warnings=tuple(_warnings_of(found)))


def part_of(values: AnyArray | None, rows: AnyArray) -> AnyArray | None:
    """Return some rows of an array that may be absent."""
    return None if values is None else values[rows]


def scores_of(
    objective: Objective,
    names: Sequence[str],
    rows: Rows,
    raw: FloatArray,
    corrected: Callable[[FloatArray], FloatArray],
) -> list[Score]:
    """Return scores of some names, and the loss if it is not among them."""
    metrics = make_metrics(list(names), objective) if names else ()
    if _SAME_AS_LOSS.get(objective.name) not in names:
        metrics = (*metrics, *make_metrics(None, objective))
    start = np.zeros(objective.n_outputs)  # of rankings, any constant
    if rows.query is None:
        start = objective.initial_score(rows.target, rows.weight)
    constant = np.repeat(start[:, None], len(rows.target), axis=1)
    rng = np.random.default_rng(0)
    # Of rankings, complete queries: the rows of a query depend on each other.
    draws = [_draw(rows, rng) for _ in range(RESAMPLES)]
    every = np.arange(len(rows.target)), rows.query
    found = []
    for metric in metrics:
        score = partial(_score, metric, objective, rows)
        try:
            value, base = score(*every, raw, corrected), score(*every, constant, None)
        except DataError:  # rows of one class only
            continue
        values = []
        for drawn, query in draws:
            with suppress(DataError):
                values.append(score(drawn, query, raw, corrected))
        finite = np.array(values)[np.isfinite(values)]
        low, high = np.percentile(finite, [2.5, 97.5]) if len(finite) else (np.nan, np.nan)
        better = metric.higher_is_better
        found.append(Score(metric.name, value, float(low), float(high), base, better))
    return found


def _draw(rows: Rows, rng: np.random.Generator) -> tuple[IntArray, IntArray | None]:
    """Return drawn rows, and their queries with new numbers."""
    n_rows = len(rows.target)
    if rows.query is None:
        return rng.integers(0, n_rows, n_rows), None
    order = np.argsort(rows.query, kind="stable")
    _, start, size = np.unique(rows.query[order], return_index=True, return_counts=True)
    drawn = rng.integers(0, len(start), len(start))
    places = [order[start[k] : start[k] + size[k]] for k in drawn.tolist()]
    return np.concatenate(places), np.repeat(np.arange(len(drawn)), size[drawn])


def _score(
    metric: Metric,
    objective: Objective,
    rows: Rows,
    drawn: IntArray,
    query: IntArray | None,
    raw: FloatArray,
    corrected: Callable[[FloatArray], FloatArray] | None,
) -> float:
    """Return the score of drawn rows; raise ``DataError`` if it is undefined for them."""
    given = np.ascontiguousarray(raw[:, drawn])
    if not metric.from_raw:
        given = objective.predict(given)
        given = given if corrected is None else corrected(given)
    weight = part_of(rows.weight, drawn)
    if weight is not None and not weight.any():
        return float("nan")
    if query is not None:
        (metric,) = metrics_of_queries([metric], objective, query_rows(query, len(drawn)))
    return float(metric.function(rows.target[drawn], given, weight))


def _plain(value: Any) -> Any:
    return tuple(value.tolist()) if np.ndim(value) > 0 else value


def sampled(n_rows: int, query: IntArray | None = None) -> IntArray:
    """Draw up to ``SAMPLE`` rows, or rows of complete queries, with a fixed seed, ascending."""
    if n_rows <= SAMPLE:
        return np.arange(n_rows)
    rng = np.random.default_rng(0)
    if query is None:
        return np.sort(rng.choice(n_rows, SAMPLE, replace=False))
    queries, number, sizes = np.unique(query, return_inverse=True, return_counts=True)
    order = rng.permutation(len(queries))
    chosen = order[: max(1, int((np.cumsum(sizes[order]) <= SAMPLE).sum()))]
    return np.flatnonzero(np.isin(number, chosen))


def shifts_of(booster: Booster, X: Mapping[str, AnyArray]) -> dict[str, float]:
    """Return the shift of each column: how its splits divide these rows and training rows."""
    model = booster.model
    forest = model.forest
    leaves = booster.leaves(features_of_rows(model, X)) + forest.tree_start[:-1]
    reached = np.bincount(leaves.reshape(-1), minlength=len(forest.feature)).astype(np.float64)
    base = np.repeat(forest.tree_start[:-1], np.diff(forest.tree_start))
    inner = np.flatnonzero(forest.feature >= 0)
    left, right = base[inner] + forest.left[inner], base[inner] + forest.right[inner]
    for node, one, two in zip(inner[::-1], left[::-1], right[::-1], strict=True):
        reached[node] += reached[one] + reached[two]  # children come after their parents
    # No training rows are needed: each node stores its number of these.
    n, m = reached[inner], (forest.count[left] + forest.count[right]).astype(np.float64)
    used = (n >= 100) & (m >= 100)
    share = np.divide(reached[left], n, out=np.zeros(len(n)), where=n > 0)
    before = np.divide(forest.count[left], m, out=np.zeros(len(n)), where=m > 0)
    spread = before * (1 - before)
    used &= spread > 1e-3
    safe = np.where(used, spread, 1.0)
    excess = (share - before) ** 2 / safe - 1 / np.maximum(n, 1) - 1 / np.maximum(m, 1)
    names = model.schema.names
    sources = [(j,) for j in range(len(names))] if model.inputs is None else model.inputs.sources
    sums, mass = np.zeros(len(names)), np.zeros(len(names))
    for k in np.flatnonzero(used):
        for column in sources[forest.feature[inner[k]]]:
            sums[column] += n[k] * excess[k]
            mass[column] += n[k]
    found = {
        name: float(np.sqrt(max(0.0, total / weight)))
        for name, total, weight in zip(names, sums, mass, strict=True)
        if weight > 0.0
    }
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _warnings_of(found: Findings) -> Iterator[str]:
    """Yield what to look at before the model is used."""
    n_rows, gain = len(found.y), found.booster.importance("gain")
    first = gain.order[0]
    if len(gain.names) > 1 and gain.values[first] >= STRONG_SHARE:
        yield (
            f"Leakage? Column {gain.names[first]!r} alone has {gain.values[first]:.0%} of the "
            "gain. Make sure that it is known at prediction time, and not derived from the target."
        )
    for name, count in found.unseen.items():
        yield (
            f"Unseen categories: {count:,} of {n_rows:,} rows ({count / n_rows:.1%}) hold a value "
            f"of column {name!r} that no training row had."
        )
    for name, shift in list(found.shifts.items())[:5]:
        if shift > STRONG_SHIFT:
            yield (
                f"Drift: the splits of column {name!r} divide these rows differently than the "
                f"training rows (shift {shift:.2f}; 0 is none, above {STRONG_SHIFT} is large)."
            )
    if n_rows < _FEWEST:
        yield f"Few rows: {n_rows}. The intervals show how uncertain the scores are."
    score = found.scores[0]
    better = score.low > score.constant if score.higher_is_better else score.high < score.constant
    if not better:
        yield (
            f"No better than a constant: the interval of {score.name} includes "
            f"{score.constant:.4g}, the score of one prediction for all rows."
        )
    if found.probability is None or found.classes is None or n_rows < _FEWEST:
        return
    for k, label in enumerate(found.classes.tolist()):
        if len(found.classes) == 2 and k == 0:
            continue
        own = found.probability[:, k]
        error = calibration_of(found.y == label, own, sample_weight=found.weight).error
        if error > _STRONG_ERROR:
            yield (
                f"Probabilities of class {label!r} are off by {error:.3f} on average: see the "
                "calibration."
            )
