r"""Shapley values with a background: what is not known of a row comes from other rows.

Glossary
--------
background  rows; a column that does not take part has its value there, and the value of a set of
            columns is the mean prediction over the background
pattern     of a row at a leaf: bit k says that it agrees with all edges of the k-th player of
            the leaf; ``o`` is that of a row, ``a`` that of a row of the background
path        the players of a leaf, each with its last edge above the leaf

A leaf adds to the prediction of a mixed row if each of its players agrees where it comes from.
So the background counts in a leaf only by how many of its rows have each pattern, and what a row
gets depends on its pattern only (Woodelf, AAAI 2026): tables of ``2**u`` numbers
for a leaf of u players, filled once, read by every row.

With p the probability that a player takes part, the expected value of a leaf is::

    T(o) = sum over patterns a:   count(a) * product over k:  p o_k + (1 - p) a_k

found for all o at once, player by player, as in a fast Fourier transform.  What player k adds is
``T(o) / p - T(o without k) / (p (1 - p))`` where the row agrees, and ``-T(o) / (1 - p)`` where not,
so the integrals over p, by the points of :mod:`hedgerow.kernels.shapley`, of ``T / p`` and
``T / (1 - p)`` are all that a leaf needs: ``1 / (p (1 - p))`` is the sum of the two.  The table
holds what they come to for each player and pattern.  Pairs are the same thing done twice, with
tables of the integrals of ``T / p**2``, ``T / (p (1 - p))`` and ``T / (1 - p)**2``.

Leaves of many players, and leaves that are lines, keep a list of the patterns
of all rows of the background (:mod:`hedgerow.kernels.shapley_lists`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.lanes import WIDTH, spread, store_floats
from hedgerow.kernels.shapley import (
    BEFORE,
    BLOCK,
    CONDITION,
    DEPTH,
    LEAF,
    TURNED,
    WORD,
    Walks,
    WalkSpace,
    answer_conditions,
)
from hedgerow.kernels.shapley_blocks import add_to_total
from hedgerow.kernels.shapley_lists import read_lists
from hedgerow.kernels.shapley_paths import Paths, Tables
from hedgerow.kernels.slopes import Slopes

_WORD = np.uint64(WORD)
_WIDTH = np.uint64(WIDTH)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_NOTHING = np.uint64(0)


@kernel(inline=True, inner=True)
def follow_edge(
    walks: Walks,
    words: npt.NDArray[np.uint64],
    taken: npt.NDArray[np.uint64],
    edge: int,
    word: int,
) -> None:
    """Bits of the rows of a word that agree with an edge and those before it."""
    condition = np.uint64(walks.edge[edge, CONDITION])
    answer = words[condition * np.uint64(BLOCK // WORD) + word]
    old = taken[np.uint64(walks.edge[edge, BEFORE])]
    turned = np.uint64(np.int64(walks.edge[edge, TURNED]))
    taken[np.uint64(walks.edge[edge, DEPTH])] = old & (answer ^ turned)


@kernel(inner=True)
def find_patterns(
    paths: Paths, leaf: int, taken: npt.NDArray[np.uint64], found: npt.NDArray[np.uint64]
) -> None:
    """Write the pattern of each row of a word at a leaf."""
    first, stop = np.uint64(paths.first[leaf]), np.uint64(paths.first[leaf + _ONE])
    for i in range(_WORD):
        found[i] = _NOTHING
    for k in range(first, stop):
        word, shift = taken[np.uint64(paths.depth[k])], k - first
        for i in range(_WORD):
            found[i] |= ((word >> i) & _ONE) << shift


@kernel
def count_patterns(
    walks: Walks,
    paths: Paths,
    keys: IntArray,
    n_rows: int,
    first_tree: int,
    stop_tree: int,
    tables: Tables,
    space: WalkSpace,
    found: npt.NDArray[np.uint64],
) -> None:
    """Count the patterns of the background at each leaf of some trees, or list them.

    Parameters
    ----------
    walks, paths
    keys : int64 (n_blocks, n_slots * BLOCK)
        Of the background, block by block.
    n_rows : int
        Rows of the background.
    first_tree, stop_tree : int
    tables : Tables
        Counts are added to the first table of each leaf.
    space : WalkSpace
    found : uint64 (WORD,)
        Scratch space.
    """
    n_rows = np.uint64(n_rows)
    for tree in range(np.uint64(first_tree), np.uint64(stop_tree)):
        first = np.uint64(walks.first_edge[tree])
        stop = np.uint64(walks.first_edge[tree + _ONE])
        space.taken[0] = _ALL
        for row in range(_NOTHING, n_rows, _WORD):
            in_block = row % np.uint64(BLOCK)
            if in_block == _NOTHING:
                n = min(n_rows - row, np.uint64(BLOCK))
                answer_conditions(walks, tree, keys[row // np.uint64(BLOCK)], n, space.words)
            for edge in range(first, stop):
                follow_edge(walks, space.words, space.taken, edge, in_block // _WORD)
                if walks.edge[edge, LEAF] < 0:
                    continue
                leaf = np.uint64(walks.edge[edge, LEAF])
                find_patterns(paths, leaf, space.taken, found)
                start = tables.table_start[leaf]
                for i in range(np.uint64(min(n_rows - row, _WORD))):
                    if start >= 0:
                        tables.table[np.uint64(start) + found[i]] += 1.0
                    else:
                        tables.patterns[np.uint64(tables.list_start[leaf]) + row + i] = found[i]


@kernel(inner=True)
def expected_values(values: FloatArray, n_players: int, p: float) -> None:
    """From the count of each pattern to T, in place."""
    rest, size = 1.0 - p, _ONE << n_players
    step = _ONE
    while step < size:
        for start in range(_NOTHING, size, _TWO * step):
            for i in range(start, start + step):
                differs, agrees = values[i], values[i + step]
                values[i] = rest * agrees
                values[i + step] = p * differs + agrees
        step = step * _TWO


@kernel(inner=True)
def integrate_leaf(
    walks: Walks, n_players: int, counts: FloatArray, pairs: bool, values: FloatArray,
    sums: FloatArray,
) -> None:  # fmt: skip
    """Write the integrals over p for each pattern of a leaf to ``sums``, one behind the other.

    ``counts`` are shares of the background; ``values`` is scratch space.
    """
    size = _ONE << n_players
    n_points = max(_ONE, (n_players + _ONE) // _TWO)
    rule = n_points * (n_points - _ONE) // _TWO
    for i in range(size * (_TWO + np.uint64(pairs))):
        sums[i] = 0.0
    for q in range(n_points):
        p, weight = walks.point[rule + q], walks.weight[rule + q]
        rest = 1.0 - p
        for i in range(size):
            values[i] = counts[i]
        expected_values(values, n_players, p)
        first = weight / (p * p) if pairs else weight / p
        last = weight / (rest * rest) if pairs else weight / rest
        for i in range(size):
            sums[i] += first * values[i]
            sums[size + i] += last * values[i]
        if pairs:
            for i in range(size):
                sums[size + size + i] += weight / (p * rest) * values[i]


@kernel(inner=True)
def fill_leaf(
    walks: Walks, n_players: int, start: int, n_rows: int, pairs: bool, table: FloatArray,
    space: FloatArray,
) -> None:  # fmt: skip
    """Make of the counts of a leaf, with which its table begins, the table."""
    size = _ONE << n_players
    counts, values, sums = space[:size], space[size : size + size], space[size + size :]
    for i in range(size):
        counts[i] = table[start + i] / n_rows
    if pairs:
        integrate_leaf(walks, n_players, counts, True, values, table[start:])
        return
    integrate_leaf(walks, n_players, counts, False, values, sums)
    for k in range(n_players):
        bit = _ONE << k
        for pattern in range(size):
            without = pattern & ~bit
            agrees = sums[pattern] - (sums[without] + sums[size + without])
            table[start] = agrees if pattern != without else -sums[size + pattern]
            start += _ONE


@kernel
def fill_tables(
    walks: Walks, paths: Paths, first_tree: int, stop_tree: int, n_rows: int, pairs: int,
    tables: Tables, space: FloatArray,
) -> None:  # fmt: skip
    """Make of counts the tables of the leaves of some trees.

    ``n_rows`` are those of the background, by which all is divided; ``pairs`` is 1 if tables are
    those for pairs of players.
    """
    for tree in range(np.uint64(first_tree), np.uint64(stop_tree)):
        first = np.uint64(walks.first_edge[tree])
        for edge in range(first, np.uint64(walks.first_edge[tree + _ONE])):
            if walks.edge[edge, LEAF] < 0:
                continue
            leaf = np.uint64(walks.edge[edge, LEAF])
            start = tables.table_start[leaf]
            if start >= 0:
                n_players = np.uint64(paths.first[leaf + _ONE] - paths.first[leaf])
                fill_leaf(walks, n_players, np.uint64(start), n_rows, pairs == 1, tables.table,
                          space)  # fmt: skip


@kernel(inner=True)
def read_tables(
    walks: Walks, paths: Paths, tables: Tables, leaf: int, found: npt.NDArray[np.uint64],
    added: FloatArray, phi: FloatArray,
) -> None:  # fmt: skip
    """Give the players of a leaf what the tables say, for the rows of a word."""
    first = np.uint64(paths.first[leaf])
    n_players = np.uint64(paths.first[leaf + _ONE]) - first
    n_sums, start = np.uint64(walks.leaf.shape[1]), np.uint64(tables.table_start[leaf])
    for k in range(n_players):
        for i in range(_WORD):
            added[i] = tables.table[start + found[i]]
        start += _ONE << n_players
        at = np.uint64(paths.player[first + k]) * n_sums * _WORD
        for s in range(n_sums):
            value = walks.leaf[leaf, s]
            for i in range(_WORD):
                phi[at + i] += value * added[i]
            at += _WORD


class BackgroundSpace(NamedTuple):
    """Scratch space of one thread.

    Attributes
    ----------
    walk : WalkSpace
    found : uint64 (WORD,)
        Pattern of each row of a word.
    taken : uint64
        As in ``walk``, for each word of a block, one behind the other.
    added : float64
    phi : float64
        As in ``walk``, for each word of a block.
    """

    walk: WalkSpace
    found: npt.NDArray[np.uint64]
    taken: npt.NDArray[np.uint64]
    added: FloatArray
    phi: FloatArray


@kernel(inner=True)
def add_leaf(
    walks: Walks, lines: tuple[Slopes, FloatArray], paths: Paths, tables: Tables, leaf: int,
    row: int, n_rows: int, n_background: int, space: BackgroundSpace, phi: FloatArray,
) -> None:  # fmt: skip
    """Give the players of a leaf their values in ``phi``, for the rows of a word."""
    slopes, numbers = lines
    if tables.table_start[leaf] >= 0:
        read_tables(walks, paths, tables, leaf, space.found, space.added, phi)
    else:
        read_lists(walks, slopes, numbers, paths, tables, leaf, row, n_rows, n_background,
                   space.found, space.added, phi)  # fmt: skip


@kernel
def add_background_trees(
    walks: Walks,
    lines: tuple[Slopes, FloatArray],
    paths: Paths,
    tables: Tables,
    n_background: int,
    keys: IntArray,
    first_row: int,
    n_rows: int,
    trees: tuple[int, int],
    total: FloatArray,
    space: BackgroundSpace,
) -> None:
    """Add the Shapley values of some trees to those of a block of rows.

    Parameters
    ----------
    walks, paths, tables
    lines : tuple
        ``(slopes, numbers)``: numbers of the rows, for lines.
    n_background : int
    keys, first_row, n_rows, total
        As for :func:`hedgerow.kernels.shapley.add_trees`.
    trees : tuple of int
        The first, and the one behind the last.
    space : BackgroundSpace
    """
    n_rows, walk, n_sums = np.uint64(n_rows), space.walk, np.uint64(walks.leaf.shape[1])
    levels = np.uint64(len(walk.taken))
    for word in range(np.uint64(BLOCK // WORD)):
        space.taken[word * levels] = _ALL
    for tree in range(np.uint64(trees[0]), np.uint64(trees[1])):
        player = np.uint64(walks.first_player[tree])
        n_players = np.uint64(walks.first_player[tree + _ONE]) - player
        n_values = n_players * n_sums * _WORD
        answer_conditions(walks, tree, keys, n_rows, walk.words)
        for i in range(_NOTHING, (n_rows + (_WORD - _ONE)) // _WORD * n_values, _WIDTH):
            store_floats(space.phi, i, spread(0.0))
        first, stop = walks.first_edge[tree], walks.first_edge[tree + _ONE]
        for edge in range(np.uint64(first), np.uint64(stop)):
            leaf = walks.edge[edge, LEAF]
            for row in range(_NOTHING, n_rows, _WORD):
                word = row // _WORD
                taken = space.taken[word * levels : (word + _ONE) * levels]
                follow_edge(walks, walk.words, taken, edge, word)
                if leaf >= 0:
                    find_patterns(paths, np.uint64(leaf), taken, space.found)
                    add_leaf(walks, lines, paths, tables, np.uint64(leaf),
                             np.uint64(first_row) + row, np.uint64(min(n_rows - row, _WORD)),
                             n_background, space, space.phi[word * n_values :])  # fmt: skip
        for row in range(_NOTHING, n_rows, _WORD):
            phi, n = space.phi[row // _WORD * n_values :], np.uint64(min(n_rows - row, _WORD))
            add_to_total(walks, tree, phi, _WORD, row, n, total)
