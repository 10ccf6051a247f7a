"""Evaluation of metrics, and checks of their results."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hedgerow.arrays import FloatArray, read_only
from hedgerow.errors import HedgerowError, LossError
from hedgerow.metrics.base import Metric
from hedgerow.metrics.scores import Mean

if TYPE_CHECKING:
    from hedgerow.objectives.base import Objective


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
    metrics: Sequence[Metric],
    targets: FloatArray,
    raw: FloatArray,
    weight: FloatArray | None,
) -> dict[str, list[float]] | None:
    """Compute the scores of several rounds, whose terms are computed together."""
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
            read_only(target),
            read_only(prediction),
            None if weight is None else read_only(weight),
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
