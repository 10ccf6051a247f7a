"""Rows of all folds, read and binned once.

Cuts come from the values of all rows, including the test rows of each fold (but not their
targets), and so do the known categories::

    table  --cuts, bins-->  BinnedMatrix      once
                              |  |  |
                              v  v  v         rows of a fold, one byte a value
                              0  1  2

Crosses of columns (:mod:`hedgerow.data.inputs`) do not depend on the target, and are computed
once.  Encodings by the target are made separately for each fold: target statistics with their
bins, and class weights.  Sorted columns (``tree_method="exact"``, ``"approx"``) are
sorted for each fold.
"""

from __future__ import annotations

from copy import copy
from dataclasses import fields, replace

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.scores import TrainingData
from hedgerow.boosting.loop.setup.training_matrix import PreparedRows, bins_of_columns, prepare
from hedgerow.boosting.row_data.classes import with_class_weights
from hedgerow.boosting.row_data.statistics import choose_columns, kept_columns
from hedgerow.boosting.validation.folds import Fold
from hedgerow.data import AnyTable, BinnedMatrix, Table
from hedgerow.data.binning.bins import BinSpec
from hedgerow.growing.core.setup import SumsPool
from hedgerow.objectives import Objective
from hedgerow.params import BoostParams

_OF_TREES = (
    *("n_estimators", "learning_rate", "max_leaves", "max_depth", "min_samples_leaf"),
    *("reg_lambda", "subsample", "colsample_bynode", "grow_policy", "max_cat_to_onehot"),
)
"""Parameters that do not affect the form of the rows for the grower."""
_OF_FORM = [field.name for field in fields(BoostParams) if field.name not in _OF_TREES]

_KEPT_CELLS = 1_000_000
"""A fold of fewer values, copies included, is kept in memory for other kinds of trees.  Target
statistics of folds of 431 rows took a sixth of a default fit."""


class FoldRows:
    """All rows, with preparations that all folds share.

    sample  the rows, with only the categories that occur
    params  resolved, with column positions instead of names
    whole   the rows in the form for a fit; None if each fold needs its own form
    """

    def __init__(
        self, sample: Sample, objective: Objective, params: BoostParams, n_threads: int
    ) -> None:
        self.sample, self.params, self.n_threads = sample, params, n_threads
        self._objective = objective
        schema, is_hist = sample.table.schema, params.tree_method == "hist"
        self.whole: PreparedRows | None = None
        self._kept: BinSpec | None = None
        self._kept_folds: dict[Fold, PreparedRows] = {}
        self._sums = SumsPool()
        groups = choose_columns(schema, sample.n_rows, objective, params)
        if is_hist and not groups:
            self.whole = prepare(sample, (), objective, params, n_threads)
        elif is_hist and (kept := kept_columns(schema, groups)):
            self._kept = bins_of_columns(sample, kept, params, n_threads)

    def for_trees(self, params: BoostParams) -> FoldRows:
        """Return the rows for other parameters; prepare again only if their form differs."""
        if params.unlike(self.params, _OF_FORM):
            return FoldRows(self.sample, self._objective, params, self.n_threads)
        other = copy(self)
        other.params = params
        return other

    def close(self) -> None:
        """Forget the folds."""
        self._kept_folds.clear()

    def fold(self, fold: Fold, n_threads: int = 1) -> PreparedRows:
        """Return the rows of one fold; those of small tables are kept for further calls."""
        found = self._kept_folds.get(fold)
        if found is None:
            found = self._make_fold(fold, n_threads)
            if found.seen.matrix.n_rows * found.seen.matrix.n_features < _KEPT_CELLS:
                self._kept_folds[fold] = found
        return found

    def _make_fold(self, fold: Fold, n_threads: int) -> PreparedRows:
        sample, whole = self.sample, self.whole
        # The bins have the values, unless the loss describes a model of the fold.
        if whole is not None and not hasattr(self._objective, "fit_record"):
            table = Table(np.empty((sample.n_rows, 0)), sample.table.schema)
            sample = replace(sample, table=table)

        def part(rows: IntArray, weight: FloatArray | None) -> Sample:
            own = sample.take(rows)
            own = own if weight is None else replace(own, weight=weight)
            return with_class_weights(own, fold.by_class).without_equal_weights()

        train, test = part(fold.train, fold.train_weight), part(fold.test, fold.test_weight)
        if whole is None:  # each fold has inputs of its own
            given = train, (test,), self._objective, self.params, n_threads
            return prepare(*given, kept=self._kept)
        data = whole.seen
        assert isinstance(data.matrix, BinnedMatrix)
        seen = replace(
            _taken(data, train, data.matrix.take(fold.train), fold.train), sums=self._sums
        )
        rows: BinnedMatrix | AnyTable = data.matrix.take(fold.test, columns=False)
        if data.matrix.n_lost > 0:  # conflicts in bundles lost some values
            rows = whole.learned.table.take(fold.test)
        unseen = _taken(data, test, rows, fold.test)
        return PreparedRows(train, train, seen, (unseen,), (test,), whole.inputs)


def _taken(
    data: TrainingData, sample: Sample, matrix: BinnedMatrix | AnyTable, rows: IntArray
) -> TrainingData:
    numbers = data.numbers
    if numbers is not None:
        # Fortran order, for which the kernels are compiled; brackets would change it.
        numbers = np.take(numbers.T, rows, axis=1).T
    return TrainingData(matrix, sample.target, sample.weight, sample.offset, numbers=numbers)
