"""Search of the best cut of a node for several outputs at once.

The score of a cut is the sum over the outputs of what :mod:`hedgerow.kernels.splits.split`
computes for one of them, from the histograms of all outputs::

    score(cut) = sum over k of  score(G_k left, H_k left) + score(G_k right, H_k right)

so that one tree serves all outputs (the ``multi_output_tree`` of XGBoost; sums over
classes in Friedman 2001 are of the same kind).  Outputs lie side by side, eight of them
in the lanes of a vector (:mod:`hedgerow.kernels.simd.lanes`), and a column is searched bin by
bin, those without rows left out::

              output 0  1  2 ... 7 | 8  9 ...
    bin 0            .  .  .     .   .  .       running sums of g and h of each output
    bin 3            .  .  .     .   .  .       score of the cut behind the bin: of each
    bin 4            .  .  .     .   .  .       lane, added up over eights, then over lanes

One eight after the other is taken down the column, its running sums in registers.

A side needs ``min_samples_leaf`` rows, and ``min_child_weight`` of hessian in the
mean over the outputs: with equal outputs both mean what they mean for one.

Ties are as in :mod:`hedgerow.kernels.splits.split`.  Lanes without an output add 0, so that one
output alone and the same output twice give the same cut.

Outputs differ in their units.  All sums are taken to the unit of the largest, a power of
two (:class:`VectorNode`): no digit is lost, and squares stay far from the limits of
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
from hedgerow.kernels.splits.split import Limits, Split, SplitRules, Units, node_score, side_score

# Rows of ``lanes``, each with a place for every output and those that fill up the last eight.
_G_UNIT, _H_UNIT, _G, _H, _PENALTY, LANE_ROWS = range(6)
FILLED_SIZE = 264
"""Size of the list of bins of a thread."""


class VectorNode(NamedTuple):
    """The node that is searched.

    start    first cell of its histogram
    n_rows   its rows
    totals   int64 (n_outputs, 2): sums of g and h over its rows
    units    float64 (n_outputs, 2): what one counts for in them
    largest  what one counts for in the sums that scores are computed of
    lanes    float64 (LANE_ROWS * size,), of each output: units, sums of the node and
             ``reg_lambda`` in terms of ``largest``
    size     outputs, rounded up to a multiple of ``N_LANES``
    filled   int64 (FILLED_SIZE,): scratch, bins with rows
    cuts     float64 (2, FILLED_SIZE * N_LANES): scratch, of the cut behind each of them the
             score, and the hessian on the left, in lanes
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


@kernel(inner=True)
def sum_totals(sums: Sums, at: int, n_bins: int, stride: int, node: VectorNode) -> None:
    """Read the node's sums of each output off the histogram of the column at ``at``."""
    cells, totals = sums.cells, node.totals
    n_filled = list_filled(sums.n, at, n_bins, stride, node.filled)
    for output in range(len(totals)):
        word = place_of_g(sums, output)
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
    """Fill in the lanes of the node; return its rules in terms of ``node.largest``."""
    lanes, size, largest = node.lanes, node.size, node.largest
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


@kernel(inner=True)
def score_totals(node: VectorNode, rules: SplitRules) -> float:
    """Twice the loss that the node takes away as a leaf, over all outputs."""
    score = 0.0
    for output in range(node.totals.shape[0]):
        g = float(node.totals[output, 0]) * node.units[output, 0]
        h = float(node.totals[output, 1]) * node.units[output, 1]
        score += node_score(g, h, rules)
    return score


@kernel(inner=True)
def score_cuts(
    sums: Sums, at: int, missing: int, n_filled: int, node: VectorNode, limits: Limits
) -> None:
    """Score the cuts behind ``filled`` bins of the column at ``at``, ``WIDTH`` outputs at a time.

    Bin ``missing`` is on the left from the start, if not negative.  A side whose ``H +
    lambda`` is 0 makes the score minus infinity.
    """
    lanes, cells, n, size, filled = node.lanes, sums.cells, sums.n, node.size, node.filled
    scores, weights = node.cuts[0], node.cuts[1]
    constant = sums.constant == 1
    for k in range(0, size, WIDTH):
        word, part = place_of_g(sums, k), k % N_LANES
        g_unit, h_unit = (
            load_floats(lanes, _G_UNIT * size + k),
            load_floats(lanes, _H_UNIT * size + k),
        )
        g, h = load_floats(lanes, _G * size + k), load_floats(lanes, _H * size + k)
        penalty = load_floats(lanes, _PENALTY * size + k)
        g_left, h_left = spread(0.0), spread(0.0)
        for e in range(-1 if missing >= 0 else 0, n_filled):
            bin_ = at + (filled[e] if e >= 0 else missing)
            cell = bin_ * sums.width + word
            g_left = g_left + load_floats(cells, cell) * g_unit
            if constant:
                h_left = h_left + spread(float(n[bin_])) * h_unit
            else:
                h_left = h_left + load_floats(cells, cell + N_LANES) * h_unit
            if e < 0:
                continue
            g_right, d_left, d_right = g - g_left, h_left + penalty, h - h_left + penalty
            product = d_left * d_right
            if limits.plain:
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
    best: Split,
) -> Split:
    """The better of ``best`` and the best cut of one column, missing values on either side."""
    at, n, filled = node.start + feature * stride, sums.n, node.filled
    scores, weights, absent = node.cuts[0], node.cuts[1], stride - 1
    n_missing = np.int64(n[at + absent])
    n_filled = list_filled(n, at, n_bins, stride, filled) - np.int64(n_missing > 0)
    for side in range(2 if n_missing > 0 else 1):
        score_cuts(sums, at, absent if side == 1 else -1, n_filled, node, limits)
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
    """Gain of the cut behind ``filled`` bin number ``e`` in the node, or minus infinity.

    The latter where a side has too little.
    """
    if min(n_left, node.n_rows - n_left) < limits.fewest:
        return -math.inf
    left = sum_floats(node.cuts[1], e * N_LANES)
    if min(left, limits.h - left) < limits.lightest:
        return -math.inf
    return sum_floats(node.cuts[0], e * N_LANES) - parent


@kernel(inner=True)
def add_column_gains(
    sums: Sums,
    at: int,
    n_bins: int,
    stride: int,
    node: VectorNode,
    limits: Limits,
    parent: float,
    gains: FloatArray,
    to: int,
    also: int,
) -> None:
    """Add what each cut of the column at ``at`` gains to every ``WIDTH``-th cell from ``to`` on.

    With missing values on the right; and, if ``also`` is not 0, with missing values on the
    left, so many cells further on.  A cut that does not divide the node adds nothing.
    """
    n, filled, absent = sums.n, node.filled, stride - 1
    n_missing = np.int64(n[at + absent])
    n_filled = list_filled(n, at, n_bins, stride, filled) - np.int64(n_missing > 0)
    gain = 0.0
    for side in range(2 if also != 0 else 1):
        is_left = side == 1 and n_missing > 0
        n_left = n_missing if is_left else np.int64(0)
        if side == 0 or is_left:
            score_cuts(sums, at, absent if is_left else -1, n_filled, node, limits)
        # Before the first bin with rows: missing values alone, as behind the last on the
        # other side.
        gain = gain if is_left else 0.0
        first, place = np.int64(0), to + side * also
        for e in range(n_filled):
            for b in range(first, filled[e]):
                gains[place + b * WIDTH] += gain
            first = filled[e]
            n_left += np.int64(n[at + first])
            gain = scored_gain(node, e, n_left, limits, parent)
            gain = gain if gain > -math.inf else 0.0
        for b in range(first, n_bins):
            gains[place + b * WIDTH] += gain


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
) -> float:
    """Gain of one cut of the column at ``at``, or minus infinity if it does not divide the node.

    ``cut`` is the bin before it, and whether missing values go left.
    """
    n, filled, absent = sums.n, node.filled, stride - 1
    n_missing = np.int64(n[at + absent])
    n_filled = list_filled(n, at, n_bins, stride, filled) - np.int64(n_missing > 0)
    is_left = cut[1] == 1 and n_missing > 0
    last, n_left = np.int64(-1), np.int64(0)
    while last + 1 < n_filled and filled[last + 1] <= cut[0]:
        last += 1
        n_left += np.int64(n[at + filled[last]])
    if is_left and last < 0:  # missing values alone: the sides change places
        is_left, last, n_left = False, n_filled - 1, node.n_rows - n_missing
    elif is_left:
        n_left += n_missing
    if last < 0:
        return -math.inf
    score_cuts(sums, at, absent if is_left else -1, n_filled, node, limits)
    return scored_gain(node, last, n_left, limits, parent)


@kernel(inner=True)
def vector_gain(score: float, parent: float, n_outputs: int, rules: SplitRules) -> float:
    """Loss reduction of a split, summed over the outputs, or -1 where it is not worth its price.

    ``gamma`` is paid for each output.  As in :func:`hedgerow.kernels.splits.split.split_gain` a
    gain that is no more than rounding is none.
    """
    if score < 0.0:
        return -1.0
    difference = score - parent
    if difference <= 1e-10 * parent:
        return -1.0
    gain = 0.5 * difference - n_outputs * rules.gamma
    return gain if gain > 0.0 and math.isfinite(gain) else -1.0
