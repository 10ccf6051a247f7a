"""Convert a single tree with categorical splits to a forest with category columns.

A single tree stores the category values of each split.  A forest stores the levels of a
column, and a set of levels for each split.  As in the tree, a value that a split has not
seen goes to the child with more training rows, even if another split has seen it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray, IntArray, distinct
from hedgerow.data.schema import Column, Schema
from hedgerow.errors import DataTypeError
from hedgerow.kernels.tables.keys import floats_of_keys
from hedgerow.model.cart_tree import CartTree
from hedgerow.model.forest import UNKNOWN_BIN, CategoryTables, Forest

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
    columns = tuple(
        _column(column, levels[j]) if j in levels else column
        for j, column in enumerate(tree.schema.columns)
    )
    return forest, replace(tree.schema, columns=columns, unknown="split")


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


def _column(column: Column, keys: IntArray) -> Column:
    values: IntArray | FloatArray = keys if column.kind == "int" else floats_of_keys(keys)
    return replace(column, kind="category", levels=tuple(values.tolist()))
