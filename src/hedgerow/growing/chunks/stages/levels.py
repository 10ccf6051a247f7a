"""The search of a level of a symmetric tree, in the histograms of rows in chunks.

The stages are those of :mod:`hedgerow.growing.symmetric.stages`.  All histograms of the level
are kept.  Each rank has the histograms of its block of columns.  The rank with the best cut
measures the nodes and sends the result to the other ranks.
"""

from __future__ import annotations

import numpy as np

from hedgerow.compile import kernel
from hedgerow.growing.chunks.stages.nodes import subtract_job
from hedgerow.growing.core.state import IS_N_JOBS, NODE_SLOT, Level, State, Vectors
from hedgerow.growing.symmetric.level import (
    N_NODES,
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
from hedgerow.kernels.primitives.barrier import ThreadTeam, barrier, share


@kernel(inner=True)
def open_batch_of_level(state: State, level: Level) -> None:
    """List the nodes of the level and draw its columns."""
    constraints = state.options.constraints
    open_level(state.settings, state.search.allowed, level, state.tree, state.scalars, constraints)


@kernel
def begin_levels(state: State, level: Level) -> None:
    """Make the root the first level."""
    start_levels(level, state.options.constraints)
    open_batch_of_level(state, level)


@kernel
def search_chunk_level(
    thread: int,
    team: ThreadTeam,
    state: State,
    level: Level,
    block: tuple[int, int],
    vectors: Vectors | None,
) -> None:
    """Compute the larger children's histograms, and the level's best cut in columns ``block``."""
    constraints = state.options.constraints
    first, last = share(block[1] - block[0], thread, team.n_threads)
    span = (block[0] + first, block[0] + last)
    place = (state.histograms, level.slot_size, level.before)
    units, n_groups = units_of_level(state, vectors), np.int64(0)
    if vectors is not None:
        vectors.trial.parent[thread, 0] = 0.0
    for j in range(state.scalars[IS_N_JOBS]):
        job = state.tree.batch[j]
        subtract_job(thread, span, state.bins, state.columns, place, job, state.options, vectors)
        if j == 0:
            n_groups = begin_level(thread, span, state, level, units, constraints, vectors)
        add_job(thread, span, state, level, job, units, n_groups, constraints, vectors)
    find_best(thread, span, state, level, units, n_groups, constraints, vectors)
    barrier(team)


@kernel
def measure_kept(state: State, level: Level, vectors: Vectors | None) -> None:
    """Compute the left sums of the chosen cut in every node, and the bins that go left."""
    none = np.int64(0)
    totals = (none, none, none, none)
    for k in range(level.counts[N_NODES]):
        node = level.nodes[k]
        start = start_of(level, state.tree.table[node, NODE_SLOT])
        constraints = state.options.constraints
        totals = measure_node(state, level, node, start, totals, constraints, vectors)
    end_measure(state, level, totals)


@kernel
def divide_nodes(state: State, level: Level, vectors: Vectors | None) -> None:
    """Divide the nodes of the level, and open the next one."""
    divide_level(
        state.settings, state.rules, state.tree, state.scalars, level, state.options, vectors
    )
    open_batch_of_level(state, level)
