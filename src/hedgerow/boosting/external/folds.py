"""Early stopping by folds of rows in chunks.

See :mod:`hedgerow.boosting.validation.cross_stopping`, which chooses the number of rounds wherever
the rows are.  Here each fold has stores of its own, whose rows are copied from the store of all
rows::

    store of all rows -->  fold 0: a store of training rows, one of test rows    round 1, 2, ...
                           fold 1: a store of training rows, one of test rows    round 1, 2, ...
                           ...                                                         |
                           fit on the store of all rows  <----- best round of all folds

The folds have the rows, bins and row numbers that they have in memory, so their trees and scores
are the same.  With target statistics, or conflicts in bundles, a fold reads its rows from the files
instead (:class:`FileFolds`).  The stores share the memory of the fit, and
are deleted before it begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias, cast

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.boosting.automatic.repeats import (
    MOST_CELLS,
    Repeats,
    find_repeats,
    recorded_by_column,
)
from hedgerow.boosting.external.binned_rows import BinnedRows, RowBinning
from hedgerow.boosting.external.bundling import with_layout
from hedgerow.boosting.external.chunked_rows import ChunkedRows, StorePlan
from hedgerow.boosting.external.encoded import EncodedRows, mapped_in, read_rows
from hedgerow.boosting.external.file_dataset import FileDataset
from hedgerow.boosting.external.file_rows import Rows
from hedgerow.boosting.loop.driver import FitPlan, PreparedRows
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.scored import ScoredRows
from hedgerow.boosting.loop.setup.resolved import outputs_of_tree
from hedgerow.boosting.row_data.statistics import (
    StatisticsRows,
    choose_columns,
    columns_of,
    constraints_of_inputs,
)
from hedgerow.boosting.validation.budget import Budget
from hedgerow.boosting.validation.cross_stopping import ChosenRounds, choose_rounds
from hedgerow.boosting.validation.fold_rows import Weigh, weighted_parts
from hedgerow.boosting.validation.folds import Fold
from hedgerow.boosting.validation.row_sets import ONLY, stack_tables
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.data import AnyTable, SparseTable, Table
from hedgerow.data.binning.bins import BinSpec, fit_bins, fit_sample, joined_bins, sampled_rows
from hedgerow.data.external.chunk_sink import ChunkSink
from hedgerow.data.external.memory import give_back_memory, shown_bytes
from hedgerow.data.external.memory_plan import FEWEST_ROWS, RESERVE, RowShape
from hedgerow.data.external.row_store import ROWS_ONLY, Uses
from hedgerow.data.external.scratch import ScratchFolder
from hedgerow.data.inputs import Inputs
from hedgerow.data.reading.mapped_table import RowFile
from hedgerow.data.schema import Schema
from hedgerow.data.sparse import sparse_of
from hedgerow.errors import AllRowsNeededError, ParameterError
from hedgerow.growing.chunks.space import Spaces
from hedgerow.objectives import Objective
from hedgerow.params import BoostParams

MakeSinks: TypeAlias = Callable[[BinSpec, ExitStack], list[ChunkSink]]
"""Opens a sink for the training rows of a fold, and one for its test rows."""


DRAW_BYTES, _DRAW_SHARE = 64, 0.75
"""Memory of a row while folds are drawn, beside its targets; share of the limit for it, because no
store is in use yet."""

_STORE_SHARE, _TEST_SHARE = 0.6, 0.25
"""Share of the limit for the stores of all folds, and the part of it for test rows."""

_ENTRY_BYTES = 24
"""Memory of a value of rows that are compared: the value, its column, and copies while they are
joined."""


class Side(NamedTuple):
    """Ascending numbers of the training rows or the test rows of a fold, and these rows."""

    numbers: IntArray
    rows: Sample


def check_folds_in_chunks(stopping: StoppingParams, on_cluster: bool) -> None:
    """Raise ``AllRowsNeededError`` for folds that need a table in memory."""
    if on_cluster:
        raise AllRowsNeededError(
            "early_stopping='cv' trains on folds of all rows, which workers of a cluster do not "
            "have: give validation rows, or use early_stopping=True or 'oob'."
        )
    if not stopping.only_counts_rounds:
        raise AllRowsNeededError(
            "early_stopping='cv', which compares parameters, needs all rows in memory: use "
            "early_stopping=True, which holds rows out, or 'oob'."
        )


def choose_rounds_in_chunks(
    train: ChunkedRows,
    data: FileDataset,
    stored: StorePlan,
    plan: FitPlan,
    budget: Budget | None,
) -> ChosenRounds:
    """Choose the number of rounds; ``stored`` is the plan by which the rows were read."""
    give_back_memory()
    with ExitStack() as stack:
        rows = StoredFolds(train, data, stored, plan, stack)
        found = replace(choose_rounds(rows, plan, budget), rows=None)
        del rows
    give_back_memory()
    return found


class StoredFolds:
    """All rows of files; see :class:`hedgerow.boosting.validation.cross.RowsOfFolds`.

    ``stack`` closes the stores of the folds.
    """

    def __init__(
        self,
        train: ChunkedRows,
        data: FileDataset,
        stored: StorePlan,
        plan: FitPlan,
        stack: ExitStack,
    ) -> None:
        self._train, self._data, self._stored, self._plan = train, data, stored, plan
        self._stack, self._made = stack, dict[int, PreparedRows]()
        self.sample, self.spaces = train.rows, Spaces()
        _check_memory(self.sample.n_rows, data.memory_limit)

    def for_trees(self, params: BoostParams) -> StoredFolds:
        """Return the rows themselves: folds of files only count rounds."""
        return self

    def fold(self, fold: Fold, weigh: Weigh | None = None, n_threads: int = 1) -> PreparedRows:
        """Return the rows of one of the folds that :meth:`make` has stored."""
        return self._made[id(fold)]

    def repeats(self, seed: int, is_classes: bool) -> Repeats | None:
        """Decide whether rows with the same values are copies or observations.

        None if all are equal, or there are too many values to compare.
        """
        limit, found, n_values = self._data.memory_limit, list[AnyTable](), 0
        for table, rows, _ in self._data.tables(self._train.schema, self._stored):
            own = rows.of(table)
            found.append(own if isinstance(own, SparseTable) else sparse_of(own))
            n_values += int(recorded_by_column(own).sum())
            if n_values > MOST_CELLS:
                return None
            if _ENTRY_BYTES * n_values > limit:
                raise ParameterError(
                    f"memory_limit of {shown_bytes(limit)} is too small: early_stopping='cv' "
                    f"compares rows with each other, which takes {_ENTRY_BYTES} bytes of each of "
                    f"at least {n_values:,} values that are not 0: raise it, or use "
                    "early_stopping=True."
                )
        return find_repeats(replace(self.sample, table=stack_tables(found)), seed, is_classes)

    def make(self, folds: Sequence[Fold]) -> None:
        """Copy the rows of the folds to stores of their own."""
        train, data, objective, params = (
            self._train, self._data, self._plan.objective, self._plan.params,
        )  # fmt: skip
        n_outputs = objective.n_outputs
        own = constraints_of_inputs(params, train.inputs)
        rooms, n_vectors = _rooms(train, len(folds), data), (outputs_of_tree(own, n_outputs), 1)

        def make_sinks(spec: BinSpec, inner: ExitStack) -> list[ChunkSink]:
            """Open a sink for the training rows, and one for the test rows."""
            return [
                inner.enter_context(
                    ChunkSink(spec, data.cache_dir, room, n_outputs=n_outputs, n_vectors=n)
                )
                for room, n in zip(rooms, n_vectors, strict=True)
            ]

        files = FileFolds.of(train, data, self._stored, objective, params)
        for fold in folds:
            place = np.argsort(fold.test)
            mine, test = weighted_parts(self.sample, fold)
            side = Side(fold.train, mine), Side(fold.test[place], test.take(place))
            if files is not None:
                stores = files.store(*side, make_sinks)
            else:
                stores = _store_fold(train, side, make_sinks)
            for store in stores:
                self._stack.callback(store.store.close)
            seen, tested = stores
            part = ScoredRows(ONLY, test, columns=np.argsort(place))
            self._made[id(fold)] = PreparedRows(
                mine, seen.learned, seen.data(params, alone=True),
                (tested.data(params, alone=True),), (part,), seen.inputs,
            )  # fmt: skip
        del files
        give_back_memory()


def _check_memory(n_rows: int, memory_limit: int) -> None:
    least = int(DRAW_BYTES * n_rows / _DRAW_SHARE)
    if least > memory_limit:
        raise ParameterError(
            f"memory_limit of {shown_bytes(memory_limit)} is too small: early_stopping='cv' takes "
            f"{DRAW_BYTES} bytes of each of {n_rows:,} rows in memory to draw the folds, and "
            f"needs at least {shown_bytes(least)}; give as much, or use early_stopping=True."
        )


def _rooms(train: ChunkedRows, n_tested: int, data: FileDataset) -> tuple[int, int]:
    """Return the memory limits of a store of training rows and of one of test rows.

    What a store needs beside its chunks is counted once, because folds grow in turn.
    """
    each = int((_STORE_SHARE * data.memory_limit - RESERVE) / n_tested)
    n_numbers = 0
    for chunk in train.store.chunks([0], ROWS_ONLY):
        n_numbers = 0 if chunk.numbers is None else chunk.numbers.shape[1]
    shape = RowShape(train.store.spec.n_features, n_numbers)
    smallest = (len(data.cache_dir) + 2) * shape.chunk_bytes(FEWEST_ROWS)
    of_test = max(smallest, int(_TEST_SHARE * each))
    if each - of_test < smallest:
        least = (2 * n_tested * smallest + RESERVE) / _STORE_SHARE
        raise ParameterError(
            f"memory_limit of {shown_bytes(data.memory_limit)} is too small: early_stopping='cv' "
            f"grows {n_tested} folds side by side, and needs at least {shown_bytes(int(least))}; "
            "give as much, or use early_stopping=True."
        )
    return RESERVE + each - of_test, RESERVE + of_test


def _store_fold(
    train: ChunkedRows, sides: tuple[Side, Side], make_sinks: MakeSinks
) -> list[ChunkedRows]:
    """Copy the rows of a fold from the store of all rows."""
    spec = train.store.spec
    with ExitStack() as stack:
        sinks = make_sinks(spec, stack)
        for chunk in train.store.chunks(uses=Uses(numbers=range(spec.n_features))):
            place = chunk.rows
            for sink, (rows, _) in zip(sinks, sides, strict=True):
                first, last = np.searchsorted(rows, (place.start, place.stop))
                own = rows[first:last] - place.start
                if len(own) > 0:
                    numbers = None
                    if chunk.numbers is not None:
                        numbers = np.take(chunk.numbers.T, own, axis=1).T
                    sink.append(chunk.matrix.take(own), numbers)
        return [
            replace(train, store=sink.finish(), rows=own)
            for sink, (_, own) in zip(sinks, sides, strict=True)
        ]


@dataclass(frozen=True, slots=True, eq=False)
class FileFolds:
    """Folds that read their rows from the files again.

    With target statistics each fold has its own, and bins of its own, from its training rows only
    (:mod:`hedgerow.boosting.validation.fold_rows`)::

        pass one           sample of rows              -> bins of the other columns, for all folds
        one pass           codes                       -> memory, for all folds
                           crosses                     -> a mapped file, for all folds
        for each fold      values of its training rows -> a mapped file, and bins of the statistics
          for each copy    a pass over the files       -> a store of training rows, one of test rows

    If conflicts in bundles hide values of training rows, test rows still have theirs, which the
    store of all rows lacks.  Folds then read both.

    Attributes
    ----------
    train : ChunkedRows
        All rows.
    plan : StorePlan
    params : BoostParams
        Resolved.
    codes : StatisticsRows or None
        Of all rows; None without statistics.
    kept : BinSpec or None
        Bins of the columns without statistics; None without such columns.
    crosses : float64 (n_rows, n_crosses)
        Mapped from a file in ``folder``; used with statistics only.
    """

    train: ChunkedRows
    data: FileDataset
    plan: StorePlan
    objective: Objective
    params: BoostParams
    codes: StatisticsRows | None = None
    kept: BinSpec | None = None
    crosses: FloatArray | None = None
    folder: ScratchFolder | None = None

    @staticmethod
    def of(
        train: ChunkedRows,
        data: FileDataset,
        plan: StorePlan,
        objective: Objective,
        params: BoostParams,
    ) -> FileFolds | None:
        """Read what the folds share; None if they need no files."""
        folds, inputs = FileFolds(train, data, plan, objective, params), train.inputs
        if inputs is None or not inputs.statistics:
            return None if train.layout is None else folds
        found, schema = data.pass_one(plan), train.schema
        columns = list(inputs.kept)
        kept = None
        if columns:
            bins = params.max_bins_by_feature
            most = params.max_bins if bins is None else tuple(bins[j] for j in columns)
            sample = found.sample.of_columns(columns)
            kept = fit_sample(sample, most, plan.n_threads, params.forced_bins)
        used = columns_of(choose_columns(schema, train.rows.n_rows, objective, params))
        folder = ScratchFolder(data.cache_dir[0])
        with closing(RowFile(folder.path / "crosses")) as file:
            batches = _noting_crosses(inputs, file, data, schema, plan)
            codes = read_rows(used, schema, train.rows, batches, data.communicator)
            return replace(folds, codes=codes, kept=kept, crosses=file.finish(), folder=folder)

    def store(self, seen: Side, tested: Side, make_sinks: MakeSinks) -> list[ChunkedRows]:
        """Return stores of the training rows and the test rows of a fold."""
        with ExitStack() as stack:
            folder = stack.enter_context(closing(ScratchFolder(self.data.cache_dir[0])))
            binning = self._binning(seen, folder)
            train, test = (
                BinnedRows(sink, binning, number)
                for sink, number in zip(make_sinks(binning.spec, stack), (0, None), strict=True)
            )
            for _ in range(binning.n_copies):
                for table, rows, _ in self._parts(seen):
                    train.append(table, rows)
            for table, rows, _ in self._parts(tested):
                test.append(table, rows)
            return [train.finish(seen.rows), test.finish(tested.rows)]

    def _binning(self, seen: Side, folder: ScratchFolder) -> RowBinning:
        """Return how the rows of a fold with these training rows are binned."""
        schema, params, n_threads = self.train.schema, self.params, self.plan.n_threads
        inputs, limit, n_rows = self.train.inputs, self.data.memory_limit, seen.rows.n_rows
        if self.codes is None:
            encoded = None if inputs is None else EncodedRows(inputs, schema, n_threads)
            return RowBinning(
                self.train.store.spec, schema, params, n_threads, encoded, layout=self.train.layout
            )
        assert inputs is not None
        groups = choose_columns(schema, n_rows, self.objective, params)
        codes = {j: codes[seen.numbers] for j, codes in self.codes.codes.items()}
        rows = StatisticsRows(codes, seen.rows.target, seen.rows.weight, schema)
        room = limit * n_rows // len(self.codes.target)  # the codes of all rows are in memory
        encoded = EncodedRows.computed(
            rows, groups, inputs.crosses, self.objective, params, mapped_in(folder), n_threads, room
        )
        binning = RowBinning(self._bins(encoded, seen), schema, params, n_threads, encoded)
        return with_layout(
            binning, lambda: self._parts(seen), 0, encoded.n_copies * n_rows,
            self.data.communicator, limit,
        )  # fmt: skip

    def _bins(self, encoded: EncodedRows, seen: Side) -> BinSpec:
        """Return the bins of the kept columns, and those of a fold's statistics and crosses."""
        inputs, values = encoded.inputs, encoded.values
        assert values is not None
        own = constraints_of_inputs(self.params, inputs)
        schema, n_kept = inputs.schema(self.train.schema), len(inputs.kept)
        names = replace(schema, columns=schema.columns[n_kept:])
        bins = own.max_bins_by_feature
        most = own.max_bins if bins is None else tuple(bins[n_kept:])
        sampled = sampled_rows(values.shape[1], own.seed)
        rows = sampled % seen.rows.n_rows
        assert self.crosses is not None
        crosses = self.crosses[seen.numbers[rows]] if inputs.crosses else np.empty((len(rows), 0))
        found = fit_bins(
            Table(np.concatenate([values[:, sampled].T, crosses], axis=1), names),
            most,
            encoded.sampled_weight,
            own.seed,
            self.plan.n_threads,
            own.forced_bins if self.kept is None else None,
            rows=np.arange(len(sampled)),
        )
        return found if self.kept is None else joined_bins(self.kept, found, schema)

    def _parts(self, side: Side) -> Iterator[tuple[AnyTable, Rows, Rows]]:
        """Yield each batch, and the rows of a side in it twice, as a reader of files does."""
        start = 0
        for table, rows, _ in self.data.tables(self.train.schema, self.plan):
            stop = start + rows.n_rows
            first, last = np.searchsorted(side.numbers, [start, stop])
            wanted = np.zeros(rows.n_rows, dtype=np.bool_)
            wanted[side.numbers[first:last] - start] = True
            part = rows.where(wanted)
            yield table, part, part
            start = stop


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
