"""Class labels: the values that a classifier predicts, by class index.

Models number classes from 0.  The labels are stored beside the model: in the estimator's
record in the model file, or in the record of a booster that knows its labels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.row_data.checks import one_axis, values_of_rows
from hedgerow.errors import DataError, DataTypeError, ModelFormatError, brief
from hedgerow.metrics import task_of
from hedgerow.objectives import Objective, SeveralTargets

_LABEL_TYPE = re.compile(r"<U[0-9]{1,5}|<[iu][248]|<f[248]|\|[biu]1", re.ASCII)
"""Allowed label types in a model file, as NumPy type strings."""

_LONGEST_LABEL = 1 << 14
"""Largest number of characters of a label."""

MOST_LABEL_BYTES = 1 << 28
"""Largest size in bytes of all labels of a model as one array."""


def indices_of(labels: AnyArray, classes: AnyArray, name: str, owner: str = "y") -> FloatArray:
    """Return the index of each label in ``classes``."""
    place = {label: index for index, label in enumerate(classes.tolist())}
    found = [place.get(label, -1) for label in labels.tolist()]
    codes = np.array(found, dtype=np.float64)
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        unknown = sorted({repr(label) for label in labels[codes < 0].tolist()})
        raise DataError(
            f"{name} has labels that {owner} lacks: {', '.join(unknown[:5])} (the first in "
            f"row {row})."
        )
    return codes


def column_of(labels: Any, name: str) -> AnyArray:
    """Return labels as a 1-d array."""
    return one_axis(values_of_rows(labels, name), name)


def n_classes_of(objective: Objective) -> int | None:
    """Return the number of mutually exclusive classes, or None for other objectives."""
    if isinstance(objective, SeveralTargets):
        return None
    task = task_of(objective)
    if task == "classes":
        return objective.n_outputs
    return 2 if task == "two classes" else None


def classes_of_record(objective: Objective, record: Mapping[str, Any] | None) -> AnyArray | None:
    """Return the class labels of a model's record, or None if the record has none."""
    n_classes = n_classes_of(objective)
    if n_classes is None or record is None or "classes" not in record:
        return None
    return labels_from_record(record["classes"], n_classes)


def labels_to_record(classes: AnyArray) -> dict[str, Any]:
    """Convert class labels to JSON-like values, with their dtype."""
    values = classes.tolist()
    if classes.dtype.kind not in "biufUO" or classes.dtype == np.longdouble:
        raise DataTypeError(f"labels of type {classes.dtype} cannot be saved: use text or numbers.")
    for value in values:
        if not isinstance(value, str | bool | int | float):
            raise DataTypeError(
                f"the label {brief(value)} ({type(value).__name__}) cannot be saved: "
                "use text, numbers or booleans."
            )
    longest = classes.dtype.itemsize // 4 if classes.dtype.kind == "U" else 0
    if longest > _LONGEST_LABEL or longest * len(classes) > MOST_LABEL_BYTES // 4:
        raise DataTypeError(
            f"{len(classes)} labels of up to {longest} letters are too long for a model file: "
            "give classes shorter names."
        )
    name = "O" if classes.dtype.kind == "O" else classes.dtype.newbyteorder("<").str
    return {"dtype": name, "values": values}


def labels_from_record(record: Any, n_classes: int) -> AnyArray:
    """Return labels from a record of any source: the inverse of :func:`labels_to_record`."""
    try:
        name, values = record["dtype"], record["values"]
        if not isinstance(values, list) or len(values) != n_classes:
            raise ValueError("wrong number of labels")
        dtype = _dtype(name, n_classes)
        if not all(isinstance(value, str | bool | int | float) for value in values):
            raise ValueError("a label is neither text nor number")
        classes = np.array(values, dtype=dtype)
        if classes.shape != (n_classes,) or classes.tolist() != values:
            raise ValueError("labels do not fit their type")
        if len(set(values)) != n_classes or sorted(values) != values:
            raise ValueError("labels are not sorted")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ModelFormatError(f"the classes in the model file are malformed: {error}.") from None
    return classes


def _dtype(name: Any, n_labels: int) -> np.dtype[Any]:
    """Return the dtype of a name without calling NumPy's parser, which wraps large lengths."""
    if name == "O":
        return np.dtype(object)
    if not isinstance(name, str) or not _LABEL_TYPE.fullmatch(name):
        raise ValueError(f"unknown type {str(name)[:40]!r}")
    if name.startswith("<U"):
        letters = int(name[2:])
        if letters > _LONGEST_LABEL or 4 * letters * n_labels > MOST_LABEL_BYTES:
            raise ValueError("labels are too long")
    return np.dtype(name).newbyteorder("=")
