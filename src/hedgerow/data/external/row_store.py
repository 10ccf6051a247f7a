"""Protocol for training rows in chunks, in memory or on disk.

Glossary
--------
chunk   consecutive rows with their bins, few enough to be processed together
store   all chunks of a process; the rows of rank 0 come first, then the rows of rank 1, ...
work    arrays that a fit keeps for each row from one pass to the next

A pass goes through the chunks in order, one at a time::

    for chunk in store.chunks():       the store prefetches the next ones meanwhile
        ... chunk.matrix, chunk.work ...
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from hedgerow.arrays import FloatArray, IntArray, RowArray
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.binning.matrix import BinnedMatrix
from hedgerow.kernels.histograms.vector_histogram import width_of


class ChunkWork(NamedTuple):
    """Working arrays of a fit for the rows of a chunk.

    raw          float64 (n_outputs, n_rows): raw scores
    probability  float64 (n_outputs, n_rows) for softmax, else (0, 0)
    quantized    int32 (2 * n_rows,): quantised gradient and hessian of each row, adjacent; for
                 trees with vectors those of each output, one after the other
    packed       int64 (packed words * n_rows,): what histograms add up
    rows         uint32 (n_rows + padding,): positions of rows in the chunk, grouped by node
    weights      float64 (n_rows,): what each row stands for in a sample by gradients, where
                 leaves are searched by the loss of their rows, else (0,)
    sums         float64 (n_outputs, n_rows) where the score of a row is a mean of trees, else
                 (0, 0): their sums
    """

    raw: FloatArray
    probability: FloatArray
    quantized: np.ndarray
    packed: IntArray
    rows: RowArray
    weights: FloatArray
    sums: FloatArray


class Metadata(NamedTuple):
    """What is known of the rows of a chunk beside their bins; see :class:`Chunk`."""

    target: FloatArray
    weight: FloatArray | None
    offset: FloatArray | None
    numbers: FloatArray | None = None


class MetadataSizes(NamedTuple):
    """What rows have beside their bins; see :class:`Metadata`."""

    weighted: bool = False
    n_offsets: int = 0
    n_targets: int = 1
    n_numbers: int = 0

    @classmethod
    def of(cls, given: Metadata) -> MetadataSizes:
        """Return the sizes of the rows of a batch."""
        n_targets = 1 if given.target.ndim == 1 else given.target.shape[1]
        n_offsets = 0 if given.offset is None else len(given.offset)
        n_numbers = 0 if given.numbers is None else given.numbers.shape[1]
        return cls(given.weight is not None, n_offsets, n_targets, n_numbers)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return 8 * (self.n_targets + self.weighted + self.n_offsets + self.n_numbers)


class Uses(NamedTuple):
    """Declaration of what a pass reads and writes; a store on disk loads nothing else.

    by_row        whether the pass reads ``matrix.by_row``
    columns       rows of ``matrix.by_column`` that it reads; None means all
    reads         fields of the work that it reads
    writes        fields of the work that it writes, and that are kept for the next pass.  A
                  field that is not read starts undefined, so all of it must be written
    packed_words  numbers of a row in ``work.packed`` that are used, from its beginning; None: all
    numbers       columns of the chunk's ``numbers`` that it reads

    Everything else is undefined in the pass, except target, weight and offset.
    """

    by_row: bool = True
    columns: Sequence[int] | None = None
    reads: Collection[str] = ChunkWork._fields
    writes: Collection[str] = ChunkWork._fields
    packed_words: int | None = None
    numbers: Sequence[int] = ()


def packed_words_of(n_vectors: int) -> int:
    """Return the numbers of a row in ``work.packed``, for trees of ``n_vectors`` outputs."""
    return 2 if n_vectors == 1 else width_of(n_vectors, constant=False) // 2


EVERYTHING = Uses()
ALL_BINS = Uses(reads=(), writes=())
NO_BINS = Uses(by_row=False, columns=())
TARGETS_ONLY = Uses(by_row=False, columns=(), reads=(), writes=())
"""Only target, weight and offset."""


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """A chunk of rows; its arrays are valid until the next chunk is requested.

    Attributes
    ----------
    number : int
        Position in the store.
    first_row : int
        Number of the first row among the rows of all ranks, which seeds random draws.
    matrix : BinnedMatrix
        Bins in both layouts.
    target : float64 (n_rows,), or (n_rows, n_targets) in Fortran order
    weight : float64 (n_rows,), or None
    offset : float64 (n_outputs, n_rows), or None
    numbers : float64 (n_rows, n_features) in Fortran order, or None
        Values of the columns, for linear leaves.
    work : ChunkWork
        Working arrays, whose contents are kept for the next pass.
    """

    number: int
    first_row: int
    matrix: BinnedMatrix
    target: FloatArray
    weight: FloatArray | None
    offset: FloatArray | None
    numbers: FloatArray | None
    work: ChunkWork

    @property
    def n_rows(self) -> int:
        return self.matrix.n_rows

    def target_of(self, output: int) -> FloatArray:
        """Return the target that an output learns: its own, if there are several."""
        return self.target if self.target.ndim == 1 else self.target[:, output]


class RowStore(Protocol):
    """The chunks of one process.

    Attributes
    ----------
    spec : BinSpec
        Bins, the same for all ranks.
    chunk_sizes : sequence of int
        Rows of each chunk since the last :meth:`begin`; may be empty.  Where there is a single
        chunk, it stays in memory.
    first_row : int
        Number of rows of lower ranks.
    """

    spec: BinSpec
    chunk_sizes: Sequence[int]
    first_row: int

    def begin(
        self,
        n_outputs: int,
        keeps_probability: bool,
        keeps_weights: bool = False,
        keeps_sums: bool = False,
        n_vectors: int = 1,
    ) -> None:
        """Allocate the working arrays of a fit, with undefined contents.

        A tree is grown on the gradients of ``n_vectors`` outputs.
        """

    def chunks(
        self, numbers: Sequence[int] | None = None, uses: Uses = EVERYTHING
    ) -> Iterator[Chunk]:
        """Yield the chunks with these ascending numbers (default: all).

        Only one pass may run at a time.  Chunks have no work before :meth:`begin`.
        """

    def close(self) -> None:
        """Free memory, threads and temporary files; a second call does nothing."""
