"""Partitions of Dask collections, as tasks on workers use them.

Glossary
--------
partition  consecutive rows of all collections of a training: features, target, weights
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, distinct
from hedgerow.boosting.row_data.classes import indices_of, weights_by_class
from hedgerow.boosting.row_data.row_values import FURTHER
from hedgerow.data.reading.columns import ReadColumn
from hedgerow.data.reading.frames import as_frame
from hedgerow.data.schema import default_names
from hedgerow.data.sources.base import Batch, Roles
from hedgerow.data.sources.batches import one_axis, read_columns
from hedgerow.data.sparse import is_sparse
from hedgerow.errors import DataError, HedgerowError
from hedgerow.estimators import labels


class Partition(NamedTuple):
    """Consecutive rows of all collections.

    X      frame, array of two axes, or sparse matrix
    y      target: column or array of one axis
    given  columns of further values, by argument of :class:`hedgerow.Dataset`
    """

    X: Any
    y: Any
    given: Mapping[str, Any] = {}

    @property
    def columns(self) -> list[Any]:
        """The target and all further values."""
        return [self.y, *self.given.values()]


@dataclass(frozen=True, slots=True)
class Description:
    """The client's description of a partition."""

    n_rows: int  # rows of X
    n_values: tuple[int, ...]  # rows of y and of each further part
    names: tuple[str, ...] | None  # column names of X, if it has any
    n_features: int
    checksum: int  # checksum of all values
    n_offsets: int = 0  # number of columns of the offset; 0 without an offset
    n_targets: int = 1  # number of columns of y
    target_names: tuple[str, ...] | None = None  # names of several columns of y, if it has any


def make_partition(X: Any, y: Any, **given: Any) -> Partition:
    """Combine the parts of the same rows."""
    return Partition(X, y, given)


def describe(partition: Partition, with_checksum: bool = True) -> Description:
    """Return the sizes, names and checksum of a partition."""
    X = partition.X
    return Description(
        row_count(X),
        tuple(map(row_count, partition.columns)),
        names_of(X),
        int(X.shape[1]) if len(X.shape) == 2 else -1,
        checksum_of(partition) if with_checksum else 0,
        column_count(partition.given["offset"]) if "offset" in partition.given else 0,
        column_count(partition.y),
        None if column_count(partition.y) == 1 else names_of(partition.y),
    )


def names_of(table: Any) -> tuple[str, ...] | None:
    """Return the names of the columns, or None if a table has no names that are text."""
    frame = None if isinstance(table, np.ndarray) or is_sparse(table) else as_frame(table)
    return frame.names if frame is not None and frame.named else None


def row_count(values: Any) -> int:
    """Return the number of rows of a table, dense or sparse, or of a column."""
    shape = getattr(values, "shape", None)
    return int(shape[0]) if shape else len(values)


def column_count(values: Any) -> int:
    """Return the number of columns of a table, or 1 for a column."""
    shape = np.shape(values)
    return int(shape[1]) if len(shape) > 1 else 1


def columns_of(first: Description, present: Collection[str]) -> dict[str, Any]:
    """Return the names of the columns and their roles, for :mod:`hedgerow.distributed.work`."""
    targets = _names_aside(first, "target", first.n_targets) if first.n_targets > 1 else ()
    further = [value.name for value in FURTHER if value.name in present]
    roles = Roles(
        targets=targets,
        offset=_names_aside(first, "offset", first.n_offsets),
        of_rows={name: _names_aside(first, name, 1)[0] for name in further},
        named=False,
    )
    return {"roles": roles, "names": first.names, "target_names": first.target_names}


def _names_aside(first: Description, role: str, n_columns: int) -> tuple[str, ...]:
    taken = set(first.names or default_names(max(first.n_features, 0)))
    names: list[str] = []
    for k in range(n_columns):
        name = f"{role} {k}" if n_columns > 1 else role
        while name in taken:
            name = f"_{name}"
        names.append(name)
    return tuple(names)


def checksum_of(partition: Partition) -> int:
    """Return a checksum of all values, to verify a partition that Dask computes again."""
    found = 0
    for part in (partition.X, *partition.columns):
        if is_sparse(part):
            table = part.tocsr()
            columns: Sequence[Any] = (table.data, table.indices, table.indptr)
        else:
            frame = hasattr(part, "columns")
            columns = [part[name] for name in part.columns] if frame else (part,)
        for column in columns:
            found = zlib.crc32(_bytes_of(column), found)
    return found


def _bytes_of(column: Any) -> bytes | memoryview:
    """Return the values of a column, or hashes of objects."""
    values = column if isinstance(column, np.ndarray) else column.to_numpy()
    array: AnyArray = np.ascontiguousarray(values)
    if array.dtype.kind == "O":
        import pandas as pd

        array = pd.util.hash_array(array.astype(str).astype(object).reshape(-1), categorize=True)
    return array.view(np.uint8).reshape(-1).data if array.size else b""


def check_descriptions(found: Sequence[Description]) -> None:
    """Raise if partitions have different columns."""
    first = found[0]
    for number, one in enumerate(found):
        if one.names is None or first.names is None:
            if one.n_features != first.n_features or one.names != first.names:
                raise DataError(
                    f"partition {number} has {one.n_features} columns, partition 0 has "
                    f"{first.n_features}: all must have the same."
                )
            continue
        for name in first.names:
            if name not in one.names:
                raise DataError(
                    f"partition {number} has no column {name!r}, but partition 0 does: all must "
                    "have the same columns."
                )
        for name in one.names:
            if name not in first.names:
                raise DataError(
                    f"partition {number} has a column {name!r}, but partition 0 does not: all "
                    "must have the same columns."
                )


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """Conversion of labels to class indices and weights."""

    classes: AnyArray
    weights: FloatArray | None = None  # weights of the classes


class PartitionPart:
    """A partition as a part of a source; see :class:`hedgerow.data.sources.base.Part`."""

    types_known = False

    def __init__(
        self, partition: Partition, number: int, labels: Labels | None, roles: Roles
    ) -> None:
        self.name = f"partition {number}"
        self._partition = partition
        self._labels, self._roles = labels, roles
        self._aside: tuple[ReadColumn | None, ReadColumn | None] | None = None

    def column_names(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        X = self._partition.X
        return (*(names_of(X) or default_names(X.shape[1])), *self._roles.aside())

    def batches(self, columns: Sequence[str] | None, max_bytes: int) -> Iterator[Batch]:
        """Yield the only batch, which is in memory."""
        X = self._partition.X
        n_rows = int(X.shape[0])
        if n_rows == 0:
            return
        if self._aside is None:
            try:
                self._aside = self._read_aside()
            except HedgerowError as error:
                raise type(error)(f"{self.name}: {error}") from error
        given = self._partition.given
        aside = _columns_of(given.get("offset"), self._roles.offset)
        aside |= _columns_of(self._partition.y, self._roles.targets)
        for role, name in self._roles.of_rows.items():
            values = np.asarray(one_axis(given[role], role))
            aside[name] = ReadColumn(values, sort=None, dtype=values.dtype)
        if columns is not None:
            columns = [name for name in columns if name not in aside]
        found = read_columns(X, columns)
        yield Batch(n_rows, {**found.columns, **aside}, found.named, *self._aside)

    def _read_aside(self) -> tuple[ReadColumn | None, ReadColumn | None]:
        """Return the target, unless there are several, and the weight as numbers."""
        y = None if self._roles.targets else one_axis(self._partition.y, "y")
        weight = self._partition.given.get("weight")
        if weight is not None:
            weight = one_axis(weight, "sample_weight")
        if y is None:
            return None, None if weight is None else _column(weight, "sample_weight")
        if self._labels is None:
            return _column(y, "y"), None if weight is None else _column(weight, "sample_weight")
        codes, numbers = encoded(self._partition, self._labels)
        return _column(codes, "y"), None if numbers is None else _column(numbers, "sample_weight")


def check_unchanged(
    partitions: Sequence[Partition], numbers: Sequence[int], sums: Sequence[int]
) -> None:
    """Raise if partitions have other checksums than when the training began, if those are known."""
    for partition, number in zip(partitions, numbers, strict=True):
        if len(sums) and checksum_of(partition) != sums[number]:
            raise DataError(
                f"partition {number} was computed again after a worker was lost, and has other "
                "values "
                "now: its tasks must give the same rows each time (random numbers need a seed). "
                "Write the data to files first."
            )


class NoRows:
    """Empty part of a source, for a rank without partitions."""

    types_known = False
    name = "no partition"

    def __init__(self, names: tuple[str, ...] | None) -> None:
        self._names = names

    def column_names(self) -> tuple[str, ...] | None:
        """Return the names of the columns of other partitions, or None if they have none."""
        return self._names

    def batches(self, columns: Sequence[str] | None, max_bytes: int) -> Iterator[Batch]:
        """Yield nothing."""
        return iter(())


def encoded(partition: Partition, known: Labels) -> tuple[FloatArray, FloatArray | None]:
    """Return the class index (0 for weight 0) and the weight, times class weight, of each row."""
    y, weight = label_array(partition), weight_array(partition)
    counted = slice(None) if weight is None else weight > 0.0
    codes = np.zeros(len(y))
    codes[counted] = indices_of(y[counted], known.classes, "y", "the first pass")
    if weight is not None and not weight.any():
        return codes, weight
    return codes, weights_by_class(weight, codes, known.weights)


def label_array(partition: Partition) -> AnyArray:
    """Return the labels of a non-empty partition."""
    return labels.read_labels(partition.y, row_count(partition.X), "y", "DaskHedgerowClassifier")


def weight_array(partition: Partition) -> FloatArray | None:
    """Return the weights without validation, which happens when rows are read."""
    weight = partition.given.get("weight")
    if weight is None:
        return None
    return np.ascontiguousarray(one_axis(weight, "sample_weight"), dtype=np.float64)


def unique_labels(partition: Partition, number: int) -> AnyArray:
    """Return the distinct labels of rows with positive weight, in ascending order."""
    if partition.X.shape[0] == 0:
        return np.zeros(0, dtype=object)
    try:
        y, weight = label_array(partition), weight_array(partition)
        return np.asarray(distinct(y if weight is None else y[weight > 0.0]))
    except (HedgerowError, ValueError, TypeError) as error:
        kind = type(error) if isinstance(error, HedgerowError) else DataError
        raise kind(f"partition {number}: {error}") from error


def add_masses(before: FloatArray, partition: Partition, classes: AnyArray) -> FloatArray:
    """Return the sum of weights of each class over all rows so far, added in row order."""
    if partition.X.shape[0] == 0:
        return before
    codes, _ = encoded(partition, Labels(classes))
    weight = weight_array(partition)
    weight = np.ones(len(codes)) if weight is None else weight
    places = np.concatenate((np.arange(len(classes)), codes.astype(np.intp)))
    # Added in row order, sums are the same floats as for a table in memory.
    return np.asarray(np.bincount(places, np.concatenate((before, weight)), len(classes)))


def _columns_of(given: Any, names: Sequence[str]) -> dict[str, ReadColumn]:
    """Return the columns of an offset or of several targets by name; none without names."""
    if not names:
        return {}
    table = given.toarray() if is_sparse(given) else np.asarray(given)
    table = table[:, None] if table.ndim == 1 else table
    return {name: _column(table[:, k], name) for k, name in enumerate(names)}


def _column(values: Any, name: str) -> ReadColumn:
    return read_columns({name: values}).columns[name]
