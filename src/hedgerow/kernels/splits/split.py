"""Search of the best cut in the histogram of a node.

With ``S(G) = sign(G) max(|G| - alpha, 0)`` and ``D = H + lambda``, a leaf takes
``w = -S(G) / D``, cut off at ``max_delta_step``, and lowers the loss by half of

    score(G, H) = |w| (2 |S(G)| - D |w|)          (= S(G)^2 / D without cut-off)

A split gains ``1/2 [score(L) + score(R) - score(node)] - gamma`` (Chen and
Guestrin 2016, eq. 7, with the L1 term).  Missing values go right in a first
pass over the cuts and, if the node has any, left in a second pass.  If it has
none, later missing values go with the larger part.

The search handles eight or four columns at once, depending on the processor, one in each
lane (:mod:`hedgerow.kernels.simd.lanes`).  Running sums depend on one another along a column;
in lanes they cost no more than a sum over neighbours::

              column 0  1  2 ... 7
    bin 0            .  .  .     .     +  running sums of g, h, n
    bin 1            .  .  .     .     +  score of the cut after each bin
    ...                                   best score and its bin so far

A scan is told by its arguments what to do with the score of a cut: keep the best of each
column, or add it to the gains of a level (:mod:`hedgerow.kernels.splits.symmetric_split`).  Where
leaf values are restricted, they are part of the score (:mod:`hedgerow.kernels.splits.constraints`).

Searching one column after the other in three loops (running sums, scores, largest score)
took about twice as long (stage "search" of ``benchmarks/stages.py``).  Running sums
are integers, which the scores need as floats.  In small nodes, where no sum can be
large, this conversion takes two instructions.

Splits are ranked by larger gain, then lower feature, then missing values on the
right, then lower bin.
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
    load_floats,
    load_turned,
    short_to_float,
    spread,
    store_floats,
    to_float,
)


class SplitRules(NamedTuple):
    """Conditions that a split must satisfy, and penalties of a leaf."""

    min_samples_leaf: np.int64
    min_child_weight: np.float64
    reg_lambda: np.float64
    reg_alpha: np.float64
    gamma: np.float64
    max_delta_step: np.float64  # inf: no cut-off


class Units(NamedTuple):
    """Value of one unit of the integer sums of g and h: a power of two times ``scale``.

    ``scale`` is the number of rows that a sampled row represents.  Threads compare scores
    without it: multiplied by ``scale``, two scores may round to the same number, and threads
    would break a tie that does not exist within one thread.
    """

    g: np.float64
    h: np.float64
    scale: np.float64 = 1.0


@kernel(inline=True, inner=True)
def comparable(score: float, units: Units) -> float:
    """Convert a score from units of the sums to the units of comparison; nothing is rounded."""
    return score * (units.g / units.scale) * (units.g / units.h)


class NodeSums(NamedTuple):
    """Sums over the rows of a node, as integers in ``Units``."""

    g: np.int64
    h: np.int64
    n: np.int64


class NodeHistogram(NamedTuple):
    """The histogram of a node.

    sums    of all histograms
    start   first cell of column 0
    stride  cells of a column; missing values are in the last one
    n_bins  int32 (n_features,): bins of each column
    """

    sums: HistogramSums
    start: np.int64
    stride: np.int64
    n_bins: np.ndarray


class Split(NamedTuple):
    """The best split found so far; ``score`` < 0 means none."""

    score: np.float64
    feature: np.int64
    bin: np.int64
    missing_left: np.int64
    g_left: np.int64
    h_left: np.int64
    n_left: np.int64


_MOST_SHORT = 1 << 20
"""Sums over this many rows are below 2**51: g and h of a row are at most 2**30."""

ROUNDING = 1e-10
"""A gain no larger than this share of the node's own score is rounding."""

NO_SPLIT = Split(-1.0, -1, 0, 0, 0, 0, 0)
"""A placeholder that every valid split beats."""


@kernel(inline=True, inner=True)
def leaf_weight(g: float, h: float, rules: SplitRules) -> float:
    """Return the Newton step of a leaf: ``-S(G) / (H + lambda)``, up to ``max_delta_step``."""
    shrunk = max(abs(g) - rules.reg_alpha, 0.0)
    denominator = h + rules.reg_lambda
    step = min(shrunk / denominator, rules.max_delta_step) if denominator > 0.0 else 0.0
    return -step if g > 0.0 else step


@kernel(inline=True, inner=True)
def node_score(g: float, h: float, rules: SplitRules) -> float:
    """Return twice the loss reduction of a leaf with these sums (without gamma)."""
    shrunk = max(abs(g) - rules.reg_alpha, 0.0)
    denominator = h + rules.reg_lambda
    step = min(shrunk / denominator, rules.max_delta_step) if denominator > 0.0 else 0.0
    return step * (2.0 * shrunk - denominator * step)


class Limits(NamedTuple):
    """Sums and rules of a node in units of its histogram, for :func:`pass_bin`."""

    g: np.float64
    h: np.float64
    n: np.int64
    fewest: np.int64  # least rows of a side
    lightest: np.float64  # least hessian of a side
    penalty: np.float64  # lambda
    shrink: np.float64  # alpha
    longest: np.float64  # max_delta_step
    plain: bool  # neither alpha nor max_delta_step is set
    easy: bool  # plain, and no sum reaches 2**51


class Side(NamedTuple):
    """A side of a cut, or of several cuts in lanes: sum of g, ``H + lambda``, and rows."""

    g: Any
    d: Any
    n: Any


class Within(NamedTuple):
    """Restrictions of the leaf values below a node, of one output or of several in lanes.

    low, high  bounds
    toward     leaf value of the node; the sides are smoothed toward it
    smooth     rows that the leaf value of the node counts for; 0: no smoothing
    """

    low: Any
    high: Any
    toward: Any
    smooth: np.float64


class Order(NamedTuple):
    """Restricted leaf values, and their order on both sides of the cuts of columns in lanes.

    within  restrictions of leaf values, in units of the sums
    sign    1: left values are not above right ones; -1: not below; 0: in any order
    n       a cut with this many rows on its left sets missing values apart and orders nothing,
    last    and so does a cut after this bin
    """

    within: Within
    sign: Any
    n: Any
    last: Any


class LevelGains(NamedTuple):
    """Where a scan adds the gains of the cuts of ``WIDTH`` columns in one node.

    gains   float64: those of the first cuts of all columns, those of the second, ...
    to      place of the first
    also    0, or the gains are also added this many entries further on
    parent  score of the node as a leaf
    """

    gains: FloatArray
    to: np.int64
    also: np.int64
    parent: np.float64


class Cuts(NamedTuple):
    """State of several columns up to some bin: running sums, best score, bin before its cut."""

    g: Any
    h: Any
    n: Any
    score: Any
    bin: Any


@kernel(inner=True)
def limits_of(node: NodeSums, units: Units, rules: SplitRules) -> Limits:
    """Convert node and rules to units of the sums (powers of two, so nothing is rounded)."""
    penalty = rules.reg_lambda / units.h
    # A side needs H + lambda > 0, and H is an integer.
    least = 0.0 if penalty > 0.0 else 1.0
    plain = rules.reg_alpha == 0.0 and math.isinf(rules.max_delta_step)
    return Limits(
        float(node.g),
        float(node.h),
        node.n,
        rules.min_samples_leaf,
        max(rules.min_child_weight / units.h, least),
        penalty,
        rules.reg_alpha / units.g,
        rules.max_delta_step * (units.h / units.g),
        plain,
        plain and node.n <= _MOST_SHORT,
    )


@kernel(inline=True, inner=True)
def side_score(side: Side, limits: Limits) -> Any:
    """Return :func:`node_score` of a side."""
    size = choose(side.g > 0.0, side.g, 0.0 - side.g) - limits.shrink
    size = choose(size > 0.0, size, 0.0)
    step = size / side.d
    step = choose(step > limits.longest, limits.longest, step)
    return step * (size + size - side.d * step)


@kernel(inline=True, inner=True)
def sides_score(left: Side, right: Side, limits: Limits, easy: bool) -> Any:
    """Return the score of both sides of a cut, with their best leaf values."""
    if easy or limits.plain:
        # One division instead of two: S(L)^2 / D(L) + S(R)^2 / D(R).
        both = left.g * left.g * right.d + right.g * right.g * left.d
        return both / (left.d * right.d)
    return side_score(left, limits) + side_score(right, limits)


@kernel(inline=True, inner=True)
def smoothed(weight: Any, n: float, toward: Any, smooth: float) -> Any:
    """Return the value ``weight`` of a node of ``n`` rows, smoothed ``toward`` its parent's."""
    share = n / (n + smooth)
    return share * weight + (1.0 - share) * toward


@kernel(inline=True, inner=True)
def value_within(side: Side, limits: Limits, within: Within) -> Any:
    """Return the leaf value of a side: its Newton step, smoothed and within bounds."""
    size = choose(side.g > 0.0, side.g, 0.0 - side.g) - limits.shrink
    size = choose(size > 0.0, size, 0.0)
    step = size / side.d
    step = choose(step > limits.longest, limits.longest, step)
    weight = choose(side.g > 0.0, 0.0 - step, step)
    if within.smooth > 0.0:
        weight = smoothed(weight, to_float(side.n), within.toward, within.smooth)
    weight = choose(within.low > weight, within.low, weight)
    return choose(weight > within.high, within.high, weight)


@kernel(inline=True, inner=True)
def lane_score(side: Side, weight: Any, limits: Limits) -> Any:
    """Return twice the loss reduction of sides in lanes with these leaf values."""
    size = choose(weight > 0.0, weight, 0.0 - weight)
    linear = (side.g + side.g) * weight + (limits.shrink + limits.shrink) * size
    return 0.0 - (linear + side.d * weight * weight)


@kernel(inline=True, inner=True)
def sum_to_float(number: Any, easy: bool) -> Any:
    """Convert sums of g or h to float64."""
    return short_to_float(number) if easy else to_float(number)


@kernel(inline=True, inner=True)
def pass_bin(
    cuts: Cuts, bin_sums: tuple[Any, Any, Any], bin_: int, limits: Limits, order: Order | None,
    level: LevelGains | None, easy: bool,
) -> Cuts:  # fmt: skip
    """Advance by one bin with its sums of g, h and n, and score the cuts after it."""
    # ``easy`` is ``limits.easy``, or False.  Where the caller passes a constant, the compiler drops
    # the other branch.
    g, h, n = cuts.g + bin_sums[0], cuts.h + bin_sums[1], cuts.n + bin_sums[2]
    g_left, h_left = sum_to_float(g, easy), sum_to_float(h, easy)
    h_right = limits.h - h_left
    left = Side(g_left, h_left + limits.penalty, n)
    right = Side(limits.g - g_left, h_right + limits.penalty, limits.n - n)
    enough = (n > limits.fewest - 1) & (limits.n - limits.fewest + 1 > n)
    allowed = enough & (h_left >= limits.lightest) & (h_right >= limits.lightest)
    if order is None:
        score = sides_score(left, right, limits, easy)
    else:
        sign = choose(n >= order.n, 0.0, order.sign)
        sign = choose(order.last > bin_, sign, 0.0)
        low, high = (
            value_within(left, limits, order.within),
            value_within(right, limits, order.within),
        )
        score = lane_score(left, low, limits) + lane_score(right, high, limits)
        allowed = allowed & (sign * (high - low) >= 0.0)
    if level is None:
        better = allowed & (score > cuts.score)
        best, at = choose(better, score, cuts.score), choose(better, bin_, cuts.bin)
        return Cuts(g, h, n, best, at)
    gain = choose(allowed, score - level.parent, 0.0)
    to = level.to + bin_ * WIDTH
    store_floats(level.gains, to, load_floats(level.gains, to) + gain)
    if level.also != 0:
        to += level.also
        store_floats(level.gains, to, load_floats(level.gains, to) + gain)
    return Cuts(g, h, n, cuts.score, cuts.bin)


@kernel(inline=True, inner=True)
def pass_bins(
    cuts: Cuts, sums: HistogramSums, at: IntArray, n_bins: int, limits: Limits,
    order: Order | None, level: LevelGains | None, easy: bool,
) -> Cuts:  # fmt: skip
    """Advance by ``n_bins`` bins, rounded up to a multiple of ``WIDTH``."""
    # The last block may reach the missing bin: a cut after it leaves no row on the right.
    for b in range(0, n_bins, WIDTH):
        g, h = load_turned(sums.g, at, b), load_turned(sums.h, at, b)
        n = load_turned(sums.n, at, b)
        for k in range(WIDTH):
            cuts = pass_bin(cuts, (g[k], h[k], n[k]), b + k, limits, order, level, easy)
    return cuts


@kernel(inner=True)
def scan(
    sums: HistogramSums, at: IntArray, n_bins: int, missing_bin: int, limits: Limits,
    order: Order | None, level: LevelGains | None,
) -> Cuts:  # fmt: skip
    """Score all cuts of the columns whose bins start at ``at``; return the best of each."""
    # Without ``missing_bin`` (-1) missing values go right.
    nothing = spread(np.int64(0))
    cuts = Cuts(nothing, nothing, nothing, spread(-np.inf), nothing)
    # Missing values go left: the running sums start with their bin.
    if missing_bin >= 0:
        b, last = missing_bin - (WIDTH - 1), WIDTH - 1
        g, h = load_turned(sums.g, at, b)[last], load_turned(sums.h, at, b)[last]
        cuts = Cuts(g, h, load_turned(sums.n, at, b)[last], cuts.score, nothing)
    if order is None and limits.easy:
        return pass_bins(cuts, sums, at, n_bins, limits, order, level, True)
    return pass_bins(cuts, sums, at, n_bins, limits, order, level, False)


@kernel(inline=True, inner=True)
def sum_bins(sums: HistogramSums, start: int, stop: int) -> NodeSums:
    """Return the sums of the cells ``start`` to ``stop``."""
    g, h, n = np.int64(0), np.int64(0), np.int64(0)
    for b in range(start, stop):
        g += sums.g[b]
        h += sums.h[b]
        n += np.int64(sums.n[b])
    return NodeSums(g, h, n)


@kernel(inner=True)
def complete_split(histogram: NodeHistogram, node: NodeSums, units: Units, best: Split) -> Split:
    """Complete the best cut that was found: sums of the left side, unit of the score."""
    if best.score < 0.0:
        return best
    sums, at = histogram.sums, histogram.start + best.feature * histogram.stride
    absent = at + histogram.stride - 1
    g, h, n = sum_bins(sums, at, at + best.bin + 1)
    n_missing = np.int64(sums.n[absent])
    # If all rows with a value are on the left, the cut after the last bin separates the others.
    last = np.int64(histogram.n_bins[best.feature]) - 1
    bin_ = last if n == node.n - n_missing else best.bin
    # If the node has no missing values, later ones go with the larger part.
    direction = best.missing_left if n_missing > 0 else np.int64(2 * n >= node.n)
    if n_missing > 0 and best.missing_left == 1:
        g += sums.g[absent]
        h += sums.h[absent]
        n += n_missing
    return Split(comparable(best.score, units), best.feature, bin_, direction, g, h, n)


@kernel(inline=True, inner=True)
def accepted_gain(score: float, own: float, rounding: float, price: float, factor: float) -> float:
    """Return the gain of a split with this score, or -1 if it is not accepted."""
    # ``own`` is the score of what is split, as one leaf or as the leaves of a level.  A gain within
    # its rounding error counts as 0: a node whose gradients are all equal must not be split.
    # ``price`` is gamma for each output; ``factor`` is that of the column.
    difference = score - own
    if not difference > rounding:
        return -1.0
    gain = factor * (0.5 * difference - price)
    return gain if gain > 0.0 and math.isfinite(gain) else -1.0
