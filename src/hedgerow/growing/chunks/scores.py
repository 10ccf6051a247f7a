"""Raw scores of rows in chunks: what is to be added to them when a chunk is next seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.data.external.row_store import Chunk, Uses
from hedgerow.growing.chunks.segments import rows_outside
from hedgerow.growing.chunks.stages.passes import ADD_VALUES
from hedgerow.growing.chunks.stages.team import Lead
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


def uses_of_gradients(
    changes: list[Change], chooses_rows: bool, packed_words: int, probability: str
) -> Uses:
    """Return what the pass for gradients reads and writes.

    ``chooses_rows``: the pass also packs the rows of the tree.  ``probability`` of the classes is
    ``"read"``, ``"written"`` or ``""``.
    """
    reads, writes = {"raw"}, {"quantized"}
    if chooses_rows:
        writes |= {"packed", "rows"}
    if changes and isinstance(changes[0], Base):
        reads.remove("raw")
    if any(isinstance(change, Leaves) for change in changes):
        reads.add("rows")
    if changes:
        writes.add("raw")
    if probability:
        (writes if probability == "written" else reads).add("probability")
    return Uses(True, (), reads, writes, packed_words, columns_read(changes))
