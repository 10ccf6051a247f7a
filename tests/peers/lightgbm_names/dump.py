"""A model as nested dicts with the keys of LightGBM's ``dump_model``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import hedgerow
from tests.peers.nested import roots_of


def dumped(model: hedgerow.Booster, names: list[str]) -> dict[str, Any]:
    """Return the trees."""
    each, base = model.model.forest.trees_per_round, model.model.forest.base_score
    return {
        "name": "tree",
        "num_class": model.model.forest.n_outputs,
        "num_tree_per_iteration": each,
        "max_feature_idx": model.num_features - 1,
        "feature_names": names,
        "feature_importances": {
            name: int(count)
            for name, count in zip(names, model.feature_importance("split"), strict=True)
            if count
        },
        "tree_info": [
            _tree(number, root, float(base[number]) if number < each else 0.0)
            for number, root in enumerate(roots_of(model))
        ],
    }


def _tree(number: int, root: dict[str, Any], base: float) -> dict[str, Any]:
    """Return a tree; those of the first round hold the base score there."""
    counts = {"leaf": 0, "split": 0, "depth": 0}
    structure = _node(root, counts, 0, base)
    return {
        "tree_index": number,
        "num_leaves": counts["leaf"],
        "max_depth": counts["depth"],
        "shrinkage": 1,
        "tree_structure": structure,
    }


def _node(node: dict[str, Any], counts: dict[str, int], depth: int, base: float) -> dict[str, Any]:
    counts["depth"] = max(counts["depth"], depth)
    if "left" not in node:
        counts["leaf"] += 1
        return {
            "leaf_index": counts["leaf"] - 1,
            "leaf_value": base + float(np.ravel(node["value"])[0]),
            "leaf_weight": node.get("cover", 0.0),
            "leaf_count": node.get("count", 0),
        }
    counts["split"] += 1
    levels = node.get("left_levels")
    return {
        "split_index": counts["split"] - 1,
        "split_feature": node["feature"],
        "split_gain": node.get("gain", 0.0),
        "threshold": "||".join(map(str, levels)) if levels else node.get("threshold"),
        "decision_type": "==" if levels is not None else "<=",
        "default_left": bool(node.get("missing_left", False)),
        "missing_type": "NaN",
        "internal_value": base + _mean(node)[0],
        "internal_weight": node.get("cover", 0.0),
        "internal_count": node.get("count", 0),
        "left_child": _node(node["left"], counts, depth + 1, base),
        "right_child": _node(node["right"], counts, depth + 1, base),
    }


def _mean(node: dict[str, Any]) -> tuple[float, float]:
    """Return the mean of the leaves below a node, and their weight."""
    if "left" not in node:
        value = float(np.ravel(node["value"])[0])
        return value, float(node.get("cover", 1.0))
    (left, some), (right, others) = _mean(node["left"]), _mean(node["right"])
    whole = some + others
    return ((left * some + right * others) / whole if whole > 0.0 else 0.0), whole


def frame_of(model: dict[str, Any]) -> pd.DataFrame:
    """One row for each node."""
    found: list[dict[str, Any]] = []
    for tree in model["tree_info"]:
        _add(found, tree["tree_structure"], tree["tree_index"], 1, None, model["feature_names"])
    whole = pd.DataFrame(found, dtype=object)
    if len(found) == 1:  # of a single leaf there is nothing to tell
        kept = ("tree_index", "node_depth", "node_index", "value")
        return pd.DataFrame(
            {name: pd.Series([found[0][name] if name in kept else None], dtype=object)
             for name in whole.columns}
        )  # fmt: skip
    numbers = ["tree_index", "node_depth", "split_gain", "value", "weight", "count"]
    return whole.astype(dict.fromkeys(numbers, float)).astype({"tree_index": int, "count": int})


def _index(node: dict[str, Any], tree: int) -> str:
    leaf = "leaf_index" in node
    return f"{tree}-{'L' if leaf else 'S'}{node['leaf_index' if leaf else 'split_index']}"


def _add(
    found: list[dict[str, Any]], node: dict[str, Any], tree: int, depth: int, parent: Any,
    names: list[str],
) -> None:  # fmt: skip
    leaf = "leaf_index" in node
    found.append({
        "tree_index": tree,
        "node_depth": depth,
        "node_index": _index(node, tree),
        "left_child": None if leaf else _index(node["left_child"], tree),
        "right_child": None if leaf else _index(node["right_child"], tree),
        "parent_index": parent,
        "split_feature": None if leaf else names[node["split_feature"]],
        "split_gain": np.nan if leaf else node["split_gain"],
        "threshold": np.nan if leaf else node["threshold"],
        "decision_type": None if leaf else node["decision_type"],
        "missing_direction": None if leaf else ("left" if node["default_left"] else "right"),
        "missing_type": None if leaf else node["missing_type"],
        "value": node["leaf_value"] if leaf else node["internal_value"],
        "weight": node["leaf_weight"] if leaf else node["internal_weight"],
        "count": node["leaf_count"] if leaf else node["internal_count"],
    })  # fmt: skip
    if not leaf:
        here = _index(node, tree)
        _add(found, node["left_child"], tree, depth + 1, here, names)
        _add(found, node["right_child"], tree, depth + 1, here, names)
