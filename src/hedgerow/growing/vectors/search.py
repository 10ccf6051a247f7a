"""Search of the best split of a node for several outputs, each thread in its own columns.

As :mod:`hedgerow.growing.core.stages.searching`, with the kernels that add scores up over the
outputs (:mod:`hedgerow.kernels.splits.vector_split`).
"""

from __future__ import annotations

import numpy as np

from hedgerow.compile import kernel
from hedgerow.growing.core import state as s
from hedgerow.growing.core.stages.gradients import units_of
from hedgerow.growing.core.stages.searching import search_categories, write_found
from hedgerow.growing.vectors.gradients import largest_units
from hedgerow.kernels.histograms.histogram import HistogramSums
from hedgerow.kernels.primitives.intrinsics import bits_of_float
from hedgerow.kernels.splits.category_search import Groups, NodeSets, counted_node
from hedgerow.kernels.splits.split import (
    NO_SPLIT,
    Limits,
    NodeHistogram,
    NodeSums,
    complete_split,
    node_score,
)
from hedgerow.kernels.splits.vector_split import (
    LANE_ROWS,
    VectorNode,
    fill_lanes,
    search_column,
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
def prepare_node(
    thread: int, column: int, state: s.State, start: int, number: int
) -> tuple[VectorNode, Limits, float]:
    """Return a node with a histogram from cell ``start``, its limits, and its score as a leaf."""
    # Its sums are read off the histogram of ``column``; -1: a thread without columns.
    outputs, trial = state.vectors.outputs, state.vectors.trial
    constant = state.settings.constant_hessian
    node = VectorNode(
        outputs.sums,
        start,
        state.bins.stride,
        state.bins.n_bins,
        state.rules,
        state.tree.table[number, s.NODE_COUNT],
        trial.totals[thread],
        trial.units[thread],
        largest_units(constant, outputs),
        trial.lanes[thread],
        trial.lanes.shape[1] // LANE_ROWS,
        trial.filled[thread],
        trial.cuts[thread],
    )
    if column < 0:
        return node, fill_lanes(node), 0.0
    sum_totals(node, column)
    score = 0.0  # twice the loss reduction of the node as a leaf, over all outputs
    for output in range(len(outputs.scalars)):
        scalars, dropped = outputs.scalars[output], outputs.dropped[output]
        g_unit = units_of(scalars, constant, dropped[0]).g
        h_unit = units_of(scalars, constant, dropped[1]).h
        node.units[output, 0], node.units[output, 1] = g_unit, h_unit
        g, h = float(node.totals[output, 0]) * g_unit, float(node.totals[output, 1]) * h_unit
        score += node_score(g, h, node.rules)
    return node, fill_lanes(node), score


@kernel(inner=True)
def search_vector_node(
    thread: int, span: tuple[int, int], state: s.State, child: int, number: int, start: int
) -> None:
    """Find the best split of a node with a histogram from cell ``start``, in columns ``span``."""
    categories, growth = state.options.categories, state.options.constraints.growth
    features, best = state.columns.feature, NO_SPLIT
    allowed, found = state.search.allowed[child], state.search.found[thread, child]
    first = np.int64(features[span[0]]) if span[1] > span[0] else np.int64(-1)
    node, limits, own = prepare_node(thread, first, state, start, number)
    found[s.FOUND_OWN] = bits_of_float(own)
    for k in range(span[0], span[1]):
        feature = np.int64(features[k])
        if allowed[feature] == 1 and categories.chosen[feature] == 0:
            best = search_column(node, feature, limits, growth.drawn, growth.key[number], best)
    whole, n = NodeSums(np.int64(0), np.int64(0), node.n_rows), node.sums.n
    # Sums of the left side are not needed.
    counts = NodeHistogram(HistogramSums(n, n, n), node.start, node.stride, node.n_bins)
    write_found(found, complete_split(counts, whole, node.largest, best), state.bins.stride)
    if categories.places.shape[2] > 0:
        counted, sets = counted_node(node, growth.key[number]), sets_of_node(thread, node, state)
        search_categories(thread, span, state, counts, allowed, counted, found, sets)
