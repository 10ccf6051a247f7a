"""Folds of rows in chunks: which rows each trains on and tests, and stores of these rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.boosting.automatic.repeats import Repeats, counts_of_values, repeats_of
from hedgerow.boosting.external.dataset.file_dataset import FileDataset
from hedgerow.boosting.external.external_sample import ExternalSample, StorePlan
from hedgerow.boosting.external.file_folds import FileFolds
from hedgerow.boosting.external.rounds.scores import rows_of, scored_rows_of
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.row_data.row_keys import MOST_CELLS, keys_of_rows, recorded_by_column
from hedgerow.boosting.row_data.statistics import repeated_queries
from hedgerow.boosting.validation.folds import (
    ORDER_STREAM,
    Fold,
    deal_observations,
    fold_numbers,
)
from hedgerow.boosting.validation.stopping import StoppingParams, hash_rows
from hedgerow.comm.base import Communicator, count_rows, gather_numbers
from hedgerow.data import AnyTable, SparseTable, Table
from hedgerow.data.external.chunk_sink import ChunkSink
from hedgerow.data.external.memory import shown_bytes
from hedgerow.data.external.memory_plan import FEWEST_ROWS, RESERVE, RowShape
from hedgerow.data.external.row_store import (
    ALL_BINS,
    TARGETS_ONLY,
    Chunk,
    Metadata,
    MetadataSizes,
    WorkShape,
)
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


class Part(NamedTuple):
    """Rows of a chunk that a fold trains on, or tests.

    rows    int64: places in the chunk
    weight  float64: their weights in the fold, or None: those of the chunk
    """

    rows: IntArray
    weight: FloatArray | None


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

    def n_train(self, fold: int, start: int, stop: int) -> int:
        """Return the number of training rows of a fold among the rows of a range."""
        return len(self.parts(fold, start, stop)[0].rows)

    def parts(self, fold: int, start: int, stop: int) -> tuple[Part, Part]:
        """Return the training rows and the test rows of a fold among the rows of a range."""
        if self.number is not None:
            tested = self.number[start:stop] == fold
            return Part(np.flatnonzero(~tested), None), Part(np.flatnonzero(tested), None)
        one = self.folds[fold]
        return (
            _between(one.train, one.train_weight, start, stop),
            _between(one.test, one.test_weight, start, stop),
        )


def _between(rows: IntArray, weight: FloatArray | None, start: int, stop: int) -> Part:
    first, last = np.searchsorted(rows, [start, stop])
    return Part(rows[first:last] - start, None if weight is None else weight[first:last])


def divide_rows(
    train: ExternalSample,
    data: FileDataset,
    plan: StorePlan,
    objective: Objective,
    stopping: StoppingParams,
) -> Division:
    """Divide the rows into folds, as :mod:`hedgerow.boosting.validation.cross_stopping` does."""
    others = data.communicator
    _check_memory(count_rows(train.n_rows // train.n_copies, others)[1], data.memory_limit)
    target, weight = scored_rows_of(train, others).gathered()
    stratify, seed = task_of(objective) in ("two classes", "classes"), plan.params.seed
    n_folds = stopping.folds[0]
    groups = None if data.group is None else data.group.view(np.int64)
    if train.query is not None:
        groups, stratify = train.query[: train.n_rows // train.n_copies], False
    if groups is not None:
        groups = gather_numbers(groups, others)
        return _numbered(fold_numbers(target, n_folds, stratify, seed, groups))
    repeats = _find_repeats(train, data, plan, target, weight, stratify)
    if repeats is None:
        return _numbered(fold_numbers(target, n_folds, stratify, seed))
    if repeats.row is None:
        return _numbered(fold_numbers(target, n_folds, stratify, seed, alike=repeats.number))
    bare = Table(np.empty((len(target), 0)), train.schema)
    folds = deal_observations(Sample(bare, target, weight), n_folds, stratify, repeats)
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
    others, schema = data.communicator, train.schema
    n_values, parts = 0, [np.zeros(0, dtype=np.uint64)]
    entries = np.zeros(schema.n_features, dtype=np.int64)
    for table, rows, _ in data.tables(schema, plan):
        own = rows.of(table)
        entries += (found := recorded_by_column(own))
        n_values += int(found.sum())
        if n_values > MOST_CELLS:
            break
        parts.append(keys_of_rows(own, plan.params.seed))
    if int(others.allreduce(np.array([n_values], dtype=np.int64))[0]) > MOST_CELLS:
        return None
    keys, entries = gather_numbers(np.concatenate(parts), others), others.allreduce(entries)

    def counts(times: IntArray | None) -> Iterator[IntArray | FloatArray]:
        room = int(_COLUMN_SHARE * data.memory_limit)
        for columns in _ranges(entries, room, others):
            batches = data.tables(schema, plan)
            own = [_entries_of(rows.of(table), columns) for table, rows, _ in batches]
            some = replace(schema, columns=schema.columns[columns])
            yield from counts_of_values(_of_all_ranks(own, some, others), times)

    return repeats_of(keys, target, weight, counts, plan.params.seed, stratify)


def _ranges(entries: IntArray, room: int, others: Communicator) -> Iterator[slice]:
    """Yield ranges of columns whose entries fit into memory on every rank."""
    room = -int(others.allreduce(np.array([-room], dtype=np.int64), "max")[0]) // _ENTRY_BYTES
    ends, first = np.cumsum(entries), 0
    while first < len(entries):
        before = int(ends[first - 1]) if first > 0 else 0
        stop = max(first + 1, int(np.searchsorted(ends, before + room, side="right")))
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


def _of_all_ranks(
    parts: Sequence[SparseTable], schema: Schema, others: Communicator
) -> SparseTable:
    """Concatenate the rows of all ranks, of which some may have none."""
    own = b"" if not parts else parts[0].value.dtype.str.encode()
    dtype = np.dtype(next(found for found in others.allgather(own) if found).decode())
    lengths = [np.zeros(0, dtype=np.int64), *(np.diff(part.row_start) for part in parts)]
    columns = [np.zeros(0, dtype=np.int32), *(part.column for part in parts)]
    values = [np.zeros(0, dtype=dtype), *(part.value for part in parts)]
    length, column, value = (
        gather_numbers(np.concatenate(found), others) for found in (lengths, columns, values)
    )
    return SparseTable(np.concatenate(([0], np.cumsum(length))), column, value, schema)


# -- stores ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class FoldSamples:
    """Rows of a fold in stores of their own.

    Attributes
    ----------
    train, test : ExternalSample
        Rows of this rank.
    others : Communicator
        The ranks with the other rows.
    order : int64 (n_test,), or None
        For rankings, the test rows in the order of a hash: rows with equal scores keep their order,
        which must not be that of the table.
    """

    train: ExternalSample
    test: ExternalSample
    others: Communicator
    order: IntArray | None = None

    def bound(self, metrics: Sequence[Metric], objective: Objective) -> tuple[Metric, ...]:
        """Bind metrics of a ranking to the queries of the test rows of all ranks."""
        if self.order is None:
            return tuple(metrics)
        found = metrics_of_queries(metrics, objective, self._queries())
        return tuple(in_order(metric, self.order) for metric in found)

    def mass(self) -> float:
        """Return the sum of the weights of the test rows or of their queries, rounded once."""
        target, weight = rows_of(self.test, self.others).gathered()
        if self.order is None:
            return float(len(target)) if weight is None else math.fsum(weight)
        queries = self._queries()
        weights = query_weights(queries, None if weight is None else weight[self.order])
        return float(len(queries.starts) - 1) if weights is None else math.fsum(weights)

    def _queries(self) -> QueryRows:
        assert self.order is not None
        assert self.test.query is not None
        query = gather_numbers(self.test.query, self.others)
        return query_rows(query[self.order], len(query))


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
    work: WorkShape,
    own_bytes: int,
    data: FileDataset,
    stack: ExitStack,
    seed: int,
    from_files: FileFolds | None = None,
) -> list[FoldSamples]:
    """Copy the rows of the first ``n_tested`` folds to stores, which ``stack`` closes.

    ``own_bytes`` is the memory that the loss keeps beside them.
    """
    weighted = []
    if from_files is None:
        weighted = _weighted(train, division, n_tested, data.communicator)
    rooms = _rooms(train, n_tested, work, own_bytes, data)
    folds = []
    for number in range(n_tested):
        if from_files is not None:
            samples = from_files.store(division.fold(number), rooms, work)
        else:
            samples = _store_fold(train, division, number, weighted[number], work, rooms, data)
        for sample in samples:
            stack.callback(sample.store.close)
        folds.append(_with_queries(*samples, train, division.rows(number), data.communicator, seed))
    return folds


def _with_queries(
    seen: ExternalSample,
    tested: ExternalSample,
    train: ExternalSample,
    rows: tuple[IntArray, IntArray],
    others: Communicator,
    seed: int,
) -> FoldSamples:
    """Return the rows of a fold with their queries and positions, if they have some."""
    query, position, first = train.query, train.position, train.store.first_row
    if query is None:
        return FoldSamples(seen, tested, others)
    n_copies, query = seen.n_copies, query[: train.n_rows // train.n_copies]
    own, test = (_between(some, None, first, first + len(query)).rows for some in rows)
    hashes = hash_rows(seed, ORDER_STREAM, count_rows(len(query), others)[1])[rows[1]]
    return FoldSamples(
        replace(
            seen,
            query=repeated_queries(query[own], n_copies),
            position=position and position.take(own).repeated(n_copies),
        ),
        replace(tested, query=query[test], position=None),
        others,
        np.argsort(hashes),
    )


def _weighted(
    train: ExternalSample, division: Division, n_tested: int, others: Communicator
) -> list[tuple[bool, bool]]:
    """Return whether training and test rows of each fold have weights other than 1."""
    found = np.zeros((n_tested, 2), dtype=np.bool_)
    for chunk in train.store.chunks(uses=TARGETS_ONLY):
        for number in range(n_tested):
            for which, part in enumerate(_parts_of(division, number, chunk)):
                weight = _weight_of(chunk, part)
                found[number, which] |= weight is not None and bool((weight != 1.0).any())
    all_ranks = others.allreduce(found.astype(np.int64).reshape(-1), "max").reshape(found.shape)
    return [(bool(seen), bool(tested)) for seen, tested in all_ranks]


def _parts_of(division: Division, number: int, chunk: Chunk) -> tuple[Part, Part]:
    return division.parts(number, chunk.first_row, chunk.first_row + chunk.n_rows)


def _weight_of(chunk: Chunk, part: Part) -> FloatArray | None:
    if part.weight is not None or chunk.weight is None:
        return part.weight
    return chunk.weight[part.rows]


def _rooms(
    train: ExternalSample, n_tested: int, work: WorkShape, own_bytes: int, data: FileDataset
) -> tuple[int, int]:
    """Return the memory limits of a store of training rows and of one of test rows.

    What a store needs beside its chunks is counted once, because folds grow in turn.
    """
    each = int((_STORE_SHARE * data.memory_limit - own_bytes - RESERVE) / n_tested)
    sizes = MetadataSizes()
    for chunk in train.store.chunks([0] if train.n_rows else [], TARGETS_ONLY):
        sizes = MetadataSizes.of(Metadata(chunk.target, np.ones(0), chunk.offset, chunk.numbers))
    n_columns, n_slots = train.store.spec.n_features, len(data.cache_dir) + 2
    smallest, smallest_test = (
        n_slots * RowShape(n_columns, sizes, shape).chunk_bytes(FEWEST_ROWS)
        for shape in (work, WorkShape(work.n_outputs))
    )
    of_test = max(smallest_test, int(_TEST_SHARE * each))
    if each - of_test < smallest:
        least = (n_tested * (smallest + smallest_test) + own_bytes + RESERVE) / _STORE_SHARE
        raise ParameterError(
            f"memory_limit of {shown_bytes(data.memory_limit)} is too small: early_stopping='cv' "
            f"grows {n_tested} folds side by side, and needs at least {shown_bytes(int(least))}; "
            "give as much, or use early_stopping=True."
        )
    return RESERVE + each - of_test, RESERVE + of_test


def _store_fold(
    train: ExternalSample,
    division: Division,
    number: int,
    weighted: tuple[bool, bool],
    work: WorkShape,
    rooms: tuple[int, int],
    data: FileDataset,
) -> tuple[ExternalSample, ExternalSample]:
    spec, scores = train.store.spec, WorkShape(work.n_outputs)
    with ExitStack() as stack:
        sinks = [
            stack.enter_context(ChunkSink(spec, data.cache_dir, room, work=shape))
            for room, shape in zip(rooms, (work, scores), strict=True)
        ]
        uses, counts = ALL_BINS._replace(numbers=range(spec.n_features)), [0, 0]
        for chunk in train.store.chunks(uses=uses):
            parts = _parts_of(division, number, chunk)
            for which, (sink, part) in enumerate(zip(sinks, parts, strict=True)):
                if len(part.rows) > 0:
                    _append(sink, chunk, part, weighted[which])
                    counts[which] += len(part.rows)
        first, first_tested = (count_rows(n, data.communicator)[0] for n in counts)
        seen = replace(train, store=sinks[0].finish(first))
        try:
            return seen, replace(train, store=sinks[1].finish(first_tested))
        except BaseException:
            seen.store.close()
            raise


def _append(sink: ChunkSink, chunk: Chunk, part: Part, has_weight: bool) -> None:
    rows, numbers = part.rows, None
    if chunk.numbers is not None:
        numbers = np.take(chunk.numbers.T, rows, axis=1).T
    target = chunk.target[rows]
    sink.append(
        chunk.matrix.take(rows),
        target if target.ndim == 1 else np.asfortranarray(target),
        _weight_of(chunk, part) if has_weight else None,
        None if chunk.offset is None else np.ascontiguousarray(chunk.offset[:, rows]),
        numbers,
    )
