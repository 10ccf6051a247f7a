"""Convert class labels of any type to indices and weights, and read columns of 0 and 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.boosting.row_data.checks import check_finite, check_length
from hedgerow.boosting.row_data.classes import CodedLabels, indices_of, labels_from_record
from hedgerow.boosting.row_data.targets import (
    Targets,
    one_column,
    read_targets,
    require_target,
    target_column,
)
from hedgerow.cuda.arrays import host_array
from hedgerow.data.categories.columns import odd_text_of
from hedgerow.data.reading.objects import MISSING_TYPES
from hedgerow.errors import DataError, DataTypeError, ParameterError, brief
from hedgerow.params import Interval

if TYPE_CHECKING:
    from hedgerow.boosting.resume.continuing import Start
    from hedgerow.model.model import Model
    from hedgerow.objectives import Objective


_CLASS_WEIGHT = Interval(0.0, np.inf, low_open=True, high_open=True)
_TOO_LARGE = np.float64(2**63)
MOST_LABELS = 1 << 16
"""Integer labels that are closer than this are counted, not sorted."""


def read_labels(y: Any, n_rows: int, name: str, reader: str) -> Any:
    """Read and validate one label for each row: an array, or the labels of rows of files."""
    require_target(y, reader, name)
    if isinstance(y, CodedLabels):  # of rows of files
        why = "numbers that are not integers, which cannot be classes"
        if y.has_more:
            why = f"more than {len(y.values):,} different values, too many for classes"
        if y.has_more or y.values.dtype.kind == "f":
            raise DataError(f"the target has {why}: train a regression.")
        return y
    labels = target_column(plain_labels(y), name)
    check_length(len(labels), n_rows, name)
    if labels.dtype.kind == "f":
        check_finite(labels, name)
    if labels.dtype.kind in "OMm":
        for row, label in enumerate(labels if labels.dtype.kind in "Mm" else labels.tolist()):
            if type(label).__name__ in MISSING_TYPES or label != label:
                raise DataError(
                    f"{name} has no label in row {row} ({brief(label)}): remove the rows without a "
                    "label, or give them a separate label."
                )
    _check_classes(labels, name, reader)
    return labels


def _check_classes(labels: AnyArray, name: str, reader: str) -> None:
    """Raise ``DataError`` for labels that are no classes, beginning like scikit-learn."""
    if labels.dtype.kind in "biu":
        return
    from sklearn.utils.multiclass import type_of_target

    _refuse_mixtures(labels, name)
    if labels.dtype.kind in "OU" and isinstance(labels[0], str):
        _refuse_odd_text(labels, name, reader)
    try:
        with np.errstate(invalid="ignore"):  # it converts floats to integers of 64 bits
            kind = type_of_target(labels, input_name=name)
    except TypeError:
        kind = "bytes"
    if kind in ("binary", "multiclass"):
        return
    if kind != "continuous":
        raise DataError(
            f"Unknown label type: {kind}. {name} of a {reader} must hold classes: text, integers "
            "of at most 64 bits, booleans, or floats that are integers; row 0 has "
            f"{brief(labels[0])}, an object of type {type(labels[0]).__name__}. Convert it, for "
            f"example by {name}.astype(str)."
        )
    row = int(np.argmax((labels != np.floor(labels)) | (np.abs(labels) >= _TOO_LARGE)))
    other = reader.replace("Classifier", "Regressor")
    raise DataError(
        f"Unknown label type: {kind}. {name} of a {reader} must hold classes: text, integers, "
        f"booleans, or floats that are integers below 2**63; row {row} has {labels[row]:g}. "
        f"Use a {other} to predict numbers, or convert the values to classes."
    )


def _refuse_odd_text(labels: AnyArray, name: str, reader: str) -> None:
    """Raise ``DataError`` for numbers with fractions that a few other values make text."""
    found = odd_text_of(labels)
    if found is not None and found[0].has_fractions:
        raise DataError(
            f"{name} of a {reader} must hold classes, but {found[0]}; row {found[1]} has "
            f"{brief(found[0].odd)}. Mend or remove such rows, and use a "
            f"{reader.replace('Classifier', 'Regressor')} to predict numbers."
        )


def _refuse_mixtures(labels: AnyArray, name: str) -> None:
    """Raise ``DataTypeError`` if some labels are text and others not, which have no order."""
    if labels.dtype.kind != "O":
        return
    texts = np.array([isinstance(label, str) for label in labels.tolist()], dtype=bool)
    if texts.any() and not texts.all():
        text, other = int(np.argmax(texts)), int(np.argmin(texts))
        raise DataTypeError(
            f"{name} mixes labels of types that cannot be ordered: row {text} has "
            f"{brief(labels[text])} and row {other} has {brief(labels[other])}. Make them one "
            f"type, for example by {name}.astype(str)."
        )


def plain_labels(y: Any) -> Any:
    """Convert columns of frames, of objects and sparse ones to arrays; lists stay as they are."""
    y = one_column(y)
    if not hasattr(y, "dtype"):
        return y
    array = host_array(y)
    if array.dtype.kind == "T":
        return array.astype(object)
    if array.dtype.kind != "O":
        return array
    # Objects of one type get that of NumPy: otherwise nullable integers would become floats.
    kinds = {type(label) for label in array.ravel().tolist()}
    for numbers in ({bool, np.bool_}, {int}, {float}):
        if kinds and kinds <= numbers:
            try:
                return array.astype(next(iter(numbers)))
            except OverflowError:  # integers beyond 64 bits
                return array
    return array


def _distinct(labels: AnyArray | CodedLabels) -> tuple[AnyArray, IntArray]:
    """Return what ``np.unique`` does with ``return_inverse``; close integers are counted."""
    if isinstance(labels, CodedLabels):  # rows of weight 0, which are dropped, may have others
        occurs = np.bincount(labels.places, minlength=len(labels.values)) > 0
        return labels.values[occurs], (np.cumsum(occurs) - 1)[labels.places]
    # 10 million labels of two classes take 0.03 s; ``np.unique`` takes 0.17 s.
    is_whole = labels.dtype.kind in "biu" and len(labels) > 0
    low, high = (int(labels.min()), int(labels.max())) if is_whole else (0, MOST_LABELS)
    if (width := high - low) >= MOST_LABELS:
        classes, place = np.unique(labels, return_inverse=True)
        return classes, place.reshape(-1)
    wide = np.uint64 if labels.dtype.kind == "u" else np.int64
    steps = labels.astype(wide, copy=False)
    index: IntArray = (steps if low == 0 else steps - wide(low)).astype(np.int64, copy=False)
    found = np.flatnonzero(np.bincount(index, minlength=width + 1))
    classes = (found.astype(wide) + wide(low)).astype(labels.dtype)
    if len(found) == width + 1:
        return classes, index
    order = np.zeros(width + 1, dtype=np.int64)
    order[found] = np.arange(len(found))
    return classes, order[index]


def encode(
    labels: AnyArray | CodedLabels, weight: FloatArray | None, known: AnyArray | None = None
) -> tuple[AnyArray, FloatArray]:
    """Return the sorted classes of rows of positive weight, and the class index of each row."""
    has_weight = None if weight is None else weight > 0.0
    if isinstance(labels, CodedLabels) or has_weight is None:
        counted, has_weight = labels, None  # files have no rows of weight 0
    else:
        counted = labels[has_weight]
    index: IntArray | FloatArray
    try:
        if known is not None:
            classes, index = known, indices_of(counted, known, "y", "the model to continue")
        else:
            classes, index = _distinct(counted)
    except TypeError as error:
        raise DataTypeError(
            f"y mixes labels of types that cannot be ordered ({error}): make them one type."
        ) from error
    if len(classes) < 2:
        is_part = has_weight is not None and not has_weight.all()
        without = " among rows of positive sample_weight" if is_part else ""
        raise DataError(
            f"y has only one class, {brief(classes.tolist()[0])}{without}: "
            "a classifier needs at least two classes."
        )
    if has_weight is None:
        return classes, index.astype(np.float64)
    codes = np.zeros(len(has_weight))
    codes[has_weight] = index
    return classes, codes


def known_classes(source: Any, start: Start | None) -> AnyArray | None:
    """Return the class labels of the model being continued, or None if they are not known."""
    if source is None or start is None or "targets" in start.model.training:
        return None  # the names of several labels are no classes
    if not isinstance(source, Mapping):
        found: AnyArray | None = getattr(source, "classes_", getattr(source, "classes", None))
        return found
    if "classes" not in source:
        return None
    several = start.model.objective in ("softmax", "one_vs_all")
    return labels_from_record(source["classes"], start.forest.n_outputs if several else 2)


def class_weights(
    class_weight: Any, classes: AnyArray, codes: FloatArray, weight: FloatArray | None
) -> FloatArray | None:
    """Return the weight of each class; None if all are 1."""
    if class_weight is None:
        return None
    if isinstance(class_weight, str) and class_weight == "balanced":
        mass = np.bincount(codes.astype(np.intp), weights=weight, minlength=len(classes))
        present, weights = mass > 0, np.ones(len(mass))
        weights[present] = mass[present].sum() / (present.sum() * mass[present])
        return weights
    if not isinstance(class_weight, Mapping):
        raise ParameterError(
            f"class_weight must be None, 'balanced' or a dict from class to weight; "
            f"got {brief(class_weight)}."
        )
    labels = classes.tolist()
    unknown = [label for label in class_weight if label not in labels]
    if unknown:
        raise ParameterError(
            f"class_weight names {brief(unknown[0])}, which is not in y; classes: {labels[:20]}."
        )
    for label in labels:
        value = class_weight.get(label, 1.0)
        if value not in _CLASS_WEIGHT:
            raise ParameterError(
                "class_weight must be a number greater than 0 and finite, but class "
                f"{brief(label)} has {brief(value)}. To ignore a class, leave its rows out."
            )
    return np.array([float(class_weight.get(label, 1.0)) for label in labels])


def read_indicators(y: Any, n_rows: int, name: str) -> Targets:
    """Read a target matrix with a column of 0 and 1 for each label."""
    labels = read_targets(y, n_rows, name)
    for k, column in enumerate(labels.values.T):
        outside = (column != 0.0) & (column != 1.0)
        if outside.any():
            row, label = int(np.argmax(outside)), k if labels.names is None else labels.names[k]
            raise DataError(
                f"{name} has several columns, so each must be a label of 0 and 1, but column "
                f"{brief(label)} holds {column[row]:g} in row {row}: multiclass-multioutput is not "
                "supported. For columns of more classes, train a classifier for each column."
            )
    return labels


def label_objective(name: Any, class_weight: Any) -> Any:
    """Return the loss of each label, from the objective of an estimator."""
    if class_weight is not None:
        raise ParameterError(
            "class_weight does not support several columns of y: use sample_weight, or train a "
            "classifier for each column."
        )
    if name in ("softmax", "one_vs_all"):
        raise ParameterError(
            f"objective {name!r} is for classes that exclude each other, but y has several "
            "columns: use 'logistic' or 'auto'."
        )
    return "logistic" if name == "auto" else name


def label_classes(objective: Objective) -> AnyArray | None:
    """Return ``classes_``: names or numbers of the labels; None for a single label."""
    from hedgerow.objectives import SeveralTargets

    if not isinstance(objective, SeveralTargets):
        return None
    if objective.named:
        return np.array(objective.names, dtype=object)
    return np.arange(objective.n_outputs)


def classes_of_labels(model: Model) -> AnyArray | None:
    """Return :func:`label_classes` of a model."""
    from hedgerow.booster import objective_of

    return label_classes(objective_of(model))
