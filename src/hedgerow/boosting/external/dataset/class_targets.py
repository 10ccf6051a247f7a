"""Class labels in a target column of files, as class indices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.boosting.external.dataset.file_rows import ReadTarget
from hedgerow.data.reading.columns import ReadColumn
from hedgerow.data.sources.opening import keep_text
from hedgerow.errors import DataError

if TYPE_CHECKING:
    from hedgerow.boosting.external.dataset.file_dataset import FileDataset


def read_classes(
    dataset: FileDataset, classes: AnyArray, is_strict: bool, by_class: FloatArray | None = None
) -> None:
    """Let a dataset read its target as class indices, by :func:`class_reader`.

    Labels that are text are so too in a text file in which they all look like numbers.
    ``by_class`` are factors on the weights of rows.
    """
    dataset.read_targets_by(class_reader(classes, is_strict), by_class)
    if isinstance(classes[0], str):
        keep_text(dataset.source.parts, dataset.source.roles.targets)


def class_reader(classes: AnyArray, is_strict: bool) -> ReadTarget:
    """Return a function that converts a target column to class indices.

    An unknown label becomes -1 (for rows of weight 0), or an error if ``is_strict``.
    """
    places = {label: float(index) for index, label in enumerate(classes.tolist())}

    def read(column: ReadColumn, name: str) -> FloatArray:
        values, codes = distinct_targets(column, name)
        found = np.array([places.get(value, -1.0) for value in values])
        if is_strict and (found < 0).any():
            unknown = [value for value, place in zip(values, found, strict=True) if place < 0]
            raise DataError(
                f"target {name!r} has labels that the training rows lack: "
                f"{', '.join(map(repr, unknown[:5]))}."
            )
        return found[codes]

    return read


def distinct_targets(column: ReadColumn, name: str) -> tuple[list[Any], IntArray]:
    """Return the different targets, and the index of each row's target among them."""
    missing = column.missing()
    if missing.any():
        raise DataError(
            f"target {name!r} is missing in {int(missing.sum())} of {len(missing)} rows, the first "
            f"is row {int(missing.argmax()) + 1} of them: remove these rows."
        )
    if column.codes is not None and column.is_text:
        return [str(text) for text in column.values], column.codes
    found, inverse = np.unique(column.plain(""), return_inverse=True)
    if not np.isfinite(found.astype(np.float64)).all():
        raise DataError(f"target {name!r} is infinite in some rows: remove these rows.")
    return found.tolist(), inverse.reshape(-1)
