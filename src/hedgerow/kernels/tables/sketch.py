"""Arithmetic of the quantile sketch: bounds of ranks that hold for real numbers.

A float64 sum is rounded.  Here every bound is rounded *outwards*: lower bounds down,
upper bounds up, and only where the sum is not exact.  Four more additions give the exact
rounding error of a sum ``a + b`` (:func:`_lost`)::

    a + b  =  sum + lost        lost < 0: the sum was rounded up, so step down

The module is plain NumPy, because NumPy has all the loops that it needs.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import FloatArray, IntArray


def _lost(a: FloatArray, b: FloatArray, total: FloatArray) -> FloatArray:
    """Compute ``a + b - total`` exactly, where ``total`` is the rounded sum ``a + b``."""
    part = total - a
    return (a - (total - part)) + (b - part)


def add_down(a: FloatArray, b: FloatArray) -> FloatArray:
    """Compute the largest float64 that is not above ``a + b``.

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow.kernels.tables.sketch import add_down, add_up
    >>> bool(add_down(np.float64(1.0), np.float64(1e-20)) == 1.0)
    True
    >>> bool(add_up(np.float64(1.0), np.float64(1e-20)) > 1.0)
    True
    """
    total = a + b
    return np.where(_lost(a, b, total) < 0, np.nextafter(total, -np.inf), total)


def add_up(a: FloatArray, b: FloatArray) -> FloatArray:
    """Compute the smallest float64 that is not below ``a + b``."""
    total = a + b
    return np.where(_lost(a, b, total) > 0, np.nextafter(total, np.inf), total)


def prefix_bounds(weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bound the sums of the first 0, 1, ..., n weights of at least 0, whose sum is finite."""
    # The plain cumulative sum is off by the sum of the rounding errors of its additions.
    # That sum is added back.  It is rounded, too, but its error is at most ``n * 2**-52``
    # of the sum of its absolute terms, so the bounds are an ulp or two apart.
    total = np.append(0.0, np.cumsum(weight))
    lost = np.append(0.0, _lost(total[:-1], weight, total[1:]))
    if not lost.any():
        return total, total
    missing, size = np.cumsum(lost), np.cumsum(np.abs(lost))
    slack = size * (len(weight) * 2.0**-52)
    slack = np.where(size > 0, np.nextafter(slack, np.inf), 0.0)
    low = np.maximum(add_down(add_down(total, missing), -slack), 0.0)
    high = add_up(add_up(total, missing), slack)
    # Each sum is at least as large as the one before it, and so must be the bounds.
    return np.maximum.accumulate(low), np.minimum.accumulate(high[::-1])[::-1]


def fit_weights(low: FloatArray, high: FloatArray, weight: FloatArray) -> FloatArray:
    """Lower weights to the distance between the bounds; only rounding makes this necessary."""
    # Afterwards ``low[i] + weight[i] <= low[i + 1]`` and
    # ``high[i] + weight[i + 1] <= high[i + 1]`` hold for the real sums, so that bounds
    # taken between two values never cross those at the values.
    above = add_down(np.append(low[1:], high[-1]), -low)
    below = add_down(high, -np.append(0.0, high[:-1]))
    return np.minimum(weight, np.minimum(above, below))


def nearest(low: FloatArray, high: FloatArray, weight: FloatArray, rank: FloatArray) -> IntArray:
    """Find the positions of the values whose ranks are nearest to ``rank``."""
    # Between the middles of the bounds of two values, the first value is nearer where twice
    # the rank lies below the sum of the bounds of a value between them (the query function of
    # the XGBoost paper, appendix A).
    last = len(low) - 1
    twice = 2 * rank
    before = np.searchsorted(low + high, twice, side="right") - 1
    first = np.clip(before, 0, max(last - 1, 0))
    second = np.minimum(first + 1, last)
    between = (low[first] + weight[first]) + (high[second] - weight[second])
    found = np.where(twice < between, first, second)
    return np.where(before < 0, 0, np.where(before >= last, last, found))
