"""Cuts of libraries that round values to float32, as keys of float64 values.

XGBoost and CatBoost round a value to the nearest float32, ties to even, before they compare it.
Rounding never changes the order of two values, so there is a largest float64 value whose rounded
value is below t.  With
``p`` the float32 below ``t`` and ``m`` the midpoint between them::

    p  even:  m itself rounds to p     the largest value below is m
    p  odd:   m rounds to t            the largest value below is the float64 before m

So the cut is exact, and prediction needs no float32 comparison.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray, IntArray
from hedgerow.kernels.tables.keys import keys_of_floats

NO_KEY = int(MISSING_KEY)
"""Key of a cut that sends no value to the left."""

_INFINITY = np.float32(np.inf)
_BEYOND = 2.0**128
"""The number after the largest float32: above their midpoint, values round to infinity."""


def keys_below_float32(cut: AnyArray) -> IntArray:
    """Return the largest keys that satisfy ``float32(x) < cut``."""
    upper = np.asarray(cut, dtype=np.float32)
    with np.errstate(over="ignore"):  # minus infinity comes before the lowest number
        lower = np.nextafter(upper, -_INFINITY)
    even = (lower.view(np.uint32) & np.uint32(1)) == 0
    low, high = (np.clip(each.astype(np.float64), -_BEYOND, _BEYOND) for each in (lower, upper))
    half = (low + high) / 2.0
    last = np.where(even, half, np.nextafter(half, -np.inf))
    # Only minus infinity rounds to minus infinity, so it is left of the lowest number.
    keys: IntArray = keys_of_floats(last)
    return np.where(np.isneginf(upper), np.int64(NO_KEY), keys)


def keys_up_to_float32(cut: AnyArray) -> IntArray:
    """Return the largest keys with ``float32(x) <= cut``; ``cut`` is float32 or float64."""
    cut = np.asarray(cut, dtype=np.float64)
    with np.errstate(over="ignore"):  # beyond the ends are infinities
        rounded = cut.astype(np.float32)
        below = np.where(rounded > cut, np.nextafter(rounded, -_INFINITY), rounded)
        keys = keys_below_float32(np.nextafter(below, _INFINITY))
    return np.where(np.isposinf(below), keys_of_floats(below.astype(np.float64)), keys)
