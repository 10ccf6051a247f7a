"""Growth of a single tree, depth first or best first.

Glossary
--------
table      one row of integers per node (``NODE_...``)
numbers    one row of floats per node (``NUMBER_...``)
progress   integers by which the compiled loop remembers where it was (``AT_...``)
frontier   nodes with a split that is found and not yet made
columns    cells of all features (:mod:`hedgerow.kernels.cart.search`), sorted once; a
           split divides the part of its node in each of them and keeps the order

::

    examine the root
    until the frontier is empty or the tree is full:
        take a node; divide the columns; examine both children

    examine:  prepare (sums, shares, features) -> search columns -> settle
              (flags, rows divided, children with their impurities) -> frontier

The loop is compiled.  Before it searches or divides the columns of a large node
it returns, so that the caller may do that on several threads, and goes on where
it was.  The result does not depend on who did it.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.growing.cart.nodes import (
    add_node,
    commit_node,
    is_constant,
    is_terminal,
    limits_of,
    node_column,
    prepare_node,
)
from hedgerow.growing.cart.state import (
    AT_CHOSEN,
    AT_EXPANSIONS,
    AT_FRONTIER,
    AT_LEAVES,
    AT_NODE,
    AT_NODES,
    AT_PHASE,
    AT_SIBLING,
    NODE_COUNT,
    NODE_EXPANDED,
    NODE_LEFT,
    NODE_START,
    NUMBER_DECREASE,
    CartRules,
    Columns,
    Found,
    Samples,
    Tree,
    Work,
)
from hedgerow.kernels.cart.category_order import order_column
from hedgerow.kernels.cart.deviations import scan_deviations, score_deviations
from hedgerow.kernels.cart.impurity import ABSOLUTE_ERROR, ENTROPY
from hedgerow.kernels.cart.limits import Limits
from hedgerow.kernels.cart.search import (
    Column,
    Scratch,
    divide_cells,
    rank_of,
    scan_counts,
    scan_shares,
)
from hedgerow.kernels.cart.targets import drawn_threshold, first_above, scan_targets, score_cut
from hedgerow.kernels.primitives.hashing import hash64

CART_CUT_STREAM = 14 << 40
"""Random numbers by which thresholds are drawn (:mod:`hedgerow.kernels.primitives.hashing`)."""

DONE, SEARCH, DIVIDE, ROOM, GROW = range(5)
"""Why the loop has returned: the tree is grown; search or divide the columns of the
node at hand; make room for more nodes.  And what the compiled code is to do."""

_PLANT, _CHOOSE, _DIVIDED, _EXAMINE, _SEARCHED = range(5)


@kernel(inner=True)
def search_columns(
    columns: Columns,
    rules: CartRules,
    work: Work,
    scratch: Scratch,
    tree: Tree,
    node: int,
    found: Found,
    first: int,
    last: int,
) -> None:
    """Find the best cut of the node's features ``first .. last``, among all or drawn cuts."""
    for i in range(first, last):
        feature = work.chosen[i]
        column = node_column(columns, tree.table, node, feature)
        limits = limits_of(columns, rules, work, tree, node, feature)
        found.drawn[i] = np.nan
        if columns.categorical[feature] == 1:
            column = order_column(
                column, work.read, rules.least, rules.criterion, rules.n_classes, scratch
            )
        elif rules.is_random == 1:
            draw_cut(columns, rules, work, scratch, node, found, i, column, limits)
            continue
        best, n_first, best_side = -np.inf, np.int64(-1), np.int64(0)
        for side in range(2 if column.n_missing > 0 else 1):
            if rules.criterion == ABSOLUTE_ERROR:
                score, cut = scan_deviations(
                    column, work.read, rules.least, side, work.totals, best, work.heights, scratch
                )
            elif rules.n_targets > 1:
                score, cut = scan_targets(
                    column, work.read, rules.least, side, work.totals, best, scratch.counts
                )
            elif rules.n_classes > 2 or rules.criterion == ENTROPY:
                score, cut = scan_counts(
                    column, work.read, rules.least, side, work.totals, best,
                    rules.criterion, rules.n_classes, scratch.counts,
                )  # fmt: skip
            else:
                score, cut = scan_shares(
                    column, work.read, rules.least, side, work.totals, best, rules.criterion,
                    limits,
                )  # fmt: skip
            if cut >= 0:
                best, n_first, best_side = score, cut, np.int64(side)
        if column.n_missing == 0 and n_first >= 0:
            # Missing values that come later go with the larger side.
            best_side = np.int64(2 * n_first > column.n_present)
        found.score[i], found.n_first[i], found.missing_left[i] = best, n_first, best_side


@kernel(inner=True)
def draw_cut(
    columns: Columns, rules: CartRules, work: Work, scratch: Scratch, node: int, found: Found,
    i: int, column: Column, limits: Limits,
) -> None:  # fmt: skip
    """One cut of a feature, at a threshold drawn between its lowest and highest value."""
    # Missing values go to a side that is drawn (Geurts, Ernst and Wehenkel 2006).
    feature, start = work.chosen[i], column.start
    stop = start + column.n_present
    values = columns.value[columns.value_start[feature] : columns.value_start[feature + 1]]
    found.score[i], found.n_first[i], found.missing_left[i] = -np.inf, -1, 0
    if column.n_present == 0:
        return
    bits = hash64(rules.seed, CART_CUT_STREAM, node * columns.n_features + feature)
    side = np.int64(bits & np.uint64(1)) if column.n_missing > 0 else np.int64(0)
    low = values[np.int64(rank_of(column.cells[start]))]
    high = values[np.int64(rank_of(column.cells[stop - 1]))]
    threshold = drawn_threshold(low, high, np.float64(bits >> np.uint64(11)) * 2.0**-53)
    n_first = first_above(column.cells, start, stop, values, threshold) - start
    if n_first == column.n_present:  # one value, and missing ones
        threshold, side = np.nan, np.int64(0)
    if rules.criterion == ABSOLUTE_ERROR:
        score = score_deviations(
            column, work.read, rules.least, n_first, side, work.heights, scratch
        )
    else:
        score = score_cut(
            column, work.read, rules.least, n_first, side, work.totals, rules.criterion,
            rules.n_classes, rules.n_targets, limits, scratch,
        )  # fmt: skip
    if score == -np.inf:
        return
    if column.n_missing == 0:
        side = np.int64(2 * n_first > column.n_present)
    found.score[i], found.n_first[i], found.missing_left[i] = score, n_first, side
    found.drawn[i] = threshold


@kernel(inner=True)
def divide_columns(
    columns: Columns,
    work: Work,
    scratch: Scratch,
    table: IntArray,
    node: int,
    first: int,
    last: int,
) -> None:
    """Divide the node's cells of features ``first .. last`` by the flags."""
    count = table[node, NODE_COUNT]
    for feature in range(first, last):
        # A feature that is constant here is constant in all nodes below: nobody will read its rows
        # again, and any cells of the node show that it is.
        if is_constant(columns, table, node, feature):
            continue
        start = feature * columns.n_rows + table[node, NODE_START]
        divide_cells(columns.cells, start, start + count, work.flags, scratch.cells)


@kernel(inner=True)
def goes_before(tree: Tree, a: int, b: int) -> bool:
    """Return whether node a is split before node b (best first)."""
    of_a, of_b = tree.numbers[a, NUMBER_DECREASE], tree.numbers[b, NUMBER_DECREASE]
    return of_a > of_b or (of_a == of_b and a < b)


@kernel(inner=True)
def push_node(tree: Tree, progress: IntArray, best_first: int, node: int) -> None:
    """Add a node to the frontier, a stack or a heap."""
    frontier = tree.frontier
    at = progress[AT_FRONTIER]
    progress[AT_FRONTIER] = at + 1
    while best_first == 1 and at > 0 and goes_before(tree, node, frontier[(at - 1) >> 1]):
        frontier[at] = frontier[(at - 1) >> 1]
        at = (at - 1) >> 1
    frontier[at] = node


@kernel(inner=True)
def pop_node(tree: Tree, progress: IntArray, best_first: int) -> int:
    """Take the next node from the frontier."""
    frontier = tree.frontier
    size = progress[AT_FRONTIER] - 1
    progress[AT_FRONTIER] = size
    moved = frontier[size]
    if best_first == 0 or size == 0:
        return moved
    top, at = frontier[0], 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and goes_before(tree, frontier[child + 1], frontier[child]):
            child += 1
        if not goes_before(tree, frontier[child], moved):
            break
        frontier[at] = frontier[child]
        at = child
    frontier[at] = moved
    return top


@kernel(inner=True)
def expand_node(rules: CartRules, tree: Tree, progress: IntArray, node: int) -> bool:
    """Make the split of a node; whether one of its children may be split in turn."""
    tree.table[node, NODE_EXPANDED] = progress[AT_EXPANSIONS]
    progress[AT_EXPANSIONS] += 1
    progress[AT_LEAVES] += 1
    if progress[AT_LEAVES] >= rules.max_leaf_nodes:
        return False
    left = tree.table[node, NODE_LEFT]
    return not (is_terminal(rules, tree, left) and is_terminal(rules, tree, left + 1))


@kernel(inner=True)
def plant(samples: Samples, rules: CartRules, work: Work, tree: Tree, progress: IntArray) -> None:
    """Make the root, the node to be examined first."""
    progress[AT_NODE] = add_node(
        samples, rules, work, tree, progress, 0, len(work.rows), 0, -np.inf, np.inf
    )
    progress[AT_SIBLING] = -1
    progress[AT_LEAVES] = 1
    progress[AT_PHASE] = _EXAMINE


@kernel(inner=True)
def grow(
    samples: Samples,
    columns: Columns,
    rules: CartRules,
    work: Work,
    scratch: Scratch,
    tree: Tree,
    progress: IntArray,
    found: Found,
) -> int:
    """Go on growing until the tree is done, or something is asked of the caller."""
    table, best_first = tree.table, rules.best_first
    while True:
        phase, node = progress[AT_PHASE], progress[AT_NODE]
        if phase == _PLANT:
            plant(samples, rules, work, tree, progress)
        elif phase == _CHOOSE:
            if progress[AT_FRONTIER] == 0 or progress[AT_LEAVES] >= rules.max_leaf_nodes:
                return DONE
            if progress[AT_NODES] + 4 > table.shape[0]:
                return ROOM
            node = pop_node(tree, progress, best_first)
            if not expand_node(rules, tree, progress, node):
                continue
            progress[AT_PHASE], progress[AT_NODE] = _DIVIDED, node
            if table[node, NODE_COUNT] >= rules.large:
                return DIVIDE
            divide_columns(columns, work, scratch, table, node, 0, columns.n_features)
        elif phase == _DIVIDED:
            progress[AT_NODE] = table[node, NODE_LEFT]
            progress[AT_SIBLING] = table[node, NODE_LEFT] + 1
            progress[AT_PHASE] = _EXAMINE
        elif phase == _EXAMINE:
            n_chosen = prepare_node(samples, columns, rules, work, tree, node)
            progress[AT_CHOSEN] = n_chosen
            progress[AT_PHASE] = _SEARCHED
            if n_chosen > 0 and table[node, NODE_COUNT] >= rules.large:
                return SEARCH
            search_columns(columns, rules, work, scratch, tree, node, found, 0, n_chosen)
        else:
            if commit_node(samples, columns, rules, work, scratch, tree, progress, found):
                push_node(tree, progress, best_first, node)
            progress[AT_NODE], progress[AT_SIBLING] = progress[AT_SIBLING], -1
            progress[AT_PHASE] = _EXAMINE if progress[AT_NODE] >= 0 else _CHOOSE


@kernel
def run(
    samples: Samples,
    columns: Columns,
    rules: CartRules,
    work: Work,
    scratch: Scratch,
    tree: Tree,
    progress: IntArray,
    found: Found,
    task: int,
    first: int,
    last: int,
) -> int:
    """Grow, or search or divide the columns ``first .. last`` of the node at hand."""
    # One entry for all, so that the code below it is compiled once.  ``progress`` starts as zeros.
    node = progress[AT_NODE]
    if task == SEARCH:
        search_columns(columns, rules, work, scratch, tree, node, found, first, last)
    elif task == DIVIDE:
        divide_columns(columns, work, scratch, tree.table, node, first, last)
    else:
        return grow(samples, columns, rules, work, scratch, tree, progress, found)
    return task
