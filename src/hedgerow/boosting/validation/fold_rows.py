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

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import fields, replace
from typing import Any, TypeAlias

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.boosting.automatic.repeats import Repeats, find_repeats
from hedgerow.boosting.loop.driver import PreparedRows
from hedgerow.boosting.loop.sample import Sample, with_own_levels
from hedgerow.boosting.loop.scored import ScoredRows
from hedgerow.boosting.loop.scores import TrainingData
from hedgerow.boosting.loop.setup.training_matrix import prepare_rows
from hedgerow.boosting.row_data.statistics import (
    Encoded,
    choose_columns,
    constraints_of_inputs,
    encode,
)
from hedgerow.boosting.validation.folds import Fold
from hedgerow.boosting.validation.row_sets import ONLY
from hedgerow.data import AnyTable, BinnedMatrix, Table, fit_bins
from hedgerow.data.binning.bins import BinSpec, joined_bins, sampled_rows
from hedgerow.growing.core.setup import SumsPool
from hedgerow.objectives import Objective
from hedgerow.params import BoostParams

_OF_TREES = (
    "n_estimators",
    "learning_rate",
    "max_leaves",
    "max_depth",
    "min_samples_leaf",
    "reg_lambda",
    "subsample",
    "colsample_bynode",
    "grow_policy",
    "max_cat_to_onehot",
)
"""Parameters that do not affect the form of the rows for the grower."""

_KEPT_CELLS = 1_000_000
"""A fold of fewer values, copies included, is kept in memory, in some megabytes.

Kinds of trees are compared on the same folds.  Target statistics of the folds of 431 rows of 39
columns took a sixth of a default fit.
"""

Weigh: TypeAlias = "Callable[[Sample, Sample], tuple[Sample, Sample]]"
"""Function that weights the training and test rows of a fold."""


class FoldRows:
    """All rows, with preparations that all folds share.

    params            resolved, with column positions instead of names
    original, sample  the rows; ``sample`` has only the categories that occur
    matrix            None if each fold needs its own form
    """

    spaces = None  # folds may grow at the same time

    def __init__(
        self, sample: Sample, objective: Objective, params: BoostParams, n_threads: int
    ) -> None:
        self.original = sample
        self.sample, _ = with_own_levels(sample, None)
        self._objective, self.params, self._n_threads = objective, params, n_threads
        schema = self.sample.table.schema
        self._statistics = bool(choose_columns(schema, sample.n_rows, objective, params))
        self.matrix: BinnedMatrix | None = None
        self._crossed: Encoded | None = None
        self._data: TrainingData | None = None
        self._kept: BinSpec | None = None
        self._kept_folds: dict[int, tuple[Fold, Weigh | None, PreparedRows]] = {}
        if not self._statistics and params.tree_method == "hist":
            encoded = self._crossed = encode(self.sample, None, objective, params, n_threads)
            own = constraints_of_inputs(params, encoded.inputs)
            self._data, *_ = prepare_rows(encoded, own, n_threads)
            assert isinstance(self._data.matrix, BinnedMatrix)
            self.matrix, self._sums = self._data.matrix, SumsPool()
        elif self._statistics and params.tree_method == "hist":
            encoded = encode(self.sample, None, objective, params, n_threads)
            self._kept = _bins_of_kept(self.sample, encoded, params, n_threads)

    def for_trees(self, params: BoostParams) -> FoldRows:
        """Return the rows for other parameters; prepare again only if their form differs."""
        if form_of(params) != form_of(self.params):
            return FoldRows(self.original, self._objective, params, self._n_threads)
        other = copy(self)
        other.params = params
        return other

    def whole(self) -> PreparedRows | None:
        """Return all rows in the form for a fit, if it is shared by all folds."""
        if self._data is None or self._crossed is None:
            return None
        return PreparedRows(self.sample, self.sample, self._data, inputs=self._crossed.inputs)

    def make(self, folds: Sequence[Fold]) -> None:
        """Make what all folds need: nothing more."""

    def fold(self, fold: Fold, weigh: Weigh | None = None, n_threads: int = 1) -> PreparedRows:
        """Return the rows of one fold; those of small tables are kept for further calls."""
        kept = self._kept_folds.get(id(fold))
        if kept is not None and kept[0] is fold and kept[1] is weigh:
            return kept[2]
        found = self._make_fold(fold, weigh, n_threads)
        if found.seen.matrix.n_rows * found.seen.matrix.n_features < _KEPT_CELLS:
            self._kept_folds[id(fold)] = (fold, weigh, found)
        return found

    def _make_fold(self, fold: Fold, weigh: Weigh | None, n_threads: int) -> PreparedRows:
        sample = self.sample
        if self.matrix is not None:  # which has the values
            table = Table(np.empty((sample.n_rows, 0)), sample.table.schema)
            sample = replace(sample, table=table)
        train, test = weighted_parts(sample, fold, weigh)
        parts = (ScoredRows(ONLY, test),)
        if self.matrix is not None:
            assert self._crossed is not None
            seen = self._taken(train, self.matrix.take(fold.train), fold.train)
            seen = replace(seen, sums=self._sums)
            rows: BinnedMatrix | AnyTable = self.matrix.take(fold.test, columns=False)
            if self.matrix.n_lost > 0:  # conflicts in bundles lost some values
                rows = self._crossed.train.table.take(fold.test)
            unseen = self._taken(test, rows, fold.test)
            return PreparedRows(train, train, seen, (unseen,), parts, self._crossed.inputs)
        encoded = encode(train, test, self._objective, self.params, n_threads)
        params = constraints_of_inputs(self.params, encoded.inputs)
        spec = None
        if self._kept is not None:
            spec = _with_statistics(self._kept, encoded, params, n_threads)
        seen, others, _ = prepare_rows(encoded, params, n_threads, spec)
        assert others is not None
        return PreparedRows(train, encoded.train, seen, (others,), parts, encoded.inputs)

    def repeats(self, seed: int, is_classes: bool) -> Repeats | None:
        """Decide whether rows with the same values are copies or observations."""
        return find_repeats(self.sample, seed, is_classes)

    def _taken(
        self, sample: Sample, matrix: BinnedMatrix | AnyTable, rows: IntArray
    ) -> TrainingData:
        numbers = None if self._data is None else self._data.numbers
        if numbers is not None:
            # Fortran order, for which the kernels are compiled; brackets would change it.
            numbers = np.take(numbers.T, rows, axis=1).T
        return TrainingData(matrix, sample.target, sample.weight, sample.offset, numbers=numbers)


def form_of(params: BoostParams) -> list[Any]:
    """Return the parameters that determine the form of the rows for the grower."""
    return [getattr(params, f.name) for f in fields(params) if f.name not in _OF_TREES]


def weighted_parts(sample: Sample, fold: Fold, weigh: Weigh | None = None) -> tuple[Sample, Sample]:
    """Return the training rows and the test rows of a fold, with their weights."""
    train, test = sample.take(fold.train), sample.take(fold.test)
    if fold.train_weight is not None:
        train = replace(train, weight=fold.train_weight)
    if fold.test_weight is not None:
        test = replace(test, weight=fold.test_weight)
    if weigh is not None:
        train, test = weigh(train, test)
    return train.without_equal_weights(), test.without_equal_weights()


def _bins_of_kept(
    sample: Sample, encoded: Encoded, params: BoostParams, n_threads: int
) -> BinSpec | None:
    """Return cuts of the columns without statistics, from all rows; None without such columns."""
    assert encoded.inputs is not None
    assert isinstance(sample.table, Table)
    kept = list(encoded.inputs.kept)
    if not kept:
        return None
    schema = sample.table.schema
    columns = replace(schema, columns=tuple(schema.columns[j] for j in kept))
    bins = params.max_bins_by_feature
    most = params.max_bins if bins is None else tuple(bins[j] for j in kept)
    table = Table(sample.table.values[:, kept], columns)
    forced = params.forced_bins
    return fit_bins(table, most, sample.weight, params.seed, n_threads, forced, columns=kept)


def _with_statistics(
    kept: BinSpec, encoded: Encoded, params: BoostParams, n_threads: int
) -> BinSpec:
    """Combine the cuts of kept columns with cuts of the fold's own statistics."""
    table = encoded.train.table
    assert isinstance(table, Table)
    n_kept = kept.n_features
    if n_kept == table.n_features:
        return replace(kept, schema=table.schema)
    schema = replace(table.schema, columns=table.schema.columns[n_kept:])
    bins = params.max_bins_by_feature
    most = params.max_bins if bins is None else tuple(bins[n_kept:])
    values = Table(table.values[:, n_kept:], schema)
    rows = sampled_rows(values.n_rows, params.seed)
    found = fit_bins(values, most, encoded.train.weight, params.seed, n_threads, rows=rows)
    return joined_bins(kept, found, table.schema)
