"""A fitted single tree (CART), and its conversion to a forest.

Glossary
--------
node       index into the arrays; the root is first, and children come after their parent
leaf       node with ``feature == -1``
value      class fractions, or mean of the target, of the training rows of a node

A single tree stores the category values of each split.  A forest stores the levels of a
column, and a set of levels for each split.  As in the tree, a value that a split has not
seen goes to the child with more training rows, even if another split has seen it.

Values are compared as 64-bit keys (:mod:`hedgerow.kernels.tables.keys`).  At a numeric split a row
goes left if its key is at most the threshold; at a categorical one if its category is among those
that went left in training.  A missing value takes the side that the node has learned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow import kernel_types as kt
from hedgerow.arrays import MISSING_KEY, AnyArray, BoolArray, FloatArray, IntArray, distinct
from hedgerow.compile import kernel
from hedgerow.data.reading.table import Table
from hedgerow.data.schema import Schema
from hedgerow.errors import DataTypeError
from hedgerow.kernels.tables.keys import floats_of_keys, keys_of_floats
from hedgerow.kernels.tables.values import Values, key_in_table, values_of_table
from hedgerow.model.forest import HIGHEST_KEY, UNKNOWN_BIN, CategoryTables, Forest
from hedgerow.threads import run_blocks

_ROWS_PER_THREAD = 20_000


class WalkNodes(NamedTuple):
    """Arrays of a :class:`CartTree` that the walk reads.

    category_start        one more than nodes: categories that a node has seen are
                          ``category[category_start[node] : category_start[node + 1]]``
    category              keys, ascending within a node
    category_left         1 if the category goes left
    """

    feature: kt.ReadOnly[kt.Int32_1D]
    threshold_key: kt.ReadOnly[kt.Int64_1D]
    missing_left: kt.ReadOnly[kt.UInt8_1D]
    children_left: kt.ReadOnly[kt.Int32_1D]
    children_right: kt.ReadOnly[kt.Int32_1D]
    n_node_samples: kt.ReadOnly[kt.Int64_1D]
    category_start: kt.ReadOnly[kt.Int64_1D]
    category: kt.ReadOnly[kt.Int64_1D]
    category_left: kt.ReadOnly[kt.UInt8_1D]


@kernel(inner=True)
def category_goes_left(nodes: WalkNodes, node: int, key: int) -> bool:
    """Return whether a category goes left at a categorical split."""
    first, last = nodes.category_start[node], nodes.category_start[node + 1]
    end = last
    while first < last:
        middle = (first + last) >> 1
        if nodes.category[middle] < key:
            first = middle + 1
        else:
            last = middle
    if first < end and nodes.category[first] == key:
        return nodes.category_left[first] == 1
    rows = nodes.n_node_samples
    return rows[nodes.children_left[node]] > rows[nodes.children_right[node]]


@kernel
def walk_rows(values: Values, nodes: WalkNodes, leaf: kt.Int64_1D, start: int, stop: int) -> None:
    """Write the leaf of rows ``start .. stop``."""
    for row in range(start, stop):
        node = np.int64(0)
        while nodes.feature[node] >= 0:
            key = key_in_table(values, row, nodes.feature[node])
            if key == MISSING_KEY:
                goes_left = nodes.missing_left[node] == 1
            elif nodes.category_start[node] < nodes.category_start[node + 1]:
                goes_left = category_goes_left(nodes, node, key)
            else:
                goes_left = key <= nodes.threshold_key[node]
            node = np.int64(nodes.children_left[node] if goes_left else nodes.children_right[node])
        leaf[row] = node


@kernel
def write_depth_first(
    left: kt.Int64_1D, right: kt.Int64_1D, todo: kt.Int64_1D, order: kt.Int64_1D
) -> int:
    """Write the nodes in the order of a walk, left children first; return how many there are."""
    # ``todo`` is scratch space; ``left`` is -1 in a leaf.
    todo[0] = 0
    size, count = 1, 0
    while size > 0:
        size -= 1
        node = todo[size]
        order[count] = node
        count += 1
        if left[node] >= 0:
            todo[size], todo[size + 1] = right[node], left[node]
            size += 2
    return count


def nodes_depth_first(left: IntArray, right: IntArray) -> IntArray:
    """Return the nodes below the root in the order of a walk that goes left first."""
    order = np.empty(len(left), dtype=np.int64)
    return order[: write_depth_first(left, right, np.empty_like(order), order)]


def levels_of(left: AnyArray, right: AnyArray) -> list[IntArray]:
    """Return the nodes of each depth, from the root down."""
    levels = [np.zeros(1, dtype=np.int64)]
    while len(inner := levels[-1][left[levels[-1]] >= 0]):
        levels.append(np.stack((left[inner], right[inner]), axis=1).reshape(-1).astype(np.int64))
    return levels


@dataclass(frozen=True, slots=True, eq=False)
class CartTree:
    """Nodes of one tree; immutable."""

    feature: npt.NDArray[np.int32]  # column of the split; -1 in a leaf
    threshold_key: IntArray  # largest key that goes left; 0 in a leaf and at a categorical split
    missing_left: npt.NDArray[np.uint8]  # 1 if a missing value goes left
    children_left: npt.NDArray[np.int32]  # -1 in a leaf, as the right one
    children_right: npt.NDArray[np.int32]
    value: FloatArray  # (n_nodes, n_outputs): class fractions, or predictions
    impurity: FloatArray
    n_node_samples: IntArray
    weighted_n_node_samples: FloatArray
    # categories seen by each node, and whether they go left (:class:`WalkNodes`)
    category_start: IntArray
    category: IntArray
    category_left: npt.NDArray[np.uint8]
    schema: Schema

    # -- shape ---------------------------------------------------------------

    @property
    def node_count(self) -> int:
        """Number of nodes."""
        return len(self.feature)

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return int((self.feature < 0).sum())

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.schema.n_features

    @property
    def max_depth(self) -> int:
        """Number of splits on the longest path from the root to a leaf."""
        return len(levels_of(self.children_left, self.children_right)) - 1

    @property
    def is_categorical(self) -> BoolArray:
        """Whether each node splits by categories."""
        return np.diff(self.category_start) > 0

    @property
    def threshold(self) -> FloatArray:
        """Thresholds as float64: -2 in a leaf, NaN at a categorical split."""
        values = np.full(self.node_count, -2.0)
        for j in distinct(self.feature[self.feature >= 0]):
            at = self.feature == j
            keys = self.threshold_key[at]
            is_int = self.schema.kinds[j] == "int"
            values[at] = keys if is_int else floats_of_keys(keys)
            all_present = at & (self.threshold_key == HIGHEST_KEY)
            values[all_present] = np.inf
        values[self.is_categorical] = np.nan
        return values

    def categories(self, node: int) -> tuple[AnyArray, AnyArray]:
        """Return the categories that go left and those that go right at a categorical split."""
        part = slice(self.category_start[node], self.category_start[node + 1])
        keys, left = self.category[part], self.category_left[part] == 1
        is_int = self.feature[node] >= 0 and self.schema.kinds[self.feature[node]] == "int"
        values: AnyArray = keys if is_int else floats_of_keys(keys)
        return values[left], values[~left]

    # -- use -----------------------------------------------------------------

    def apply(self, table: Table, n_threads: int) -> IntArray:
        """Return the leaf of each row."""
        leaf = np.empty(table.n_rows, dtype=np.int64)
        nodes = WalkNodes(*(getattr(self, name) for name in WalkNodes._fields))
        walk = partial(walk_rows, values_of_table(table.values), nodes, leaf)
        run_blocks(walk, table.n_rows, n_threads, _ROWS_PER_THREAD)
        return leaf

    def decrease(self) -> FloatArray:
        """Return the decrease of weighted impurity by each split; 0 in a leaf."""
        mixed = self.weighted_n_node_samples * self.impurity
        inner = np.flatnonzero(self.feature >= 0)
        result = np.zeros(self.node_count)
        left, right = self.children_left[inner], self.children_right[inner]
        result[inner] = mixed[inner] - mixed[left] - mixed[right]
        return result

    def feature_importances(self) -> FloatArray:
        """Return each feature's fraction of the total impurity decrease; the sum is 1 or 0."""
        inner = self.feature >= 0
        total = np.bincount(
            self.feature[inner], weights=self.decrease()[inner], minlength=self.n_features
        )
        return total / total.sum() if total.sum() > 0.0 else np.zeros(self.n_features)

    def pruned(self, leaves: BoolArray) -> CartTree:
        """Turn the nodes of a mask into leaves, and renumber nodes in depth-first order."""
        left = np.where(leaves, -1, self.children_left).astype(np.int64)
        kept = nodes_depth_first(left, self.children_right.astype(np.int64))
        number = np.full(self.node_count, -1, dtype=np.int32)
        number[kept] = np.arange(len(kept), dtype=np.int32)
        leaf = left[kept] < 0

        def cut(values: AnyArray, empty: int) -> AnyArray:
            return np.where(leaf, np.array(empty, dtype=values.dtype), values[kept])

        sizes = np.where(leaf, 0, np.diff(self.category_start)[kept])
        start = np.concatenate(([0], np.cumsum(sizes)))
        source = np.arange(start[-1]) + np.repeat(self.category_start[kept] - start[:-1], sizes)
        return replace(
            self,
            feature=cut(self.feature, -1),
            threshold_key=cut(self.threshold_key, 0),
            missing_left=cut(self.missing_left, 0),
            children_left=np.where(leaf, np.int32(-1), number[self.children_left[kept]]),
            children_right=np.where(leaf, np.int32(-1), number[self.children_right[kept]]),
            value=self.value[kept],
            impurity=self.impurity[kept],
            n_node_samples=self.n_node_samples[kept],
            weighted_n_node_samples=self.weighted_n_node_samples[kept],
            category_start=start,
            category=self.category[source],
            category_left=self.category_left[source],
        )

    def forest(self, outputs: list[int]) -> Forest:
        """Return the tree with some columns of ``value``; its category splits have no sets."""
        # The highest key of a float column is that of infinity.
        inner, several = np.maximum(self.feature, 0), len(outputs) > 1
        is_float = np.array([kind != "int" for kind in self.schema.kinds])[inner]
        top = int(keys_of_floats(np.array(np.inf)))
        return Forest(
            feature=self.feature,
            threshold=np.where(is_float, np.minimum(self.threshold_key, top), self.threshold_key),
            missing_left=self.missing_left,
            left=np.maximum(self.children_left, 0),
            right=np.maximum(self.children_right, 0),
            value=np.zeros(self.node_count) if several else self.value[:, outputs[0]].copy(),
            gain=self.decrease(),
            cover=self.weighted_n_node_samples,
            count=self.n_node_samples,
            tree_start=np.array([0, self.node_count], dtype=np.int64),
            base_score=np.zeros(len(outputs)),
            n_features=self.n_features,
            vectors=np.ascontiguousarray(self.value[:, outputs]) if several else None,
        )


def forest_of(tree: CartTree, outputs: list[int]) -> tuple[Forest, Schema]:
    """Return the forest of a tree, and the schema of its tables."""
    # Without numbers of rows, explanations use the weights of the rows.
    plain = replace(tree.forest(outputs), count=np.zeros(tree.node_count, dtype=np.int64))
    if not tree.is_categorical.any():
        return plain, tree.schema
    used = distinct(tree.feature[tree.is_categorical])
    levels = {int(j): _levels(tree, int(j)) for j in used}
    nodes = np.flatnonzero(np.isin(tree.feature, used))
    words = np.stack([_set_of(tree, int(node), levels[int(tree.feature[node])]) for node in nodes])
    threshold = plain.threshold.copy()
    threshold[nodes] = np.arange(len(nodes))
    counts = [len(levels.get(j, ())) for j in range(tree.n_features)]
    tables = CategoryTables(
        words,
        np.concatenate([np.arange(count) for count in counts]).astype(np.uint8),
        np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        unknown_in_sets=True,
    )
    columns = list(tree.schema.columns)
    for j, keys in levels.items():
        values: AnyArray = keys if columns[j].kind == "int" else floats_of_keys(keys)
        columns[j] = replace(columns[j], kind="category", levels=tuple(values.tolist()))
    forest = replace(plain, threshold=threshold, categories=tables)
    return forest, replace(tree.schema, columns=tuple(columns), unknown="split")


def _levels(tree: CartTree, column: int) -> IntArray:
    """Return the ascending keys of the categories that splits of a column have seen."""
    nodes = np.flatnonzero(tree.is_categorical & (tree.feature == column))
    parts = [
        tree.category[tree.category_start[node] : tree.category_start[node + 1]] for node in nodes
    ]
    keys = distinct(np.concatenate(parts))
    if len(keys) > UNKNOWN_BIN:
        raise DataTypeError(
            f"column {tree.schema.names[column]!r} has {len(keys)} categories, but a set of a "
            f"forest holds at most {UNKNOWN_BIN}: merge rare categories."
        )
    return keys


def _set_of(tree: CartTree, node: int, levels: IntArray) -> npt.NDArray[np.uint64]:
    """Return the bits of the levels, and of unknown categories, that go left at a node."""
    bits = np.zeros(256, dtype=np.uint8)
    part = slice(tree.category_start[node], tree.category_start[node + 1])
    if part.start == part.stop:  # the split separates present from missing values
        bits[: UNKNOWN_BIN + 1] = tree.threshold_key[node] == HIGHEST_KEY
    else:
        rows = tree.n_node_samples
        larger = rows[tree.children_left[node]] > rows[tree.children_right[node]]
        bits[: UNKNOWN_BIN + 1] = larger
        bits[np.searchsorted(levels, tree.category[part])] = tree.category_left[part]
    return np.packbits(bits, bitorder="little").view("<u8").astype(np.uint64)
