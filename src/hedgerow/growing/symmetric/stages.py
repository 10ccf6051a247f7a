"""The search of a level of a symmetric tree: one cut, which divides all of its nodes.

::

    for each job of the batch:
        histograms of its nodes
        for each of its nodes, from left to right: add the gains of all cuts
    thread 0: the cut with the largest gain, and what it sends left in each node

A node in which the cut would leave a side with too few rows or too little hessian is not
divided, and is there again on the next level: the tree is stored like any other.

Threads have columns of their own for histograms and gains.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core import state as s
from hedgerow.growing.core.batch import member
from hedgerow.growing.core.stages.building import build_rows, make_histogram
from hedgerow.growing.core.stages.bundle_search import scratch_of, sums_of_feature
from hedgerow.growing.symmetric.level import (
    child_at,
    choose_cut,
    set_number,
    split_penalty,
    sum_left,
    write_choice,
)
from hedgerow.growing.symmetric.search import (
    add_gains,
    begin_level,
    find_best,
    histogram_of,
    sums_of_node,
)
from hedgerow.growing.vectors.search import keep_middles, keep_own, prepare_node, sets_of_node
from hedgerow.kernels.primitives.barrier import barrier
from hedgerow.kernels.splits.category_split import penalised
from hedgerow.kernels.splits.split import Split
from hedgerow.kernels.splits.vector_category import score_set
from hedgerow.kernels.splits.vector_gains import score_unit
from hedgerow.kernels.splits.vector_level import fill_set
from hedgerow.kernels.splits.vector_split import first_cell, score_of_cut

Totals = tuple[int, int, int, int]
"""Rows of a level: all, those with a value that go left, those without, and all that go left."""


@kernel(inline=True, inner=True)
def search_job(
    thread: int, span: tuple[int, int], state: s.State, job: IntArray, n_groups: int
) -> int:
    """Add the gains of the nodes of a job, the left one first; return the number of groups."""
    if n_groups < 0:  # the first job of the level
        n_groups = begin_level(thread, span, state, member(job, 0).slot)
        if state.vectors.used == 1:
            state.vectors.trial.parent[thread, 0] = 0.0
    for side in range(2):
        node, slot, searched = member(job, child_at(job, side))
        if searched == 1:
            add_gains(thread, span, state, node, slot, n_groups)
    return n_groups


@kernel(inline=True, inner=True)
def search_level(thread: int, span: tuple[int, int], state: s.State, n_jobs: int) -> None:
    """Compute histograms of the level's nodes, their common cut, and its left rows in each."""
    level, batch = state.level, state.tree.batch
    n_slotless, n_groups = level.counts[s.N_SLOTLESS], np.int64(-1)
    for j in range(n_jobs):
        for child in range(2):
            make_histogram(thread, span, state, batch[j], child)
        n_groups = search_job(thread, span, state, batch[j], n_groups)
    find_best(thread, span, state, n_groups)
    barrier(state.team)
    if thread == 0:
        choose_cut(state, state.search.found)
    barrier(state.team)
    if level.choice[s.FOUND_FEATURE] >= 0:
        measure_cut(thread, state, n_slotless)


@kernel(inner=True)
def measure_vectors(state: s.State, node: int, slot: int) -> float:
    """Thread 0: what the choice gains in a node, or minus infinity if it does not divide it."""
    constraints, choice = state.options.constraints, state.level.choice
    feature, values = choice[s.FOUND_FEATURE], state.vectors.outputs.vectors[node]
    start, n_left = histogram_of(state, slot).start, state.tree.table[node, s.NODE_N_LEFT]
    several, limits, own = prepare_node(0, feature, state, start, node)
    if several.smooth > 0.0:
        keep_own(several, values)
    if set_number(state, feature) >= 0:
        sets = sets_of_node(0, several, state)
        fill_set(first_cell(several, feature), choice, s.FOUND_SET, sets)
        rules = penalised(state.rules, split_penalty(state))
        return 0.5 * (score_set(n_left, rules, sets) - own)
    cut, missing_left = choice[s.FOUND_BIN], choice[s.FOUND_MISSING_LEFT]
    sign = constraints.sign[feature] if cut != constraints.last_bin[feature] else 0.0
    unit = score_unit(several)
    gain = score_of_cut(several, feature, limits, cut, missing_left, (sign, sign)) - own / unit
    if several.ordered == 1 and gain > -np.inf:
        taken = Split(0.0, feature, cut, missing_left, 0, 0, n_left)
        keep_middles(taken, several, constraints, values)
    return 0.5 * unit * gain


@kernel(inline=True, inner=True)
def measure_node(state: s.State, node: int, slot: int, totals: Totals) -> Totals:
    """Thread 0: what the choice sends left in a node, added to the rows of the level."""
    row, histogram = state.tree.table[node], histogram_of(state, slot)
    bundles = state.options.bundles
    choice, stride = state.level.choice, histogram.stride
    feature, to = choice[s.FOUND_FEATURE], scratch_of(bundles, 0, stride)
    at = sums_of_feature(histogram, feature, sums_of_node(row), to, bundles)
    is_set = set_number(state, feature) >= 0
    counts = sum_left(histogram.sums, at, stride, choice, is_set, row)
    if state.vectors.used == 1:
        state.tree.numbers[node, s.NUMBER_GAIN] = measure_vectors(state, node, slot)
    n_rows, present, n_missing, n_left = totals
    return (
        n_rows + row[s.NODE_COUNT],
        present + counts[0],
        n_missing + counts[1],
        n_left + row[s.NODE_N_LEFT],
    )


@kernel(inline=True, inner=True)
def measure_cut(thread: int, state: s.State, n_slotless: int) -> None:
    """Thread 0: what the choice sends left in every node, and the bins that go left."""
    none, level, table = np.int64(0), state.level, state.tree.table
    totals, n_nodes = (none, none, none, none), level.counts[s.N_NODES]
    for k in range(n_nodes):
        if thread > 0 and n_slotless == 0:
            break
        node = level.nodes[k]
        slot = table[node, s.NODE_SLOT]
        is_built = slot < 0
        # A histogram that was not kept is built again, by all threads.
        if is_built:
            slot = state.settings.n_slots
            build_rows(thread, state, node, slot, np.int64(-1))
            barrier(state.team)
        if thread == 0:
            totals = measure_node(state, node, slot, totals)
        if is_built:
            barrier(state.team)
    if thread == 0:
        write_choice(state, totals)
        level.penalty[0] = split_penalty(state)
    if n_slotless > 0:
        barrier(state.team)
