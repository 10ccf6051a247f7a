"""Scores of several targets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.metrics.base import MetricFunction
from hedgerow.objectives.targets import SeveralTargets, mean_of


@dataclass(frozen=True, slots=True)
class MeanOfTargets:
    """The mean of what ``function`` says of each target.

    As scikit-learn's ``multioutput="uniform_average"``; of labels the mean over their
    columns (``average="macro"``).
    """

    function: MetricFunction
    objective: SeveralTargets

    def __call__(
        self, y_true: FloatArray, prediction: FloatArray, weight: FloatArray | None = None
    ) -> float:
        """Both arrays have shape (n_rows, n_targets)."""
        return mean_of(
            self.function(
                np.ascontiguousarray(y_true[:, k]), self.objective.of_output(k, prediction), weight
            )
            for k in range(self.objective.n_outputs)
        )
