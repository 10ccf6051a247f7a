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

from hedgerow.compile import kernel
from hedgerow.growing.frontier import advance, node_sums, start_tree
from hedgerow.growing.gradients import gradient_pass
from hedgerow.growing.leaves import finish_tree
from hedgerow.growing.sampling import allow_children, sample_rows
from hedgerow.growing.state import (
    FOUND_FIELDS,
    IS_COUNT_BITS,
    IS_HESSIAN_BITS,
    IS_LARGE,
    IS_LARGE_SLOT,
    IS_LIMB_BITS,
    IS_N_LIMBS,
    IS_PARENT,
    IS_SEARCH_LARGE,
    IS_SEARCH_SMALL,
    IS_SMALL,
    IS_SMALL_SLOT,
    IS_SUBTRACT,
    NODE_BIN,
    NODE_COUNT,
    NODE_FEATURE,
    NODE_G,
    NODE_H,
    NODE_MISSING_LEFT,
    NODE_N_LEFT,
    NODE_START,
    State,
)
from hedgerow.kernels.barrier import await_order, barrier, give_order, share
from hedgerow.kernels.histogram import Packing, add_wide, build_histogram
from hedgerow.kernels.partition import copy_forward, copy_reversed, divide
from hedgerow.kernels.split import SplitScratch, no_split, search_feature

ROWS_TO_SHARE = 8192
"""Nodes with fewer rows are partitioned by one thread and their histograms
divided by features: below this a merge costs more than it saves."""

ORDER_STOP = 0
ORDER_GROW = 1


@kernel
def partition_node(thread: int, state: State, node: int) -> None:
    """Order the node's rows so that those of its left child come first."""
    row = state.tree.table[node]
    start, count = row[NODE_START], row[NODE_COUNT]
    n_parts = state.crew.n_threads if count >= ROWS_TO_SHARE else 1
    rows, scratch, counts = state.rows.rows, state.rows.scratch, state.threads.counts
    from_, to = share(count, thread, n_parts) if thread < n_parts else (np.int64(0), np.int64(0))
    n_left = np.int64(0)
    if to > from_:
        n_left = divide(
            state.bins.by_column[row[NODE_FEATURE]],
            row[NODE_BIN],
            state.bins.stride - 1,
            row[NODE_MISSING_LEFT],
            rows,
            scratch,
            start + from_,
            start + to,
        )
    counts[thread, 3] = n_left
    if n_parts > 1:
        barrier(state.crew)
    if to > from_:
        left_at = start
        for t in range(thread):
            left_at += counts[t, 3]
        right_at = start + row[NODE_N_LEFT] + from_ - (left_at - start)
        middle = start + from_ + n_left
        copy_forward(rows, scratch, left_at, start + from_, middle)
        copy_reversed(rows, scratch, right_at, middle, start + to)
    barrier(state.crew)


@kernel
def build_node(thread: int, state: State, node: int, slot: int) -> None:
    """Build the node's histogram from its rows; each thread completes its share of columns."""
    crew, bins, wide = state.crew, state.bins, state.wide
    scalars = state.scalars
    packing = Packing(
        scalars[IS_COUNT_BITS], scalars[IS_HESSIAN_BITS], scalars[IS_LIMB_BITS], scalars[IS_N_LIMBS]
    )
    start = state.tree.table[node, NODE_START]
    count = state.tree.table[node, NODE_COUNT]
    n_columns = state.n_columns[0]
    slot_size = state.settings.n_columns_total * bins.stride
    n_tiles = (n_columns + bins.features_per_tile - 1) // bins.features_per_tile
    n_groups = crew.n_threads
    if count >= ROWS_TO_SHARE:
        n_groups = min(crew.n_threads, n_tiles)
    n_parts = crew.n_threads // n_groups
    group, part = thread % n_groups, thread // n_groups
    private = state.settings.n_slots + 2
    if part < n_parts:
        columns = share(n_columns, group, n_groups)
        from_, to = share(count, part, n_parts)
        target = slot if part == 0 else private + thread
        build_histogram(
            bins, packing, state.rows.packed, state.columns, columns, state.rows.rows,
            start + from_, start + to, state.threads.cells[thread], wide, target * slot_size,
        )
    if n_parts == 1:
        return
    barrier(crew)
    first, last = share(n_columns, thread, crew.n_threads)
    for other in range(n_groups, n_groups * n_parts):
        group_first, group_last = share(n_columns, other % n_groups, n_groups)
        for k in range(max(first, group_first), min(last, group_last)):
            at = state.columns.feature[k] * bins.stride
            target = slot * slot_size + at
            add_wide(wide, target, (private + other) * slot_size + at, bins.stride, 1)


@kernel
def subtract_node(thread: int, state: State, large_slot: int, small_slot: int) -> None:
    """Turn the parent's histogram into the larger child's, for this thread's columns."""
    stride = state.bins.stride
    slot_size = state.settings.n_columns_total * stride
    first, last = share(state.n_columns[0], thread, state.crew.n_threads)
    for k in range(first, last):
        at = state.columns.feature[k] * stride
        add_wide(state.wide, large_slot * slot_size + at, small_slot * slot_size + at, stride, -1)


@kernel
def sum_root(thread: int, state: State, slot: int) -> None:
    """Read the root's sums off the histogram of its first column."""
    first, last = share(state.n_columns[0], thread, state.crew.n_threads)
    if first == 0 and last > 0:
        stride = state.bins.stride
        at = (slot * state.settings.n_columns_total + state.columns.feature[0]) * stride
        g, h = np.int64(0), np.int64(0)
        for b in range(at, at + stride):
            g += state.wide.g[b]
            h += state.wide.h[b]
        state.tree.table[0, NODE_G] = g
        state.tree.table[0, NODE_H] = h
    barrier(state.crew)


@kernel
def search_node(thread: int, state: State, node: int, slot: int, child: int) -> None:
    """Find the best split in this thread's columns and note it down."""
    bins = state.bins
    sums = node_sums(state, node)
    scratch = SplitScratch(
        state.scratch.g[thread],
        state.scratch.h[thread],
        state.scratch.n[thread],
        state.scratch.score[thread],
        state.scratch.bits[thread],
    )
    sampled = state.settings.columns_by_level < 1.0 or state.settings.columns_by_node < 1.0
    best = no_split()
    first, last = share(state.n_columns[0], thread, state.crew.n_threads)
    for k in range(first, last):
        feature = state.columns.feature[k]
        if sampled and state.tree.allowed[child, feature] == 0:
            continue
        at = (slot * state.settings.n_columns_total + feature) * bins.stride
        best = search_feature(
            state.wide, at, feature, bins.n_bins[feature], bins.stride,
            sums, state.rules, scratch, best,
        )
    found = state.threads.found[thread, child]
    state.threads.found_score[thread, child] = best.score
    found[0] = best.feature
    found[1] = best.bin
    found[2] = best.missing_left
    found[3] = best.g_left
    found[4] = best.h_left
    found[5] = best.n_left


@kernel
def search_children(thread: int, state: State) -> None:
    """Histograms and best splits of the one or two nodes that have just been made."""
    scalars = state.scalars
    small, large = scalars[IS_SMALL], scalars[IS_LARGE]
    small_slot, large_slot = scalars[IS_SMALL_SLOT], scalars[IS_LARGE_SLOT]
    subtract = scalars[IS_SUBTRACT] == 1
    if small >= 0 and (subtract or scalars[IS_SEARCH_SMALL] == 1):
        build_node(thread, state, small, small_slot)
    if large >= 0:
        if subtract:
            subtract_node(thread, state, large_slot, small_slot)
        else:
            build_node(thread, state, large, large_slot)
    elif small == 0:
        sum_root(thread, state, small_slot)
    if scalars[IS_SEARCH_SMALL] == 1:
        search_node(thread, state, small, small_slot, 0)
    if scalars[IS_SEARCH_LARGE] == 1:
        search_node(thread, state, large, large_slot, 1)
    barrier(state.crew)


@kernel
def grow_tree(thread: int, state: State) -> None:
    """Grow one tree and add it to the raw scores; every thread of the crew calls this."""
    gradient_pass(thread, state)
    sample_rows(thread, state)
    if thread == 0:
        start_tree(state)
        allow_children(state)
    barrier(state.crew)
    search_children(thread, state)
    while True:
        if thread == 0:
            advance(state)
            allow_children(state)
        barrier(state.crew)
        parent = state.scalars[IS_PARENT]
        if parent < 0:
            break
        partition_node(thread, state, parent)
        if state.scalars[IS_LARGE] >= 0:
            search_children(thread, state)
    finish_tree(thread, state)


@kernel
def lead(state: State) -> None:
    """Thread 0: grow one tree together with the threads that stand in :func:`follow`."""
    give_order(state.crew, ORDER_GROW)
    grow_tree(0, state)


@kernel
def dismiss(state: State) -> None:
    """Thread 0: let the threads in :func:`follow` return."""
    give_order(state.crew, ORDER_STOP)


@kernel
def follow(thread: int, state: State) -> None:
    """Grow trees at thread 0's orders, until dismissed."""
    number = 0
    while True:
        order = await_order(state.crew, number)
        number += 1
        if order == ORDER_STOP:
            return
        grow_tree(thread, state)


__all__ = ["FOUND_FIELDS", "dismiss", "follow", "lead"]
