"""Tables of a forest for the prediction engines, and the estimated cost of each engine.

Tables are built on first use; :mod:`hedgerow.kernels.prediction.predict` describes the engines.

Symmetric trees, which have one split per level, have an engine of their own
(:mod:`hedgerow.kernels.prediction.levels`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, FloatArray, IntArray, distinct
from hedgerow.compile import lanes_of_code
from hedgerow.kernels.prediction.levels import FUSED
from hedgerow.kernels.prediction.table_keys import NO_RANKS, Ranks
from hedgerow.model import layout
from hedgerow.model.forest import Forest
from hedgerow.model.layout import Splits, equal_rows, holds_numbers
from hedgerow.once import once

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
    """Find the splits of the levels; None if trees are not symmetric, or too deep."""
    # A node without rows on one side has no split in trees of Hedgerow: its only child takes its
    # place. So the splits of a path are some of the splits of the levels, in their order.
    largest = int(np.argmax(np.diff(forest.tree_start)))
    # Rounds of the members of a blend alternate.
    some = {largest, *np.linspace(0, forest.n_trees - 1, 16, dtype=np.int64).tolist()}
    n_splits = 0  # the most different splits of a tree
    for tree in some:
        nodes = np.arange(forest.tree_start[tree], forest.tree_start[tree + 1])
        own = nodes[forest.feature[nodes] >= 0].tolist()
        different = {(splits.slot[node], splits.threshold[node]) for node in own}
        n_splits = max(n_splits, len(different))
    if len(splits.levels) > MOST_LEVELS or n_splits > MOST_LEVELS:
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


def _ranks(n_splits: int, split: IntArray, inner: IntArray, splits: Splits) -> IntArray | None:
    """Return a rank for each split that is above the ranks of all splits above it."""
    # None if there is no such rank, because a path has two splits in the reverse order of another.
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


RANK_GAIN = {8: 0.03, 4: 0.09}
"""Nanoseconds saved by a 32-bit instead of a 64-bit comparison, by SIMD lanes of 64 bits.

60,000 float64 rows of 28 columns, 300 trees of 127 leaves: 2.7 -> 1.9 us a row with AVX-512,
4.9 -> 2.2 with AVX2; 100 trees of 31 leaves 0.30 -> 0.29 and 0.56 -> 0.32 (AMD EPYC).
"""


SPLIT_COST = {8: 1 / 60, 4: 1 / 30}
"""Nanoseconds per row and split of the mask engine, by SIMD lanes of 64 bits.

With AVX2, 60 trees and 1,000 rows of 20 columns, a row takes 0.47 us in the walk and 0.21 us in the
mask engine with 31 leaves, 0.70 and 0.73 with 127, 0.95 and 1.28 with 255, 2.4 and 10.7 with 1,023.
"""


TABLE_COST = 400.0
"""Nanoseconds per node to build the tables of an engine other than the walk.

Default models of seven tables of 150 to 4,000 rows: 290 to 900.  The walk of a row takes 0.2 to 0.4
per node, the other engines a sixth of that, so the tables pay after 1,000 to 3,000 rows."""


class EngineTables:
    """Tables of a forest for the engines; ``32`` and ``64`` are the widths of the keys."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._walked = 0.0  # nanoseconds; threads may miss what others add

    def pay(self, n_rows: float) -> bool:
        """Return whether the tables of faster engines pay for the rows of all calls so far."""
        # Rows are walked until then, so this takes at most twice as long as the better choice.
        self._walked += n_rows * self.walk_cost
        return self._walked >= TABLE_COST * len(self._forest.feature)

    @once
    def splits(self) -> layout.Splits:
        return layout.find_splits(self._forest)

    @once
    def walk_cost(self) -> float:
        """Estimated nanoseconds per row of the walk."""
        n_trees = self._forest.n_trees
        return float(0.6 * layout.depths(self.splits, n_trees).sum() + 1.0 * n_trees)

    @once
    def mask_cost(self) -> float:
        """Estimated nanoseconds per row of the mask engine."""
        tables, _ = self._mask_tables
        splits = SPLIT_COST[lanes_of_code()] * len(tables.slot)
        return float(splits + 0.4 * self._forest.n_trees + 1.0 * tables.hops.sum())

    @once
    def rank_costs(self) -> tuple[float, float]:
        """Estimated nanoseconds per row to compute ranks, and saved in comparisons."""
        steps = np.log2(np.diff(self.mask_ranks[1].start).astype(np.float64) + 1.0)
        gain = RANK_GAIN[lanes_of_code()] * len(self._mask_tables[0].slot)
        return float((0.7 + 0.3 * steps).sum()), gain

    # Kernels take plain tuples: a named tuple costs a microsecond per call.

    @once
    def walk32(self) -> tuple[AnyArray, ...]:
        narrow = layout.narrow_thresholds(self.splits.threshold)
        return tuple(layout.walk_tables(self._forest, self.splits, narrow))

    @once
    def walk64(self) -> tuple[AnyArray, ...]:
        return tuple(layout.walk_tables(self._forest, self.splits, self.splits.threshold))

    @once
    def levels32(self) -> LevelTables | None:
        threshold = layout.narrow_thresholds(self.splits.threshold)
        return level_tables(self._forest, self.splits, threshold)

    @once
    def levels64(self) -> LevelTables | None:
        return level_tables(self._forest, self.splits, self.splits.threshold)

    @once
    def _mask_tables(self) -> tuple[layout.MaskTables, IntArray]:
        return layout.mask_tables(self._forest, self.splits)

    def masks(self, narrow: bool, share: float) -> tuple[tuple[Any, ...], Ranks | None]:
        """Return the tables of the mask engine, with ranks if they pay for this many trees."""
        if narrow:
            return self.mask32
        cost, gain = self.rank_costs
        return self.mask_ranks if cost < share * gain else (tuple(self._mask_tables[0]), None)

    @once
    def mask32(self) -> tuple[tuple[Any, ...], Ranks]:
        narrow = layout.narrow_thresholds(self.splits.threshold)
        return tuple(layout.with_thresholds(*self._mask_tables, narrow)), NO_RANKS

    @once
    def mask_ranks(self) -> tuple[tuple[Any, ...], Ranks]:
        threshold, ranks = layout.rank_thresholds(self._forest, self.splits)
        return tuple(layout.with_thresholds(*self._mask_tables, threshold)), ranks
