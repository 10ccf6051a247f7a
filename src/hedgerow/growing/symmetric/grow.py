"""Growing one symmetric tree: every level has one cut, which divides all of its nodes.

::

    gradient pass, row sample
    root:   build histogram
    for each level:
        for each open node, in the order of the tree: add the gains of all cuts
        thread 0: the cut with the largest gain; the nodes that it divides
        partition the rows of these nodes
        for each pair of children: build the smaller one's histogram, get the other's by
        subtraction
    leaf values from exact sums -> raw scores

The stages are those of :mod:`hedgerow.growing.core.grow`, by the same kernels.  A node in which
the cut would leave a side with too few rows or too little hessian is not divided, and is
there again on the next level: the tree is stored like any other.

Threads have columns of their own for histograms and gains, and small nodes of their own
for the partition; large nodes are partitioned by all of them.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import BinArray, IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core.bundle_search import scratch_of, sums_of_feature
from hedgerow.growing.core.gradients import units_of
from hedgerow.growing.core.grow import (
    ORDER_STOP,
    bare,
    build_node,
    finish,
    subtract_node,
    sum_gradients,
    sum_root,
)
from hedgerow.growing.core.partition import ROWS_TO_SHARE, partition_alone, partition_node
from hedgerow.growing.core.state import (
    FOUND_BIN,
    FOUND_FEATURE,
    FOUND_MISSING_LEFT,
    IS_DROPPED_BITS,
    IS_N_COLUMNS,
    IS_TREE,
    NODE_COLUMN,
    NODE_COUNT,
    NODE_G,
    NODE_H,
    NODE_N_LEFT,
    NODE_OPEN,
    NODE_START,
    NUMBER_GAIN,
    Rows,
    State,
    Vectors,
)
from hedgerow.growing.sampling.goss import draw_rows
from hedgerow.growing.symmetric.gain import Price
from hedgerow.growing.symmetric.level import (
    BOTH_BUILT,
    ENTRY_FIRST,
    ENTRY_HISTOGRAMS,
    ENTRY_PARENT,
    ENTRY_SECOND,
    FORCED_CUT,
    KEPT,
    LEVEL,
    N_ENTRIES,
    N_OPEN,
    N_SLOTLESS,
    OF_ALL,
    OF_FORCED,
    ONE_BUILT,
    UNUSED,
    Level,
    allow_level,
    choose_cut,
    divide_level,
    place_of_slot,
    set_number,
    start_levels,
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
from hedgerow.growing.vectors.gradients import largest_units
from hedgerow.growing.vectors.search import node_of, prepare_node
from hedgerow.kernels.barrier import ThreadTeam, await_order, barrier, give_order, share
from hedgerow.kernels.growth import key_of_level
from hedgerow.kernels.histogram import RowLists
from hedgerow.kernels.monotone import Constraints
from hedgerow.kernels.split import NodeSums, Units
from hedgerow.kernels.vector_split import gain_of_cut


@kernel(inner=True)
def build_at(
    thread: int,
    state: State,
    node: int,
    slot: int,
    lists: RowLists | None,
    vectors: Vectors | None,
) -> None:
    """Histogram of a node from its rows, at a slot."""
    table = state.tree.table
    place = (table[node, NODE_START], table[node, NODE_COUNT])
    build_node(thread, state, place, slot, lists, vectors)


@kernel(inner=True)
def make_histograms(
    thread: int,
    mine: tuple[int, int],
    state: State,
    entry: IntArray,
    lists: RowLists | None,
    vectors: Vectors | None,
) -> None:
    """Histograms of the nodes of an entry."""
    table, n_slots = state.tree.table, state.settings.n_slots
    how, first, second = entry[ENTRY_HISTOGRAMS], entry[ENTRY_FIRST], entry[ENTRY_SECOND]
    if how in (KEPT, UNUSED):
        return
    first_slot = place_of_slot(table, first, 0, n_slots)
    if how == ONE_BUILT:
        build_at(thread, state, first, first_slot, lists, vectors)
        return
    second_slot = place_of_slot(table, second, 1, n_slots)
    left_is_small = table[first, NODE_COUNT] <= table[second, NODE_COUNT]
    small, large = (first, second) if left_is_small else (second, first)
    small_slot, large_slot = (
        (first_slot, second_slot) if left_is_small else (second_slot, first_slot)
    )
    if how == BOTH_BUILT:
        build_at(thread, state, large, large_slot, lists, vectors)
        if table[small, NODE_OPEN] == 1:
            build_at(thread, state, small, small_slot, lists, vectors)
        return
    build_at(thread, state, small, small_slot, lists, vectors)
    size = state.settings.n_columns * state.bins.stride
    subtract_node(
        thread, mine, state.bins, state.columns, state.histograms, large_slot * size, small_slot * size,
        lists, vectors,
    )  # fmt: skip


@kernel(inline=True, inner=True)
def sums_of_node(row: IntArray) -> NodeSums:
    """The sums in the table row of a node."""
    return NodeSums(row[NODE_G], row[NODE_H], row[NODE_COUNT])


@kernel(inner=True)
def add_gains(
    thread: int,
    mine: tuple[int, int],
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
    if vectors is None:
        place, searched = (state.histograms, start), (sums_of_node(row), units, node)
        lanes, allowed = state.search.lanes[thread], state.search.allowed[0]
        add_node_gains(
            thread, rules, bins, place, searched, lanes, groups, gains, constraints, level.bundles
        )
        add_node_sets(
            mine, rules, bins, (columns, allowed), place, searched, level.sets, constraints
        )
    else:
        outputs = vectors.outputs
        several = node_of(thread, state.settings, (row[NODE_COUNT], start), vectors)
        first = np.int64(columns[mine[0]]) if mine[1] > mine[0] else np.int64(-1)
        limits, parent = prepare_node(state.settings, rules, bins, first, several, outputs)
        vectors.trial.parent[thread, 0] += parent
        parent /= units.g * (units.g / units.h)
        add_vector_gains(several, limits, parent, bins, outputs.sums, groups, gains)


@kernel(inner=True)
def search_level(
    thread: int, state: State, level: Level, entries: IntArray, n_entries: int,
    constraints: Constraints, vectors: Vectors | None,
) -> None:  # fmt: skip
    """Histograms of the level's nodes, and the best cut of the thread's columns over all."""
    settings, bins, scalars = state.settings, state.bins, state.scalars
    table, columns = state.tree.table, state.columns.feature
    sets, bundles, histograms = level.sets, level.bundles, state.histograms
    mine = share(scalars[IS_N_COLUMNS], thread, state.team.n_threads)
    if vectors is None:
        units = units_of(scalars, settings.constant_hessian, scalars[IS_DROPPED_BITS])
    else:
        units = largest_units(settings.constant_hessian, vectors.outputs)
        vectors.trial.parent[thread, 0] = 0.0
    allowed, lanes = state.search.allowed[0], state.search.lanes[thread]
    groups, gains = level.groups[thread], level.gains[thread]
    size, n_groups = settings.n_columns * bins.stride, np.int64(0)
    for e in range(n_entries):
        entry = entries[e]
        make_histograms(thread, mine, state, entry, level.lists, vectors)
        if entry[ENTRY_FIRST] == 0 and level.counts[LEVEL] == 0:
            start = place_of_slot(table, 0, 0, settings.n_slots) * size
            if vectors is None and mine[0] == 0 and mine[1] > 0:
                sum_root(state.columns, bins.stride, histograms, start, table[0])
            barrier(state.team)
            look_at_root(
                thread, mine, bins, columns, (histograms, start), sums_of_node(table[0]), units,
                level.seen, sets, constraints.growth.drawn, bundles,
            )  # fmt: skip
        if e == 0:
            n_groups = plan_groups(
                mine, bins, columns, allowed, level.seen, groups, gains, sets, bundles
            )
        for side in range(2):
            node = entry[ENTRY_FIRST + side]
            if node < 0 or table[node, NODE_OPEN] == 0:
                continue
            start = place_of_slot(table, node, side, settings.n_slots) * size
            add_gains(
                thread, mine, state, level, node, start, units, n_groups, constraints, vectors
            )
    found, forced = state.search.found[thread, OF_ALL], level.counts[FORCED_CUT]
    key = key_of_level(settings.seed, scalars[IS_TREE], level.counts[LEVEL])
    price = Price(level.counts[LEVEL], 2.0 * state.rules.gamma, key)
    find_cut(units, (groups, n_groups), gains, lanes, found, price, constraints, level.seen)
    find_set(mine, bins, columns, allowed, units, found, sets, price, constraints)
    if forced >= 0:
        found = state.search.found[thread, OF_FORCED]
        find_forced(units, (groups, n_groups), gains, forced, found, price, constraints)
    barrier(state.team)


@kernel(inner=True)
def measure_vectors(
    state: State, row: IntArray, start: int, choice: IntArray, vectors: Vectors
) -> float:
    """Thread 0: what the choice gains in a node, or minus infinity if it does not divide it."""
    outputs, bins, feature = vectors.outputs, state.bins, choice[FOUND_FEATURE]
    node = node_of(0, state.settings, (row[NODE_COUNT], start), vectors)
    limits, parent = prepare_node(state.settings, state.rules, bins, feature, node, outputs)
    at, n_bins = start + feature * bins.stride, np.int64(bins.n_bins[feature])
    cut = (choice[FOUND_BIN], choice[FOUND_MISSING_LEFT])
    unit = node.largest.g * (node.largest.g / node.largest.h)
    parent /= unit
    return (
        0.5 * unit * gain_of_cut(outputs.sums, at, n_bins, bins.stride, node, limits, parent, cut)
    )


@kernel(inner=True)
def measure_cut(
    thread: int, state: State, level: Level, entries: IntArray, n_entries: int,
    n_slotless: int, vectors: Vectors | None,
) -> None:  # fmt: skip
    """Thread 0: what the choice sends left in every open node, and the bins that go left.

    A histogram that was not kept is built again, by all threads.
    """
    table, bins, choice = state.tree.table, state.bins, level.choice
    size = state.settings.n_columns * bins.stride
    feature, bundles, histograms = choice[FOUND_FEATURE], level.bundles, state.histograms
    is_set = set_number(level.sets, feature) >= 0
    n_rows, present, n_missing, n_left = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for e in range(n_entries):
        if thread > 0 and n_slotless == 0:
            break
        for side in range(2):
            node = entries[e, ENTRY_FIRST + side]
            if node < 0 or table[node, NODE_OPEN] == 0:
                continue
            slot = place_of_slot(table, node, side, state.settings.n_slots)
            if slot >= state.settings.n_slots:
                build_at(thread, state, node, slot, level.lists, vectors)
                barrier(state.team)
            if thread == 0:
                to = scratch_of(bundles, thread, bins.stride)
                sums = sums_of_node(table[node])
                at = sums_of_feature(histograms, slot * size, feature, bins, sums, to, bundles)
                counts = sum_left(histograms, at, bins.stride, choice, is_set, table[node])
                if vectors is not None:
                    gain = measure_vectors(state, table[node], slot * size, choice, vectors)
                    state.tree.numbers[node, NUMBER_GAIN] = gain
                n_rows += table[node, NODE_COUNT]
                present += counts[0]
                n_missing += counts[1]
                n_left += table[node, NODE_N_LEFT]
            if slot >= state.settings.n_slots:
                barrier(state.team)
    if thread == 0:
        write_choice(bins, choice, level.sets, (n_rows, present, n_missing, n_left), bundles)
    if n_slotless > 0:
        barrier(state.team)


@kernel(inner=True)
def partition_level(
    thread: int, team: ThreadTeam, rows: Rows, by_column: BinArray, table: IntArray, counts: IntArray,
    entries: IntArray, n_entries: int,
) -> None:  # fmt: skip
    """Partition the rows of all nodes that have been divided."""
    for e in range(n_entries):
        parent = entries[e, ENTRY_PARENT]
        if parent < 0:
            continue
        row = table[parent]
        column = by_column[row[NODE_COLUMN]]
        if row[NODE_COUNT] >= ROWS_TO_SHARE:
            partition_node(thread, team, rows, column, row, counts)
        elif e % team.n_threads == thread:
            partition_alone(rows, column, row)
    barrier(team)


@kernel(inner=True)
def grow_levels(
    thread: int, state: State, level: Level, constraints: Constraints, vectors: Vectors | None
) -> None:
    """Level after level, until no cut is worth it or the tree is deep enough."""
    team, settings, rules = state.team, state.settings, state.rules
    tree, scalars, search = state.tree, state.scalars, state.search
    counts = level.counts
    turn = np.int64(0)
    while True:
        if thread == 0:
            entries = level.entries[turn]
            allow_level(settings, search.allowed, level, entries, tree.table, scalars, constraints)
        barrier(team)
        # Read before the cut is chosen: behind that barrier thread 0 runs ahead.
        n_entries, n_open, n_slotless = counts[N_ENTRIES], counts[N_OPEN], counts[N_SLOTLESS]
        entries, coming = level.entries[turn], level.entries[1 - turn]
        if n_open == 0:
            return
        search_level(thread, state, level, entries, n_entries, constraints, vectors)
        if thread == 0:
            choose_cut(
                settings, rules, tree, scalars, search.found, level, entries, constraints, vectors
            )
        barrier(team)
        if level.choice[FOUND_FEATURE] < 0:
            return
        measure_cut(thread, state, level, entries, n_entries, n_slotless, vectors)
        if thread == 0:
            divide_level(
                settings, rules, tree, scalars, level, entries, coming, constraints, vectors
            )
        barrier(team)
        partition_level(
            thread, team, state.rows, state.bins.by_column, tree.table, state.threads.counts,
            coming, counts[N_ENTRIES],
        )  # fmt: skip
        turn = 1 - turn


@kernel
def work_symmetric(thread: int, state: State, level: Level, order: int) -> None:
    """Thread 0: grow one tree with the helpers.  Helpers: grow trees until dismissed."""
    team, settings, rules, scalars = state.team, state.settings, state.rules, state.scalars
    number = 0
    while True:
        if thread == 0:
            give_order(team, order)
        else:
            order = await_order(team, number)
            number += 1
        if order == ORDER_STOP:
            return
        sum_gradients(thread, state, state.vectors)
        draw_rows(thread, team, settings, state.rows, state.threads.counts, scalars, state.options)
        if thread == 0:
            start_levels(settings, rules, state.tree, scalars, level, state.options)
        grow_levels(thread, bare(state), level, state.options.constraints, state.vectors)
        finish(thread, state, state.options, state.vectors)
        if thread == 0:
            return
