"""Tables of symmetric trees for :mod:`hedgerow.kernels.prediction.levels`.

A symmetric tree has the same split in all nodes of a level.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.kernels.prediction.levels import FUSED
from hedgerow.model.forest import Forest
from hedgerow.model.layout import Splits

MOST_LEVELS = 9
"""Deeper trees use the other engines, because their tables would not stay in the cache."""


class LevelTables(NamedTuple):
    """Tables of the engine for symmetric trees.

    Attributes
    ----------
    slots : int64, one per slot
    slot : uint64, one per level of each tree
        Slot of the split.
    threshold : int32 or int64, one per level of each tree
        Threshold of the split.  Each tree is padded at the root to a multiple of ``FUSED``
        levels, with splits that send every key left.
    level_start : uint64, one per tree and one more
        First level of each tree.
    value : float64
        Leaf value of each code of each tree.
    value_start : uint64, one per tree
        First value of each tree.
    """

    slots: IntArray
    slot: npt.NDArray[np.uint64]
    threshold: AnyArray
    level_start: npt.NDArray[np.uint64]
    value: FloatArray
    value_start: npt.NDArray[np.uint64]


def level_tables(forest: Forest, splits: Splits, threshold: AnyArray) -> LevelTables | None:
    """Build the tables of the engine; None if a tree is not symmetric.

    Parameters
    ----------
    forest : Forest
    splits : Splits
    threshold : int32 or int64, one per node
        Thresholds in the width of the keys.
    """
    if forest.vectors is not None or forest.slopes is not None or not forest.n_trees:
        return None
    n_trees, n_levels = forest.n_trees, len(splits.levels)
    if n_levels > MOST_LEVELS or not _is_symmetric(splits):
        return None
    depth = np.zeros(n_trees, dtype=np.int64)
    for above, level in enumerate(splits.levels):
        depth[splits.tree[level]] = above + 1
    padded = -(-depth // FUSED) * FUSED
    level_start = np.concatenate([[0], np.cumsum(padded)])
    slot = np.zeros(level_start[-1], dtype=np.uint64)
    found = np.full(level_start[-1], np.iinfo(threshold.dtype).max, dtype=threshold.dtype)
    for above, level in enumerate(splits.levels):
        tree = splits.tree[level]
        place = level_start[tree] + padded[tree] - depth[tree] + above
        slot[place] = splits.slot[level]
        found[place] = threshold[level]
    value_start = np.concatenate([[0], np.cumsum(1 << depth)])
    return LevelTables(
        splits.slots,
        slot,
        found,
        level_start.astype(np.uint64),
        _values(forest, splits, depth, value_start),
        value_start[:-1].astype(np.uint64),
    )


def _is_symmetric(splits: Splits) -> bool:
    """Return whether all nodes at the same depth of a tree have the same split."""
    for level in splits.levels:
        _, first, same = np.unique(splits.tree[level], return_index=True, return_inverse=True)
        leader = level[first][same]
        if (splits.slot[level] != splits.slot[leader]).any():
            return False
        if (splits.threshold[level] != splits.threshold[leader]).any():
            return False
    return True


def _values(forest: Forest, splits: Splits, depth: IntArray, value_start: IntArray) -> FloatArray:
    """Return the value of each code of each tree; codes below a shallow leaf share its value."""
    tree = np.repeat(np.arange(forest.n_trees), 1 << depth)
    code = np.arange(value_start[-1]) - value_start[tree]
    node = forest.tree_start[tree].astype(np.int64)
    for above in range(int(depth.max(initial=0))):
        has_level = above < depth[tree]
        bit = (code >> np.maximum(depth[tree] - 1 - above, 0)) & 1
        below = np.where(bit == 1, splits.right[node], splits.left[node])
        node = np.where(has_level, below, node)
    return np.asarray(forest.value[node], dtype=np.float64)
