"""A store of chunks in memory, for small tables and for tests of other stores.

:mod:`hedgerow.data.external.row_store` has the glossary and the protocol.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from hedgerow.arrays import FloatArray, aligned_zeros
from hedgerow.data.binning.matrix import PAD, BinnedMatrix
from hedgerow.data.external.row_store import EVERYTHING, Chunk, Uses, WorkShape


class MemoryStore:
    """The rows of a binned matrix, in chunks of ``chunk_rows``.

    Parameters
    ----------
    matrix : BinnedMatrix
        Shared if there is a single chunk, otherwise copied.
    target : float64 (n_rows,), or (n_rows, n_targets)
    weight : float64 (n_rows,), optional
    offset : float64 (n_outputs, n_rows), optional
    chunk_rows : int, optional
        Rows of a chunk; by default all rows are in one chunk.
    first_row : int, default=0
        Number of rows of lower ranks.
    numbers : float64 (n_rows, n_features), optional
        Values of the columns, for linear leaves.
    """

    def __init__(
        self,
        matrix: BinnedMatrix,
        target: FloatArray,
        weight: FloatArray | None = None,
        offset: FloatArray | None = None,
        *,
        chunk_rows: int | None = None,
        first_row: int = 0,
        numbers: FloatArray | None = None,
    ) -> None:
        self.spec = matrix.spec
        self.first_row = first_row
        n_rows = matrix.n_rows
        step = max(1, n_rows if chunk_rows is None else chunk_rows)
        starts = range(0, n_rows, step)
        self.chunk_sizes: Sequence[int] = [min(step, n_rows - start) for start in starts]
        self._starts = list(starts)
        parts = [slice(start, min(start + step, n_rows)) for start in starts]
        single = len(parts) == 1
        self._parts = [
            Chunk(
                number,
                0,
                matrix if single else rows_of(matrix, part.start, part.stop),
                np.asfortranarray(target[part]),
                None if weight is None else np.ascontiguousarray(weight[part]),
                None if offset is None else np.ascontiguousarray(offset[:, part]),
                None if numbers is None else np.asfortranarray(numbers[part]),
                WorkShape(0).new(0),
            )
            for number, part in enumerate(parts)
        ]

    def begin(self, shape: WorkShape) -> None:
        """Allocate the working arrays of a fit, with undefined contents."""
        self._parts = [replace(chunk, work=shape.new(chunk.n_rows)) for chunk in self._parts]

    def chunks(
        self, numbers: Sequence[int] | None = None, uses: Uses = EVERYTHING
    ) -> Iterator[Chunk]:
        """Yield the chunks with these ascending numbers (default: all), with all bins."""
        for number in range(len(self._parts)) if numbers is None else numbers:
            first_row = self.first_row + self._starts[number]
            if self._parts[number].first_row != first_row:
                self._parts[number] = replace(self._parts[number], first_row=first_row)
            yield self._parts[number]

    def close(self) -> None:
        """Free the memory; a second call does nothing."""
        self._parts, self._starts, self.chunk_sizes = [], [], []


def rows_of(matrix: BinnedMatrix, start: int, stop: int) -> BinnedMatrix:
    """Copy rows ``start`` to ``stop`` of a matrix."""
    n_tiles, _, width = matrix.by_row.shape
    by_row = aligned_zeros((n_tiles, stop - start + PAD, width), np.uint8)
    by_row[:, : stop - start] = matrix.by_row[:, start:stop]
    by_column = aligned_zeros((len(matrix.by_column), stop - start + PAD), np.uint8)
    by_column[:, : stop - start] = matrix.by_column[:, start:stop]
    return replace(matrix, by_row=by_row, by_column=by_column)
