"""A single tree as JSON, in the form of :mod:`hedgerow.io.json_form`."""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.io.json_form import FORMAT, VERSION
from hedgerow.model.cart_tree import CartTree


def tree_document(tree: CartTree, classes: Any = None) -> dict[str, Any]:
    """Return the document as Python objects that JSON can represent.

    Parameters
    ----------
    tree : CartTree
    classes : array, or list of arrays, optional
        Class labels of y, or of each column of y.

    Examples
    --------
    >>> from hedgerow import CARTRegressor
    >>> model = CARTRegressor(max_depth=1).fit([[1.0], [2.0], [4.0]], [0.0, 0.0, 3.0])
    >>> root = tree_document(model.tree_)["trees"][0]["root"]
    >>> root["threshold"], root["left"]["values"], root["right"]["values"]
    (3.0, [0.0], [3.0])
    """
    found: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "objective": "cart",
        "n_outputs": int(tree.value.shape[1]),
        "base_score": [0.0] * int(tree.value.shape[1]),
        "features": [{"name": c.name, "kind": c.kind} for c in tree.schema.columns],
    }
    if classes is not None:
        several = isinstance(classes, list)
        found["classes"] = [own.tolist() for own in classes] if several else classes.tolist()
    nodes = [_node(tree, node) for node in range(tree.node_count)]
    for node in reversed(range(tree.node_count)):  # children may have any index
        if tree.feature[node] >= 0:
            nodes[node]["left"] = nodes[int(tree.children_left[node])]
            nodes[node]["right"] = nodes[int(tree.children_right[node])]
    found["trees"] = [{"output": None, "root": nodes[0]}]
    return found


def _node(tree: CartTree, node: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "count": int(tree.n_node_samples[node]),
        "cover": float(tree.weighted_n_node_samples[node]),
        "impurity": float(tree.impurity[node]),
        "values": tree.value[node].tolist(),
    }
    feature = int(tree.feature[node])
    if feature < 0:
        return found
    found |= {"feature": feature, "missing": "left" if tree.missing_left[node] else "right"}
    if tree.is_categorical[node]:
        left, right = tree.categories(node)
        found |= {"left_levels": left.tolist(), "right_levels": right.tolist()}
        return found
    threshold = float(tree.threshold[node])
    if tree.schema.kinds[feature] == "int" and np.isfinite(threshold):
        found["threshold"] = int(tree.threshold_key[node])
    else:
        found["threshold"] = threshold if np.isfinite(threshold) else repr(threshold)
    return found


__all__ = ["tree_document"]
