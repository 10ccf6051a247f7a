"""Offsets of rows: arrays, or columns of the table whose names the model remembers.

::

    fit       X with columns, offset="exposure_log"   the column is not a feature
    model     training record: offset_columns = ["exposure_log"]
    predict   X with the same column                  the column is added to the raw scores

An array is not part of the model: users pass it again with the rows to predict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from hedgerow.arrays import FloatArray
from hedgerow.boosting.loop.sample import Sample, check_finite, check_offset
from hedgerow.data.reading.side_columns import take_columns, without_columns
from hedgerow.errors import DataError, ParameterError
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
                    f"offset must be numbers, the name of a column, or different names; {item!r} "
                    "is among the names."
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


def take_offset(X: Any, names: Sequence[str]) -> tuple[Any, FloatArray]:
    """Split a table into features and finite offset columns."""
    features, columns = take_columns(X, names, "offset")
    for place, name in enumerate(names):
        check_finite(columns[:, place], f"offset column {name!r}")
    return features, columns


def offset_of_rows(model: Model, X: Any, offset: Any) -> tuple[Any, Any]:
    """Return features and offset (or None) of rows to predict.

    Raises
    ------
    ParameterError
        If an array is passed, but the model has offset columns.
    DataError
        If a column is missing, or not finite.
    """
    names = offset_columns(model)
    if not names:
        if names_of_offset(offset):
            raise ParameterError(
                f"offset={offset!r} names a column, but the model was trained without one: give "
                "numbers, or train it with this offset."
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
    return without_columns(X, names) if names else X


class RowsWithOffset(Protocol):
    """Protocol of a table with the offset of its rows."""

    @property
    def X(self) -> Any:
        """The table."""

    @property
    def offset(self) -> Any:
        """The offset as numbers, or None."""


@dataclass(frozen=True, slots=True, eq=False)
class Offsets:
    """A table for a fit with the offsets of its rows.

    Attributes
    ----------
    X : table without columns of offsets
    values : array-like or None
    names : tuple of str
        Columns that held the offsets; empty if they were an array.
    """

    X: Any
    values: Any
    names: tuple[str, ...] = ()

    @staticmethod
    def of(X: Any, offset: Any) -> Offsets:
        """Move the offset columns out of the table, if ``offset`` names some.

        Raises
        ------
        ParameterError, DataError
            If the table lacks such a column.
        """
        names = names_of_offset(offset)
        if names:
            return Offsets(*take_offset(X, names), names)
        return Offsets(X, offset)

    def of_rows(self, rows: RowsWithOffset) -> Offsets:
        """Return the offsets of validation rows, from the same columns if training used columns.

        Raises
        ------
        ParameterError, DataError
            If only one of training and validation rows has an offset.
        """
        if self.names:
            if rows.offset is not None and names_of_offset(rows.offset) != self.names:
                raise ParameterError(
                    f"the offset is column {self.names[0]!r}, also for the validation rows: leave "
                    "offset_val out."
                )
            return Offsets(*take_offset(rows.X, self.names), self.names)
        check_both_offset(self.values is not None, rows.offset is not None)
        return Offsets(rows.X, rows.offset)

    def on(self, sample: Sample, n_outputs: int, name: str = "offset") -> Sample:
        """Return the sample with these offsets; messages call them ``name``."""
        if self.values is None:
            return sample
        if self.names and len(self.names) != n_outputs:
            raise DataError(
                f"offset names {len(self.names)} column(s), but the model has {n_outputs} raw "
                "score(s) for each row: name one for each."
            )
        name = "offset" if self.names else name
        return replace(sample, offset=check_offset(self.values, sample.n_rows, n_outputs, name))

    def noted(self, model: Model) -> Model:
        """Return the model with the offset columns in its training record."""
        return with_offset_columns(model, self.names)
