"""Leaf values drawn toward those of the nodes above them.

With ``s = path_smooth`` and v the value of a node of n rows by its own sums,

    smoothed(root)  = v
    smoothed(node)  = (n v + s smoothed(parent)) / (n + s)

as in LightGBM's ``path_smooth``: what few rows say counts less, and what is left out is
said by the rows around them.  LightGBM also ranks splits by smoothed values; here only
values are smoothed, so that the search is the usual one.

Thread 0 alone runs this code.  It is a part of no fit without ``path_smooth``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray
from hedgerow.compile import kernel
from hedgerow.growing.state import NODE_COUNT, NODE_LEFT, NODE_RIGHT, NUMBER_VALUE, Tree
from hedgerow.params import BoostParams


def smoothing_of(params: BoostParams) -> float | None:
    """``path_smooth``; None where nothing is smoothed."""
    return float(params.path_smooth) if params.path_smooth > 0.0 else None


@kernel(inline=True, inner=True)
def smoothed(value: float, above: float, n_rows: float, path_smooth: float) -> float:
    """Value of a node of ``n_rows`` rows below one of value ``above``."""
    return (n_rows * value + path_smooth * above) / (n_rows + path_smooth)


@kernel(inner=True)
def smooth_values(path_smooth: float | None, tree: Tree, n_nodes: int) -> None:
    """Smooth the values of all nodes, parents before children."""
    if path_smooth is None:
        return
    table, numbers = tree.table, tree.numbers
    for node in range(n_nodes):
        if table[node, NODE_LEFT] == 0:
            continue
        above = numbers[node, NUMBER_VALUE]
        for side in range(2):
            child = table[node, NODE_LEFT] if side == 0 else table[node, NODE_RIGHT]
            n_rows = float(table[child, NODE_COUNT])
            value = numbers[child, NUMBER_VALUE]
            numbers[child, NUMBER_VALUE] = smoothed(value, above, n_rows, path_smooth)


def smooth_path(
    value: FloatArray,
    n_rows: FloatArray,
    left: npt.NDArray[np.int32],
    right: npt.NDArray[np.int32],
    path_smooth: float,
) -> FloatArray:
    """The same of a finished tree, whose children stand behind their parents."""
    values = value.tolist()
    for node, child in enumerate(left.tolist()):
        if child > 0:
            for below in (child, int(right[node])):
                n, own = float(n_rows[below]), values[below]
                values[below] = (n * own + path_smooth * values[node]) / (n + path_smooth)
    return np.array(values)
