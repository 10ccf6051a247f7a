"""Sample of the rows from which cuts are chosen, taken before the number of rows is known.

:func:`hedgerow.data.binning.bins.sampled_rows` takes the rows whose hash is below a
threshold, which falls as the number of rows rises.  A row whose hash is above the
threshold for the rows so far can be dropped; all others are kept::

    rows seen       hash 0 |xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx| all are kept
    ... 2 x 200,000        |xxxxxxxxxxxxxxxx|----------------| the upper half is dropped
    ... 4 x 200,000        |xxxxxxxx|------------------------|

The sample depends only on the seed and the row numbers, not on files, batches or
processes.  (A merged quantile sketch, which other libraries use here, gives different cuts
for a different division of the rows.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, BoolArray, FloatArray, IntArray
from hedgerow.data.binning.bins import MOST_SAMPLED, SAMPLE_ROWS, sample_limit
from hedgerow.kernels.primitives.hashing import BIN_SAMPLE_STREAM, hash_range

_MOST_BLOCKS = 1000
_SLACK = 1.25
"""Rows held before some are dropped, as a multiple of the size of the sample."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some of the kept rows, in ascending order.

    Attributes
    ----------
    hashes : uint64, shape (n_rows,)
    weight : float64, shape (n_rows,), or None
    columns : list of arrays
        For each feature, plain numbers, or numbers of levels where ``coded``.
    entries : scipy.sparse.csr_array, or None
        Replaces ``columns`` if rows are sparse.
    """

    hashes: npt.NDArray[np.uint64]
    weight: FloatArray | None
    columns: list[AnyArray]
    coded: tuple[bool, ...]
    entries: object = None

    @property
    def n_rows(self) -> int:
        return len(self.hashes)

    @property
    def form(self) -> tuple[object, ...]:
        """Properties that two blocks must share to be joined."""
        types = tuple(column.dtype.str for column in self.columns)
        return (types, self.coded, self.weight is None, self.entries is None)

    def take(self, rows: AnyArray) -> Block:
        """Return a block with some of the rows."""
        return Block(
            self.hashes[rows],
            None if self.weight is None else self.weight[rows],
            [column[rows] for column in self.columns],
            self.coded,
            None if self.entries is None else self.entries[rows],  # type: ignore[index]
        )


class RowSample:
    """The rows kept so far.

    Parameters
    ----------
    seed : int
    first_row : int
        Number of the first row to be offered.
    n_total : int, optional
        Number of all rows, if known: then no row is kept that is dropped later.
    """

    def __init__(self, seed: int, first_row: int = 0, n_total: int | None = None) -> None:
        self._seed, self._first_row, self._n_total = seed, first_row, n_total
        self.n_rows = 0
        self.blocks: list[Block] = []

    def choose(self, n_rows: int) -> tuple[IntArray, npt.NDArray[np.uint64]]:
        """Return which of the next rows to keep, and their hashes."""
        first = self._first_row + self.n_rows
        self.n_rows += n_rows
        hashes = hash_range(self._seed, BIN_SAMPLE_STREAM, first, first + n_rows)
        kept = np.flatnonzero(self._below(hashes, self._n_total or first + n_rows))
        return kept, hashes[kept]

    @staticmethod
    def _below(hashes: npt.NDArray[np.uint64], n_rows: int) -> BoolArray:
        if n_rows <= SAMPLE_ROWS:
            return np.ones(len(hashes), dtype=np.bool_)
        return hashes < sample_limit(n_rows)

    def add(self, block: Block) -> None:
        """Add rows selected by :meth:`choose`."""
        if block.n_rows:
            self.blocks.append(block)
        if sum(b.n_rows for b in self.blocks) > _SLACK * SAMPLE_ROWS:
            self._thin(self._n_total or self._first_row + self.n_rows)

    def _thin(self, n_rows: int) -> None:
        for index, block in enumerate(self.blocks):  # one by one, to free each old block at once
            self.blocks[index] = block.take(np.flatnonzero(self._below(block.hashes, n_rows)))
        self.blocks = [block for block in self.blocks if block.n_rows]
        if len(self.blocks) > _MOST_BLOCKS:
            self.blocks = join(self.blocks)

    def finish(self, n_rows: int) -> list[Block]:
        """Return the sample of ``n_rows`` rows, in ascending order."""
        self._thin(n_rows)
        if n_rows <= SAMPLE_ROWS:
            return self.blocks
        left, found = MOST_SAMPLED, []
        for block in self.blocks:
            found.append(block if block.n_rows <= left else block.take(np.arange(left)))
            left -= found[-1].n_rows
        return [block for block in found if block.n_rows]


def join(blocks: Sequence[Block]) -> list[Block]:
    """Return the same rows in fewer blocks."""
    groups: list[list[Block]] = []
    for block in blocks:
        if groups and groups[-1][0].form == block.form:
            groups[-1].append(block)
        else:
            groups.append([block])
    return [_joined(group) for group in groups]


def _joined(group: Sequence[Block]) -> Block:
    first = group[0]
    if len(group) == 1:
        return first
    weights = [block.weight for block in group if block.weight is not None]
    columns = zip(*(block.columns for block in group), strict=True)
    return Block(
        np.concatenate([block.hashes for block in group]),
        np.concatenate(weights) if weights else None,
        [np.concatenate(parts) for parts in columns],
        first.coded,
        None if first.entries is None else stack_sparse([block.entries for block in group]),
    )


def stack_sparse(tables: Sequence[object]) -> object:
    """Stack sparse rows; later tables may have more columns."""
    from scipy.sparse import csr_array, vstack

    width = max(table.shape[1] for table in tables)  # type: ignore[attr-defined]
    wide = [
        csr_array((t.data, t.indices, t.indptr), shape=(t.shape[0], width))  # type: ignore[attr-defined]
        for t in tables
    ]
    return vstack(wide, format="csr")
