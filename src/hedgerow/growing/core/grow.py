"""Growing one tree: the stages, in the order in which all threads run them.

::

    gradient pass, row sample
    root:   build histogram -> search
    until no node is worth a split or the tree is full:
        thread 0: settle the last batch, choose a node, open its children: the next batch
        partition its rows
        build the smaller child's histogram, get the larger one's by subtraction
        search both
    leaf values from exact sums -> raw scores

The control flow is that of XGBoost's ``UpdateTree``; leaf-wise and depth-wise
growth differ in the choice of the node only (:mod:`hedgerow.growing.core.frontier`).

Trees with vectors in their leaves are grown by the same stages: gradients, histograms and
leaf values of each output, one row sample, one partition, and one search over summed scores
(:mod:`hedgerow.growing.vectors.search`).  What is different stands behind
``if vectors is None``, where ``vectors`` is an argument: one of the branches is compiled.
Random numbers (samples, rounding) depend on the tree and the row, never on the output:
outputs that are equal have equal histograms, and the order of outputs has no part in a
tree but for the rounding of sums over them.

Exact and approximate trees are grown by the same stages, too: their nodes have sorted lists of
rows in place of histograms (:mod:`hedgerow.growing.exact.stages`).  The code for lists stands
behind ``sorted_columns``, as that for outputs behind ``vectors``.

Work of a stage is divided in two ways.  Rows of a large node are divided
between threads when a tile of features is all there is (each thread sums into
sums of its own, which are then merged); otherwise features are divided, which
needs no merge.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core.batch import member
from hedgerow.growing.core.frontier import advance, start_tree
from hedgerow.growing.core.gradients import gradient_pass
from hedgerow.growing.core.leaves import finish_tree, finish_vectors
from hedgerow.growing.core.partition import ROWS_TO_SHARE, partition_node
from hedgerow.growing.core.searching import search_node
from hedgerow.growing.core.state import (
    IS_COUNT_BITS,
    IS_G_APART,
    IS_HESSIAN_BITS,
    IS_N_COLUMNS,
    IS_PARENT,
    IS_SMALL,
    IS_SMALL_SLOT,
    IS_SUBTRACT,
    NODE_COLUMN,
    NODE_COUNT,
    NODE_G,
    NODE_H,
    NODE_START,
    Options,
    Sorted,
    State,
    Vectors,
)
from hedgerow.growing.exact.stages import (
    search_lists,
    set_root,
    share_entries,
    split_lists,
    sum_sample,
)
from hedgerow.growing.sampling.draws import allow_children
from hedgerow.growing.sampling.goss import draw_rows
from hedgerow.growing.vectors.gradients import pass_gradients
from hedgerow.growing.vectors.search import search_vector_node
from hedgerow.kernels.barrier import ThreadTeam, await_order, barrier, give_order, share
from hedgerow.kernels.histogram import (
    Bins,
    Columns,
    HistogramSums,
    Packing,
    RowLists,
    add_column,
    build_histogram,
    filled_cells,
)
from hedgerow.kernels.vector_histogram import (
    add_cells,
    build_columns,
    list_filled,
    subtract_cells,
)

ORDER_STOP = 0
ORDER_GROW = 1


@kernel(inline=True, inner=True)
def bare(state: State) -> State:
    """The state without options: with them each call that takes a state copies 170 words more."""
    return State(
        state.team,
        state.settings,
        state.rules,
        state.bins,
        state.loss_data,
        state.columns,
        state.rows,
        state.threads,
        state.search,
        state.histograms,
        state.tree,
        state.scalars,
        None,
        None,
        None,
    )


@kernel(inline=True, inner=True)
def add_sums(
    thread: int,
    bins: Bins,
    column: int,
    histograms: HistogramSums,
    target: int,
    source: int,
    sign: int,
    lists: RowLists | None,
    vectors: Vectors | None,
) -> None:
    """Add the sums of a column at ``source`` to those at ``target``, or subtract them (-1)."""
    if vectors is None:
        filled = filled_cells(bins, column, lists is not None)
        add_column(histograms, target, source, filled, bins.stride, sign)
    else:
        sums, filled_bins = vectors.outputs.sums, vectors.trial.filled[thread]
        n_bins = np.int64(bins.n_bins[column])
        n_filled = list_filled(sums.n, source, n_bins, bins.stride, filled_bins)
        if sign > 0:
            add_cells(sums, target, source, filled_bins, n_filled)
        else:
            subtract_cells(sums, target, source, filled_bins, n_filled)


@kernel(inner=True)
def build_node(
    thread: int,
    state: State,
    place: tuple[int, int],
    slot: int,
    lists: RowLists | None,
    vectors: Vectors | None,
) -> None:
    """Histogram of the rows at ``place`` (start, count); each thread completes its columns."""
    team, settings, bins, scalars = state.team, state.settings, state.bins, state.scalars
    columns, rows, histograms = state.columns, state.rows, state.histograms
    start, count = place
    n_columns = scalars[IS_N_COLUMNS]
    slot_size = settings.n_columns * bins.stride
    n_tiles = (n_columns + bins.features_per_tile - 1) // bins.features_per_tile
    n_groups = team.n_threads
    if count >= ROWS_TO_SHARE:
        n_groups = min(team.n_threads, n_tiles)
    n_parts = team.n_threads // n_groups
    group, part = thread % n_groups, thread // n_groups
    private = settings.n_slots + 2
    if part < n_parts:
        chosen = share(n_columns, group, n_groups)
        first, last = share(count, part, n_parts)
        first, last = start + first, start + last
        to = (slot if part == 0 else private + thread) * slot_size
        if vectors is None:
            packing = Packing(scalars[IS_COUNT_BITS], scalars[IS_HESSIAN_BITS], scalars[IS_G_APART])
            cells = state.threads.cells[thread]
            build_histogram(
                bins, packing, rows.packed, columns, chosen, rows.rows, first, last, cells, histograms,
                to, lists,
            )  # fmt: skip
        else:
            words, sums = vectors.outputs.words, vectors.outputs.sums
            build_columns(bins, columns, chosen, rows.rows, (first, last), words, sums, to)
    if n_groups == team.n_threads:
        return  # each thread has built the very columns that it will search
    barrier(team)
    mine = share(n_columns, thread, team.n_threads)
    for other in range(n_groups, n_groups * n_parts):
        theirs = share(n_columns, other % n_groups, n_groups)
        for k in range(max(mine[0], theirs[0]), min(mine[1], theirs[1])):
            column = np.int64(columns.feature[k])
            at = column * bins.stride
            source = (private + other) * slot_size + at
            add_sums(
                thread, bins, column, histograms, slot * slot_size + at, source, 1, lists, vectors
            )
    # The sums of one thread may be its own again: a second node may need them at once.
    barrier(team)


@kernel(inner=True)
def subtract_node(
    thread: int,
    mine: tuple[int, int],
    bins: Bins,
    columns: Columns,
    histograms: HistogramSums,
    large: int,
    small: int,
    lists: RowLists | None,
    vectors: Vectors | None,
) -> None:
    """Turn the parent's histogram at ``large`` into the larger child's, for columns ``mine``."""
    for k in range(mine[0], mine[1]):
        column = np.int64(columns.feature[k])
        at = column * bins.stride
        add_sums(thread, bins, column, histograms, large + at, small + at, -1, lists, vectors)


@kernel(inner=True)
def sum_root(
    columns: Columns, stride: int, histograms: HistogramSums, slot_start: int, root: IntArray
) -> None:
    """Read the root's sums off the histogram of its first column."""
    at = slot_start + columns.feature[0] * stride
    g, h = np.int64(0), np.int64(0)
    for b in range(at, at + stride):
        g += histograms.g[b]
        h += histograms.h[b]
    root[NODE_G] = g
    root[NODE_H] = h


@kernel(inline=True, inner=True)
def search_member(
    thread: int,
    mine: tuple[int, int],
    state: State,
    child: int,
    slot_start: int,
    options: Options,
    vectors: Vectors | None,
) -> None:
    """Best split of a node of the batch in columns ``mine``."""
    settings, rules, bins, search = state.settings, state.rules, state.bins, state.search
    columns, scalars, table = state.columns, state.scalars, state.tree.table
    row = table[member(scalars, child).node]
    if vectors is None:
        search_node(
            thread, mine, settings, rules, bins, columns, (state.histograms, slot_start), search, child,
            row, scalars, options,
        )  # fmt: skip
    else:
        search_vector_node(
            thread, mine, settings, rules, bins, columns.feature, (row[NODE_COUNT], slot_start),
            search.allowed[child], child, search.found[thread, child], vectors,
        )  # fmt: skip


@kernel(inline=True, inner=True)
def search_histograms(
    thread: int, mine: tuple[int, int], state: State, options: Options, vectors: Vectors | None
) -> None:
    """Histograms and best splits of the nodes of the batch, in columns ``mine``."""
    team, settings, bins, scalars = state.team, state.settings, state.bins, state.scalars
    columns, histograms, table = state.columns, state.histograms, state.tree.table
    slot_size = settings.n_columns * bins.stride
    subtract = scalars[IS_SUBTRACT] == 1
    for child in range(2):
        node, slot, searched = member(scalars, child)
        if node < 0:
            continue
        if child == 1 and subtract:
            small = scalars[IS_SMALL_SLOT] * slot_size
            subtract_node(
                thread,
                mine,
                bins,
                columns,
                histograms,
                slot * slot_size,
                small,
                options.lists,
                vectors,
            )
        elif searched == 1 or subtract:
            place = (table[node, NODE_START], table[node, NODE_COUNT])
            build_node(thread, bare(state), place, slot, options.lists, vectors)
        if vectors is None and node == 0:
            if mine[0] == 0 and mine[1] > 0:
                sum_root(columns, bins.stride, histograms, slot * slot_size, table[0])
            barrier(team)
        if searched == 1:
            search_member(thread, mine, state, child, slot * slot_size, options, vectors)
    barrier(team)


@kernel(inline=True, inner=True)
def sum_gradients(thread: int, state: State, vectors: Vectors | None) -> None:
    """Gradients of all rows, as the integers that histograms add up."""
    team, settings, data = state.team, state.settings, state.loss_data
    rows, threads = state.rows, state.threads
    if vectors is None:
        gradient_pass(thread, team, settings, data, rows, threads, state.scalars)
    else:
        pass_gradients(thread, team, settings, data, rows, threads, vectors.outputs)


@kernel(inline=True, inner=True)
def finish(thread: int, state: State, options: Options, vectors: Vectors | None) -> None:
    """Leaf values and new raw scores."""
    team, settings, rules, tree = state.team, state.settings, state.rules, state.tree
    rows, raw, sums = state.rows, state.loss_data.raw, state.threads.leaf_sums
    if vectors is None:
        finish_tree(thread, team, settings, rules, rows, raw, sums, tree, state.scalars, options)
    else:
        outputs = vectors.outputs
        finish_vectors(thread, team, settings, rules, rows, raw, sums, tree, outputs, options)


@kernel(inline=True, inner=True)
def open_tree(thread: int, state: State, options: Options, sorted_columns: Sorted | None) -> None:
    """Empty the tree."""
    tree, scalars = state.tree, state.scalars
    if sorted_columns is not None:
        settings, rows, threads = state.settings, state.rows, state.threads
        sum_sample(thread, state.team, settings, rows, sorted_columns, threads, scalars)
    if thread == 0:
        start_tree(state.settings, state.rules, tree, scalars, options)
        if sorted_columns is not None:
            set_root(tree, state.threads.leaf_sums, scalars)


@kernel(inline=True, inner=True)
def own_columns(
    thread: int, team: ThreadTeam, n_columns: int, sorted_columns: Sorted | None
) -> tuple[int, int]:
    """First and last column of those that the thread searches."""
    mine = share(n_columns, thread, team.n_threads)
    if sorted_columns is not None:
        mine = share_entries(thread, team, sorted_columns, n_columns)
    return mine


@kernel(inline=True, inner=True)
def split_rows(
    thread: int,
    mine: tuple[int, int],
    state: State,
    parent: int,
    bins: Bins | None,
    sorted_columns: Sorted | None,
) -> None:
    """Divide the rows of ``parent`` between its children."""
    if bins is not None:
        row = state.tree.table[parent]
        column = bins.by_column[row[NODE_COLUMN]]
        partition_node(thread, state.team, state.rows, column, row, state.threads.counts)
    if sorted_columns is not None:
        split_lists(thread, mine, state, parent, sorted_columns)


@kernel(inline=True, inner=True)
def search_batch(
    thread: int,
    mine: tuple[int, int],
    state: State,
    options: Options,
    vectors: Vectors | None,
    bins: Bins | None,
    sorted_columns: Sorted | None,
) -> None:
    """Best splits of the nodes of the batch in columns ``mine``."""
    if bins is not None:
        search_histograms(thread, mine, state, options, vectors)
    if sorted_columns is not None:
        search_lists(thread, mine, state, options, sorted_columns)


@kernel(inline=True, inner=True)
def grow_tree(
    thread: int,
    state: State,
    vectors: Vectors | None,
    bins: Bins | None,
    sorted_columns: Sorted | None,
) -> None:
    """Grow one tree, all threads together."""
    team, settings, rules = state.team, state.settings, state.rules
    tree, scalars, search = state.tree, state.scalars, state.search
    sum_gradients(thread, state, vectors)
    draw_rows(thread, team, settings, state.rows, state.threads.counts, scalars, state.options)
    open_tree(thread, state, state.options, sorted_columns)
    mine = own_columns(thread, team, scalars[IS_N_COLUMNS], sorted_columns)
    while True:
        if thread == 0:
            allow_children(settings, search.allowed, tree.table, scalars, state.options)
        barrier(team)
        # Read before the partition: behind its last barrier thread 0 may run ahead.
        parent, search_next = scalars[IS_PARENT], scalars[IS_SMALL] >= 0
        if parent >= 0:
            split_rows(thread, mine, state, parent, bins, sorted_columns)
        elif not search_next:
            break
        if search_next:
            search_batch(thread, mine, state, state.options, vectors, bins, sorted_columns)
        if thread == 0:
            advance(settings, rules, tree, scalars, search.found, state.options, vectors)
    finish(thread, state, state.options, vectors)


@kernel
def work(thread: int, state: State, order: int) -> None:
    """Thread 0: grow one tree with the helpers.  Helpers: grow trees until dismissed."""
    number = 0
    while True:
        if thread == 0:
            give_order(state.team, order)
        else:
            order = await_order(state.team, number)
            number += 1
        if order == ORDER_STOP:
            return
        grow_tree(thread, state, state.vectors, state.bins, state.sorted_columns)
        if thread == 0:
            return
