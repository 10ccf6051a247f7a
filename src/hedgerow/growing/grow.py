"""Growing one tree: the stages, in the order in which all threads run them.

::

    gradient pass, row sample
    root:   build histogram -> search
    until no node is worth a split or the tree is full:
        thread 0: settle the last search, choose a node, open its children
        partition its rows
        build the smaller child's histogram, get the larger one's by subtraction
        search both
    leaf values from exact sums -> raw scores

The control flow is that of XGBoost's ``UpdateTree``; leaf-wise and depth-wise
growth differ in the choice of the node only (:mod:`hedgerow.growing.frontier`).

Work of a stage is divided in two ways.  Rows of a large node are divided
between threads when a tile of features is all there is (each thread sums into
sums of its own, which are then merged); otherwise features are divided, which
needs no merge.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import BinArray, IntArray
from hedgerow.compile import kernel
from hedgerow.growing.frontier import advance, start_tree
from hedgerow.growing.goss import draw_rows
from hedgerow.growing.gradients import gradient_pass
from hedgerow.growing.leaves import finish_tree
from hedgerow.growing.sampling import allow_children
from hedgerow.growing.searching import search_node
from hedgerow.growing.state import (
    COUNT_LEFT,
    IS_COUNT_BITS,
    IS_G_APART,
    IS_HESSIAN_BITS,
    IS_LARGE,
    IS_LARGE_SLOT,
    IS_N_COLUMNS,
    IS_PARENT,
    IS_SEARCH_LARGE,
    IS_SEARCH_SMALL,
    IS_SMALL,
    IS_SMALL_SLOT,
    IS_SUBTRACT,
    NODE_COLUMN,
    NODE_COUNT,
    NODE_G,
    NODE_H,
    NODE_N_LEFT,
    NODE_SET,
    NODE_START,
    Extras,
    Rows,
    Settings,
    State,
)
from hedgerow.kernels.barrier import Crew, await_order, barrier, give_order, share
from hedgerow.kernels.histogram import (
    Bins,
    Columns,
    Packing,
    RowLists,
    Wide,
    add_column,
    build_histogram,
    filled_cells,
)
from hedgerow.kernels.partition import copy_forward, copy_reversed, divide

ROWS_TO_SHARE = 8192
"""Nodes with fewer rows are partitioned by one thread, and their histograms
divided by features: below this a merge costs more than it saves."""

ORDER_STOP = 0
ORDER_GROW = 1


@kernel(inline=True, inner=True)
def bare(state: State) -> State:
    """The state without extras: with them each call that takes a state copies 170 words more."""
    return State(
        state.crew,
        state.settings,
        state.rules,
        state.bins,
        state.loss_data,
        state.columns,
        state.rows,
        state.threads,
        state.search,
        state.wide,
        state.tree,
        state.scalars,
        None,
    )


@kernel(inner=True)
def partition_node(
    thread: int, crew: Crew, rows: Rows, column: BinArray, row: IntArray, counts: IntArray
) -> None:
    """Order the rows of the node with table row ``row`` by their bins: left child first."""
    start, count = row[NODE_START], row[NODE_COUNT]
    n_parts = crew.n_threads if count >= ROWS_TO_SHARE else np.int64(1)
    ids, scratch = rows.rows, rows.scratch
    first, last = np.int64(0), np.int64(0)
    if thread < n_parts:
        first, last = share(count, thread, n_parts)
    n_left = np.int64(0)
    if last > first:
        n_left = divide(column, row, NODE_SET, ids, scratch, start + first, start + last)
    counts[thread, COUNT_LEFT] = n_left
    if n_parts > 1:
        barrier(crew)
    if last > first:
        left_before = np.int64(0)
        for t in range(thread):
            left_before += counts[t, COUNT_LEFT]
        right_before = first - left_before
        middle = start + first + n_left
        copy_forward(ids, scratch, start + left_before, start + first, middle)
        right_at = start + row[NODE_N_LEFT] + right_before
        copy_reversed(ids, scratch, right_at, middle, start + last)
    barrier(crew)


@kernel(inner=True)
def build_node(
    thread: int,
    crew: Crew,
    settings: Settings,
    bins: Bins,
    columns: Columns,
    rows: Rows,
    cells: IntArray,
    wide: Wide,
    place: tuple[int, int],
    slot: int,
    scalars: IntArray,
    lists: RowLists | None,
) -> None:
    """Histogram of the rows at ``place`` (start, count); each thread completes its columns."""
    packing = Packing(scalars[IS_COUNT_BITS], scalars[IS_HESSIAN_BITS], scalars[IS_G_APART])
    start, count = place
    n_columns = scalars[IS_N_COLUMNS]
    slot_size = settings.n_columns * bins.stride
    n_tiles = (n_columns + bins.features_per_tile - 1) // bins.features_per_tile
    n_groups = crew.n_threads
    if count >= ROWS_TO_SHARE:
        n_groups = min(crew.n_threads, n_tiles)
    n_parts = crew.n_threads // n_groups
    group, part = thread % n_groups, thread // n_groups
    private = settings.n_slots + 2
    if part < n_parts:
        chosen = share(n_columns, group, n_groups)
        first, last = share(count, part, n_parts)
        target = slot if part == 0 else private + thread
        build_histogram(
            bins,
            packing,
            rows.packed,
            columns,
            chosen,
            rows.rows,
            start + first,
            start + last,
            cells,
            wide,
            target * slot_size,
            lists,
        )
    if n_groups == crew.n_threads:
        return  # each thread has built the very columns that it will search
    barrier(crew)
    mine = share(n_columns, thread, crew.n_threads)
    for other in range(n_groups, n_groups * n_parts):
        theirs = share(n_columns, other % n_groups, n_groups)
        for k in range(max(mine[0], theirs[0]), min(mine[1], theirs[1])):
            column = columns.feature[k]
            at = column * bins.stride
            source = (private + other) * slot_size + at
            filled = filled_cells(bins, column, lists is not None)
            add_column(wide, slot * slot_size + at, source, filled, bins.stride, 1)
    # The sums of one thread may be its own again: a second node may need them at once.
    barrier(crew)


@kernel(inner=True)
def subtract_node(
    mine: tuple[int, int],
    bins: Bins,
    columns: Columns,
    wide: Wide,
    large: int,
    small: int,
    lists: RowLists | None,
) -> None:
    """Turn the parent's histogram at ``large`` into the larger child's, for columns ``mine``."""
    for k in range(mine[0], mine[1]):
        column = columns.feature[k]
        at = column * bins.stride
        filled = filled_cells(bins, column, lists is not None)
        add_column(wide, large + at, small + at, filled, bins.stride, -1)


@kernel(inner=True)
def sum_root(columns: Columns, stride: int, wide: Wide, slot_start: int, root: IntArray) -> None:
    """Read the root's sums off the histogram of its first column."""
    at = slot_start + columns.feature[0] * stride
    g, h = np.int64(0), np.int64(0)
    for b in range(at, at + stride):
        g += wide.g[b]
        h += wide.h[b]
    root[NODE_G] = g
    root[NODE_H] = h


@kernel(inline=True, inner=True)
def search_children(thread: int, state: State, extras: Extras) -> None:
    """Histograms and best splits of the one or two nodes that have just been made."""
    crew, settings, bins, scalars = state.crew, state.settings, state.bins, state.scalars
    columns, wide, table = state.columns, state.wide, state.tree.table
    mine = share(scalars[IS_N_COLUMNS], thread, crew.n_threads)
    slot_size = settings.n_columns * bins.stride
    subtract = scalars[IS_SUBTRACT] == 1
    for child in range(2):
        node = scalars[IS_SMALL] if child == 0 else scalars[IS_LARGE]
        slot = scalars[IS_SMALL_SLOT] if child == 0 else scalars[IS_LARGE_SLOT]
        searched = scalars[IS_SEARCH_SMALL] if child == 0 else scalars[IS_SEARCH_LARGE]
        if node < 0:
            continue
        if child == 1 and subtract:
            small = scalars[IS_SMALL_SLOT] * slot_size
            subtract_node(mine, bins, columns, wide, slot * slot_size, small, extras.lists)
        elif searched == 1 or subtract:
            place = (table[node, NODE_START], table[node, NODE_COUNT])
            cells = state.threads.cells[thread]
            build_node(
                thread,
                crew,
                settings,
                bins,
                columns,
                state.rows,
                cells,
                wide,
                place,
                slot,
                scalars,
                extras.lists,
            )
        if node == 0:
            if mine[0] == 0 and mine[1] > 0:
                sum_root(columns, bins.stride, wide, slot * slot_size, table[0])
            barrier(crew)
        if searched == 1:
            search_node(
                thread,
                mine,
                settings,
                state.rules,
                bins,
                columns,
                (wide, slot * slot_size),
                state.search,
                child,
                table[node],
                scalars,
                extras,
            )
    barrier(crew)


@kernel
def work(thread: int, state: State, order: int) -> None:
    """Thread 0: grow one tree with the helpers.  Helpers: grow trees until dismissed."""
    crew, settings, rules = state.crew, state.settings, state.rules
    tree, scalars, search = state.tree, state.scalars, state.search
    counts = state.threads.counts
    number = 0
    while True:
        if thread == 0:
            give_order(crew, order)
        else:
            order = await_order(crew, number)
            number += 1
        if order == ORDER_STOP:
            return
        gradient_pass(thread, crew, settings, state.loss_data, state.rows, state.threads, scalars)
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
                search_children(thread, state, state.extras)
            if thread == 0:
                advance(settings, rules, tree, scalars, search.found, state.extras)
        finish_tree(
            thread,
            crew,
            settings,
            rules,
            state.rows,
            state.loss_data.raw,
            state.threads.leaf_sums,
            tree,
            scalars,
            state.extras,
        )
        if thread == 0:
            return
