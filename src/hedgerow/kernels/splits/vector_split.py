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

Outputs differ in their units.  All sums are converted to the largest unit, a power of
two (:class:`VectorNode`): nothing is rounded, and squares stay far from the limits of
float64.
"""

from __future__ import annotations

import math
from typing import NamedTuple

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
from hedgerow.kernels.splits.constraints import draw_of
from hedgerow.kernels.splits.split import Limits, Side, Split, SplitRules, Units, sides_score

# Rows of ``lanes``; each has an entry for every output, padded to a multiple of eight.
_G_UNIT, _H_UNIT, _G, _H, _PENALTY, LANE_ROWS = range(6)
FILLED_SIZE = 264
"""Size of the list of bins of a thread."""


class VectorNode(NamedTuple):
    """The node that is searched.

    sums     all histograms
    start    first cell of its own
    stride   cells of a column; missing values are in the last one
    n_bins   int32 (n_features,): bins of each column
    rules    conditions of a split, and penalties of a leaf
    n_rows   number of its rows
    totals   int64 (n_outputs, 2): sums of g and h over its rows
    units    float64 (n_outputs, 2): value of one unit of these sums
    largest  largest units of all outputs, in which scores are computed
    lanes    float64 (LANE_ROWS * size,): units, sums of the node and ``reg_lambda`` of each output,
             in terms of ``largest``
    size     outputs, rounded up to a multiple of ``N_LANES``
    filled   int64 (FILLED_SIZE,): scratch, bins with rows
    cuts     float64 (2, FILLED_SIZE * N_LANES): scratch, score of the cut after each of these
             bins, and hessian on its left, in lanes
    """

    sums: Sums
    start: np.int64
    stride: np.int64
    n_bins: np.ndarray
    rules: SplitRules
    n_rows: np.int64
    totals: IntArray
    units: FloatArray
    largest: Units
    lanes: FloatArray
    size: np.int64
    filled: IntArray
    cuts: FloatArray


@kernel(inline=True, inner=True)
def first_cell(node: VectorNode, feature: int) -> int:
    """Return the first cell of a column."""
    return node.start + feature * node.stride


@kernel(inner=True)
def list_bins(node: VectorNode, feature: int) -> int:
    """List the bins with rows of a column, missing values last; return their number."""
    at, n_bins = first_cell(node, feature), np.int64(node.n_bins[feature])
    return list_filled(node.sums.n, at, n_bins, node.stride, node.filled)


@kernel(inner=True)
def sum_totals(node: VectorNode, feature: int) -> None:
    """Sum the histogram of a column to the totals of each output of the node."""
    sums, totals, at = node.sums, node.totals, first_cell(node, feature)
    n_filled = list_bins(node, feature)
    for output in range(len(totals)):
        word = place_of_g(sums.constant, output)
        g, h = np.int64(0), np.int64(0)
        for e in range(n_filled):
            cell = (at + node.filled[e]) * sums.width + word
            g += np.int64(sums.cells[cell])
            if sums.constant == 0:
                h += np.int64(sums.cells[cell + N_LANES])
        totals[output, 0] = g
        totals[output, 1] = node.n_rows if sums.constant == 1 else h


@kernel(inner=True)
def fill_lanes(node: VectorNode) -> Limits:
    """Fill the lanes of the node; return its rules in terms of ``node.largest``."""
    lanes, size, largest, rules = node.lanes, node.size, node.largest, node.rules
    penalty, weight = rules.reg_lambda / largest.h, 0.0
    for k in range(size):
        for row in range(LANE_ROWS):
            lanes[row * size + k] = 0.0
        lanes[_PENALTY * size + k] = 1.0
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


@kernel(inline=True, inner=True)
def score_unit(node: VectorNode) -> float:
    """Return what one counts for in scores in ``node.largest``."""
    return node.largest.g * (node.largest.g / node.largest.h)


@kernel(inner=True)
def score_cuts(node: VectorNode, at: int, missing: int, n_filled: int, limits: Limits) -> None:
    """Score the cuts after ``filled`` bins of the column at ``at``, ``WIDTH`` outputs at a time."""
    # If ``missing`` is not negative, this bin is on the left of every cut.  A side whose ``H +
    # lambda`` is 0 makes the score minus infinity.
    lanes, sums, size, filled = node.lanes, node.sums, node.size, node.filled
    cells, n, scores, weights = sums.cells, sums.n, node.cuts[0], node.cuts[1]
    constant = sums.constant == 1
    for k in range(0, size, WIDTH):
        word, part = place_of_g(sums.constant, k), k % N_LANES
        g_unit = load_floats(lanes, _G_UNIT * size + k)
        h_unit = load_floats(lanes, _H_UNIT * size + k)
        g, h = load_floats(lanes, _G * size + k), load_floats(lanes, _H * size + k)
        penalty = load_floats(lanes, _PENALTY * size + k)
        g_left, h_left = spread(0.0), spread(0.0)
        for e in range(-1 if missing >= 0 else 0, n_filled):
            bin_ = at + (filled[e] if e >= 0 else missing)
            cell = bin_ * sums.width + word
            g_left = g_left + load_floats(cells, cell) * g_unit
            if constant:
                h_left = h_left + float(n[bin_]) * h_unit
            else:
                h_left = h_left + load_floats(cells, cell + N_LANES) * h_unit
            if e < 0:
                continue
            left = Side(g_left, h_left + penalty, limits.n)  # rows are counted by the caller
            right = Side(g - g_left, h - h_left + penalty, limits.n)
            score = sides_score(left, right, limits, False)
            score = choose(left.d * right.d > 0.0, score, -math.inf)
            weight, to = h_left, e * N_LANES + part
            if k >= N_LANES:
                score = load_floats(scores, to) + score
                weight = load_floats(weights, to) + weight
            store_floats(scores, to, score)
            store_floats(weights, to, weight)


@kernel(inner=True)
def search_column(
    node: VectorNode, feature: int, limits: Limits, drawn: int, key: int, best: Split
) -> Split:
    """Return the better of ``best`` and the best cut of one column, in both missing directions."""
    # With ``drawn`` 1 it is one random cut, as in :mod:`hedgerow.kernels.splits.search`.
    at, n, filled, absent = first_cell(node, feature), node.sums.n, node.filled, node.stride - 1
    n_missing, cut = np.int64(n[at + absent]), np.int64(-1)
    n_filled = list_bins(node, feature) - np.int64(n_missing > 0)
    if drawn == 1 and n_filled > 0:
        n_cuts = filled[n_filled - 1] - filled[0] + np.int64(n_missing > 0)
        cut = filled[0] + draw_of(key, feature, max(n_cuts, np.int64(1)))
        while filled[n_filled - 1] > cut:
            n_filled -= 1
    for side in range(2 if n_missing > 0 else 1):
        score_cuts(node, at, absent if side == 1 else -1, n_filled, limits)
        n_left = n_missing if side == 1 else np.int64(0)
        for e in range(n_filled):
            n_left += np.int64(n[at + filled[e]])
            if cut >= 0 and e + 1 < n_filled:
                continue
            score = cut_score(node, e, n_left, limits, best.score)
            if score > best.score:
                best = Split(score, feature, max(filled[e], cut), np.int64(side), 0, 0, 0)
    return best


@kernel(inline=True, inner=True)
def cut_score(node: VectorNode, e: int, n_left: int, limits: Limits, least: float) -> float:
    """Return the score of the cut after ``filled`` bin ``e`` if above ``least``, or -inf."""
    # It is minus infinity if a side is too small, too.
    if min(n_left, node.n_rows - n_left) < limits.fewest:
        return -math.inf
    score = sum_floats(node.cuts[0], e * N_LANES)
    if not score > least:
        return -math.inf
    left = sum_floats(node.cuts[1], e * N_LANES)
    return score if min(left, limits.h - left) >= limits.lightest else -math.inf


@kernel(inner=True)
def score_of_cut(
    node: VectorNode, feature: int, limits: Limits, cut: int, missing_left: int
) -> float:
    """Return the score of the cut after bin ``cut``, or -inf if it does not divide."""
    at, n, filled, absent = first_cell(node, feature), node.sums.n, node.filled, node.stride - 1
    n_missing = np.int64(n[at + absent])
    n_filled = list_bins(node, feature) - np.int64(n_missing > 0)
    is_left = missing_left == 1 and n_missing > 0
    last, n_left = np.int64(-1), np.int64(0)
    while last + 1 < n_filled and filled[last + 1] <= cut:
        last += 1
        n_left += np.int64(n[at + filled[last]])
    if is_left and last < 0:  # only missing values on the left: swap the sides
        is_left, last, n_left = False, n_filled - 1, node.n_rows - n_missing
    elif is_left:
        n_left += n_missing
    if last < 0:
        return -math.inf
    score_cuts(node, at, absent if is_left else -1, last + 1, limits)
    return cut_score(node, last, n_left, limits, -math.inf)


@kernel(inner=True)
def add_column_gains(
    node: VectorNode,
    feature: int,
    limits: Limits,
    own: float,
    gains: FloatArray,
    to: int,
    also: int,
) -> None:
    """Add the gain of each cut of a column to every ``WIDTH``-th entry from ``to`` on."""
    # They are those of a level (:mod:`hedgerow.kernels.splits.symmetric_split`), with missing
    # values on the right.  If ``also`` is not 0, the gains with missing values on the left are
    # added so many entries further on.  A cut that does not divide the node adds nothing.
    n, filled, absent = node.sums.n, node.filled, node.stride - 1
    at, n_bins = first_cell(node, feature), np.int64(node.n_bins[feature])
    n_missing = np.int64(n[at + absent])
    n_filled = list_bins(node, feature) - np.int64(n_missing > 0)
    gain = 0.0
    for side in range(2 if also != 0 else 1):
        is_left = side == 1 and n_missing > 0
        n_left = n_missing if is_left else np.int64(0)
        if side == 0 or is_left:
            score_cuts(node, at, absent if is_left else -1, n_filled, limits)
        # Before the first bin with rows only missing values are on the left.  The cut after
        # the last bin divides in the same way, with the sides swapped.
        gain = gain if is_left else 0.0
        first = np.int64(0)
        for e in range(n_filled):
            for b in range(first, filled[e]):
                gains[to + side * also + b * WIDTH] += gain
            first = filled[e]
            n_left += np.int64(n[at + first])
            score = cut_score(node, e, n_left, limits, -math.inf)
            gain = score - own if score > -math.inf else 0.0
        for b in range(first, n_bins):
            gains[to + side * also + b * WIDTH] += gain
