"""Shapley values of pairs of players, by the walk of :mod:`hedgerow.kernels.shapley.tree_walk`.

The interaction of two players is the integral over p of what both add together beyond what
each adds alone: in a leaf, its value times all factors times the parts of the two players.
Half of it goes to each order of the pair; the remainder of a player's value stays its own
(Lundberg et al. 2020).  When the walk leaves an edge, the part of its player has changed, and
the parts of the players above have not.  Each pair gets the change of one part times the
other part; these products add up to the product of both parts, as in the product rule.

Cost: edges times points times players above.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.prediction.slopes import Slopes
from hedgerow.kernels.shapley.tree_walk import (
    BEFORE,
    BLOCK,
    CLOSES,
    CONDITION,
    DEPTH,
    FACTORS,
    GROUP,
    LEAF,
    NEW_SHARE,
    PLAYER,
    SHARE,
    TURNED,
    WORD,
    Walks,
    WalkSpace,
    answer_conditions,
    fill_value,
    give,
    go_down,
)
from hedgerow.kernels.simd.lanes import WIDTH, choose, load_floats, spread, store_floats, truths_of

_WIDTH = np.uint64(WIDTH)
_GROUP = np.uint64(GROUP)
_WORD = np.uint64(WORD)
_FACTORS = np.uint64(FACTORS)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_NOTHING = np.uint64(0)


class PairSpace(NamedTuple):
    """Scratch space of one thread.

    ``part`` holds the parts of the player of each depth, ``change`` the sums of an edge times its
    change of part, ``pair`` the values of the pairs of a tree, ``covered`` the depth at which the
    player of a depth occurs again (0: none), and ``edge_at`` the edge of each depth.
    """

    walk: WalkSpace
    part: kt.Float64_1D
    change: kt.Float64_1D
    pair: kt.Float64_1D
    covered: kt.Int64_1D
    edge_at: kt.Int64_1D


@kernel(inline=True, inner=True)
def fill_parts(
    walks: Walks, edge: int, n_points: int, n_groups: int, new: int, start: int, part: FloatArray
) -> None:
    """Write the parts of the player of an edge, below it, for the rows of a word."""
    rule = n_points * (n_points - _ONE) // _TWO
    share = walks.share[edge, NEW_SHARE]
    for q in range(n_points):
        p = walks.point[rule + q]
        agrees = spread((1.0 - share) / (p + (1.0 - p) * share))
        differs = spread(-1.0 / (1.0 - p))
        bits = new
        for group in range(n_groups):
            at = start + (group * n_points + q) * _GROUP
            store_floats(part, at, choose(truths_of(bits), agrees, differs))
            store_floats(part, at + _WIDTH, choose(truths_of(bits >> _WIDTH), agrees, differs))
            bits = bits >> _GROUP


@kernel(inline=True, inner=True)
def fill_change(
    space: PairSpace, start: int, factors: FloatArray, at: int, n_points: int, n_groups: int,
    new: int, old: int,
) -> None:  # fmt: skip
    """Write half of the sums of an edge, which begin at ``start``, times its change of part."""
    none, g = spread(0.0), space.walk.g
    for group in range(n_groups):
        new_a, new_b = truths_of(new), truths_of(new >> _WIDTH)
        old_a, old_b = truths_of(old), truths_of(old >> _WIDTH)
        new, old = new >> _GROUP, old >> _GROUP
        for q in range(n_points):
            f, i = at + q * _FACTORS + _TWO, (group * n_points + q) * _GROUP
            agrees, differs = spread(0.5 * factors[f]), spread(0.5 * factors[f + _ONE])
            part_a = choose(new_a, agrees, choose(old_a, differs, none))
            part_b = choose(new_b, agrees, choose(old_b, differs, none))
            store_floats(space.change, i, load_floats(g, start + i) * part_a)
            i += _WIDTH
            store_floats(space.change, i, load_floats(g, start + i) * part_b)


@kernel(inner=True)
def fill_sums(
    walks: Walks, lines: tuple[Slopes, FloatArray], walk: WalkSpace, edge: int, row: int,
    n_rows: int, n_points: int, n_groups: int,
) -> None:  # fmt: skip
    """Write the sums of an edge to a leaf: ``h`` times what the leaf adds."""
    slopes, numbers = lines
    leaf, depth = np.uint64(walks.edge[edge, LEAF]), np.uint64(walks.edge[edge, DEPTH])
    n_sums, step = np.uint64(walks.leaf.shape[1]), n_points * _WORD
    fill_value(walks, slopes, numbers, leaf, row, n_rows, walk.line)
    for k in range(n_sums):
        own = spread(walks.leaf[leaf, k])
        for group in range(n_groups):
            for q in range(n_points):
                for half in range(_TWO):
                    in_word = group * _GROUP + half * _WIDTH
                    i = (group * n_points + q) * _GROUP + half * _WIDTH
                    value = load_floats(walk.line, in_word) if n_sums == _ONE else own
                    h = load_floats(walk.h, depth * step + i)
                    store_floats(walk.g, (depth * n_sums + k) * step + i, h * value)


@kernel(inner=True)
def give_pairs(
    walks: Walks, space: PairSpace, edge: int, n_locals: int, output: int, n_points: int,
    n_groups: int,
) -> None:  # fmt: skip
    """Add the change of an edge to the pairs of its player with each player above it."""
    depth, own = np.uint64(walks.edge[edge, DEPTH]), np.uint64(walks.edge[edge, PLAYER])
    n_sums = np.uint64(walks.leaf.shape[1])
    step = n_points * _WORD
    for above in range(_ONE, depth):
        other = np.uint64(walks.edge[np.uint64(space.edge_at[above]), PLAYER])
        if space.covered[above] > 0 or other == own:
            continue
        low, high = min(own, other), max(own, other)
        to = ((low * n_locals + high) * n_sums + output) * _WORD
        for group in range(n_groups):
            a, b = load_floats(space.pair, to), load_floats(space.pair, to + _WIDTH)
            for q in range(n_points):
                i = (group * n_points + q) * _GROUP
                j = above * step + i
                a = a + load_floats(space.change, i) * load_floats(space.part, j)
                b = b + load_floats(space.change, i + _WIDTH) * load_floats(space.part, j + _WIDTH)
            store_floats(space.pair, to, a)
            store_floats(space.pair, to + _WIDTH, b)
            to += _GROUP


@kernel(inner=True)
def leave_pairs(
    walks: Walks, space: PairSpace, edge: int, n_locals: int, factors: FloatArray, at: int,
    n_points: int, n_groups: int,
) -> None:  # fmt: skip
    """Leave an edge: add its sums to the edge above, to its player, and to the player's pairs."""
    walk = space.walk
    depth, before = np.uint64(walks.edge[edge, DEPTH]), np.uint64(walks.edge[edge, BEFORE])
    new, old = walk.taken[depth], walk.taken[before]
    n_sums, step = np.uint64(walks.leaf.shape[1]), n_points * _WORD
    phi = np.uint64(walks.edge[edge, PLAYER]) * n_sums * _WORD
    for k in range(n_sums):
        here, above = (depth * n_sums + k) * step, ((depth - _ONE) * n_sums + k) * step
        give(walk, walk.g, here, above, 1.0, phi + k * _WORD, factors, at, n_points, n_groups,
             new, old)  # fmt: skip
        fill_change(space, here, factors, at, n_points, n_groups, new, old)
        give_pairs(walks, space, edge, n_locals, k, n_points, n_groups)
    if before > _NOTHING:
        space.covered[before] = 0


@kernel(inner=True)
def walk_pairs(
    walks: Walks, lines: tuple[Slopes, FloatArray], space: PairSpace, tree: int, row: int,
    word: int, n_rows: int, factors: FloatArray, start: int,
) -> None:  # fmt: skip
    """Walk a tree with the rows of a word; player values go to ``phi``, pair values to ``pair``."""
    walk = space.walk
    n_points, n_sums = np.uint64(walks.n_points[tree]), np.uint64(walks.leaf.shape[1])
    n_locals = np.uint64(walks.first_player[tree + _ONE] - walks.first_player[tree])
    first = np.uint64(walks.first_edge[tree])
    step, stride = n_points * _WORD, n_points * _FACTORS
    n_groups = (n_rows + (_GROUP - _ONE)) // _GROUP
    walk.taken[0] = _ALL
    for i in range(_NOTHING, n_groups * n_points * _GROUP, _WIDTH):
        store_floats(walk.h, i, spread(1.0))
    for edge in range(first, np.uint64(walks.first_edge[tree + _ONE])):
        depth, before = np.uint64(walks.edge[edge, DEPTH]), np.uint64(walks.edge[edge, BEFORE])
        condition = np.uint64(walks.edge[edge, CONDITION])
        answer = walk.words[condition * np.uint64(BLOCK // WORD) + word]
        old = walk.taken[before]
        new = old & (answer ^ np.uint64(np.int64(walks.edge[edge, TURNED])))
        walk.taken[depth] = new
        space.edge_at[depth] = edge
        space.covered[depth] = 0
        if before > _NOTHING:
            space.covered[before] = depth
        at = start + (edge - first) * stride
        go_down(walk, factors, at, n_points, n_groups, (depth - _ONE) * step,
                walks.share[edge, SHARE], new, old, depth * n_sums * step, n_sums)  # fmt: skip
        if walks.edge[edge, LEAF] < 0:
            fill_parts(walks, edge, n_points, n_groups, new, depth * step, space.part)
            continue
        fill_sums(walks, lines, walk, edge, row, n_rows, n_points, n_groups)
        leave_pairs(walks, space, edge, n_locals, factors, at, n_points, n_groups)
        for closed in range(np.uint64(walks.edge[edge, CLOSES])):
            inner = np.uint64(space.edge_at[depth - _ONE - closed])
            leave_pairs(walks, space, inner, n_locals, factors, start + (inner - first) * stride,
                        n_points, n_groups)  # fmt: skip


@kernel(inner=True)
def add_to_columns(
    columns: IntArray, one: int, other: int, output: int, row: int, value: float,
    values: FloatArray,
) -> None:  # fmt: skip
    """Add the value of a pair of players to their columns; a player of two columns halves it."""
    n_one = _ONE if columns[one, 1] < 0 else _TWO
    n_other = _ONE if columns[other, 1] < 0 else _TWO
    part = value / (n_one * n_other)
    for i in range(n_one):
        for j in range(n_other):
            values[row, np.uint64(columns[one, i]), np.uint64(columns[other, j]), output] += part


@kernel(inner=True)
def spread_pairs(
    walks: Walks, tree: int, phi: FloatArray, pair: FloatArray, columns: IntArray, first_row: int,
    n_rows: int, values: FloatArray,
) -> None:  # fmt: skip
    """Add the values of the players and pairs of a tree to the values of pairs of columns."""
    # The part of a player's value that its pairs do not take stays its own.
    first = np.uint64(walks.first_player[tree])
    n_locals = np.uint64(walks.first_player[tree + _ONE]) - first
    n_sums, to = np.uint64(walks.leaf.shape[1]), np.uint64(walks.output[tree])
    for i in range(n_locals):
        one = np.uint64(walks.player[first + i])
        for k in range(n_sums):
            for r in range(n_rows):
                own = phi[(i * n_sums + k) * _WORD + r]
                for j in range(n_locals):
                    if i == j:
                        continue
                    at = (min(i, j) * n_locals + max(i, j)) * n_sums + k
                    value = pair[at * _WORD + r]
                    own -= value
                    other = np.uint64(walks.player[first + j])
                    add_to_columns(columns, one, other, to + k, first_row + r, value, values)
                add_to_columns(columns, one, one, to + k, first_row + r, own, values)


@kernel
def add_pairs(
    walks: Walks,
    lines: tuple[Slopes, kt.Float64_2D],
    factors: kt.Float64_1D,
    keys: kt.Int64_1D,
    rows: tuple[int, int],
    trees: tuple[int, int],
    columns: kt.Int64_2D,
    values: kt.Float64_4D,
    space: PairSpace,
) -> None:
    """Add the values of pairs in some trees to the values of a block of rows."""
    # The arrays are those of :mod:`hedgerow.kernels.shapley.row_blocks`, but ``values`` has an axis
    # for each column of a pair.  ``rows`` are the first row and how many there are.
    first_row, n_rows, start = np.uint64(rows[0]), np.uint64(rows[1]), _NOTHING
    walk, n_sums = space.walk, np.uint64(walks.leaf.shape[1])
    for tree in range(np.uint64(trees[0]), np.uint64(trees[1])):
        n_locals = np.uint64(walks.first_player[tree + _ONE] - walks.first_player[tree])
        answer_conditions(walks, tree, keys, n_rows, walk.words)
        for row in range(_NOTHING, n_rows, _WORD):
            n = np.uint64(min(n_rows - row, _WORD))
            for i in range(_NOTHING, n_locals * n_sums * _WORD, _WIDTH):
                store_floats(walk.phi, i, spread(0.0))
            for i in range(_NOTHING, n_locals * n_locals * n_sums * _WORD, _WIDTH):
                store_floats(space.pair, i, spread(0.0))
            walk_pairs(walks, lines, space, tree, first_row + row, row // _WORD, n, factors,
                       start)  # fmt: skip
            spread_pairs(walks, tree, walk.phi, space.pair, columns, first_row + row, n, values)
        n_edges = np.uint64(walks.first_edge[tree + _ONE] - walks.first_edge[tree])
        start += n_edges * np.uint64(walks.n_points[tree]) * _FACTORS
