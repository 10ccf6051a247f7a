"""Trees as XGBoost shows them."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

import hedgerow
from tests.peers.nested import roots_of


def trees_of(model: hedgerow.Booster, names: list[str]) -> list[dict[str, Any]]:
    """Return the trees as nested dicts with the keys of XGBoost's JSON."""
    found = []
    for root in roots_of(model):
        queue = [(root, 0, 0)]
        count = 1
        known: dict[int, dict[str, Any]] = {}
        children: dict[int, tuple[int, int]] = {}
        while queue:  # numbered level by level
            node, number, depth = queue.pop(0)
            known[number] = _node(node, number, depth, names)
            if "left" in node:
                children[number] = (count, count + 1)
                queue += [(node["left"], count, depth + 1), (node["right"], count + 1, depth + 1)]
                count += 2
        for number, (left, right) in sorted(children.items(), reverse=True):
            first_left = known[number].pop("missing_left")
            known[number] |= {
                "yes": left,
                "no": right,
                "missing": left if first_left else right,
                "children": [known[left], known[right]],
            }
        found.append(known[0])
    return found


def _node(node: dict[str, Any], number: int, depth: int, names: list[str]) -> dict[str, Any]:
    if "left" not in node:
        return {"nodeid": number, "leaf": node["value"], "cover": node.get("cover", 0.0)}
    levels = node.get("left_levels")
    return {
        "nodeid": number,
        "depth": depth,
        "split": names[node["feature"]],
        "split_condition": node.get("threshold") if levels is None else levels,
        "gain": node.get("gain", 0.0),
        "cover": node.get("cover", 0.0),
        "missing_left": node.get("missing_left", False),
    }


def text_of(tree: dict[str, Any], stats: bool, depth: int = 0) -> str:
    """One node a line, indented."""
    tabs = "\t" * depth
    if "leaf" in tree:
        more = f",cover={tree['cover']:g}" if stats else ""
        return f"{tabs}{tree['nodeid']}:leaf={tree['leaf']}{more}\n"
    cut = tree["split_condition"]
    rule = f"{tree['split']}:{{{','.join(map(str, cut))}}}" if isinstance(cut, list) else (
        f"{tree['split']}<{cut}"
    )  # fmt: skip
    more = f",gain={tree['gain']:g},cover={tree['cover']:g}" if stats else ""
    ways = ",".join(f"{way}={tree[way]}" for way in ("yes", "no", "missing"))
    line = f"{tabs}{tree['nodeid']}:[{rule}] {ways}{more}\n"
    return line + "".join(text_of(child, stats, depth + 1) for child in tree["children"])


def dumped(model: hedgerow.Booster, names: list[str], stats: bool, form: str) -> list[str]:
    """One text for each tree."""
    trees = trees_of(model, names)
    if form == "json":
        return [json.dumps(tree, indent=2) for tree in trees]
    return [text_of(tree, stats) for tree in trees]


def frame_of(model: hedgerow.Booster, names: list[str]) -> pd.DataFrame:
    """One row for each node."""
    found: list[dict[str, Any]] = []

    def add(tree: int, node: dict[str, Any]) -> None:
        leaf = "leaf" in node
        cut = None if leaf else node["split_condition"]
        found.append({
            "Tree": tree,
            "Node": node["nodeid"],
            "ID": f"{tree}-{node['nodeid']}",
            "Feature": "Leaf" if leaf else node["split"],
            "Split": None if leaf or isinstance(cut, list) else float(cut),
            "Yes": None if leaf else f"{tree}-{node['yes']}",
            "No": None if leaf else f"{tree}-{node['no']}",
            "Missing": None if leaf else f"{tree}-{node['missing']}",
            "Gain": node["leaf"] if leaf else node["gain"],
            "Cover": node["cover"],
            "Category": cut if isinstance(cut, list) else None,
        })  # fmt: skip
        for child in node.get("children", ()):
            add(tree, child)

    for number, tree in enumerate(trees_of(model, names)):
        add(number, tree)
    return pd.DataFrame(found).sort_values(["Tree", "Node"]).reset_index(drop=True)


__all__ = ["dumped", "frame_of"]
