"""Losses of classes and of probabilities besides ``logistic``, ``exponential``, ``softmax``.

cross_entropy  the target is a probability itself, in [0, 1]; otherwise ``logistic``
focal          well-classified rows have little weight (Lin et al. 2017)
hinge          linear for margins below 1; no probabilities
one_vs_all     for each of K classes, a logistic loss against all others
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy.special import expit, log_expit, xlog1py, xlogy

from hedgerow.arrays import FloatArray
from hedgerow.objectives import row_kernels
from hedgerow.objectives.base import both_classes, log_odds, sum_of_outputs
from hedgerow.objectives.domain import CLASSES, TWO_CLASSES, Domain
from hedgerow.objectives.global_sums import AllRows
from hedgerow.objectives.line_search import (
    LeafRule,
    QuantileRule,
    Slopes,
    root_rule,
    root_rule_of_scores,
)
from hedgerow.objectives.rowwise import RowLoss, check_number, root_of_mean
from hedgerow.params import Interval

Task = Literal["regression", "two classes", "classes"]
_FARTHEST_START = 34.5
"""Log-odds of a probability of 1 - 1e-15: the initial score for rows of one class."""


@dataclass(frozen=True, slots=True)
class CrossEntropy(RowLoss):
    """``y log(y / p) + (1 - y) log((1 - y) / (1 - p))``: 0 for a perfect prediction."""

    name: ClassVar[str] = "cross_entropy"
    domain: ClassVar[Domain] = Interval(0.0, 1.0)
    kernel = row_kernels.cross_entropy
    vanishing_hessian: ClassVar[bool] = True
    n_outputs: int = 1

    def start_of(self, rows: AllRows) -> FloatArray:
        return np.array([log_odds(rows.mean())])

    def predict(self, raw: FloatArray) -> FloatArray:
        return np.asarray(expit(raw[0]))

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        known = xlogy(target, target) + xlog1py(1.0 - target, -target)
        return np.asarray(known - target * log_expit(raw[0]) - (1.0 - target) * log_expit(-raw[0]))

    def slopes(self, target: FloatArray, raw: FloatArray) -> Slopes:
        p = expit(raw)
        return p - target, p * (1.0 - p)

    def leaf_rule(self, output: int) -> LeafRule:
        return root_rule(self.slopes, output)


@dataclass(frozen=True, slots=True)
class Focal(RowLoss):
    """``-a (1 - p)**focal_gamma log p``, p the probability of the true class.

    ``a`` is ``focal_alpha`` for class 1 and ``1 - focal_alpha`` for class 0; without it 1.
    With ``focal_gamma=0`` it is the logistic loss.  It is not convex, so leaf values and initial
    score are roots of the mean derivative; for a constant there is exactly one root.
    """

    name: ClassVar[str] = "focal"
    domain: ClassVar[Domain] = TWO_CLASSES
    kernel = row_kernels.focal
    vanishing_hessian: ClassVar[bool] = True
    task: ClassVar[Task] = "two classes"
    n_outputs: int = 1
    focal_gamma: float = 2.0
    focal_alpha: float | None = None

    def __post_init__(self) -> None:
        check_number(self.focal_gamma, "focal_gamma", Interval(0.0, 100.0))
        if self.focal_alpha is not None:
            open_share = Interval(0.0, 1.0, low_open=True, high_open=True)
            check_number(self.focal_alpha, "focal_alpha", open_share)

    def numbers(self, output: int) -> FloatArray:
        return np.array([float(self.focal_gamma), *self._factors()])

    def _factors(self) -> tuple[float, float]:
        """Return the factors of class 1 and class 0."""
        if self.focal_alpha is None:
            return 1.0, 1.0
        return float(self.focal_alpha), 1.0 - float(self.focal_alpha)

    def start_of(self, rows: AllRows) -> FloatArray:
        rate = rows.mean()
        far = _FARTHEST_START
        if rate in (0.0, 1.0):
            return np.array([far if rate == 1.0 else -far])
        return np.array([root_of_mean(rows, self.slopes, log_odds(rate), -far, far)])

    def predict(self, raw: FloatArray) -> FloatArray:
        return both_classes(expit(raw[0]))

    def _parts(self, target: FloatArray, raw: FloatArray) -> tuple[FloatArray, ...]:
        """Return sign, factor a (1 - p)**gamma, p, log p and 1 - p."""
        sign = np.where(target > 0.0, 1.0, -1.0)
        of_one, of_zero = self._factors()
        q = expit(-sign * raw)
        share = np.where(target > 0.0, of_one, of_zero) * q**self.focal_gamma
        return sign, share, expit(sign * raw), log_expit(sign * raw), q

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        _, share, _, log_p, _ = self._parts(target, raw[0])
        return np.asarray(-share * log_p)

    def slopes(self, target: FloatArray, raw: FloatArray) -> Slopes:
        sign, share, p, log_p, q = self._parts(target, raw)
        power = self.focal_gamma
        curvature = q * (1.0 + 2.0 * power) + power * log_p * (q - power * p)
        return sign * share * (power * p * log_p - q), share * p * curvature

    def leaf_rule(self, output: int) -> LeafRule:
        return root_rule(self.slopes, output)


@dataclass(frozen=True, slots=True)
class Hinge(RowLoss):
    """``max(0, 1 - s raw)``, s = -1 or 1 (target 0 or 1); predicts classes.

    Piecewise linear: trees fit the negative gradient, and leaves take the step that
    minimises the sum, a quantile of the steps to the margins.  ``predict_proba`` returns 1
    for the predicted class.
    """

    name: ClassVar[str] = "hinge"
    domain: ClassVar[Domain] = TWO_CLASSES
    kernel = row_kernels.hinge
    task: ClassVar[Task] = "two classes"
    constant_hessian: ClassVar[bool] = True
    second_order: ClassVar[bool] = False
    n_outputs: int = 1

    def start_of(self, rows: AllRows) -> FloatArray:
        """Return 1 or -1 for the class with more weight; 0 if both have the same."""
        return np.array([float(np.sign(rows.mean() - 0.5))])

    def slopes(self, target: FloatArray, raw: FloatArray) -> Slopes:
        sign = np.where(target > 0.0, 1.0, -1.0)
        return np.where(sign * raw < 1.0, -sign, 0.0), np.zeros(len(target))

    def predict(self, raw: FloatArray) -> FloatArray:
        return both_classes((raw[0] > 0.0).astype(np.float64))

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        return np.asarray(np.maximum(0.0, 1.0 - np.where(target > 0.0, raw[0], -raw[0])))

    def leaf_rule(self, output: int) -> QuantileRule:
        """Return the rule: the derivative rises at margins, from minus the weight of class 1."""
        return QuantileRule(lambda target, raw: np.where(target > 0.0, 1.0, -1.0) - raw, None)


@dataclass(frozen=True, slots=True)
class OneVsAll(RowLoss):
    """K logistic losses; the K probabilities are divided by their sum."""

    name: ClassVar[str] = "one_vs_all"
    domain: ClassVar[Domain] = CLASSES
    kernel = row_kernels.one_class
    vanishing_hessian: ClassVar[bool] = True
    task: ClassVar[Task] = "classes"
    n_outputs: int = 3

    def numbers(self, output: int) -> FloatArray:
        return np.array([float(output)])

    def start_of(self, rows: AllRows) -> FloatArray:
        return np.array([log_odds(share) for share in rows.shares(self.n_outputs).tolist()])

    def predict(self, raw: FloatArray) -> FloatArray:
        # Divide by the largest first, so that tiny probabilities do not all become 0.
        log_p = log_expit(raw)
        share = np.exp(log_p - log_p.max(axis=0))
        return np.ascontiguousarray((share / sum_of_outputs(share)).T)

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        total = np.zeros(raw.shape[1])
        for label, score in enumerate(raw):
            total -= log_expit(np.where(target == label, score, -score))
        return total

    def leaf_rule(self, output: int) -> LeafRule:
        return root_rule_of_scores(self.slopes_of, output)

    def slopes_of(self, target: FloatArray, raw: FloatArray, output: int) -> Slopes:
        """Return the first and second derivative of each row in the raw score of an output."""
        p = expit(raw[output])
        return p - (target == output), p * (1.0 - p)
