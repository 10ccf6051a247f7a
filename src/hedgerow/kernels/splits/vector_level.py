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
from typing import NamedTuple

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.histograms.vector_histogram import Sums, list_filled, place_of_g
from hedgerow.kernels.simd.lanes import N_LANES, WIDTH
from hedgerow.kernels.splits.category_split import penalised
from hedgerow.kernels.splits.split import Limits, SplitRules
from hedgerow.kernels.splits.vector_category import Groups, empty_side, score_set
from hedgerow.kernels.splits.vector_split import Order, VectorNode, score_cuts, scored_gain


class NodeSets(NamedTuple):
    """A node in which sets of categories are scored.

    sums    the histograms
    node    its totals and limits; ``node.filled`` is scratch
    groups  scratch: sums of the groups of categories, and of the side that is filled
    parent  score of the node as a leaf
    """

    sums: Sums
    node: VectorNode
    groups: Groups
    parent: np.float64


@kernel(inner=True)
def gain_apart(
    sums: Sums, at: int, absent: int, node: VectorNode, limits: Limits, parent: float, sign: float
) -> float:
    """Return the gain of missing values on the left, all others on the right; 0 if not divided."""
    # The sides have to be ordered by ``sign``.  The first bin of ``node.filled`` stays what it is.
    filled, n_left = node.filled, np.int64(sums.n[at + absent])
    first = filled[0]
    filled[0] = absent
    order = Order(sign, sign, np.int64(0))
    score_cuts(sums, at, np.int64(-1), np.int64(1), node, limits, order)
    filled[0] = first
    gain = scored_gain(node, np.int64(0), n_left, limits, parent)
    return gain if gain > -math.inf else 0.0


@kernel(inner=True)
def add_column_gains(
    sums: Sums,
    at: int,
    n_bins: int,
    stride: int,
    node: VectorNode,
    limits: Limits,
    parent: float,
    gains: FloatArray,
    to: int,
    also: int,
    sign: float,
) -> None:
    """Add the gain of each cut of a column to every ``WIDTH``-th entry from ``to`` on."""
    # These gains have missing values on the right.  If ``also`` is not 0, the gains with missing
    # values on the left are added ``also`` entries further on.  A cut that does not divide the node
    # adds nothing.
    n, filled, absent = sums.n, node.filled, stride - 1
    n_missing = np.int64(n[at + absent])
    n_filled = list_filled(n, at, n_bins, stride, filled) - np.int64(n_missing > 0)
    gain, below, above = 0.0, 0.0, 0.0
    if sign != 0.0 and n_missing > 0:
        below = gain_apart(sums, at, absent, node, limits, parent, sign)
        above = gain_apart(sums, at, absent, node, limits, parent, 0.0)
    for side in range(2 if also != 0 else 1):
        is_left = side == 1 and n_missing > 0
        n_left = n_missing if is_left else np.int64(0)
        if side == 0 or is_left:
            order = Order(sign, sign, np.int64(0))
            score_cuts(sums, at, absent if is_left else -1, n_filled, node, limits, order)
        # Before the first bin with rows only missing values are on the left.  The cut after
        # the last bin divides in the same way, with the sides swapped.
        last = gain if sign == 0.0 else below
        gain = last if is_left else 0.0
        first, place = np.int64(0), to + side * also
        for e in range(n_filled):
            for b in range(first, filled[e]):
                gains[place + b * WIDTH] += gain
            first = filled[e]
            n_left += np.int64(n[at + first])
            gain = scored_gain(node, e, n_left, limits, parent)
            gain = gain if gain > -math.inf else 0.0
        last = gain if sign == 0.0 or is_left else above
        for b in range(first, n_bins):
            gains[place + b * WIDTH] += last if b == n_bins - 1 else gain


@kernel(inner=True)
def gain_of_side(n_left: int, penalty: float, rules: SplitRules, vectors: NodeSets) -> float:
    """Return the gain of the set summed in ``groups.side``, or -inf if a side is too small."""
    # It is twice the loss reduction; ``penalty`` is what sets add to ``reg_lambda`` on both sides.
    node, side = vectors.node, vectors.groups.side
    return score_set(node, n_left, (penalised(rules, penalty), rules), side) - vectors.parent


@kernel(inner=True)
def fill_set(at: int, stride: int, words: IntArray, first_word: int, vectors: NodeSets) -> None:
    """Sum the bins of the column at ``at`` that are in a set to ``groups.side``."""
    # Bit ``b`` of the words from ``first_word`` on tells whether bin ``b`` is in the set.
    sums, filled, side = vectors.sums, vectors.node.filled, vectors.groups.side
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
