"""The level of a symmetric tree: its nodes, and what their common cut divides.

Glossary
--------
node     a leaf that the cut of the level may divide: it has rows for two leaves
job      what the level before has made of one of its nodes: two children, or, where its
         cut has not divided it, the node itself, which is there again
choice   the cut of the level, a row as of ``Search.found``

Only thread 0 runs these functions, between two barriers.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core import state as s
from hedgerow.growing.core.batch import best_thread, count_searched, member, start_job, write_cut
from hedgerow.growing.core.stages.branches import keep_permitted
from hedgerow.growing.core.stages.bundle_search import write_cells
from hedgerow.growing.core.stages.frontier import open_children, release_slot
from hedgerow.growing.core.stages.gradients import outputs_of, tree_units
from hedgerow.growing.core.stages.searching import add_bin, write_range
from hedgerow.growing.sampling.draws import allow_columns, draw_level, takes_all
from hedgerow.kernels.histograms.histogram import Bins, HistogramSums, filled_cells
from hedgerow.kernels.primitives.intrinsics import float_of_bits
from hedgerow.kernels.splits.category_split import SetColumn, penalised, score_within
from hedgerow.kernels.splits.constraints import (
    Constraints,
    ordered_factor,
    own_score,
    searched_node,
)
from hedgerow.kernels.splits.split import (
    ROUNDING,
    NodeSums,
    Side,
    SplitRules,
    Units,
    accepted_gain,
    node_score,
    sum_bins,
    value_within,
)
from hedgerow.kernels.splits.symmetric_split import IS_ONE_HOT, LevelSets, write_groups


@kernel(inline=True, inner=True)
def level_factor(constraints: Constraints, feature: int, level: int) -> float:
    """Return the factor on the gains of a column in a level."""
    ordered = 1.0
    if constraints.sign[feature] != 0.0:
        ordered = ordered_factor(constraints.growth.penalty, level)
    return constraints.factor[feature] * ordered


@kernel(inline=True, inner=True)
def worth_of(state: s.State, feature: int, gamma: float, gain: float) -> float:
    """Return the gain of a cut, minus its price if columns have factors."""
    constraints = state.options.constraints
    if constraints.scored == 0:
        return gain
    return level_factor(constraints, feature, state.level.counts[s.LEVEL]) * (gain - gamma)


@kernel(inner=True)
def gain_of_node(state: s.State, number: int, units: Units, penalty: float) -> tuple[bool, float]:
    """Return whether the cut divides node ``number``, from its left sums, and its gain there."""
    row, rules = state.tree.table[number], state.rules
    # ``penalty`` as of :func:`split_penalty`.
    sums = NodeSums(row[s.NODE_G], row[s.NODE_H], row[s.NODE_COUNT])
    left = NodeSums(row[s.NODE_G_LEFT], row[s.NODE_H_LEFT], row[s.NODE_N_LEFT])
    node, of_set = searched_node(state.options.constraints, number, sums, units, rules), rules
    if penalty >= 0.0:
        of_set = penalised(rules, penalty)
    else:
        # As several columns at a time are compared: in units.
        limits, lightest = node.limits, min(float(left.h), float(sums.h - left.h))
        if min(left.n, sums.n - left.n) < limits.fewest or lightest < limits.lightest:
            return False, 0.0
        constraints, choice = state.options.constraints, state.level.choice
        feature, sign = choice[s.FOUND_FEATURE], 0.0
        if constraints.scored == 1 and choice[s.FOUND_BIN] != constraints.last_bin[feature]:
            sign = constraints.sign[feature]
        if sign != 0.0:  # the sides must be in the column's order
            g, h, penalty = float(left.g), float(left.h), limits.penalty
            rest = Side(limits.g - g, limits.h - h + penalty, limits.n - left.n)
            below = value_within(Side(g, h + penalty, left.n), limits, node.within)
            if not sign * (value_within(rest, limits, node.within) - below) >= 0.0:
                return False, 0.0
        of_set = SplitRules(
            rules.min_samples_leaf, 0.0, rules.reg_lambda, rules.reg_alpha, rules.gamma,
            rules.max_delta_step,
        )  # fmt: skip
    score = score_within(left, node, of_set)
    if score == -np.inf:
        return False, 0.0
    return True, 0.5 * (score - own_score(node))


@kernel(inline=True, inner=True)
def child_at(job: IntArray, side: int) -> int:
    """Return which child of a job is on the left (0) or right (1); the left one is older."""
    return side if job[s.JOB_SMALL] < job[s.JOB_LARGE] else 1 - side


@kernel(inner=True)
def open_level(state: s.State) -> None:
    """List the nodes of the level and draw its columns, as ``colsample_bynode`` asks."""
    tree, level, counts, n_nodes = state.tree, state.level, state.level.counts, np.int64(0)
    counts[s.N_SLOTLESS] = 0
    for j in range(state.scalars[s.IS_N_JOBS]):
        for side in range(2):  # from left to right
            node, _, searched = member(tree.batch[j], child_at(tree.batch[j], side))
            if searched == 1:
                level.nodes[n_nodes] = node
                n_nodes += 1
                counts[s.N_SLOTLESS] += np.int64(tree.table[node, s.NODE_SLOT] < 0)
    counts[s.N_NODES] = n_nodes
    if takes_all(state):
        return
    order, n = state.search.allowed[2], draw_level(state, counts[s.LEVEL])
    # A column may split the level if it may split each of its nodes.
    for k in range(n_nodes):
        n = keep_permitted(state.options.constraints, tree.table, level.nodes[k], order, n)
    allow_columns(state, 0, n, counts[s.LEVEL])


@kernel(inner=True)
def choose_cut(state: s.State, found: IntArray) -> None:
    """Write the best of what threads or ranks have found to the choice; feature -1: none pays."""
    # ``found``, int64 (threads or ranks, any, FOUND_FIELDS): the best cuts are at 0.
    best, level, constraints = best_thread(found, 0), state.level, state.options.constraints
    choice, table, rules = level.choice, state.tree.table, state.rules
    for field in range(s.FOUND_FIELDS):
        choice[field] = found[best, 0, field]
    choice[s.FOUND_N_LEFT] = 0
    units = tree_units(state)
    score, price = float_of_bits(choice[s.FOUND_SCORE]) * units.scale, price_of(state)
    own = 0.0  # score of the nodes of the level as leaves
    if state.vectors.used == 1:
        own = float_of_bits(choice[s.FOUND_OWN])
    else:
        for k in range(level.counts[s.N_NODES]):
            g, h = table[level.nodes[k], s.NODE_G], table[level.nodes[k], s.NODE_H]
            own += node_score(float(g) * units.g, float(h) * units.h, rules)
    factor = 1.0
    if constraints.scored == 1 and score > 0.0:  # it has paid its price
        factor = level_factor(constraints, choice[s.FOUND_FEATURE], level.counts[s.LEVEL])
        score = score / factor + 2.0 * price
    # The scores of the nodes have been subtracted from it.
    if accepted_gain(score, 0.0, ROUNDING * own, price, factor) < 0.0:
        choice[s.FOUND_FEATURE] = -1


@kernel(inline=True, inner=True)
def price_of(state: s.State) -> float:
    """Return the price of a split: gamma for each output."""
    return outputs_of(state) * state.rules.gamma


@kernel(inline=True, inner=True)
def set_number(state: s.State, feature: int) -> int:
    """Place of a column among the category columns, or -1."""
    return np.int64(state.level.sets.number[feature])


@kernel(inline=True, inner=True)
def sets_of(state: s.State, number: int) -> LevelSets:
    """Return the sets of a category column."""
    sets = state.level.sets
    return LevelSets(sets.places[number], sets.info[number], sets.gains[number])


@kernel(inline=True, inner=True)
def set_column(bins: Bins, feature: int, at: int) -> SetColumn:
    """Return a category column whose histogram begins at ``at``."""
    return SetColumn(at, filled_cells(bins, feature, False), bins.stride)


@kernel(inner=True)
def sum_left(
    histograms: HistogramSums, at: int, stride: int, choice: IntArray, is_set: bool, row: IntArray
) -> tuple[int, int]:
    """Write the left sums of the chosen cut in a node; return its rows with and without a value."""
    # Returned are the rows on the left that have a value, and those without one on either side.
    g, h, n = np.int64(0), np.int64(0), np.int64(0)
    absent = at + stride - 1
    if is_set:
        for b in range(stride - 1):
            word = np.uint64(choice[s.FOUND_SET + (b >> 6)])
            if (word >> np.uint64(b & 63)) & np.uint64(1) == np.uint64(1):
                g += histograms.g[at + b]
                h += histograms.h[at + b]
                n += np.int64(histograms.n[at + b])
    else:
        stop = at + min(choice[s.FOUND_BIN] + 1, stride - 1)
        g, h, n = sum_bins(histograms, at, stop)
    present = n
    n_missing = np.int64(histograms.n[absent])
    if choice[s.FOUND_MISSING_LEFT] == 1:
        g += histograms.g[absent]
        h += histograms.h[absent]
        n += n_missing
    row[s.NODE_G_LEFT] = g
    row[s.NODE_H_LEFT] = h
    row[s.NODE_N_LEFT] = n
    return present, n_missing


@kernel(inner=True)
def write_choice(state: s.State, totals: tuple[int, int, int, int]) -> None:
    """Write the bins that go left."""
    # ``totals`` are rows of the level: all, those with a value that go left, those without a value,
    # and all that go left.
    bins, choice, bundles = state.bins, state.level.choice, state.options.bundles
    n_rows, present, n_missing, n_left = totals
    feature, last = choice[s.FOUND_FEATURE], bins.stride - 1
    larger = np.int64(2 * n_left >= n_rows)
    number = set_number(state, feature)
    if number >= 0:
        if larger == 1:  # categories that no row of the tree has go left, too
            column = set_column(bins, feature, np.int64(0))
            write_groups(
                sets_of(state, number), choice[s.FOUND_BIN], column, 0, choice, s.FOUND_SET
            )
        word = np.uint64(choice[s.FOUND_SET + (last >> 6)])
        choice[s.FOUND_MISSING_LEFT] = np.int64((word >> np.uint64(last & 63)) & np.uint64(1))
        choice[s.FOUND_BIN] = 0
        return
    if n_missing == 0:
        # Where no row is missing, a later one goes with the larger part.
        choice[s.FOUND_MISSING_LEFT] = larger
    n_bins = np.int64(bins.n_bins[feature])
    if present == n_rows - n_missing:
        # Where rows have no value, the cut behind the last value sets them apart.
        choice[s.FOUND_BIN] = n_bins - 1
    column_at = np.int64(bundles.column[feature])
    choice[s.FOUND_COLUMN] = column_at
    if bundles.alone[column_at] < 0:
        write_cells(choice, bundles, n_bins)
        return
    write_range(choice, s.FOUND_SET, choice[s.FOUND_BIN])
    if choice[s.FOUND_MISSING_LEFT] == 1:
        add_bin(choice, s.FOUND_SET, last)


@kernel(inner=True)
def split_penalty(state: s.State) -> float:
    """Return the addition to lambda on both sides of the choice, or -1 for a numeric cut."""
    sets = state.level.sets
    number = set_number(state, state.level.choice[s.FOUND_FEATURE])
    if number < 0:
        return -1.0
    return 0.0 if sets.info[number, IS_ONE_HOT] == 1 else state.options.categories.rules.penalty


@kernel(inline=True, inner=True)
def divide_level(state: s.State) -> None:
    """Divide the nodes of the level where its cut allows: the batch of the next level."""
    tree, table, scalars, level = state.tree, state.tree.table, state.scalars, state.level
    choice, counts, constraints = level.choice, level.counts, state.options.constraints
    # Give back the slots of the nodes that were built for subtraction alone.
    for j in range(scalars[s.IS_N_JOBS]):
        for child in range(2):
            node, _, searched = member(tree.batch[j], child)
            if node >= 0 and searched == 0:
                release_slot(tree, scalars, node)
    is_over = scalars[s.IS_N_SEARCHED] == 0 or choice[s.FOUND_FEATURE] < 0
    scalars[s.IS_N_JOBS], scalars[s.IS_N_SEARCHED] = 0, 0
    if is_over:
        return
    units = tree_units(state)
    factor = level_factor(constraints, choice[s.FOUND_FEATURE], counts[s.LEVEL])
    counts[s.LEVEL] += 1
    is_last, n_jobs = counts[s.LEVEL] >= state.settings.max_depth, np.int64(0)
    for k in range(counts[s.N_NODES]):
        node, job = level.nodes[k], tree.batch[n_jobs]
        if state.vectors.used == 0:
            divides, gain = gain_of_node(state, node, units, level.penalty[0])
        else:
            gain = tree.numbers[node, s.NUMBER_GAIN]  # as it was measured
            divides = gain > -np.inf
        if divides:
            tree.numbers[node, s.NUMBER_GAIN] = factor * gain
            write_cut(table[node], choice)
            open_children(state, node, is_last, job)
        elif is_last:
            continue
        else:  # the node is left to the next level
            slot = table[node, s.NODE_SLOT]
            start_job(job, np.int64(-1))
            job[s.JOB_SMALL] = node
            job[s.JOB_SMALL_SLOT] = slot if slot >= 0 else state.settings.n_slots
            job[s.JOB_SEARCH_SMALL] = 1
            job[s.JOB_HISTOGRAMS] = s.KEPT if slot >= 0 else s.BUILT
        n_jobs += 1
        scalars[s.IS_N_SEARCHED] += count_searched(job)
    scalars[s.IS_N_JOBS] = n_jobs
