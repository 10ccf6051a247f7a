"""Gains of the splits of several outputs where columns have factors or cuts are not free.

As :mod:`hedgerow.kernels.splits.search` for one output: the search compares gains, not
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
from hedgerow.kernels.histograms.histogram import HistogramSums
from hedgerow.kernels.histograms.vector_histogram import place_of_g
from hedgerow.kernels.simd.lanes import N_LANES
from hedgerow.kernels.splits.growth import (
    FORCED_BIN,
    FORCED_FEATURE,
    NODE_FORCED,
    NODE_KEY,
    drawn_bin,
)
from hedgerow.kernels.splits.monotone import (
    ORDERED,
    Asked,
    Constraints,
    factor_of,
    gain_of,
    lost_with,
)
from hedgerow.kernels.splits.split import (
    NO_SPLIT,
    ROUNDING,
    Limits,
    Split,
    leaf_weight,
    smoothed,
)
from hedgerow.kernels.splits.vector_split import (
    VectorNode,
    bounded_value,
    first_cell,
    own_value,
    score_of_cut,
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
def asked_of_vectors(constraints: Constraints, node: VectorNode, own: float) -> Asked:
    """Return what the node, of the score ``own``, asks of gains, in units of its sums."""
    if constraints.scored == 0:
        return Asked(0.0, 0.0, 0.0, 1.0, 0, -1)
    unit = score_unit(node)
    return Asked(
        own / unit,
        ROUNDING * score_totals(node) / unit,
        node.totals.shape[0] * node.rules.gamma / unit,
        constraints.bounds[node.number, ORDERED],
        constraints.growth.node[node.number, NODE_KEY],
        constraints.growth.node[node.number, NODE_FORCED],
    )


@kernel(inner=True)
def gain_at(
    node: VectorNode, feature: int, cut: int, limits: Limits, asked: Asked, constraints: Constraints
) -> Split:
    """Return the cut after bin ``cut``, and its gain, with missing values where they gain more."""
    # The gain is -1 where none is positive.
    factor, signs = factor_of(constraints, feature, asked), (constraints.sign[feature], 0.0)
    best, last = NO_SPLIT, first_cell(node, feature) + node.stride - 1
    for side in range(2 if node.sums.n[last] > 0 else 1):
        score = score_of_cut(node, feature, limits, cut, np.int64(side), signs)
        gain = gain_of(score, factor, asked)
        if gain > best.score:
            best = Split(gain, feature, cut, np.int64(side), 0, 0, 0)
    return best


@kernel(inline=True, inner=True)
def search_bounded(
    node: VectorNode,
    feature: int,
    limits: Limits,
    asked: Asked,
    constraints: Constraints,
    best: Split,
) -> Split:
    """Return the better of ``best`` and the cut of a column that counts in this fit."""
    if constraints.scored == 0:
        return search_column(node, feature, limits, 0.0, best)
    if constraints.growth.drawn == 1:
        n, at = node.sums.n, first_cell(node, feature)
        n_bins = np.int64(node.n_bins[feature])
        cut = drawn_bin(HistogramSums(n, n, n), at, n_bins, node.stride, asked.key, feature)
        if cut < 0:
            return best
        found = gain_at(node, feature, cut, limits, asked, constraints)
        return found if found.score > best.score else best
    found = search_column(node, feature, limits, constraints.sign[feature], _WORST)
    gain = gain_of(found.score, factor_of(constraints, feature, asked), asked)
    if gain > best.score:
        best = Split(gain, feature, found.bin, found.missing_left, 0, 0, 0)
    return best


@kernel(inner=True)
def take_given(
    span: tuple[int, int],
    features: np.ndarray,
    allowed: np.ndarray,
    node: VectorNode,
    limits: Limits,
    asked: Asked,
    constraints: Constraints,
    best: Split,
) -> tuple[Split, float]:
    """Return the cut given to the node, of infinite score, and its gain before factors."""
    # If the columns ``span`` do not have it, or it gains nothing: ``best`` and 0.
    feature = constraints.growth.forced[asked.forced, FORCED_FEATURE]
    cut = constraints.growth.forced[asked.forced, FORCED_BIN]
    for k in range(span[0], span[1]):
        if np.int64(features[k]) == feature and allowed[feature] == 1:
            found = gain_at(node, feature, cut, limits, asked, constraints)
            if found.score > 0.0:
                given = Split(np.inf, feature, cut, found.missing_left, 0, 0, 0)
                factor = factor_of(constraints, feature, asked)
                return given, found.score / factor * score_unit(node)
    return best, 0.0


@kernel(inline=True, inner=True)
def side_value(g: float, h: float, n: int, node: VectorNode, output: int) -> float:
    """Return the leaf value of a side of ``n`` rows with these sums of an output."""
    weight = leaf_weight(g, h, node.rules)
    if node.smooth > 0.0:
        weight = smoothed(weight, float(n), own_value(node, output), node.smooth)
    return bounded_value(node, output, weight)


@kernel(inner=True)
def middle_of_sides(split: Split, node: VectorNode, output: int) -> float:
    """Return the middle of the leaf values of both sides of a split, of an output."""
    sums, at = node.sums, first_cell(node, split.feature)
    word = place_of_g(sums.constant, output)
    g, h = np.int64(0), np.int64(0)
    for b in range(split.bin + 2):
        is_missing = b == split.bin + 1
        bin_ = at + node.stride - 1 if is_missing else at + b
        if sums.n[bin_] > 0 and (split.missing_left == 1 or not is_missing):
            g += np.int64(sums.cells[bin_ * sums.width + word])
            if sums.constant == 0:
                h += np.int64(sums.cells[bin_ * sums.width + word + N_LANES])
    if sums.constant == 1:
        h = split.n_left
    g_unit, h_unit = node.units[output, 0], node.units[output, 1]
    left = side_value(float(g) * g_unit, float(h) * h_unit, split.n_left, node, output)
    g, h = node.totals[output, 0] - g, node.totals[output, 1] - h
    n_right = node.n_rows - split.n_left
    right = side_value(float(g) * g_unit, float(h) * h_unit, n_right, node, output)
    return 0.5 * left + 0.5 * right


@kernel(inner=True)
def restricted_set_score(score: float, n_left: int, node: VectorNode, side: IntArray) -> float:
    """Return the score of a set of categories with leaf values smoothed and within bounds."""
    # ``score`` is that of the best values; ``side`` are the sums on the left.
    if node.smooth > 0.0 or node.ordered == 1:
        for output in range(node.totals.shape[0]):
            g_unit, h_unit = node.units[output, 0], node.units[output, 1]
            g, h, n = float(side[output, 0]) * g_unit, float(side[output, 1]) * h_unit, n_left
            for _ in range(2):
                score -= lost_with(g, h, side_value(g, h, n, node, output), node.rules)
                # Once more with the right side.
                g = float(node.totals[output, 0] - side[output, 0]) * g_unit
                h = float(node.totals[output, 1] - side[output, 1]) * h_unit
                n = node.n_rows - n_left
    return score


@kernel(inner=True)
def gain_of_vector_set(
    score: float, feature: int, node: VectorNode, asked: Asked, constraints: Constraints
) -> float:
    """Return the gain of a set with this score, or -1; without constraints the score itself."""
    if constraints.scored == 0:
        return score
    unit = score_unit(node)
    gain = gain_of(score / unit, factor_of(constraints, feature, asked), asked)
    return gain * unit if gain > 0.0 else -1.0
