"""Rows of a source with target, weight and offset, in batches.

Rows of weight 0 count as absent: they are dropped here, before rows are numbered.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, BoolArray, FloatArray, IntArray
from hedgerow.boosting.row_data.checks import check_finite, check_offset, check_weight
from hedgerow.boosting.row_data.classes import CodedLabels
from hedgerow.boosting.row_data.row_values import FURTHER, Reading, RowValues
from hedgerow.comm.base import Communicator
from hedgerow.data.reading.columns import ReadColumn
from hedgerow.data.sources.base import Batch, Part, Roles, check_same_columns, no_column
from hedgerow.data.sources.batches import vector_of
from hedgerow.data.sources.opening import Source
from hedgerow.data.sources.paths import changed
from hedgerow.errors import DataError, DataTypeError, HedgerowError, ParameterError, StorageError

MOST_LABELS = 10_000
"""Most different targets that are numbered, and most classes."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of positive weight of a batch.

    kept    indices of these rows in the batch; None: all of its rows
    target  float64 (n_rows,), or (n_rows, n_targets) in Fortran order
    values  parts of the values of these rows, by field, if they were asked for
    """

    part: Part
    batch: Batch
    kept: IntArray | None
    target: FloatArray
    values: Mapping[str, Any]

    @property
    def n_rows(self) -> int:
        return len(self.target)


class LabelNumbers:
    """Numbers of different targets, in the order of their first occurrence."""

    def __init__(self) -> None:
        self._number_of: dict[Any, int] = {}
        self._is_text: bool | None = None
        self._has_more = False

    def read(self, column: ReadColumn, name: str) -> FloatArray:
        """Return the number of each target; -1 for targets beyond ``MOST_LABELS``."""
        values, codes = _distinct(column, name)
        is_text = column.sort == "text"
        if self._is_text is not None and is_text != self._is_text:
            raise DataTypeError(f"target {name!r} holds text in some rows and numbers in others.")
        self._is_text = is_text
        return np.array([float(self._number(value)) for value in values])[codes]

    def _number(self, value: Any) -> int:
        if len(self._number_of) >= MOST_LABELS and value not in self._number_of:
            self._has_more = True
            return -1
        return self._number_of.setdefault(value, len(self._number_of))

    def labels(self, numbers: FloatArray) -> CodedLabels:
        """Return the labels of rows whose targets have these numbers."""
        values = list(self._number_of)
        array: AnyArray = np.array(values)
        if not self._is_text:
            integers = all(float(value).is_integer() and abs(value) < 2**63 for value in values)
            array = np.array(values, dtype=np.int64 if integers else np.float64)
        order = np.argsort(array, kind="stable")
        place = np.full(len(order) + 1, -1)  # the last one: of those beyond
        place[order] = np.arange(len(order))
        return CodedLabels(array[order], place[numbers.astype(np.intp)], self._has_more)


def _distinct(column: ReadColumn, name: str) -> tuple[list[Any], IntArray]:
    """Return the different targets, and the index of each row's target among them."""
    missing = column.missing()
    if missing.any():
        raise DataError(
            f"target {name!r} is missing in {int(missing.sum())} of {len(missing)} rows, the first "
            f"is row {int(missing.argmax()) + 1} of them: remove these rows."
        )
    if column.codes is not None and column.is_text:
        return [str(text) for text in column.values], column.codes
    found, inverse = np.unique(column.plain(""), return_inverse=True)
    if not np.isfinite(found.astype(np.float64)).all():
        raise DataError(f"target {name!r} is infinite in some rows: remove these rows.")
    return found.tolist(), inverse.reshape(-1)


class RowReader:
    """Reads a source repeatedly, and checks that it does not change.

    labels      numbers of targets that are labels; None: targets are numbers
    are_truths  whether each target has no other values than True and False
    """

    def __init__(self, source: Source, max_bytes: int, labels: LabelNumbers | None = None) -> None:
        self.source, self.labels, self._roles = source, labels, source.roles
        self.are_truths: BoolArray = np.ones(max(1, len(source.roles.targets)), dtype=np.bool_)
        self._max_bytes = max_bytes
        self._known: dict[int, tuple[int, int]] = {}
        self._columns: tuple[str, ...] | None = None
        self._has_weight: bool | None = None
        self._first = ""
        names = source.parts[0].column_names() if source.parts else None
        if names is not None:
            self._columns, self._first = tuple(names), source.parts[0].name

    def features(self) -> tuple[str, ...]:
        """Return the names of the features; none before the first batch."""
        if not self._columns:
            return ()
        return self.source.roles.features_of(self._columns, self._first)

    def read(self, features: bool = True, values: bool = False) -> Iterator[Rows]:
        """Yield all rows from the start, with or without their features and values."""
        for number, part in enumerate(self.source.parts):
            n_rows, checksum, wanted = 0, 0, None
            if self._columns is not None:
                wanted = (*self._roles.aside(), *(self.features() if features else ()))
            for batch in part.batches(wanted, self._max_bytes):
                if batch.n_rows == 0:
                    continue
                self._look_at(batch, part, features)
                try:
                    rows = self._rows(part, batch, values)
                except HedgerowError as error:
                    if str(error).startswith(part.name):
                        raise
                    at = f" (its rows from {n_rows:,} on)"
                    raise type(error)(f"{part.name}{at}: {error}") from error
                n_rows += batch.n_rows
                checksum = zlib.crc32(rows.target.tobytes(), checksum)
                yield rows
            self._compare(number, part, (n_rows, checksum))

    def _compare(self, number: int, part: Part, found: tuple[int, int]) -> None:
        known = self._known.setdefault(number, found)
        if known[0] != found[0]:
            raise changed(part.name, f"it had {known[0]:,} rows, now it has {found[0]:,}")
        if known != found:
            raise StorageError(
                f"{part.name} returned other targets, or another order, than on the first read: "
                "data are read more than once, and must be the same each time."
            )

    def _look_at(self, batch: Batch, part: Part, features: bool) -> None:
        """Check the columns of a batch if its part could not list them before."""
        # ``features``: whether the batch was read with its features.
        if part.column_names() is not None:
            return
        names = tuple(batch.columns)
        if self._columns is None:
            self._columns, self._first = names, part.name
            self.features()
            self._roles.check_drop(names, part.name)
            return
        needed = (*self._roles.aside(), *(self.features() if features else ()))
        if names != self._columns and not set(needed) <= set(names):
            check_same_columns("the first batch", self._columns, "a batch", names, self._roles)

    def _rows(self, part: Part, batch: Batch, with_values: bool) -> Rows:
        target, weight, kept = self._targets(batch), None, None
        given = self._vector(batch, batch.weight, self._roles.weight, "weight")
        if self._has_weight is None:
            self._has_weight = given is not None
        if self._has_weight != (given is not None):
            raise DataError("some batches have weights and others have none.")
        if given is not None:
            weight = vector_of(given, self._roles.weight or "weight", "weight")
            if weight.any():  # all weights of a batch may be 0
                check_weight(weight, len(weight), "weight")
            if not (weight > 0.0).all():
                kept = np.flatnonzero(weight > 0.0)
                target = np.asfortranarray(target[kept])
        values = self._values(part, batch, weight, kept) if with_values else {}
        return Rows(part, batch, kept, target, values)

    def _values(
        self, part: Part, batch: Batch, weight: FloatArray | None, kept: IntArray | None
    ) -> dict[str, Any]:
        """Return the values of the rows of positive weight, checked and converted, by field."""
        roles, found = self._roles, dict[str, Any]()
        some = slice(None) if kept is None else kept
        if weight is not None:
            found["weight"] = weight[some].copy()  # a function may yield one array again
        if roles.offset:
            named = [(_column(batch, name, "offset"), name) for name in roles.offset]
            parts = [vector_of(column, name, "offset") for column, name in named]
            offset = check_offset(np.column_stack(parts), batch.n_rows, len(parts))
            assert offset is not None
            found["offset"] = offset[:, some].copy()
        for value in FURTHER:
            if value.name in roles.of_rows:
                own = _column(batch, roles.of_rows[value.name], value.name).as_array()[some]
                reading = Reading({value.name: own}, len(own))
                found[value.field] = value.read_part(own, f"{part.name}: {value.name}", reading)
        return found

    def _targets(self, batch: Batch) -> FloatArray:
        """Return the target of each row of a batch, or several as columns in Fortran order."""
        roles, given = self._roles, list[ReadColumn]()
        for name in roles.targets or (None,):
            target = self._vector(batch, batch.target, name, "target")
            if target is None:
                raise ParameterError(
                    "the batches contain no target: name a column (target=), or give tuples X, y."
                )
            given.append(target)
        names = roles.targets or ("y",)
        if self.labels is not None:
            return self.labels.read(given[0], names[0])
        self.are_truths &= [_is_truth(target) for target in given]
        columns = [vector_of(*each, "target") for each in zip(given, names, strict=True)]
        if len(columns) == 1:
            check_finite(columns[0], "y")
            return columns[0]
        return np.asfortranarray(np.column_stack(columns))  # ends of intervals may be infinite

    def _vector(
        self, batch: Batch, given: ReadColumn | None, name: str | None, role: str
    ) -> ReadColumn | None:
        if name is None:
            return given
        if given is not None:
            raise ParameterError(
                f"{role}={name!r} names a column, but batches are tuples that hold the {role} "
                f"themselves: leave {role} out."
            )
        return _column(batch, name, role)


def _column(batch: Batch, name: str, role: str) -> ReadColumn:
    if name not in batch.columns:
        raise no_column("a batch", name, role, tuple(batch.columns))
    return batch.columns[name]


def _is_truth(column: ReadColumn) -> bool:
    """Return whether all values of a column of a batch are True or False."""
    if str(column.dtype) in ("Boolean", "bool"):
        return True
    # Objects are small numbers if all are True or False.
    return str(column.dtype) == "object" and column.is_small


def joined_values(
    parts: Sequence[Mapping[str, Any]], n_rows: int, roles: Roles, communicator: Communicator
) -> RowValues:
    """Join the values of all rows, numbered on all ranks in the same way."""
    # There are no weights if all of all ranks are 1.
    of_field = {field: [part[field] for part in parts] for field in (parts[0] if parts else ())}
    weights, found = of_field.get("weight", []), dict[str, Any]()
    is_weighted = np.array([any(not (part == 1.0).all() for part in weights)], dtype=np.int64)
    if communicator.allreduce(is_weighted, "max")[0] and (weights or n_rows == 0):
        found["weight"] = np.concatenate([np.zeros(0), *weights])
    if roles.offset:
        none = np.zeros((len(roles.offset), 0))
        found["offset"] = np.concatenate([none, *of_field.get("offset", [])], axis=1)
    for value in FURTHER:
        if value.name in roles.of_rows:
            found[value.field] = value.gather(of_field.get(value.field, []), communicator)
    return RowValues(**found)
