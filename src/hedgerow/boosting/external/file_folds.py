"""Folds of rows in files with target statistics: each fold has its own, and bins of its own.

The statistics of a fold come from its training rows only
(:mod:`hedgerow.boosting.validation.fold_rows`)::

    pass one           sample of rows              -> bins of the other columns, for all folds
    one pass           codes, targets, weights     -> memory, for all folds
    for each fold      values of its training rows -> a mapped file, and bins of the statistics
      for each copy    a pass over the files       -> a store of training rows, one of test rows
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.boosting.external.dataset.binned_rows import RowBinning
from hedgerow.boosting.external.dataset.encoded import (
    EncodedRows,
    read_rows,
    threads_that_fit,
)
from hedgerow.boosting.external.dataset.file_dataset import FileDataset
from hedgerow.boosting.external.dataset.file_rows import Rows
from hedgerow.boosting.external.external_sample import Encoding, ExternalSample, StorePlan
from hedgerow.boosting.external.rounds.scores import scored_rows_of
from hedgerow.boosting.row_data.ordered_means import StatisticsRows, compute, n_values
from hedgerow.boosting.row_data.statistics import (
    choose_columns,
    columns_of,
    constraints_of_inputs,
    copies_of,
    kept_columns,
    share_of_copy,
)
from hedgerow.boosting.validation.fold_rows import joined_bins
from hedgerow.boosting.validation.folds import Fold
from hedgerow.data import Table
from hedgerow.data.binning.bins import BinSpec, fit_bins, sampled_rows
from hedgerow.data.external.chunk_sink import ChunkSink
from hedgerow.data.external.row_store import WorkShape
from hedgerow.data.external.scratch import ScratchFolder, explained
from hedgerow.data.inputs import Inputs
from hedgerow.errors import AllRowsNeededError
from hedgerow.objectives import Objective, SeveralTargets
from hedgerow.params import BoostParams


class _Side(NamedTuple):
    """The training rows or the test rows of a fold; weights None: all are 1."""

    rows: IntArray
    weight: FloatArray | None


@dataclass(frozen=True, slots=True, eq=False)
class StatisticFolds:
    """What the folds of a fit with target statistics share.

    Attributes
    ----------
    train : ExternalSample
        All rows, with their statistics.
    data : FileDataset
    plan : StorePlan
    objective : Objective
    params : BoostParams
        Resolved.
    rows : StatisticsRows
        Of all rows.
    kept : BinSpec or None
        Bins of the columns without statistics; None without such columns.
    """

    train: ExternalSample
    data: FileDataset
    plan: StorePlan
    objective: Objective
    params: BoostParams
    rows: StatisticsRows
    kept: BinSpec | None

    @staticmethod
    def of(
        train: ExternalSample,
        data: FileDataset,
        plan: StorePlan,
        objective: Objective,
        params: BoostParams,
    ) -> StatisticFolds | None:
        """Read what the folds share; None if the fit has no statistics."""
        if train.inputs is None or not train.inputs.statistics:
            return None
        if train.inputs.crosses:
            raise AllRowsNeededError(
                "early_stopping='cv' with target statistics and feature_crosses needs all rows in "
                "memory: use target_statistics=False, or train on a table in memory."
            )
        found, schema = data.pass_one(plan), train.schema
        columns = list(train.inputs.kept)
        kept = None
        if columns:
            bins = params.max_bins_by_feature
            most = params.max_bins if bins is None else tuple(bins[j] for j in columns)
            own = replace(schema, columns=tuple(schema.columns[j] for j in columns))
            table = Table(cast(Table, found.table).values[:, columns], own)
            kept = fit_bins(
                table, most, found.weight, params.seed, plan.n_threads, params.forced_bins,
                rows=np.arange(table.n_rows),
            )  # fmt: skip
        n_rows = train.n_rows // train.n_copies
        used = columns_of(choose_columns(schema, n_rows, objective, params))
        n_targets = objective.n_outputs if isinstance(objective, SeveralTargets) else 1
        batches = data.tables(schema, plan)
        rows = read_rows(used, schema, n_targets, batches, data.communicator)
        return StatisticFolds(train, data, plan, objective, params, rows, kept)

    def store(
        self, fold: Fold, rooms: tuple[int, int], work: WorkShape
    ) -> tuple[ExternalSample, ExternalSample]:
        """Return stores of the training rows and the test rows of a fold.

        ``rooms`` are their memory limits.
        """
        weight = scored_rows_of(self.train, self.data.communicator).gathered()[1]
        seen, tested = (
            _side(rows, weight if own is None else own, own is None)
            for rows, own in ((fold.train, fold.train_weight), (fold.test, fold.test_weight))
        )
        with ExitStack() as stack:
            folder = stack.enter_context(closing(ScratchFolder(self.data.cache_dir[0])))
            binning = self._binning(seen, folder)
            sinks = [
                stack.enter_context(ChunkSink(binning.spec, self.data.cache_dir, room, work=shape))
                for room, shape in zip(rooms, (work, WorkShape(work.n_outputs)), strict=True)
            ]
            for copy in range(binning.n_copies):
                self._append(sinks[0], binning, seen, copy * len(seen.rows))
            self._append(sinks[1], binning, tested, None)
            encoding = None if binning.encoded is None else binning.encoded.encoding
            shared = replace(self.train, encoding=encoding, query=None, position=None)
            train = replace(
                shared, store=sinks[0].finish(), n_copies=binning.n_copies,
                has_weight=seen.weight is not None,
            )  # fmt: skip
            try:
                return train, replace(shared, store=sinks[1].finish(), n_copies=1)
            except BaseException:
                train.store.close()
                raise

    def _binning(self, seen: _Side, folder: ScratchFolder) -> RowBinning:
        """Return how the rows of a fold with these training rows are binned."""
        schema, params, n_threads = self.train.schema, self.params, self.plan.n_threads
        n_rows = len(seen.rows)
        groups = choose_columns(schema, n_rows, self.objective, params)
        n_copies = copies_of(n_rows, params)
        shape = (n_values(schema, groups, self.objective), n_copies * n_rows)
        path = folder.path / "statistics"
        with explained("make", path):
            values = np.memmap(path, np.float64, "w+", shape=shape).view(np.ndarray)
        codes = {j: codes[seen.rows] for j, codes in self.rows.codes.items()}
        rows = StatisticsRows(codes, self.rows.target[seen.rows], seen.weight, schema)
        n_all, limit = len(self.rows.target), self.data.memory_limit
        most = threads_that_fit(groups, n_all, self.objective, n_threads, limit)
        found = compute(rows, groups, self.objective, params.seed, n_copies, values, most)
        inputs = Inputs(kept_columns(schema, groups), found, ())
        spec = self._bins(inputs, values, seen, n_copies)
        encoded = EncodedRows(Encoding(inputs, schema), values, n_threads, n_copies)
        return RowBinning(spec, None, encoded, params, n_threads)

    def _bins(self, inputs: Inputs, values: FloatArray, seen: _Side, n_copies: int) -> BinSpec:
        """Return the bins of the kept columns and of the statistics of a fold."""
        own = constraints_of_inputs(self.params, inputs)
        schema, n_kept = inputs.schema(self.train.schema), len(inputs.kept)
        names = replace(schema, columns=schema.columns[n_kept:])
        bins = own.max_bins_by_feature
        most = own.max_bins if bins is None else tuple(bins[n_kept:])
        sampled = sampled_rows(n_copies * len(seen.rows), own.seed)
        weight = share_of_copy(seen.weight, len(seen.rows), n_copies)
        table = Table(np.ascontiguousarray(values[:, sampled].T), names)
        found = fit_bins(
            table,
            most,
            None if weight is None else weight[sampled % len(seen.rows)],
            own.seed,
            self.plan.n_threads,
            own.forced_bins if self.kept is None else None,
            rows=np.arange(len(sampled)),
        )
        return found if self.kept is None else joined_bins(self.kept, found, schema)

    def _append(
        self, sink: ChunkSink, binning: RowBinning, side: _Side, number: int | None
    ) -> None:
        """Append rows to a sink; ``number`` is that of the first one, None for test rows."""
        start = 0
        for table, rows, _ in self.data.tables(self.train.schema, self.plan):
            first, last = np.searchsorted(side.rows, [start, start + rows.n_rows])
            part = _some(rows, side, int(first), int(last), start)
            at = None if number is None else number + int(first)
            binning.append(sink, table, part, at)
            start += rows.n_rows


def _side(rows: IntArray, weight: FloatArray | None, of_all: bool) -> _Side:
    """Return rows with their weights; ``of_all``: the weights are those of all rows."""
    if weight is not None and of_all:
        weight = weight[rows]
    ones = weight is not None and bool((weight == 1.0).all())
    return _Side(rows, None if ones else weight)


def _some(rows: Rows, side: _Side, first: int, last: int, start: int) -> Rows:
    """Return the rows ``first`` to ``last`` of a side from a batch that begins at ``start``."""
    wanted = np.zeros(rows.n_rows, dtype=np.bool_)
    wanted[side.rows[first:last] - start] = True
    weight = None if side.weight is None else side.weight[first:last]
    return replace(rows.where(wanted), weight=weight)
