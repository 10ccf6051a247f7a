"""Levels of a category column and their counts, collected batch by batch.

While rows are read, levels are numbered in order of appearance.  At the end, levels are
sorted and the numbers are mapped to codes (:mod:`hedgerow.data.categories.levels`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.data.categories.columns import check_unicode
from hedgerow.data.categories.levels import (
    MISSING_CODE,
    MOST_LEVELS,
    Level,
    canonical,
    number_levels,
)
from hedgerow.data.external.memory import shown_bytes
from hedgerow.data.missing import is_missing
from hedgerow.data.reading.columns import ReadColumn
from hedgerow.errors import DataError

_BYTES_PER_LEVEL = 150
"""Memory of a text in a dict: the object, its slot and its count, without its characters."""


class LevelCounts:
    """Levels of a column with the sum of weights of each.

    Parameters
    ----------
    name : str
        Name of the column, for messages.
    most_bytes : int
        Limit of the memory of the levels.
    """

    def __init__(self, name: str, most_bytes: int) -> None:
        self._name, self._most_bytes = name, most_bytes
        self._places: dict[Level, int] = {}
        self._mass: FloatArray = np.zeros(64)
        self._n_letters = 0

    def __len__(self) -> int:
        return len(self._places)

    def add(self, column: ReadColumn, mass: FloatArray | None) -> IntArray:
        """Add some rows; return the number of the level of each row, -1 if missing."""
        if column.codes is None:
            column = ReadColumn(*np.unique(column.values, return_inverse=True))
        numbers = self._numbers(column.values, column.occurs())
        codes = column.spread(numbers)
        present = codes >= 0
        np.add.at(self._mass, codes[present], 1.0 if mass is None else mass[present])
        return codes

    def _numbers(self, values: Sequence[str] | AnyArray, occurs: AnyArray) -> IntArray:
        """Return the number of each value that occurs; number new levels."""
        numbers = np.full(len(values), MISSING_CODE, dtype=np.int64)
        if isinstance(values, np.ndarray):
            occurs = occurs & ~is_missing(values)
            chosen = np.flatnonzero(occurs)
            found: list[Level] = (values[chosen] + values.dtype.type(0)).tolist()  # no -0.0
        else:
            chosen = np.flatnonzero(occurs)
            every = list(values)
            found = [every[place] for place in chosen.tolist()]
        before, find = len(self._places), self._places.setdefault
        numbers[chosen] = [find(value, len(self._places)) for value in found]
        self._grow(before, found)
        return numbers

    def _grow(self, before: int, found: Sequence[Level]) -> None:
        n_levels = len(self._places)
        if n_levels == before:
            return
        self._n_letters += sum(len(value) for value in found if isinstance(value, str))
        needed = n_levels * _BYTES_PER_LEVEL + self._n_letters
        if needed > self._most_bytes and n_levels > MOST_LEVELS:
            raise DataError(
                f"column {self._name!r} has more than {n_levels:,} different categories, which do "
                f"not fit into {shown_bytes(self._most_bytes)}: leave the column out (drop=), join "
                "rare categories, or raise memory_limit."
            )
        if n_levels > len(self._mass):
            grown = np.zeros(max(n_levels, 2 * len(self._mass)))
            grown[: len(self._mass)] = self._mass
            self._mass = grown

    def merge(self, levels: Sequence[Level], mass: FloatArray) -> IntArray:
        """Add the levels of later rows; return their numbers in this object."""
        before, find = len(self._places), self._places.setdefault
        numbers = np.array([find(value, len(self._places)) for value in levels], dtype=np.int64)
        self._grow(before, levels)
        self._mass[numbers] += mass  # no number twice
        return numbers

    def values(self) -> list[Level]:
        """Return the levels in the order of their numbers."""
        return list(self._places)

    def mass(self) -> FloatArray:
        """Return the sum of weights of each level, in the order of the numbers."""
        return self._mass[: len(self._places)]

    def finish(self, most: int, refuse_more: bool) -> tuple[Sequence[Level], IntArray]:
        """Return the levels of the model in ascending order, and the code of each number."""
        values = self.values()
        if values and isinstance(values[0], str):
            check_unicode(values, self._name)
            order = sorted(range(len(values)), key=values.__getitem__)
            ordered: Sequence[Level] = tuple(values[place] for place in order)
        else:
            order, ordered = _sorted_numbers(values)
        if len(order) > most:
            if refuse_more:
                raise DataError(
                    f"column {self._name!r} has {len(order):,} categories, a model can have "
                    f"{most:,}: with unknown_category='missing' or 'backoff' the most frequent "
                    "are kept; or drop the column or join rare categories."
                )
            heavy = self.mass()[order]
            kept = np.sort(np.argsort(-heavy, kind="stable")[:most])
            ordered = canonical(tuple(ordered[place] for place in kept.tolist()))
            order = [order[place] for place in kept.tolist()]
        codes = np.full(len(values) + 1, MISSING_CODE, dtype=np.int64)
        codes[order] = np.arange(len(order))
        return ordered, codes


def _sorted_numbers(values: list[Level]) -> tuple[list[int], tuple[Level, ...]]:
    """Return the sorting permutation, and the sorted levels in the type of levels."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ordered = [values[place] for place in order]
    if all(isinstance(value, int) for value in ordered):
        return order, tuple(ordered)
    return order, number_levels(np.array(ordered, dtype=np.float64))
