"""A pass over the chunks: the rows of nodes are divided, and histograms of many nodes are built.

Glossary
--------
build    a histogram that is built from rows in this pass
part     threads that share the rows of a build between them; those of one part share its columns

The packed sums of a build stay in its cells from one chunk to the next, and are taken apart only
when they are full, as often as if the rows were all in one chunk.  Row numbers are those of all
rows of the rank (:mod:`hedgerow.growing.chunks.stages.rows`); bins are addressed as if those of
the rows before the chunk stood before them.

Arrays of a chunk are other ones than those of the chunk before.  Where its bins lie is written to a
table that all threads read (``where``), so that the arguments of all visits of a pass are the same.

An order and the part of thread 0 are one call of Python (:func:`_call_in_turn`).  An interrupt
between them would leave the helpers at a barrier that thread 0 never reaches.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable
from itertools import starmap
from typing import Any, NamedTuple

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import BinArray, IntArray
from hedgerow.compile import entry_of, kernel
from hedgerow.data.external.disk_store import Chunk
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
from hedgerow.kernels.histograms.partition import divide_alone
from hedgerow.kernels.histograms.vector_histogram import Sums, add_to_columns, empty_columns
from hedgerow.kernels.primitives.barrier import ThreadTeam, await_order, barrier, give_order, share
from hedgerow.kernels.primitives.intrinsics import array_at, by_reference
from hedgerow.threads import Team

# Fields of ``where``: addresses of bins, and how many there are.
(
    BY_ROW, BY_ROW_CELLS, TILE_SIZE, TILE_WIDTH, BY_COLUMN, COLUMN_CELLS, FIRST_ROW, FIRST_PIECE,
    WHERE_FIELDS,
) = range(9)  # fmt: skip


def write_bins(chunk: Chunk, n_threads: int, where: IntArray) -> None:
    """Name the bins of a chunk, whose rows are in a piece for each thread."""
    matrix = chunk.matrix  # with a byte for each feature
    where[BY_ROW] = _address(matrix.by_row)
    where[BY_ROW_CELLS] = matrix.by_row.size
    where[TILE_SIZE] = matrix.by_row.shape[1] * matrix.by_row.shape[2]
    where[TILE_WIDTH] = matrix.by_row.shape[2]
    where[BY_COLUMN] = _address(matrix.by_column)
    where[COLUMN_CELLS] = matrix.by_column.shape[1]
    where[FIRST_ROW], where[FIRST_PIECE] = chunk.start, chunk.number * n_threads


def _address(bins: BinArray) -> int:
    """Return where bins begin."""
    if bins.dtype != np.uint8 or not bins.flags.c_contiguous:
        raise TypeError(
            f"a chunk has bins of {bins.dtype} with strides {bins.strides}; C order of uint8 is "
            "needed."
        )
    place: int = bins.__array_interface__["data"][0]
    return place


class Building(NamedTuple):
    """The histograms that are built in a pass.

    nodes    int64 (builds,)
    at       int64 (parts, builds): first cell in the sums, less that of column 0
    cells    int64 (threads, builds, words): addresses of the packed sums of all columns
    held     int64 (threads, builds): rows that they hold
    filled   int64 (threads, builds): 1 once the sums hold rows of this pass
    histograms, sums  of one output, to which packed sums are added, and of several, to which rows
             are added at once
    n_groups groups of columns that are built side by side
    first    columns ``first`` to ``last - 1`` of the tree's are built
    last
    """

    nodes: kt.Int64_1D
    at: kt.Int64_2D
    cells: kt.Int64_3D
    held: kt.Int64_2D
    filled: kt.Int64_2D
    histograms: HistogramSums
    sums: Sums
    n_groups: np.int64
    first: np.int64
    last: np.int64


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
    cells = building.cells[thread, build]
    for k in range(span[0], span[1]):
        column, here = 8 * columns.feature[k] * SPACING, to + columns.feature[k] * stride
        first = array_at(cells[0] + column, (stride,), np.int64)
        last = array_at(cells[packing.g_apart] + column, (stride,), np.int64)
        unpack_g(first, shift, building.histograms, here, np.int64(0), stride, keep)
        if packing.g_apart == 1:
            first[:] = 0
        unpack_h(last, packing, building.histograms, here, np.int64(0), stride, keep)
    building.held[thread, build] = 0
    building.filled[thread, build] = 1


@kernel(inner=True)
def fill_cells(
    thread: int, build: int, state: s.State, bins: Bins, packing: Packing, span: tuple[int, int],
    place: tuple[int, int], building: Building,
) -> None:  # fmt: skip
    """Add the rows at ``place`` to the packed sums of a build, in columns ``span``."""
    ids, packed, columns, per_tile = (
        state.rows.rows, state.rows.packed, state.columns, bins.features_per_tile
    )  # fmt: skip
    start, stop = place
    most = (np.int64(1) << packing.count_bits) - 1
    while start < stop:
        end = min(stop, start + most - building.held[thread, build])
        first = span[0]
        while first < span[1]:
            tile = columns.feature[first] // per_tile
            last = first
            while last < span[1] and columns.feature[last] // per_tile == tile:
                last += 1
            for word in range(1 + packing.g_apart):
                # With one array for all builds, adding up a row took a fifth longer.
                start_of_tile = building.cells[thread, build, word] + 8 * tile * per_tile * SPACING
                cells = array_at(start_of_tile, (per_tile * SPACING,), np.int64)
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


@kernel
def visit_chunk(
    thread: int,
    state: s.State,
    parents: kt.Int64_1D,
    segments: kt.Int32_3D,
    building: Building,
    where: kt.Int64_1D,
) -> None:
    """Divide the rows of the parents in one chunk, and add those of the builds to their sums."""
    # ``segments``, int32 (nodes, pieces, 2): :mod:`hedgerow.growing.chunks.stages.rows`.
    shared, first_piece, several = by_reference(state), where[FIRST_PIECE], state.vectors.used == 1
    team, columns, rows = shared.team, shared.columns, shared.rows
    # Order the rows of the parents in the thread's piece; write the segments of the children.
    own, first_row, n_cells = first_piece + thread, where[FIRST_ROW], where[COLUMN_CELLS]
    for k in range(len(parents)):
        row = shared.tree.table[parents[k]]
        at = where[BY_COLUMN] + row[s.NODE_COLUMN] * n_cells - first_row
        column = array_at(at, (first_row + n_cells,), np.uint8)
        start, n_left = np.int64(segments[parents[k], own, 0]), np.int64(0)
        count = np.int64(segments[parents[k], own, 1])
        if count > 0:
            stop = start + count
            n_left = divide_alone(column, row, s.NODE_SET, rows.rows, rows.scratch, start, stop)
        left, right = row[s.NODE_LEFT], row[s.NODE_RIGHT]
        segments[left, own, 0] = start
        segments[left, own, 1] = n_left
        segments[right, own, 0] = start + n_left
        segments[right, own, 1] = count - n_left
    if building.n_groups > 1:
        barrier(team)
    before = first_row * where[TILE_WIDTH]
    bins = Bins(
        array_at(where[BY_ROW] - before, (before + where[BY_ROW_CELLS],), np.uint8),
        shared.bins.by_column,
        where[TILE_SIZE],
        where[TILE_WIDTH],
        shared.bins.features_per_tile,
        shared.bins.n_bins,
        shared.bins.stride,
    )
    n_parts, part = team.n_threads // building.n_groups, thread // building.n_groups
    span, pieces = share_columns(thread, building), share(team.n_threads, part, n_parts)
    packing, words = packing_of(shared.scalars), shared.vectors.outputs.words
    for build in range(len(building.nodes) if part < n_parts else 0):
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
                fill_cells(thread, build, shared, bins, packing, span, place, building)
    barrier(team)


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


_STOP, _WORK = 0, 1

Stage = Callable[..., None]


class ChunkTeam(Team):
    """Threads that run stages together."""

    def __init__(self, team: ThreadTeam) -> None:
        self._threads, self._n_threads = team, int(team.n_threads)
        self._job: tuple[Stage, tuple[Any, ...]] | None = None
        super().__init__(self._n_threads, self._follow, lambda: give_order(team, _STOP))

    def run(self, stage: Stage, *given: Any) -> None:
        """Call ``stage(thread, *given)`` in every thread; it must end with a barrier."""
        if self._n_threads == 1:
            stage(0, *given)
            return
        self._job = (stage, given)
        _call_in_turn((give_order, self._threads, _WORK), (stage, 0, *given))

    def _follow(self, thread: int) -> None:
        number = 0
        while await_order(self._threads, number) != _STOP:
            number += 1
            assert self._job is not None
            stage, given = self._job
            stage(thread, *given)


def _call_in_turn(*calls: tuple[Any, ...]) -> None:
    """Call kernels, each a tuple of the kernel and its arguments."""
    # Python handles signals between its own instructions.  Here C code makes the calls, so no
    # handler runs between them.
    ready = [(entry_of(kernel, *given), *given) for kernel, *given in calls]
    deque(starmap(operator.call, ready), maxlen=0)
