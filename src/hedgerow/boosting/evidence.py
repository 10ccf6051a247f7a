"""How far a difference of losses on the tested rows of folds is beyond chance.

::

    row      loss of the start   loss by the trees     gain
      0            0.69                0.42            0.27
      1            0.69                0.75           -0.06       mean gain  0.13
      2            0.69                0.51            0.18       its standard error  0.10

All settings are judged by the same rows, so two of them are compared row by row: what a row has of
chance is in both losses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.boosting.cross import GrownFold
from hedgerow.boosting.folds import Fold
from hedgerow.boosting.sample import Sample


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean difference of losses.

    Attributes
    ----------
    mean : float
    error : float
        Its standard error.
    """

    mean: float
    error: float

    def exceeds(self, n_errors: float) -> bool:
        """Whether it is above 0 by more than so many standard errors."""
        return self.mean > n_errors * self.error

    def trust(self, n_errors: float) -> float:
        """How far a gain is beyond chance: 0 if there is none, 1 from ``n_errors`` on.

        Examples
        --------
        >>> [Difference(mean, 0.1).trust(3.0) for mean in (-0.5, 0.15, 0.3, 2.0)]
        [0.0, 0.25, 1.0, 1.0]
        """
        if not self.mean > 0.0:
            return 0.0
        return min(1.0, self.mean / (n_errors * self.error)) ** 2 if self.error > 0.0 else 1.0


class TestedRows:
    """The rows that the folds test, one fold after the other.

    Parameters
    ----------
    sample : Sample
    folds : sequence of Fold
    alike : uint64 (n_rows,), or None
        Rows of one number, copies or a group, are one observation with the sum of their weights.
    """

    def __init__(
        self, sample: Sample, folds: Sequence[Fold], alike: npt.NDArray[np.uint64] | None
    ) -> None:
        self._sample, self._folds = sample, folds
        rows = np.concatenate([fold.test for fold in folds])
        self._mass = np.concatenate([_weights(sample, fold) for fold in folds])
        counts = [np.ones(len(f.test)) if f.n_tested is None else f.n_tested for f in folds]
        self._count = np.concatenate(counts)
        self._unit: IntArray = np.arange(len(rows))
        if alike is not None:
            self._unit = np.unique(alike[rows], return_inverse=True)[1].reshape(-1)

    def losses(self, grown: Sequence[GrownFold]) -> FloatArray:
        """Loss of each row by the trees of the best round."""
        pairs = zip(self._folds, grown, strict=True)
        return np.concatenate([self._loss(fold, fit, fit.raw) for fold, fit in pairs])

    def start_losses(self, grown: Sequence[GrownFold]) -> FloatArray:
        """Loss of each row by what the trees start from."""
        losses, offset = [], self._sample.offset
        for fold, fit in zip(self._folds, grown, strict=True):
            start = np.repeat(fit.forest.base_score[:, None], len(fold.test), axis=1)
            if offset is not None:
                start = start + offset[..., fold.test]
            losses.append(self._loss(fold, fit, start))
        return np.concatenate(losses)

    def _loss(self, fold: Fold, fit: GrownFold, raw: FloatArray) -> FloatArray:
        return fit.watch.objective.losses(self._sample.target[fold.test], raw)

    def difference(self, more: FloatArray, less: FloatArray) -> Difference:
        """Mean of the losses ``more`` minus the losses ``less``, by weight."""
        total = np.bincount(self._unit, weights=self._mass)
        mean = np.bincount(self._unit, weights=(more - less) * self._mass) / total
        count = np.bincount(self._unit, weights=self._count * self._mass) / total
        center = float(np.average(mean, weights=total))
        spread = float(np.sum((total * (mean - center)) ** 2 / count))
        return Difference(center, math.sqrt(spread) / float(total.sum()))


def _weights(sample: Sample, fold: Fold) -> FloatArray:
    if fold.test_weight is not None:
        return fold.test_weight
    return np.ones(len(fold.test)) if sample.weight is None else sample.weight[fold.test]


__all__ = ["Difference", "TestedRows"]
