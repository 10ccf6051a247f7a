"""The logistic and the exponential loss of two classes (target 0 or 1).

logistic     ``log(1 + exp(-s raw))``, s = -1 or 1: g = p - y, h = p (1 - p); sigmoid link
exponential  ``exp(-s raw)``, AdaBoost's loss: g = -s exp(-s raw), h = exp(-s raw).  The
             minimiser is half the log-odds (Friedman, Hastie and Tibshirani 2000), so the link
             is ``1 / (1 + exp(-2 raw))``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit

from hedgerow.arrays import FloatArray
from hedgerow.objectives import derivatives
from hedgerow.objectives.base import MeanLoss, both_classes, log_odds
from hedgerow.objectives.domain import TWO_CLASSES, Domain
from hedgerow.objectives.global_sums import AllRows
from hedgerow.objectives.line_search import LONGEST_STEP, LeafRule, Slopes, SumsRule, root_rule

_FAR = derivatives.FARTHEST_MARGIN


@dataclass(frozen=True, slots=True)
class Logistic(MeanLoss):
    """Negative binomial log-likelihood; raw score is the log-odds of class 1."""

    name: ClassVar[str] = "logistic"
    domain: ClassVar[Domain] = TWO_CLASSES
    vanishing_hessian: ClassVar[bool] = True
    kernel_id: ClassVar[int] = derivatives.LOGISTIC
    n_outputs: int = 1

    def start_of(self, rows: AllRows) -> FloatArray:
        return np.array([log_odds(rows.mean())])

    def slopes(self, target: FloatArray, raw: FloatArray) -> Slopes:
        p = expit(raw)
        return p - target, p * (1.0 - p)

    def predict(self, raw: FloatArray) -> FloatArray:
        return both_classes(expit(raw[0]))

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        # log(1 + exp(-m)) with m the margin; logaddexp does not overflow.
        other = np.where(target > 0.0, -raw[0], raw[0])
        return np.asarray(np.logaddexp(0.0, other))

    def leaf_rule(self, output: int) -> LeafRule:
        """Return the rule: the root of the sum of p(raw + c) - y, which has no closed form."""
        return root_rule(self.slopes, output)


@dataclass(frozen=True, slots=True)
class Exponential(MeanLoss):
    """Exponential loss of two classes; raw score is half the log-odds of class 1."""

    name: ClassVar[str] = "exponential"
    domain: ClassVar[Domain] = TWO_CLASSES
    vanishing_hessian: ClassVar[bool] = True
    kernel_id: ClassVar[int] = derivatives.EXPONENTIAL
    n_outputs: int = 1

    def start_of(self, rows: AllRows) -> FloatArray:
        return np.array([0.5 * log_odds(rows.mean())])

    def slopes(self, target: FloatArray, raw: FloatArray) -> Slopes:
        sign = np.where(target > 0.0, 1.0, -1.0)
        size = np.exp(np.clip(-sign * raw, -_FAR, _FAR))
        return -sign * size, size

    def predict(self, raw: FloatArray) -> FloatArray:
        return both_classes(expit(2.0 * raw[0]))

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        margin = np.where(target > 0.0, raw[0], -raw[0])
        return np.asarray(np.exp(np.minimum(-margin, _FAR)))

    def leaf_rule(self, output: int) -> SumsRule:
        """Return the rule: half the log of the ratio of the sums of exp(-s raw) of both classes."""

        def values(target: FloatArray, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
            positive, score = target > 0.0, np.clip(raw[output], -_FAR, _FAR)
            up = np.where(positive, np.exp(-score), 0.0)
            return up, np.where(positive, 0.0, np.exp(score))

        def step(up: FloatArray, down: FloatArray) -> FloatArray:
            with np.errstate(divide="ignore"):
                steps = 0.5 * (np.log(up) - np.log(down))
            return np.clip(steps, -LONGEST_STEP, LONGEST_STEP)

        return SumsRule(values, step)
