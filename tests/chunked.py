"""Tables in memory as data that are read batch by batch, and an obvious grower for chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from hedgerow.arrays import aligned_zeros
from hedgerow.boosting.dataset import Dataset
from hedgerow.boosting.fit import _with_own_levels
from hedgerow.boosting.sample import Sample
from hedgerow.boosting.stored_sample import StoredSample, StoredSamples, StorePlan
from hedgerow.comm.base import Alone
from hedgerow.data import bin_table, fit_bins
from hedgerow.data.matrix import PAD, BinnedMatrix
from hedgerow.data.memory_store import MemoryStore, rows_of
from hedgerow.data.row_store import NO_BINS, Chunk
from hedgerow.growing.constraints import resolve_constraints
from hedgerow.growing.grower import TreeGrower
from hedgerow.growing.tree import NO_ROWS, GrownTree, add_scores


@dataclass
class TableData:
    """A StoredData over a table: ``size`` rows to a batch and to a chunk."""

    data: Dataset
    size: int

    def _sample(self, schema=None, zero_missing=False, n_outputs=1) -> Sample:
        table = self.data.table(schema, zero_missing)
        sample = self.data.sample(table, self.data.target(table.n_rows), n_outputs)
        return sample.without_zero_weights()

    def survey(self, note: Callable[[np.ndarray], None], zero_missing: bool) -> None:
        target = self._sample(zero_missing=zero_missing).target
        for start in range(0, len(target), self.size):
            note(target[start : start + self.size].copy())

    def stored(self, plan: StorePlan) -> StoredSamples:
        if plan.trained is not None:
            sample = self._sample(plan.trained.schema, n_outputs=plan.n_outputs)
            return StoredSamples(self.chunked(sample, plan.trained.store.spec, False))
        train, aside = self._sample(None, plan.params.zero_as_missing, plan.n_outputs), None
        if plan.set_aside is not None:
            chosen = np.concatenate(list(self._chosen(plan, train.target)))
            aside = train.take(np.flatnonzero(chosen))
            train = train.take(np.flatnonzero(~chosen))
        train, aside = _with_own_levels(train, aside, lenient=True)
        params = resolve_constraints(plan.params, train.table.schema, plan.objective)
        bins = params.max_bins_by_feature or params.max_bins
        forced = params.forced_bins
        spec = fit_bins(train.table, bins, train.weight, params.seed, plan.n_threads, forced)
        return StoredSamples(
            self.chunked(train, spec, True),
            None if aside is None else self.chunked(aside, spec, False),
        )

    def _chosen(self, plan: StorePlan, target: np.ndarray) -> Iterator[np.ndarray]:
        for start in range(0, len(target), self.size):
            yield plan.set_aside(start, target[start : start + self.size])

    def chunked(self, sample: Sample, spec, columns: bool) -> StoredSample:
        matrix = bin_table(sample.table, spec, columns=columns)
        return in_chunks(matrix, sample, self.size)


def in_chunks(matrix: BinnedMatrix, sample: Sample, size: int, first_row: int = 0) -> StoredSample:
    store = MemoryStore(
        matrix, sample.target, sample.weight, sample.offset, chunk_rows=size, first_row=first_row
    )
    return StoredSample(store, sample.offset is not None)


def part_of(stored: StoredSample, sample: Sample, cuts: list[int], rank: int, size: int):
    """The rows of one rank: ``cuts`` has the ends of all ranks' rows, from 0."""
    (chunk,) = stored.store.chunks()
    start, stop = cuts[rank], cuts[rank + 1]
    rows = np.arange(start, stop)
    part = sample.take(rows)
    return in_chunks(rows_of(chunk.matrix, start, stop), part, size, start)


class WholeGrower:
    """What ``ChunkGrower`` promises, by way of all rows of all ranks in memory."""

    def __init__(
        self, store, objective, params, n_threads, communicator, mode, adds_scores
    ) -> None:
        others = Alone() if communicator is None or mode == "features" else communicator
        self._store = store
        n_outputs = objective.n_outputs
        store.begin(n_outputs, objective.name == "softmax")
        chunks = list(store.chunks())
        matrix, target, weight, offset = _gathered(store, chunks, others, n_outputs)
        self._raw = np.zeros((n_outputs, len(target)))
        self._offset = offset
        self._grower = TreeGrower(
            matrix, target, weight, self._raw, objective, params, n_threads, adds_scores=False
        )
        self._adds = adds_scores
        self._matrix = matrix
        self._waiting: list[tuple[GrownTree, int]] = []

    def start(self, base) -> None:
        self._raw[:] = base[:, None]
        if self._offset is not None:
            self._raw += self._offset

    def grow(self, tree: int, output: int) -> GrownTree:
        # A softmax takes the probabilities of the start of the round: TreeGrower keeps them.
        self._settle()
        grown = self._grower.grow(tree, output)
        if self._adds:
            self.add(grown, output)
        return grown

    def add(self, tree: GrownTree, output: int) -> None:
        self._waiting.append((tree, output))

    def settle(self, before=None, after=None) -> None:
        self._visit(before)
        self._settle()
        self._visit(after)

    def _visit(self, visit) -> None:
        for chunk in self._store.chunks(uses=NO_BINS) if visit is not None else ():
            chunk.work.raw[:] = self._raw[:, self._slice(chunk)]
            visit(chunk)

    def _settle(self) -> None:
        for tree, output in self._waiting:
            add_scores(tree, self._matrix, NO_ROWS, self._raw[output], 1)
        self._waiting.clear()

    @staticmethod
    def _slice(chunk: Chunk) -> slice:
        return slice(chunk.first_row, chunk.first_row + chunk.n_rows)

    def rows_outside(self, chunk: Chunk):
        rows = np.sort(self._grower.rows_outside())
        part = self._slice(chunk)
        return rows[(rows >= part.start) & (rows < part.stop)] - np.uint32(part.start)

    def leaf_segments(self, chunk: Chunk):
        rows, leaves, starts = self._grower.leaf_segments()
        part = self._slice(chunk)
        inside = (rows >= part.start) & (rows < part.stop)
        counts = np.add.reduceat(inside, starts[:-1]) if len(rows) else np.zeros(0, np.int64)
        begins = np.concatenate([[0], np.cumsum(counts)])
        return rows[inside] - np.uint32(part.start), leaves, begins

    def close(self) -> None:
        self._grower.close()


def _gathered(store, chunks, others, n_outputs):
    """Matrix, targets, weights and offsets of all ranks."""

    def gather(parts, shape, dtype):
        own = [np.zeros((0, *shape), dtype), *parts]
        found = others.allgather(np.concatenate(own).astype(dtype).tobytes())
        return np.concatenate([np.frombuffer(part, dtype).reshape(-1, *shape) for part in found])

    n_tiles, width, n_columns = 1, 8, 0
    if chunks:
        n_tiles, _, width = chunks[0].matrix.by_row.shape
        n_columns = len(chunks[0].matrix.by_column)
    shape = np.array([n_tiles, width, n_columns], dtype=np.int64)
    n_tiles, width, n_columns = others.allreduce(shape, "max").tolist()
    tiles = [c.matrix.by_row[:, : c.n_rows].transpose(1, 0, 2) for c in chunks]
    columns = [c.matrix.by_column[:, : c.n_rows].T for c in chunks]
    tiles = gather(tiles, (n_tiles, width), np.uint8)
    columns = gather(columns, (n_columns,), np.uint8)
    n_rows = len(tiles)
    by_row = aligned_zeros((n_tiles, n_rows + PAD, width), np.uint8)
    by_row[:, :n_rows] = tiles.transpose(1, 0, 2)
    by_column = aligned_zeros((n_columns, n_rows + PAD), np.uint8)
    by_column[:, :n_rows] = columns.T
    target = gather([c.target for c in chunks], (), np.float64)
    weight = gather([c.weight for c in chunks if c.weight is not None], (), np.float64)
    offset = [c.offset.T for c in chunks if c.offset is not None]
    offset = gather(offset, (n_outputs,), np.float64)
    return (
        BinnedMatrix(by_row, by_column, store.spec),
        target,
        weight if len(weight) else None,
        offset.T if len(offset) else None,
    )
