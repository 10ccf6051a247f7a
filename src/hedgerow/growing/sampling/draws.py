"""Random subsets of rows and columns, drawn by hashes of what they are for.

A row is in the sample of a round if the hash of (seed, round, row) is small
enough; the columns of a level or a node are a shuffle keyed by (seed, tree,
depth or way from the root).  No draw depends on threads, nor on the order in which
nodes are split.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray, RowArray
from hedgerow.compile import kernel
from hedgerow.growing.core import state as s
from hedgerow.growing.core.batch import member
from hedgerow.growing.core.stages.branches import keep_permitted
from hedgerow.kernels.primitives.barrier import ThreadTeam, barrier, share
from hedgerow.kernels.primitives.hashing import hash64
from hedgerow.kernels.splits.growth import draw_weighted
from hedgerow.kernels.splits.monotone import Constraints

ROW_STREAM = 1 << 40
LEVEL_STREAM = 2 << 40
NODE_STREAM = 3 << 40


@kernel(inner=True)
def sample_rows(
    thread: int,
    team: ThreadTeam,
    settings: s.Settings,
    rows: RowArray,
    counts: IntArray,
    scalars: IntArray,
) -> None:
    """Write the tree's rows to the front of ``rows`` and the others behind them."""
    n_rows = settings.n_rows
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
    before, total = np.int64(0), np.int64(0)
    for t in range(team.n_threads):
        if t < thread:
            before += counts[t, s.COUNT_SAMPLED]
        total += counts[t, s.COUNT_SAMPLED]
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
    if len(constraints.growth.weight) > 0:
        return draw_weighted(
            constraints.growth,
            seed,
            stream,
            order,
            n,
            n_taken,
            constraints.used,
            constraints.permitted,
        )
    for i in range(n_taken):
        draw = hash64(seed, np.uint64(stream), np.uint64(i))
        j = i + np.int64(draw % np.uint64(n - i))
        order[i], order[j] = order[j], order[i]
    return n_taken


@kernel(inline=True, inner=True)
def allow_columns(
    settings: s.Settings,
    allowed: np.ndarray,
    child: int,
    node: int,
    table: IntArray,
    scalars: IntArray,
    options: s.Options,
) -> None:
    """Mark in ``allowed[child]`` the features of which a split of ``node`` is looked for."""
    order, constraints = allowed[2], options.constraints
    n = draw_level(
        settings, options.features, order, table[node, s.NODE_DEPTH], scalars, constraints
    )
    n = keep_permitted(constraints, table, node, order, n)
    n = draw_node(settings, order, n, table[node, s.NODE_PATH], scalars, constraints)
    mark_columns(allowed, child, n)


@kernel(inline=True, inner=True)
def draw_level(
    settings: s.Settings,
    features: np.ndarray,
    order: np.ndarray,
    depth: int,
    scalars: IntArray,
    constraints: Constraints,
) -> int:
    """List in ``order`` the features of the tree that are drawn for a level; how many."""
    n = scalars[s.IS_N_FEATURES]
    for k in range(n):
        order[k] = features[k]
    if settings.columns_by_level < 1.0:
        stream = LEVEL_STREAM + (scalars[s.IS_TREE] << 8) + depth
        n = shuffle_front(constraints, settings.seed, stream, order, n, settings.columns_by_level)
    return n


@kernel(inline=True, inner=True)
def draw_node(
    settings: s.Settings,
    order: np.ndarray,
    n: int,
    key: int,
    scalars: IntArray,
    constraints: Constraints,
) -> int:
    """Put those of ``order[:n]`` to the front that are drawn by a key of a node; how many."""
    if settings.columns_by_node < 1.0 and n > 0:
        stream = np.uint64(NODE_STREAM + scalars[s.IS_TREE])
        seed = hash64(settings.seed, stream, np.uint64(key))
        n = shuffle_front(constraints, seed, NODE_STREAM, order, n, settings.columns_by_node)
    return n


@kernel(inline=True, inner=True)
def mark_columns(allowed: np.ndarray, child: int, n: int) -> None:
    """Mark the first ``n`` features of the list ``allowed[2]``, and no other."""
    for j in range(allowed.shape[1]):
        allowed[child, j] = 0
    for k in range(n):
        allowed[child, allowed[2, k]] = 1


@kernel(inline=True, inner=True)
def takes_all(
    settings: s.Settings, allowed: np.ndarray, scalars: IntArray, constraints: Constraints
) -> bool:
    """Return whether every tree, level and node may use all features: ``allowed`` stays 1."""
    drawn = settings.columns_by_level < 1.0 or settings.columns_by_node < 1.0
    drawn = drawn or scalars[s.IS_N_FEATURES] < allowed.shape[1]
    return not drawn and constraints.together < 0


@kernel(inline=True, inner=True)
def allow_children(
    settings: s.Settings,
    allowed: np.ndarray,
    table: IntArray,
    job: IntArray,
    scalars: IntArray,
    options: s.Options,
) -> None:
    """Thread 0: draw the columns of the nodes about to be searched."""
    if takes_all(settings, allowed, scalars, options.constraints):
        return
    for child in range(2):
        node, _, searched = member(job, child)
        if searched == 1:
            allow_columns(settings, allowed, child, node, table, scalars, options)
