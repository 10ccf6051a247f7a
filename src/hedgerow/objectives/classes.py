"""Losses of classes and of probabilities.

logistic       ``log(1 + exp(-s raw))``, s = -1 or 1: g = p - y, h = p (1 - p); sigmoid link
cross_entropy  the same for a target that is a probability itself, in [0, 1]
exponential    ``exp(-s raw)``, AdaBoost's loss: g = -s exp(-s raw), h = exp(-s raw).  The
               minimiser is half the log-odds (Friedman, Hastie and Tibshirani 2000), so the link
               is ``1 / (1 + exp(-2 raw))``
focal          well-classified rows have little weight (Lin et al. 2017)
hinge          linear for margins below 1; no probabilities
softmax        cross-entropy of K classes (target 0 ... K-1): one raw score per class
one_vs_all     for each of K classes, a logistic loss against all others
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit, log_expit, logsumexp, xlog1py, xlogy

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.objectives import derivatives, row_kernels
from hedgerow.objectives import line_search as ls
from hedgerow.objectives.base import MeanLoss, RowLoss, check_number
from hedgerow.objectives.catalogue import Task
from hedgerow.objectives.domain import CLASSES, TWO_CLASSES, Domain
from hedgerow.objectives.global_sums import AllRows, root_of_mean
from hedgerow.params import Interval

_FARTHEST_START = 34.5
"""Log-odds of a probability of 1 - 1e-15: the initial score for rows of one class."""
_FAR = derivatives.FARTHEST_MARGIN
_MOST_CYCLES = 100
_CLOSE = 1e-9


class _LogOdds(MeanLoss):
    """Base class of losses whose raw score is the log-odds of a probability."""

    kernel_id: ClassVar[int] = derivatives.LOGISTIC
    vanishing_hessian: ClassVar[bool] = True

    def start_of(self, rows: AllRows) -> FloatArray:
        return np.array([log_odds(rows.mean())])

    def slopes(self, target: FloatArray, raw: FloatArray) -> ls.Slopes:
        return of_log_odds(target, raw)

    def leaf_rule(self, output: int) -> ls.LeafRule:
        """Return the rule: the root of the sum of p(raw + c) - y, which has no closed form."""
        return ls.root_rule(of_log_odds, output)


@dataclass(frozen=True, slots=True)
class Logistic(_LogOdds):
    """Negative binomial log-likelihood; raw score is the log-odds of class 1."""

    name: ClassVar[str] = "logistic"
    domain: ClassVar[Domain] = TWO_CLASSES
    task: ClassVar[Task] = "two classes"
    n_outputs: int = 1

    def predict(self, raw: FloatArray) -> FloatArray:
        return both_classes(expit(raw[0]))

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        # log(1 + exp(-m)) with m the margin; logaddexp does not overflow.
        other = np.where(target > 0.0, -raw[0], raw[0])
        return np.asarray(np.logaddexp(0.0, other))


@dataclass(frozen=True, slots=True)
class CrossEntropy(_LogOdds):
    """``y log(y / p) + (1 - y) log((1 - y) / (1 - p))``: 0 for a perfect prediction."""

    name: ClassVar[str] = "cross_entropy"
    domain: ClassVar[Domain] = Interval(0.0, 1.0)
    n_outputs: int = 1

    def predict(self, raw: FloatArray) -> FloatArray:
        return np.asarray(expit(raw[0]))

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        known = xlogy(target, target) + xlog1py(1.0 - target, -target)
        return np.asarray(known - target * log_expit(raw[0]) - (1.0 - target) * log_expit(-raw[0]))


@dataclass(frozen=True, slots=True)
class Exponential(MeanLoss):
    """Exponential loss of two classes; raw score is half the log-odds of class 1."""

    name: ClassVar[str] = "exponential"
    domain: ClassVar[Domain] = TWO_CLASSES
    task: ClassVar[Task] = "two classes"
    vanishing_hessian: ClassVar[bool] = True
    kernel_id: ClassVar[int] = derivatives.EXPONENTIAL
    n_outputs: int = 1

    def start_of(self, rows: AllRows) -> FloatArray:
        return np.array([0.5 * log_odds(rows.mean())])

    def slopes(self, target: FloatArray, raw: FloatArray) -> ls.Slopes:
        sign = np.where(target > 0.0, 1.0, -1.0)
        size = np.exp(np.clip(-sign * raw, -_FAR, _FAR))
        return -sign * size, size

    def predict(self, raw: FloatArray) -> FloatArray:
        return both_classes(expit(2.0 * raw[0]))

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        margin = np.where(target > 0.0, raw[0], -raw[0])
        return np.asarray(np.exp(np.minimum(-margin, _FAR)))

    def leaf_rule(self, output: int) -> ls.LeafRule:
        """Return the rule: half the log of the ratio of the sums of exp(-s raw) of both classes."""

        def values(target: FloatArray, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
            positive, score = target > 0.0, np.clip(raw[output], -_FAR, _FAR)
            up = np.where(positive, np.exp(-score), 0.0)
            return up, np.where(positive, 0.0, np.exp(score))

        return ls.log_ratio_rule(values, 0.5)


@dataclass(frozen=True, slots=True)
class Focal(RowLoss):
    """``-a (1 - p)**focal_gamma log p``, p the probability of the true class.

    ``a`` is ``focal_alpha`` for class 1 and ``1 - focal_alpha`` for class 0; without it 1.
    With ``focal_gamma=0`` it is the logistic loss.  It is not convex, so leaf values and initial
    score are roots of the mean derivative; for a constant there is exactly one root.
    """

    name: ClassVar[str] = "focal"
    domain: ClassVar[Domain] = TWO_CLASSES
    row_kernel = row_kernels.FOCAL
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
        return np.array([root_of_mean(rows, self.slopes, log_odds(rate), (-far, far))])

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

    def slopes(self, target: FloatArray, raw: FloatArray) -> ls.Slopes:
        sign, share, p, log_p, q = self._parts(target, raw)
        power = self.focal_gamma
        curvature = q * (1.0 + 2.0 * power) + power * log_p * (q - power * p)
        return sign * share * (power * p * log_p - q), share * p * curvature

    def leaf_rule(self, output: int) -> ls.LeafRule:
        return ls.root_rule(self.slopes, output)


@dataclass(frozen=True, slots=True)
class Hinge(RowLoss):
    """``max(0, 1 - s raw)``, s = -1 or 1 (target 0 or 1); predicts classes.

    Piecewise linear: trees fit the negative gradient, and leaves take the step that
    minimises the sum, a quantile of the steps to the margins.  ``predict_proba`` returns 1
    for the predicted class.
    """

    name: ClassVar[str] = "hinge"
    domain: ClassVar[Domain] = TWO_CLASSES
    row_kernel = row_kernels.HINGE
    task: ClassVar[Task] = "two classes"
    constant_hessian: ClassVar[bool] = True
    second_order: ClassVar[bool] = False
    n_outputs: int = 1

    def start_of(self, rows: AllRows) -> FloatArray:
        """Return 1 or -1 for the class with more weight; 0 if both have the same."""
        return np.array([float(np.sign(rows.mean() - 0.5))])

    def slopes(self, target: FloatArray, raw: FloatArray) -> ls.Slopes:
        sign = np.where(target > 0.0, 1.0, -1.0)
        return np.where(sign * raw < 1.0, -sign, 0.0), np.zeros(len(target))

    def predict(self, raw: FloatArray) -> FloatArray:
        return both_classes((raw[0] > 0.0).astype(np.float64))

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        return np.asarray(np.maximum(0.0, 1.0 - np.where(target > 0.0, raw[0], -raw[0])))

    def leaf_rule(self, output: int) -> ls.QuantileRule:
        """Return the rule: the derivative rises at margins, from minus the weight of class 1."""
        return ls.QuantileRule(lambda target, raw: np.where(target > 0.0, 1.0, -1.0) - raw, None)


@dataclass(frozen=True, slots=True)
class Softmax(MeanLoss):
    """Multinomial log-likelihood.

    g_k = p_k - [y = k], h_k = p_k (1 - p_k) K / (K - 1).  The factor K / (K - 1) is from
    Friedman (2001), algorithm 6: with it, the joint step of all K trees is as long as a Newton
    step under the constraint that raw scores sum to zero.
    """

    name: ClassVar[str] = "softmax"
    domain: ClassVar[Domain] = CLASSES
    vanishing_hessian: ClassVar[bool] = True
    kernel_id: ClassVar[int] = derivatives.SOFTMAX
    coupled: ClassVar[bool] = True
    n_outputs: int = 3

    @property
    def task(self) -> Task:
        return "two classes" if self.n_outputs == 2 else "classes"

    def start_of(self, rows: AllRows) -> FloatArray:
        share = np.clip(rows.shares(self.n_outputs), 1e-15, None)
        score = np.log(share)
        return np.asarray(score - score.mean())

    def start_beside(self, rows: AllRows) -> FloatArray:
        """Return the scores for which the mean probability of each class is its share."""
        start = np.log(np.clip(rows.shares(self.n_outputs), 1e-15, None))
        base = start
        # Adding the logarithm of share over mean probability always raises the likelihood.
        for _ in range(_MOST_CYCLES):
            chances = np.ascontiguousarray(self.predict(rows.offset + base[:, None]).T)
            steps = start - np.log(np.maximum(rows.means(list(chances)), 1e-300))
            steps -= steps.mean()
            base = base + steps
            if np.abs(steps).max() <= _CLOSE:
                break
        return np.asarray(base - base.mean())

    def predict(self, raw: FloatArray) -> FloatArray:
        return _shares_of(raw)

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        raw, classes = np.asarray(raw, dtype=np.float64), np.asarray(target).astype(np.int64)
        top = raw.max(axis=0)
        with np.errstate(invalid="ignore"):  # a score that is no number shows in the loss
            shares = np.exp(raw - top)
        total = shares[0]
        for share in shares[1:]:  # in order, so that a row has the same bits beside any others
            total += share
        return np.asarray((top + np.log(total)) - raw[classes, np.arange(len(classes))])

    def leaf_rule(self, output: int) -> ls.LeafRule:
        """Return the rule: the root of the sum of p_k - [y = k], other scores fixed."""

        def slopes(target: FloatArray, raw: FloatArray) -> Callable[[FloatArray], ls.Slopes]:
            others = logsumexp(np.delete(raw, output, axis=0), axis=0)
            hit = (target == output).astype(np.float64)

            def at(step: FloatArray) -> ls.Slopes:
                p = expit(raw[output] + step - others)
                return p - hit, p * (1.0 - p)

            return at

        return ls.RootRule(slopes)


@dataclass(frozen=True, slots=True)
class OneVsAll(RowLoss):
    """K logistic losses; the K probabilities are divided by their sum."""

    name: ClassVar[str] = "one_vs_all"
    domain: ClassVar[Domain] = CLASSES
    row_kernel = row_kernels.ONE_CLASS
    vanishing_hessian: ClassVar[bool] = True
    task: ClassVar[Task] = "classes"
    n_outputs: int = 3

    def numbers(self, output: int) -> FloatArray:
        return np.array([float(output)])

    def start_of(self, rows: AllRows) -> FloatArray:
        return np.array([log_odds(share) for share in rows.shares(self.n_outputs).tolist()])

    def predict(self, raw: FloatArray) -> FloatArray:
        return _shares_of(log_expit(raw))

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        total = np.zeros(raw.shape[1])
        for label, score in enumerate(raw):
            total -= log_expit(np.where(target == label, score, -score))
        return total

    def leaf_rule(self, output: int) -> ls.LeafRule:
        return ls.root_rule(lambda target, raw: of_log_odds(target == output, raw), output)

    def slopes_of(self, target: FloatArray, raw: FloatArray, output: int) -> ls.Slopes:
        """Return the first and second derivative of each row in the raw score of an output."""
        return of_log_odds(target == output, raw[output])


def of_log_odds(target: AnyArray, raw: FloatArray) -> ls.Slopes:
    """Return the first and second derivative of the logistic loss of each row."""
    p = expit(raw)
    return p - target, p * (1.0 - p)


def log_odds(rate: float) -> float:
    """Return the log-odds of a probability, which is limited to 15 digits."""
    rate = min(max(rate, 1e-15), 1.0 - 1e-15)
    return float(np.log(rate) - np.log1p(-rate))


def _shares_of(logs: FloatArray) -> FloatArray:
    """Return the share of each output in the sum, (n_rows, n_outputs), from logarithms."""
    # Divide by the largest first, so that tiny probabilities do not all become 0.
    share = np.exp(logs - logs.max(axis=0))
    # In order: that of NumPy's sum depends on the number of columns.
    if logs.shape[1] < 64:  # a step of the loop below takes a microsecond
        return np.ascontiguousarray((share / np.add.accumulate(share)[-1]).T)
    total = share[0].copy()
    for row in share[1:]:
        total += row
    return np.ascontiguousarray((share / total).T)


def both_classes(positive: FloatArray) -> FloatArray:
    """Return the probabilities of both classes, (n_rows, 2), from the probability of class 1."""
    found = np.empty((len(positive), 2))
    np.subtract(1.0, positive, out=found[:, 0])
    found[:, 1] = positive
    return found
