"""Position bias: the effect of the position at which a row was shown, learned with the trees.

Clicks, sales and other labels made by users depend on the relevance of a row and on its
position, because users see rows further up more often.  Trees alone would learn the displayed
ranking.  Here each position has a bias that explains its effect on the label::

    score of a row in training  =  trees(row) + bias[position of the row]
    score in prediction         =  trees(row)

Derivatives of the loss use the score in training.  After each round, each bias takes a
Newton step with the learning rate of the trees and a penalty for each row::

    bias -= rate * (G + reg * n * bias) / (H + reg * n + 0.001)

G, H: sums of weighted g and h of the n rows at the position (LightGBM's
``lambdarank_position_bias_regularization``; Wang et al. 2018 use the additive model).

Sums are exact, so biases depend neither on the order of the rows nor on threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray, IntArray, distinct
from hedgerow.kernels.primitives.exact_sum import GroupSums

_LEAST_CURVATURE = 0.001
"""Number added to H, as in LightGBM, because H of a position without pairs is 0."""


class PositionBias:
    """The biases of a fit; each round changes ``bias``, and ``history`` has those after each.

    ``codes`` are the numbers of the rows' positions, ``labels`` the names of the positions, and
    ``rate_at`` returns the learning rate of a round.
    """

    def __init__(
        self,
        codes: IntArray,
        labels: Sequence[Any],
        regularization: float,
        rate_at: Callable[[int], float],
        start: FloatArray | None = None,
    ) -> None:
        self.codes, self.labels = codes, tuple(labels)
        self.start: FloatArray = np.zeros(len(self.labels)) if start is None else start
        self.bias = self.start
        self.history: list[FloatArray] = []
        self._before, self._round = self.bias, -1
        self._penalty = regularization * np.bincount(codes, minlength=len(self.labels))
        self._rate_at = rate_at

    def added_to(self, raw: FloatArray, round_: int) -> FloatArray:
        """Return scores (n_rows,) plus the bias of each row's position before the round."""
        bias = self._before if round_ == self._round else self.bias
        return raw + bias[self.codes]

    def learn(self, g: FloatArray, h: FloatArray, weight: FloatArray | None, round_: int) -> None:
        """Take a step from the derivatives of all rows, without weights."""
        # The step is taken once per round, although each tree of the round needs derivatives.
        if round_ == self._round:
            return
        self._before, self._round = self.bias, round_
        slope, curve = self._sums(g, weight), self._sums(h, weight)
        step = slope + self._penalty * self.bias
        self.bias = self.bias - self._rate_at(round_) * step / (
            curve + self._penalty + _LEAST_CURVATURE
        )
        self.history.append(self.bias)

    def record(self, n_rounds: int) -> dict[str, Any]:
        """Return the positions with rows, and their biases after some rounds; the largest is 0.

        The loss compares rows of a query, so a constant added to all biases changes nothing.
        """
        bias = self.history[n_rounds - 1] if n_rounds > 0 else self.start
        present = distinct(self.codes)
        return {
            "positions": [self.labels[code] for code in present.tolist()],
            "bias": (bias[present] - bias[present].max()).tolist(),
        }

    def _sums(self, values: FloatArray, weight: FloatArray | None) -> FloatArray:
        """Return the exact sum of each position, rounded once."""
        sums = GroupSums(len(self.labels))
        sums.add(values if weight is None else values * weight, self.codes)
        return np.array([float(sums.total(code)) for code in range(len(self.labels))])
