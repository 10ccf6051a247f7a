"""Forests whose trees ask one question a level, arranged for :mod:`hedgerow.kernels.levels`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.kernels.levels import FUSED
from hedgerow.model.forest import Forest
from hedgerow.model.layout import Splits

MOST_LEVELS = 9
"""Trees of more levels are left to the other engines: their tables would not stay in the cache."""


class LevelTables(NamedTuple):
    """What the engine reads.

    Attributes
    ----------
    slots : int64, one per slot
    slot : uint64, one per level of each tree
    threshold : int32 or int64, one per level
        Trees stand one behind the other, each padded to a multiple of ``FUSED`` levels, at
        the root, by questions that no key answers by yes.
    level_start : uint64, one per tree and one more
    value : float64
        Of each code of each tree.
    value_start : uint64, one per tree
    """

    slots: IntArray
    slot: npt.NDArray[np.uint64]
    threshold: AnyArray
    level_start: npt.NDArray[np.uint64]
    value: FloatArray
    value_start: npt.NDArray[np.uint64]


def level_tables(forest: Forest, splits: Splits, threshold: AnyArray) -> LevelTables | None:
    """Tables of the engine; None if a tree asks more than one question on a level.

    Parameters
    ----------
    forest : Forest
    splits : Splits
    threshold : int32 or int64, one per node
        In the width of the keys.
    """
    if forest.vectors is not None or forest.slopes is not None or not forest.n_trees:
        return None
    n_trees, n_levels = forest.n_trees, len(splits.levels)
    if n_levels > MOST_LEVELS or not _one_question(splits):
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


def _one_question(splits: Splits) -> bool:
    """Whether all nodes of a tree at one depth ask the same."""
    for level in splits.levels:
        _, first, same = np.unique(splits.tree[level], return_index=True, return_inverse=True)
        leader = level[first][same]
        if (splits.slot[level] != splits.slot[leader]).any():
            return False
        if (splits.threshold[level] != splits.threshold[leader]).any():
            return False
    return True


def _values(forest: Forest, splits: Splits, depth: IntArray, value_start: IntArray) -> FloatArray:
    """The value of each code of each tree; a leaf above the last level stands at all below it."""
    tree = np.repeat(np.arange(forest.n_trees), 1 << depth)
    code = np.arange(value_start[-1]) - value_start[tree]
    node = forest.tree_start[tree].astype(np.int64)
    for above in range(int(depth.max(initial=0))):
        asked = above < depth[tree]
        bit = (code >> np.maximum(depth[tree] - 1 - above, 0)) & 1
        below = np.where(bit == 1, splits.right[node], splits.left[node])
        node = np.where(asked, below, node)
    return np.asarray(forest.value[node], dtype=np.float64)
