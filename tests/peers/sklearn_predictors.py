"""Trees of a model as scikit-learn's histogram gradient boosting shows them."""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.model.forest import Forest
from hedgerow.model.model import Model

_NODE = np.dtype([
    ("value", "f8"), ("count", "u4"), ("feature_idx", "i8"), ("num_threshold", "f8"),
    ("missing_go_to_left", "u1"), ("left", "u4"), ("right", "u4"), ("gain", "f8"),
    ("depth", "u4"), ("is_leaf", "u1"),
])  # fmt: skip


class TreePredictor:
    """One tree: ``nodes``, and what is asked of it."""

    def __init__(self, nodes: Any) -> None:
        self.nodes = nodes

    def get_max_depth(self) -> int:
        return int(self.nodes["depth"].max())

    def get_n_leaf_nodes(self) -> int:
        return int(self.nodes["is_leaf"].sum())


def predictors_of(model: Model) -> list[list[TreePredictor]]:
    """Return the trees of each round, a tree for each output."""
    forest = model.forest
    each = forest.trees_per_round
    trees = [TreePredictor(_nodes(forest, tree)) for tree in range(forest.n_trees)]
    return [trees[first : first + each] for first in range(0, len(trees), each)]


def _nodes(forest: Forest, tree: int) -> Any:
    begin, end = forest.tree_start[tree], forest.tree_start[tree + 1]
    place = slice(begin, end)
    nodes = np.zeros(end - begin, _NODE)
    leaf = forest.feature[place] < 0
    nodes["is_leaf"] = leaf
    nodes["value"] = forest.value[place]
    nodes["count"] = forest.count[place]
    nodes["feature_idx"] = np.where(leaf, 0, forest.feature[place])
    nodes["missing_go_to_left"] = forest.missing_left[place]
    nodes["gain"] = np.where(leaf, -1.0, forest.gain[place])
    for side in ("left", "right"):
        nodes[side] = np.where(leaf, 0, getattr(forest, side)[place])
    for node in np.flatnonzero(~leaf):  # parents stand before their children
        for side in ("left", "right"):
            nodes["depth"][nodes[side][node]] = nodes["depth"][node] + 1
    return nodes
