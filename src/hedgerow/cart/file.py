"""The file format of a single tree (CART), as safe to read as the file of a boosted model.

The container is :mod:`hedgerow.io.container`.  ``format`` is ``"hedgerow cart"``, and the
arrays are the fields of :class:`hedgerow.cart.tree.CartTree`::

    metadata   format, schema_version, schema, estimator (class, parameters, classes)
    arrays     one entry per node; value: one per node and output; the categories of all nodes
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hedgerow.arrays import BoolArray
from hedgerow.cart.tree import CartTree
from hedgerow.errors import ModelFormatError
from hedgerow.io import container, strict_json
from hedgerow.io.model_file import FORMAT_OF_TREES, record_of_text, schema_of_text, schema_text

VERSION = "1"

_F64, _I64, _I32, _U8 = (np.dtype(kind) for kind in (np.float64, np.int64, np.int32, np.uint8))
_DTYPES: dict[str, np.dtype[np.generic]] = {
    "threshold_key": _I64,
    "value": _F64,
    "impurity": _F64,
    "n_node_samples": _I64,
    "weighted_n_node_samples": _F64,
    "category_start": _I64,
    "category": _I64,
    "feature": _I32,
    "children_left": _I32,
    "children_right": _I32,
    "missing_left": _U8,
    "category_left": _U8,
}
"""Element type of every array in the order of the file, widest first."""

_PER_NODE = tuple(name for name in _DTYPES if not name.startswith(("category", "value")))


def tree_to_bytes(tree: CartTree, estimator: Mapping[str, Any]) -> bytes:
    """Return the content of a file; equal trees have equal bytes."""
    metadata = {
        "estimator": strict_json.encode(estimator, "estimator"),
        "format": FORMAT_OF_TREES,
        "schema": schema_text(tree.schema),
        "schema_version": VERSION,
    }
    arrays = {name: getattr(tree, name).reshape(-1) for name in _DTYPES}
    return b"".join(container.pack(metadata, arrays))


def tree_from_bytes(data: bytes) -> tuple[CartTree, dict[str, Any]]:
    """Return the tree and the record of its estimator from the content of a file."""
    header, payload = container.unpack(data)
    metadata, found = header.metadata, header.metadata.get("format")
    if found != FORMAT_OF_TREES:
        what = "a boosted model: read it with hedgerow.load" if found == "hedgerow" else "another"
        raise ModelFormatError(f"this is not the file of a single tree, but {what}.")
    if metadata.get("schema_version") != VERSION:
        raise ModelFormatError("the file was written by a newer Hedgerow: upgrade it.")
    container.check_header(header, _DTYPES, {"schema", "estimator"})
    arrays = {name: container.array_at(header, name, payload) for name in _DTYPES}
    n_nodes = len(arrays["feature"])
    if n_nodes == 0:
        raise ModelFormatError("the tree has no nodes.")
    n_values, rest = divmod(len(arrays["value"]), n_nodes)
    if rest or n_values == 0:
        raise ModelFormatError("value must have the same number of entries for each node.")
    arrays["value"] = arrays["value"].reshape(n_nodes, n_values)
    tree = CartTree(**arrays, schema=schema_of_text(metadata["schema"]))
    check_tree(tree)
    return tree, record_of_text(metadata["estimator"], "estimator")


def check_tree(tree: CartTree) -> None:
    """Raise ``ModelFormatError`` unless it is safe to predict with a tree.

    Kernels walk the arrays without bounds checks.  Children come after their parent, and
    every node except the root has exactly one parent, so every walk ends.
    """
    n_nodes = len(tree.feature)
    for name in _PER_NODE:
        _require(len(getattr(tree, name)) == n_nodes, f"{name} must have an entry for each node")
    inner = tree.feature >= 0
    within = (tree.feature >= -1) & (tree.feature < tree.schema.n_features)
    _require(within, "feature must be the position of a column, or -1 in a leaf")
    nodes = np.arange(n_nodes)
    for name in ("children_left", "children_right"):
        child = getattr(tree, name)
        _require(child[~inner] == -1, f"{name} must be -1 in a leaf")
        behind = (child[inner] > nodes[inner]) & (child[inner] < n_nodes)
        _require(behind, f"{name} must come after its parent")
    both = np.concatenate([tree.children_left[inner], tree.children_right[inner]])
    parents = np.bincount(both, minlength=n_nodes)
    _require(parents[1:] == 1, "every node but the root must have one parent")
    _require(parents[:1] == 0, "the root must have no parent")
    _require(tree.missing_left <= 1, "missing_left must be 0 or 1")
    for name in ("value", "impurity", "weighted_n_node_samples"):
        _require(np.isfinite(getattr(tree, name)), f"{name} must be finite")
    _require(tree.n_node_samples >= 0, "n_node_samples must not be negative")
    _require(tree.weighted_n_node_samples >= 0, "weighted_n_node_samples must not be negative")
    _check_categories(tree, inner)


def _check_categories(tree: CartTree, inner: BoolArray) -> None:
    start, n_seen = tree.category_start, len(tree.category)
    _require(len(start) == len(inner) + 1, "category_start must have one entry more than nodes")
    _require(len(tree.category_left) == n_seen, "each category must have a side")
    _require((start[0] == 0) & (start[-1] == n_seen), "category_start must span all categories")
    sizes = np.diff(start)
    _require(sizes >= 0, "category_start must not decrease")
    _require(sizes[~inner] == 0, "a leaf must have no categories")
    _require(tree.category_left <= 1, "category_left must be 0 or 1")
    if n_seen > 1:
        first = np.zeros(n_seen + 1, dtype=np.bool_)
        first[start] = True
        rises = tree.category[1:] > tree.category[:-1]
        _require(rises | first[1:-1], "the categories of a node must ascend")


def _require(holds: Any, rule: str) -> None:
    if not np.all(holds):
        raise ModelFormatError(f"{rule}.")
