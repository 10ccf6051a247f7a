"""Batches: read as tables in memory are, given by a function, and converted with a schema.

Pass two reads a batch with the schema from pass one, so a row gets the same bins as in memory,
whichever batch contains it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray
from hedgerow.cuda.arrays import on_host
from hedgerow.data.categories.columns import nearly_numbers
from hedgerow.data.external.memory import available_memory, shown_bytes
from hedgerow.data.reading.columns import ReadColumn, floats_of_column
from hedgerow.data.reading.frames import as_frame, read_series, warn_of_labels
from hedgerow.data.reading.objects import is_named, named_columns, read_column
from hedgerow.data.reading.table import Table, with_schema
from hedgerow.data.schema import Schema, default_names
from hedgerow.data.sources.base import Batch
from hedgerow.data.sparse import is_sparse, mark_zeros
from hedgerow.errors import DataError, DataTypeError, HedgerowError, StorageError, brief


def read_columns(X: Any, wanted: Sequence[str] | None = None) -> Batch:
    """Read a batch of any kind that :func:`hedgerow.data.read_any` accepts; sparse rows densely."""
    if is_sparse(X):
        needed = X.shape[0] * X.shape[1] * X.dtype.itemsize
        if needed > available_memory():
            raise DataError(
                f"a batch of {X.shape[0]:,} sparse rows with {X.shape[1]:,} columns takes "
                f"{shown_bytes(needed)}: give smaller batches, or all rows as one sparse matrix."
            )
        X = X.toarray()
    if is_named(X):
        named = named_columns(X)
        chosen = named if wanted is None else [name for name in named if name in wanted]
        found = {name: read_column(named[name], name) for name in chosen}
        return Batch(len(next(iter(named.values()), ())), found)
    if not isinstance(X, np.ndarray | list | tuple):
        frame = as_frame(X)
        if frame is not None:
            warn_of_labels(frame)
            series = zip(frame.columns, frame.names, strict=True)
            read = {n: read_series(s, n) for s, n in series if wanted is None or n in wanted}
            return Batch(len(frame.table), read, frame.named)
    array: AnyArray = X if isinstance(X, np.ma.MaskedArray) else np.asarray(on_host(X))
    if array.ndim != 2:
        raise DataError(f"a batch must have two axes, rows and columns; got shape {array.shape}.")
    names = default_names(array.shape[1])
    places = [j for j, n in enumerate(names) if wanted is None or n in wanted]
    return Batch(len(array), {names[j]: read_column(array[:, j], names[j]) for j in places}, False)


def vector_of(column: ReadColumn, name: str, role: str) -> npt.NDArray[np.float64]:
    """Convert a target, weight or offset to float64."""
    hint = ""
    if not isinstance(column.values, np.ndarray):
        found = nearly_numbers(column.values, column.counts())
        hint = "" if found is None else f" {found}, but not {brief(found.odd)}."
    numbers = column.plain(
        f"{role} column {name!r} has type {column.dtype}, but must hold numbers.{hint}"
    )
    if column.sort not in (None, "numbers"):
        raise DataTypeError(f"{role} column {name!r} holds {column.sort}, but must hold numbers.")
    return np.ascontiguousarray(floats_of_column(numbers, "int"), dtype=np.float64)


BatchFunction: TypeAlias = Callable[[], Any]
"""Function that returns a new iterator, or an Arrow stream, of the same batches at each call."""


class FunctionPart:
    """All batches of a function; see :class:`hedgerow.data.sources.base.Part`."""

    types_known = False
    name = "the batches"

    def __init__(self, function: BatchFunction) -> None:
        if not callable(function):
            raise DataTypeError(
                f"batches must be a function that gives a new iterator each time it is called, as "
                f"data are read more than once; got {type(function).__name__}. "
                "Write from_batches(lambda: ...)."
            )
        self._function = function
        self._n_rows: int | None = None

    def column_names(self) -> None:
        """Return None: the names are unknown before the first batch."""
        return

    def batches(self, columns: Sequence[str] | None, max_bytes: int) -> Iterator[Batch]:
        """Call the function and yield its batches."""
        n_rows = 0
        for number, item in enumerate(_items(self._function())):
            batch = _read(item, columns, number)
            n_rows += batch.n_rows
            if batch.n_rows:
                yield batch
        if self._n_rows is None:
            self._n_rows = n_rows
        elif n_rows != self._n_rows:
            raise StorageError(
                f"the function gave {self._n_rows:,} rows when it was called first, now "
                f"{n_rows:,}: data are read more than once, and it must give the same batches "
                "each time."
            )


def _items(found: Any) -> Iterable[Any]:
    """Return the batches from the result of a call."""
    if hasattr(found, "__arrow_c_stream__") and not isinstance(found, Iterator):
        try:
            import pyarrow as pa
        except ImportError as error:
            raise DataTypeError(
                "an Arrow stream is read by pyarrow: pip install 'hedgerow[files]'."
            ) from error
        return iter(pa.RecordBatchReader.from_stream(found))
    if not isinstance(found, Iterable) or isinstance(found, (str, bytes, dict, np.ndarray)):
        raise DataTypeError(
            "the function must give an iterator of batches (frames, dicts of arrays, tuples X, y), "
            f"or an object with __arrow_c_stream__; it gave {type(found).__name__}."
        )
    return found


def _read(item: Any, columns: Sequence[str] | None, number: int) -> Batch:
    try:
        if not isinstance(item, tuple):
            return read_columns(item, columns)
        if len(item) not in (2, 3):
            raise DataError(f"a tuple must be (X, y) or (X, y, weight); got one of {len(item)}.")
        vectors = {
            name: read_columns({name: one_axis(values, name)}).columns[name]
            for name, values in zip(("y", "weight"), item[1:], strict=False)
        }
        batch = read_columns(item[0])
        for name, vector in vectors.items():
            if len(vector) != batch.n_rows:
                raise DataError(f"{name} has {len(vector)} values for {batch.n_rows} rows of X.")
        return replace(batch, target=vectors["y"], weight=vectors.get("weight"))
    except HedgerowError as error:
        raise type(error)(f"batch {number}: {error}") from error


def one_axis(values: Any, name: str) -> Any:
    """Return a column of a frame, or an array, without axes of length 1."""
    if isinstance(values, Mapping):
        lengths = [len(column) for column in values.values()]
        raise not_one_axis(name, (max(lengths, default=0), len(lengths)))
    array = values if isinstance(values, np.ma.MaskedArray) else np.asarray(on_host(values))
    if array.dtype.names is not None:
        raise not_one_axis(name, (len(array), len(array.dtype.names)))
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise not_one_axis(name, array.shape)
    return array


def not_one_axis(name: str, shape: tuple[Any, ...]) -> DataError:
    """Return the error for a target or weight that is not a single column."""
    hint = ""
    if name.startswith("y") and len(shape) == 2:
        hint = (
            " Several targets, and times in two columns (event and time, or lower and upper end), "
            "need names: give frames that hold these columns, and for batches their names, as "
            "target=['event', 'time']."
        )
    return DataError(f"{name} must have one axis, got shape {tuple(shape)}.{hint}")


def batch_table(
    batch: Batch, schema: Schema, names: Sequence[str], types_known: bool, where: str
) -> Table:
    """Return all rows of a batch as numbers; ``names`` are its columns with the schema."""
    try:
        columns = []
        for name, column in zip(names, schema.columns, strict=True):
            part = batch.columns[name]
            as_floats = types_known and column.kind == "float" and part.codes is None
            if as_floats and part.temporal is None:
                part = replace(part, values=floats_of_column(part.plain(""), "int"))
            columns.append(part)
        table = with_schema(columns, schema, typed=batch.named)
    except HedgerowError as error:
        raise type(error)(f"{where}: {error}") from error
    return replace(mark_zeros(table, schema.zero_missing), schema=schema)
