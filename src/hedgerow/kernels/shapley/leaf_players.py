"""The players of leaves, and what a background comes to there.

The words are those of :mod:`hedgerow.kernels.shapley.background`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.shapley.tree_walk import DEPTH, LEAF, PLAYER, Walks

MOST_TABLED = 13
"""Players of a leaf up to which it has tables."""

MOST_PLAYERS = 62
"""Players of a leaf at most: bits of a pattern."""

_ONE = np.uint64(1)
_NOTHING = np.uint64(0)


class Paths(NamedTuple):
    """The players of all leaves.

    Attributes
    ----------
    first : int64, one per leaf and one more
        Players of leaf i are ``first[i] : first[i + 1]``.
    player, depth : int64
        Number of the player in its tree; depth of its last edge, 0: none.
    node : int64, one per leaf
        Node of ``slopes`` where the leaf is a line, else -1.
    term : int64, shape (n_leaves, n_terms)
        Which player of the leaf each term asks for.
    """

    first: IntArray
    player: IntArray
    depth: IntArray
    node: IntArray
    term: IntArray


class Tables(NamedTuple):
    """What the background has come to, for some trees.

    Attributes
    ----------
    table_start : int64, one per leaf
        Where its tables begin, one behind the other: one for each player, or three for pairs; -1
        where it has a list.
    table : float64
    list_start : int64, one per leaf
    patterns : uint64
        One for each row of the background.
    numbers : float64 (n_background, n_columns)
        The background, where leaves are lines.
    coalition : float64
        At ``n (n - 1) / 2 + s``: probability that s given players of n come before one of the
        others, and no other does.
    """

    table_start: IntArray
    table: FloatArray
    list_start: IntArray
    patterns: npt.NDArray[np.uint64]
    numbers: FloatArray
    coalition: FloatArray


@kernel
def plan_paths(
    walks: Walks, first: IntArray, player: IntArray, depth: IntArray, above: IntArray
) -> None:
    """Write down the players of each leaf, in the order of their last edges.

    Parameters
    ----------
    walks : Walks
    first : int64, one per leaf and one more
        Written where ``player`` is empty: number of players of each leaf, one place behind its own;
        else where they go.
    player, depth : int64
        Written.
    above : int64
        Scratch space: a player for each depth.
    """
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
