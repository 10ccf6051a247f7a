"""Search of the best split of a node in its histogram, each thread in its own columns.

What a search has found is a row of integers (``FOUND_...``): the score and, as
the rows are divided by it, the set of bins that go left.  Plain columns are
searched a few at a time (:mod:`hedgerow.kernels.splits.split`); columns of another kind
come after them, and take the row over where they are better: categories
(:mod:`hedgerow.kernels.splits.category_split`) and bundles
(:mod:`hedgerow.growing.core.stages.bundle_search`).
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core import state as s
from hedgerow.growing.core.batch import is_better, note_split
from hedgerow.growing.core.stages.bundle_search import search_bundles, write_cells
from hedgerow.growing.core.stages.gradients import tree_units
from hedgerow.kernels.histograms.histogram import filled_cells
from hedgerow.kernels.simd.lanes import WIDTH
from hedgerow.kernels.splits.category_search import NodeSets, find_set
from hedgerow.kernels.splits.category_split import SetColumn, complete_set
from hedgerow.kernels.splits.constraints import (
    MOST_DRAWN,
    SearchedNode,
    draw_of,
    own_score,
    searched_node,
)
from hedgerow.kernels.splits.search import ColumnLanes, search_columns
from hedgerow.kernels.splits.split import (
    NO_SPLIT,
    ROUNDING,
    NodeHistogram,
    NodeSums,
    Split,
    accepted_gain,
    complete_split,
    node_score,
)


@kernel(inner=True)
def write_range(words: IntArray, first_word: int, last_bin: int) -> None:
    """Write the set of the bins up to ``last_bin``."""
    for k in range(s.SET_WORDS):
        n = min(max(last_bin + 1 - 64 * k, 0), 64)
        word = ~np.uint64(0) >> np.uint64(64 - n) if n > 0 else np.uint64(0)
        words[first_word + k] = np.int64(word)


@kernel(inner=True)
def add_bin(words: IntArray, first_word: int, bin_: int) -> None:
    """Add one bin to a set."""
    bit = np.uint64(1) << np.uint64(bin_ & 63)
    words[first_word + (bin_ >> 6)] |= np.int64(bit)


@kernel(inner=True)
def write_found(found: IntArray, best: Split, stride: int) -> None:
    """Note the best cut of a plain column."""
    left = NodeSums(best.g_left, best.h_left, best.n_left)
    note_split(found, best.score, best.feature, best.feature, best.bin, best.missing_left, left)
    write_range(found, s.FOUND_SET, best.bin)
    if best.missing_left == 1:
        add_bin(found, s.FOUND_SET, stride - 1)


@kernel(inner=True)
def search_categories(
    thread: int,
    span: tuple[int, int],
    state: s.State,
    histogram: NodeHistogram,
    allowed: np.ndarray,
    node: SearchedNode,
    found: IntArray,
    vectors: NodeSets | None,
) -> None:
    """Search the category columns in ``span``."""
    # With ``vectors``, a node of several outputs, ``histogram`` and ``node`` only count rows.
    categories, constraints, bins = state.options.categories, state.options.constraints, state.bins
    places, scale = categories.places[thread], node.units.scale
    for k in range(span[0], span[1]):
        feature = np.int64(state.columns.feature[k])
        if categories.chosen[feature] == 0 or allowed[feature] == 0:
            continue
        at, filled = histogram.start + feature * bins.stride, filled_cells(bins, feature, False)
        column = SetColumn(at, filled, bins.stride)
        draw = np.int64(-1)
        if constraints.growth.drawn == 1:
            draw = draw_of(node.asked.key, feature, MOST_DRAWN)
        score, first, last = find_set(
            histogram.sums, column, categories.rules, places, draw, node, vectors
        )
        if first == last:
            continue
        if constraints.scored == 1:  # the gain, which others are compared with
            g, h = float(node.sums.g) * node.units.g, float(node.sums.h) * node.units.h
            rounding = ROUNDING * node_score(g, h, node.rules)
            factor, price = constraints.factor[feature], node.rules.gamma
            score = accepted_gain(score, own_score(node), rounding, price, factor)
        score /= scale
        if is_better(score, feature, found):
            cut = (first, last)
            left, absent = complete_set(column, node.sums.n, places, cut, found, s.FOUND_SET)
            note_split(found, score, feature, feature, 0, absent, left)


@kernel(inline=True, inner=True)
def search_node(
    thread: int, span: tuple[int, int], state: s.State, child: int, number: int, start: int
) -> None:
    """Find the best split of a node with a histogram from cell ``start``, in columns ``span``."""
    bins, row, options = state.bins, state.tree.table[number], state.options
    columns, search, bundles = state.columns.feature, state.search, options.bundles
    sums = NodeSums(row[s.NODE_G], row[s.NODE_H], row[s.NODE_COUNT])
    node = searched_node(options.constraints, number, sums, tree_units(state), state.rules)
    histogram = NodeHistogram(state.histograms, start, bins.stride, bins.n_bins)
    allowed, found = search.allowed[child], search.found[thread, child]
    lanes = ColumnLanes(search.lanes[thread, 0], search.lanes[thread, 1])
    best, n_lanes = NO_SPLIT, 0
    for k in range(span[0], span[1]):
        column = np.int64(columns[k])
        feature = np.int64(bundles.alone[column])
        if feature >= 0 and allowed[feature] == 1 and options.categories.chosen[feature] == 0:
            # This lane and the ones behind it, which may stay empty.
            for j in range(n_lanes, WIDTH):
                lanes.feature[j] = feature
                lanes.at[j] = start + column * bins.stride
            n_lanes += 1
        if n_lanes == WIDTH or (n_lanes > 0 and k + 1 == span[1]):
            best = search_columns(histogram, lanes, node, options.constraints, best)
            n_lanes = 0
    column = best.feature
    if best.score >= 0.0:
        column = np.int64(bundles.column[best.feature])
        at = start + (column - best.feature) * bins.stride
        own = NodeHistogram(state.histograms, at, bins.stride, bins.n_bins)
        best = complete_split(own, sums, node.units, best)
    write_found(found, best, bins.stride)
    found[s.FOUND_COLUMN] = column
    if bundles.used == 1:
        best = search_bundles(thread, span, columns, histogram, lanes, allowed, node, options)
        if is_better(best.score, best.feature, found):
            left = NodeSums(best.g_left, best.h_left, best.n_left)
            column = np.int64(bundles.column[best.feature])
            note_split(found, best.score, best.feature, column, best.bin, best.missing_left, left)
            write_cells(found, bundles, np.int64(bins.n_bins[best.feature]))
    if options.categories.places.shape[2] > 0:
        search_categories(thread, span, state, histogram, allowed, node, found, None)
