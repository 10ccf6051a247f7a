"""Trees as nested dicts."""

from __future__ import annotations

from typing import Any

import hedgerow

_OF_SPLITS = ("feature", "threshold", "left_levels", "gain")


def roots_of(model: hedgerow.Booster) -> list[dict[str, Any]]:
    """Return the root of each tree; a split has its children as ``left`` and ``right``."""
    place = {name: j for j, name in enumerate(model.model.split_schema.names)}
    found: list[dict[str, Any]] = []
    columns = model.to_frame(None)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for number in reversed(range(len(rows))):  # children come after their parents
        row = rows[number]
        first = number - row["node"]
        node = {name: row[name] for name in ("value", "cover", "count")}
        if row["feature"] is not None:
            node |= {name: row[name] for name in _OF_SPLITS if row.get(name) is not None}
            node["feature"] = place[row["feature"]]
            node["left"], node["right"] = (rows[first + row[side]] for side in ("left", "right"))
        rows[number] = node
        if row["node"] == 0:
            found.append(node)
    return found[::-1]
