"""Construction of metrics from ``eval_metric``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.argument_types import is_one_of
from hedgerow.arrays import FloatArray
from hedgerow.errors import ParameterError, brief
from hedgerow.kernels.primitives.exact_sum import ExactSum
from hedgerow.metrics import base as mb
from hedgerow.metrics import scorers as sk
from hedgerow.metrics.catalogue import ALIASES, METRICS, find_metric
from hedgerow.metrics.curves import concordance
from hedgerow.metrics.ranking import NAMES, RankingMetric, ranking_metric
from hedgerow.metrics.scores import Center, Mean, RowSums
from hedgerow.objectives.catalogue import AnyTask, scored_as
from hedgerow.objectives.targets import SeveralTargets, mean_of
from hedgerow.peers import metric_hint

if TYPE_CHECKING:
    from hedgerow.kernels.ranking import QueryRows
    from hedgerow.objectives.base import Objective
    from hedgerow.objectives.distributions.predicted import Distribution

_OF_DISTRIBUTIONS = ("nll", "crps")
_LOSS = "loss"


def make_metrics(eval_metric: mb.MetricChoice, objective: Objective) -> tuple[mb.Metric, ...]:
    """Build the metrics of ``eval_metric``; early stopping uses the first."""
    if eval_metric is None:
        eval_metric = _LOSS
    if isinstance(eval_metric, str) or callable(eval_metric):
        eval_metric = (eval_metric,)
    if not isinstance(eval_metric, Sequence) or len(eval_metric) == 0:
        raise ParameterError(
            "eval_metric must be a name, a callable, a sequence of these, or None; got "
            f"{brief(eval_metric)}."
        )
    metrics = tuple(_make_metric(item, objective) for item in eval_metric)
    names = [metric.name for metric in metrics]
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(
                f"eval_metric {brief(name)} is given twice: leave one of them out, or give two "
                "functions different names (function.__name__ = ...)."
            )
    return metrics


def _make_metric(item: object, objective: Objective) -> mb.Metric:
    task = scored_as(objective)
    own_function = callable(item) and not sk.is_scorer(item)
    if isinstance(objective, SeveralTargets) and not own_function:
        single = _make_metric(item, objective.single)
        function = OfTargets(single, objective)
        return replace(single, function=function, sums=None if single.sums is None else function)
    if isinstance(item, str) and item == _LOSS:
        sums = Mean(objective.losses)
        return mb.Metric(_LOSS, objective.loss, from_raw=True, sums=sums, built_in=True)
    if sk.is_scorer(item):
        return sk.scorer_metric(item, objective, task)
    if callable(item):
        found = sk.sklearn_metric(item, objective, task)
        if found is not None:
            return found
        higher = bool(getattr(item, "higher_is_better", False))
        return mb.Metric(sk.name_of(item), sk.with_weight(item), higher)
    if isinstance(item, str) and task == "ranking":
        of_queries = ranking_metric(item, getattr(objective, "label_gain", None))
        if of_queries is not None:
            return mb.Metric(item, of_queries, True, ("ranking",), built_in=True)
    return _by_name(item, objective, task)


def _by_name(item: object, objective: Objective, task: AnyTask) -> mb.Metric:
    """Return a metric of the catalogue, or a scorer of scikit-learn."""
    usable = [_LOSS, *(name for name, metric in METRICS.items() if task in metric.tasks)]
    usable += NAMES if task == "ranking" else ()
    if hasattr(objective, "distribution"):
        usable += _OF_DISTRIBUTIONS
        if isinstance(item, str) and item in _OF_DISTRIBUTIONS:
            return mb.built_in(item, Mean(partial(_score_of_raw, item, objective)), from_raw=True)
    elif is_one_of(item, _OF_DISTRIBUTIONS):
        raise ParameterError(
            f"eval_metric {brief(item)} is for objectives that learn a distribution, such as "
            f"'normal'; this model uses {objective.name!r}: use one of "
            f"{', '.join(map(repr, usable))}."
        )

    def parameter_of(attribute: str) -> float | None:
        value = getattr(objective, attribute, None) if attribute else None
        return None if value is None else float(value)

    metric = find_metric(item, parameter_of) if isinstance(item, str) else None
    if metric is None:
        from sklearn.metrics import get_scorer_names

        known = get_scorer_names() if isinstance(item, str) else []
        if is_one_of(item, known):
            return sk.scorer_metric(item, objective, task)
        if isinstance(item, str) and task != "ranking" and ranking_metric(item) is not None:
            raise _unfit(item, ("ranking",), task, usable)
        hint = metric_hint(item, [*METRICS, *ALIASES, *NAMES, *known])
        raise ParameterError(
            f"unknown eval_metric {brief(item)}; known: {', '.join(map(repr, usable))}, and "
            f"names of scikit-learn's scorers.{hint}"
        )
    if task not in metric.tasks:
        raise _unfit(item, metric.tasks, task, usable)
    if metric.name == "concordance":
        sign = float(getattr(objective, "risk_sign", 1.0))
        return mb.built_in(
            metric.name, partial(concordance, sign), metric.tasks, metric.what, higher=True
        )
    return metric


def _score_of_raw(name: str, objective: Any, y_true: FloatArray, raw: FloatArray) -> FloatArray:
    """Return ``"nll"`` or ``"crps"`` of each row, for an objective with distributions."""
    found: Distribution = objective.distribution(raw)
    return -found.log_pdf(y_true) if name == "nll" else found.crps(y_true)


def _unfit(item: object, tasks: Sequence[str], task: AnyTask, usable: list[str]) -> ParameterError:
    return ParameterError(
        f"eval_metric {brief(item)} is for {' or '.join(tasks)}, but this model is for "
        f"{task}; use one of {', '.join(map(repr, usable))}."
    )


def metrics_of_queries(
    metrics: Sequence[mb.Metric], objective: Objective, queries: QueryRows
) -> tuple[mb.Metric, ...]:
    """Return the metrics of a ranking for rows of these queries; custom functions are unchanged."""

    def bound(metric: mb.Metric) -> mb.Metric:
        if metric.name == _LOSS:
            of_queries: Callable[..., Objective] = getattr(objective, "of_queries")  # noqa: B009
            return replace(metric, function=of_queries(queries).loss, sums=None)
        if isinstance(metric.function, RankingMetric):
            return replace(metric, function=metric.function.of_queries(queries))
        return metric

    return tuple(bound(metric) for metric in metrics)


@dataclass(frozen=True, slots=True)
class OfTargets:
    """The mean of a metric over the targets, as scikit-learn's uniform average, and its sums."""

    single: mb.Metric
    objective: SeveralTargets

    def __call__(
        self, y_true: FloatArray, prediction: FloatArray, weight: FloatArray | None
    ) -> float:
        columns = self._columns(y_true, prediction)
        return mean_of(self.single.function(column, own, weight) for column, own in columns)

    @property
    def _sums(self) -> RowSums:
        assert self.single.sums is not None
        return self.single.sums

    @property
    def n_sums(self) -> int:
        return self.objective.n_outputs * self._sums.n_sums

    @property
    def uses_center(self) -> bool:
        return self._sums.uses_center

    def sums(
        self, y_true: FloatArray, prediction: FloatArray, weight: FloatArray | None, center: Center
    ) -> tuple[ExactSum, ...]:
        """Return the contribution of some rows; ``center`` holds the mean of each target."""
        centers = np.broadcast_to(center, (self.objective.n_outputs,)).tolist()
        return tuple(
            part
            for middle, given in zip(centers, self._columns(y_true, prediction), strict=True)
            for part in self._sums.sums(*given, weight, middle)
        )

    def finish(self, *totals: ExactSum) -> float:
        n_sums = self._sums.n_sums
        starts = range(0, len(totals), n_sums)
        return mean_of(self._sums.finish(*totals[start : start + n_sums]) for start in starts)

    def _columns(
        self, y_true: FloatArray, prediction: FloatArray
    ) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield each target with its predictions, or with its raw scores, shape (1, n_rows)."""
        for k in range(self.objective.n_outputs):
            raw = self.single.from_raw
            own = prediction[k : k + 1] if raw else self.objective.of_output(k, prediction)
            yield np.ascontiguousarray(y_true[:, k]), own
