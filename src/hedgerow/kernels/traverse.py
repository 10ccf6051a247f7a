"""Walk of binned rows through one tree, used while training.

Several rows go down at once: one row alone would wait for each load of the
last, and each of its turns would be guessed wrong half of the time.  A row that
has reached its leaf stays there.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import BinArray, FloatArray, RowArray
from hedgerow.compile import kernel

_TOGETHER = 8


@kernel(inline=True)
def step(nodes: tuple, node: int, by_row: BinArray, per_tile: int, missing: int, row: int) -> int:
    """The child to which ``row`` goes, or the node itself if it is a leaf."""
    feature, threshold, missing_left, left, right, _ = nodes
    column = np.uint64(max(feature[node], np.int32(0)))
    tile = column // np.uint64(per_tile)
    b = by_row[tile, np.uint64(row), column - tile * np.uint64(per_tile)]
    goes_left = (b <= threshold[node]) | ((b == missing) & (missing_left[node] == 1))
    goes_left &= (b != missing) | (missing_left[node] == 1)
    child = left[node] if goes_left else right[node]
    return np.uint64(child) if feature[node] >= 0 else node


@kernel
def add_tree_scores(
    by_row: BinArray,
    features_per_tile: int,
    missing_bin: int,
    nodes: tuple,
    rows: RowArray,
    start: int,
    stop: int,
    scores: FloatArray,
) -> None:
    """``scores[row] += value`` of the leaf of each row in ``rows[start:stop]``.

    ``nodes`` are the arrays (feature, bin, missing_left, left, right, value).
    """
    value = nodes[5]
    at = np.zeros(_TOGETHER, dtype=np.uint64)
    for first in range(start, stop, _TOGETHER):
        n = min(_TOGETHER, stop - first)
        for k in range(n):
            at[k] = 0
        moved = True
        while moved:
            moved = False
            for k in range(n):
                row = rows[first + k]
                child = step(nodes, at[k], by_row, features_per_tile, missing_bin, row)
                moved |= child != at[k]
                at[k] = child
        for k in range(n):
            scores[rows[first + k]] += value[at[k]]
