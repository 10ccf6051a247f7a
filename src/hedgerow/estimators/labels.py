"""Class labels of any type: to indices, to weights, to JSON and back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.continuing import Start
from hedgerow.boosting.sample import check_finite, check_length, check_weight
from hedgerow.errors import DataError, DataTypeError, ModelFormatError, ParameterError

_MISSING_TYPES = ("NoneType", "NAType", "NaTType")

_LABEL_TYPE = re.compile(r"<U[0-9]{1,5}|<[iu][248]|<f[248]|\|[biu]1", re.ASCII)
"""Types of labels in a model file, as NumPy calls them."""

_LONGEST_LABEL = 1 << 14
"""Letters of a label."""

MOST_LABEL_BYTES = 1 << 28
"""All labels of a model together, as an array."""


def read_labels(y: Any, n_rows: int, name: str, reader: str) -> AnyArray:
    """One label for each row.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Text, integers, booleans, or whole floats; no missing values.
    n_rows : int
    name, reader : str
        What and who, for messages.

    Raises
    ------
    DataError, DataTypeError, ValueError
        If there are missing labels, another number of them, or they are
        continuous; a ``ValueError`` of scikit-learn for a wrong shape.
    """
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import column_or_1d

    if y is None:
        raise DataError(
            f"This {reader} estimator requires {name} to be passed, but the target {name} is None."
        )
    labels: AnyArray = column_or_1d(_plain(y), warn=True)
    check_length(len(labels), n_rows, name)
    if labels.dtype.kind == "f":
        check_finite(labels, name)
    if labels.dtype.kind == "O":
        _refuse_missing(labels, name)
    check_classification_targets(labels)
    return labels


def _plain(y: Any) -> Any:
    """Columns of frame libraries, and text of NumPy's own type, as ordinary arrays.

    Nullable integers would become floats otherwise.
    """
    if not hasattr(y, "dtype"):
        return y
    array = np.asarray(y)
    if array.dtype.kind == "T":
        return array.astype(object)
    if array.dtype.kind != "O" or isinstance(y, np.ndarray):
        return array
    kinds = {type(label) for label in array.ravel().tolist()}
    return array.astype(kinds.pop()) if kinds in ({int}, {bool}) else array


def _refuse_missing(labels: AnyArray, name: str) -> None:
    for row, label in enumerate(labels.tolist()):
        if type(label).__name__ in _MISSING_TYPES or label != label:
            raise DataError(
                f"{name} has no label in row {row} ({label!r}): remove the rows without a label, "
                "or give them one of their own."
            )


def encode(labels: AnyArray, weight: FloatArray | None) -> tuple[AnyArray, FloatArray]:
    """Classes in order, and the index of each row's class.

    Only rows of positive weight make a class; the others get index 0.

    Raises
    ------
    DataError
        If there are fewer than two classes.
    DataTypeError
        If labels of different types cannot be ordered.
    """
    counted = np.ones(len(labels), dtype=bool) if weight is None else weight > 0.0
    try:
        classes, index = np.unique(labels[counted], return_inverse=True)
    except TypeError as error:
        raise DataTypeError(
            f"y mixes labels of types that cannot be ordered ({error}): make them one type."
        ) from error
    if len(classes) < 2:
        without = " among rows of positive sample_weight" if not counted.all() else ""
        raise DataError(
            f"y has only one class, {classes.tolist()[0]!r}{without}: "
            "a classifier needs at least two classes."
        )
    codes = np.zeros(len(labels))
    codes[counted] = index.reshape(-1)
    return classes, codes


def encode_as(
    labels: AnyArray, weight: FloatArray | None, known: AnyArray | None
) -> tuple[AnyArray, FloatArray]:
    """As :func:`encode`, with the classes that a model to go on from has; None: its own.

    Raises
    ------
    DataError
        If a row of positive weight has another label.
    """
    if known is None:
        return encode(labels, weight)
    codes = np.zeros(len(labels))
    counted = np.ones(len(labels), dtype=bool) if weight is None else weight > 0.0
    codes[counted] = indices_of(labels[counted], known, "y", "the model to go on from")
    return known, codes


def known_classes(source: Any, start: Start | None) -> AnyArray | None:
    """Classes of the model to go on from, if it is known what they are called.

    Parameters
    ----------
    source : estimator, record of an estimator, or None
    start : Start or None
    """
    if source is None or start is None:
        return None
    if not isinstance(source, Mapping):
        found: AnyArray | None = getattr(source, "classes_", None)
        return found
    if "classes" not in source:
        return None
    several = start.model.objective in ("softmax", "one_vs_all")
    return labels_from_record(source["classes"], start.forest.n_outputs if several else 2)


def indices_of(labels: AnyArray, classes: AnyArray, name: str, owner: str = "y") -> FloatArray:
    """Index of each label in ``classes``.

    Raises
    ------
    DataError
        If a label is not one of them; the message lists up to five.
    """
    place = {label: index for index, label in enumerate(classes.tolist())}
    found = [place.get(label, -1) for label in labels.tolist()]
    codes = np.array(found, dtype=np.float64)
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        unknown = sorted({repr(label) for label in labels[codes < 0].tolist()})
        raise DataError(
            f"{name} has labels that {owner} has not: {', '.join(unknown[:5])} (the first in row "
            f"{row})."
        )
    return codes


def weights_by_class(
    weight: FloatArray | None, codes: FloatArray, by_class: FloatArray | None
) -> FloatArray | None:
    """Weights of rows times those of their classes.

    Raises
    ------
    DataError
        If a product is beyond the numbers that a weight may be.
    """
    if by_class is None:
        return weight
    factor = by_class[codes.astype(np.intp)]
    if weight is None:
        return check_weight(factor, len(codes), "class_weight")
    with np.errstate(over="ignore", under="ignore"):
        product = weight * factor
    lost = (product == 0.0) & (weight > 0.0)
    if lost.any() or not np.isfinite(product).all():
        row = int(np.argmax(lost | ~np.isfinite(product)))
        raise DataError(
            f"sample_weight times class_weight is {product[row]:g} in row {row} "
            f"({weight[row]:g} times {factor[row]:g}): bring the weights nearer to 1."
        )
    return check_weight(product, len(codes), "sample_weight times class_weight")


def class_weights(
    class_weight: Any, classes: AnyArray, codes: FloatArray, weight: FloatArray | None
) -> FloatArray | None:
    """Weight of each class; None if all are 1.

    Parameters
    ----------
    class_weight : None, "balanced" or dict
    classes, codes
        From :func:`encode`.
    weight : array of shape (n_rows,), optional
        Counts rows for ``"balanced"``.

    Raises
    ------
    ParameterError
        If it is something else, names an unknown class, or a weight is not
        greater than 0.
    """
    if class_weight is None:
        return None
    if isinstance(class_weight, str) and class_weight == "balanced":
        mass = np.bincount(codes.astype(np.intp), weights=weight, minlength=len(classes))
        present = mass > 0.0  # a class of the model to go on from may have no row
        mass[~present] = mass.sum() / present.sum()
        return np.asarray(mass[present].sum() / (present.sum() * mass))
    if not isinstance(class_weight, Mapping):
        raise ParameterError(
            f"class_weight must be None, 'balanced' or a dict from class to weight; "
            f"got {class_weight!r}."
        )
    labels = classes.tolist()
    unknown = [label for label in class_weight if label not in labels]
    if unknown:
        raise ParameterError(
            f"class_weight names {unknown[0]!r}, which is not in y; classes: {labels[:20]}."
        )
    try:
        weights = np.array([float(class_weight.get(label, 1.0)) for label in labels])
    except (TypeError, ValueError) as error:
        raise ParameterError(f"class_weight must map classes to numbers: {error}.") from None
    if not (np.isfinite(weights).all() and (weights > 0.0).all()):
        wrong = labels[int(np.argmin(np.where(np.isfinite(weights), weights, -1.0)))]
        raise ParameterError(
            f"class_weight must be greater than 0 and finite, but class {wrong!r} "
            f"has {class_weight[wrong]!r}: leave its rows out instead."
        )
    return weights


def labels_to_record(classes: AnyArray) -> dict[str, Any]:
    """Classes as JSON-like values, dtype included.

    Raises
    ------
    DataTypeError
        If labels are neither text, numbers nor booleans, or together too long.
    """
    values = classes.tolist()
    if classes.dtype.kind not in "biufUO" or classes.dtype == np.longdouble:
        raise DataTypeError(f"labels of type {classes.dtype} cannot be saved: use text or numbers.")
    for value in values:
        if not isinstance(value, str | bool | int | float):
            raise DataTypeError(
                f"the label {value!r} ({type(value).__name__}) cannot be saved: "
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
    """Inverse of :func:`labels_to_record`, for a record from any source.

    Raises
    ------
    ModelFormatError
        If it is not the record of ``n_classes`` different labels.
    """
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
            raise ValueError("labels are not in order")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ModelFormatError(f"the classes in the model file are malformed: {error}.") from None
    return classes


def _dtype(name: Any, n_labels: int) -> np.dtype[Any]:
    """The type of a name, which NumPy is not asked about: it wraps lengths around."""
    if name == "O":
        return np.dtype(object)
    if not isinstance(name, str) or not _LABEL_TYPE.fullmatch(name):
        raise ValueError(f"unknown type {str(name)[:40]!r}")
    if name.startswith("<U"):
        letters = int(name[2:])
        if letters > _LONGEST_LABEL or 4 * letters * n_labels > MOST_LABEL_BYTES:
            raise ValueError("labels are too long")
    return np.dtype(name).newbyteorder("=")
