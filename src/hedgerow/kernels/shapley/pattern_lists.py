"""Comparison of rows with lists of patterns, for leaves of many players and linear leaves.

For a row and a background row, each player is needed by the row (U), needed by the background
row (V), or free.  In a linear leaf, a free player counts if a term reads it.  The glossary of
:mod:`hedgerow.kernels.shapley.background` defines the terms.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray
from hedgerow.compile import kernel
from hedgerow.kernels.prediction.slopes import Slopes, sum_within, term_at
from hedgerow.kernels.primitives.intrinsics import count_ones
from hedgerow.kernels.shapley.leaf_groups import Paths, Tables
from hedgerow.kernels.shapley.tree_walk import WORD, Walks

_WORD = np.uint64(WORD)
_ONE = np.uint64(1)
_NOTHING = np.uint64(0)


@kernel(inner=True)
def terms_of(slopes: Slopes, node: int, numbers: FloatArray, row: int, into: FloatArray) -> None:
    """Write each term of a line for a row."""
    first = np.uint64(slopes.start[node])
    for k in range(first, np.uint64(slopes.start[node + _ONE])):
        into[k - first] = term_at(slopes, node, k, numbers[row, np.uint64(slopes.column[k])])


@kernel(inner=True)
def line_value(slopes: Slopes, paths: Paths, leaf: int, inside: int, terms: FloatArray) -> float:
    """Return the bounded sum of terms, of the row for players ``inside``, else of the other row."""
    # ``terms`` holds the terms of the row, then the terms of the other row.
    node = np.uint64(paths.node[leaf])
    n_terms = np.uint64(slopes.start[node + _ONE] - slopes.start[node])
    total = 0.0
    for t in range(n_terms):
        own = (inside >> np.uint64(paths.term[leaf, t])) & _ONE == _ONE
        total += terms[t] if own else terms[np.uint64(paths.term.shape[1]) + t]
    return sum_within(slopes, node, total)


@kernel(inner=True)
def give_line(
    slopes: Slopes, paths: Paths, tables: Tables, leaf: int, needed: int, other: int, free: int,
    terms: FloatArray, value: float, gain: FloatArray,
) -> None:  # fmt: skip
    """Add the contribution of each player for a row and a background row to ``gain``."""
    # ``needed``, ``other`` and ``free`` are bits of players: U, V and the free players that count.
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
            worth += line_value(slopes, paths, leaf, inside, terms)
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
