"""Search of the best cut in the histogram of a node.

With ``S(G) = sign(G) max(|G| - alpha, 0)`` and ``D = H + lambda``, a leaf takes
``w = -S(G) / D``, cut off at ``max_delta_step``, and lowers the loss by half of

    score(G, H) = |w| (2 |S(G)| - D |w|)          (= S(G)^2 / D without cut-off)

A split gains ``1/2 [score(L) + score(R) - score(node)] - gamma`` (Chen and
Guestrin 2016, eq. 7, with the L1 term).  Missing values go right in a first
pass over the cuts and, where the node has any, left in a second.  Where it has
none, one that comes later goes with the larger part.

A pass is three loops, so that LLVM can make vectors of the second and third::

    prefix  running sums of g, h, count            scalar, 3 additions a bin
    score   both sides of every cut at once        one division a cut
    argmax  over the scores read as integers       (floats >= 0 sort like them)

Ties go to the larger gain, then the lower feature, then missing values to the
right, then the lower bin.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.histogram import Wide


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


class CutScratch(NamedTuple):
    """Space for the cuts of one feature.

    sums   int64 (3, stride): running sums of g, h and row count
    score  float64 (stride,)
    bits   ``score`` seen as int64
    """

    sums: IntArray
    score: FloatArray
    bits: IntArray


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


@kernel(inner=True)
def prefix_sums(
    wide: Wide, at: int, n_bins: int, fewest: int, most: int, sums: IntArray
) -> tuple[int, int]:
    """Running sums over the bins; returns the range of bins worth a cut behind them.

    Behind bins before the range fewer than ``fewest`` rows lie to the left; the
    walk ends where more than ``most`` do.  (To leave out empty bins as well
    costs more stores than it saves scores: 14 instead of 4 us for 28 features.)
    """
    g_sum, h_sum, n_sum = np.int64(0), np.int64(0), np.int64(0)
    first = np.uint64(at)
    skipped = np.int64(0)
    for b in range(np.uint64(n_bins)):
        g_sum += wide.g[first + b]
        h_sum += wide.h[first + b]
        n_sum += np.int64(wide.n[first + b])
        sums[np.uint64(0), b] = g_sum
        sums[np.uint64(1), b] = h_sum
        sums[np.uint64(2), b] = n_sum
        skipped += np.int64(n_sum < fewest)
        if n_sum > most:
            return skipped, np.int64(b)
    return skipped, n_bins


@kernel(inner=True)
def score_cuts(
    node: NodeSums,
    units: Units,
    rules: SplitRules,
    scratch: CutScratch,
    cuts: tuple[int, int],
    missing: tuple[int, int, int],
) -> None:
    """Score the cuts behind bins ``cuts[0]:cuts[1]``; -1 where a side breaks a rule.

    ``missing`` (g, h, n) is added to the left side.
    """
    g_more, h_more, n_more = missing
    penalty, shrink, longest = rules.reg_lambda, rules.reg_alpha, rules.max_delta_step
    least_rows, least_weight = rules.min_samples_leaf, rules.min_child_weight
    sums, scores = scratch.sums, scratch.score
    for b in range(np.uint64(cuts[0]), np.uint64(cuts[1])):
        g_left = sums[np.uint64(0), b] + g_more
        h_left = sums[np.uint64(1), b] + h_more
        n_left = sums[np.uint64(2), b] + n_more
        left = max(abs(float(g_left) * units.g) - shrink, 0.0)
        right = max(abs(float(node.g - g_left) * units.g) - shrink, 0.0)
        left_weight = float(h_left) * units.h
        right_weight = float(node.h - h_left) * units.h
        left_d = left_weight + penalty
        right_d = right_weight + penalty
        inverse = 1.0 / (left_d * right_d)
        left_step = min(left * right_d * inverse, longest)
        right_step = min(right * left_d * inverse, longest)
        score = left_step * (2.0 * left - left_d * left_step) + right_step * (
            2.0 * right - right_d * right_step
        )
        allowed = (
            (n_left >= least_rows)
            & (node.n - n_left >= least_rows)
            & (left_weight >= least_weight)
            & (right_weight >= least_weight)
            & (left_d > 0.0)
            & (right_d > 0.0)
        )
        scores[b] = score if allowed else -1.0


@kernel(inner=True)
def best_cut(bits: IntArray, cuts: tuple[int, int]) -> int:
    """Lowest bin with the highest score."""
    highest = np.int64(-(2**62))
    for b in range(np.uint64(cuts[0]), np.uint64(cuts[1])):
        highest = max(highest, bits[b])
    for b in range(np.uint64(cuts[0]), np.uint64(cuts[1])):
        if bits[b] == highest:
            return np.int64(b)
    return cuts[0]


@kernel(inner=True)
def search_feature(
    wide: Wide,
    at: int,
    feature: int,
    n_bins: int,
    stride: int,
    node: NodeSums,
    units: Units,
    rules: SplitRules,
    scratch: CutScratch,
    best: Split,
) -> Split:
    """The better of ``best`` and the best cut of one feature, whose bins start at ``at``."""
    absent = at + stride - 1
    missing = (wide.g[absent], wide.h[absent], np.int64(wide.n[absent]))
    n_present = node.n - missing[2]
    # Where rows have no value, the cut behind the last value sets them apart.
    fewest, most = rules.min_samples_leaf, n_present - rules.min_samples_leaf
    if missing[2] > 0:
        fewest, most = np.int64(1), n_present
    cuts = prefix_sums(wide, at, n_bins, fewest, most, scratch.sums)
    if cuts[0] >= cuts[1]:
        return best
    nothing = (np.int64(0), np.int64(0), np.int64(0))
    for side in range(1 if missing[2] == 0 else 2):
        extra = missing if side == 1 else nothing
        score_cuts(node, units, rules, scratch, cuts, extra)
        b = best_cut(scratch.bits, cuts)
        if scratch.score[b] > best.score:
            all_values = scratch.sums[2, b] == n_present
            best = Split(
                scratch.score[b],
                np.int64(feature),
                np.int64(n_bins - 1) if all_values else np.int64(b),
                # Where no row is missing, a later one goes with the larger part.
                np.int64(side if missing[2] > 0 else 2 * scratch.sums[2, b] >= node.n),
                scratch.sums[0, b] + extra[0],
                scratch.sums[1, b] + extra[1],
                scratch.sums[2, b] + extra[2],
            )
    return best


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
