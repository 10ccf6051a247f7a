r"""Shapley values with a background: columns that do not take part come from other rows.

Glossary
--------
background  rows that supply the values of columns that do not take part; the value of a set of
            columns is the mean prediction over the background
pattern     of a row at a leaf: bit k is 1 if the row agrees with all edges of the k-th player of
            the leaf; ``o`` is the pattern of a row, ``a`` the pattern of a background row
path        the players of a leaf, each with its last edge above the leaf

A leaf adds to the prediction of a mixed row if each player agrees in the row that supplies it.
So the background matters to a leaf only through the number of its rows with each pattern, and the
values of a row depend only on its pattern (Woodelf, AAAI 2026).  A leaf of u players has a table of
``2**u`` lines, which are filled once and read by every row.

With p the probability that a player takes part, the expected value of a leaf is::

    T(o) = sum over patterns a:   count(a) * product over k:  p o_k + (1 - p) a_k

It is computed for all o at once, player by player, as in a fast Fourier transform.  Player k adds
``T(o) / p - T(o without k) / (p (1 - p))`` where the row agrees, and ``-T(o) / (1 - p)`` where it
does not.  A leaf therefore needs only the integrals over p of ``T / p`` and ``T / (1 - p)``, by
the points of the module ``tree_walk``: ``1 / (p (1 - p))`` is the sum of ``1 / p`` and
``1 / (1 - p)``.  A line of the table holds what each player adds for a pattern.

Leaves of many players, and linear leaves, have in place of a table a list of the patterns of all
rows of the background.  For a row and a background row, each player is needed by the row (U),
needed by the background row (V), or free; in a linear leaf, a free player counts if a term reads
it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow import kernel_types as kt
from hedgerow.arrays import FloatArray
from hedgerow.compile import kernel
from hedgerow.kernels.prediction.slopes import Slopes, sum_within, term_at
from hedgerow.kernels.primitives.intrinsics import count_ones
from hedgerow.kernels.shapley.row_blocks import add_to_total, clear, clear_total, spread_players
from hedgerow.kernels.shapley.tree_walk import (
    BEFORE,
    BLOCK,
    CONDITION,
    DEPTH,
    LEAF,
    PLAYER,
    TURNED,
    WORD,
    Walks,
    WalkSpace,
    answer_conditions,
)
from hedgerow.kernels.simd.lanes import (
    N_LANES,
    WIDTH,
    choose,
    load_floats,
    load_rows,
    spread,
    store_floats,
    truths_of,
)

MOST_TABLED = 13
"""Largest number of players of a leaf with a table."""

MOST_PLAYERS = 62
"""Largest number of players of a leaf: the bits of a pattern."""

_WORD = np.uint64(WORD)
_WIDTH = np.uint64(WIDTH)
_LANES = np.uint64(N_LANES)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_NOTHING = np.uint64(0)


class Paths(NamedTuple):
    """The players of all leaves.

    first          int64, one per leaf and one more: players of leaf i are
                   ``first[i] : first[i + 1]``
    player, depth  int64: number of the player in its tree; depth of its last edge, 0: none
    node           int64, one per leaf: node of ``slopes`` where the leaf is a line, else -1
    term           int64, shape (n_leaves, n_terms): player of the leaf that each term reads
    """

    first: kt.Int64_1D
    player: kt.Int64_1D
    depth: kt.Int64_1D
    node: kt.Int64_1D
    term: kt.Int64_2D


class Tables(NamedTuple):
    """Tables and lists of the background, for some trees.

    table_start  int64, one per leaf: start of its table; -1 if the leaf has a list
    table        float64: for each pattern of a leaf a line with a number for each player,
                 :func:`length_of_line` numbers long
    list_start   int64, one per leaf
    patterns     uint64: one for each row of the background
    numbers      float64 (n_background, n_columns): the background, for linear leaves
    coalition    float64: at ``n (n - 1) / 2 + s``: probability that, of n players, exactly s
                 particular players come before a particular other player
    """

    table_start: kt.Int64_1D
    table: kt.Float64_1D
    list_start: kt.Int64_1D
    patterns: kt.UInt64_1D
    numbers: kt.Float64_2D
    coalition: kt.Float64_1D


@kernel
def plan_paths(
    walks: Walks, first: kt.Int64_1D, player: kt.Int64_1D, depth: kt.Int64_1D, above: kt.Int64_1D
) -> None:
    """Write the players of each leaf, in the order of their last edges."""
    # If ``player`` is empty, ``first[i + 1]`` becomes the number of players of leaf i.  Otherwise
    # ``first`` holds the start of the players of each leaf.
    counts = len(player) == 0
    for edge in range(np.uint64(len(walks.edge))):
        here = np.uint64(walks.edge[edge, DEPTH])
        above[here] = walks.edge[edge, PLAYER]
        if walks.edge[edge, LEAF] < 0:
            continue
        leaf = np.uint64(walks.edge[edge, LEAF])
        n = _NOTHING
        for d in range(_ONE, here + _ONE):
            last = True
            for below in range(d + _ONE, here + _ONE):
                last = last and above[below] != above[d]
            if last:
                if not counts:
                    place = np.uint64(first[leaf]) + n
                    player[place], depth[place] = above[d], d
                n += _ONE
        if counts:
            first[leaf + _ONE] = n


@kernel(inline=True, inner=True)
def follow_edge(
    walks: Walks, words: npt.NDArray[np.uint64], taken: npt.NDArray[np.uint64], edge: int, word: int
) -> None:
    """Write the bits of the rows that agree with an edge and the edges of its player before it."""
    condition = np.uint64(walks.edge[edge, CONDITION])
    answer = words[condition * np.uint64(BLOCK // WORD) + word]
    old = taken[np.uint64(walks.edge[edge, BEFORE])]
    turned = np.uint64(np.int64(walks.edge[edge, TURNED]))
    taken[np.uint64(walks.edge[edge, DEPTH])] = old & (answer ^ turned)


@kernel(inner=True)
def length_of_line(n_players: int) -> int:
    """Return ``n_players``, rounded up to a multiple of ``N_LANES``."""
    return (n_players + _LANES - _ONE) // _LANES * _LANES


@kernel(inner=True)
def find_patterns(
    paths: Paths, leaf: int, taken: npt.NDArray[np.uint64], start: int, line: int,
    found: npt.NDArray[np.uint64],
) -> None:  # fmt: skip
    """Write ``start + line * pattern`` for the pattern at a leaf of each row of a word."""
    first, stop = np.uint64(paths.first[leaf]), np.uint64(paths.first[leaf + _ONE])
    for i in range(_NOTHING, _WORD, _WIDTH):
        at, step = spread(np.int64(start)), np.int64(line)
        for k in range(first, stop):
            agrees = truths_of(taken[np.uint64(paths.depth[k])] >> i)
            at = choose(agrees, at + spread(step), at)
            step = step + step
        store_floats(found, i, at)


# -- tables ------------------------------------------------------------------------------------


class FillSpace(NamedTuple):
    """Scratch space of one thread that fills tables.

    walk   WalkSpace
    found  uint64 (WORD,): pattern of each row of a word
    leaf   float64: room for four numbers per pattern of a leaf
    """

    walk: WalkSpace
    found: kt.UInt64_1D
    leaf: kt.Float64_1D


@kernel(inner=True)
def fill_table(
    walks: Walks, paths: Paths, leaf: int, n_rows: int, scratch: FloatArray, table: FloatArray
) -> None:
    """Write the table of a leaf in place of the counts of its patterns."""
    n_players = np.uint64(paths.first[leaf + _ONE]) - np.uint64(paths.first[leaf])
    size, line = _ONE << n_players, length_of_line(n_players)
    shares, values, sums = scratch[:size], scratch[size : size + size], scratch[size + size :]
    for pattern in range(size):
        shares[pattern] = table[pattern] / n_rows
    # Both integrals over p for each pattern, one after the other.
    n_points = max(_ONE, (n_players + _ONE) // _TWO)
    rule = n_points * (n_points - _ONE) // _TWO
    for i in range(size + size):
        sums[i] = 0.0
    for q in range(n_points):
        p, weight = walks.point[rule + q], walks.weight[rule + q]
        rest, step = 1.0 - p, _ONE
        for i in range(size):
            values[i] = shares[i]
        while step < size:  # T in place of the shares
            for start in range(_NOTHING, size, _TWO * step):
                for i in range(start, start + step):
                    differs, agrees = values[i], values[i + step]
                    values[i] = rest * agrees
                    values[i + step] = p * differs + agrees
            step = step * _TWO
        first, last = weight / p, weight / rest
        for i in range(size):
            sums[i] += first * values[i]
            sums[size + i] += last * values[i]
    for pattern in range(size):
        at = pattern * line
        for k in range(line):
            table[at + k] = 0.0
        for k in range(n_players):
            without = pattern & ~(_ONE << k)
            agrees = sums[pattern] - (sums[without] + sums[size + without])
            table[at + k] = agrees if pattern != without else -sums[size + pattern]


@kernel
def fill_tables(
    walks: Walks,
    paths: Paths,
    keys: kt.Int64_2D,
    n_rows: int,
    trees: tuple[int, int],
    tables: Tables,
    space: FillSpace,
) -> None:
    """Write the tables, which are 0, and the lists of the leaves of ``trees[0] .. trees[1]``."""
    # ``keys`` (n_blocks, n_slots * BLOCK) are those of the background, whose rows divide all sums.
    n_rows, walk, found = np.uint64(n_rows), space.walk, space.found
    walk.taken[0] = _ALL
    for tree in range(np.uint64(trees[0]), np.uint64(trees[1])):
        first, stop = np.uint64(walks.first_edge[tree]), np.uint64(walks.first_edge[tree + _ONE])
        for row in range(_NOTHING, n_rows, _WORD):
            if row % np.uint64(BLOCK) == _NOTHING:
                n = min(n_rows - row, np.uint64(BLOCK))
                answer_conditions(walks, tree, keys[row // np.uint64(BLOCK)], n, walk.words)
            # Count the patterns of a word of rows at each leaf, at the front of its table, or list
            # them.
            for edge in range(first, stop):
                follow_edge(walks, walk.words, walk.taken, edge, row % np.uint64(BLOCK) // _WORD)
                if walks.edge[edge, LEAF] < 0:
                    continue
                leaf = np.uint64(walks.edge[edge, LEAF])
                find_patterns(paths, leaf, walk.taken, _NOTHING, _ONE, found)
                table = tables.table_start[leaf]
                for i in range(np.uint64(min(n_rows - row, _WORD))):
                    if table >= 0:
                        tables.table[np.uint64(table) + found[i]] += 1.0
                    else:
                        tables.patterns[np.uint64(tables.list_start[leaf]) + row + i] = found[i]
        for edge in range(first, stop):
            if walks.edge[edge, LEAF] >= 0:
                leaf = np.uint64(walks.edge[edge, LEAF])
                if tables.table_start[leaf] >= 0:
                    own = tables.table[np.uint64(tables.table_start[leaf]) :]
                    fill_table(walks, paths, leaf, n_rows, space.leaf, own)


# -- lists -------------------------------------------------------------------------------------


@kernel(inner=True)
def terms_of(slopes: Slopes, node: int, numbers: FloatArray, row: int, into: FloatArray) -> None:
    """Write each term of a line for a row."""
    first = np.uint64(slopes.start[node])
    for k in range(first, np.uint64(slopes.start[node + _ONE])):
        into[k - first] = term_at(slopes, node, k, numbers[row, np.uint64(slopes.column[k])])


@kernel(inner=True)
def give_line(
    slopes: Slopes, paths: Paths, tables: Tables, leaf: int, needed: int, other: int, free: int,
    terms: FloatArray, value: float, gain: FloatArray,
) -> None:  # fmt: skip
    """Add the contribution of each player for a row and a background row to ``gain``."""
    # ``needed``, ``other`` and ``free`` are bits of players: U, V and the free players that count.
    # ``terms`` holds the terms of the row, then those of the other row.
    # The loop tries every set of free players.  With s players inside, including U, a player
    # outside counts with the probability that exactly these players come before it.
    n = np.int64(count_ones(needed) + count_ones(other) + count_ones(free))
    row = n * (n - 1) // 2
    subset = free
    while True:
        inside = needed | subset
        size = np.int64(count_ones(inside))
        worth = value
        if paths.node[leaf] >= 0:
            # The bounded sum of terms: of the row for players inside, else of the other row.
            node, total = np.uint64(paths.node[leaf]), 0.0
            for t in range(np.uint64(slopes.start[node + _ONE] - slopes.start[node])):
                own = (inside >> np.uint64(paths.term[leaf, t])) & _ONE == _ONE
                total += terms[t] if own else terms[np.uint64(paths.term.shape[1]) + t]
            worth += sum_within(slopes, node, total)
        before = tables.coalition[row + size - 1] * worth if size > 0 else 0.0
        after = tables.coalition[row + size] * worth if size < n else 0.0
        for k in range(np.uint64(paths.first[leaf + _ONE] - paths.first[leaf])):
            if (inside >> k) & _ONE == _ONE:
                gain[k] += before
            elif ((other | free) >> k) & _ONE == _ONE:
                gain[k] -= after
        if subset == _NOTHING:
            break
        subset = (subset - _ONE) & free


@kernel(inner=True)
def read_list(
    walks: Walks, slopes: Slopes, numbers: FloatArray, paths: Paths, tables: Tables, leaf: int,
    row: int, n_background: int, pattern: int, space: FloatArray, gain: FloatArray,
) -> None:  # fmt: skip
    """Write the values of a leaf's players for a row: means over the leaf's list."""
    n_players = np.uint64(paths.first[leaf + _ONE] - paths.first[leaf])
    every = (_ONE << n_players) - _ONE
    start = np.uint64(tables.list_start[leaf])
    is_line = paths.node[leaf] >= 0
    on_line = _NOTHING
    value = 1.0
    if is_line:
        node = np.uint64(paths.node[leaf])
        value = walks.leaf[leaf, 0]
        terms_of(slopes, node, numbers, row, space)
        for t in range(np.uint64(slopes.start[node + _ONE] - slopes.start[node])):
            on_line |= _ONE << np.uint64(paths.term[leaf, t])
    for k in range(n_players):
        gain[k] = 0.0
    behind = space[np.uint64(paths.term.shape[1]) :]
    for z in range(np.uint64(n_background)):
        other = tables.patterns[start + z]
        if pattern | other != every:
            continue
        needed, other_only = pattern & ~other, other & ~pattern
        if is_line:
            terms_of(slopes, np.uint64(paths.node[leaf]), tables.numbers, z, behind)
        free = pattern & other & on_line
        give_line(slopes, paths, tables, leaf, needed, other_only, free, space, value, gain)
    for k in range(n_players):
        gain[k] /= n_background


@kernel(inner=True)
def read_lists(
    walks: Walks, slopes: Slopes, numbers: FloatArray, paths: Paths, tables: Tables, leaf: int,
    row: int, n_rows: int, n_background: int, found: npt.NDArray[np.uint64], space: FloatArray,
    phi: FloatArray,
) -> None:  # fmt: skip
    """Add the values of the players of a leaf with a list to ``phi``, for the rows of a word."""
    first = np.uint64(paths.first[leaf])
    n_players = np.uint64(paths.first[leaf + _ONE]) - first
    n_sums = np.uint64(walks.leaf.shape[1])
    gain, rest = space[:n_players], space[n_players:]
    for i in range(n_rows):
        read_list(walks, slopes, numbers, paths, tables, leaf, row + i, n_background, found[i],
                  rest, gain)  # fmt: skip
        for k in range(n_players):
            at = np.uint64(paths.player[first + k]) * n_sums * _WORD + i
            for s in range(n_sums):
                value = 1.0 if paths.node[leaf] >= 0 else walks.leaf[leaf, s]
                phi[at + s * _WORD] += value * gain[k]


# -- explained rows ----------------------------------------------------------------------------


class BackgroundSpace(NamedTuple):
    """Scratch space of one thread.

    walk   WalkSpace
    found  uint64 (WORD,): what is read for each row of a word
    added  float64
    """

    walk: WalkSpace
    found: kt.UInt64_1D
    added: kt.Float64_1D


@kernel(inner=True)
def read_table(
    walks: Walks, paths: Paths, leaf: int, table: FloatArray, found: npt.NDArray[np.uint64],
    phi: FloatArray,
) -> None:  # fmt: skip
    """Add the lines at ``found``, times the values of a leaf, to ``phi``, for rows of a word."""
    first, n_sums = np.uint64(paths.first[leaf]), np.uint64(walks.leaf.shape[1])
    n_players = np.uint64(paths.first[leaf + _ONE]) - first
    for k in range(_NOTHING, n_players, _WIDTH):
        for i in range(_NOTHING, _WORD, _WIDTH):
            numbers = load_rows(table[k:], found, i)
            for j in range(WIDTH):
                player = k + np.uint64(j)
                if player < n_players:
                    at = np.uint64(paths.player[first + player]) * n_sums * _WORD + i
                    for s in range(n_sums):
                        added = numbers[j] * spread(walks.leaf[leaf, s])
                        store_floats(phi, at, load_floats(phi, at) + added)
                        at += _WORD


@kernel
def add_background_trees(
    walks: Walks,
    lines: tuple[Slopes, kt.Float64_2D],
    paths: Paths,
    tables: Tables,
    n_background: int,
    keys: kt.Int64_1D,
    first_row: int,
    n_rows: int,
    trees: tuple[int, int],
    total: kt.Float64_3D,
    columns: kt.Int64_2D,
    values: kt.Float64_3D,
    space: BackgroundSpace,
) -> None:
    """Add the Shapley values of trees ``trees[0] .. trees[1]`` to the values of a block of rows."""
    # The arrays of rows are those of :mod:`hedgerow.kernels.shapley.row_blocks`.
    n_rows, walk, found, (slopes, numbers) = np.uint64(n_rows), space.walk, space.found, lines
    n_sums = np.uint64(walks.leaf.shape[1])
    clear_total(total, n_rows)
    walk.taken[0] = _ALL
    for tree in range(np.uint64(trees[0]), np.uint64(trees[1])):
        n_players = np.uint64(walks.first_player[tree + _ONE] - walks.first_player[tree])
        first, stop = walks.first_edge[tree], walks.first_edge[tree + _ONE]
        answer_conditions(walks, tree, keys, n_rows, walk.words)
        for row in range(_NOTHING, n_rows, _WORD):
            n = np.uint64(min(n_rows - row, _WORD))
            clear(walk.phi, n_players * n_sums * _WORD)
            for edge in range(np.uint64(first), np.uint64(stop)):
                follow_edge(walks, walk.words, walk.taken, edge, row // _WORD)
                if walks.edge[edge, LEAF] < 0:
                    continue
                leaf = np.uint64(walks.edge[edge, LEAF])
                if tables.table_start[leaf] >= 0:
                    line = length_of_line(np.uint64(paths.first[leaf + _ONE] - paths.first[leaf]))
                    start = tables.table_start[leaf]
                    find_patterns(paths, leaf, walk.taken, start, line, found)
                    read_table(walks, paths, leaf, tables.table, found, walk.phi)
                else:
                    find_patterns(paths, leaf, walk.taken, _NOTHING, _ONE, found)
                    read_lists(walks, slopes, numbers, paths, tables, leaf,
                               np.uint64(first_row) + row, n, n_background, found, space.added,
                               walk.phi)  # fmt: skip
            add_to_total(walks, tree, walk.phi, _WORD, row, n, total)
    spread_players(total, columns, first_row, n_rows, values)
