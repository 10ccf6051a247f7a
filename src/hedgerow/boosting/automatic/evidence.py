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
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.validation.cross import GrownFold
from hedgerow.boosting.validation.folds import Fold
from hedgerow.errors import FoldsWarning
from hedgerow.objectives import Objective

BEYOND_CHANCE = 3.0
"""Standard errors that a gain is to exceed to be believed."""

_FEWEST_ROWS = 20
"""Fewer tell no standard error to rely on."""

_DOUBTLESS = 4.0
"""Standard errors from which on a gain or a loss is no chance."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean difference of losses.

    Attributes
    ----------
    mean : float
    error : float
        Its standard error.
    n_rows : int
    """

    mean: float
    error: float
    n_rows: int

    def exceeds(self, n_errors: float) -> bool:
        """Whether it is above 0 by more than so many standard errors."""
        return self.mean > max(n_errors * self.error, 0.0)

    def falls_short(self, n_errors: float) -> bool:
        """Whether it is below 0 by more than so many standard errors."""
        return Difference(-self.mean, self.error, self.n_rows).exceeds(n_errors)

    def trust(self, n_errors: float) -> float:
        """How far a gain is beyond chance: 0 if there is none, 1 from ``n_errors`` on.

        Examples
        --------
        >>> [round(Difference(mean, 0.1, 50).trust(3.0), 9) for mean in (-0.5, 0.15, 0.3, 2.0)]
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
        objective, target = fit.watch.objective, self._sample.target[fold.test]
        if not compares_rows(objective):
            return objective.losses(target, raw)
        query = self._sample.query
        shared: FloatArray = cast(Any, objective).shared_losses(
            target, raw, None if query is None else query[fold.test]
        )
        return shared

    def difference(self, more: FloatArray, less: FloatArray) -> Difference:
        """Mean of the losses ``more`` minus the losses ``less``, by weight."""
        return self._difference(more - less, slice(None), self._unit)

    def by_fold(self, more: FloatArray, less: FloatArray) -> list[Difference]:
        """The same for the rows of each fold, which may be of one group: rows vary as well."""
        ends = np.cumsum([len(fold.test) for fold in self._folds])
        rows = np.arange(ends[-1])
        found = []
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            part = slice(start, end)
            one, other = (self._difference(more - less, part, by) for by in (self._unit, rows))
            found.append(replace(one, error=max(one.error, other.error)))
        return found

    def _difference(self, gain: FloatArray, part: slice, unit: IntArray) -> Difference:
        mass = self._mass[part]
        _, unit = np.unique(unit[part], return_inverse=True)
        total = np.bincount(unit, weights=mass)
        mean = np.bincount(unit, weights=gain[part] * mass) / total
        count = np.bincount(unit, weights=self._count[part] * mass) / total
        center = float(np.average(mean, weights=total))
        spread = float(np.sum((total * (mean - center)) ** 2 / count))
        return Difference(center, math.sqrt(spread) / float(total.sum()), len(mass))


def compares_rows(objective: Objective) -> bool:
    """Whether a loss compares rows, and can tell what each row, or its query, has of it."""
    return hasattr(objective, "shared_losses")


def _weights(sample: Sample, fold: Fold) -> FloatArray:
    if fold.test_weight is not None:
        return fold.test_weight
    if sample.query is not None:
        return _shares_of_queries(sample, fold.test)
    return np.ones(len(fold.test)) if sample.weight is None else sample.weight[fold.test]


def _shares_of_queries(sample: Sample, rows: IntArray) -> FloatArray:
    """Weights of rows that come to the mean weight of its rows for each query."""
    assert sample.query is not None
    _, query, n_rows = np.unique(sample.query[rows], return_inverse=True, return_counts=True)
    weight = 1.0 if sample.weight is None else sample.weight[rows]
    return np.asarray(weight / n_rows[query.reshape(-1)])


def warn_of_doubts(gain: Difference, by_fold: Sequence[Difference]) -> None:
    """Warn where folds speak against each other by more than chance.

    Parameters
    ----------
    gain : Difference
        What the best settings gain on the rows of all folds.
    by_fold : sequence of Difference
        The same for each fold.

    Warns
    -----
    FoldsWarning
    """
    results = [(k, one) for k, one in enumerate(by_fold) if one.n_rows >= _FEWEST_ROWS]
    worse = [k for k, one in results if one.falls_short(_DOUBTLESS)]
    better = [k for k, one in results if one.exceeds(_DOUBTLESS)]
    if gain.n_rows >= _FEWEST_ROWS and gain.falls_short(_DOUBTLESS):
        what = (
            f"the folds predict their test rows worse than a constant does: a loss that is "
            f"{-gain.mean:.3g} higher (standard error {gain.error:.2g}), even at its best"
        )
    elif worse and better:
        what = (
            f"the folds contradict each other: the trees lower the loss of the test rows of fold "
            f"{_listed(better)}, and raise that of fold {_listed(worse)}, both beyond chance"
        )
    else:
        return
    warnings.warn(
        f"{what}. So the kind of trees and the number of rounds are doubtful. Likely causes: rows "
        "that are nearly the same with different targets (merge them, or give the counts as "
        "sample_weight), rows that belong together (give groups=), or an order in time (give later "
        "rows as X_val, y_val).",
        FoldsWarning,
        stacklevel=2,
    )


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


__all__ = ["BEYOND_CHANCE", "Difference", "TestedRows", "warn_of_doubts"]
