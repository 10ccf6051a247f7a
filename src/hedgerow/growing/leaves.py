"""Leaf values from exact sums, and the raw scores that they change.

Histograms may hold rounded gradients; the value of a leaf never comes from
them.  It is the Newton step of the sums of the fixed gradients of its rows:
integers again, so any division of the rows between threads gives the same.
"""

from __future__ import annotations

import numpy as np

from hedgerow.compile import kernel
from hedgerow.growing.gradients import FIXED_BITS, power_of_two
from hedgerow.growing.state import (
    IS_G_EXPONENT,
    IS_H_EXPONENT,
    IS_N_NODES,
    IS_N_ROWS,
    IS_OUTPUT,
    NODE_COUNT,
    NODE_LEFT,
    NODE_RIGHT,
    NODE_START,
    State,
)
from hedgerow.kernels.barrier import barrier, share
from hedgerow.kernels.intrinsics import prefetch
from hedgerow.kernels.split import leaf_weight

_AHEAD = 32


@kernel
def sum_leaves(thread: int, state: State, start: int, stop: int) -> None:
    """Add up g and h over each leaf's rows at places ``start`` to ``stop``."""
    sums = state.threads.leaf_sums[thread]
    table = state.tree.table
    rows, fixed = state.rows.rows, state.rows.fixed
    for node in range(state.scalars[IS_N_NODES]):
        sums[0, node] = 0
        sums[1, node] = 0
        if table[node, NODE_LEFT] != 0:
            continue
        first = max(start, table[node, NODE_START])
        last = min(stop, table[node, NODE_START] + table[node, NODE_COUNT])
        g, h = np.int64(0), np.int64(0)
        for i in range(np.uint64(first), np.uint64(max(first, last))):
            prefetch(fixed, np.intp(np.uint64(2) * np.uint64(rows[i + np.uint64(_AHEAD)])))
            at = np.uint64(2) * np.uint64(rows[i])
            g += np.int64(fixed[at])
            h += np.int64(fixed[at + np.uint64(1)])
        sums[0, node] = g
        sums[1, node] = h


@kernel
def set_values(state: State) -> None:
    """Thread 0: values and covers of all nodes, children before parents."""
    settings, tree, sums = state.settings, state.tree, state.threads.leaf_sums
    g_unit = power_of_two(state.scalars[IS_G_EXPONENT] - FIXED_BITS)
    h_unit = 1.0
    if settings.constant_hessian == 0:
        h_unit = power_of_two(state.scalars[IS_H_EXPONENT] - FIXED_BITS)
    for node in range(state.scalars[IS_N_NODES] - 1, -1, -1):
        left, right = tree.table[node, NODE_LEFT], tree.table[node, NODE_RIGHT]
        g, h = np.int64(0), np.int64(0)
        if left != 0:
            g = sums[0, 0, left] + sums[0, 0, right]
            h = sums[0, 1, left] + sums[0, 1, right]
        else:
            for t in range(state.crew.n_threads):
                g += sums[t, 0, node]
                h += sums[t, 1, node]
        sums[0, 0, node] = g
        sums[0, 1, node] = h
        cover = float(h) * h_unit
        tree.cover[node] = cover
        tree.value[node] = settings.learning_rate * leaf_weight(float(g) * g_unit, cover, state.rules)


@kernel
def add_to_scores(state: State, start: int, stop: int) -> None:
    """Add each leaf's value to the raw scores of its rows at places ``start`` to ``stop``."""
    table, value = state.tree.table, state.tree.value
    rows = state.rows.rows
    raw = state.loss_data.raw[state.scalars[IS_OUTPUT]]
    for node in range(state.scalars[IS_N_NODES]):
        if table[node, NODE_LEFT] != 0:
            continue
        first = max(start, table[node, NODE_START])
        last = min(stop, table[node, NODE_START] + table[node, NODE_COUNT])
        for i in range(np.uint64(first), np.uint64(max(first, last))):
            prefetch(raw, np.intp(rows[i + np.uint64(_AHEAD)]))
            raw[np.uint64(rows[i])] += value[node]


@kernel
def finish_tree(thread: int, state: State) -> None:
    """Values of the leaves and new raw scores of the rows that the tree was grown on."""
    start, stop = share(state.scalars[IS_N_ROWS], thread, state.crew.n_threads)
    sum_leaves(thread, state, start, stop)
    barrier(state.crew)
    if thread == 0:
        set_values(state)
    barrier(state.crew)
    add_to_scores(state, start, stop)
    barrier(state.crew)
