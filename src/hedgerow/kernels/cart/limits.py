"""Monotone constraints on the sides of a split of a single tree.

Glossary
--------
mean    of a side: sum of its shares (:mod:`hedgerow.kernels.cart.search`) over its mass
bounds  of a node: range of all means below the node, which keeps the order that earlier
        splits made
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.compile import kernel


class Limits(NamedTuple):
    """Constraints on the means of both sides, in the units of the shares.

    Attributes
    ----------
    checked : int64
        0: there are no constraints.
    sign : int64
        1: the left mean is at most the right one; -1: at least; 0: any.
    low, high : float64
        Bounds of both means.
    """

    checked: np.int64
    sign: np.int64
    low: np.float64
    high: np.float64


@kernel(inline=True, inner=True)
def keeps_limits(limits: Limits, left: float, right: float) -> bool:
    """Return whether sides with these means satisfy the constraints."""
    in_order = limits.sign * (left - right) <= 0.0
    return in_order and min(left, right) >= limits.low and max(left, right) <= limits.high
