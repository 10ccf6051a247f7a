"""Gains of the splits of several outputs where columns have factors or cuts are not free.

As :mod:`hedgerow.kernels.splits.constrained_search` and
:mod:`hedgerow.kernels.splits.constrained_gains` for one output: the search compares gains, not
scores; a column offers its best cut, a random one, or the one that every tree begins with.  The
gain is

    factor of the column * (1/2 [score(L) + score(R) - score(node)] - gamma * outputs)

where scores are sums over the outputs, of smoothed leaf values if they are smoothed.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.histograms.histogram import Bins, HistogramSums
from hedgerow.kernels.histograms.vector_histogram import Sums
from hedgerow.kernels.splits.constrained_gains import lost_with
from hedgerow.kernels.splits.growth import (
    FORCED_BIN,
    FORCED_FEATURE,
    NODE_FORCED,
    NODE_KEY,
    drawn_bin,
    smoothed,
)
from hedgerow.kernels.splits.monotone import ROUNDING, Bounds, Constraints, factor_of, gain_of
from hedgerow.kernels.splits.split import NO_SPLIT, Limits, Split, SplitRules, leaf_weight
from hedgerow.kernels.splits.vector_split import (
    VectorNode,
    gain_of_cut,
    own_value,
    score_totals,
    search_column,
)

_WORST = Split(-np.inf, -1, 0, 0, 0, 0, 0)
"""Any cut beats it: with smoothed leaf values scores may be negative."""


@kernel(inline=True, inner=True)
def score_unit(node: VectorNode) -> float:
    """Return what one counts for in scores in ``node.largest``."""
    return node.largest.g * (node.largest.g / node.largest.h)


@kernel(inner=True)
def bounds_of_vectors(
    constraints: Constraints, node: VectorNode, rules: SplitRules, parent: float
) -> Bounds:
    """Return what the node, with the score ``parent``, asks of gains, in units of its sums."""
    if constraints.scored == 0:
        return Bounds(-np.inf, np.inf, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0, -1)
    unit = score_unit(node)
    return Bounds(
        -np.inf,
        np.inf,
        parent / unit,
        ROUNDING * score_totals(node, rules) / unit,
        node.totals.shape[0] * rules.gamma / unit,
        0.0,
        node.smooth,
        1.0,
        constraints.growth.node[node.number, NODE_KEY],
        constraints.growth.node[node.number, NODE_FORCED],
    )


@kernel(inner=True)
def gain_at(
    sums: Sums,
    feature: int,
    n_bins: int,
    stride: int,
    node: VectorNode,
    limits: Limits,
    bounds: Bounds,
    factor: float,
    cut: int,
) -> Split:
    """Return the cut after bin ``cut`` with missing values where they gain more.

    The ``score`` of the split is its gain; it is -1 where none is positive.
    """
    best, at = NO_SPLIT, node.start + feature * stride
    for side in range(2 if sums.n[at + stride - 1] > 0 else 1):
        score = gain_of_cut(sums, at, n_bins, stride, node, limits, 0.0, (cut, np.int64(side)))
        gain = gain_of(score, factor, bounds)
        if gain > best.score:
            best = Split(gain, feature, cut, np.int64(side), 0, 0, 0)
    return best


@kernel(inline=True, inner=True)
def search_bounded(
    sums: Sums,
    feature: int,
    n_bins: int,
    stride: int,
    node: VectorNode,
    limits: Limits,
    bounds: Bounds,
    constraints: Constraints,
    best: Split,
) -> Split:
    """Return the better of ``best`` and the cut of a column that counts in this fit."""
    if constraints.scored == 0:
        return search_column(sums, feature, n_bins, stride, node, limits, best)
    factor = factor_of(constraints, feature, bounds)
    if constraints.growth.drawn == 1:
        counts, at = HistogramSums(sums.n, sums.n, sums.n), node.start + feature * stride
        cut = drawn_bin(counts, at, n_bins, stride, bounds.key, feature)
        if cut < 0:
            return best
        found = gain_at(sums, feature, n_bins, stride, node, limits, bounds, factor, cut)
        return found if found.score > best.score else best
    found = search_column(sums, feature, n_bins, stride, node, limits, _WORST)
    gain = gain_of(found.score, factor, bounds)
    if gain > best.score:
        best = Split(gain, feature, found.bin, found.missing_left, 0, 0, 0)
    return best


@kernel(inner=True)
def take_given(
    span: tuple[int, int],
    bins: Bins,
    features: np.ndarray,
    allowed: np.ndarray,
    sums: Sums,
    node: VectorNode,
    limits: Limits,
    bounds: Bounds,
    constraints: Constraints,
    best: Split,
) -> tuple[Split, float]:
    """Return the cut that is given to the node, and its gain before factors.

    Its score is infinite.  If the columns ``span`` do not have it, or it gains nothing, return
    ``best`` and 0.
    """
    feature = constraints.growth.forced[bounds.forced, FORCED_FEATURE]
    cut = constraints.growth.forced[bounds.forced, FORCED_BIN]
    factor = factor_of(constraints, feature, bounds)
    for k in range(span[0], span[1]):
        if np.int64(features[k]) == feature and allowed[feature] == 1:
            n_bins, stride = np.int64(bins.n_bins[feature]), bins.stride
            found = gain_at(sums, feature, n_bins, stride, node, limits, bounds, factor, cut)
            if found.score > 0.0:
                given = Split(np.inf, feature, cut, found.missing_left, 0, 0, 0)
                return given, found.score / factor * score_unit(node)
    return best, 0.0


@kernel(inner=True)
def gain_of_set(
    score: float,
    n_left: int,
    feature: int,
    node: VectorNode,
    rules: SplitRules,
    bounds: Bounds,
    constraints: Constraints,
    side: IntArray,
) -> float:
    """Return the gain of a set of categories with the sums ``side`` on the left, or -1.

    Without constraints the score remains what it is.
    """
    if constraints.scored == 0 or score < 0.0:
        return score
    if node.smooth > 0.0:
        for output in range(node.totals.shape[0]):
            g_unit, h_unit = node.units[output, 0], node.units[output, 1]
            own = own_value(node, output)
            g, h, n = float(side[output, 0]) * g_unit, float(side[output, 1]) * h_unit, n_left
            for _ in range(2):
                weight = smoothed(leaf_weight(g, h, rules), float(n), own, node.smooth)
                score -= lost_with(g, h, weight, rules)
                # Once more with the right side.
                g = float(node.totals[output, 0] - side[output, 0]) * g_unit
                h = float(node.totals[output, 1] - side[output, 1]) * h_unit
                n = node.n_rows - n_left
    unit = score_unit(node)
    gain = gain_of(score / unit, factor_of(constraints, feature, bounds), bounds)
    return gain * unit if gain > 0.0 else -1.0
