"""Random subsets of rows and columns, drawn by hashes of what they are for.

A row is in the sample of a round if the hash of (seed, round, row) is small
enough; the columns of a level or a node are a shuffle keyed by (seed, tree,
depth or way from the root).  No draw depends on threads, nor on the order in which
nodes are split.
"""

from __future__ import annotations

import math

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core import state as s
from hedgerow.growing.core.batch import member
from hedgerow.growing.core.stages.branches import keep_permitted
from hedgerow.kernels.primitives.barrier import barrier, share
from hedgerow.kernels.primitives.hashing import hash64
from hedgerow.kernels.ranking import sort_descending
from hedgerow.kernels.splits.constraints import Constraints

ROW_STREAM = 1 << 40
LEVEL_STREAM = 2 << 40
NODE_STREAM = 3 << 40


@kernel(inline=True, inner=True)
def sampled_before(thread: int, counts: IntArray) -> tuple[int, int]:
    """Return the rows in the sample of the threads before this one, and those of all."""
    before, total = np.int64(0), np.int64(0)
    for t in range(counts.shape[0]):
        if t < thread:
            before += counts[t, s.COUNT_SAMPLED]
        total += counts[t, s.COUNT_SAMPLED]
    return before, total


@kernel(inner=True)
def sample_rows(thread: int, state: s.State) -> None:
    """Write the tree's rows to the front of the row ids and the others behind them."""
    team, settings, rows = state.team, state.settings, state.rows.rows
    counts, scalars, n_rows = state.threads.counts, state.scalars, state.settings.n_rows
    start, stop = share(n_rows, thread, team.n_threads)
    if settings.subsample >= 1.0:
        for i in range(start, stop):
            rows[i] = i
        if thread == 0:
            scalars[s.IS_N_ROWS] = n_rows
        barrier(team)
        return
    limit = np.uint64(settings.subsample * 2.0**63) << np.uint64(1)
    stream = np.uint64(scalars[s.IS_ROUND] + ROW_STREAM)
    first_row = np.uint64(scalars[s.IS_FIRST_ROW])
    taken = np.int64(0)
    for i in range(start, stop):
        taken += np.int64(hash64(settings.seed, stream, first_row + np.uint64(i)) < limit)
    counts[thread, s.COUNT_SAMPLED] = taken
    barrier(team)
    before, total = sampled_before(thread, counts)
    inside, outside = before, total + start - before
    for i in range(start, stop):
        if hash64(settings.seed, stream, first_row + np.uint64(i)) < limit:
            rows[inside] = i
            inside += 1
        else:
            rows[outside] = i
            outside += 1
    if thread == 0:
        scalars[s.IS_N_ROWS] = total
    barrier(team)


@kernel(inner=True)
def shuffle_front(
    constraints: Constraints, seed: int, stream: int, order: np.ndarray, n: int, fraction: float
) -> int:
    """Put a random choice of about ``fraction`` of ``order[:n]`` to the front; its size."""
    n_taken = max(np.int64(1), np.int64(np.rint(fraction * n)))
    if len(constraints.growth.weight) > 0:  # by weight: fewer if fewer have one above 0
        rules, chosen, spare = constraints.growth, constraints.used, constraints.permitted
        n_positive = np.int64(0)
        for k in range(n):
            weight = rules.weight[order[k]]
            n_positive += np.int64(weight > 0.0)
            bits = hash64(seed, np.uint64(stream), np.uint64(order[k])) >> np.uint64(11)
            rules.keys[k] = math.log((float(bits) + 0.5) * 2.0**-53) / weight
        sort_descending(rules.keys, n, chosen, spare)
        n_taken = min(n_taken, n_positive)
        for k in range(n_taken):
            spare[k] = order[chosen[k]]
        for k in range(n_taken):
            order[k] = spare[k]
        return n_taken
    for i in range(n_taken):
        draw = hash64(seed, np.uint64(stream), np.uint64(i))
        j = i + np.int64(draw % np.uint64(n - i))
        order[i], order[j] = order[j], order[i]
    return n_taken


@kernel(inline=True, inner=True)
def draw_level(state: s.State, depth: int) -> int:
    """List in ``allowed[2]`` the features of the tree that are drawn for a level; how many."""
    settings, scalars, order = state.settings, state.scalars, state.search.allowed[2]
    n = scalars[s.IS_N_FEATURES]
    for k in range(n):
        order[k] = state.options.features[k]
    if settings.columns_by_level < 1.0:
        stream, share_ = LEVEL_STREAM + (scalars[s.IS_TREE] << 8) + depth, settings.columns_by_level
        n = shuffle_front(state.options.constraints, settings.seed, stream, order, n, share_)
    return n


@kernel(inline=True, inner=True)
def allow_columns(state: s.State, child: int, n: int, key: int) -> None:
    """Mark in ``allowed[child]`` those of the ``n`` features listed that a node's key draws."""
    settings, allowed = state.settings, state.search.allowed
    if settings.columns_by_node < 1.0 and n > 0:
        stream, share_ = np.uint64(NODE_STREAM + state.scalars[s.IS_TREE]), settings.columns_by_node
        seed = hash64(settings.seed, stream, np.uint64(key))
        n = shuffle_front(state.options.constraints, seed, NODE_STREAM, allowed[2], n, share_)
    for j in range(allowed.shape[1]):
        allowed[child, j] = 0
    for k in range(n):
        allowed[child, allowed[2, k]] = 1


@kernel(inline=True, inner=True)
def takes_all(state: s.State) -> bool:
    """Return whether every tree, level and node may use all features: ``allowed`` stays 1."""
    settings = state.settings
    drawn = settings.columns_by_level < 1.0 or settings.columns_by_node < 1.0
    drawn = drawn or state.scalars[s.IS_N_FEATURES] < state.search.allowed.shape[1]
    return not drawn and state.options.constraints.together < 0


@kernel(inline=True, inner=True)
def allow_children(state: s.State, job: IntArray) -> None:
    """Thread 0: draw the columns of the nodes about to be searched."""
    if takes_all(state):
        return
    for child in range(2):
        node, _, searched = member(job, child)
        if searched == 1:
            row, constraints = state.tree.table[node], state.options.constraints
            n = draw_level(state, row[s.NODE_DEPTH])
            n = keep_permitted(constraints, state.tree.table, node, state.search.allowed[2], n)
            allow_columns(state, child, n, row[s.NODE_PATH])
