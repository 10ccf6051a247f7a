"""Softmax cross-entropy of K classes (target 0 ... K-1): one raw score per class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit, logsumexp

from hedgerow.arrays import FloatArray
from hedgerow.kernels.class_shares import add_distances, subtract_top, sum_classes
from hedgerow.objectives import derivatives
from hedgerow.objectives.base import MeanLoss, sum_of_outputs
from hedgerow.objectives.domain import CLASSES, Domain
from hedgerow.objectives.global_sums import AllRows
from hedgerow.objectives.line_search import LeafRule, RootRule, Slopes

_MOST_CYCLES = 100
_CLOSE = 1e-9


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
    n_outputs: int = 3

    def start_of(self, rows: AllRows) -> FloatArray:
        share = np.clip(rows.shares(self.n_outputs), 1e-15, None)
        score = np.log(share)
        return np.asarray(score - score.mean())

    def start_beside(self, rows: AllRows) -> FloatArray:
        """Return the scores for which the mean probability of each class is its share.

        Each cycle adds the logarithm of share over mean probability to each class, which always
        raises the likelihood.
        """
        start = np.log(np.clip(rows.shares(self.n_outputs), 1e-15, None))
        base = start
        for _ in range(_MOST_CYCLES):
            chances = np.ascontiguousarray(self.predict(rows.offset + base[:, None]).T)
            steps = start - np.log(np.maximum(rows.means(list(chances)), 1e-300))
            steps -= steps.mean()
            base = base + steps
            if np.abs(steps).max() <= _CLOSE:
                break
        return np.asarray(base - base.mean())

    def predict(self, raw: FloatArray) -> FloatArray:
        share = np.exp(raw - raw.max(axis=0))
        return np.ascontiguousarray((share / sum_of_outputs(share)).T)

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        raw, target = (np.ascontiguousarray(given, dtype=np.float64) for given in (raw, target))
        share, (top, total) = np.empty(raw.shape), np.empty((2, len(target)))
        subtract_top(raw, top, share)
        np.exp(share, out=share)  # NumPy's exp and log: those of the kernels differ in the last bit
        sum_classes(share, total)
        np.log(total, out=total)
        add_distances(raw, target, top, total)
        return total

    def leaf_rule(self, output: int) -> LeafRule:
        """Return the rule: the root of the sum of p_k - [y = k], other scores fixed."""

        def slopes(target: FloatArray, raw: FloatArray) -> Callable[[FloatArray], Slopes]:
            others = logsumexp(np.delete(raw, output, axis=0), axis=0)
            hit = (target == output).astype(np.float64)

            def at(step: FloatArray) -> Slopes:
                p = expit(raw[output] + step - others)
                return p - hit, p * (1.0 - p)

            return at

        return RootRule(slopes)
