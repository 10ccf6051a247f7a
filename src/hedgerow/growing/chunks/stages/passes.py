"""A pass over chunks, as all threads see it: one compiled call of each helper for all chunks.

Arrays of a chunk are other ones than those of the chunk before, and to hand arrays to compiled
code takes Python, and its lock, some tenths of a millisecond for two threads.  So what is the same
for all chunks of a pass is handed over once (:class:`Plan`), and where the bins of a chunk lie is
written to a table that all threads read::

    thread 0                        helpers
    BEGIN -------- plan ----------> take_part:  await an order
    chunk 0: write where, VISIT --> rows divided, histograms built
    chunk 1: write where, VISIT --> ...
    END_BUILDS -------------------> sums of all threads put together
    END --------------------------> return to Python

Helpers wait inside compiled code, as those of a fit in memory do.  For the chunks of a pass they
stay there; they come out for other stages, as these have other arguments.

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

from hedgerow.arrays import BinArray, IntArray, aligned_zeros
from hedgerow.compile import entry_of, kernel
from hedgerow.data.external.row_store import Chunk
from hedgerow.growing.chunks.stages.building import (
    Building,
    build_chunk,
    divide_piece,
    end_builds,
)
from hedgerow.growing.core.state import NODE_COLUMN, State
from hedgerow.kernels.histograms.histogram import Bins
from hedgerow.kernels.primitives.barrier import (
    ThreadTeam,
    await_order,
    barrier,
    give_order,
    last_order,
)
from hedgerow.kernels.primitives.intrinsics import array_at, by_reference
from hedgerow.threads import Team

# Fields of ``where``: addresses of bins, and how many there are.
(
    BY_ROW, BY_ROW_CELLS, TILE_SIZE, TILE_WIDTH, BY_COLUMN, COLUMN_CELLS, FIRST_ROW, FIRST_PIECE,
    WHERE_FIELDS,
) = range(9)  # fmt: skip

# Orders within a pass.
BEGIN, END, VISIT, END_BUILDS = range(2, 6)


class Plan(NamedTuple):
    """The plan of a pass, the same for all chunks.

    parents   int64: nodes that are split
    segments  int32 (nodes, pieces, 2), see :mod:`hedgerow.growing.chunks.stages.rows`
    building  histograms that are built
    """

    parents: IntArray
    segments: np.ndarray
    building: Building


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


@kernel(inner=True)
def visit_chunk(thread: int, state: State, plan: Plan, where: IntArray) -> None:
    """Divide the rows of the parents in one chunk, and add those of the builds to their sums."""
    first, piece, before = where[FIRST_PIECE], where[FIRST_PIECE] + thread, where[FIRST_ROW]
    for k in range(len(plan.parents)):
        row = state.tree.table[plan.parents[k]]
        column = where[BY_COLUMN] + row[NODE_COLUMN] * where[COLUMN_CELLS] - before
        cells = array_at(column, (before + where[COLUMN_CELLS],), np.uint8)
        divide_piece(cells, row, plan.segments, plan.parents[k], piece, state.rows)
    if plan.building.n_groups > 1:
        barrier(state.team)
    bins = bins_at(state.bins, where)
    build_chunk(thread, state, bins, plan.segments, first, plan.building)
    barrier(state.team)


@kernel
def take_part(thread: int, state: State, order: int, plan: Plan, where: IntArray) -> int:
    """Thread 0: one stage, for the chunk at ``where``.  Helpers: all stages of a pass."""
    # ``order`` is the stage, and for helpers the number of the last order; they return that of
    # the order that ended the pass.
    team, shared, number = state.team, by_reference(state), order
    if thread > 0 or order == BEGIN:
        # Nobody may give an order before the last one was heard.
        barrier(team)
    while order != BEGIN or thread > 0:
        if thread == 0:
            give_order(team, order)
        else:
            order = await_order(team, number)
            number += 1
        if order == VISIT:
            visit_chunk(thread, shared, plan, where)
        elif order == END_BUILDS:
            end_builds(thread, shared, plan.building)
        else:
            barrier(team)
            break
        if thread == 0:
            break
    return number


_STOP, _WORK, _PASS = 0, 1, 100

Stage = Callable[..., None]
Lead = Callable[[int], None]


class ChunkTeam(Team):
    """Threads that run stages together.

    where  int64 (WHERE_FIELDS,): where the bins of the chunk lie that the next stage of a pass is
           for
    """

    def __init__(self, team: ThreadTeam) -> None:
        self.where = aligned_zeros(WHERE_FIELDS, np.int64)
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

    def run_pass(self, state: State, plan: Plan, visit: Callable[[Lead], None]) -> None:
        """Call ``visit(lead)``; ``lead(order)`` does a stage for the chunk at :attr:`where`."""

        def lead(order: int) -> None:
            take_part(0, state, order, plan, self.where)

        if self._n_threads == 1:
            visit(lead)
            return
        self._job = (take_part, (state, plan))
        begin = (take_part, 0, state, BEGIN, plan, self.where)
        try:
            _call_in_turn((give_order, self._threads, _PASS), begin)
            visit(lead)
        finally:
            try:
                self._end_pass(lead)
            finally:  # again, if an interrupt came before the last order
                self._end_pass(lead)

    def _end_pass(self, lead: Lead) -> None:
        """Call the helpers out of a pass, if they are in one."""
        if last_order(self._threads) not in (_STOP, _WORK, END):
            lead(END)

    def _follow(self, thread: int) -> None:
        number = 0
        while (order := await_order(self._threads, number)) != _STOP:
            number += 1
            assert self._job is not None
            stage, given = self._job
            if order == _PASS:
                state, plan = given
                number = take_part(thread, state, number, plan, self.where)
            else:
                stage(thread, *given)


def _call_in_turn(*calls: tuple[Any, ...]) -> None:
    """Call kernels, each a tuple of the kernel and its arguments."""
    # Python handles signals between its own instructions.  Here C code makes the calls, so no
    # handler runs between them.
    ready = [(entry_of(kernel, *given), *given) for kernel, *given in calls]
    deque(starmap(operator.call, ready), maxlen=0)
