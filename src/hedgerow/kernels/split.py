"""Search of the best cut in the histogram of a node.

With ``S(G) = sign(G) max(|G| - alpha, 0)`` and ``D = H + lambda``, a leaf takes
``w = -S(G) / D``, cut off at ``max_delta_step``, and lowers the loss by half of

    score(G, H) = |w| (2 |S(G)| - D |w|)          (= S(G)^2 / D without cut-off)

A split gains ``1/2 [score(L) + score(R) - score(node)] - gamma`` (Chen and
Guestrin 2016, eq. 7, with the L1 term).  Missing values go right in a first
pass over the cuts and, where the node has any, left in a second.  Where it has
none, one that comes later goes with the larger part.

Eight columns are searched at once, a lane each (:mod:`hedgerow.kernels.lanes`),
so that the running sums, which depend on one another along a column, cost no
more than a sum over neighbours::

              column 0  1  2 ... 7
    bin 0            .  .  .     .     +  running sums of g, h, n
    bin 1            .  .  .     .     +  score of the cut behind each bin
    ...                                   best score and its bin so far

One column after the other, as three loops (running sums, scores, largest score),
took about twice as long (stage "search" of ``benchmarks/stages.py``).

Ties go to the larger gain, then the lower feature, then missing values to the
right, then the lower bin.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.histogram import Wide
from hedgerow.kernels.lanes import N_LANES, choose, lane_of, load_turned, spread, to_float


class SplitRules(NamedTuple):
    """What a split has to satisfy, and the price of a leaf."""

    min_samples_leaf: np.int64
    min_child_weight: np.float64
    reg_lambda: np.float64
    reg_alpha: np.float64
    gamma: np.float64
    max_delta_step: np.float64  # inf: no cut-off


class Units(NamedTuple):
    """What one counts for in the integer sums of g and h."""

    g: np.float64
    h: np.float64


class NodeSums(NamedTuple):
    """Sums over the rows of a node, as integers in ``Units``."""

    g: np.int64
    h: np.int64
    n: np.int64


class Split(NamedTuple):
    """The best split found so far; ``score`` < 0 means none."""

    score: np.float64
    feature: np.int64
    bin: np.int64
    missing_left: np.int64
    g_left: np.int64
    h_left: np.int64
    n_left: np.int64


NO_SPLIT = Split(-1.0, -1, 0, 0, 0, 0, 0)
"""A split that every valid one beats."""


@kernel(inline=True, inner=True)
def leaf_weight(g: float, h: float, rules: SplitRules) -> float:
    """Newton step of a leaf: ``-S(G) / (H + lambda)``, at most ``max_delta_step`` long."""
    shrunk = max(abs(g) - rules.reg_alpha, 0.0)
    denominator = h + rules.reg_lambda
    step = min(shrunk / denominator, rules.max_delta_step) if denominator > 0.0 else 0.0
    return -step if g > 0.0 else step


@kernel(inline=True, inner=True)
def node_score(g: float, h: float, rules: SplitRules) -> float:
    """Twice the loss that a leaf with these sums takes away (gamma not counted)."""
    shrunk = max(abs(g) - rules.reg_alpha, 0.0)
    denominator = h + rules.reg_lambda
    step = min(shrunk / denominator, rules.max_delta_step) if denominator > 0.0 else 0.0
    return step * (2.0 * shrunk - denominator * step)


class Limits(NamedTuple):
    """The node and the rules in units of its histogram, for :func:`pass_bin`."""

    g: np.float64
    h: np.float64
    n: np.int64
    fewest: np.int64  # rows of a side
    lightest: np.float64  # hessian of a side
    penalty: np.float64  # lambda
    shrink: np.float64  # alpha
    longest: np.float64  # max_delta_step
    plain: bool  # neither alpha nor max_delta_step is set


class Cuts(NamedTuple):
    """Eight columns up to some bin: running sums, best score and the bin before its cut."""

    g: Any
    h: Any
    n: Any
    score: Any
    bin: Any


@kernel(inner=True)
def limits_of(node: NodeSums, units: Units, rules: SplitRules) -> Limits:
    """Divide by the units (powers of two: no digit is lost) what sums are compared with."""
    penalty = rules.reg_lambda / units.h
    # A side needs H + lambda > 0, and H is a whole number.
    least = 0.0 if penalty > 0.0 else 1.0
    return Limits(
        float(node.g),
        float(node.h),
        node.n,
        rules.min_samples_leaf,
        max(rules.min_child_weight / units.h, least),
        penalty,
        rules.reg_alpha / units.g,
        rules.max_delta_step * (units.h / units.g),
        rules.reg_alpha == 0.0 and math.isinf(rules.max_delta_step),
    )


@kernel(inline=True, inner=True)
def side_score(g: Any, d: Any, limits: Limits) -> Any:
    """:func:`node_score` of eight sides, ``d`` being ``H + lambda``."""
    zero, longest = spread(0.0), spread(limits.longest)
    size = choose(g > zero, g, zero - g) - spread(limits.shrink)
    size = choose(size > zero, size, zero)
    step = size / d
    step = choose(step > longest, longest, step)
    return step * (size + size - d * step)


@kernel(inline=True, inner=True)
def if_allowed(
    value: Any, n_left: Any, h_left: Any, h_right: Any, other: Any, limits: Limits
) -> Any:
    """``value`` where both sides have enough rows and hessian, else ``other``.

    One choice after the other: a processor that has no registers for truths takes twice as long
    for a bin if they are joined by ``&``, as each is first packed into smaller lanes.
    """
    n_right = spread(limits.n) - n_left
    fewer = choose(n_right > n_left, n_left, n_right)
    lighter = choose(h_right > h_left, h_left, h_right)
    value = choose(fewer >= spread(limits.fewest), value, other)
    return choose(lighter >= spread(limits.lightest), value, other)


@kernel(inline=True, inner=True)
def pass_bin(cuts: Cuts, g: Any, h: Any, n: Any, bin_: int, limits: Limits) -> Cuts:
    """Go on by one bin with the sums g, h, n: score the cuts behind it."""
    g_left, h_left, n_left = cuts.g + to_float(g), cuts.h + to_float(h), cuts.n + n
    g_right, h_right = spread(limits.g) - g_left, spread(limits.h) - h_left
    d_left = h_left + spread(limits.penalty)
    d_right = h_right + spread(limits.penalty)
    if limits.plain:
        # One division instead of two: S(L)^2 / D(L) + S(R)^2 / D(R).
        both = g_left * g_left * d_right + g_right * g_right * d_left
        score = both / (d_left * d_right)
    else:
        score = side_score(g_left, d_left, limits) + side_score(g_right, d_right, limits)
    score = if_allowed(score, n_left, h_left, h_right, cuts.score, limits)
    better = score > cuts.score
    return Cuts(
        g_left,
        h_left,
        n_left,
        choose(better, score, cuts.score),
        choose(better, spread(bin_), cuts.bin),
    )


@kernel(inner=True)
def search_lanes(wide: Wide, at: IntArray, n_bins: int, missing_bin: int, limits: Limits) -> Cuts:
    """Best cuts of the columns whose bins start at ``at``; missing values go right.

    With ``missing_bin`` >= 0 the sums of this bin are on the left from the start.
    """
    nothing = spread(np.int64(0))
    cuts = Cuts(spread(0.0), spread(0.0), nothing, spread(-1.0), nothing)
    if missing_bin >= 0:
        g = load_turned(wide.g, at, missing_bin - 7)[7]
        h = load_turned(wide.h, at, missing_bin - 7)[7]
        n = load_turned(wide.n, at, missing_bin - 7)[7]
        cuts = Cuts(to_float(g), to_float(h), n, spread(-1.0), nothing)
    # The last eight may reach up to the missing bin: a cut behind it leaves no row.
    for b in range(0, n_bins, 8):
        g, h, n = load_turned(wide.g, at, b), load_turned(wide.h, at, b), load_turned(wide.n, at, b)
        cuts = pass_bin(cuts, g[0], h[0], n[0], b, limits)
        cuts = pass_bin(cuts, g[1], h[1], n[1], b + 1, limits)
        cuts = pass_bin(cuts, g[2], h[2], n[2], b + 2, limits)
        cuts = pass_bin(cuts, g[3], h[3], n[3], b + 3, limits)
        cuts = pass_bin(cuts, g[4], h[4], n[4], b + 4, limits)
        cuts = pass_bin(cuts, g[5], h[5], n[5], b + 5, limits)
        cuts = pass_bin(cuts, g[6], h[6], n[6], b + 6, limits)
        cuts = pass_bin(cuts, g[7], h[7], n[7], b + 7, limits)
    return cuts


@kernel(inner=True)
def search_columns(
    wide: Wide,
    at: IntArray,
    features: IntArray,
    n_bins: np.ndarray,
    stride: int,
    limits: Limits,
    best: Split,
) -> Split:
    """The better of ``best`` and the best cut of up to eight columns, in units.

    ``at`` and ``features`` have eight entries: fewer columns are filled up with
    the last one again.  The rest is done by :func:`complete_split`, once a node.
    """
    most_bins, missing = np.int64(0), np.int64(0)
    for j in range(N_LANES):
        most_bins = max(most_bins, np.int64(n_bins[features[j]]))
        missing |= np.int64(wide.n[at[j] + stride - 1])
    right = search_lanes(wide, at, most_bins, np.int64(-1), limits)
    left = right
    if missing > 0:
        left = search_lanes(wide, at, most_bins, stride - 1, limits)
    for j in range(N_LANES):
        if lane_of(right.score, j) > best.score:
            best = Split(lane_of(right.score, j), features[j], lane_of(right.bin, j), 0, 0, 0, 0)
        if lane_of(left.score, j) > best.score:
            best = Split(lane_of(left.score, j), features[j], lane_of(left.bin, j), 1, 0, 0, 0)
    return best


@kernel(inner=True)
def complete_split(
    wide: Wide,
    slot_start: int,
    n_bins: np.ndarray,
    stride: int,
    node: NodeSums,
    units: Units,
    best: Split,
) -> Split:
    """Add what :func:`search_columns` leaves out: the sums of the left side, the score's unit."""
    if best.score < 0.0:
        return best
    at = slot_start + best.feature * stride
    absent = at + stride - 1
    g, h, n = np.int64(0), np.int64(0), np.int64(0)
    for b in range(at, at + best.bin + 1):
        g += wide.g[b]
        h += wide.h[b]
        n += np.int64(wide.n[b])
    n_missing = np.int64(wide.n[absent])
    # Where rows have no value, the cut behind the last value sets them apart.
    bin_ = np.int64(n_bins[best.feature]) - 1 if n == node.n - n_missing else best.bin
    # Where no row is missing, a later one goes with the larger part.
    direction = best.missing_left if n_missing > 0 else np.int64(2 * n >= node.n)
    if n_missing > 0 and best.missing_left == 1:
        g += wide.g[absent]
        h += wide.h[absent]
        n += n_missing
    score = best.score * units.g * (units.g / units.h)
    return Split(score, best.feature, bin_, direction, g, h, n)


@kernel(inner=True)
def split_gain(score: float, node: NodeSums, units: Units, rules: SplitRules) -> float:
    """Loss reduction of a split with this score, or -1 where there is none worth its price.

    A gain that is no more than rounding against the node's own score is none:
    a node whose gradients are all equal must not be split.
    """
    if score < 0.0:
        return -1.0
    parent = node_score(float(node.g) * units.g, float(node.h) * units.h, rules)
    difference = score - parent
    if difference <= 1e-10 * parent:
        return -1.0
    gain = 0.5 * difference - rules.gamma
    return gain if gain > 0.0 and math.isfinite(gain) else -1.0
