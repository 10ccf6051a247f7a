"""Search of the best cut where leaf values are bounded or ordered, or gains have factors.

A side with leaf value ``w``, which need not be optimal, lowers the loss by half of

    score(G, H, w) = -(2 G w + (H + lambda) w^2 + 2 alpha |w|)

Each side takes its Newton step (:mod:`hedgerow.kernels.splits.split`), clipped to the bounds
of the node::

    bounds of the node       low ------------------------------ high
    column that must rise    low ---- left ---- middle             a cut counts only if
                                       middle ---- right ---- high    left <= right
    other columns            low ------- both ----------------- high

``middle`` lies between the values of the two sides, so all leaves that grow on the
left stay below all leaves that grow on the right (XGBoost; LightGBM's "basic").  A
cut that separates missing values orders nothing: it is allowed, and both children
inherit the bounds of the node.

The gain of a split is

    factor of its column * (1/2 [score(L) + score(R) - score(node)] - gamma)

The factor of an ordered column may be smaller in the first levels.
:mod:`hedgerow.kernels.splits.growth` defines this factor, the smoothing of leaf values and the
choice of random and forced cuts.

The search compares gains because columns have different factors.  It handles several
columns at a time, like the search of :mod:`hedgerow.kernels.splits.split`.  The latter stays
separate: it needs no leaf values and only one division per cut.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.histograms.histogram import HistogramSums
from hedgerow.kernels.simd.lanes import (
    WIDTH,
    choose,
    gather,
    lane_of,
    load_turned,
    spread,
    to_float,
)
from hedgerow.kernels.splits.growth import NODE_FORCED, NODE_KEY, GrowthRules, smoothed
from hedgerow.kernels.splits.split import (
    Cuts,
    Limits,
    NodeSums,
    Split,
    SplitRules,
    Units,
    is_allowed,
    leaf_weight,
    node_score,
)

ROUNDING = 1e-10
"""A gain no larger than this share of the node's own score is rounding."""


class Constraints(NamedTuple):
    """Constraints on columns, and their state in each node.

    scored         1: leaf values are bounded or ordered, gains have factors, or ``growth`` is
                   used; 0: only interactions are constrained, and the search is the plain one
    sign           float64 (n_features,): 1 rises, -1 falls, 0 free
    factor         float64 (n_features,): factor on gains
    last_bin       int64 (n_features,): a cut after this bin separates missing values;
                   empty where trees are not grown on bins
    bounds         float64 (nodes, 4): lowest and highest leaf value and the value of the
                   parent, all before the learning rate; factor on gains of ordered columns
    parent         int64 (nodes,)
    together       largest number of columns on a branch; 0: the groups decide;
                   -1: any number, there are no interaction constraints
    group_start    int64 (groups + 1,): columns of group k are
    group_columns  ``group_columns[group_start[k] : group_start[k + 1]]``
    column_start   the inverse: groups of each column
    column_groups
    met            int64 (groups,): zeros, scratch for counting
    used           int32 (n_features,): scratch for the columns of a branch
    permitted      int32 (n_features,): scratch for marks
    growth         see :mod:`hedgerow.kernels.splits.growth`
    """

    scored: np.int64
    sign: FloatArray
    factor: FloatArray
    last_bin: IntArray
    bounds: FloatArray
    parent: IntArray
    together: np.int64
    group_start: IntArray
    group_columns: IntArray
    column_start: IntArray
    column_groups: IntArray
    met: IntArray
    used: np.ndarray
    permitted: np.ndarray
    growth: GrowthRules


# Columns of ``Constraints.bounds``.
LOW, HIGH, TOWARD, ORDERED = range(4)


class Bounds(NamedTuple):
    """Bounds and rules of a node in units of its histogram, in addition to ``Limits``."""

    low: np.float64
    high: np.float64
    score: np.float64  # score of the node as a leaf
    rounding: np.float64
    gamma: np.float64
    toward: np.float64  # leaf value of the node; the sides are smoothed toward it
    smooth: np.float64
    ordered: np.float64  # factor on gains of ordered columns
    key: np.int64  # key of random draws
    forced: np.int64  # forced cut of the node, or -1


@kernel(inline=True, inner=True)
def clamp(value: float, low: float, high: float) -> float:
    """Return ``value``, or the bound that it crosses."""
    return min(max(value, low), high)


@kernel(inline=True, inner=True)
def score_at(g: float, d: float, alpha: float, weight: float) -> float:
    """Return twice the loss reduction of a leaf with this weight; ``d`` is ``H + lambda``."""
    return -((g + g) * weight + d * weight * weight) - 2.0 * alpha * abs(weight)


@kernel(inline=True, inner=True)
def value_in_node(constraints: Constraints, number: int, weight: float, n: int) -> float:
    """Return the Newton step of node ``number`` with ``n`` rows, smoothed and within bounds."""
    if constraints.growth.smooth > 0.0 and number > 0:  # the root has no parent
        weight = smoothed(
            weight, float(n), constraints.bounds[number, TOWARD], constraints.growth.smooth
        )
    return clamp(weight, constraints.bounds[number, LOW], constraints.bounds[number, HIGH])


@kernel(inner=True)
def bounds_of(
    constraints: Constraints, number: int, node: NodeSums, units: Units, rules: SplitRules
) -> Bounds:
    """Return the bounds of node ``number`` with these sums, in units of its histogram."""
    if constraints.scored == 0:
        return Bounds(-np.inf, np.inf, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0, -1)
    low, high = constraints.bounds[number, LOW], constraints.bounds[number, HIGH]
    g, h = float(node.g) * units.g, float(node.h) * units.h
    weight = value_in_node(constraints, number, leaf_weight(g, h, rules), node.n)
    score = score_at(g, h + rules.reg_lambda, rules.reg_alpha, weight)
    value_unit = units.h / units.g
    score_unit = units.g * (units.g / units.h)
    return Bounds(
        low * value_unit,
        high * value_unit,
        score / score_unit,
        ROUNDING * node_score(g, h, rules) / score_unit,
        rules.gamma / score_unit,
        weight * value_unit,
        constraints.growth.smooth,
        constraints.bounds[number, ORDERED],
        constraints.growth.node[number, NODE_KEY],
        constraints.growth.node[number, NODE_FORCED],
    )


@kernel(inline=True, inner=True)
def gain_of(score: float, factor: float, bounds: Bounds) -> float:
    """Return the gain of a split with this sum of scores, or -1 if it is not positive."""
    difference = score - bounds.score
    if not difference > bounds.rounding:
        return -1.0
    gain = factor * (0.5 * difference - bounds.gamma)
    return gain if gain > 0.0 and math.isfinite(gain) else -1.0


@kernel(inline=True, inner=True)
def factor_of(constraints: Constraints, feature: int, bounds: Bounds) -> float:
    """Return the factor on the gains of a column in a node."""
    ordered = bounds.ordered if constraints.sign[feature] != 0.0 else 1.0
    return constraints.factor[feature] * ordered


class ConstrainedColumn(NamedTuple):
    """Constraints on one column in one node, for a search that scores cuts one by one."""

    sign: np.float64
    factor: np.float64
    n_present: np.int64  # rows of the node with a value
    bounds: Bounds


@kernel(inline=True, inner=True)
def side_weight(g: float, d: float, n: int, limits: Limits, bounds: Bounds) -> float:
    """Return the leaf value of a side of ``n`` rows within the bounds; ``d`` is ``H + lambda``."""
    step = min(max(abs(g) - limits.shrink, 0.0) / d, limits.longest)
    weight = -step if g > 0.0 else step
    if bounds.smooth > 0.0:
        weight = smoothed(weight, float(n), bounds.toward, bounds.smooth)
    return clamp(weight, bounds.low, bounds.high)


@kernel(inline=True, inner=True)
def cut_gain(
    g_left: float,
    h_left: float,
    n_left: int,
    n_before: int,
    limits: Limits,
    constraints: ConstrainedColumn,
) -> float:
    """Return the gain of a cut with ``n_before`` rows with a value before it, or -1."""
    g_right, d_left = limits.g - g_left, h_left + limits.penalty
    d_right = limits.h - h_left + limits.penalty
    if d_left <= 0.0 or d_right <= 0.0:
        return -1.0
    left = side_weight(g_left, d_left, n_left, limits, constraints.bounds)
    right = side_weight(g_right, d_right, limits.n - n_left, limits, constraints.bounds)
    if constraints.sign * (right - left) < 0.0 and n_before < constraints.n_present:
        return -1.0
    score = score_at(g_left, d_left, limits.shrink, left)
    score += score_at(g_right, d_right, limits.shrink, right)
    return gain_of(score, constraints.factor, constraints.bounds)


@kernel(inline=True, inner=True)
def lane_steps(g: Any, d: Any, limits: Limits) -> Any:
    """Return the Newton steps of several sides; ``d`` is ``H + lambda``."""
    zero, longest = spread(0.0), spread(limits.longest)
    size = choose(g > zero, g, zero - g) - spread(limits.shrink)
    size = choose(size > zero, size, zero)
    step = size / d
    step = choose(step > longest, longest, step)
    return choose(g > zero, zero - step, step)


@kernel(inline=True, inner=True)
def lane_weights(g: Any, d: Any, n: Any, limits: Limits, bounds: Bounds) -> Any:
    """Return the leaf values of several sides within the bounds; ``d`` is ``H + lambda``."""
    low, high = spread(bounds.low), spread(bounds.high)
    weight = lane_steps(g, d, limits)
    if bounds.smooth > 0.0:
        rows = to_float(n)
        share = rows / (rows + spread(bounds.smooth))
        weight = share * weight + (spread(1.0) - share) * spread(bounds.toward)
    weight = choose(low > weight, low, weight)
    return choose(weight > high, high, weight)


@kernel(inline=True, inner=True)
def lane_scores(g: Any, d: Any, weight: Any, limits: Limits) -> Any:
    """Return :func:`score_at` of several sides."""
    zero = spread(0.0)
    size = choose(weight > zero, weight, zero - weight)
    linear = (g + g) * weight + spread(limits.shrink + limits.shrink) * size
    return zero - (linear + d * weight * weight)


@kernel(inline=True, inner=True)
def pass_constrained(
    cuts: Cuts, g: Any, h: Any, n: Any, bin_: int, limits: Limits, bounds: Bounds, sign: Any,
    n_present: Any,
) -> Cuts:  # fmt: skip
    """Advance by one bin, as :func:`hedgerow.kernels.splits.split.pass_bin`, within bounds."""
    g_sum, h_sum, n_left = cuts.g + g, cuts.h + h, cuts.n + n
    g_left, h_left = to_float(g_sum), to_float(h_sum)
    g_right, h_right = spread(limits.g) - g_left, spread(limits.h) - h_left
    d_left = h_left + spread(limits.penalty)
    d_right = h_right + spread(limits.penalty)
    left = lane_weights(g_left, d_left, n_left, limits, bounds)
    right = lane_weights(g_right, d_right, spread(limits.n) - n_left, limits, bounds)
    score = lane_scores(g_left, d_left, left, limits)
    score = score + lane_scores(g_right, d_right, right, limits)
    # After the last value only missing values remain: the sides need no order.
    sign = choose(n_left >= n_present, spread(0.0), sign)
    allowed = is_allowed(n_left, h_left, h_right, limits)
    better = allowed & (sign * (right - left) >= spread(0.0)) & (score > cuts.score)
    score, bin_ = choose(better, score, cuts.score), choose(better, spread(bin_), cuts.bin)
    return Cuts(g_sum, h_sum, n_left, score, bin_)


@kernel(inner=True)
def search_constrained_lanes(
    histograms: HistogramSums,
    at: IntArray,
    n_bins: int,
    stride: int,
    missing_left: bool,
    limits: Limits,
    bounds: Bounds,
    sign: Any,
) -> Cuts:
    """Find the best cuts of the columns whose bins start at ``at``."""
    nothing, b, last = spread(np.int64(0)), stride - WIDTH, WIDTH - 1
    n_missing = load_turned(histograms.n, at, b)[last]
    n_present = spread(limits.n) - n_missing
    cuts = Cuts(nothing, nothing, nothing, spread(-np.inf), nothing)
    if missing_left:
        g, h = load_turned(histograms.g, at, b)[last], load_turned(histograms.h, at, b)[last]
        cuts = Cuts(g, h, n_missing, spread(-np.inf), nothing)
        n_present = spread(limits.n)
    for b in range(0, n_bins, WIDTH):
        g, h = load_turned(histograms.g, at, b), load_turned(histograms.h, at, b)
        n = load_turned(histograms.n, at, b)
        for k in range(WIDTH):
            cuts = pass_constrained(cuts, g[k], h[k], n[k], b + k, limits, bounds, sign, n_present)
    return cuts


@kernel(inner=True)
def search_constrained(
    histograms: HistogramSums,
    lanes: tuple[IntArray, IntArray],
    n_bins: np.ndarray,
    stride: int,
    limits: Limits,
    bounds: Bounds,
    constraints: Constraints,
    best: Split,
) -> Split:
    """Return the better of ``best`` and the best cut, by gain, of up to ``WIDTH`` columns."""
    # ``lanes`` are ``at`` and ``features`` of :func:`hedgerow.kernels.splits.split.search_columns`;
    # the ``score`` of the split is its gain.
    at, features = lanes
    most_bins, missing = np.int64(0), np.int64(0)
    for j in range(WIDTH):
        most_bins = max(most_bins, np.int64(n_bins[features[j]]))
        missing |= np.int64(histograms.n[at[j] + stride - 1])
    sign = gather(constraints.sign, features)
    right = search_constrained_lanes(histograms, at, most_bins, stride, False, limits, bounds, sign)
    left = right
    if missing > 0:
        left = search_constrained_lanes(
            histograms, at, most_bins, stride, True, limits, bounds, sign
        )
    for j in range(WIDTH):
        factor = factor_of(constraints, features[j], bounds)
        gain = gain_of(lane_of(right.score, j), factor, bounds)
        if gain > best.score:
            best = Split(gain, features[j], lane_of(right.bin, j), 0, 0, 0, 0)
        gain = gain_of(lane_of(left.score, j), factor, bounds)
        if gain > best.score:
            best = Split(gain, features[j], lane_of(left.bin, j), 1, 0, 0, 0)
    return best
