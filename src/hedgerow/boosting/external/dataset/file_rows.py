"""Rows of a source with target, weight and offset, in batches.

Rows of weight 0 count as absent: they are dropped here, before rows are numbered.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from hedgerow.arrays import AnyArray, BoolArray, FloatArray, IntArray
from hedgerow.boosting.row_data.checks import check_finite, check_offset, check_weight
from hedgerow.boosting.row_data.class_weights import weights_by_class
from hedgerow.boosting.row_data.row_values import Reading, RowValue
from hedgerow.data.reading.columns import ReadColumn
from hedgerow.data.sources.base import Batch, Part, Roles, check_same_columns, no_column
from hedgerow.data.sources.batches import vector_of
from hedgerow.data.sources.opening import Source
from hedgerow.data.sources.paths import changed
from hedgerow.data.sparse import AnyTable
from hedgerow.errors import DataError, HedgerowError, ParameterError, StorageError

ReadTarget: TypeAlias = Callable[[ReadColumn, str], FloatArray]
"""Converts a target column of this name to float64: numbers, or class indices."""

ReadTimes: TypeAlias = Callable[[Sequence[ReadColumn]], FloatArray]
"""Converts all target columns together to times of events."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of positive weight of a batch.

    Attributes
    ----------
    part : Part
    batch : Batch
        The batch with all of its rows.
    kept : int64, or None
        Indices of these rows in the batch; None: all of its rows.
    target : float64 (n_rows,), or (n_rows, n_targets) in Fortran order
        Targets of these rows, as are the next three.
    weight : float64, or None
    offset : float64 (n_outputs, n_rows), or None
    others : mapping from str to array
        Further values of these rows, as given, by argument.
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
            self.target[places],
            None if self.weight is None else self.weight[places],
            None if self.offset is None else np.ascontiguousarray(self.offset[:, places]),
            {role: values[places] for role, values in self.others.items()},
        )

    def of(self, table: AnyTable) -> AnyTable:
        """Return these rows of a table that has all rows of the batch."""
        return table if self.kept is None else table.take(self.kept)

    def part_of(self, value: RowValue) -> Any:
        """Return a further value of these rows, checked and converted."""
        name, rows = f"{self.part.name}: {value.name}", Reading(self.others, self.n_rows)
        return value.read_part(self.others[value.name], name, rows)


def numeric_target(column: ReadColumn, name: str) -> FloatArray:
    """Return numeric targets unchanged; raise ``DataTypeError`` for other types."""
    return vector_of(column, name, "target")


class RowReader:
    """Reads a source repeatedly, and checks that it does not change.

    Parameters
    ----------
    source : Source
    max_bytes : int
        Largest memory of a batch.
    read_target : callable
    read_times : callable, optional
        Reads the targets in place of ``read_target``.
    class_weight : float64 (n_classes,), optional
        Factor on the weights of the rows of each class; the targets are class indices.
    """

    def __init__(
        self,
        source: Source,
        max_bytes: int,
        read_target: ReadTarget = numeric_target,
        read_times: ReadTimes | None = None,
        class_weight: FloatArray | None = None,
    ) -> None:
        self.source, self.read_target, self.read_times = source, read_target, read_times
        self.class_weight = class_weight
        self._max_bytes = max_bytes
        self._known: dict[int, tuple[int, int]] = {}
        self._columns: tuple[str, ...] | None = None
        self._has_weight: bool | None = None
        self._first = ""
        names = source.parts[0].column_names() if source.parts else None
        if names is not None:
            self._columns, self._first = tuple(names), source.parts[0].name

    @property
    def columns(self) -> tuple[str, ...] | None:
        """All columns of the first part; None before they are known."""
        return self._columns

    def features(self) -> tuple[str, ...]:
        """Return the names of the features; none for sparse rows."""
        if not self._columns:
            return ()
        return self.source.roles.features_of(self._columns, self._first)

    def read(self, features: bool = True, n_outputs: int | None = None) -> Iterator[Rows]:
        """Yield all rows from the start."""
        for number, part in enumerate(self.source.parts):
            n_rows, checksum = 0, 0
            for batch in part.batches(self._wanted(features), self._max_bytes):
                if batch.n_rows == 0:
                    continue
                self._look_at(batch, part, features)
                try:
                    rows = self._rows(part, batch, n_outputs)
                except HedgerowError as error:
                    if str(error).startswith(part.name):
                        raise
                    at = f" (its rows from {n_rows:,} on)"
                    raise type(error)(f"{part.name}{at}: {error}") from error
                n_rows += batch.n_rows
                checksum = zlib.crc32(rows.target.tobytes(), checksum)
                yield rows
            self._compare(number, part, (n_rows, checksum))

    def _wanted(self, features: bool) -> Sequence[str] | None:
        if self._columns is None:
            return None
        aside = self.source.roles.aside()
        return (*aside, *self.features()) if features else aside

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

    def _rows(self, part: Part, batch: Batch, n_outputs: int | None) -> Rows:
        roles = self._roles
        values = self._targets(batch)
        weight = self._vector(batch, batch.weight, roles.weight, "weight")
        if self._has_weight is None:
            self._has_weight = weight is not None
        if self._has_weight != (weight is not None):
            raise DataError("some batches have weights and others have none.")
        offset = None
        if roles.offset and n_outputs is not None:
            parts = [self._named(batch, name, "offset") for name in roles.offset]
            offset = check_offset(np.column_stack(parts), batch.n_rows, n_outputs)
        known = {
            role: self._column(batch, name, role).as_array() for role, name in roles.of_rows.items()
        }
        numbers = None
        if weight is not None:
            numbers = checked_weight(vector_of(weight, roles.weight or "weight", "weight"))
        if self.class_weight is not None and (numbers is None or numbers.any()):
            numbers = weights_by_class(numbers, values, self.class_weight)
        if numbers is None:
            return Rows(part, batch, None, values, None, offset, known)
        if (numbers > 0.0).all():
            return Rows(part, batch, None, values, numbers, offset, known)
        kept = np.flatnonzero(numbers > 0.0)
        if offset is not None:
            offset = np.ascontiguousarray(offset[:, kept])
        known = {role: found[kept] for role, found in known.items()}
        return Rows(
            part, batch, kept, np.asfortranarray(values[kept]), numbers[kept], offset, known
        )

    def _targets(self, batch: Batch) -> FloatArray:
        """Return the target of each row of a batch, or several as columns in Fortran order."""
        roles, given, columns = self._roles, list[ReadColumn](), list[FloatArray]()
        for name in roles.targets or (None,):
            target = self._vector(batch, batch.target, name, "target")
            if target is None:
                raise ParameterError(
                    "the batches contain no target: name a column (target=), or give tuples X, y."
                )
            given.append(target)
        if self.read_times is not None:
            return self.read_times(given)
        for target, name in zip(given, roles.targets or (None,), strict=True):
            columns.append(self.read_target(target, name or "y"))
            check_finite(columns[-1], "y" if len(roles.targets) < 2 else f"y (column {name!r})")
        return columns[0] if len(columns) == 1 else np.asfortranarray(np.column_stack(columns))

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

    def _named(self, batch: Batch, name: str, role: str) -> FloatArray:
        return vector_of(self._column(batch, name, role), name, role)

    def _column(self, batch: Batch, name: str, role: str) -> ReadColumn:
        column = self._vector(batch, None, name, role)
        assert column is not None
        return column


def checked_weight(weight: FloatArray) -> FloatArray:
    """Check the weights of a batch, which may all be 0; see :func:`check_weight`."""
    if not weight.any():
        return weight
    checked: Any = check_weight(weight, len(weight), "weight")
    return np.asarray(checked)
