"""Training of a :class:`hedgerow.cart.tree.CartTree` from rows and parameters.

Columns are sorted once; the tree grows on one thread or several; its nodes are numbered as in
scikit-learn: in the order of a walk that goes left first, or, best first, in the order in which
they were made; then it is pruned.

Glossary
--------
different   the different values of a column, ascending, as keys
            (:mod:`hedgerow.kernels.tables.keys`); a rank is a place among them
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray, FloatArray, IntArray, distinct
from hedgerow.cart import state as s
from hedgerow.cart.categories import scratch_groups
from hedgerow.cart.grow import DONE, GROW, ROOM, SEARCH, run
from hedgerow.cart.impurity import ENTROPY, GINI, POISSON, SQUARED_ERROR
from hedgerow.cart.search import MISSING_RANK, Least, Rows, Scratch
from hedgerow.cart.tree import CartTree, levels_of, nodes_depth_first
from hedgerow.data import Table
from hedgerow.data.binning.bins import integer_midpoints
from hedgerow.data.schema import ColumnKind
from hedgerow.growing.limits.pruning import prune
from hedgerow.kernels.tables.keys import floats_of_keys, keys_of_floats
from hedgerow.model.forest import HIGHEST_KEY
from hedgerow.threads import run_blocks

CRITERIA = {
    "gini": GINI,
    "entropy": ENTROPY,
    "log_loss": ENTROPY,
    "squared_error": SQUARED_ERROR,
    # Friedman's improvement l r / (l + r) (mean_l - mean_r)^2 equals the decrease of the
    # sum of squared errors.
    "friedman_mse": SQUARED_ERROR,
    "poisson": POISSON,
}
"""Criterion of the kernels for each value of the parameter ``criterion``."""

_LARGE_SUM = 2.0**24

_CELLS_PER_THREAD = 100_000
"""Cells of a node from which on a second thread is woken: about 0.2 ms of work."""

UNLIMITED = 2**31
"""Value of ``max_depth`` and ``max_leaf_nodes`` that means no limit."""


@dataclass(frozen=True, slots=True, eq=False)
class CartSample:
    """Rows of a fit; their targets are numbers or class indices."""

    table: Table
    target: FloatArray
    weight: FloatArray | None

    def without_zero_weights(self) -> CartSample:
        """Leave out rows of weight 0; weights that are all 1 become None."""
        if self.weight is None:
            return self
        kept = self.weight > 0.0
        table, target, weight = self.table, self.target, self.weight
        if not kept.all():
            table = Table(table.values[kept], table.schema)
            target, weight = target[kept], weight[kept]
        return CartSample(table, target, None if (weight == 1.0).all() else weight)


def train_tree(
    sample: CartSample, rules: s.CartRules, categorical: AnyArray, ccp_alpha: float, n_threads: int
) -> CartTree:
    """Grow a tree on rows of positive weight, and prune it."""
    mass, scale = masses(sample.weight)
    rules = rules._replace(least=Least(rules.least.rows, np.float64(rules.least.mass * scale)))
    none = np.empty(0)
    is_classes = rules.n_classes > 0
    samples = s.Samples(
        sample.target.astype(np.uint32) if is_classes else np.empty(0, dtype=np.uint32),
        none if is_classes else np.ascontiguousarray(sample.target),
        none if sample.weight is None else sample.weight,
    )
    data = sort_table(sample.table, categorical, n_threads)
    growth = _grow(samples, mass, data, rules, n_threads)
    tree = _make_tree(growth, sample, data)
    if ccp_alpha > 0.0:
        tree = tree.pruned(pruning_states(tree, ccp_alpha)[2])
    return tree


def pruning_states(tree: CartTree, most: float) -> tuple[FloatArray, FloatArray, AnyArray]:
    """Return alphas, risks and last leaves of :func:`hedgerow.growing.limits.pruning.prune`."""
    return prune(
        tree.children_left.astype(np.int64),
        tree.children_right.astype(np.int64),
        tree.weighted_n_node_samples,
        tree.impurity,
        most,
    )


def masses(weight: FloatArray | None) -> tuple[FloatArray, float]:
    """Round weights to a grid on which every sum is exact; return also their scale factor."""
    # Integers stay as they are, unless products with targets would lose bits.  Other weights are
    # divided by the power of two of the largest one; no weight becomes 0.
    if weight is None:
        return np.empty(0), 1.0
    total = float(weight.sum())
    if total <= max(_LARGE_SUM, 4.0 * len(weight)) and (weight == np.rint(weight)).all():
        return weight, 1.0
    exponent = int(np.frexp(weight.max())[1])
    scale = float(np.ldexp(1.0, -exponent))
    scaled = weight * scale
    grid = float(np.ldexp(1.0, int(np.frexp(scaled.sum())[1]) - 52))
    return np.maximum(np.rint(scaled / grid), 1.0) * grid, scale


class SortedTable(NamedTuple):
    """Columns for growth, and what their ranks stand for."""

    columns: s.Columns
    different: list[IntArray]
    kinds: tuple[ColumnKind, ...]


def sort_table(table: Table, categorical: AnyArray, n_threads: int) -> SortedTable:
    """Sort every column of a table once."""
    n_rows, n_features = table.values.shape
    cells = np.empty(n_rows * n_features, dtype=np.uint64)
    different: list[IntArray] = [np.empty(0, dtype=np.int64)] * n_features

    def sort_some(first: int, last: int) -> None:
        for j in range(first, last):
            part = cells[j * n_rows : (j + 1) * n_rows]
            different[j] = sort_column(table.values[:, j], part)

    run_blocks(sort_some, n_features, n_threads, max(1, 50_000 // n_rows))
    columns = s.Columns(cells, np.int64(n_rows), np.int64(n_features), categorical)
    return SortedTable(columns, different, table.schema.kinds)


def sort_column(values: AnyArray, cells: AnyArray) -> IntArray:
    """Write the cells of a column in order; returns the keys of its different values."""
    values = np.ascontiguousarray(values)
    missing = np.isnan(values) if values.dtype.kind == "f" else values == MISSING_KEY
    present = np.flatnonzero(~missing) if missing.any() else None
    if present is not None:
        values = values[present]
    order = np.argsort(values)
    ascending = values[order]
    new = np.empty(len(values), dtype=bool)
    new[:1] = True
    np.not_equal(ascending[1:], ascending[:-1], out=new[1:])
    rows = order if present is None else present[order]
    n = len(values)
    cells[:n] = (np.cumsum(new) - 1).astype(np.uint64) << np.uint64(32) | rows.astype(np.uint64)
    # The sort above may leave equal values in any order; rows are to be ascending.
    cells[:n].sort()
    if present is not None:
        cells[n:] = np.uint64(MISSING_RANK) << np.uint64(32) | np.flatnonzero(missing).astype(
            np.uint64
        )
    chosen = ascending[new]
    return keys_of_floats(chosen) if chosen.dtype.kind == "f" else chosen


def thresholds_between(low: IntArray, high: IntArray, kind: ColumnKind) -> IntArray:
    """Return keys of the middles between neighbouring values ``low < high``, given as keys."""
    # ``low <= middle < high`` as keys, however close the values are.
    if kind == "int":
        return integer_midpoints(low, high)
    below, above = floats_of_keys(low), floats_of_keys(high)
    with np.errstate(invalid="ignore"):
        middle = below / 2.0 + above / 2.0
    middle = np.where((middle >= below) & (middle < above), middle, below)
    return keys_of_floats(middle)


def node_thresholds(
    data: SortedTable, feature: AnyArray, last_left: IntArray, first_right: IntArray
) -> IntArray:
    """Return thresholds of splits whose ranks are given; 0 where there is no numeric split."""
    thresholds = np.zeros(len(feature), dtype=np.int64)
    for j in distinct(feature[feature >= 0]):
        keys = data.different[j]
        inner = np.flatnonzero((feature == j) & (last_left >= 0))
        thresholds[inner] = HIGHEST_KEY  # parts present values from missing ones
        cut = inner[first_right[inner] >= 0]
        thresholds[cut] = thresholds_between(
            keys[last_left[cut]], keys[first_right[cut]], data.kinds[j]
        )
    return thresholds


def _grow(
    samples: s.Samples, mass: FloatArray, data: SortedTable, rules: s.CartRules, n_threads: int
) -> s.Growth:
    """Grow a tree; return its nodes in the order in which they were made."""
    columns = data.columns
    n_rows, n_features = int(columns.n_rows), int(columns.n_features)
    large = np.int64(2**62)  # no node is
    if n_threads > 1 and n_features > 1:
        large = np.int64(max(2, 2 * _CELLS_PER_THREAD // n_features))
    rules = rules._replace(large=large)
    found = s.Found(
        np.empty(n_features), np.empty(n_features, np.int64), np.empty(n_features, np.int64)
    )
    share = np.empty(n_rows if rules.n_classes == 0 else 0)
    if rules.n_classes == 2:
        share = samples.code.astype(np.float64)
        share = share * mass if len(mass) else share
    work = s.Work(
        rows=np.arange(n_rows, dtype=np.uint32),
        spare=np.empty(n_rows, dtype=np.uint32),
        flags=np.zeros(n_rows, dtype=np.uint8),
        read=Rows(samples.code, mass, share),
        totals=np.zeros(2 + int(rules.n_classes)),
        counts=np.zeros(int(rules.n_classes)),
        chosen=np.zeros(n_features, dtype=np.int64),
    )
    tree, progress = _room_for_nodes(1024, None), np.zeros(s.AT_FIELDS, dtype=np.int64)
    growth = s.Growth(samples, columns, rules, work, tree, progress, found)
    most_categories = max(
        (len(data.different[j]) for j in np.flatnonzero(columns.categorical)), default=0
    )
    spare: list[Scratch] = []
    own = _make_scratch(rules, n_rows, most_categories)
    while True:
        request = run(growth, own, GROW, 0, 0)
        if request == DONE:
            break
        if request == ROOM:
            growth = growth._replace(tree=_room_for_nodes(2 * len(growth.tree.table), growth.tree))
            continue

        def step(first: int, last: int, now: s.Growth = growth, request: int = request) -> None:
            try:
                buffers = spare.pop()
            except IndexError:  # none is free
                buffers = _make_scratch(rules, n_rows, most_categories)
            run(now, buffers, request, first, last)
            spare.append(buffers)

        at = growth.progress[s.AT_NODE]
        n_items = int(growth.progress[s.AT_CHOSEN]) if request == SEARCH else n_features
        smallest = max(1, _CELLS_PER_THREAD // int(growth.tree.table[at, s.NODE_COUNT]))
        run_blocks(step, n_items, n_threads, smallest)
    return growth


def _make_scratch(rules: s.CartRules, n_rows: int, most_categories: int) -> Scratch:
    n_classes = int(rules.n_classes)
    return Scratch(
        np.empty(4 * n_classes),
        np.empty(n_rows, dtype=np.uint64),
        np.empty(n_rows if most_categories else 0, dtype=np.uint64),
        *scratch_groups(most_categories, n_classes),
    )


def _room_for_nodes(room: int, old: s.Tree | None) -> s.Tree:
    """Return a tree with room for this many nodes, and copy the nodes of ``old``."""
    tree = s.Tree(
        np.empty((room, s.NODE_FIELDS), dtype=np.int64),
        np.empty((room, s.NUMBERS)),
        np.empty(room, dtype=np.int64),
    )
    if old is not None:
        for new, given in zip(tree, old, strict=True):
            new[: len(given)] = given
    return tree


def _make_tree(growth: s.Growth, sample: CartSample, data: SortedTable) -> CartTree:
    """Number the nodes, and compute their values, thresholds and categories."""
    made = growth.tree.table[: growth.progress[s.AT_NODES]]
    inner = np.flatnonzero(made[:, s.NODE_EXPANDED] >= 0)
    left = np.full(len(made), -1, dtype=np.int64)
    left[inner] = made[inner, s.NODE_LEFT]
    if growth.rules.best_first:
        place = np.full(len(made), -1, dtype=np.int64)
        place[0] = 0
        place[left[inner]] = 2 * made[inner, s.NODE_EXPANDED] + 1
        place[left[inner] + 1] = 2 * made[inner, s.NODE_EXPANDED] + 2
        kept = np.argsort(place)[np.count_nonzero(place < 0) :]
    else:
        kept = nodes_depth_first(left, left + 1)
    number = np.full(len(made) + 1, -1, dtype=np.int32)  # the last entry: no child
    number[kept] = np.arange(len(kept), dtype=np.int32)
    table, numbers = made[kept], growth.tree.numbers[kept]
    is_leaf = left[kept] < 0

    def of_splits(field: int) -> IntArray:
        return np.where(is_leaf, -1, table[:, field])

    nodes = Nodes(
        feature=of_splits(s.NODE_FEATURE).astype(np.int32),
        left=number[left[kept]],
        right=number[np.where(is_leaf, -1, left[kept] + 1)],
        start=table[:, s.NODE_START],
        count=table[:, s.NODE_COUNT].copy(),
        rows=growth.work.rows,
    )
    n_classes, values = int(growth.rules.n_classes), numbers[:, s.NUMBER_VALUE, None].copy()
    if n_classes > 0:
        values = _class_shares(nodes, growth.samples, n_classes)
    start, category, category_left = _categories(nodes, sample.table, data.columns.categorical)
    last_left, first_right = of_splits(s.NODE_LAST_LEFT), of_splits(s.NODE_FIRST_RIGHT)
    return CartTree(
        feature=nodes.feature,
        threshold_key=node_thresholds(data, nodes.feature, last_left, first_right),
        missing_left=np.where(is_leaf, 0, table[:, s.NODE_MISSING_LEFT]).astype(np.uint8),
        children_left=nodes.left,
        children_right=nodes.right,
        value=values,
        impurity=numbers[:, s.NUMBER_IMPURITY].copy(),
        n_node_samples=nodes.count,
        weighted_n_node_samples=numbers[:, s.NUMBER_WEIGHT].copy(),
        category_start=start,
        category=category,
        category_left=category_left,
        schema=sample.table.schema,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """Numbered nodes; the rows of a node are ``rows[start : start + count]``."""

    feature: AnyArray
    left: AnyArray
    right: AnyArray
    start: IntArray
    count: IntArray
    rows: AnyArray


def _class_shares(nodes: Nodes, samples: s.Samples, n_classes: int) -> FloatArray:
    """Return the fraction of each class in the weight of each node."""
    n_nodes = len(nodes.feature)
    leaves = np.flatnonzero(nodes.feature < 0)
    leaves = leaves[np.argsort(nodes.start[leaves])]
    place = np.repeat(leaves, nodes.count[leaves])
    code = samples.code[nodes.rows].astype(np.int64)
    weight = samples.weight[nodes.rows] if len(samples.weight) else None
    flat = np.bincount(place * n_classes + code, weights=weight, minlength=n_nodes * n_classes)
    sums = flat.reshape(n_nodes, n_classes).astype(np.float64)
    for level in reversed(levels_of(nodes.left, nodes.right)):
        inner = level[nodes.left[level] >= 0]
        sums[inner] = sums[nodes.left[inner]] + sums[nodes.right[inner]]
    return sums / sums.sum(axis=1, keepdims=True)


def _categories(
    nodes: Nodes, table: Table, categorical: AnyArray
) -> tuple[IntArray, IntArray, AnyArray]:
    """Return the training categories of each categorical node, and whether they go left."""
    sizes = np.zeros(len(nodes.feature) + 1, dtype=np.int64)
    parts: list[IntArray] = [np.empty(0, dtype=np.int64)]
    sides: list[AnyArray] = [np.empty(0, dtype=np.uint8)]
    for node in np.flatnonzero(nodes.feature >= 0).tolist():
        if not categorical[nodes.feature[node]]:
            continue
        keys = []
        for at in (node, int(nodes.left[node])):
            rows = nodes.rows[nodes.start[at] : nodes.start[at] + nodes.count[at]]
            values = table.values[rows, nodes.feature[node]]
            own = distinct(values if values.dtype.kind == "i" else keys_of_floats(values))
            keys.append(own[own != MISSING_KEY])
        seen, left = keys
        sizes[node + 1] = len(seen)
        parts.append(seen)
        sides.append(np.isin(seen, left).astype(np.uint8))
    return np.cumsum(sizes), np.concatenate(parts), np.concatenate(sides)
