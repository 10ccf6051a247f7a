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
values of a row depend only on its pattern (Woodelf, AAAI 2026).  A leaf of u players has tables of
``2**u`` numbers, which are filled once and read by every row.

With p the probability that a player takes part, the expected value of a leaf is::

    T(o) = sum over patterns a:   count(a) * product over k:  p o_k + (1 - p) a_k

It is computed for all o at once, player by player, as in a fast Fourier transform.  Player k adds
``T(o) / p - T(o without k) / (p (1 - p))`` where the row agrees, and ``-T(o) / (1 - p)`` where it
does not.  A leaf therefore needs only the integrals over p of ``T / p`` and ``T / (1 - p)``, by
the points of the module ``tree_walk``: ``1 / (p (1 - p))`` is the sum of ``1 / p`` and
``1 / (1 - p)``.  The table holds the resulting values for each pattern and player, and
neighbouring leaves share a table (:mod:`hedgerow.kernels.shapley.leaf_groups`).

Leaves of many players, and linear leaves, keep a list of the patterns
of all rows of the background (:mod:`hedgerow.kernels.shapley.pattern_lists`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow import kernel_types as kt
from hedgerow.arrays import FloatArray
from hedgerow.compile import kernel
from hedgerow.kernels.prediction.slopes import Slopes
from hedgerow.kernels.shapley.leaf_groups import (
    FROM,
    NODE,
    STOP,
    Groups,
    Paths,
    Tables,
    find_entries,
    numbers_of_player,
    read_group,
    read_leaf,
)
from hedgerow.kernels.shapley.pattern_lists import read_lists
from hedgerow.kernels.shapley.row_blocks import add_to_total, spread_players
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
from hedgerow.kernels.simd.lanes import WIDTH, load_floats, spread, store_floats

_WORD = np.uint64(WORD)
_WIDTH = np.uint64(WIDTH)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_NOTHING = np.uint64(0)


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


@kernel(inner=True)
def expected_values(values: FloatArray, n_players: int, p: float) -> None:
    """Turn the count of each pattern into T, in place."""
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
    walks: Walks, n_players: int, counts: FloatArray, values: FloatArray, sums: FloatArray
) -> None:
    """Write both integrals over p for each pattern of a leaf to ``sums``, one after the other."""
    # ``counts`` are shares of the background; ``values`` is scratch space.
    size = _ONE << n_players
    n_points = max(_ONE, (n_players + _ONE) // _TWO)
    rule = n_points * (n_points - _ONE) // _TWO
    for i in range(size + size):
        sums[i] = 0.0
    for q in range(n_points):
        p, weight = walks.point[rule + q], walks.weight[rule + q]
        for i in range(size):
            values[i] = counts[i]
        expected_values(values, n_players, p)
        first, last = weight / p, weight / (1.0 - p)
        for i in range(size):
            sums[i] += first * values[i]
            sums[size + i] += last * values[i]


class FillSpace(NamedTuple):
    """Scratch space of one thread that fills tables.

    walk         WalkSpace
    found, bits  uint64: as in :class:`BackgroundSpace`
    counts       float64: count of each entry of the groups of a tree
    leaf         float64: room for four numbers per pattern of a leaf
    lines        float64: the table of a leaf, in lines as long as the lines of its group
    pattern      uint64: pattern of a leaf for each entry of its group
    path         int64, one per depth and one more: the edges above a leaf
    """

    walk: WalkSpace
    found: kt.UInt64_1D
    bits: kt.UInt64_1D
    counts: kt.Float64_1D
    leaf: kt.Float64_1D
    lines: kt.Float64_1D
    pattern: kt.UInt64_1D
    path: kt.Int64_1D


@kernel(inner=True)
def count_word(
    walks: Walks, paths: Paths, groups: Groups, tree: int, row: int, n_rows: int, tables: Tables,
    space: FillSpace,
) -> None:  # fmt: skip
    """Count the entries of a word of the background in the groups of a tree, or list patterns."""
    words, taken = space.walk.words, space.walk.taken
    word, counted = row % np.uint64(BLOCK) // _WORD, _NOTHING
    for group in range(np.uint64(groups.first[tree]), np.uint64(groups.first[tree + _ONE])):
        node = np.uint64(groups.edges[group, NODE])
        for edge in range(np.uint64(groups.edges[group, FROM]), node):
            follow_edge(walks, words, taken, edge, word)
        if groups.leaf[group] >= 0:
            leaf = np.uint64(groups.leaf[group])
            find_patterns(paths, leaf, taken, space.found)
            for i in range(n_rows):
                tables.patterns[np.uint64(tables.list_start[leaf]) + row + i] = space.found[i]
            continue
        find_entries(groups, group, words, taken, word, counted, _ONE, space.bits, space.found)
        for i in range(n_rows):
            space.counts[space.found[i]] += 1.0
        counted += _ONE << np.uint64(groups.first_bit[group + _ONE] - groups.first_bit[group])


@kernel(inner=True)
def find_leaf_patterns(
    walks: Walks, paths: Paths, groups: Groups, group: int, leaf: int, depth: int, above: int,
    space: FillSpace,
) -> None:  # fmt: skip
    """Write the pattern of a leaf for each entry of its group."""
    # ``path`` holds the edges up to ``depth``; those up to ``above`` are above the node.
    first_bit = np.uint64(groups.first_bit[group])
    n_bits = np.uint64(groups.first_bit[group + _ONE]) - first_bit
    first = np.uint64(paths.first[leaf])
    for entry in range(_ONE << n_bits):
        space.pattern[entry] = _NOTHING
    for k in range(np.uint64(paths.first[leaf + _ONE]) - first):
        tested = wanted = never = _NOTHING
        for b in range(n_bits):
            source, bit = groups.bit[first_bit + b], _ONE << b
            if source >= 0:
                edge = np.uint64(space.path[np.uint64(source)])
                if walks.edge[edge, PLAYER] == paths.player[first + k]:
                    tested, wanted = tested | bit, wanted | bit
                continue
            for d in range(above + _ONE, depth + _ONE):
                edge = np.uint64(space.path[d])
                is_requested = walks.edge[edge, CONDITION] == -1 - source
                if is_requested and walks.edge[edge, PLAYER] == paths.player[first + k]:
                    want = bit if walks.edge[edge, TURNED] == 0 else _NOTHING
                    if tested & bit and wanted & bit != want:
                        never = _ONE << n_bits
                    tested, wanted = tested | bit, wanted | want
        wanted |= never
        for entry in range(_ONE << n_bits):
            space.pattern[entry] |= np.uint64(entry & tested == wanted) << k


@kernel(inner=True)
def add_leaf_to_group(
    walks: Walks, paths: Paths, groups: Groups, group: int, leaf: int, n_rows: int, start: int,
    counts: FloatArray, space: FillSpace, table: FloatArray,
) -> None:  # fmt: skip
    """Add the table of a leaf to the table of its group, which begins at ``start``."""
    first = np.uint64(paths.first[leaf])
    n_players = np.uint64(paths.first[leaf + _ONE]) - first
    n_entries = _ONE << np.uint64(groups.first_bit[group + _ONE] - groups.first_bit[group])
    size, n_sums = _ONE << n_players, np.uint64(walks.leaf.shape[1])
    shares, values = space.leaf[:size], space.leaf[size : size + size]
    sums = space.leaf[size + size :]
    for pattern in range(size):
        shares[pattern] = 0.0
    for entry in range(n_entries):
        shares[space.pattern[entry]] += counts[entry]
    for pattern in range(size):
        shares[pattern] /= n_rows
    integrate_leaf(walks, n_players, shares, values, sums)
    n_each = numbers_of_player(n_sums)
    first_place = np.uint64(groups.first_place[group])
    line = np.uint64(groups.first_place[group + _ONE]) - first_place
    for i in range(size * line):
        space.lines[i] = 0.0
    for k in range(n_players):
        bit, at = _ONE << k, _NOTHING
        while groups.place[first_place + at] != paths.player[first + k] * np.int64(n_sums):
            at += n_each
        for s in range(n_each):
            worth = walks.leaf[leaf, s] if n_each == n_sums else 1.0
            for pattern in range(size):
                without = pattern & ~bit
                agrees = sums[pattern] - (sums[without] + sums[size + without])
                gain = agrees if pattern != without else -sums[size + pattern]
                space.lines[pattern * line + at + s] = worth * gain
    for entry in range(n_entries):
        at = space.pattern[entry] * line
        for i in range(_NOTHING, line, _WIDTH):
            to = start + entry * line + i
            store_floats(table, to, load_floats(table, to) + load_floats(space.lines, at + i))


@kernel
def fill_groups(
    walks: Walks,
    paths: Paths,
    groups: Groups,
    keys: kt.Int64_2D,
    n_rows: int,
    trees: tuple[int, int],
    tables: Tables,
    space: FillSpace,
) -> None:
    """Write the tables of the groups of trees ``trees[0] .. trees[1]``, and the lists."""
    # ``keys`` (n_blocks, n_slots * BLOCK) are those of the background, whose rows divide all sums.
    n_rows = np.uint64(n_rows)
    space.walk.taken[0] = _ALL
    for tree in range(np.uint64(trees[0]), np.uint64(trees[1])):
        first, stop = np.uint64(groups.first[tree]), np.uint64(groups.first[tree + _ONE])
        n_counts = _NOTHING
        for group in range(first, stop):
            n_bits = np.uint64(groups.first_bit[group + _ONE] - groups.first_bit[group])
            n_counts += (_ONE << n_bits) * np.uint64(groups.leaf[group] < 0)
        for i in range(n_counts):
            space.counts[i] = 0.0
        for row in range(_NOTHING, n_rows, _WORD):
            if row % np.uint64(BLOCK) == _NOTHING:
                n = min(n_rows - row, np.uint64(BLOCK))
                answer_conditions(walks, tree, keys[row // np.uint64(BLOCK)], n, space.walk.words)
            count_word(walks, paths, groups, tree, row, np.uint64(min(n_rows - row, _WORD)), tables,
                       space)  # fmt: skip
        counted = _NOTHING
        for group in range(first, stop):
            if groups.leaf[group] < 0:
                n_bits = np.uint64(groups.first_bit[group + _ONE] - groups.first_bit[group])
                fill_group(walks, paths, groups, group, n_rows, space.counts[counted:], tables,
                           space)  # fmt: skip
                counted += _ONE << n_bits
            else:
                keep_path(walks, groups, group, space)


@kernel(inner=True)
def keep_path(walks: Walks, groups: Groups, group: int, space: FillSpace) -> int:
    """Extend ``path`` to the node of a group; return the depth of the node."""
    depth = _NOTHING
    node = np.uint64(groups.edges[group, NODE])
    for edge in range(np.uint64(groups.edges[group, FROM]), node):
        depth = np.uint64(walks.edge[edge, DEPTH])
        space.path[depth] = edge
    return depth


@kernel(inner=True)
def fill_group(
    walks: Walks, paths: Paths, groups: Groups, group: int, n_rows: int, counts: FloatArray,
    tables: Tables, space: FillSpace,
) -> None:  # fmt: skip
    """Write the table of a group from the counts of its entries."""
    n_bits = np.uint64(groups.first_bit[group + _ONE] - groups.first_bit[group])
    line = np.uint64(groups.first_place[group + _ONE] - groups.first_place[group])
    start = np.uint64(tables.table_start[group])
    for i in range(line << n_bits):
        tables.table[start + i] = 0.0
    above = keep_path(walks, groups, group, space)
    node, stop = np.uint64(groups.edges[group, NODE]), np.uint64(groups.edges[group, STOP])
    # If the node is a leaf itself, the edge to it comes first.
    for edge in range(node - np.uint64(node == stop), stop):
        depth = np.uint64(walks.edge[edge, DEPTH])
        space.path[depth] = edge
        if walks.edge[edge, LEAF] >= 0:
            leaf = np.uint64(walks.edge[edge, LEAF])
            find_leaf_patterns(walks, paths, groups, group, leaf, depth, above, space)
            add_leaf_to_group(walks, paths, groups, group, leaf, n_rows, start, counts, space,
                              tables.table)  # fmt: skip


class BackgroundSpace(NamedTuple):
    """Scratch space of one thread.

    walk   WalkSpace
    found  uint64 (WORD,): pattern of each row of a word
    bits   uint64: the bits of a group, for the rows of a word
    taken  uint64: as in ``walk``, for each word of a block, one after the other
    added  float64
    phi    float64: as in ``walk``, for each word of a block
    """

    walk: WalkSpace
    found: kt.UInt64_1D
    bits: kt.UInt64_1D
    taken: kt.UInt64_1D
    added: kt.Float64_1D
    phi: kt.Float64_1D


@kernel(inner=True)
def add_group(
    walks: Walks, lines: tuple[Slopes, FloatArray], paths: Paths, groups: Groups, tables: Tables,
    group: int, rows: tuple[int, int, int], n_background: int, taken: npt.NDArray[np.uint64],
    space: BackgroundSpace, phi: FloatArray,
) -> None:  # fmt: skip
    """Add the values of the players of a group to ``phi``, for the rows of a word."""
    # ``rows`` holds the word, the number of its first row in the table, and the number of rows.
    word, row, n_rows = rows
    words, found = space.walk.words, space.found
    for edge in range(np.uint64(groups.edges[group, FROM]), np.uint64(groups.edges[group, NODE])):
        follow_edge(walks, words, taken, edge, word)
    if groups.leaf[group] < 0:
        line = np.uint64(groups.first_place[group + _ONE] - groups.first_place[group])
        start = np.uint64(tables.table_start[group])
        find_entries(groups, group, words, taken, word, start, line, space.bits, found)
        n_sums = np.uint64(walks.leaf.shape[1])
        if numbers_of_player(n_sums) == n_sums:
            read_group(groups, group, tables.table, found, phi)
        else:
            read_leaf(walks, groups, group, tables.table, found, phi)
    else:
        leaf, (slopes, numbers) = np.uint64(groups.leaf[group]), lines
        find_patterns(paths, leaf, taken, found)
        read_lists(walks, slopes, numbers, paths, tables, leaf, row, n_rows, n_background, found,
                   space.added, phi)  # fmt: skip


@kernel
def add_background_trees(
    walks: Walks,
    lines: tuple[Slopes, kt.Float64_2D],
    leaves: tuple[Paths, Groups],
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
    (paths, groups), n_rows, walk = leaves, np.uint64(n_rows), space.walk
    n_sums = np.uint64(walks.leaf.shape[1])
    levels = np.uint64(len(walk.taken))
    total[:] = 0.0
    for word in range(np.uint64(BLOCK // WORD)):
        space.taken[word * levels] = _ALL
    for tree in range(np.uint64(trees[0]), np.uint64(trees[1])):
        player = np.uint64(walks.first_player[tree])
        n_players = np.uint64(walks.first_player[tree + _ONE]) - player
        n_values = n_players * n_sums * _WORD
        answer_conditions(walks, tree, keys, n_rows, walk.words)
        for i in range(_NOTHING, (n_rows + (_WORD - _ONE)) // _WORD * n_values, _WIDTH):
            store_floats(space.phi, i, spread(0.0))
        for group in range(np.uint64(groups.first[tree]), np.uint64(groups.first[tree + _ONE])):
            for row in range(_NOTHING, n_rows, _WORD):
                word, n = row // _WORD, np.uint64(min(n_rows - row, _WORD))
                add_group(walks, lines, paths, groups, tables, group,
                          (word, np.uint64(first_row) + row, n), n_background,
                          space.taken[word * levels : (word + _ONE) * levels], space,
                          space.phi[word * n_values :])  # fmt: skip
        for row in range(_NOTHING, n_rows, _WORD):
            phi, n = space.phi[row // _WORD * n_values :], np.uint64(min(n_rows - row, _WORD))
            add_to_total(walks, tree, phi, _WORD, row, n, total)
    spread_players(total, columns, first_row, n_rows, values)
