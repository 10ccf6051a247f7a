r"""The players of leaves, and groups of leaves that share a table of values with a background.

Glossary
--------
group   the leaves below a node, or a single leaf
bit     of a row in a group: whether it agrees with all edges of a player above the node, or meets
        a condition below the node
entry   the bits of a row as a number; the table has a line for each entry: values of the players,
        :func:`numbers_of_player` for each, padded with zeros to a multiple of ``N_LANES``

One at a time, four leaves of eight players have four tables of 256 patterns.  Their group has
one table of 512 entries, if the players of its three conditions occur only there::

        .                    bits above the node    6
      /   \                  conditions below it    3
     .     .                 entries              512
    / \   / \
   0   1 2   3

The groups of each tree minimise the cost of the lines and bits to read and of the memory.
Where leaves have many values, each leaf is a group of its own, and its lines hold one number for
each player, which multiplies the values: otherwise tables would grow with the values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow import kernel_types as kt
from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.shapley.tree_walk import BLOCK, CONDITION, DEPTH, LEAF, PLAYER, WORD, Walks
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

FROM, NODE, STOP, GROUP_FIELDS = range(4)
"""Edges of a group: ``FROM : NODE`` lead to its node from the group before, ``NODE : STOP`` are
below its node."""

LINE_COST = 4096
"""Cost of reading ``N_LANES`` numbers for a row; a number of the table costs 1."""

BIT_COST = 256
"""Cost of a bit of an entry."""

MOST_SUMS = 4
"""Largest number of values of a leaf with which leaves share a table."""

_WORD = np.uint64(WORD)
_WIDTH = np.uint64(WIDTH)
_LANES = np.uint64(N_LANES)
_ONE = np.uint64(1)
_NOTHING = np.uint64(0)
_IMPOSSIBLE = np.int64(1) << 60


MOST_TABLED = 13
"""Largest number of players of a leaf with tables."""

MOST_PLAYERS = 62
"""Largest number of players of a leaf: the bits of a pattern."""


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
    table        float64
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


class Groups(NamedTuple):
    """The groups of all trees, in the order of a walk.

    first        int64, one per tree and one more
    edges        int64, shape (n_groups, GROUP_FIELDS)
    leaf         int64: the leaf, where it has a list and no table; else -1
    first_bit    int64, one per group and one more
    bit          int64: depth of a player's last edge above the node, or ``-1 - condition``
    first_place  int64, one per group and one more: start of a group in ``place``; the lines of its
                 table have as many numbers as it has places
    place        int64: target of each number of a line: ``player * n_sums + k``; 0 for padding.
                 Where a line has one number for each player, the first target of the player.
    n_places     int64: numbers of a line without padding
    """

    first: kt.Int64_1D
    edges: kt.Int64_2D
    leaf: kt.Int64_1D
    first_bit: kt.Int64_1D
    bit: kt.Int64_1D
    first_place: kt.Int64_1D
    place: kt.Int64_1D
    n_places: kt.Int64_1D


class GroupSpace(NamedTuple):
    """Scratch space of :func:`plan_groups`, all int64.

    parent, end, cost, alone  one per edge of a tree and one more: of the node below the edge, the
            root first: its parent; the node after its subtree; least cost of its leaves; 1 if its
            leaves are one group
    at_depth  one per depth
    player, condition  one per player and condition of a tree: number of the last search that
            visited it
    bit, place  Results of the search
    """

    parent: kt.Int64_1D
    end: kt.Int64_1D
    cost: kt.Int64_1D
    alone: kt.Int64_1D
    at_depth: kt.Int64_1D
    player: kt.Int64_1D
    condition: kt.Int64_1D
    bit: kt.Int64_1D
    place: kt.Int64_1D


@kernel(inner=True)
def search_group(
    walks: Walks, tabled: IntArray, first: int, node: int, search: int, space: GroupSpace
) -> tuple[int, int]:
    """Find bits and players of a node's group; return their numbers, or -1 without a table."""
    n_bits = n_places = _NOTHING
    above = node
    while above > _NOTHING:
        edge = first + above - _ONE
        player = np.uint64(walks.edge[edge, PLAYER])
        if space.player[player] != search:
            space.player[player] = search
            space.bit[n_bits], space.place[n_places] = walks.edge[edge, DEPTH], player
            n_bits, n_places = n_bits + _ONE, n_places + _ONE
        above = np.uint64(space.parent[above])
    for below in range(node + np.uint64(node == _NOTHING), np.uint64(space.end[node])):
        edge = first + below - _ONE
        leaf = walks.edge[edge, LEAF]
        if leaf >= 0 and tabled[np.uint64(leaf)] == 0:
            return np.int64(-1), np.int64(-1)
        if below == node:
            continue
        condition = np.uint64(walks.edge[edge, CONDITION])
        if space.condition[condition] != search:
            space.condition[condition] = search
            space.bit[n_bits] = -1 - np.int64(condition)
            n_bits += _ONE
        player = np.uint64(walks.edge[edge, PLAYER])
        if space.player[player] != search:
            space.player[player] = search
            space.place[n_places] = player
            n_places += _ONE
        if n_bits > np.uint64(MOST_TABLED):
            return np.int64(-1), np.int64(-1)
    return np.int64(n_bits), np.int64(n_places)


@kernel(inner=True)
def numbers_of_player(n_sums: int) -> int:
    """Return the numbers of a line per player: one for each value of a leaf, or a single one."""
    return n_sums if n_sums <= np.uint64(MOST_SUMS) else _ONE


@kernel(inner=True)
def length_of_line(n_numbers: int) -> int:
    """Return ``n_numbers``, rounded up to a multiple of ``N_LANES``."""
    return (n_numbers + _LANES - _ONE) // _LANES * _LANES


@kernel(inner=True)
def choose_groups(walks: Walks, tabled: IntArray, tree: int, search: int, space: GroupSpace) -> int:
    """Find the groups of least cost of a tree, from the leaves up; return the next search."""
    first = np.uint64(walks.first_edge[tree])
    n_edges = np.uint64(walks.first_edge[tree + _ONE]) - first
    n_sums = np.uint64(walks.leaf.shape[1])
    n_numbers = numbers_of_player(n_sums)
    space.at_depth[0] = space.parent[0] = 0
    for node in range(_ONE, n_edges + _ONE):
        depth = np.uint64(walks.edge[first + node - _ONE, DEPTH])
        space.parent[node] = space.at_depth[depth - _ONE]
        space.at_depth[depth] = node
    for back in range(n_edges + _ONE):
        node = n_edges - back
        apart = _IMPOSSIBLE
        if node > _NOTHING and walks.edge[first + node - _ONE, LEAF] >= 0:
            space.end[node] = node + _ONE
        else:
            right = np.uint64(space.end[node + _ONE])
            space.end[node] = space.end[right]
            apart = space.cost[node + _ONE] + space.cost[right]
        n_bits, n_places = search_group(walks, tabled, first, node, search, space)
        search += 1
        together = _IMPOSSIBLE
        if n_bits >= 0 and (n_numbers == n_sums or apart == _IMPOSSIBLE):
            line = np.int64(length_of_line(np.uint64(n_places) * n_numbers))
            together = line // N_LANES * LINE_COST + n_bits * BIT_COST + (line << n_bits)
        elif apart == _IMPOSSIBLE:
            together = np.int64(0)  # a leaf with a list
        space.alone[node] = np.int64(together <= apart)
        space.cost[node] = min(together, apart, _IMPOSSIBLE)
    return search


@kernel
def plan_groups(walks: Walks, tabled: kt.Int64_1D, groups: Groups, space: GroupSpace) -> None:
    """Find the groups of all trees."""
    # ``tabled`` is 1 for leaves that may be part of a table and then have players.  ``groups`` has
    # room for as many groups as leaves; ``player`` and ``condition`` of the space are 0.
    n_sums, search = np.uint64(walks.leaf.shape[1]), np.int64(1)
    n_each = numbers_of_player(n_sums)
    group = bit = place = _NOTHING
    for tree in range(np.uint64(len(groups.first) - 1)):
        groups.first[tree] = group
        first = np.uint64(walks.first_edge[tree])
        n_edges = np.uint64(walks.first_edge[tree + _ONE]) - first
        if n_edges == _NOTHING:
            continue
        search = choose_groups(walks, tabled, tree, search, space)
        walked, node = first, _NOTHING
        while node <= n_edges:
            if space.alone[node] == 0:
                node += _ONE
                continue
            n_bits, n_places = search_group(walks, tabled, first, node, search, space)
            search += 1
            groups.edges[group, FROM], groups.edges[group, NODE] = walked, first + node
            node = np.uint64(space.end[node])
            walked = first + node - _ONE
            groups.edges[group, STOP] = walked
            groups.first_bit[group], groups.first_place[group] = bit, place
            groups.leaf[group], groups.n_places[group] = -1, max(0, n_places) * np.int64(n_each)
            if n_bits < 0:
                groups.leaf[group] = walks.edge[walked - _ONE, LEAF]
            for k in range(np.uint64(max(0, n_bits))):
                groups.bit[bit] = space.bit[k]
                bit += _ONE
            n_numbers = np.uint64(groups.n_places[group])
            for k in range(length_of_line(n_numbers)):
                groups.place[place] = 0
                if k < n_numbers:
                    player = np.uint64(space.place[k // n_each])
                    groups.place[place] = player * n_sums + k % n_each
                place += _ONE
            group += _ONE
    groups.first[np.uint64(len(groups.first) - 1)] = group
    groups.first_bit[group], groups.first_place[group] = bit, place


@kernel(inline=True, inner=True)
def find_entries(
    groups: Groups, group: int, words: npt.NDArray[np.uint64], taken: npt.NDArray[np.uint64],
    word: int, start: int, line: int, bits: npt.NDArray[np.uint64], found: npt.NDArray[np.uint64],
) -> None:  # fmt: skip
    """Write the start of the line of each row of a word: ``start + line * entry``."""
    first, stop = np.uint64(groups.first_bit[group]), np.uint64(groups.first_bit[group + _ONE])
    for b in range(first, stop):
        if groups.bit[b] >= 0:
            bits[b - first] = taken[np.uint64(groups.bit[b])]
        else:
            bits[b - first] = words[np.uint64(-1 - groups.bit[b]) * np.uint64(BLOCK // WORD) + word]
    for i in range(_NOTHING, _WORD, _WIDTH):
        at, step = spread(np.int64(start)), np.int64(line)
        for b in range(stop - first):
            at = choose(truths_of(bits[b] >> i), at + spread(step), at)
            step = step + step
        store_floats(found, i, at)


@kernel(inner=True)
def read_group(
    groups: Groups, group: int, table: FloatArray, found: npt.NDArray[np.uint64], phi: FloatArray
) -> None:
    """Add the lines of a group that begin at ``found`` to ``phi``, for the rows of a word."""
    first = np.uint64(groups.first_place[group])
    line = np.uint64(groups.first_place[group + _ONE]) - first
    for k in range(_NOTHING, line, _WIDTH):
        for i in range(_NOTHING, _WORD, _WIDTH):
            numbers = load_rows(table[k:], found, i)
            for j in range(WIDTH):
                at = np.uint64(groups.place[first + k + np.uint64(j)]) * _WORD + i
                store_floats(phi, at, load_floats(phi, at) + numbers[j])


@kernel(inner=True)
def read_leaf(
    walks: Walks, groups: Groups, group: int, table: FloatArray, found: npt.NDArray[np.uint64],
    phi: FloatArray,
) -> None:  # fmt: skip
    """Add lines like :func:`read_group` for a leaf of many values, times these values."""
    first, n_places = np.uint64(groups.first_place[group]), np.uint64(groups.n_places[group])
    leaf = np.uint64(walks.edge[np.uint64(groups.edges[group, NODE]) - _ONE, LEAF])
    for k in range(_NOTHING, n_places, _WIDTH):
        for i in range(_NOTHING, _WORD, _WIDTH):
            numbers = load_rows(table[k:], found, i)
            for j in range(WIDTH):
                if k + np.uint64(j) < n_places:
                    at = np.uint64(groups.place[first + k + np.uint64(j)]) * _WORD + i
                    for s in range(np.uint64(walks.leaf.shape[1])):
                        added = numbers[j] * spread(walks.leaf[leaf, s])
                        store_floats(phi, at, load_floats(phi, at) + added)
                        at += _WORD
