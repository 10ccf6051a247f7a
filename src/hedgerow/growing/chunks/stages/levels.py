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
from hedgerow.growing.core import state as s
from hedgerow.growing.core.state import IS_N_JOBS, NODE_SLOT, State
from hedgerow.growing.symmetric.level import choose_cut, divide_level, open_level, start_levels
from hedgerow.growing.symmetric.search import find_best
from hedgerow.growing.symmetric.stages import (
    end_measure,
    measure_node,
    search_job,
    units_of_level,
)
from hedgerow.kernels.primitives.barrier import barrier, share
from hedgerow.kernels.primitives.intrinsics import by_reference


@kernel
def begin_levels(state: State) -> None:
    """Make the root the first level."""
    shared = by_reference(state)
    start_levels(shared)
    open_level(shared)


@kernel
def search_chunk_level(thread: int, state: State, block: tuple[int, int], found: IntArray) -> None:
    """Compute the larger children's histograms, and the level's best cut in columns ``block``."""
    # ``found`` is written: int64 (2, FOUND_FIELDS), the best cut and the forced one.
    shared, vectors = by_reference(state), state.vectors
    first, last = share(block[1] - block[0], thread, state.team.n_threads)
    span = (block[0] + first, block[0] + last)
    n_groups = np.int64(-1)
    if vectors.used == 1:
        vectors.trial.parent[thread, 0] = 0.0
    for j in range(state.scalars[IS_N_JOBS]):
        job = state.tree.batch[j]
        subtract_job(thread, span, shared, job)
        n_groups = search_job(thread, span, shared, job, n_groups, vectors)
    find_best(thread, span, shared, units_of_level(shared, vectors), n_groups, vectors)
    barrier(state.team)
    if thread == 0:
        take_best(shared, s.OF_ALL, found[s.OF_ALL])
        take_best(shared, s.OF_FORCED, found[s.OF_FORCED])


@kernel
def choose_cut_of_ranks(state: State, found: IntArray) -> None:
    """Take the best cut of all ranks: int64 (ranks, 2, FOUND_FIELDS)."""
    choose_cut(by_reference(state), found, state.vectors)


@kernel
def measure_kept(state: State) -> None:
    """Compute the left sums of the chosen cut in every node, and the bins that go left."""
    none, level, shared = np.int64(0), state.level, by_reference(state)
    totals = (none, none, none, none)
    for k in range(level.counts[s.N_NODES]):
        node = level.nodes[k]
        slot = state.tree.table[node, NODE_SLOT]
        totals = measure_node(shared, node, slot, totals, state.vectors)
    end_measure(shared, totals)


@kernel
def divide_nodes(state: State) -> None:
    """Divide the nodes of the level, and open the next one."""
    shared = by_reference(state)
    divide_level(shared, state.vectors)
    open_level(shared)
