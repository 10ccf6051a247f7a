"""Runs the growth of a single tree, on one thread or several, and numbers its nodes.

Nodes are numbered as in scikit-learn: in the order of a walk that goes left
first, or, best first, in the order in which they were made.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.growing.cart import state as s
from hedgerow.growing.cart.columns import SortedTable
from hedgerow.growing.cart.grow import DONE, GROW, ROOM, SEARCH, run
from hedgerow.kernels.cart.category_order import scratch_groups
from hedgerow.kernels.cart.impurity import ABSOLUTE_ERROR
from hedgerow.kernels.cart.search import Rows, Scratch
from hedgerow.threads import run_blocks

_CELLS_PER_THREAD = 100_000
"""Cells of a node from which on a second thread is woken: about 0.2 ms of work."""

_NEVER = np.int64(2**62)


@dataclass(frozen=True, slots=True, eq=False)
class GrownNodes:
    """Nodes of a tree, numbered, and the rows by node.

    feature, left, right    -1 in a leaf
    last_left, first_right  ranks of the values around the cut; -1 where there is none
    value                   of one target, or the share of the second of two classes
    drawn                   threshold of a cut that was drawn; NaN of others
    start, count            rows of a node: ``rows[start : start + count]``
    """

    feature: IntArray
    left: IntArray
    right: IntArray
    last_left: IntArray
    first_right: IntArray
    missing_left: IntArray
    weight: FloatArray
    impurity: FloatArray
    value: FloatArray
    drawn: FloatArray
    start: IntArray
    count: IntArray
    rows: AnyArray


def grow_tree(
    samples: s.Samples, mass: FloatArray, data: SortedTable, rules: s.CartRules, n_threads: int
) -> GrownNodes:
    """Grow a tree."""
    columns = data.columns
    n_rows, n_features = int(columns.n_rows), int(columns.n_features)
    large = _NEVER
    if n_threads > 1 and n_features > 1:
        large = np.int64(max(2, 2 * _CELLS_PER_THREAD // n_features))
    rules = rules._replace(large=large)
    found = s.Found(
        np.empty(n_features), np.empty(n_features, np.int64), np.empty(n_features, np.int64),
        np.empty(n_features),
    )  # fmt: skip
    growth = s.Growth(
        samples, columns, rules, _make_work(samples, mass, rules, n_rows, n_features),
        _make_tree(1024, None), np.zeros(s.AT_FIELDS, dtype=np.int64), found,
    )  # fmt: skip
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
            growth = growth._replace(tree=_make_tree(2 * len(growth.tree.table), growth.tree))
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
    return _number_nodes(growth)


def _make_work(
    samples: s.Samples, mass: FloatArray, rules: s.CartRules, n_rows: int, n_features: int
) -> s.Work:
    absolute = rules.criterion == ABSOLUTE_ERROR
    n_placed = n_rows if absolute else 0
    if rules.n_classes > 2:
        share = np.empty(0)
    elif rules.n_classes == 2:
        share = samples.code.astype(np.float64)
        share = share * mass if len(mass) else share
    else:
        share = np.empty(int(rules.n_targets) * n_rows)
    by_target = np.argsort(samples.target, kind="stable") if absolute else np.empty(0)
    return s.Work(
        rows=np.arange(n_rows, dtype=np.uint32),
        by_target=by_target.astype(np.uint32),
        spare=np.empty(n_rows, dtype=np.uint32),
        flags=np.zeros(n_rows, dtype=np.uint8),
        read=Rows(samples.code, mass, share, np.empty(n_placed, dtype=np.uint32)),
        heights=np.empty(n_placed),
        totals=np.zeros(4 + int(rules.n_classes) + int(rules.n_targets)),
        counts=np.zeros(int(rules.n_classes)),
        chosen=np.zeros(n_features, dtype=np.int64),
    )


def _make_scratch(rules: s.CartRules, n_rows: int, most_categories: int) -> Scratch:
    n_placed = n_rows if rules.criterion == ABSOLUTE_ERROR else 0
    n_classes = int(rules.n_classes)
    return Scratch(
        np.empty(max(4 * n_classes, int(rules.n_targets))),
        np.empty(2 * n_placed + 2),
        np.empty(n_placed),
        np.empty(n_rows, dtype=np.uint64),
        np.empty(n_rows if most_categories else 0, dtype=np.uint64),
        *scratch_groups(most_categories, n_classes),
    )


def _make_tree(room: int, old: s.Tree | None) -> s.Tree:
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


@kernel
def number_depth_first(table: IntArray, todo: IntArray, number: IntArray) -> int:
    """Number the nodes in the order of a walk, left children first; return how many there are."""
    # ``todo``, as long as the table, is scratch space.
    todo[0] = 0
    size, count = 1, 0
    while size > 0:
        size -= 1
        node = todo[size]
        number[node] = count
        count += 1
        if table[node, s.NODE_EXPANDED] >= 0:
            todo[size] = table[node, s.NODE_LEFT] + 1
            todo[size + 1] = table[node, s.NODE_LEFT]
            size += 2
    return count


def _number_nodes(growth: s.Growth) -> GrownNodes:
    tree, table = growth.tree, growth.tree.table[: growth.progress[s.AT_NODES]]
    number = np.full(len(table), -1, dtype=np.int64)
    inner = np.flatnonzero(table[:, s.NODE_EXPANDED] >= 0)
    if growth.rules.best_first:
        number[0] = 0
        made = 2 * table[inner, s.NODE_EXPANDED]
        number[table[inner, s.NODE_LEFT]] = made + 1
        number[table[inner, s.NODE_LEFT] + 1] = made + 2
    else:
        number_depth_first(table, np.empty(len(table), dtype=np.int64), number)
    kept = np.flatnonzero(number >= 0)
    kept = kept[np.argsort(number[kept])]
    rows, numbers = table[kept], tree.numbers[kept]
    is_inner = rows[:, s.NODE_EXPANDED] >= 0

    def of_splits(field: int) -> IntArray:
        return np.where(is_inner, rows[:, field], -1)

    first_child = np.where(is_inner, rows[:, s.NODE_LEFT], 0)
    return GrownNodes(
        feature=of_splits(s.NODE_FEATURE),
        left=np.where(is_inner, number[first_child], -1),
        right=np.where(is_inner, number[np.minimum(first_child + 1, len(number) - 1)], -1),
        last_left=of_splits(s.NODE_LAST_LEFT),
        first_right=of_splits(s.NODE_FIRST_RIGHT),
        missing_left=np.where(is_inner, rows[:, s.NODE_MISSING_LEFT], 0),
        weight=numbers[:, s.NUMBER_WEIGHT].copy(),
        impurity=numbers[:, s.NUMBER_IMPURITY].copy(),
        value=numbers[:, s.NUMBER_VALUE].copy(),
        drawn=np.where(is_inner, numbers[:, s.NUMBER_DRAWN], np.nan),
        start=rows[:, s.NODE_START].copy(),
        count=rows[:, s.NODE_COUNT].copy(),
        rows=growth.work.rows,
    )
