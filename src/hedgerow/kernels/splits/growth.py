"""Leaf values drawn towards those above them, cuts drawn at random, cuts that are given.

smoothing    a node of n rows gets ``(n w + a v) / (n + a)``, ``w`` its own value, ``v`` that
             of its parent and ``a`` the strength (LightGBM's ``path_smooth``)
drawn cuts   one cut of each column in each node, at random between the lowest and the
             highest value of its rows: extremely randomised trees (Geurts, Ernst and Wehenkel
             2006) on bins.  The draw depends on the seed, the tree, the way from the root and
             the column alone.  A symmetric tree draws one cut of each column in each level,
             between the values of all rows of the tree.
weights      of columns, where columns are sampled: without replacement, by the largest
             ``log(u) / weight`` (Efraimidis and Spirakis 2006)
given cuts   a tree that is put in front of every tree: a node of it takes its cut, if the
             tree has its column and both sides are worth it, before any other is looked at
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.histograms.histogram import HistogramSums
from hedgerow.kernels.primitives.hashing import hash64
from hedgerow.kernels.ranking import sort_descending

CUT_STREAM = 15 << 40
"""Streams of the draws of cuts, one for each tree."""

MOST_DRAWN = 1 << 62
"""Draws for the divisions of categories, whose number is not known before, lie below."""

# Columns of ``GrowthRules.node``.
NODE_KEY, NODE_FORCED = 0, 1

# Columns of ``GrowthRules.given``.
FORCED_FEATURE, FORCED_BIN, FORCED_LEFT, FORCED_RIGHT = range(4)


class GrowthRules(NamedTuple):
    """How leaf values and cuts are chosen, and what follows for each node.

    smooth   rows that the value of the parent counts for; 0: none
    penalty  levels from the root on in which splits of ordered columns are held back
    drawn    1: one random cut of each column and node
    node     int64 (nodes, 2): key of the node's draws; its given cut, or -1
    given    int64 (n_given, 4): column, bin, the given cuts of the left and the right child
    weight   float64 (n_features,): of each column where columns are sampled; empty: all alike
    keys     float64 (n_features,): space for drawing them
    """

    smooth: np.float64
    penalty: np.float64
    drawn: np.int64
    node: IntArray
    forced: IntArray
    weight: FloatArray
    keys: FloatArray


@kernel(inline=True, inner=True)
def smoothed(weight: float, n: float, toward: float, smooth: float) -> float:
    """The value ``weight`` of a node with ``n`` rows, drawn ``toward`` that of its parent."""
    share = n / (n + smooth)
    return share * weight + (1.0 - share) * toward


@kernel(inline=True, inner=True)
def ordered_factor(penalty: float, depth: int) -> float:
    """Factor on gains of ordered columns in a node of this depth, the root's being 0.

    0 in the first ``floor(penalty)`` levels; as LightGBM's ``monotone_penalty``.
    """
    if penalty >= depth + 1.0:
        return 0.0
    if penalty <= 1.0:
        return 1.0 - penalty / 2.0**depth
    return 1.0 - 2.0 ** (penalty - 1.0 - depth)


@kernel(inline=True, inner=True)
def key_of_level(seed: int, tree: int, level: int) -> int:
    """Key of the draws that all nodes of a level of tree number ``tree`` share."""
    return np.int64(hash64(seed, np.uint64(CUT_STREAM + tree), np.uint64(level)))


@kernel(inline=True, inner=True)
def start_root(rules: GrowthRules, seed: int, tree: int) -> None:
    """Key and given cut of the root of tree number ``tree``."""
    rules.node[0, NODE_KEY] = key_of_level(seed, tree, 0)
    rules.node[0, NODE_FORCED] = 0 if len(rules.forced) > 0 else -1


@kernel(inline=True, inner=True)
def start_children(
    rules: GrowthRules, parent: int, cut: tuple[int, int], children: tuple[int, int]
) -> None:
    """Keys and given cuts of the ``children`` of a node that is split by ``cut``."""
    forced = rules.node[parent, NODE_FORCED]
    if forced >= 0:
        wanted = rules.forced[forced]
        took = wanted[FORCED_FEATURE] == cut[0] and wanted[FORCED_BIN] == cut[1]
        forced = forced if took else np.int64(-1)
    for side in range(2):
        child = children[0] if side == 0 else children[1]
        key = hash64(rules.node[parent, NODE_KEY], np.uint64(CUT_STREAM), np.uint64(side + 1))
        rules.node[child, NODE_KEY] = np.int64(key)
        rules.node[child, NODE_FORCED] = (
            rules.forced[forced, FORCED_LEFT + side] if forced >= 0 else -1
        )


@kernel(inline=True, inner=True)
def draw_of(key: int, feature: int, n: int) -> int:
    """A number from 0 to ``n - 1`` for a column in the node with this key."""
    draw = hash64(key, np.uint64(CUT_STREAM), np.uint64(feature))
    return np.int64(draw % np.uint64(n))


@kernel(inner=True)
def range_of_cuts(
    histograms: HistogramSums, start: int, n_bins: int, stride: int
) -> tuple[int, int]:
    """The bin before the first cut of a column that divides its rows, and how many there are.

    Those between the lowest and the highest bin with rows, and, where values are missing,
    the one behind all.
    """
    first, last = np.int64(n_bins), np.int64(-1)
    for b in range(n_bins):
        if histograms.n[start + b] > 0:
            first = min(first, np.int64(b))
            last = np.int64(b)
    n_cuts = last - first + np.int64(histograms.n[start + stride - 1] > 0)
    return first, n_cuts if last >= 0 else np.int64(0)


@kernel(inner=True)
def drawn_bin(
    histograms: HistogramSums, start: int, n_bins: int, stride: int, key: int, feature: int
) -> int:
    """The bin before the cut that is drawn for a column, or -1 if its rows are all in one bin.

    All cuts that divide the node's rows have the same chance.
    """
    first, n_cuts = range_of_cuts(histograms, start, n_bins, stride)
    return first + draw_of(key, feature, n_cuts) if n_cuts > 0 else np.int64(-1)


@kernel(inner=True)
def draw_weighted(
    rules: GrowthRules,
    seed: int,
    stream: int,
    order: np.ndarray,
    n: int,
    n_taken: int,
    scratch: np.ndarray,
    spare: np.ndarray,
) -> int:
    """Put ``n_taken`` of ``order[:n]``, drawn by their weights, to the front; how many these are.

    Fewer if fewer have a weight above 0.  ``scratch`` and ``spare``, int32 (n,), are space.
    """
    n_positive = np.int64(0)
    for k in range(n):
        weight = rules.weight[order[k]]
        n_positive += np.int64(weight > 0.0)
        bits = hash64(seed, np.uint64(stream), np.uint64(order[k])) >> np.uint64(11)
        rules.keys[k] = math.log((float(bits) + 0.5) * 2.0**-53) / weight
    sort_descending(rules.keys, n, scratch, spare)
    n_taken = min(n_taken, n_positive)
    for k in range(n_taken):
        spare[k] = order[scratch[k]]
    for k in range(n_taken):
        order[k] = spare[k]
    return n_taken
