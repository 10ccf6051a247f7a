"""What a model knows of its columns: names and how their values compare."""

from __future__ import annotations

import functools
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from hedgerow.errors import ParameterError, did_you_mean

ColumnKind: TypeAlias = Literal["float", "int", "category"]
Level: TypeAlias = "str | int | float | bool"


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
        integers; dates and durations as microseconds), ``"category"`` as equal
        or not.
    levels : tuple
        Values of a category, ascending; a table holds their positions.
    """

    name: str
    kind: ColumnKind = "float"
    levels: tuple[Level, ...] = ()


@dataclass(frozen=True)
class Schema:
    """All features in the order of training; ``named`` if the names are the user's own."""

    columns: tuple[Column, ...]
    named: bool = False

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """Name of each column."""
        return tuple(column.name for column in self.columns)

    @functools.cached_property
    def kinds(self) -> tuple[ColumnKind, ...]:
        """How each column compares."""
        return tuple(column.kind for column in self.columns)

    @functools.cached_property
    def has_int(self) -> bool:
        """Whether some column compares as int64, so that tables are held as keys."""
        return "int" in self.kinds

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.columns)


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
            f"are {_listed(names)}."
        )
    if isinstance(key, numbers.Integral) and not isinstance(key, bool):
        if 0 <= int(key) < len(names):
            return int(key)
        raise ParameterError(
            f"{where}: there is no column {key}; positions go from 0 to {len(names) - 1}."
        )
    raise ParameterError(f"{where}: a column is named by text or by its position; got {key!r}.")


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:10]))
    return shown if len(names) <= 10 else f"{shown}, ... ({len(names)} in all)"
