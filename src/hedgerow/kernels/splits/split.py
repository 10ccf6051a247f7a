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

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.histograms.histogram import HistogramSums
from hedgerow.kernels.simd.lanes import (
    WIDTH,
    choose,
    lane_of,
    load_turned,
    short_to_float,
    spread,
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
def side_score(g: Any, d: Any, limits: Limits) -> Any:
    """Return :func:`node_score` of several sides; ``d`` is ``H + lambda``."""
    zero, longest = spread(0.0), spread(limits.longest)
    size = choose(g > zero, g, zero - g) - spread(limits.shrink)
    size = choose(size > zero, size, zero)
    step = size / d
    step = choose(step > longest, longest, step)
    return step * (size + size - d * step)


@kernel(inline=True, inner=True)
def is_allowed(n_left: Any, h_left: Any, h_right: Any, limits: Limits) -> Any:
    """Return whether both sides have enough rows and hessian."""
    lightest = spread(limits.lightest)
    too_few, too_many = spread(limits.fewest - 1), spread(limits.n - limits.fewest + 1)
    enough = (n_left > too_few) & (too_many > n_left)
    return enough & (h_left >= lightest) & (h_right >= lightest)


@kernel(inline=True, inner=True)
def sum_to_float(number: Any, easy: bool) -> Any:
    """Convert sums of g or h to float64."""
    return short_to_float(number) if easy else to_float(number)


@kernel(inline=True, inner=True)
def pass_bin(cuts: Cuts, g: Any, h: Any, n: Any, bin_: Any, limits: Limits, easy: bool) -> Cuts:
    """Advance by one bin with the sums g, h, n: score the cuts after it."""
    # ``easy`` is ``limits.easy``, or False.  Where the caller passes a constant, the compiler drops
    # the other branch.
    g_sum, h_sum, n_left = cuts.g + g, cuts.h + h, cuts.n + n
    g_left, h_left = sum_to_float(g_sum, easy), sum_to_float(h_sum, easy)
    g_right, h_right = spread(limits.g) - g_left, spread(limits.h) - h_left
    d_left = h_left + spread(limits.penalty)
    d_right = h_right + spread(limits.penalty)
    if easy or limits.plain:
        # One division instead of two: S(L)^2 / D(L) + S(R)^2 / D(R).
        both = g_left * g_left * d_right + g_right * g_right * d_left
        score = both / (d_left * d_right)
    else:
        score = side_score(g_left, d_left, limits) + side_score(g_right, d_right, limits)
    better = is_allowed(n_left, h_left, h_right, limits) & (score > cuts.score)
    score, bin_ = choose(better, score, cuts.score), choose(better, bin_, cuts.bin)
    return Cuts(g_sum, h_sum, n_left, score, bin_)


@kernel(inline=True, inner=True)
def pass_bins(
    cuts: Cuts, histograms: HistogramSums, at: IntArray, n_bins: int, limits: Limits, easy: bool
) -> Cuts:
    """Advance by ``n_bins`` bins, rounded up to a multiple of ``WIDTH``."""
    # The last block may reach the missing bin: a cut after it leaves no row on the right.
    for b in range(0, n_bins, WIDTH):
        g, h = load_turned(histograms.g, at, b), load_turned(histograms.h, at, b)
        n = load_turned(histograms.n, at, b)
        bin_ = spread(b)
        for k in range(WIDTH):
            cuts = pass_bin(cuts, g[k], h[k], n[k], bin_, limits, easy)
            bin_ = bin_ + spread(np.int64(1))
    return cuts


@kernel(inner=True)
def search_lanes(
    histograms: HistogramSums, at: IntArray, n_bins: int, missing_bin: int, limits: Limits
) -> Cuts:
    """Find the best cuts of the columns whose bins start at ``at``; missing values go right."""
    nothing = spread(np.int64(0))
    cuts = Cuts(nothing, nothing, nothing, spread(-1.0), nothing)
    # Missing values go left: the running sums start with their bin.
    if missing_bin >= 0:
        b, last = missing_bin - (WIDTH - 1), WIDTH - 1
        g, h = load_turned(histograms.g, at, b)[last], load_turned(histograms.h, at, b)[last]
        cuts = Cuts(g, h, load_turned(histograms.n, at, b)[last], cuts.score, nothing)
    if limits.easy:
        return pass_bins(cuts, histograms, at, n_bins, limits, True)
    return pass_bins(cuts, histograms, at, n_bins, limits, False)


@kernel(inner=True)
def search_columns(
    histograms: HistogramSums,
    at: IntArray,
    features: IntArray,
    n_bins: np.ndarray,
    stride: int,
    limits: Limits,
    best: Split,
) -> Split:
    """Return the better of ``best`` and the best cut of up to ``WIDTH`` columns."""
    # ``at`` and ``features`` have ``WIDTH`` entries; if there are fewer columns, the last one is
    # repeated.  The score is in units of the sums.
    most_bins, missing = np.int64(0), np.int64(0)
    for j in range(WIDTH):
        most_bins = max(most_bins, np.int64(n_bins[features[j]]))
        missing |= np.int64(histograms.n[at[j] + stride - 1])
    right = search_lanes(histograms, at, most_bins, np.int64(-1), limits)
    left = right
    if missing > 0:
        left = search_lanes(histograms, at, most_bins, stride - 1, limits)
    for j in range(WIDTH):
        if lane_of(right.score, j) > best.score:
            best = Split(lane_of(right.score, j), features[j], lane_of(right.bin, j), 0, 0, 0, 0)
        if lane_of(left.score, j) > best.score:
            best = Split(lane_of(left.score, j), features[j], lane_of(left.bin, j), 1, 0, 0, 0)
    return best


@kernel(inner=True)
def complete_split(
    histograms: HistogramSums,
    slot_start: int,
    n_bins: np.ndarray,
    stride: int,
    node: NodeSums,
    units: Units,
    best: Split,
) -> Split:
    """Complete the split of :func:`search_columns`: sums of the left side, unit of the score."""
    if best.score < 0.0:
        return best
    at = slot_start + best.feature * stride
    absent = at + stride - 1
    g, h, n = np.int64(0), np.int64(0), np.int64(0)
    for b in range(at, at + best.bin + 1):
        g += histograms.g[b]
        h += histograms.h[b]
        n += np.int64(histograms.n[b])
    n_missing = np.int64(histograms.n[absent])
    # If all rows with a value are on the left, the cut after the last bin separates the others.
    bin_ = np.int64(n_bins[best.feature]) - 1 if n == node.n - n_missing else best.bin
    # If the node has no missing values, later ones go with the larger part.
    direction = best.missing_left if n_missing > 0 else np.int64(2 * n >= node.n)
    if n_missing > 0 and best.missing_left == 1:
        g += histograms.g[absent]
        h += histograms.h[absent]
        n += n_missing
    return Split(comparable(best.score, units), best.feature, bin_, direction, g, h, n)


@kernel(inner=True)
def split_gain(score: float, node: NodeSums, units: Units, rules: SplitRules) -> float:
    """Return the loss reduction of a split with this score, or -1 if it is not positive."""
    if score < 0.0:
        return -1.0
    parent = node_score(float(node.g) * units.g, float(node.h) * units.h, rules)
    difference = score - parent
    # A gain within the rounding error of the node's own score counts as 0: a node whose
    # gradients are all equal must not be split.
    if difference <= 1e-10 * parent:
        return -1.0
    gain = 0.5 * difference - rules.gamma
    return gain if gain > 0.0 and math.isfinite(gain) else -1.0
