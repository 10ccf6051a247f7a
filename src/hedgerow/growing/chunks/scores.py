"""Raw scores of rows in chunks: what is to be added to them when a chunk is next seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from hedgerow.arrays import FloatArray, IntArray, RowArray
from hedgerow.data.external.row_store import Chunk
from hedgerow.growing.chunks.passes import ADD_VALUES
from hedgerow.growing.chunks.team import Lead
from hedgerow.growing.core.tree import NO_ROWS, GrownTree, add_tree, columns_of_lines


@dataclass(frozen=True, slots=True, eq=False)
class Base:
    """Start scores take the place of what there is."""

    scores: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """The values of any tree are added, by a walk of all rows down it."""

    tree: GrownTree
    output: int


@dataclass(frozen=True, slots=True, eq=False)
class Leaves:
    """The values of the last tree are added: its rows stand leaf by leaf.

    ``found`` are the leaves in the order of their nodes in the tree, as ``segments``
    number them.
    """

    tree: GrownTree
    output: int
    found: IntArray

    def values(self) -> FloatArray:
        """Values of the leaves, a row for each output that they are added to."""
        leaves, vectors = self.tree.left == 0, self.tree.vectors
        if vectors is None:
            return self.tree.value[None, leaves]
        return np.ascontiguousarray(vectors[leaves].T)


Change: TypeAlias = Base | Walk | Leaves


def rows_of_nodes(
    chunk: Chunk, segments: np.ndarray, nodes: IntArray, n_pieces: int
) -> tuple[RowArray, IntArray]:
    """Places of the rows of some nodes in a chunk, node by node, and where those of each start.

    ``segments`` are those of all chunks.  The second is int64 (len(nodes) + 1,).
    """
    first = chunk.number * n_pieces
    own = segments[nodes, first : first + n_pieces]
    starts = np.concatenate(([0], np.cumsum(own[:, :, 1].sum(axis=1)))).astype(np.int64)
    ids = chunk.work.rows
    parts = [ids[start : start + count] for start, count in own.reshape(-1, 2)]
    return np.concatenate([ids[:0], *parts]), starts


def rows_outside(chunk: Chunk, segments: np.ndarray, n_pieces: int) -> RowArray:
    """Places of the rows that are in no node; ``segments`` are those of all chunks."""
    first = chunk.number * n_pieces
    n_inside = int(segments[0, first : first + n_pieces, 1].sum())
    return chunk.work.rows[n_inside : chunk.n_rows]


def apply_change(
    change: Change, chunk: Chunk, segments: np.ndarray, n_threads: int, lead: Lead
) -> None:
    """Change the raw scores of a chunk, which the pass that is ``lead`` is at."""
    raw = chunk.work.raw
    if isinstance(change, Base):
        raw[:] = change.scores[:, None]
        if chunk.offset is not None:
            raw += chunk.offset
        return
    rows = chunk.matrix, chunk.numbers
    if isinstance(change, Walk):
        add_tree(change.tree, rows, NO_ROWS, raw, change.output, n_threads)
        return
    lead(ADD_VALUES)
    outside = rows_outside(chunk, segments, n_threads)
    if len(outside) > 0:
        add_tree(change.tree, rows, outside, raw, change.output, n_threads)


def columns_read(changes: list[Change]) -> list[int]:
    """The columns whose numbers the changes read."""
    return columns_of_lines(change.tree for change in changes if not isinstance(change, Base))


def added_of(changes: list[Change]) -> Leaves | None:
    """The change by leaves, if there is one: there is one at most, of the last tree."""
    found = [change for change in changes if isinstance(change, Leaves)]
    return found[-1] if found else None
