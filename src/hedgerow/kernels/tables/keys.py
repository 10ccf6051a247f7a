"""Order-preserving integer keys: one comparison for every kind of number.

Values and thresholds are compared as signed integers, which have the same order
as the values::

    float   -inf ... -1.0 ... -0.0 = 0.0 ... 1.0 ... inf     NaN is missing
    key      lowest  ........    0     0 .......  highest    MISSING_KEY < all

For a float the key is its bit pattern, with the lower bits of negative numbers
flipped; adjacent floats have adjacent keys.  For an int64 it is the number
itself.  Training and prediction compare keys, so a row takes the same path in
prediction as in training.

A float32 key orders float32 values in 32 bits: a vector register holds twice as
many.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray, BoolArray, FloatArray, IntArray

_LOW_63 = np.int64(0x7FFFFFFFFFFFFFFF)
_LOW_31 = np.int32(0x7FFFFFFF)


def keys_of_floats(values: FloatArray) -> IntArray:
    """Return keys of float64 values (any shape): ``MISSING_KEY`` for NaN, 0 for -0.0."""
    floats = np.asarray(values, dtype=np.float64) + 0.0
    bits = floats.view(np.int64)
    keys = bits ^ ((bits >> np.int64(63)) & _LOW_63)
    return np.where(np.isnan(floats), MISSING_KEY, keys)


def lowest_key(kind: str) -> int:
    """Return the smallest key of a present value in a column of kind ``"float"`` or ``"int"``."""
    return int(keys_of_floats(np.array(-np.inf))) if kind == "float" else int(MISSING_KEY) + 1


def highest_key(kind: str) -> int:
    """Return the largest key of a value in a column of this kind."""
    return int(keys_of_floats(np.array(np.inf))) if kind == "float" else 2**63 - 1


def floats_of_keys(keys: IntArray) -> FloatArray:
    """Invert :func:`keys_of_floats`."""
    keys = np.asarray(keys, dtype=np.int64)
    bits = keys ^ ((keys >> np.int64(63)) & _LOW_63)
    return np.where(keys == MISSING_KEY, np.nan, bits.view(np.float64))


def float_of_key(key: int) -> float:
    """Return the number of one key."""
    return float(floats_of_keys(np.array(key)))


def float32_threshold_keys(keys: IntArray) -> np.ndarray:
    """Return 32-bit keys of float64 thresholds, rounded down to a float32."""
    # For any float32 ``x`` and float64 ``t``: ``x <= t`` exactly if ``x <= round_down(t)``.
    thresholds = floats_of_keys(keys)
    with np.errstate(over="ignore"):
        rounded = thresholds.astype(np.float32)
        above = rounded.astype(np.float64) > thresholds
        rounded = np.where(above, np.nextafter(rounded, np.float32(-np.inf)), rounded)
    bits = (rounded + np.float32(0.0)).view(np.int32)
    return bits ^ ((bits >> np.int32(31)) & _LOW_31)


def missing_of(dtype: np.dtype[Any]) -> Any:
    """Return the missing value among plain numbers (float32, float64 or int64)."""
    return dtype.type(np.nan if dtype.kind == "f" else MISSING_KEY)


def is_missing(values: AnyArray) -> BoolArray:
    """Return the mask of missing plain numbers."""
    found: BoolArray = values == MISSING_KEY if values.dtype == np.int64 else np.isnan(values)
    return found
