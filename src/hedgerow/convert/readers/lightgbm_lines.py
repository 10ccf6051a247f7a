"""Linear leaves of a LightGBM model (``linear_tree=True``).

Such a leaf predicts ``leaf_const`` plus its terms, without bounds; if the value of
one of its columns is NaN, it predicts ``leaf_value``.
"""

from __future__ import annotations

import numpy as np

from hedgerow.convert.readers.lightgbm_nodes import Nodes
from hedgerow.convert.readers.tokens import joined, read_floats, read_ints
from hedgerow.convert.trees import TreeTable
from hedgerow.errors import ModelFormatError
from hedgerow.kernels.prediction.slopes import Slopes


def read_lines(nodes: Nodes, table: TreeTable, n_features: int) -> Slopes | None:
    """Return the terms of all leaves; the leaf values become the constants of the lines."""
    linear = np.array([tree.get("is_linear", "0") == "1" for tree in nodes.trees], dtype=np.bool_)
    if not linear.any():
        return None
    lines = [tree if is_line else {} for tree, is_line in zip(nodes.trees, linear, strict=True)]
    leaves = np.where(linear, nodes.n_leaves, 0)
    at = nodes.leaf[np.repeat(linear, nodes.n_leaves)]
    const = read_floats(
        joined([tree.get("leaf_const", "") for tree in lines], leaves, "leaf_const"), "leaf_const"
    )
    known = read_ints(
        joined([tree.get("num_features", "") for tree in lines], leaves, "num_features"),
        "num_features",
    )
    if (known < 0).any() or (known > n_features).any():
        raise ModelFormatError("num_features of a leaf is outside its range.")
    if not np.isfinite(const).all():
        raise ModelFormatError("leaf_const must be finite.")
    total = int(known.sum())
    column = read_ints(_flat(lines, "leaf_features"), "leaf_features")
    slope = read_floats(_flat(lines, "leaf_coeff"), "leaf_coeff")
    if len(column) != total or len(slope) != total:
        raise ModelFormatError("leaf_features and leaf_coeff do not fit num_features.")
    n_nodes = len(table.feature)
    counts = np.zeros(n_nodes, dtype=np.int64)
    counts[at] = known
    start = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    fallback = np.zeros(n_nodes)
    fallback[at] = table.value[at] - const
    table.value[at] = const
    center = np.repeat(fallback, counts)
    bound = np.where(counts > 0, np.inf, 0.0)
    return Slopes(start, column.astype(np.int32), slope, center, -bound, bound)


def _flat(trees: list[dict[str, str]], name: str) -> str:
    """Return the numbers of all leaves; leaves without numbers leave extra spaces."""
    return " ".join(number for tree in trees for number in tree.get(name, "").split())
