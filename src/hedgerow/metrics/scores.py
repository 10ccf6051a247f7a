"""The basic scores, all weighted; ``weight=None`` means that all weights are equal.

All use exact sums over rows, so they do not depend on the order of the
rows, nor on parts of the rows (:class:`RowSums`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.kernels.primitives.exact_sum import (
    ExactSum,
    weighted_mean,
    weighted_means,
    weighted_sums,
)
from hedgerow.objectives.global_sums import AllRows

Center: TypeAlias = "float | FloatArray"
"""The mean of all targets, or of each of several targets."""


RowValues: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]
"""``values(y_true, prediction)`` returns a number for each row."""


class RowSums(Protocol):
    """A score from sums over rows: ``finish(*totals)`` with the totals over parts of the rows."""

    @property
    def n_sums(self) -> int:
        """Number of sums."""

    @property
    def uses_center(self) -> bool:
        """Whether the sums depend on the mean of all targets."""

    def sums(
        self, y_true: FloatArray, prediction: FloatArray, weight: FloatArray | None, center: Center
    ) -> tuple[ExactSum, ...]:
        """Return the contribution of some rows; ``center`` is the mean of all targets."""

    def finish(self, *totals: ExactSum) -> float:
        """Return the score."""


@dataclass(frozen=True, slots=True)
class Mean:
    """Weighted mean of ``values(y_true, prediction)``, transformed by ``then``."""

    values: RowValues
    then: Callable[[float], float] = float
    n_sums: ClassVar[int] = 2
    uses_center: ClassVar[bool] = False

    def __call__(
        self, y_true: FloatArray, prediction: FloatArray, weight: FloatArray | None = None
    ) -> float:
        return self.then(weighted_mean(self.values(y_true, prediction), weight))

    def sums(
        self, y_true: FloatArray, prediction: FloatArray, weight: FloatArray | None, center: Center
    ) -> tuple[ExactSum, ...]:
        return weighted_sums(self.values(y_true, prediction), weight)

    def finish(self, *totals: ExactSum) -> float:
        above, below = totals
        return self.then(above.over(below))

    def means(self, terms: FloatArray, weight: FloatArray | None) -> list[float]:
        """Return the score of each row of ``terms``, which are the values of all rows."""
        return [self.then(mean) for mean in weighted_means(terms, weight)]


@dataclass(frozen=True, slots=True)
class Explained:
    """Explained share of the variance, from squared errors of the prediction, and of the mean."""

    n_sums: ClassVar[int] = 2
    uses_center: ClassVar[bool] = True

    def __call__(
        self, y_true: FloatArray, prediction: FloatArray, weight: FloatArray | None = None
    ) -> float:
        center = AllRows(y_true, weight).center()
        return self.finish(*self.sums(y_true, prediction, weight, center))

    def sums(
        self, y_true: FloatArray, prediction: FloatArray, weight: FloatArray | None, center: Center
    ) -> tuple[ExactSum, ...]:
        of_mean = (y_true - center) ** 2
        return (
            weighted_sums(squared_errors(y_true, prediction), weight)[0],
            weighted_sums(of_mean, weight)[0],
        )

    def finish(self, *totals: ExactSum) -> float:
        above, below = totals
        if below.is_finite and below.units == 0:  # all targets are equal: as in scikit-learn
            return 1.0 if above == below else 0.0
        return 1.0 - above.over(below)


def squared_errors(y_true: FloatArray, prediction: FloatArray) -> FloatArray:
    """Return the squared error of each row."""
    return np.asarray((y_true - prediction) ** 2)


def absolute_errors(y_true: FloatArray, prediction: FloatArray) -> FloatArray:
    """Return the absolute error of each row."""
    return np.asarray(np.abs(y_true - prediction))


def log_losses(y_true: FloatArray, prediction: FloatArray) -> FloatArray:
    """Return ``-log(probability of the true class)`` of each row."""
    # Probabilities below the float64 epsilon are replaced by epsilon.
    chosen = prediction[np.arange(len(y_true)), y_true.astype(np.intp)]
    return np.asarray(-np.log(np.maximum(chosen, np.finfo(float).eps)))


def hits(y_true: FloatArray, prediction: FloatArray) -> FloatArray:
    """Return 1 for each row whose most probable class is the true one, else 0."""
    return (prediction.argmax(axis=1) == y_true).astype(np.float64)


def misses(y_true: FloatArray, prediction: FloatArray) -> FloatArray:
    """Return 1 minus :func:`hits`."""
    return 1.0 - hits(y_true, prediction)
