"""Read tables of plain Python: a dict (one row, or columns) or a list of dicts (rows)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray
from hedgerow.cuda.arrays import on_host
from hedgerow.data.categories.columns import text_column
from hedgerow.data.reading.columns import ReadColumn, Sort, plain_numbers, with_missing
from hedgerow.data.reading.objects import read_objects
from hedgerow.errors import DataError, DataTypeError, brief

_SORTS: dict[str, Sort] = {"M": "dates", "m": "durations"}


def is_named(X: object) -> bool:
    """Return whether X is a dict, or a list of dicts."""
    return isinstance(X, Mapping) or (
        isinstance(X, list | tuple) and len(X) > 0 and isinstance(X[0], Mapping)
    )


def named_columns(X: Any) -> dict[str, AnyArray]:
    """Return the columns of a dict or a list of dicts, by name."""
    if not isinstance(X, Mapping):
        return _columns_of_rows(X)
    _check_names(X)
    lists = {name: isinstance(v, list | tuple | np.ndarray) for name, v in X.items()}
    # The first value tells a row from columns of data frames: a check of all would be slower.
    if not any(lists.values()) and not _is_series(next(iter(X.values()), None)):
        return _columns_of_rows([X])
    X = {name: np.asarray(on_host(v)) if _is_series(v) else v for name, v in X.items()}
    lists = {name: isinstance(v, list | tuple | np.ndarray) for name, v in X.items()}
    for name, is_list in lists.items():
        if not is_list:
            raise DataTypeError(
                f"column {name!r} is a {type(X[name]).__name__}, others are lists: give a dict "
                "of scalars (one row), or of lists or arrays (columns)."
            )
    columns = {name: _one_axis(name, values) for name, values in X.items()}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        first = next(iter(lengths))
        other = next(name for name in lengths if lengths[name] != lengths[first])
        raise DataError(
            f"columns must have one length, but {first!r} has {lengths[first]} values and "
            f"{other!r} has {lengths[other]}: make the lists equally long."
        )
    return columns


def _is_series(values: Any) -> bool:
    """Return whether this is a column of a data frame.

    Scalars of NumPy convert to arrays, too; its text even has a length.
    """
    if isinstance(values, np.ndarray | np.generic) or not hasattr(values, "__array__"):
        return False
    return hasattr(values, "__len__")


def _one_axis(name: str, values: Any) -> AnyArray:
    column: AnyArray = values if isinstance(values, np.ndarray) else _objects(values)
    if column.ndim != 1:
        raise DataError(
            f"column {name!r} must have one axis, got shape {column.shape}: give one value for "
            "each row."
        )
    return column


def _objects(values: Sequence[Any]) -> AnyArray:
    return np.fromiter(values, dtype=object, count=len(values))


def _check_names(row: Mapping[Any, Any]) -> None:
    for name in row:
        if not isinstance(name, str):
            raise DataTypeError(
                f"names of columns must be text, got {brief(name)}: use str({name!r})."
            )


def _columns_of_rows(rows: Sequence[Any]) -> dict[str, AnyArray]:
    names = rows[0]
    _check_names(names)
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise DataTypeError(
                f"row {number} is a {type(row).__name__}, but row 0 is a dict: give a dict for "
                "each row."
            )
        if row.keys() != names.keys():
            different, problem = sorted(names.keys() - row.keys(), key=str), "is missing from"
            if not different:
                different, problem = sorted(row.keys() - names.keys(), key=str), "is new in"
            raise DataError(
                f"column {different[0]!r} {problem} row {number}: all rows must have the columns "
                "of row 0. Give None for a missing value."
            )
    return {name: _objects([row[name] for row in rows]) for name in names}


def read_column(column: AnyArray, name: str) -> ReadColumn:
    """Read a one-dimensional array of any type."""
    dtype = column.dtype
    if dtype.kind in "UTO":
        found = read_objects(column if dtype.kind == "O" else column.astype(object), name)
        if dtype.kind != "O" and not found.is_text:  # text without values
            found = text_column([], np.full(len(column), -1))
        found.dtype = dtype
        return found
    values = plain_numbers(np.asarray(column)[:, None], [name])[:, 0]
    if isinstance(column, np.ma.MaskedArray):
        values = with_missing(values, np.ma.getmaskarray(column))
    is_small = dtype.kind == "b" or (dtype.kind in "iu" and dtype.itemsize < 8)
    return ReadColumn(values, None, _SORTS.get(dtype.kind, "numbers"), is_small, dtype=dtype)
