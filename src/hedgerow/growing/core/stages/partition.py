"""Partition of a node's rows, by all threads that its size pays for."""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import BinArray, IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core import state as s
from hedgerow.kernels.histograms.partition import copy_forward, copy_reversed, divide
from hedgerow.kernels.primitives.barrier import barrier, share

ROWS_TO_SHARE = 8192
"""Nodes with fewer rows are partitioned by one thread, and their histograms
divided by features: below this a merge costs more than it saves."""


@kernel(inner=True)
def partition_alone(rows: s.Rows, column: BinArray, row: IntArray) -> None:
    """Order the rows of a node by their bins, left child first; one thread."""
    start, count = row[s.NODE_START], row[s.NODE_COUNT]
    stop = start + count
    n_left = divide(column, row, s.NODE_SET, rows.rows, rows.scratch, start, stop)
    copy_forward(rows.rows, rows.scratch, start, start, start + n_left)
    copy_reversed(rows.rows, rows.scratch, start + n_left, start + n_left, stop)


@kernel(inner=True)
def partition_node(thread: int, state: s.State, column: BinArray, row: IntArray) -> None:
    """Order the rows of the node with table row ``row`` by their bins: left child first."""
    team, rows, counts = state.team, state.rows, state.threads.counts
    start, count = row[s.NODE_START], row[s.NODE_COUNT]
    if count < ROWS_TO_SHARE or team.n_threads == 1:
        if thread == 0:
            partition_alone(rows, column, row)
        barrier(team)
        return
    ids, scratch = rows.rows, rows.scratch
    first, last = share(count, thread, team.n_threads)
    n_left = divide(column, row, s.NODE_SET, ids, scratch, start + first, start + last)
    counts[thread, s.COUNT_LEFT] = n_left
    barrier(team)
    left_before = np.int64(0)
    for t in range(thread):
        left_before += counts[t, s.COUNT_LEFT]
    middle = start + first + n_left
    copy_forward(ids, scratch, start + left_before, start + first, middle)
    right_at = start + row[s.NODE_N_LEFT] + first - left_before
    copy_reversed(ids, scratch, right_at, middle, start + last)
    barrier(team)


@kernel(inline=True, inner=True)
def partition_batch(thread: int, state: s.State, n_jobs: int) -> None:
    """Divide the rows of all parents of a batch: of large nodes together, of small ones alone."""
    n_threads = state.team.n_threads
    for j in range(n_jobs):
        parent = state.tree.batch[j, s.JOB_PARENT]
        if parent < 0:
            continue
        row = state.tree.table[parent]
        column = state.bins.by_column[row[s.NODE_COLUMN]]
        if row[s.NODE_COUNT] >= ROWS_TO_SHARE and n_threads > 1:
            partition_node(thread, state, column, row)
        elif j % n_threads == thread:
            partition_alone(state.rows, column, row)
    barrier(state.team)
