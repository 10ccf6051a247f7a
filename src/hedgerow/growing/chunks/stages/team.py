"""The threads of a fit in chunks: they meet in every stage, each with arguments of its own.

Helpers wait inside compiled code, as those of a fit in memory do.  For the chunks of a pass
they stay there (:mod:`hedgerow.growing.chunks.stages.passes`); they come out for other stages, as
these have other arguments.

An order and the part of thread 0 are one call of Python (:func:`_call_in_turn`).  An interrupt
between them would leave the helpers at a barrier that thread 0 never reaches.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Sequence
from itertools import starmap
from typing import Any

import numpy as np

from hedgerow.arrays import aligned_zeros
from hedgerow.compile import entry_of
from hedgerow.growing.chunks.stages import passes
from hedgerow.growing.core.state import Vectors
from hedgerow.kernels.primitives.barrier import (
    SIGNAL_SIZE,
    ThreadTeam,
    await_order,
    give_order,
    last_order,
)
from hedgerow.threads import Team, wait_addresses

_STOP, _WORK, _PASS = 0, 1, 100

Stage = Callable[..., None]
Lead = Callable[[int], None]


class ChunkTeam:
    """Threads that run stages together.

    Attributes
    ----------
    n_threads : int
    where : int64 (WHERE_FIELDS,)
        Where the arrays of the chunk lie that the next stage of a pass is for.
    """

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        self.where = aligned_zeros(passes.WHERE_FIELDS, np.int64)
        self._plan: passes.Plan | None = None
        self._vectors: Vectors | None = None
        pause, sleep = wait_addresses()
        self._threads = ThreadTeam(n_threads, aligned_zeros(SIGNAL_SIZE, np.int64), pause, sleep)
        self._job: tuple[Stage, tuple[Any, ...], Sequence[tuple[Any, ...]]] | None = None
        self._team = Team(n_threads, self._follow, lambda: give_order(self._threads, _STOP))

    def run(self, stage: Stage, *shared: Any, own: Sequence[tuple[Any, ...]] | None = None) -> None:
        """Call ``stage(thread, team, *shared, *own[thread])`` in every thread."""
        # The stage must end with a barrier.
        if own is None:
            own = ((),) * self.n_threads
        part = (0, self._threads, *shared, *own[0])
        if self.n_threads == 1:
            stage(*part)
            return
        self._job = (stage, shared, own)
        _call_in_turn((give_order, self._threads, _WORK), (stage, *part))

    def run_pass(
        self, plan: passes.Plan, vectors: Vectors | None, visit: Callable[[Lead], None]
    ) -> None:
        """Call ``visit(lead)``; ``lead(order)`` does a stage for the chunk at :attr:`where`."""

        def lead(order: int) -> None:
            passes.take_part(0, self._threads, order, plan, self.where, vectors)

        if self.n_threads == 1:
            visit(lead)
            return
        self._plan, self._vectors = plan, vectors
        begin = (passes.take_part, 0, self._threads, passes.BEGIN, plan, self.where, vectors)
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
        if last_order(self._threads) not in (_STOP, _WORK, passes.END):
            lead(passes.END)

    def close(self) -> None:
        """End the helpers."""
        self._team.close()

    def _follow(self, thread: int) -> None:
        number = 0
        while (order := await_order(self._threads, number)) != _STOP:
            number += 1
            if order == _PASS:
                assert self._plan is not None
                number = passes.take_part(
                    thread, self._threads, number, self._plan, self.where, self._vectors
                )
                continue
            assert self._job is not None
            stage, shared, own = self._job
            stage(thread, self._threads, *shared, *own[thread])


def _call_in_turn(*calls: tuple[Any, ...]) -> None:
    """Call kernels, each a tuple of the kernel and its arguments."""
    # Python handles signals between its own instructions.  Here C code makes the calls, so no
    # handler runs between them.
    ready = [(entry_of(kernel, *given), *given) for kernel, *given in calls]
    deque(starmap(operator.call, ready), maxlen=0)
