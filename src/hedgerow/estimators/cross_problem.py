"""The data that all folds of a cross-fit share: rows, loss, parameters and class weights."""

# ruff: noqa: SLF001  (the code here has the role of the estimators' fit methods)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.setup.job import FitSpec, Job
from hedgerow.boosting.row_data.classes import with_class_weights
from hedgerow.boosting.row_data.queries import read_qid
from hedgerow.boosting.row_data.targets import has_columns
from hedgerow.boosting.validation.fold_rows import FoldRows
from hedgerow.boosting.validation.folds import Fold
from hedgerow.data import Table
from hedgerow.errors import DataError, ParameterError
from hedgerow.estimators import labels
from hedgerow.estimators.classifier import HedgerowClassifier
from hedgerow.estimators.ranker import HedgerowRanker
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

        return with_class_weights(train, by_class), with_class_weights(test, by_class)


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """All rows with the objective, and the parameters of the trees."""

    spec: FitSpec
    params: BoostParams
    weigh: ClassWeights | None = None

    @property
    def classes(self) -> AnyArray | None:
        """Class labels; None for other estimators."""
        return self.spec.classes

    @property
    def sample(self) -> Sample:
        """All rows."""
        return self.spec.train

    @property
    def objective(self) -> Objective:
        """The loss."""
        return self.spec.objective


def read_problem(estimator: Any, arguments: Mapping[str, Any]) -> Problem:
    """Read the arguments of ``cross_fit`` as the estimator's fit does."""
    params = estimator._params()
    estimator._check_objective()
    if isinstance(estimator, HedgerowClassifier) and has_columns(arguments["y"]):
        raise DataError(
            "cross_fit takes one label for each row, but y has several columns: call it for each "
            "column."
        )
    if arguments["qid"] is not None and not isinstance(estimator, HedgerowRanker):
        raise ParameterError("qid has an effect only on a HedgerowRanker: use groups instead.")

    def read_targets(job: Job, n_rows: int, weight: FloatArray | None) -> Any:
        known = estimator._read_targets(job, n_rows, weight)
        return replace(known, by_class=None)  # each fold has weights of its own

    job = estimator._job({**arguments, "groups": None})  # which divide the folds
    spec = job.read(read_targets, params)
    weigh = None
    if getattr(estimator, "class_weight", None) is not None:
        weigh = ClassWeights(estimator.class_weight, spec.classes)
    return Problem(spec, params, weigh)


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
