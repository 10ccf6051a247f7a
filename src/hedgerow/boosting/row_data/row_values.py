"""Values of each row beside features and target: weights, offsets, queries, groups, times, ...

One table, :data:`ROW_VALUES`, tells how each value is read and follows its rows.  All that hold
rows hold all of these values, and all that accept them go through the table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.boosting.row_data.checks import check_offset, check_weight, times_of_rows
from hedgerow.boosting.row_data.queries import (
    GroupKeys,
    gathered_queries,
    joined_queries,
    read_groups,
    read_qid,
    weight_of_rows,
)
from hedgerow.comm.base import Communicator
from hedgerow.metrics.queries import first_seen

Given: TypeAlias = Mapping[str, Any]
"""What the user gave, by argument: arrays, or names of columns; None, or absent: not given."""


class Reading(NamedTuple):
    """What reading a value of some rows needs beside the value.

    n_outputs  raw scores of each row
    called     returns the name of an argument in messages
    """

    given: Given
    n_rows: int
    n_outputs: int = 1
    called: Callable[[str], str] = str


class RowValue(ABC):
    """How a value of each row is read, and what becomes of it when rows move.

    name         argument of users
    field        attribute of :class:`RowValues`
    of_fit       argument of ``fit`` of estimators
    of_training  whether only training rows have it; it has no effect on validation rows
    in_vectors   whether rows in files have it beside their targets, so that it is read in each pass
    dtype        of the array
    """

    name: ClassVar[str]
    field: ClassVar[str]
    of_fit: ClassVar[str]
    of_training: ClassVar[bool] = False
    in_vectors: ClassVar[bool] = False
    dtype: ClassVar[type] = np.float64

    @abstractmethod
    def read(self, given: Any, name: str, rows: Reading) -> Any:
        """Check and convert what the user gave; messages call it ``name``."""

    def of(self, rows: Reading) -> Any:
        """Read the value of rows in memory; None if it was not given."""
        given = rows.given.get(self.name)
        return None if given is None else self.read(given, rows.called(self.name), rows)

    def take(self, value: Any, rows: Any) -> Any:
        """Return the value of some rows: numbers, a mask or a slice."""
        return value[rows]

    def join(self, values: Sequence[Any]) -> Any:
        """Concatenate the values of several tables, or of copies of one."""
        return np.concatenate(values)

    def digested(self, value: Any) -> AnyArray:
        """Return the array that identifies the value in checkpoints."""
        found: AnyArray = value
        return found

    def read_part(self, given: Any, name: str, rows: Reading) -> Any:
        """Read the value of a part: rows that are read together, as a batch or a partition."""
        return self.read(given, name, rows)

    def gather(self, parts: Sequence[Any], others: Communicator) -> Any:
        """Join the parts of this rank, which the others do at the same time."""
        return np.concatenate([np.zeros(0, self.dtype), *parts])


class _Weight(RowValue):
    name, field, of_fit = "weight", "weight", "sample_weight"
    in_vectors = True

    def read(self, given: Any, name: str, rows: Reading) -> FloatArray | None:
        weight = weight_of_rows(given, rows.given.get("qid"), rows.n_rows, name)
        return check_weight(weight, rows.n_rows, name)


class _Offset(RowValue):
    name = field = of_fit = "offset"
    in_vectors = True

    def read(self, given: Any, name: str, rows: Reading) -> FloatArray | None:
        return check_offset(given, rows.n_rows, rows.n_outputs, name)

    def take(self, value: FloatArray, rows: Any) -> FloatArray:
        return np.ascontiguousarray(value[:, rows])

    def join(self, values: Sequence[FloatArray]) -> FloatArray:
        return np.concatenate(values, axis=1)


class _Query(RowValue):
    name, field, of_fit = "qid", "query", "qid"

    def read(self, given: Any, name: str, rows: Reading) -> IntArray:
        return read_qid(given, rows.n_rows, name)

    def join(self, values: Sequence[IntArray]) -> IntArray:
        return joined_queries(values)

    def digested(self, value: IntArray) -> AnyArray:
        return first_seen(value)

    def read_part(self, given: Any, name: str, rows: Reading) -> GroupKeys:
        return read_groups(given, rows.n_rows, name)

    def gather(self, parts: Sequence[GroupKeys], others: Communicator) -> IntArray:
        return gathered_queries(parts, others)


class _Group(RowValue):
    name, field, of_fit = "groups", "group", "groups"
    of_training = True
    dtype = np.uint64

    def read(self, given: Any, name: str, rows: Reading) -> GroupKeys:
        return read_groups(given, rows.n_rows, name)


class _Time(RowValue):
    name = field = of_fit = "time"
    of_training = True

    def read(self, given: Any, name: str, rows: Reading) -> FloatArray:
        return times_of_rows(given, rows.n_rows, name)


WEIGHT = _Weight()
ROW_VALUES: tuple[RowValue, ...] = (WEIGHT, _Offset(), _Query(), _Group(), _Time())
"""All values of rows; CONTRIBUTING.md tells how to add one."""

FURTHER = tuple(value for value in ROW_VALUES if not value.in_vectors)
"""Values that rows in files have beside targets, weights and offsets."""

OF_TRAINING = tuple(value.name for value in ROW_VALUES if value.of_training)
"""Names of the values that have no effect on validation rows."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RowValues:
    """Values of each row; None for those that were not given.

    weight    float64 (n_rows,); None if all weights are 1
    offset    float64 (n_outputs, n_rows): known part of the raw score; trees learn the remainder
    query     int64 (n_rows,), for rankings: rows of a query compete with each other
    group     uint64 (n_rows,): groups are held out together
              (:mod:`hedgerow.boosting.row_data.queries`)
    time      float64 (n_rows,): later rows are held out
    """

    weight: FloatArray | None = None
    offset: FloatArray | None = None
    query: IntArray | None = None
    group: GroupKeys | None = None
    time: FloatArray | None = None

    def __iter__(self) -> Iterator[tuple[RowValue, Any]]:
        """Yield the values that were given, with their descriptions."""
        for value in ROW_VALUES:
            own = getattr(self, value.field)
            if own is not None:
                yield value, own

    @property
    def present(self) -> dict[str, Any]:
        """The values that were given, by field."""
        return {value.field: own for value, own in self}

    def take(self, rows: Any) -> RowValues:
        """Return the values of some rows: numbers, a mask or a slice."""
        return RowValues(**{value.field: value.take(own, rows) for value, own in self})

    def repeated(self, n_copies: int) -> RowValues:
        """Return the values of copies of all rows, one copy after another."""
        return RowValues(**{value.field: value.join([own] * n_copies) for value, own in self})

    def digested(self) -> dict[str, AnyArray]:
        """Return the arrays that identify the values in checkpoints, by argument of ``fit``."""
        return {value.of_fit: value.digested(own) for value, own in self}


def given_values(arguments: Given, suffix: str = "") -> dict[str, Any]:
    """Return the values of rows among the arguments of a function, by name."""
    # ``suffix`` is what the arguments' own names end with.
    found = {}
    for value in ROW_VALUES:
        names = {f"{value.name}{suffix}", f"{value.of_fit}{suffix}"} & arguments.keys()
        if names:
            found[value.name] = arguments[names.pop()]
    return found
