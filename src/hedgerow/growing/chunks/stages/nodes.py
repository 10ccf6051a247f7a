"""Stages on the histograms of many nodes, after a pass over all chunks.

The sums of the builds of a pass (:mod:`hedgerow.growing.chunks.stages.rows`) are put together
from the parts of a rank and, by way of messages, from the ranks; then each rank searches
its block of columns, and the best splits are compared.

A message holds for each rank, for each build, for each column of its block: g, the number
of rows, and h where it is not that number; of vectors the number of rows, and pairs of words.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.growing.chunks.stages.rows import (
    Building,
    empty_cells,
    empty_sums,
    packing_of,
    share_columns,
)
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
from hedgerow.growing.core.stages.building import add_vector_sums, subtract_node
from hedgerow.growing.core.stages.frontier import keep_best, release_slot
from hedgerow.growing.core.stages.searching import search_node
from hedgerow.growing.core.state import (
    FOUND_FIELDS,
    Options,
    Search,
    Settings,
    Tree,
    Vectors,
)
from hedgerow.growing.sampling.draws import allow_children
from hedgerow.growing.vectors.search import search_vector_node
from hedgerow.kernels.histograms.histogram import Bins, Columns, HistogramSums, add_histogram_sums
from hedgerow.kernels.histograms.vector_histogram import Sums
from hedgerow.kernels.primitives.barrier import ThreadTeam, barrier, share
from hedgerow.kernels.primitives.intrinsics import bits_of_float, float_of_bits
from hedgerow.kernels.splits.split import SplitRules

# Fields of a node of several outputs, after those of its best split.
FOUND_PARENT, FOUND_GIVEN, FOUND_OWN = range(FOUND_FIELDS, FOUND_FIELDS + 3)


class Own(NamedTuple):
    """The arrays of a single thread."""

    search: Search
    scalars: IntArray
    options: Options


@kernel(inline=True, inner=True)
def end_build(
    thread: int,
    build: int,
    columns: Columns,
    span: tuple[int, int],
    stride: int,
    scalars: IntArray,
    building: Building,
    vectors: Vectors | None,
) -> None:
    """Complete the sums of a thread in columns ``span``."""
    if vectors is None:
        empty_cells(thread, build, packing_of(scalars), columns, span, stride, building)
    else:
        empty_sums(thread, build, columns, span, stride, building, vectors)
    building.filled[thread, build] = 0


@kernel(inline=True, inner=True)
def add_part(
    thread: int,
    bins: Bins,
    column: int,
    building: Building,
    to: int,
    source: int,
    vectors: Vectors | None,
) -> None:
    """Add the sums of a column of one part to those of another."""
    if vectors is None:
        add_histogram_sums(building.histograms, to, source, bins.stride, 1)
    else:
        add_vector_sums(thread, bins, column, to, source, 1, vectors)


@kernel(inner=True)
def end_builds(
    thread: int,
    team: ThreadTeam,
    bins: Bins,
    columns: Columns,
    scalars: IntArray,
    building: Building,
    vectors: Vectors | None,
) -> None:
    """Complete the sums of all threads; add those of all parts to those of part 0."""
    stride = bins.stride
    n_parts = team.n_threads // building.n_groups
    if thread // building.n_groups < n_parts:
        span = share_columns(thread, building)
        for build in range(len(building.nodes)):
            end_build(thread, build, columns, span, stride, scalars, building, vectors)
    barrier(team)
    span = share(building.last - building.first, thread, team.n_threads)
    for build in range(len(building.nodes)):
        for part in range(1, n_parts):
            for k in range(building.first + span[0], building.first + span[1]):
                column = np.int64(columns.feature[k])
                at = column * stride
                to, source = building.at[0, build] + at, building.at[part, build] + at
                add_part(thread, bins, column, building, to, source, vectors)
    barrier(team)


@kernel(inner=True)
def write_vectors(sums: Sums, at: int, stride: int, message: IntArray, to: int) -> None:
    """Write the sums of a column to a message: row counts, then two words of a bin at a time."""
    # Sums over all ranks fit 32 bits, so the sum of such pairs is the pair of the sums.
    half = sums.width // 2
    for b in range(stride):
        message[to + b] = np.int64(sums.n[at + b])
        pair, word = to + stride + b * half, (at + b) * sums.width
        if sums.n[at + b] == 0:
            message[pair : pair + half] = 0
            continue
        for k in range(half):
            first, second = sums.cells[word + 2 * k], sums.cells[word + 2 * k + 1]
            message[pair + k] = np.int64(first) + (np.int64(second) << 32)


@kernel(inner=True)
def read_vectors(sums: Sums, at: int, stride: int, message: IntArray, start: int) -> None:
    """Read the sums of a column from a message."""
    half = sums.width // 2
    for b in range(stride):
        sums.n[at + b] = np.int32(message[start + b])
        pair, word = start + stride + b * half, (at + b) * sums.width
        for k in range(half):
            both = message[pair + k]
            first = np.int64(np.int32(both))
            sums.cells[word + 2 * k] = np.int32(first)
            sums.cells[word + 2 * k + 1] = np.int32((both - first) >> 32)


@kernel(inline=True, inner=True)
def write_column(
    histograms: HistogramSums,
    at: int,
    stride: int,
    n_fields: int,
    message: IntArray,
    to: int,
    vectors: Vectors | None,
) -> None:
    """Write the sums of a column, which begin at cell ``at``, to a message."""
    if vectors is not None:
        write_vectors(vectors.outputs.sums, at, stride, message, to)
        return
    for b in range(stride):
        message[to + b] = histograms.g[at + b]
        message[to + stride + b] = histograms.n[at + b]
    if n_fields == 3:
        for b in range(stride):
            message[to + 2 * stride + b] = histograms.h[at + b]


@kernel(inline=True, inner=True)
def read_column(
    histograms: HistogramSums,
    at: int,
    stride: int,
    n_fields: int,
    message: IntArray,
    start: int,
    vectors: Vectors | None,
) -> None:
    """Read the sums of a column from a message."""
    if vectors is not None:
        read_vectors(vectors.outputs.sums, at, stride, message, start)
        return
    h_field = np.int64(2 if n_fields == 3 else 1)
    for b in range(stride):
        histograms.g[at + b] = message[start + b]
        histograms.n[at + b] = message[start + stride + b]
        histograms.h[at + b] = message[start + h_field * stride + b]


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
    vectors: Vectors | None,
) -> None:
    """Lay the sums of all builds out by rank: its columns of each build, g, n, and h if asked."""
    n_columns, n_builds = building.last, len(building.nodes)
    for rank in range(n_ranks):
        first, last = share(n_columns, rank, n_ranks)
        start = first * n_builds * n_fields * stride
        span = share(last - first, thread, team.n_threads)
        for build in range(n_builds):
            for k in range(first + span[0], first + span[1]):
                to = start + (build * (last - first) + k - first) * n_fields * stride
                at = building.at[0, build] + columns.feature[k] * stride
                write_column(building.histograms, at, stride, n_fields, message, to, vectors)
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
    vectors: Vectors | None,
) -> None:
    """Write the sums of the columns ``block`` of each build to its place."""
    first, last = block
    span = share(last - first, thread, team.n_threads)
    for build in range(len(places)):
        for k in range(first + span[0], first + span[1]):
            start = (build * (last - first) + k - first) * n_fields * stride
            at = places[build] + columns.feature[k] * stride
            read_column(histograms, at, stride, n_fields, message, start, vectors)
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
    vectors: Vectors | None,
) -> None:
    """Compute the larger child's histogram by subtraction, if the job asks for it, in ``span``."""
    if job[JOB_HISTOGRAMS] == SUBTRACTED:
        histograms, slot_size, before = place
        small = before + job[JOB_SMALL_SLOT] * slot_size
        large = before + job[JOB_LARGE_SLOT] * slot_size
        subtract_node(thread, span, bins, columns, histograms, large, small, options.lists, vectors)


@kernel(inner=True)
def search_vectors(
    thread: int,
    span: tuple[int, int],
    settings: Settings,
    rules: SplitRules,
    bins: Bins,
    columns: Columns,
    place: tuple[IntArray, int, int],
    child: int,
    own: Own,
    found: IntArray,
    vectors: Vectors,
) -> None:
    """Search a node of several outputs; note what the split is compared with behind the split."""
    trial, constraints = vectors.trial, own.options.constraints
    search_vector_node(
        thread, span, settings, rules, bins, columns.feature, place, own.search.allowed[child],
        child, own.search.found[thread, child], vectors, constraints,
    )  # fmt: skip
    found[FOUND_PARENT] = bits_of_float(trial.parent[thread, child])
    found[FOUND_GIVEN] = bits_of_float(trial.given[thread, child])
    for output in range(len(found) - FOUND_OWN):
        found[FOUND_OWN + output] = bits_of_float(trial.own[thread, child, output])


@kernel(inline=True, inner=True)
def search_child(
    thread: int,
    span: tuple[int, int],
    settings: Settings,
    rules: SplitRules,
    bins: Bins,
    columns: Columns,
    place: tuple[HistogramSums, int],
    child: int,
    member_: tuple[int, IntArray],
    own: Own,
    found: IntArray,
    vectors: Vectors | None,
) -> None:
    """Best split of the node ``member_``, its number and the table, in columns ``span``."""
    node, table = member_
    if vectors is None:
        search_node(
            thread, span, settings, rules, bins, columns, place, own.search, child,
            (node, table[node]), own.scalars, own.options,
        )  # fmt: skip
    else:
        at = (table, place[1], node)
        search_vectors(thread, span, settings, rules, bins, columns, at, child, own, found, vectors)
    for k in range(FOUND_FIELDS):
        found[k] = own.search.found[thread, child, k]


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
    vectors: Vectors | None,
    own: Own,
) -> None:
    """Compute the larger children's histograms and all best splits in columns ``block``."""
    # ``place`` is where slots are: wide sums, cells of a slot, and what stands before column 0 of
    # slot 0.  ``nodes`` are the table of nodes, the jobs and, to be written, what was found: int64
    # (jobs, threads, 2, FOUND_FIELDS or, of vectors, more).
    table, jobs, found = nodes
    histograms, slot_size, before = place
    first, last = share(block[1] - block[0], thread, team.n_threads)
    span = (block[0] + first, block[0] + last)
    for j in range(len(jobs)):
        job = jobs[j]
        subtract_job(thread, span, bins, columns, place, job, own.options, vectors)
        allow_children(settings, own.search.allowed, table, job, own.scalars, own.options)
        for child in range(2):
            node, slot, searched = member(job, child)
            if searched == 1:
                search_child(
                    thread, span, settings, rules, bins, columns,
                    (histograms, before + slot * slot_size), child, (node, table), own,
                    found[j, thread, child], vectors,
                )  # fmt: skip
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


@kernel(inline=True, inner=True)
def recall_search(found: IntArray, vectors: Vectors | None) -> None:
    """Read what the splits of each rank are compared with, as the searches noted it."""
    if vectors is not None:
        trial = vectors.trial
        for rank in range(found.shape[0]):
            for child in range(2):
                row = found[rank, child]
                trial.parent[rank, child] = float_of_bits(row[FOUND_PARENT])
                trial.given[rank, child] = float_of_bits(row[FOUND_GIVEN])
                for output in range(len(row) - FOUND_OWN):
                    value = float_of_bits(row[FOUND_OWN + output])
                    trial.own[rank, child, output] = value


@kernel
def commit_splits(
    settings: Settings,
    rules: SplitRules,
    tree: Tree,
    scalars: IntArray,
    jobs: IntArray,
    found: IntArray,
    options: Options,
    vectors: Vectors | None,
) -> None:
    """Write the best splits into the table of nodes; int64 (jobs, any, 2, FOUND_FIELDS)."""
    for j in range(len(jobs)):
        recall_search(found[j], vectors)
        for child in range(2):
            node = jobs[j, JOB_SMALL if child == 0 else JOB_LARGE]
            if jobs[j, JOB_SEARCH_SMALL if child == 0 else JOB_SEARCH_LARGE] == 1:
                keep_best(settings, rules, tree, scalars, found[j], node, child, options, vectors)
            elif node >= 0:
                release_slot(tree, scalars, node)
