"""Class labels of any type: to indices, to weights, to JSON and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.loop.sample import check_finite, check_length, check_weight
from hedgerow.boosting.row_data.classes import indices_of, labels_from_record
from hedgerow.boosting.row_data.targets import one_column
from hedgerow.errors import DataError, DataTypeError, ParameterError

if TYPE_CHECKING:
    from hedgerow.boosting.resume.continuing import Start

_MISSING_TYPES = ("NoneType", "NAType", "NaTType")


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
    labels: AnyArray = column_or_1d(_plain(one_column(y)), warn=True)
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


def encode(
    labels: AnyArray, weight: FloatArray | None, least: int = 2
) -> tuple[AnyArray, FloatArray]:
    """Classes in order, and the index of each row's class.

    Only rows of positive weight make a class; the others get index 0.

    Raises
    ------
    DataError
        If there are fewer than ``least`` classes.
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
    if len(classes) < least:
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
    source : estimator, booster, record of an estimator, or None
    start : Start or None
    """
    if source is None or start is None:
        return None
    if not isinstance(source, Mapping):
        found: AnyArray | None = getattr(source, "classes_", getattr(source, "classes", None))
        return found
    if "classes" not in source:
        return None
    several = start.model.objective in ("softmax", "one_vs_all")
    return labels_from_record(source["classes"], start.forest.n_outputs if several else 2)


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
