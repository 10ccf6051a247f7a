"""Search of the best set of categories in the histogram of a category column.

Among all divisions of k categories into two parts, a best one is among the k - 1
cuts of the list of categories sorted by leaf weight, ``G / H`` (Fisher 1958;
Breiman et al. 1984 for least squares).  One-hot columns are therefore not needed::

    category       Rome  Oslo  Bonn  Kiev  (missing)
    G / H           -3     2     5    -1      4
    sorted         Rome  Kiev  Oslo  missing  Bonn
                        |     |     |       |             cuts to try

Sums of few rows are noise, and a sorted list of noise always has a good cut.
The search has the guards of LightGBM (Ke et al. 2017):

* categories of few rows form one group;
* the list is sorted by ``G / (H + smooth)``;
* the children pay an additional L2 penalty;
* a cut is tried only if at least ``min_group`` rows follow the last cut tried;
* the side that is filled, from either end of the list, has at most ``most`` categories.

With few categories each one is tried against all others instead, without these guards.

Missing values are one more category.  Bins without rows in the node (and
missing values, if the node has none) go with the larger part.

If ``draw`` is not negative, only the divisions that this random number selects are tried.

Several outputs (``vectors``) have a search of the same shape, with an order and scores of their
own (:mod:`hedgerow.kernels.splits.vector_category`).
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.histograms.histogram import HistogramSums
from hedgerow.kernels.splits.category_split import (
    GROUP_G,
    GROUP_H,
    GROUP_N,
    ORDER,
    CategoryRules,
    SetColumn,
    count_bins,
    gather_bins,
    penalised,
    score_within,
    sort_groups,
)
from hedgerow.kernels.splits.monotone import SearchedNode
from hedgerow.kernels.splits.split import NodeSums, SplitRules
from hedgerow.kernels.splits.vector_category import (
    NodeSets,
    add_group,
    empty_side,
    score_set,
    sort_vectors,
    sum_groups,
)


@kernel(inner=True)
def order_groups(
    histograms: HistogramSums, column: SetColumn, category: CategoryRules, scratch: IntArray,
    node: SearchedNode, vectors: NodeSets | None,
) -> tuple[int, bool]:  # fmt: skip
    """Put categories into groups and sort them; return their number, and whether all are single."""
    # With ``vectors``, a node of several outputs, ``histograms`` and ``node`` only count rows.
    is_single = count_bins(histograms, column) <= category.most_one_hot
    least = 0.0 if is_single else category.smooth * category.n_copies
    n_groups = gather_bins(histograms, column, least, scratch)
    if vectors is not None:
        sum_groups(column, n_groups, scratch, vectors)
    if is_single:
        n_groups -= 1  # group 0 is empty here
        for i in range(n_groups):
            scratch[ORDER, i] = i + 1
    elif vectors is None:
        n_groups = sort_groups(scratch, n_groups, category.smooth / node.units.h)
    else:
        n_groups = sort_vectors(n_groups, category.smooth, scratch, vectors)
    return n_groups, is_single


@kernel(inline=True, inner=True)
def no_groups(vectors: NodeSets | None) -> NodeSums:
    """Return the sums of a side without groups."""
    if vectors is not None:
        empty_side(vectors.groups)
    return NodeSums(np.int64(0), np.int64(0), np.int64(0))


@kernel(inline=True, inner=True)
def with_group(side: NodeSums, group: int, scratch: IntArray, vectors: NodeSets | None) -> NodeSums:
    """Return the sums of a side with one more group."""
    if vectors is not None:
        add_group(group, vectors.groups)
    return NodeSums(
        side.g + scratch[GROUP_G, group],
        side.h + scratch[GROUP_H, group],
        side.n + scratch[GROUP_N, group],
    )


@kernel(inline=True, inner=True)
def score_side(
    side: NodeSums, rules: SplitRules, node: SearchedNode, vectors: NodeSets | None
) -> float:
    """Return the score of a set with these sums, or -inf if a side is too small."""
    if vectors is None:
        return score_within(side, node, rules)
    return score_set(side.n, rules, vectors)


@kernel(inner=True)
def scan_order(
    n_groups: int, backward: int, category: CategoryRules, scratch: IntArray, draw: int,
    node: SearchedNode, vectors: NodeSets | None,
) -> tuple[float, int]:  # fmt: skip
    """Find the best cut from one end of the order: its score and the number of groups before it."""
    rules = penalised(node.rules, category.penalty)
    most = np.int64(min(category.most, (n_groups + 1) // 2, n_groups - 1))
    only = draw % most if draw >= 0 and most > 0 else np.int64(-1)
    best, taken, passed, side = -np.inf, np.int64(0), np.int64(0), no_groups(vectors)
    for i in range(most):
        group = scratch[ORDER, n_groups - 1 - i] if backward == 1 else scratch[ORDER, i]
        side = with_group(side, group, scratch, vectors)
        passed += scratch[GROUP_N, group]
        if node.sums.n - side.n < category.min_group:
            break
        if passed < category.min_group or (only >= 0 and i != only):
            continue
        passed = np.int64(0)
        score = score_side(side, rules, node, vectors)
        if score > best:
            best, taken = score, np.int64(i + 1)
    return best, taken


@kernel(inner=True)
def find_set(
    histograms: HistogramSums, column: SetColumn, category: CategoryRules, scratch: IntArray,
    draw: int, node: SearchedNode, vectors: NodeSets | None,
) -> tuple[float, int, int]:  # fmt: skip
    """Find the best set of the bins of a column: score, start and stop."""
    # Start and stop are a range of the sorted groups, which is empty if there is no set.  From
    # ``scratch`` (``CATEGORY_SCRATCH``, ``SCRATCH_SIZE``) :func:`complete_set` makes the split.
    best, first, last = -np.inf, np.int64(0), np.int64(0)
    n_groups, is_single = order_groups(histograms, column, category, scratch, node, vectors)
    if is_single:
        # Two groups make one division, not two.
        stop = n_groups if n_groups > 2 else np.int64(1)
        only = draw % stop if draw >= 0 else np.int64(-1)
        for i in range(stop if n_groups > 1 else 0):
            if only >= 0 and i != only:
                continue
            side = with_group(no_groups(vectors), scratch[ORDER, i], scratch, vectors)
            score = score_side(side, node.rules, node, vectors)
            if score > best:
                best, first, last = score, np.int64(i), np.int64(i + 1)
        return best, first, last
    for backward in range(2):
        score, taken = scan_order(n_groups, backward, category, scratch, draw, node, vectors)
        if score > best:
            best = score
            first = n_groups - taken if backward == 1 else np.int64(0)
            last = first + taken
    return best, first, last
