"""The nodes of a growing single tree: what is known of them, and how they come to be.

Glossary
--------
see :mod:`hedgerow.growing.cart`

A node owns ``rows[start : start + count]``, ids ascending.  When its split is
settled these are divided (left rows first), so that in the end the rows of
every node stand side by side.

Regression targets enter the search as shares: centred on the mean of the node,
scaled by a power of two and rounded to a grid on which no sum of them loses a
bit (about 1e-11 of the range at 100,000 rows).  Values and impurities of nodes
are computed from the targets themselves.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.cart import (
    Column,
    Least,
    Rows,
    Scratch,
    divide_cells,
    find_missing,
    raise_flags,
    rank_of,
)
from hedgerow.kernels.category import order_column
from hedgerow.kernels.hashing import hash64
from hedgerow.kernels.impurity import ABSOLUTE_ERROR, counts_impurity

CART_FEATURE_STREAM = 6 << 40
"""Random numbers by which a node chooses its features (:mod:`hedgerow.kernels.hashing`)."""

# Columns of ``table``.
(
    NODE_START,
    NODE_COUNT,
    NODE_DEPTH,
    NODE_PURE,  # 1: all targets are equal
    NODE_FEATURE,  # -1: no split found
    NODE_N_LEFT,
    NODE_LAST_LEFT,  # rank of the last value that goes left
    NODE_FIRST_RIGHT,  # rank of the next value; -1: only missing values go right
    NODE_MISSING_LEFT,
    NODE_LEFT,  # left child, the right one follows; 0 without split
    NODE_EXPANDED,  # how many splits were made before its own; -1 in a leaf
    NODE_FIELDS,
) = range(12)

# Columns of ``numbers``.
NUMBER_WEIGHT, NUMBER_IMPURITY, NUMBER_VALUE, NUMBER_DECREASE, NUMBERS = range(5)

# Cells of ``progress``.
(
    AT_PHASE,
    AT_NODE,
    AT_SIBLING,
    AT_NODES,
    AT_LEAVES,
    AT_FRONTIER,
    AT_EXPANSIONS,
    AT_CHOSEN,
    AT_FIELDS,
) = range(9)

_EPSILON = 2.220446049250313e-16


class CartRules(NamedTuple):
    """Parameters of growth, as the compiled code needs them."""

    criterion: np.int64
    n_classes: np.int64  # 0 in regression
    max_depth: np.int64
    max_leaf_nodes: np.int64
    best_first: np.int64
    min_samples_split: np.int64
    min_weight_leaf: np.float64
    min_impurity_decrease: np.float64
    max_features: np.int64
    seed: np.uint64
    large: np.int64  # rows from which on the caller searches and divides
    least: Least


class Samples(NamedTuple):
    """Targets and weights of the rows.

    Attributes
    ----------
    code : uint32
        Class; empty in regression.
    target : float64
        Empty in classification.
    weight : float64
        Empty if all are 1.
    """

    code: AnyArray
    target: FloatArray
    weight: FloatArray


class Columns(NamedTuple):
    """Cells of all features, one feature after another, and which are categorical."""

    cells: AnyArray
    n_rows: np.int64
    n_features: np.int64
    categorical: AnyArray


class Work(NamedTuple):
    """Arrays that growth writes to.

    Attributes
    ----------
    rows, by_target : uint32
        Row ids, node by node: ascending, and in the order of the target (empty
        but for the absolute error).
    spare : uint32
        For their division.
    flags : uint8, one per row
    read : Rows
        What the criteria read, by row.
    heights : float64
        Centred targets of the node at hand, ascending; like ``by_target``.
    totals : float64, shape (2 + n_classes,)
        Mass, sum of shares and class masses of the node at hand.
    counts : float64, shape (n_classes,)
    chosen : int64, one per feature
        First the features that the node at hand is to be split by.
    """

    rows: AnyArray
    by_target: AnyArray
    spare: AnyArray
    flags: AnyArray
    read: Rows
    heights: FloatArray
    totals: FloatArray
    counts: FloatArray
    chosen: IntArray


class Tree(NamedTuple):
    """Nodes in the order in which they were made."""

    table: IntArray
    numbers: FloatArray
    frontier: IntArray


class Found(NamedTuple):
    """Best cut of each chosen feature."""

    score: FloatArray
    n_first: IntArray
    missing_left: IntArray


@kernel(inner=True)
def node_column(columns: Columns, table: IntArray, node: int, feature: int) -> Column:
    """The cells of a feature in a node."""
    start = feature * columns.n_rows + table[node, NODE_START]
    count = table[node, NODE_COUNT]
    n_missing = find_missing(columns.cells, start, count)
    return Column(columns.cells, start, count - n_missing, n_missing)


@kernel(inner=True)
def is_terminal(rules: CartRules, tree: Tree, node: int) -> bool:
    """Whether a node stays a leaf, whatever its features are."""
    row = tree.table[node]
    return (
        row[NODE_PURE] == 1
        or row[NODE_DEPTH] >= rules.max_depth
        or row[NODE_COUNT] < rules.min_samples_split
        or row[NODE_COUNT] < 2 * rules.least.rows
        or tree.numbers[node, NUMBER_WEIGHT] < 2.0 * rules.min_weight_leaf
    )


@kernel(inner=True)
def weight_of(weight: FloatArray, row: int) -> float:
    """Weight of a row; 1 where there are none."""
    return weight[row] if len(weight) > 0 else 1.0


@kernel(inner=True)
def measure_classes(samples: Samples, rules: CartRules, work: Work, tree: Tree, node: int) -> None:
    """Weight, impurity and purity of a node in classification."""
    start, counts = tree.table[node, NODE_START], work.counts
    counts[:] = 0.0
    total = 0.0
    for i in range(start, start + tree.table[node, NODE_COUNT]):
        row = work.rows[i]
        w = weight_of(samples.weight, row)
        counts[samples.code[row]] += w
        total += w
    n_seen = 0
    for k in range(rules.n_classes):
        n_seen += counts[k] > 0.0
    tree.table[node, NODE_PURE] = 1 if n_seen <= 1 else 0
    tree.numbers[node, NUMBER_WEIGHT] = total
    impurity = 0.0
    if n_seen > 1:
        impurity = counts_impurity(rules.criterion, counts, rules.n_classes, total)
    tree.numbers[node, NUMBER_IMPURITY] = impurity


@kernel(inner=True)
def median_of(samples: Samples, work: Work, start: int, stop: int) -> float:
    """Weighted median of the targets of a node; the middle of two if it lies between."""
    total = 0.0
    for i in range(start, stop):
        total += weight_of(work.read.mass, work.by_target[i])
    below = 0.0
    for i in range(start, stop):
        below += weight_of(work.read.mass, work.by_target[i])
        value = samples.target[work.by_target[i]]
        if below > 0.5 * total:
            return value
        if below == 0.5 * total:
            return 0.5 * value + 0.5 * samples.target[work.by_target[i + 1]]
    return value


@kernel(inner=True)
def measure_targets(samples: Samples, rules: CartRules, work: Work, tree: Tree, node: int) -> None:
    """Weight, value, impurity and purity of a node in regression."""
    start = tree.table[node, NODE_START]
    stop = start + tree.table[node, NODE_COUNT]
    lowest = highest = base = samples.target[work.rows[start]]
    total = moment = 0.0
    for i in range(start, stop):
        row = work.rows[i]
        w, y = weight_of(samples.weight, row), samples.target[row]
        lowest, highest = min(lowest, y), max(highest, y)
        total += w
        moment += w * (y - base)
    absolute = rules.criterion == ABSOLUTE_ERROR
    value = median_of(samples, work, start, stop) if absolute else base + moment / total
    error = 0.0
    for i in range(start, stop):
        row = work.rows[i]
        off = samples.target[row] - value
        error += weight_of(samples.weight, row) * (abs(off) if absolute else off * off)
    pure = lowest == highest
    tree.table[node, NODE_PURE] = 1 if pure else 0
    tree.numbers[node, NUMBER_WEIGHT] = total
    tree.numbers[node, NUMBER_VALUE] = lowest if pure else value
    tree.numbers[node, NUMBER_IMPURITY] = 0.0 if pure else error / total


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
) -> int:
    """Append a leaf to the table, measure it, and return its number."""
    node = progress[AT_NODES]
    progress[AT_NODES] = node + 1
    tree.table[node, :] = 0
    tree.numbers[node, :] = 0.0
    tree.table[node, NODE_START] = start
    tree.table[node, NODE_COUNT] = count
    tree.table[node, NODE_DEPTH] = depth
    tree.table[node, NODE_FEATURE] = -1
    tree.table[node, NODE_EXPANDED] = -1
    if rules.n_classes > 0:
        measure_classes(samples, rules, work, tree, node)
    else:
        measure_targets(samples, rules, work, tree, node)
    return node


@kernel(inner=True)
def exponent_of(bound: float) -> Any:
    """Least e with ``bound < 2^e``."""
    return np.int64(math.frexp(bound)[1])


@kernel(inner=True)
def on_grid(x: float, magic: float) -> float:
    """``x`` rounded to multiples of ``2^-51 * magic / 3``."""
    return (x + magic) - magic


@kernel(inner=True)
def share_targets(
    samples: Samples, work: Work, start: int, stop: int, mass: float
) -> tuple[float, float]:
    """Write shares of the rows of a node; their centre and scale."""
    read = work.read
    lowest = highest = samples.target[work.rows[start]]
    for i in range(start, stop):
        y = samples.target[work.rows[i]]
        lowest, highest = min(lowest, y), max(highest, y)
    centre = 0.5 * lowest + 0.5 * highest
    # Every |y - centre| is below 1 in these units, now and after the shift.
    scale = math.ldexp(1.0, -max(exponent_of(highest - lowest), -1000))
    coarse = math.ldexp(3.0, exponent_of(max(mass, 1.0)))
    fine = math.ldexp(3.0, exponent_of(mass))
    for step in range(2):
        total = 0.0
        for i in range(start, stop):
            row = work.rows[i]
            height = on_grid((samples.target[row] - centre) * scale, coarse)
            share = on_grid(weight_of(read.mass, row) * height, fine)
            read.share[row] = share
            total += share
        work.totals[1] = total
        if step == 0:
            centre += total / mass / scale
    return centre, scale


@kernel(inner=True)
def place_targets(
    samples: Samples, work: Work, start: int, stop: int, centre: float, scale: float
) -> None:
    """Places and heights of the rows of a node in the order of their targets."""
    mass = work.totals[0]
    coarse = math.ldexp(3.0, exponent_of(max(mass, 1.0)))
    for i in range(start, stop):
        row = work.by_target[i]
        work.read.place[row] = i - start
        work.heights[i - start] = on_grid((samples.target[row] - centre) * scale, coarse)


@kernel(inner=True)
def sum_node(samples: Samples, rules: CartRules, work: Work, tree: Tree, node: int) -> None:
    """Totals of a node; in regression also shares, and places for the absolute error."""
    start = tree.table[node, NODE_START]
    stop = start + tree.table[node, NODE_COUNT]
    totals, read = work.totals, work.read
    totals[:] = 0.0
    for i in range(start, stop):
        row = work.rows[i]
        mass = weight_of(read.mass, row)
        totals[0] += mass
        if rules.n_classes > 0:
            totals[2 + np.int64(samples.code[row])] += mass
    if rules.n_classes == 2:
        totals[1] = totals[3]
    if rules.n_classes == 0:
        centre, scale = share_targets(samples, work, start, stop, totals[0])
        if rules.criterion == ABSOLUTE_ERROR:
            place_targets(samples, work, start, stop, centre, scale)


@kernel(inner=True)
def is_constant(columns: Columns, table: IntArray, node: int, feature: int) -> bool:
    """Whether a feature has one value in a node, or none."""
    first = feature * columns.n_rows + table[node, NODE_START]
    last = first + table[node, NODE_COUNT] - 1
    return rank_of(columns.cells[first]) == rank_of(columns.cells[last])


@kernel(inner=True)
def choose_features(
    columns: Columns, rules: CartRules, work: Work, table: IntArray, node: int
) -> int:
    """Write the features that a node may be split by, ascending; their number.

    Features are drawn until ``max_features`` have been, and one of them at
    least is not constant.
    """
    n_features, chosen = columns.n_features, work.chosen
    for j in range(n_features):
        chosen[j] = j
    n_chosen = np.int64(0)
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
def settle_node(
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
    left = add_node(samples, rules, work, tree, progress, start, n_left, depth)
    right = add_node(samples, rules, work, tree, progress, start + n_left, count - n_left, depth)
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
