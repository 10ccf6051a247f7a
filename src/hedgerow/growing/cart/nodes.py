"""The nodes of a growing single tree: their data, and their creation.

Glossary
--------
see :mod:`hedgerow.growing.cart.grow`

A node owns ``rows[start : start + count]``, ids ascending.  When its split is
settled these are divided (left rows first), so that in the end the rows of
every node stand side by side.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.growing.cart.measures import (
    measure_classes,
    measure_several,
    measure_targets,
    sum_node,
)
from hedgerow.growing.cart.state import (
    AT_CHOSEN,
    AT_NODE,
    AT_NODES,
    NODE_COUNT,
    NODE_DEPTH,
    NODE_EXPANDED,
    NODE_FEATURE,
    NODE_FIRST_RIGHT,
    NODE_LAST_LEFT,
    NODE_LEFT,
    NODE_MISSING_LEFT,
    NODE_N_LEFT,
    NODE_PURE,
    NODE_START,
    NUMBER_DECREASE,
    NUMBER_DRAWN,
    NUMBER_HIGH,
    NUMBER_IMPURITY,
    NUMBER_LOW,
    NUMBER_VALUE,
    NUMBER_WEIGHT,
    CartRules,
    Columns,
    Found,
    Samples,
    Tree,
    Work,
)
from hedgerow.kernels.cart.category_order import order_column
from hedgerow.kernels.cart.limits import Limits
from hedgerow.kernels.cart.search import (
    Column,
    Scratch,
    divide_cells,
    find_missing,
    raise_flags,
    rank_of,
)
from hedgerow.kernels.primitives.hashing import hash64

CART_FEATURE_STREAM = 6 << 40
"""Random numbers that choose the features of a node (:func:`hash64`)."""

_EPSILON = 2.220446049250313e-16


@kernel(inner=True)
def node_column(columns: Columns, table: IntArray, node: int, feature: int) -> Column:
    """Return the cells of a feature in a node."""
    start = feature * columns.n_rows + table[node, NODE_START]
    count = table[node, NODE_COUNT]
    n_missing = find_missing(columns.cells, start, count)
    return Column(columns.cells, start, count - n_missing, n_missing)


@kernel(inner=True)
def is_terminal(rules: CartRules, tree: Tree, node: int) -> bool:
    """Return whether a node stays a leaf for any features."""
    row = tree.table[node]
    return (
        row[NODE_PURE] == 1
        or row[NODE_DEPTH] >= rules.max_depth
        or row[NODE_COUNT] < rules.min_samples_split
        or row[NODE_COUNT] < 2 * rules.least.rows
        or tree.numbers[node, NUMBER_WEIGHT] < 2.0 * rules.min_weight_leaf
    )


@kernel(inner=True)
def add_node(
    samples: Samples,
    rules: CartRules,
    work: Work,
    tree: Tree,
    progress: IntArray,
    start: int,
    count: int,
    depth: int,
    low: float,
    high: float,
) -> int:
    """Append a leaf with a mean from ``low`` to ``high`` to the table; return its number."""
    node = progress[AT_NODES]
    progress[AT_NODES] = node + 1
    tree.table[node, :] = 0
    tree.numbers[node, :] = 0.0
    tree.table[node, NODE_START] = start
    tree.table[node, NODE_COUNT] = count
    tree.table[node, NODE_DEPTH] = depth
    tree.table[node, NODE_FEATURE] = -1
    tree.table[node, NODE_EXPANDED] = -1
    tree.numbers[node, NUMBER_LOW], tree.numbers[node, NUMBER_HIGH] = low, high
    if rules.n_classes > 0:
        measure_classes(samples, rules, work, tree, node)
    elif rules.n_targets > 1:
        measure_several(samples, rules, work, tree, node)
    else:
        measure_targets(samples, rules, work, tree, node)
    return node


@kernel(inner=True)
def limits_of(columns: Columns, rules: CartRules, work: Work, tree: Tree, node: int,
              feature: int) -> Limits:  # fmt: skip
    """Return the limits on the sides of a node's split, in units of the shares."""
    # A split of another feature may have means outside of the bounds; its children's values are
    # then put at them.
    if rules.is_monotone == 0 or columns.sign[feature] == 0:
        return Limits(np.int64(0), np.int64(0), -np.inf, np.inf)
    centre, scale = work.totals[-2], work.totals[-1]
    low = (tree.numbers[node, NUMBER_LOW] - centre) * scale
    high = (tree.numbers[node, NUMBER_HIGH] - centre) * scale
    return Limits(np.int64(1), columns.sign[feature], low, high)


@kernel(inner=True)
def is_constant(columns: Columns, table: IntArray, node: int, feature: int) -> bool:
    """Return whether a feature has one value in a node, or none."""
    first = feature * columns.n_rows + table[node, NODE_START]
    last = first + table[node, NODE_COUNT] - 1
    return rank_of(columns.cells[first]) == rank_of(columns.cells[last])


@kernel(inner=True)
def choose_features(
    columns: Columns, rules: CartRules, work: Work, table: IntArray, node: int
) -> int:
    """Write the features that a node may be split by, ascending; return their number."""
    n_features, chosen = columns.n_features, work.chosen
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
def prepare_node(
    samples: Samples, columns: Columns, rules: CartRules, work: Work, tree: Tree, node: int
) -> int:
    """Get a node ready for the search; the number of features to be searched."""
    if is_terminal(rules, tree, node):
        return np.int64(0)
    n_chosen = choose_features(columns, rules, work, tree.table, node)
    if n_chosen > 0:
        sum_node(samples, rules, work, tree, node)
    return n_chosen


@kernel(inner=True)
def record_cut(
    columns: Columns, rules: CartRules, work: Work, scratch: Scratch, tree: Tree,
    found: Found, node: int, best: int,
) -> int:  # fmt: skip
    """Write the best cut into the table and raise the flags; the number of left rows."""
    row, feature = tree.table[node], work.chosen[best]
    column = node_column(columns, tree.table, node, feature)
    n_first, side = found.n_first[best], found.missing_left[best]
    tree.numbers[node, NUMBER_DRAWN] = found.drawn[best]
    row[NODE_FEATURE], row[NODE_MISSING_LEFT] = feature, side
    row[NODE_LAST_LEFT] = row[NODE_FIRST_RIGHT] = -1
    if columns.categorical[feature] == 1:
        column = order_column(
            column, work.read, rules.least, rules.criterion, rules.n_classes, scratch
        )
    else:
        row[NODE_LAST_LEFT] = rank_of(column.cells[column.start + n_first - 1])
        if n_first < column.n_present:
            row[NODE_FIRST_RIGHT] = rank_of(column.cells[column.start + n_first])
    raise_flags(column, n_first, side, work.flags)
    row[NODE_N_LEFT] = n_first + (column.n_missing if side == 1 else 0)
    return row[NODE_N_LEFT]


@kernel(inner=True)
def bound_children(tree: Tree, left: int, right: int, sign: int) -> None:
    """Bound the values below two ordered nodes by the midpoint of their means."""
    numbers = tree.numbers
    middle = 0.5 * numbers[left, NUMBER_VALUE] + 0.5 * numbers[right, NUMBER_VALUE]
    lower, upper = (left, right) if sign > 0 else (right, left)
    if sign != 0:
        numbers[lower, NUMBER_HIGH] = numbers[upper, NUMBER_LOW] = middle
        # Means that differ by less than rounding may be in the wrong order.
        numbers[lower, NUMBER_VALUE] = min(numbers[lower, NUMBER_VALUE], middle)
        numbers[upper, NUMBER_VALUE] = max(numbers[upper, NUMBER_VALUE], middle)


@kernel(inner=True)
def commit_node(
    samples: Samples, columns: Columns, rules: CartRules, work: Work, scratch: Scratch,
    tree: Tree, progress: IntArray, found: Found,
) -> bool:  # fmt: skip
    """Take the best cut of all, make the children; whether the split is worth making."""
    node, best = progress[AT_NODE], np.int64(-1)
    for i in range(progress[AT_CHOSEN]):
        if found.n_first[i] >= 0 and (best < 0 or found.score[i] > found.score[best]):
            best = i
    if best < 0:
        return False
    n_left = record_cut(columns, rules, work, scratch, tree, found, node, best)
    start, count = tree.table[node, NODE_START], tree.table[node, NODE_COUNT]
    divide_cells(work.rows, start, start + count, work.flags, work.spare)
    if len(work.by_target) > 0:
        divide_cells(work.by_target, start, start + count, work.flags, work.spare)
    depth = tree.table[node, NODE_DEPTH] + 1
    low, high = tree.numbers[node, NUMBER_LOW], tree.numbers[node, NUMBER_HIGH]
    left = add_node(samples, rules, work, tree, progress, start, n_left, depth, low, high)
    right = add_node(
        samples, rules, work, tree, progress, start + n_left, count - n_left, depth, low, high
    )
    if rules.is_monotone == 1:
        bound_children(tree, left, right, columns.sign[work.chosen[best]])
    weight, impurity = tree.numbers[:, NUMBER_WEIGHT], tree.numbers[:, NUMBER_IMPURITY]
    decrease = (weight[node] / weight[0]) * (
        impurity[node]
        - weight[right] / weight[node] * impurity[right]
        - weight[left] / weight[node] * impurity[left]
    )
    if decrease + _EPSILON < rules.min_impurity_decrease:
        progress[AT_NODES] = left
        return False
    tree.numbers[node, NUMBER_DECREASE] = decrease
    tree.table[node, NODE_LEFT] = left
    return True
