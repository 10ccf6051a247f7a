"""Search of the columns of a node: all cuts, or one random cut."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.simd.lanes import WIDTH, gather, lane_of, load_turned, spread
from hedgerow.kernels.splits.constraints import (
    ConstrainedColumn,
    Constraints,
    SearchedNode,
    cut_gain,
    draw_of,
    factor_of,
)
from hedgerow.kernels.splits.split import (
    Cuts,
    NodeHistogram,
    Order,
    Side,
    Split,
    accepted_gain,
    scan,
    sum_bins,
)

_NEVER = (1 << 63) - 1


class ColumnLanes(NamedTuple):
    """Columns that are searched side by side, int64 (WIDTH,): the last fills the lanes left over.

    feature  their numbers
    at       first cell of each in the histogram
    """

    feature: IntArray
    at: IntArray


@kernel(inner=True)
def search_cut(
    histogram: NodeHistogram,
    start: int,
    feature: int,
    cut: int,
    node: SearchedNode,
    constraints: Constraints,
    best: Split,
) -> Split:
    """Return the better of ``best`` and the cut after bin ``cut`` of the column at ``start``."""
    sums, limits, absent = histogram.sums, node.limits, start + histogram.stride - 1
    g, h, n = sum_bins(sums, start, start + cut + 1)
    n_missing, n_before = np.int64(sums.n[absent]), n
    factor = factor_of(constraints, feature, node.asked)
    column = ConstrainedColumn(
        constraints.sign[feature], factor, limits.n - n_missing, node.within, node.asked
    )
    for side in range(2 if n_missing > 0 else 1):
        if side == 1:
            g += sums.g[absent]
            h += sums.h[absent]
            n += n_missing
        h_left, h_right = float(h), limits.h - float(h)
        enough = n >= limits.fewest and limits.n - n >= limits.fewest
        if not enough or h_left < limits.lightest or h_right < limits.lightest:
            continue
        left = Side(float(g), h_left + limits.penalty, n)
        right = Side(limits.g - float(g), h_right + limits.penalty, limits.n - n)
        gain = cut_gain(left, right, n_before, limits, column)
        if gain > best.score:
            best = Split(gain, feature, cut, side, 0, 0, 0)
    return best


@kernel(inner=True)
def search_columns(
    histogram: NodeHistogram,
    lanes: ColumnLanes,
    node: SearchedNode,
    constraints: Constraints,
    best: Split,
) -> Split:
    """Return the better of ``best`` and the best cut of the columns in lanes."""
    # The score of a cut is in units of the sums; under constraints it is its gain.
    if constraints.scored == 1 and constraints.growth.drawn == 1:
        for j in range(WIDTH):
            feature = lanes.feature[j]
            if j > 0 and feature == lanes.feature[j - 1]:
                break  # the last column fills the remaining lanes
            # The cut lies between the lowest and the highest bin with rows.  If values are missing,
            # the cut after the highest bin is one more.
            counts, at = histogram.sums.n, lanes.at[j]
            first = n_bins = np.int64(histogram.n_bins[feature])
            last = np.int64(-1)
            for b in range(n_bins):
                if counts[at + b] > 0:
                    first = min(first, np.int64(b))
                    last = np.int64(b)
            n_cuts = last - first + np.int64(counts[at + histogram.stride - 1] > 0)
            if last >= 0 and n_cuts > 0:
                cut = first + draw_of(node.asked.key, feature, n_cuts)
                best = search_cut(histogram, at, feature, cut, node, constraints, best)
        return best
    sums, limits, stride = histogram.sums, node.limits, histogram.stride
    most_bins, missing = np.int64(0), np.int64(0)
    for j in range(WIDTH):
        most_bins = max(most_bins, np.int64(histogram.n_bins[lanes.feature[j]]))
        missing |= np.int64(sums.n[lanes.at[j] + stride - 1])
    if constraints.scored == 0:
        right = scan(sums, lanes.at, most_bins, np.int64(-1), limits, None, None)
        left = right
        if missing > 0:
            left = scan(sums, lanes.at, most_bins, stride - 1, limits, None, None)
    else:
        sign = gather(constraints.sign, lanes.feature)
        n_missing = load_turned(sums.n, lanes.at, stride - WIDTH)[WIDTH - 1]
        order = Order(node.within, sign, limits.n - n_missing, np.int64(_NEVER))
        right = scan(sums, lanes.at, most_bins, np.int64(-1), limits, order, None)
        left = right
        if missing > 0:
            order = Order(node.within, sign, spread(limits.n), np.int64(_NEVER))
            left = scan(sums, lanes.at, most_bins, stride - 1, limits, order, None)
    for j in range(WIDTH):
        best = better_cut(right, j, 0, lanes, node, constraints, best)
        best = better_cut(left, j, 1, lanes, node, constraints, best)
    return best


@kernel(inline=True, inner=True)
def better_cut(
    cuts: Cuts, j: int, side: int, lanes: ColumnLanes, node: SearchedNode,
    constraints: Constraints, best: Split,
) -> Split:  # fmt: skip
    """Return the better of ``best`` and the cut in lane ``j``."""
    score, feature = lane_of(cuts.score, j), lanes.feature[j]
    if constraints.scored == 1:
        asked, factor = node.asked, factor_of(constraints, feature, node.asked)
        score = accepted_gain(score, asked.own, asked.rounding, asked.price, factor)
    if score > best.score:
        return Split(score, feature, lane_of(cuts.bin, j), side, 0, 0, 0)
    return best
