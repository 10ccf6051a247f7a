"""What is known of a column from all batches: how its values compare, and the levels of categories.

The rules are the same as for one table with the rows of all files.  ``int32`` in one file
and ``int64`` in another become ``int64``.  Integers and floats become floats if every
integer is exact as a float.  Null columns match every type, and text matches dictionaries
of text.  Other combinations raise an error that names the column, the files and both types.

While rows are read, levels are numbered in order of appearance.  At the end, levels are
sorted and the numbers are mapped to codes (:mod:`hedgerow.data.categories.levels`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.data.categories import levels as lv
from hedgerow.data.categories.columns import check_unicode
from hedgerow.data.external.memory import shown_bytes
from hedgerow.data.reading.columns import LARGEST_EXACT, ReadColumn
from hedgerow.data.schema import ColumnKind, Temporal
from hedgerow.errors import DataError, DataTypeError
from hedgerow.kernels.tables.keys import is_missing

_CATEGORIES = "categories of "
"""Beginning of the sorts of columns of categorical types whose values are not text."""


@dataclass(slots=True)
class ColumnFacts:
    """Facts about a column that can be merged, also after they were JSON."""

    # sorts of values found, each with the first file and its type there
    sorts: dict[str, tuple[str, str]] = field(default_factory=dict)
    # the same for types without values
    empty_sorts: dict[str, tuple[str, str]] = field(default_factory=dict)
    # representations of numbers found: ``"any"`` (integers of up to 32 bits, exact in float64),
    # ``"wide"`` (64 bits, compared as int64), ``"float"``
    exact: dict[str, tuple[str, str]] = field(default_factory=dict)
    # tuple (file, value), or None; an integer that float64 does not represent exactly
    inexact: tuple[str, int] | None = None
    has_floats: bool = False  # whether a column of floats has a value
    largest: int = 0  # largest magnitude of an integer
    has_missing: bool = False

    def add(self, column: ReadColumn, where: str) -> None:
        """Add the facts of a column of a batch."""
        missing = column.missing()
        n_missing = int(np.count_nonzero(missing))
        self.has_missing |= n_missing > 0
        filled = n_missing < len(missing)
        at = (where, str(column.dtype))
        sort: str | None = column.sort
        if column.is_category and sort not in (None, "text"):
            sort = _CATEGORIES + sort
        if sort is not None:
            (self.sorts if filled else self.empty_sorts).setdefault(sort, at)
        elif column.is_category:
            self.empty_sorts.setdefault(_CATEGORIES + "numbers", at)
        if not isinstance(column.values, np.ndarray) or not (filled or sort is not None):
            return
        exact = "float"
        if column.values.dtype == np.int64:
            exact = "wide"
        elif column.is_small:
            exact = "any"
        self.exact.setdefault(exact, at)
        self.has_floats |= filled and exact == "float"
        if not filled or exact != "wide":
            return
        values = column.values[~is_missing(column.values)]
        low, high = int(values.min()), int(values.max())
        self.largest = max(self.largest, abs(low), abs(high))
        if self.inexact is None and max(abs(low), abs(high)) > LARGEST_EXACT:
            floats = values.astype(np.float64)
            wrong = floats >= 2.0**63
            wrong |= np.where(wrong, 0.0, floats).astype(np.int64) != values
            if wrong.any():
                self.inexact = (where, int(values[int(np.argmax(wrong))]))

    def merge(self, later: ColumnFacts) -> None:
        """Add the facts of later rows."""
        for own, other in (
            (self.sorts, later.sorts),
            (self.empty_sorts, later.empty_sorts),
            (self.exact, later.exact),
        ):
            own |= other | own  # the first of each
        self.inexact = self.inexact or later.inexact
        self.has_floats |= later.has_floats
        self.largest = max(self.largest, later.largest)
        self.has_missing |= later.has_missing

    @property
    def is_category(self) -> bool | None:
        """Whether the values so far are those of a category; None if there are none."""
        sort = next(iter(self.sorts), None)
        return None if sort is None else _is_categorical(sort)

    def check(self, name: str, chosen: bool | None) -> None:
        """Raise if the values have no common order."""
        sorts = self._values_of(self.sorts) if chosen is not None else self.sorts
        if len(sorts) > 1:
            (first, (file_a, type_a)), (second, (file_b, type_b)) = list(sorts.items())[:2]
            hint = "convert it to one type, or leave it out (drop=)"
            if first.startswith(_CATEGORIES) or second.startswith(_CATEGORIES):
                hint += ", or name it in categorical_features"
            raise DataTypeError(
                f"column {name!r} holds {first} in {file_a} ({type_a}), but {second} in {file_b} "
                f"({type_b}): {hint}."
            )

    @staticmethod
    def _values_of(sorts: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
        """Return sorts of values, whether or not their type is categorical."""
        found: dict[str, tuple[str, str]] = {}
        for sort in sorted(sorts, key=lambda sort: sort.startswith(_CATEGORIES)):
            found.setdefault(sort.removeprefix(_CATEGORIES), sorts[sort])
        return found

    def temporal(self) -> Temporal | None:
        """Return what the values are, if they are dates, times or durations."""
        sorts = self._values_of(self.sorts or self.empty_sorts)
        if len(sorts) != 1 or "wide" not in self.exact:
            return None
        return next((sort for sort in get_args(Temporal) if sort in sorts), None)

    def kind(self, name: str, chosen: bool | None, types_known: bool) -> ColumnKind:
        """Return how the values of the column compare."""
        self.check(name, chosen)
        sort = next(iter(self.sorts), None)
        if sort is None and not types_known:
            empty = sorted(filter(_is_categorical, self.empty_sorts), reverse=True)  # text first
            sort = next(iter(empty), None)
            if sort == "text" and chosen is False:
                sort = None
        if chosen or (chosen is None and sort is not None and _is_categorical(sort)):
            return "category"
        if self.temporal() is not None:
            return "int"
        if types_known:
            wide = self.largest > LARGEST_EXACT and not self.has_missing
            return "int" if wide and not self.has_floats else "float"
        if "wide" not in self.exact:
            return "float"
        if "float" in self.exact and (self.has_floats or self.inexact is None):
            if self.inexact is not None:
                file, value = self.inexact
                other, other_type = self.exact["float"]
                raise DataError(
                    f"column {name!r} holds the integer {value} in {file} "
                    f"({self.exact['wide'][1]}), which float64 cannot hold, but floats in "
                    f"{other} ({other_type}): convert it to one type, or leave it out (drop=)."
                )
            return "float"
        return "int"


def _is_categorical(sort: str) -> bool:
    return sort == "text" or sort.startswith(_CATEGORIES)


_BYTES_PER_LEVEL = 150
"""Memory of a text in a dict: the object, its slot and its count, without its characters."""


class LevelCounts:
    """Levels of a column with the sum of weights of each."""

    def __init__(self, name: str, most_bytes: int) -> None:
        self._name, self._most_bytes = name, most_bytes
        self._places: dict[lv.Level, int] = {}
        self.mass: FloatArray = np.zeros(0)  # sum of weights of each level, by its number
        self._n_letters = 0

    def add(self, column: ReadColumn, mass: FloatArray | None) -> IntArray:
        """Add some rows; return the number of the level of each row, -1 if missing."""
        if column.codes is None:
            column = ReadColumn(*np.unique(column.values, return_inverse=True))
        values, occurs = column.values, column.counts() > 0
        if isinstance(values, np.ndarray):
            occurs &= ~is_missing(values)
            found: list[lv.Level] = (values[occurs] + values.dtype.type(0)).tolist()  # no -0.0
        else:
            found = [values[place] for place in np.flatnonzero(occurs).tolist()]
        numbers = np.full(len(values), lv.MISSING_CODE, dtype=np.int64)
        numbers[occurs] = self._numbers(found)
        codes = column.spread(numbers)
        present = codes >= 0
        weights = None if mass is None else mass[present]
        self.mass += np.bincount(codes[present], weights, len(self.mass))
        return codes

    def merge(self, levels: Sequence[lv.Level], mass: FloatArray) -> IntArray:
        """Add the levels of later rows; return their numbers in this object."""
        numbers = self._numbers(levels)
        self.mass[numbers] += mass  # no number twice
        return numbers

    def _numbers(self, levels: Sequence[lv.Level]) -> IntArray:
        """Return the number of each level; number new levels."""
        before, find = len(self._places), self._places.setdefault
        numbers = np.array([find(value, len(self._places)) for value in levels], dtype=np.int64)
        n_levels = len(self._places)
        if n_levels == before:
            return numbers
        self._n_letters += sum(len(value) for value in levels if isinstance(value, str))
        needed = n_levels * _BYTES_PER_LEVEL + self._n_letters
        if needed > self._most_bytes and n_levels > lv.MOST_LEVELS:
            raise DataError(
                f"column {self._name!r} has more than {n_levels:,} different categories, which do "
                f"not fit into {shown_bytes(self._most_bytes)}: leave the column out (drop=), join "
                "rare categories, or raise memory_limit."
            )
        self.mass = np.append(self.mass, np.zeros(n_levels - before))
        return numbers

    def values(self) -> list[lv.Level]:
        """Return the levels in the order of their numbers."""
        return list(self._places)

    def finish(self, most: int, refuse_more: bool) -> tuple[Sequence[lv.Level], IntArray]:
        """Return the levels of the model in ascending order, and the code of each number."""
        values = self.values()
        if values and isinstance(values[0], str):
            check_unicode(values, self._name)
        order = sorted(range(len(values)), key=values.__getitem__)
        ordered: Sequence[lv.Level] = tuple(values[place] for place in order)
        if not all(isinstance(value, (int, str)) for value in values):
            ordered = lv.number_levels(np.array(ordered, np.float64))
        if len(order) > most:
            if refuse_more:
                raise DataError(
                    f"column {self._name!r} has {len(order):,} categories, a model can have "
                    f"{most:,}: with unknown_category='missing' the most frequent "
                    "are kept; or drop the column or join rare categories."
                )
            heavy = self.mass[order]
            kept = np.sort(np.argsort(-heavy, kind="stable")[:most])
            ordered = lv.canonical(tuple(ordered[place] for place in kept.tolist()))
            order = [order[place] for place in kept.tolist()]
        codes = np.full(len(values) + 1, lv.MISSING_CODE, dtype=np.int64)
        codes[order] = np.arange(len(order))
        return ordered, codes
