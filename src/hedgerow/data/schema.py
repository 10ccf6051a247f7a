"""The schema of a model: names, kinds and category levels of its columns."""

from __future__ import annotations

import functools
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from hedgerow.argument_types import listed
from hedgerow.data.categories.levels import MOST_LEVELS, Level, LevelIndex, canonical
from hedgerow.errors import DataError, ParameterError, brief, did_you_mean
from hedgerow.once import once

ColumnKind: TypeAlias = Literal["float", "int", "category"]
UnknownCategory: TypeAlias = Literal["missing", "error"]
"""Treatment of unknown categories that a user may choose."""

UnknownPolicy: TypeAlias = Literal["missing", "error", "split"]
"""Treatment of unknown categories by a model; ``"split"`` only for imported models."""

Rounding: TypeAlias = Literal["none", "down", "to_zero"]
Temporal: TypeAlias = Literal["dates", "zoned dates", "times", "durations"]
"""Values that are stored as microseconds: dates (with a time or not), times of a day, durations.

Dates with a time zone are those of UTC.
"""

DATES: tuple[Temporal, ...] = ("dates", "zoned dates")


@dataclass(frozen=True, slots=True)
class Column:
    """One feature."""

    name: str  # name in the user's frame, or ``"x0"``, ``"x1"``, ... for plain arrays.
    # how values compare.  ``"float"``: as float64, which is exact for bool, floats and integers of
    # up to 32 bits.  ``"int"``: as int64, for 64-bit integers, and for dates, times and durations
    # in microseconds.  ``"category"``: by equality with one of the levels.
    kind: ColumnKind = "float"
    # values that a category column had in training, ascending: all
    # text, all integers, or all floats.  The code of a value is its position.  A tuple in the
    # schema of a model.
    levels: Sequence[Level] = ()
    # conversion of fractional numbers to integer levels, as in libraries that number categories.
    # With ``"none"`` a fractional number is an unknown category.
    rounding: Rounding = "none"
    # what the column held in training, if not numbers or text.  Its values, or levels, are then
    # microseconds.
    temporal: Temporal | None = None


@dataclass(frozen=True)
class Schema:
    """The columns of a model, in the order of training."""

    columns: tuple[Column, ...]
    # whether the names are the user's; otherwise they are ``"x0"``, ``"x1"``, ...
    named: bool = False
    # treatment of unknown categories, which are not among the levels of their column.
    # ``"missing"``: as a missing value.  ``"error"``: raise.  ``"split"``: as the code
    # ``n_levels``, for which each split has a side.  Always ``"missing"`` without category columns.
    unknown: UnknownPolicy = "missing"
    # whether 0 means missing, in every table that is read with this schema
    zero_missing: bool = False
    zero_band: float = 0.0  # with ``zero_missing``, the largest magnitude that counts as 0

    @property
    def zero_missing_up_to(self) -> float | None:
        """Largest magnitude of the numbers that are missing values; None if no number is."""
        return self.zero_band if self.zero_missing else None

    @once
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @once
    def kinds(self) -> tuple[ColumnKind, ...]:
        return tuple(column.kind for column in self.columns)

    @once
    def types(self) -> tuple[tuple[ColumnKind, Temporal | None], ...]:
        """Kind of each column, and whether it held dates, times or durations."""
        return tuple((column.kind, column.temporal) for column in self.columns)

    @once
    def has_int(self) -> bool:
        """Whether a column compares as int64, so that tables hold keys."""
        return "int" in self.kinds

    @once
    def has_categories(self) -> bool:
        return "category" in self.kinds

    @once
    def has_temporal(self) -> bool:
        """Whether a column held dates, times or durations."""
        return any(column.temporal is not None for column in self.columns)

    @once
    def only_floats(self) -> bool:
        return not (self.has_int or self.has_categories)

    @property
    def n_features(self) -> int:
        return len(self.columns)

    def n_levels(self, j: int) -> int:
        """Return the number of levels of column ``j``; 0 if it is not a category column."""
        return len(self.columns[j].levels)

    def level_index(self, j: int) -> LevelIndex:
        """Return the index from values to codes of column ``j``, built on first use."""
        index = self._indexes.get(j)
        if index is None:
            # Two threads may both build it; the results are equal.
            index = self._indexes[j] = LevelIndex(self.columns[j].levels)
        return index

    @once
    def _indexes(self) -> dict[int, LevelIndex]:
        return {}


def with_more_levels(schema: Schema, levels: Mapping[str, Sequence[Level]]) -> Schema:
    """Add levels to category columns of a schema."""
    columns = list(schema.columns)
    for j, column in enumerate(columns):
        new_levels = levels.get(column.name, ())
        if column.kind != "category" or len(new_levels) == 0:
            continue
        known = set(column.levels)
        same_type = not known or isinstance(new_levels[0], str) == isinstance(column.levels[0], str)
        more = [level for level in new_levels if level not in known] if same_type else []
        if more and len(known) + len(more) <= MOST_LEVELS:
            merged: list[Any] = [*column.levels, *more]
            if not isinstance(merged[0], str) and len({type(x) for x in merged}) > 1:
                merged = [float(level) for level in merged]
            columns[j] = replace(column, levels=tuple(canonical(sorted(merged))))
    changed = tuple(columns)
    return schema if changed == schema.columns else replace(schema, columns=changed)


_MOST_NAMED = 10
"""Columns that an error lists."""


def check_same_names(names: Sequence[str], expected: Sequence[str]) -> None:
    """Raise a ``DataError`` that lists missing and unknown columns, if there are any."""
    missing = sorted(set(expected) - set(names))
    unknown = sorted(set(names) - set(expected))
    if missing or unknown:
        lines = ["The feature names should match those that were passed during fit."]
        seen = {"unseen at fit time": unknown, "seen at fit time, yet now missing": missing}
        for title, found in seen.items():
            if found:
                lines += [f"Feature names {title}:", *(f"- {name}" for name in found[:_MOST_NAMED])]
            if len(found) > _MOST_NAMED:
                lines.append(f"- ... and {len(found) - _MOST_NAMED} more")
        raise DataError("\n".join(lines))


def read_names(names: Any) -> tuple[Any, ...] | None:
    """Return ``feature_names`` as a tuple; None stays None."""
    # The names themselves are checked with the table.
    if names is None:
        return None
    given = listed(names)
    if given is None:
        raise ParameterError(
            f"feature_names must be a list with a name for each column, or None; got "
            f"{brief(names)}."
        )
    return tuple(given)


@functools.lru_cache(maxsize=64)
def default_names(n_features: int) -> tuple[str, ...]:
    """Name columns that have no names: ``("x0", "x1", ...)``."""
    return tuple(f"x{j}" for j in range(n_features))


@functools.lru_cache(maxsize=64)
def unnamed_schema(n_features: int, kind: ColumnKind) -> Schema:
    """Return the schema of an array without names, whose columns are of one kind."""
    # Cached: building it for 28 columns takes 10 us, reading one row takes 0.5 us.
    return Schema(tuple(Column(name, kind) for name in default_names(n_features)))


def new_schema(columns: Sequence[Column], named: bool, unknown: UnknownPolicy) -> Schema:
    """Return the schema of new columns; without names, those of one kind share one."""
    kinds = {column.kind for column in columns}
    schema = Schema(tuple(columns), named, unknown if "category" in kinds else "missing")
    if named or len(kinds) > 1 or schema.has_categories or schema.has_temporal:
        return schema
    return unnamed_schema(len(columns), columns[0].kind)


def position_of(key: object, names: Sequence[str], where: str) -> int:
    """Return the position of a column."""
    if isinstance(key, str):
        if key in names:
            return names.index(key)
        shown = ", ".join(map(repr, names[:10]))
        shown += "" if len(names) <= 10 else f", ... ({len(names)} in all)"
        raise ParameterError(
            f"{where}: the table has no column {brief(key)}.{did_you_mean(key, names)} Its columns "
            f"are {shown}."
        )
    if isinstance(key, numbers.Integral) and not isinstance(key, bool):
        if 0 <= int(key) < len(names):
            return int(key)
        raise ParameterError(
            f"{where}: there is no column {brief(key)}; positions go from 0 to {len(names) - 1}."
        )
    raise ParameterError(f"{where}: give a column by its name or position; got {brief(key)}.")
