"""Split columns that are not features, such as offsets, off a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.data.categories.columns import PlainOrEncoded, plain_of
from hedgerow.data.categories.levels import is_missing
from hedgerow.data.reading.rows import is_named, named_columns, read_column
from hedgerow.data.sparse import is_sparse
from hedgerow.errors import DataError, did_you_mean


def take_columns(X: Any, names: Sequence[str], role: str) -> tuple[Any, FloatArray]:
    """Split named columns off a table, and convert them to numbers.

    Parameters
    ----------
    X : data frame, dict or list of dicts
    names : sequence of str
        Distinct column names.
    role : str
        Role of the columns, for error messages.

    Returns
    -------
    rest : like X
        The other columns, without a copy of the values.
    columns : float64, shape (n_rows, len(names))
        NaN for missing values.

    Raises
    ------
    DataError
        If X has no column names, or lacks one of the columns.
    DataTypeError
        If a column holds text.

    Examples
    --------
    >>> from hedgerow.data.reading.side_columns import take_columns
    >>> take_columns({"age": [30, 40], "exposure": [0.5, 1.0]}, ["exposure"], "offset")[1].tolist()
    [[0.5], [1.0]]
    """
    rest, columns = _split(X, names, role)
    found = []
    for name in names:
        if columns.get(name) is None:
            hint = did_you_mean(name, list(rest if isinstance(rest, dict) else columns))
            raise DataError(
                f"X has no column {name!r}, which is the {role} of the model: add the column.{hint}"
            )
        found.append(_numbers(columns[name], name, role))
    return rest, np.column_stack(found)


def without_columns(X: Any, names: Sequence[str]) -> Any:
    """Remove the columns ``names`` from a table, if it has them."""
    return _split(X, names, None)[0]


def _split(X: Any, names: Sequence[str], role: str | None) -> tuple[Any, dict[str, Any]]:
    """Return the other columns, and the existing columns among ``names``."""
    if not is_sparse(X):
        if is_named(X):
            table = named_columns(X)
            chosen = {name: read_column(table[name], name) for name in names if name in table}
            return {name: table[name] for name in table if name not in chosen}, chosen
        if not isinstance(X, np.ndarray | list | tuple):
            from hedgerow.data.reading.frames import as_frame, read_series

            frame = as_frame(X)
            if frame is not None and frame.named:
                there = [name for name in names if name in frame.names]
                chosen = {name: read_series(frame.native[name], name) for name in there}
                others = [name for name in frame.names if name not in there]
                return frame.native.select(others).to_native() if there else X, chosen
    if role is not None:
        raise DataError(
            f"the {role} is column {names[0]!r}, but X has no named columns: give a data frame or "
            "a dict of columns."
        )
    return X, {}


def _numbers(column: PlainOrEncoded, name: str, role: str) -> FloatArray:
    values: AnyArray = plain_of(column, f"{role} column {name!r} holds text: it must hold numbers.")
    floats = values.astype(np.float64)
    if values.dtype == np.int64:
        floats[is_missing(values)] = np.nan
    return floats
