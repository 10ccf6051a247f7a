"""Search of the best split of a node for several outputs, each thread in its own columns.

As :mod:`hedgerow.growing.core.stages.searching`, with the kernels that add scores up over the
outputs (:mod:`hedgerow.kernels.splits.vector_split`, :mod:`hedgerow.kernels.splits.vector_gains`,
:mod:`hedgerow.kernels.splits.vector_category`).
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core import state as s
from hedgerow.growing.core.batch import is_better
from hedgerow.growing.core.stages.branches import bounds_above
from hedgerow.growing.core.stages.gradients import units_of
from hedgerow.growing.core.stages.searching import write_found, write_set
from hedgerow.growing.vectors.gradients import largest_units
from hedgerow.kernels.histograms.histogram import HistogramSums
from hedgerow.kernels.splits.category_search import find_set
from hedgerow.kernels.splits.category_split import SetColumn, complete_set
from hedgerow.kernels.splits.growth import MOST_DRAWN, draw_of
from hedgerow.kernels.splits.monotone import Asked, Constraints
from hedgerow.kernels.splits.split import (
    NO_SPLIT,
    Limits,
    NodeHistogram,
    NodeSums,
    Split,
    complete_split,
)
from hedgerow.kernels.splits.vector_category import Groups, NodeSets, counted_node
from hedgerow.kernels.splits.vector_gains import (
    asked_of_vectors,
    gain_of_vector_set,
    middle_of_sides,
    search_bounded,
    take_given,
)
from hedgerow.kernels.splits.vector_split import (
    LANE_ROWS,
    VectorNode,
    fill_lanes,
    first_cell,
    own_value,
    restrict_node,
    score_totals,
    set_bounds,
    sum_totals,
)


@kernel(inner=True)
def sets_of_node(thread: int, node: VectorNode, state: s.State) -> NodeSets:
    """Return the node with the scratch arrays of a thread for sets of categories."""
    groups = state.vectors.trial.groups
    own = Groups(
        groups.g[thread], groups.h[thread], groups.weight[thread], groups.direction[thread],
        groups.side[thread],
    )  # fmt: skip
    return NodeSets(node, own)


@kernel(inner=True)
def search_set(
    thread: int, state: s.State, feature: int, node: VectorNode, found: IntArray, asked: Asked
) -> None:
    """Search one category column; note its best set if it beats what was found."""
    categories, constraints = state.options.categories, state.options.constraints
    places, n, stride = categories.places[thread], node.sums.n, node.stride
    column = SetColumn(first_cell(node, feature), stride, stride)
    draw = np.int64(-1)
    if constraints.growth.drawn == 1:
        draw = draw_of(asked.key, feature, MOST_DRAWN)
    sets = sets_of_node(thread, node, state)
    score, first, last = find_set(
        HistogramSums(n, n, n), column, categories.rules, places, draw, counted_node(node), sets
    )
    if first == last:
        return
    # Constraints turn the score into a gain, which others are compared with.
    score = gain_of_vector_set(score, feature, node, asked, constraints)
    score /= node.largest.scale
    if is_better(score, feature, found):
        split = complete_set(column, node.n_rows, places, (first, last))
        write_set(found, split, feature, score)


@kernel(inner=True)
def prepare_node(
    thread: int, column: int, state: s.State, start: int, number: int
) -> tuple[VectorNode, Limits, float]:
    """Return a node with a histogram from cell ``start``, its limits, and its score as a leaf."""
    # Its sums are read off the histogram of ``column``; -1: a thread without columns.
    outputs, trial = state.vectors.outputs, state.vectors.trial
    constraints, constant = state.options.constraints, state.settings.constant_hessian
    table = state.tree.table
    node = VectorNode(
        outputs.sums,
        start,
        state.bins.stride,
        state.bins.n_bins,
        state.rules,
        number,
        table[number, s.NODE_COUNT],
        trial.totals[thread],
        trial.units[thread],
        largest_units(constant, outputs),
        trial.lanes[thread],
        trial.lanes.shape[1] // LANE_ROWS,
        trial.filled[thread],
        trial.cuts[thread],
        constraints.growth.smooth,
        np.int64(outputs.vectors.shape[1] > outputs.scalars.shape[0]),
    )
    if column < 0:
        return node, fill_lanes(node), 0.0
    sum_totals(node, column)
    for output in range(len(outputs.scalars)):
        scalars, dropped = outputs.scalars[output], outputs.dropped[output]
        node.units[output, 0] = units_of(scalars, constant, dropped[0]).g
        node.units[output, 1] = units_of(scalars, constant, dropped[1]).h
    own, limits = score_totals(node), fill_lanes(node)
    if node.ordered == 1:
        for output in range(outputs.scalars.shape[0]):
            low, high = bounds_above(constraints, table, number, outputs, output)
            set_bounds(node, output, low, high)
    if node.smooth > 0.0 or node.ordered == 1:
        own = restrict_node(node, outputs.vectors, constraints.parent[number])
    return node, limits, own


@kernel(inner=True)
def keep_own(node: VectorNode, values: FloatArray) -> None:
    """Keep the smoothed leaf values of a node, toward which those below it are smoothed."""
    for output in range(len(node.totals)):
        values[output] = own_value(node, output)


@kernel(inner=True)
def keep_middles(
    best: Split, node: VectorNode, constraints: Constraints, values: FloatArray
) -> None:
    """Keep the middle of the sides of each output, behind its own value, of an ordered column."""
    n_outputs = len(node.totals)
    if best.score < 0.0 or constraints.sign[best.feature] == 0.0:
        return
    for output in range(n_outputs):
        values[n_outputs + output] = middle_of_sides(best, node, output)


@kernel(inner=True)
def search_vector_node(
    thread: int, span: tuple[int, int], state: s.State, child: int, number: int, start: int
) -> None:
    """Find the best split of a node with a histogram from cell ``start``, in columns ``span``."""
    trial, chosen, best = state.vectors.trial, state.options.categories.chosen, NO_SPLIT
    features, constraints = state.columns.feature, state.options.constraints
    allowed, found = state.search.allowed[child], state.search.found[thread, child]
    first = np.int64(features[span[0]]) if span[1] > span[0] else np.int64(-1)
    node, limits, own = prepare_node(thread, first, state, start, number)
    asked = asked_of_vectors(constraints, node, own)
    trial.parent[thread, child] = own
    if node.smooth > 0.0:
        keep_own(node, trial.own[thread, child])
    for k in range(span[0], span[1]):
        feature = np.int64(features[k])
        if allowed[feature] == 1 and chosen[feature] == 0:
            best = search_bounded(node, feature, limits, asked, constraints, best)
    if asked.forced >= 0:
        best, trial.given[thread, child] = take_given(
            span, features, allowed, node, limits, asked, constraints, best
        )
    whole, n = NodeSums(np.int64(0), np.int64(0), node.n_rows), node.sums.n
    # Sums of the left side are not needed.
    counts = NodeHistogram(HistogramSums(n, n, n), node.start, node.stride, node.n_bins)
    best = complete_split(counts, whole, node.largest, best)
    if node.ordered == 1:
        keep_middles(best, node, constraints, trial.own[thread, child])
    write_found(found, best, state.bins.stride)
    for k in range(span[0], span[1]):
        feature = np.int64(features[k])
        if allowed[feature] == 1 and chosen[feature] == 1:
            search_set(thread, state, feature, node, found, asked)
