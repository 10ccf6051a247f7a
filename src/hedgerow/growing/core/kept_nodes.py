"""Nodes of grown trees, kept one tree behind the other in a few large arrays.

The grower's table is that of its next tree, so what a tree is made of is copied out of it.  Trees
of the folds of a small table have a dozen nodes each, and there are tens of thousands of them:
arrays of their own took longer to make than half of the trees to grow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core import state as s

_SPLIT_FIELDS = s.NODE_RIGHT + 1 - s.NODE_FEATURE
_BLOCK_NODES = 1024
"""Nodes of a block, unless a tree has more: 90 kilobytes."""


class Nodes(NamedTuple):
    """Nodes of a tree, or of several one behind the other, as the grower's table has them.

    splits   int32 (6, n_nodes): feature, bin, missing_left, column, left, right
    sets     uint64 (n_nodes, 4): bins that go left
    count    int64 (n_nodes,)
    numbers  float64 (NUMBERS, n_nodes)

    Leaves (left is 0) may hold the split that was found for them.
    """

    splits: npt.NDArray[np.int32]
    sets: npt.NDArray[np.uint64]
    count: IntArray
    numbers: FloatArray

    def part(self, first: int, stop: int) -> Nodes:
        """Return views of the nodes ``first .. stop``."""
        return Nodes(
            self.splits[:, first:stop],
            self.sets[first:stop],
            self.count[first:stop],
            self.numbers[:, first:stop],
        )


@kernel
def copy_nodes(table: IntArray, numbers: FloatArray, n_nodes: int, kept: Nodes, first: int) -> None:
    """Copy the nodes of a tree from the grower's table to places ``first`` on of ``kept``."""
    for node in range(np.uint64(n_nodes)):
        at = np.uint64(first) + node
        for k in range(np.uint64(_SPLIT_FIELDS)):
            kept.splits[k, at] = table[node, np.uint64(s.NODE_FEATURE) + k]
        for k in range(np.uint64(s.SET_WORDS)):
            kept.sets[at, k] = np.uint64(table[node, np.uint64(s.NODE_SET) + k])
        kept.count[at] = table[node, s.NODE_COUNT]
        for k in range(np.uint64(s.NUMBERS)):
            kept.numbers[k, at] = numbers[node, k]


class NodeStore:
    """Takes up the nodes of one tree after the other."""

    def __init__(self) -> None:
        self._block, self._n_used = empty_block(0), 0

    def keep(self, table: IntArray, numbers: FloatArray, n_nodes: int) -> tuple[Nodes, int]:
        """Copy the nodes of a tree; return the block that holds them, and the first place."""
        first = self._n_used
        if first + n_nodes > len(self._block.count):
            self._block, first = empty_block(max(n_nodes, _BLOCK_NODES)), 0
        copy_nodes(table, numbers, n_nodes, self._block, first)
        self._n_used = first + n_nodes
        return self._block, first


def empty_block(n_nodes: int) -> Nodes:
    """Return space for nodes."""
    return Nodes(
        np.empty((_SPLIT_FIELDS, n_nodes), dtype=np.int32),
        np.empty((n_nodes, s.SET_WORDS), dtype=np.uint64),
        np.empty(n_nodes, dtype=np.int64),
        np.empty((s.NUMBERS, n_nodes)),
    )
