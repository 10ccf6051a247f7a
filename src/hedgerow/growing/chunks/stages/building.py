"""The visit of a chunk: the rows of nodes are divided, and histograms of many nodes are built.

Glossary
--------
build    a histogram that is built from rows in this pass
part     threads that share the rows of a build between them; those of one part share its columns

The packed sums of a build stay in its cells from one chunk to the next, and are taken apart only
when they are full, as often as if the rows were all in one chunk.  Row numbers are those of all
rows of the rank (:mod:`hedgerow.growing.chunks.stages.rows`); bins are addressed as if those of
the rows before the chunk stood before them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.arrays import BinArray, IntArray, RowArray
from hedgerow.compile import kernel
from hedgerow.growing.core import state as s
from hedgerow.growing.core.stages.building import add_vector_sums, packing_of
from hedgerow.kernels.histograms.histogram import (
    Bins,
    Columns,
    HistogramSums,
    Packing,
    add_histogram_sums,
    add_rows,
    unpack_g,
    unpack_h,
)
from hedgerow.kernels.histograms.pairs import SPACING
from hedgerow.kernels.histograms.partition import copy_forward, copy_reversed, divide
from hedgerow.kernels.histograms.vector_histogram import Sums, add_to_columns, empty_columns
from hedgerow.kernels.primitives.barrier import barrier, share
from hedgerow.kernels.primitives.intrinsics import by_reference


class Building(NamedTuple):
    """The histograms that are built in a pass.

    nodes    int64 (builds,)
    at       int64 (parts, builds): first cell in the sums, less that of column 0
    cells    int64 (threads, builds, words, cells): packed sums
    held     int64 (threads, builds): rows that they hold
    filled   int64 (threads, builds): 1 once the sums hold rows of this pass
    histograms, sums  of one output, to which packed sums are added, and of several, to which rows
             are added at once
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
    sums: Sums
    n_groups: np.int64
    first: np.int64
    last: np.int64


@kernel(inner=True)
def divide_piece(
    column: BinArray, row: IntArray, segments: np.ndarray, node: int, piece: int, rows: s.Rows
) -> None:
    """Order the rows of a node in one piece, left child first; write the children's segments."""
    start, count = np.int64(segments[node, piece, 0]), np.int64(segments[node, piece, 1])
    ids, scratch, n_left = rows.rows, rows.scratch, np.int64(0)
    if count > 0:
        n_left = divide(column, row, s.NODE_SET, ids, scratch, start, start + count)
        copy_forward(ids, scratch, start, start, start + n_left)
        copy_reversed(ids, scratch, start + n_left, start + n_left, start + count)
    left, right = row[s.NODE_LEFT], row[s.NODE_RIGHT]
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
    building: Building,
) -> None:  # fmt: skip
    """Leave no row in columns ``span`` of the sums of a build, unless they hold this pass's."""
    if building.filled[thread, build] == 0:
        to = building.at[thread // building.n_groups, build]
        empty_columns(columns, span, stride, building.sums, to)
        building.filled[thread, build] = 1


@kernel(inner=True)
def share_columns(thread: int, building: Building) -> tuple[int, int]:
    """Return the columns that a thread builds."""
    n_columns = building.last - building.first
    first, last = share(n_columns, thread % building.n_groups, building.n_groups)
    return building.first + first, building.first + last


@kernel(inner=True)
def build_chunk(
    thread: int,
    state: s.State,
    bins: Bins,
    segments: np.ndarray,
    first_piece: int,
    building: Building,
) -> None:
    """Add the rows of a chunk to the sums of all builds, of this thread's part and columns."""
    columns, rows, several = state.columns, state.rows, state.vectors.used == 1
    n_parts, part = state.team.n_threads // building.n_groups, thread // building.n_groups
    if part >= n_parts:
        return
    span, pieces = share_columns(thread, building), share(state.team.n_threads, part, n_parts)
    packing, words = packing_of(state.scalars), state.vectors.outputs.words
    for build in range(len(building.nodes)):
        node = building.nodes[build]
        if several:
            empty_sums(thread, build, columns, span, bins.stride, building)
        for piece in range(first_piece + pieces[0], first_piece + pieces[1]):
            start = np.int64(segments[node, piece, 0])
            place = (start, start + np.int64(segments[node, piece, 1]))
            if several:
                to = building.at[part, build]
                add_to_columns(bins, columns, span, rows.rows, place, words, building.sums, to)
            else:
                fill_cells(
                    thread, build, bins, packing, rows.packed, columns, span, rows.rows, place,
                    building,
                )  # fmt: skip


@kernel
def end_builds(thread: int, state: s.State, building: Building) -> None:
    """Complete the sums of all threads; add those of all parts to those of part 0."""
    shared = by_reference(state)
    bins, columns, vectors, team = shared.bins, shared.columns, shared.vectors, shared.team
    stride, packing = bins.stride, packing_of(shared.scalars)
    n_parts = team.n_threads // building.n_groups
    if thread // building.n_groups < n_parts:
        span = share_columns(thread, building)
        for build in range(len(building.nodes)):
            if vectors.used == 1:
                empty_sums(thread, build, columns, span, stride, building)
            else:
                empty_cells(thread, build, packing, columns, span, stride, building)
            building.filled[thread, build] = 0
    barrier(team)
    span = share(building.last - building.first, thread, team.n_threads)
    for build in range(len(building.nodes)):
        for part in range(1, n_parts):
            for k in range(building.first + span[0], building.first + span[1]):
                column = np.int64(columns.feature[k])
                at = column * stride
                to, source = building.at[0, build] + at, building.at[part, build] + at
                if vectors.used == 1:
                    filled = vectors.trial.filled[thread]
                    add_vector_sums(bins, column, to, source, 1, building.sums, filled)
                else:
                    add_histogram_sums(building.histograms, to, source, stride, 1)
    barrier(team)
