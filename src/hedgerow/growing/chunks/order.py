r"""In which order nodes are split, when many are split at once.

A node's best split depends on its path and not on splits elsewhere.  So all
nodes that may still be taken are split in one pass over the rows, and which of these
splits are in the tree is found out afterwards, by going through them in the order in
which growth in memory takes them (:func:`hedgerow.growing.core.stages.frontier.next_node`)::

    known     root          3.0       gain of a node whose split is known
             /    \
           2.0    1.5                 a tree of 4 leaves takes root, 2.0, and then 1.5 or
          /  \    /  \                0.9: both are split in the pass before, one of them
        0.9  0.2 1.0  -               perhaps in vain

    taken    root, 2.0, 1.5           numbers 0; 1, 2; 3, 4; 5, 6

Glossary
--------
found   number of a node in the order in which splits were looked for
number  number of a node in the tree
guess   children whose gains are not known yet, taken for a share of their parent's
"""

from __future__ import annotations

import heapq

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.growing.core import state as s

_GUESS = -1
_FIELDS = [s.NODE_OPEN, s.NODE_LEFT, s.NODE_RIGHT, s.NODE_DEPTH]

_Entry = tuple[int, float, int, int]
"""Level, minus the gain, number, found number."""


class Order:
    """The frontier of the tree, and which nodes are worth a look.

    arrays       Tree: table and numbers of nodes as they are found
    max_leaves   int
    depthwise    bool
    child_share  float: gain of a child, in gains of its parent, as long as it is not known.  0
                 splits every node that may be taken; the more, the fewer nodes are split in vain
                 and the more passes there are.
    """

    def __init__(
        self, arrays: s.Tree, max_leaves: int, depthwise: bool, child_share: float
    ) -> None:
        self._arrays = arrays
        self._max_leaves, self._depthwise = max_leaves, depthwise
        self._child_share = child_share
        root_gain, is_open = float(arrays.numbers[0, s.NUMBER_GAIN]), arrays.table[0, s.NODE_OPEN]
        self._heap: list[_Entry] = [(0, -root_gain, 0, 0)] if is_open else []
        self._found: list[int] = [0]
        self._left: list[int] = [0]
        self.n_leaves = 1

    def advance(self, n_nodes: int) -> None:
        """Take splits of searched nodes, as long as the order is certain."""
        # Lists, because Python reads single numbers of arrays slowly.
        self._gains: list[float] = self._arrays.numbers[:n_nodes, s.NUMBER_GAIN].tolist()
        self._nodes: list[list[int]] = self._arrays.table[:n_nodes, _FIELDS].tolist()
        while self._heap and self.n_leaves < self._max_leaves:
            _, left, right, _ = self._nodes[self._heap[0][-1]]
            if left == 0:
                return
            *_, number, _ = heapq.heappop(self._heap)
            self._left[number] = len(self._found)
            for child in (left, right):
                self._push(self._heap, child, len(self._found))
                self._found.append(child)
                self._left.append(0)
            self.n_leaves += 1

    def wanted(self, most: int) -> tuple[list[int], bool]:
        """Up to ``most`` nodes to split next, those that come first in front."""
        heap = self._heap.copy()
        nodes: list[int] = []
        n_leaves = n_sure = self.n_leaves
        n_known, number, left = len(heap), len(self._found), 0
        while n_known > 0 and n_leaves < self._max_leaves and len(nodes) < most:
            entry = heapq.heappop(heap)
            n_leaves += 1
            node = entry[-1]
            if node == _GUESS:
                self._push_guesses(heap, entry)
                continue
            n_known -= 1
            n_sure += 1
            _, left, right, _ = self._nodes[node]
            if left == 0:
                nodes.append(node)
                self._push_guesses(heap, entry)
                continue
            for child in (left, right):
                n_known += self._push(heap, child, number)
                number += 1
        return nodes, n_sure >= self._max_leaves and bool(nodes) and left == 0

    def nodes(self) -> tuple[IntArray, IntArray]:
        """Return each tree node's found number, and that of its left child, or 0."""
        return np.array(self._found, dtype=np.int64), np.array(self._left, dtype=np.int64)

    def _push(self, heap: list[_Entry], node: int, number: int) -> int:
        """Add a node if it can be split; 1 if so."""
        is_open, left, _, depth = self._nodes[node]
        if is_open == 0 and left == 0:
            return 0
        heapq.heappush(heap, (depth if self._depthwise else 0, -self._gains[node], number, node))
        return 1

    def _push_guesses(self, heap: list[_Entry], parent: _Entry) -> None:
        if self._child_share <= 0.0:
            return
        level, minus_gain, number, _ = parent
        guess = (level + self._depthwise, self._child_share * minus_gain, number, _GUESS)
        heapq.heappush(heap, guess)
        heapq.heappush(heap, guess)
