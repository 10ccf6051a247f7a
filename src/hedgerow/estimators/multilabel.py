"""Multilabel classification: a target matrix of zeros and ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.row_data.targets import Targets, read_targets
from hedgerow.errors import DataError, ParameterError, brief
from hedgerow.objectives import Objective, SeveralTargets

if TYPE_CHECKING:
    from hedgerow.model.model import Model


def read_indicators(y: Any, n_rows: int, name: str) -> Targets:
    """Read a target matrix with a column of 0 and 1 for each label."""
    labels = read_targets(y, n_rows, name)
    for k in range(labels.values.shape[1]):
        check_indicator(labels.values[:, k], k if labels.names is None else labels.names[k], name)
    return labels


def check_indicator(column: FloatArray, label: object, name: str) -> None:
    """Raise ``DataError`` if a column of ``name`` has other values than 0 and 1."""
    outside = (column != 0.0) & (column != 1.0)
    if outside.any():
        row = int(np.argmax(outside))
        raise DataError(
            f"{name} has several columns, so each must be a label of 0 and 1, but column "
            f"{brief(label)} holds {column[row]:g} in row {row}: multiclass-multioutput is not "
            "supported. For columns of more classes, train a classifier for each "
            "column."
        )


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
    if not isinstance(objective, SeveralTargets):
        return None
    if objective.named:
        return np.array(objective.names, dtype=object)
    return np.arange(objective.n_outputs)


def classes_of_labels(model: Model) -> AnyArray | None:
    """Return :func:`label_classes` of a model."""
    from hedgerow.booster import objective_of

    return label_classes(objective_of(model))
