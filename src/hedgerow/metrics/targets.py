"""Metrics of several targets."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.metrics.base import Metric, MetricFunction
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
            self.function(np.ascontiguousarray(y_true[:, k]), self._of(k, prediction), weight)
            for k in range(self.objective.n_outputs)
        )

    def _of(self, output: int, prediction: FloatArray) -> FloatArray:
        """Return the arguments of the function for one target."""
        if self.from_raw:
            return prediction[output : output + 1]
        return self.objective.of_output(output, prediction)


def of_targets(single: Metric, objective: SeveralTargets) -> Metric:
    """Return the metric of several targets made from the metric of one target."""
    function = MeanOfTargets(single.function, objective, single.from_raw)
    return replace(single, function=function, sums=None)
