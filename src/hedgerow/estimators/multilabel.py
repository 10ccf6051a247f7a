"""Several labels for each row: a matrix of zeros and ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.targets import Targets, read_targets
from hedgerow.errors import DataError, ParameterError
from hedgerow.objectives import Objective, SeveralTargets


def read_indicators(y: Any, n_rows: int, name: str) -> Targets:
    """One column for each label, 1 where the row has it and 0 where it does not.

    Raises
    ------
    DataError
        If a value is neither; the message names the column and the first row.
    """
    labels = read_targets(y, n_rows, name)
    for k in range(labels.values.shape[1]):
        column = labels.values[:, k]
        outside = (column != 0.0) & (column != 1.0)
        if outside.any():
            row = int(np.argmax(outside))
            label = labels.names[k] if labels.names is not None else k
            raise DataError(
                f"{name} has several columns, so each must be a label of 0 and 1, but column "
                f"{label!r} holds {column[row]:g} in row {row}: multiclass-multioutput is not "
                "supported. For several targets of more classes train a classifier for each "
                "column."
            )
    return labels


def label_objective(name: Any, class_weight: Any) -> Any:
    """The loss of each label, for an estimator's objective.

    Raises
    ------
    ParameterError
        If it has no labels, or weights of classes are given.
    """
    if class_weight is not None:
        raise ParameterError(
            "class_weight is for one label; with several columns of y give sample_weight, or "
            "train a classifier for each column."
        )
    if name in ("softmax", "one_vs_all"):
        raise ParameterError(
            f"objective {name!r} is for classes that exclude each other, but y has several "
            "columns: use 'logistic' or 'auto'."
        )
    return "logistic" if name == "auto" else name


def label_classes(objective: Objective) -> AnyArray | None:
    """What stands for ``classes_``: names or numbers of the labels; None for one label."""
    if not isinstance(objective, SeveralTargets):
        return None
    if objective.named:
        return np.array(objective.names, dtype=object)
    return np.arange(objective.n_outputs)


def indicators_of(raw: FloatArray) -> AnyArray:
    """1 for each label whose raw score is positive, shape (n_rows, n_labels)."""
    return np.ascontiguousarray((raw > 0.0).T).astype(np.int64)
