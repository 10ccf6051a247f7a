"""Batches of nodes that are searched together, and splits from the search to the table.

A batch is the root, or the two children of a node: the smaller one, whose histogram is
built from its rows, and the larger one, whose histogram is what the parent's leaves.  It
stands in ``scalars`` (``IS_SMALL`` ... ``IS_SEARCH_LARGE``), two cells side by side for
each field.

A split is a row of integers, ``FOUND_...``, of which every search notes its best.  Thread 0
takes the best of all threads and writes it to the row of its node, ``NODE_...``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core.state import (
    FOUND_BIN,
    FOUND_COLUMN,
    FOUND_FEATURE,
    FOUND_G_LEFT,
    FOUND_H_LEFT,
    FOUND_MISSING_LEFT,
    FOUND_N_LEFT,
    FOUND_SCORE,
    FOUND_SET,
    IS_LARGE,
    IS_SEARCH_LARGE,
    IS_SEARCH_SMALL,
    IS_SMALL,
    IS_SMALL_SLOT,
    IS_SUBTRACT,
    NODE_BIN,
    NODE_COLUMN,
    NODE_FEATURE,
    NODE_G_LEFT,
    NODE_H_LEFT,
    NODE_MISSING_LEFT,
    NODE_N_LEFT,
    NODE_SET,
    SET_WORDS,
)
from hedgerow.kernels.intrinsics import bits_of_float, float_of_bits
from hedgerow.kernels.split import NodeSums


class Member(NamedTuple):
    """A node of the batch; -1: there is none."""

    node: np.int64
    slot: np.int64  # of its histogram
    searched: np.int64  # 1: look for a split


@kernel(inline=True, inner=True)
def member(scalars: IntArray, child: int) -> Member:
    """The smaller (0) or the larger (1) child of the batch."""
    return Member(
        scalars[IS_SMALL + child], scalars[IS_SMALL_SLOT + child], scalars[IS_SEARCH_SMALL + child]
    )


@kernel(inner=True)
def clear_batch(scalars: IntArray) -> None:
    """Leave no node in the batch."""
    scalars[IS_SMALL] = -1
    scalars[IS_LARGE] = -1
    scalars[IS_SUBTRACT] = 0
    scalars[IS_SEARCH_SMALL] = 0
    scalars[IS_SEARCH_LARGE] = 0


@kernel(inline=True, inner=True)
def note_split(
    found: IntArray,
    score: float,
    feature: int,
    column: int,
    bin_: int,
    missing_left: int,
    left: NodeSums,
) -> None:
    """Note a split, but for the set of bins that go left."""
    found[FOUND_SCORE] = bits_of_float(score)
    found[FOUND_FEATURE] = feature
    found[FOUND_COLUMN] = column
    found[FOUND_BIN] = bin_
    found[FOUND_MISSING_LEFT] = missing_left
    found[FOUND_G_LEFT] = left.g
    found[FOUND_H_LEFT] = left.h
    found[FOUND_N_LEFT] = left.n


@kernel(inner=True)
def is_better(score: float, feature: int, found: IntArray) -> bool:
    """Whether a split beats the one found: larger score, then lower feature."""
    held = float_of_bits(found[FOUND_SCORE])
    return score > held or (score == held and score >= 0.0 and feature < found[FOUND_FEATURE])


@kernel(inner=True)
def best_thread(found: IntArray, child: int) -> int:
    """The thread that found the best split of a child."""
    best = 0
    for t in range(1, found.shape[0]):
        score = float_of_bits(found[t, child, FOUND_SCORE])
        if is_better(score, found[t, child, FOUND_FEATURE], found[best, child]):
            best = t
    return best


@kernel(inner=True)
def write_cut(row: IntArray, split: IntArray) -> None:
    """Write where the split divides its column to the row of a node."""
    row[NODE_FEATURE] = split[FOUND_FEATURE]
    row[NODE_COLUMN] = split[FOUND_COLUMN]
    row[NODE_BIN] = split[FOUND_BIN]
    row[NODE_MISSING_LEFT] = split[FOUND_MISSING_LEFT]
    for w in range(SET_WORDS):
        row[NODE_SET + w] = split[FOUND_SET + w]


@kernel(inner=True)
def write_split(row: IntArray, split: IntArray) -> None:
    """Write a split and the sums of its left side to the row of a node."""
    write_cut(row, split)
    row[NODE_G_LEFT] = split[FOUND_G_LEFT]
    row[NODE_H_LEFT] = split[FOUND_H_LEFT]
    row[NODE_N_LEFT] = split[FOUND_N_LEFT]
