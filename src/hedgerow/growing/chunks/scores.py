"""Raw scores of rows in chunks: additions that are applied at the next visit of a chunk."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.data.external.row_store import Chunk, Uses
from hedgerow.growing.chunks.segments import rows_outside
from hedgerow.growing.chunks.stages.passes import ADD_VALUES, OUTPUT
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
        """Return leaf values, one row for each output that they are added to."""
        leaves, vectors = self.tree.left == 0, self.tree.vectors
        if vectors is None:
            return self.tree.value[None, leaves]
        return np.ascontiguousarray(vectors[leaves].T)


Change: TypeAlias = Base | Walk | Leaves


@dataclass(slots=True, eq=False)
class PendingChanges:
    """Changes that the raw scores of a chunk lack until it is next visited.

    Attributes
    ----------
    n_threads : int
    is_sampled : bool
        Whether trees grow on some of the rows, so that others have to walk down them.
    changes : list of Change
        In the order in which they are made; at most one is a :class:`Leaves`.
    """

    n_threads: int
    is_sampled: bool
    changes: list[Change] = field(default_factory=list)

    def restart(self, base: FloatArray) -> None:
        """Start from base scores, and drop the changes before."""
        self.changes = [Base(np.array(base, dtype=np.float64))]

    def add(self, tree: GrownTree, output: int) -> None:
        """Add the values of any tree."""
        self.changes.append(Walk(tree, output))

    def add_last(self, tree: GrownTree, output: int, found: IntArray) -> None:
        """Add the values of the last tree; ``found`` are its leaves as of :class:`Leaves`."""
        walks = tree.slopes is not None
        self.changes.append(Walk(tree, output) if walks else Leaves(tree, output, found))

    def clear(self) -> None:
        """Forget the changes, which all chunks have seen."""
        self.changes = []

    def apply(self, chunk: Chunk, segments: np.ndarray, where: IntArray, lead: Lead) -> None:
        """Change the raw scores of the chunk that the pass of ``lead`` is at."""
        for change in self.changes:
            if isinstance(change, Leaves):
                where[OUTPUT] = change.output
            _apply(change, chunk, segments, self.n_threads, lead)

    @property
    def leaves(self) -> Leaves | None:
        """The change by leaves, if there is one: there is one at most, of the last tree."""
        found = [change for change in self.changes if isinstance(change, Leaves)]
        return found[-1] if found else None

    def uses(self) -> Uses:
        """Return what a pass that only changes scores reads and writes."""
        return Uses(
            by_row=any(self._walks(change) for change in self.changes),
            columns=(),
            reads=("raw", "rows"),
            writes=("raw",) if self.changes else (),
            numbers=self._numbers(),
        )

    def uses_of_gradients(self, chooses_rows: bool, packed_words: int, probability: str) -> Uses:
        """Return what the pass for gradients reads and writes.

        ``chooses_rows``: the pass also packs the rows of the tree.  ``probability`` of the classes
        is ``"read"``, ``"written"`` or ``""``.
        """
        reads, writes = {"raw"}, {"quantized"}
        if chooses_rows:
            writes |= {"packed", "rows"}
        if self.changes and isinstance(self.changes[0], Base):
            reads.remove("raw")
        if self.leaves is not None:
            reads.add("rows")
        if self.changes:
            writes.add("raw")
        if probability:
            (writes if probability == "written" else reads).add("probability")
        return Uses(True, (), reads, writes, packed_words, self._numbers())

    def _walks(self, change: Change) -> bool:
        """Return whether a change reads the bins of rows."""
        return isinstance(change, Walk) or (isinstance(change, Leaves) and self.is_sampled)

    def _numbers(self) -> list[int]:
        """Return the columns whose numbers the changes read."""
        changes = self.changes
        return columns_of_lines(change.tree for change in changes if not isinstance(change, Base))


def _apply(change: Change, chunk: Chunk, segments: np.ndarray, n_threads: int, lead: Lead) -> None:
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
