"""Numbers in the text of a model file; anything else is an error, even if NumPy accepts it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.errors import ModelFormatError

_FLOAT = r"[+-]?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?(?:[eE][+-]?[0-9]{1,4})?|inf|nan)"
_FLOATS = re.compile(rf"(?:{_FLOAT}(?: {_FLOAT})*)?", re.ASCII)
_INT = r"-?[0-9]{1,18}"
_INTS = re.compile(rf"(?:{_INT}(?: {_INT})*)?", re.ASCII)


def read_floats(text: str, name: str) -> FloatArray:
    """Parse numbers separated by single spaces."""
    if not _FLOATS.fullmatch(text):
        raise ModelFormatError(f"{name} must be numbers separated by spaces.")
    return np.fromstring(text, dtype=np.float64, sep=" ") if text else np.zeros(0)


def read_ints(text: str, name: str) -> IntArray:
    """Parse whole numbers of at most 18 digits, separated by single spaces."""
    if not _INTS.fullmatch(text):
        raise ModelFormatError(f"{name} must be whole numbers separated by spaces.")
    return np.fromstring(text, dtype=np.int64, sep=" ") if text else np.zeros(0, np.int64)


def read_int(text: str, name: str, low: int, high: int) -> int:
    """Parse one whole number within bounds."""
    if not re.fullmatch(_INT, text, re.ASCII) or not low <= int(text) <= high:
        raise ModelFormatError(f"{name} must be a whole number from {low} to {high}.")
    return int(text)


def joined(texts: Sequence[str], counts: IntArray, name: str) -> str:
    """Concatenate the numbers of all trees, after a check of their lengths."""
    for number, (text, count) in enumerate(zip(texts, counts.tolist(), strict=True)):
        found = text.count(" ") + 1 if text else 0
        if found != count:
            raise ModelFormatError(
                f"tree {number}: {name} must have {count} numbers, but has {found}."
            )
    return " ".join(text for text in texts if text)
