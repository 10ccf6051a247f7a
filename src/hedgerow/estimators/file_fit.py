"""Fitting an estimator to rows in files: labels of classes, and the fit.

The estimator has the same bytes as one that is fitted to the table in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.external.file_dataset import FileDataset
from hedgerow.boosting.external.file_rows import distinct_targets, numeric_target
from hedgerow.boosting.external.fit_files import fit_data
from hedgerow.boosting.loop.driver import FitOptions
from hedgerow.boosting.loop.setup.loss_spec import LossSpec
from hedgerow.boosting.resume.checkpoint import Checkpoint, claiming
from hedgerow.boosting.row_data.classes import corrected, indices_of, rescaled
from hedgerow.boosting.row_data.offsets import with_offset_columns
from hedgerow.data.reading.columns import ReadColumn
from hedgerow.errors import DataError, DataTypeError, ParameterError, brief
from hedgerow.estimators import labels
from hedgerow.estimators.classifier import HedgerowClassifier
from hedgerow.estimators.labels import balanced_weights
from hedgerow.estimators.multilabel import check_indicator, classes_of_labels, label_objective
from hedgerow.estimators.ranker import HedgerowRanker
from hedgerow.estimators.regressor import HedgerowRegressor

FileEstimator: TypeAlias = "HedgerowClassifier | HedgerowRegressor | HedgerowRanker"

MOST_VALUES = 10_000
"""Most distinct targets that are recorded, and most classes."""


@dataclass(frozen=True, slots=True, eq=False)
class TargetFacts:
    """Summary of all targets; of several targets no values are recorded.

    n_rows    number of rows with positive weight
    values    distinct targets, ascending: text, int64 if all are integers, else float64
    counted   whether each of them occurs in a row with positive weight
    has_more  whether ``values`` lacks some, because there are more than ``MOST_VALUES``
    masses    sum of the weights of the rows of each value, or without weights their number
    """

    n_rows: int
    is_text: bool
    values: AnyArray
    counted: AnyArray
    has_more: bool
    n_targets: int = 1
    masses: AnyArray = field(default_factory=lambda: np.zeros(0))

    @property
    def classes(self) -> AnyArray:
        """Labels of the rows with positive weight."""
        return self.values[self.counted]

    def class_weights(self, class_weight: Any, classes: AnyArray) -> FloatArray | None:
        """Return the weight of each of ``classes``, which include those of the rows."""
        if isinstance(class_weight, str) and class_weight == "balanced":
            mass = np.zeros(len(classes), dtype=self.masses.dtype)
            places = indices_of(self.classes, classes, "y", "the model to continue")
            mass[places.astype(np.intp)] = self.masses[self.counted]
            return balanced_weights(mass)
        return labels.class_weights(class_weight, classes, np.arange(float(len(classes))), None)


class _Labels:
    """Numbers for distinct targets, in the order of their first occurrence."""

    def __init__(self) -> None:
        self.number_of: dict[Any, int] = {}
        self.is_text: bool | None = None
        self.has_more = False

    def read(self, column: ReadColumn, name: str) -> FloatArray:
        """Return the number of each target; -1 for targets beyond ``MOST_VALUES``."""
        values, codes = distinct_targets(column, name)
        is_text = column.sort == "text"
        if self.is_text is not None and is_text != self.is_text:
            raise DataTypeError(f"target {name!r} holds text in some rows and numbers in others.")
        self.is_text = is_text
        return np.array([float(self._number(value)) for value in values])[codes]

    def _number(self, value: Any) -> int:
        if len(self.number_of) >= MOST_VALUES and value not in self.number_of:
            self.has_more = True
            return -1
        return self.number_of.setdefault(value, len(self.number_of))


def summarize_targets(data: FileDataset) -> TargetFacts:
    """Read all targets once."""
    several, labels = data.n_targets > 1, _Labels()
    codes, weights = [np.zeros(0)], list[FloatArray]()
    for rows in data.scan((lambda column, name: np.zeros(len(column))) if several else labels.read):
        codes.append(rows.target.copy())
        if rows.weight is not None:
            weights.append(rows.weight.copy())
    n_rows = sum(map(len, codes))
    if n_rows == 0:
        raise DataError("the data have no rows of weight above 0: check the column of weights.")
    if several:
        none, uncounted = np.zeros(0), np.zeros(0, dtype=np.bool_)
        return TargetFacts(n_rows, False, none, uncounted, False, data.n_targets)
    values, code = list(labels.number_of), np.concatenate(codes).astype(np.intp)
    weight = np.concatenate(weights)[code >= 0] if weights else None
    masses = np.bincount(code[code >= 0], weight, len(values))
    array: AnyArray = np.array(values)
    if not labels.is_text:
        integers = all(float(value).is_integer() and abs(value) < 2**63 for value in values)
        array = np.array(values, dtype=np.int64 if integers else np.float64)
    order = np.argsort(array, kind="stable")
    found = masses[order]
    return TargetFacts(
        n_rows, bool(labels.is_text), array[order], found > 0, labels.has_more, masses=found
    )


def fit_files(
    estimator: FileEstimator,
    data: FileDataset,
    facts: TargetFacts,
    valid: FileDataset | None = None,
    checkpoint: Checkpoint | None = None,
    init_model: Any = None,
) -> None:
    """Fit an estimator to rows in files."""
    classes: AnyArray | None = None
    by_class: FloatArray | None = None
    start, source = estimator._start(init_model)  # noqa: SLF001
    has_labels = isinstance(estimator, HedgerowClassifier) and data.n_targets > 1
    if isinstance(estimator, HedgerowClassifier) and not has_labels:
        classes = _check_classes(estimator, facts)
        known = labels.known_classes(source, start)
        if known is not None:
            indices_of(classes, known, "y", "the model to continue")
            classes = known
        by_class = facts.class_weights(estimator.class_weight, classes)
    if start is not None:
        start = replace(start, model=rescaled(start.model, by_class))
    loss = loss_spec_of(estimator, classes).for_targets(data)
    for rows in (data, valid):
        if rows is not None:
            rows.requested = replace(
                rows.requested,
                categorical=estimator.categorical_features,
                unknown=estimator.unknown_category,
            )
            if classes is not None:
                rows.read_classes(classes, is_strict=rows is valid, by_class=by_class)
            if has_labels:
                rows.read_targets_by(_read_indicator)
    if estimator.warm_start:
        raise ParameterError(
            "warm_start=True needs rows in memory, but these rows are in files: use "
            "warm_start=False."
        )
    if estimator.folds is not None:
        raise ParameterError(
            "folds number the rows of a table in memory, but these rows are in files: leave folds "
            "out, or read the table."
        )
    options = FitOptions(
        estimator._stopping(),  # noqa: SLF001
        estimator.eval_metric,
        estimator.callbacks,
        bool(estimator.progress),
        estimator.n_jobs,
        start,
    )
    params = estimator._params()  # noqa: SLF001
    try:
        with claiming(checkpoint):
            model = fit_data(data, loss, params, options, valid=valid, checkpoint=checkpoint)
    finally:
        data.close()
        if valid is not None:
            valid.close()
    model = with_offset_columns(corrected(model, by_class), data.offset_names)
    if has_labels:
        classes = classes_of_labels(model)
    estimator._adopt(model, **({} if classes is None else {"classes_": classes}))  # noqa: SLF001


def _read_indicator(column: ReadColumn, name: str) -> FloatArray:
    """Read one of several labels: numbers that are 0 or 1."""
    found = numeric_target(column, name)
    check_indicator(found, name, "y")
    return found


def loss_spec_of(estimator: FileEstimator, classes: AnyArray | None = None) -> LossSpec:
    """Return the loss specification of an estimator, for rows that are not in memory."""
    estimator._check_objective()  # noqa: SLF001
    values = estimator._loss_values()  # noqa: SLF001
    if isinstance(estimator, HedgerowClassifier) and classes is None:
        label = label_objective(estimator.objective, estimator.class_weight)
        return LossSpec(label, values, "two classes")
    if isinstance(estimator, HedgerowClassifier):
        assert classes is not None
        name, n_outputs = estimator._chosen_loss(classes)  # noqa: SLF001
        several = callable(name) and n_outputs > 1
        return LossSpec(name, values, "classes" if several else "two classes", n_outputs)
    ranks = isinstance(estimator, HedgerowRanker)
    return LossSpec(estimator._chosen_objective, values, has_queries=ranks)  # noqa: SLF001


def _check_classes(estimator: HedgerowClassifier, facts: TargetFacts) -> AnyArray:
    classes = facts.classes
    if facts.has_more:
        raise DataError(
            f"the target has more than {MOST_VALUES:,} different values, too many for classes: "
            "train a regression."
        )
    if not facts.is_text and facts.values.dtype != np.int64:
        raise DataError(
            "the target has numbers that are not integers, which cannot be classes: train a "
            "regression."
        )
    if len(classes) < 2:
        raise DataError(
            f"y has only one class, {brief(classes.tolist()[0])}: a classifier needs at least two "
            "classes."
        )
    return classes
