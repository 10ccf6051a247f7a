"""Sorted lists of rows: what exact and approximate trees have in place of histograms.

Glossary
--------
list      the rows of one node in the order of one column (:mod:`hedgerow.kernels.presorted.exact`)
segment   where a node's list lies among the lists of all nodes
slot      row of the table of segments that a node which may be split occupies
sides     for the node being split: 0 for rows that go left, 1 for the others

::

    root:     its lists are the blocks, sorted once   data.blocks
    a split:  mark the side of each row of the node, from the list of the column that it splits
              divide its rows and, each thread its own columns, its lists
    search:   scan the lists of both children          growing.exact.searching

The loop, samples, choice of nodes and leaf values are those of histograms
(:mod:`hedgerow.growing.core.grow`).  XGBoost scans whole
blocks once a level and looks up the node of every entry; here the list of each
node lies side by side, so that the sums of a scan stay in registers, a node
costs what its own entries cost, and leaf-wise growth is as cheap as level-wise.

Candidates (``tree_method="approx"``) are weighted quantiles, weights being
hessians: of the sample, once a tree (``global``), or of the rows of each node,
anew (``local``).  The exact ranks along a sorted column are a summary of it
without error, so the candidates are those of a quantile sketch
(:mod:`hedgerow.data.binning.sketch`, for data that are not sorted) of error zero.

Sums are integers: the trees are the same bytes for any number of threads.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray, RowArray
from hedgerow.compile import kernel
from hedgerow.growing.core import state as s
from hedgerow.growing.core.stages.partition import ROWS_TO_SHARE, partition_node
from hedgerow.growing.core.state import Choice, Lists, Rows, Settings, Sorted, State, Threads, Tree
from hedgerow.kernels.presorted.exact import (
    divide_entries,
    mark_sides,
    thin_runs,
)
from hedgerow.kernels.primitives.barrier import ThreadTeam, barrier, share

EVERY_VALUE, GLOBAL, LOCAL = 0, 1, 2
"""The cuts to score: all, those at the tree's candidates, those at the node's candidates."""

_COLUMN_COST = 32
"""Entries that take the time of setting out on a column."""


@kernel(inner=True)
def first_column(
    starts: IntArray, choice: Choice, n_columns: int, team: ThreadTeam, thread: int
) -> int:
    """Return the first column of ``thread`` if entries are divided evenly; it never decreases."""
    total = np.int64(0)
    for k in range(n_columns):
        column = choice.columns[k]
        total += starts[column + 1] - starts[column] + _COLUMN_COST
    before = np.int64(0)
    for k in range(n_columns):
        column = choice.columns[k]
        cost = starts[column + 1] - starts[column] + _COLUMN_COST
        if (2 * before + cost) * team.n_threads >= 2 * total * thread:
            return np.int64(k)
        before += cost
    return np.int64(n_columns)


@kernel(inner=True)
def share_entries(
    thread: int, team: ThreadTeam, sorted_columns: Sorted, n_columns: int
) -> tuple[int, int]:
    """Return the first and last column that ``thread`` divides and searches."""
    starts, choice = sorted_columns.lists.starts, sorted_columns.choice
    first = first_column(starts, choice, n_columns, team, thread)
    if thread + 1 == team.n_threads:
        return first, np.int64(n_columns)
    return first, first_column(starts, choice, n_columns, team, thread + 1)


@kernel(inner=True)
def reads_entries(node: int, settings: Settings, choice: Choice) -> bool:
    """Return whether the node's lists are the blocks: those of a root without left-out rows."""
    return node == 0 and not (settings.subsample < 1.0 or choice.sketch == GLOBAL)


@kernel(inner=True)
def open_root(
    thread: int,
    span: tuple[int, int],
    settings: Settings,
    rows: Rows,
    lists: Lists,
    choice: Choice,
    slot: int,
) -> None:
    """Set out the root's lists of columns ``span``: sampled rows, candidates of the tree."""
    starts, scratch = lists.starts, lists.scratch[thread]
    for k in range(span[0], span[1]):
        column = np.int64(choice.columns[k])
        start, stop = starts[column], starts[column + 1]
        source = lists.entries
        if settings.subsample < 1.0:
            place = (start, stop)
            stop = start + divide_entries(source, place, lists.sides, lists.work, scratch)
            source = lists.work
        if choice.sketch == GLOBAL:
            thin_runs(source, (start, stop), rows.quantized, choice.eps, lists.work, start)
        lists.segments[slot, column, 0] = start
        lists.segments[slot, column, 1] = stop


@kernel(inline=True, inner=True)
def start_lists(thread: int, state: State, sorted_columns: Sorted) -> None:
    """Mark the rows outside the sample; add up g and h of the others."""
    settings, ids, sides = state.settings, state.rows.rows, sorted_columns.lists.sides
    n_sampled, team = state.scalars[s.IS_N_ROWS], state.team
    if settings.subsample < 1.0:
        place = share(settings.n_rows, thread, team.n_threads)
        for i in range(np.uint64(place[0]), np.uint64(place[1])):
            sides[np.uint64(ids[i])] = np.uint8(i >= np.uint64(n_sampled))
    sum_sample(thread, team, state.rows, state.threads, n_sampled)
    barrier(team)


@kernel(inner=True)
def sum_sample(thread: int, team: ThreadTeam, rows: Rows, threads: Threads, n_sampled: int) -> None:
    """Add up g and h of this thread's share of the sample."""
    start, stop = share(n_sampled, thread, team.n_threads)
    ids, quantized = rows.rows, rows.quantized
    two, one = np.uint64(2), np.uint64(1)
    g, h = np.int64(0), np.int64(0)
    for i in range(np.uint64(start), np.uint64(stop)):
        at = two * np.uint64(ids[i])
        g += np.int64(quantized[at])
        h += np.int64(quantized[at + one])
    threads.leaf_sums[thread, 0, 0] = g
    threads.leaf_sums[thread, 1, 0] = h


@kernel(inline=True, inner=True)
def set_root(tree: Tree, sums: IntArray, scalars: IntArray) -> None:
    """Thread 0: the root's sums, in fixed numbers (no bits dropped as in histograms)."""
    scalars[s.IS_DROPPED_BITS] = 0
    for t in range(sums.shape[0]):
        tree.table[0, s.NODE_G] += sums[t, 0, 0]
        tree.table[0, s.NODE_H] += sums[t, 1, 0]


@kernel(inner=True)
def mark_rows(
    thread: int,
    team: ThreadTeam,
    rows: Rows,
    lists: Lists,
    source: RowArray,
    row: IntArray,
    node: int,
) -> None:
    """Write the side of every row of the node with table row ``row``."""
    slot, feature = lists.slot_of[node], row[s.NODE_FEATURE]
    start, stop = lists.segments[slot, feature, 0], lists.segments[slot, feature, 1]
    n_present, middle = stop - start, row[s.NODE_BIN]
    count = row[s.NODE_COUNT]
    n_parts = team.n_threads if count >= ROWS_TO_SHARE else np.int64(1)
    sides = lists.sides
    if n_present < count:
        if thread < n_parts:
            first, last = share(count, thread, n_parts)
            default = np.uint8(1 - row[s.NODE_MISSING_LEFT])
            for i in range(row[s.NODE_START] + first, row[s.NODE_START] + last):
                sides[np.uint64(rows.rows[i])] = default
        barrier(team)
    if thread < n_parts:
        first, last = share(n_present, thread, n_parts)
        mark_sides(source, start, start + first, start + last, middle, sides)
    if thread == 0:
        row_bits = np.uint32((1 << 31) - 1)
        lists.edges[node, 0] = source[start + middle - 1] & row_bits
        lists.edges[node, 1] = source[start + min(middle, n_present - 1)] & row_bits
    barrier(team)


@kernel(inner=True)
def divide_lists(
    thread: int,
    span: tuple[int, int],
    lists: Lists,
    source: RowArray,
    columns: np.ndarray,
    slots: tuple[int, int, int],
) -> None:
    """Divide the lists of columns ``span``; ``slots`` are those of parent, left and right child."""
    parent, left, right = slots
    scratch, segments = lists.scratch[thread], lists.segments
    for k in range(span[0], span[1]):
        column = np.int64(columns[k])
        start, stop = segments[parent, column, 0], segments[parent, column, 1]
        middle = start + divide_entries(source, (start, stop), lists.sides, lists.work, scratch)
        segments[left, column, 0] = start
        segments[left, column, 1] = middle
        segments[right, column, 0] = middle
        segments[right, column, 1] = stop


@kernel(inner=True)
def split_lists(
    thread: int, span: tuple[int, int], state: State, job: IntArray, sorted_columns: Sorted
) -> None:
    """Divide the rows of the parent of ``job`` and, if a child is searched, its lists."""
    parent = job[s.JOB_PARENT]
    if parent < 0:
        return
    team, lists, choice = state.team, sorted_columns.lists, sorted_columns.choice
    row = state.tree.table[parent]
    source = lists.work
    if reads_entries(parent, state.settings, choice):
        source = lists.entries
    mark_rows(thread, team, state.rows, lists, source, row, parent)
    partition_node(thread, team, state.rows, lists.sides, row, state.threads.counts)
    if job[s.JOB_SMALL] >= 0:
        small, large = job[s.JOB_SMALL_SLOT], job[s.JOB_LARGE_SLOT]
        if job[s.JOB_SMALL] == row[s.NODE_LEFT]:
            slots = (lists.slot_of[parent], small, large)
        else:
            slots = (lists.slot_of[parent], large, small)
        divide_lists(thread, span, lists, source, choice.columns, slots)
    barrier(team)
