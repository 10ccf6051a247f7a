"""Folds of rows in chunks: which rows each trains on and tests, and stores of these rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.boosting.automatic.repeats import Repeats, counts_of_values, repeats_of
from hedgerow.boosting.external.dataset.file_dataset import FileDataset
from hedgerow.boosting.external.external_sample import ExternalSample, StorePlan
from hedgerow.boosting.external.file_folds import FileFolds, MakeSinks
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.row_data.row_keys import MOST_CELLS, keys_of_rows, recorded_by_column
from hedgerow.boosting.validation.folds import (
    ORDER_STREAM,
    Fold,
    deal_observations,
    fold_numbers,
)
from hedgerow.boosting.validation.stopping import StoppingParams, hash_rows
from hedgerow.data import AnyTable, SparseTable, Table
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.external.chunk_sink import ChunkSink
from hedgerow.data.external.memory import shown_bytes
from hedgerow.data.external.memory_plan import FEWEST_ROWS, RESERVE, RowShape
from hedgerow.data.external.row_store import ROWS_ONLY, RowVectors, Uses
from hedgerow.data.schema import Schema
from hedgerow.data.sparse import sparse_of
from hedgerow.errors import ParameterError
from hedgerow.kernels.ranking import QueryRows
from hedgerow.metrics import Metric, metrics_of_queries, task_of
from hedgerow.metrics.queries import query_rows, query_weights
from hedgerow.objectives import Objective

DRAW_BYTES, _DRAW_SHARE = 64, 0.75
"""Memory of a row while folds are drawn, beside its targets; share of the limit for it, because no
store is in use yet."""

_STORE_SHARE, _TEST_SHARE = 0.6, 0.25
"""Share of the limit for the stores of all folds, and the part of it for test rows."""

_COLUMN_SHARE = 1 / 16
_ENTRY_BYTES = 48
"""Share of the limit for the entries of columns that are compared, and memory of an entry, its
copies included."""


@dataclass(frozen=True, slots=True, eq=False)
class Division:
    """The division of all rows into folds.

    Attributes
    ----------
    n_folds : int
    number : int16 (n_rows,), or None
        The fold that tests each row, -1 for none; it is a training row of the others.
    folds : list of Fold
        The rows of each fold instead, if the weights of rows are divided.
    """

    n_folds: int
    number: AnyArray | None
    folds: list[Fold]

    def rows(self, fold: int) -> tuple[IntArray, IntArray]:
        """Return the training rows and the test rows of a fold."""
        if self.number is not None:
            tested = self.number == fold
            return np.flatnonzero(~tested), np.flatnonzero(tested)
        return self.folds[fold].train, self.folds[fold].test

    def fold(self, fold: int) -> Fold:
        """Return the rows of a fold, with their weights if those are divided."""
        return Fold(*self.rows(fold)) if self.number is not None else self.folds[fold]


def divide_rows(
    train: ExternalSample,
    data: FileDataset,
    plan: StorePlan,
    objective: Objective,
    stopping: StoppingParams,
) -> Division:
    """Divide the rows into folds, as :mod:`hedgerow.boosting.validation.cross_stopping` does."""
    target, weight, _ = train.scored()
    _check_memory(len(target), data.memory_limit)
    stratify, seed = task_of(objective) in ("two classes", "classes"), plan.params.seed
    n_folds = stopping.folds[0]
    values = train.values.take(slice(0, len(target)))
    groups = None if values.group is None else values.group.view(np.int64)
    if values.query is not None:
        groups, stratify = values.query, False
    if groups is not None:
        return _numbered(fold_numbers(target, n_folds, stratify, seed, groups))
    repeats = _find_repeats(train, data, plan, target, weight, stratify)
    if repeats is None:
        return _numbered(fold_numbers(target, n_folds, stratify, seed))
    if repeats.row is None:
        return _numbered(fold_numbers(target, n_folds, stratify, seed, alike=repeats.number))
    bare = Table(np.empty((len(target), 0)), train.schema)
    folds = deal_observations(Sample(bare, target, weight=weight), n_folds, stratify, repeats)
    return Division(len(folds), None, folds)


def _numbered(number: IntArray) -> Division:
    return Division(int(number.max()) + 1, number.astype(np.int16), [])


def _check_memory(n_rows: int, memory_limit: int) -> None:
    least = int(DRAW_BYTES * n_rows / _DRAW_SHARE)
    if least > memory_limit:
        raise ParameterError(
            f"memory_limit of {shown_bytes(memory_limit)} is too small: early_stopping='cv' takes "
            f"{DRAW_BYTES} bytes of each of {n_rows:,} rows in memory to draw the folds, and "
            f"needs at least {shown_bytes(least)}; give as much, or use early_stopping=True."
        )


def _find_repeats(
    train: ExternalSample,
    data: FileDataset,
    plan: StorePlan,
    target: FloatArray,
    weight: FloatArray | None,
    stratify: bool,
) -> Repeats | None:
    """Return the repeated rows; None if all are equal, or there are too many values to compare."""
    schema = train.schema
    n_values, keys = 0, [np.zeros(0, dtype=np.uint64)]
    entries = np.zeros(schema.n_features, dtype=np.int64)
    for table, rows, _ in data.tables(schema, plan):
        own = rows.of(table)
        entries += (found := recorded_by_column(own))
        n_values += int(found.sum())
        if n_values > MOST_CELLS:
            return None
        keys.append(keys_of_rows(own, plan.params.seed))

    def counts(times: IntArray | None) -> Iterator[IntArray | FloatArray]:
        for columns in _ranges(entries, int(_COLUMN_SHARE * data.memory_limit)):
            batches = data.tables(schema, plan)
            own = [_entries_of(rows.of(table), columns) for table, rows, _ in batches]
            some = replace(schema, columns=schema.columns[columns])
            yield from counts_of_values(_joined(own, some), times)

    return repeats_of(np.concatenate(keys), target, weight, counts, plan.params.seed, stratify)


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


# -- stores ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class FoldSamples:
    """Rows of a fold in stores of their own.

    Attributes
    ----------
    train, test : ExternalSample
    order : int64 (n_test,), or None
        For rankings, the test rows in the order of a hash: rows with equal scores keep their order,
        which must not be that of the table.
    """

    train: ExternalSample
    test: ExternalSample
    order: IntArray | None = None

    def bound(self, metrics: Sequence[Metric], objective: Objective) -> tuple[Metric, ...]:
        """Bind metrics of a ranking to the queries of the test rows."""
        if self.order is None:
            return tuple(metrics)
        found = metrics_of_queries(metrics, objective, self._queries())
        return tuple(in_order(metric, self.order) for metric in found)

    def mass(self) -> float:
        """Return the sum of the weights of the test rows or of their queries, rounded once."""
        target, weight, _ = self.test.vectors
        if self.order is None:
            return float(len(target)) if weight is None else math.fsum(weight)
        queries = self._queries()
        weights = query_weights(queries, None if weight is None else weight[self.order])
        return float(len(queries.starts) - 1) if weights is None else math.fsum(weights)

    def _queries(self) -> QueryRows:
        assert self.order is not None
        query = self.test.values.query
        assert query is not None
        return query_rows(query[self.order], len(self.order))


def in_order(metric: Metric, order: IntArray) -> Metric:
    """Return a metric that sees the rows in another order; it needs all rows at once."""

    def reordered(target: FloatArray, given: AnyArray, weight: FloatArray | None) -> float:
        some = given[:, order] if metric.from_raw else given[order]
        return metric.function(target[order], some, None if weight is None else weight[order])

    return replace(metric, function=reordered, sums=None)


def store_folds(
    train: ExternalSample,
    division: Division,
    n_tested: int,
    n_vectors: int,
    data: FileDataset,
    stack: ExitStack,
    seed: int,
    n_outputs: int,
    from_files: FileFolds | None = None,
) -> list[FoldSamples]:
    """Copy the rows of the first ``n_tested`` folds to stores, which ``stack`` closes."""
    rooms = _rooms(train, n_tested, data)
    folds = []
    for number in range(n_tested):
        fold = division.fold(number)

        def make_sinks(spec: BinSpec, inner: ExitStack) -> list[ChunkSink]:
            """Open a sink for the training rows, and one for the test rows."""
            vectors = (n_vectors, 1)
            return [
                inner.enter_context(
                    ChunkSink(spec, data.cache_dir, room, n_outputs=n_outputs, n_vectors=n)
                )
                for room, n in zip(rooms, vectors, strict=True)
            ]

        if from_files is not None:
            samples = from_files.store(fold, make_sinks)
        else:
            samples = _store_fold(train, fold, make_sinks)
        for sample in samples:
            stack.callback(sample.store.close)
        folds.append(_with_values(*samples, train, fold, seed))
    return folds


def _with_values(
    seen: ExternalSample, tested: ExternalSample, train: ExternalSample, fold: Fold, seed: int
) -> FoldSamples:
    """Return the rows of a fold with their further values."""
    own = train.values.take(slice(0, train.n_rows // train.n_copies))
    seen = replace(seen, values=own.take(fold.train).repeated(seen.n_copies))
    tested = replace(tested, values=own.take(fold.test))
    if own.query is None:
        return FoldSamples(seen, tested)
    order = np.argsort(hash_rows(seed, ORDER_STREAM, len(own.query))[fold.test])
    return FoldSamples(seen, tested, order)


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
