"""Rows of a source with target, weight and offset, in batches.

Rows of weight 0 count as absent: they are dropped here, before rows are numbered.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, BoolArray, FloatArray, IntArray
from hedgerow.boosting.row_data.checks import check_finite, check_offset, check_weight
from hedgerow.boosting.row_data.classes import CodedLabels
from hedgerow.boosting.row_data.row_values import FURTHER, ROW_VALUES, Reading, RowValue, RowValues
from hedgerow.comm.base import Communicator
from hedgerow.data.reading.columns import ReadColumn
from hedgerow.data.sources.base import Batch, Part, Roles, check_same_columns, no_column
from hedgerow.data.sources.batches import vector_of
from hedgerow.data.sources.opening import Source
from hedgerow.data.sources.paths import changed
from hedgerow.data.sparse import AnyTable
from hedgerow.errors import (
    DataError,
    DataTypeError,
    HedgerowError,
    ParameterError,
    StorageError,
)

MOST_LABELS = 10_000
"""Most different targets that are numbered, and most classes."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of positive weight of a batch.

    batch   the batch with all of its rows
    kept    indices of these rows in the batch; None: all of its rows
    target  float64 (n_rows,), or (n_rows, n_targets) in Fortran order: of these rows, as are the
            next three
    offset  float64 (n_outputs, n_rows)
    others  further values, as given, by argument
    """

    part: Part
    batch: Batch
    kept: IntArray | None
    target: FloatArray
    weight: FloatArray | None
    offset: FloatArray | None
    others: Mapping[str, AnyArray] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        return len(self.target)

    def where(self, wanted: BoolArray) -> Rows:
        """Return some of these rows."""
        if wanted.all():
            return self
        places = np.flatnonzero(wanted)
        return Rows(
            self.part,
            self.batch,
            places if self.kept is None else self.kept[places],
            np.asfortranarray(self.target[places]),
            None if self.weight is None else self.weight[places],
            None if self.offset is None else np.ascontiguousarray(self.offset[:, places]),
            {role: values[places] for role, values in self.others.items()},
        )

    def of(self, table: AnyTable) -> AnyTable:
        """Return these rows of a table that has all rows of the batch."""
        return table if self.kept is None else table.take(self.kept)

    def part_of(self, value: RowValue) -> Any:
        """Return a value of these rows, checked and converted; None if they do not have it."""
        if value.in_vectors:
            own = getattr(self, value.field)
            return None if own is None else own.copy()  # a function may yield one array again
        if value.name not in self.others:
            return None
        name, rows = f"{self.part.name}: {value.name}", Reading(self.others, self.n_rows)
        return value.read_part(self.others[value.name], name, rows)


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

    max_bytes   largest memory of a batch
    labels      numbers of targets that are labels; None: targets are numbers
    are_truths  whether each target has no other values than True and False
    """

    def __init__(self, source: Source, max_bytes: int, labels: LabelNumbers | None = None) -> None:
        self.source, self.labels = source, labels
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
        """Return the names of the features; none for sparse rows."""
        if not self._columns:
            return ()
        return self.source.roles.features_of(self._columns, self._first)

    def read(self, features: bool = True) -> Iterator[Rows]:
        """Yield all rows from the start."""
        for number, part in enumerate(self.source.parts):
            n_rows, checksum, wanted = 0, 0, None
            if self._columns is not None:
                wanted = (*self._roles.aside(), *(self.features() if features else ()))
            for batch in part.batches(wanted, self._max_bytes):
                if batch.n_rows == 0:
                    continue
                self._look_at(batch, part, features)
                try:
                    rows = self._rows(part, batch)
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
        """Check the columns of a batch if its part could not list them before.

        ``features``: whether the batch was read with its features.
        """
        if batch.sparse is not None or part.column_names() is not None:
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

    @property
    def _roles(self) -> Roles:
        return self.source.roles

    def _rows(self, part: Part, batch: Batch) -> Rows:
        roles = self._roles
        values = self._targets(batch)
        weight = self._vector(batch, batch.weight, roles.weight, "weight")
        if self._has_weight is None:
            self._has_weight = weight is not None
        if self._has_weight != (weight is not None):
            raise DataError("some batches have weights and others have none.")
        offset = None
        if roles.offset:
            parts = [
                vector_of(self._column(batch, name, "offset"), name, "offset")
                for name in roles.offset
            ]
            offset = check_offset(np.column_stack(parts), batch.n_rows, len(parts))
        known = {
            role: self._column(batch, name, role).as_array() for role, name in roles.of_rows.items()
        }
        numbers = None
        if weight is not None:
            numbers = vector_of(weight, roles.weight or "weight", "weight")
            if numbers.any():  # all weights of a batch may be 0
                numbers = check_weight(numbers, len(numbers), "weight")
        rows = Rows(part, batch, None, values, numbers, offset, known)
        return rows if numbers is None else rows.where(numbers > 0.0)

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
        if name not in batch.columns:
            raise no_column("a batch", name, role, tuple(batch.columns))
        return batch.columns[name]

    def _column(self, batch: Batch, name: str, role: str) -> ReadColumn:
        column = self._vector(batch, None, name, role)
        assert column is not None
        return column


def _is_truth(column: ReadColumn) -> bool:
    """Return whether all values of a column of a batch are True or False."""
    if str(column.dtype) in ("Boolean", "bool"):
        return True
    # Objects are small numbers if all are True or False.
    return str(column.dtype) == "object" and column.is_small


class RowFacts:
    """What all rows of positive weight have beside features, in order: arrays in memory.

    target  float64 (n_rows,), or (n_rows, n_targets) in Fortran order
    values  numbered on all ranks in the same way; no weights if all of all ranks are 1
    """

    def __init__(self, roles: Roles) -> None:
        several = len(roles.targets) > 1
        self.target: FloatArray = np.zeros((0, len(roles.targets)) if several else 0)
        self.values = RowValues()
        self._roles = roles
        self._targets: list[FloatArray] = []
        self._parts: dict[str, list[Any]] = {}

    def add(self, rows: Rows) -> None:
        """Add the next rows."""
        self._targets.append(rows.target.copy())
        for value in ROW_VALUES:
            own = rows.part_of(value)
            if own is not None:
                self._parts.setdefault(value.field, []).append(own)

    def finish(self, communicator: Communicator) -> int:
        """Join the rows, and number their values on all ranks; return the rows of all ranks."""
        n_rows = sum(map(len, self._targets))
        weights = self._parts.get("weight", [])
        weighted = any(not (part == 1.0).all() for part in weights)
        facts = np.array([n_rows, weighted], dtype=np.int64)
        n_all, n_weighted = communicator.allreduce(facts).tolist()
        if n_rows > 0:
            self.target = np.asfortranarray(np.concatenate(self._targets))
        found: dict[str, Any] = {}
        if n_weighted > 0 and (weights or n_rows == 0):
            found["weight"] = np.concatenate([np.zeros(0), *weights])
        if self._roles.offset:
            none = np.zeros((len(self._roles.offset), 0))
            found["offset"] = np.concatenate([none, *self._parts.get("offset", [])], axis=1)
        for value in FURTHER:
            if value.name in self._roles.of_rows:
                parts = self._parts.get(value.field, [])
                found[value.field] = value.gather(parts, communicator)
        self.values = RowValues(**found)
        self._targets, self._parts = [], {}
        return int(n_all)
