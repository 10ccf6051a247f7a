"""Rows of files in the form for trees: bins, in chunks.

::

    cuts of the training rows (a sample of pass one)  ->  BinSpec
    pass two   each batch: columns, or the inputs in their place  ->  bins  ->  chunks

Rows that fit in memory are one chunk, which is the matrix of a fit in memory unless other ranks
have rows, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import NamedTuple, TypeAlias, cast

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.boosting.external.file_table import FileTable, by_dataset, read_together
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.scores import TrainingData
from hedgerow.boosting.loop.setup.resolved import numbers_for, outputs_of_tree
from hedgerow.boosting.loop.setup.training_matrix import bundle_rules
from hedgerow.boosting.resume.continuing import start_scores
from hedgerow.boosting.row_data.statistics import Encoded
from hedgerow.data import AnyTable, Table, bin_table
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.binning.matrix import BinnedMatrix, backs_off, check_bundled
from hedgerow.data.external.disk_store import ChunkSink
from hedgerow.data.external.memory import give_back_memory
from hedgerow.data.external.row_store import ChunkStore
from hedgerow.errors import AllRowsNeededError
from hedgerow.model.forest import Forest
from hedgerow.params import BoostParams


def store_rows(
    encoded: Encoded,
    params: BoostParams,
    n_threads: int,
    n_outputs: int,
    spec: BinSpec,
    first: Forest | None = None,
) -> tuple[TrainingData, tuple[TrainingData, ...]]:
    """Bin training rows of files and validation rows; the stacks of their tables close the stores.

    ``first`` are the trees of the model to continue.
    """
    train, validation = encoded.train, encoded.validation
    table = cast(FileTable, train.table)
    check_bundled(spec, bundle_rules(params))
    give_back_memory()
    binning = _Binning(spec, params, n_threads, n_outputs, first)
    rows = {id(one.table): one for one in (train, *validation)}
    found = dict[int, TrainingData]()
    for tables in by_dataset(one.table for one in rows.values()):
        found |= binning.store([rows[id(one)] for one in tables])
    for one in validation:
        if not isinstance(one.table, FileTable):
            found[id(one.table)] = binning.of_table(one)
    seen = replace(found[id(table)], n_copies=encoded.n_copies)
    return seen, tuple(found[id(one.table)] for one in validation)


Bins: TypeAlias = tuple[BinnedMatrix, FloatArray | None]
"""Bins of a block of rows, and their values if leaves are linear."""


class _Binning(NamedTuple):
    """The mapping of rows to bins; ``first`` are the trees of the model to continue."""

    spec: BinSpec
    params: BoostParams
    n_threads: int
    n_outputs: int
    first: Forest | None

    def store(self, samples: Sequence[Sample]) -> dict[int, TrainingData]:
        """Bin rows of one dataset in one pass over the files; return them by id of the table."""
        tables = [cast(FileTable, rows.table) for rows in samples]
        scores: list[list[FloatArray]] = [[] for _ in tables]
        places = [0] * len(tables)

        def bins() -> Iterator[list[Bins | None]]:
            for parts in read_together(tables):
                found: list[Bins | None] = [None] * len(parts)
                for k, (part, rows) in enumerate(zip(parts, samples, strict=True)):
                    if part.n_rows == 0:
                        continue
                    place = slice(places[k], places[k] + part.n_rows)
                    places[k] = place.stop
                    if self.first is not None:
                        offset = None if rows.offset is None else rows.offset[:, place]
                        own = Sample(part, rows.target[place], offset=offset)
                        scores[k].append(start_scores(self.first, own, self.n_threads))
                    matrix = self._bins(part, tables[k].is_seen)
                    found[k] = matrix, numbers_for(self.params, part)
                yield found

        made = write_chunks(samples, self.spec, self.params, self.n_outputs, bins())
        if self.first is not None:
            none = np.zeros((self.first.n_outputs, 0))
            starts = [np.concatenate([none, *own], axis=1) for own in scores]
            made = [replace(rows, start=start) for rows, start in zip(made, starts, strict=True)]
        return dict(zip(map(id, tables), made, strict=True))

    def of_table(self, rows: Sample) -> TrainingData:
        """Bin validation rows in memory."""
        start = None
        if self.first is not None:
            start = start_scores(self.first, rows, self.n_threads)
        matrix = self._bins(rows.table, is_seen=False, columns=False)
        numbers = numbers_for(self.params, rows.table)
        return TrainingData(
            matrix, rows.target, rows.weight, rows.offset, start=start, numbers=numbers
        )

    def _bins(self, table: AnyTable, is_seen: bool, columns: bool = True) -> BinnedMatrix:
        unknown = backs_off(table) if isinstance(table, Table) and not is_seen else None
        if unknown is not None:
            raise AllRowsNeededError(
                f"column {unknown!r}: a validation row has a category that no training row "
                "has. With unknown_category='backoff' its prediction ends at an inner node, "
                "which rows in chunks do not support: use unknown_category='missing', or a "
                "table in memory."
            )
        return bin_table(table, self.spec, self.n_threads, columns=columns)


def write_chunks(
    samples: Sequence[Sample],
    spec: BinSpec,
    params: BoostParams,
    n_outputs: int,
    bins: Iterable[Sequence[Bins | None]],
) -> list[TrainingData]:
    """Return rows of files in the form for trees, given the bins of each block of them in turn.

    A single chunk, where no rank has other rows, is a matrix in memory.
    """
    tables = [cast(FileTable, rows.table) for rows in samples]
    with ExitStack() as stack:
        sinks = []
        for table in tables:
            vectors = outputs_of_tree(params, n_outputs) if table.is_seen else 1
            sink = ChunkSink(
                spec, table.data.cache_dir, table.room, n_outputs=n_outputs, n_vectors=vectors
            )
            sinks.append(stack.enter_context(sink))
        for block in bins:
            for sink, part in zip(sinks, block, strict=True):
                if part is not None:
                    sink.append(*part)
        stores = [sink.finish() for sink in sinks]
    block = ()
    give_back_memory()  # buffers of reading are not needed beside a single chunk
    found = []
    for rows, table, store in zip(samples, tables, stores, strict=True):
        table.stack.callback(store.close)
        matrix: BinnedMatrix | ChunkStore = store
        numbers = None
        if table.others.size == 1 and len(store.chunk_sizes) == 1:
            (chunk,) = store.chunks()
            matrix, numbers = chunk.matrix, chunk.numbers if params.linear_leaves else None
        target = np.asfortranarray(rows.target)
        found.append(TrainingData(matrix, target, rows.weight, rows.offset, numbers=numbers))
    return found
