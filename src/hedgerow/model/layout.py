"""Convert a forest to the tables of the prediction kernels, once per model.

:mod:`hedgerow.kernels.prediction.predict` defines slot, part, exit and mask.

The functions process all trees at once, level by level.  A forest of 100 trees of 31 leaves
takes about 2 ms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import (
    MISSING_KEY,
    MISSING_KEY_32,
    AnyArray,
    BinArray,
    BoolArray,
    FloatArray,
    IntArray,
)
from hedgerow.data.binning.cut_sample import codes_of
from hedgerow.kernels.prediction.predict import EXITS, FUSED
from hedgerow.kernels.prediction.table_keys import Ranks
from hedgerow.kernels.tables.keys import float32_threshold_keys
from hedgerow.model.forest import MISSING_BIN, UNKNOWN_BIN, Forest

Uint64Array = npt.NDArray[np.uint64]

_LARGEST = np.iinfo(np.int64).max
_INFINITE_KEY_32 = 0x7F800000
_INFINITE_KEY_64 = 0x7FF0000000000000
_FACTORS = np.cumprod(np.full(4, 0x9E3779B97F4A7C15, dtype=np.uint64))


def _coding(dtype: type[np.int32] | type[np.int64], *rules: int) -> AnyArray:
    info = np.iinfo(dtype)
    return np.array([info.bits - 1, *rules, info.min, info.max], dtype=dtype)


CODINGS = {
    np.dtype(np.float32): _coding(
        np.int32, np.iinfo(np.int32).max, -1, -_INFINITE_KEY_32 - 1, _INFINITE_KEY_32
    ),
    np.dtype(np.float64): _coding(
        np.int64, np.iinfo(np.int64).max, -1, -_INFINITE_KEY_64 - 1, _INFINITE_KEY_64
    ),
    np.dtype(np.int64): _coding(np.int64, 0, 0, MISSING_KEY + 1, _LARGEST),
}
"""Constants of :func:`hedgerow.kernels.prediction.table_keys.fill_keys` for each type of values."""


class Splits(NamedTuple):
    """The splits of a forest, with nodes counted over all trees."""

    tree: IntArray  # int64, one per node; tree of the node
    left: IntArray  # left, right: int64, one per node; children; the node itself in a leaf
    right: IntArray
    threshold: IntArray  # int64, one per node; largest key that goes left
    slot: IntArray  # int64, one per node; slot that the split compares; 0 in a leaf
    # int64, one per slot; ``2 * column``, plus 1 if a missing value is the highest key; ``-1 -
    # number`` for a set of categories
    slots: IntArray
    levels: list[IntArray]  # the inner nodes of each depth, from the roots down


class WalkTables(NamedTuple):
    """Tables of the walk.

    Nodes are renumbered so that siblings are adjacent: the k-th inner node of a tree has
    the children 1 + 2k and 2 + 2k.
    """

    slots: IntArray  # int64, one per slot
    # int64, two per node; threshold, then ``left child << 32 | slot``; in a leaf the largest
    # integer and the leaf itself
    nodes: IntArray
    value: FloatArray  # float64, one per node; empty if leaves hold vectors or lines
    node: IntArray  # int64, one per node; index of the node in the forest
    root: Uint64Array  # root, depth: uint64, one per tree
    depth: Uint64Array


class MaskTables(NamedTuple):
    """Tables of the mask engine."""

    slots: IntArray  # int64, one per slot
    # uint64, one per split; splits are ordered by part; each part is padded with splits that clear
    # nothing
    slot: Uint64Array
    threshold: AnyArray  # int32 or int64, one per split
    # uint32, one per split; zeros at the exits that a row above the threshold cannot take
    clear: npt.NDArray[np.uint32]
    part_start: Uint64Array  # uint64, one per part and one more
    # uint64, one per tree and one more; first part of each tree, the one with its root
    tree_part: Uint64Array
    # uint64, one per tree; largest number of parts that a row enters after the first
    hops: Uint64Array
    value: FloatArray  # float64, 32 per part; value of each exit
    # int64, 32 per part for vector or linear leaves, else empty; index in the forest of the leaf at
    # each exit
    node: IntArray
    # uint32, 32 per part; next part, counted within the tree; the part itself at a leaf
    onward: npt.NDArray[np.uint32]
    most_parts: int  # largest number of parts of a tree


def find_splits(forest: Forest) -> Splits:
    """Return the splits of ``forest`` in the form that the other functions use."""
    # A missing value that goes right has the highest key of its slot, which must be above the
    # threshold. This fails only for the largest integer as threshold, which means "all but missing
    # go left". Such a split is mirrored to "missing goes left, all others right".
    sizes = np.diff(forest.tree_start)
    tree = np.repeat(np.arange(forest.n_trees, dtype=np.int64), sizes)
    base = np.repeat(forest.tree_start[:-1], sizes)
    node = np.arange(len(base))
    inner = forest.feature >= 0
    mirrored = inner & (forest.threshold == _LARGEST) & (forest.missing_left == 0)
    # A child comes after its parent, and a leaf has the child 0.
    left = np.maximum(node, base + np.where(mirrored, forest.right, forest.left))
    right = np.maximum(node, base + np.where(mirrored, forest.left, forest.right))
    threshold = np.where(mirrored, MISSING_KEY, forest.threshold)
    condition = 2 * forest.feature.astype(np.int64) + ((forest.missing_left == 0) & ~mirrored)
    has_set = np.flatnonzero(forest.has_sets)
    if len(has_set) > 0:
        # Columns with few categories have few distinct sets, however many trees there are. Each set
        # is looked up once per row, so equal ones share a number.
        assert forest.categories is not None
        number = forest.threshold[has_set]
        sets = forest.categories.sets[number]
        mixed = condition[has_set].view(np.uint64) + sets @ _FACTORS
        order, fresh = equal_rows(condition[has_set], *sets.T, order=np.argsort(mixed))
        same = np.empty_like(number)
        same[order] = number[order[fresh]][np.cumsum(fresh) - 1]
        condition[has_set] = -2 - same
        threshold[has_set] = 0  # the key of a row in the set is 0
    # A table of all conditions takes a tenth of the time of a sort and a search.
    lowest = min(-1, int(condition.min(initial=0)))
    is_used = np.zeros(2 * forest.n_features - lowest, dtype=np.bool_)
    is_used[condition - lowest] = True
    is_used[-1 - lowest] = False  # a leaf
    place = np.cumsum(is_used, dtype=np.int64) - 1
    place[-1 - lowest] = 0
    slots = np.flatnonzero(is_used) + lowest
    slots[slots < 0] += 1
    slot = place[condition - lowest]
    levels = []
    level = forest.tree_start[:-1]
    while len(level := level[inner[level]]):
        levels.append(level)
        level = np.concatenate((left[level], right[level]))
    return Splits(tree, left, right, threshold, slot, slots, levels)


def equal_rows(*columns: AnyArray, order: IntArray | None = None) -> tuple[IntArray, BoolArray]:
    """Return the order that sorts rows, and which rows differ from the row before in this order."""
    # ``np.unique(..., axis=0)`` takes ten times as long.
    order = np.lexsort(columns[::-1]) if order is None else order
    fresh = np.ones(len(order), dtype=np.bool_)
    for column in columns:
        found = column[order]
        fresh[1:] &= found[1:] == found[:-1]
    fresh[1:] = ~fresh[1:]
    return order, fresh


def set_tables(forest: Forest) -> tuple[IntArray, Uint64Array]:
    """Return the column of each category set, and the flat sets with the extra bins."""
    assert forest.categories is not None
    sets = forest.categories.sets.copy()
    # In a slice of a forest some sets belong to no node: they may have any category column.
    some = int(np.argmax(np.diff(forest.categories.level_start) > 0))
    feature = np.full(len(sets), some, dtype=np.int64)
    nodes = np.flatnonzero(forest.has_sets)
    numbers = forest.threshold[nodes]
    feature[numbers] = forest.feature[nodes]
    ends = np.uint64(1 << (MISSING_BIN & 63))
    if not forest.categories.unknown_in_sets:
        ends |= np.uint64(1 << (UNKNOWN_BIN & 63))
    sets[numbers, 3] |= np.where(forest.missing_left[nodes] == 1, ends, np.uint64(0))
    return feature, sets.reshape(-1)


def narrow_thresholds(threshold: IntArray) -> npt.NDArray[np.int32]:
    """Convert 64-bit thresholds to 32-bit ones that separate the same float32 values."""
    # No value has the key -1, which belongs to -0.0. A threshold of -1 may occur as the middle of
    # two keys, and is equivalent to -2.
    lowest, highest = -_INFINITE_KEY_64 - 1, _INFINITE_KEY_64
    finite = np.clip(np.where(threshold == -1, -2, threshold), lowest, highest)
    keys = float32_threshold_keys(finite)
    return np.where(threshold < lowest, np.int32(MISSING_KEY_32), keys)


def rank_thresholds(forest: Forest, splits: Splits) -> tuple[npt.NDArray[np.int32], Ranks]:
    """Return the rank of each threshold within its column, and tables to rank keys."""
    # Keys of category sets are 0 and 1, and do not change.
    slots = splits.slots
    column = np.where(slots < 0, slots, slots >> 1)
    first = np.searchsorted(column, column)  # the first slot of the column: slots are sorted
    inner = np.flatnonzero(forest.feature >= 0)
    inner = inner[slots[splits.slot[inner]] >= 0]
    own = first[splits.slot[inner]]
    order, fresh = equal_rows(own, splits.threshold[inner])
    inner, distinct = inner[order], own[order[fresh]]
    n_cuts = np.bincount(distinct, minlength=len(slots))
    padded = 2 ** np.ceil(np.log2(n_cuts + 1)).astype(np.int64) - 1
    start = np.concatenate(([0], np.cumsum(padded)))
    rank = np.arange(len(distinct)) - (np.cumsum(n_cuts) - n_cuts)[distinct]
    cuts = np.full(start[-1], _LARGEST)
    cuts[start[distinct] + rank] = splits.threshold[inner[fresh]]
    threshold = np.zeros(len(splits.tree), dtype=np.int32)
    threshold[inner] = rank[np.cumsum(fresh) - 1]
    return threshold, Ranks(cuts, start.astype(np.uint64))


def walk_tables(forest: Forest, splits: Splits, threshold: AnyArray) -> WalkTables:
    """Build the tables of the walk; ``threshold`` has the width of the keys."""
    start = forest.tree_start
    inner = np.flatnonzero(forest.feature >= 0)
    number = np.arange(len(splits.tree), dtype=np.int64)
    first_child = splits.tree[inner] + 1 + 2 * number[: len(inner)]
    position = np.empty_like(number)
    position[start[:-1]] = start[:-1]
    position[splits.left[inner]] = first_child
    position[splits.right[inner]] = first_child + 1
    nodes = np.empty((len(number), 2), dtype=np.int64)
    nodes[:, 0] = _LARGEST
    nodes[:, 1] = number << 32
    at = position[inner]
    nodes[at, 0] = threshold[inner]
    nodes[at, 1] = first_child << 32 | splits.slot[inner]
    node = np.empty_like(number)
    node[position] = number
    value = forest.value[node if holds_numbers(forest) else node[:0]]
    root = start[:-1].astype(np.uint64)
    depth = depths(splits, forest.n_trees)
    return WalkTables(splits.slots, nodes.reshape(-1), value, node, root, depth)


def depths(splits: Splits, n_trees: int) -> Uint64Array:
    """Return the number of splits of the longest path of each tree."""
    depth = np.zeros(n_trees, dtype=np.uint64)
    for above, level in enumerate(splits.levels):
        depth[splits.tree[level]] = above + 1
    return depth


def holds_numbers(forest: Forest) -> bool:
    """Return whether leaves are plain numbers, not vectors or linear functions."""
    return forest.vectors is None and forest.slopes is None


def _divide(forest: Forest, splits: Splits) -> tuple[BoolArray, IntArray]:
    """Divide trees into parts; return the mask of their top nodes, and exits of each node."""
    # The division goes from the leaves up. If a node would have more than 32 exits, its larger
    # child becomes a new part, and also the other child if necessary.
    top = np.zeros(len(splits.tree), dtype=np.bool_)
    top[forest.tree_start[:-1]] = True
    exits = np.ones(len(splits.tree), dtype=np.int64)
    for level in reversed(splits.levels):
        left, right = splits.left[level], splits.right[level]
        larger = np.where(exits[left] >= exits[right], left, right)
        smaller = left + right - larger
        too_many = exits[left] + exits[right] > EXITS
        top[larger[too_many]] = True
        top[smaller[too_many & (exits[smaller] == EXITS)]] = True
        seen = np.where(top, 1, exits)
        exits[level] = seen[left] + seen[right]
    return top, exits


def mask_tables(forest: Forest, splits: Splits) -> tuple[MaskTables, IntArray]:
    """Build the tables of the mask engine, with thresholds of 64 bits."""
    # Also return the node of each split of the tables, and -1 for padding, for
    # :func:`with_thresholds`.
    top, exits = _divide(forest, splits)
    seen = np.where(top, 1, exits)
    tops = np.flatnonzero(top)
    tree_part = np.searchsorted(tops, forest.tree_start)
    part = np.cumsum(top) - 1  # correct at the top nodes; propagated down below
    first = np.zeros(len(part), dtype=np.int64)  # first exit below the node, in its part
    above = np.zeros(len(part), dtype=np.int64)  # parts entered before that of the node
    exit_value = np.zeros((len(tops), EXITS))
    exit_node = np.zeros((0 if holds_numbers(forest) else len(tops), EXITS), dtype=np.int64)
    onward = np.zeros((len(tops), EXITS), dtype=np.uint32)
    hops = np.zeros(forest.n_trees, dtype=np.uint64)
    for level in splits.levels:
        left, right = splits.left[level], splits.right[level]
        for child, start in ((left, first[level]), (right, first[level] + seen[left])):
            cut = top[child]
            own, new = part[level], part[child]
            onward[own[cut], start[cut]] = (new - tree_part[splits.tree[child]])[cut]
            part[child] = np.where(cut, new, own)
            first[child] = np.where(cut, 0, start)
            above[child] = above[level] + cut
    np.maximum.at(hops, splits.tree, above.astype(np.uint64))
    leaf = np.flatnonzero(forest.feature < 0)
    exit_value[part[leaf], first[leaf]] = forest.value[leaf]
    if len(exit_node) > 0:
        exit_node[part[leaf], first[leaf]] = leaf
    onward[part[leaf], first[leaf]] = part[leaf] - tree_part[splits.tree[leaf]]

    inner = np.flatnonzero(forest.feature >= 0)
    below = (1 << seen[splits.left[inner]]) - 1 << first[inner]
    keeps = (~below & 0xFFFFFFFF).astype(np.uint32)
    # Merge equal splits of a part, and the masks of the exits that they keep: if a row is above the
    # threshold, each clears its own exits. Symmetric trees have one split on each level, so a tree
    # of 32 leaves needs five splits instead of 31.
    order, fresh = equal_rows(part[inner], splits.slot[inner], splits.threshold[inner])
    inner, keeps = inner[order], keeps[order]
    if len(inner) > 0:
        starts = np.flatnonzero(fresh)
        inner, keeps = inner[starts], np.bitwise_and.reduceat(keeps, starts)
    sizes = np.bincount(part[inner], minlength=len(tops))
    padded = -(-sizes // FUSED) * FUSED
    part_start = np.concatenate(([0], np.cumsum(padded)))
    shift = part_start[:-1] - (np.cumsum(sizes) - sizes)
    at = np.arange(len(inner)) + shift[part[inner]]
    slot = np.zeros(part_start[-1], dtype=np.uint64)
    clear = np.full(part_start[-1], 0xFFFFFFFF, dtype=np.uint32)
    node = np.full(part_start[-1], -1, dtype=np.int64)
    slot[at], clear[at], node[at] = splits.slot[inner], keeps, inner
    tables = MaskTables(
        splits.slots,
        slot,
        np.zeros(0, dtype=np.int64),
        clear,
        part_start.astype(np.uint64),
        tree_part.astype(np.uint64),
        hops,
        exit_value.reshape(-1),
        exit_node.reshape(-1),
        onward.reshape(-1),
        int(np.diff(tree_part).max(initial=0)),
    )
    return with_thresholds(tables, node, splits.threshold), node


def with_thresholds(tables: MaskTables, node: IntArray, threshold: AnyArray) -> MaskTables:
    """Return the tables with other thresholds of the nodes, in the width of the keys."""
    return tables._replace(threshold=np.where(node < 0, threshold.dtype.type(0), threshold[node]))


def flat_view(values: AnyArray) -> tuple[AnyArray, int, int, int]:
    """Return a flat array, origin and steps of a table with any strides."""
    # A copy is made only if the addresses of the elements are not multiples of their size, as for a
    # field of packed records.
    size = values.itemsize
    if not values.flags.aligned or any(stride % size for stride in values.strides):
        values = np.ascontiguousarray(values)
    steps = [stride // size for stride in values.strides]
    spans = [(length - 1) * step for length, step in zip(values.shape, steps, strict=True)]
    if min(values.shape) == 0:
        return values.reshape(-1), 0, 0, 0
    origin = -sum(span for span in spans if span < 0)
    extent = 1 + sum(abs(span) for span in spans)
    lowest = values[tuple(slice(None, None, -1) if step < 0 else slice(None) for step in steps)]
    flat = np.lib.stride_tricks.as_strided(lowest, (extent,), (size,), writeable=False)
    return flat, origin, steps[0], steps[1]


class CategoryReader:
    """Reader of category columns for one forest."""

    def __init__(self, forest: Forest) -> None:
        assert forest.categories is not None
        feature, self.sets = set_tables(forest)
        is_split = np.zeros(forest.n_features, dtype=np.bool_)
        is_split[feature] = True
        # The category columns that the forest splits, ascending, and the place of each set's.
        self.columns = np.flatnonzero(is_split).tolist()
        self.row_of_set = (np.cumsum(is_split, dtype=np.int64) - 1)[feature]
        ends = np.array([UNKNOWN_BIN, MISSING_BIN], dtype=np.uint8)
        # Bins of each code of these columns, of unknown categories, and of missing values.
        bins = (forest.categories.bins_of(j) for j in self.columns)
        self.lookups = [np.concatenate((known, ends)) for known in bins]

    def read(self, values: AnyArray) -> tuple[BinArray, IntArray, Uint64Array]:
        """Return arguments of :func:`hedgerow.kernels.prediction.table_keys.fill_set_keys`."""
        bins = np.empty((len(self.columns), len(values)), dtype=np.uint8)
        for k, (j, lookup) in enumerate(zip(self.columns, self.lookups, strict=True)):
            bins[k] = lookup[codes_of(values[:, j], len(lookup) - 2)]
        return bins.reshape(-1), self.row_of_set * len(values), self.sets
