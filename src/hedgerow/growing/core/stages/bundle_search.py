"""Search of the best split among features that share columns (bundles).

Indicators (features with one cell whose default is bin 0) have one cut each.  Adjacent cells of a
bundle can be different features, and the left side of each cut is the node minus the cell::

    bundle    rest  x3  x7  x9 ...        left of the cut of x7:   node - cell of x7
    cells      0     1   2   3            right:                   cell of x7

Every other member is written out as a column of its own and searched like one
(:mod:`hedgerow.kernels.splits.split`).  Its sums of the default bin are the node minus its cells.
All sums are integers, so the scores are the same to the last bit, and ties go to the lower
feature: the tree does not depend on the bundles.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core import state as s
from hedgerow.kernels.histograms.histogram import HistogramSums
from hedgerow.kernels.simd.lanes import WIDTH, choose, lane_of, load_lanes, spread
from hedgerow.kernels.splits.constraints import SearchedNode
from hedgerow.kernels.splits.search import ColumnLanes, search_columns
from hedgerow.kernels.splits.split import (
    NO_SPLIT,
    Cuts,
    NodeHistogram,
    NodeSums,
    Split,
    complete_split,
    pass_bin,
)


@kernel(inner=True)
def beats(score: float, feature: int, best: Split) -> bool:
    """Return whether a score is larger, or equal with a lower feature."""
    tie = score == best.score and score >= 0.0 and feature < best.feature
    return score > best.score or tie


@kernel(inner=True)
def write_out(
    histogram: NodeHistogram, start: int, bundles: s.Bundles, feature: int, node: NodeSums, to: int
) -> None:
    """Write a member of the bundle whose cells begin at ``start`` as a column of its own."""
    sums, n_bins = histogram.sums, np.int64(histogram.n_bins[feature])
    default_bin = np.int64(bundles.default_bin[feature])
    clear(sums, to, (n_bins + 7) // 8 * 8)
    last = to + histogram.stride - 1
    clear(sums, last, 1)
    g, h, n = node.g, node.h, node.n
    cell = start + bundles.first[feature]
    for k in range(bundles.count[feature]):
        code = k + np.int64(k >= default_bin)
        b = to + code if code < n_bins else last
        sums.g[b], sums.h[b], sums.n[b] = sums.g[cell + k], sums.h[cell + k], sums.n[cell + k]
        g -= sums.g[cell + k]
        h -= sums.h[cell + k]
        n -= np.int64(sums.n[cell + k])
    b = to + default_bin if default_bin < n_bins else last
    sums.g[b], sums.h[b], sums.n[b] = g, h, np.int32(n)


@kernel(inline=True, inner=True)
def scratch_of(bundles: s.Bundles, thread: int, stride: int) -> int:
    """Return the place where a thread writes members of bundles as columns."""
    return np.int64(bundles.scratch_start + thread * WIDTH * stride)


@kernel(inline=True, inner=True)
def sums_of_feature(
    histogram: NodeHistogram, feature: int, node: NodeSums, to: int, bundles: s.Bundles
) -> int:
    """Return the start of a feature's sums; write a member of a bundle to ``to`` first."""
    column = np.int64(bundles.column[feature])
    start = histogram.start + column * histogram.stride
    if bundles.alone[column] >= 0:
        return start
    write_out(histogram, start, bundles, feature, node, to)
    return to


@kernel(inner=True)
def clear(histograms: HistogramSums, start: int, size: int) -> None:
    """Zero ``size`` cells."""
    for c in range(start, start + size):
        histograms.g[c], histograms.h[c], histograms.n[c] = 0, 0, 0


@kernel(inner=True)
def search_members(
    start: int,
    part: tuple[int, int],
    histogram: NodeHistogram,
    lanes: ColumnLanes,
    allowed: IntArray,
    scratch: int,
    node: SearchedNode,
    options: s.Options,
    best: Split,
) -> Split:
    """Return ``best`` or a better cut of ``members[part[0]:part[1]]``, written out as columns."""
    bundles, n_lanes = options.bundles, 0
    for m in range(part[0], part[1]):
        feature = np.int64(bundles.members[m])
        if allowed[feature] == 1:
            to = scratch + n_lanes * histogram.stride
            lanes.feature[n_lanes], lanes.at[n_lanes] = feature, to
            write_out(histogram, start, bundles, feature, node.sums, to)
            n_lanes += 1
        if n_lanes < WIDTH and (n_lanes == 0 or m + 1 < part[1]):
            continue
        most_bins = np.int64(0)
        for j in range(WIDTH):
            if j >= n_lanes:
                lanes.feature[j], lanes.at[j] = lanes.feature[n_lanes - 1], lanes.at[n_lanes - 1]
            most_bins = max(most_bins, np.int64(histogram.n_bins[lanes.feature[j]]))
        for j in range(n_lanes):
            written = (np.int64(histogram.n_bins[lanes.feature[j]]) + 7) // 8 * 8
            # All lanes run up to the last bin of any: behind its own a column is empty.
            size = min(most_bins + 7, histogram.stride - 1) - written
            clear(histogram.sums, lanes.at[j] + written, size)
        found = search_columns(histogram, lanes, node, options.constraints, NO_SPLIT)
        best = found if beats(found.score, found.feature, best) else best
        n_lanes = 0
    return best


@kernel(inner=True)
def best_indicator(
    histograms: HistogramSums,
    start: int,
    column: int,
    bundles: s.Bundles,
    usable: IntArray,
    allowed: IntArray,
    node: SearchedNode,
    best: Split,
) -> Split:
    """Return ``best`` or a better cut of the indicators in a bundle."""
    first, n_single = bundles.member_start[column], np.int64(bundles.n_single[column])
    usable_start = np.int64(s.USABLE_ONES) - n_single
    if bundles.sampled == 1:
        usable_start = np.int64(s.USABLE_OWN)
        for k in range(n_single):
            usable[usable_start + k] = allowed[bundles.members[first + k]]
        for k in range(n_single, n_single + WIDTH):
            usable[usable_start + k] = 0
    # ``usable[usable_start + k]`` is 1 if feature ``k`` may be split, and 0 for ``WIDTH`` places
    # behind the last.  Of equal scores the first counts.
    sums, nothing = node.sums, spread(np.int64(0))
    score, place = spread(-1.0), nothing
    for k in range(0, n_single, WIDTH):
        at = start + 1 + k
        g, h = sums.g - load_lanes(histograms.g, at), sums.h - load_lanes(histograms.h, at)
        n = sums.n - load_lanes(histograms.n, at)
        # With no row on the left a split is refused.
        n = choose(load_lanes(usable, usable_start + k) > nothing, n, nothing)
        cuts = Cuts(nothing, nothing, nothing, score, place)
        cuts = pass_bin(cuts, (g, h, n), k, node.limits, None, None, False)
        score, place = cuts.score, cuts.bin
    most, cell = -1.0, np.int64(0)
    for j in range(WIDTH):
        here = lane_of(place, j) + j
        if lane_of(score, j) > most or (lane_of(score, j) == most and here < cell):
            most, cell = lane_of(score, j), here
    feature = np.int64(bundles.members[first + cell])
    return Split(most, feature, 0, 0, 0, 0, 0) if beats(most, feature, best) else best


@kernel(inner=True)
def search_bundles(
    thread: int,
    span: tuple[int, int],
    columns: IntArray,
    histogram: NodeHistogram,
    lanes: ColumnLanes,
    allowed: IntArray,
    node: SearchedNode,
    options: s.Options,
) -> Split:
    """Return the best cut of bundles in ``columns[span[0]:span[1]]``."""
    bundles, stride, best = options.bundles, histogram.stride, NO_SPLIT
    scratch = scratch_of(bundles, thread, stride)
    for k in range(span[0], span[1]):
        column = np.int64(columns[k])
        if bundles.alone[column] >= 0:
            continue
        start = histogram.start + column * stride
        first, last = bundles.member_start[column], bundles.member_start[column + 1]
        others = first + np.int64(bundles.n_single[column])
        if others > first and options.constraints.scored == 0:
            usable = bundles.usable[thread]
            best = best_indicator(
                histogram.sums, start, column, bundles, usable, allowed, node, best
            )
        elif others > first:  # bounded leaf values and gains with a price
            part = (first, others)
            best = search_members(
                start, part, histogram, lanes, allowed, scratch, node, options, best
            )
        part = (others, last)
        best = search_members(start, part, histogram, lanes, allowed, scratch, node, options, best)
    if best.score < 0.0:
        return best
    start = histogram.start + np.int64(bundles.column[best.feature]) * stride
    write_out(histogram, start, bundles, best.feature, node.sums, scratch)
    as_if = scratch - best.feature * stride
    own = NodeHistogram(histogram.sums, as_if, stride, histogram.n_bins)
    return complete_split(own, node.sums, node.units, best)


@kernel(inner=True)
def write_cells(found: IntArray, bundles: s.Bundles, n_bins: int) -> None:
    """Write the set of the cut found in a member of a bundle: one of the cells of its column."""
    feature, bin_, missing_left = (
        found[s.FOUND_FEATURE],
        found[s.FOUND_BIN],
        found[s.FOUND_MISSING_LEFT],
    )
    default_bin = np.int64(bundles.default_bin[feature])
    rest_left = default_bin <= bin_ if default_bin < n_bins else missing_left == 1
    for w in range(s.SET_WORDS):
        found[s.FOUND_SET + w] = -1 if rest_left else 0
    for k in range(bundles.count[feature]):
        code = k + np.int64(k >= default_bin)
        left = code <= bin_ if code < n_bins else missing_left == 1
        if left != rest_left:
            cell = np.int64(bundles.first[feature]) + k
            bit = np.uint64(1) << np.uint64(cell & 63)
            found[s.FOUND_SET + (cell >> 6)] ^= np.int64(bit)
