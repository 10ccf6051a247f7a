"""Scores by name, weighted, for learning curves and early stopping.

============  ==================================================================
``loss``      what the objective minimises, for every task
by name       :data:`METRICS` and :data:`ALIASES` (:mod:`hedgerow.metrics.catalogue`);
              rankings: :mod:`hedgerow.metrics.ranking`
scorers       of scikit-learn, by name or as made by ``make_scorer``
              (:mod:`hedgerow.metrics.scorers`)
functions     ``function(y_true, prediction, weight) -> float``
============  ==================================================================

For several targets or labels, the score of a named metric or scorer is the mean over the
targets.  A custom function gets all targets at once, as arrays of shape
(n_rows, n_targets).

``docs/metrics.md`` has the table of all names.
"""

from hedgerow.metrics.base import (
    Metric,
    MetricChoice,
    MetricFunction,
    Task,
    evaluate,
    evaluate_rounds,
    not_nan,
)
from hedgerow.metrics.catalogue import ALIASES, METRICS
from hedgerow.metrics.making import make_metrics, metrics_of_queries

__all__ = [
    "ALIASES",
    "METRICS",
    "Metric",
    "MetricChoice",
    "MetricFunction",
    "Task",
    "evaluate",
    "evaluate_rounds",
    "make_metrics",
    "metrics_of_queries",
    "not_nan",
]
