"""Search of the best cut of a node for several outputs at once.

The score of a cut is the sum over the outputs of the score of one output
(:mod:`hedgerow.kernels.splits.split`), from the histograms of all outputs::

    score(cut) = sum over k of  score(G_k left, H_k left) + score(G_k right, H_k right)

One tree serves all outputs (the ``multi_output_tree`` of XGBoost; sums over
classes in Friedman 2001 are of the same kind).  Outputs lie side by side, eight of them
in the lanes of a vector (:mod:`hedgerow.kernels.simd.lanes`).  The search passes through a
column bin by bin and skips bins without rows::

              output 0  1  2 ... 7 | 8  9 ...
    bin 0            .  .  .     .   .  .       running sums of g and h of each output
    bin 3            .  .  .     .   .  .       score of the cut after the bin: of each
    bin 4            .  .  .     .   .  .       lane, added up over eights, then over lanes

Each block of eight outputs passes through the column in turn, with its running sums in
registers.

A side needs ``min_samples_leaf`` rows, and a hessian of ``min_child_weight`` in the
mean over the outputs: with equal outputs both rules mean the same as for one output.

Ties are broken as in :mod:`hedgerow.kernels.splits.split`.  Lanes without an output add 0, so
one output alone and the same output twice give the same cut.

If leaf values are smoothed (:mod:`hedgerow.kernels.splits.growth`), each side takes, of each
output, its value smoothed toward that of the node, and the score of that value.  If columns are
ordered (:mod:`hedgerow.kernels.splits.monotone`), the values of each output stay within its
bounds, and a cut of an ordered column counts only if it orders the sides of every output.  The
``sign`` of other columns is 0.

Outputs differ in their units.  All sums are converted to the largest unit, a power of
two (:class:`VectorNode`): nothing is rounded, and squares stay far from the limits of
float64.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.histograms.vector_histogram import Sums, list_filled, place_of_g
from hedgerow.kernels.simd.lanes import (
    N_LANES,
    WIDTH,
    choose,
    load_floats,
    spread,
    store_floats,
    sum_floats,
)
from hedgerow.kernels.splits.growth import smoothed
from hedgerow.kernels.splits.monotone import (
    clamp,
    lane_scores,
    lane_steps,
    score_at,
)
from hedgerow.kernels.splits.split import (
    Limits,
    Split,
    SplitRules,
    Units,
    leaf_weight,
    node_score,
    side_score,
)

# Rows of ``lanes``; each has an entry for every output, padded to a multiple of eight.
_G_UNIT, _H_UNIT, _G, _H, _PENALTY, _OWN, _LOW, _HIGH, LANE_ROWS = range(9)
FILLED_SIZE = 264
"""Size of the list of bins of a thread."""


class VectorNode(NamedTuple):
    """The node that is searched.

    start    first cell of its histogram
    n_rows   number of its rows
    totals   int64 (n_outputs, 2): sums of g and h over its rows
    units    float64 (n_outputs, 2): value of one unit of these sums
    largest  largest units of all outputs, in which scores are computed
    lanes    float64 (LANE_ROWS * size,): units, sums of the node, ``reg_lambda``, leaf value
             within bounds and smoothed, and the bounds of each output, in terms of ``largest``
    size     outputs, rounded up to a multiple of ``N_LANES``
    filled   int64 (FILLED_SIZE,): scratch, bins with rows
    cuts     float64 (2, FILLED_SIZE * N_LANES): scratch, score of the cut after each of these
             bins, and hessian on its left, in lanes
    number   its number in the tree
    smooth   rows that its leaf value counts for in its sides; 0: no smoothing
    ordered  1: columns are ordered, and leaf values have bounds
    """

    start: np.int64
    n_rows: np.int64
    totals: IntArray
    units: FloatArray
    largest: Units
    lanes: FloatArray
    size: np.int64
    filled: IntArray
    cuts: FloatArray
    number: np.int64
    smooth: np.float64
    ordered: np.int64


class Order(NamedTuple):
    """The required order of the sides of a column's cuts.

    sign   1: left values are not above right ones; -1: not below; 0: in any order
    apart  the same from the cut after this ``filled`` bin on, if missing values are on the right:
           nothing else is there
    last   this bin
    """

    sign: np.float64
    apart: np.float64
    last: np.int64


@kernel(inner=True)
def sum_totals(sums: Sums, at: int, n_bins: int, stride: int, node: VectorNode) -> None:
    """Sum the histogram of the column at ``at`` to the totals of each output of the node."""
    cells, totals = sums.cells, node.totals
    n_filled = list_filled(sums.n, at, n_bins, stride, node.filled)
    for output in range(len(totals)):
        word = place_of_g(sums.constant, output)
        g, h = np.int64(0), np.int64(0)
        for e in range(n_filled):
            cell = (at + node.filled[e]) * sums.width + word
            g += np.int64(cells[cell])
            if sums.constant == 0:
                h += np.int64(cells[cell + N_LANES])
        totals[output, 0] = g
        totals[output, 1] = node.n_rows if sums.constant == 1 else h


@kernel(inner=True)
def start_search(node: VectorNode, rules: SplitRules) -> Limits:
    """Fill the lanes of the node; return its rules in terms of ``node.largest``."""
    lanes, size, largest = node.lanes, node.size, node.largest
    penalty, weight = rules.reg_lambda / largest.h, 0.0
    for k in range(size):
        for row in range(LANE_ROWS):
            lanes[row * size + k] = 0.0
        lanes[_PENALTY * size + k] = 1.0
        lanes[_LOW * size + k] = -math.inf
        lanes[_HIGH * size + k] = math.inf
    for k in range(len(node.totals)):
        g_unit, h_unit = node.units[k, 0] / largest.g, node.units[k, 1] / largest.h
        lanes[_G_UNIT * size + k] = g_unit
        lanes[_H_UNIT * size + k] = h_unit
        lanes[_G * size + k] = float(node.totals[k, 0]) * g_unit
        lanes[_H * size + k] = float(node.totals[k, 1]) * h_unit
        weight += lanes[_H * size + k]
        lanes[_PENALTY * size + k] = penalty
    return Limits(
        0.0,
        weight,
        node.n_rows,
        max(rules.min_samples_leaf, np.int64(1)),
        rules.min_child_weight * len(node.totals) / largest.h,
        penalty,
        rules.reg_alpha / largest.g,
        rules.max_delta_step * (largest.h / largest.g),
        rules.reg_alpha == 0.0 and math.isinf(rules.max_delta_step),
        False,
    )


@kernel(inner=True)
def score_totals(node: VectorNode, rules: SplitRules) -> float:
    """Return twice the loss reduction of the node as a leaf, over all outputs."""
    score = 0.0
    for output in range(node.totals.shape[0]):
        g = float(node.totals[output, 0]) * node.units[output, 0]
        h = float(node.totals[output, 1]) * node.units[output, 1]
        score += node_score(g, h, rules)
    return score


@kernel(inline=True, inner=True)
def set_bounds(node: VectorNode, output: int, low: float, high: float) -> None:
    """Set the bounds of the leaf values of an output, after :func:`start_search`."""
    unit = node.largest.h / node.largest.g
    node.lanes[_LOW * node.size + output] = low * unit
    node.lanes[_HIGH * node.size + output] = high * unit


@kernel(inline=True, inner=True)
def value_within(node: VectorNode, output: int, value: float) -> float:
    """Return a leaf value of an output, or the bound that it crosses."""
    unit = node.largest.g / node.largest.h
    low, high = node.lanes[_LOW * node.size + output], node.lanes[_HIGH * node.size + output]
    return clamp(value, low * unit, high * unit)


@kernel(inner=True)
def restrict_node(node: VectorNode, rules: SplitRules, vectors: FloatArray, parent: int) -> float:
    """Smooth and bound the leaf values of the node; return the score of the node with them."""
    # They are smoothed toward ``vectors[parent]``; the root, of ``parent`` -1, keeps its own
    # values.
    score = 0.0
    for output in range(node.totals.shape[0]):
        g = float(node.totals[output, 0]) * node.units[output, 0]
        h = float(node.totals[output, 1]) * node.units[output, 1]
        value = leaf_weight(g, h, rules)
        if parent >= 0 and node.smooth > 0.0:
            value = smoothed(value, float(node.n_rows), vectors[parent, output], node.smooth)
        value = value_within(node, output, value)
        node.lanes[_OWN * node.size + output] = value * (node.largest.h / node.largest.g)
        score += score_at(g, h + rules.reg_lambda, rules.reg_alpha, value)
    return score


@kernel(inline=True, inner=True)
def own_value(node: VectorNode, output: int) -> float:
    """Return the leaf value that :func:`restrict_node` has found."""
    return node.lanes[_OWN * node.size + output] * (node.largest.g / node.largest.h)


@kernel(inline=True, inner=True)
def smoothed_score(g: Any, d: Any, n: int, own: Any, smooth: float, limits: Limits) -> Any:
    """Return the scores of a side of ``n`` rows, with leaf values smoothed toward ``own``."""
    share = float(n) / (float(n) + smooth)
    weight = spread(share) * lane_steps(g, d, limits) + spread(1.0 - share) * own
    return lane_scores(g, d, weight, limits)


@kernel(inline=True, inner=True)
def bounded_scores(
    g: tuple[Any, Any],
    d: tuple[Any, Any],
    n: tuple[int, int],
    lanes: tuple[Any, Any, Any],
    node: VectorNode,
    limits: Limits,
    sign: float,
) -> Any:
    """Return scores of both sides with leaf values within bounds, or -inf if out of order."""
    # ``lanes`` are the leaf value of the node and the bounds of each output.
    own, low, high = lanes
    left, right = lane_steps(g[0], d[0], limits), lane_steps(g[1], d[1], limits)
    if node.smooth > 0.0:
        share = float(n[0]) / (float(n[0]) + node.smooth)
        left = spread(share) * left + spread(1.0 - share) * own
        share = float(n[1]) / (float(n[1]) + node.smooth)
        right = spread(share) * right + spread(1.0 - share) * own
    left, right = choose(low > left, low, left), choose(low > right, low, right)
    left, right = choose(left > high, high, left), choose(right > high, high, right)
    score = lane_scores(g[0], d[0], left, limits) + lane_scores(g[1], d[1], right, limits)
    in_order = spread(sign) * (right - left) >= spread(0.0)
    return choose(in_order, score, spread(-math.inf))


@kernel(inner=True)
def score_cuts(
    sums: Sums, at: int, missing: int, n_filled: int, node: VectorNode, limits: Limits, order: Order
) -> None:
    """Score the cuts after ``filled`` bins of the column at ``at``."""
    # If ``missing`` is not negative, this bin is on the left of every cut.  A side whose ``H +
    # lambda`` is 0 makes the score minus infinity.
    if node.ordered == 1:
        score_outputs(sums, at, missing, n_filled, node, limits, order, True, True)
    elif node.smooth > 0.0:
        score_outputs(sums, at, missing, n_filled, node, limits, order, True, False)
    else:
        score_outputs(sums, at, missing, n_filled, node, limits, order, False, False)


@kernel(inline=True, inner=True)
def score_outputs(
    sums: Sums,
    at: int,
    missing: int,
    n_filled: int,
    node: VectorNode,
    limits: Limits,
    order: Order,
    counts: bool,
    bounds: bool,
) -> None:
    """Score cuts as :func:`score_cuts` does, ``WIDTH`` outputs at a time."""
    # ``counts`` (leaf values are smoothed) and ``bounds`` are constants, so that the compiler drops
    # the other branches: counting rows in the loop over bins made trees of three classes a tenth
    # slower.
    lanes, cells, n, size, filled = node.lanes, sums.cells, sums.n, node.size, node.filled
    scores, weights = node.cuts[0], node.cuts[1]
    constant = sums.constant == 1
    for k in range(0, size, WIDTH):
        word, part = place_of_g(sums.constant, k), k % N_LANES
        g_unit, h_unit = (
            load_floats(lanes, _G_UNIT * size + k),
            load_floats(lanes, _H_UNIT * size + k),
        )
        g, h = load_floats(lanes, _G * size + k), load_floats(lanes, _H * size + k)
        penalty, own = load_floats(lanes, _PENALTY * size + k), load_floats(lanes, _OWN * size + k)
        if bounds:
            low = load_floats(lanes, _LOW * size + k)
            high = load_floats(lanes, _HIGH * size + k)
        g_left, h_left, n_left = spread(0.0), spread(0.0), np.int64(0)
        for e in range(-1 if missing >= 0 else 0, n_filled):
            bin_ = at + (filled[e] if e >= 0 else missing)
            cell = bin_ * sums.width + word
            g_left = g_left + load_floats(cells, cell) * g_unit
            if constant:
                h_left = h_left + spread(float(n[bin_])) * h_unit
            else:
                h_left = h_left + load_floats(cells, cell + N_LANES) * h_unit
            if counts:
                n_left += np.int64(n[bin_])
            if e < 0:
                continue
            g_right, d_left, d_right = g - g_left, h_left + penalty, h - h_left + penalty
            product = d_left * d_right
            if bounds:
                sign = order.apart if e >= order.last and missing < 0 else order.sign
                g_sides, d_sides = (g_left, g_right), (d_left, d_right)
                rows = n_left, node.n_rows - n_left
                score = bounded_scores(g_sides, d_sides, rows, (own, low, high), node, limits, sign)
            elif counts:
                n_right = node.n_rows - n_left
                score = smoothed_score(g_left, d_left, n_left, own, node.smooth, limits)
                score = score + smoothed_score(g_right, d_right, n_right, own, node.smooth, limits)
            elif limits.plain:
                score = (g_left * g_left * d_right + g_right * g_right * d_left) / product
            else:
                score = side_score(g_left, d_left, limits) + side_score(g_right, d_right, limits)
            score = choose(product > spread(0.0), score, spread(-math.inf))
            weight, to = h_left, e * N_LANES + part
            if k >= N_LANES:
                score = load_floats(scores, to) + score
                weight = load_floats(weights, to) + weight
            store_floats(scores, to, score)
            store_floats(weights, to, weight)


@kernel(inner=True)
def search_column(
    sums: Sums,
    feature: int,
    n_bins: int,
    stride: int,
    node: VectorNode,
    limits: Limits,
    sign: float,
    best: Split,
) -> Split:
    """Return the better of ``best`` and the best cut of one column, in both missing directions."""
    at, n, filled = node.start + feature * stride, sums.n, node.filled
    scores, weights, absent = node.cuts[0], node.cuts[1], stride - 1
    n_missing = np.int64(n[at + absent])
    n_filled = list_filled(n, at, n_bins, stride, filled) - np.int64(n_missing > 0)
    for side in range(2 if n_missing > 0 else 1):
        order = Order(sign, 0.0, n_filled - 1)
        score_cuts(sums, at, absent if side == 1 else -1, n_filled, node, limits, order)
        n_left = n_missing if side == 1 else np.int64(0)
        for e in range(n_filled):
            n_left += np.int64(n[at + filled[e]])
            if min(n_left, node.n_rows - n_left) < limits.fewest:
                continue
            score = sum_floats(scores, e * N_LANES)
            if score > best.score:
                left = sum_floats(weights, e * N_LANES)
                if min(left, limits.h - left) >= limits.lightest:
                    zero = np.int64(0)
                    best = Split(score, feature, filled[e], np.int64(side), zero, zero, zero)
    return best


@kernel(inner=True)
def scored_gain(node: VectorNode, e: int, n_left: int, limits: Limits, parent: float) -> float:
    """Return the gain of the cut after ``filled`` bin ``e``, or -inf if a side is too small."""
    if min(n_left, node.n_rows - n_left) < limits.fewest:
        return -math.inf
    left = sum_floats(node.cuts[1], e * N_LANES)
    if min(left, limits.h - left) < limits.lightest:
        return -math.inf
    return sum_floats(node.cuts[0], e * N_LANES) - parent


@kernel(inner=True)
def gain_of_cut(
    sums: Sums,
    at: int,
    n_bins: int,
    stride: int,
    node: VectorNode,
    limits: Limits,
    parent: float,
    cut: tuple[int, int],
    signs: tuple[float, float],
) -> float:
    """Return the gain of one cut of a column, or -inf if it does not divide the node in order."""
    # ``cut`` holds the bin before the cut, and whether missing values go left; ``signs`` how its
    # sides are ordered, and how if it only sets missing values apart.
    n, filled, absent = sums.n, node.filled, stride - 1
    n_missing = np.int64(n[at + absent])
    n_filled = list_filled(n, at, n_bins, stride, filled) - np.int64(n_missing > 0)
    is_left = cut[1] == 1 and n_missing > 0
    last, n_left, apart = np.int64(-1), np.int64(0), signs[1]
    while last + 1 < n_filled and filled[last + 1] <= cut[0]:
        last += 1
        n_left += np.int64(n[at + filled[last]])
    if is_left and last < 0:  # only missing values on the left: swap the sides
        is_left, last, n_left, apart = False, n_filled - 1, node.n_rows - n_missing, -apart
    elif is_left:
        n_left += n_missing
    if last < 0:
        return -math.inf
    order = Order(signs[0], apart, n_filled - 1)
    score_cuts(sums, at, absent if is_left else -1, last + 1, node, limits, order)
    return scored_gain(node, last, n_left, limits, parent)


@kernel(inner=True)
def vector_gain(score: float, parent: float, n_outputs: int, rules: SplitRules) -> float:
    """Return the loss reduction of a split, summed over the outputs, or -1 if not positive."""
    # ``gamma`` is subtracted for each output.  As in
    # :func:`hedgerow.kernels.splits.split.split_gain`, a gain within rounding error counts as 0.
    if score < 0.0:
        return -1.0
    difference = score - parent
    if difference <= 1e-10 * parent:
        return -1.0
    gain = 0.5 * difference - n_outputs * rules.gamma
    return gain if gain > 0.0 and math.isfinite(gain) else -1.0
