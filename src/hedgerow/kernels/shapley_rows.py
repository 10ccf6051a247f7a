"""Shapley values of a single row: the walk of :mod:`hedgerow.kernels.shapley`, points in lanes.

Of a few rows most lanes of a walk with rows in lanes would be empty.  One row takes the walk
alone, ``POINTS`` points at a time, each sum in the order in which a row among others has it:
it gets the same bits.

For each edge and ``POINTS`` points a table has what counts in each of three cases::

    case 0, agrees    factor  factor  factor  factor    part  part  part  part
    case 1, differs   ...
    case 2, differed above the edge already: the share, and no part

Behind the last point factors are 0, so that nothing is added there.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.shapley import (
    BEFORE,
    BLOCK,
    CLOSES,
    CONDITION,
    DEPTH,
    FACTORS,
    LEAF,
    PLAYER,
    SHARE,
    TURNED,
    Walks,
    WalkSpace,
    fill_line,
)
from hedgerow.kernels.slopes import Slopes

FEW_ROWS = 5
"""Rows up to which each takes the walk alone."""

POINTS = 4
"""Points side by side."""

EDGE_FLOATS = 3 * 2 * POINTS
"""Numbers of an edge for ``POINTS`` points."""

_FACTORS = np.uint64(FACTORS)
_POINTS = np.uint64(POINTS)
_CASE = np.uint64(2 * POINTS)
_EDGE_FLOATS = np.uint64(EDGE_FLOATS)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_THREE = np.uint64(3)
_NOTHING = np.uint64(0)


@kernel(inner=True)
def chunks_of(walks: Walks, tree: int) -> int:
    """How many times ``POINTS`` points a tree has."""
    return (np.uint64(walks.n_points[tree]) + (_POINTS - _ONE)) // _POINTS


@kernel
def fill_row_factors(
    walks: Walks, first_tree: int, stop_tree: int, factors: FloatArray, table: FloatArray
) -> None:
    """Arrange the ``factors`` of some trees for single rows; ``table`` is 0."""
    at, to = _NOTHING, _NOTHING
    for tree in range(np.uint64(first_tree), np.uint64(stop_tree)):
        n_points, n_chunks = np.uint64(walks.n_points[tree]), chunks_of(walks, tree)
        first, stop = walks.first_edge[tree], walks.first_edge[tree + _ONE]
        for edge in range(np.uint64(first), np.uint64(stop)):
            for q in range(n_points):
                place = to + q // _POINTS * _EDGE_FLOATS + q % _POINTS
                for case in range(_TWO):
                    table[place] = factors[at + case]
                    table[place + _POINTS] = factors[at + _TWO + case]
                    place += _CASE
                table[place] = walks.share[edge, SHARE]
                at += _FACTORS
            to += n_chunks * _EDGE_FLOATS


@kernel(inner=True)
def answer_row(
    walks: Walks, tree: int, keys: IntArray, row: int, answers: npt.NDArray[np.uint64]
) -> None:
    """Write 1 for each condition of a tree that a row of a block fulfils, else 0."""
    first = np.uint64(walks.first_condition[tree])
    for condition in range(first, np.uint64(walks.first_condition[tree + _ONE])):
        key = keys[np.uint64(walks.slot[condition]) * np.uint64(BLOCK) + row]
        answers[condition - first] = np.uint64(key <= walks.threshold[condition])


@kernel(inline=True, inner=True)
def go_down_row(h: FloatArray, here: int, below: int, table: FloatArray, at: int) -> None:
    """Multiply ``POINTS`` numbers of ``h`` by those of an edge."""
    a, b = h[here] * table[at], h[here + _ONE] * table[at + _ONE]
    c, d = h[here + _TWO] * table[at + _TWO], h[here + _THREE] * table[at + _THREE]
    h[below], h[below + _ONE], h[below + _TWO], h[below + _THREE] = a, b, c, d


@kernel(inline=True, inner=True)
def give_row(
    sums: FloatArray, here: int, value: float, g: FloatArray, above: int, table: FloatArray,
    at: int, total: float,
) -> float:  # fmt: skip
    """Add ``value`` times ``POINTS`` sums to those above; returns ``total`` and what they give."""
    a, b = sums[here] * value, sums[here + _ONE] * value
    c, d = sums[here + _TWO] * value, sums[here + _THREE] * value
    e, f = g[above] + a, g[above + _ONE] + b
    i, j = g[above + _TWO] + c, g[above + _THREE] + d
    g[above], g[above + _ONE], g[above + _TWO], g[above + _THREE] = e, f, i, j
    a, b = a * table[at], b * table[at + _ONE]
    c, d = c * table[at + _TWO], d * table[at + _THREE]
    return total + a + b + c + d


@kernel(inline=True, inner=True)
def value_of_leaf(
    walks: Walks, slopes: Slopes, numbers: FloatArray, leaf: int, k: int, row: int, line: FloatArray
) -> float:
    """What a leaf adds to output ``k`` for a row."""
    if len(walks.line_node) > 0 and walks.line_node[leaf] >= 0:
        fill_line(walks, slopes, numbers, leaf, row, _ONE, line)
        return line[0]
    return walks.leaf[leaf, k]


@kernel(inner=True)
def walk_row(
    walks: Walks, slopes: Slopes, numbers: FloatArray, space: WalkSpace, tree: int, row: int,
    table: FloatArray, start: int,
) -> None:  # fmt: skip
    """Walk a tree with one row, whose answers are in ``words``; its values are added to ``phi``.

    ``row`` counts in ``numbers``, the numbers of the tree begin at ``start`` of ``table``.
    Value k of player p is at ``p * n_sums + k``.
    """
    n_sums, n_chunks = np.uint64(walks.leaf.shape[1]), chunks_of(walks, tree)
    first, stop = np.uint64(walks.first_edge[tree]), np.uint64(walks.first_edge[tree + _ONE])
    width, stride = n_chunks * _POINTS, n_chunks * _EDGE_FLOATS
    g, h, phi = space.g, space.h, space.phi
    space.taken[0] = _ONE
    for q in range(width):
        h[q] = 1.0
    edge_start = start
    for edge in range(first, stop):
        depth = np.uint64(walks.edge[edge, DEPTH])
        above = depth - _ONE
        answer = space.words[np.uint64(walks.edge[edge, CONDITION])]
        old = space.taken[np.uint64(walks.edge[edge, BEFORE])]
        new = old & (answer ^ (np.uint64(np.int64(walks.edge[edge, TURNED])) & _ONE))
        space.taken[depth] = new
        at = edge_start + (_TWO - old - new) * _CASE
        edge_start += stride
        here, below = above * width, depth * width
        for chunk in range(n_chunks):
            go_down_row(h, here + chunk * _POINTS, below + chunk * _POINTS, table,
                        at + chunk * _EDGE_FLOATS)  # fmt: skip
        leaf = walks.edge[edge, LEAF]
        if leaf < 0:
            space.opened[depth] = edge
            for i in range(below * n_sums, (below + width) * n_sums):
                g[i] = 0.0
            continue
        player = np.uint64(walks.edge[edge, PLAYER]) * n_sums
        for k in range(n_sums):
            value = value_of_leaf(walks, slopes, numbers, np.uint64(leaf), k, row, space.line)
            to, total = here * n_sums + k * width, 0.0
            for chunk in range(n_chunks):
                total = give_row(h, below + chunk * _POINTS, value, g, to + chunk * _POINTS, table,
                                 at + chunk * _EDGE_FLOATS + _POINTS, total)  # fmt: skip
            phi[player + k] += total
        for closed in range(np.uint64(walks.edge[edge, CLOSES])):
            inner = space.opened[above - closed]
            leave_row(walks, space, inner, table, start + (inner - first) * stride, n_chunks)


@kernel(inline=True, inner=True)
def leave_row(
    walks: Walks, space: WalkSpace, edge: int, table: FloatArray, at: int, n_chunks: int
) -> None:
    """:func:`hedgerow.kernels.shapley.leave_edge` for one row."""
    depth, n_sums = np.uint64(walks.edge[edge, DEPTH]), np.uint64(walks.leaf.shape[1])
    new, old = space.taken[depth], space.taken[np.uint64(walks.edge[edge, BEFORE])]
    at += (_TWO - old - new) * _CASE + _POINTS
    player, width = np.uint64(walks.edge[edge, PLAYER]) * n_sums, n_chunks * _POINTS
    for k in range(n_sums):
        here, above = (depth * n_sums + k) * width, ((depth - _ONE) * n_sums + k) * width
        total = 0.0
        for chunk in range(n_chunks):
            total = give_row(space.g, here + chunk * _POINTS, 1.0, space.g,
                             above + chunk * _POINTS, table, at + chunk * _EDGE_FLOATS,
                             total)  # fmt: skip
        space.phi[player + k] += total
