"""Contents from which cuts are chosen, collected before the number of rows is known.

:mod:`hedgerow.data.binning.cut_sample` takes the contents with the lowest hashes.  A content whose
hash is above the highest of these so far can be dropped; all others are kept, once each::

    contents seen    hash 0 |xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx| up to 200,000: all are kept
    ... 2 x 200,000         |xxxxxxxxxxxxxxxx|----------------| the upper half is dropped
    ... 4 x 200,000         |xxxxxxxx|------------------------|

So the sample depends only on the seed and on what the rows hold, not on files, batches or
processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hedgerow.arrays import AnyArray, IntArray
from hedgerow.data.binning.cut_sample import SAMPLE_ROWS, Hashes, lowest_contents

_MOST_BLOCKS = 1000
_SLACK = 1.25
"""Rows held before some are dropped, as a multiple of the size of the sample."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some of the kept rows."""

    hashes: Hashes  # uint64 (n_rows,)
    mass: IntArray  # int64 (n_rows,)
    columns: list[AnyArray]  # for each feature, plain numbers, or numbers of levels where ``coded``
    coded: tuple[bool, ...]
    # scipy.sparse.csr_array, or None; replaces ``columns`` if rows are sparse
    entries: object = None

    @property
    def n_rows(self) -> int:
        return len(self.hashes)

    @property
    def form(self) -> tuple[object, ...]:
        """Properties that two blocks must share to be joined."""
        types = tuple(column.dtype.str for column in self.columns)
        return (types, self.coded, self.entries is None)

    def take(self, rows: AnyArray, mass: IntArray) -> Block:
        """Return a block with some of the rows, which have these masses."""
        return Block(
            self.hashes[rows],
            mass,
            [column[rows] for column in self.columns],
            self.coded,
            None if self.entries is None else self.entries[rows],  # type: ignore[index]
        )


class RowSample:
    """The rows kept so far."""

    def __init__(self, most: int = SAMPLE_ROWS) -> None:
        self._most = most
        self._limit: np.uint64 | None = None
        self.n_rows = 0
        self.blocks: list[Block] = []

    def choose(self, hashes: Hashes) -> IntArray:
        """Return which of the next rows to keep."""
        self.n_rows += len(hashes)
        if self._limit is None:
            return np.arange(len(hashes))
        return np.flatnonzero(hashes < self._limit)

    def add(self, block: Block) -> None:
        """Add rows selected by :meth:`choose`."""
        if block.n_rows:
            self.blocks.append(block)
        if sum(b.n_rows for b in self.blocks) > _SLACK * self._most:
            self._thin()

    def _thin(self) -> None:
        """Keep one row of each content, with the mass of all, and drop the highest hashes."""
        if not self.blocks:
            return
        hashes = np.concatenate([block.hashes for block in self.blocks])
        mass = np.concatenate([block.mass for block in self.blocks])
        rows, sums, limit = lowest_contents(hashes, mass, self._most)
        self._limit = limit if limit is not None else self._limit
        order = np.argsort(rows)
        rows, sums = rows[order], sums[order]
        first = 0
        for index, block in enumerate(self.blocks):  # one by one, to free each old block at once
            low, high = np.searchsorted(rows, [first, first + block.n_rows])
            first += block.n_rows
            self.blocks[index] = block.take(rows[low:high] - (first - block.n_rows), sums[low:high])
        self.blocks = [block for block in self.blocks if block.n_rows]
        if len(self.blocks) > _MOST_BLOCKS:
            self.blocks = join(self.blocks)

    def finish(self) -> list[Block]:
        """Return the sample."""
        self._thin()
        return self.blocks


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
    columns = zip(*(block.columns for block in group), strict=True)
    return Block(
        np.concatenate([block.hashes for block in group]),
        np.concatenate([block.mass for block in group]),
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
