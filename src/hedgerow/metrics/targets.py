"""Metrics of several targets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.kernels.primitives.exact_sum import ExactSum
from hedgerow.metrics.base import Metric, MetricFunction
from hedgerow.metrics.scores import Center, RowSums
from hedgerow.objectives.targets import SeveralTargets, mean_of


@dataclass(frozen=True, slots=True)
class MeanOfTargets:
    """The mean of ``function`` over the targets.

    Like scikit-learn's ``multioutput="uniform_average"``; for labels the mean over the
    columns (``average="macro"``).
    """

    function: MetricFunction
    objective: SeveralTargets
    from_raw: bool = False

    def __call__(
        self, y_true: FloatArray, prediction: FloatArray, weight: FloatArray | None = None
    ) -> float:
        """Return the mean score.

        Both arrays have shape (n_rows, n_targets); raw scores have shape (n_targets, n_rows).
        """
        return mean_of(
            self.function(column, own, weight)
            for column, own in columns_of(y_true, prediction, self.objective, self.from_raw)
        )


@dataclass(frozen=True, slots=True)
class SumsOfTargets:
    """The sums of :class:`MeanOfTargets`: those of ``single`` for each target."""

    single: RowSums
    objective: SeveralTargets
    from_raw: bool = False

    @property
    def n_sums(self) -> int:
        return self.objective.n_outputs * self.single.n_sums

    @property
    def uses_center(self) -> bool:
        return self.single.uses_center

    def sums(
        self, y_true: FloatArray, prediction: FloatArray, weight: FloatArray | None, center: Center
    ) -> tuple[ExactSum, ...]:
        """Return the contribution of some rows; ``center`` holds the mean of each target."""
        centers = np.broadcast_to(center, (self.objective.n_outputs,))
        columns = columns_of(y_true, prediction, self.objective, self.from_raw)
        return tuple(
            part
            for middle, (column, own) in zip(centers.tolist(), columns, strict=True)
            for part in self.single.sums(column, own, weight, middle)
        )

    def finish(self, *totals: ExactSum) -> float:
        n_sums = self.single.n_sums
        return mean_of(
            self.single.finish(*totals[start : start + n_sums])
            for start in range(0, len(totals), n_sums)
        )


def columns_of(
    y_true: FloatArray, prediction: FloatArray, objective: SeveralTargets, from_raw: bool
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield each target with its predictions, or with its raw scores, shape (1, n_rows)."""
    for k in range(objective.n_outputs):
        own = prediction[k : k + 1] if from_raw else objective.of_output(k, prediction)
        yield np.ascontiguousarray(y_true[:, k]), own


def of_targets(single: Metric, objective: SeveralTargets) -> Metric:
    """Return the metric of several targets made from the metric of one target."""
    function = MeanOfTargets(single.function, objective, single.from_raw)
    sums = single.sums and SumsOfTargets(single.sums, objective, single.from_raw)
    return replace(single, function=function, sums=sums)
