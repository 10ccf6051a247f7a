"""Members of decoded JSON or UBJSON, each checked on access."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.errors import ModelFormatError


def member(record: Any, name: str) -> dict[str, Any]:
    """Return the object under a name of ``record``."""
    found = record.get(name) if isinstance(record, dict) else None
    if not isinstance(found, dict):
        raise ModelFormatError(f"{name!r} is missing, or not an object.")
    return found


def listed(record: dict[str, Any], name: str, missing: bool = False) -> list[Any]:
    """Return the list under a name; with ``missing`` it may be absent or null."""
    found = record.get(name)
    if found is None and missing:
        return []
    if isinstance(found, np.ndarray):
        found = found.tolist()
    if not isinstance(found, list):
        raise ModelFormatError(f"{name!r} is missing, or not a list.")
    return found


def objects(record: dict[str, Any], name: str, missing: bool = False) -> list[dict[str, Any]]:
    """Return the list of objects under a name."""
    found = listed(record, name, missing)
    if not all(isinstance(item, dict) for item in found):
        raise ModelFormatError(f"{name!r} must be a list of objects.")
    return found


def texts(record: dict[str, Any], name: str) -> list[str]:
    """Return the list of texts under a name; empty if it is absent."""
    found = listed(record, name, missing=True)
    if not all(isinstance(item, str) for item in found):
        raise ModelFormatError(f"{name!r} must be a list of texts.")
    return found


def floats(record: dict[str, Any], name: str, length: int | None = None) -> FloatArray:
    """Return the numbers under a name."""
    found = _array(record.get(name), name, "biuf", length)
    return found.astype(np.float64)


def ints(record: dict[str, Any], name: str, length: int | None = None) -> IntArray:
    """Return the whole numbers of at most 63 bits under a name."""
    found = _array(record.get(name), name, "biu", length)
    if found.dtype.kind == "u" and (found > np.iinfo(np.int64).max).any():
        raise ModelFormatError(f"{name!r} has a number beyond 63 bits.")
    return found.astype(np.int64)


def _array(value: Any, name: str, kinds: str, length: int | None) -> np.ndarray[Any, Any]:
    if isinstance(value, list):
        if not all(isinstance(item, bool | int | float) for item in value):
            raise ModelFormatError(f"{name!r} must be a list of numbers.")
        value = np.array(value) if value else np.zeros(0, dtype=np.int64)
    if not isinstance(value, np.ndarray) or value.ndim != 1 or value.dtype.kind not in kinds:
        raise ModelFormatError(f"{name!r} is missing, or not a list of numbers of the right type.")
    if length is not None and len(value) != length:
        raise ModelFormatError(f"{name!r} must have {length} numbers; it has {len(value)}.")
    return value


def number(record: dict[str, Any], name: str, default: float | None = None) -> float:
    """Return a finite number under a name."""
    found = record.get(name, default)
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        raise ModelFormatError(f"{name!r} must be a finite number.")
    return float(found)


def whole(record: dict[str, Any], name: str, low: int, high: int) -> int:
    """Return a whole number within bounds under a name."""
    found = record.get(name)
    if isinstance(found, bool) or not isinstance(found, int) or not low <= found <= high:
        raise ModelFormatError(f"{name!r} must be a whole number from {low} to {high}.")
    return found


def text_integer(record: dict[str, Any], name: str, low: int, high: int, default: str = "") -> int:
    """Return a whole number within bounds that is written as text."""
    found = record.get(name, default)
    short = isinstance(found, str) and found.isascii() and found.isdigit() and len(found) <= 18
    if not short or not low <= int(found) <= high:
        raise ModelFormatError(f"{name!r} must be a whole number from {low} to {high}, as text.")
    return int(found)
