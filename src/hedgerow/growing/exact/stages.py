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
    search:   scan the lists of both children          kernels.presorted.exact

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
from hedgerow.growing.core.batch import member, note_split
from hedgerow.growing.core.stages.building import ROWS_TO_SHARE, partition_node
from hedgerow.growing.core.stages.gradients import units_of
from hedgerow.growing.core.stages.leaves import sum_rows
from hedgerow.kernels.presorted.exact import (
    NO_CUT,
    ROW_BITS,
    CutBuffer,
    ExactSplit,
    SearchedList,
    divide_entries,
    search_list,
    thin_runs,
)
from hedgerow.kernels.primitives.barrier import barrier, share
from hedgerow.kernels.primitives.intrinsics import float_of_bits
from hedgerow.kernels.splits.constraints import (
    ConstrainedColumn,
    SearchedNode,
    factor_of,
    searched_node,
)
from hedgerow.kernels.splits.split import NodeSums, comparable

EVERY_VALUE, GLOBAL, LOCAL = 0, 1, 2
"""The cuts to score: all, those at the tree's candidates, those at the node's candidates."""

_COLUMN_COST = 32
"""Entries that take the time of setting out on a column."""


@kernel(inner=True)
def share_entries(thread: int, state: s.State) -> tuple[int, int]:
    """Return the first and last column that ``thread`` divides and searches: an even share."""
    starts, columns = state.sorted_columns.lists.starts, state.options.features
    n_columns, n_threads, total = state.scalars[s.IS_N_COLUMNS], state.team.n_threads, np.int64(0)
    for k in range(n_columns):
        total += starts[columns[k] + 1] - starts[columns[k]] + _COLUMN_COST
    first = last = np.int64(n_columns)
    before = np.int64(0)
    for k in range(n_columns):  # a column belongs to the thread whose share has its middle
        cost = starts[columns[k] + 1] - starts[columns[k]] + _COLUMN_COST
        if first == n_columns and (2 * before + cost) * n_threads >= 2 * total * thread:
            first = np.int64(k)
        if last == n_columns and (2 * before + cost) * n_threads >= 2 * total * (thread + 1):
            last = np.int64(k)
        before += cost
    return first, np.int64(n_columns) if thread + 1 == n_threads else last


@kernel(inline=True, inner=True)
def reads_entries(node: int, state: s.State) -> bool:
    """Return whether the node's lists are the blocks: those of a root without left-out rows."""
    is_whole = state.settings.subsample >= 1.0 and state.sorted_columns.sketch != GLOBAL
    return node == 0 and is_whole


@kernel(inner=True)
def open_root(thread: int, span: tuple[int, int], state: s.State, slot: int) -> None:
    """Set out the root's lists of columns ``span``: sampled rows, candidates of the tree."""
    own = state.sorted_columns
    lists, scratch = own.lists, own.lists.scratch[thread]
    for k in range(span[0], span[1]):
        column = np.int64(state.options.features[k])
        start, stop = lists.starts[column], lists.starts[column + 1]
        source = lists.entries
        if state.settings.subsample < 1.0:
            place = (start, stop)
            stop = start + divide_entries(source, place, lists.sides, lists.work, scratch)
            source = lists.work
        if own.sketch == GLOBAL:
            thin_runs(source, (start, stop), state.rows.quantized, own.eps, lists.work, start)
        lists.segments[slot, column, 0] = start
        lists.segments[slot, column, 1] = stop


@kernel(inline=True, inner=True)
def start_lists(thread: int, state: s.State) -> None:
    """Mark the rows outside the sample; add up g and h of the others."""
    settings, ids, sides = state.settings, state.rows.rows, state.sorted_columns.lists.sides
    n_sampled, team = state.scalars[s.IS_N_ROWS], state.team
    if settings.subsample < 1.0:
        place = share(settings.n_rows, thread, team.n_threads)
        for i in range(np.uint64(place[0]), np.uint64(place[1])):
            sides[np.uint64(ids[i])] = np.uint8(i >= np.uint64(n_sampled))
    start, stop = share(n_sampled, thread, team.n_threads)
    sums = state.threads.leaf_sums[thread]
    sums[0, 0], sums[1, 0] = sum_rows(state.rows.quantized, ids, start, stop)
    barrier(team)


# -- divide -------------------------------------------------------------------------------


@kernel(inner=True)
def mark_rows(thread: int, state: s.State, source: RowArray, row: IntArray, node: int) -> None:
    """Write the side of every row of the node with table row ``row``."""
    lists, ids, team = state.sorted_columns.lists, state.rows.rows, state.team
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
                sides[np.uint64(ids[i])] = default
        barrier(team)
    if thread < n_parts:
        first, last = share(n_present, thread, n_parts)
        border = np.uint64(start + middle)  # entries before it go left
        for i in range(np.uint64(start + first), np.uint64(start + last)):
            sides[np.uint64(source[i] & ROW_BITS)] = np.uint8(i >= border)
    if thread == 0:
        lists.edges[node, 0] = source[start + middle - 1] & ROW_BITS
        lists.edges[node, 1] = source[start + min(middle, n_present - 1)] & ROW_BITS
    barrier(team)


@kernel(inner=True)
def split_lists(thread: int, span: tuple[int, int], state: s.State) -> None:
    """Divide the rows of the parent of the batch and, if a child is searched, its lists."""
    job, lists = state.tree.batch[0], state.sorted_columns.lists
    parent = job[s.JOB_PARENT]
    if parent < 0:
        return
    row = state.tree.table[parent]
    source = lists.work
    if reads_entries(parent, state):
        source = lists.entries
    mark_rows(thread, state, source, row, parent)
    partition_node(thread, state, lists.sides, row)
    if job[s.JOB_SMALL] >= 0:
        left, right = job[s.JOB_SMALL_SLOT], job[s.JOB_LARGE_SLOT]
        if job[s.JOB_SMALL] != row[s.NODE_LEFT]:
            left, right = right, left
        segments, of_parent = lists.segments, lists.slot_of[parent]
        for k in range(span[0], span[1]):
            column = np.int64(state.options.features[k])
            start, stop = segments[of_parent, column, 0], segments[of_parent, column, 1]
            place, scratch = (start, stop), lists.scratch[thread]
            middle = start + divide_entries(source, place, lists.sides, lists.work, scratch)
            segments[left, column, 0] = start
            segments[left, column, 1] = middle
            segments[right, column, 0] = middle
            segments[right, column, 1] = stop
    barrier(state.team)


# -- search -------------------------------------------------------------------------------


@kernel(inline=True, inner=True)
def search_columns(
    thread: int, span: tuple[int, int], state: s.State, child: int, slot: int, aim: SearchedNode
) -> ExactSplit:
    """Return the best cut of a node in columns ``span``."""
    own, constraints = state.sorted_columns, state.options.constraints
    quantized = state.rows.quantized
    lists, buffers, sums, limits = own.lists, own.lists.cuts, aim.sums, aim.limits
    source, scratch = lists.work, lists.scratch[thread]
    if reads_entries(aim.number, state):
        source = lists.entries
    cuts = CutBuffer(buffers.g[thread], buffers.h[thread], buffers.n[thread], buffers.score[thread])
    best = NO_CUT
    for k in range(span[0], span[1]):
        column = np.int64(state.options.features[k])
        start, stop = lists.segments[slot, column, 0], lists.segments[slot, column, 1]
        if stop == start or state.search.allowed[child, column] == 0:
            continue
        entries, at = source, (start, stop)
        if own.sketch == LOCAL:
            thin_runs(source, at, quantized, own.eps, scratch, np.int64(0))
            entries, at = scratch, (np.int64(0), stop - start)
        own_list = SearchedList(entries, at, quantized, cuts, limits, column)
        if constraints.scored == 0:
            best = search_list(own_list, sums, best, None)
        else:
            wanted = ConstrainedColumn(
                constraints.sign[column], factor_of(constraints, column, aim.asked), stop - start,
                aim.within, aim.asked,
            )  # fmt: skip
            best = search_list(own_list, sums, best, wanted)
    return best


@kernel(inline=True, inner=True)
def search_lists(thread: int, span: tuple[int, int], state: s.State) -> None:
    """Find the best splits of the nodes of the batch, with their scores in comparable units."""
    segments, units = (
        state.sorted_columns.lists.segments,
        units_of(state.scalars, state.settings.constant_hessian, 0),
    )
    for child in range(2):
        node, slot, searched = member(state.tree.batch[0], child)
        if searched == 0:
            continue
        if thread == 0:
            state.sorted_columns.lists.slot_of[node] = slot
        if node == 0:
            open_root(thread, span, state, slot)
        row, found = state.tree.table[node], state.search.found[thread, child]
        sums = NodeSums(row[s.NODE_G], row[s.NODE_H], row[s.NODE_COUNT])
        aim = searched_node(state.options.constraints, node, sums, units, state.rules)
        best = search_columns(thread, span, state, np.int64(child), slot, aim)
        score, missing_left, apart = -1.0, best.missing_left, np.int64(0)
        if best.score >= 0:
            score = comparable(float_of_bits(best.score), units)
            n_present = segments[slot, best.feature, 1] - segments[slot, best.feature, 0]
            if missing_left == 0:
                apart = np.int64(best.n_present == n_present)  # SETS_APART
                # Where no row is missing, a later one goes with the larger part.
                if n_present == sums.n:
                    missing_left = np.int64(2 * best.n_left >= sums.n)
        left = NodeSums(best.g_left, best.h_left, best.n_left)
        note_split(found, score, best.feature, apart, best.n_present, missing_left, left)
        found[s.FOUND_SET] = 1  # side 0 goes left
    barrier(state.team)
