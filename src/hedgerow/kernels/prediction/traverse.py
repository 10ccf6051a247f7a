"""Addition of one tree to the scores of binned rows, during training.

The kernels serve rows whose leaf the grower does not know: validation rows, and rows
outside a sample.  Rows are bins (see :mod:`hedgerow.arrays`), in tiles of neighbouring
features::

    by_row[tile, row, j]    bin of feature tile * features_per_tile + j

Before the walk the tree is copied into eight words per node (a cache line).  Siblings
are neighbours and every leaf is its own child, so a step takes two loads from the line,
one of the bin, one of a bit and an addition, without a branch::

    word 0         position of the column's bin for row 0
    word 1         left child
    words 2 to 5   the bins that go right, a bit each (none in a leaf)

The scratch space of the caller (:func:`walk_space`) holds the copy, the leaf values in the
order of the copy, and the temporary arrays.

A tree is a tuple of arrays, one entry per node: column (int32), the bins that go left (uint64, four
words), left and right (int32, after their parent; 0 in a leaf), value (float64).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import AnyArray, BinArray, FloatArray
from hedgerow.compile import kernel
from hedgerow.kernels.primitives.intrinsics import SPARE_WORDS, line_start, prefetch, words_as

_ONE = np.uint64(1)
_TWO = np.uint64(2)
_WORD = np.uint64(6)
_BIT = np.uint64(63)
NODE_WORDS = np.uint64(8)

_AHEAD = np.uint64(32)
"""Bins of listed rows are prefetched this many rows ahead."""


_SPACE_WORDS = 11
"""Words of scratch space for each node: the node itself, value, place and level."""


def walk_space(n_nodes: int) -> AnyArray:
    """Return scratch space for :func:`add_tree_scores` with a tree of ``n_nodes`` nodes."""
    return np.empty(_SPACE_WORDS * n_nodes + 8 + SPARE_WORDS, np.uint64)


@kernel(inner=True)
def pack_tree(
    by_row: BinArray,
    features_per_tile: int,
    tree: tuple[Any, ...],
    nodes: AnyArray,
    value: FloatArray,
    place: AnyArray,
    level: AnyArray,
) -> int:
    """Write the tree's nodes and leaf values in walking order; return its depth."""
    # The k-th inner node has the children 1 + 2k and 2 + 2k.  ``place`` and ``level`` are scratch
    # space, one number per node.
    columns, sets, left, right, score = tree
    n_nodes = np.uint64(len(columns))
    place[0] = level[0] = np.uint64(0)
    width = np.uint64(by_row.shape[2])
    tile_size = np.uint64(by_row.shape[1]) * width
    next_child, depth = _ONE, np.uint64(0)
    for node in range(n_nodes):
        at = place[node] * NODE_WORDS
        value[place[node]] = score[node]
        if left[node] == 0:
            nodes[at] = np.uint64(0)
            nodes[at + _ONE] = place[node]
            for k in range(np.uint64(4)):
                nodes[at + _TWO + k] = np.uint64(0)
            continue
        tile = np.uint64(columns[node]) // np.uint64(features_per_tile)
        column = np.uint64(columns[node]) - tile * np.uint64(features_per_tile)
        nodes[at] = tile * tile_size + column
        nodes[at + _ONE] = next_child
        for k in range(np.uint64(4)):
            nodes[at + _TWO + k] = ~np.uint64(sets[node, k])
        place[np.uint64(left[node])] = next_child
        place[np.uint64(right[node])] = next_child + _ONE
        level[np.uint64(left[node])] = level[np.uint64(right[node])] = level[node] + _ONE
        depth = max(depth, level[node] + _ONE)
        next_child += _TWO
    return depth


@kernel(inline=True, inner=True)
def binned_step(nodes: AnyArray, bins: BinArray, row_start: int, node: int) -> int:
    """Return the child for the row whose bins start at ``row_start``; a leaf returns itself."""
    at = node * NODE_WORDS
    bin_ = np.uint64(bins[row_start + nodes[at]])
    word = nodes[at + _TWO + (bin_ >> _WORD)]
    return nodes[at + _ONE] + ((word >> (bin_ & _BIT)) & _ONE)


@kernel(inner=True)
def add_tree_scores(
    by_row: kt.UInt8_3D,
    features_per_tile: int,
    tree: tuple[kt.Int32_1D, kt.UInt64_2D, kt.Int32_1D, kt.Int32_1D, kt.Float64_1D],
    rows: kt.UInt32_1D,
    start: int,
    stop: int,
    space: kt.UInt64_1D,
    scores: kt.Float64_1D,
) -> None:
    """Add the value of its leaf to the score of each row."""
    # The rows are ``rows[start:stop]``, or ``start .. stop`` if ``rows`` is empty.
    n_nodes, begin = np.uint64(len(tree[0])), line_start(space)
    end = begin + NODE_WORDS * n_nodes
    nodes = words_as(space, begin, NODE_WORDS * n_nodes, np.uint64)
    value = words_as(space, end, n_nodes, np.float64)
    place = words_as(space, end + n_nodes, n_nodes, np.uint64)
    level = words_as(space, end + _TWO * n_nodes, n_nodes, np.uint64)
    depth = pack_tree(by_row, features_per_tile, tree, nodes, value, place, level)
    # A flat view; ``reshape`` would need a function of Numba's library.
    bins = words_as(by_row, 0, by_row.size, np.uint8)
    width = np.uint64(by_row.shape[2])
    listed = len(rows) > 0
    chosen = words_as(space, end + np.uint64(3) * n_nodes, 8, np.uint64)
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
