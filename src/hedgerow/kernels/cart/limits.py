"""What the sides of a split of a single tree must keep to: monotone constraints.

Glossary
--------
mean    of a side: sum of its shares (:mod:`hedgerow.kernels.cart.search`) over its mass
bounds  of a node: no mean below it may be outside, so that what one split has put
        in order stays so
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.compile import kernel


class Limits(NamedTuple):
    """What the means of both sides must keep to, in the units of the shares.

    Attributes
    ----------
    checked : int64
        0: anything goes.
    sign : int64
        1: the left mean is at most the right one; -1: at least; 0: any.
    low, high : float64
        Bounds of both.
    """

    checked: np.int64
    sign: np.int64
    low: np.float64
    high: np.float64


@kernel(inline=True, inner=True)
def keeps_limits(limits: Limits, left: float, right: float) -> bool:
    """Whether sides with these means may be."""
    in_order = limits.sign * (left - right) <= 0.0
    return in_order and min(left, right) >= limits.low and max(left, right) <= limits.high
