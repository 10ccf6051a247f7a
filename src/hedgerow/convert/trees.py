"""Trees of another library as a forest: numbered, without unreachable nodes, completed.

Every reader fills a :class:`TreeTable`, and :func:`forest_of` builds the forest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hedgerow.arrays import BoolArray, FloatArray, IntArray, distinct
from hedgerow.convert.categories import set_tables_of
from hedgerow.convert.thresholds import NO_KEY
from hedgerow.data.schema import Schema
from hedgerow.errors import ModelFormatError
from hedgerow.kernels.prediction.slopes import Slopes, slopes_at
from hedgerow.kernels.tables.keys import highest_key
from hedgerow.model.forest import Forest

MOST_NODES = 2**30
"""Limit on the nodes of a model."""

MOST_DEPTH = 5_000
"""Limit on the depth of a leaf."""


@dataclass(eq=False)
class TreeTable:
    """A tree, or all trees of a model one after the other."""

    feature: IntArray  # int64, one per node; column of the split, -1 for a leaf
    key: IntArray  # int64; largest key that goes left, or ``NO_KEY``; nodes with a set need none
    missing_left: BoolArray
    left: IntArray  # left, right: int64; children, relative to the root of their tree, in any order
    right: IntArray
    # float64, shape (n_nodes,) or (n_nodes, n_outputs); leaf value.  NaN in an inner node means the
    # mean of its children
    value: FloatArray
    # gain, cover, count: one per node; values from the source; 0 if the source has none
    gain: FloatArray = field(default_factory=lambda: np.zeros(0))
    cover: FloatArray = field(default_factory=lambda: np.zeros(0))
    count: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    # by node; distinct positions of the levels that go left
    sets: dict[int, IntArray] = field(default_factory=dict)
    # int64, one per tree and one more; nodes of tree t are ``start[t] : start[t + 1]``, its root
    # first
    start: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    unknown_left: bool = False  # whether values that are not a level go left in sets
    slopes: Slopes | None = None  # terms of linear leaves, by node

    def __post_init__(self) -> None:
        n_nodes = len(self.feature)
        for name in ("gain", "cover", "count"):
            if len(getattr(self, name)) < n_nodes:
                setattr(self, name, np.zeros(n_nodes, getattr(self, name).dtype))
        if len(self.start) == 0:
            self.start = np.array([0, n_nodes], dtype=np.int64)

    @property
    def is_set(self) -> BoolArray:
        """Whether each node tests a set of categories."""
        found = np.zeros(len(self.feature), np.bool_)
        found[list(self.sets)] = True
        return found


_TYPES = {
    **dict.fromkeys(("feature", "key", "left", "right", "count"), np.int64),
    **dict.fromkeys(("value", "gain", "cover"), np.float64),
    "missing_left": np.bool_,
}


def joined(trees: Sequence[TreeTable], unknown_left: bool = False) -> TreeTable:
    """Return the table of all trees, each of which is a table of its own."""
    start = np.cumsum([0, *(len(tree.feature) for tree in trees)], dtype=np.int64)
    found: dict[str, Any] = {}
    for name, dtype in _TYPES.items():
        parts = [np.asarray(getattr(tree, name)) for tree in trees] or [np.zeros(0)]
        found[name] = np.concatenate(parts).astype(dtype)
    sets = {
        first + node: members
        for first, tree in zip(start.tolist(), trees, strict=False)
        for node, members in tree.sets.items()
    }
    return TreeTable(**found, sets=sets, start=start, unknown_left=unknown_left)


@dataclass(frozen=True, eq=False)
class _Layout:
    """Positions of the reachable nodes.

    ``kept`` are nodes of the table in their new order, ``left`` and ``right`` their children
    in the new numbering, ``levels`` the new nodes of each depth.
    """

    kept: IntArray
    start: IntArray
    left: IntArray
    right: IntArray
    levels: list[IntArray]


def forest_of(
    table: TreeTable, schema: Schema, base_score: Sequence[float]
) -> tuple[Forest, tuple[int, ...] | None]:
    """Return the forest, and the column of each input if a category column occurs twice."""
    _check(table, schema)
    layout = _lay_out(table)
    inner = table.feature[layout.kept] >= 0
    place = np.full(len(table.feature), -1)
    place[layout.kept] = np.arange(len(layout.kept))
    sets = {int(place[node]): found for node, found in table.sets.items() if place[node] >= 0}
    tables = set_tables_of(
        table.feature[layout.kept], table.key[layout.kept], sets, table.unknown_left, schema
    )
    tree = np.repeat(np.arange(len(layout.start) - 1), np.diff(layout.start))
    root = layout.start[tree]
    value = _completed(table, layout)
    vectors = value if value.ndim == 2 else None
    fields: dict[str, Any] = {
        "feature": np.where(inner, tables.feature, -1).astype(np.int32),
        "threshold": np.where(inner, tables.threshold, 0).astype(np.int64),
        "missing_left": (table.missing_left[layout.kept] & inner).astype(np.uint8),
        "left": np.where(inner, layout.left - root, 0).astype(np.int32),
        "right": np.where(inner, layout.right - root, 0).astype(np.int32),
        "value": np.zeros(len(inner)) if vectors is not None else value,
        "gain": np.where(inner, _usable(table.gain[layout.kept]), 0.0),
        "cover": np.maximum(_usable(table.cover[layout.kept]), 0.0),
        "count": np.maximum(table.count[layout.kept], 0).astype(np.int64),
    }
    forest = Forest(
        **fields,
        tree_start=layout.start,
        base_score=np.array(base_score, dtype=np.float64),
        n_features=schema.n_features if tables.copies is None else len(tables.copies),
        categories=tables.categories,
        vectors=None if vectors is None else np.ascontiguousarray(vectors),
        slopes=None if table.slopes is None else slopes_at(table.slopes, layout.kept),
    )
    return forest, tables.copies


def _usable(values: FloatArray) -> FloatArray:
    """Clean statistics that prediction does not use: non-finite values become unknown."""
    return np.where(np.isfinite(values), values, 0.0)


def _check(table: TreeTable, schema: Schema) -> None:
    n_nodes = len(table.feature)
    if n_nodes > MOST_NODES:
        raise ModelFormatError(f"the model has more than {MOST_NODES:,} nodes.")
    inner = table.feature >= 0
    if (table.feature >= schema.n_features).any():
        raise ModelFormatError(
            f"a split uses column {int(table.feature.max())}, but there are "
            f"{schema.n_features} columns."
        )
    size = np.repeat(np.diff(table.start), np.diff(table.start))
    for child in (table.left, table.right):
        if not ((child >= 0) & (child < size))[inner].all():
            raise ModelFormatError("a child of a node is outside its tree.")
    leaf_values = table.value[~inner]
    if not np.isfinite(leaf_values).all():
        raise ModelFormatError("a leaf has a non-finite value.")


def _lay_out(table: TreeTable) -> _Layout:
    """Number the reachable nodes; children come after their parents."""
    # A valid order of the source is kept, and so are the numbers of its leaves.
    start, n_trees = table.start, len(table.start) - 1
    tree = np.repeat(np.arange(n_trees), np.diff(start))
    base = start[tree]
    inner = table.feature >= 0
    node = np.arange(len(inner))
    left = np.where(inner, base + table.left, node)
    right = np.where(inner, base + table.right, node)
    left, right, roots = _without_empty(table, left, right)
    depth = np.full(len(inner), -1, dtype=np.int64)
    level = roots
    for above in range(MOST_DEPTH + 1):
        if (depth[level] >= 0).any() or len(distinct(level)) != len(level):
            raise ModelFormatError("a node has more than one parent.")
        depth[level] = above
        asks = level[inner[level]]
        if len(asks) == 0:
            break
        level = np.concatenate((left[asks], right[asks]))
    else:
        raise ModelFormatError(f"a tree is deeper than {MOST_DEPTH:,} splits.")
    kept = np.flatnonzero(depth >= 0)
    asks = kept[inner[kept]]
    falls = (left[asks] < asks) | (right[asks] < asks)
    shuffled = np.zeros(n_trees, dtype=np.bool_)
    shuffled[tree[asks[falls]]] = True
    rank = np.where(shuffled[tree[kept]], depth[kept], 0)
    kept = kept[np.lexsort((kept, rank, tree[kept]))]
    place = np.full(len(inner), -1, dtype=np.int64)
    place[kept] = np.arange(len(kept))
    sizes = np.bincount(tree[kept], minlength=n_trees)
    new_depth = depth[kept]
    order = np.argsort(new_depth, kind="stable")
    ends = np.cumsum(np.bincount(new_depth, minlength=1))
    return _Layout(
        kept=kept,
        start=np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        left=place[left[kept]],
        right=place[right[kept]],
        levels=np.split(order, ends[:-1]),
    )


def _without_empty(
    table: TreeTable, left: IntArray, right: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Return children and roots, without splits that send all rows one way."""
    # A split with ``NO_KEY`` that sends missing values left becomes the split "is it missing", with
    # its sides exchanged.
    roots = table.start[:-1]
    empty = (table.feature >= 0) & ~table.is_set & (table.key == NO_KEY)
    if not empty.any():
        return left, right, roots
    turned = empty & table.missing_left
    left, right = np.where(turned, right, left), np.where(turned, left, right)
    table.key = np.where(turned, highest_key("float"), table.key)
    table.missing_left = table.missing_left & ~turned
    passed = empty & ~turned
    onward = np.where(passed, right, np.arange(len(left)))
    for _ in range(len(left).bit_length() + 1):
        onward = onward[onward]
    if passed[onward].any():
        raise ModelFormatError("a node has more than one parent.")
    return onward[left], onward[right], onward[roots]


def _completed(table: TreeTable, layout: _Layout) -> FloatArray:
    """Return values of all nodes; unknown values of inner nodes come from their children."""
    value: FloatArray = table.value[layout.kept].astype(np.float64)
    inner = table.feature[layout.kept] >= 0
    width = math.prod(value.shape[1:])
    flat = value.reshape(len(value), width)
    unknown = inner & ~np.isfinite(flat).all(axis=1)
    weight = np.maximum(_usable(table.cover[layout.kept]), 0.0)
    for level in reversed(layout.levels):
        asks = level[unknown[level]]
        a, b = layout.left[asks], layout.right[asks]
        both = weight[a] + weight[b]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            share = np.where((both > 0.0) & np.isfinite(both), weight[a] / both, 0.5)[:, None]
        flat[asks] = flat[a] * share + flat[b] * (1.0 - share)
    return value
