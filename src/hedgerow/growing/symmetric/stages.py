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
from hedgerow.growing.core.batch import member
from hedgerow.growing.core.stages.building import build_rows, make_histogram
from hedgerow.growing.core.stages.bundle_search import scratch_of, sums_of_feature
from hedgerow.growing.core.stages.gradients import units_of
from hedgerow.growing.core.state import (
    FOUND_BIN,
    FOUND_FEATURE,
    FOUND_MISSING_LEFT,
    FOUND_SET,
    IS_DROPPED_BITS,
    IS_TREE,
    NODE_COUNT,
    NODE_G,
    NODE_H,
    NODE_N_LEFT,
    NODE_SLOT,
    NUMBER_GAIN,
    Level,
    State,
    Vectors,
)
from hedgerow.growing.symmetric.gain import Price
from hedgerow.growing.symmetric.level import (
    FORCED_CUT,
    LEVEL,
    N_NODES,
    N_SLOTLESS,
    OF_ALL,
    OF_FORCED,
    child_at,
    choose_cut,
    price_of_vectors,
    set_number,
    split_penalty,
    sum_left,
    write_choice,
)
from hedgerow.growing.symmetric.search import (
    add_node_gains,
    add_node_sets,
    add_vector_gains,
    find_cut,
    find_forced,
    find_set,
    look_at_root,
    plan_groups,
)
from hedgerow.growing.vectors.gradients import largest_units, write_units
from hedgerow.growing.vectors.search import (
    groups_of,
    keep_middles,
    keep_own,
    node_of,
    prepare_node,
)
from hedgerow.kernels.primitives.barrier import barrier
from hedgerow.kernels.splits.growth import key_of_level
from hedgerow.kernels.splits.monotone import Constraints
from hedgerow.kernels.splits.split import NodeSums, Split, Units
from hedgerow.kernels.splits.vector_gains import score_unit
from hedgerow.kernels.splits.vector_level import NodeSets, fill_set, gain_of_side
from hedgerow.kernels.splits.vector_split import gain_of_cut


@kernel(inline=True, inner=True)
def start_of(level: Level, slot: int) -> int:
    """Return the first cell of the histogram in a slot."""
    return level.before + slot * level.slot_size


@kernel(inline=True, inner=True)
def sums_of_node(row: IntArray) -> NodeSums:
    """Return the sums in the table row of a node."""
    return NodeSums(row[NODE_G], row[NODE_H], row[NODE_COUNT])


@kernel(inner=True)
def add_gains(
    thread: int,
    span: tuple[int, int],
    state: State,
    level: Level,
    node: int,
    start: int,
    units: Units,
    n_groups: int,
    constraints: Constraints,
    vectors: Vectors | None,
) -> None:
    """Add what every cut of a thread's columns gains in a node with a histogram at ``start``."""
    row, rules, bins = state.tree.table[node], state.rules, state.bins
    groups, gains = (level.groups[thread], n_groups), level.gains[thread]
    columns = state.columns.feature
    if vectors is None or vectors.used == 0:
        place, searched = (state.histograms, start), (sums_of_node(row), units, node)
        lanes, allowed = state.search.lanes[thread], state.search.allowed[0]
        add_node_gains(
            thread, rules, bins, place, searched, lanes, groups, gains, constraints, level.bundles
        )
        add_node_sets(
            span, rules, bins, (columns, allowed), place, searched, level.sets, constraints, None
        )
    else:
        outputs, searched = vectors.outputs, (sums_of_node(row), units, node)
        at = (row[NODE_COUNT], start, node)
        several = node_of(thread, state.settings, at, vectors, constraints)
        first = np.int64(columns[span[0]]) if span[1] > span[0] else np.int64(-1)
        limits, parent = prepare_node(
            state.settings, rules, bins, first, several, outputs, constraints, state.tree.table
        )
        vectors.trial.parent[thread, 0] += max(parent, 0.0)
        of_sets = NodeSets(outputs.sums, several, groups_of(thread, vectors.trial.sets), parent)
        add_node_sets(
            span, rules, bins, (columns, state.search.allowed[0]), (state.histograms, start),
            searched, level.sets, constraints, of_sets,
        )  # fmt: skip
        parent /= units.g * (units.g / units.h)
        add_vector_gains(several, limits, parent, bins, outputs.sums, groups, gains, constraints)


@kernel(inline=True, inner=True)
def units_of_level(state: State, vectors: Vectors | None) -> Units:
    """Return units of the sums in histograms."""
    constant = state.settings.constant_hessian
    if vectors is None or vectors.used == 0:
        return units_of(state.scalars, constant, state.scalars[IS_DROPPED_BITS])
    return largest_units(constant, vectors.outputs)


@kernel(inline=True, inner=True)
def root_of_vectors(
    thread: int, state: State, start: int, vectors: Vectors, constraints: Constraints
) -> NodeSets:
    """Return the root, with the data for the orders of categories."""
    outputs, place = vectors.outputs, (state.tree.table[0, NODE_COUNT], start, np.int64(0))
    node = node_of(thread, state.settings, place, vectors, constraints)
    write_units(state.settings.constant_hessian, outputs, node.units)
    return NodeSets(outputs.sums, node, groups_of(thread, vectors.trial.sets), 0.0)


@kernel(inline=True, inner=True)
def begin_level(
    thread: int,
    span: tuple[int, int],
    state: State,
    level: Level,
    units: Units,
    constraints: Constraints,
    vectors: Vectors | None,
) -> int:
    """Group the thread's columns, set their gains to 0, and return the number of groups."""
    # The histogram of the first job is there: in the first level, that of the root.
    table, bins, columns = state.tree.table, state.bins, state.columns.feature
    if level.counts[LEVEL] == 0:
        start = start_of(level, member(state.tree.batch[0], 0).slot)
        place, root = (state.histograms, start), sums_of_node(table[0])
        drawn, bundles = constraints.growth.drawn, level.bundles
        if vectors is None or vectors.used == 0:
            look_at_root(
                thread, span, bins, columns, place, root, units, level.seen, level.sets, drawn,
                bundles, None,
            )  # fmt: skip
        else:
            look_at_root(
                thread, span, bins, columns, place, root, units, level.seen, level.sets, drawn,
                bundles, root_of_vectors(thread, state, start, vectors, constraints),
            )  # fmt: skip
    return plan_groups(
        span, bins, columns, state.search.allowed[0], level.seen, level.groups[thread],
        level.gains[thread], level.sets, level.bundles,
    )  # fmt: skip


@kernel(inline=True, inner=True)
def add_job(
    thread: int,
    span: tuple[int, int],
    state: State,
    level: Level,
    job: IntArray,
    units: Units,
    n_groups: int,
    constraints: Constraints,
    vectors: Vectors | None,
) -> None:
    """Add the gains of the nodes of a job, the left one first."""
    for side in range(2):
        node, slot, searched = member(job, child_at(job, side))
        if searched == 1:
            start = start_of(level, slot)
            add_gains(
                thread, span, state, level, node, start, units, n_groups, constraints, vectors
            )


@kernel(inline=True, inner=True)
def find_best(
    thread: int,
    span: tuple[int, int],
    state: State,
    level: Level,
    units: Units,
    n_groups: int,
    constraints: Constraints,
    vectors: Vectors | None,
) -> None:
    """Find the best cut of the thread's columns, and the forced cut of the level."""
    allowed, lanes = state.search.allowed[0], state.search.lanes[thread]
    groups, gains = level.groups[thread], level.gains[thread]
    found, forced = state.search.found[thread], level.counts[FORCED_CUT]
    key = key_of_level(state.settings.seed, state.scalars[IS_TREE], level.counts[LEVEL])
    gamma = state.rules.gamma
    if vectors is not None and vectors.used == 1:
        gamma = price_of_vectors(state.rules, vectors)
    price = Price(level.counts[LEVEL], 2.0 * gamma, key)
    find_cut(units, (groups, n_groups), gains, lanes, found[OF_ALL], price, constraints, level.seen)
    find_set(
        span, state.bins, state.columns.feature, allowed, units, found[OF_ALL], level.sets, price,
        constraints,
    )  # fmt: skip
    if forced >= 0:
        find_forced(units, (groups, n_groups), gains, forced, found[OF_FORCED], price, constraints)


@kernel(inline=True, inner=True)
def search_level(thread: int, span: tuple[int, int], state: State, n_jobs: int) -> None:
    """Compute histograms of the level's nodes, their common cut, and its left rows in each."""
    level, constraints, vectors = state.level, state.options.constraints, state.vectors
    batch, n_slotless = state.tree.batch, level.counts[N_SLOTLESS]
    units, n_groups = units_of_level(state, vectors), np.int64(0)
    if vectors.used == 1:
        vectors.trial.parent[thread, 0] = 0.0
    for j in range(n_jobs):
        for child in range(2):
            make_histogram(thread, span, state, batch[j], child)
        if j == 0:
            n_groups = begin_level(thread, span, state, level, units, constraints, vectors)
        add_job(thread, span, state, level, batch[j], units, n_groups, constraints, vectors)
    find_best(thread, span, state, level, units, n_groups, constraints, vectors)
    barrier(state.team)
    if thread == 0:
        found = state.search.found
        choose_cut(
            state.settings,
            state.rules,
            state.tree,
            state.scalars,
            found,
            level,
            constraints,
            vectors,
        )
    barrier(state.team)
    if level.choice[FOUND_FEATURE] >= 0:
        measure_cut(thread, state, n_slotless)


@kernel(inner=True)
def measure_vectors(
    state: State,
    level: Level,
    place: tuple[int, int, int],
    vectors: Vectors,
    constraints: Constraints,
) -> float:
    """Thread 0: what the choice gains in a node, or minus infinity if it does not divide it."""
    outputs, bins, choice, start = vectors.outputs, state.bins, level.choice, place[1]
    feature = choice[FOUND_FEATURE]
    node = node_of(0, state.settings, place, vectors, constraints)
    limits, parent = prepare_node(
        state.settings, state.rules, bins, feature, node, outputs, constraints, state.tree.table
    )
    if node.smooth > 0.0:
        keep_own(node, outputs.vectors[node.number])
    at, n_bins = start + feature * bins.stride, np.int64(bins.n_bins[feature])
    n_left = state.tree.table[node.number, NODE_N_LEFT]
    if set_number(level.sets, feature) >= 0:
        of_sets = NodeSets(outputs.sums, node, groups_of(0, vectors.trial.sets), parent)
        fill_set(at, bins.stride, choice, FOUND_SET, of_sets)
        penalty = split_penalty(choice, level.sets)
        return 0.5 * gain_of_side(n_left, penalty, state.rules, of_sets)
    cut = (choice[FOUND_BIN], choice[FOUND_MISSING_LEFT])
    sign = constraints.sign[feature] if cut[0] != constraints.last_bin[feature] else 0.0
    unit, signs, sums, stride = score_unit(node), (sign, sign), outputs.sums, bins.stride
    parent /= unit
    gain = gain_of_cut(sums, at, n_bins, stride, node, limits, parent, cut, signs)
    if node.ordered == 1 and gain > -np.inf:
        nothing = np.int64(0)
        taken = Split(0.0, feature, cut[0], cut[1], nothing, nothing, n_left)
        values = outputs.vectors[node.number]
        keep_middles(taken, sums, stride, node, state.rules, constraints, values)
    return 0.5 * unit * gain


@kernel(inline=True, inner=True)
def measure_node(
    state: State,
    level: Level,
    node: int,
    start: int,
    totals: tuple[int, int, int, int],
    constraints: Constraints,
    vectors: Vectors | None,
) -> tuple[int, int, int, int]:
    """Thread 0: what the choice sends left in a node, added to the rows of the level."""
    row, bins, choice, bundles = state.tree.table[node], state.bins, level.choice, level.bundles
    feature, to = choice[FOUND_FEATURE], scratch_of(bundles, 0, bins.stride)
    at = sums_of_feature(state.histograms, start, feature, bins, sums_of_node(row), to, bundles)
    is_set = set_number(level.sets, feature) >= 0
    counts = sum_left(state.histograms, at, bins.stride, choice, is_set, row)
    if vectors is not None and vectors.used == 1:
        place = (row[NODE_COUNT], start, np.int64(node))
        gain = measure_vectors(state, level, place, vectors, constraints)
        state.tree.numbers[node, NUMBER_GAIN] = gain
    n_rows, present, n_missing, n_left = totals
    return (
        n_rows + row[NODE_COUNT],
        present + counts[0],
        n_missing + counts[1],
        n_left + row[NODE_N_LEFT],
    )


@kernel(inline=True, inner=True)
def end_measure(state: State, level: Level, totals: tuple[int, int, int, int]) -> None:
    """Thread 0: the bins that go left, from the rows of the level."""
    write_choice(state.bins, level.choice, level.sets, totals, level.bundles)
    level.penalty[0] = split_penalty(level.choice, level.sets)


@kernel(inline=True, inner=True)
def measure_cut(thread: int, state: State, n_slotless: int) -> None:
    """Thread 0: what the choice sends left in every node, and the bins that go left."""
    none, level, constraints = np.int64(0), state.level, state.options.constraints
    table, totals, n_nodes = state.tree.table, (none, none, none, none), level.counts[N_NODES]
    for k in range(n_nodes):
        if thread > 0 and n_slotless == 0:
            break
        node = level.nodes[k]
        slot = table[node, NODE_SLOT]
        is_built = slot < 0
        # A histogram that was not kept is built again, by all threads.
        if is_built:
            slot = state.settings.n_slots
            build_rows(thread, state, node, slot, np.int64(-1))
            barrier(state.team)
        if thread == 0:
            start = start_of(level, slot)
            totals = measure_node(state, level, node, start, totals, constraints, state.vectors)
        if is_built:
            barrier(state.team)
    if thread == 0:
        end_measure(state, level, totals)
    if n_slotless > 0:
        barrier(state.team)
