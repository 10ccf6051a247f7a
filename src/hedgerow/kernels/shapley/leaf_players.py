"""The players of leaves, and the tables and lists of a background at leaves.

The glossary of :mod:`hedgerow.kernels.shapley.background` defines the terms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.shapley.tree_walk import DEPTH, LEAF, PLAYER, Walks

MOST_TABLED = 13
"""Largest number of players of a leaf with tables."""

MOST_PLAYERS = 62
"""Largest number of players of a leaf: the bits of a pattern."""

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
        Player of the leaf that each term reads.
    """

    first: IntArray
    player: IntArray
    depth: IntArray
    node: IntArray
    term: IntArray


class Tables(NamedTuple):
    """Tables and lists of the background, for some trees.

    Attributes
    ----------
    table_start : int64, one per leaf
        Start of its table; -1 if the leaf has a list.
    table : float64
    list_start : int64, one per leaf
    patterns : uint64
        One for each row of the background.
    numbers : float64 (n_background, n_columns)
        The background, for linear leaves.
    coalition : float64
        At ``n (n - 1) / 2 + s``: probability that, of n players, exactly s particular players
        come before a particular other player.
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
