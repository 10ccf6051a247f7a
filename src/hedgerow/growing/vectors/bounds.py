"""Bounds of the leaf values of several outputs, from ordered splits above a node.

A split of an ordered column keeps the middle of the leaf values of its sides, of each output,
behind the node's own values (``Outputs.vectors``).  All leaves on one side of it stay below the
middle, and all on the other above (:mod:`hedgerow.kernels.splits.monotone`).
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core.state import NODE_BIN, NODE_FEATURE, NODE_LEFT, Outputs
from hedgerow.kernels.splits.monotone import Constraints


@kernel(inner=True)
def bounds_above(
    constraints: Constraints, table: IntArray, node: int, outputs: Outputs, output: int
) -> tuple[float, float]:
    """Return the lowest and the highest leaf value of an output in a node."""
    low, high, n_outputs = -np.inf, np.inf, outputs.scalars.shape[0]
    child, above = np.int64(node), constraints.parent[node]
    while above >= 0:
        feature = table[above, NODE_FEATURE]
        sign = constraints.sign[feature]
        if sign != 0.0 and table[above, NODE_BIN] != constraints.last_bin[feature]:
            middle = outputs.vectors[above, n_outputs + output]
            if (table[above, NODE_LEFT] == child) == (sign > 0.0):
                high = min(high, middle)
            else:
                low = max(low, middle)
        child, above = above, constraints.parent[above]
    return low, high
