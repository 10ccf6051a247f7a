"""Bins of training rows in chunks.

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
from dataclasses import dataclass
from typing import NamedTuple

import numpy.typing as npt

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.binning.matrix import BinnedMatrix


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
    chunk_sizes: Sequence[int]  # may be empty

    @property
    def n_rows(self) -> int:
        return sum(self.chunk_sizes)

    @property
    def n_features(self) -> int:
        """Number of features, each of which has a column of bins."""
        return self.spec.n_features

    n_columns = n_features

    @property
    def starts(self) -> list[int]:
        """Number of the first row of each chunk."""
        return list(itertools.accumulate(self.chunk_sizes, initial=0))[:-1]

    @abstractmethod
    def chunks(
        self, numbers: Sequence[int] | None = None, uses: Uses = EVERYTHING
    ) -> Iterator[Chunk]:
        """Yield the chunks with these ascending numbers (default: all), one pass at a time."""

    @abstractmethod
    def row_array(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> AnyArray:
        """Allocate values of rows, which are undefined: in memory, beyond its limit in a file."""

    @abstractmethod
    def close(self) -> None:
        """Free memory, threads and temporary files; a second call does nothing."""
