"""What a model knows of its columns: names, how their values compare, and categories."""

from __future__ import annotations

import functools
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from hedgerow.data.levels import MOST_LEVELS, Level, LevelIndex, canonical
from hedgerow.errors import DataError, ParameterError, did_you_mean
from hedgerow.once import once

ColumnKind: TypeAlias = Literal["float", "int", "category"]
UnknownCategory: TypeAlias = Literal["missing", "backoff", "error"]
"""What a fit may be told to make of values that are no level."""

UnknownPolicy: TypeAlias = Literal["missing", "backoff", "error", "split"]
"""What a model makes of them; ``"split"`` only where another library grew its trees."""

Rounding: TypeAlias = Literal["none", "down", "to_zero"]


@dataclass(frozen=True, slots=True)
class Column:
    """One feature.

    Attributes
    ----------
    name : str
        Name in the user's frame, or ``"x0"``, ``"x1"``, ... for plain arrays.
    kind : {"float", "int", "category"}
        How values compare: ``"float"`` as float64 (every integer type up to
        32 bits, bool and float is held exactly), ``"int"`` as int64 (64-bit
        integers; dates, times and durations as microseconds), ``"category"``
        by equality with one of the levels.
    levels : sequence of str, int or float, default=()
        The values that a category column had in training, ascending: all text,
        all whole numbers, or all floats.  The code of a value is its position.
        Of a model it is a tuple.
    rounding : {"none", "down", "to_zero"}, default="none"
        How a number with a fraction becomes one of whole levels; by ``"none"`` it is no
        level.  Libraries that number categories convert numbers so.
    """

    name: str
    kind: ColumnKind = "float"
    levels: Sequence[Level] = ()
    rounding: Rounding = "none"


@dataclass(frozen=True)
class Schema:
    """All features in the order of training.

    Attributes
    ----------
    columns : tuple of Column
    named : bool, default=False
        Whether the names are the user's own.
    unknown : {"missing", "backoff", "error", "split"}, default="missing"
        What is made of a value of a category column that is not among its
        levels: a missing value, the code ``n_levels`` (of a category that no
        training row has), or an error; with ``"split"`` that code, too, and each split says
        on which side it is.  ``"missing"`` where there are no category columns.
    zero_missing : bool, default=False
        Whether the number 0 is a missing value, in every table that is read.
    zero_band : float, default=0.0
        With ``zero_missing`` the largest magnitude that counts as 0.
    """

    columns: tuple[Column, ...]
    named: bool = False
    unknown: UnknownPolicy = "missing"
    zero_missing: bool = False
    zero_band: float = 0.0

    @once
    def names(self) -> tuple[str, ...]:
        """Name of each column."""
        return tuple(column.name for column in self.columns)

    @once
    def kinds(self) -> tuple[ColumnKind, ...]:
        """How each column compares."""
        return tuple(column.kind for column in self.columns)

    @once
    def has_int(self) -> bool:
        """Whether some column compares as int64, so that tables are held as keys."""
        return "int" in self.kinds

    @once
    def has_categories(self) -> bool:
        """Whether some column holds categories."""
        return "category" in self.kinds

    @once
    def only_floats(self) -> bool:
        """Whether floats are what they are: no other kind of column."""
        return not (self.has_int or self.has_categories)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.columns)

    def n_levels(self, j: int) -> int:
        """Number of levels of column ``j``; 0 if it does not hold categories."""
        return len(self.columns[j].levels)

    def level_index(self, j: int) -> LevelIndex:
        """What finds the codes of values of column ``j``; made once."""
        index = self._indexes.get(j)
        if index is None:
            # Two threads may both make one; they are the same.
            index = self._indexes[j] = LevelIndex(self.columns[j].levels)
        return index

    @once
    def _indexes(self) -> dict[int, LevelIndex]:
        return {}


def with_more_levels(schema: Schema, levels: Mapping[str, Sequence[Level]]) -> Schema:
    """The schema with further levels of some category columns, all in order.

    Parameters
    ----------
    schema : Schema
    levels : mapping from name to levels
        Those of other columns, and of another type than the column has, are left alone;
        so is a column that would have more than a model can have.

    Returns
    -------
    Schema
        The same one if there is nothing to add.
    """
    columns = list(schema.columns)
    for j, column in enumerate(columns):
        given = levels.get(column.name, ())
        if column.kind != "category" or len(given) == 0:
            continue
        known = set(column.levels)
        as_known = not known or isinstance(given[0], str) == isinstance(column.levels[0], str)
        more = [level for level in given if level not in known] if as_known else []
        if more and len(known) + len(more) <= MOST_LEVELS:
            together: list[Any] = [*column.levels, *more]
            if not isinstance(together[0], str) and len({type(x) for x in together}) > 1:
                together = [float(level) for level in together]
            columns[j] = replace(column, levels=tuple(canonical(sorted(together))))
    found = tuple(columns)
    return schema if found == schema.columns else replace(schema, columns=found)


def check_same_names(given: Sequence[str], expected: Sequence[str]) -> None:
    """Raise ``DataError`` that lists columns that are missing or not known."""
    missing = sorted(set(expected) - set(given))
    unknown = sorted(set(given) - set(expected))
    if missing or unknown:
        lines = ["The feature names should match those that were passed during fit."]
        if unknown:
            lines += ["Feature names unseen at fit time:", *_listed(unknown)]
        if missing:
            lines += ["Feature names seen at fit time, yet now missing:", *_listed(missing)]
        raise DataError("\n".join(lines))


def _listed(names: Sequence[str], most: int = 10) -> list[str]:
    more = [f"- ... and {len(names) - most} more"] if len(names) > most else []
    return [f"- {name}" for name in names[:most]] + more


@functools.lru_cache(maxsize=64)
def default_names(n_features: int) -> tuple[str, ...]:
    """Name columns that have no names: ``("x0", "x1", ...)``."""
    return tuple(f"x{j}" for j in range(n_features))


@functools.lru_cache(maxsize=64)
def unnamed_schema(n_features: int, kind: ColumnKind) -> Schema:
    """Make the schema of a plain array, all of whose columns are of one kind.

    Kept: for 28 columns it takes 10 us to make, and reading one row 0.5 us.
    """
    return Schema(tuple(Column(name, kind) for name in default_names(n_features)))


def position_of(key: object, schema: Schema, where: str) -> int:
    """Position of the column that a name or a position means.

    Parameters
    ----------
    key : str or int
    schema : Schema
    where : str
        What names the column, to open the message with.

    Raises
    ------
    ParameterError
        If there is no such column.
    """
    names = schema.names
    if isinstance(key, str):
        if key in names:
            return names.index(key)
        raise ParameterError(
            f"{where}: the table has no column {key!r}.{did_you_mean(key, names)} Its columns "
            f"are {_in_a_row(names)}."
        )
    if isinstance(key, numbers.Integral) and not isinstance(key, bool):
        if 0 <= int(key) < len(names):
            return int(key)
        raise ParameterError(
            f"{where}: there is no column {key}; positions go from 0 to {len(names) - 1}."
        )
    raise ParameterError(f"{where}: a column is named by text or by its position; got {key!r}.")


def _in_a_row(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:10]))
    return shown if len(names) <= 10 else f"{shown}, ... ({len(names)} in all)"
