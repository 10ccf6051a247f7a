"""A fitted single tree (CART), and its conversion to a forest.

Glossary
--------
node       index into the arrays; the root is first, and children come after their parent
leaf       node with ``feature == -1``
value      class fractions, or mean (median) of the target, of the training rows of a node

A single tree stores the category values of each split.  A forest stores the levels of a
column, and a set of levels for each split.  As in the tree, a value that a split has not
seen goes to the child with more training rows, even if another split has seen it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, BoolArray, FloatArray, IntArray, distinct
from hedgerow.data.reading.table import Table
from hedgerow.data.schema import Schema
from hedgerow.errors import DataTypeError
from hedgerow.kernels.cart.walk import WalkNodes, walk_rows
from hedgerow.kernels.tables.keys import floats_of_keys, keys_of_floats
from hedgerow.kernels.tables.values import values_of_table
from hedgerow.model.forest import UNKNOWN_BIN, CategoryTables, Forest
from hedgerow.threads import run_blocks

_ROWS_PER_THREAD = 20_000


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
    # categories seen by each node, and whether they go left (:mod:`hedgerow.kernels.cart.walk`)
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
        return len(self.levels()) - 1

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
            all_present = at & (self.threshold_key == np.iinfo(np.int64).max)
            values[all_present] = np.inf
        values[self.is_categorical] = np.nan
        return values

    def levels(self) -> list[IntArray]:
        """Return the nodes of each depth, from the root down."""
        levels = [np.zeros(1, dtype=np.int64)]
        while True:
            inner = levels[-1][self.feature[levels[-1]] >= 0]
            if len(inner) == 0:
                return levels
            below = np.stack((self.children_left[inner], self.children_right[inner]), axis=1)
            levels.append(below.reshape(-1).astype(np.int64))

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
        nodes = WalkNodes(
            self.feature,
            self.children_left,
            self.children_right,
            self.threshold_key,
            self.missing_left,
            self.n_node_samples,
            self.category_start,
            self.category,
            self.category_left,
        )
        values = values_of_table(table.values)

        def walk(first: int, last: int) -> None:
            walk_rows(values, nodes, leaf, first, last)

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
        order: list[int] = []
        todo = [0]
        while todo:
            node = todo.pop()
            order.append(node)
            if not leaves[node] and self.feature[node] >= 0:
                todo += (int(self.children_right[node]), int(self.children_left[node]))
        kept = np.array(order, dtype=np.int64)
        number = np.full(self.node_count, -1, dtype=np.int32)
        number[kept] = np.arange(len(kept), dtype=np.int32)
        leaf = leaves[kept] | (self.feature[kept] < 0)

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

    def copies(self, outputs: list[int]) -> Forest:
        """Return a copy of the tree for each of some columns of ``value``, without categories."""
        n, copies = self.node_count, len(outputs)
        # The highest key of a float column is that of infinity.
        inner = np.maximum(self.feature, 0)
        is_float = np.array([kind != "int" for kind in self.schema.kinds])[inner]
        top = int(keys_of_floats(np.array(np.inf)))
        threshold = np.where(is_float, np.minimum(self.threshold_key, top), self.threshold_key)

        def repeat(values: AnyArray) -> AnyArray:
            return np.tile(values, copies)

        return Forest(
            feature=repeat(self.feature),
            threshold=repeat(threshold),
            missing_left=repeat(self.missing_left),
            left=repeat(np.maximum(self.children_left, 0)),
            right=repeat(np.maximum(self.children_right, 0)),
            value=np.concatenate([self.value[:, k] for k in outputs]),
            gain=repeat(self.decrease()),
            cover=repeat(self.weighted_n_node_samples),
            count=repeat(self.n_node_samples),
            tree_start=np.arange(copies + 1, dtype=np.int64) * n,
            base_score=np.zeros(copies),
            n_features=self.n_features,
        )


_ALL_PRESENT = np.iinfo(np.int64).max


def forest_of(tree: CartTree, outputs: list[int]) -> tuple[Forest, Schema]:
    """Return the forest of a tree, and the schema of its tables."""
    plain = tree.copies(outputs)
    if not tree.is_categorical.any():
        return plain, tree.schema
    used = distinct(tree.feature[tree.is_categorical])
    levels = {int(j): _levels(tree, int(j)) for j in used}
    nodes = np.flatnonzero(np.isin(tree.feature, used))
    words = np.stack([_set_of(tree, int(node), levels[int(tree.feature[node])]) for node in nodes])
    number = np.zeros(tree.node_count, dtype=np.int64)
    number[nodes] = np.arange(len(nodes))
    takes_set = np.tile(np.isin(tree.feature, used), len(outputs))
    counts = [len(levels.get(j, ())) for j in range(tree.n_features)]
    tables = CategoryTables(
        words,
        np.concatenate([np.arange(count) for count in counts]).astype(np.uint8),
        np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        unknown_in_sets=True,
    )
    threshold = np.where(takes_set, np.tile(number, len(outputs)), plain.threshold)
    forest = replace(plain, threshold=threshold, categories=tables)
    columns = list(tree.schema.columns)
    for j, keys in levels.items():
        values: AnyArray = keys if columns[j].kind == "int" else floats_of_keys(keys)
        columns[j] = replace(columns[j], kind="category", levels=tuple(values.tolist()))
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
        bits[: UNKNOWN_BIN + 1] = tree.threshold_key[node] == _ALL_PRESENT
    else:
        rows = tree.n_node_samples
        larger = rows[tree.children_left[node]] > rows[tree.children_right[node]]
        bits[: UNKNOWN_BIN + 1] = larger
        bits[np.searchsorted(levels, tree.category[part])] = tree.category_left[part]
    return np.packbits(bits, bitorder="little").view("<u8").astype(np.uint64)
