"""Multilabel classification: a target matrix of zeros and ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from hedgerow.arrays import AnyArray
from hedgerow.boosting.loop.sample import Sample, check_weight
from hedgerow.boosting.row_data.targets import Targets, read_targets, same_targets
from hedgerow.boosting.validation.row_sets import ValidationRows, stacked
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.data import AnyTable, read_any
from hedgerow.errors import DataError, ParameterError
from hedgerow.estimators.base import HedgerowEstimator
from hedgerow.objectives import Objective, SeveralTargets, objective_for
from hedgerow.params import BoostParams

if TYPE_CHECKING:
    from hedgerow.boosting.resume.checkpoint import Checkpoint


def read_indicators(y: Any, n_rows: int, name: str) -> Targets:
    """Read a target matrix with a column of 0 and 1 for each label.

    Raises
    ------
    DataError
        If there is another value; the message names its column and first row.
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
                "supported. For columns of more classes, train a classifier for each "
                "column."
            )
    return labels


def label_objective(name: Any, class_weight: Any) -> Any:
    """Return the loss of each label, from the objective of an estimator.

    Raises
    ------
    ParameterError
        If the objective does not support several labels, or there are class weights.
    """
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


class LabelFits(HedgerowEstimator):
    """Mixin of the classifier for several labels per row."""

    class_weight: Any

    def _fit_labels(
        self,
        table: AnyTable,
        y: Any,
        sample_weight: Any,
        sets: Sequence[ValidationRows],
        params: BoostParams,
        stopping: StoppingParams,
        kept: Checkpoint | None,
    ) -> Self:
        """Train on a target matrix of labels."""
        targets = read_indicators(y, table.n_rows, "y")
        loss = label_objective(self.objective, self.class_weight)
        values, names = self._loss_values(), targets.names
        objective = objective_for(loss, targets.values, 1, values, "two classes", names)
        train = Sample(table, targets.values, check_weight(sample_weight, table.n_rows))

        def validation_sample(rows: ValidationRows) -> Sample:
            if rows.offset is not None:
                raise ParameterError("offset does not support several columns of y: leave it out.")
            own_table = read_any(rows.X, table.schema, reader=type(self).__name__)
            own = read_indicators(rows.y, own_table.n_rows, rows.called("y"))
            weight = check_weight(rows.weight, own_table.n_rows, rows.called("sample_weight"))
            return Sample(own_table, same_targets(own, targets, rows.called("y")), weight)

        validation = stacked({rows.name: validation_sample(rows) for rows in sets})
        classes = label_classes(objective)
        model = self._train(train, validation, objective, params, stopping, kept, classes_=classes)
        return self._adopt(model, classes_=classes)
