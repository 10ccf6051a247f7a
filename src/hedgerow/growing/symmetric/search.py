"""Search of the cut of a level, each thread in its own columns.

::

    once a tree    what its rows have in each column, the orders of the categories
    once a level   columns of numbers in groups that are searched side by side
    each node      adds what every cut gains in it
    last           the best cut

::

    for each job of the batch:
        histograms of its nodes
        for each of its nodes, from left to right: add the gains of all cuts
    thread 0: the cut with the largest gain, and what it sends left in each node

A node in which the cut would leave a side with too few rows or too little hessian is not
divided, and is there again on the next level: the tree is stored like any other.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core import state as s
from hedgerow.growing.core.batch import is_better, member, note_split
from hedgerow.growing.core.stages.building import build_rows, make_histogram
from hedgerow.growing.core.stages.bundle_search import clear, scratch_of, sums_of_feature
from hedgerow.growing.core.stages.gradients import tree_units
from hedgerow.growing.core.state import Level, State
from hedgerow.growing.symmetric.level import (
    child_at,
    choose_cut,
    price_of,
    set_column,
    set_number,
    sets_of,
    split_penalty,
    sum_left,
    worth_of,
    write_choice,
)
from hedgerow.growing.vectors.gradients import largest_units
from hedgerow.growing.vectors.search import prepare_node, sets_of_node
from hedgerow.kernels.primitives.barrier import barrier
from hedgerow.kernels.primitives.intrinsics import bits_of_float, float_of_bits
from hedgerow.kernels.simd.lanes import WIDTH, gather, lane_of, load_lanes
from hedgerow.kernels.splits.category_search import NodeSets, counted_node, fill_set, score_set
from hedgerow.kernels.splits.category_split import penalised
from hedgerow.kernels.splits.constraints import SearchedNode, own_score, searched_node
from hedgerow.kernels.splits.split import (
    NodeHistogram,
    NodeSums,
    Order,
    Side,
    Units,
    comparable,
    side_score,
)
from hedgerow.kernels.splits.symmetric_split import (
    N_GROUPS,
    add_columns,
    add_set_gains,
    best_lanes,
    order_level,
    size_of_block,
    write_groups,
)
from hedgerow.kernels.splits.vector_split import (
    add_column_gains,
    first_cell,
    score_of_cut,
    score_unit,
)


@kernel(inline=True, inner=True)
def start_of(level: Level, slot: int) -> int:
    """Return the first cell of the histogram in a slot."""
    return level.before + slot * level.slot_size


@kernel(inline=True, inner=True)
def histogram_of(state: State, slot: int) -> NodeHistogram:
    """Return the histogram in a slot."""
    level, bins = state.level, state.bins
    start = start_of(level, slot)
    return NodeHistogram(state.histograms, start, bins.stride, bins.n_bins)


@kernel(inline=True, inner=True)
def sums_of_node(row: IntArray) -> NodeSums:
    """Return the sums in the table row of a node."""
    return NodeSums(row[s.NODE_G], row[s.NODE_H], row[s.NODE_COUNT])


@kernel(inline=True, inner=True)
def node_of_level(state: s.State, node: int) -> SearchedNode:
    """Return a node of one output, ready for the search."""
    sums, constraints = sums_of_node(state.tree.table[node]), state.options.constraints
    return searched_node(constraints, node, sums, tree_units(state), state.rules)


@kernel(inline=True, inner=True)
def first_column(span: tuple[int, int], state: State) -> int:
    """Return the first column of a thread, or -1."""
    return np.int64(state.columns.feature[span[0]]) if span[1] > span[0] else np.int64(-1)


@kernel(inner=True)
def plan_groups(thread: int, span: tuple[int, int], state: State) -> int:
    """Put the numeric features of a thread in groups, all gains to 0; return how many groups."""
    level, allowed, bundles = state.level, state.search.allowed[0], state.options.bundles
    groups, gains, sets, n_lanes = level.groups[thread], level.gains[thread], level.sets, 0
    for k in range(span[0], span[1]):
        column = np.int64(state.columns.feature[k])
        for m in range(bundles.member_start[column], bundles.member_start[column + 1]):
            feature = np.int64(bundles.members[m])
            if allowed[feature] == 0:
                continue
            number = set_number(state, feature)
            if number >= 0:
                sets.gains[number, :] = 0.0
                continue
            at, lane = n_lanes // WIDTH * s.GROUP_CELLS, n_lanes % WIDTH
            if lane == 0:
                groups[at + s.GROUP_BINS] = 0
                groups[at + s.GROUP_LACKS] = 0
            # This lane and the ones behind it, which may stay empty.
            for j in range(lane, WIDTH):
                groups[at + j] = feature
            n_bins = np.int64(state.bins.n_bins[feature])
            groups[at + s.GROUP_BINS] = max(groups[at + s.GROUP_BINS], n_bins)
            groups[at + s.GROUP_LACKS] |= np.int64(level.lacks[feature])
            n_lanes += 1
    n_groups, n_gains = (n_lanes + WIDTH - 1) // WIDTH, np.int64(0)
    for group in range(n_groups):
        at = group * s.GROUP_CELLS
        groups[at + s.GROUP_GAINS] = n_gains
        n_gains += 2 * size_of_block(groups[at + s.GROUP_BINS])
    gains[:n_gains] = 0.0
    return n_groups


@kernel(inner=True)
def look_at_root(
    thread: int,
    span: tuple[int, int],
    state: State,
    histogram: NodeHistogram,
    node: SearchedNode,
    vectors: NodeSets | None,
) -> None:
    """Note what the tree's rows have in each column, and the orders of the categories."""
    level, root, sums = state.level, sums_of_node(state.tree.table[0]), histogram.sums
    stride, bundles = histogram.stride, state.options.bundles
    scratch = scratch_of(bundles, thread, stride)
    for k in range(span[0], span[1]):
        column = np.int64(state.columns.feature[k])
        for m in range(bundles.member_start[column], bundles.member_start[column + 1]):
            feature = np.int64(bundles.members[m])
            at = sums_of_feature(histogram, feature, root, scratch, bundles)
            level.lacks[feature] = 1 if sums.n[at + stride - 1] > 0 else 0
            number = set_number(state, feature)
            if number >= 0:
                of_set, rules = set_column(state.bins, feature, at), state.options.categories.rules
                order_level(sums, of_set, rules, sets_of(state, number), node, vectors)


@kernel(inner=True)
def add_node_gains(
    thread: int, state: State, histogram: NodeHistogram, node: SearchedNode, n_groups: int
) -> None:
    """Add what every cut of a thread's numeric features gains in one node."""
    constraints, limits = state.options.constraints, node.limits
    cells, gains = state.level.groups[thread], state.level.gains[thread]
    at, last_bin = state.search.lanes[thread, 1], state.search.lanes[thread, 0]
    own = node.asked.own
    if constraints.scored == 0:  # the score of the node, in its units
        leaf, own = Side(limits.g, limits.h + limits.penalty, limits.n), 0.0
        if leaf.d > 0.0:
            own = leaf.g * leaf.g / leaf.d if limits.plain else side_score(leaf, limits)
    bundles, stride = state.options.bundles, histogram.stride
    scratch = scratch_of(bundles, thread, stride)
    for number in range(n_groups):
        group = cells[number * s.GROUP_CELLS : (number + 1) * s.GROUP_CELLS]
        for j in range(WIDTH):  # where the sums of each feature start
            if j > 0 and group[j] == group[j - 1]:
                at[j] = at[j - 1]
                continue
            to = scratch + j * stride
            at[j] = sums_of_feature(histogram, group[j], node.sums, to, bundles)
            if bundles.used == 1 and at[j] == to:
                # All lanes run up to the last bin of any: behind its own a column is empty.
                written = (np.int64(histogram.n_bins[group[j]]) + 7) // 8 * 8
                size = min(group[s.GROUP_BINS] + 7, stride - 1) - written
                clear(histogram.sums, to + written, size)
        part = group[s.GROUP_BINS], group[s.GROUP_GAINS], group[s.GROUP_LACKS] != 0
        if constraints.scored == 0:
            add_columns(histogram, at, part, limits, None, own, gains)
            continue
        # The cut after the last bin separates missing values and orders nothing.  All other cuts
        # must keep the order, whichever rows the node has, because later rows may lie on both
        # sides.
        for j in range(WIDTH):
            last_bin[j] = constraints.last_bin[group[j]]
        last, sign = load_lanes(last_bin, np.int64(0)), gather(constraints.sign, group)
        order = Order(node.within, sign, limits.n + 1, last)
        add_columns(histogram, at, part, limits, order, own, gains)


@kernel(inner=True)
def add_node_sets(
    span: tuple[int, int],
    state: State,
    histogram: NodeHistogram,
    own: float,
    node: SearchedNode,
    vectors: NodeSets | None,
) -> None:
    """:func:`add_node_gains` of category columns in a node, whose own score is ``own``."""
    allowed = state.search.allowed[0]
    for k in range(span[0], span[1]):
        feature = np.int64(state.columns.feature[k])
        number = set_number(state, feature)
        if number >= 0 and allowed[feature] == 1:
            at, rules = histogram.start + feature * histogram.stride, state.options.categories.rules
            column, sets = set_column(state.bins, feature, at), sets_of(state, number)
            add_set_gains(histogram.sums, column, rules, sets, own, node, vectors)


@kernel(inline=True, inner=True)
def add_gains(
    thread: int, span: tuple[int, int], state: s.State, node: int, slot: int, n_groups: int
) -> None:
    """Add what every cut of a thread's columns gains in a node with a histogram in ``slot``."""
    histogram, has_sets = histogram_of(state, slot), len(state.level.sets.gains) > 0
    if state.vectors.used == 0:
        one = node_of_level(state, node)
        add_node_gains(thread, state, histogram, one, n_groups)
        if has_sets:
            add_node_sets(span, state, histogram, own_score(one), one, None)
    else:
        first = first_column(span, state)
        several, limits, own = prepare_node(thread, first, state, histogram.start, node)
        found = state.search.found[thread, 0]
        found[s.FOUND_OWN] = bits_of_float(float_of_bits(found[s.FOUND_OWN]) + max(own, 0.0))
        if has_sets:
            sets = sets_of_node(thread, several, state)
            add_node_sets(span, state, histogram, own, counted_node(several, np.int64(0)), sets)
        own /= score_unit(several)
        cells, gains = state.level.groups[thread], state.level.gains[thread]
        for number in range(n_groups):
            group = cells[number * s.GROUP_CELLS : (number + 1) * s.GROUP_CELLS]
            to, also = group[s.GROUP_GAINS], np.int64(0)
            if group[s.GROUP_LACKS] != 0:
                also = size_of_block(group[s.GROUP_BINS])
            for j in range(WIDTH):
                if j > 0 and group[j] == group[j - 1]:
                    break  # the last feature fills the lanes that are left
                add_column_gains(several, group[j], limits, own, gains, to + j, also)


@kernel(inner=True)
def find_cut(thread: int, state: State, units: Units, n_groups: int, gamma: float) -> None:
    """Note the best cut of a thread's columns of numbers; a score of -1 means none."""
    cells, gains = state.level.groups[thread], state.level.gains[thread]
    best, feature, bin_, missing_left = 0.0, np.int64(-1), np.int64(0), np.int64(0)
    for number in range(n_groups):
        group = cells[number * s.GROUP_CELLS : (number + 1) * s.GROUP_CELLS]
        to, n_bins, also = group[s.GROUP_GAINS], group[s.GROUP_BINS], np.int64(0)
        if group[s.GROUP_LACKS] != 0:
            also = size_of_block(n_bins)
        right = best_lanes(gains, to, n_bins)
        left = right
        if also != 0:
            left = best_lanes(gains, to + also, n_bins)
        for j in range(WIDTH):
            for side in range(2):
                gain = lane_of(left[0], j) if side == 1 else lane_of(right[0], j)
                at = lane_of(left[1], j) if side == 1 else lane_of(right[1], j)
                worth = worth_of(state, group[j], gamma, gain)
                # In bundles a lower feature may come later.
                if worth > best or (worth == best and group[j] < feature):
                    best, feature, bin_, missing_left = worth, group[j], at, np.int64(side)
    score = comparable(best, units) if feature >= 0 else -1.0
    found = state.search.found[thread, 0]
    note_split(found, score, feature, feature, bin_, missing_left, NodeSums(0, 0, 0))


@kernel(inner=True)
def find_set(thread: int, span: tuple[int, int], state: State, units: Units, gamma: float) -> None:
    """Put the best set of a thread's category columns in the place of what was found, if better."""
    allowed, found = state.search.allowed[0], state.search.found[thread, 0]
    for k in range(span[0], span[1]):
        feature = np.int64(state.columns.feature[k])
        number = set_number(state, feature)
        if number < 0 or allowed[feature] == 0:
            continue
        sets = sets_of(state, number)
        score, place = 0.0, np.int64(-1)  # the largest gain above 0, and its position
        for i in range(sets.info[N_GROUPS]):
            if sets.gains[i] > score:
                score, place = sets.gains[i], np.int64(i)
        score = worth_of(state, feature, gamma, score) / units.scale
        if place < 0 or not is_better(score, feature, found):
            continue
        column = set_column(state.bins, feature, np.int64(0))
        write_groups(sets, place, column, 1, found, s.FOUND_SET)
        last = state.bins.stride - 1
        word = np.uint64(found[s.FOUND_SET + (last >> 6)])
        missing_left = np.int64((word >> np.uint64(last & 63)) & np.uint64(1))
        note_split(found, score, feature, feature, place, missing_left, NodeSums(0, 0, 0))


@kernel(inline=True, inner=True)
def find_best(thread: int, span: tuple[int, int], state: s.State, n_groups: int) -> None:
    """Find the best cut of the thread's columns."""
    units = tree_units(state)
    if state.vectors.used == 1:
        units = largest_units(state.settings.constant_hessian, state.vectors.outputs)
    gamma = 2.0 * price_of(state)  # twice, as gains are here
    find_cut(thread, state, units, n_groups, gamma / (units.g * (units.g / units.h)))
    find_set(thread, span, state, units, gamma)


Totals = tuple[int, int, int, int]
"""Rows of a level: all, those with a value that go left, those without, and all that go left."""


@kernel(inline=True, inner=True)
def search_job(
    thread: int, span: tuple[int, int], state: s.State, job: IntArray, n_groups: int
) -> int:
    """Add the gains of the nodes of a job, the left one first; return the number of groups."""
    if n_groups < 0:  # the first job of the level
        if state.level.counts[s.LEVEL] == 0:  # the histogram is that of the root
            root, histogram = np.int64(0), histogram_of(state, member(job, 0).slot)
            if state.vectors.used == 0:
                one = node_of_level(state, root)
                look_at_root(thread, span, state, histogram, one, None)
            else:
                first = first_column(span, state)
                several, _, _ = prepare_node(thread, first, state, histogram.start, root)
                sets = sets_of_node(thread, several, state)
                look_at_root(
                    thread, span, state, histogram, counted_node(several, np.int64(0)), sets
                )
        n_groups = plan_groups(thread, span, state)
        state.search.found[thread, 0, s.FOUND_OWN] = 0
    for side in range(2):
        node, slot, searched = member(job, child_at(job, side))
        if searched == 1:
            add_gains(thread, span, state, node, slot, n_groups)
    return n_groups


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
    if state.vectors.used == 1:  # minus infinity: it does not divide the node
        several, limits, own = prepare_node(0, feature, state, histogram.start, node)
        if is_set:
            sets = sets_of_node(0, several, state)
            fill_set(first_cell(several, feature), choice, s.FOUND_SET, sets)
            rules = penalised(state.rules, split_penalty(state))
            gain = 0.5 * (score_set(row[s.NODE_N_LEFT], rules, sets) - own)
        else:
            cut, missing_left = choice[s.FOUND_BIN], choice[s.FOUND_MISSING_LEFT]
            unit = score_unit(several)
            score = score_of_cut(several, feature, limits, cut, missing_left)
            gain = 0.5 * unit * (score - own / unit)
        state.tree.numbers[node, s.NUMBER_GAIN] = gain
    n_rows, present, n_missing, n_left = totals
    return (
        n_rows + row[s.NODE_COUNT],
        present + counts[0],
        n_missing + counts[1],
        n_left + row[s.NODE_N_LEFT],
    )


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
    if level.choice[s.FOUND_FEATURE] < 0:
        return
    # Thread 0: what the choice sends left in every node, and the bins that go left.
    none, table = np.int64(0), state.tree.table
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
