"""Sets of categories that split all nodes of a level of a symmetric tree in the same way.

As in :mod:`hedgerow.kernels.splits.category_split`, a set is one end of the list of categories
sorted by ``G / (H + smooth)``, or a single category where there are few.  The root determines
the list and its allowed cuts (``min_group``, ``most``) once per tree, because the sums of a
category over all nodes of a level are always the same.  The gain of a cut is summed over the
nodes, as for numbers (:mod:`hedgerow.kernels.splits.symmetric_split`).  With several outputs the
list is sorted, and its cuts are scored, as in :mod:`hedgerow.kernels.splits.vector_category`.

::

    order     Rome  Kiev  Oslo  missing  Bonn       of the root
    cuts          |     |     |        |            1 in ``KEY`` where a cut is allowed
    gains        .     .     .        .             summed over the nodes
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.histograms.histogram import HistogramSums
from hedgerow.kernels.splits.category_split import (
    GROUP_G,
    GROUP_H,
    GROUP_N,
    GROUP_OF_BIN,
    KEY,
    ORDER,
    CategoryRules,
    count_bins,
    gather_bins,
    penalised,
    score_within,
    sort_groups,
)
from hedgerow.kernels.splits.constrained_gains import (
    leaf_bounds,
    restricted_score,
)
from hedgerow.kernels.splits.growth import draw_of
from hedgerow.kernels.splits.monotone import Constraints
from hedgerow.kernels.splits.split import NodeSums, SplitRules, Units
from hedgerow.kernels.splits.vector_category import add_group, empty_side, sort_vectors, sum_groups
from hedgerow.kernels.splits.vector_level import NodeSets, gain_of_side


class SetSums(NamedTuple):
    """Position of the sums of a category column; see :func:`gather_bins`."""

    at: np.int64
    filled: np.int64
    stride: np.int64


# Entries of ``info``.
N_GROUPS, IS_ONE_HOT, INFO = range(3)


@kernel(inner=True)
def mark_cuts(n_groups: int, n_rows: int, category: CategoryRules, scratch: IntArray) -> None:
    """Mark in ``KEY`` the groups of the order after which a cut is allowed, from either end."""
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
            if n_rows - n < category.min_group:
                break
            if passed < category.min_group:
                continue
            passed = np.int64(0)
            # The cut stands after the first part of the list.
            key[n_groups - 2 - i if backward == 1 else i] = 1


@kernel(inner=True)
def order_groups(
    histograms: HistogramSums,
    column: SetSums,
    n_rows: int,
    units: Units,
    category: CategoryRules,
    scratch: IntArray,
    info: IntArray,
    vectors: NodeSets | None,
) -> None:
    """Write groups, order and cuts of a column from the root's sums; 0 groups: no cuts."""
    # ``vectors`` is the root of several outputs; then ``histograms`` only count rows.
    at, filled, stride = column.at, column.filled, column.stride
    n_found = count_bins(histograms, at, filled, stride)
    info[N_GROUPS] = 0
    info[IS_ONE_HOT] = 0
    if n_found <= category.most_one_hot:
        # Group 0 is empty here.  Two groups make one division, not two.
        n_groups = gather_bins(histograms, at, filled, stride, 0.0, scratch) - 1
        for i in range(n_groups):
            scratch[ORDER, i] = i + 1
            scratch[KEY, i] = 1 if n_groups > 2 or i + 1 < n_groups else 0
        info[IS_ONE_HOT] = 1
    else:
        least = category.smooth * category.n_copies
        n_groups = gather_bins(histograms, at, filled, stride, least, scratch)
        if vectors is None:
            n_groups = sort_groups(scratch, n_groups, category.smooth / units.h)
        else:
            node, groups = vectors.node, vectors.groups
            sum_groups(vectors.sums, at, stride, n_groups, node.filled, scratch, groups)
            n_groups = sort_vectors(n_groups, node, category.smooth, scratch, groups)
        mark_cuts(n_groups, n_rows, category, scratch)
    info[N_GROUPS] = n_groups if n_groups > 1 else 0


@kernel(inner=True)
def add_set_gains(
    histograms: HistogramSums,
    column: SetSums,
    node: NodeSums,
    units: Units,
    rules: SplitRules,
    category: CategoryRules,
    scratch: IntArray,
    info: IntArray,
    gains: FloatArray,
    bounds: tuple[Constraints, int],
    vectors: NodeSets | None,
) -> None:
    """Add the gain of each cut of the order in a node to ``gains``."""
    # ``scratch`` holds the groups and the order of the root.  ``bounds`` are the constraints and
    # the number of the node; ``vectors`` is the node of several outputs.
    n_groups, one_hot = info[N_GROUPS], info[IS_ONE_HOT] == 1
    at, filled, stride = column.at, column.filled, column.stride
    for k in range(GROUP_N + 1):
        for group in range(n_groups + 1):
            scratch[k, group] = 0
    b = np.int64(0)
    while b < stride:
        n = np.int64(histograms.n[at + b])
        if n != 0:
            group = scratch[GROUP_OF_BIN, b]
            scratch[GROUP_G, group] += histograms.g[at + b]
            scratch[GROUP_H, group] += histograms.h[at + b]
            scratch[GROUP_N, group] += n
        b = stride - 1 if b == filled - 1 and filled < stride else b + 1
    if vectors is not None:
        filled_bins, groups = vectors.node.filled, vectors.groups
        sum_groups(vectors.sums, at, stride, n_groups + 1, filled_bins, scratch, groups)
        empty_side(groups)
    within = leaf_bounds(bounds[0], bounds[1], node, units, rules)
    parent = restricted_score(node, units, rules, within)
    penalty = 0.0 if one_hot else category.penalty
    harder = penalised(rules, penalty)
    g, h, n_left = np.int64(0), np.int64(0), np.int64(0)
    for i in range(n_groups):
        group = scratch[ORDER, i]
        g = scratch[GROUP_G, group] + (np.int64(0) if one_hot else g)
        h = scratch[GROUP_H, group] + (np.int64(0) if one_hot else h)
        n_left = scratch[GROUP_N, group] + (np.int64(0) if one_hot else n_left)
        if vectors is not None:
            if one_hot:
                empty_side(vectors.groups)
            add_group(group, vectors.groups)
        if scratch[KEY, i] == 1:
            if vectors is None:
                left = NodeSums(g, h, n_left)
                score = score_within(left, node, units, (harder, rules), within)
                if score > -math.inf:
                    gains[i] += score - parent
            else:
                gain = gain_of_side(n_left, penalty, rules, vectors)
                if gain > -math.inf:
                    gains[i] += gain


@kernel(inner=True)
def best_set(gains: FloatArray, info: IntArray) -> tuple[float, int]:
    """Find the largest gain above 0 of a cut of the order, and its position; -1 if none."""
    most, at = 0.0, np.int64(-1)
    for i in range(info[N_GROUPS]):
        if gains[i] > most:
            most, at = gains[i], np.int64(i)
    return most, at


@kernel(inner=True)
def drawn_set(
    gains: FloatArray, scratch: IntArray, info: IntArray, key: int, feature: int
) -> tuple[float, int]:
    """Return the result of :func:`best_set` for one cut, drawn from the allowed cuts."""
    n_cuts = np.int64(0)
    for i in range(info[N_GROUPS]):
        n_cuts += scratch[KEY, i]
    if n_cuts == 0:
        return 0.0, np.int64(-1)
    passed = draw_of(key, feature, n_cuts)
    at = np.int64(0)
    while passed > 0 or scratch[KEY, at] == 0:
        passed -= scratch[KEY, at]
        at += 1
    return (gains[at], at) if gains[at] > 0.0 else (0.0, np.int64(-1))


@kernel(inner=True)
def write_groups(
    scratch: IntArray,
    info: IntArray,
    place: int,
    column: SetSums,
    want: int,
    words: IntArray,
    first_word: int,
) -> None:
    """Write the bins of the chosen groups as a set, or add the bins of no group to the set."""
    # With ``want`` 1 the bins of the chosen groups overwrite the set.  With ``want`` 0 the bins
    # without rows in the root are added to it.
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
