"""A store of chunks in memory, for small tables and for tests of other stores.

:mod:`hedgerow.data.external.row_store` has the glossary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from hedgerow.arrays import FloatArray, aligned_zeros
from hedgerow.data.binning.matrix import PAD, BinnedMatrix
from hedgerow.data.external.row_store import EVERYTHING, Chunk, ChunkStore, Uses


class MemoryStore(ChunkStore):
    """The rows of a binned matrix, in chunks of ``chunk_rows``.

    Parameters
    ----------
    matrix : BinnedMatrix
        Shared if there is a single chunk, otherwise copied.
    numbers : float64 (n_rows, n_features), optional
        Values of the columns, for linear leaves.
    chunk_rows : int, optional
        Rows of a chunk; by default all rows are in one chunk.
    """

    def __init__(
        self,
        matrix: BinnedMatrix,
        numbers: FloatArray | None = None,
        *,
        chunk_rows: int | None = None,
    ) -> None:
        self.spec, n_rows = matrix.spec, matrix.n_rows
        step = max(1, n_rows if chunk_rows is None else chunk_rows)
        parts = [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
        self.chunk_sizes: Sequence[int] = [part.stop - part.start for part in parts]
        self._chunks = [
            Chunk(
                number,
                part.start,
                matrix if len(parts) == 1 else rows_of(matrix, part.start, part.stop),
                None if numbers is None else np.asfortranarray(numbers[part]),
            )
            for number, part in enumerate(parts)
        ]

    def chunks(
        self, numbers: Sequence[int] | None = None, uses: Uses = EVERYTHING
    ) -> Iterator[Chunk]:
        for number in range(len(self._chunks)) if numbers is None else numbers:
            yield self._chunks[number]

    def close(self) -> None:
        self._chunks, self.chunk_sizes = [], []


def rows_of(matrix: BinnedMatrix, start: int, stop: int) -> BinnedMatrix:
    """Copy rows ``start`` to ``stop`` of a matrix."""
    n_tiles, _, width = matrix.by_row.shape
    by_row = aligned_zeros((n_tiles, stop - start + PAD, width), np.uint8)
    by_row[:, : stop - start] = matrix.by_row[:, start:stop]
    by_column = aligned_zeros((len(matrix.by_column), stop - start + PAD), np.uint8)
    by_column[:, : stop - start] = matrix.by_column[:, start:stop]
    return replace(matrix, by_row=by_row, by_column=by_column)
