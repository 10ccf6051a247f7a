"""Shapley values of a single row: the walk of the module ``tree_walk`` without lanes.

With a few rows most lanes of a walk with rows in lanes would be empty, so each row walks alone.
It computes the factors that it needs on its way instead of reading the factors of all cases; for
one row, all cases would cost more than everything else.  The factors are the same numbers and each
sum has the same order as in a lane, so the row gets the same bits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.prediction.slopes import Slopes
from hedgerow.kernels.shapley import tree_walk
from hedgerow.kernels.shapley.tree_walk import Walks, WalkSpace, fill_line

FEW_ROWS = 5
"""Largest number of rows that take the walk one by one."""

_ONE = np.uint64(1)


@kernel(inner=True)
def answer_row(
    walks: Walks, tree: int, keys: IntArray, row: int, answers: npt.NDArray[np.uint64]
) -> None:
    """Write 1 for each condition of a tree that a row of a block meets, else 0."""
    first = np.uint64(walks.first_condition[tree])
    for condition in range(first, np.uint64(walks.first_condition[tree + _ONE])):
        key = keys[np.uint64(walks.slot[condition]) * np.uint64(tree_walk.BLOCK) + row]
        answers[condition - first] = np.uint64(key <= walks.threshold[condition])


@kernel(inline=True, inner=True)
def go_down_row(
    walks: Walks, space: WalkSpace, edge: int, here: int, below: int, n_points: int, new: bool,
    old: bool, rule: int,
) -> None:  # fmt: skip
    """Multiply ``h`` by the factors of an edge, and write the changes of its part to ``line``."""
    # The numbers are those of :func:`hedgerow.kernels.shapley.tree_walk.fill_factors`.  Where an
    # edge is the first of its player, the old share is 1, and so is ``p + rest * 1``: left out.
    h, part = space.h, space.line
    if not old:
        share = walks.share[edge, tree_walk.SHARE]
        for q in range(n_points):
            h[below + q] = h[here + q] * share
            part[below + q] = 0.0
        return
    before, after = walks.share[edge, tree_walk.OLD_SHARE], walks.share[edge, tree_walk.NEW_SHARE]
    lost = 1.0 - after
    if before == 1.0:
        for q in range(n_points):
            p, weight = walks.point[rule + q], walks.weight[rule + q]
            rest = 1.0 - p
            differs = rest * after
            agrees = p + differs
            h[below + q] = h[here + q] * (agrees if new else differs)
            part[below + q] = weight * (lost / agrees if new else -1.0 / rest)
        return
    for q in range(n_points):
        p, weight = walks.point[rule + q], walks.weight[rule + q]
        rest = 1.0 - p
        had = p + rest * before
        differs = rest * after
        agrees = p + differs
        change = (lost / agrees if new else -1.0 / rest) - (1.0 - before) / had
        h[below + q] = h[here + q] * ((agrees if new else differs) / had)
        part[below + q] = weight * change


@kernel(inline=True, inner=True)
def give_row(
    space: WalkSpace, sums: FloatArray, start: int, value: float, above: int, part: int,
    n_points: int, phi: int,
) -> None:  # fmt: skip
    """Do the work of :func:`hedgerow.kernels.shapley.tree_walk.give` for one row."""
    g, parts, total = space.g, space.line, 0.0
    for q in range(n_points):
        held = sums[start + q] * value
        g[above + q] += held
        total += held * parts[part + q]
    space.phi[phi] += total


@kernel(inline=True, inner=True)
def value_of_leaf(
    walks: Walks, slopes: Slopes, numbers: FloatArray, leaf: int, k: int, row: int, line: FloatArray
) -> float:
    """Return the value that a leaf adds to output ``k`` for a row; ``line`` is scratch space."""
    if len(walks.line_node) > 0 and walks.line_node[leaf] >= 0:
        fill_line(walks, slopes, numbers, leaf, row, _ONE, line)
        return line[0]
    return walks.leaf[leaf, k]


@kernel(inner=True)
def walk_row(
    walks: Walks, slopes: Slopes, numbers: FloatArray, space: WalkSpace, tree: int, row: int
) -> None:
    """Walk a tree with one row, whose answers are in ``words``; add its values to ``phi``."""
    # ``row`` is the row of ``numbers``.  Value k of player p is at ``p * n_sums + k``.
    # ``space.line`` has room for all points of all depths, and for one more number.
    n_points, n_sums = np.uint64(walks.n_points[tree]), np.uint64(walks.leaf.shape[1])
    rule = n_points * (n_points - _ONE) // np.uint64(2)
    space.taken[0] = _ONE
    for q in range(n_points):
        space.h[q] = 1.0
    last = space.line[np.uint64(len(space.line)) - _ONE :]
    first, stop = walks.first_edge[tree], walks.first_edge[tree + _ONE]
    for edge in range(np.uint64(first), np.uint64(stop)):
        depth = np.uint64(walks.edge[edge, tree_walk.DEPTH])
        answer = space.words[np.uint64(walks.edge[edge, tree_walk.CONDITION])]
        old = space.taken[np.uint64(walks.edge[edge, tree_walk.BEFORE])]
        new = old & (answer ^ (np.uint64(np.int64(walks.edge[edge, tree_walk.TURNED])) & _ONE))
        space.taken[depth] = new
        player = np.uint64(walks.edge[edge, tree_walk.PLAYER]) * n_sums
        above = depth - _ONE
        here, below = above * n_points, depth * n_points
        go_down_row(walks, space, edge, here, below, n_points, new == _ONE, old == _ONE, rule)
        leaf = walks.edge[edge, tree_walk.LEAF]
        if leaf < 0:
            space.opened[depth] = player
            for i in range(below * n_sums, (below + n_points) * n_sums):
                space.g[i] = 0.0
            continue
        for k in range(n_sums):
            value = value_of_leaf(walks, slopes, numbers, np.uint64(leaf), k, row, last)
            to = here * n_sums + k * n_points
            give_row(space, space.h, below, value, to, below, n_points, player + k)
        for closed in range(np.uint64(walks.edge[edge, tree_walk.CLOSES])):
            inner = (above - closed) * n_points
            for k in range(n_sums):
                start = inner * n_sums + k * n_points
                give_row(space, space.g, start, 1.0, start - n_points * n_sums, inner, n_points,
                         space.opened[above - closed] + k)  # fmt: skip
