"""Trees of an XGBoost model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import BoolArray, FloatArray, IntArray, distinct
from hedgerow.convert.readers import records
from hedgerow.convert.sets import CategorySets
from hedgerow.convert.thresholds import keys_below_float32
from hedgerow.convert.trees import TreeTable
from hedgerow.errors import ModelFormatError

if TYPE_CHECKING:
    from hedgerow.convert.readers.xgboost_categories import Coded

_MOST_LISTED = 2**26


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """The arrays of one tree.

    Attributes
    ----------
    feature : int64, one per node
        -1 for a leaf.
    left, right : int64
    cut : float32
        Cut of a numeric split.
    missing_left : bool
    value : float64 (n_nodes,) or (n_nodes, n_outputs)
        NaN for inner nodes.
    gain, cover : float64
    listed : mapping from node to int64
        Categories that go right.
    """

    feature: IntArray
    left: IntArray
    right: IntArray
    cut: npt.NDArray[np.float32]
    missing_left: BoolArray
    value: FloatArray
    gain: FloatArray
    cover: FloatArray
    listed: Mapping[int, IntArray]

    def scaled(self, factor: float) -> Tree:
        """Return the tree with other values."""
        return self if factor == 1.0 else replace(self, value=self.value * factor)


def read_tree(record: dict[str, Any], n_features: int, n_outputs: int) -> Tree:
    """Read the arrays of one tree."""
    about = records.member(record, "tree_param")
    size = records.text_integer(about, "size_leaf_vector", 0, 2**20, "1")
    left = records.ints(record, "left_children")
    n = len(left)
    if n == 0:
        raise ModelFormatError("a tree has no nodes.")
    right = records.ints(record, "right_children", n)
    inner = left >= 0
    condition = records.floats(record, "split_conditions", n)
    feature = records.ints(record, "split_indices", n)
    feature = np.where(inner, feature & 0x7FFFFFFF, -1)
    if (feature >= n_features).any():
        raise ModelFormatError("a split uses a column that does not exist.")
    with np.errstate(over="ignore"):
        cut = condition.astype(np.float32)
    if np.isnan(cut[inner]).any():
        raise ModelFormatError("a split condition is NaN.")
    if size > 1:
        value = _vectors(record, inner, right, size, n_outputs)
    else:
        value = np.where(inner, np.nan, cut.astype(np.float64))
    return Tree(
        feature=feature,
        left=left,
        right=np.where(inner, right, -1),
        cut=cut,
        missing_left=records.ints(record, "default_left", n) != 0,
        value=value,
        gain=records.floats(record, "loss_changes", n),
        cover=records.floats(record, "sum_hessian", n),
        listed=_listed(record, inner),
    )


def _vectors(
    record: dict[str, Any], inner: Any, right: IntArray, size: int, n_outputs: int
) -> FloatArray:
    """Return the leaf vectors, indexed by the right child, or listed for all nodes."""
    if size != n_outputs:
        raise ModelFormatError(f"a tree has leaves with {size} numbers for {n_outputs} outputs.")
    n = len(inner)
    value = np.full((n, size), np.nan)
    if "leaf_weights" in record:
        weights = records.floats(record, "leaf_weights").astype(np.float32).astype(np.float64)
        place = right[~inner]
        if len(weights) % size or ((place < 0) | (place >= len(weights) // size)).any():
            raise ModelFormatError("'leaf_weights' does not fit the leaves.")
        value[~inner] = weights.reshape(-1, size)[place]
        return value
    every = records.floats(record, "base_weights", n * size).astype(np.float32)
    value[~inner] = every.astype(np.float64).reshape(n, size)[~inner]
    return value


def _listed(record: dict[str, Any], inner: Any) -> dict[int, IntArray]:
    """Return the categories of each category split."""
    kinds = record.get("split_type")
    split_type = np.zeros(len(inner), np.int64)
    if kinds is not None:
        split_type = records.ints(record, "split_type", len(inner))
    chosen = set(np.flatnonzero((split_type == 1) & inner).tolist())
    if not chosen:
        return {}
    nodes = records.ints(record, "categories_nodes").tolist()
    begin = records.ints(record, "categories_segments", len(nodes)).tolist()
    size = records.ints(record, "categories_sizes", len(nodes)).tolist()
    every = records.ints(record, "categories")
    if len(set(nodes)) < len(nodes) or not chosen <= set(nodes):
        raise ModelFormatError("'categories_nodes' does not fit the splits.")
    found, total = {}, 0
    for node, first, count in zip(nodes, begin, size, strict=True):
        if not (0 <= first <= len(every) and 0 <= count <= len(every) - first):
            raise ModelFormatError("'categories_segments' goes beyond the categories.")
        total += count
        if total > _MOST_LISTED:
            raise ModelFormatError("the sets of categories are too large.")
        if node in chosen:
            found[node] = distinct(every[first : first + count])
            if len(found[node]) and not 0 <= found[node][0] <= found[node][-1] < 2**31:
                raise ModelFormatError("a category is outside its range.")
    return found


def table_of(trees: Sequence[Tree], coded: dict[int, Coded]) -> TreeTable:
    """Return all trees in one table."""
    sizes = [len(tree.feature) for tree in trees]
    start = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    if len({tree.value.ndim for tree in trees}) > 1:
        raise ModelFormatError("some trees have vector leaves and others do not.")

    def all_of(name: str, empty: Any) -> Any:
        parts = [getattr(tree, name) for tree in trees]
        return np.concatenate(parts) if parts else empty

    none = np.zeros(0)
    cut = all_of("cut", none.astype(np.float32))
    feature = all_of("feature", none.astype(np.int64))
    key = keys_below_float32(np.where(np.isnan(cut), np.float32(0.0), cut))
    is_set = np.zeros(len(feature), np.bool_)
    members: list[IntArray] = []
    for first, tree in zip(start.tolist(), trees, strict=False):
        for node, listed in sorted(tree.listed.items()):
            is_set[first + node] = True
            key[first + node] = len(members)
            members.append(coded[int(tree.feature[node])].others(listed))
    sets = CategorySets(is_set, members, np.ones(len(members), dtype=np.bool_))
    cover = np.clip(np.nan_to_num(all_of("cover", none)), 0.0, None)
    return TreeTable(
        start=start,
        feature=feature,
        key=key,
        missing_left=all_of("missing_left", none.astype(np.bool_)),
        left=all_of("left", none.astype(np.int64)),
        right=all_of("right", none.astype(np.int64)),
        value=all_of("value", none),
        gain=all_of("gain", none),
        cover=cover,
        count=np.zeros(len(feature), dtype=np.int64),
        sets=sets,
    )
