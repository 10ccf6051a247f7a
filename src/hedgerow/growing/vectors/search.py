"""Search of the best split of a node for several outputs, each thread in its own columns.

As :mod:`hedgerow.growing.core.stages.searching`, with the kernels that add scores up over the
outputs (:mod:`hedgerow.kernels.splits.vector_split`, :mod:`hedgerow.kernels.splits.vector_gains`,
:mod:`hedgerow.kernels.splits.vector_category`).
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core.batch import is_better
from hedgerow.growing.core.stages.searching import write_found, write_set
from hedgerow.growing.core.state import NODE_COUNT, Outputs, Settings, Vectors, VectorSets
from hedgerow.growing.vectors.bounds import bounds_above
from hedgerow.growing.vectors.gradients import largest_units, write_units
from hedgerow.kernels.histograms.histogram import Bins, HistogramSums
from hedgerow.kernels.histograms.vector_histogram import Sums
from hedgerow.kernels.splits.category_split import complete_set
from hedgerow.kernels.splits.growth import MOST_DRAWN, draw_of
from hedgerow.kernels.splits.monotone import Bounds, Constraints
from hedgerow.kernels.splits.split import (
    NO_SPLIT,
    Limits,
    NodeSums,
    Split,
    SplitRules,
    complete_split,
)
from hedgerow.kernels.splits.vector_category import Groups, find_vector_set
from hedgerow.kernels.splits.vector_gains import (
    bounds_of_vectors,
    gain_of_vector_set,
    middle_of_sides,
    search_bounded,
    take_given,
)
from hedgerow.kernels.splits.vector_split import (
    LANE_ROWS,
    VectorNode,
    own_value,
    restrict_node,
    score_totals,
    set_bounds,
    start_search,
    sum_totals,
)


@kernel(inline=True, inner=True)
def is_set(sets: VectorSets, feature: int) -> bool:
    """Return whether a column is searched for sets."""
    return sets.categories.chosen[feature] == 1


@kernel(inline=True, inner=True)
def groups_of(thread: int, sets: VectorSets) -> Groups:
    """Return the scratch arrays of a thread."""
    groups = sets.groups
    return Groups(
        groups.g[thread],
        groups.h[thread],
        groups.weight[thread],
        groups.direction[thread],
        groups.side[thread],
    )


@kernel(inner=True)
def search_set(
    thread: int,
    sums: Sums,
    feature: int,
    stride: int,
    node: VectorNode,
    rules: SplitRules,
    found: IntArray,
    sets: VectorSets,
    bounds: Bounds,
    constraints: Constraints,
) -> None:
    """Search one category column; note its best set if it beats what was found."""
    span, categories, scale = groups_of(thread, sets), sets.categories, node.largest.scale
    at, places = node.start + feature * stride, categories.places[thread]
    draw = np.int64(-1)
    if constraints.growth.drawn == 1:
        draw = draw_of(bounds.key, feature, MOST_DRAWN)
    score, first, last = find_vector_set(
        sums, at, stride, node, rules, categories.rules, places, span, draw
    )
    if first == last:
        return
    # Constraints turn the score into a gain, which others are compared with.
    score = gain_of_vector_set(score, feature, node, bounds, constraints)
    if is_better(score / scale, feature, found):
        whole = NodeSums(np.int64(0), np.int64(0), node.n_rows)
        split = complete_set(stride, stride, whole, places, (first, last))
        write_set(found, split, feature, score / scale)


@kernel(inline=True, inner=True)
def node_of(
    thread: int,
    settings: Settings,
    place: tuple[int, int, int],
    vectors: Vectors,
    constraints: Constraints,
) -> VectorNode:
    """Return a node to be searched."""
    # ``place`` is its number of rows, where its histogram begins, and its number in the tree.
    outputs, trial = vectors.outputs, vectors.trial
    return VectorNode(
        place[1],
        place[0],
        trial.totals[thread],
        trial.units[thread],
        largest_units(settings.constant_hessian, outputs),
        trial.lanes[thread],
        trial.lanes.shape[1] // LANE_ROWS,
        trial.filled[thread],
        trial.cuts[thread],
        place[2],
        constraints.growth.smooth,
        np.int64(outputs.vectors.shape[1] > outputs.scalars.shape[0]),
    )


@kernel(inner=True)
def bound_outputs(
    constraints: Constraints, table: IntArray, node: VectorNode, outputs: Outputs
) -> None:
    """Set the bounds of the leaf values of the node: those of the branch above it."""
    for output in range(outputs.scalars.shape[0]):
        set_bounds(node, output, *bounds_above(constraints, table, node.number, outputs, output))


@kernel(inline=True, inner=True)
def prepare_node(
    settings: Settings,
    rules: SplitRules,
    bins: Bins,
    column: int,
    node: VectorNode,
    outputs: Outputs,
    constraints: Constraints,
    table: IntArray,
) -> tuple[Limits, float]:
    """Return the rules of the node, and its score as a leaf."""
    # Its sums are read off the histogram of ``column``; -1: a thread without columns.
    stride = bins.stride
    if column < 0:
        return start_search(node, rules), 0.0
    at, n_bins = node.start + column * stride, np.int64(bins.n_bins[column])
    sum_totals(outputs.sums, at, n_bins, stride, node)
    write_units(settings.constant_hessian, outputs, node.units)
    parent = score_totals(node, rules)
    limits = start_search(node, rules)
    if node.ordered == 1:
        bound_outputs(constraints, table, node, outputs)
    if node.smooth > 0.0 or node.ordered == 1:
        above = constraints.parent[node.number]
        parent = restrict_node(node, rules, outputs.vectors, above)
    return limits, parent


@kernel(inner=True)
def keep_own(node: VectorNode, values: FloatArray) -> None:
    """Keep the smoothed leaf values of a node, toward which those below it are smoothed."""
    for output in range(len(node.totals)):
        values[output] = own_value(node, output)


@kernel(inner=True)
def keep_middles(
    best: Split,
    sums: Sums,
    stride: int,
    node: VectorNode,
    rules: SplitRules,
    constraints: Constraints,
    values: FloatArray,
) -> None:
    """Keep the middle of the sides of each output, behind its own value, of an ordered column."""
    n_outputs = len(node.totals)
    if best.score < 0.0 or constraints.sign[best.feature] == 0.0:
        return
    at = node.start + best.feature * stride
    for output in range(n_outputs):
        middle = middle_of_sides(sums, at, at + stride - 1, best, node, rules, output)
        values[n_outputs + output] = middle


@kernel(inner=True)
def search_vector_node(
    thread: int,
    span: tuple[int, int],
    settings: Settings,
    rules: SplitRules,
    bins: Bins,
    features: np.ndarray,
    place: tuple[IntArray, int, int],
    allowed: np.ndarray,
    child: int,
    found: IntArray,
    vectors: Vectors,
    constraints: Constraints,
) -> None:
    """Find the best split in columns ``span`` of a node."""
    # ``place`` is the table of nodes, where the node's histogram begins, and its number.
    outputs, trial, stride, best = vectors.outputs, vectors.trial, bins.stride, NO_SPLIT
    table, start, number = place
    at = (table[number, NODE_COUNT], start, number)
    sums, node = outputs.sums, node_of(thread, settings, at, vectors, constraints)
    first = np.int64(features[span[0]]) if span[1] > span[0] else np.int64(-1)
    limits, parent = prepare_node(settings, rules, bins, first, node, outputs, constraints, table)
    bounds = bounds_of_vectors(constraints, node, rules, parent)
    trial.parent[thread, child] = parent
    if node.smooth > 0.0:
        keep_own(node, trial.own[thread, child])
    for k in range(span[0], span[1]):
        feature = np.int64(features[k])
        if allowed[feature] == 1 and not is_set(trial.sets, feature):
            n_bins = np.int64(bins.n_bins[feature])
            best = search_bounded(
                sums, feature, n_bins, stride, node, limits, bounds, constraints, best
            )
    if bounds.forced >= 0:
        best, trial.given[thread, child] = take_given(
            span, bins, features, allowed, sums, node, limits, bounds, constraints, best
        )
    whole = NodeSums(np.int64(0), np.int64(0), node.n_rows)
    counts = HistogramSums(sums.n, sums.n, sums.n)  # sums of the left side are not needed
    best = complete_split(counts, node.start, bins.n_bins, stride, whole, node.largest, best)
    if node.ordered == 1:
        keep_middles(best, sums, stride, node, rules, constraints, trial.own[thread, child])
    write_found(found, best, stride)
    for k in range(span[0], span[1]):
        feature = np.int64(features[k])
        if allowed[feature] == 1 and is_set(trial.sets, feature):
            search_set(
                thread, sums, feature, stride, node, rules, found, trial.sets, bounds, constraints
            )
