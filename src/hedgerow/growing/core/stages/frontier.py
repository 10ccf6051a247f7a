"""The order of node splits, and the bookkeeping of nodes and histogram slots.

Thread 0 alone runs this code, between two barriers.  The frontier is the set
of open nodes of the table; leaf-wise growth takes the one with the largest
gain, depth-wise growth the one with the smallest depth (among those the
largest gain).  Nodes with a cut that is given come first.  Ties go to the node that was made first.

A histogram slot is taken by the root, by each smaller child, and inherited
from the parent by the larger one; nodes that cannot be split give theirs back.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core import state as s
from hedgerow.growing.core.batch import best_thread, count_searched, member, start_job, write_split
from hedgerow.growing.core.stages.branches import bound_children, bound_root
from hedgerow.growing.core.stages.gradients import units_of
from hedgerow.kernels.primitives.intrinsics import float_of_bits
from hedgerow.kernels.splits.monotone import Constraints, split_gain
from hedgerow.kernels.splits.split import ROUNDING, NodeSums, SplitRules, accepted_gain

_PATH_STEP = 0x5851F42D4C957F2D
"""Paths are told apart by the polynomials in this number that their steps make."""


@kernel(inner=True)
def add_node(tree: s.Tree, scalars: IntArray, start: int, count: int, depth: int) -> int:
    """Append a leaf to the table and return its number."""
    node = scalars[s.IS_N_NODES]
    scalars[s.IS_N_NODES] = node + 1
    for k in range(s.NODE_FIELDS):
        tree.table[node, k] = 0
    tree.table[node, s.NODE_START] = start
    tree.table[node, s.NODE_COUNT] = count
    tree.table[node, s.NODE_DEPTH] = depth
    tree.table[node, s.NODE_SLOT] = -1
    tree.table[node, s.NODE_FEATURE] = -1
    tree.numbers[node, s.NUMBER_GAIN] = -1.0
    return node


@kernel(inner=True)
def take_slot(tree: s.Tree, scalars: IntArray) -> int:
    """Return a free histogram slot, or -1."""
    n_free = scalars[s.IS_N_FREE]
    if n_free == 0:
        return np.int64(-1)
    scalars[s.IS_N_FREE] = n_free - 1
    return tree.free_slots[n_free - 1]


@kernel(inner=True)
def release_slot(tree: s.Tree, scalars: IntArray, node: int) -> None:
    """Give the node's histogram slot back, if it has one."""
    slot = tree.table[node, s.NODE_SLOT]
    if slot >= 0:
        tree.free_slots[scalars[s.IS_N_FREE]] = slot
        scalars[s.IS_N_FREE] += 1
        tree.table[node, s.NODE_SLOT] = -1


@kernel(inner=True)
def may_split(settings: s.Settings, least_rows: int, tree: s.Tree, node: int) -> bool:
    """Return whether rows and depth leave room for a split of the node."""
    enough = tree.table[node, s.NODE_COUNT] >= 2 * least_rows
    return enough and tree.table[node, s.NODE_DEPTH] < settings.max_depth


@kernel(inner=True)
def start_root(tree: s.Tree, scalars: IntArray, root: int, searched: bool) -> None:
    """Make the root the only job of the batch."""
    job = tree.batch[0]
    start_job(job, np.int64(-1))
    job[s.JOB_SMALL] = root
    job[s.JOB_SMALL_SLOT] = tree.table[root, s.NODE_SLOT]
    job[s.JOB_SEARCH_SMALL] = 1 if searched else 0
    scalars[s.IS_N_JOBS] = 1
    scalars[s.IS_N_SEARCHED] = count_searched(job)


@kernel(inline=True, inner=True)
def start_tree(
    settings: s.Settings,
    rules: SplitRules,
    tree: s.Tree,
    scalars: IntArray,
    options: s.Options,
) -> None:
    """Thread 0: empty the tree and make the root the node to be searched."""
    for slot in range(settings.n_slots):
        tree.free_slots[slot] = slot
    scalars[s.IS_N_FREE] = settings.n_slots
    scalars[s.IS_N_NODES] = 0
    scalars[s.IS_N_LEAVES] = 1
    root = add_node(tree, scalars, 0, scalars[s.IS_N_ROWS], 0)
    tree.table[root, s.NODE_SLOT] = take_slot(tree, scalars)
    searched = may_split(settings, rules.min_samples_leaf, tree, root) and settings.max_leaves > 1
    start_root(tree, scalars, root, searched)
    bound_root(options.constraints, settings.seed, scalars[s.IS_TREE])


@kernel(inner=True)
def take_split(tree: s.Tree, scalars: IntArray, node: int, split: IntArray, gain: float) -> None:
    """Write the split that was found into the table, if it is worth its price."""
    tree.numbers[node, s.NUMBER_GAIN] = gain
    if gain < 0.0:
        release_slot(tree, scalars, node)
        return
    tree.table[node, s.NODE_OPEN] = 1
    write_split(tree.table[node], split)


@kernel(inner=True)
def keep_vector(
    vectors: s.Vectors,
    thread: int,
    child: int,
    node: int,
    score: float,
    rules: SplitRules,
    constraints: Constraints,
) -> float:
    """Keep the values of a node that those below it depend on; return the gain of its split."""
    trial, values, n_outputs = vectors.trial, vectors.outputs.vectors, len(vectors.outputs.scalars)
    if constraints.growth.smooth > 0.0 or values.shape[1] > n_outputs:
        for k in range(values.shape[1]):
            values[node, k] = trial.own[thread, child, k]
    if constraints.scored == 0:
        own = trial.parent[thread, child]
        return accepted_gain(score, own, ROUNDING * own, n_outputs * rules.gamma, 1.0)
    if score == np.inf:
        return trial.given[thread, child]
    return score if score > 0.0 else -1.0


@kernel(inline=True, inner=True)
def keep_best(
    settings: s.Settings,
    rules: SplitRules,
    tree: s.Tree,
    scalars: IntArray,
    found: IntArray,
    node: int,
    child: int,
    options: s.Options,
    vectors: s.Vectors,
) -> None:
    """Write the best split that any thread found into the table."""
    best = best_thread(found, child)
    units = units_of(scalars, settings.constant_hessian, scalars[s.IS_DROPPED_BITS])
    row = tree.table[node]
    sums = NodeSums(row[s.NODE_G], row[s.NODE_H], row[s.NODE_COUNT])
    split = found[best, child]
    score = float_of_bits(split[s.FOUND_SCORE]) * units.scale
    if vectors.used == 0:
        left = NodeSums(split[s.FOUND_G_LEFT], split[s.FOUND_H_LEFT], split[s.FOUND_N_LEFT])
        gain = split_gain(options.constraints, node, score, left, sums, units, rules)
    else:
        gain = keep_vector(vectors, best, child, node, score, rules, options.constraints)
    take_split(tree, scalars, node, split, gain)
    if score == np.inf:
        tree.table[node, s.NODE_OPEN] = 2


@kernel(inline=True, inner=True)
def commit_job(
    settings: s.Settings,
    rules: SplitRules,
    tree: s.Tree,
    scalars: IntArray,
    job: IntArray,
    found: IntArray,
    options: s.Options,
    vectors: s.Vectors,
) -> None:
    """Take over what the search of a job has found: int64 (any, 2, FOUND_FIELDS)."""
    for child in range(2):
        node, _, searched = member(job, child)
        if searched == 1:
            keep_best(settings, rules, tree, scalars, found, node, child, options, vectors)
        elif node >= 0:
            release_slot(tree, scalars, node)


@kernel(inner=True)
def next_node(settings: s.Settings, tree: s.Tree, scalars: IntArray) -> int:
    """Return the open node that comes first in the order of growth, or -1."""
    table = tree.table
    best = np.int64(-1)
    if scalars[s.IS_N_LEAVES] >= settings.max_leaves:
        return best
    for node in range(scalars[s.IS_N_NODES]):
        if table[node, s.NODE_OPEN] == 0:
            continue
        if best < 0 or table[node, s.NODE_OPEN] > table[best, s.NODE_OPEN]:
            best = node
        elif table[node, s.NODE_OPEN] < table[best, s.NODE_OPEN]:
            continue
        elif settings.depthwise == 1 and table[node, s.NODE_DEPTH] != table[best, s.NODE_DEPTH]:
            if table[node, s.NODE_DEPTH] < table[best, s.NODE_DEPTH]:
                best = node
        elif tree.numbers[node, s.NUMBER_GAIN] > tree.numbers[best, s.NUMBER_GAIN]:
            best = node
    return best


@kernel(inner=True)
def add_children(tree: s.Tree, scalars: IntArray, parent: int) -> tuple[int, int]:
    """Make the two children of ``parent``; the one with fewer rows first."""
    table = tree.table
    row = table[parent]
    n_left, depth = row[s.NODE_N_LEFT], row[s.NODE_DEPTH] + 1
    n_right = row[s.NODE_COUNT] - n_left
    left = add_node(tree, scalars, row[s.NODE_START], n_left, depth)
    right = add_node(tree, scalars, row[s.NODE_START] + n_left, n_right, depth)
    table[left, s.NODE_G] = row[s.NODE_G_LEFT]
    table[left, s.NODE_H] = row[s.NODE_H_LEFT]
    table[right, s.NODE_G] = row[s.NODE_G] - row[s.NODE_G_LEFT]
    table[right, s.NODE_H] = row[s.NODE_H] - row[s.NODE_H_LEFT]
    table[left, s.NODE_PATH] = row[s.NODE_PATH] * _PATH_STEP + 1
    table[right, s.NODE_PATH] = row[s.NODE_PATH] * _PATH_STEP + 2
    row[s.NODE_OPEN] = 0
    row[s.NODE_LEFT] = left
    row[s.NODE_RIGHT] = right
    scalars[s.IS_N_LEAVES] += 1
    if n_left <= n_right:
        return left, right
    return right, left


@kernel(inline=True, inner=True)
def open_children(
    settings: s.Settings,
    rules: SplitRules,
    tree: s.Tree,
    scalars: IntArray,
    parent: int,
    is_last: bool,
    job: IntArray,
    options: s.Options,
) -> None:
    """Make the two children of ``parent`` and plan their histograms; the last are not searched."""
    small, large = add_children(tree, scalars, parent)
    units = units_of(scalars, settings.constant_hessian, scalars[s.IS_DROPPED_BITS])
    bound_children(options.constraints, units, rules, tree, parent)
    start_job(job, parent)
    if not is_last and may_split(settings, rules.min_samples_leaf, tree, large):
        job[s.JOB_SEARCH_LARGE] = 1
        search_small = may_split(settings, rules.min_samples_leaf, tree, small)
        job[s.JOB_SEARCH_SMALL] = 1 if search_small else 0
        plan_histograms(settings.n_slots, tree, scalars, parent, (small, large), job)
    else:
        # The smaller child has no more rows and no less depth: neither is searched.
        release_slot(tree, scalars, parent)


@kernel(inner=True)
def plan_histograms(
    n_slots: int,
    tree: s.Tree,
    scalars: IntArray,
    parent: int,
    children: tuple[int, int],
    job: IntArray,
) -> None:
    """Decide how the children's histograms are made, and in which slots."""
    # Slots ``n_slots`` and ``n_slots + 1`` are not handed out: they serve a node whose histogram
    # cannot be kept because all others are taken.
    small, large = children
    table = tree.table
    slot = table[parent, s.NODE_SLOT]
    table[parent, s.NODE_SLOT] = -1
    job[s.JOB_SMALL] = small
    job[s.JOB_LARGE] = large
    if slot >= 0:
        job[s.JOB_HISTOGRAMS] = s.SUBTRACTED
    table[large, s.NODE_SLOT] = slot if slot >= 0 else take_slot(tree, scalars)
    table[small, s.NODE_SLOT] = take_slot(tree, scalars)
    small_slot, large_slot = table[small, s.NODE_SLOT], table[large, s.NODE_SLOT]
    job[s.JOB_SMALL_SLOT] = small_slot if small_slot >= 0 else n_slots
    job[s.JOB_LARGE_SLOT] = large_slot if large_slot >= 0 else n_slots + 1


@kernel(inline=True, inner=True)
def advance(
    settings: s.Settings,
    rules: SplitRules,
    tree: s.Tree,
    scalars: IntArray,
    found: IntArray,
    options: s.Options,
    vectors: s.Vectors,
) -> None:
    """Thread 0: commit the found splits, choose the next node and open its children."""
    job = tree.batch[0]
    commit_job(settings, rules, tree, scalars, job, found, options, vectors)
    parent = next_node(settings, tree, scalars)
    scalars[s.IS_N_JOBS] = 1 if parent >= 0 else 0
    start_job(job, parent)
    if parent >= 0:
        is_last = scalars[s.IS_N_LEAVES] + 1 >= settings.max_leaves
        open_children(settings, rules, tree, scalars, parent, is_last, job, options)
    scalars[s.IS_N_SEARCHED] = count_searched(job)
