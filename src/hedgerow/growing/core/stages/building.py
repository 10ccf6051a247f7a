"""Histograms of the nodes of a batch, each thread in its own columns.

Work is divided in two ways.  Rows of a large node are divided between threads when a tile of
features is all there is: each thread adds up sums of its own, which are then merged.
Otherwise features are divided, which needs no merge.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core import state as s
from hedgerow.growing.core.batch import member
from hedgerow.growing.core.stages.partition import ROWS_TO_SHARE
from hedgerow.growing.cuda.ahead import fetch_histogram, take_histogram
from hedgerow.growing.cuda.vectors import take_vectors
from hedgerow.kernels.histograms.histogram import (
    Bins,
    Columns,
    HistogramSums,
    Packing,
    RowLists,
    add_column,
    build_histogram,
    filled_cells,
)
from hedgerow.kernels.histograms.vector_histogram import (
    Sums,
    add_cells,
    build_columns,
    list_filled,
    subtract_cells,
)
from hedgerow.kernels.primitives.barrier import barrier, share


@kernel(inline=True, inner=True)
def add_sums(
    thread: int,
    bins: Bins,
    column: int,
    histograms: HistogramSums,
    target: int,
    source: int,
    sign: int,
    lists: RowLists,
    vectors: s.Vectors,
) -> None:
    """Add the sums of a column at ``source`` to those at ``target``, or subtract them (-1)."""
    if vectors.used == 0:
        filled = filled_cells(bins, column, lists.used == 1)
        add_column(histograms, target, source, filled, bins.stride, sign)
    else:
        sums, filled_bins = vectors.outputs.sums, vectors.trial.filled[thread]
        add_vector_sums(bins, column, target, source, sign, sums, filled_bins)


@kernel(inline=True, inner=True)
def add_vector_sums(
    bins: Bins, column: int, target: int, source: int, sign: int, sums: Sums, filled_bins: IntArray
) -> None:
    """:func:`add_sums` of several outputs; ``filled_bins`` is scratch."""
    n_bins = np.int64(bins.n_bins[column])
    n_filled = list_filled(sums.n, source, n_bins, bins.stride, filled_bins)
    if sign > 0:
        add_cells(sums, target, source, filled_bins, n_filled)
    else:
        subtract_cells(sums, target, source, filled_bins, n_filled)


@kernel(inner=True)
def build_node(
    thread: int,
    state: s.State,
    place: tuple[int, int],
    slot: int,
) -> None:
    """Build the histogram of rows ``place`` (start, count); each thread completes its columns."""
    team, settings, bins, scalars = state.team, state.settings, state.bins, state.scalars
    columns, rows, histograms = state.columns, state.rows, state.histograms
    lists, vectors = state.options.lists, state.vectors
    start, count = place
    n_columns = scalars[s.IS_N_COLUMNS]
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
            packing = Packing(
                scalars[s.IS_COUNT_BITS], scalars[s.IS_HESSIAN_BITS], scalars[s.IS_G_APART]
            )
            cells = state.threads.cells[thread]
            build_histogram(
                bins, packing, rows.packed, columns, chosen, rows.rows, first, last, cells,
                histograms, to, lists,
            )  # fmt: skip
        else:
            words, sums = vectors.outputs.words, vectors.outputs.sums
            build_columns(bins, columns, chosen, rows.rows, (first, last), words, sums, to)
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
            add_sums(
                thread, bins, column, histograms, slot * slot_size + at, source, 1, lists, vectors
            )
    # The sums of one thread may be its own again: a second node may need them at once.
    barrier(team)


@kernel(inner=True)
def subtract_node(
    thread: int,
    span: tuple[int, int],
    bins: Bins,
    columns: Columns,
    histograms: HistogramSums,
    large: int,
    small: int,
    lists: RowLists,
    vectors: s.Vectors,
) -> None:
    """Turn the parent's histogram at ``large`` into the larger child's, for columns ``span``."""
    for k in range(span[0], span[1]):
        column = np.int64(columns.feature[k])
        at = column * bins.stride
        add_sums(thread, bins, column, histograms, large + at, small + at, -1, lists, vectors)


@kernel(inner=True)
def sum_root(
    columns: Columns, stride: int, histograms: HistogramSums, slot_start: int, root: IntArray
) -> None:
    """Read the root's sums off the histogram of its first column."""
    at = slot_start + columns.feature[0] * stride
    g, h = np.int64(0), np.int64(0)
    for b in range(at, at + stride):
        g += histograms.g[b]
        h += histograms.h[b]
    root[s.NODE_G] = g
    root[s.NODE_H] = h


@kernel(inline=True, inner=True)
def build_rows(
    thread: int,
    state: s.State,
    node: int,
    slot: int,
    parent: int,
) -> None:
    """Build the histogram of a node from its rows, in a slot."""
    # If the node is the smaller child of ``parent`` (else -1), this batch has divided the rows
    # there.
    table, team, gpu = state.tree.table, state.team, state.gpu
    if gpu.used == 0:
        place = (table[node, s.NODE_START], table[node, s.NODE_COUNT])
        build_node(thread, state, place, slot)
    else:
        if thread == 0:
            fetch_histogram(table, parent, node, gpu)
        barrier(team)
        span = share(state.scalars[s.IS_N_COLUMNS], thread, team.n_threads)
        to = slot * state.settings.n_columns * state.bins.stride
        feature = state.columns.feature
        if state.vectors.used == 0:
            take_histogram(span, state.bins, feature, node, to, state.histograms, gpu)
        else:
            take_vectors(span, state.bins, feature, node, to, state.vectors.outputs.sums, gpu)


@kernel(inline=True, inner=True)
def make_histogram(
    thread: int,
    span: tuple[int, int],
    state: s.State,
    job: IntArray,
    child: int,
) -> None:
    """Build or subtract the histogram of the smaller (0) or the larger (1) child of a job."""
    bins, columns, histograms = state.bins, state.columns, state.histograms
    lists, vectors = state.options.lists, state.vectors
    (node, slot, searched), how = member(job, child), job[s.JOB_HISTOGRAMS]
    if node < 0 or how == s.KEPT:
        return
    size = state.settings.n_columns * bins.stride
    if child == 1 and how == s.SUBTRACTED:
        small = job[s.JOB_SMALL_SLOT] * size
        subtract_node(thread, span, bins, columns, histograms, slot * size, small, lists, vectors)
    elif searched == 1 or how == s.SUBTRACTED:
        parent = job[s.JOB_PARENT] if child == 0 else np.int64(-1)
        build_rows(thread, state, node, slot, parent)
    if vectors.used == 0 and node == 0:
        if span[0] == 0 and span[1] > 0:
            sum_root(columns, bins.stride, histograms, slot * size, state.tree.table[0])
        barrier(state.team)
