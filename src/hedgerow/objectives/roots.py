"""Roots of mean first derivatives over all rows: initial scores without a closed form."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.objectives.global_sums import AllRows
from hedgerow.objectives.line_search import Slopes

_STEPS = 200
_CLOSE = 1e-15
_FARTHEST_START = 2.0**40


def root_of_mean(
    rows: AllRows,
    slopes: Callable[[FloatArray, FloatArray], Slopes],
    start: float,
    within: tuple[float, float] | None = None,
) -> float:
    """Return the constant raw score at which the mean first derivative is zero."""

    def mean(part: int, at: float) -> float:
        return rows.mean(lambda target: slopes(target, np.full(len(target), at))[part])

    return root_of(mean, start, within)


def root_of(
    mean: Callable[[int, float], float], start: float, within: tuple[float, float] | None = None
) -> float:
    """Return the root of ``mean(0, at)``, not decreasing, with derivative ``mean(1, at)``.

    Without an interval it is searched from ``start`` outwards; ``start`` if there is none.  The
    search takes Newton steps.  Bisection replaces a step that leaves the interval.
    """
    low, high = _bracket_of(lambda at: mean(0, at), start) if within is None else within
    at = min(max(start, low), high)
    for _ in range(_STEPS):
        slope = mean(0, at)
        if slope == 0.0 or not low < high:
            break
        low, high = (low, at) if slope > 0.0 else (at, high)
        curvature = mean(1, at)
        following = at - slope / curvature if curvature > 0.0 else np.inf
        # A step that rounds to nothing ends at the root, which is an end of the interval by now.
        at_root = abs(following - at) <= _CLOSE * abs(at) and low <= following <= high
        if not (low < following < high or at_root):
            following = 0.5 * low + 0.5 * high
        moved, at = abs(following - at), following
        if moved <= _CLOSE * abs(at):
            break
    return float(at) + 0.0


def _bracket_of(slope: Callable[[float], float], start: float) -> tuple[float, float]:
    """Return an interval from ``start`` up to 2**40 at whose ends a derivative has two signs."""
    first = slope(start)
    near, far = 0.0, -math.copysign(1.0, first)
    while first != 0.0 and not math.isnan(first) and abs(far) <= _FARTHEST_START:
        at_far = slope(start + far)
        if not math.isfinite(at_far):
            break
        if at_far * first <= 0.0:
            return start + min(near, far), start + max(near, far)
        near, far = far, 2.0 * far
    return start, start
