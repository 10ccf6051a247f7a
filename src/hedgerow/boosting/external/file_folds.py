"""Folds that read their rows from the files again.

With target statistics each fold has its own, and bins of its own, from its training rows only
(:mod:`hedgerow.boosting.validation.fold_rows`)::

    pass one           sample of rows              -> bins of the other columns, for all folds
    one pass           codes, targets, weights     -> memory, for all folds
                       crosses                     -> a mapped file, for all folds
    for each fold      values of its training rows -> a mapped file, and bins of the statistics
      for each copy    a pass over the files       -> a store of training rows, one of test rows

If conflicts in bundles hide values of training rows, test rows still have theirs, which the store
of all rows lacks.  Folds then read both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias, cast

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.boosting.external.dataset.binned_rows import RowBinning
from hedgerow.boosting.external.dataset.bundling import with_layout
from hedgerow.boosting.external.dataset.encoded import (
    EncodedRows,
    read_rows,
    threads_that_fit,
)
from hedgerow.boosting.external.dataset.file_dataset import FileDataset
from hedgerow.boosting.external.dataset.file_rows import Rows
from hedgerow.boosting.external.external_sample import Encoding, ExternalSample, StorePlan
from hedgerow.boosting.row_data.ordered_means import StatisticsRows, compute, n_values
from hedgerow.boosting.row_data.row_values import RowValues
from hedgerow.boosting.row_data.statistics import (
    choose_columns,
    columns_of,
    constraints_of_inputs,
    copies_of,
    kept_columns,
    share_of_copy,
)
from hedgerow.boosting.validation.folds import Fold
from hedgerow.data import Table
from hedgerow.data.binning.bins import (
    BinSpec,
    fit_bins,
    fit_sample,
    joined_bins,
    sampled_rows,
)
from hedgerow.data.external.chunk_sink import ChunkSink
from hedgerow.data.external.scratch import ScratchFolder, explained
from hedgerow.data.inputs import Inputs
from hedgerow.data.reading.mapped_table import RowFile
from hedgerow.data.schema import Schema
from hedgerow.data.sparse import AnyTable
from hedgerow.objectives import Objective, SeveralTargets
from hedgerow.params import BoostParams

MakeSinks: TypeAlias = Callable[[BinSpec, ExitStack], list[ChunkSink]]
"""Opens a sink for the training rows of a fold, and one for its test rows."""


class _Side(NamedTuple):
    """The training rows or the test rows of a fold; weights None: all are 1."""

    rows: IntArray
    weight: FloatArray | None


@dataclass(frozen=True, slots=True, eq=False)
class FileFolds:
    """The data that folds of files share.

    Attributes
    ----------
    train : ExternalSample
        All rows.
    data : FileDataset
    plan : StorePlan
    objective : Objective
    params : BoostParams
        Resolved.
    rows : StatisticsRows or None
        Of all rows; None without statistics.
    kept : BinSpec or None
        Bins of the columns without statistics; None without such columns.
    crosses : float64 (n_rows, n_crosses)
        Mapped from a file in ``folder``; used with statistics only.
    """

    train: ExternalSample
    data: FileDataset
    plan: StorePlan
    objective: Objective
    params: BoostParams
    rows: StatisticsRows | None = None
    kept: BinSpec | None = None
    crosses: FloatArray | None = None
    folder: ScratchFolder | None = None

    @staticmethod
    def of(
        train: ExternalSample,
        data: FileDataset,
        plan: StorePlan,
        objective: Objective,
        params: BoostParams,
    ) -> FileFolds | None:
        """Read what the folds share; None if they need no files."""
        folds = FileFolds(train, data, plan, objective, params)
        if train.inputs is None or not train.inputs.statistics:
            return None if train.layout is None else folds
        found, schema = data.pass_one(plan), train.schema
        columns = list(train.inputs.kept)
        kept = None
        if columns:
            bins = params.max_bins_by_feature
            most = params.max_bins if bins is None else tuple(bins[j] for j in columns)
            sample = found.sample.of_columns(columns)
            kept = fit_sample(sample, most, plan.n_threads, params.forced_bins)
        n_rows = train.n_rows // train.n_copies
        used = columns_of(choose_columns(schema, n_rows, objective, params))
        n_targets = objective.n_outputs if isinstance(objective, SeveralTargets) else 1
        folder = ScratchFolder(data.cache_dir[0])
        with closing(RowFile(folder.path / "crosses")) as file:
            batches = _noting_crosses(train.inputs, file, data, schema, plan)
            rows = read_rows(used, schema, n_targets, batches, data.communicator)
            return replace(folds, rows=rows, kept=kept, crosses=file.finish(), folder=folder)

    def store(self, fold: Fold, make_sinks: MakeSinks) -> tuple[ExternalSample, ExternalSample]:
        """Return stores of the training rows and the test rows of a fold."""
        weight = self.train.once.weight
        seen, tested = (
            _side(rows, weight if own is None else own, own is None)
            for rows, own in ((fold.train, fold.train_weight), (fold.test, fold.test_weight))
        )
        with ExitStack() as stack:
            folder = stack.enter_context(closing(ScratchFolder(self.data.cache_dir[0])))
            binning = self._binning(seen, folder)
            sinks = make_sinks(binning.spec, stack)
            for copy in range(binning.n_copies):
                self._append(sinks[0], binning, seen, copy)
            self._append(sinks[1], binning, tested, None)
            encoding = None if binning.encoded is None else binning.encoded.encoding
            stores = [sink.finish() for sink in sinks]
        shared = replace(self.train, encoding=encoding, values=RowValues())
        train = replace(
            shared, store=stores[0][0], vectors=stores[0][1], n_copies=binning.n_copies,
            has_weight=seen.weight is not None,
        )  # fmt: skip
        return train, replace(shared, store=stores[1][0], vectors=stores[1][1], n_copies=1)

    def _binning(self, seen: _Side, folder: ScratchFolder) -> RowBinning:
        """Return how the rows of a fold with these training rows are binned."""
        schema, params, n_threads = self.train.schema, self.params, self.plan.n_threads
        if self.rows is None:
            encoded = None
            if self.train.encoding is not None:
                encoded = EncodedRows(self.train.encoding, None, n_threads)
            spec, layout = self.train.store.spec, self.train.layout
            return RowBinning(spec, None, encoded, params, n_threads, layout)
        assert self.train.inputs is not None
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
        inputs = Inputs(kept_columns(schema, groups), found, self.train.inputs.crosses)
        spec = self._bins(inputs, values, seen, n_copies)
        encoded = EncodedRows(Encoding(inputs, schema), values, n_threads, n_copies)
        return with_layout(
            RowBinning(spec, None, encoded, params, n_threads), lambda: self._parts(seen), 0,
            n_copies * n_rows, self.data.communicator, limit,
        )  # fmt: skip

    def _bins(self, inputs: Inputs, values: FloatArray, seen: _Side, n_copies: int) -> BinSpec:
        """Return the bins of the kept columns, and those of a fold's statistics and crosses."""
        own = constraints_of_inputs(self.params, inputs)
        schema, n_kept = inputs.schema(self.train.schema), len(inputs.kept)
        names = replace(schema, columns=schema.columns[n_kept:])
        bins = own.max_bins_by_feature
        most = own.max_bins if bins is None else tuple(bins[n_kept:])
        sampled = sampled_rows(n_copies * len(seen.rows), own.seed)
        weight = share_of_copy(seen.weight, len(seen.rows), n_copies)
        rows = sampled % len(seen.rows)
        assert self.crosses is not None
        crosses = self.crosses[seen.rows[rows]] if inputs.crosses else np.empty((len(rows), 0))
        table = Table(np.concatenate([values[:, sampled].T, crosses], axis=1), names)
        found = fit_bins(
            table,
            most,
            None if weight is None else weight[rows],
            own.seed,
            self.plan.n_threads,
            own.forced_bins if self.kept is None else None,
            rows=np.arange(len(sampled)),
        )
        return found if self.kept is None else joined_bins(self.kept, found, schema)

    def _append(self, sink: ChunkSink, binning: RowBinning, side: _Side, copy: int | None) -> None:
        """Append rows to a sink; ``copy`` is the number of the copy, None for test rows."""
        number = None
        if copy is not None:
            number = copy * len(side.rows)
        for table, rows, _ in self._parts(side):
            n_rows = binning.append(sink, table, rows, number)
            number = None if number is None else number + n_rows

    def _parts(self, side: _Side) -> Iterator[tuple[AnyTable, Rows, Rows]]:
        """Yield each batch, and the rows of a side in it twice, as a reader of files does."""
        start = 0
        for table, rows, _ in self.data.tables(self.train.schema, self.plan):
            first, last = np.searchsorted(side.rows, [start, start + rows.n_rows])
            part = _some(rows, side, int(first), int(last), start)
            yield table, part, part
            start += rows.n_rows


def _noting_crosses(
    inputs: Inputs, file: RowFile, data: FileDataset, schema: Schema, plan: StorePlan
) -> Iterator[tuple[AnyTable, Rows, Rows]]:
    """Yield the batches of the files; append the crosses of the training rows to a file."""
    for table, rows, others in data.tables(schema, plan):
        if inputs.crosses and rows.n_rows > 0:
            values = cast(Table, rows.of(table)).values
            crosses = np.empty((len(inputs.crosses), len(values)))
            inputs.cross(values, schema, crosses[:, None], plan.n_threads)
            file.append(crosses.T)
        yield table, rows, others


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
