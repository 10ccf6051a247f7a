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

With several outputs (``vectors``), each category has a vector of leaf weights, and vectors have no
order.  The search sorts them by their projection on the direction in which they differ most, the
first principal component (Coppersmith, Hong and Hosking 1999, for classes).  It scores the cuts of
this order, or each category against all others where there are few, by the sum over the outputs.
Guards, groups of small categories and ties are the same as for one output.

::

    category          Rome     Oslo     Bonn     Kiev
    leaf weights    (-3, 1)  (2, -1)  (5, -2)  (-1, 0)
    on (0.9, -0.4)    -3.1      2.2      5.3     -0.9      sorted by this
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.histograms.histogram import HistogramSums
from hedgerow.kernels.histograms.vector_histogram import list_filled, place_of_g
from hedgerow.kernels.simd.lanes import N_LANES
from hedgerow.kernels.splits.category_split import (
    GROUP_G,
    GROUP_H,
    GROUP_N,
    GROUP_OF_BIN,
    KEY,
    ORDER,
    CategoryRules,
    SetColumn,
    add_bin,
    clear_group,
    following_bin,
    key_of,
    penalised,
    score_within,
    sort_groups,
)
from hedgerow.kernels.splits.constraints import Asked, SearchedNode
from hedgerow.kernels.splits.split import NodeSums, SplitRules, Within, limits_of, node_score
from hedgerow.kernels.splits.vector_split import VectorNode

_POOLED = 0  # the group of the small categories
_STEPS = 8
"""Steps of the power iteration: the order needs a direction, not its last digits."""


class Groups(NamedTuple):
    """Scratch arrays of one thread for the groups of categories of a column.

    g, h       int64 (n_outputs, SCRATCH_SIZE): sums of each group
    weight     float64 (n_outputs, SCRATCH_SIZE): leaf weight of each group
    direction  float64 (3, n_outputs): current direction, next direction, and mean of
               the leaf weights
    side       int64 (n_outputs, 2): sums of g and h on the side that is filled
    """

    g: kt.Int64_3D
    h: kt.Int64_3D
    weight: kt.Float64_3D
    direction: kt.Float64_3D
    side: kt.Int64_3D


class NodeSets(NamedTuple):
    """A node of several outputs, and the scratch arrays of the groups of its categories."""

    node: VectorNode
    groups: Groups


@kernel(inner=True)
def counted_node(node: VectorNode, key: int) -> SearchedNode:
    """Return rows and rules of a node, for the search that one output and several share."""
    sums, free = NodeSums(0, 0, node.n_rows), Within(-np.inf, np.inf, 0.0, 0.0)
    limits, asked = limits_of(sums, node.largest, node.rules), Asked(0.0, 0.0, 0.0, 1.0, key)
    return SearchedNode(np.int64(0), sums, node.largest, node.rules, limits, free, free, asked)


@kernel(inner=True)
def sum_groups(column: SetColumn, n_groups: int, scratch: IntArray, vectors: NodeSets) -> None:
    """Sum g and h of each output over the bins with rows of each group; each bin has a group."""
    sums, filled, groups = vectors.node.sums, vectors.node.filled, vectors.groups
    group_of_bin, cells, constant = scratch[GROUP_OF_BIN], sums.cells, sums.constant == 1
    n_filled = list_filled(sums.n, column.at, column.stride - 1, column.stride, filled)
    for output in range(groups.g.shape[0]):
        word = place_of_g(sums.constant, output)
        for group in range(n_groups):
            groups.g[output, group] = 0
            groups.h[output, group] = scratch[GROUP_N, group] if constant else 0
        for e in range(n_filled):
            group, cell = group_of_bin[filled[e]], (column.at + filled[e]) * sums.width + word
            groups.g[output, group] += np.int64(cells[cell])
            if not constant:
                groups.h[output, group] += np.int64(cells[cell + N_LANES])


@kernel(inner=True)
def normalise(direction: FloatArray) -> None:
    """Scale ``direction`` to length 1, with a positive largest component."""
    length, largest = 0.0, 0.0
    for value in direction:
        length += value * value
        if abs(value) > abs(largest):
            largest = value
    factor = 1.0 / np.sqrt(length) if length > 0.0 else 0.0
    if largest < 0.0:
        factor = -factor
    for output in range(len(direction)):
        direction[output] *= factor


@kernel(inner=True)
def find_direction(start: int, n_groups: int, scratch: IntArray, groups: Groups) -> None:
    """Write the first principal component of the leaf weights to ``groups.direction[0]``."""
    n_outputs = groups.g.shape[0]
    direction, following, mean = groups.direction[0], groups.direction[1], groups.direction[2]
    for output in range(n_outputs):
        direction[output] = groups.weight[output, start] - mean[output]
    normalise(direction)
    for _ in range(_STEPS):
        for output in range(n_outputs):
            following[output] = 0.0
        for group in range(n_groups):
            along = 0.0
            for output in range(n_outputs):
                along += (groups.weight[output, group] - mean[output]) * direction[output]
            along *= scratch[GROUP_N, group]
            for output in range(n_outputs):
                following[output] += along * (groups.weight[output, group] - mean[output])
        normalise(following)
        for output in range(n_outputs):
            direction[output] = following[output]


@kernel(inner=True)
def score_set(n: int, rules: SplitRules, vectors: NodeSets) -> float:
    """Return the summed score of the set in ``groups.side``, or -inf if a side is too small."""
    node, side = vectors.node, vectors.groups.side
    if min(n, node.n_rows - n) < rules.min_samples_leaf:
        return -np.inf
    score, mass, mass_rest = 0.0, 0.0, 0.0
    for output in range(len(side)):
        g_unit, h_unit = node.units[output, 0], node.units[output, 1]
        h = float(side[output, 1]) * h_unit
        h_rest = float(node.totals[output, 1] - side[output, 1]) * h_unit
        if min(h, h_rest) + rules.reg_lambda <= 0.0:
            return -np.inf
        mass += h
        mass_rest += h_rest
        one = node_score(float(side[output, 0]) * g_unit, h, rules)
        rest = float(node.totals[output, 0] - side[output, 0]) * g_unit
        score += one + node_score(rest, h_rest, rules)
    if min(mass, mass_rest) < rules.min_child_weight * len(side):
        return -np.inf
    return score


@kernel(inner=True)
def empty_side(groups: Groups) -> None:
    """Reset the sums of the side that is filled to 0."""
    for output in range(len(groups.side)):
        groups.side[output, 0] = 0
        groups.side[output, 1] = 0


@kernel(inner=True)
def sort_vectors(n_groups: int, smooth: float, scratch: IntArray, vectors: NodeSets) -> int:
    """Sort the groups with rows along the first principal component; return their number."""
    node, groups = vectors.node, vectors.groups
    # Leaf weights of the groups, and their mean.
    for output in range(groups.g.shape[0]):
        g_unit, h_unit = node.units[output, 0], node.units[output, 1]
        mean = 0.0
        for group in range(n_groups):
            below = float(groups.h[output, group]) + smooth / h_unit
            exact = float(groups.g[output, group]) / below if below > 0.0 else 0.0
            groups.weight[output, group] = exact * (g_unit / h_unit)
            mean += groups.weight[output, group] * scratch[GROUP_N, group]
        groups.direction[2, output] = mean / node.n_rows
    farthest, most = np.int64(0), -1.0
    for group in range(n_groups):
        size = 0.0
        for output in range(groups.g.shape[0]):
            away = groups.weight[output, group] - groups.direction[2, output]
            size += away * away
        size *= scratch[GROUP_N, group]
        if size > most:
            farthest, most = group, size
    find_direction(farthest, n_groups, scratch, groups)
    key, has_rows = scratch[KEY], scratch[GROUP_N]
    for group in range(n_groups):
        along = 0.0
        for output in range(groups.g.shape[0]):
            along += groups.weight[output, group] * groups.direction[0, output]
        key[group] = key_of(along, np.int64(group))
    n = np.int64(0)
    for group in range(n_groups):
        if has_rows[group] == 0:
            continue
        smaller = np.int64(0)  # all keys differ
        for other in range(n_groups):
            smaller += np.int64(has_rows[other] > 0 and key[other] < key[group])
        scratch[ORDER, smaller] = group
        n += 1
    return n


@kernel(inner=True)
def fill_set(at: int, words: IntArray, first_word: int, vectors: NodeSets) -> None:
    """Sum the bins of the column at ``at`` that are in a set to ``groups.side``."""
    # Bit ``b`` of the words from ``first_word`` on tells whether bin ``b`` is in the set.
    node, side = vectors.node, vectors.groups.side
    sums, filled, stride = node.sums, node.filled, node.stride
    chosen, n_left = np.int64(0), np.int64(0)
    for e in range(list_filled(sums.n, at, stride - 1, stride, filled)):
        b = filled[e]
        word = np.uint64(words[first_word + (b >> 6)])
        if (word >> np.uint64(b & 63)) & np.uint64(1) == np.uint64(1):
            filled[chosen] = b
            chosen += 1
            n_left += np.int64(sums.n[at + b])
    empty_side(vectors.groups)
    for output in range(len(side)):
        place = place_of_g(sums.constant, output)
        for e in range(chosen):
            cell = (at + filled[e]) * sums.width + place
            side[output, 0] += np.int64(sums.cells[cell])
            if sums.constant == 0:
                side[output, 1] += np.int64(sums.cells[cell + N_LANES])
        if sums.constant == 1:
            side[output, 1] = n_left


@kernel(inner=True)
def order_groups(
    histograms: HistogramSums, column: SetColumn, category: CategoryRules, scratch: IntArray,
    node: SearchedNode, vectors: NodeSets | None,
) -> tuple[int, bool]:  # fmt: skip
    """Put categories into groups and sort them; return their number, and whether all are single."""
    # With ``vectors``, a node of several outputs, ``histograms`` and ``node`` only count rows.
    counts, at = histograms.n, np.uint64(column.at)
    n_bins = np.int64(0)  # with rows
    for b in range(at, at + np.uint64(column.filled)):
        n_bins += np.int64(counts[b] != 0)
    if column.filled < column.stride:
        n_bins += np.int64(counts[column.at + column.stride - 1] != 0)
    is_single = n_bins <= category.most_one_hot
    # All bins of few rows share group 0, which may be empty.  Every other bin with rows is a group
    # of its own.
    least = 0.0 if is_single else category.smooth * category.n_copies
    group_of_bin = scratch[GROUP_OF_BIN]
    clear_group(scratch, _POOLED)
    n_groups, b = np.int64(1), np.int64(0)
    while b < column.stride:
        n = np.int64(counts[column.at + b])
        group_of_bin[b] = -1
        if n != 0:
            group = np.int64(_POOLED)
            if float(n) >= least:
                group = n_groups
                n_groups += 1
                clear_group(scratch, group)
            group_of_bin[b] = group
            add_bin(histograms, column.at + b, scratch, group)
        b = following_bin(column, b)
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
        groups = vectors.groups
        for output in range(len(groups.side)):
            groups.side[output, 0] += groups.g[output, group]
            groups.side[output, 1] += groups.h[output, group]
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
    rules = penalised(node.rules, category.penalty)
    most = np.int64(min(category.most, (n_groups + 1) // 2, n_groups - 1))
    only = draw % most if draw >= 0 and most > 0 else np.int64(-1)
    for backward in range(2):  # from either end of the order
        passed, side = np.int64(0), no_groups(vectors)
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
                best = score
                first = n_groups - 1 - i if backward == 1 else np.int64(0)
                last = n_groups if backward == 1 else np.int64(i + 1)
    return best, first, last
