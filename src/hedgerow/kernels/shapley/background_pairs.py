"""Values of pairs of players with a background; see :mod:`hedgerow.kernels.shapley.background`.

With ``T(o)`` as defined there, players i and j together add, integrated over p:

===============  =====================================================================
both agree       E(o) - (E + F)(o less i) - (E + F)(o less j) + (E + 2 F + G)(o less both)
only i agrees    (F + G)(o less i) - F(o)
neither agrees   G(o)
===============  =====================================================================

where E, F and G are the integrals of ``T / p**2``, ``T / (p (1 - p))`` and ``T / (1 - p)**2``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.prediction.slopes import Slopes
from hedgerow.kernels.shapley.background import (
    BackgroundSpace,
    add_group,
    find_patterns,
    follow_edge,
    integrate_leaf,
)
from hedgerow.kernels.shapley.leaf_groups import Groups
from hedgerow.kernels.shapley.leaf_players import Paths, Tables
from hedgerow.kernels.shapley.pattern_lists import read_list
from hedgerow.kernels.shapley.player_pairs import spread_pairs
from hedgerow.kernels.shapley.tree_walk import (
    BLOCK,
    LEAF,
    WORD,
    Walks,
    WalkSpace,
    answer_conditions,
)
from hedgerow.kernels.simd.lanes import WIDTH, spread, store_floats

_WORD = np.uint64(WORD)
_WIDTH = np.uint64(WIDTH)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
_NOTHING = np.uint64(0)


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
    """Count the patterns of the background at each leaf of some trees, or list them, for pairs.

    Parameters
    ----------
    walks, paths
    keys : int64 (n_blocks, n_slots * BLOCK)
        Keys of the background, block by block.
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


@kernel
def fill_pair_tables(
    walks: Walks, paths: Paths, first_tree: int, stop_tree: int, n_rows: int, tables: Tables,
    space: FloatArray,
) -> None:  # fmt: skip
    """Turn counts into the tables of E, G and F of the leaves of some trees.

    ``n_rows`` is the number of background rows, by which counts are divided; ``space`` is scratch.
    """
    for tree in range(np.uint64(first_tree), np.uint64(stop_tree)):
        first = np.uint64(walks.first_edge[tree])
        for edge in range(first, np.uint64(walks.first_edge[tree + _ONE])):
            if walks.edge[edge, LEAF] < 0:
                continue
            leaf = np.uint64(walks.edge[edge, LEAF])
            if tables.table_start[leaf] >= 0:
                start, n_players = np.uint64(tables.table_start[leaf]), paths.first[leaf + _ONE]
                n_players = np.uint64(n_players - paths.first[leaf])
                size = _ONE << n_players
                counts, values = space[:size], space[size : size + size]
                for i in range(size):
                    counts[i] = tables.table[start + i] / n_rows
                integrate_leaf(walks, n_players, counts, True, values, tables.table[start:])


@kernel(inline=True, inner=True)
def tabled_pair(table: FloatArray, start: int, size: int, pattern: int, i: int, j: int) -> float:
    """Return what two players of a leaf add together for a row of a pattern."""
    one, other = _ONE << i, _ONE << j
    g, f = start + size, start + size + size
    if pattern & one and pattern & other:
        a, b, c = pattern ^ one, pattern ^ other, pattern ^ one ^ other
        near = table[start + a] + table[f + a] + table[start + b] + table[f + b]
        far = table[start + c] + 2.0 * table[f + c] + table[g + c]
        return table[start + pattern] - near + far
    if pattern & one or pattern & other:
        a = pattern & ~(one | other)
        return table[f + a] + table[g + a] - table[f + pattern]
    return table[g + pattern]


@kernel(inner=True)
def add_pair(
    walks: Walks, paths: Paths, leaf: int, places: tuple[int, int], n_locals: int, row: int,
    value: float, pair: FloatArray,
) -> None:  # fmt: skip
    """Add to the value of a pair of players, for one row; ``places`` are indices in the leaf."""
    first, n_sums = np.uint64(paths.first[leaf]), np.uint64(walks.leaf.shape[1])
    one, other = paths.player[first + places[0]], paths.player[first + places[1]]
    at = np.uint64(min(one, other)) * n_locals + np.uint64(max(one, other))
    for k in range(n_sums):
        worth = 1.0 if paths.node[leaf] >= 0 else walks.leaf[leaf, k]
        pair[(at * n_sums + k) * _WORD + row] += worth * value


@kernel(inner=True)
def leaf_pairs(
    walks: Walks, lines: tuple[Slopes, FloatArray], paths: Paths, tables: Tables, leaf: int,
    row: int, n_rows: int, n_background: int, n_locals: int, found: npt.NDArray[np.uint64],
    space: FloatArray, pair: FloatArray,
) -> None:  # fmt: skip
    """Add the values of the pairs of players of a leaf to ``pair``, for the rows of a word."""
    slopes, numbers = lines
    n_players = np.uint64(paths.first[leaf + _ONE] - paths.first[leaf])
    size, start = _ONE << n_players, tables.table_start[leaf]
    gain, rest = space[: n_players * n_players], space[n_players * n_players :]
    for r in range(n_rows):
        if start < 0:
            read_list(walks, slopes, numbers, paths, tables, leaf, row + r, n_background, found[r],
                      rest, gain, True)  # fmt: skip
        for i in range(n_players):
            for j in range(i + _ONE, n_players):
                if start < 0:
                    value = gain[i * n_players + j]
                else:
                    value = 0.5 * tabled_pair(tables.table, np.uint64(start), size, found[r], i, j)
                add_pair(walks, paths, leaf, (i, j), n_locals, r, value, pair)


@kernel
def add_background_pairs(
    walks: Walks,
    lines: tuple[Slopes, FloatArray],
    leaves: tuple[Paths, Groups],
    tables: tuple[Tables, Tables],
    n_background: int,
    keys: IntArray,
    rows: tuple[int, int],
    trees: tuple[int, int],
    columns: IntArray,
    values: FloatArray,
    space: BackgroundSpace,
    pair: FloatArray,
) -> None:
    """Add the values of pairs in some trees to the values of a block of rows.

    The parameters are those of :func:`hedgerow.kernels.shapley.background.add_background_trees`
    and :func:`hedgerow.kernels.shapley.player_pairs.add_pairs`.  ``tables`` are the tables of
    groups and the tables of pairs at leaves; ``pair`` is scratch space.
    """
    (paths, groups), first_row, n_rows = leaves, np.uint64(rows[0]), np.uint64(rows[1])
    walk, n_sums = space.walk, np.uint64(walks.leaf.shape[1])
    walk.taken[0] = _ALL
    for tree in range(np.uint64(trees[0]), np.uint64(trees[1])):
        n_locals = np.uint64(walks.first_player[tree + _ONE] - walks.first_player[tree])
        answer_conditions(walks, tree, keys, n_rows, walk.words)
        for i in range(_NOTHING, n_locals * n_sums * _WORD, _WIDTH):
            store_floats(walk.phi, i, spread(0.0))
        for i in range(_NOTHING, n_locals * n_locals * n_sums * _WORD, _WIDTH):
            store_floats(pair, i, spread(0.0))
        for group in range(np.uint64(groups.first[tree]), np.uint64(groups.first[tree + _ONE])):
            add_group(walks, lines, paths, groups, tables[0], group, (_NOTHING, first_row, n_rows),
                      n_background, walk.taken, space, walk.phi)  # fmt: skip
        first, stop = walks.first_edge[tree], walks.first_edge[tree + _ONE]
        for edge in range(np.uint64(first), np.uint64(stop)):
            follow_edge(walks, walk.words, walk.taken, edge, _NOTHING)
            if walks.edge[edge, LEAF] < 0:
                continue
            leaf = np.uint64(walks.edge[edge, LEAF])
            find_patterns(paths, leaf, walk.taken, space.found)
            leaf_pairs(walks, lines, paths, tables[1], leaf, first_row, n_rows, n_background,
                       n_locals, space.found, space.added, pair)  # fmt: skip
        spread_pairs(walks, tree, walk.phi, pair, columns, first_row, n_rows, values)
