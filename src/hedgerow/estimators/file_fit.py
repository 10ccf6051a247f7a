"""Fitting an estimator to rows in files: labels of classes, and the fit.

The estimator has the same bytes as one that is fitted to the table in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.external.file_dataset import FileDataset
from hedgerow.boosting.external.file_rows import distinct_targets, numeric_target
from hedgerow.boosting.external.fit_files import fit_data
from hedgerow.boosting.loop.setup.loss_spec import LossSpec
from hedgerow.boosting.resume.checkpoint import claiming
from hedgerow.boosting.row_data.classes import corrected, indices_of, rescaled
from hedgerow.boosting.row_data.offsets import with_offset_columns
from hedgerow.boosting.row_data.row_values import ROW_VALUES
from hedgerow.boosting.validation.row_sets import named_valid, reads_batches
from hedgerow.data.reading.columns import ReadColumn
from hedgerow.errors import DataError, DataTypeError, ParameterError, brief
from hedgerow.estimators import labels
from hedgerow.estimators.classifier import HedgerowClassifier
from hedgerow.estimators.multilabel import check_indicator, classes_of_labels, label_objective
from hedgerow.estimators.ranker import HedgerowRanker
from hedgerow.estimators.regressor import HedgerowRegressor
from hedgerow.io.checkpoint_folder import checkpoint_at

FileEstimator: TypeAlias = "HedgerowClassifier | HedgerowRegressor | HedgerowRanker"

MOST_VALUES = 10_000
"""Most distinct targets that are recorded, and most classes."""


class TargetFacts(NamedTuple):
    """Summary of all targets; of several targets no values are recorded.

    n_rows    number of rows with positive weight
    values    distinct targets, ascending: text, int64 if all are integers, else float64
    masses    sum of the weights of the rows of each value, or without weights their number
    has_more  whether ``values`` lacks some, because there are more than ``MOST_VALUES``
    """

    n_rows: int
    n_targets: int
    is_text: bool
    values: AnyArray
    masses: AnyArray
    has_more: bool


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
    """Return the summary of all targets, which are read once."""
    if data.summary is None:
        data.summary = _summary_of(data)
    found: TargetFacts = data.summary
    return found


def _summary_of(data: FileDataset) -> TargetFacts:
    labels = _Labels()
    read = labels.read if data.n_targets == 1 else lambda column, name: np.full(len(column), -1.0)
    codes, weights = [np.zeros(0)], list[FloatArray]()
    for rows in data.scan(read):
        codes.append(rows.target.reshape(rows.n_rows, -1)[:, 0].copy())
        if rows.weight is not None:
            weights.append(rows.weight.copy())
    n_rows = sum(map(len, codes))
    if n_rows == 0:
        raise DataError("the data have no rows of weight above 0: check the column of weights.")
    values, code = list(labels.number_of), np.concatenate(codes).astype(np.intp)
    weight = np.concatenate(weights)[code >= 0] if weights else None
    masses = np.bincount(code[code >= 0], weight, len(values))
    array: AnyArray = np.array(values)
    if not labels.is_text:
        integers = all(float(value).is_integer() and abs(value) < 2**63 for value in values)
        array = np.array(values, dtype=np.int64 if integers else np.float64)
    order = np.argsort(array, kind="stable")
    return TargetFacts(
        n_rows, data.n_targets, bool(labels.is_text), array[order], masses[order], labels.has_more
    )


def fit_files(estimator: FileEstimator, arguments: Mapping[str, Any]) -> FileEstimator:
    """Fit an estimator to rows in files, X among the arguments of its ``fit``."""
    for name, option in (("warm_start", False), ("folds", None)):
        if getattr(estimator, name) not in (option, None):
            raise ParameterError(
                f"{name}={brief(getattr(estimator, name))} needs rows in memory, but these rows "
                f"are in files: use {name}={option}, or give the rows as a table."
            )
    kept = checkpoint_at(arguments["checkpoint"], arguments["checkpoint_every"])
    params, stopping = estimator._params(), estimator._stopping()  # noqa: SLF001
    start, source = estimator._start(arguments["init_model"])  # noqa: SLF001
    with ExitStack() as stack:

        def opened(rows: FileDataset) -> FileDataset:
            own = stack.enter_context(closing(rows.for_one_use()))
            chosen: dict[str, Any] = {}  # what the estimator leaves open, the Dataset decides
            if not (isinstance(asked := estimator.categorical_features, str) and asked == "auto"):
                chosen["categorical"] = asked
            if estimator.unknown_category != "missing":
                chosen["unknown"] = estimator.unknown_category
            own.requested = replace(own.requested, **chosen)
            return own

        data = opened(arguments["X"])
        sets = {name: opened(rows) for name, rows in _validation_sets(arguments).items()}
        classes: AnyArray | None = None
        by_class: FloatArray | None = None
        if isinstance(estimator, HedgerowClassifier):
            if data.n_targets > 1:
                for rows in (data, *sets.values()):
                    rows.read_targets_by(_read_indicator)
            else:
                found, masses = _classes_of(summarize_targets(data))
                known = labels.known_classes(source, start)
                classes = found if known is None else known
                places = indices_of(found, classes, "y", "the model to continue")
                by_class = labels.class_weights(estimator.class_weight, classes, places, masses)
                for rows in (data, *sets.values()):
                    rows.read_classes(classes, is_strict=rows is not data, by_class=by_class)
        if start is not None:
            start = replace(start, model=rescaled(start.model, by_class))
        more: dict[str, Any] = {} if classes is None else {"classes_": classes}
        options = estimator._options(stopping, start, more)  # noqa: SLF001
        loss = loss_spec_of(estimator, classes).for_targets(data)
        with claiming(kept):
            model = fit_data(data, loss, params, options, valid=sets or None, checkpoint=kept)
        names = data.offset_names
    model = with_offset_columns(corrected(model, by_class), names)
    if isinstance(estimator, HedgerowClassifier) and classes is None:
        more = {"classes_": classes_of_labels(model)}
    return estimator._adopt(model, **more)  # noqa: SLF001


def _validation_sets(arguments: Mapping[str, Any]) -> Mapping[str, FileDataset]:
    """Return the sets of validation rows; files hold targets and all other values of rows."""
    for role in ("y", *(value.of_fit for value in ROW_VALUES)):
        for name in (role, f"{role}_val"):
            if arguments.get(name) is not None:
                raise DataError(
                    f"{name} is given, but X is a Dataset of files, which names the columns of all "
                    f"values of its rows: use {name}=None."
                )
    sets, found = named_valid(arguments["X_val"]), dict[str, FileDataset]()
    for name, rows in sets.items():
        if not reads_batches(rows):
            raise DataError(
                f"the validation rows {name!r} in X_val are in memory, but X is a Dataset of "
                "files: give both as files."
            )
        found[name] = rows
    return found


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


def _classes_of(facts: TargetFacts) -> tuple[AnyArray, FloatArray]:
    """Return the labels of the rows of positive weight, and the mass of each."""
    classes, masses = facts.values[facts.masses > 0], facts.masses[facts.masses > 0]
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
    return classes, masses
