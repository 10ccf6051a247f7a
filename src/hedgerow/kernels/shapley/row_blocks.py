"""Shapley values of blocks of rows: their keys, trees one after the other, and their columns.

Glossary
--------
rows, categories  as in :mod:`hedgerow.kernels.prediction.predict`
lines      ``(slopes, numbers)``: slopes of all nodes, and float64 (n_all_rows, n_columns), the
           values of the rows, which only linear leaves read
keys       int64: key of row i, slot s at ``s * BLOCK + i``
factors    of the trees at hand (:func:`hedgerow.kernels.shapley.tree_walk.fill_factors`)
total      float64 (n_outputs, n_players, BLOCK)
columns    int64 (n_players, 2): columns of each player; the second is -1 if there is only one
values     float64 (n_all_rows, n_columns or n_columns ** 2, n_outputs)
"""

from __future__ import annotations

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.prediction.slopes import Slopes
from hedgerow.kernels.prediction.table_keys import CategorySets, KeyRows, fill_keys
from hedgerow.kernels.shapley import tree_walk
from hedgerow.kernels.shapley.tree_walk import (
    Walkers,
    Walks,
    WalkSpace,
    answer_conditions,
    walk_word,
)
from hedgerow.kernels.simd.lanes import WIDTH, spread, store_floats

_WORD = np.uint64(tree_walk.WORD)
_WIDTH = np.uint64(WIDTH)
_FACTORS = np.uint64(tree_walk.FACTORS)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_NOTHING = np.uint64(0)


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
def clear(values: FloatArray, length: int) -> None:
    """Set the first values, up to the end of the last lanes, to 0."""
    for i in range(_NOTHING, length, _WIDTH):
        store_floats(values, i, spread(0.0))


@kernel(inner=True)
def clear_total(total: FloatArray, n_rows: int) -> None:
    """Set the totals of the first rows of a block to 0."""
    for output in range(np.uint64(total.shape[0])):
        for player in range(np.uint64(total.shape[1])):
            for row in range(n_rows):
                total[output, player, row] = 0.0


@kernel(inner=True)
def add_to_total(
    walks: Walks, tree: int, phi: FloatArray, width: int, row: int, n_rows: int, total: FloatArray
) -> None:
    """Add the values of a tree to the totals of the rows of a word, from ``row`` of a block on."""
    # ``width`` numbers lie between a player, or output, and the next.
    at, player = _NOTHING, np.uint64(walks.first_player[tree])
    for p in range(player, np.uint64(walks.first_player[tree + _ONE])):
        for k in range(np.uint64(walks.leaf.shape[1])):
            to = np.uint64(walks.output[tree]) + k
            for i in range(n_rows):
                total[to, np.uint64(walks.player[p]), row + i] += phi[at + i]
            at += width


@kernel
def add_trees(
    walks: Walks,
    lines: tuple[Slopes, kt.Float64_2D],
    factors: kt.Float64_1D,
    keys: kt.Int64_1D,
    rows: tuple[int, int],
    trees: tuple[int, int],
    total: kt.Float64_3D,
    columns: kt.Int64_2D,
    n_columns: int,
    values: kt.Float64_3D,
    space: WalkSpace,
) -> None:
    """Add the Shapley values of some trees to the values of a block of at most ``BLOCK`` rows."""
    # ``rows`` are the first row and how many there are.  With ``space.pairs``, ``values`` are those
    # of all pairs of the ``n_columns`` columns, one after the other.
    first_row, n_rows, at_factor = np.uint64(rows[0]), np.uint64(rows[1]), _NOTHING
    n_sums = np.uint64(walks.leaf.shape[1])
    clear_total(total, n_rows)
    for tree in range(np.uint64(trees[0]), np.uint64(trees[1])):
        n_locals = np.uint64(walks.first_player[tree + _ONE] - walks.first_player[tree])
        n_points = np.uint64(walks.n_points[tree])
        answer_conditions(walks, tree, keys, n_rows, space.words)
        for row in range(_NOTHING, n_rows, _WORD):
            n = np.uint64(min(n_rows - row, _WORD))
            n_groups = (n + (_WIDTH - _ONE)) // _WIDTH
            width = n_groups * _WIDTH
            own = Walkers(first_row + row, n, n_groups, n_points, width, n_points * width)
            clear(space.phi, n_locals * n_sums * width)
            if space.pairs == 1:
                clear(space.pair, n_locals * n_locals * n_sums * width)
            walk_word(walks, lines, space, own, tree, row // _WORD, factors, at_factor)
            if space.pairs == 1:
                spread_pairs(walks, tree, space, own, columns, np.uint64(n_columns), values)
            else:
                add_to_total(walks, tree, space.phi, width, row, n, total)
        n_edges = np.uint64(walks.first_edge[tree + _ONE] - walks.first_edge[tree])
        at_factor += n_edges * n_points * _FACTORS
    if space.pairs == 0:
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


@kernel(inner=True)
def add_to_columns(
    columns: IntArray, one: int, other: int, n_columns: int, output: int, row: int, value: float,
    values: FloatArray,
) -> None:  # fmt: skip
    """Add the value of a pair of players to their columns; a player of two columns halves it."""
    n_one = _ONE if columns[one, 1] < 0 else _TWO
    n_other = _ONE if columns[other, 1] < 0 else _TWO
    part = value / (n_one * n_other)
    for i in range(n_one):
        for j in range(n_other):
            first, second = np.uint64(columns[one, i]), np.uint64(columns[other, j])
            values[row, first * n_columns + second, output] += part


@kernel(inner=True)
def spread_pairs(
    walks: Walks, tree: int, space: WalkSpace, own: Walkers, columns: IntArray, n_columns: int,
    values: FloatArray,
) -> None:  # fmt: skip
    """Add the values of the players and pairs of a tree to the values of pairs of columns."""
    # The part of a player's value that its pairs do not take stays its own.
    first = np.uint64(walks.first_player[tree])
    n_locals = np.uint64(walks.first_player[tree + _ONE]) - first
    n_sums, to = np.uint64(walks.leaf.shape[1]), np.uint64(walks.output[tree])
    for i in range(n_locals):
        one = np.uint64(walks.player[first + i])
        for k in range(n_sums):
            for r in range(own.n_rows):
                alone, row = space.phi[(i * n_sums + k) * own.width + r], own.row + r
                for j in range(n_locals):
                    if i == j:
                        continue
                    at = (min(i, j) * n_locals + max(i, j)) * n_sums + k
                    value = space.pair[at * own.width + r]
                    alone -= value
                    other = np.uint64(walks.player[first + j])
                    add_to_columns(columns, one, other, n_columns, to + k, row, value, values)
                add_to_columns(columns, one, one, n_columns, to + k, row, alone, values)
