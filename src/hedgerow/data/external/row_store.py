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

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from hedgerow.arrays import BinArray, FloatArray, IntArray, RowArray, aligned_empty
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.binning.matrix import PAD, BinnedMatrix
from hedgerow.kernels.histograms.vector_histogram import width_of

LINE = 64
"""Bytes of a cache line, on which each array begins."""


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
    """The data of a chunk's rows other than their bins; see :class:`Chunk`."""

    target: FloatArray
    weight: FloatArray | None
    offset: FloatArray | None
    numbers: FloatArray | None = None


class MetadataSizes(NamedTuple):
    """The data of rows other than their bins; see :class:`Metadata`."""

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


@dataclass(frozen=True, slots=True)
class WorkShape:
    """Which working arrays a fit needs for its rows; see :class:`ChunkWork`.

    Attributes
    ----------
    n_outputs : int
        Raw scores of a row.
    keeps_probability, keeps_weights, keeps_sums : bool
        Whether there are probabilities, weights of a sample, and sums of trees.
    n_vectors : int
        Outputs of a tree.
    """

    n_outputs: int = 1
    keeps_probability: bool = False
    keeps_weights: bool = False
    keeps_sums: bool = False
    n_vectors: int = 1

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        scores = 8 * self.n_outputs * (1 + self.keeps_probability + self.keeps_sums)
        gradients = 8 * self.n_vectors + 8 * packed_words_of(self.n_vectors)
        return scores + 8 * self.keeps_weights + gradients + 4

    def extents(self, n_rows: int) -> dict[str, tuple[int, int]]:
        """Return the offset and size in bytes of each field, in consecutive order."""
        scores = 8 * self.n_outputs * n_rows
        sizes = {
            "raw": scores,
            "probability": scores if self.keeps_probability else 0,
            "quantized": 8 * self.n_vectors * n_rows,
            "packed": 8 * packed_words_of(self.n_vectors) * n_rows,
            "rows": 4 * (n_rows + PAD),
            "weights": 8 * n_rows if self.keeps_weights else 0,
            "sums": scores if self.keeps_sums else 0,
        }
        starts = itertools.accumulate((-(-s // LINE) * LINE for s in sizes.values()), initial=0)
        return dict(zip(sizes, zip(starts, sizes.values(), strict=False), strict=True))

    def n_bytes(self, n_rows: int) -> int:
        """Return the bytes of all fields of a chunk."""
        start, size = self.extents(n_rows)["sums"]
        return start + -(-size // LINE) * LINE

    def view(self, buffer: BinArray, n_rows: int) -> ChunkWork:
        """Return the fields in a buffer of at least :meth:`n_bytes`."""
        part = {
            name: buffer[start : start + size]
            for name, (start, size) in self.extents(n_rows).items()
        }
        of_scores = self.n_outputs, n_rows
        return ChunkWork(
            part["raw"].view(np.float64).reshape(of_scores),
            part["probability"]
            .view(np.float64)
            .reshape(of_scores if self.keeps_probability else (0, 0)),
            part["quantized"].view(np.int32),
            part["packed"].view(np.int64),
            part["rows"].view(np.uint32),
            part["weights"].view(np.float64),
            part["sums"].view(np.float64).reshape(of_scores if self.keeps_sums else (0, 0)),
        )

    def new(self, n_rows: int) -> ChunkWork:
        """Allocate the work of a chunk."""
        return self.view(aligned_empty(self.n_bytes(n_rows), np.uint8), n_rows)


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

    def begin(self, shape: WorkShape) -> None:
        """Allocate the working arrays of a fit, with undefined contents."""

    def chunks(
        self, numbers: Sequence[int] | None = None, uses: Uses = EVERYTHING
    ) -> Iterator[Chunk]:
        """Yield the chunks with these ascending numbers (default: all).

        Only one pass may run at a time.  Chunks have no work before :meth:`begin`.
        """

    def close(self) -> None:
        """Free memory, threads and temporary files; a second call does nothing."""
