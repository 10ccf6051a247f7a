"""The visit of a chunk, and the team of threads that runs stages together.

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
from typing import Any

import numpy as np

from hedgerow.arrays import BinArray, IntArray
from hedgerow.compile import entry_of, kernel
from hedgerow.data.external.row_store import Chunk
from hedgerow.growing.chunks.stages.building import Building, build_chunk, divide_piece
from hedgerow.growing.core.state import NODE_COLUMN, State
from hedgerow.kernels.histograms.histogram import Bins
from hedgerow.kernels.primitives.barrier import ThreadTeam, await_order, barrier, give_order
from hedgerow.kernels.primitives.intrinsics import array_at, by_reference
from hedgerow.threads import Team

# Fields of ``where``: addresses of bins, and how many there are.
(
    BY_ROW, BY_ROW_CELLS, TILE_SIZE, TILE_WIDTH, BY_COLUMN, COLUMN_CELLS, FIRST_ROW, FIRST_PIECE,
    WHERE_FIELDS,
) = range(9)  # fmt: skip


def write_bins(chunk: Chunk, n_threads: int, where: IntArray) -> None:
    """Name the bins of a chunk, whose rows are in a piece for each thread."""
    matrix = chunk.matrix
    assert matrix.layout is None  # a byte for each feature
    assert not matrix.paired
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


@kernel(inner=True)
def bins_at(bins: Bins, where: IntArray) -> Bins:
    """Return the bins of a chunk, row by row, under the numbers of its rows in the rank."""
    before = where[FIRST_ROW] * where[TILE_WIDTH]
    return Bins(
        array_at(where[BY_ROW] - before, (before + where[BY_ROW_CELLS],), np.uint8),
        bins.by_column,
        where[TILE_SIZE],
        where[TILE_WIDTH],
        bins.features_per_tile,
        bins.n_bins,
        bins.stride,
    )


@kernel
def visit_chunk(
    thread: int,
    state: State,
    parents: IntArray,
    segments: np.ndarray,
    building: Building,
    where: IntArray,
) -> None:
    """Divide the rows of the parents in one chunk, and add those of the builds to their sums."""
    # ``segments``, int32 (nodes, pieces, 2): :mod:`hedgerow.growing.chunks.stages.rows`.
    shared, first, before = by_reference(state), where[FIRST_PIECE], where[FIRST_ROW]
    for k in range(len(parents)):
        row = shared.tree.table[parents[k]]
        column = where[BY_COLUMN] + row[NODE_COLUMN] * where[COLUMN_CELLS] - before
        cells = array_at(column, (before + where[COLUMN_CELLS],), np.uint8)
        divide_piece(cells, row, segments, parents[k], first + thread, shared.rows)
    if building.n_groups > 1:
        barrier(shared.team)
    build_chunk(thread, shared, bins_at(shared.bins, where), segments, first, building)
    barrier(shared.team)


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
