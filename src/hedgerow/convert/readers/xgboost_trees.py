"""Trees and category columns of an XGBoost model.

A model trained on a data frame contains the categories (version 3.1 and later), and
splits refer to them by position.  Otherwise whole numbers are the categories, and the model
knows only those in its splits.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray, IntArray, distinct
from hedgerow.convert.categories import Coded
from hedgerow.convert.readers import records
from hedgerow.convert.thresholds import keys_below_float32
from hedgerow.convert.trees import TreeTable
from hedgerow.errors import ModelFormatError

_MOST_LISTED = 2**26


def read_tree(record: dict[str, Any], n_features: int, n_outputs: int) -> TreeTable:
    """Read one tree; its sets hold the categories that go right, instead of levels."""
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
    return TreeTable(
        feature=feature,
        key=keys_below_float32(np.where(np.isnan(cut), np.float32(0.0), cut)),
        missing_left=records.ints(record, "default_left", n) != 0,
        left=left,
        right=np.where(inner, right, -1),
        value=value,
        gain=records.floats(record, "loss_changes", n),
        cover=np.clip(np.nan_to_num(records.floats(record, "sum_hessian", n)), 0.0, None),
        sets=_listed(record, inner),
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


def coded_columns(
    cats: Any, learner: dict[str, Any], table: TreeTable, n_features: int
) -> dict[int, Coded]:
    """Return all category columns; the sets of the table hold codes."""
    named: dict[int, set[int]] = {}
    for j, kind in enumerate(records.texts(learner, "feature_types")):
        if kind == "c":
            named[j] = set()
    for node, listed in table.sets.items():
        named.setdefault(int(table.feature[node]), set()).update(listed.tolist())
    if any(not 0 <= j < n_features for j in named):
        raise ModelFormatError("a category column does not exist.")
    known = {} if cats is None else _encodings(cats, n_features)
    return {
        j: known[j] if j in known else Coded.of_numbers(codes, "down", f"column {j}")
        for j, codes in named.items()
    }


def _encodings(cats: Any, n_features: int) -> dict[int, Coded]:
    """Return the categories that the model contains."""
    if not isinstance(cats, dict):
        raise ModelFormatError("'cats' must be an object.")
    encodings = records.objects(cats, "enc", missing=True)
    if len(encodings) not in (0, n_features):
        raise ModelFormatError(f"'enc' must have {n_features} entries.")
    levels = {j: _levels(encoding, j) for j, encoding in enumerate(encodings)}
    return {j: Coded.of(own, range(len(own)), f"column {j}") for j, own in levels.items() if own}


def _levels(encoding: dict[str, Any], j: int) -> list[Any]:
    if "offsets" not in encoding:
        values = records.floats(encoding, "values")
        if np.isnan(values).any():
            raise ModelFormatError(f"column {j} has a category that is NaN.")
        is_float = np.asarray(encoding["values"]).dtype.kind == "f"
        return values.tolist() if is_float else records.ints(encoding, "values").tolist()
    offsets = records.ints(encoding, "offsets")
    letters = records.ints(encoding, "values")
    if len(offsets) == 0 and len(letters) == 0:
        return []
    rises = len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == len(letters)
    if not rises or (np.diff(offsets) < 0).any() or ((letters < -128) | (letters > 255)).any():
        raise ModelFormatError(f"the categories of column {j} are malformed.")
    raw = (letters & 0xFF).astype(np.uint8).tobytes()
    ends = offsets.tolist()
    try:
        return [raw[a:b].decode("utf-8") for a, b in pairwise(ends)]
    except UnicodeDecodeError as error:
        raise ModelFormatError(f"a category of column {j} is not UTF-8: {error.reason}.") from None
