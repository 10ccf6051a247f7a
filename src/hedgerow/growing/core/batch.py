"""Batches of nodes that are searched together, and splits from the search to the table.

A batch is a list of jobs.  A job is the work for the children of one node: the rows of the
node are divided, the histogram of the smaller child is built from its rows, and the larger
one's is what the parent's leaves.  The root, and a node of a symmetric tree that the split of
its level does not divide, are jobs without a parent.

::

    leaf-wise, depth-wise    a batch is one job, and each child is searched for itself
    symmetric                a batch is a level, for which one split is searched
    chunks of rows           a batch is all jobs of one pass over the chunks

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
from hedgerow.kernels.primitives.intrinsics import bits_of_float, float_of_bits
from hedgerow.kernels.splits.split import NodeSums

# Cells of a job.
(
    JOB_PARENT,  # node whose rows are divided, or -1
    JOB_SMALL,  # child with fewer rows, or the node itself; -1: neither child is searched
    JOB_LARGE,  # its sibling, or -1
    JOB_SMALL_SLOT,  # of its histogram
    JOB_LARGE_SLOT,
    JOB_SEARCH_SMALL,  # 1: look for a split of this child
    JOB_SEARCH_LARGE,
    JOB_HISTOGRAMS,  # how the histograms are made
    JOB_FIELDS,
) = range(9)

BUILT = 0  # from the rows of each child that is searched
SUBTRACTED = 1  # of the smaller child from its rows, of the larger one by subtraction
KEPT = 2  # it is there


class Member(NamedTuple):
    """A node of a job; -1: there is none."""

    node: np.int64
    slot: np.int64  # of its histogram
    searched: np.int64  # 1: look for a split


@kernel(inline=True, inner=True)
def member(job: IntArray, child: int) -> Member:
    """Return the smaller (0) or the larger (1) child of a job."""
    return Member(
        job[JOB_SMALL + child], job[JOB_SMALL_SLOT + child], job[JOB_SEARCH_SMALL + child]
    )


@kernel(inner=True)
def start_job(job: IntArray, parent: int) -> None:
    """Leave no node in the job but the parent."""
    job[JOB_PARENT] = parent
    job[JOB_SMALL] = -1
    job[JOB_LARGE] = -1
    job[JOB_SEARCH_SMALL] = 0
    job[JOB_SEARCH_LARGE] = 0
    job[JOB_HISTOGRAMS] = BUILT


@kernel(inner=True)
def count_searched(job: IntArray) -> int:
    """Return the number of nodes of the job that need a search."""
    return job[JOB_SEARCH_SMALL] + job[JOB_SEARCH_LARGE]


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
    """Record a split without its set of left bins."""
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
    """Return whether a split beats the one found: larger score, then lower feature."""
    held = float_of_bits(found[FOUND_SCORE])
    return score > held or (score == held and score >= 0.0 and feature < found[FOUND_FEATURE])


@kernel(inner=True)
def best_thread(found: IntArray, child: int) -> int:
    """Return the thread that found the best split of a child."""
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
