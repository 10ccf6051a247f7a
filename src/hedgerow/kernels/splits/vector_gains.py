"""Gains of the splits of several outputs where columns have factors or cuts are not free.

As :mod:`hedgerow.kernels.splits.constrained_search` and
:mod:`hedgerow.kernels.splits.constrained_gains` for one output: the search compares gains, not
scores; a column offers its best cut, a random one, or the one that every tree begins with.  The
gain is

    factor of the column * (1/2 [score(L) + score(R) - score(node)] - gamma * outputs)

where scores are sums over the outputs, of smoothed leaf values if they are smoothed, and of
values within bounds if columns are ordered.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.histograms.histogram import Bins, HistogramSums
from hedgerow.kernels.histograms.vector_histogram import Sums, place_of_g
from hedgerow.kernels.simd.lanes import N_LANES
from hedgerow.kernels.splits.constrained_gains import lost_with
from hedgerow.kernels.splits.growth import (
    FORCED_BIN,
    FORCED_FEATURE,
    NODE_FORCED,
    NODE_KEY,
    drawn_bin,
    smoothed,
)
from hedgerow.kernels.splits.monotone import (
    ORDERED,
    ROUNDING,
    Bounds,
    Constraints,
    factor_of,
    gain_of,
)
from hedgerow.kernels.splits.split import NO_SPLIT, Limits, Split, SplitRules, leaf_weight
from hedgerow.kernels.splits.vector_split import (
    VectorNode,
    gain_of_cut,
    own_value,
    score_totals,
    search_column,
    value_within,
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
        constraints.bounds[node.number, ORDERED],
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
    weight: tuple[float, float],
    cut: int,
) -> Split:
    """Return the cut after bin ``cut``, and its gain, with missing values where they gain more."""
    # ``weight`` has the factor and the sign of the column.  The gain is -1 where none is positive.
    factor, sign = weight
    best, at = NO_SPLIT, node.start + feature * stride
    for side in range(2 if sums.n[at + stride - 1] > 0 else 1):
        way = cut, np.int64(side)
        score = gain_of_cut(sums, at, n_bins, stride, node, limits, 0.0, way, (sign, 0.0))
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
        return search_column(sums, feature, n_bins, stride, node, limits, 0.0, best)
    factor, sign = factor_of(constraints, feature, bounds), constraints.sign[feature]
    if constraints.growth.drawn == 1:
        counts, at = HistogramSums(sums.n, sums.n, sums.n), node.start + feature * stride
        cut = drawn_bin(counts, at, n_bins, stride, bounds.key, feature)
        if cut < 0:
            return best
        weight = factor, sign
        found = gain_at(sums, feature, n_bins, stride, node, limits, bounds, weight, cut)
        return found if found.score > best.score else best
    found = search_column(sums, feature, n_bins, stride, node, limits, sign, _WORST)
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
    """Return the cut given to the node, of infinite score, and its gain before factors."""
    # If the columns ``span`` do not have it, or it gains nothing: ``best`` and 0.
    feature = constraints.growth.forced[bounds.forced, FORCED_FEATURE]
    cut = constraints.growth.forced[bounds.forced, FORCED_BIN]
    factor = factor_of(constraints, feature, bounds)
    for k in range(span[0], span[1]):
        if np.int64(features[k]) == feature and allowed[feature] == 1:
            n_bins, stride = np.int64(bins.n_bins[feature]), bins.stride
            weight = factor, constraints.sign[feature]
            found = gain_at(sums, feature, n_bins, stride, node, limits, bounds, weight, cut)
            if found.score > 0.0:
                given = Split(np.inf, feature, cut, found.missing_left, 0, 0, 0)
                return given, found.score / factor * score_unit(node)
    return best, 0.0


@kernel(inline=True, inner=True)
def side_value(
    g: float, h: float, n: int, node: VectorNode, rules: SplitRules, output: int
) -> float:
    """Return the leaf value of a side of ``n`` rows with these sums of an output."""
    weight = leaf_weight(g, h, rules)
    if node.smooth > 0.0:
        weight = smoothed(weight, float(n), own_value(node, output), node.smooth)
    return value_within(node, output, weight)


@kernel(inner=True)
def middle_of_sides(
    sums: Sums, at: int, absent: int, split: Split, node: VectorNode, rules: SplitRules, output: int
) -> float:
    """Return the middle of the leaf values of both sides of a split, of an output."""
    # ``at`` and ``absent`` are the first bin of the column and that of missing values.
    cells, word = sums.cells, place_of_g(sums.constant, output)
    g, h = np.int64(0), np.int64(0)
    for b in range(split.bin + 2):
        is_missing = b == split.bin + 1
        bin_ = absent if is_missing else at + b
        if sums.n[bin_] > 0 and (split.missing_left == 1 or not is_missing):
            g += np.int64(cells[bin_ * sums.width + word])
            if sums.constant == 0:
                h += np.int64(cells[bin_ * sums.width + word + N_LANES])
    if sums.constant == 1:
        h = split.n_left
    g_unit, h_unit = node.units[output, 0], node.units[output, 1]
    left = side_value(float(g) * g_unit, float(h) * h_unit, split.n_left, node, rules, output)
    g, h = node.totals[output, 0] - g, node.totals[output, 1] - h
    n_right = node.n_rows - split.n_left
    right = side_value(float(g) * g_unit, float(h) * h_unit, n_right, node, rules, output)
    return 0.5 * left + 0.5 * right


@kernel(inner=True)
def restricted_score(
    score: float, n_left: int, node: VectorNode, rules: SplitRules, side: IntArray
) -> float:
    """Return the score of a set of categories with leaf values smoothed and within bounds."""
    # ``score`` is that of the best values; ``side`` are the sums on the left.
    if node.smooth > 0.0 or node.ordered == 1:
        for output in range(node.totals.shape[0]):
            g_unit, h_unit = node.units[output, 0], node.units[output, 1]
            g, h, n = float(side[output, 0]) * g_unit, float(side[output, 1]) * h_unit, n_left
            for _ in range(2):
                score -= lost_with(g, h, side_value(g, h, n, node, rules, output), rules)
                # Once more with the right side.
                g = float(node.totals[output, 0] - side[output, 0]) * g_unit
                h = float(node.totals[output, 1] - side[output, 1]) * h_unit
                n = node.n_rows - n_left
    return score


@kernel(inner=True)
def gain_of_vector_set(
    score: float, feature: int, node: VectorNode, bounds: Bounds, constraints: Constraints
) -> float:
    """Return the gain of a set of categories with this score, or -1 if it is not positive."""
    # Without constraints the score remains what it is.
    if constraints.scored == 0:
        return score
    unit = score_unit(node)
    gain = gain_of(score / unit, factor_of(constraints, feature, bounds), bounds)
    return gain * unit if gain > 0.0 else -1.0
