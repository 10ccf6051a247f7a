"""Random subsets of rows and columns, drawn by hashes of what they are for.

A row is in the sample of a tree if the hash of (seed, tree, row) is small
enough; the columns of a level or a node are a shuffle keyed by (seed, tree,
depth or node).  No draw depends on threads or on the order of work.
"""

from __future__ import annotations

import numpy as np

from hedgerow.compile import kernel
from hedgerow.growing.state import (
    IS_LARGE,
    IS_N_ROWS,
    IS_SMALL,
    IS_TREE,
    NODE_DEPTH,
    State,
)
from hedgerow.kernels.barrier import barrier, share
from hedgerow.kernels.hashing import hash64

ROW_STREAM = 1 << 40
LEVEL_STREAM = 2 << 40
NODE_STREAM = 3 << 40


@kernel
def sample_rows(thread: int, state: State) -> None:
    """Write the tree's rows to the front of ``rows`` and the others behind them."""
    n_rows = state.settings.n_rows
    rows, counts = state.rows.rows, state.threads.counts
    start, stop = share(n_rows, thread, state.crew.n_threads)
    if state.settings.subsample >= 1.0:
        for i in range(start, stop):
            rows[i] = i
        if thread == 0:
            state.scalars[IS_N_ROWS] = n_rows
        barrier(state.crew)
        return
    limit = np.uint64(state.settings.subsample * 2.0**63) << np.uint64(1)
    stream = np.uint64(state.scalars[IS_TREE] + ROW_STREAM)
    taken = 0
    for i in range(start, stop):
        taken += hash64(state.settings.seed, stream, np.uint64(i)) < limit
    counts[thread, 2] = taken
    barrier(state.crew)
    before, total = np.int64(0), np.int64(0)
    for t in range(state.crew.n_threads):
        if t < thread:
            before += counts[t, 2]
        total += counts[t, 2]
    inside, outside = before, total + start - before
    for i in range(start, stop):
        if hash64(state.settings.seed, stream, np.uint64(i)) < limit:
            rows[inside] = i
            inside += 1
        else:
            rows[outside] = i
            outside += 1
    if thread == 0:
        state.scalars[IS_N_ROWS] = total
    barrier(state.crew)


@kernel
def shuffle_front(state: State, stream: int, columns: np.ndarray, n: int, n_taken: int) -> None:
    """Put a random choice of ``n_taken`` of ``columns[:n]`` to the front."""
    for i in range(n_taken):
        draw = hash64(state.settings.seed, np.uint64(stream), np.uint64(i))
        j = i + np.int64(draw % np.uint64(n - i))
        columns[i], columns[j] = columns[j], columns[i]


@kernel
def allow_columns(state: State, child: int, node: int) -> None:
    """Mark the columns in which a split of ``node`` is looked for."""
    settings = state.settings
    allowed = state.tree.allowed[child]
    order = state.tree.shuffled
    n = state.n_columns[0]
    for k in range(n):
        order[k] = state.columns.feature[k]
    tree = state.scalars[IS_TREE]
    if settings.columns_by_level < 1.0:
        depth = state.tree.table[node, NODE_DEPTH]
        n_taken = max(np.int64(1), np.int64(np.rint(settings.columns_by_level * n)))
        shuffle_front(state, LEVEL_STREAM + (tree << 8) + depth, order, n, n_taken)
        n = n_taken
    if settings.columns_by_node < 1.0:
        n_taken = max(np.int64(1), np.int64(np.rint(settings.columns_by_node * n)))
        shuffle_front(state, NODE_STREAM + (tree << 20) + node, order, n, n_taken)
        n = n_taken
    allowed[:] = 0
    for k in range(n):
        allowed[order[k]] = 1


@kernel
def allow_children(state: State) -> None:
    """Thread 0: draw the columns of the nodes about to be searched."""
    if state.settings.columns_by_level >= 1.0 and state.settings.columns_by_node >= 1.0:
        return
    if state.scalars[IS_SMALL] >= 0:
        allow_columns(state, 0, state.scalars[IS_SMALL])
    if state.scalars[IS_LARGE] >= 0:
        allow_columns(state, 1, state.scalars[IS_LARGE])
