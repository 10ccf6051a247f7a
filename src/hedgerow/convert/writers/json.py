"""Writer of JSON with a documented schema (docs/import-export.md), for any language.

Numbers are the shortest decimals that restore the float64; infinite thresholds are ``"inf"``
and ``"-inf"``.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.convert.writers.plain import PlainModel, PlainTree

VERSION = 1
VERSION_WITH_MORE = 2
"""Version if leaves have terms, or inputs of the trees are computed from the columns."""


def write(plain: PlainModel, approximate: bool, notes: list[str]) -> bytes:
    """Return the text of a model."""
    schema, computed = plain.schema, {}
    if not plain.is_simple:
        computed["statistics"] = [
            {
                "columns": list(statistic.columns),
                "keys": np.stack(
                    np.unravel_index(
                        statistic.keys, [schema.n_levels(j) + 2 for j in statistic.columns]
                    ),
                    axis=1,
                ).tolist(),
                "values": statistic.values.T.tolist(),
                "other_values": statistic.prior.tolist(),
            }
            for statistic in plain.statistics
        ]
        computed["crosses"] = [cross._asdict() for cross in plain.crosses]
    document = {
        "format": "hedgerow-json",
        "version": VERSION if plain.is_simple else VERSION_WITH_MORE,
        "objective": plain.objective,
        "link": plain.link or "raw",
        "classes": None if plain.classes is None else plain.classes.tolist(),
        "n_outputs": plain.n_outputs,
        "base_score": plain.forest.base_score.tolist(),
        "zero_is_missing_up_to": schema.zero_missing_up_to,
        "columns": [
            {"name": c.name, "kind": c.kind, "rounding": c.rounding, "levels": list(c.levels)}
            if c.kind == "category"
            else {"name": c.name, "kind": c.kind}
            for c in plain.columns
        ],
        **computed,
        "trees": [_tree(plain, t, tree) for t, tree in enumerate(plain.trees())],
    }
    return (json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n").encode()


def _tree(plain: PlainModel, number: int, tree: PlainTree) -> dict[str, Any]:
    nodes: list[dict[str, Any]] = []
    for node in range(len(tree.column)):
        if tree.column[node] < 0:
            nodes.append({"value": float(tree.value[node]), **_terms(tree, node)})
            continue
        split: dict[str, Any] = {"column": int(tree.column[node])}
        if node in tree.members:
            split["left_levels"] = tree.members[node].tolist()
            split["unknown_left"] = tree.unknown_left[node]
        else:
            cut = float(tree.threshold[node])
            split["up_to"] = cut if math.isfinite(cut) else str(cut)
        split["missing_left"] = bool(tree.missing_left[node])
        split["left"], split["right"] = int(tree.left[node]), int(tree.right[node])
        nodes.append(split)
    return {"output": number % plain.n_outputs, "nodes": nodes}


def _terms(tree: PlainTree, node: int) -> dict[str, Any]:
    """Return the members of a leaf with terms."""
    line = tree.lines.get(node)
    if line is None:
        return {}
    terms = [
        {"column": j, "slope": slope, "center": center if line.is_bounded else 0.0}
        for j, slope, center in zip(line.columns, line.slopes, line.centers, strict=True)
    ]
    if line.is_bounded:
        return {"terms": terms, "low": line.low, "high": line.high}
    return {"terms": terms, "if_missing": line.centers[0]}


def predict(data: bytes, plain: PlainModel, matrix: FloatArray) -> FloatArray:
    """Compute raw scores from the document, row by row; ``matrix`` has codes of categories."""
    document = json.loads(data)
    sizes = [len(column.get("levels", ())) for column in document["columns"]]
    computed = [
        *(_look_up(matrix, statistic, sizes) for statistic in document.get("statistics", ())),
        *(_crossed(matrix, cross) for cross in document.get("crosses", ())),
    ]
    matrix = np.column_stack([matrix, *computed])
    scores = np.tile(np.array(document["base_score"]), (len(matrix), 1))
    for tree in document["trees"]:
        nodes = tree["nodes"]
        sets = [frozenset(node.get("left_levels", ())) for node in nodes]
        for row, values in enumerate(matrix.tolist()):
            place = 0
            while "value" not in nodes[place]:
                node = nodes[place]
                x = values[node["column"]]
                if math.isnan(x):
                    left = node["missing_left"]
                elif "up_to" in node:
                    left = x <= float(node["up_to"])
                else:
                    known = x < sizes[node["column"]]
                    left = int(x) in sets[place] if known else node["unknown_left"]
                place = node["left"] if left else node["right"]
            leaf = nodes[place]
            scores[row, tree["output"]] += leaf["value"] + _sum_of_terms(leaf, values)
    return scores


def _look_up(matrix: FloatArray, statistic: dict[str, Any], sizes: list[int]) -> FloatArray:
    values = dict(zip(map(tuple, statistic["keys"]), statistic["values"], strict=True))
    codes = [np.nan_to_num(matrix[:, j], nan=sizes[j] + 1) for j in statistic["columns"]]
    known = [c != sizes[j] for c, j in zip(codes, statistic["columns"], strict=True)]
    rows = zip(*(c.astype(int).tolist() for c in codes), strict=True)
    others = statistic["other_values"]
    found = [
        values.get(row, others) if is_known else others
        for row, is_known in zip(rows, np.all(known, axis=0).tolist(), strict=True)
    ]
    return np.array(found)


def _crossed(matrix: FloatArray, cross: dict[str, Any]) -> FloatArray:
    a, b = matrix[:, cross["first"]], matrix[:, cross["second"]]
    with np.errstate(all="ignore"):
        if cross["operation"] == "product":
            return a * b
        return a - b if cross["operation"] == "difference" else np.where(b == 0.0, np.nan, a / b)


def _sum_of_terms(leaf: dict[str, Any], values: list[float]) -> float:
    bounded, total = "low" in leaf, 0.0
    for term in leaf.get("terms", ()):
        x = values[term["column"]]
        if math.isnan(x) and not bounded:
            return float(leaf["if_missing"])
        if math.isfinite(x) or not bounded:
            total += term["slope"] * (x - term["center"])
    if not bounded:
        return total
    return 0.0 if math.isnan(total) else min(max(total, leaf["low"]), leaf["high"])
