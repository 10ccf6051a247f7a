"""Smoothed leaf values, random cuts, weighted samples of columns, and forced cuts.

smoothing    a node of n rows gets ``(n w + a v) / (n + a)``: ``w`` is its own value, ``v`` the
             value of its parent and ``a`` the strength (LightGBM's ``path_smooth``)
drawn cuts   one random cut of each column in each node, between the lowest and the highest
             value of its rows: extremely randomised trees (Geurts, Ernst and Wehenkel 2006) on
             bins.  The draw depends only on the seed, the tree, the path from the root and the
             column.  A symmetric tree draws one cut of each column per level, between the
             values of all rows of the tree.
weights      of columns, where columns are sampled: without replacement, by the largest
             ``log(u) / weight`` (Efraimidis and Spirakis 2006)
forced cuts  a tree at the top of every tree of the model: its nodes take their cuts before any
             other cut is considered, if the tree may use the column and the cut is valid
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
"""First random stream of the draws of cuts; each tree has one stream."""

MOST_DRAWN = 1 << 62
"""Upper limit of draws for divisions of categories, whose number is not known in advance."""

# Columns of ``GrowthRules.node``.
NODE_KEY, NODE_FORCED = 0, 1

# Columns of ``GrowthRules.forced``.
FORCED_FEATURE, FORCED_BIN, FORCED_LEFT, FORCED_RIGHT = range(4)


class GrowthRules(NamedTuple):
    """Rules for leaf values and cuts, and their state in each node.

    smooth   rows that the value of the parent counts for; 0: no smoothing
    penalty  levels, from the root on, in which splits of ordered columns are penalised
    drawn    1: one random cut per column and node
    node     int64 (nodes, 2): key of the node's draws; its forced cut, or -1
    forced   int64 (n_forced, 4): column, bin, forced cuts of the left and the right child
    weight   float64 (n_features,): sampling weight of each column; empty: all equal
    keys     float64 (n_features,): scratch for sampling columns
    """

    smooth: np.float64
    penalty: np.float64
    drawn: np.int64
    node: IntArray
    forced: IntArray
    weight: FloatArray
    keys: FloatArray


@kernel(inline=True, inner=True)
def ordered_factor(penalty: float, depth: int) -> float:
    """Return the factor on gains of ordered columns in a node of this depth (root: 0)."""
    # The factor is 0 in the first ``floor(penalty)`` levels, as LightGBM's ``monotone_penalty``.
    if penalty >= depth + 1.0:
        return 0.0
    if penalty <= 1.0:
        return 1.0 - penalty / 2.0**depth
    return 1.0 - 2.0 ** (penalty - 1.0 - depth)


@kernel(inline=True, inner=True)
def key_of_level(seed: int, tree: int, level: int) -> int:
    """Return the key of the draws that all nodes of a level of tree number ``tree`` share."""
    return np.int64(hash64(seed, np.uint64(CUT_STREAM + tree), np.uint64(level)))


@kernel(inline=True, inner=True)
def start_root(rules: GrowthRules, seed: int, tree: int) -> None:
    """Set the key and the forced cut of the root of tree number ``tree``."""
    rules.node[0, NODE_KEY] = key_of_level(seed, tree, 0)
    rules.node[0, NODE_FORCED] = 0 if len(rules.forced) > 0 else -1


@kernel(inline=True, inner=True)
def start_children(
    rules: GrowthRules, parent: int, cut: tuple[int, int], children: tuple[int, int]
) -> None:
    """Set the keys and the forced cuts of the ``children`` of a node that is split by ``cut``."""
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
    """Return a random number from 0 to ``n - 1`` for a column in the node with this key."""
    draw = hash64(key, np.uint64(CUT_STREAM), np.uint64(feature))
    return np.int64(draw % np.uint64(n))


@kernel(inner=True)
def range_of_cuts(
    histograms: HistogramSums, start: int, n_bins: int, stride: int
) -> tuple[int, int]:
    """Return the bin before the first cut that divides a column's rows, and the number of cuts."""
    first, last = np.int64(n_bins), np.int64(-1)
    for b in range(n_bins):
        if histograms.n[start + b] > 0:
            first = min(first, np.int64(b))
            last = np.int64(b)
    # Cuts lie between the lowest and the highest bin with rows.  If values are missing, the cut
    # after the highest bin is one more.
    n_cuts = last - first + np.int64(histograms.n[start + stride - 1] > 0)
    return first, n_cuts if last >= 0 else np.int64(0)


@kernel(inner=True)
def drawn_bin(
    histograms: HistogramSums, start: int, n_bins: int, stride: int, key: int, feature: int
) -> int:
    """Return the bin before the random cut of a column, or -1 if one bin has all its rows."""
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
    """Move up to ``n_taken`` columns of ``order``, sampled by weight, to the front; count them."""
    # Fewer than ``n_taken`` are moved if fewer columns have a weight above 0.  ``scratch`` and
    # ``spare``, int32 (n,), are scratch arrays.
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
