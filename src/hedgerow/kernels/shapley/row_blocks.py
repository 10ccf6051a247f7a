"""Shapley values of blocks of rows: their keys, trees one after the other, and their columns.

A tree with few conditions, such as a symmetric or shallow tree, distinguishes few rows: one for
each set of answers.  Where many rows are explained, each set of answers takes the walk once, and
a table holds the values::

    answers   00   01   10   11        of conditions b and a
    values    ..   ..   ..   ..        of each player

A row gets the same bits from the table as from the walk.

A single row walks alone, because all lanes but one would be empty: in about half the time, a third
in large trees (two rows take less time in lanes).  It computes the factors that it needs on its way
instead of reading the factors of all cases.  The factors are the same numbers and each sum has the
same order as in a lane, so the row gets the same bits.

Glossary
--------
rows, categories  as in :mod:`hedgerow.kernels.prediction.predict`
lines      ``(slopes, numbers)``: slopes of all nodes, and float64 (n_all_rows, n_columns), the
           values of the rows, which only linear leaves read
keys       int64: key of row i, slot s at ``s * BLOCK + i``
factors    of the trees at hand (:func:`hedgerow.kernels.shapley.tree_walk.fill_factors`)
total      float64 (n_outputs, n_players, BLOCK), or a last axis of 1 for a single row
columns    int64 (n_players, 2): columns of each player; the second is -1 if there is only one
values     float64 (n_all_rows, n_columns, n_outputs)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow import kernel_types as kt
from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.prediction.slopes import Slopes
from hedgerow.kernels.prediction.table_keys import CategorySets, KeyRows, fill_keys
from hedgerow.kernels.shapley import tree_walk
from hedgerow.kernels.shapley.tree_walk import (
    Walks,
    WalkSpace,
    answer_conditions,
    fill_line,
    walk_word,
)
from hedgerow.kernels.simd.lanes import WIDTH, spread, store_floats

MOST_CONDITIONS = 10
"""Largest number of conditions of a tree with a table."""

_WORD = np.uint64(tree_walk.WORD)
_WIDTH = np.uint64(WIDTH)
_WORDS = np.uint64(tree_walk.BLOCK // tree_walk.WORD)
_FACTORS = np.uint64(tree_walk.FACTORS)
_ONE = np.uint64(1)
_NOTHING = np.uint64(0)


class Tabled(NamedTuple):
    """Tables of the values of trees with few conditions.

    start  int64, one per tree: start of its table; -1: it has none
    value  float64: the values of a set of answers are neighbours
    """

    start: kt.Int64_1D
    value: kt.Float64_1D


@kernel
def fill_block_keys(
    rows: KeyRows,
    slots: kt.Int64_1D,
    categories: CategorySets,
    first_row: int,
    n_rows: int,
    keys: kt.Int64_1D,
) -> None:
    """Write the keys of at most ``BLOCK`` rows."""
    first, n, step = np.uint64(first_row), np.uint64(n_rows), np.uint64(tree_walk.BLOCK)
    fill_keys(rows, slots, categories, first, n, keys, _ONE, step)


@kernel(inner=True)
def factors_of(walks: Walks, tree: int) -> int:
    """Return the number of factors of a tree."""
    n_edges = np.uint64(walks.first_edge[tree + _ONE] - walks.first_edge[tree])
    return n_edges * np.uint64(walks.n_points[tree]) * _FACTORS


@kernel(inner=True)
def clear(phi: FloatArray, n_values: int) -> None:
    """Set the values of the rows of a word to 0."""
    for i in range(_NOTHING, n_values * _WORD, _WIDTH):
        store_floats(phi, i, spread(0.0))


@kernel
def fill_tables_of_trees(
    walks: Walks,
    slopes: Slopes,
    numbers: kt.Float64_2D,
    factors: kt.Float64_1D,
    first_tree: int,
    stop_tree: int,
    tables: Tabled,
    space: WalkSpace,
) -> None:
    """Fill the tables of some trees without linear leaves."""
    at_factor, n_sums = _NOTHING, np.uint64(walks.leaf.shape[1])
    for tree in range(np.uint64(first_tree), np.uint64(stop_tree)):
        if tables.start[tree] >= 0:
            first = np.uint64(walks.first_condition[tree])
            n_conditions = np.uint64(walks.first_condition[tree + _ONE]) - first
            n_values = np.uint64(walks.first_player[tree + _ONE]) - np.uint64(
                walks.first_player[tree]
            )
            n_values, at = n_values * n_sums, np.uint64(tables.start[tree])
            for row in range(_NOTHING, _ONE << n_conditions, _WORD):
                for condition in range(n_conditions):
                    word = _NOTHING
                    for i in range(_WORD):
                        word |= (((row + i) >> condition) & _ONE) << i
                    space.words[condition * _WORDS] = word
                clear(space.phi, n_values)
                walk_word(walks, slopes, numbers, space, tree, _NOTHING, _NOTHING, _WORD, factors,
                          at_factor)  # fmt: skip
                for i in range(np.uint64(min(_WORD, (_ONE << n_conditions) - row))):
                    for k in range(n_values):
                        tables.value[at] = space.phi[k * _WORD + i]
                        at += _ONE
        at_factor += factors_of(walks, tree)


@kernel(inner=True)
def read_table(
    walks: Walks, tables: Tabled, tree: int, word: int, n_values: int, space: WalkSpace
) -> None:
    """Write the values of the rows of a word to ``phi``, from the table of a tree."""
    first = np.uint64(walks.first_condition[tree])
    n_conditions = np.uint64(walks.first_condition[tree + _ONE]) - first
    start = np.uint64(tables.start[tree])
    for i in range(_WORD):
        answers = _NOTHING
        for condition in range(n_conditions):
            bit = (space.words[condition * _WORDS + word] >> i) & _ONE
            answers |= bit << condition
        at = start + answers * n_values
        for k in range(n_values):
            space.phi[k * _WORD + i] = tables.value[at + k]


@kernel(inner=True)
def add_to_total(
    walks: Walks, tree: int, phi: FloatArray, step: int, row: int, n_rows: int, total: FloatArray
) -> None:
    """Add the values of a tree, ``step`` numbers apart, to the totals of rows of a block."""
    at, player = _NOTHING, np.uint64(walks.first_player[tree])
    for p in range(player, np.uint64(walks.first_player[tree + _ONE])):
        for k in range(np.uint64(walks.leaf.shape[1])):
            to = np.uint64(walks.output[tree]) + k
            for i in range(n_rows):
                total[to, np.uint64(walks.player[p]), row + i] += phi[at + i]
            at += step


@kernel
def add_trees(
    walks: Walks,
    slopes: Slopes,
    numbers: kt.Float64_2D,
    factors: kt.Float64_1D,
    tables: Tabled,
    keys: kt.Int64_1D,
    first_row: int,
    n_rows: int,
    first_tree: int,
    stop_tree: int,
    total: kt.Float64_3D,
    columns: kt.Int64_2D,
    values: kt.Float64_3D,
    space: WalkSpace,
) -> None:
    """Add the Shapley values of some trees to the values of a block of at most ``BLOCK`` rows."""
    n_rows, at_factor = np.uint64(n_rows), _NOTHING
    n_sums = np.uint64(walks.leaf.shape[1])
    total[:] = 0.0
    for tree in range(np.uint64(first_tree), np.uint64(stop_tree)):
        player = np.uint64(walks.first_player[tree])
        n_players = np.uint64(walks.first_player[tree + _ONE]) - player
        table = tables.start[tree]
        answer_conditions(walks, tree, keys, n_rows, space.words)
        for row in range(_NOTHING, n_rows, _WORD):
            n, word = np.uint64(min(n_rows - row, _WORD)), row // _WORD
            if table >= 0:
                read_table(walks, tables, tree, word, n_players * n_sums, space)
            else:
                clear(space.phi, n_players * n_sums)
                walk_word(walks, slopes, numbers, space, tree, np.uint64(first_row) + row, word, n,
                          factors, at_factor)  # fmt: skip
            add_to_total(walks, tree, space.phi, _WORD, row, n, total)
        at_factor += factors_of(walks, tree)
    spread_players(total, columns, first_row, n_rows, values)


@kernel(inner=True)
def spread_players(
    total: FloatArray, columns: IntArray, first_row: int, n_rows: int, values: FloatArray
) -> None:
    """Add the values of players to columns; a player of two columns adds half to each."""
    for row in range(np.uint64(n_rows)):
        place = np.uint64(first_row) + row
        for player in range(np.uint64(len(columns))):
            one, other = np.uint64(columns[player, 0]), columns[player, 1]
            for output in range(np.uint64(len(total))):
                value = total[output, player, row]
                if other < 0:
                    values[place, one, output] += value
                else:
                    values[place, one, output] += 0.5 * value
                    values[place, np.uint64(other), output] += 0.5 * value


@kernel
def explain_row(
    rows: KeyRows,
    categories: CategorySets,
    slots: kt.Int64_1D,
    walks: Walks,
    lines: tuple[Slopes, kt.Float64_2D],
    runs: kt.Int64_1D,
    keys: kt.Int64_1D,
    columns: kt.Int64_2D,
    total: kt.Float64_3D,
    space: WalkSpace,
    values: kt.Float64_3D,
) -> None:
    """Add the Shapley values of all trees to the values of a single row."""
    # ``runs`` are the boundaries of runs of trees, from 0 on; values get the sum of each run.
    n_sums, (slopes, numbers) = np.uint64(walks.leaf.shape[1]), lines
    fill_block_keys(rows, slots, categories, _NOTHING, _ONE, keys)
    for run in range(np.uint64(len(runs) - 1)):
        total[:] = 0.0
        for tree in range(np.uint64(runs[run]), np.uint64(runs[run + _ONE])):
            n_players = np.uint64(walks.first_player[tree + _ONE] - walks.first_player[tree])
            for i in range(n_players * n_sums):
                space.phi[i] = 0.0
            answer_row(walks, tree, keys, space.words)
            walk_row(walks, slopes, numbers, space, tree)
            add_to_total(walks, tree, space.phi, _ONE, _NOTHING, _ONE, total)
        spread_players(total, columns, _NOTHING, _ONE, values)


@kernel(inner=True)
def answer_row(walks: Walks, tree: int, keys: IntArray, answers: npt.NDArray[np.uint64]) -> None:
    """Write 1 for each condition of a tree that the first row of a block meets, else 0."""
    first = np.uint64(walks.first_condition[tree])
    for condition in range(first, np.uint64(walks.first_condition[tree + _ONE])):
        key = keys[np.uint64(walks.slot[condition]) * np.uint64(tree_walk.BLOCK)]
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
    walks: Walks, slopes: Slopes, numbers: FloatArray, leaf: int, k: int, line: FloatArray
) -> float:
    """Return the value that a leaf adds to output ``k``; ``line`` is scratch space."""
    if len(walks.line_node) > 0 and walks.line_node[leaf] >= 0:
        fill_line(walks, slopes, numbers, leaf, _NOTHING, _ONE, line)
        return line[0]
    return walks.leaf[leaf, k]


@kernel(inner=True)
def walk_row(
    walks: Walks, slopes: Slopes, numbers: FloatArray, space: WalkSpace, tree: int
) -> None:
    """Walk a tree with one row, whose answers are in ``words``; add its values to ``phi``."""
    # Value k of player p is at ``p * n_sums + k``.  ``space.line`` has room for all points of all
    # depths, and for one more number.
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
            value = value_of_leaf(walks, slopes, numbers, np.uint64(leaf), k, last)
            to = here * n_sums + k * n_points
            give_row(space, space.h, below, value, to, below, n_points, player + k)
        for closed in range(np.uint64(walks.edge[edge, tree_walk.CLOSES])):
            inner = (above - closed) * n_points
            for k in range(n_sums):
                start = inner * n_sums + k * n_points
                give_row(space, space.g, start, 1.0, start - n_points * n_sums, inner, n_points,
                         space.opened[above - closed] + k)  # fmt: skip
