"""Naive prediction: one row, one tree, one node at a time."""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import MISSING_KEY
from hedgerow.kernels.tables.keys import keys_of_floats
from hedgerow.model.forest import Forest


def find_leaf(forest: Forest, tree: int, keys: np.ndarray) -> int:
    """Return the index in its tree of the leaf that a row with these keys reaches."""
    start, node = forest.tree_start[tree], 0
    while forest.feature[start + node] >= 0:
        at = start + node
        key = keys[forest.feature[at]]
        goes_left = forest.missing_left[at] if key == MISSING_KEY else key <= forest.threshold[at]
        node = forest.left[at] if goes_left else forest.right[at]
    return int(node)


def keys_of(values: np.ndarray) -> np.ndarray:
    """Return the 64-bit keys of a table; int64 values are keys already."""
    if values.dtype == np.int64:
        return values
    return keys_of_floats(values.astype(np.float64))


def leaves(forest: Forest, values: np.ndarray) -> np.ndarray:
    """Return the leaf of each row and tree."""
    keys = keys_of(values)
    return np.array(
        [[find_leaf(forest, tree, row) for tree in range(forest.n_trees)] for row in keys],
        dtype=np.int32,
    ).reshape(len(values), forest.n_trees)


def raw_scores(
    forest: Forest, values: np.ndarray, first_tree: int = 0, stop_tree: int | None = None
) -> np.ndarray:
    """Return base score plus the values of the leaves, in tree order."""
    stop_tree = forest.n_trees if stop_tree is None else stop_tree
    ends = leaves(forest, values)
    scores = np.repeat(forest.base_score[:, None], len(values), axis=1)
    for row in range(len(values)):
        for tree in range(first_tree, stop_tree):
            node = forest.tree_start[tree] + ends[row, tree]
            if forest.vectors is None:
                scores[tree % forest.n_outputs, row] += forest.value[node]
            else:
                scores[:, row] += forest.vectors[node]
    return scores
