"""Bins of training rows in chunks, in memory or on disk.

Glossary
--------
chunk   consecutive rows with their bins, few enough to be processed together
store   all chunks of a process

A pass goes through the chunks in order, one at a time::

    for chunk in store.chunks():       the store prefetches the next ones meanwhile
        ... chunk.matrix, values[chunk.rows] ...

Only bins are in chunks.  Targets, weights, raw scores, gradients and whatever else a row has are
arrays of all rows (:meth:`ChunkStore.row_array`).
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, FloatArray, aligned_empty, aligned_zeros
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.binning.matrix import PAD, BinnedMatrix


class Uses(NamedTuple):
    """What a pass reads; a store on disk loads nothing else, and everything else is undefined.

    by_row   whether the pass reads ``matrix.by_row``
    columns  rows of ``matrix.by_column`` that it reads; None means all
    numbers  columns of the chunk's ``numbers`` that it reads
    """

    by_row: bool = True
    columns: Sequence[int] | None = None
    numbers: Sequence[int] = ()


EVERYTHING = Uses()
ROWS_ONLY = Uses(columns=())


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """A chunk of rows; its arrays are valid until the next chunk is requested."""

    number: int  # position in the store
    start: int  # number of its first row among the rows of the store
    matrix: BinnedMatrix  # bins in both layouts
    # float64 (n_rows, n_features) in Fortran order, or None; values of the columns, for linear
    # leaves
    numbers: FloatArray | None

    @property
    def n_rows(self) -> int:
        return self.matrix.n_rows

    @property
    def rows(self) -> slice:
        """The place of the rows in arrays of all rows."""
        return slice(self.start, self.start + self.n_rows)


class ChunkStore(ABC):
    """The chunks of one process."""

    spec: BinSpec  # the same for all ranks
    chunk_sizes: Sequence[int]  # may be empty; a single chunk stays in memory

    @property
    def n_rows(self) -> int:
        return sum(self.chunk_sizes)

    @property
    def n_features(self) -> int:
        """Number of features, each of which has a column of bins."""
        return self.spec.n_features

    @property
    def n_columns(self) -> int:
        return self.spec.n_features

    @property
    def starts(self) -> list[int]:
        """Number of the first row of each chunk."""
        return list(itertools.accumulate(self.chunk_sizes, initial=0))[:-1]

    @abstractmethod
    def chunks(
        self, numbers: Sequence[int] | None = None, uses: Uses = EVERYTHING
    ) -> Iterator[Chunk]:
        """Yield the chunks with these ascending numbers (default: all).

        Only one pass may run at a time.
        """

    def row_array(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> AnyArray:
        """Allocate values of rows, which are undefined."""
        return aligned_empty(shape, dtype)

    @abstractmethod
    def close(self) -> None:
        """Free memory, threads and temporary files; a second call does nothing."""


class MemoryStore(ChunkStore):
    """The rows of a binned matrix, in chunks of ``chunk_rows``.

    A single chunk shares the matrix; several are copies.
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
