"""Columns of a batch, read as those of a table in memory (:mod:`hedgerow.data.reading.columns`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray
from hedgerow.cuda.arrays import on_host
from hedgerow.data.categories.columns import nearly_numbers
from hedgerow.data.reading.columns import ReadColumn, floats_of_column
from hedgerow.data.reading.frames import as_frame, read_series, warn_of_labels
from hedgerow.data.reading.rows import is_named, named_columns, read_column
from hedgerow.data.schema import default_names
from hedgerow.data.sources.base import Batch
from hedgerow.errors import DataError, DataTypeError, brief


def read_columns(X: Any, wanted: Sequence[str] | None = None) -> Batch:
    """Read a batch of any kind that :func:`hedgerow.data.read_table` accepts, except sparse."""
    if is_named(X):
        named = named_columns(X)
        found = {n: read_column(c, n) for n, c in named.items() if _is_wanted(n, wanted)}
        return Batch(len(next(iter(named.values()), ())), found)
    if not isinstance(X, np.ndarray | list | tuple):
        frame = as_frame(X)
        if frame is not None:
            warn_of_labels(frame)
            # Look up by label: pandas labels may be numbers.
            series = zip(frame.native.iter_columns(), frame.names, strict=True)
            read = {name: read_series(s, name) for s, name in series if _is_wanted(name, wanted)}
            return Batch(int(frame.native.shape[0]), read, frame.named)
    array: AnyArray = X if isinstance(X, np.ma.MaskedArray) else np.asarray(on_host(X))
    if array.ndim != 2:
        raise DataError(f"a batch must have two axes, rows and columns; got shape {array.shape}.")
    names = default_names(array.shape[1])
    read = {n: read_column(array[:, j], n) for j, n in enumerate(names) if _is_wanted(n, wanted)}
    return Batch(len(array), read, False)


def _is_wanted(name: str, wanted: Sequence[str] | None) -> bool:
    return wanted is None or name in wanted


def vector_of(column: ReadColumn, name: str, role: str) -> npt.NDArray[np.float64]:
    """Convert a target, weight or offset to float64."""
    hint = ""
    if not isinstance(column.values, np.ndarray):
        codes = column.codes
        assert codes is not None
        counts = np.bincount(codes[codes >= 0], minlength=len(column.values))
        found = nearly_numbers(column.values, counts)
        hint = "" if found is None else f" {found}, but not {brief(found.odd)}."
    numbers = column.plain(
        f"{role} column {name!r} has type {column.dtype}, but must hold numbers.{hint}"
    )
    if column.sort not in (None, "numbers"):
        raise DataTypeError(f"{role} column {name!r} holds {column.sort}, but must hold numbers.")
    return np.ascontiguousarray(floats_of_column(numbers, "int"), dtype=np.float64)
