"""Rows of files in the form for trees: bins, in chunks.

::

    cuts of the training rows (a sample of pass one)  ->  BinSpec
    pass two   each batch: columns, or the inputs in their place  ->  bins  ->  chunks

Rows that fit in memory are one chunk, which is the matrix of a fit in memory unless other ranks
have rows, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.boosting.external.file_table import FileTable, by_dataset, read_together
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.scores import TrainingData
from hedgerow.boosting.loop.setup.resolved import numbers_for, outputs_of_tree
from hedgerow.boosting.loop.setup.training_matrix import bundle_rules
from hedgerow.boosting.resume.continuing import start_scores
from hedgerow.boosting.row_data.statistics import Encoded
from hedgerow.data import bin_table
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.binning.matrix import BinnedMatrix, check_bundled
from hedgerow.data.external.disk_store import ChunkSink
from hedgerow.data.external.memory import give_back_memory
from hedgerow.data.external.row_store import ChunkStore
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
    """Bin training rows of files and validation rows; stacks of their tables close the stores."""
    # Rows of one dataset take one pass over the files. A single chunk, where no rank has other
    # rows, is a matrix in memory. ``first`` are the trees of the model to continue.
    check_bundled(spec, bundle_rules(params))
    give_back_memory()

    def read(
        tables: Sequence[FileTable], samples: Sequence[Sample], sinks: Sequence[ChunkSink]
    ) -> list[FloatArray | None]:
        """Write the bins of all batches to the sinks; return the scores of the first trees."""
        starts: list[list[FloatArray]] = [[] for _ in tables]
        places = [0] * len(tables)
        for parts in read_together(tables):
            for k, (part, rows) in enumerate(zip(parts, samples, strict=True)):
                if part.n_rows == 0:
                    continue
                place = slice(places[k], places[k] + part.n_rows)
                places[k] = place.stop
                if first is not None:
                    offset = None if rows.offset is None else rows.offset[:, place]
                    own = Sample(part, rows.target[place], offset=offset)
                    starts[k].append(start_scores(first, own, n_threads))
                sinks[k].append(bin_table(part, spec, n_threads), numbers_for(params, part))
        if first is None:
            return [None] * len(tables)
        return [np.concatenate([np.zeros((first.n_outputs, 0)), *own], axis=1) for own in starts]

    by_id = {id(one.table): one for one in (encoded.train, *encoded.validation)}
    found = dict[int, TrainingData]()
    for tables in by_dataset(one.table for one in by_id.values()):
        samples = [by_id[id(table)] for table in tables]
        with ExitStack() as stack:
            sinks = []
            for table in tables:
                vectors = outputs_of_tree(params, n_outputs) if table.is_seen else 1
                sink = ChunkSink(
                    spec, table.data.cache_dir, table.room, n_outputs=n_outputs, n_vectors=vectors
                )
                sinks.append(stack.enter_context(sink))
            starts = read(tables, samples, sinks)
            stores = [sink.finish() for sink in sinks]
        give_back_memory()  # buffers of reading are not needed beside a single chunk
        for rows, table, store, start in zip(samples, tables, stores, starts, strict=True):
            table.stack.callback(store.close)
            matrix: BinnedMatrix | ChunkStore = store
            numbers = None
            if table.others.size == 1 and len(store.chunk_sizes) == 1:
                (chunk,) = store.chunks()
                matrix, numbers = chunk.matrix, chunk.numbers if params.linear_leaves else None
            target = np.asfortranarray(rows.target)
            found[id(table)] = TrainingData(
                matrix, target, rows.weight, rows.offset, start=start, numbers=numbers
            )
    for rows in encoded.validation:
        if not isinstance(rows.table, FileTable):
            start = None if first is None else start_scores(first, rows, n_threads)
            found[id(rows.table)] = TrainingData(
                bin_table(rows.table, spec, n_threads, columns=False), rows.target, rows.weight,
                rows.offset, start=start, numbers=numbers_for(params, rows.table),
            )  # fmt: skip
    return found[id(encoded.train.table)], tuple(
        found[id(rows.table)] for rows in encoded.validation
    )
