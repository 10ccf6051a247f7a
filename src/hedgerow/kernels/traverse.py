"""Adds one tree to the scores of binned rows, during training.

For rows whose leaf the grower does not know: a validation set, rows left out of
a sample.  Rows are bins (see :mod:`hedgerow.arrays`), in tiles of neighbouring
features::

    by_row[tile, row, j]    bin of feature tile * features_per_tile + j

Before the walk the tree is copied into two words a node, with siblings side by
side and every leaf its own child, so that a step is two loads of one cache line,
one of the bin, a comparison and an addition, without a branch::

    word 0    position of the feature's bin for row 0
    word 1    left child << 16 | shift << 8 | last bin that goes left

``shift`` rotates the bins of a split whose missing values go left, so that the
missing bin comes first: ``(bin - shift) mod 256 > last`` means right.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, BinArray, FloatArray, RowArray
from hedgerow.compile import kernel
from hedgerow.kernels.intrinsics import prefetch

_ONE = np.uint64(1)
_BYTE = np.uint64(0xFF)
_CHILD = np.uint64(16)
_SHIFT = np.uint64(8)

_AHEAD = np.uint64(32)
"""Rows between a listed row and the one whose bins are fetched meanwhile."""


@kernel
def pack_tree(
    by_row: BinArray,
    features_per_tile: int,
    missing_bin: int,
    tree: tuple[Any, ...],
    nodes: AnyArray,
    value: FloatArray,
) -> int:
    """Write the tree's nodes and leaf values in walking order; return its depth.

    The k-th inner node has the children 1 + 2k and 2 + 2k.
    """
    feature, last, missing_left, left, right, score = tree
    n_nodes = np.uint64(len(feature))
    place = np.empty(n_nodes, np.uint64)
    level = np.empty(n_nodes, np.uint64)
    place[0] = level[0] = np.uint64(0)
    width = np.uint64(by_row.shape[2])
    tile_size = np.uint64(by_row.shape[1]) * width
    next_child, depth = _ONE, np.uint64(0)
    missing = np.uint64(missing_bin)
    for node in range(n_nodes):
        at = place[node]
        value[at] = score[node]
        if feature[node] < 0:
            nodes[at + at] = np.uint64(0)
            nodes[at + at + _ONE] = at << _CHILD | _BYTE
            continue
        tile = np.uint64(feature[node]) // np.uint64(features_per_tile)
        column = np.uint64(feature[node]) - tile * np.uint64(features_per_tile)
        shift = missing if missing_left[node] else np.uint64(0)
        bound = min(np.uint64(last[node]), missing - _ONE) - shift
        nodes[at + at] = tile * tile_size + column
        nodes[at + at + _ONE] = next_child << _CHILD | shift << _SHIFT | (bound & _BYTE)
        place[np.uint64(left[node])] = next_child
        place[np.uint64(right[node])] = next_child + _ONE
        level[np.uint64(left[node])] = level[np.uint64(right[node])] = level[node] + _ONE
        depth = max(depth, level[node] + _ONE)
        next_child += np.uint64(2)
    return depth


@kernel(inline=True)
def binned_step(nodes: AnyArray, bins: BinArray, row_start: int, node: int) -> int:
    """The child to which a row goes whose bins start at ``row_start``; a leaf stays."""
    bin_ = np.uint64(bins[row_start + nodes[node + node]])
    word = nodes[node + node + _ONE]
    rotated = (bin_ - (word >> _SHIFT & _BYTE)) & _BYTE
    return (word >> _CHILD) + np.uint64(rotated > (word & _BYTE))


@kernel
def add_tree_scores(
    by_row: BinArray,
    features_per_tile: int,
    missing_bin: int,
    tree: tuple[Any, ...],
    rows: RowArray,
    start: int,
    stop: int,
    scores: FloatArray,
) -> None:
    """``scores[row] += value of the row's leaf`` for rows ``start .. stop``.

    Parameters
    ----------
    by_row : uint8 (n_tiles, at least n_rows, tile_width), C-ordered
    features_per_tile : int
    missing_bin : int, 1 to 255
        The largest bin.  A row goes left if its bin is at most the last one, or,
        where it is the missing bin, if ``missing_left``.
    tree : tuple of arrays, one entry per node
        feature (int32, -1 in a leaf), last bin that goes left (uint8),
        missing_left (uint8), left and right (int32, after their parent), value
        (float64).
    rows : uint32
        ``rows[start:stop]`` are the rows to add to; if it is empty, the rows
        ``start .. stop`` themselves.
    start, stop : int
    scores : float64, one per row
    """
    n_nodes = len(tree[0])
    nodes, value = np.empty(2 * n_nodes, np.uint64), np.empty(n_nodes)
    depth = pack_tree(by_row, features_per_tile, missing_bin, tree, nodes, value)
    bins = by_row.reshape(-1)
    width = np.uint64(by_row.shape[2])
    listed = len(rows) > 0
    chosen = np.empty(8, np.uint64)
    start, stop = np.uint64(start), np.uint64(stop)
    for first in range(start, stop, np.uint64(8)):
        # The last group repeats its last row; only the first n are added.
        n = min(np.uint64(8), stop - first)
        for i in range(np.uint64(8)):
            position = first + min(i, n - _ONE)
            chosen[i] = np.uint64(rows[position]) if listed else position
            if listed:
                ahead = min(position + _AHEAD, stop - _ONE)
                prefetch(bins, np.int64(np.uint64(rows[ahead]) * width))
        r0, r1 = chosen[0] * width, chosen[1] * width
        r2, r3 = chosen[2] * width, chosen[3] * width
        r4, r5 = chosen[4] * width, chosen[5] * width
        r6, r7 = chosen[6] * width, chosen[7] * width
        a = b = c = d = e = f = g = h = np.uint64(0)
        for _ in range(depth):
            a, b = binned_step(nodes, bins, r0, a), binned_step(nodes, bins, r1, b)
            c, d = binned_step(nodes, bins, r2, c), binned_step(nodes, bins, r3, d)
            e, f = binned_step(nodes, bins, r4, e), binned_step(nodes, bins, r5, f)
            g, h = binned_step(nodes, bins, r6, g), binned_step(nodes, bins, r7, h)
        ends = (a, b, c, d, e, f, g, h)
        for i in range(np.uint64(n)):
            scores[chosen[i]] += value[ends[i]]
