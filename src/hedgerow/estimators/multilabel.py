"""Several labels for each row: a matrix of zeros and ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.loop.sample import Sample, check_weight
from hedgerow.boosting.row_data.targets import Targets, read_targets, same_targets
from hedgerow.boosting.validation.row_sets import GivenRows, stacked
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.data import AnyTable, read_any
from hedgerow.errors import DataError, ParameterError
from hedgerow.estimators.base import HedgerowEstimator
from hedgerow.objectives import Objective, SeveralTargets, objective_for
from hedgerow.params import BoostParams

if TYPE_CHECKING:
    from hedgerow.boosting.resume.checkpoint import Checkpoint


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


class LabelFits(HedgerowEstimator):
    """Training on several labels; part of the classifier."""

    class_weight: Any

    def _fit_labels(
        self,
        table: AnyTable,
        y: Any,
        sample_weight: Any,
        sets: Sequence[GivenRows],
        params: BoostParams,
        stopping: StoppingParams,
        kept: Checkpoint | None,
    ) -> Self:
        """Train on a table of labels."""
        targets = read_indicators(y, table.n_rows, "y")
        loss = label_objective(self.objective, self.class_weight)
        values, names = self._loss_values(), targets.names
        objective = objective_for(loss, targets.values, 1, values, "two classes", names)
        train = Sample(table, targets.values, check_weight(sample_weight, table.n_rows))

        def aside(rows: GivenRows) -> Sample:
            if rows.offset is not None:
                raise ParameterError("an offset is for one target: leave it out.")
            seen = read_any(rows.X, table.schema, reader=type(self).__name__)
            known = read_indicators(rows.y, seen.n_rows, rows.called("y"))
            weight = check_weight(rows.weight, seen.n_rows, rows.called("sample_weight"))
            return Sample(seen, same_targets(known, targets, rows.called("y")), weight)

        validation = stacked({rows.name: aside(rows) for rows in sets})
        classes = label_classes(objective)
        model = self._train(train, validation, objective, params, stopping, kept, classes_=classes)
        return self._adopt(model, classes_=classes)
