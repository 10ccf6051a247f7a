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

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, BoolArray, IntArray, is_missing
from hedgerow.once import once

Level: TypeAlias = str | int | float

MOST_LEVELS = 2**20
"""Most levels of one column; a model keeps the most frequent ones."""

MISSING_CODE = -1
UNKNOWN_CODE = -2

_TEXTS_AT_ONCE = 65536
_TEXTS_FOR_ARROW = 50_000
"""Fewer texts are looked up in a dict."""
_LARGEST_INT = 2.0**63


class ArrowText(Sequence[str]):
    """Distinct texts in an Arrow array, which takes a fraction of the memory of a list."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        text: str = self.array[index].as_py()
        return text

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _TEXTS_AT_ONCE):
            yield from self.array.slice(start, _TEXTS_AT_ONCE).to_pylist()

    def order(self) -> IntArray:
        """Return the positions that sort the texts by code points."""
        import pyarrow.compute

        order: IntArray = pyarrow.compute.array_sort_indices(self.array).to_numpy()
        return order

    def take(self, positions: IntArray) -> ArrowText:
        """Select texts by position."""
        import pyarrow as pa

        return ArrowText(self.array.take(pa.array(positions)))

    def positions_in(self, others: Sequence[Any]) -> IntArray:
        """Return the position of each text among others, or ``UNKNOWN_CODE``."""
        import pyarrow as pa
        import pyarrow.compute

        known = (
            others.array if isinstance(others, ArrowText) else pa.array(others, pa.large_string())
        )
        found = pyarrow.compute.index_in(self.array, value_set=known)
        positions: IntArray = found.fill_null(UNKNOWN_CODE).to_numpy().astype(np.int64)
        return positions


Texts: TypeAlias = ArrowText | list[str]


def sort_texts(texts: Texts) -> IntArray:
    """Return the positions that sort the texts by code points, which is the order of UTF-8."""
    if isinstance(texts, ArrowText):
        return texts.order()
    return np.array(sorted(range(len(texts)), key=texts.__getitem__), dtype=np.int64)


def take_levels(levels: Sequence[Level], positions: IntArray) -> Sequence[Level]:
    """Select levels by position: as a tuple, unless a model cannot have this many."""
    if isinstance(levels, ArrowText):
        chosen = levels.take(positions)
        return chosen if len(chosen) > MOST_LEVELS else tuple(chosen)
    return tuple([levels[position] for position in positions.tolist()])


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
        self._levels = levels
        self._numbers: AnyArray = np.empty(0)
        self.is_empty = len(levels) == 0
        self.is_text = not self.is_empty and isinstance(levels[0], str)
        if not self.is_text and not self.is_empty:
            dtype = np.int64 if isinstance(levels[0], int) else np.float64
            self._numbers = np.array(levels, dtype=dtype)

    def of_texts(self, texts: Texts) -> npt.NDArray[np.int64]:
        """Return the code of each text, or ``UNKNOWN_CODE``."""
        if isinstance(texts, ArrowText) and len(texts) >= _TEXTS_FOR_ARROW:
            return texts.positions_in(self._levels)
        find = self._of_text.get
        return np.fromiter((find(text, UNKNOWN_CODE) for text in texts), np.int64, len(texts))

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
