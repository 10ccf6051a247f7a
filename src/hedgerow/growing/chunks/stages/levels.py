"""The search of a level of a symmetric tree, in the histograms of rows in chunks.

The stages are those of :mod:`hedgerow.growing.symmetric.stages`.  All histograms of the level
are kept.  Each rank has the histograms of its block of columns.  The rank with the best cut
measures the nodes and sends the result to the other ranks.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.growing.chunks.stages.nodes import subtract_job, take_best
from hedgerow.growing.core.state import IS_N_JOBS, NODE_SLOT, State
from hedgerow.growing.symmetric.level import (
    N_NODES,
    OF_ALL,
    OF_FORCED,
    choose_cut,
    divide_level,
    open_level,
    start_levels,
)
from hedgerow.growing.symmetric.stages import (
    add_job,
    begin_level,
    end_measure,
    find_best,
    measure_node,
    start_of,
    units_of_level,
)
from hedgerow.kernels.primitives.barrier import barrier, share
from hedgerow.kernels.primitives.intrinsics import by_reference


@kernel(inner=True)
def open_next(state: State) -> None:
    """List the nodes of the level and draw its columns."""
    constraints, allowed = state.options.constraints, state.search.allowed
    open_level(state.settings, allowed, state.level, state.tree, state.scalars, constraints)


@kernel
def begin_levels(state: State) -> None:
    """Make the root the first level."""
    start_levels(state.level, state.options.constraints)
    open_next(state)


@kernel
def search_chunk_level(thread: int, state: State, block: tuple[int, int], found: IntArray) -> None:
    """Compute the larger children's histograms, and the level's best cut in columns ``block``."""
    # ``found`` is written: int64 (2, FOUND_FIELDS), the best cut and the forced one.
    shared, level, vectors = by_reference(state), state.level, state.vectors
    constraints = state.options.constraints
    first, last = share(block[1] - block[0], thread, state.team.n_threads)
    span = (block[0] + first, block[0] + last)
    units, n_groups = units_of_level(shared, vectors), np.int64(0)
    if vectors.used == 1:
        vectors.trial.parent[thread, 0] = 0.0
    for j in range(state.scalars[IS_N_JOBS]):
        job = state.tree.batch[j]
        subtract_job(thread, span, shared, job)
        if j == 0:
            n_groups = begin_level(thread, span, shared, level, units, constraints, vectors)
        add_job(thread, span, shared, level, job, units, n_groups, constraints, vectors)
    find_best(thread, span, shared, level, units, n_groups, constraints, vectors)
    barrier(state.team)
    if thread == 0:
        take_best(shared, OF_ALL, found[OF_ALL])
        take_best(shared, OF_FORCED, found[OF_FORCED])


@kernel
def choose_cut_of_ranks(state: State, found: IntArray) -> None:
    """Take the best cut of all ranks: int64 (ranks, 2, FOUND_FIELDS)."""
    choose_cut(
        state.settings, state.rules, state.tree, state.scalars, found, state.level,
        state.options.constraints, state.vectors,
    )  # fmt: skip


@kernel
def measure_kept(state: State) -> None:
    """Compute the left sums of the chosen cut in every node, and the bins that go left."""
    none, level, shared = np.int64(0), state.level, by_reference(state)
    totals = (none, none, none, none)
    for k in range(level.counts[N_NODES]):
        node = level.nodes[k]
        start = start_of(level, state.tree.table[node, NODE_SLOT])
        constraints = state.options.constraints
        totals = measure_node(shared, level, node, start, totals, constraints, state.vectors)
    end_measure(shared, level, totals)


@kernel
def divide_nodes(state: State) -> None:
    """Divide the nodes of the level, and open the next one."""
    divide_level(
        state.settings, state.rules, state.tree, state.scalars, state.level, state.options,
        state.vectors,
    )  # fmt: skip
    open_next(state)
