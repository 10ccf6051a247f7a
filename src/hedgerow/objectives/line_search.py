"""Leaf values that minimise the loss itself (Friedman 2001, algorithm 1, line 5).

A tree that fits the negative gradient says which rows belong together; the step
that all rows of a leaf then take is found by a search along one line::

    c = argmin  sum over the rows of  w L(y, raw + c)

Squared, absolute, quantile and exponential loss have it in closed form.  For
others the derivative in c, which rises for a convex loss, is searched for its
root by Newton steps; one that leaves the interval known to hold the root is
replaced by bisection.

All leaves are searched at once: rows of a leaf stand side by side and sums are
taken over segments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hedgerow.arrays import FloatArray, IntArray

LONGEST_STEP = 16.0
"""A leaf with rows of one class only has no minimum: its step ends here (a raw
score of 16 is a probability of 1 - 1e-7)."""

_STEPS = 100
_CLOSE = 1e-12
_PLAY = 1e-7
"""Share of a leaf's weight that decides nothing: weights of sampled rows come from rounded
gradients, and with MVS and a loss of constant slope all rows of a leaf count the same, so
that the weight up to one of them often is the level but for rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class LeafRows:
    """The rows of a tree, leaf by leaf.

    Attributes
    ----------
    target, weight : float64 (n_rows,)
    raw : float64 (n_outputs, n_rows)
        Scores before the tree.
    starts : int64 (n_leaves + 1,)
        First row of each leaf, and the number of rows; no leaf is empty.
    """

    target: FloatArray
    raw: FloatArray
    weight: FloatArray
    starts: IntArray

    def sums(self, values: FloatArray) -> FloatArray:
        """Weighted sum of ``values`` in each leaf."""
        return np.asarray(np.add.reduceat(values * self.weight, self.starts[:-1]))

    def means(self, values: FloatArray) -> FloatArray:
        """Weighted mean of ``values`` in each leaf."""
        return self.sums(values) / np.add.reduceat(self.weight, self.starts[:-1])

    def quantiles(self, values: FloatArray, level: FloatArray | float) -> FloatArray:
        """Weighted quantile of ``values`` in each leaf; ``level`` may be one for each.

        The smallest value at which the weight up to it reaches ``level`` of the
        whole; midway to the next where it is just reached.  Never -0.0, which would
        depend on the order of the rows.
        """
        found = np.empty(len(self.starts) - 1)
        levels = np.full(len(found), level)
        for leaf, (start, stop) in enumerate(zip(self.starts, self.starts[1:], strict=False)):
            order = np.argsort(values[start:stop], kind="stable")
            ordered = values[start:stop][order]
            below = np.cumsum(self.weight[start:stop][order])
            # Sums are rounded: what is this near has reached the level.
            play = _PLAY * below[-1]
            goal = levels[leaf] * below[-1]
            at = min(int(np.searchsorted(below, goal - play)), len(ordered) - 1)
            after = min(at + 1, len(ordered) - 1)
            exact = abs(below[at] - goal) <= play
            found[leaf] = 0.5 * (ordered[at] + ordered[after]) if exact else ordered[at]
        return found + 0.0

    def search(
        self,
        slopes: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
        lowest: FloatArray | float = -LONGEST_STEP,
        highest: FloatArray | float = LONGEST_STEP,
    ) -> FloatArray:
        """Root of the sum of the first derivatives in each leaf.

        Parameters
        ----------
        slopes : callable
            Takes the step of each row; returns first and second derivatives of
            the losses, unweighted.  The first must not fall as the step grows.
        lowest, highest : float64 (n_leaves,), or float for all leaves
            Where steps end.

        Returns
        -------
        float64 (n_leaves,)
        """
        n_leaves, sizes = len(self.starts) - 1, np.diff(self.starts)
        low, high = np.full(n_leaves, lowest), np.full(n_leaves, highest)
        step = np.clip(np.zeros(n_leaves), low, high)
        for _ in range(_STEPS):
            first, second = slopes(np.repeat(step, sizes))
            slope, curvature = self.sums(first), self.sums(second)
            high = np.where(slope > 0.0, step, high)
            low = np.where(slope < 0.0, step, low)
            with np.errstate(all="ignore"):
                proposed = step - slope / curvature
            inside = (proposed > low) & (proposed < high)
            following = np.where(inside, proposed, 0.5 * (low + high))
            following = np.where(slope == 0.0, step, following)
            moved = np.abs(following - step)
            step = following
            if (moved <= _CLOSE * np.maximum(1.0, np.abs(step))).all():
                break
        return step
