"""The order of node splits, and the bookkeeping of nodes and histogram slots.

Thread 0 alone runs this code, between two barriers.  The frontier is the set
of open nodes of the table; leaf-wise growth takes the one with the largest
gain, depth-wise growth the one with the smallest depth (among those the
largest gain).  Ties go to the node that was made first.

A histogram slot is taken by the root, by each smaller child, and inherited
from the parent by the larger one; nodes that cannot be split give theirs back.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core import state as s
from hedgerow.growing.core.batch import best_thread, count_searched, member, start_job, write_cut
from hedgerow.growing.core.stages.branches import bound_children
from hedgerow.growing.core.stages.gradients import outputs_of, tree_units
from hedgerow.kernels.primitives.hashing import hash64
from hedgerow.kernels.primitives.intrinsics import float_of_bits
from hedgerow.kernels.splits.constraints import (
    CUT_STREAM,
    HIGH,
    LOW,
    ORDERED,
    TOWARD,
    ordered_factor,
)
from hedgerow.kernels.splits.split import ROUNDING, accepted_gain, node_score

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
def may_split(state: s.State, node: int) -> bool:
    """Return whether rows and depth leave room for a split of the node."""
    row = state.tree.table[node]
    enough = row[s.NODE_COUNT] >= 2 * state.rules.min_samples_leaf
    return enough and row[s.NODE_DEPTH] < state.settings.max_depth


@kernel(inline=True)
def start_tree(state: s.State) -> None:
    """Thread 0: empty the tree and make the root the only job of the batch."""
    tree, scalars, n_slots = state.tree, state.scalars, state.settings.n_slots
    job = tree.batch[0]
    for slot in range(n_slots):
        tree.free_slots[slot] = slot
    scalars[s.IS_N_FREE] = n_slots
    scalars[s.IS_N_NODES] = 0
    scalars[s.IS_N_LEAVES] = 1
    root = add_node(tree, scalars, 0, scalars[s.IS_N_ROWS], 0)
    tree.table[root, s.NODE_SLOT] = take_slot(tree, scalars)
    start_job(job, np.int64(-1))
    job[s.JOB_SMALL] = root
    job[s.JOB_SMALL_SLOT] = tree.table[root, s.NODE_SLOT]
    searched = may_split(state, root) and state.settings.max_leaves > 1
    job[s.JOB_SEARCH_SMALL] = 1 if searched else 0
    scalars[s.IS_N_JOBS] = 1
    scalars[s.IS_N_SEARCHED] = count_searched(job)
    # The root may take any value.
    constraints = state.options.constraints
    constraints.parent[0] = -1
    if constraints.scored == 1:
        constraints.bounds[0, LOW] = -np.inf
        constraints.bounds[0, HIGH] = np.inf
        constraints.bounds[0, TOWARD] = 0.0
        constraints.bounds[0, ORDERED] = ordered_factor(constraints.growth.penalty, 0)
    if constraints.growth.drawn == 1:
        stream = np.uint64(CUT_STREAM + scalars[s.IS_TREE])
        constraints.growth.key[0] = np.int64(hash64(state.settings.seed, stream, np.uint64(0)))


@kernel(inline=True, inner=True)
def commit_job(state: s.State, job: IntArray, found: IntArray) -> None:
    """Take over what the search of a job has found: int64 (any, 2, FOUND_FIELDS)."""
    tree, scalars = state.tree, state.scalars
    for child in range(2):
        node, _, searched = member(job, child)
        if searched == 1:
            best = best_thread(found, child)
            units = tree_units(state)
            row, split = tree.table[node], found[best, child]
            score = float_of_bits(split[s.FOUND_SCORE]) * units.scale
            if state.vectors.used == 0:
                g, h = float(row[s.NODE_G]) * units.g, float(row[s.NODE_H]) * units.h
                own = node_score(g, h, state.rules)
            else:
                own = float_of_bits(split[s.FOUND_OWN])
            price = outputs_of(state) * state.rules.gamma
            gain = accepted_gain(score, own, ROUNDING * own, price, 1.0)
            if state.vectors.used == 0 and state.options.constraints.scored == 1:
                gain = score if score > 0.0 else -1.0  # the score is the gain
            tree.numbers[node, s.NUMBER_GAIN] = gain
            if gain < 0.0:
                release_slot(tree, scalars, node)
            else:
                row[s.NODE_OPEN] = 1
                write_cut(row, split)
                row[s.NODE_G_LEFT] = split[s.FOUND_G_LEFT]
                row[s.NODE_H_LEFT] = split[s.FOUND_H_LEFT]
                row[s.NODE_N_LEFT] = split[s.FOUND_N_LEFT]
        elif node >= 0:
            release_slot(tree, scalars, node)


@kernel(inner=True)
def next_node(state: s.State) -> int:
    """Return the open node that comes first in the order of growth, or -1."""
    tree, table, scalars, settings = state.tree, state.tree.table, state.scalars, state.settings
    best = np.int64(-1)
    if scalars[s.IS_N_LEAVES] >= settings.max_leaves:
        return best
    for node in range(scalars[s.IS_N_NODES]):
        if table[node, s.NODE_OPEN] == 0:
            continue
        if best < 0:
            best = node
        elif settings.depthwise == 1 and table[node, s.NODE_DEPTH] != table[best, s.NODE_DEPTH]:
            if table[node, s.NODE_DEPTH] < table[best, s.NODE_DEPTH]:
                best = node
        elif tree.numbers[node, s.NUMBER_GAIN] > tree.numbers[best, s.NUMBER_GAIN]:
            best = node
    return best


@kernel(inline=True, inner=True)
def open_children(state: s.State, parent: int, is_last: bool, job: IntArray) -> None:
    """Make the two children of ``parent`` and plan their histograms; the last are not searched."""
    tree, scalars, table, n_slots = (
        state.tree, state.scalars, state.tree.table, state.settings.n_slots
    )  # fmt: skip
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
    small, large = (left, right) if n_left <= n_right else (right, left)
    bound_children(state.options.constraints, tree_units(state), state.rules, tree, parent)
    start_job(job, parent)
    if is_last or not may_split(state, large):
        # The smaller child has no more rows and no less depth: neither is searched.
        release_slot(tree, scalars, parent)
        return
    job[s.JOB_SEARCH_LARGE] = 1
    job[s.JOB_SEARCH_SMALL] = 1 if may_split(state, small) else 0
    # Slots ``n_slots`` and ``n_slots + 1`` are not handed out: they serve a node whose histogram
    # cannot be kept because all others are taken.
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
def advance(state: s.State) -> None:
    """Thread 0: commit the found splits, choose the next node and open its children."""
    job, scalars = state.tree.batch[0], state.scalars
    commit_job(state, job, state.search.found)
    parent = next_node(state)
    scalars[s.IS_N_JOBS] = 1 if parent >= 0 else 0
    start_job(job, parent)
    if parent >= 0:
        is_last = scalars[s.IS_N_LEAVES] + 1 >= state.settings.max_leaves
        open_children(state, parent, is_last, job)
    scalars[s.IS_N_SEARCHED] = count_searched(job)
