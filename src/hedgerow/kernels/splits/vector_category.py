"""Search of the best set of categories of a node for several outputs at once.

With one output, sorting the categories by leaf weight finds a best set
(:mod:`hedgerow.kernels.splits.category_search`).  With several outputs each category has a
vector of leaf weights, and vectors have no order.  The search sorts them by their
projection on the direction in which they differ most, the first principal component
(Coppersmith, Hong and Hosking 1999, for classes).  It scores the cuts of this order, or each
category against all others where there are few, by the sum over the outputs.  Guards,
groups of small categories and ties are the same as for one output.

::

    category          Rome     Oslo     Bonn     Kiev
    leaf weights    (-3, 1)  (2, -1)  (5, -2)  (-1, 0)
    on (0.9, -0.4)    -3.1      2.2      5.3     -0.9      sorted by this
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.histograms.vector_histogram import list_filled, place_of_g
from hedgerow.kernels.simd.lanes import N_LANES
from hedgerow.kernels.splits.category_split import (
    GROUP_N,
    GROUP_OF_BIN,
    KEY,
    ORDER,
    SetColumn,
    key_of,
)
from hedgerow.kernels.splits.monotone import Asked, SearchedNode
from hedgerow.kernels.splits.split import NodeSums, SplitRules, Within, limits_of, node_score
from hedgerow.kernels.splits.vector_gains import restricted_set_score
from hedgerow.kernels.splits.vector_split import VectorNode

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

    g: IntArray
    h: IntArray
    weight: FloatArray
    direction: FloatArray
    side: IntArray


class NodeSets(NamedTuple):
    """A node of several outputs, and the scratch arrays of the groups of its categories."""

    node: VectorNode
    groups: Groups


@kernel(inner=True)
def counted_node(node: VectorNode) -> SearchedNode:
    """Return rows and rules of a node, for the search that one output and several share."""
    sums, free = NodeSums(0, 0, node.n_rows), Within(-np.inf, np.inf, 0.0, 0.0)
    limits, asked = limits_of(sums, node.largest, node.rules), Asked(0.0, 0.0, 0.0, 1.0, 0, -1)
    return SearchedNode(node.number, sums, node.largest, node.rules, limits, free, free, asked)


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
def weigh_groups(
    node: VectorNode, n_groups: int, smooth: float, scratch: IntArray, groups: Groups
) -> int:
    """Compute leaf weights of the groups and their mean; return the group farthest from it."""
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
    return farthest


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
    # ``rules`` are those of the set, with its penalty; the node has those of leaf values.
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
    return restricted_set_score(score, n, node, side)


@kernel(inner=True)
def add_group(group: int, groups: Groups) -> None:
    """Add the sums of a group to the side that is filled."""
    for output in range(len(groups.side)):
        groups.side[output, 0] += groups.g[output, group]
        groups.side[output, 1] += groups.h[output, group]


@kernel(inner=True)
def empty_side(groups: Groups) -> None:
    """Reset the sums of the side that is filled to 0."""
    for output in range(len(groups.side)):
        groups.side[output, 0] = 0
        groups.side[output, 1] = 0


@kernel(inner=True)
def sort_vectors(n_groups: int, smooth: float, scratch: IntArray, vectors: NodeSets) -> int:
    """Sort the groups with rows along the first principal component; return their number."""
    groups = vectors.groups
    start = weigh_groups(vectors.node, n_groups, smooth, scratch, groups)
    find_direction(start, n_groups, scratch, groups)
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
