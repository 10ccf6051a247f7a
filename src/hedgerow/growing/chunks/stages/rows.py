"""Stages of all threads on a chunk of rows, and on the histograms after all chunks.

Glossary
--------
piece      the rows of a chunk that one thread divides between children
segment    where a node's rows stand in a piece: first place and number
build      a histogram that is built from rows in this pass
part       threads that share the rows of a build between them; those of one part
           share its columns

::

    chunk    piece 0              piece 1
    rows     [ n3 n3 | n4 | n5 ]  [ n3 | n4 n4 | n5 ]    places of rows, nodes side by side

The packed sums of a build stay in its cells from one chunk to the next, and are taken
apart only when they are full, as often as if the rows were all in one chunk.

The stages are those of :mod:`hedgerow.growing.core.grow` for many nodes at once, and call the
same kernels.  Each ends with a barrier: the thread that called it may go on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.arrays import FloatArray, IntArray, RowArray
from hedgerow.compile import kernel
from hedgerow.growing.core.stages.gradients import find_probabilities, fix_rows
from hedgerow.growing.core.state import (
    COUNT_TIES,
    IS_COUNT_BITS,
    IS_DROPPED_BITS,
    IS_G_APART,
    IS_HESSIAN_BITS,
    IS_N_ROWS,
    IS_OUTPUT,
    IS_THRESHOLD,
    IS_TIES,
    NODE_COLUMN,
    NODE_LEFT,
    NODE_RIGHT,
    NODE_SET,
    Rows,
    Sampler,
    Settings,
    Vectors,
)
from hedgerow.growing.sampling.goss import choose_rows
from hedgerow.growing.sampling.thresholds import Choice, tally_digits, write_keys
from hedgerow.kernels.histograms.histogram import (
    Bins,
    Columns,
    HistogramSums,
    Packing,
    add_rows,
    unpack_g,
    unpack_h,
)
from hedgerow.kernels.histograms.pairs import SPACING
from hedgerow.kernels.histograms.partition import copy_forward, copy_reversed, divide
from hedgerow.kernels.histograms.vector_histogram import add_to_columns, empty_columns
from hedgerow.kernels.primitives.barrier import ThreadTeam, barrier, share
from hedgerow.kernels.primitives.intrinsics import float_of_bits
from hedgerow.objectives.derivatives import LossData

# Columns of ``sums``: over the rows of the sample.
SUM_G, SUM_H, SUM_PACKED_G, SUM_PACKED_H, SUMS = range(5)


class Building(NamedTuple):
    """The histograms that are built in a pass.

    nodes    int64 (builds,)
    at       int64 (parts, builds): first cell in ``histograms``, less that of column 0
    cells    int64 (threads, builds, words, cells): packed sums
    held     int64 (threads, builds): rows that they hold
    filled   int64 (threads, builds): 1 once ``histograms`` hold sums of the thread
    histograms  sums taken apart; of vectors the row counts, to whose sums rows are added at once
    n_groups groups of columns that are built side by side
    first    columns ``first`` to ``last - 1`` of the tree's are built
    last
    """

    nodes: IntArray
    at: IntArray
    cells: IntArray
    held: IntArray
    filled: IntArray
    histograms: HistogramSums
    n_groups: np.int64
    first: np.int64
    last: np.int64


@kernel(inner=True)
def packing_of(scalars: IntArray) -> Packing:
    """Return the packing of the numbers of rows."""
    return Packing(scalars[IS_COUNT_BITS], scalars[IS_HESSIAN_BITS], scalars[IS_G_APART])


@kernel(inner=True)
def add_segment_sums(
    quantized: np.ndarray, ids: RowArray, start: int, count: int, sums: IntArray
) -> None:
    """Add the fixed g and h of some rows to ``sums[SUM_G]`` and ``sums[SUM_H]``."""
    g, h, two, one = np.int64(0), np.int64(0), np.uint64(2), np.uint64(1)
    for i in range(np.uint64(start), np.uint64(start + count)):
        at = two * np.uint64(ids[i])
        g += np.int64(quantized[at])
        h += np.int64(quantized[at + one])
    sums[SUM_G] += g
    sums[SUM_H] += h


@kernel(inner=True)
def add_packed_sums(
    packing: Packing, packed: IntArray, ids: RowArray, start: int, count: int, sums: IntArray
) -> None:
    """Add what histograms hold of some rows, packed in one word, to ``sums``."""
    g, h = np.int64(0), np.int64(0)
    shift = packing.count_bits + packing.hessian_bits
    below = (np.int64(1) << shift) - 1
    for i in range(np.uint64(start), np.uint64(start + count)):
        value = packed[np.uint64(ids[i])]
        g += value >> shift
        h += (value & below) >> packing.count_bits
    sums[SUM_PACKED_G] += g
    sums[SUM_PACKED_H] += h


@kernel(inner=True)
def start_chunk(
    thread: int,
    team: ThreadTeam,
    settings: Settings,
    loss_data: LossData,
    rows: Rows,
    blocks: FloatArray,
    counts: IntArray,
    scalars: IntArray,
) -> None:
    """Compute gradients of an output; ``settings.n_rows`` are the rows of the chunk."""
    place = share(settings.n_rows, thread, team.n_threads)
    find_probabilities(settings, loss_data, scalars[IS_OUTPUT], place, blocks[thread])
    fix_rows(settings, loss_data, rows, place, blocks[thread], counts[thread], scalars)
    barrier(team)


@kernel(inner=True)
def open_chunk(
    thread: int,
    team: ThreadTeam,
    rows: Rows,
    scalars: IntArray,
    segments: np.ndarray,
    first_piece: int,
    sums: IntArray,
    vectors: Vectors | None,
) -> None:
    """Divide the sample of a chunk, which is in front of the row ids, into the root's segments."""
    ids = rows.rows
    if thread == 0:
        for i in range(len(rows.quantized) // 2, len(ids)):
            ids[i] = 0
    first, last = share(scalars[IS_N_ROWS], thread, team.n_threads)
    segments[0, first_piece + thread, 0] = first
    segments[0, first_piece + thread, 1] = last - first
    if vectors is None:
        add_segment_sums(rows.quantized, ids, first, last - first, sums[thread])
        if scalars[IS_DROPPED_BITS] > 0:
            packing = packing_of(scalars)
            add_packed_sums(packing, rows.packed, ids, first, last - first, sums[thread])
    barrier(team)


@kernel(inner=True)
def tally_chunk(
    thread: int,
    team: ThreadTeam,
    settings: Settings,
    sampler: Sampler,
    rows: Rows,
    counts: IntArray,
    n_rows: int,
    known: tuple[int, int],
) -> None:
    """Tally a digit of the keys of a chunk, which are computed again each time."""
    # ``known`` are the digit's level and the digits before it, ``n_rows`` are those of the chunk;
    # ``counts`` and ``settings.n_rows`` are of all chunks and ranks.
    place, tally = share(n_rows, thread, team.n_threads), sampler.tallies[thread]
    write_keys(sampler, settings.n_rows, rows, counts, tally[0], place)
    if known[0] > 0:
        tally_digits(known[0], known[1], rows.scratch, tally[known[0]], place[0], place[1])
    barrier(team)


@kernel(inner=True)
def sample_chunk(
    thread: int,
    team: ThreadTeam,
    settings: Settings,
    sampler: Sampler,
    rows: Rows,
    counts: IntArray,
    scalars: IntArray,
    n_rows: int,
) -> None:
    """Choose the rows of a chunk by the threshold, and pack them; arguments as before."""
    place = share(n_rows, thread, team.n_threads)
    choice = Choice(float_of_bits(scalars[IS_THRESHOLD]), scalars[IS_TIES])
    write_keys(sampler, settings.n_rows, rows, counts, sampler.tallies[thread, 0], place)
    choose_rows(thread, team, settings, sampler, rows, counts, scalars, choice, place)
    if thread == 0:
        for t in range(team.n_threads):
            scalars[IS_TIES] -= counts[t, COUNT_TIES]


@kernel(inner=True)
def divide_piece(
    bins: Bins, row: IntArray, segments: np.ndarray, node: int, piece: int, rows: Rows
) -> None:
    """Order the rows of a node in one piece, left child first; write the children's segments."""
    start, count = np.int64(segments[node, piece, 0]), np.int64(segments[node, piece, 1])
    ids, scratch, n_left = rows.rows, rows.scratch, np.int64(0)
    if count > 0:
        column = bins.by_column[row[NODE_COLUMN]]
        n_left = divide(column, row, NODE_SET, ids, scratch, start, start + count)
        copy_forward(ids, scratch, start, start, start + n_left)
        copy_reversed(ids, scratch, start + n_left, start + n_left, start + count)
    left, right = row[NODE_LEFT], row[NODE_RIGHT]
    segments[left, piece, 0] = start
    segments[left, piece, 1] = n_left
    segments[right, piece, 0] = start + n_left
    segments[right, piece, 1] = count - n_left


@kernel(inner=True)
def empty_cells(
    thread: int, build: int, packing: Packing, columns: Columns, span: tuple[int, int],
    stride: int, building: Building,
) -> None:  # fmt: skip
    """Add the packed sums of columns ``span`` to the wide ones."""
    part = thread // building.n_groups
    to = building.at[part, build]
    keep = -building.filled[thread, build]
    shift = np.int64(0) if packing.g_apart == 1 else packing.count_bits + packing.hessian_bits
    first, last = building.cells[thread, build, 0], building.cells[thread, build, packing.g_apart]
    for k in range(span[0], span[1]):
        at = columns.feature[k] * SPACING
        shifted = to + columns.feature[k] * stride - at
        unpack_g(first, shift, building.histograms, shifted, at, at + stride, keep)
        if packing.g_apart == 1:
            for c in range(at, at + stride):
                first[c] = 0
        unpack_h(last, packing, building.histograms, shifted, at, at + stride, keep)
    building.held[thread, build] = 0
    building.filled[thread, build] = 1


@kernel(inner=True)
def fill_cells(
    thread: int,
    build: int,
    bins: Bins,
    packing: Packing,
    packed: IntArray,
    columns: Columns,
    span: tuple[int, int],
    ids: RowArray,
    place: tuple[int, int],
    building: Building,
) -> None:
    """Add the rows at ``place`` to the packed sums of a build, in columns ``span``."""
    start, stop = place
    most = (np.int64(1) << packing.count_bits) - 1
    per_tile = bins.features_per_tile
    while start < stop:
        end = min(stop, start + most - building.held[thread, build])
        first = span[0]
        while first < span[1]:
            tile = columns.feature[first] // per_tile
            last = first
            while last < span[1] and columns.feature[last] // per_tile == tile:
                last += 1
            for word in range(1 + packing.g_apart):
                cells = building.cells[thread, build, word, tile * per_tile * SPACING :]
                at = word * (len(packed) // 2)
                add_rows(bins, tile, columns, (first, last), ids, start, end, packed, at, cells)
            first = last
        building.held[thread, build] += end - start
        if building.held[thread, build] == most:
            empty_cells(thread, build, packing, columns, span, bins.stride, building)
        start = end


@kernel(inner=True)
def empty_sums(
    thread: int, build: int, columns: Columns, span: tuple[int, int], stride: int,
    building: Building, vectors: Vectors,
) -> None:  # fmt: skip
    """Leave no row in columns ``span`` of the sums of a build, unless they hold this pass's."""
    if building.filled[thread, build] == 0:
        to = building.at[thread // building.n_groups, build]
        empty_columns(columns, span, stride, vectors.outputs.sums, to)
        building.filled[thread, build] = 1


@kernel(inline=True, inner=True)
def fill_build(
    thread: int,
    build: int,
    bins: Bins,
    scalars: IntArray,
    packed: IntArray,
    columns: Columns,
    span: tuple[int, int],
    ids: RowArray,
    place: tuple[int, int],
    building: Building,
    vectors: Vectors | None,
) -> None:
    """Add the rows at ``place`` to the sums of a build, in columns ``span``."""
    if vectors is None:
        packing = packing_of(scalars)
        fill_cells(thread, build, bins, packing, packed, columns, span, ids, place, building)
    else:
        empty_sums(thread, build, columns, span, bins.stride, building, vectors)
        outputs, to = vectors.outputs, building.at[thread // building.n_groups, build]
        add_to_columns(bins, columns, span, ids, place, outputs.words, outputs.sums, to)


@kernel(inner=True)
def share_columns(thread: int, building: Building) -> tuple[int, int]:
    """Return the columns that a thread builds."""
    n_columns = building.last - building.first
    first, last = share(n_columns, thread % building.n_groups, building.n_groups)
    return building.first + first, building.first + last


@kernel(inner=True)
def visit_chunk(
    thread: int,
    team: ThreadTeam,
    bins: Bins,
    columns: Columns,
    rows: Rows,
    table: IntArray,
    parents: IntArray,
    segments: np.ndarray,
    first_piece: int,
    scalars: IntArray,
    building: Building,
    vectors: Vectors | None,
) -> None:
    """Divide the rows of ``parents`` in one chunk, and add those of the builds to their sums."""
    piece = first_piece + thread
    for k in range(len(parents)):
        divide_piece(bins, table[parents[k]], segments, parents[k], piece, rows)
    if building.n_groups > 1:
        barrier(team)
    n_parts = team.n_threads // building.n_groups
    part = thread // building.n_groups
    if part < n_parts:
        span = share_columns(thread, building)
        pieces = share(team.n_threads, part, n_parts)
        for build in range(len(building.nodes)):
            node = building.nodes[build]
            for piece in range(first_piece + pieces[0], first_piece + pieces[1]):
                start = np.int64(segments[node, piece, 0])
                place = (start, start + np.int64(segments[node, piece, 1]))
                fill_build(
                    thread, build, bins, scalars, rows.packed, columns, span, rows.rows, place,
                    building, vectors,
                )  # fmt: skip
    barrier(team)


@kernel(inner=True)
def sum_leaves(
    thread: int,
    team: ThreadTeam,
    quantized: np.ndarray,
    ids: RowArray,
    segments: np.ndarray,
    first_piece: int,
    leaves: IntArray,
    sums: IntArray,
) -> None:
    """Add the fixed g and h of each leaf's rows in the chunk to ``sums[thread, leaf]``."""
    piece = first_piece + thread
    for k in range(len(leaves)):
        start, count = segments[leaves[k], piece, 0], segments[leaves[k], piece, 1]
        add_segment_sums(quantized, ids, np.int64(start), np.int64(count), sums[thread, k])
    barrier(team)


@kernel(inner=True)
def add_values(
    thread: int,
    team: ThreadTeam,
    ids: RowArray,
    segments: np.ndarray,
    first_piece: int,
    leaves: IntArray,
    values: FloatArray,
    raw: FloatArray,
) -> None:
    """Add the value of each leaf to the raw scores ``raw`` of its rows in the chunk."""
    piece = first_piece + thread
    for k in range(len(leaves)):
        start, count = segments[leaves[k], piece, 0], segments[leaves[k], piece, 1]
        value = values[k]
        for i in range(np.uint64(start), np.uint64(start + count)):
            raw[np.uint64(ids[i])] += value
    barrier(team)
