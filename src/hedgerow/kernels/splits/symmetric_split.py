"""Search of the cut that is best for all nodes of a level at once.

A symmetric tree divides every node of a level by the same cut (Kohavi and Li 1995, as
oblivious decision graphs; Prokhorenkova et al. 2018).  With the scores of
:mod:`hedgerow.kernels.splits.split`, the best cut has the largest

    gain(cut) = sum over the nodes of   score(L) + score(R) - score(node)

A node is not divided, and adds nothing, if one side of the cut has too few rows or too
little hessian.

Nodes add to an array of the gains of all cuts, one node after the other in the order of the
tree, for a group of columns at a time.  The largest gain is found after the last node.  Each
thread has columns of its own, so no bit depends on the number of threads::

    gains        column 0  1  2  3           of a group of four columns, missing values
    cut 0                .  .  .  .          right; a second such block follows, for
    cut 1                .  .  .  .          missing values left; each has room for the
    ...                                      cuts of the column with most bins

Ties go to the lower feature, then missing values to the right, then the lower bin.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.histograms.histogram import HistogramSums
from hedgerow.kernels.simd.lanes import (
    WIDTH,
    choose,
    gather,
    load_floats,
    load_lanes,
    load_turned,
    spread,
    store_floats,
    to_float,
)
from hedgerow.kernels.splits.monotone import Bounds, lane_scores, lane_weights
from hedgerow.kernels.splits.split import Limits, is_allowed, side_score, sum_to_float


class Left(NamedTuple):
    """Sums of several columns up to some bin, and the gain of the cut after it."""

    g: Any
    h: Any
    n: Any
    gain: Any


@kernel(inner=True)
def leaf_score(limits: Limits) -> float:
    """Return :func:`hedgerow.kernels.splits.split.node_score` of the node, in its units."""
    denominator = limits.h + limits.penalty
    if not denominator > 0.0:
        return 0.0
    if limits.plain:
        return limits.g * limits.g / denominator
    shrunk = max(abs(limits.g) - limits.shrink, 0.0)
    step = min(shrunk / denominator, limits.longest)
    return step * (2.0 * shrunk - denominator * step)


@kernel(inline=True, inner=True)
def pass_cut(left: Left, g: Any, h: Any, n: Any, limits: Limits, parent: float, easy: bool) -> Left:
    """Advance by one bin with the sums g, h, n; return the gains of the cuts after it."""
    g_sum, h_sum, n_left = left.g + g, left.h + h, left.n + n
    g_left, h_left = sum_to_float(g_sum, easy), sum_to_float(h_sum, easy)
    g_right, h_right = spread(limits.g) - g_left, spread(limits.h) - h_left
    d_left = h_left + spread(limits.penalty)
    d_right = h_right + spread(limits.penalty)
    if easy or limits.plain:
        both = g_left * g_left * d_right + g_right * g_right * d_left
        score = both / (d_left * d_right)
    else:
        score = side_score(g_left, d_left, limits) + side_score(g_right, d_right, limits)
    allowed = is_allowed(n_left, h_left, h_right, limits)
    return Left(g_sum, h_sum, n_left, choose(allowed, score - spread(parent), spread(0.0)))


@kernel(inline=True, inner=True)
def pass_cuts(
    left: Left,
    histograms: HistogramSums,
    at: IntArray,
    n_bins: int,
    limits: Limits,
    parent: float,
    gains: FloatArray,
    to: int,
    also: int,
    easy: bool,
) -> None:
    """Advance by ``n_bins`` bins, rounded up to a multiple of ``WIDTH``; add the gains."""
    # The last block may reach the missing bin: a cut after it leaves no row on the right.
    for b in range(0, n_bins, WIDTH):
        g, h = load_turned(histograms.g, at, b), load_turned(histograms.h, at, b)
        n = load_turned(histograms.n, at, b)
        for k in range(WIDTH):
            left = pass_cut(left, g[k], h[k], n[k], limits, parent, easy)
            t = to + (b + k) * WIDTH
            store_floats(gains, t, load_floats(gains, t) + left.gain)
            if also != 0:
                store_floats(gains, t + also, load_floats(gains, t + also) + left.gain)


@kernel(inner=True)
def add_lanes(
    histograms: HistogramSums,
    at: IntArray,
    n_bins: int,
    missing_bin: int,
    limits: Limits,
    parent: float,
    gains: FloatArray,
    to: int,
    also: int,
) -> None:
    """Add the gains of a node with the sums at ``at`` to the block of gains at ``to``."""
    # If ``also`` is not 0, the gains are also added ``also`` entries further on.
    nothing = spread(np.int64(0))
    left = Left(nothing, nothing, nothing, spread(0.0))
    # Missing values go left: the running sums start with their bin.
    if missing_bin >= 0:
        b, last = missing_bin - (WIDTH - 1), WIDTH - 1
        g, h = load_turned(histograms.g, at, b)[last], load_turned(histograms.h, at, b)[last]
        left = Left(g, h, load_turned(histograms.n, at, b)[last], left.gain)
    if limits.easy:
        pass_cuts(left, histograms, at, n_bins, limits, parent, gains, to, also, True)
    else:
        pass_cuts(left, histograms, at, n_bins, limits, parent, gains, to, also, False)


@kernel(inner=True)
def add_bounded_lanes(
    histograms: HistogramSums,
    at: IntArray,
    n_bins: int,
    missing_bin: int,
    limits: Limits,
    bounds: Bounds,
    order: tuple[Any, Any],
    gains: FloatArray,
    to: int,
    also: int,
) -> None:
    """Add gains like :func:`add_lanes`, within bounds; a cut that breaks the order adds nothing."""
    # ``order`` holds the sign and the last bin of each column.
    zero, sign, last_bin = spread(0.0), order[0], order[1]
    g_left, h_left, n_left = spread(np.int64(0)), spread(np.int64(0)), spread(np.int64(0))
    if missing_bin >= 0:
        b, last = missing_bin - (WIDTH - 1), WIDTH - 1
        g_left, h_left = (
            load_turned(histograms.g, at, b)[last],
            load_turned(histograms.h, at, b)[last],
        )
        n_left = load_turned(histograms.n, at, b)[last]
    for b in range(0, n_bins, WIDTH):
        g, h = load_turned(histograms.g, at, b), load_turned(histograms.h, at, b)
        n = load_turned(histograms.n, at, b)
        for k in range(WIDTH):
            g_left, h_left, n_left = g_left + g[k], h_left + h[k], n_left + n[k]
            g_one, h_one = to_float(g_left), to_float(h_left)
            g_two, h_two = spread(limits.g) - g_one, spread(limits.h) - h_one
            d_one, d_two = h_one + spread(limits.penalty), h_two + spread(limits.penalty)
            left = lane_weights(g_one, d_one, n_left, limits, bounds)
            right = lane_weights(g_two, d_two, spread(limits.n) - n_left, limits, bounds)
            score = lane_scores(g_one, d_one, left, limits)
            score = score + lane_scores(g_two, d_two, right, limits)
            # The cut after the last bin separates missing values and orders nothing.  All other
            # cuts must keep the order, whichever rows the node has, because later rows may lie on
            # both sides.
            here = choose(last_bin > spread(np.int64(b + k)), sign, zero)
            allowed = is_allowed(n_left, h_one, h_two, limits) & (here * (right - left) >= zero)
            gain = choose(allowed, score - spread(bounds.score), zero)
            t = to + (b + k) * WIDTH
            store_floats(gains, t, load_floats(gains, t) + gain)
            if also != 0:
                store_floats(gains, t + also, load_floats(gains, t + also) + gain)


@kernel(inner=True)
def add_bounded_columns(
    histograms: HistogramSums,
    at: IntArray,
    n_bins: int,
    stride: int,
    limits: Limits,
    bounds: Bounds,
    order: tuple[IntArray, IntArray, FloatArray],
    gains: FloatArray,
    to: int,
) -> None:
    """Add gains like :func:`add_columns`, with bounded leaf values."""
    # ``order`` holds the columns, their last bins, and the signs of all columns.
    missing, block = np.int64(0), size_of_block(n_bins)
    for j in range(WIDTH):
        missing |= np.int64(histograms.n[at[j] + stride - 1])
    signs = (gather(order[2], order[0]), load_lanes(order[1], np.int64(0)))
    also = block if missing == 0 else np.int64(0)
    add_bounded_lanes(histograms, at, n_bins, np.int64(-1), limits, bounds, signs, gains, to, also)
    if missing != 0:
        nowhere = np.int64(0)
        add_bounded_lanes(
            histograms, at, n_bins, stride - 1, limits, bounds, signs, gains, to + block, nowhere
        )


@kernel(inner=True)
def add_columns(
    histograms: HistogramSums,
    at: IntArray,
    n_bins: int,
    stride: int,
    may_lack: bool,
    limits: Limits,
    parent: float,
    gains: FloatArray,
    to: int,
) -> None:
    """Add the gain of each cut of the ``WIDTH`` columns at ``at`` to both blocks at ``to``."""
    # ``may_lack`` is True if a node of the level may have missing values in one of the columns;
    # only then is the second block used.
    missing, block = np.int64(0), size_of_block(n_bins)
    if may_lack:
        for j in range(WIDTH):
            missing |= np.int64(histograms.n[at[j] + stride - 1])
    # Without missing values both directions have the same gains.
    also = block if may_lack and missing == 0 else np.int64(0)
    add_lanes(histograms, at, n_bins, np.int64(-1), limits, parent, gains, to, also)
    if missing != 0:
        nowhere = np.int64(0)
        add_lanes(histograms, at, n_bins, stride - 1, limits, parent, gains, to + block, nowhere)


@kernel(inline=True, inner=True)
def size_of_block(n_bins: int) -> int:
    """Return the entries for the gains of ``WIDTH`` columns with at most ``n_bins`` bins."""
    return (n_bins + WIDTH - 1) // WIDTH * WIDTH * WIDTH


@kernel(inner=True)
def lanes_at(gains: FloatArray, to: int, cuts: IntArray, at: IntArray) -> tuple[Any, Any]:
    """Return the gain of one cut in each of ``WIDTH`` columns, and the bins before the cuts."""
    # ``at`` is a scratch array.
    for j in range(WIDTH):
        at[j] = to + cuts[j] * WIDTH + j
    return gather(gains, at), load_lanes(cuts, np.int64(0))


@kernel(inner=True)
def best_lanes(gains: FloatArray, to: int, n_bins: int) -> tuple[Any, Any]:
    """Find the largest gain above 0 in each of ``WIDTH`` columns, and the bin before its cut."""
    most, at = spread(0.0), spread(np.int64(0))
    for b in range(n_bins):
        gain = load_floats(gains, to + b * WIDTH)
        better = gain > most
        most = choose(better, gain, most)
        at = choose(better, spread(np.int64(b)), at)
    return most, at
