"""Folds of rows of files: the stores of their rows, and the memory for them.

::

    store of all rows -->  fold 0: a store of training rows, one of test rows    round 1, 2, ...
                           fold 1: a store of training rows, one of test rows    round 1, 2, ...
                           ...                                                         |
                           fit on the store of all rows  <----- best round of all folds

The folds have the rows, bins and row numbers that they have in memory, so their trees and scores
are the same.  With target statistics, or conflicts in bundles, a fold reads its rows from the files
instead (:mod:`hedgerow.boosting.validation.fold_rows`).  The stores share the memory of the fit,
and are deleted before it begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import cast

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.boosting.automatic.repeats import MOST_CELLS, recorded_by_column
from hedgerow.boosting.external.file_table import FileTable
from hedgerow.boosting.external.stored import Bins, write_chunks
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.scores import TrainingData
from hedgerow.boosting.validation.row_sets import stack_tables
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.data import AnyTable, BinnedMatrix, SparseTable
from hedgerow.data.external.memory import shown_bytes
from hedgerow.data.external.memory_plan import FEWEST_ROWS, RESERVE, RowShape
from hedgerow.data.external.row_store import ChunkStore, MemoryStore, Uses
from hedgerow.data.sparse import sparse_of
from hedgerow.errors import AllRowsNeededError, ParameterError
from hedgerow.params import BoostParams

DRAW_BYTES, _DRAW_SHARE = 64, 0.75
"""Memory of a row while folds are drawn, beside its targets; share of the limit for it, because no
store is in use yet."""

_STORE_SHARE, _TEST_SHARE = 0.6, 0.25
"""Share of the limit for the stores of all folds, and the part of it for test rows."""

_ENTRY_BYTES = 24
"""Memory of a value of rows that are compared: the value, its column, and copies while they are
joined."""


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


class FoldsOfFiles:
    """The memory of the folds of a table of files; ``stack`` closes their stores."""

    def __init__(self, table: FileTable) -> None:
        self._table, limit = table, table.memory_limit
        self.stack = table.stack.enter_context(ExitStack())
        self._rooms = (0, 0)
        least = int(DRAW_BYTES * table.n_rows / _DRAW_SHARE)
        if least > limit:
            raise ParameterError(
                f"memory_limit of {shown_bytes(limit)} is too small: early_stopping='cv' takes "
                f"{DRAW_BYTES} bytes of each of {table.n_rows:,} rows in memory to draw the folds, "
                f"and needs at least {shown_bytes(least)}; give as much, or use "
                "early_stopping=True."
            )

    def divide(self, n_folds: int, n_inputs: int, has_numbers: bool) -> None:
        """Give each fold its memory, for a store of training rows and one of test rows.

        What a store needs beside its chunks is counted once, because folds grow in turn.
        """
        limit = self._table.memory_limit
        each = int((_STORE_SHARE * limit - RESERVE) / n_folds)
        shape = RowShape(n_inputs, n_inputs if has_numbers else 0)
        smallest = (len(self._table.data.cache_dir) + 2) * shape.chunk_bytes(FEWEST_ROWS)
        of_test = max(smallest, int(_TEST_SHARE * each))
        if each - of_test < smallest:
            least = (2 * n_folds * smallest + RESERVE) / _STORE_SHARE
            raise ParameterError(
                f"memory_limit of {shown_bytes(limit)} is too small: early_stopping='cv' "
                f"grows {n_folds} folds side by side, and needs at least "
                f"{shown_bytes(int(least))}; give as much, or use early_stopping=True."
            )
        self._rooms = RESERVE + each - of_test, RESERVE + of_test

    def of_fold(self, train: Sample, test: Sample) -> tuple[Sample, Sample]:
        """Return the rows of a fold with their memory."""
        found = []
        for rows, room, is_seen in zip((train, test), self._rooms, (True, False), strict=True):
            table = cast(FileTable, rows.table)
            own = replace(table, stack=self.stack, room=room, is_seen=is_seen)
            found.append(replace(rows, table=own))
        return found[0], found[1]

    def copied(
        self,
        whole: TrainingData,
        parts: Sequence[tuple[IntArray, Sample]],
        params: BoostParams,
        n_outputs: int,
    ) -> list[TrainingData]:
        """Copy training rows and test rows, of these ascending numbers, from those of all rows."""
        store = whole.matrix
        if isinstance(store, BinnedMatrix):
            store = MemoryStore(store, whole.numbers)
        assert isinstance(store, ChunkStore)
        spec = store.spec

        def bins() -> Iterator[list[Bins | None]]:
            for chunk in store.chunks(uses=Uses(numbers=range(spec.n_features))):
                found: list[Bins | None] = []
                for rows, _ in parts:
                    first, last = np.searchsorted(rows, (chunk.rows.start, chunk.rows.stop))
                    own = rows[first:last] - chunk.rows.start
                    numbers: FloatArray | None = chunk.numbers
                    if numbers is not None:
                        numbers = np.take(numbers.T, own, axis=1).T
                    found.append((chunk.matrix.take(own), numbers) if len(own) > 0 else None)
                yield found

        return write_chunks([rows for _, rows in parts], spec, params, n_outputs, bins())

    def compared(self) -> AnyTable | None:
        """Return the rows as a sparse table; None if there are too many values to compare."""
        limit, found, n_values = self._table.memory_limit, list[AnyTable](), 0
        for own in self._table.blocks():
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
        return stack_tables(found)
