"""Significance of a difference of losses on the tested rows of folds.

The same rows judge all settings, so settings are compared row by row: the noise of a row is in
both losses.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, starmap

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.validation.cross import GrownFold
from hedgerow.boosting.validation.folds import Fold
from hedgerow.errors import FoldsWarning

BEYOND_CHANCE = 3.0
"""Standard errors from which on a gain is significant."""

_FEWEST_ROWS = 20
"""Fewer rows do not give a reliable standard error."""

_DOUBTLESS = 4.0
"""Standard errors from which on a gain or a loss is not due to chance."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean difference of losses, and the standard error of this mean."""

    mean: float
    error: float
    n_rows: int

    def exceeds(self, n_errors: float) -> bool:
        """Return whether the mean is above 0 by more than ``n_errors`` standard errors."""
        return self.mean > max(n_errors * self.error, 0.0)

    def falls_short(self, n_errors: float) -> bool:
        """Return whether the mean is below 0 by more than ``n_errors`` standard errors."""
        return self.mean < -max(n_errors * self.error, 0.0)

    def trust(self, n_errors: float) -> float:
        """Return the trust in a gain: 0 without a gain, 1 from ``n_errors`` standard errors on."""
        if not self.mean > 0.0:
            return 0.0
        return min(1.0, self.mean / (n_errors * self.error)) ** 2 if self.error > 0.0 else 1.0


class TestedRows:
    """The tested rows of all folds, one fold after the other.

    alike  int64 (n_rows,): rows with the same number (copies, or a group) are one observation with
           the sum of their weights
    """

    def __init__(self, sample: Sample, folds: Sequence[Fold], alike: IntArray | None) -> None:
        self._sample, self._folds = sample, folds
        rows = np.concatenate([fold.test for fold in folds])
        self._mass = np.concatenate([_weights(sample, fold) for fold in folds])
        counts = [np.ones(len(f.test)) if f.n_tested is None else f.n_tested for f in folds]
        self._count = np.concatenate(counts)
        self._unit: IntArray = np.arange(len(rows))
        if alike is not None:
            self._unit = np.unique(alike[rows], return_inverse=True)[1].reshape(-1)

    def losses(
        self, grown: Sequence[GrownFold], raw: Sequence[FloatArray] | None = None
    ) -> FloatArray:
        """Return the loss of each row with the trees up to the best round, or with raw scores."""
        raw, sample, losses = [fit.raw for fit in grown] if raw is None else raw, self._sample, []
        for fold, fit, scores in zip(self._folds, grown, raw, strict=True):
            objective, given = fit.watch.objective, (sample.target[fold.test], scores)
            if hasattr(objective, "shared_losses"):  # which divide the losses of queries
                query = None if sample.query is None else sample.query[fold.test]
                losses.append(objective.shared_losses(*given, query))
            else:
                losses.append(objective.losses(*given))
        return np.concatenate(losses)

    def mean(self, losses: FloatArray) -> float:
        """Return the weighted mean of losses of rows."""
        return float(np.average(losses, weights=self._mass))

    def difference(
        self, gain: FloatArray, part: slice = slice(None), unit: IntArray | None = None
    ) -> Difference:
        """Return the weighted mean of differences of rows, by default of all tested ones."""
        mass = self._mass[part]
        _, unit = np.unique((self._unit if unit is None else unit)[part], return_inverse=True)
        total = np.bincount(unit, weights=mass)
        mean = np.bincount(unit, weights=gain[part] * mass) / total
        count = np.bincount(unit, weights=self._count[part] * mass) / total
        center = float(np.average(mean, weights=total))
        away = total * (mean - center)
        # Losses of targets of 1e80 are squares, whose squares float64 cannot hold.
        scale = math.ldexp(1.0, math.frexp(float(np.abs(away).max()))[1] - 1)
        spread = float(np.sum((away / scale) ** 2 / count))
        return Difference(center, scale * math.sqrt(spread) / float(total.sum()), len(mass))

    def by_fold(self, gain: FloatArray) -> list[Difference]:
        """Return the mean of the rows of each fold."""
        ends, found = np.cumsum([0, *(len(fold.test) for fold in self._folds)]), []
        for part in starmap(slice, pairwise(ends)):
            # All rows of a fold may be of one group, so the error is at least that of single rows.
            one, other = (self.difference(gain, part, unit) for unit in (None, np.arange(ends[-1])))
            found.append(replace(one, error=max(one.error, other.error)))
        return found


def _weights(sample: Sample, fold: Fold) -> FloatArray:
    if fold.test_weight is not None:
        return fold.test_weight
    weight = np.ones(len(fold.test)) if sample.weight is None else sample.weight[fold.test]
    if sample.query is None:
        return weight
    # The weights of each query add up to the mean weight of its rows.
    own = sample.query[fold.test]
    _, query, n_rows = np.unique(own, return_inverse=True, return_counts=True)
    return np.asarray(weight / n_rows[query.reshape(-1)])


def warn_of_doubts(gain: Difference, by_fold: Sequence[Difference]) -> None:
    """Warn if folds contradict each other, or the trees, by more than chance."""
    results = [(k, one) for k, one in enumerate(by_fold) if one.n_rows >= _FEWEST_ROWS]
    worse = [k for k, one in results if one.falls_short(_DOUBTLESS)]
    better = [k for k, one in results if one.exceeds(_DOUBTLESS)]
    if gain.n_rows >= _FEWEST_ROWS and gain.falls_short(_DOUBTLESS):
        what = (
            "the folds predict their test rows worse than a constant: even in the best round, the "
            f"loss is {-gain.mean:.3g} higher (standard error {gain.error:.2g})"
        )
    elif worse and better:
        better_ones, worse_ones = (", ".join(map(str, folds)) for folds in (better, worse))
        what = (
            "the folds contradict each other: the trees lower the loss on the test rows of fold "
            f"{better_ones}, and raise it on those of fold {worse_ones}, both beyond chance"
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
