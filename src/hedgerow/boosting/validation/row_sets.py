"""Named sets of validation rows: ``{"new": (X, y), "old": (X, y)}``.

The first one decides early stopping; each has its own curves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from hedgerow.boosting.loop.sample import ONLY as ONLY
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.boosting.row_data.row_values import ROW_VALUES, Given
from hedgerow.errors import DataError, DataTypeError, ParameterError, brief

if TYPE_CHECKING:
    from hedgerow.boosting.external.file_dataset import FileDataset

TRAINING = "train"

ValidRows: TypeAlias = "Dataset | Mapping[str, Dataset] | None"
"""Validation rows: none, one set, or several by name; the first set decides."""
_TAKEN = (TRAINING, "out_of_bag", "cv")
"""Names that the history reserves for other rows."""


def validation_sets(X_val: Any, y_val: Any, given: Given) -> dict[str, Dataset]:
    """Return the sets of validation rows in the arguments of ``fit``, by name."""
    of_fit = {value.name: f"{value.of_fit}_val" for value in ROW_VALUES}
    beside = [of_fit[name] for name, value in given.items() if value is not None]
    if X_val is None:
        if y_val is not None:
            raise DataError("y_val is given without X_val: give both or neither.")
        for name in beside:
            raise DataError(f"{name} is given without X_val and y_val.")
        return {}
    if y_val is not None:
        return {ONLY: Dataset(X_val, y_val, **given)}
    are_sets = isinstance(X_val, Mapping) and all(
        isinstance(rows, Dataset) or (isinstance(rows, tuple) and len(rows) in (2, 3))
        for rows in X_val.values()
    )
    if not are_sets or not X_val:
        raise DataError(
            "X_val is given without y_val: give both or neither, or several sets by name, "
            "X_val={'new': (X, y), 'old': (X, y, weight)}; a Dataset holds offset and qid, too."
        )
    for name in beside:
        raise DataError(
            f"{name} is given, but each of several sets of validation rows has its own: "
            "X_val={'new': Dataset(X, y, weight=..., offset=..., qid=...)}."
        )
    check_set_names(X_val)
    return {
        name: rows if isinstance(rows, Dataset) else Dataset(*rows) for name, rows in X_val.items()
    }


def reads_batches(rows: object) -> TypeGuard[FileDataset]:
    """Return whether rows are read from files or batches, not held in memory."""
    return isinstance(rows, Dataset) and rows.reads_batches


def named_valid(valid: ValidRows) -> Mapping[str, Dataset]:
    """Return the sets of validation rows by name."""
    if valid is None:
        return {}
    if isinstance(valid, Mapping):
        check_set_names(valid)
        return valid
    return {ONLY: valid}


def check_set_names(sets: Mapping[Any, Any]) -> None:
    """Raise an error unless the names of validation sets are non-empty, unreserved texts."""
    for name in sets:
        if not isinstance(name, str) or not name:
            raise DataTypeError(
                f"names of validation rows must be non-empty text; got {brief(name)}."
            )
        if name in _TAKEN:
            how = " Scores of the training rows: train_scores=True." if name == TRAINING else ""
            raise ParameterError(
                f"validation rows cannot have the name {name!r}: it belongs to the learning curves "
                f"of other rows.{how}"
            )
