"""Convert a forest to the tables of the prediction kernels, once per model.

:mod:`hedgerow.kernels.prediction.predict` defines slot, rank and leaves.  The functions process all
trees at once; :mod:`hedgerow.model.mask_tables` goes tree by tree.
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
    FloatArray,
    IntArray,
    aligned_empty,
)
from hedgerow.data.binning.cut_sample import codes_of
from hedgerow.kernels.prediction.slopes import Records, Slopes, no_slopes, records_of, slopes_at
from hedgerow.kernels.prediction.table_keys import Ranks
from hedgerow.kernels.simd.lanes import WIDTH
from hedgerow.kernels.tables.keys import float32_threshold_keys
from hedgerow.kernels.tables.statistics import number_keys
from hedgerow.model.forest import MISSING_BIN, UNKNOWN_BIN, Forest

Uint64Array = npt.NDArray[np.uint64]

_LARGEST = np.iinfo(np.int64).max
_INFINITE_KEY_32 = 0x7F800000
_INFINITE_KEY_64 = 0x7FF0000000000000
_ONE = np.uint64(1)


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
    depth: Uint64Array  # uint64, one per tree; splits of the longest path


class WalkTables(NamedTuple):
    """Tables of the walk.

    Nodes are renumbered so that siblings are adjacent and in one cache line: the root of a tree is
    node 1, its k-th inner node has the children 2 + 2k and 3 + 2k, and node 0 is not used.
    """

    slots: IntArray  # int64, one per slot
    # int64, two per node; threshold, then ``left child << 32 | slot``; in a leaf its value as bits,
    # or the number of its vector or line, then the leaf itself and a slot whose key is the lowest
    nodes: IntArray
    node: IntArray  # int64, one per node; index of the node in the forest
    root: Uint64Array  # root, depth: uint64, one per tree
    depth: Uint64Array


class LeafContents(NamedTuple):
    """Contents of leaves that do not hold one number each, for the prediction kernels.

    Trees without any term have plain values: adding lines takes three to six times as long.
    """

    # int64, one per node; number of the leaf's vector or line; empty if there are none
    number: IntArray
    is_linear: npt.NDArray[np.uint8]  # uint8, one per tree; 1 if its leaves are lines
    # float64 (n_leaves, n_outputs), padded to a multiple of ``WIDTH`` numbers
    vectors: FloatArray
    value: FloatArray  # value, slopes, records: of all lines
    slopes: Slopes
    records: Records


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
        codes, _ = numbered(condition[has_set])
        for word in forest.categories.sets.view(np.int64)[number].T:
            if (word != word[0]).any():  # columns of few categories use one or two words of four
                own, found = numbered(word)
                codes, _ = numbered(codes * len(found) + own)
        first = np.empty(len(codes), dtype=np.int64)
        first[codes[::-1]] = number[::-1]
        condition[has_set] = -2 - first[codes]
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
    depth, level = np.zeros(forest.n_trees, dtype=np.uint64), forest.tree_start[:-1]
    while len(level := level[inner[level]]):
        depth[tree[level]] += _ONE
        level = np.concatenate((left[level], right[level]))
    return Splits(tree, left, right, threshold, slot, slots, depth)


def numbered(keys: IntArray) -> tuple[IntArray, IntArray]:
    """Number distinct keys; return the number of each key, and the key of each number."""
    # ``np.unique`` sorts, which takes ten times as long.
    slots = np.full(1 << (2 * len(keys)).bit_length(), -1)
    codes, found = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
    n_codes = number_keys(np.ascontiguousarray(keys), slots, codes, found)
    return codes, found[:n_codes]


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
    # Only distinct pairs of slot and place of the threshold, as one number, are sorted.
    numbers, keys = numbered(splits.threshold[inner])
    ordered = np.sort(keys)
    codes, pairs = numbered(own * len(keys) + np.searchsorted(ordered, keys)[numbers])
    order = np.argsort(pairs)
    distinct, cut = np.divmod(pairs[order], max(1, len(keys)))
    n_cuts = np.bincount(distinct, minlength=len(slots))
    padded = 2 ** np.ceil(np.log2(n_cuts + 1)).astype(np.int64) - 1
    start = np.concatenate(([0], np.cumsum(padded)))
    rank = np.arange(len(distinct)) - (np.cumsum(n_cuts) - n_cuts)[distinct]
    cuts = np.full(start[-1], _LARGEST)
    cuts[start[distinct] + rank] = ordered[cut]
    threshold, ranks = np.zeros(len(splits.tree), np.int32), np.empty(len(rank), np.int32)
    ranks[order] = rank
    threshold[inner] = ranks[codes]
    return threshold, Ranks(cuts, start.astype(np.uint64))


def walk_tables(
    forest: Forest, splits: Splits, contents: LeafContents, threshold: AnyArray
) -> WalkTables:
    """Build the tables of the walk; ``threshold`` has the range of the keys."""
    number = np.arange(len(splits.tree))
    inner = np.flatnonzero(forest.feature >= 0)
    # One unused node before each root: siblings are in one cache line.
    position = np.empty_like(number)
    root = forest.tree_start[:-1] + np.arange(forest.n_trees) + 1
    position[forest.tree_start[:-1]] = root
    first_child = 2 * number[: len(inner)] + 2 * (splits.tree[inner] + 1)
    position[splits.left[inner]], position[splits.right[inner]] = first_child, first_child + 1
    nodes = aligned_empty((len(number) + forest.n_trees, 2), np.int64)
    held = np.array(forest.value).view(np.int64)
    if len(contents.number) > 0:
        has_number = forest.vectors is not None or contents.is_linear[splits.tree] == 1
        held = np.where(has_number, contents.number, held)
    nodes[:, 0], nodes[:, 1] = 0, np.arange(len(nodes)) << 32 | len(splits.slots)
    nodes[position, 0] = np.where(forest.feature < 0, held, threshold)
    nodes[position[inner], 1] = first_child << 32 | splits.slot[inner]
    node = np.zeros(len(nodes), dtype=np.int64)
    node[position] = number
    return WalkTables(splits.slots, nodes.reshape(-1), node, root.astype(np.uint64), splits.depth)


def leaf_contents(forest: Forest) -> LeafContents:
    """Return the vectors of all leaves, or the lines of the leaves of trees with terms."""
    is_linear = np.zeros(forest.n_trees, dtype=np.uint8)
    own, vectors = np.zeros(0, dtype=np.int64), np.zeros((0, 0))
    value, slopes, is_leaf = np.zeros(0), no_slopes(0), forest.feature < 0
    if forest.vectors is not None:
        own = np.flatnonzero(is_leaf)
        vectors = np.zeros((len(own), -(-forest.n_outputs // WIDTH) * WIDTH))
        vectors[:, : forest.n_outputs] = forest.vectors[own]
    elif forest.slopes is not None:
        is_linear[:] = np.diff(forest.slopes.start[forest.tree_start]) > 0
        own = np.flatnonzero(is_leaf & np.repeat(is_linear == 1, np.diff(forest.tree_start)))
        value, slopes = forest.value[own], slopes_at(forest.slopes, own)
    number = np.zeros(len(is_leaf) if len(own) > 0 else 0, dtype=np.int64)
    number[own] = np.arange(len(own))
    return LeafContents(number, is_linear, vectors, value, slopes, records_of(value, slopes))


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
