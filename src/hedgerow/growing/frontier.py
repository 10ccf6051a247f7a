"""Which node is split next, and the book-keeping of nodes and histogram slots.

Thread 0 alone runs this code, between two barriers.  The frontier is the set
of open nodes of the table; leaf-wise growth takes the one with the largest
gain, depth-wise growth the one with the smallest depth (among those the
largest gain).  Ties go to the node that was made first.

A histogram slot is taken by the root, by each smaller child, and inherited
from the parent by the larger one; nodes that cannot be split give theirs back.
"""

from __future__ import annotations

import numpy as np

from hedgerow.compile import kernel
from hedgerow.growing.state import (
    IS_DROPPED_BITS,
    IS_G_EXPONENT,
    IS_H_EXPONENT,
    IS_LARGE,
    IS_LARGE_SLOT,
    IS_N_FREE,
    IS_N_LEAVES,
    IS_N_NODES,
    IS_N_ROWS,
    IS_PARENT,
    IS_SEARCH_LARGE,
    IS_SEARCH_SMALL,
    IS_SMALL,
    IS_SMALL_SLOT,
    IS_SUBTRACT,
    NODE_BIN,
    NODE_COUNT,
    NODE_DEPTH,
    NODE_FEATURE,
    NODE_FIELDS,
    NODE_G,
    NODE_G_LEFT,
    NODE_H,
    NODE_H_LEFT,
    NODE_LEFT,
    NODE_MISSING_LEFT,
    NODE_N_LEFT,
    NODE_OPEN,
    NODE_RIGHT,
    NODE_SLOT,
    NODE_START,
    State,
)
from hedgerow.growing.gradients import FIXED_BITS, power_of_two
from hedgerow.kernels.split import NodeSums, Split, no_split, split_gain


@kernel
def node_sums(state: State, node: int) -> NodeSums:
    """The node's sums with their units."""
    row = state.tree.table[node]
    dropped = state.scalars[IS_DROPPED_BITS]
    g_unit = power_of_two(state.scalars[IS_G_EXPONENT] - FIXED_BITS + dropped)
    h_unit = 1.0
    if state.settings.constant_hessian == 0:
        h_unit = power_of_two(state.scalars[IS_H_EXPONENT] - FIXED_BITS + dropped)
    return NodeSums(row[NODE_G], row[NODE_H], row[NODE_COUNT], g_unit, h_unit)


@kernel
def add_node(state: State, start: int, count: int, depth: int) -> int:
    """Append a leaf to the table and return its number."""
    node = state.scalars[IS_N_NODES]
    state.scalars[IS_N_NODES] = node + 1
    row = state.tree.table[node]
    for k in range(NODE_FIELDS):
        row[k] = 0
    row[NODE_START] = start
    row[NODE_COUNT] = count
    row[NODE_DEPTH] = depth
    row[NODE_SLOT] = -1
    row[NODE_FEATURE] = -1
    state.tree.gain[node] = -1.0
    return node


@kernel
def take_slot(state: State) -> int:
    """A free histogram slot, or -1."""
    n_free = state.scalars[IS_N_FREE]
    if n_free == 0:
        return -1
    state.scalars[IS_N_FREE] = n_free - 1
    return state.tree.free_slots[n_free - 1]


@kernel
def release_slot(state: State, node: int) -> None:
    """Give the node's histogram slot back, if it has one."""
    slot = state.tree.table[node, NODE_SLOT]
    if slot >= 0:
        state.tree.free_slots[state.scalars[IS_N_FREE]] = slot
        state.scalars[IS_N_FREE] += 1
        state.tree.table[node, NODE_SLOT] = -1


@kernel
def start_tree(state: State) -> None:
    """Empty the tree and make the root the node to be searched."""
    scalars = state.scalars
    for slot in range(state.settings.n_slots):
        state.tree.free_slots[slot] = slot
    scalars[IS_N_FREE] = state.settings.n_slots
    scalars[IS_N_NODES] = 0
    scalars[IS_N_LEAVES] = 1
    root = add_node(state, 0, scalars[IS_N_ROWS], 0)
    slot = take_slot(state)
    state.tree.table[root, NODE_SLOT] = slot
    scalars[IS_PARENT] = -1
    scalars[IS_SMALL] = root
    scalars[IS_LARGE] = -1
    scalars[IS_SMALL_SLOT] = slot
    scalars[IS_SUBTRACT] = 0
    scalars[IS_SEARCH_SMALL] = 1 if may_split(state, root) else 0
    scalars[IS_SEARCH_LARGE] = 0


@kernel
def may_split(state: State, node: int) -> bool:
    """Whether rows and depth leave room for a split of the node."""
    row = state.tree.table[node]
    enough = row[NODE_COUNT] >= 2 * state.rules.min_samples_leaf
    return enough and row[NODE_DEPTH] < state.settings.max_depth


@kernel
def keep_best(state: State, node: int, child: int) -> None:
    """Write the best split that any thread found into the table."""
    threads = state.threads
    best = no_split()
    for t in range(state.crew.n_threads):
        score = threads.found_score[t, child]
        found = threads.found[t, child]
        # Threads search ascending ranges of columns: the first of equals is the lowest.
        if score > best.score:
            best = Split(score, found[0], found[1], found[2], found[3], found[4], found[5])
    gain = split_gain(best, node_sums(state, node), state.rules)
    row = state.tree.table[node]
    state.tree.gain[node] = gain
    if gain < 0.0:
        release_slot(state, node)
        return
    row[NODE_OPEN] = 1
    row[NODE_FEATURE] = best.feature
    row[NODE_BIN] = best.bin
    row[NODE_MISSING_LEFT] = best.missing_left
    row[NODE_G_LEFT] = best.g_left
    row[NODE_H_LEFT] = best.h_left
    row[NODE_N_LEFT] = best.n_left


@kernel
def settle(state: State) -> None:
    """Take over what the search of the last one or two nodes has found."""
    scalars = state.scalars
    if scalars[IS_SEARCH_SMALL] == 1:
        keep_best(state, scalars[IS_SMALL], 0)
    elif scalars[IS_SMALL] >= 0:
        release_slot(state, scalars[IS_SMALL])
    if scalars[IS_SEARCH_LARGE] == 1:
        keep_best(state, scalars[IS_LARGE], 1)
    elif scalars[IS_LARGE] >= 0:
        release_slot(state, scalars[IS_LARGE])


@kernel
def next_node(state: State) -> int:
    """The open node that comes first in the order of growth, or -1."""
    table, gain = state.tree.table, state.tree.gain
    best = -1
    if state.scalars[IS_N_LEAVES] >= state.settings.max_leaves:
        return best
    for node in range(state.scalars[IS_N_NODES]):
        if table[node, NODE_OPEN] == 0:
            continue
        if best < 0:
            best = node
        elif state.settings.depthwise == 1 and table[node, NODE_DEPTH] != table[best, NODE_DEPTH]:
            if table[node, NODE_DEPTH] < table[best, NODE_DEPTH]:
                best = node
        elif gain[node] > gain[best]:
            best = node
    return best


@kernel
def open_children(state: State, parent: int) -> None:
    """Make the two children of ``parent`` and plan their histograms."""
    scalars, table = state.scalars, state.tree.table
    row = table[parent]
    n_left = row[NODE_N_LEFT]
    n_right = row[NODE_COUNT] - n_left
    depth = row[NODE_DEPTH] + 1
    left = add_node(state, row[NODE_START], n_left, depth)
    right = add_node(state, row[NODE_START] + n_left, n_right, depth)
    table[left, NODE_G] = row[NODE_G_LEFT]
    table[left, NODE_H] = row[NODE_H_LEFT]
    table[right, NODE_G] = row[NODE_G] - row[NODE_G_LEFT]
    table[right, NODE_H] = row[NODE_H] - row[NODE_H_LEFT]
    row[NODE_OPEN] = 0
    row[NODE_LEFT] = left
    row[NODE_RIGHT] = right
    scalars[IS_N_LEAVES] += 1
    small, large = (left, right) if n_left <= n_right else (right, left)
    room = scalars[IS_N_LEAVES] < state.settings.max_leaves
    search_small = room and may_split(state, small)
    search_large = room and may_split(state, large)
    scalars[IS_SEARCH_SMALL] = 1 if search_small else 0
    scalars[IS_SEARCH_LARGE] = 1 if search_large else 0
    plan_histograms(state, parent, small, large)


@kernel
def plan_histograms(state: State, parent: int, small: int, large: int) -> None:
    """Decide which of the two children are built from rows, and into which slots.

    Slots ``n_slots`` and ``n_slots + 1`` are not handed out: they serve a node
    whose histogram cannot be kept because all others are taken.
    """
    scalars, table = state.scalars, state.tree.table
    temporary = state.settings.n_slots
    slot = table[parent, NODE_SLOT]
    if scalars[IS_SEARCH_LARGE] == 0:
        # The smaller child then has too few rows or too much depth as well.
        release_slot(state, parent)
        scalars[IS_SMALL] = -1
        scalars[IS_LARGE] = -1
        return
    scalars[IS_SMALL] = small
    scalars[IS_LARGE] = large
    scalars[IS_SUBTRACT] = 1 if slot >= 0 else 0
    table[parent, NODE_SLOT] = -1
    table[large, NODE_SLOT] = slot if slot >= 0 else take_slot(state)
    table[small, NODE_SLOT] = take_slot(state)
    small_slot, large_slot = table[small, NODE_SLOT], table[large, NODE_SLOT]
    scalars[IS_SMALL_SLOT] = small_slot if small_slot >= 0 else temporary
    scalars[IS_LARGE_SLOT] = large_slot if large_slot >= 0 else temporary + 1


@kernel
def advance(state: State) -> None:
    """Thread 0: settle the last search, choose the next node and open its children."""
    settle(state)
    parent = next_node(state)
    state.scalars[IS_PARENT] = np.int64(parent)
    state.scalars[IS_SMALL] = -1
    state.scalars[IS_LARGE] = -1
    state.scalars[IS_SEARCH_SMALL] = 0
    state.scalars[IS_SEARCH_LARGE] = 0
    if parent >= 0:
        open_children(state, parent)
