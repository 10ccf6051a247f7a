"""The rows of the nodes of a batch: divided between children, and added up in histograms.

Histograms are divided between threads in two ways.  Rows of a large node are divided when a tile of
features is all there is: each thread adds up sums of its own, which are then merged.
Otherwise features are divided, which needs no merge.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import BinArray, IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core import state as s
from hedgerow.growing.core.batch import member
from hedgerow.growing.cuda.stages import fetch_histogram, take_histogram
from hedgerow.kernels.histograms.histogram import (
    Bins,
    Packing,
    add_histogram_sums,
    build_histogram,
    filled_cells,
)
from hedgerow.kernels.histograms.partition import copy_forward, copy_reversed, divide, divide_alone
from hedgerow.kernels.histograms.vector_histogram import (
    Sums,
    add_cells,
    add_to_columns,
    empty_columns,
    list_filled,
)
from hedgerow.kernels.primitives.barrier import barrier, share

ROWS_TO_SHARE = 8192
"""Nodes with fewer rows are partitioned by one thread, and their histograms
divided by features: below this a merge costs more than it saves."""


@kernel(inner=True)
def partition_alone(rows: s.Rows, column: BinArray, row: IntArray) -> None:
    """Order the rows of a node by their bins, left child first; one thread."""
    start, stop = row[s.NODE_START], row[s.NODE_START] + row[s.NODE_COUNT]
    divide_alone(column, row, s.NODE_SET, rows.rows, rows.scratch, start, stop)


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


@kernel(inline=True, inner=True)
def add_sums(thread: int, state: s.State, column: int, target: int, source: int, sign: int) -> None:
    """Add the sums of a column at ``source`` to those at ``target``, or subtract them (-1)."""
    bins = state.bins
    if state.vectors.used == 0:
        filled = filled_cells(bins, column, state.options.lists.used == 1)
        add_histogram_sums(state.histograms, target, source, filled, sign)
        if filled < bins.stride:  # the last cell of the column can hold rows, too
            last = bins.stride - 1
            add_histogram_sums(state.histograms, target + last, source + last, np.int64(1), sign)
    else:
        sums, filled_bins = state.vectors.outputs.sums, state.vectors.trial.filled[thread]
        add_vector_sums(bins, column, target, source, sign, sums, filled_bins)


@kernel(inline=True, inner=True)
def add_vector_sums(
    bins: Bins, column: int, target: int, source: int, sign: int, sums: Sums, filled_bins: IntArray
) -> None:
    """:func:`add_sums` of several outputs; ``filled_bins`` is scratch."""
    n_bins = np.int64(bins.n_bins[column])
    n_filled = list_filled(sums.n, source, n_bins, bins.stride, filled_bins)
    add_cells(sums, target, source, filled_bins, n_filled, sign)


@kernel(inline=True, inner=True)
def packing_of(scalars: IntArray) -> Packing:
    """Return the packing of the numbers of rows."""
    return Packing(scalars[s.IS_COUNT_BITS], scalars[s.IS_HESSIAN_BITS], scalars[s.IS_G_APART])


@kernel(inner=True)
def build_node(thread: int, state: s.State, node: int, slot: int) -> None:
    """Build the histogram of a node in a slot; each thread completes its columns."""
    team, settings, bins, vectors = state.team, state.settings, state.bins, state.vectors
    columns, rows, row = state.columns, state.rows, state.tree.table[node]
    start, count = row[s.NODE_START], row[s.NODE_COUNT]
    n_columns = state.scalars[s.IS_N_COLUMNS]
    slot_size = settings.n_columns * bins.stride
    n_tiles = (n_columns + bins.features_per_tile - 1) // bins.features_per_tile
    n_groups = team.n_threads
    if count >= ROWS_TO_SHARE:
        n_groups = min(team.n_threads, n_tiles)
    n_parts = team.n_threads // n_groups
    group, part = thread % n_groups, thread // n_groups
    private = settings.n_slots + 2
    if part < n_parts:
        chosen = share(n_columns, group, n_groups)
        first, last = share(count, part, n_parts)
        first, last = start + first, start + last
        to = (slot if part == 0 else private + thread) * slot_size
        if vectors.used == 0:
            build_histogram(
                bins, packing_of(state.scalars), rows.packed, columns, chosen, rows.rows, first,
                last, state.threads.cells[thread], state.histograms, to, state.options.lists,
            )  # fmt: skip
        else:
            words, sums = vectors.outputs.words, vectors.outputs.sums
            empty_columns(columns, chosen, bins.stride, sums, to)
            add_to_columns(bins, columns, chosen, rows.rows, (first, last), words, sums, to)
    if n_groups == team.n_threads:
        return  # each thread has built the very columns that it will search
    barrier(team)
    span = share(n_columns, thread, team.n_threads)
    for other in range(n_groups, n_groups * n_parts):
        other_span = share(n_columns, other % n_groups, n_groups)
        for k in range(max(span[0], other_span[0]), min(span[1], other_span[1])):
            column = np.int64(columns.feature[k])
            at = column * bins.stride
            source = (private + other) * slot_size + at
            add_sums(thread, state, column, slot * slot_size + at, source, 1)
    # The sums of one thread may be its own again: a second node may need them at once.
    barrier(team)


@kernel(inner=True)
def subtract_node(
    thread: int, span: tuple[int, int], state: s.State, large: int, small: int
) -> None:
    """Turn the parent's histogram at ``large`` into the larger child's, for columns ``span``."""
    for k in range(span[0], span[1]):
        column = np.int64(state.columns.feature[k])
        at = column * state.bins.stride
        add_sums(thread, state, column, large + at, small + at, -1)


@kernel(inline=True, inner=True)
def build_rows(thread: int, state: s.State, node: int, slot: int, parent: int) -> None:
    """Build the histogram of a node from its rows, in a slot."""
    # If the node is the smaller child of ``parent`` (else -1), this batch has divided the rows
    # there.
    if state.gpu.used == 0:
        build_node(thread, state, node, slot)
    else:
        fetch_histogram(thread, state, parent, node)
        span = share(state.scalars[s.IS_N_COLUMNS], thread, state.team.n_threads)
        to = slot * state.settings.n_columns * state.bins.stride
        take_histogram(span, state, node, to)


@kernel(inline=True, inner=True)
def make_histogram(
    thread: int, span: tuple[int, int], state: s.State, job: IntArray, child: int
) -> None:
    """Build or subtract the histogram of the smaller (0) or the larger (1) child of a job."""
    (node, slot, searched), how = member(job, child), job[s.JOB_HISTOGRAMS]
    if node < 0 or how == s.KEPT:
        return
    stride = state.bins.stride
    size = state.settings.n_columns * stride
    if child == 1 and how == s.SUBTRACTED:
        subtract_node(thread, span, state, slot * size, job[s.JOB_SMALL_SLOT] * size)
    elif searched == 1 or how == s.SUBTRACTED:
        parent = job[s.JOB_PARENT] if child == 0 else np.int64(-1)
        build_rows(thread, state, node, slot, parent)
    if state.vectors.used == 0 and node == 0:
        if span[0] == 0 and span[1] > 0:  # the root's sums are those of its first column
            at, g, h = slot * size + state.columns.feature[0] * stride, np.int64(0), np.int64(0)
            for b in range(at, at + stride):
                g += state.histograms.g[b]
                h += state.histograms.h[b]
            state.tree.table[0, s.NODE_G], state.tree.table[0, s.NODE_H] = g, h
        barrier(state.team)
