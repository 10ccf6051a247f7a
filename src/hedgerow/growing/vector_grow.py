"""Growing one tree for several outputs: leaves hold a vector, one value for each output.

The stages are those of :mod:`hedgerow.growing.grow`, by the same kernels; what is
different is done for each output in turn::

    gradient pass of every output, one row sample
    root:   build the histograms of every output -> one search over their summed scores
    until no node is worth a split or the tree is full:
        thread 0: settle the last search, choose a node, open its children
        partition its rows, once for all outputs
        histograms of the smaller child, those of the larger one by subtraction
        search both
    for each output: leaf values from exact sums -> its raw scores

Random numbers (samples, rounding) depend on the tree and the row, never on the output:
outputs that are equal have equal histograms, and the order of outputs has no part in a
tree but for the rounding of sums over them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.growing.frontier import (
    best_thread,
    open_next,
    release_slot,
    start_tree,
    take_split,
)
from hedgerow.growing.goss import draw_rows
from hedgerow.growing.grow import ORDER_STOP, ROWS_TO_SHARE, bare, partition_node
from hedgerow.growing.leaves import finish_tree
from hedgerow.growing.sampling import allow_children
from hedgerow.growing.searching import is_better, write_found, write_set
from hedgerow.growing.state import (
    FOUND_SCORE,
    IS_LARGE,
    IS_LARGE_SLOT,
    IS_N_COLUMNS,
    IS_N_NODES,
    IS_N_ROWS,
    IS_PARENT,
    IS_SEARCH_LARGE,
    IS_SEARCH_SMALL,
    IS_SMALL,
    IS_SMALL_SLOT,
    IS_SUBTRACT,
    NODE_COLUMN,
    NODE_COUNT,
    NODE_START,
    NUMBER_COVER,
    NUMBER_VALUE,
    Categories,
    Extras,
    Rows,
    Settings,
    State,
    Tree,
)
from hedgerow.growing.vector_gradients import (
    Outputs,
    largest_units,
    pass_gradients,
    rows_of,
    write_units,
)
from hedgerow.kernels.barrier import Crew, await_order, barrier, give_order, share
from hedgerow.kernels.histogram import Bins, Columns, Wide
from hedgerow.kernels.intrinsics import float_of_bits
from hedgerow.kernels.split import NO_SPLIT, NodeSums, SplitRules, complete_split
from hedgerow.kernels.vector_category import Groups, find_vector_set
from hedgerow.kernels.vector_histogram import (
    Sums,
    add_cells,
    build_columns,
    list_filled,
    subtract_cells,
)
from hedgerow.kernels.vector_split import (
    LANE_ROWS,
    VectorNode,
    score_totals,
    search_column,
    start_search,
    sum_totals,
    vector_gain,
)


class Sets(NamedTuple):
    """What the search of category columns needs.

    categories  as for one output
    groups      arrays of :class:`hedgerow.kernels.vector_category.Groups`, each with a
                first axis of threads
    """

    categories: Categories
    groups: Groups


class Trial(NamedTuple):
    """Space for the search, a part for each thread; see ``VectorNode``.

    totals  int64 (threads, n_outputs, 2)
    units   float64 (threads, n_outputs, 2)
    lanes   float64 (threads, LANE_ROWS * outputs and those that fill up the lanes)
    filled  int64 (threads, FILLED_SIZE)
    cuts    float64 (threads, 2, FILLED_SIZE * N_LANES)
    parent  float64 (threads, 2): score of the small and the large child as leaves
    sets    for category columns; None: there are none
    """

    totals: IntArray
    units: FloatArray
    lanes: FloatArray
    filled: IntArray
    cuts: FloatArray
    parent: FloatArray
    sets: Sets | None


class VectorState(NamedTuple):
    """Everything; ``state.scalars`` are those of the first output."""

    state: State
    outputs: Outputs
    trial: Trial


@kernel(inner=True)
def build_vectors(
    thread: int,
    crew: Crew,
    settings: Settings,
    bins: Bins,
    columns: Columns,
    rows: Rows,
    outputs: Outputs,
    place: tuple[int, int],
    slot: int,
    filled: IntArray,
) -> None:
    """Histogram of the rows at ``place`` (start, count); each thread completes its columns.

    Rows or columns are divided between threads as in ``growing.grow.build_node``.
    """
    start, count = place
    n_columns = outputs.scalars[0, IS_N_COLUMNS]
    sums, slot_size = outputs.sums, settings.n_columns * bins.stride
    n_groups = crew.n_threads
    if count >= ROWS_TO_SHARE:
        n_tiles = (n_columns + bins.features_per_tile - 1) // bins.features_per_tile
        n_groups = min(crew.n_threads, n_tiles)
    n_parts = crew.n_threads // n_groups
    group, part = thread % n_groups, thread // n_groups
    private = settings.n_slots + 2
    if part < n_parts:
        chosen = share(n_columns, group, n_groups)
        first, last = share(count, part, n_parts)
        target = slot if part == 0 else private + thread
        mine, some = (start + first, start + last), rows.rows
        build_columns(bins, columns, chosen, some, mine, outputs.words, sums, target * slot_size)
    if n_groups == crew.n_threads:
        return  # each thread has built the very columns that it will search
    barrier(crew)
    own = share(n_columns, thread, crew.n_threads)
    for other in range(n_groups, n_groups * n_parts):
        theirs = share(n_columns, other % n_groups, n_groups)
        for k in range(max(own[0], theirs[0]), min(own[1], theirs[1])):
            at = np.int64(columns.feature[k]) * bins.stride
            n_bins = np.int64(bins.n_bins[columns.feature[k]])
            source = (private + other) * slot_size + at
            n_filled = list_filled(sums.n, source, n_bins, bins.stride, filled)
            add_cells(sums, slot * slot_size + at, source, filled, n_filled)
    # The sums of one thread may be its own again: a second node may need them at once.
    barrier(crew)


@kernel(inner=True)
def subtract_vectors(
    mine: tuple[int, int],
    bins: Bins,
    columns: Columns,
    sums: Sums,
    large: int,
    small: int,
    filled: IntArray,
) -> None:
    """Turn the parent's histogram at ``large`` into the larger child's, for columns ``mine``."""
    for k in range(mine[0], mine[1]):
        feature = np.int64(columns.feature[k])
        at, n_bins = feature * bins.stride, np.int64(bins.n_bins[feature])
        n_filled = list_filled(sums.n, small + at, n_bins, bins.stride, filled)
        subtract_cells(sums, large + at, small + at, filled, n_filled)


@kernel(inline=True, inner=True)
def is_set(sets: Sets | None, feature: int) -> bool:
    """Whether a column is searched for sets."""
    if sets is None:
        return False
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
    sets: Sets,
) -> None:
    """Search one category column; note its best set if it beats what was found."""
    groups, categories = sets.groups, sets.categories
    mine = Groups(
        groups.g[thread],
        groups.h[thread],
        groups.weight[thread],
        groups.direction[thread],
        groups.side[thread],
    )
    at = node.start + feature * stride
    places = categories.places[thread]
    split = find_vector_set(sums, at, stride, node, rules, categories.rules, places, mine)
    if is_better(split.score, feature, found):
        write_set(found, split, feature, split.score)


@kernel(inner=True)
def search_vectors(
    mine: tuple[int, int],
    settings: Settings,
    rules: SplitRules,
    bins: Bins,
    features: np.ndarray,
    node: VectorNode,
    allowed: np.ndarray,
    outputs: Outputs,
    found: IntArray,
    thread: int,
    sets: Sets | None,
) -> float:
    """Note the best split of columns ``mine`` in ``found``; return the node's score as a leaf."""
    stride, sums, best = bins.stride, outputs.sums, NO_SPLIT
    parent = 0.0
    if mine[1] > mine[0]:
        first = np.int64(features[mine[0]])
        n_bins = np.int64(bins.n_bins[first])
        sum_totals(sums, node.start + first * stride, n_bins, stride, node)
        write_units(settings.constant_hessian, outputs, node.units)
        parent = score_totals(node, rules)
    limits = start_search(node, rules)
    for k in range(mine[0], mine[1]):
        feature = np.int64(features[k])
        if allowed[feature] == 1 and not is_set(sets, feature):
            n_bins = np.int64(bins.n_bins[feature])
            best = search_column(sums, feature, n_bins, stride, node, limits, best)
    whole = NodeSums(np.int64(0), np.int64(0), node.n_rows)
    counts = Wide(sums.n, sums.n, sums.n)  # sums of the left side are not needed
    best = complete_split(counts, node.start, bins.n_bins, stride, whole, node.largest, best)
    write_found(found, best, stride)
    if sets is not None:
        for k in range(mine[0], mine[1]):
            feature = np.int64(features[k])
            if allowed[feature] == 1 and is_set(sets, feature):
                search_set(thread, sums, feature, stride, node, rules, found, sets)
    return parent


@kernel(inner=True)
def search_children(thread: int, state: State, outputs: Outputs, trial: Trial) -> None:
    """Histograms and best splits of the one or two nodes that have just been made."""
    crew, settings, bins, scalars = state.crew, state.settings, state.bins, state.scalars
    columns, table, filled = state.columns, state.tree.table, trial.filled[thread]
    mine = share(scalars[IS_N_COLUMNS], thread, crew.n_threads)
    slot_size = settings.n_columns * bins.stride
    subtract = scalars[IS_SUBTRACT] == 1
    for child in range(2):
        node = scalars[IS_SMALL] if child == 0 else scalars[IS_LARGE]
        slot = scalars[IS_SMALL_SLOT] if child == 0 else scalars[IS_LARGE_SLOT]
        searched = scalars[IS_SEARCH_SMALL] if child == 0 else scalars[IS_SEARCH_LARGE]
        if node < 0:
            continue
        place = (table[node, NODE_START], table[node, NODE_COUNT])
        if child == 1 and subtract:
            small = scalars[IS_SMALL_SLOT] * slot_size
            subtract_vectors(mine, bins, columns, outputs.sums, slot * slot_size, small, filled)
        elif searched == 1 or subtract:
            build_vectors(
                thread, crew, settings, bins, columns, state.rows, outputs, place, slot, filled
            )
        if searched == 1:
            chosen = VectorNode(
                slot * slot_size,
                place[1],
                trial.totals[thread],
                trial.units[thread],
                largest_units(settings.constant_hessian, outputs),
                trial.lanes[thread],
                trial.lanes.shape[1] // LANE_ROWS,
                filled,
                trial.cuts[thread],
            )
            trial.parent[thread, child] = search_vectors(
                mine,
                settings,
                state.rules,
                bins,
                columns.feature,
                chosen,
                state.search.allowed[child],
                outputs,
                state.search.found[thread, child],
                thread,
                trial.sets,
            )
    barrier(crew)


@kernel(inner=True)
def settle_vectors(
    rules: SplitRules,
    tree: Tree,
    scalars: IntArray,
    found: IntArray,
    parent: FloatArray,
    n_outputs: int,
) -> None:
    """Take over what the search of the last one or two nodes has found."""
    for child in range(2):
        node = scalars[IS_SMALL] if child == 0 else scalars[IS_LARGE]
        searched = scalars[IS_SEARCH_SMALL] if child == 0 else scalars[IS_SEARCH_LARGE]
        if searched == 1:
            best = best_thread(found, child)
            score = float_of_bits(found[best, child, FOUND_SCORE])
            gain = vector_gain(score, parent[best, child], n_outputs, rules)
            take_split(tree, scalars, node, found[best, child], gain)
        elif node >= 0:
            release_slot(tree, scalars, node)


@kernel(inner=True)
def share_tree(outputs: Outputs) -> None:
    """Thread 0: tell every output how many rows and nodes the tree has."""
    for output in range(1, outputs.scalars.shape[0]):
        for field in (IS_N_ROWS, IS_N_NODES):
            outputs.scalars[output, field] = outputs.scalars[0, field]


@kernel(inner=True)
def finish_vectors(
    thread: int,
    crew: Crew,
    settings: Settings,
    rules: SplitRules,
    rows: Rows,
    raw: np.ndarray,
    leaf_sums: IntArray,
    tree: Tree,
    outputs: Outputs,
    extras: Extras,
) -> None:
    """Values of the leaves and new raw scores, one output after the other."""
    n_outputs, n_nodes = outputs.scalars.shape[0], outputs.scalars[0, IS_N_NODES]
    if thread == 0:
        share_tree(outputs)
    barrier(crew)
    for output in range(n_outputs):
        finish_tree(
            thread,
            crew,
            settings,
            rules,
            rows_of(rows, outputs, output),
            raw,
            leaf_sums,
            tree,
            outputs.scalars[output],
            extras,
        )
        if thread == 0:
            for node in range(n_nodes):
                before = outputs.cover[node] if output > 0 else 0.0
                outputs.cover[node] = before + tree.numbers[node, NUMBER_COVER]
                outputs.vectors[node, output] = tree.numbers[node, NUMBER_VALUE]
    if thread == 0:
        for node in range(n_nodes):
            tree.numbers[node, NUMBER_COVER] = outputs.cover[node] / n_outputs


@kernel
def work_vectors(thread: int, everything: VectorState, order: int) -> None:
    """Thread 0: grow one tree with the helpers.  Helpers: grow trees until dismissed."""
    state, outputs, trial = everything.state, everything.outputs, everything.trial
    crew, settings, rules = state.crew, state.settings, state.rules
    tree, scalars, search = state.tree, state.scalars, state.search
    counts, data = state.threads.counts, state.loss_data
    n_outputs = outputs.scalars.shape[0]
    number = 0
    while True:
        if thread == 0:
            give_order(crew, order)
        else:
            order = await_order(crew, number)
            number += 1
        if order == ORDER_STOP:
            return
        pass_gradients(thread, crew, settings, data, state.rows, state.threads, outputs)
        draw_rows(thread, crew, settings, state.rows, counts, scalars, state.extras)
        if thread == 0:
            start_tree(settings, rules, tree, scalars, state.extras)
        while True:
            if thread == 0:
                allow_children(settings, search.allowed, tree.table, scalars, state.extras)
            barrier(crew)
            # Read before the partition: behind its last barrier thread 0 may run ahead.
            parent, search_next = scalars[IS_PARENT], scalars[IS_SMALL] >= 0
            if parent >= 0:
                column = state.bins.by_column[tree.table[parent, NODE_COLUMN]]
                partition_node(thread, crew, state.rows, column, tree.table[parent], counts)
            elif not search_next:
                break
            if search_next:
                search_children(thread, bare(state), outputs, trial)
            if thread == 0:
                settle_vectors(rules, tree, scalars, search.found, trial.parent, n_outputs)
                open_next(settings, rules, tree, scalars, state.extras)
        finish_vectors(
            thread,
            crew,
            settings,
            rules,
            state.rows,
            data.raw,
            state.threads.leaf_sums,
            tree,
            outputs,
            state.extras,
        )
        if thread == 0:
            return
