"""The node numbers of all trees of a LightGBM model."""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.convert.readers.lightgbm_text import joined, read_floats, read_int, read_ints
from hedgerow.errors import ModelFormatError

CATEGORICAL, DEFAULT_LEFT = 1, 2
"""Bits of ``decision_type``."""

_MOST_LEAVES = 2**24


class Nodes:
    """The node numbers of all trees: inner nodes, then leaves, tree after tree.

    Parameters
    ----------
    trees : list of dict
        Entries of each tree as text.
    """

    def __init__(self, trees: list[dict[str, str]]) -> None:
        self.trees = trees
        self.n_leaves = np.array(
            [
                read_int(tree.get("num_leaves", ""), f"tree {t}: num_leaves", 1, _MOST_LEAVES)
                for t, tree in enumerate(trees)
            ],
            dtype=np.int64,
        )
        self.n_cat = np.array(
            [
                read_int(tree.get("num_cat", "0"), f"tree {t}: num_cat", 0, _MOST_LEAVES)
                for t, tree in enumerate(trees)
            ],
            dtype=np.int64,
        )
        inner, n_nodes = self.n_leaves - 1, 2 * self.n_leaves - 1
        self.start = np.concatenate(([0], np.cumsum(n_nodes))).astype(np.int64)
        self.value = self.floats("leaf_value", self.n_leaves)
        tree = np.repeat(np.arange(len(trees)), n_nodes)
        rank = np.arange(len(tree)) - self.start[tree]
        self.inner = np.flatnonzero(rank < inner[tree])
        self.leaf = np.flatnonzero(rank >= inner[tree])
        self.tree_of_inner = tree[self.inner]
        self.feature = self.ints("split_feature", inner)
        self.decision = self.ints("decision_type", inner)
        self.threshold = self.floats("threshold", inner)
        if ((self.feature < 0) | (self.decision < 0) | (self.decision > 15)).any():
            raise ModelFormatError("split_feature or decision_type is outside its range.")
        self.is_set = (self.decision & CATEGORICAL) > 0

    def floats(self, name: str, counts: IntArray, default: float | None = None) -> FloatArray:
        """Return an entry of all trees; the default if all trees lack it."""
        if default is not None and not any(name in tree for tree in self.trees):
            return np.full(int(counts.sum()), default)
        return read_floats(joined([tree.get(name, "") for tree in self.trees], counts, name), name)

    def ints(self, name: str, counts: IntArray, default: int | None = None) -> IntArray:
        """Return an entry of all trees as whole numbers; see :meth:`floats`."""
        if default is not None and not any(name in tree for tree in self.trees):
            return np.full(int(counts.sum()), default, dtype=np.int64)
        return read_ints(joined([tree.get(name, "") for tree in self.trees], counts, name), name)
