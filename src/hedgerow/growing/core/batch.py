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
from hedgerow.growing.core import state as s
from hedgerow.kernels.primitives.intrinsics import bits_of_float, float_of_bits
from hedgerow.kernels.splits.split import NodeSums


class Member(NamedTuple):
    """A node of a job; -1: there is none."""

    node: np.int64
    slot: np.int64  # of its histogram
    searched: np.int64  # 1: look for a split


@kernel(inline=True, inner=True)
def member(job: IntArray, child: int) -> Member:
    """Return the smaller (0) or the larger (1) child of a job."""
    return Member(
        job[s.JOB_SMALL + child], job[s.JOB_SMALL_SLOT + child], job[s.JOB_SEARCH_SMALL + child]
    )


@kernel(inner=True)
def start_job(job: IntArray, parent: int) -> None:
    """Leave no node in the job but the parent."""
    job[s.JOB_PARENT] = parent
    job[s.JOB_SMALL] = -1
    job[s.JOB_LARGE] = -1
    job[s.JOB_SEARCH_SMALL] = 0
    job[s.JOB_SEARCH_LARGE] = 0
    job[s.JOB_HISTOGRAMS] = s.BUILT


@kernel(inner=True)
def count_searched(job: IntArray) -> int:
    """Return the number of nodes of the job that need a search."""
    return job[s.JOB_SEARCH_SMALL] + job[s.JOB_SEARCH_LARGE]


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
    found[s.FOUND_SCORE] = bits_of_float(score)
    found[s.FOUND_FEATURE] = feature
    found[s.FOUND_COLUMN] = column
    found[s.FOUND_BIN] = bin_
    found[s.FOUND_MISSING_LEFT] = missing_left
    found[s.FOUND_G_LEFT] = left.g
    found[s.FOUND_H_LEFT] = left.h
    found[s.FOUND_N_LEFT] = left.n


@kernel(inner=True)
def is_better(score: float, feature: int, found: IntArray) -> bool:
    """Return whether a split beats the one found: larger score, then lower feature."""
    held = float_of_bits(found[s.FOUND_SCORE])
    return score > held or (score == held and score >= 0.0 and feature < found[s.FOUND_FEATURE])


@kernel(inner=True)
def best_thread(found: IntArray, child: int) -> int:
    """Return the thread that found the best split of a child."""
    best = 0
    for t in range(1, found.shape[0]):
        score = float_of_bits(found[t, child, s.FOUND_SCORE])
        if is_better(score, found[t, child, s.FOUND_FEATURE], found[best, child]):
            best = t
    return best


@kernel(inner=True)
def write_cut(row: IntArray, split: IntArray) -> None:
    """Write where the split divides its column to the row of a node."""
    row[s.NODE_FEATURE] = split[s.FOUND_FEATURE]
    row[s.NODE_COLUMN] = split[s.FOUND_COLUMN]
    row[s.NODE_BIN] = split[s.FOUND_BIN]
    row[s.NODE_MISSING_LEFT] = split[s.FOUND_MISSING_LEFT]
    for w in range(s.SET_WORDS):
        row[s.NODE_SET + w] = split[s.FOUND_SET + w]
