"""A metric for each group of rows, to compare the model's quality between groups."""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.argument_types import name_of_function
from hedgerow.errors import DataError, ParameterError, brief
from hedgerow.metrics.base import Metric, MetricFunction, rows_of
from hedgerow.metrics.catalogue import ALIASES, METRICS, find_metric
from hedgerow.metrics.scorers import with_weight
from hedgerow.peers import metric_hint


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
    if values.dtype.kind == "O":
        order = np.arange(len(values))
    else:
        order = np.argsort(values, kind="stable")
    groups_of_rows, found = dict[Any, list[int]](), dict[Any, float]()
    for row, label in zip(order.tolist(), values[order].tolist(), strict=True):
        groups_of_rows.setdefault(None if label != label else label, []).append(row)
    for label, own in groups_of_rows.items():
        rows = np.array(own)
        chosen = rows_of(predicted, rows, metric.from_raw)
        try:
            score = metric.function(target[rows], chosen, None if mass is None else mass[rows])
        except DataError as error:
            raise DataError(
                f"metric {metric.name!r} of the {len(rows)} rows with group {brief(label)}: "
                f"{error} Or merge this group with another."
            ) from error
        found[label] = float(score)
    return found
