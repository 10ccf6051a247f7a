"""Sources of rows: ordered parts that yield their rows in batches.

Glossary
--------
source   all training data: ordered files, or the batches that a function yields
part     one file, or all batches of the function; a process reads complete parts
batch    consecutive rows of a part
role     the purpose of a column: feature, target, weight, offset
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from hedgerow.argument_types import listed
from hedgerow.data.categories.columns import CategoricalFeatures
from hedgerow.data.reading.columns import ReadColumn
from hedgerow.data.schema import UnknownCategory
from hedgerow.errors import DataError, ParameterError, brief, did_you_mean


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Consecutive rows of a part."""

    n_rows: int  # may be 0
    columns: Mapping[str, ReadColumn]  # columns by name
    named: bool = True  # whether the names are the user's
    # target, weight: set if the target and weight are not columns of the table
    target: ReadColumn | None = None
    weight: ReadColumn | None = None


class Part(Protocol):
    """A file, or all batches of a function."""

    name: str  # in messages
    types_known: bool  # types of columns are ignored (:mod:`hedgerow.data.sources.batches`)

    def column_names(self) -> tuple[str, ...] | None:
        """Return the names of all columns, or None if they are unknown before reading rows."""

    def batches(self, columns: Sequence[str] | None, max_bytes: int) -> Iterator[Batch]:
        """Yield all rows from the start."""


@dataclass(frozen=True, slots=True)
class Roles:
    """The role of each column."""

    targets: tuple[str, ...] = ()  # none if batches carry the target themselves (tuples)
    weight: str | None = None
    offset: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()  # columns not used
    # features in this order.  None means all other columns, in the order of
    # the first file.
    features: tuple[str, ...] | None = None
    # columns of further values of rows, by argument of :class:`hedgerow.Dataset`
    of_rows: Mapping[str, str] = field(default_factory=dict)
    named: bool = True  # False if the names of targets and offsets are not the user's

    def without(self, values: Collection[str]) -> Roles:
        """Return the roles without those of some values of rows."""
        kept = {role: name for role, name in self.of_rows.items() if role not in values}
        return replace(self, of_rows=kept)

    def _aside(self) -> list[tuple[str, str]]:
        """Return role and name of the columns that are read but are not features."""
        weight = () if self.weight is None else (self.weight,)
        several = ("target", self.targets), ("weight", weight), ("offset", self.offset)
        return [*((role, n) for role, names in several for n in names), *self.of_rows.items()]

    def aside(self) -> tuple[str, ...]:
        """Return the columns that are read but are not features."""
        return tuple(name for _, name in self._aside())

    def features_of(self, names: Sequence[str], where: str) -> tuple[str, ...]:
        """Return the features of a table with these columns."""
        for role, name in (*self._aside(), *(("features", name) for name in self.features or ())):
            if name not in names:
                raise no_column(where, name, role, names)
        if self.features is not None:
            return self.features
        left = tuple(n for n in names if n not in self.aside() and n not in self.drop)
        if not left:
            raise DataError(f"{where}: no column is left to predict from.")
        for position, name in enumerate(names, 1):
            if name in left and not name.strip():
                index = " (pandas writes its index so, unless index=False)" if position == 1 else ""
                raise DataError(
                    f"{where}: column {position} has no name in the first line{index}. Give it a "
                    "name, or drop the column ''."
                )
        return left

    def check_drop(self, names: Collection[str], where: str) -> None:
        """Raise ``DataError`` if a column to drop does not exist."""
        for name in self.drop:
            if name not in names:
                raise no_column(where, name, "drop", tuple(names))


def no_column(where: str, name: str, role: str, names: Sequence[str]) -> DataError:
    """Return the error for a missing column."""
    shown = ", ".join(list(names)[:12]) + (
        f", ... ({len(names)} in all)" if len(names) > 12 else ""
    )
    return DataError(
        f"{where} has no column {name!r} ({role}).{did_you_mean(name, names)} Its columns: {shown}."
        f"{header_hint(names)}"
    )


def header_hint(names: Collection[str]) -> str:
    """Return a sentence for a table whose names of columns are all numbers, or ``""``."""
    # pandas numbers columns without names from 0 on.
    try:
        for name in names:
            float(name.replace(",", "."))
    except ValueError:
        return ""
    if [*names] == [*map(str, range(len(names)))]:
        return ""
    return (
        " All these names are numbers: if the first line holds values, put a line with the names "
        "of the columns before it."
    )


def check_same_columns(
    first: str, expected: Sequence[str], where: str, names: Sequence[str], roles: Roles
) -> None:
    """Raise ``DataError`` if a part has fewer or more columns than the first one."""
    features = roles.features_of(expected, first)
    needed = [*roles.aside(), *features]
    for name in needed:
        if name not in names:
            role = "feature" if name in features else "target, weight or offset"
            raise DataError(
                f"{where} has no column {name!r} ({role}), which {first} has: all files must have "
                "the same columns, in any order. Leave it out (drop=), or give files that have it."
                f"{did_you_mean(name, names)}"
            )
    if roles.features is None:
        for name in names:
            if name not in needed and name not in roles.drop:
                raise DataError(
                    f"{where} has a column {name!r}, which {first} lacks: all files must have "
                    "the same columns. Leave it out (drop=), or name those to use (features=)."
                )


@dataclass(frozen=True, slots=True, eq=False)
class ReadRequest:
    """Options for reading the features."""

    # as in :func:`hedgerow.data.read_table`
    categorical: CategoricalFeatures = "auto"
    unknown: UnknownCategory = "missing"
    zero_missing: bool = False
    # names for tables without names
    feature_names: tuple[str, ...] | None = None


def check_names(path: str, names: Sequence[str]) -> None:
    """Raise ``DataError`` if two columns have one name that is not empty."""
    for name, count in Counter(filter(str.strip, names)).items():
        if count > 1:
            raise DataError(
                f"{path}: two columns are called {name!r}; rename one of them.{header_hint(names)}"
            )


def make_roles(
    target: Any, drop: Any, features: Any = None, given: Mapping[str, Any] | None = None
) -> Roles:
    """Return the roles of columns; raise ``ParameterError`` for a value that is no name."""
    # ``given`` are the columns of values of rows, by argument of :class:`hedgerow.Dataset`.

    def one(value: Any, role: str) -> str:
        if not isinstance(value, str):
            raise ParameterError(f"{role} must be the name of a column; got {brief(value)}.")
        return value

    def several(value: Any, role: str) -> tuple[str, ...]:
        given = [] if value is None else [value] if isinstance(value, str) else listed(value)
        names = tuple(one(name, role) for name in ([value] if given is None else given))
        for name in names:
            if names.count(name) > 1:
                raise ParameterError(f"{role} names column {name!r} twice.")
        return names

    of_rows = {role: name for role, name in (given or {}).items() if name is not None}
    offset = several(of_rows.pop("offset", None), "offset")
    named = {role: one(name, role) for role, name in of_rows.items()}
    roles = Roles(
        several(target, "target"),
        named.pop("weight", None),
        offset,
        several(drop, "drop"),
        None if features is None else several(features, "features"),
        named,
    )
    aside = (*roles.aside(), *roles.drop)
    for name in aside:
        if aside.count(name) > 1 or name in (roles.features or ()):
            raise ParameterError(f"column {name!r} is given two roles: give it one.")
    if roles.features == ():
        raise ParameterError("features is empty: name at least one column, or leave it out.")
    return roles
