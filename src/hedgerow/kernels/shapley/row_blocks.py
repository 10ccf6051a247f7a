"""Shapley values of blocks of rows: their keys, trees one after the other, and their columns.

A tree with few conditions, such as a symmetric or shallow tree, distinguishes few rows: one for
each set of answers.  Where many rows are explained, each set of answers takes the walk once, and
a table holds the values::

    answers   00   01   10   11        of conditions b and a
    values    ..   ..   ..   ..        of each player

A row gets the same bits from the table as from the walk.

Glossary
--------
rows, categories  as in :mod:`hedgerow.kernels.prediction.predict`
lines      ``(slopes, numbers)``: slopes of all nodes, and float64 (n_all_rows, n_columns), the
           values of the rows, which only linear leaves read
keys       int64: key of row i, slot s at ``s * BLOCK + i``
factors    of the trees at hand (:func:`hedgerow.kernels.shapley.tree_walk.fill_factors`)
total      float64 (n_outputs, n_players, BLOCK), or a last axis of 1 for single rows
columns    int64 (n_players, 2): columns of each player; the second is -1 if there is only one
values     float64 (n_all_rows, n_columns, n_outputs)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.prediction.slopes import Slopes
from hedgerow.kernels.prediction.table_keys import fill_keys
from hedgerow.kernels.shapley import tree_walk
from hedgerow.kernels.shapley.single_rows import answer_row, walk_row
from hedgerow.kernels.shapley.tree_walk import Walks, WalkSpace, answer_conditions, walk_word
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

    start: IntArray
    value: FloatArray


@kernel
def fill_block_keys(
    rows: tuple[Any, ...],
    slots: IntArray,
    categories: tuple[Any, ...],
    first_row: int,
    n_rows: int,
    keys: IntArray,
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
    numbers: FloatArray,
    factors: FloatArray,
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
    numbers: FloatArray,
    factors: FloatArray,
    tables: Tabled,
    keys: IntArray,
    first_row: int,
    n_rows: int,
    first_tree: int,
    stop_tree: int,
    total: FloatArray,
    space: WalkSpace,
) -> None:
    """Add the Shapley values of some trees to the totals of a block of at most ``BLOCK`` rows."""
    n_rows, at_factor = np.uint64(n_rows), _NOTHING
    n_sums = np.uint64(walks.leaf.shape[1])
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


@kernel
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
def explain_few(
    rows: tuple[Any, ...],
    categories: tuple[Any, ...],
    slots: IntArray,
    walks: Walks,
    lines: tuple[Slopes, FloatArray],
    runs: IntArray,
    keys: IntArray,
    columns: IntArray,
    total: FloatArray,
    space: WalkSpace,
    values: FloatArray,
) -> None:
    """Add the Shapley values of all trees to the values of a few rows, one row after the other."""
    # ``runs`` are the boundaries of runs of trees, from 0 on; values get the sum of each run.
    n_rows, n_sums = np.uint64(len(values)), np.uint64(walks.leaf.shape[1])
    fill_block_keys(rows, slots, categories, _NOTHING, n_rows, keys)
    slopes, numbers = lines
    for row in range(n_rows):
        for run in range(np.uint64(len(runs) - 1)):
            total[:] = 0.0
            for tree in range(np.uint64(runs[run]), np.uint64(runs[run + _ONE])):
                n_players = np.uint64(walks.first_player[tree + _ONE] - walks.first_player[tree])
                for i in range(n_players * n_sums):
                    space.phi[i] = 0.0
                answer_row(walks, tree, keys, row, space.words)
                walk_row(walks, slopes, numbers, space, tree, row)
                add_to_total(walks, tree, space.phi, _ONE, _NOTHING, _ONE, total)
            spread_players(total, columns, row, _ONE, values)
