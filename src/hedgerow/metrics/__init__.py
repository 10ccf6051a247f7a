"""Scores by name, weighted, for learning curves and early stopping.

name                  for             better  what
====================  ==============  ======  ===================================
``loss``              everything      lower   what the objective minimises
``rmse``              regression      lower   root of the mean squared error
``mae``               regression      lower   mean absolute error
``r2``                regression      higher  explained share of the variance
``mape``              regression      lower   mean of |y - m| / |y|
``msle``              regression      lower   mean squared error of log(1 + y)
``poisson_deviance``  regression      lower   mean deviance, targets from 0 on
``gamma_deviance``    regression      lower   mean deviance, positive targets
``tweedie_deviance``  regression      lower   mean deviance, ``tweedie_power``
``pinball``           regression      lower   mean pinball loss at ``quantile``
``expectile``         regression      lower   mean asymmetric square
``huber``             regression      lower   mean of Huber's loss at ``delta``
``logloss``           classification  lower   mean of -log(p of the true class)
``accuracy``          classification  higher  share of rows classified correctly
``error``             classification  lower   share of rows classified wrongly
``auc``               two classes     higher  area under the ROC curve
``concordance``       survival        higher  share of the pairs in right order
``ndcg``, ``ndcg@k``  ranking         higher  discounted gains of the first k rows
``map``, ``map@k``    ranking         higher  mean average precision
``mrr``, ``mrr@k``    ranking         higher  1 / rank of the first relevant row
``precision@k``       ranking         higher  share of relevant rows of the first k
``err``, ``err@k``    ranking         higher  expected reciprocal rank
``auc``               ranking         higher  share of the pairs in right order
====================  ==============  ======  ===================================

Of several targets, or labels, a score by name is the mean of the scores of each of them;
a function of the user's is given them all, as arrays of shape (n_rows, n_targets).
=======
============  ==================================================================
``loss``      what the objective minimises, for every task
by name       :data:`METRICS` and :data:`ALIASES` (:mod:`hedgerow.metrics.catalogue`);
              rankings: :mod:`hedgerow.metrics.ranking`
scorers       of scikit-learn, by name or as made by ``make_scorer``
              (:mod:`hedgerow.metrics.scorers`)
groups        :class:`GroupedMetric`: a metric for each group of rows
functions     ``function(y_true, prediction, weight) -> float``
============  ==================================================================

Of several targets, or labels, a score by name is the mean of the scores of each of them,
as is that of a scorer; a function of the user's is given them all, as arrays of shape
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
    from hedgerow.metrics.evaluating import evaluate, not_nan
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
    "make_metrics",
    "metrics_of_queries",
    "not_nan",
    "scored_as",
    "task_of",
]


def __getattr__(name: str) -> Any:
    """Load a name from its home on first use: a model that predicts needs few metrics."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = found
    return found
