"""Scores by name, weighted, for learning curves and early stopping.

============  ==================================================================
``loss``      what the objective minimises, for every task
by name       :data:`METRICS` and :data:`ALIASES` (:mod:`hedgerow.metrics.catalogue`);
              rankings: :mod:`hedgerow.metrics.ranking`
scorers       of scikit-learn, by name or as made by ``make_scorer``
              (:mod:`hedgerow.metrics.scorers`)
groups        :class:`GroupedMetric`: a metric for each group of rows
functions     ``function(y_true, prediction, weight) -> float``
============  ==================================================================

For several targets or labels, the score of a named metric or scorer is the mean over the
targets.  A custom function gets all targets at once, as arrays of shape
(n_rows, n_targets).

``docs/metrics.md`` has the table of all names.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hedgerow.metrics.base import Metric, MetricFunction, Task
    from hedgerow.metrics.catalogue import ALIASES, METRICS
    from hedgerow.metrics.choice import GroupedMetric, MetricChoice
    from hedgerow.metrics.evaluating import evaluate, evaluate_rounds, not_nan
    from hedgerow.metrics.groups import by_group
    from hedgerow.metrics.making import make_metrics, metrics_of_queries
    from hedgerow.metrics.tasks import scored_as, task_of

_HOMES = {
    "base": (
        "Metric",
        "MetricFunction",
        "Task",
    ),
    "catalogue": (
        "ALIASES",
        "METRICS",
    ),
    "choice": (
        "GroupedMetric",
        "MetricChoice",
    ),
    "evaluating": (
        "evaluate",
        "evaluate_rounds",
        "not_nan",
    ),
    "groups": ("by_group",),
    "making": (
        "make_metrics",
        "metrics_of_queries",
    ),
    "tasks": (
        "scored_as",
        "task_of",
    ),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "ALIASES",
    "METRICS",
    "GroupedMetric",
    "Metric",
    "MetricChoice",
    "MetricFunction",
    "Task",
    "by_group",
    "evaluate",
    "evaluate_rounds",
    "make_metrics",
    "metrics_of_queries",
    "not_nan",
    "scored_as",
    "task_of",
]


def __getattr__(name: str) -> Any:
    """Import a name on first use, because a model that predicts needs few metrics."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = found
    return found
