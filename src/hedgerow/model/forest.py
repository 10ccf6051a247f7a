"""All trees of a model in flat arrays.

Glossary
--------
node       position in the flat arrays; nodes of tree t are
           ``tree_start[t] : tree_start[t + 1]``, its root first, and the
           children of a node always stand after it
leaf       node with ``feature == -1``
threshold  64-bit key (:mod:`hedgerow.kernels.keys`): a row goes left if the
           key of its value is ``<= threshold``; a missing value goes left if
           ``missing_left``
output     raw score that a tree adds to: tree t belongs to output
           ``t % n_outputs``

::

    tree_start  0                 5           8
    feature     2  0 -1 -1 -1     7 -1 -1
    left        1  3  0  0  0     1  0  0      relative to the tree's root
    right       2  4  0  0  0     2  0  0
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Trees and base score; immutable.

    Attributes
    ----------
    feature : int32, one per node
        Column of the split; -1 in a leaf.
    threshold : int64
        Largest key that goes left; 0 in a leaf.
    missing_left : uint8
        1 if a missing value goes left; 0 in a leaf.
    left, right : int32
        Children, counted from the root of their tree; 0 in a leaf.
    value : float64
        What the node adds to the raw score (learning rate included) if the
        walk ends there.  Inner nodes carry the value that they had as leaves.
    gain : float64
        Loss reduction of the split; 0 in a leaf.
    cover : float64
        Sum of hessians of the training rows that reached the node.
    count : int64
        Number of training rows that reached the node.
    tree_start : int64, one per tree and one more
        First node of each tree.
    base_score : float64, one per output
        Raw score before the first tree.
    n_features : int
    """

    feature: npt.NDArray[np.int32]
    threshold: IntArray
    missing_left: npt.NDArray[np.uint8]
    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]
    value: FloatArray
    gain: FloatArray
    cover: FloatArray
    count: IntArray
    tree_start: IntArray
    base_score: FloatArray
    n_features: int

    @property
    def n_trees(self) -> int:
        return len(self.tree_start) - 1

    @property
    def n_outputs(self) -> int:
        return len(self.base_score)

    @property
    def n_rounds(self) -> int:
        """Boosting rounds: one tree per output each."""
        return self.n_trees // self.n_outputs

    def first_rounds(self, n_rounds: int) -> Forest:
        """The forest as it was after ``n_rounds`` rounds."""
        n_trees = min(n_rounds * self.n_outputs, self.n_trees)
        end = self.tree_start[n_trees]
        return Forest(
            **{name: getattr(self, name)[:end] for name in NODE_FIELDS},
            tree_start=self.tree_start[: n_trees + 1],
            base_score=self.base_score,
            n_features=self.n_features,
        )

    def tree(self, index: int) -> Forest:
        """One tree as a forest of its own, with base score 0 and one output."""
        start, end = self.tree_start[index], self.tree_start[index + 1]
        return Forest(
            **{name: getattr(self, name)[start:end] for name in NODE_FIELDS},
            tree_start=np.array([0, end - start], dtype=np.int64),
            base_score=np.zeros(1),
            n_features=self.n_features,
        )


NODE_FIELDS: tuple[str, ...] = tuple(
    field.name
    for field in fields(Forest)
    if field.name not in ("tree_start", "base_score", "n_features")
)
"""Names of the arrays that have one entry per node."""
