"""Search of the best split of a node for several outputs, each thread in its own columns.

As :mod:`hedgerow.growing.core.searching`, with the kernels that add scores up over the outputs
(:mod:`hedgerow.kernels.splits.vector_split`, :mod:`hedgerow.kernels.splits.vector_category`).
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core.batch import is_better
from hedgerow.growing.core.searching import write_found, write_set
from hedgerow.growing.core.state import Outputs, Settings, Vectors, VectorSets
from hedgerow.growing.vectors.gradients import largest_units, write_units
from hedgerow.kernels.histograms.histogram import Bins, HistogramSums
from hedgerow.kernels.histograms.vector_histogram import Sums
from hedgerow.kernels.splits.split import NO_SPLIT, Limits, NodeSums, SplitRules, complete_split
from hedgerow.kernels.splits.vector_category import Groups, find_vector_set
from hedgerow.kernels.splits.vector_split import (
    LANE_ROWS,
    VectorNode,
    score_totals,
    search_column,
    start_search,
    sum_totals,
)


@kernel(inline=True, inner=True)
def is_set(sets: VectorSets, feature: int) -> bool:
    """Whether a column is searched for sets."""
    return sets.categories.chosen[feature] == 1


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
) -> None:
    """Search one category column; note its best set if it beats what was found."""
    groups, categories = sets.groups, sets.categories
    span = Groups(
        groups.g[thread],
        groups.h[thread],
        groups.weight[thread],
        groups.direction[thread],
        groups.side[thread],
    )
    at = node.start + feature * stride
    places = categories.places[thread]
    split = find_vector_set(sums, at, stride, node, rules, categories.rules, places, span)
    if is_better(split.score, feature, found):
        write_set(found, split, feature, split.score)


@kernel(inline=True, inner=True)
def node_of(
    thread: int, settings: Settings, place: tuple[int, int], vectors: Vectors
) -> VectorNode:
    """A node to be searched; ``place`` is its number of rows, and where its histogram begins."""
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
    )


@kernel(inline=True, inner=True)
def prepare_node(
    settings: Settings,
    rules: SplitRules,
    bins: Bins,
    column: int,
    node: VectorNode,
    outputs: Outputs,
) -> tuple[Limits, float]:
    """The rules in terms of the node, and its score as a leaf.

    Its sums are read off the histogram of ``column``; -1: a thread without columns.
    """
    parent, stride = 0.0, bins.stride
    if column >= 0:
        at, n_bins = node.start + column * stride, np.int64(bins.n_bins[column])
        sum_totals(outputs.sums, at, n_bins, stride, node)
        write_units(settings.constant_hessian, outputs, node.units)
        parent = score_totals(node, rules)
    return start_search(node, rules), parent


@kernel(inner=True)
def search_vectors(
    span: tuple[int, int],
    settings: Settings,
    rules: SplitRules,
    bins: Bins,
    features: np.ndarray,
    node: VectorNode,
    allowed: np.ndarray,
    outputs: Outputs,
    found: IntArray,
    thread: int,
    sets: VectorSets,
) -> float:
    """Note the best split of columns ``span`` in ``found``; return the node's score as a leaf."""
    stride, sums, best = bins.stride, outputs.sums, NO_SPLIT
    first = np.int64(features[span[0]]) if span[1] > span[0] else np.int64(-1)
    limits, parent = prepare_node(settings, rules, bins, first, node, outputs)
    for k in range(span[0], span[1]):
        feature = np.int64(features[k])
        if allowed[feature] == 1 and not is_set(sets, feature):
            n_bins = np.int64(bins.n_bins[feature])
            best = search_column(sums, feature, n_bins, stride, node, limits, best)
    whole = NodeSums(np.int64(0), np.int64(0), node.n_rows)
    counts = HistogramSums(sums.n, sums.n, sums.n)  # sums of the left side are not needed
    best = complete_split(counts, node.start, bins.n_bins, stride, whole, node.largest, best)
    write_found(found, best, stride)
    for k in range(span[0], span[1]):
        feature = np.int64(features[k])
        if allowed[feature] == 1 and is_set(sets, feature):
            search_set(thread, sums, feature, stride, node, rules, found, sets)
    return parent


@kernel(inner=True)
def search_vector_node(
    thread: int,
    span: tuple[int, int],
    settings: Settings,
    rules: SplitRules,
    bins: Bins,
    features: np.ndarray,
    place: tuple[int, int],
    allowed: np.ndarray,
    child: int,
    found: IntArray,
    vectors: Vectors,
) -> None:
    """Find the best split in columns ``span`` of a node.

    ``place`` is its number of rows, and the first cell of its histogram.
    """
    outputs, trial = vectors.outputs, vectors.trial
    node = node_of(thread, settings, place, vectors)
    trial.parent[thread, child] = search_vectors(
        span, settings, rules, bins, features, node, allowed, outputs, found, thread, trial.sets
    )
