"""Training rows in chunks, wherever they are: in memory, on disk.

Glossary
--------
chunk   some neighbouring rows with their bins, small enough to be worked on at once
store   all chunks that a process has; those of rank 0 come first, then those of rank 1, ...
work    what a fit keeps of each row from one pass to the next

A pass goes through the chunks in order and sees one at a time::

    for chunk in store.chunks():       the store fetches the next ones meanwhile
        ... chunk.matrix, chunk.work ...
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from hedgerow.arrays import FloatArray, IntArray, RowArray
from hedgerow.data.bins import BinSpec
from hedgerow.data.matrix import BinnedMatrix


class ChunkWork(NamedTuple):
    """What a fit keeps of the rows of a chunk.

    raw          float64 (n_outputs, n_rows): raw scores
    probability  float64 (n_outputs, n_rows) for softmax, else (0, 0)
    fixed        int32 (2 * n_rows,): g and h side by side
    packed       int64 (2 * n_rows,)
    rows         uint32 (n_rows + padding,): places of rows in the chunk, those of a node
                 side by side
    """

    raw: FloatArray
    probability: FloatArray
    fixed: np.ndarray
    packed: IntArray
    rows: RowArray


class Uses(NamedTuple):
    """What a pass reads and writes: a store on disk fetches and keeps nothing else.

    by_row        whether ``matrix.by_row`` is read
    columns       rows of ``matrix.by_column`` that are read; None: all
    reads         fields of the work that are read
    writes        fields of the work that are written, and kept for the next pass.  One
                  that is not read is undefined at first, so all of it has to be written
    packed_words  2: all of ``work.packed`` counts; 1: its first ``n_rows`` numbers only

    What is not used is undefined in that pass.  Target, weight and offset are always there.
    """

    by_row: bool = True
    columns: Sequence[int] | None = None
    reads: Collection[str] = ChunkWork._fields
    writes: Collection[str] = ChunkWork._fields
    packed_words: int = 2


EVERYTHING = Uses()
NO_BINS = Uses(by_row=False, columns=())
GIVEN = Uses(by_row=False, columns=(), reads=(), writes=())
"""Target, weight and offset alone."""


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Some rows; the arrays may be used until the next chunk is asked for.

    Attributes
    ----------
    number : int
        Place in the store.
    first_row : int
        Number of its first row among the rows of all ranks: what random draws of rows
        are keyed by.
    matrix : BinnedMatrix
        Both layouts.
    target : float64 (n_rows,)
    weight : float64 (n_rows,), or None
    offset : float64 (n_outputs, n_rows), or None
    work : ChunkWork
        Kept, with what was written to it, for the next pass.
    """

    number: int
    first_row: int
    matrix: BinnedMatrix
    target: FloatArray
    weight: FloatArray | None
    offset: FloatArray | None
    work: ChunkWork

    @property
    def n_rows(self) -> int:
        return self.matrix.n_rows


class RowStore(Protocol):
    """The chunks of one process.

    Attributes
    ----------
    spec : BinSpec
        Of all ranks.
    chunk_sizes : sequence of int
        Rows of each chunk; may be empty.
    first_row : int
        Rows of all ranks before this one.
    """

    spec: BinSpec
    chunk_sizes: Sequence[int]
    first_row: int

    def begin(self, n_outputs: int, keeps_probability: bool) -> None:
        """Make room for the work of a fit; contents are undefined."""

    def chunks(
        self, numbers: Sequence[int] | None = None, uses: Uses = EVERYTHING
    ) -> Iterator[Chunk]:
        """The chunks with these numbers, ascending (default: all).

        One pass at a time.  Before :meth:`begin` there is no work.
        """

    def close(self) -> None:
        """Give back memory, threads and temporary files; a second call does nothing."""
