"""Rows from a function of the user that returns the same batches at each call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from hedgerow.cuda.arrays import on_host
from hedgerow.data.sources.base import Batch
from hedgerow.data.sources.columns import read_columns
from hedgerow.data.sparse import is_sparse
from hedgerow.errors import DataError, DataTypeError, HedgerowError, StorageError

BatchFunction: TypeAlias = Callable[[], Any]
"""Function that returns a new iterator, or an Arrow stream, of the same batches at each call."""

_NAME = "the batches"


class FunctionPart:
    """All batches of a function; see :class:`hedgerow.data.sources.base.Part`."""

    types_known = False
    name = _NAME

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
        if isinstance(item, tuple):
            return _read_tuple(item)
        if is_sparse(item):
            return Batch(item.shape[0], {}, False, item.tocsr())
        return read_columns(item, columns)
    except HedgerowError as error:
        raise type(error)(f"batch {number}: {error}") from error


def _read_tuple(item: tuple[Any, ...]) -> Batch:
    if len(item) not in (2, 3):
        raise DataError(f"a tuple must be (X, y) or (X, y, weight); got one of {len(item)}.")
    X, *others = item
    vectors = {
        name: read_columns({name: one_axis(values, name)}).columns[name]
        for name, values in zip(("y", "weight"), others, strict=False)
    }
    batch = Batch(X.shape[0], {}, False, X.tocsr()) if is_sparse(X) else read_columns(X)
    for name, vector in vectors.items():
        if len(vector) != batch.n_rows:
            raise DataError(f"{name} has {len(vector)} values for {batch.n_rows} rows of X.")
    return replace(batch, target=vectors["y"], weight=vectors.get("weight"))


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
