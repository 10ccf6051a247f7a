"""The data that all folds of a cross-fit share: rows, loss, parameters and class weights."""

# ruff: noqa: SLF001  (the code here has the role of the estimators' fit methods)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.boosting.loop.sample import Sample, check_weight
from hedgerow.boosting.loop.setup.devices import resolve_device
from hedgerow.boosting.loop.setup.resolved import resolved
from hedgerow.boosting.row_data.class_weights import weights_by_class
from hedgerow.boosting.row_data.offsets import Offsets
from hedgerow.boosting.row_data.queries import read_qid
from hedgerow.boosting.row_data.targets import has_columns
from hedgerow.boosting.validation.fold_rows import FoldRows
from hedgerow.boosting.validation.folds import Fold
from hedgerow.boosting.validation.row_sets import ValidationRows
from hedgerow.data import Table
from hedgerow.errors import DataError, ParameterError
from hedgerow.estimators import labels
from hedgerow.estimators.classifier import HedgerowClassifier
from hedgerow.estimators.ranker import HedgerowRanker
from hedgerow.estimators.regressor import HedgerowRegressor
from hedgerow.objectives import Objective
from hedgerow.params import BoostParams


@dataclass(frozen=True, slots=True, eq=False)
class ClassWeights:
    """Class weights from the training rows of a fold, for its training and test rows."""

    requested: Any
    classes: AnyArray

    def of(self, train: Sample) -> FloatArray:
        """Return the weight of each class; 1 for a class without training rows."""
        found = labels.class_weights(self.requested, self.classes, train.target, train.weight)
        assert found is not None
        return found

    def __call__(self, train: Sample, test: Sample) -> tuple[Sample, Sample]:
        """Return both with weights that include those of the classes."""
        by_class = self.of(train)

        def weighted(sample: Sample) -> Sample:
            weight = weights_by_class(sample.weight, sample.target, by_class)
            return replace(sample, weight=weight)

        return weighted(train), weighted(test)


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """All rows, the objective, and the parameters of the trees."""

    sample: Sample
    objective: Objective
    params: BoostParams
    weigh: ClassWeights | None = None
    classes: AnyArray | None = None


def read_problem(estimator: Any, given: Offsets, y: Any, weight: Any, qid: Any) -> Problem:
    """Read the arguments as the estimator's fit does."""
    params = estimator._params()
    estimator._check_objective()
    table = estimator._read(given.X, params)
    weigh: ClassWeights | None = None
    classes: AnyArray | None = None
    if isinstance(estimator, HedgerowRanker):
        objective = estimator._make_objective()
        sample = estimator._sample(table, ValidationRows("", given.X, y, weight, None, qid))
    elif isinstance(estimator, HedgerowClassifier):
        if has_columns(y):
            raise DataError(
                "cross_fit takes one label for each row, but y has several columns: call it for "
                "each column."
            )
        y = labels.read_labels(y, table.n_rows, "y", type(estimator).__name__)
        checked = check_weight(weight, table.n_rows)
        classes, codes = labels.encode(y, checked)
        labels.class_weights(estimator.class_weight, classes, codes, checked)
        objective = estimator._make_objective(classes, codes)
        sample = Sample(table, codes, checked)
        if estimator.class_weight is not None:
            weigh = ClassWeights(estimator.class_weight, classes)
    else:
        assert isinstance(estimator, HedgerowRegressor)
        targets = estimator._targets(y, table.n_rows, "y")
        sample = Sample(table, targets.values, check_weight(weight, table.n_rows))
        objective = estimator._make_objective(targets, sample.weight)
    if qid is not None and sample.query is None:
        raise ParameterError("qid has an effect only on a HedgerowRanker: use groups instead.")
    sample = given.on(sample, objective.n_outputs)
    requested = resolve_device(resolved(params, objective, table.schema), table)
    return Problem(sample, objective, requested, weigh, classes)


def weights_of_folds(
    problem: Problem, rows: FoldRows, folds: Sequence[Fold]
) -> list[FloatArray | None]:
    """Return the class weights of each fold; None without ``class_weight``."""
    weigh, sample = problem.weigh, rows.sample
    if weigh is None:
        return [None] * len(folds)
    bare = replace(sample, table=Table(np.empty((sample.n_rows, 0)), sample.table.schema))
    return [weigh.of(bare.take(fold.train)) for fold in folds]


def mean_weights(weights: Sequence[FloatArray | None]) -> FloatArray | None:
    """Return the geometric mean of the class weights of folds, as raw scores are averaged."""
    known = [by_class for by_class in weights if by_class is not None]
    if not known:
        return None
    if all(np.array_equal(by_class, known[0]) for by_class in known):
        return known[0]
    return np.asarray(np.exp(np.mean(np.log(known), axis=0)))


def groups_of(groups: Any, problem: Problem) -> IntArray | None:
    """Return the number of each row's group; rows of a group stay in the same fold."""
    sample = problem.sample
    if sample.query is not None:
        if groups is not None:
            raise ParameterError(
                "groups cannot be combined with qid: queries are the groups. Leave groups out."
            )
        return sample.query
    return read_qid(groups, sample.n_rows, "groups")
