"""Gains of the cuts of a symmetric tree's level in one of its nodes, for several outputs.

The scores are those of :mod:`hedgerow.kernels.splits.vector_split`, and the gains of the nodes of
the level add up in the arrays of :mod:`hedgerow.kernels.splits.symmetric_split`.

If a column is ordered, a node is divided only if the sides of every output are in order.  This
holds for all cuts between values, whichever rows the node has, because later rows may lie on both
sides.  The cut after the last value of the column separates missing values and orders nothing::

    node           missing values and bins 1, 3 of a column that has bins 0 ... 4
    cuts           after 0      1     2     3     4
    missing right             in order ........   any order: missing values apart from all others
    missing left   in order ........  (all rows on the left: the node is not divided)
"""

from __future__ import annotations

import math

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.histograms.vector_histogram import list_filled, place_of_g
from hedgerow.kernels.simd.lanes import N_LANES, WIDTH
from hedgerow.kernels.splits.split import Limits
from hedgerow.kernels.splits.vector_category import NodeSets, empty_side
from hedgerow.kernels.splits.vector_split import (
    Signs,
    VectorNode,
    cut_score,
    first_cell,
    list_bins,
    score_cuts,
)


@kernel(inline=True, inner=True)
def cut_gain(node: VectorNode, e: int, n_left: int, limits: Limits, own: float) -> float:
    """Return the gain of the cut after ``filled`` bin ``e``, or 0 if it does not divide."""
    score = cut_score(node, e, n_left, limits, -math.inf)
    return score - own if score > -math.inf else 0.0


@kernel(inner=True)
def gain_apart(node: VectorNode, at: int, limits: Limits, own: float, sign: float) -> float:
    """Return the gain of missing values on the left, all others on the right; 0 if not divided."""
    # The sides have to be ordered by ``sign``.  The first bin of ``node.filled`` stays what it is.
    filled, absent = node.filled, node.stride - 1
    first = filled[0]
    filled[0] = absent
    score_cuts(node, at, np.int64(-1), np.int64(1), limits, Signs(sign, sign, np.int64(0)))
    filled[0] = first
    return cut_gain(node, np.int64(0), np.int64(node.sums.n[at + absent]), limits, own)


@kernel(inner=True)
def add_column_gains(
    node: VectorNode,
    feature: int,
    limits: Limits,
    own: float,
    gains: FloatArray,
    place: tuple[int, int],
    sign: float,
) -> None:
    """Add the gain of each cut of a column to every ``WIDTH``-th entry from ``place[0]`` on."""
    # These gains have missing values on the right.  If ``place[1]`` is not 0, the gains with
    # missing values on the left are added so many entries further on.  A cut that does not divide
    # the node adds nothing.
    n, filled, absent = node.sums.n, node.filled, node.stride - 1
    at, n_bins, also = first_cell(node, feature), np.int64(node.n_bins[feature]), place[1]
    n_missing = np.int64(n[at + absent])
    n_filled = list_bins(node, feature) - np.int64(n_missing > 0)
    gain, below, above = 0.0, 0.0, 0.0
    if sign != 0.0 and n_missing > 0:
        below = gain_apart(node, at, limits, own, sign)
        above = gain_apart(node, at, limits, own, 0.0)
    for side in range(2 if also != 0 else 1):
        is_left = side == 1 and n_missing > 0
        n_left = n_missing if is_left else np.int64(0)
        if side == 0 or is_left:
            signs = Signs(sign, sign, np.int64(0))
            score_cuts(node, at, absent if is_left else -1, n_filled, limits, signs)
        # Before the first bin with rows only missing values are on the left.  The cut after
        # the last bin divides in the same way, with the sides swapped.
        last = gain if sign == 0.0 else below
        gain = last if is_left else 0.0
        first, to = np.int64(0), place[0] + side * also
        for e in range(n_filled):
            for b in range(first, filled[e]):
                gains[to + b * WIDTH] += gain
            first = filled[e]
            n_left += np.int64(n[at + first])
            gain = cut_gain(node, e, n_left, limits, own)
        last = gain if sign == 0.0 or is_left else above
        for b in range(first, n_bins):
            gains[to + b * WIDTH] += last if b == n_bins - 1 else gain


@kernel(inner=True)
def fill_set(at: int, words: IntArray, first_word: int, vectors: NodeSets) -> None:
    """Sum the bins of the column at ``at`` that are in a set to ``groups.side``."""
    # Bit ``b`` of the words from ``first_word`` on tells whether bin ``b`` is in the set.
    node, side = vectors.node, vectors.groups.side
    sums, filled, stride = node.sums, node.filled, node.stride
    chosen, n_left = np.int64(0), np.int64(0)
    for e in range(list_filled(sums.n, at, stride - 1, stride, filled)):
        b = filled[e]
        word = np.uint64(words[first_word + (b >> 6)])
        if (word >> np.uint64(b & 63)) & np.uint64(1) == np.uint64(1):
            filled[chosen] = b
            chosen += 1
            n_left += np.int64(sums.n[at + b])
    empty_side(vectors.groups)
    for output in range(len(side)):
        place = place_of_g(sums.constant, output)
        for e in range(chosen):
            cell = (at + filled[e]) * sums.width + place
            side[output, 0] += np.int64(sums.cells[cell])
            if sums.constant == 0:
                side[output, 1] += np.int64(sums.cells[cell + N_LANES])
        if sums.constant == 1:
            side[output, 1] = n_left
