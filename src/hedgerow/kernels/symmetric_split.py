"""Search of the cut that is best for all nodes of a level at once.

A symmetric tree divides every node of a level by the same cut (Kohavi and Li 1995, as
oblivious decision graphs; Prokhorenkova et al. 2018).  With the scores of
:mod:`hedgerow.kernels.split`, the cut is chosen by

    gain(cut) = sum over the nodes of   score(L) + score(R) - score(node)

where a node in which a side of the cut has too few rows or too little hessian is not
divided, and adds nothing.

One node after the other adds to an array of the gains of all cuts, eight columns side by
side; the largest is looked for behind the last node.  The order of the nodes is that of
the tree, so no bit depends on threads, which have columns of their own::

    gains        column 0  1  2 ... 7        of a group of eight columns, missing values
    cut 0                .  .  .     .       right; a second such block follows, for
    cut 1                .  .  .     .       missing values left
    ...

Ties go to the lower feature, then missing values to the right, then the lower bin.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.histogram import Wide
from hedgerow.kernels.lanes import (
    N_LANES,
    choose,
    load_floats,
    load_turned,
    spread,
    store_floats,
    to_float,
)
from hedgerow.kernels.split import Limits, if_allowed, side_score


class Left(NamedTuple):
    """Sums of eight columns up to some bin, and what the cut behind it gains."""

    g: Any
    h: Any
    n: Any
    gain: Any


@kernel(inner=True)
def leaf_score(limits: Limits) -> float:
    """:func:`hedgerow.kernels.split.node_score` of the node, in its units."""
    denominator = limits.h + limits.penalty
    if not denominator > 0.0:
        return 0.0
    if limits.plain:
        return limits.g * limits.g / denominator
    shrunk = max(abs(limits.g) - limits.shrink, 0.0)
    step = min(shrunk / denominator, limits.longest)
    return step * (2.0 * shrunk - denominator * step)


@kernel(inline=True, inner=True)
def pass_cut(left: Left, g: Any, h: Any, n: Any, limits: Limits, parent: float) -> Left:
    """Go on by one bin with the sums g, h, n: what the cuts behind it gain.

    No array is handed over: Numba would count references to it at each bin, which takes
    longer than all the rest.
    """
    g_left, h_left, n_left = left.g + to_float(g), left.h + to_float(h), left.n + n
    g_right, h_right = spread(limits.g) - g_left, spread(limits.h) - h_left
    d_left = h_left + spread(limits.penalty)
    d_right = h_right + spread(limits.penalty)
    if limits.plain:
        both = g_left * g_left * d_right + g_right * g_right * d_left
        score = both / (d_left * d_right)
    else:
        score = side_score(g_left, d_left, limits) + side_score(g_right, d_right, limits)
    gain = score - spread(parent)
    gain = if_allowed(gain, n_left, h_left, h_right, spread(0.0), limits)
    return Left(g_left, h_left, n_left, gain)


@kernel(inner=True)
def add_lanes(
    wide: Wide,
    at: IntArray,
    n_bins: int,
    missing_bin: int,
    limits: Limits,
    parent: float,
    gains: FloatArray,
    to: int,
    also: int,
) -> None:
    """Add the gains of a node with the sums at ``at`` to the block of gains at ``to``.

    And to the cells ``also`` further on, if that is not 0.  With ``missing_bin`` >= 0 the
    sums of this bin are on the left from the start.
    """
    nothing = spread(np.int64(0))
    left = Left(spread(0.0), spread(0.0), nothing, spread(0.0))
    if missing_bin >= 0:
        g = load_turned(wide.g, at, missing_bin - 7)[7]
        h = load_turned(wide.h, at, missing_bin - 7)[7]
        n = load_turned(wide.n, at, missing_bin - 7)[7]
        left = Left(to_float(g), to_float(h), n, spread(0.0))
    # The last eight may reach up to the missing bin: a cut behind it leaves no row.
    for b in range(0, n_bins, 8):
        g, h, n = load_turned(wide.g, at, b), load_turned(wide.h, at, b), load_turned(wide.n, at, b)
        t = to + b * N_LANES
        c0 = pass_cut(left, g[0], h[0], n[0], limits, parent)
        store_floats(gains, t, load_floats(gains, t) + c0.gain)
        c1 = pass_cut(c0, g[1], h[1], n[1], limits, parent)
        store_floats(gains, t + 8, load_floats(gains, t + 8) + c1.gain)
        c2 = pass_cut(c1, g[2], h[2], n[2], limits, parent)
        store_floats(gains, t + 16, load_floats(gains, t + 16) + c2.gain)
        c3 = pass_cut(c2, g[3], h[3], n[3], limits, parent)
        store_floats(gains, t + 24, load_floats(gains, t + 24) + c3.gain)
        c4 = pass_cut(c3, g[4], h[4], n[4], limits, parent)
        store_floats(gains, t + 32, load_floats(gains, t + 32) + c4.gain)
        c5 = pass_cut(c4, g[5], h[5], n[5], limits, parent)
        store_floats(gains, t + 40, load_floats(gains, t + 40) + c5.gain)
        c6 = pass_cut(c5, g[6], h[6], n[6], limits, parent)
        store_floats(gains, t + 48, load_floats(gains, t + 48) + c6.gain)
        c7 = pass_cut(c6, g[7], h[7], n[7], limits, parent)
        store_floats(gains, t + 56, load_floats(gains, t + 56) + c7.gain)
        left = c7
        if also != 0:
            t += also
            store_floats(gains, t, load_floats(gains, t) + c0.gain)
            store_floats(gains, t + 8, load_floats(gains, t + 8) + c1.gain)
            store_floats(gains, t + 16, load_floats(gains, t + 16) + c2.gain)
            store_floats(gains, t + 24, load_floats(gains, t + 24) + c3.gain)
            store_floats(gains, t + 32, load_floats(gains, t + 32) + c4.gain)
            store_floats(gains, t + 40, load_floats(gains, t + 40) + c5.gain)
            store_floats(gains, t + 48, load_floats(gains, t + 48) + c6.gain)
            store_floats(gains, t + 56, load_floats(gains, t + 56) + c7.gain)


@kernel(inner=True)
def add_columns(
    wide: Wide,
    at: IntArray,
    n_bins: int,
    stride: int,
    may_lack: bool,
    limits: Limits,
    parent: float,
    gains: FloatArray,
    to: int,
) -> None:
    """Add what each cut of eight columns gains in a node to both blocks at ``to``.

    ``at`` says where the sums of the columns begin; ``may_lack`` whether a node of the
    level may have rows without a value in one of them: only then the second block is used.
    """
    missing, block = np.int64(0), stride * N_LANES
    if may_lack:
        for j in range(N_LANES):
            missing |= np.int64(wide.n[at[j] + stride - 1])
    # Where none is missing both ways are the same.
    also = block if may_lack and missing == 0 else np.int64(0)
    add_lanes(wide, at, n_bins, np.int64(-1), limits, parent, gains, to, also)
    if missing != 0:
        nowhere = np.int64(0)
        add_lanes(wide, at, n_bins, stride - 1, limits, parent, gains, to + block, nowhere)


@kernel(inner=True)
def best_lanes(gains: FloatArray, to: int, n_bins: int) -> tuple[Any, Any]:
    """Largest gain above 0 in each of eight columns, and the bin before its cut."""
    most, at = spread(0.0), spread(np.int64(0))
    for b in range(n_bins):
        gain = load_floats(gains, to + b * N_LANES)
        better = gain > most
        most = choose(better, gain, most)
        at = choose(better, spread(np.int64(b)), at)
    return most, at
