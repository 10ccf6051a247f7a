"""A metric for each group of rows, to compare the model's quality between groups.

::

    GroupedMetric("auc", groups="region", reduce="worst")
          |  make_metrics          the metric of rows
          |  read_groups           the group of each given row
          |  of_rows               the scored rows: weights of 0, held-out rows
          v
    auc[worst of region]           or, without reduce, auc[region=north], auc[region=south], ...
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from hedgerow.argument_types import name_of_function
from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.errors import DataError, ParameterError, brief
from hedgerow.metrics.base import Metric, MetricFunction, Reduce, rows_of
from hedgerow.metrics.catalogue import ALIASES, METRICS, find_metric
from hedgerow.metrics.scorers import with_weight
from hedgerow.peer_words import metric_hint


@dataclass(frozen=True, slots=True, eq=False)
class GroupScores:
    """The function of a grouped metric."""

    inner: Metric
    source: Any  # column, or values of the rows, as given
    reduce: Reduce
    labels: tuple[Any, ...] = ()  # names of the groups
    codes: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # of each row
    rows: tuple[IntArray, ...] = ()  # of each group that has some

    @property
    def by(self) -> str:
        """The name of the grouping."""
        return str(self.source) if isinstance(self.source, str | int) else "group"

    def of_rows(self, chosen: IntArray | None) -> GroupScores:
        """Return the function for some of the rows; None for all."""
        codes = self.codes if chosen is None else self.codes[chosen]
        order = np.argsort(codes, kind="stable")
        present, starts = np.unique(codes[order], return_index=True)
        labels = tuple(self.labels[code] for code in present)
        return replace(self, labels=labels, codes=codes, rows=tuple(np.split(order, starts[1:])))

    def scores(self, *given: Any) -> list[float]:
        """Return the score of each group; see :meth:`of_group`."""
        return [self.of_group(number, *given) for number in range(len(self.rows))]

    def of_group(
        self, number: int, y_true: FloatArray, prediction: FloatArray, weight: FloatArray | None
    ) -> float:
        """Return the score of a group; ``prediction`` is as for the inner metric."""
        rows = self.rows[number]
        chosen = rows_of(prediction, rows, self.inner.from_raw)
        mass = None if weight is None else weight[rows]
        try:
            return float(self.inner.function(y_true[rows], chosen, mass))
        except DataError as error:
            raise DataError(
                f"eval_metric {self.inner.name!r} of the {len(rows)} rows with "
                f"{self.by} {brief(self.labels[number])}: {error} Or merge this group with another."
            ) from error

    def __call__(
        self, y_true: FloatArray, prediction: FloatArray, weight: FloatArray | None
    ) -> float:
        found = self.scores(y_true, prediction, weight)
        if self.reduce == "mean":
            return float(np.mean(found))
        return min(found) if self.inner.higher_is_better else max(found)


def codes_of(values: AnyArray) -> tuple[IntArray, tuple[Any, ...]]:
    """Return the number of the group of each row, and the names of the groups."""
    if values.dtype.kind != "O":
        labels, codes = np.unique(values, return_inverse=True)
        return codes.reshape(-1).astype(np.int64), tuple(labels.tolist())
    numbers: dict[Any, int] = {}
    missing = object()
    found = [
        numbers.setdefault(missing if value is None or value != value else value, len(numbers))
        for value in values.tolist()
    ]
    names = (None if value is missing else value for value in numbers)
    return np.array(found, dtype=np.int64), tuple(names)


def by_group(
    metric: str | Metric | MetricFunction,
    y_true: Any,
    prediction: Any,
    groups: Any,
    weight: Any = None,
) -> dict[Any, float]:
    """Return the score of each group of rows.

    Parameters
    ----------
    metric : str, Metric or callable
        A name of the catalogue (``docs/metrics.md``), also with ``@value``; a metric from
        :data:`hedgerow.metrics.METRICS` or ``make_metrics``; or
        ``function(y_true, prediction, weight) -> float``, or one of scikit-learn.
    y_true : array-like of shape (n_rows,)
        Numbers, or class indices.
    prediction : array-like
        The input of the metric: values, or probabilities of shape (n_rows, n_classes); for the
        few metrics of raw scores (``"hinge"``, ``"auc_mu"``) raw scores (n_outputs, n_rows).
    groups : array-like of shape (n_rows,)
        The group of each row: numbers, text, dates or categories.
    weight : array-like of shape (n_rows,), optional
        Rows of weight 0 are left out, and so are groups without other rows.

    Returns
    -------
    dict
        Score by group, in the order of the groups' values; for objects, in the order of the rows.

    Raises
    ------
    DataError
        If lengths differ, or a group has no score.
    ParameterError
        If the metric is unknown, or belongs to a loss or to queries.

    Examples
    --------
    >>> from hedgerow.metrics import by_group
    >>> by_group("mae", [1.0, 2.0, 4.0], [1.0, 1.0, 1.0], ["x", "y", "y"])
    {'x': 0.0, 'y': 2.0}
    """
    if callable(metric):
        metric = Metric(name_of_function(metric), with_weight(metric))
    elif not isinstance(metric, Metric):
        known = find_metric(metric, lambda _: None) if isinstance(metric, str) else None
        if known is None:
            hint = metric_hint(metric, [*METRICS, *ALIASES])
            raise ParameterError(
                f"metric must be a name of the catalogue (docs/metrics.md), a Metric or a function "
                f"of (y_true, prediction, weight); got {brief(metric)}.{hint}"
            )
        metric = known
    target = np.asarray(y_true, dtype=np.float64)
    predicted = np.asarray(prediction, dtype=np.float64)
    mass = None if weight is None else np.asarray(weight, dtype=np.float64)
    values = np.asarray(groups)
    n_predicted = predicted.shape[-1] if metric.from_raw else len(predicted)
    n_weights = len(target) if mass is None else len(mass)
    lengths = {"groups": len(values), "prediction": n_predicted, "weight": n_weights}
    for name, length in lengths.items():
        if length != len(target):
            raise DataError(f"{name} has {length} values for {len(target)} rows of y_true.")
    if mass is not None:
        rows = np.flatnonzero(mass)
        target, values, mass = target[rows], values[rows], mass[rows]
        predicted = rows_of(predicted, rows, metric.from_raw)
    codes, labels = codes_of(values)
    found = GroupScores(metric, "group", None, labels, codes).of_rows(None)
    return dict(zip(found.labels, found.scores(target, predicted, mass), strict=True))


def bound_to_rows(metrics: Sequence[Metric], chosen: IntArray | None) -> tuple[Metric, ...]:
    """Return the metrics for the scored rows; without ``reduce``, one for each group."""
    found: list[Metric] = []
    for metric in metrics:
        if not isinstance(metric.function, GroupScores):
            found.append(metric)
            continue
        scores = metric.function.of_rows(chosen)
        if scores.reduce is not None:
            found.append(replace(metric, function=scores))
            continue
        for number, label in enumerate(scores.labels):
            name = f"{scores.inner.name}[{scores.by}={label}]"
            found.append(replace(metric, name=name, function=partial(scores.of_group, number)))
    return tuple(found)
