"""Trees of a CatBoost model: symmetric and nested trees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.convert.readers import records
from hedgerow.convert.readers.catboost_splits import Split, Splits, set_members
from hedgerow.convert.sets import CategorySets
from hedgerow.convert.trees import TreeTable
from hedgerow.errors import ModelFormatError

_MOST_DEPTH = 16


class _Builder:
    """Trees as lists, node by node."""

    def __init__(self, splits: Splits, n_outputs: int) -> None:
        self.splits, self.n_outputs = splits, n_outputs
        self.start: list[int] = [0]
        self.parts: list[tuple[Any, ...]] = []
        self.sets: list[IntArray] = []
        self.set_numbers: dict[Split, int] = {}

    def key_of(self, split: Split) -> int:
        """Return the key of a split, or the number of its set."""
        if not split.is_set:
            return split.key
        if split not in self.set_numbers:
            self.set_numbers[split] = len(self.sets)
            self.sets.append(set_members(split, self.splits.columns))
        return self.set_numbers[split]

    def add(
        self,
        requested: list[Split | None],
        left: IntArray,
        value: FloatArray,
        cover: FloatArray,
        right: IntArray,
    ) -> None:
        """Add a tree; ``requested`` is None in leaves."""
        feature = np.array([-1 if s is None else s.feature for s in requested], dtype=np.int64)
        key = np.array([0 if s is None else self.key_of(s) for s in requested], dtype=np.int64)
        missing = np.array([s is not None and s.missing_left for s in requested], dtype=np.bool_)
        is_set = np.array([s is not None and s.is_set for s in requested], dtype=np.bool_)
        self.parts.append((feature, key, missing, is_set, left, right, value, cover))
        self.start.append(self.start[-1] + len(requested))

    def table(self) -> TreeTable:
        """Return all trees."""
        width = (self.n_outputs,) if self.n_outputs > 1 else ()
        integers, none = np.zeros(0, np.int64), np.zeros(0)
        empty = (
            *[integers] * 2,
            *[integers != 0] * 2,
            *[integers] * 2,
            np.zeros((0, *width)),
            none,
        )
        columns = [np.concatenate(part) for part in zip(*(self.parts or [empty]), strict=True)]
        feature, key, missing, is_set, left, right, value, cover = columns
        sets = CategorySets(is_set, self.sets, np.zeros(len(self.sets), dtype=np.bool_))
        n = len(feature)
        return TreeTable(
            np.array(self.start, dtype=np.int64), feature, key, missing, left, right, value,
            np.zeros(n), cover, np.zeros(n, dtype=np.int64), sets,
        )  # fmt: skip


def symmetric_trees(trees: list[dict[str, Any]], splits: Splits, n_outputs: int) -> TreeTable:
    """Return trees with one split per level; bit k of a leaf's number is its side at split k."""
    builder = _Builder(splits, n_outputs)
    for record in trees:
        requested = [splits.read(item) for item in records.listed(record, "splits", missing=True)]
        depth = len(requested)
        if depth > _MOST_DEPTH:
            raise ModelFormatError(f"a tree is deeper than {_MOST_DEPTH} splits.")
        n_leaves = 1 << depth
        leaf = _values(records.floats(record, "leaf_values", n_leaves * n_outputs), n_outputs)
        weights = record.get("leaf_weights") or []
        known = records.floats({"leaf_weights": weights}, "leaf_weights")
        cover = known if len(known) == n_leaves else np.zeros(n_leaves)
        inner = n_leaves - 1
        node = np.arange(2 * n_leaves - 1)
        level = [s for k in range(depth) for s in [requested[depth - 1 - k]] * (1 << k)]
        value = np.full((len(node), *leaf.shape[1:]), np.nan)
        value[inner:] = leaf
        covers = np.zeros(len(node))
        covers[inner:] = np.maximum(np.nan_to_num(cover), 0.0)
        for k in range(depth - 1, -1, -1):
            at = np.arange((1 << k) - 1, (2 << k) - 1)
            covers[at] = covers[2 * at + 1] + covers[2 * at + 2]
        left = np.where(node < inner, 2 * node + 1, 0)
        right = np.where(node < inner, 2 * node + 2, 0)
        builder.add([*level, *[None] * n_leaves], left, value, covers, right)
    return builder.table()


def _values(flat: FloatArray, n_outputs: int) -> FloatArray:
    return flat.reshape(-1, n_outputs) if n_outputs > 1 else flat


def nested_trees(trees: list[dict[str, Any]], splits: Splits, n_outputs: int) -> TreeTable:
    """Return trees whose nodes contain their children."""
    builder = _Builder(splits, n_outputs)
    for record in trees:
        requested: list[Split | None] = []
        left, right, values, cover = [], [], [], []
        for node, children in _nodes(record):
            if children is None:
                requested.append(None)
                found = node.get("value")
                listed = found if isinstance(found, list) else [found]
                values.append(records.floats({"value": listed}, "value", n_outputs))
                cover.append(max(0.0, records.number(node, "weight", 0.0)))
                left.append(0)
                right.append(0)
            else:
                requested.append(splits.read(node.get("split")))
                values.append(np.full(n_outputs, np.nan))
                cover.append(0.0)
                left.append(children[0])
                right.append(children[1])
        covers = np.array(cover)
        for at in range(len(requested) - 1, -1, -1):
            if requested[at] is not None:
                covers[at] = covers[left[at]] + covers[right[at]]
        value = np.array(values).reshape(len(requested), n_outputs)
        builder.add(
            requested,
            np.array(left, dtype=np.int64),
            value if n_outputs > 1 else value[:, 0],
            covers,
            np.array(right, dtype=np.int64),
        )
    return builder.table()


def _nodes(root: dict[str, Any]) -> Iterator[tuple[dict[str, Any], tuple[int, int] | None]]:
    """Return nodes from the root down, level by level, and the numbers of their children."""
    waiting, number = [root], 1
    while waiting:
        following = []
        for node in waiting:
            children = [node.get("left"), node.get("right")]
            if all(isinstance(child, dict) for child in children):
                yield node, (number, number + 1)
                number += 2
                following += children
            elif children == [None, None]:
                yield node, None
            else:
                raise ModelFormatError("a node has one child, or a child that is not a node.")
        waiting = [node for node in following if node is not None]
