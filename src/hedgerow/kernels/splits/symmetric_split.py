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

Sets of categories
------------------
As in :mod:`hedgerow.kernels.splits.category_search`, a set is one end of the list of categories
sorted by ``G / (H + smooth)``, or a single category where there are few.  The root determines
the list and its allowed cuts (``min_group``, ``most``) once per tree, because the sums of a
category over all nodes of a level are always the same.  The gain of a cut is summed over the
nodes, as for numbers.  With several outputs the list is sorted, and its cuts are scored, as in
:mod:`hedgerow.kernels.splits.category_search`::

    order     Rome  Kiev  Oslo  missing  Bonn       of the root
    cuts          |     |     |        |            1 in ``KEY`` where a cut is allowed
    gains        .     .     .        .             summed over the nodes
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.histograms.histogram import HistogramSums
from hedgerow.kernels.simd.lanes import WIDTH, choose, load_floats, spread
from hedgerow.kernels.splits.category_search import (
    NodeSets,
    no_groups,
    order_groups,
    score_side,
    sum_groups,
    with_group,
)
from hedgerow.kernels.splits.category_split import (
    GROUP_N,
    GROUP_OF_BIN,
    KEY,
    ORDER,
    CategoryRules,
    SetColumn,
    add_bin,
    clear_group,
    following_bin,
    penalised,
)
from hedgerow.kernels.splits.constraints import SearchedNode
from hedgerow.kernels.splits.split import LevelGains, Limits, NodeHistogram, Order, scan


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
def best_lanes(gains: FloatArray, to: int, n_bins: int) -> tuple[Any, Any]:
    """Find the largest gain above 0 in each of ``WIDTH`` columns, and the bin before its cut."""
    most, at = spread(0.0), spread(np.int64(0))
    for b in range(n_bins):
        gain = load_floats(gains, to + b * WIDTH)
        better = gain > most
        most = choose(better, gain, most)
        at = choose(better, spread(np.int64(b)), at)
    return most, at


class LevelSets(NamedTuple):
    """Sets of one category column, as the root of a tree determines them.

    scratch  groups and their order (:mod:`hedgerow.kernels.splits.category_split`)
    info     number of groups, and whether each is tried alone (``N_GROUPS``, ``IS_ONE_HOT``)
    gains    gain of each cut of the order, summed over the nodes of the level
    """

    scratch: IntArray
    info: IntArray
    gains: FloatArray


# Entries of ``info``.
N_GROUPS, IS_ONE_HOT, INFO = range(3)


@kernel(inner=True)
def order_level(
    histograms: HistogramSums, column: SetColumn, category: CategoryRules, sets: LevelSets,
    node: SearchedNode, vectors: NodeSets | None,
) -> None:  # fmt: skip
    """Write groups, order and cuts of a column from the root's sums; 0 groups: no cuts."""
    scratch = sets.scratch
    n_groups, is_single = order_groups(histograms, column, category, scratch, node, vectors)
    if is_single:
        # Two groups make one division, not two.
        for i in range(n_groups):
            scratch[KEY, i] = 1 if n_groups > 2 or i + 1 < n_groups else 0
    else:
        # A cut is allowed where it is from one of both ends.
        key, order, sizes = scratch[KEY], scratch[ORDER], scratch[GROUP_N]
        for i in range(n_groups):
            key[i] = 0
        most = np.int64(min(category.most, (n_groups + 1) // 2, n_groups - 1))
        for backward in range(2):
            n, passed = np.int64(0), np.int64(0)
            for i in range(most):
                size = sizes[order[n_groups - 1 - i] if backward == 1 else order[i]]
                n += size
                passed += size
                if node.sums.n - n < category.min_group:
                    break
                if passed < category.min_group:
                    continue
                passed = np.int64(0)
                # The cut stands after the first part of the list.
                key[n_groups - 2 - i if backward == 1 else i] = 1
    sets.info[IS_ONE_HOT] = 1 if is_single else 0
    sets.info[N_GROUPS] = n_groups if n_groups > 1 else 0


@kernel(inner=True)
def add_set_gains(
    histograms: HistogramSums, column: SetColumn, category: CategoryRules, sets: LevelSets,
    own: float, node: SearchedNode, vectors: NodeSets | None,
) -> None:  # fmt: skip
    """Add the gain of each cut of the order in a node, whose own score is ``own``."""
    scratch, is_single = sets.scratch, sets.info[IS_ONE_HOT] == 1
    n_groups, at, b = sets.info[N_GROUPS], column.at, np.int64(0)
    for group in range(n_groups + 1):
        clear_group(scratch, group)
    while b < column.stride:
        if histograms.n[at + b] != 0:
            add_bin(histograms, at + b, scratch, scratch[GROUP_OF_BIN, b])
        b = following_bin(column, b)
    if vectors is not None:
        sum_groups(column, n_groups + 1, scratch, vectors)
    rules = penalised(node.rules, 0.0 if is_single else category.penalty)
    side = no_groups(vectors)
    for i in range(n_groups):
        if is_single:
            side = no_groups(vectors)
        side = with_group(side, scratch[ORDER, i], scratch, vectors)
        if scratch[KEY, i] == 1:
            score = score_side(side, rules, node, vectors)
            if score > -math.inf:
                sets.gains[i] += score - own


@kernel(inner=True)
def write_groups(
    sets: LevelSets, place: int, column: SetColumn, want: int, words: IntArray, first_word: int
) -> None:
    """Write the bins of the chosen groups as a set, or add the bins of no group to the set."""
    # With ``want`` 1 the bins of the chosen groups overwrite the set.  With ``want`` 0 the bins
    # without rows in the root are added to it.
    scratch, info = sets.scratch, sets.info
    one_hot, chosen = info[IS_ONE_HOT] == 1, scratch[GROUP_N]
    if want == 1:
        for group in range(info[N_GROUPS] + 1):
            chosen[group] = 0
        for i in range(place + 1):
            chosen[scratch[ORDER, i]] = 0 if one_hot and i < place else 1
        for w in range(4):
            words[first_word + w] = 0
    for b in range(column.stride):
        seen = b < column.filled or b == column.stride - 1
        group = scratch[GROUP_OF_BIN, b] if seen else np.int64(-1)
        takes = group < 0 if want == 0 else (group >= 0 and chosen[group] == 1)
        if takes:
            bit = np.uint64(1) << np.uint64(b & 63)
            words[first_word + (b >> 6)] |= np.int64(bit)
