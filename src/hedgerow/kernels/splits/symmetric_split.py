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

from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.simd.lanes import (
    WIDTH,
    choose,
    gather,
    load_floats,
    load_lanes,
    spread,
)
from hedgerow.kernels.splits.split import (
    LevelGains,
    Limits,
    NodeHistogram,
    Order,
    Side,
    scan,
    side_score,
)


@kernel(inner=True)
def leaf_score(limits: Limits) -> float:
    """Return :func:`hedgerow.kernels.splits.split.node_score` of the node, in its units."""
    node = Side(limits.g, limits.h + limits.penalty, limits.n)
    if not node.d > 0.0:
        return 0.0
    return node.g * node.g / node.d if limits.plain else side_score(node, limits)


@kernel(inner=True)
def add_columns(
    histogram: NodeHistogram,
    at: IntArray,
    group: tuple[int, int, bool],
    limits: Limits,
    order: Order | None,
    parent: float,
    gains: FloatArray,
) -> None:
    """Add the gain of each cut of the ``WIDTH`` columns at ``at`` to both blocks of the group."""
    # ``group`` holds the most bins of a column, the place of the gains, and whether a node of the
    # level may have missing values in one of the columns; only then is the second block used.
    sums, last = histogram.sums, histogram.stride - 1
    n_bins, to, may_lack = group
    missing, block, none = np.int64(0), size_of_block(n_bins), np.int64(0)
    if may_lack:
        for j in range(WIDTH):
            missing |= np.int64(sums.n[at[j] + last])
    # Without missing values both directions have the same gains.
    also = block if may_lack and missing == 0 else none
    scan(sums, at, n_bins, np.int64(-1), limits, order, LevelGains(gains, to, also, parent))
    if missing != 0:
        scan(sums, at, n_bins, last, limits, order, LevelGains(gains, to + block, none, parent))


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
