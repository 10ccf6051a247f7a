"""The level of a symmetric tree: which nodes are open, and what their common cut divides.

Glossary
--------
open     a leaf that the cuts to come may divide: it has rows for two leaves
entry    what the level before has made of one of its open nodes: two children, or,
         where its cut has not divided it, the node itself, which stays open
choice   the cut of the level, a row as of ``Search.found``

Thread 0 alone runs what is here, between two barriers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core.batch import best_thread, write_cut
from hedgerow.growing.core.branches import bound_children, keep_permitted
from hedgerow.growing.core.bundle_search import column_of, feature_alone, write_cells
from hedgerow.growing.core.frontier import add_children, release_slot, start_tree, take_slot
from hedgerow.growing.core.gradients import units_of
from hedgerow.growing.core.searching import add_bin, write_range
from hedgerow.growing.core.state import (
    FOUND_BIN,
    FOUND_COLUMN,
    FOUND_FEATURE,
    FOUND_FIELDS,
    FOUND_MISSING_LEFT,
    FOUND_N_LEFT,
    FOUND_SCORE,
    FOUND_SET,
    IS_DROPPED_BITS,
    NODE_COUNT,
    NODE_G,
    NODE_G_LEFT,
    NODE_H,
    NODE_H_LEFT,
    NODE_LEFT,
    NODE_N_LEFT,
    NODE_OPEN,
    NODE_RIGHT,
    NODE_SLOT,
    NUMBER_GAIN,
    Bundles,
    Categories,
    Options,
    Settings,
    Tree,
    Vectors,
)
from hedgerow.growing.sampling.draws import draw_level, draw_node, mark_columns, takes_all
from hedgerow.growing.symmetric.gain import gain_of_node, level_factor
from hedgerow.kernels.growth import FORCED_LEFT
from hedgerow.kernels.histogram import Bins, HistogramSums, RowLists, filled_cells
from hedgerow.kernels.intrinsics import float_of_bits
from hedgerow.kernels.lanes import WIDTH
from hedgerow.kernels.monotone import Constraints
from hedgerow.kernels.split import SplitRules, Units, node_score
from hedgerow.kernels.symmetric_category import IS_ONE_HOT, SetSums, write_groups

# Cells of ``counts``.
(
    LEVEL,  # number of the level that is searched, from 0
    N_ENTRIES,
    N_OPEN,
    N_SLOTLESS,  # open nodes whose histogram is not kept
    FORCED_CUT,  # number of the cut that the level is to take, or -1
    LEVEL_COUNTS,
) = range(6)

# Cells of an entry.
(
    ENTRY_PARENT,  # node that has just been divided; -1: none
    ENTRY_FIRST,  # its left child; the node itself if there is no parent
    ENTRY_SECOND,  # its right child, or -1
    ENTRY_HISTOGRAMS,  # how the histograms are made
    ENTRY_FIELDS,
) = range(5)

# Where in ``Search.found`` threads note the best cut of all, and the one that is given.
OF_ALL, OF_FORCED = range(2)

KEPT = 0  # they are there
ONE_BUILT = 1  # of the first node from its rows
SUBTRACTED = 2  # of the smaller child from its rows, of the larger by subtraction
BOTH_BUILT = 3
UNUSED = 4  # neither node is open

# Cells of ``seen``.
(
    SEEN_LACKS,  # 1: a row has no value
    SEEN_FIRST,  # where cuts are drawn: the bin before the first that divides the rows
    SEEN_CUTS,  # and the number of such cuts
    SEEN_FIELDS,
) = range(4)

# Cells of a group of columns behind its features.
(
    GROUP_BINS,  # most bins of a feature
    GROUP_LACKS,  # 1: a row of the tree has no value in one of them
    GROUP_GAINS,  # where the gains of its cuts begin
    GROUP_CELLS,
) = range(WIDTH, WIDTH + 4)


class Sets(NamedTuple):
    """Category columns, each with the order of its categories in this tree.

    categories  as for other trees
    number      int32 (n_features,): place of a category column among them, -1 for others
    places      int64 (columns, CATEGORY_PLACES, 256), see ``kernels.symmetric_category``
    info        int64 (columns, INFO)
    gains       float64 (columns, 256)
    """

    categories: Categories
    number: np.ndarray
    places: IntArray
    info: IntArray
    gains: FloatArray


class Level(NamedTuple):
    """What symmetric growth needs beside the state.

    gains    float64 (threads, cells): gains of all cuts of the thread's columns
    groups   int64 (threads, cells): its groups of ``WIDTH`` columns, GROUP_CELLS each
    seen     int32 (n_features, SEEN_FIELDS): what the tree's rows have in each column
    entries  int64 (2, nodes, ENTRY_FIELDS): of this level and of the next, in turns
    choice   int64 (FOUND_FIELDS,)
    counts   int64 (LEVEL_COUNTS,)
    sets     for category columns
    features, bundles, lists  as in ``Options``
    """

    gains: FloatArray
    groups: IntArray
    seen: np.ndarray
    entries: IntArray
    choice: IntArray
    counts: IntArray
    sets: Sets
    features: np.ndarray
    bundles: Bundles | None
    lists: RowLists | None


@kernel(inner=True)
def start_levels(
    settings: Settings, rules: SplitRules, tree: Tree, scalars: IntArray, level: Level,
    options: Options,
) -> None:  # fmt: skip
    """Empty the tree; the root is the only node of the first level."""
    start_tree(settings, rules, tree, scalars, options)
    row, entry, counts = tree.table[0], level.entries[0, 0], level.counts
    may_divide = row[NODE_COUNT] >= 2 * rules.min_samples_leaf and settings.max_depth > 0
    row[NODE_OPEN] = 1 if may_divide else 0
    entry[ENTRY_PARENT] = -1
    entry[ENTRY_FIRST] = 0
    entry[ENTRY_SECOND] = -1
    entry[ENTRY_HISTOGRAMS] = ONE_BUILT
    counts[LEVEL] = 0
    counts[N_ENTRIES] = 1
    counts[N_OPEN] = row[NODE_OPEN]
    counts[N_SLOTLESS] = 0
    counts[FORCED_CUT] = 0 if len(options.constraints.growth.forced) > 0 else -1


@kernel(inner=True)
def allow_level(
    settings: Settings, allowed: np.ndarray, level: Level, entries: IntArray, table: IntArray,
    scalars: IntArray, constraints: Constraints,
) -> None:  # fmt: skip
    """Draw the columns of the level; a level is also what ``colsample_bynode`` draws for.

    A column may split the level if it may split each of its nodes.
    """
    if takes_all(settings, allowed, scalars, constraints):
        return
    order, number = allowed[2], level.counts[LEVEL]
    n = draw_level(settings, level.features, order, number, scalars, constraints)
    for e in range(level.counts[N_ENTRIES]):
        for side in range(2):
            node = entries[e, ENTRY_FIRST + side]
            if node >= 0 and table[node, NODE_OPEN] == 1:
                n = keep_permitted(constraints, table, node, order, n)
    n = draw_node(settings, order, n, number, scalars, constraints)
    mark_columns(allowed, 0, n)


@kernel(inline=True, inner=True)
def set_number(sets: Sets, feature: int) -> int:
    """Place of a column among the category columns, or -1."""
    return np.int64(sets.number[feature])


@kernel(inner=True)
def place_of_slot(table: IntArray, node: int, side: int, n_slots: int) -> int:
    """Slot of a node's histogram; ``side``: which of the two spare ones if it has none."""
    slot = table[node, NODE_SLOT]
    return slot if slot >= 0 else np.int64(n_slots + side)


@kernel(inner=True)
def level_score(
    tree: Tree, units: Units, rules: SplitRules, level: Level, entries: IntArray
) -> float:
    """Score of the open nodes as leaves."""
    table, total = tree.table, 0.0
    for e in range(level.counts[N_ENTRIES]):
        for side in range(2):
            node = entries[e, ENTRY_FIRST + side]
            if node >= 0 and table[node, NODE_OPEN] == 1:
                g, h = float(table[node, NODE_G]), float(table[node, NODE_H])
                total += node_score(g * units.g, h * units.h, rules)
    return total


@kernel(inner=True)
def choose_cut(
    settings: Settings,
    rules: SplitRules,
    tree: Tree,
    scalars: IntArray,
    found: IntArray,
    level: Level,
    entries: IntArray,
    constraints: Constraints,
    vectors: Vectors | None,
) -> None:
    """Take the cut that is given to the level, or else the best one.

    If neither is worth it the tree is finished.
    """
    forced = level.counts[FORCED_CUT]
    level.counts[FORCED_CUT] = -1
    if forced >= 0:
        take_best(
            settings, rules, tree, scalars, found, OF_FORCED, level, entries, constraints, vectors
        )
        if level.choice[FOUND_FEATURE] >= 0:
            level.counts[FORCED_CUT] = constraints.growth.forced[forced, FORCED_LEFT]
            return
    take_best(settings, rules, tree, scalars, found, OF_ALL, level, entries, constraints, vectors)


@kernel(inner=True)
def take_best(
    settings: Settings,
    rules: SplitRules,
    tree: Tree,
    scalars: IntArray,
    found: IntArray,
    place: int,
    level: Level,
    entries: IntArray,
    constraints: Constraints,
    vectors: Vectors | None,
) -> None:
    """Write the best of what the threads have found to the choice; feature -1: none is worthy."""
    best, choice = best_thread(found, place), level.choice
    for field in range(FOUND_FIELDS):
        choice[field] = found[best, place, field]
    choice[FOUND_N_LEFT] = 0
    units = units_of(scalars, settings.constant_hessian, scalars[IS_DROPPED_BITS])
    if vectors is None:
        score = float_of_bits(choice[FOUND_SCORE]) * units.scale
        own, price = level_score(tree, units, rules, level, entries), rules.gamma
    else:
        score, own = float_of_bits(choice[FOUND_SCORE]), vectors.trial.parent[best, 0]
        price = len(vectors.outputs.scalars) * rules.gamma
    gain = 0.5 * score - price
    if constraints.scored == 1 and score > 0.0:  # it has paid its price
        gain = 0.5 * score
        factor = level_factor(constraints, choice[FOUND_FEATURE], level.counts[LEVEL])
        score = score / factor + 2.0 * rules.gamma
    # As of single nodes: what is no more than rounding is no gain.
    noise = 1e-10 * own
    if score <= noise or not gain > 0.0 or not math.isfinite(gain):
        choice[FOUND_FEATURE] = -1


@kernel(inner=True)
def sum_left(
    histograms: HistogramSums, at: int, stride: int, choice: IntArray, is_set: bool, row: IntArray
) -> tuple[int, int]:
    """Sums of the left side of the choice in a node; its rows with and without a value there.

    The sums are written to the row of the node; what is returned is the rows on the left
    that have a value, and those without, on whichever side.
    """
    g, h, n = np.int64(0), np.int64(0), np.int64(0)
    absent = at + stride - 1
    if is_set:
        for b in range(stride - 1):
            word = np.uint64(choice[FOUND_SET + (b >> 6)])
            if (word >> np.uint64(b & 63)) & np.uint64(1) == np.uint64(1):
                g += histograms.g[at + b]
                h += histograms.h[at + b]
                n += np.int64(histograms.n[at + b])
    else:
        for b in range(at, at + min(choice[FOUND_BIN] + 1, stride - 1)):
            g += histograms.g[b]
            h += histograms.h[b]
            n += np.int64(histograms.n[b])
    present = n
    n_missing = np.int64(histograms.n[absent])
    if choice[FOUND_MISSING_LEFT] == 1:
        g += histograms.g[absent]
        h += histograms.h[absent]
        n += n_missing
    row[NODE_G_LEFT] = g
    row[NODE_H_LEFT] = h
    row[NODE_N_LEFT] = n
    return present, n_missing


@kernel(inner=True)
def write_unseen(bins: Bins, choice: IntArray, sets: Sets) -> None:
    """Put to a set of categories, which are the choice, those that no row of the tree has."""
    feature = choice[FOUND_FEATURE]
    number = set_number(sets, feature)
    column = SetSums(np.int64(0), filled_cells(bins, feature, False), bins.stride)
    places, info = sets.places[number], sets.info[number]
    write_groups(places, info, choice[FOUND_BIN], column, 0, choice, FOUND_SET)


@kernel(inner=True)
def write_choice(
    bins: Bins,
    choice: IntArray,
    sets: Sets,
    totals: tuple[int, int, int, int],
    bundles: Bundles | None,
) -> None:
    """Write the bins that go left; ``totals`` are rows of the level.

    All of them, those with a value that go left, those without a value, and all that go left.
    """
    n_rows, present, n_missing, n_left = totals
    feature, last = choice[FOUND_FEATURE], bins.stride - 1
    larger = np.int64(2 * n_left >= n_rows)
    if set_number(sets, feature) >= 0:
        if larger == 1:
            write_unseen(bins, choice, sets)
        word = np.uint64(choice[FOUND_SET + (last >> 6)])
        choice[FOUND_MISSING_LEFT] = np.int64((word >> np.uint64(last & 63)) & np.uint64(1))
        choice[FOUND_BIN] = 0
        return
    if n_missing == 0:
        # Where no row is missing, a later one goes with the larger part.
        choice[FOUND_MISSING_LEFT] = larger
    if present == n_rows - n_missing:
        # Where rows have no value, the cut behind the last value sets them apart.
        choice[FOUND_BIN] = np.int64(bins.n_bins[feature]) - 1
    column = column_of(bundles, feature)
    choice[FOUND_COLUMN] = column
    if feature_alone(bundles, column) < 0:
        write_cells(choice, bundles, np.int64(bins.n_bins[feature]))
        return
    write_range(choice, FOUND_SET, choice[FOUND_BIN])
    if choice[FOUND_MISSING_LEFT] == 1:
        add_bin(choice, FOUND_SET, last)


@kernel(inner=True)
def split_penalty(choice: IntArray, sets: Sets) -> float:
    """What the choice adds to lambda on both sides; -1 if it is a cut of numbers."""
    number = set_number(sets, choice[FOUND_FEATURE])
    if number < 0:
        return -1.0
    one_hot = sets.info[number, IS_ONE_HOT] == 1
    return 0.0 if one_hot else sets.categories.rules.penalty


@kernel(inner=True)
def open_pair(
    settings: Settings,
    rules: SplitRules,
    tree: Tree,
    scalars: IntArray,
    parent: int,
    is_last: bool,
    entry: IntArray,
) -> None:
    """Make the two children of ``parent`` and plan their histograms."""
    table = tree.table
    row = table[parent]
    small, large = add_children(tree, scalars, parent)
    entry[ENTRY_PARENT] = parent
    entry[ENTRY_FIRST] = row[NODE_LEFT]
    entry[ENTRY_SECOND] = row[NODE_RIGHT]
    least = 2 * rules.min_samples_leaf
    if is_last or table[large, NODE_COUNT] < least:
        entry[ENTRY_HISTOGRAMS] = UNUSED
        release_slot(tree, scalars, parent)
        return
    table[large, NODE_OPEN] = 1
    table[small, NODE_OPEN] = 1 if table[small, NODE_COUNT] >= least else 0
    slot = row[NODE_SLOT]
    row[NODE_SLOT] = -1
    entry[ENTRY_HISTOGRAMS] = SUBTRACTED if slot >= 0 else BOTH_BUILT
    table[large, NODE_SLOT] = slot if slot >= 0 else take_slot(tree, scalars)
    if table[small, NODE_OPEN] == 1:
        table[small, NODE_SLOT] = take_slot(tree, scalars)


@kernel(inner=True)
def divide_level(
    settings: Settings,
    rules: SplitRules,
    tree: Tree,
    scalars: IntArray,
    level: Level,
    entries: IntArray,
    coming: IntArray,
    constraints: Constraints,
    vectors: Vectors | None,
) -> None:
    """Divide the open nodes of ``entries`` where the choice allows; the next level's entries."""
    table, choice, counts = tree.table, level.choice, level.counts
    units = units_of(scalars, settings.constant_hessian, scalars[IS_DROPPED_BITS])
    penalty = split_penalty(choice, level.sets)
    factor = level_factor(constraints, choice[FOUND_FEATURE], counts[LEVEL])
    is_last = counts[LEVEL] + 1 >= settings.max_depth
    n_coming, n_open, n_slotless = np.int64(0), np.int64(0), np.int64(0)
    for e in range(counts[N_ENTRIES]):
        for side in range(2):
            node = entries[e, ENTRY_FIRST + side]
            if node < 0 or table[node, NODE_OPEN] == 0:
                continue
            row, entry = table[node], coming[n_coming]
            if vectors is None:
                divides, gain = gain_of_node(row, units, rules, penalty, node, choice, constraints)
            else:
                gain = tree.numbers[node, NUMBER_GAIN]  # as it was measured
                divides = gain > -np.inf
            n_coming += 1
            if divides:
                tree.numbers[node, NUMBER_GAIN] = factor * gain
                write_cut(row, choice)
                open_pair(settings, rules, tree, scalars, node, is_last, entry)
                bound_children(constraints, units, rules, tree, node)
            else:
                entry[ENTRY_PARENT] = -1
                entry[ENTRY_FIRST] = node
                entry[ENTRY_SECOND] = -1
                entry[ENTRY_HISTOGRAMS] = KEPT if row[NODE_SLOT] >= 0 else ONE_BUILT
            for k in range(2):
                child = entry[ENTRY_FIRST + k]
                if child >= 0 and table[child, NODE_OPEN] == 1:
                    n_open += 1
                    n_slotless += np.int64(table[child, NODE_SLOT] < 0)
    counts[LEVEL] += 1
    counts[N_ENTRIES] = n_coming
    counts[N_OPEN] = np.int64(0) if is_last else n_open
    counts[N_SLOTLESS] = n_slotless
