"""Tables of symmetric trees for :mod:`hedgerow.kernels.prediction.levels`.

A symmetric tree has one split per level.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, FloatArray, IntArray, distinct
from hedgerow.kernels.prediction.levels import FUSED
from hedgerow.model.forest import Forest
from hedgerow.model.layout import Splits, equal_rows, holds_numbers

MOST_LEVELS = 9
"""Deeper trees use the other engines, because their tables would not stay in the cache."""

_LARGEST_TABLE = 4
"""Most codes per leaf of the forest.  Default trees of squared error, of seven levels, have 2 to
3.  Small trees without levels, of 8 leaves and 7 splits, have 16: up to 32 leaves are one part of
the mask engine, which is as fast."""


class LevelTables(NamedTuple):
    """Tables of the engine for symmetric trees."""

    slots: IntArray  # int64, one per slot
    slot: npt.NDArray[np.uint64]  # uint64, one per level of each tree; slot of the split
    # int32 or int64, one per level of each tree; threshold of the split.  Each tree is padded at
    # the root to a multiple of ``FUSED`` levels, with splits that send every key left
    threshold: AnyArray
    # uint64, one per tree and one more; first level of each tree
    level_start: npt.NDArray[np.uint64]
    # float64; leaf value of each code of each tree; empty if leaves hold vectors or lines
    value: FloatArray
    # int64; node of each code of each tree if leaves hold vectors or lines, otherwise empty
    node: IntArray
    table_start: npt.NDArray[np.uint64]  # uint64, one per tree; first code of each tree


class _Levels(NamedTuple):
    """The splits of the levels of all trees."""

    # int64, one per node; number of the node's split among the splits of all trees; -1: the node is
    # a leaf
    split: IntArray
    leader: IntArray  # int64, one per split; a node with this split
    depth: IntArray  # int64, one per tree; number of levels
    # int64, one per split; the splits of the levels, from the root down, tree after tree
    order: IntArray


def level_tables(forest: Forest, splits: Splits, threshold: AnyArray) -> LevelTables | None:
    """Build the tables of the engine; None if a tree is not symmetric."""
    levels = _levels(forest, splits, threshold) if forest.n_trees else None
    if levels is None:
        return None
    depth = levels.depth
    padded = -(-depth // FUSED) * FUSED
    level_start = np.concatenate([[0], np.cumsum(padded)])
    slot = np.zeros(level_start[-1], dtype=np.uint64)
    found = np.full(level_start[-1], np.iinfo(threshold.dtype).max, dtype=threshold.dtype)
    leader = levels.leader[levels.order]
    before = np.cumsum(depth) - depth
    tree = splits.tree[leader]
    place = level_start[1:][tree] - depth[tree] + np.arange(len(leader)) - before[tree]
    slot[place], found[place] = splits.slot[leader], threshold[leader]
    table_start = np.concatenate([[0], np.cumsum(1 << depth)])
    node = _nodes(forest, splits, levels, table_start)
    numbers = holds_numbers(forest)
    return LevelTables(
        splits.slots,
        slot,
        found,
        level_start.astype(np.uint64),
        np.array(forest.value[node] if numbers else (), dtype=np.float64),
        node[: 0 if numbers else len(node)],
        table_start[:-1].astype(np.uint64),
    )


def _levels(forest: Forest, splits: Splits, threshold: AnyArray) -> _Levels | None:
    """Find the splits of the levels; None if trees are not symmetric, or too deep.

    A node without rows on one side has no split in trees of Hedgerow: its only child takes its
    place.  So the splits of a path are some of the splits of the levels, in their order.
    """
    largest = int(np.argmax(np.diff(forest.tree_start)))
    if len(splits.levels) > MOST_LEVELS or _n_splits(forest, splits, largest) > MOST_LEVELS:
        return None  # most forests of other trees, without a look at all nodes
    inner = np.flatnonzero(forest.feature >= 0)
    order, fresh = equal_rows(splits.tree[inner], splits.slot[inner], threshold[inner])
    split = np.full(len(splits.tree), -1, dtype=np.int64)
    split[inner[order]] = np.cumsum(fresh) - 1
    leader = inner[order][fresh]
    depth = np.bincount(splits.tree[leader], minlength=forest.n_trees)
    n_leaves = len(splits.tree) - len(inner)
    if depth.max() > MOST_LEVELS or (1 << depth).sum() > _LARGEST_TABLE * n_leaves:
        return None
    rank = _ranks(len(leader), split, inner, splits)
    if rank is None:
        return None
    return _Levels(split, leader, depth, np.lexsort((rank, splits.tree[leader])))


def _n_splits(forest: Forest, splits: Splits, tree: int) -> int:
    """Return the number of distinct splits of a tree."""
    nodes = np.arange(forest.tree_start[tree], forest.tree_start[tree + 1])
    inner = nodes[forest.feature[nodes] >= 0].tolist()
    return len({(splits.slot[node], splits.threshold[node]) for node in inner})


def _ranks(n_splits: int, split: IntArray, inner: IntArray, splits: Splits) -> IntArray | None:
    """Return a rank for each split that is above the ranks of all splits above it.

    None if there is no such rank, because a path has two splits in the reverse order of another.
    """
    above = np.concatenate([split[inner], split[inner]])
    below = np.concatenate([split[splits.left[inner]], split[splits.right[inner]]])
    pairs = distinct((above * n_splits + below)[below >= 0])
    above, below = pairs // max(1, n_splits), pairs % max(1, n_splits)
    rank = np.zeros(n_splits, dtype=np.int64)
    for _ in range(MOST_LEVELS):
        too_low = rank[below] <= rank[above]
        if not too_low.any():
            return rank
        np.maximum.at(rank, below[too_low], rank[above[too_low]] + 1)
    return None


def _nodes(forest: Forest, splits: Splits, levels: _Levels, table_start: IntArray) -> IntArray:
    """Return the node of each code of each tree; codes below a shallow leaf share it."""
    depth = levels.depth
    tree = np.repeat(np.arange(forest.n_trees), 1 << depth)
    code = np.arange(table_start[-1]) - table_start[tree]
    node = forest.tree_start[tree].astype(np.int64)
    first = (np.cumsum(depth) - depth)[tree]
    for above in range(int(depth.max(initial=0))):
        has_level = np.flatnonzero(above < depth[tree])
        splits_here = levels.split[node[has_level]] == levels.order[first[has_level] + above]
        at = has_level[splits_here]
        bit = (code[at] >> (depth[tree[at]] - 1 - above)) & 1
        node[at] = np.where(bit == 1, splits.right[node[at]], splits.left[node[at]])
    return node
