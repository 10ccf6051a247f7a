"""Offsets of the user's rows: arrays, or columns of the table that the model remembers.

::

    fit       X with columns, offset="exposure_log"   the column is no feature
    model     training record: offset_columns = ["exposure_log"]
    predict   X with the same column                  it is added to the raw scores

An array is no part of the model: it is given again with the rows to predict.
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
"""Key of the training record that names the columns."""


def names_of_offset(offset: Any) -> tuple[str, ...]:
    """The names, if ``offset`` is a name or a list of names; none if it is numbers."""
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
    """Columns that the model adds to its raw scores."""
    return tuple(model.training.get(RECORD, ()))


def with_offset_columns(model: Model, names: Sequence[str]) -> Model:
    """The model, which adds these columns to its raw scores from now on."""
    if not names:
        return model
    return replace(model, training={**model.training, RECORD: list(names)})


def check_both_offset(train: bool, validation: bool) -> None:
    """Raise ``DataError`` unless training and validation rows have offsets, or neither."""
    if train != validation:
        which = "validation" if train else "training"
        raise DataError(f"the {which} rows have no offset, the others have: give both or none.")


def take_offset(X: Any, names: Sequence[str]) -> tuple[Any, FloatArray]:
    """The features of a table, and its columns of offsets, all finite."""
    rest, columns = take_columns(X, names, "offset")
    for place, name in enumerate(names):
        check_finite(columns[:, place], f"offset column {name!r}")
    return rest, columns


def offset_of_rows(model: Model, X: Any, offset: Any) -> tuple[Any, Any]:
    """Features and offset (or None) of rows to predict.

    Raises
    ------
    ParameterError
        If there is an array, though the model has columns for it.
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
    """The table without columns of offsets, if it has some."""
    names = offset_columns(model)
    return without_columns(X, names) if names else X


class RowsWithOffset(Protocol):
    """A table and the offset of its rows."""

    @property
    def X(self) -> Any:
        """The table."""

    @property
    def offset(self) -> Any:
        """Numbers, or None."""


@dataclass(frozen=True, slots=True, eq=False)
class Offsets:
    """A table for a fit, and the offsets of its rows.

    Attributes
    ----------
    X : table without columns of offsets
    values : array-like or None
    names : tuple of str
        Columns that the offsets were, if they were.
    """

    X: Any
    values: Any
    names: tuple[str, ...] = ()

    @staticmethod
    def of(X: Any, offset: Any) -> Offsets:
        """Take the columns out of the table, if ``offset`` names some.

        Raises
        ------
        ParameterError, DataError
            If it has no such columns.
        """
        names = names_of_offset(offset)
        if names:
            return Offsets(*take_offset(X, names), names)
        return Offsets(X, offset)

    def of_rows(self, rows: RowsWithOffset) -> Offsets:
        """The same of validation rows, whose offset is in the same columns if these are columns.

        Raises
        ------
        ParameterError, DataError
            If training and validation rows do not have the same.
        """
        if self.names:
            if rows.offset is not None and names_of_offset(rows.offset) != self.names:
                raise ParameterError(
                    f"offset is column {self.names[0]!r}, of the validation rows, too: leave "
                    "offset_val out."
                )
            return Offsets(*take_offset(rows.X, self.names), self.names)
        check_both_offset(self.values is not None, rows.offset is not None)
        return Offsets(rows.X, rows.offset)

    def on(self, sample: Sample, n_outputs: int, name: str = "offset") -> Sample:
        """The rows with their offsets, which are called ``name`` in messages."""
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
        """The model, which remembers the columns."""
        return with_offset_columns(model, self.names)
