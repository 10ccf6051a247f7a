"""What a source of rows is: parts in order, each of which gives its rows batch by batch.

Glossary
--------
source   all data of a training: files in order, or what a function yields
part     one file, or all that the function yields; a process reads whole parts
batch    some neighbouring rows of a part, as its format gives them
role     what a column is for: feature, target, weight, offset
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from hedgerow.data.categories.columns import CategoricalFeatures
from hedgerow.data.schema import UnknownCategory
from hedgerow.data.sources.columns import ReadColumn
from hedgerow.errors import DataError, ParameterError, did_you_mean


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Some rows.

    Attributes
    ----------
    n_rows : int
        May be 0.
    columns : mapping of str to ReadColumn
        By name; empty for sparse rows.
    named : bool
        Whether the names are the user's.
    sparse : scipy.sparse.csr_array, or None
        The features, where they are sparse.
    target, weight : ReadColumn, or None
        Where they are no columns of the table.
    """

    n_rows: int
    columns: Mapping[str, ReadColumn]
    named: bool = True
    sparse: Any = None
    target: ReadColumn | None = None
    weight: ReadColumn | None = None


class Part(Protocol):
    """A file, or all batches of a function.

    Attributes
    ----------
    name : str
        For messages.
    types_known : bool
        Whether types do not count (:mod:`hedgerow.data.sources.columns`).
    """

    name: str
    types_known: bool

    def column_names(self) -> tuple[str, ...] | None:
        """Names of all columns, if they can be known without reading rows."""

    def batches(self, columns: Sequence[str] | None, max_bytes: int) -> Iterator[Batch]:
        """Read all rows, from the start.

        Parameters
        ----------
        columns : sequence of str, optional
            Columns that are needed; a batch may have others, too.
        max_bytes : int
            About as much memory a batch may take.

        Raises
        ------
        StorageError
            If the part cannot be read, or is not what it was when it was first read.
        """

    def bytes_per_row(self) -> float:
        """Memory of a row as numbers, about; 0 if nothing is known."""


@dataclass(frozen=True, slots=True)
class Roles:
    """Which columns are for what.

    Attributes
    ----------
    target : str or None
        None if batches say it themselves (LibSVM, tuples).
    weight : str or None
    offset : tuple of str
    drop : tuple of str
        Columns that are not used.
    further : tuple of str
        Targets beside the first.
    qid, position, groups : str or None
        As for :class:`hedgerow.Dataset`.
    features : tuple of str, or None
        In this order; None: all others, in the order of the first file.
    """

    target: str | None = None
    weight: str | None = None
    offset: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    features: tuple[str, ...] | None = None
    further: tuple[str, ...] = ()
    qid: str | None = None
    position: str | None = None
    groups: str | None = None

    def of_rows(self) -> dict[str, str]:
        """Columns that only trainings in memory know, by what they are."""
        given = {"qid": self.qid, "position": self.position, "groups": self.groups}
        named = {role: name for role, name in given.items() if name is not None}
        return named | {f"target {k}": name for k, name in enumerate(self.further, 1)}

    def aside(self) -> tuple[str, ...]:
        """Columns that are not features but are read."""
        single = [name for name in (self.target, self.weight) if name is not None]
        return (*single, *self.offset, *self.of_rows().values())

    def features_of(self, names: Sequence[str], where: str) -> tuple[str, ...]:
        """The features of a table with these columns.

        Raises
        ------
        DataError
            If a column is not there, or none is left.
        """
        for role, wanted in (
            ("target", [self.target] if self.target is not None else []),
            ("weight", [self.weight] if self.weight is not None else []),
            ("offset", list(self.offset)),
            ("features", list(self.features or ())),
            *((role, [name]) for role, name in self.of_rows().items()),
        ):
            for name in wanted:
                if name not in names:
                    raise no_column(where, name, role, names)
        if self.features is not None:
            return self.features
        left = tuple(n for n in names if n not in self.aside() and n not in self.drop)
        if not left:
            raise DataError(f"{where}: no column is left to predict from.")
        return left

    def check_drop(self, names: Collection[str], where: str) -> None:
        """Raise ``DataError`` if a column that is to be dropped is nowhere."""
        for name in self.drop:
            if name not in names:
                raise no_column(where, name, "drop", tuple(names))


def no_column(where: str, name: str, role: str, names: Sequence[str]) -> DataError:
    """Make the error about a column that is not there."""
    shown = ", ".join(list(names)[:12]) + (
        f", ... ({len(names)} in all)" if len(names) > 12 else ""
    )
    return DataError(
        f"{where} has no column {name!r} ({role}).{did_you_mean(name, names)} Its columns: {shown}."
    )


def check_same_columns(
    first: str, expected: Sequence[str], where: str, names: Sequence[str], roles: Roles
) -> None:
    """Refuse a part that lacks a column of the first one, or has one more.

    Parameters
    ----------
    first, where : str
        Names of the first part and of this one.
    expected, names : sequence of str
        All their columns.
    """
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
                    f"{where} has a column {name!r}, which {first} has not: all files must have "
                    "the same columns. Leave it out (drop=), or name those to use (features=)."
                )


@dataclass(frozen=True, slots=True, eq=False)
class ReadRequest:
    """How the features are to be read.

    Attributes
    ----------
    roles : Roles
    categorical : "auto", list, mask or None
        As in :func:`hedgerow.data.read_table`.
    unknown : {"missing", "backoff", "error"}
    zero_missing : bool
    feature_names : tuple of str, or None
        For tables that have none.
    """

    roles: Roles = field(default_factory=Roles)
    categorical: CategoricalFeatures = "auto"
    unknown: UnknownCategory = "missing"
    zero_missing: bool = False
    feature_names: tuple[str, ...] | None = None


def make_roles(
    target: Any,
    weight: Any,
    offset: Any,
    drop: Any,
    features: Any,
    qid: Any = None,
    position: Any = None,
    groups: Any = None,
) -> Roles:
    """Roles from what a user has given; ``ParameterError`` for what is no name of a column."""

    def one(value: Any, role: str) -> str | None:
        if value is not None and not isinstance(value, str):
            raise ParameterError(f"{role} must be the name of a column; got {value!r}.")
        return value

    def several(value: Any, role: str) -> tuple[str, ...]:
        if not isinstance(value, str | Sequence):
            raise ParameterError(f"{role} must be the name of a column; got {value!r}.")
        names = (value,) if isinstance(value, str) else tuple(value)
        for name in names:
            one(name, role)
            if names.count(name) > 1:
                raise ParameterError(f"{role} names column {name!r} twice.")
        return names

    targets = () if target is None else several(target, "target")
    roles = Roles(
        targets[0] if targets else None,
        one(weight, "weight"),
        () if offset is None else several(offset, "offset"),
        several(drop, "drop"),
        None if features is None else several(features, "features"),
        targets[1:],
        one(qid, "qid"),
        one(position, "position"),
        one(groups, "groups"),
    )
    aside = (*roles.aside(), *roles.drop)
    for name in aside:
        if aside.count(name) > 1 or name in (roles.features or ()):
            raise ParameterError(f"column {name!r} is given two roles: give it one.")
    if roles.features == ():
        raise ParameterError("features is empty: name at least one column, or leave it out.")
    return roles
