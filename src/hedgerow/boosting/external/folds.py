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
instead (:mod:`hedgerow.boosting.external.file_folds`).  The stores share the memory of the fit, and
are deleted before it begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.boosting.automatic.repeats import Repeats, counts_of_values, repeats_of
from hedgerow.boosting.external.dataset.file_dataset import FileDataset
from hedgerow.boosting.external.external_sample import ExternalSample, StorePlan
from hedgerow.boosting.external.file_folds import FileFolds, MakeSinks
from hedgerow.boosting.loop.driver import FitPlan, PreparedRows
from hedgerow.boosting.loop.scored import ScoredRows
from hedgerow.boosting.loop.setup.resolved import outputs_of_tree
from hedgerow.boosting.row_data.row_keys import MOST_CELLS, keys_of_rows, recorded_by_column
from hedgerow.boosting.row_data.statistics import constraints_of_inputs, repeated
from hedgerow.boosting.validation.budget import Budget
from hedgerow.boosting.validation.cross_stopping import ChosenRounds, choose_rounds
from hedgerow.boosting.validation.fold_rows import Weigh, weighted_parts
from hedgerow.boosting.validation.folds import Fold
from hedgerow.boosting.validation.row_sets import ONLY
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.data import AnyTable, SparseTable, Table
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.external.chunk_sink import ChunkSink
from hedgerow.data.external.memory import give_back_memory, shown_bytes
from hedgerow.data.external.memory_plan import FEWEST_ROWS, RESERVE, RowShape
from hedgerow.data.external.row_store import ROWS_ONLY, RowVectors, Uses
from hedgerow.data.schema import Schema
from hedgerow.data.sparse import sparse_of
from hedgerow.errors import AllRowsNeededError, ParameterError
from hedgerow.growing.chunks.space import Spaces
from hedgerow.params import BoostParams

DRAW_BYTES, _DRAW_SHARE = 64, 0.75
"""Memory of a row while folds are drawn, beside its targets; share of the limit for it, because no
store is in use yet."""

_STORE_SHARE, _TEST_SHARE = 0.6, 0.25
"""Share of the limit for the stores of all folds, and the part of it for test rows."""

_COLUMN_SHARE = 1 / 16
_ENTRY_BYTES = 48
"""Share of the limit for the entries of columns that are compared, and memory of an entry, its
copies included."""


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
    train: ExternalSample,
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
        train: ExternalSample,
        data: FileDataset,
        stored: StorePlan,
        plan: FitPlan,
        stack: ExitStack,
    ) -> None:
        self._train, self._data, self._stored, self._plan = train, data, stored, plan
        self._stack, self._made = stack, dict[int, PreparedRows]()
        self.sample, self.spaces = train.once, Spaces()
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
        data, plan, schema = self._data, self._stored, self._train.schema
        n_values, keys = 0, [np.zeros(0, dtype=np.uint64)]
        entries = np.zeros(schema.n_features, dtype=np.int64)
        for table, rows, _ in data.tables(schema, plan):
            own = rows.of(table)
            entries += (found := recorded_by_column(own))
            n_values += int(found.sum())
            if n_values > MOST_CELLS:
                return None
            keys.append(keys_of_rows(own, seed))

        def counts(times: IntArray | None) -> Iterator[IntArray | FloatArray]:
            for columns in _ranges(entries, int(_COLUMN_SHARE * data.memory_limit)):
                batches = data.tables(schema, plan)
                own = [_entries_of(rows.of(table), columns) for table, rows, _ in batches]
                some = replace(schema, columns=schema.columns[columns])
                yield from counts_of_values(_joined(own, some), times)

        sample = self.sample
        return repeats_of(
            np.concatenate(keys), sample.target, sample.weight, counts, seed, is_classes
        )

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
            in_order = replace(fold, test=np.sort(fold.test))
            if files is not None:
                stores = files.store(in_order, make_sinks)
            else:
                stores = _store_fold(train, in_order, make_sinks)
            for store in stores:
                self._stack.callback(store.store.close)
            seen, tested = (store.data(objective, params, alone=True) for store in stores)
            mine, test = weighted_parts(self.sample, fold)
            part = ScoredRows(ONLY, test, columns=np.searchsorted(in_order.test, fold.test))
            learned = repeated(
                mine, Table(np.empty((stores[0].n_rows, 0)), train.schema), seen.n_copies
            )
            self._made[id(fold)] = PreparedRows(
                mine, learned, seen, (tested,), (part,), stores[0].inputs
            )
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


def _ranges(entries: IntArray, room: int) -> Iterator[slice]:
    """Yield ranges of columns whose entries fit into memory."""
    ends, first = np.cumsum(entries), 0
    while first < len(entries):
        before = int(ends[first - 1]) if first > 0 else 0
        last = before + room // _ENTRY_BYTES
        stop = max(first + 1, int(np.searchsorted(ends, last, side="right")))
        yield slice(first, stop)
        first = stop


def _entries_of(table: AnyTable, columns: slice) -> SparseTable:
    """Return a copy of the entries in a range of columns."""
    schema = replace(table.schema, columns=table.schema.columns[columns])
    if isinstance(table, Table):
        return sparse_of(Table(table.values[:, columns], schema))
    inside = (table.column >= columns.start) & (table.column < columns.stop)
    before = np.concatenate(([0], np.cumsum(inside, dtype=np.int64)))
    column = table.column[inside] - np.int32(columns.start)
    return SparseTable(before[table.row_start], column, table.value[inside], schema)


def _joined(parts: Sequence[SparseTable], schema: Schema) -> SparseTable:
    """Concatenate rows."""
    length = np.concatenate([np.diff(part.row_start) for part in parts])
    column = np.concatenate([part.column for part in parts])
    value = np.concatenate([part.value for part in parts])
    return SparseTable(np.concatenate(([0], np.cumsum(length))), column, value, schema)


def _rooms(train: ExternalSample, n_tested: int, data: FileDataset) -> tuple[int, int]:
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
    train: ExternalSample, fold: Fold, make_sinks: MakeSinks
) -> tuple[ExternalSample, ExternalSample]:
    spec, vectors = train.store.spec, train.vectors
    sides = (fold.train, fold.train_weight), (fold.test, fold.test_weight)
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
                    sink.append(chunk.matrix.take(own), numbers=numbers)
        stores = [sink.finish()[0] for sink in sinks]
    seen, tested = (
        replace(train, store=store, vectors=_vectors_of(vectors, rows, weight))
        for store, (rows, weight) in zip(stores, sides, strict=True)
    )
    return seen, tested


def _vectors_of(vectors: RowVectors, rows: IntArray, weight: FloatArray | None) -> RowVectors:
    """Return the vectors of some rows, with these weights if given; weights of 1 are none."""
    found = vectors.take(rows)
    weight = found.weight if weight is None else weight
    if weight is not None and (weight == 1.0).all():
        weight = None
    return found._replace(weight=weight)
