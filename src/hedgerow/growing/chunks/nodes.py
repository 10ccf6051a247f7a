"""What all threads do with the histograms of many nodes, once all chunks are seen.

The sums of the builds of a pass (:mod:`hedgerow.growing.chunks.stages`) are put together
from the parts of a rank and, by way of messages, from the ranks; then each rank searches
its block of columns, and the best splits are compared.

A message holds for each rank, for each build, for each column of its block: g, the number
of rows, and h where it is not that number.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.growing.chunks.stages import Building, empty_cells, packing_of, share_columns
from hedgerow.growing.core.batch import (
    JOB_HISTOGRAMS,
    JOB_LARGE,
    JOB_LARGE_SLOT,
    JOB_SEARCH_LARGE,
    JOB_SEARCH_SMALL,
    JOB_SMALL,
    JOB_SMALL_SLOT,
    SUBTRACTED,
    best_thread,
    member,
)
from hedgerow.growing.core.building import subtract_node
from hedgerow.growing.core.frontier import keep_best, release_slot
from hedgerow.growing.core.searching import search_node
from hedgerow.growing.core.state import Options, Search, Settings, Tree
from hedgerow.growing.sampling.draws import allow_children
from hedgerow.kernels.histograms.histogram import Bins, Columns, HistogramSums, add_histogram_sums
from hedgerow.kernels.primitives.barrier import ThreadTeam, barrier, share
from hedgerow.kernels.splits.split import SplitRules


@kernel(inner=True)
def end_builds(
    thread: int,
    team: ThreadTeam,
    columns: Columns,
    stride: int,
    scalars: IntArray,
    building: Building,
) -> None:
    """Empty all cells; add the sums of all parts to those of part 0."""
    packing = packing_of(scalars)
    n_parts = team.n_threads // building.n_groups
    if thread // building.n_groups < n_parts:
        span = share_columns(thread, building)
        for build in range(len(building.nodes)):
            empty_cells(thread, build, packing, columns, span, stride, building)
            building.filled[thread, build] = 0
    barrier(team)
    span = share(building.last - building.first, thread, team.n_threads)
    for build in range(len(building.nodes)):
        for part in range(1, n_parts):
            for k in range(building.first + span[0], building.first + span[1]):
                at = columns.feature[k] * stride
                to, source = building.at[0, build] + at, building.at[part, build] + at
                add_histogram_sums(building.histograms, to, source, stride, 1)
    barrier(team)


@kernel
def write_message(
    thread: int,
    team: ThreadTeam,
    columns: Columns,
    stride: int,
    building: Building,
    n_fields: int,
    n_ranks: int,
    message: IntArray,
) -> None:
    """Lay the sums of all builds out by rank: its columns of each build, g, n, and h if asked."""
    n_columns, n_builds = building.last, len(building.nodes)
    histograms = building.histograms
    for rank in range(n_ranks):
        first, last = share(n_columns, rank, n_ranks)
        start = first * n_builds * n_fields * stride
        span = share(last - first, thread, team.n_threads)
        for build in range(n_builds):
            for k in range(first + span[0], first + span[1]):
                to = start + (build * (last - first) + k - first) * n_fields * stride
                at = building.at[0, build] + columns.feature[k] * stride
                for b in range(stride):
                    message[to + b] = histograms.g[at + b]
                    message[to + stride + b] = histograms.n[at + b]
                if n_fields == 3:
                    for b in range(stride):
                        message[to + 2 * stride + b] = histograms.h[at + b]
    barrier(team)


@kernel
def read_message(
    thread: int,
    team: ThreadTeam,
    columns: Columns,
    stride: int,
    block: tuple[int, int],
    n_fields: int,
    message: IntArray,
    histograms: HistogramSums,
    places: IntArray,
) -> None:
    """Write the sums of the columns ``block`` of each build to its place."""
    first, last = block
    span = share(last - first, thread, team.n_threads)
    h_field = np.int64(2 if n_fields == 3 else 1)
    for build in range(len(places)):
        for k in range(first + span[0], first + span[1]):
            start = (build * (last - first) + k - first) * n_fields * stride
            at = places[build] + columns.feature[k] * stride
            for b in range(stride):
                histograms.g[at + b] = message[start + b]
                histograms.n[at + b] = message[start + stride + b]
                histograms.h[at + b] = message[start + h_field * stride + b]
    barrier(team)


@kernel(inner=True)
def subtract_job(
    thread: int,
    span: tuple[int, int],
    bins: Bins,
    columns: Columns,
    place: tuple[HistogramSums, int, int],
    job: IntArray,
    options: Options,
) -> None:
    """Histogram of the larger child of a job in columns ``span``, if it is to be subtracted."""
    if job[JOB_HISTOGRAMS] == SUBTRACTED:
        histograms, slot_size, before = place
        small = before + job[JOB_SMALL_SLOT] * slot_size
        large = before + job[JOB_LARGE_SLOT] * slot_size
        subtract_node(thread, span, bins, columns, histograms, large, small, options.lists, None)


@kernel
def search_jobs(
    thread: int,
    team: ThreadTeam,
    settings: Settings,
    rules: SplitRules,
    bins: Bins,
    columns: Columns,
    block: tuple[int, int],
    place: tuple[HistogramSums, int, int],
    nodes: tuple[IntArray, IntArray, IntArray],
    search: Search,
    scalars: IntArray,
    options: Options,
) -> None:
    """Histograms of the larger children, and best splits of all, in columns ``block``.

    ``place`` is where slots are: wide sums, cells of a slot, and what stands before column
    0 of slot 0; ``nodes`` are the table of nodes, the jobs and, to be written, what was
    found: int64 (jobs, threads, 2, FOUND_FIELDS).  ``search``, ``scalars`` and space in
    ``options`` are this thread's own.
    """
    table, jobs, found = nodes
    histograms, slot_size, before = place
    first, last = share(block[1] - block[0], thread, team.n_threads)
    span = (block[0] + first, block[0] + last)
    for j in range(len(jobs)):
        job = jobs[j]
        subtract_job(thread, span, bins, columns, place, job, options)
        allow_children(settings, search.allowed, table, job, scalars, options)
        for child in range(2):
            node, slot, searched = member(job, child)
            if searched == 1:
                search_node(
                    thread, span, settings, rules, bins, columns,
                    (histograms, before + slot * slot_size), search, child, (node, table[node]),
                    scalars, options,
                )  # fmt: skip
                for k in range(found.shape[3]):
                    found[j, thread, child, k] = search.found[thread, child, k]
    barrier(team)


@kernel
def best_of_threads(jobs: IntArray, found: IntArray, best: IntArray) -> None:
    """Keep the best split of each child; int64 (jobs, 1, 2, FOUND_FIELDS)."""
    for j in range(len(jobs)):
        for child in range(2):
            if jobs[j, JOB_SEARCH_SMALL if child == 0 else JOB_SEARCH_LARGE] == 0:
                continue
            at = best_thread(found[j], child)
            for k in range(best.shape[3]):
                best[j, 0, child, k] = found[j, at, child, k]


@kernel
def commit_splits(
    settings: Settings,
    rules: SplitRules,
    tree: Tree,
    scalars: IntArray,
    jobs: IntArray,
    found: IntArray,
    options: Options,
) -> None:
    """Write the best splits into the table of nodes; int64 (jobs, any, 2, FOUND_FIELDS)."""
    for j in range(len(jobs)):
        for child in range(2):
            node = jobs[j, JOB_SMALL if child == 0 else JOB_LARGE]
            if jobs[j, JOB_SEARCH_SMALL if child == 0 else JOB_SEARCH_LARGE] == 1:
                keep_best(settings, rules, tree, scalars, found[j], node, child, options, None)
            elif node >= 0:
                release_slot(tree, scalars, node)
