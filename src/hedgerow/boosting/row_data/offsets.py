"""Offsets of rows: arrays, or columns of the table whose names the model remembers.

Such a column is not a feature; rows to predict have it, too.  An array is not part of the model:
users pass it again with the rows to predict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.boosting.row_data.checks import check_finite
from hedgerow.data.reading.columns import ReadColumn
from hedgerow.data.reading.objects import is_named, named_columns, read_column
from hedgerow.data.sparse import is_sparse
from hedgerow.errors import DataError, ParameterError, brief, did_you_mean
from hedgerow.model.model import Model

RECORD = "offset_columns"
"""Key of the offset columns in the training record."""


def names_of_offset(offset: Any) -> tuple[str, ...]:
    """Return the column names if ``offset`` is a name or a list of names; else an empty tuple."""
    if isinstance(offset, str):
        return (offset,)
    if isinstance(offset, list | tuple) and any(isinstance(item, str) for item in offset):
        for item in offset:
            if not isinstance(item, str) or offset.count(item) > 1:
                raise ParameterError(
                    "offset must be numbers, the name of a column, or different names; "
                    f"{brief(item)} is among the names."
                )
        return tuple(offset)
    return ()


def offset_columns(model: Model) -> tuple[str, ...]:
    """Return the columns that the model adds to its raw scores."""
    return tuple(model.training.get(RECORD, ()))


def with_offset_columns(model: Model, names: Sequence[str]) -> Model:
    """Return the model with these columns added to its raw scores."""
    if not names:
        return model
    return replace(model, training={**model.training, RECORD: list(names)})


def check_both_offset(train: bool, validation: bool) -> None:
    """Raise ``DataError`` if only one of training and validation rows has an offset."""
    if train != validation:
        which = "validation" if train else "training"
        raise DataError(f"the {which} rows have no offset, but the others do: give both or none.")


def check_offset_columns(names: tuple[str, ...], offset: Any) -> None:
    """Raise ``ParameterError`` for validation rows with other offsets than these columns."""
    if names and offset is not None and names_of_offset(offset) != names:
        raise ParameterError(
            f"the offset is column {names[0]!r}, also for the validation rows: leave offset_val "
            "out."
        )


def take_offset(X: Any, names: Sequence[str]) -> tuple[Any, FloatArray]:
    """Split a table with column names in the other columns, and the named ones as float64."""
    from hedgerow.data.sources.batches import vector_of  # few models have such columns

    features, columns = _split(X, names)
    if columns is None:
        raise DataError(
            f"the offset is column {brief(names[0])}, but X has no named columns: give a "
            "data frame or a dict of columns."
        )
    found = []
    for name in names:
        if name not in columns:
            hint = did_you_mean(name, list(features if isinstance(features, dict) else columns))
            raise DataError(
                f"X has no column {name!r}, which is the offset of the model: add the column.{hint}"
            )
        found.append(vector_of(columns[name], name, "offset"))
        check_finite(found[-1], f"offset column {name!r}")
    return features, np.column_stack(found)


def offset_of_rows(model: Model, X: Any, offset: Any) -> tuple[Any, Any]:
    """Return features and offset (or None) of rows to predict."""
    names = offset_columns(model)
    if not names:
        if names_of_offset(offset):
            raise ParameterError(
                f"offset={brief(offset)} names a column, but the model was trained without one: "
                "give numbers, or train it with this offset."
            )
        return X, offset
    if offset is not None:
        raise ParameterError(
            f"the model takes its offset from column {', '.join(map(repr, names))} of X: leave "
            "offset out."
        )
    return take_offset(X, names)


def features_of_rows(model: Model, X: Any) -> Any:
    """Return the table without its offset columns."""
    names = offset_columns(model)
    return _split(X, names)[0] if names else X


def _split(X: Any, names: Sequence[str]) -> tuple[Any, dict[str, ReadColumn] | None]:
    """Return the other columns, and those of ``names`` that X has; None if none has a name."""
    if is_named(X):
        table = named_columns(X)
        chosen = {name: read_column(table[name], name) for name in names if name in table}
        return {name: table[name] for name in table if name not in chosen}, chosen
    if not isinstance(X, np.ndarray | list | tuple) and not is_sparse(X):
        from hedgerow.data.reading.frames import as_frame, read_series

        frame = as_frame(X)
        if frame is not None and frame.named:
            there = [name for name in names if name in frame.names]
            chosen = {name: read_series(frame.table[name], name) for name in there}
            others = [name for name in frame.names if name not in there]
            return frame.select(others) if there else X, chosen
    return X, None
