"""Rows with targets, weights and offsets, and the checks that every fit applies to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.cuda.arrays import host_array
from hedgerow.data import AnyTable, SparseTable, Table, UnknownPolicy, drop_unused_levels, recode
from hedgerow.data.reading.objects import MISSING_TYPES
from hedgerow.errors import DataError, DataTypeError, HedgerowError, brief

_COMPLEX = (complex, np.complexfloating)


@dataclass(frozen=True, slots=True, eq=False)
class Positions:
    """Positions at which rows were shown.

    Attributes
    ----------
    codes : int64 (n_rows,)
        Index of each row's position in ``labels``.
    labels : tuple of int or str
        Ascending.
    """

    codes: IntArray
    labels: tuple[Any, ...]

    def take(self, rows: IntArray) -> Positions:
        """Return the positions of some of the rows."""
        return Positions(self.codes[rows], self.labels)

    def repeated(self, times: int) -> Positions:
        """Return the positions of ``times`` copies of all rows."""
        return Positions(np.tile(self.codes, times), self.labels)


@dataclass(frozen=True, slots=True, eq=False)
class RowSets:
    """Sets of rows that are scored separately (:mod:`hedgerow.boosting.validation.row_sets`).

    Attributes
    ----------
    codes : int64 (n_rows,)
        Index of each row's set, ascending.
    starts : tuple of int
        Index in the input of the first row of each set.
    """

    codes: IntArray
    names: tuple[str, ...]
    starts: tuple[int, ...] = (0,)

    def take(self, rows: IntArray) -> RowSets:
        """Return the sets of some of the rows."""
        return replace(self, codes=self.codes[rows])


@dataclass(frozen=True, slots=True, eq=False)
class RowNames:
    """The user's names of rows of which some are left out, for messages.

    Attributes
    ----------
    origin : int64 (n_rows,), or None
        As in :class:`Sample`.
    """

    origin: IntArray | None = None
    sets: RowSets | None = None

    def of(self, row: int) -> str:
        """Return the name of a row, such as ``row 3`` or ``validation row 3``."""
        if self.origin is not None:
            place = row % len(self.origin)  # rows of target statistics are copies
            row = int(self.origin[place])
        else:
            place = row
        if self.sets is None:
            return f"row {row}"
        code = int(self.sets.codes[place])
        row, name = row - self.sets.starts[code], self.sets.names[code]
        return f"validation row {row}" + ("" if name == "validation" else f" of {name!r}")

    @contextmanager
    def reported(self) -> Iterator[None]:
        """Let errors about a row tell its name."""
        try:
            yield
        except HedgerowError as error:
            error.name_row(self.of)
            raise


@contextmanager
def counted_rows(are_weighted: bool) -> Iterator[None]:
    """Let errors about a row of files say that only rows with a weight above 0 are counted."""
    try:
        yield
    except DataError as error:
        if are_weighted:
            error.name_row(lambda row: f"row {row} of those with a weight above 0")
        raise


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """A table with target, weight and offset.

    Attributes
    ----------
    table : Table or SparseTable
    target : float64, shape (n_rows,)
        Class indices for classification.
    weight : float64, shape (n_rows,), or None
        None if all weights are 1.
    offset : float64, shape (n_outputs, n_rows), or None
        Known part of the raw score; trees learn the remainder.
    query : int64, shape (n_rows,), or None
        Query of each row, for rankings: rows of a query compete with each other.
    origin : int64, shape (n_rows,), or None
        Index of each row in the input table; None: all rows, in order.
    position : Positions, or None
        Position at which each row was shown to the users who made its label.
    group : uint64, shape (n_rows,), or None
        Group of each row; groups are held out together
        (:mod:`hedgerow.boosting.row_data.groups`).
    sets : RowSets, or None
        For validation rows: the sets that are scored separately.
    """

    table: AnyTable
    target: FloatArray
    weight: FloatArray | None = None
    offset: FloatArray | None = None
    query: IntArray | None = None
    origin: IntArray | None = None
    position: Positions | None = None
    group: npt.NDArray[np.uint64] | None = None
    sets: RowSets | None = None

    @property
    def n_rows(self) -> int:
        return self.table.n_rows

    def take(self, rows: IntArray) -> Sample:
        """Return some of the rows, in the given order."""
        return Sample(
            self.table.take(rows),
            self.target[rows],
            None if self.weight is None else self.weight[rows],
            None if self.offset is None else np.ascontiguousarray(self.offset[:, rows]),
            None if self.query is None else self.query[rows],
            rows if self.origin is None else self.origin[rows],
            None if self.position is None else self.position.take(rows),
            None if self.group is None else self.group[rows],
            None if self.sets is None else self.sets.take(rows),
        )

    @property
    def row_names(self) -> RowNames:
        """The user's names of the rows."""
        return RowNames(self.origin, self.sets)

    def without_zero_weights(self) -> Sample:
        """Drop rows of weight 0, so that they have no influence at all.

        Weights that are all 1 become None.
        """
        if self.weight is None:
            return self
        kept = self.weight > 0.0
        sample = self if kept.all() else self.take(np.flatnonzero(kept))
        if sample.weight is not None and (sample.weight == 1.0).all():
            return replace(sample, weight=None)
        return sample


def counted(values: FloatArray, weight: FloatArray | None) -> FloatArray:
    """Return the values of the rows of positive weight."""
    return values if weight is None else values[weight > 0.0]


def with_own_levels(
    train: Sample, validation: Sample | None, *, lenient: bool = False
) -> tuple[Sample, Sample | None]:
    """Keep only the category levels of the training rows: the model knows no others."""
    if isinstance(train.table, SparseTable) or not train.table.schema.has_categories:
        return train, validation
    table = drop_unused_levels(train.table, weight=train.weight)
    if table.schema is not train.table.schema and validation is not None:
        assert isinstance(validation.table, Table)  # sparse data hold no categories
        policy: UnknownPolicy = table.schema.unknown
        policy = "missing" if lenient and policy == "error" else policy
        validation = replace(validation, table=recode(validation.table, table.schema, policy))
    return replace(train, table=table), validation


LARGEST = 1e100
"""Largest weight and target: gains contain their squares and products."""


def check_vector(values: Any, n_rows: int, name: str) -> FloatArray:
    """Convert ``values`` to finite float64, one for each row.

    Raise ``DataTypeError`` if the values are not numbers. Raise ``DataError`` if the length
    differs from ``n_rows``, or values are NaN or infinite.
    """
    array = one_axis(numbers_of_rows(values, name), name)
    check_length(len(array), n_rows, name)
    check_finite(array, name)
    return array


def one_axis(array: AnyArray, name: str) -> AnyArray:
    """Return a single column without its second axis; raise ``DataError`` for several columns."""
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(f"{name} should be a 1d array, got an array of shape {array.shape}.")
    return array


def check_length(length: int, n_rows: int, name: str) -> None:
    """Raise ``DataError`` unless there is one value for each row."""
    if length != n_rows:
        _, of, other = name.partition(" of X_val")
        table = f"X_val{other}" if of or name.endswith("_val") else "X"
        raise DataError(
            f"{name} has {length} values for {n_rows} rows of {table}: inconsistent numbers of "
            "samples. Give one value for each row."
        )


def check_finite(array: FloatArray, name: str) -> None:
    """Raise ``DataError`` with count and first row if a value is NaN or infinite."""
    if np.isfinite(array).all():
        return
    for wrong, what in ((np.isnan(array), "NaN"), (np.isinf(array), "infinity")):
        if wrong.any():
            count, row = int(wrong.sum()), int(np.argmax(wrong))
            raise DataError(
                f"Input {name} contains {what} ({count} of {len(array)} values, the first in row "
                f"{row}): remove these rows or fill in the values."
            )


def check_weight(weight: Any, n_rows: int, name: str = "sample_weight") -> FloatArray | None:
    """Convert ``weight`` to float64: finite, non-negative, not all zero; None stays None.

    Raise ``DataError`` if a weight violates this; the message names the first such row.
    """
    if weight is None:
        return None
    array = numbers_of_rows(weight, name)
    if array.ndim != 1:
        how = f" Pass its column, {name}[:, 0]." if array.shape[1:] == (1,) else ""
        raise DataError(
            f"{name} must be 1D with one weight for each row, got {array.ndim}D: an array of shape "
            f"{array.shape}.{how}"
        )
    check_length(len(array), n_rows, name)
    check_finite(array, name)
    if (array < 0.0).any():
        row = int(np.argmax(array < 0.0))
        raise DataError(f"{name} must not be negative, but row {row} has {array[row]:g}.")
    if not array.any():
        raise DataError(
            f"{name} is zero in all {n_rows} rows: at least one weight must be greater than zero."
        )
    strange = (array > 0.0) & ((array < 1.0 / LARGEST) | (array > LARGEST))
    if strange.any():
        row = int(np.argmax(strange))
        raise DataError(
            f"{name} must be 0 or between {1.0 / LARGEST:g} and {LARGEST:g}, but row {row} has "
            f"{array[row]:g}: squares of such numbers are lost. Multiply all weights by a factor."
        )
    return array


def check_offset(
    offset: Any, n_rows: int, n_outputs: int, name: str = "offset"
) -> FloatArray | None:
    """Convert ``offset`` to float64 of shape (n_outputs, n_rows).

    Raise ``DataError`` if the shape differs, or a value is NaN or infinite.
    """
    if offset is None:
        return None
    array = numbers_of_rows(offset, name)
    table = array[:, None] if array.ndim == 1 else array
    if table.shape != (n_rows, n_outputs):
        raise DataError(
            f"{name} must have shape ({n_rows}, {n_outputs}): one raw score for each row and "
            f"output; got {array.shape}."
        )
    for output in range(n_outputs):
        check_finite(table[:, output], name)
    if (np.abs(table) > LARGEST).any():
        row = int(np.argmax((np.abs(table) > LARGEST).any(axis=1)))
        raise DataError(f"{name} must be within {LARGEST:g} of 0, but row {row} is not.")
    return np.ascontiguousarray(table.T)


def values_of_rows(values: Any, name: str) -> AnyArray:
    """Convert ``values`` to an array of any type with an axis for the rows.

    Raise ``DataTypeError`` if they are no sequence: a name, a number, a dict. Raise
    ``DataError`` if they are complex, or rows differ in length.
    """
    if not isinstance(values, str | bytes | Mapping):
        try:
            array: AnyArray = host_array(values)
        except ValueError as error:
            raise DataError(
                f"{name} must hold one value for each row, but its entries differ in length "
                f"({error})."
            ) from error
        if array.dtype.kind == "c" or any(issubclass(kind, _COMPLEX) for kind in _types(array)):
            raise DataError(f"Complex data not supported: {name} is {array.dtype}.")
        if array.ndim > 0:
            return array
    hint = ""
    if isinstance(values, str):
        hint = f" To use a column of X, pass its values, such as X[{values[:60]!r}]."
    raise DataTypeError(
        f"{name} must be an array, a column of a frame, or a list with one value for each row; "
        f"got {brief(values)} ({type(values).__name__}).{hint}"
    )


def _types(array: AnyArray) -> set[type]:
    """Return the types of the items of an array of objects; of other arrays none."""
    return set(map(type, array.ravel().tolist())) if array.dtype.kind == "O" else set()


def numbers_of_rows(values: Any, name: str) -> FloatArray:
    """Convert ``values`` to float64 of any shape with an axis for the rows.

    Missing values become NaN.

    Raise ``DataTypeError`` if they are not numbers; the message names the first row.
    """
    array = values_of_rows(values, name)
    if array.dtype.kind not in "biufO":
        raise DataTypeError(f"{name} must hold numbers, got {array.dtype}.")
    if not any(issubclass(kind, str | bytes) for kind in _types(array)):
        try:
            return np.ascontiguousarray(array, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            pass  # the loop below finds the item, or only missing values
    items = array.ravel().tolist()
    found = np.empty(len(items))
    width = len(items) // max(len(array), 1)
    for k, item in enumerate(items):
        try:
            found[k] = np.nan if type(item).__name__ in MISSING_TYPES else _number(item)
        except (TypeError, ValueError, OverflowError):
            raise DataTypeError(
                f"{name} must hold numbers, but row {k // width} has {brief(item)} "
                f"({type(item).__name__}): convert it."
            ) from None
    return found.reshape(array.shape)


def _number(item: Any) -> float:
    """Convert a number, which text is not, even if Python could parse it."""
    if isinstance(item, str | bytes):
        raise TypeError
    return float(item)
