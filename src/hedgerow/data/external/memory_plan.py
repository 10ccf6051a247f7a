"""Divide a memory limit among the parts of external-memory training.

::

    memory_limit = reserve                         threads, tables, one block being read
                 + (n_stripes + 2) chunks          prefetched, in use, and about to be freed
                 + resident chunks                 the first ones, as many as fit

A chunk has the bins of its rows in both layouts, and their numbers for linear leaves.  Targets, raw
scores, gradients and other arrays of all rows are beside the limit.  If bins and arrays of all rows
fit into it together (:meth:`RowShape.one_chunk_bytes`), all rows are a single chunk.  Passes go
through the chunks cyclically, so the first ones stay resident and the others are loaded in each
pass.  Keeping the most recently used ones would free each chunk just before its next use.

Memory means the resident set size.  Pages of mapped files count while they are mapped.  The
file cache does not count, because the system can reclaim it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hedgerow.data.binning.matrix import PAD, tile_shape
from hedgerow.errors import ParameterError
from hedgerow.kernels.histograms.vector_histogram import width_of

RESERVE = 4 << 20
MOST_ROWS, FEWEST_ROWS = 1 << 18, 1 << 12
"""Most and fewest rows of a chunk.  Small chunks are dominated by the cost of calls
(``benchmarks/chunks.py``: with two threads a tree takes 2.4 times as long as in memory with
65,536 rows per chunk, and 1.8 times with 262,144)."""

MOST_JOINED_ROWS = (1 << 30) - 1
"""Most rows of a single chunk: their places are 32-bit integers."""

_VECTORS, _BY_OUTPUT = 24, 24
"""Bytes a row of the arrays of all rows: target, weight, places in the order of the rows and in the
next order; and for each output raw score, probability and offset."""

_AT_ONCE, _AT_ONCE_BY_OUTPUT = 96, 32
"""Bytes a row of what a fit computes of all rows at once: places in another order, derivatives of a
loss, weights of a sample, losses for a metric, leaves of a line search; and for each output
predictions and means of trees."""

_FOR_LINES = 48
"""Bytes a row of a chunk for the terms of its leaves, where leaves are linear: gradient, hessian
and three terms, and the leaf."""

_FOR_SLOTS = 0.75  # fraction of the limit, as long as chunks do not get too small
_PAGES = 10 * 4096  # each array of a chunk may share a page with another


@dataclass(frozen=True, slots=True)
class RowShape:
    """Sizes that determine the memory of a row."""

    n_columns: int  # columns of bins
    n_numbers: int = 0  # columns whose values are kept, for linear leaves
    n_outputs: int = 1  # n_outputs, n_vectors: raw scores of a row, and outputs of a tree
    n_vectors: int = 1

    @property
    def vector_bytes(self) -> int:
        """Bytes of a row in the arrays of all rows that a fit keeps."""
        # the 64-bit words that histograms add up
        words = 2 if self.n_vectors == 1 else width_of(self.n_vectors, constant=False) // 2
        return _VECTORS + _BY_OUTPUT * self.n_outputs + 8 * (self.n_vectors + words)

    def chunk_bytes(self, n_rows: int) -> int:
        """Return the bytes of a chunk."""
        n_tiles, _, width = tile_shape(self.n_columns)
        numbers = 8 * self.n_numbers + _FOR_LINES if self.n_numbers else 0
        return (n_rows + PAD) * (n_tiles * width + self.n_columns + numbers) + _PAGES

    def one_chunk_bytes(self, n_rows: int) -> int:
        """Return the bytes of a single chunk of all rows, and of the arrays of all rows."""
        at_once = _AT_ONCE + _AT_ONCE_BY_OUTPUT * self.n_outputs
        return self.chunk_bytes(n_rows) + n_rows * (self.vector_bytes + at_once)


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The parts of a memory limit."""

    chunk_rows: int  # rows of each chunk but the last
    chunk_bytes: int
    n_slots: int  # number of chunks in memory temporarily
    n_resident: int  # number of resident chunks if not all fit; see :meth:`resident_of`
    n_all: int  # number of chunks that fit into the limit

    def resident_of(self, n_chunks: int) -> int:
        """Return how many of ``n_chunks`` chunks are resident, counted from the first."""
        return n_chunks if n_chunks < self.n_all else self.n_resident  # one is being copied


def divide_memory(
    limit: int, shape: RowShape, n_stripes: int, chunk_rows: int | None = None
) -> MemoryPlan:
    """Divide a limit of bytes; ``chunk_rows`` are the rows of a chunk, if already fixed."""
    n_slots = n_stripes + 2
    fewest = FEWEST_ROWS if chunk_rows is None else chunk_rows
    smallest = RESERVE + n_slots * shape.chunk_bytes(fewest)
    if limit < smallest:
        raise ParameterError(
            f"memory_limit={limit} bytes is too small for rows of this width "
            f"({shape.n_columns} columns, {n_stripes} folders, "
            f"{fewest} rows at a time): it must be at least {smallest}."
        )
    if chunk_rows is None:
        chunk_rows = FEWEST_ROWS
        share = _FOR_SLOTS * (limit - RESERVE)
        while chunk_rows < MOST_ROWS and n_slots * shape.chunk_bytes(2 * chunk_rows) <= share:
            chunk_rows *= 2
    size = shape.chunk_bytes(chunk_rows)
    n_all = (limit - RESERVE) // size
    return MemoryPlan(chunk_rows, size, n_slots, n_all - n_slots, n_all)


def fits_in_one_chunk(limit: int, shape: RowShape, sizes: Sequence[int]) -> bool:
    """Return whether all chunks with this many rows fit into a memory limit as a single one."""
    # They are copied one at a time to where the single one is.
    n_rows = sum(sizes)
    if len(sizes) < 2 or n_rows > MOST_JOINED_ROWS:
        return False
    needed = max(shape.one_chunk_bytes(n_rows), shape.chunk_bytes(n_rows + max(sizes)))
    return RESERVE + needed <= limit
