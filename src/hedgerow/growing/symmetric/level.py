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

import math

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core.batch import (
    BUILT,
    JOB_HISTOGRAMS,
    JOB_LARGE,
    JOB_SEARCH_SMALL,
    JOB_SMALL,
    JOB_SMALL_SLOT,
    KEPT,
    best_thread,
    count_searched,
    member,
    start_job,
    write_cut,
)
from hedgerow.growing.core.stages.branches import keep_permitted
from hedgerow.growing.core.stages.bundle_search import column_of, feature_alone, write_cells
from hedgerow.growing.core.stages.frontier import open_children, release_slot
from hedgerow.growing.core.stages.gradients import units_of
from hedgerow.growing.core.stages.searching import add_bin, write_range
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
    IS_N_JOBS,
    IS_N_SEARCHED,
    NODE_G,
    NODE_G_LEFT,
    NODE_H,
    NODE_H_LEFT,
    NODE_N_LEFT,
    NODE_SLOT,
    NUMBER_GAIN,
    Bundles,
    Level,
    Options,
    Sets,
    Settings,
    Tree,
    Vectors,
)
from hedgerow.growing.sampling.draws import draw_level, draw_node, mark_columns, takes_all
from hedgerow.growing.symmetric.gain import gain_of_node, level_factor
from hedgerow.kernels.histograms.histogram import Bins, HistogramSums, filled_cells
from hedgerow.kernels.primitives.intrinsics import float_of_bits
from hedgerow.kernels.simd.lanes import WIDTH
from hedgerow.kernels.splits.growth import FORCED_LEFT
from hedgerow.kernels.splits.monotone import Constraints
from hedgerow.kernels.splits.split import SplitRules, Units, node_score
from hedgerow.kernels.splits.symmetric_category import IS_ONE_HOT, SetSums, write_groups

# Cells of ``counts``.
(
    LEVEL,  # number of the level that is searched, from 0
    N_NODES,
    N_SLOTLESS,  # nodes whose histogram is not kept
    FORCED_CUT,  # number of the cut that the level is to take, or -1
    LEVEL_COUNTS,
) = range(5)

# Where in ``Search.found`` threads note the best cut of all, and the one that is given.
OF_ALL, OF_FORCED = range(2)

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


@kernel(inner=True)
def start_levels(level: Level, constraints: Constraints) -> None:
    """Start a tree without levels."""
    level.counts[LEVEL] = 0
    level.counts[FORCED_CUT] = 0 if len(constraints.growth.forced) > 0 else -1


@kernel(inner=True)
def list_nodes(level: Level, tree: Tree, n_jobs: int) -> None:
    """List the nodes of the batch that are searched, from left to right."""
    counts, n = level.counts, np.int64(0)
    counts[N_SLOTLESS] = 0
    for j in range(n_jobs):
        for side in range(2):
            node, _, searched = member(tree.batch[j], child_at(tree.batch[j], side))
            if searched == 1:
                level.nodes[n] = node
                n += 1
                counts[N_SLOTLESS] += np.int64(tree.table[node, NODE_SLOT] < 0)
    counts[N_NODES] = n


@kernel(inline=True, inner=True)
def child_at(job: IntArray, side: int) -> int:
    """Return which child of a job is on the left (0) or right (1); the left one is older."""
    return side if job[JOB_SMALL] < job[JOB_LARGE] else 1 - side


@kernel(inner=True)
def open_level(
    settings: Settings, allowed: np.ndarray, level: Level, tree: Tree, scalars: IntArray,
    constraints: Constraints,
) -> None:  # fmt: skip
    """List the nodes of the level and draw its columns, as ``colsample_bynode`` asks."""
    list_nodes(level, tree, scalars[IS_N_JOBS])
    if takes_all(settings, allowed, scalars, constraints):
        return
    order, number = allowed[2], level.counts[LEVEL]
    n = draw_level(settings, level.features, order, number, scalars, constraints)
    # A column may split the level if it may split each of its nodes.
    for k in range(level.counts[N_NODES]):
        n = keep_permitted(constraints, tree.table, level.nodes[k], order, n)
    n = draw_node(settings, order, n, number, scalars, constraints)
    mark_columns(allowed, 0, n)


@kernel(inline=True, inner=True)
def set_number(sets: Sets, feature: int) -> int:
    """Place of a column among the category columns, or -1."""
    return np.int64(sets.number[feature])


@kernel(inner=True)
def level_score(tree: Tree, units: Units, rules: SplitRules, level: Level) -> float:
    """Return the score of the nodes of the level as leaves."""
    table, total = tree.table, 0.0
    for k in range(level.counts[N_NODES]):
        row = table[level.nodes[k]]
        total += node_score(float(row[NODE_G]) * units.g, float(row[NODE_H]) * units.h, rules)
    return total


@kernel(inner=True)
def choose_cut(
    settings: Settings,
    rules: SplitRules,
    tree: Tree,
    scalars: IntArray,
    found: IntArray,
    level: Level,
    constraints: Constraints,
    vectors: Vectors | None,
) -> None:
    """Take the cut that is given to the level, or else the best one, or finish the tree."""
    forced = level.counts[FORCED_CUT]
    level.counts[FORCED_CUT] = -1
    if forced >= 0:
        take_best(settings, rules, tree, scalars, found, OF_FORCED, level, constraints, vectors)
        if level.choice[FOUND_FEATURE] >= 0:
            level.counts[FORCED_CUT] = constraints.growth.forced[forced, FORCED_LEFT]
            return
    take_best(settings, rules, tree, scalars, found, OF_ALL, level, constraints, vectors)


@kernel(inner=True)
def take_best(
    settings: Settings,
    rules: SplitRules,
    tree: Tree,
    scalars: IntArray,
    found: IntArray,
    place: int,
    level: Level,
    constraints: Constraints,
    vectors: Vectors | None,
) -> None:
    """Write the best of what the threads have found to the choice; feature -1: none is worthy."""
    best, choice = best_thread(found, place), level.choice
    for field in range(FOUND_FIELDS):
        choice[field] = found[best, place, field]
    choice[FOUND_N_LEFT] = 0
    units = units_of(scalars, settings.constant_hessian, scalars[IS_DROPPED_BITS])
    score = float_of_bits(choice[FOUND_SCORE]) * units.scale
    if vectors is None or vectors.used == 0:
        own, price = level_score(tree, units, rules, level), rules.gamma
    else:
        own, price = vectors.trial.parent[best, 0], price_of_vectors(rules, vectors)
    gain = 0.5 * score - price
    if constraints.scored == 1 and score > 0.0:  # it has paid its price
        gain = 0.5 * score
        factor = level_factor(constraints, choice[FOUND_FEATURE], level.counts[LEVEL])
        score = score / factor + 2.0 * price
    # As for single nodes: a gain within rounding is no gain.
    noise = 1e-10 * own
    if score <= noise or not gain > 0.0 or not math.isfinite(gain):
        choice[FOUND_FEATURE] = -1


@kernel(inline=True, inner=True)
def price_of_vectors(rules: SplitRules, vectors: Vectors) -> float:
    """Return the price of a split of several outputs: gamma for each."""
    return len(vectors.outputs.scalars) * rules.gamma


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
    bundles: Bundles,
) -> None:
    """Write the bins that go left."""
    # ``totals`` are rows of the level: all, those with a value that go left, those without a value,
    # and all that go left.
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
    """Return the addition to lambda on both sides of the choice, or -1 for a numeric cut."""
    number = set_number(sets, choice[FOUND_FEATURE])
    if number < 0:
        return -1.0
    one_hot = sets.info[number, IS_ONE_HOT] == 1
    return 0.0 if one_hot else sets.categories.rules.penalty


@kernel(inner=True)
def release_unsearched(tree: Tree, scalars: IntArray) -> None:
    """Give back the slots of the nodes that were built for subtraction alone."""
    for j in range(scalars[IS_N_JOBS]):
        for child in range(2):
            node, _, searched = member(tree.batch[j], child)
            if node >= 0 and searched == 0:
                release_slot(tree, scalars, node)


@kernel(inner=True)
def keep_node(n_slots: int, table: IntArray, node: int, job: IntArray) -> None:
    """Leave a node that is not divided to the next level."""
    start_job(job, np.int64(-1))
    slot = table[node, NODE_SLOT]
    job[JOB_SMALL] = node
    job[JOB_SMALL_SLOT] = slot if slot >= 0 else n_slots
    job[JOB_SEARCH_SMALL] = 1
    job[JOB_HISTOGRAMS] = KEPT if slot >= 0 else BUILT


@kernel(inline=True, inner=True)
def divide_level(
    settings: Settings,
    rules: SplitRules,
    tree: Tree,
    scalars: IntArray,
    level: Level,
    options: Options,
    vectors: Vectors | None,
) -> None:
    """Divide the nodes of the level where its cut allows: the batch of the next level."""
    table, choice, counts, constraints = tree.table, level.choice, level.counts, options.constraints
    release_unsearched(tree, scalars)
    is_over = scalars[IS_N_SEARCHED] == 0 or choice[FOUND_FEATURE] < 0
    scalars[IS_N_JOBS], scalars[IS_N_SEARCHED] = 0, 0
    if is_over:
        return
    units = units_of(scalars, settings.constant_hessian, scalars[IS_DROPPED_BITS])
    factor = level_factor(constraints, choice[FOUND_FEATURE], counts[LEVEL])
    counts[LEVEL] += 1
    is_last, n_jobs = counts[LEVEL] >= settings.max_depth, np.int64(0)
    for k in range(counts[N_NODES]):
        node, job = level.nodes[k], tree.batch[n_jobs]
        if vectors is None or vectors.used == 0:
            divides, gain = gain_of_node(
                table[node], units, rules, level.penalty[0], node, choice, constraints
            )
        else:
            gain = tree.numbers[node, NUMBER_GAIN]  # as it was measured
            divides = gain > -np.inf
        if divides:
            tree.numbers[node, NUMBER_GAIN] = factor * gain
            write_cut(table[node], choice)
            open_children(settings, rules, tree, scalars, node, is_last, job, options)
        elif is_last:
            continue
        else:
            keep_node(settings.n_slots, table, node, job)
        n_jobs += 1
        scalars[IS_N_SEARCHED] += count_searched(job)
    scalars[IS_N_JOBS] = n_jobs
