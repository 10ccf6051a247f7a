"""Bounds of the leaf values of several outputs, from ordered splits above a node.

A split of an ordered column keeps the middle of the leaf values of its sides, of each output,
behind the node's own values (``Outputs.vectors``).  All leaves on one side of it stay below the
middle, and all on the other above (:mod:`hedgerow.kernels.splits.monotone`).
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core import state as s
from hedgerow.growing.core.stages.branches import SETS_APART, sets_apart
from hedgerow.kernels.splits.monotone import Constraints


@kernel(inner=True)
def bounds_above(
    constraints: Constraints, table: IntArray, node: int, outputs: s.Outputs, output: int
) -> tuple[float, float]:
    """Return the lowest and the highest leaf value of an output in a node."""
    low, high, n_outputs = -np.inf, np.inf, outputs.scalars.shape[0]
    child, above = np.int64(node), constraints.parent[node]
    while above >= 0:
        feature = table[above, s.NODE_FEATURE]
        sign = constraints.sign[feature]
        if sign != 0.0 and not sets_apart(constraints, table[above]):
            middle = outputs.vectors[above, n_outputs + output]
            if (table[above, s.NODE_LEFT] == child) == (sign > 0.0):
                high = min(high, middle)
            else:
                low = max(low, middle)
        child, above = above, constraints.parent[above]
    return low, high


def bounds_of_outputs(
    table: IntArray, kept: FloatArray, constraints: Constraints, n_outputs: int
) -> FloatArray | None:
    """Return the bounds of :func:`bounds_above` for all nodes of a tree; None if there are none."""
    if kept.shape[1] == n_outputs:
        return None
    bounds = np.tile(np.array([[-np.inf], [np.inf]]), (len(table), 1, n_outputs))
    for parent, row in enumerate(table):  # parents come first
        left, right = int(row[s.NODE_LEFT]), int(row[s.NODE_RIGHT])
        if left == 0:
            continue
        bounds[[left, right]] = bounds[parent]
        sign = constraints.sign[row[s.NODE_FEATURE]]
        if len(constraints.last_bin) > 0:  # as in `sets_apart`
            apart = row[s.NODE_BIN] == constraints.last_bin[row[s.NODE_FEATURE]]
        else:
            apart = row[s.NODE_COLUMN] == SETS_APART
        if sign == 0.0 or apart:
            continue
        middle = kept[parent, n_outputs:]
        below, above = (left, right) if sign > 0.0 else (right, left)
        bounds[below, 1] = np.minimum(bounds[below, 1], middle)
        bounds[above, 0] = np.maximum(bounds[above, 0], middle)
    return bounds
