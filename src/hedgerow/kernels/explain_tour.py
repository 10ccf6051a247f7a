"""What the tour of a tree reads and writes (:mod:`hedgerow.kernels.explain`)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.kernels.slopes import Slopes

BLOCK = 64
"""Rows side by side: a level of eight points is 8 kB."""

UNKNOWN = 254
"""Bin of a category that the model has not seen."""

GROUPS = 3
"""Most players in the line of a leaf."""


class TreePaths(NamedTuple):
    """The trees as the tour needs them; one entry per node unless another size is given.

    left, right  int64: children, counted over all trees; 0 in a leaf
    slot         int64: the key that the split asks for
    threshold    int64: larger keys go right
    player       int64: the player of the split; -1 in a leaf
    share        float64: share of the rows that go left
    above        int64: depth of the child of the nearest split above by the same player; -1: none
    weight       float64: ``w`` of the player above the split
    value        float64 (n_nodes, n_values): what a node adds, where the walk ends there
    backoff      uint8: 1 where a row of an unknown category stops
    root         int64, one per tree and one more
    n_points     int64, one per tree
    point_start  int64, one per tree: its points and weights in ``points``
    points       float64 (2, n): points ascending, and their weights
    """

    left: IntArray
    right: IntArray
    slot: IntArray
    threshold: IntArray
    player: IntArray
    share: FloatArray
    above: IntArray
    weight: FloatArray
    value: FloatArray
    backoff: npt.NDArray[np.uint8]
    root: IntArray
    n_points: IntArray
    point_start: IntArray
    points: FloatArray


class LineTerms(NamedTuple):
    """Lines in the leaves, by player; empty where leaves hold numbers.

    slopes   of all nodes
    group    int32, one per term: place of its player among those of the leaf
    player   int32 (n_nodes, GROUPS): players of the terms; -1: there is none
    depth    int32 (n_nodes, GROUPS): depth of the deepest split of the player on the path, or -1
    weight   float64 (n_nodes, GROUPS): ``w`` of the player at the leaf; 1 off the path
    numbers  float64 (n_rows, n_features)
    """

    slopes: Slopes
    group: npt.NDArray[np.int32]
    player: npt.NDArray[np.int32]
    depth: npt.NDArray[np.int32]
    weight: FloatArray
    numbers: FloatArray


class Tour(NamedTuple):
    """Space for the tour of one thread; a block has at most ``BLOCK`` rows.

    node, turn   int64 (depth + 2,): the branch, and what is left to do at each of its nodes
    side         int64 (depth + 2,): 0 if the node is a left child, else 1
    reached      float64 (depth + 2, 2, points, block): ``C`` of both children
    held         float64 (depth + 2, 2, values, points, block): ``H``
    agrees       float64 (depth + 2, 2, block): ``o`` of the split's player, 1.0 or 0.0
    stops        float64 (depth + 2, block): 1.0 for rows that stop at the node
    rates        float64 (depth + 2, RATES, points): factors of ``H`` on the way up
                 (``RATE_``) and of ``C`` on the way down (``REACH_``)
    factors      float64 (depth + 2, 2, points): ``r`` of an agreeing row below the split
    added        float64 (block,)
    """

    node: IntArray
    turn: IntArray
    side: IntArray
    reached: FloatArray
    held: FloatArray
    agrees: FloatArray
    stops: FloatArray
    rates: FloatArray
    factors: FloatArray
    added: FloatArray


(
    RATE_LEFT,  # of the left child, for rows that agree with it
    RATE_RIGHT,
    RATE_OUT,  # of a child, for rows that do not, though they did above
    RATE_STOP,  # of the end of the walk at an unknown category
    REACH_STOP,
    REACH_LEFT,
    REACH_LEFT_OUT,
    REACH_RIGHT,
    REACH_RIGHT_OUT,
    RATES,
) = range(10)


def tour_space(depth: int, n_points: int, n_values: int, n_rows: int) -> Tour:
    """Space for trees of this depth, and blocks of at most ``n_rows`` rows."""
    levels, block = depth + 2, max(1, min(BLOCK, n_rows))
    return Tour(
        node=np.zeros(levels, dtype=np.int64),
        turn=np.zeros(levels, dtype=np.int64),
        side=np.zeros(levels, dtype=np.int64),
        reached=np.ones((levels, 2, n_points, block)),
        held=np.zeros((levels, 2, n_values, n_points, block)),
        agrees=np.ones((levels, 2, block)),
        stops=np.zeros((levels, block)),
        rates=np.zeros((levels, RATES, n_points)),
        factors=np.zeros((levels, 2, n_points)),
        added=np.zeros(block),
    )


class Space(NamedTuple):
    """Space of one thread.

    tour     see :class:`Tour`
    keys     int64 (slots * block,)
    unknown  uint8 (slots * block,): 1 where a category is unknown; empty if none is
    sums     float64 (2 ** GROUPS + 4 * GROUPS,)
    """

    tour: Tour
    keys: IntArray
    unknown: npt.NDArray[np.uint8]
    sums: FloatArray


class Values(NamedTuple):
    """What is added to.

    single     float64 (n_players * n_outputs, n_rows): Shapley values
    pairs      float64 (n_players ** 2 * n_outputs, n_rows): those of pairs; may be empty
    n_outputs  int64
    """

    single: FloatArray
    pairs: FloatArray
    n_outputs: np.int64


def most_points(n_players: int) -> int:
    """Points at which a path of so many players is summed without error."""
    return max(1, math.ceil(n_players / 2))
