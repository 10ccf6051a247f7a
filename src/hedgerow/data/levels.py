"""The levels of a category column: its distinct values, ascending, and their codes.

Glossary
--------
level      one of the values that a category column had in training
code       position of a level among all levels of its column, which ascend; so
           codes depend neither on the order of the rows nor on the library
missing    the code -1 while a column is read
unknown    the code -2: a value that is not among the levels

Levels of one column are all text, or all numbers.  Numbers are equal if Python
says so (``1 == 1.0 == True``): they are ints if all of them are whole, else
floats.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import MISSING_KEY, AnyArray, IntArray
from hedgerow.once import once

Level: TypeAlias = str | int | float

MOST_LEVELS = 2**20
"""Levels of one column that a model can have; of more the most frequent are kept."""

MISSING_CODE = -1
UNKNOWN_CODE = -2

_TEXTS_AT_ONCE = 65536
_TEXTS_FOR_ARROW = 50_000
"""Fewer texts are looked up in a dict that is made once."""
_LARGEST_INT = 2.0**63


class ArrowText(Sequence[str]):
    """Distinct texts held by Arrow, which needs a fraction of the memory of Python's.

    Parameters
    ----------
    array : pyarrow.LargeStringArray
    """

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
            return [self[place] for place in range(*index.indices(len(self)))]
        text: str = self.array[index].as_py()
        return text

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _TEXTS_AT_ONCE):
            yield from self.array.slice(start, _TEXTS_AT_ONCE).to_pylist()

    def order(self) -> IntArray:
        """Places of the texts from the first to the last in the order of code points."""
        import pyarrow.compute

        order: IntArray = pyarrow.compute.array_sort_indices(self.array).to_numpy()
        return order

    def take(self, places: IntArray) -> ArrowText:
        """The texts at some places."""
        import pyarrow as pa

        return ArrowText(self.array.take(pa.array(places)))

    def places_in(self, others: Sequence[Any]) -> IntArray:
        """Place of each text among others, or ``UNKNOWN_CODE``."""
        import pyarrow as pa
        import pyarrow.compute

        known = (
            others.array if isinstance(others, ArrowText) else pa.array(others, pa.large_string())
        )
        found = pyarrow.compute.index_in(self.array, value_set=known)
        places: IntArray = found.fill_null(UNKNOWN_CODE).to_numpy().astype(np.int64)
        return places


Texts: TypeAlias = ArrowText | list[str]


def sort_texts(texts: Texts) -> IntArray:
    """Places of the texts in ascending order of their code points (that of UTF-8, too)."""
    if isinstance(texts, ArrowText):
        return texts.order()
    return np.array(sorted(range(len(texts)), key=texts.__getitem__), dtype=np.int64)


def take_levels(levels: Sequence[Level], places: IntArray) -> Sequence[Level]:
    """Some of the levels: a tuple, unless they are more than a model can have."""
    if isinstance(levels, ArrowText):
        chosen = levels.take(places)
        return chosen if len(chosen) > MOST_LEVELS else tuple(chosen)
    return tuple([levels[place] for place in places.tolist()])


def number_levels(values: AnyArray) -> tuple[int, ...] | tuple[float, ...]:
    """Distinct ascending numbers as levels: ints if all are whole, else floats."""
    if values.dtype == np.int64:
        return tuple(values.tolist())
    floats = values.astype(np.float64) + 0.0  # no -0.0
    whole = (floats == np.floor(floats)) & (np.abs(floats) < _LARGEST_INT)
    if whole.all():
        return tuple(floats.astype(np.int64).tolist())
    return tuple(floats.tolist())


def canonical(levels: Sequence[Level]) -> Sequence[Level]:
    """The same levels, with whole floats as ints if all of them are whole."""
    if len(levels) and isinstance(levels[0], float):
        return number_levels(np.array(levels))
    return levels


class LevelIndex:
    """Finds the codes of values among the levels of a column.

    Parameters
    ----------
    levels : sequence of str, int or float
        Ascending.
    """

    def __init__(self, levels: Sequence[Level]) -> None:
        self._levels = levels
        self._numbers: AnyArray = np.empty(0)
        self.is_empty = len(levels) == 0
        self.is_text = not self.is_empty and isinstance(levels[0], str)
        if not self.is_text and not self.is_empty:
            dtype = np.int64 if isinstance(levels[0], int) else np.float64
            self._numbers = np.array(levels, dtype=dtype)

    def of_texts(self, texts: Texts) -> npt.NDArray[np.int64]:
        """Code of each text, or ``UNKNOWN_CODE``."""
        if isinstance(texts, ArrowText) and len(texts) >= _TEXTS_FOR_ARROW:
            return texts.places_in(self._levels)
        find = self._of_text.get
        return np.fromiter((find(text, UNKNOWN_CODE) for text in texts), np.int64, len(texts))

    @once
    def _of_text(self) -> dict[str, int]:
        return {str(level): code for code, level in enumerate(self._levels)}

    def of_numbers(self, values: AnyArray) -> npt.NDArray[np.int64]:
        """Code of each plain number, or ``UNKNOWN_CODE``, or ``MISSING_CODE``."""
        missing = is_missing(values)
        comparable, values = _as_type_of(values, self._numbers.dtype)
        if len(self._numbers) == 0:
            return np.where(missing, MISSING_CODE, UNKNOWN_CODE)
        places = np.searchsorted(self._numbers, values).astype(np.int64)
        places[places == len(self._numbers)] = 0
        known = comparable & (self._numbers[places] == values)
        return np.where(missing, MISSING_CODE, np.where(known, places, UNKNOWN_CODE))


def is_missing(values: AnyArray) -> npt.NDArray[np.bool_]:
    """Which of some plain numbers (float32, float64, int64) are missing."""
    missing: npt.NDArray[np.bool_]
    missing = values == MISSING_KEY if values.dtype == np.int64 else np.isnan(values)
    return missing


def _as_type_of(values: AnyArray, dtype: np.dtype[Any]) -> tuple[npt.NDArray[np.bool_], AnyArray]:
    """Plain numbers in the type of the levels, and which of them it holds exactly."""
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
