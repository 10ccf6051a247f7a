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

from hedgerow.arrays import BinArray, FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core.batch import is_better, note_split
from hedgerow.growing.core.gradients import gradient_pass, units_of
from hedgerow.growing.core.grow import (
    ORDER_STOP,
    ROWS_TO_SHARE,
    bare,
    build_node,
    partition_node,
    subtract_node,
    sum_root,
)
from hedgerow.growing.core.leaves import finish_tree
from hedgerow.growing.core.state import (
    FOUND_FEATURE,
    FOUND_SET,
    IS_DROPPED_BITS,
    IS_N_COLUMNS,
    NODE_COLUMN,
    NODE_COUNT,
    NODE_G,
    NODE_H,
    NODE_N_LEFT,
    NODE_OPEN,
    NODE_SET,
    NODE_START,
    Rows,
    State,
)
from hedgerow.growing.sampling.goss import draw_rows
from hedgerow.growing.symmetric.gain import Price, worth_of
from hedgerow.growing.symmetric.level import (
    BOTH_BUILT,
    ENTRY_FIRST,
    ENTRY_HISTOGRAMS,
    ENTRY_PARENT,
    ENTRY_SECOND,
    GROUP_BINS,
    GROUP_CELLS,
    GROUP_LACKS,
    KEPT,
    LEVEL,
    N_ENTRIES,
    N_OPEN,
    N_SLOTLESS,
    ONE_BUILT,
    UNUSED,
    Level,
    Sets,
    allow_level,
    choose_cut,
    divide_level,
    place_of_slot,
    plan_groups,
    set_number,
    start_levels,
    sum_left,
    write_choice,
)
from hedgerow.kernels.barrier import Crew, await_order, barrier, give_order, share
from hedgerow.kernels.histogram import Bins, Wide, filled_cells
from hedgerow.kernels.lanes import WIDTH, lane_of
from hedgerow.kernels.monotone import Constraints, bounds_of
from hedgerow.kernels.partition import copy_forward, copy_reversed, divide
from hedgerow.kernels.split import NodeSums, SplitRules, Units, comparable, limits_of
from hedgerow.kernels.symmetric_category import (
    SetSums,
    add_set_gains,
    best_set,
    order_groups,
    write_groups,
)
from hedgerow.kernels.symmetric_split import (
    add_bounded_columns,
    add_columns,
    best_lanes,
    leaf_score,
)


@kernel(inner=True)
def build_at(thread: int, state: State, node: int, slot: int) -> None:
    """Histogram of a node from its rows, at a slot."""
    table = state.tree.table
    place = (table[node, NODE_START], table[node, NODE_COUNT])
    build_node(thread, state, place, slot, None, None)


@kernel(inner=True)
def make_histograms(thread: int, mine: tuple[int, int], state: State, entry: IntArray) -> None:
    """Histograms of the nodes of an entry."""
    table, n_slots = state.tree.table, state.settings.n_slots
    how, first, second = entry[ENTRY_HISTOGRAMS], entry[ENTRY_FIRST], entry[ENTRY_SECOND]
    if how in (KEPT, UNUSED):
        return
    first_slot = place_of_slot(table, first, 0, n_slots)
    if how == ONE_BUILT:
        build_at(thread, state, first, first_slot)
        return
    second_slot = place_of_slot(table, second, 1, n_slots)
    left_is_small = table[first, NODE_COUNT] <= table[second, NODE_COUNT]
    small, large = (first, second) if left_is_small else (second, first)
    small_slot, large_slot = (
        (first_slot, second_slot) if left_is_small else (second_slot, first_slot)
    )
    if how == BOTH_BUILT:
        build_at(thread, state, large, large_slot)
        if table[small, NODE_OPEN] == 1:
            build_at(thread, state, small, small_slot)
        return
    build_at(thread, state, small, small_slot)
    size = state.settings.n_columns * state.bins.stride
    subtract_node(
        thread, mine, state.bins, state.columns, state.wide, large_slot * size, small_slot * size,
        None, None,
    )  # fmt: skip


@kernel(inner=True)
def look_at_root(
    mine: tuple[int, int], bins: Bins, columns: np.ndarray, wide: Wide, slot_start: int,
    n_rows: int, units: Units, lacks: np.ndarray, sets: Sets,
) -> None:  # fmt: skip
    """Note which columns lack values in the tree's rows, and the orders of the categories."""
    for k in range(mine[0], mine[1]):
        feature = np.int64(columns[k])
        at = slot_start + feature * bins.stride
        lacks[feature] = 1 if wide.n[at + bins.stride - 1] > 0 else 0
        number = set_number(sets, feature)
        if number >= 0:
            column = SetSums(at, filled_cells(bins, feature, False), bins.stride)
            order_groups(
                wide, column, n_rows, units, sets.categories.rules, sets.places[number],
                sets.info[number],
            )  # fmt: skip


@kernel(inner=True)
def add_node_gains(
    mine: tuple[int, int],
    rules: SplitRules,
    bins: Bins,
    columns: tuple[np.ndarray, np.ndarray],
    place: tuple[Wide, int],
    node: tuple[NodeSums, Units, int],
    lanes: IntArray,
    groups: tuple[IntArray, int],
    gains: FloatArray,
    sets: Sets,
    asked: Constraints,
) -> None:
    """Add what every cut of a thread's columns gains in one node; ``node`` with its number.

    ``columns`` are a list of them, and which may be used.
    """
    wide, slot_start = place
    sums, units, number = node
    at, last_bin, features = lanes[1], lanes[0], columns[0]
    limits, bounds = limits_of(sums, units, rules), bounds_of(asked, number, sums, units, rules)
    parent, stride = leaf_score(limits), bins.stride
    cells, n_groups = groups
    for group in range(n_groups):
        first = group * GROUP_CELLS
        for j in range(WIDTH):
            at[j] = slot_start + cells[first + j] * stride
        n_bins, lacks = cells[first + GROUP_BINS], cells[first + GROUP_LACKS] != 0
        to = group * 2 * stride * WIDTH
        if asked.scored == 0:
            add_columns(wide, at, n_bins, stride, lacks, limits, parent, gains, to)
            continue
        for j in range(WIDTH):
            last_bin[j] = asked.last_bin[cells[first + j]]
        order = (cells[first : first + WIDTH], last_bin, asked.sign)
        add_bounded_columns(wide, at, n_bins, stride, limits, bounds, order, gains, to)
    for k in range(mine[0], mine[1]):
        feature = np.int64(features[k])
        place_of_set = set_number(sets, feature)
        if place_of_set >= 0 and columns[1][feature] == 1:
            filled = filled_cells(bins, feature, False)
            column = SetSums(slot_start + feature * stride, filled, stride)
            add_set_gains(
                wide, column, sums, units, rules, sets.categories.rules,
                sets.places[place_of_set], sets.info[place_of_set], sets.gains[place_of_set],
                (asked, number),
            )  # fmt: skip


@kernel(inner=True)
def find_cut(
    stride: int,
    units: Units,
    groups: IntArray,
    n_groups: int,
    gains: FloatArray,
    found: IntArray,
    price: Price,
    asked: Constraints,
) -> None:
    """Note the best cut of a thread's columns of numbers; a score of -1 means none."""
    unit = units.g * (units.g / units.h)
    price = Price(price.level, price.gamma / unit)
    best, feature, bin_, missing_left = 0.0, np.int64(-1), np.int64(0), np.int64(0)
    for group in range(n_groups):
        first, to = group * GROUP_CELLS, group * 2 * stride * WIDTH
        n_bins = groups[first + GROUP_BINS]
        right = best_lanes(gains, to, n_bins)
        left = right
        if groups[first + GROUP_LACKS] != 0:
            left = best_lanes(gains, to + stride * WIDTH, n_bins)
        for j in range(WIDTH):
            column = groups[first + j]
            worth = worth_of(asked, column, price, lane_of(right[0], j))
            if worth > best:
                best, feature = worth, column
                bin_, missing_left = lane_of(right[1], j), np.int64(0)
            worth = worth_of(asked, column, price, lane_of(left[0], j))
            if worth > best:
                best, feature = worth, column
                bin_, missing_left = lane_of(left[1], j), np.int64(1)
    score = comparable(best, units) if feature >= 0 else -1.0
    note_split(found, score, feature, feature, bin_, missing_left, NodeSums(0, 0, 0))


@kernel(inner=True)
def find_set(
    mine: tuple[int, int],
    bins: Bins,
    columns: np.ndarray,
    allowed: np.ndarray,
    units: Units,
    found: IntArray,
    sets: Sets,
    price: Price,
    asked: Constraints,
) -> None:
    """Put the best set of a thread's category columns in the place of what was found, if better."""
    for k in range(mine[0], mine[1]):
        feature = np.int64(columns[k])
        number = set_number(sets, feature)
        if number < 0 or allowed[feature] == 0:
            continue
        info = sets.info[number]
        score, place = best_set(sets.gains[number], info)
        score = worth_of(asked, feature, price, score) / units.scale
        if place < 0 or not is_better(score, feature, found):
            continue
        column = SetSums(np.int64(0), filled_cells(bins, feature, False), bins.stride)
        write_groups(sets.places[number], info, place, column, 1, found, FOUND_SET)
        last = bins.stride - 1
        word = np.uint64(found[FOUND_SET + (last >> 6)])
        missing_left = np.int64((word >> np.uint64(last & 63)) & np.uint64(1))
        note_split(found, score, feature, feature, place, missing_left, NodeSums(0, 0, 0))


@kernel(inner=True)
def search_level(
    thread: int, state: State, level: Level, entries: IntArray, n_entries: int, asked: Constraints
) -> None:
    """Histograms of the level's nodes, and the best cut of the thread's columns over all."""
    settings, bins, scalars = state.settings, state.bins, state.scalars
    wide, table, columns = state.wide, state.tree.table, state.columns.feature
    mine = share(scalars[IS_N_COLUMNS], thread, state.crew.n_threads)
    units = units_of(scalars, settings.constant_hessian, scalars[IS_DROPPED_BITS])
    allowed, lanes = state.search.allowed[0], state.search.lanes[thread]
    groups, gains = level.groups[thread], level.gains[thread]
    size, n_groups = settings.n_columns * bins.stride, np.int64(0)
    for e in range(n_entries):
        entry = entries[e]
        make_histograms(thread, mine, state, entry)
        if entry[ENTRY_FIRST] == 0 and level.counts[LEVEL] == 0:
            start = place_of_slot(table, 0, 0, settings.n_slots) * size
            if mine[0] == 0 and mine[1] > 0:
                sum_root(state.columns, bins.stride, wide, start, table[0])
            look_at_root(
                mine, bins, columns, wide, start, table[0, NODE_COUNT], units, level.lacks,
                level.sets,
            )  # fmt: skip
            barrier(state.crew)
        if e == 0:
            n_groups = plan_groups(
                mine, bins, columns, allowed, level.lacks, groups, gains, level.sets
            )
        for side in range(2):
            node = entry[ENTRY_FIRST + side]
            if node < 0 or table[node, NODE_OPEN] == 0:
                continue
            sums = NodeSums(table[node, NODE_G], table[node, NODE_H], table[node, NODE_COUNT])
            place = (wide, place_of_slot(table, node, side, settings.n_slots) * size)
            add_node_gains(
                mine, state.rules, bins, (columns, allowed), place, (sums, units, node), lanes,
                (groups, n_groups), gains, level.sets, asked,
            )  # fmt: skip
    found = state.search.found[thread, 0]
    price = Price(level.counts[LEVEL], 2.0 * state.rules.gamma)
    find_cut(bins.stride, units, groups, n_groups, gains, found, price, asked)
    find_set(mine, bins, columns, allowed, units, found, level.sets, price, asked)
    barrier(state.crew)


@kernel(inner=True)
def measure_cut(
    thread: int, state: State, level: Level, entries: IntArray, n_entries: int, n_slotless: int
) -> None:
    """Thread 0: what the choice sends left in every open node, and the bins that go left.

    A histogram that was not kept is built again, by all threads.
    """
    table, bins, choice = state.tree.table, state.bins, level.choice
    size = state.settings.n_columns * bins.stride
    feature = choice[FOUND_FEATURE]
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
                build_at(thread, state, node, slot)
                barrier(state.crew)
            if thread == 0:
                at = slot * size + feature * bins.stride
                counts = sum_left(state.wide, at, bins.stride, choice, is_set, table[node])
                n_rows += table[node, NODE_COUNT]
                present += counts[0]
                n_missing += counts[1]
                n_left += table[node, NODE_N_LEFT]
            if slot >= state.settings.n_slots:
                barrier(state.crew)
    if thread == 0:
        write_choice(bins, choice, level.sets, (n_rows, present, n_missing, n_left))
    if n_slotless > 0:
        barrier(state.crew)


@kernel(inner=True)
def partition_alone(rows: Rows, column: BinArray, row: IntArray) -> None:
    """Order the rows of a node by their bins, left child first; one thread."""
    start, count = row[NODE_START], row[NODE_COUNT]
    stop = start + count
    n_left = divide(column, row, NODE_SET, rows.rows, rows.scratch, start, stop)
    copy_forward(rows.rows, rows.scratch, start, start, start + n_left)
    copy_reversed(rows.rows, rows.scratch, start + n_left, start + n_left, stop)


@kernel(inner=True)
def partition_level(
    thread: int, crew: Crew, rows: Rows, by_column: BinArray, table: IntArray, counts: IntArray,
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
            partition_node(thread, crew, rows, column, row, counts)
        elif e % crew.n_threads == thread:
            partition_alone(rows, column, row)
    barrier(crew)


@kernel(inner=True)
def grow_levels(thread: int, state: State, level: Level, asked: Constraints) -> None:
    """Level after level, until no cut is worth it or the tree is deep enough."""
    crew, settings, rules = state.crew, state.settings, state.rules
    tree, scalars, search = state.tree, state.scalars, state.search
    counts, columns = level.counts, state.columns.feature
    turn = np.int64(0)
    while True:
        if thread == 0:
            entries = level.entries[turn]
            allow_level(
                settings, columns, search.allowed, level, entries, tree.table, scalars, asked
            )
        barrier(crew)
        # Read before the cut is chosen: behind that barrier thread 0 runs ahead.
        n_entries, n_open, n_slotless = counts[N_ENTRIES], counts[N_OPEN], counts[N_SLOTLESS]
        entries, coming = level.entries[turn], level.entries[1 - turn]
        if n_open == 0:
            return
        search_level(thread, state, level, entries, n_entries, asked)
        if thread == 0:
            choose_cut(settings, rules, tree, scalars, search.found, level, entries, asked)
        barrier(crew)
        if level.choice[FOUND_FEATURE] < 0:
            return
        measure_cut(thread, state, level, entries, n_entries, n_slotless)
        if thread == 0:
            divide_level(settings, rules, tree, scalars, level, entries, coming, asked)
        barrier(crew)
        partition_level(
            thread, crew, state.rows, state.bins.by_column, tree.table, state.threads.counts,
            coming, counts[N_ENTRIES],
        )  # fmt: skip
        turn = 1 - turn


@kernel
def work_symmetric(thread: int, state: State, level: Level, order: int) -> None:
    """Thread 0: grow one tree with the helpers.  Helpers: grow trees until dismissed."""
    crew, settings, rules, scalars = state.crew, state.settings, state.rules, state.scalars
    number = 0
    while True:
        if thread == 0:
            give_order(crew, order)
        else:
            order = await_order(crew, number)
            number += 1
        if order == ORDER_STOP:
            return
        gradient_pass(thread, crew, settings, state.loss_data, state.rows, state.threads, scalars)
        draw_rows(thread, crew, settings, state.rows, state.threads.counts, scalars, state.extras)
        if thread == 0:
            start_levels(settings, rules, state.tree, scalars, level, state.extras)
        grow_levels(thread, bare(state), level, state.extras.constraints)
        finish_tree(
            thread,
            crew,
            settings,
            rules,
            state.rows,
            state.loss_data.raw,
            state.threads.leaf_sums,
            state.tree,
            scalars,
            state.extras,
        )
        if thread == 0:
            return
