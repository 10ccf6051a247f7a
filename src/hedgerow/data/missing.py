"""Missing values among plain numbers: NaN, or the lowest of 64-bit integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray, BoolArray


def missing_of(dtype: np.dtype[Any]) -> Any:
    """Return the missing value among plain numbers (float32, float64 or int64)."""
    return dtype.type(np.nan if dtype.kind == "f" else MISSING_KEY)


def lowest_of(dtype: np.dtype[Any]) -> Any:
    """Return the lowest of plain numbers that is not missing."""
    return dtype.type(-np.inf if dtype.kind == "f" else MISSING_KEY + 1)


def is_missing(values: AnyArray) -> BoolArray:
    """Return the mask of missing plain numbers."""
    found: BoolArray = values == MISSING_KEY if values.dtype == np.int64 else np.isnan(values)
    return found
