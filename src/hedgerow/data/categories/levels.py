"""The levels of a category column: its distinct values, ascending, and their codes.

Glossary
--------
level      a value that a category column had in training
code       position of a level among the ascending levels of its column, so codes do
           not depend on the order of the rows or on the frame library
missing    code -1, while a column is read
unknown    code -2, for a value that is not among the levels

The levels of a column are either all text or all numbers.  Numbers are equal if Python's
``==`` says so (``1 == 1.0 == True``).  They are stored as ints if all of them are
integers, otherwise as floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, BoolArray
from hedgerow.kernels.tables.keys import is_missing
from hedgerow.once import once

Level: TypeAlias = str | int | float

MOST_LEVELS = 2**20
"""Most levels of one column; a model keeps the most frequent ones."""

MISSING_CODE = -1
UNKNOWN_CODE = -2

_LARGEST_INT = 2.0**63


def number_levels(values: AnyArray) -> tuple[int, ...] | tuple[float, ...]:
    """Convert distinct ascending numbers to levels: ints if all are integers, else floats."""
    if values.dtype == np.int64:
        return tuple(values.tolist())
    floats = values.astype(np.float64) + 0.0  # no -0.0
    whole = (floats == np.floor(floats)) & (np.abs(floats) < _LARGEST_INT)
    if whole.all():
        return tuple(floats.astype(np.int64).tolist())
    return tuple(floats.tolist())


def canonical(levels: Sequence[Level]) -> Sequence[Level]:
    """Convert float levels to ints if all of them are integers."""
    if len(levels) and isinstance(levels[0], float):
        return number_levels(np.array(levels))
    return levels


class LevelIndex:
    """Index from values to codes, for the ascending levels of a column."""

    def __init__(self, levels: Sequence[Level]) -> None:
        self._levels, self.is_empty = levels, len(levels) == 0
        self.is_text = not self.is_empty and isinstance(levels[0], str)
        are_ints = not self.is_empty and isinstance(levels[0], int)
        numbers = () if self.is_text else levels
        self._numbers: AnyArray = np.array(numbers, np.int64 if are_ints else np.float64)

    def of_texts(self, texts: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return the code of each text, or ``UNKNOWN_CODE``."""
        find = self._of_text.get
        return np.fromiter((find(text, UNKNOWN_CODE) for text in texts), np.int64, len(texts))

    def of_levels(self, levels: Sequence[Level]) -> npt.NDArray[np.int64]:
        """Return the code of each level of other rows, or ``UNKNOWN_CODE``."""
        if self.is_text:
            return self.of_texts([str(level) for level in levels])
        if self.is_empty or len(levels) == 0:
            return np.full(len(levels), UNKNOWN_CODE, dtype=np.int64)
        return self.of_numbers(np.array(levels))

    @once
    def _of_text(self) -> dict[str, int]:
        return {str(level): code for code, level in enumerate(self._levels)}

    def of_numbers(self, values: AnyArray) -> npt.NDArray[np.int64]:
        """Return the code of each plain number, ``UNKNOWN_CODE`` or ``MISSING_CODE``."""
        missing = is_missing(values)
        comparable, values = _as_type_of(values, self._numbers.dtype)
        if len(self._numbers) == 0:
            return np.where(missing, MISSING_CODE, UNKNOWN_CODE)
        codes = np.searchsorted(self._numbers, values).astype(np.int64)
        codes[codes == len(self._numbers)] = 0
        known = comparable & (self._numbers[codes] == values)
        return np.where(missing, MISSING_CODE, np.where(known, codes, UNKNOWN_CODE))


def _as_type_of(values: AnyArray, dtype: np.dtype[Any]) -> tuple[BoolArray, AnyArray]:
    """Convert plain numbers to the type of the levels; return also where this is exact."""
    if dtype == np.int64:
        if values.dtype == np.int64:
            return np.ones(len(values), dtype=np.bool_), values
        inside = np.abs(values) < _LARGEST_INT  # False for NaN
        whole = np.where(inside, values, 0.0).astype(np.int64)
        return inside & (whole == values), whole
    floats = values.astype(np.float64)
    if values.dtype != np.int64:
        return np.ones(len(values), dtype=np.bool_), floats
    inside = floats < _LARGEST_INT
    return inside & (np.where(inside, floats, 0.0).astype(np.int64) == values), floats
