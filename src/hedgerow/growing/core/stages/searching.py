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
from hedgerow.growing.core.batch import is_better, note_split
from hedgerow.growing.core.stages.bundle_search import (
    column_of,
    feature_alone,
    search_bundles,
    write_bundled,
)
from hedgerow.growing.core.stages.gradients import units_of
from hedgerow.growing.core.state import (
    FOUND_COLUMN,
    FOUND_FEATURE,
    FOUND_SET,
    IS_DROPPED_BITS,
    NODE_COUNT,
    NODE_G,
    NODE_H,
    SET_WORDS,
    Categories,
    Options,
    Search,
    State,
)
from hedgerow.kernels.histograms.histogram import Bins, HistogramSums, filled_cells
from hedgerow.kernels.simd.lanes import WIDTH
from hedgerow.kernels.splits.category_split import CategorySplit, complete_set, find_set
from hedgerow.kernels.splits.constrained_gains import gain_of_set, leaf_bounds
from hedgerow.kernels.splits.constrained_search import search_with_constraints
from hedgerow.kernels.splits.growth import MOST_DRAWN, NODE_KEY, draw_of
from hedgerow.kernels.splits.monotone import Constraints, bounds_of
from hedgerow.kernels.splits.split import (
    NO_SPLIT,
    NodeSums,
    Split,
    SplitRules,
    Units,
    complete_split,
    limits_of,
)


@kernel(inner=True)
def write_range(words: IntArray, first_word: int, last_bin: int) -> None:
    """Write the set of the bins up to ``last_bin``."""
    for k in range(SET_WORDS):
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
    write_range(found, FOUND_SET, best.bin)
    if best.missing_left == 1:
        add_bin(found, FOUND_SET, stride - 1)


@kernel(inner=True)
def write_set(found: IntArray, split: CategorySplit, feature: int, score: float) -> None:
    """Note the best set of a category column."""
    left = NodeSums(split.g, split.h, split.n)
    note_split(found, score, feature, feature, 0, split.missing_left, left)
    for w in range(SET_WORDS):
        found[FOUND_SET + w] = split.words[w]


@kernel(inner=True)
def search_categories(
    thread: int,
    span: tuple[int, int],
    rules: SplitRules,
    bins: Bins,
    features: IntArray,
    place: tuple[HistogramSums, int],
    allowed: IntArray,
    node: tuple[NodeSums, Units],
    number: int,
    found: IntArray,
    categories: Categories,
    constraints: Constraints,
) -> None:
    """Search the category columns among ``features[mine[0]:mine[1]]``."""
    sums, units = node
    histograms, slot_start = place
    places = categories.places[thread]
    bounds = leaf_bounds(constraints, number, sums, units, rules)
    for k in range(span[0], span[1]):
        feature = np.int64(features[k])
        if categories.chosen[feature] == 0 or allowed[feature] == 0:
            continue
        at, stride = slot_start + feature * bins.stride, bins.stride
        filled = filled_cells(bins, feature, False)
        draw = np.int64(-1)
        if constraints.growth.drawn == 1:
            draw = draw_of(constraints.growth.node[number, NODE_KEY], feature, MOST_DRAWN)
        score, first, last = find_set(
            histograms, at, filled, stride, sums, units, rules, categories.rules, places, draw,
            bounds,
        )  # fmt: skip
        if first == last:
            continue
        # Constraints turn the score into a gain, which others are compared with.
        score = gain_of_set(constraints, feature, score, sums, units, rules, bounds) / units.scale
        if is_better(score, feature, found):
            split = complete_set(filled, stride, sums, places, (first, last))
            write_set(found, split, feature, score)


@kernel(inline=True, inner=True)
def search_plain(
    span: tuple[int, int],
    bins: Bins,
    columns: IntArray,
    place: tuple[HistogramSums, int],
    lanes: IntArray,
    allowed: IntArray,
    node: tuple[NodeSums, Units],
    number: int,
    rules: SplitRules,
    options: Options,
) -> Split:
    """Return the best cut of the plain columns among ``columns[mine[0]:mine[1]]``."""
    sums, units = node
    histograms, slot_start = place
    limits, constraints = limits_of(sums, units, rules), options.constraints
    bounds = bounds_of(constraints, number, sums, units, rules)
    chosen, at = lanes[0], lanes[1]
    best, n_lanes = NO_SPLIT, 0
    for k in range(span[0], span[1]):
        column = np.int64(columns[k])
        feature = feature_alone(options.bundles, column)
        if feature >= 0 and allowed[feature] == 1 and options.categories.chosen[feature] == 0:
            # This lane and the ones behind it, which may stay empty.
            for j in range(n_lanes, WIDTH):
                chosen[j] = feature
                at[j] = slot_start + column * bins.stride
            n_lanes += 1
        if n_lanes == WIDTH or (n_lanes > 0 and k + 1 == span[1]):
            best = search_with_constraints(
                histograms,
                (at, chosen),
                bins.n_bins,
                bins.stride,
                limits,
                bounds,
                constraints,
                best,
            )
            n_lanes = 0
    start = slot_start
    if best.score >= 0.0:
        start += (column_of(options.bundles, best.feature) - best.feature) * bins.stride
    return complete_split(histograms, start, bins.n_bins, bins.stride, sums, units, best)


@kernel(inline=True, inner=True)
def search_others(
    thread: int,
    span: tuple[int, int],
    rules: SplitRules,
    bins: Bins,
    columns: IntArray,
    place: tuple[HistogramSums, int],
    search: Search,
    child: int,
    node: tuple[NodeSums, Units],
    number: int,
    found: IntArray,
    options: Options,
) -> None:
    """Search the columns that are not plain; what was found in plain ones stands in ``found``."""
    allowed, lanes = search.allowed[child], search.lanes[thread]
    if found[FOUND_FEATURE] >= 0:
        found[FOUND_COLUMN] = column_of(options.bundles, found[FOUND_FEATURE])
    best = search_bundles(
        thread, span, rules, bins, columns, place, lanes, allowed, (node, number), options.bundles,
        options.constraints,
    )  # fmt: skip
    if is_better(best.score, best.feature, found):
        write_bundled(found, best, options.bundles, np.int64(bins.n_bins[best.feature]))
    if options.categories.places.shape[2] > 0:
        search_categories(
            thread, span, rules, bins, columns, place, allowed, node, number, found,
            options.categories, options.constraints,
        )  # fmt: skip


@kernel(inline=True, inner=True)
def search_node(
    thread: int, span: tuple[int, int], state: State, child: int, number: int, start: int
) -> None:
    """Find the best split of a node with a histogram from cell ``start``, in columns ``span``."""
    rules, bins, columns = state.rules, state.bins, state.columns.feature
    search, scalars, options = state.search, state.scalars, state.options
    row, place = state.tree.table[number], (state.histograms, start)
    units = units_of(scalars, state.settings.constant_hessian, scalars[IS_DROPPED_BITS])
    node = (NodeSums(row[NODE_G], row[NODE_H], row[NODE_COUNT]), units)
    allowed, found = search.allowed[child], search.found[thread, child]
    lanes = search.lanes[thread]
    best = search_plain(span, bins, columns, place, lanes, allowed, node, number, rules, options)
    write_found(found, best, bins.stride)
    search_others(
        thread, span, rules, bins, columns, place, search, child, node, number, found, options
    )
