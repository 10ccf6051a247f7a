"""Scores of order: how well rows of a class, or of early events, rank before others.

Glossary
--------
curve    weight of the rows of the class, and of the others, with at least a certain
         score: one point for each distinct score, so equal scores have no order
ROC      share of the class over share of the others; its area, the AUC, is the probability
         that a row of the class ranks before one of the others, with ties counted half
PR       precision (share of the class among the rows so far) over recall (share of
         the class so far)

The rows are sorted once, and cumulative sums follow.  Without weights all sums are integers, so
the order of equal scores does not matter; with weights the sort is stable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from hedgerow.arrays import BoolArray, FloatArray
from hedgerow.errors import DataError

Truth = BoolArray


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Cumulative weights (n_scores + 1,); both start at 0 and end at the total weight."""

    inside: FloatArray  # of the rows of the class
    outside: FloatArray  # of the others

    @staticmethod
    def of(inside: Truth, score: FloatArray, weight: FloatArray | None = None) -> Curve:
        """Sort the rows."""
        order = np.argsort(-score, kind="stable" if weight is not None else None)
        ordered, chosen = score[order], inside[order]
        last = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
        mass: Any = 1.0 if weight is None else weight[order]
        return Curve(
            np.append(0.0, np.cumsum(chosen * mass)[last]),
            np.append(0.0, np.cumsum(~chosen * mass)[last]),
        )

    def area(self) -> float:
        """Return the area under the ROC curve."""
        heights = self.inside[1:] + self.inside[:-1]
        total = float((np.diff(self.outside) * heights).sum())
        return 0.5 * total / float(self.inside[-1] * self.outside[-1])

    def average_precision(self) -> float:
        """Return the mean of the precision over the recall, in steps, as in scikit-learn."""
        precision = self.inside[1:] / (self.inside[1:] + self.outside[1:])
        return float((np.diff(self.inside) * precision).sum() / self.inside[-1])

    def precision_recall_area(self) -> float:
        """Return the area under the PR curve with interpolation, as in XGBoost."""
        # Between two points both kinds of rows arrive evenly (Davis and Goadrich 2006), so
        # precision is ``x / (a x + b)`` of the recall x.
        total = self.inside[-1]
        rise, run = np.diff(self.inside), np.diff(self.outside)
        some = rise > 0.0
        slope = run[some] / rise[some]
        a = 1.0 + slope
        b = (self.outside[:-1][some] - slope * self.inside[:-1][some]) / total
        low, high = self.inside[:-1][some] / total, self.inside[1:][some] / total
        bent = b != 0.0
        safe_low = np.where(bent, a * low + b, 1.0)
        safe_high = np.where(bent, a * high + b, 1.0)
        log = np.log(safe_high / safe_low)
        return float(((high - low - np.where(bent, b / a * log, 0.0)) / a).sum())

    def largest_gap(self) -> float:
        """Return the largest distance of the two shares (Kolmogorov-Smirnov)."""
        gaps = self.inside / self.inside[-1] - self.outside / self.outside[-1]
        return float(np.abs(gaps).max())


Summary = Callable[[Curve], float]


def one_against_rest(
    name: str,
    summary: Summary,
    by_weight: bool,
    y_true: FloatArray,
    prediction: FloatArray,
    weight: FloatArray | None = None,
) -> float:
    """Return the mean summary of the curves of each class against all others."""
    n_classes = prediction.shape[1]
    scores, shares = [], []
    for number in [1] if n_classes == 2 else range(n_classes):
        curve = Curve.of(y_true == number, prediction[:, number], weight)
        if not (curve.inside[-1] > 0.0 and curve.outside[-1] > 0.0):
            raise needs_classes(name, y_true, n_classes, number)
        scores.append(summary(curve))
        shares.append(float(curve.inside[-1]))
    if n_classes == 2:
        return scores[0]
    return float(np.average(scores, weights=shares if by_weight else None))


def auc_mu(y_true: FloatArray, raw: FloatArray, weight: FloatArray | None = None) -> float:
    """Return the mean over pairs of classes of the AUC of the difference of their raw scores."""
    # Kleiman and Page 2019, with a cost of 1 for every mistake, as in LightGBM.
    rows_of = [np.flatnonzero(y_true == number) for number in range(len(raw))]
    for number, rows in enumerate(rows_of):
        if len(rows) == 0:
            raise needs_classes("auc_mu", y_true, len(raw), number)
    scores = []
    for one, other in combinations(range(len(raw)), 2):
        rows = np.concatenate([rows_of[one], rows_of[other]])
        mass = None if weight is None else weight[rows]
        score = raw[one, rows] - raw[other, rows]
        scores.append(Curve.of(y_true[rows] == one, score, mass).area())
    return float(np.mean(scores))


def needs_classes(name: str, y_true: FloatArray, n_classes: int, number: int) -> DataError:
    """Return the error for rows without one of the classes."""
    if (y_true == y_true[0]).all():
        what = (
            f"metric {name!r} needs rows of {'both' if n_classes == 2 else 'all'} classes, but all "
            f"{len(y_true)} rows have class index {y_true[0]:g}"
        )
    else:
        what = (
            f"metric {name!r} needs rows of all {n_classes} classes, but none of the "
            f"{len(y_true)} rows has class index {number}"
        )
    return DataError(f"{what}: give other validation rows or use eval_metric='logloss'.")


def concordance(
    risk_sign: float, y_true: FloatArray, prediction: FloatArray, weight: FloatArray | None = None
) -> float:
    """Return Harrell's C: share of the comparable pairs that the prediction orders correctly."""
    from hedgerow.kernels.concordance import concordant_pairs

    # A pair can be compared if its earlier time is an event; equal predictions count half, and
    # pairs of events at the same time are left out.
    time = y_true[:, 0] if y_true.ndim == 2 else np.abs(y_true)
    event = y_true[:, 0] == y_true[:, 1] if y_true.ndim == 2 else y_true > 0.0
    rank = np.unique(risk_sign * prediction, return_inverse=True)[1].reshape(-1) + 1
    rows = np.argsort(time, kind="stable")
    ordered = time[rows]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1], True])
    mass = np.ones(len(time)) if weight is None else np.array(weight, dtype=np.float64)
    tree = np.zeros(int(rank.max()) + 1)
    right, total = concordant_pairs(rank, event, mass, rows, starts, tree)
    if total <= 0.0:
        raise DataError(
            f"metric 'concordance' needs an event before the time of another row; {len(time)} "
            "rows have none: give other validation rows, or use eval_metric='loss'."
        )
    return float(right / total)
