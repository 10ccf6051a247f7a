"""Growth of a single tree, depth first or best first.

Glossary
--------
table      one row of integers per node (``NODE_...``)
numbers    one row of floats per node (``NUMBER_...``)
progress   integers by which the compiled loop remembers where it was (``AT_...``)
frontier   nodes with a split that is found and not yet made
columns    cells of all features (:mod:`hedgerow.cart.search`), sorted once; a
           split divides the part of its node in each of them and keeps the order

::

    examine the root
    until the frontier is empty or the tree is full:
        take a node; divide the columns; examine both children

    examine:  features, sums, shares -> search columns -> commit
              (flags, rows divided, children with their impurities) -> frontier

A node owns ``rows[start : start + count]``, ids ascending.  When its split is settled these are
divided (left rows first), so that in the end the rows of every node stand side by side.

The loop is compiled.  Before it searches or divides the columns of a large node
it returns, so that the caller may do that on several threads, and goes on where
it was.  The result does not depend on who did it.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.cart import state as s
from hedgerow.cart.categories import order_column
from hedgerow.cart.impurity import ENTROPY
from hedgerow.cart.measures import measure_classes, measure_targets, sum_node
from hedgerow.cart.search import (
    Aim,
    Column,
    Scratch,
    divide_cells,
    find_missing,
    raise_flags,
    rank_of,
    scan_counts,
    scan_shares,
)
from hedgerow.compile import kernel
from hedgerow.kernels.primitives.hashing import hash64
from hedgerow.kernels.primitives.intrinsics import by_reference

DONE, SEARCH, DIVIDE, ROOM, GROW = range(5)
"""Why the loop has returned: the tree is grown; search or divide the columns of the
node at hand; make room for more nodes.  And what the compiled code is to do."""

_PLANT, _CHOOSE, _DIVIDED, _EXAMINE, _SEARCHED = range(5)

CART_FEATURE_STREAM = 6 << 40
"""Random numbers that choose the features of a node (:func:`hash64`)."""

_EPSILON = 2.220446049250313e-16


@kernel(inner=True)
def node_column(columns: s.Columns, table: IntArray, node: int, feature: int) -> Column:
    """Return the cells of a feature in a node."""
    start = feature * columns.n_rows + table[node, s.NODE_START]
    count = table[node, s.NODE_COUNT]
    n_missing = find_missing(columns.cells, start, count)
    return Column(columns.cells, start, count - n_missing, n_missing)


@kernel(inner=True)
def is_terminal(growth: s.Growth, node: int) -> bool:
    """Return whether a node stays a leaf for any features."""
    row, rules = growth.tree.table[node], growth.rules
    return (
        row[s.NODE_PURE] == 1
        or row[s.NODE_DEPTH] >= rules.max_depth
        or row[s.NODE_COUNT] < rules.min_samples_split
        or row[s.NODE_COUNT] < 2 * rules.least.rows
        or growth.tree.numbers[node, s.NUMBER_WEIGHT] < 2.0 * rules.min_weight_leaf
    )


@kernel(inner=True)
def add_node(growth: s.Growth, start: int, count: int, depth: int) -> int:
    """Append a leaf to the table; return its number."""
    tree, rules, progress = growth.tree, growth.rules, growth.progress
    node = progress[s.AT_NODES]
    progress[s.AT_NODES] = node + 1
    tree.table[node, :] = 0
    tree.numbers[node, :] = 0.0
    tree.table[node, s.NODE_START] = start
    tree.table[node, s.NODE_COUNT] = count
    tree.table[node, s.NODE_DEPTH] = depth
    tree.table[node, s.NODE_FEATURE] = -1
    tree.table[node, s.NODE_EXPANDED] = -1
    if rules.n_classes > 0:
        measure_classes(growth, node)
    else:
        measure_targets(growth, node)
    return node


@kernel(inner=True)
def aim_of(growth: s.Growth) -> Aim:
    """Return what the scans of the node at hand read and look for."""
    rules, work = growth.rules, growth.work
    return Aim(work.read, rules.least, work.totals, rules.criterion, rules.n_classes)


@kernel(inner=True)
def is_constant(columns: s.Columns, table: IntArray, node: int, feature: int) -> bool:
    """Return whether a feature has one value in a node, or none."""
    first = feature * columns.n_rows + table[node, s.NODE_START]
    last = first + table[node, s.NODE_COUNT] - 1
    return rank_of(columns.cells[first]) == rank_of(columns.cells[last])


@kernel(inner=True)
def choose_features(growth: s.Growth, node: int) -> int:
    """Write the features that a node may be split by, ascending; return their number."""
    columns, rules, table = growth.columns, growth.rules, growth.tree.table
    n_features, chosen = columns.n_features, growth.work.chosen
    for j in range(n_features):
        chosen[j] = j
    n_chosen = np.int64(0)
    # Features are drawn until ``max_features`` have been, and one of them at least is not constant.
    for drawn in range(n_features):
        if drawn >= rules.max_features and n_chosen > 0:
            break
        if rules.max_features < n_features:
            bits = hash64(rules.seed, CART_FEATURE_STREAM, node * n_features + drawn)
            other = drawn + np.int64(bits % np.uint64(n_features - drawn))
            chosen[drawn], chosen[other] = chosen[other], chosen[drawn]
        feature = chosen[drawn]
        if not is_constant(columns, table, node, feature):
            at = n_chosen  # insert among those chosen before, which are ascending
            chosen[drawn] = chosen[n_chosen]
            while at > 0 and chosen[at - 1] > feature:
                chosen[at] = chosen[at - 1]
                at -= 1
            chosen[at] = feature
            n_chosen += 1
    return n_chosen


@kernel(inner=True)
def record_cut(growth: s.Growth, scratch: Scratch, node: int, best: int) -> int:
    """Write the best cut into the table and raise the flags; the number of left rows."""
    columns, found, tree = growth.columns, growth.found, growth.tree
    row, feature = tree.table[node], growth.work.chosen[best]
    column = node_column(columns, tree.table, node, feature)
    n_first, side = found.n_first[best], found.missing_left[best]
    row[s.NODE_FEATURE], row[s.NODE_MISSING_LEFT] = feature, side
    row[s.NODE_LAST_LEFT] = row[s.NODE_FIRST_RIGHT] = -1
    if columns.categorical[feature] == 1:
        column = order_column(column, aim_of(growth), scratch)
    else:
        row[s.NODE_LAST_LEFT] = rank_of(column.cells[column.start + n_first - 1])
        if n_first < column.n_present:
            row[s.NODE_FIRST_RIGHT] = rank_of(column.cells[column.start + n_first])
    raise_flags(column, n_first, side, growth.work.flags)
    row[s.NODE_N_LEFT] = n_first + (column.n_missing if side == 1 else 0)
    return row[s.NODE_N_LEFT]


@kernel(inner=True)
def commit_node(growth: s.Growth, scratch: Scratch) -> bool:
    """Take the best cut of all, make the children; whether the split is worth making."""
    work, tree, found, progress = growth.work, growth.tree, growth.found, growth.progress
    node, best = progress[s.AT_NODE], np.int64(-1)
    for i in range(progress[s.AT_CHOSEN]):
        if found.n_first[i] >= 0 and (best < 0 or found.score[i] > found.score[best]):
            best = i
    if best < 0:
        return False
    n_left = record_cut(growth, scratch, node, best)
    start, count = tree.table[node, s.NODE_START], tree.table[node, s.NODE_COUNT]
    divide_cells(work.rows, start, start + count, work.flags, work.spare)
    depth = tree.table[node, s.NODE_DEPTH] + 1
    left = add_node(growth, start, n_left, depth)
    right = add_node(growth, start + n_left, count - n_left, depth)
    weight, impurity = tree.numbers[:, s.NUMBER_WEIGHT], tree.numbers[:, s.NUMBER_IMPURITY]
    decrease = (weight[node] / weight[0]) * (
        impurity[node]
        - weight[right] / weight[node] * impurity[right]
        - weight[left] / weight[node] * impurity[left]
    )
    if decrease + _EPSILON < growth.rules.min_impurity_decrease:
        progress[s.AT_NODES] = left
        return False
    tree.numbers[node, s.NUMBER_DECREASE] = decrease
    tree.table[node, s.NODE_LEFT] = left
    return True


@kernel(inner=True)
def search_columns(growth: s.Growth, scratch: Scratch, node: int, first: int, last: int) -> None:
    """Find the best cut of the node's features ``first .. last``."""
    rules, work, found, aim = growth.rules, growth.work, growth.found, aim_of(growth)
    for i in range(first, last):
        feature = work.chosen[i]
        column = node_column(growth.columns, growth.tree.table, node, feature)
        if growth.columns.categorical[feature] == 1:
            column = order_column(column, aim, scratch)
        best, n_first, best_side = -np.inf, np.int64(-1), np.int64(0)
        for side in range(2 if column.n_missing > 0 else 1):
            if rules.n_classes > 2 or rules.criterion == ENTROPY:
                score, cut = scan_counts(column, aim, side, best, scratch.counts)
            else:
                score, cut = scan_shares(column, aim, side, best)
            if cut >= 0:
                best, n_first, best_side = score, cut, np.int64(side)
        if column.n_missing == 0 and n_first >= 0:
            # Missing values that come later go with the larger side.
            best_side = np.int64(2 * n_first > column.n_present)
        found.score[i], found.n_first[i], found.missing_left[i] = best, n_first, best_side


@kernel(inner=True)
def divide_columns(growth: s.Growth, scratch: Scratch, node: int, first: int, last: int) -> None:
    """Divide the node's cells of features ``first .. last`` by the flags."""
    columns, table = growth.columns, growth.tree.table
    for feature in range(first, last):
        # A feature that is constant here is constant in all nodes below: nobody will read its rows
        # again, and any cells of the node show that it is.
        if is_constant(columns, table, node, feature):
            continue
        start = feature * columns.n_rows + table[node, s.NODE_START]
        stop = start + table[node, s.NODE_COUNT]
        divide_cells(columns.cells, start, stop, growth.work.flags, scratch.cells)


@kernel(inner=True)
def goes_before(tree: s.Tree, a: int, b: int) -> bool:
    """Return whether node a is split before node b (best first)."""
    of_a, of_b = tree.numbers[a, s.NUMBER_DECREASE], tree.numbers[b, s.NUMBER_DECREASE]
    return of_a > of_b or (of_a == of_b and a < b)


@kernel(inner=True)
def push_node(tree: s.Tree, progress: IntArray, best_first: int, node: int) -> None:
    """Add a node to the frontier, a stack or a heap."""
    frontier = tree.frontier
    at = progress[s.AT_FRONTIER]
    progress[s.AT_FRONTIER] = at + 1
    while best_first == 1 and at > 0 and goes_before(tree, node, frontier[(at - 1) >> 1]):
        frontier[at] = frontier[(at - 1) >> 1]
        at = (at - 1) >> 1
    frontier[at] = node


@kernel(inner=True)
def pop_node(tree: s.Tree, progress: IntArray, best_first: int) -> int:
    """Take the next node from the frontier."""
    frontier = tree.frontier
    size = progress[s.AT_FRONTIER] - 1
    progress[s.AT_FRONTIER] = size
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
def grow(growth: s.Growth, scratch: Scratch) -> int:
    """Go on growing until the tree is done, or something is asked of the caller."""
    tree, rules, progress = growth.tree, growth.rules, growth.progress
    table, n_features = tree.table, growth.columns.n_features
    while True:
        phase, node = progress[s.AT_PHASE], progress[s.AT_NODE]
        if phase == _PLANT:
            n_rows = len(growth.work.rows)
            progress[s.AT_NODE] = add_node(growth, 0, n_rows, 0)
            progress[s.AT_SIBLING], progress[s.AT_LEAVES] = -1, 1
            progress[s.AT_PHASE] = _EXAMINE
        elif phase == _CHOOSE:
            if progress[s.AT_FRONTIER] == 0 or progress[s.AT_LEAVES] >= rules.max_leaf_nodes:
                return DONE
            if progress[s.AT_NODES] + 4 > table.shape[0]:
                return ROOM
            node = pop_node(tree, progress, rules.best_first)
            table[node, s.NODE_EXPANDED] = progress[s.AT_EXPANSIONS]
            progress[s.AT_EXPANSIONS] += 1
            progress[s.AT_LEAVES] += 1
            left = table[node, s.NODE_LEFT]
            if progress[s.AT_LEAVES] >= rules.max_leaf_nodes or (
                is_terminal(growth, left) and is_terminal(growth, left + 1)
            ):
                continue
            progress[s.AT_PHASE], progress[s.AT_NODE] = _DIVIDED, node
            if table[node, s.NODE_COUNT] >= rules.large:
                return DIVIDE
            divide_columns(growth, scratch, node, 0, n_features)
        elif phase == _DIVIDED:
            progress[s.AT_NODE] = table[node, s.NODE_LEFT]
            progress[s.AT_SIBLING] = table[node, s.NODE_LEFT] + 1
            progress[s.AT_PHASE] = _EXAMINE
        elif phase == _EXAMINE:
            n_chosen = np.int64(0)
            if not is_terminal(growth, node):
                n_chosen = choose_features(growth, node)
            if n_chosen > 0:
                sum_node(growth, node)
            progress[s.AT_CHOSEN] = n_chosen
            progress[s.AT_PHASE] = _SEARCHED
            if n_chosen > 0 and table[node, s.NODE_COUNT] >= rules.large:
                return SEARCH
            search_columns(growth, scratch, node, 0, n_chosen)
        else:
            if commit_node(growth, scratch):
                push_node(tree, progress, rules.best_first, node)
            progress[s.AT_NODE], progress[s.AT_SIBLING] = progress[s.AT_SIBLING], -1
            progress[s.AT_PHASE] = _EXAMINE if progress[s.AT_NODE] >= 0 else _CHOOSE


@kernel
def run(growth: s.Growth, scratch: Scratch, task: int, first: int, last: int) -> int:
    """Grow, or search or divide the columns ``first .. last`` of the node at hand."""
    # One entry for all, so that the code below it is compiled once.  ``progress`` starts as zeros.
    node, shared = growth.progress[s.AT_NODE], by_reference(growth)
    if task == SEARCH:
        search_columns(shared, scratch, node, first, last)
    elif task == DIVIDE:
        divide_columns(shared, scratch, node, first, last)
    else:
        return grow(shared, scratch)
    return task
