"""The threads of a fit in chunks: they meet in every stage.

Helpers wait inside compiled code, as those of a fit in memory do.  For the chunks of a pass
they stay there (:mod:`hedgerow.growing.chunks.stages.passes`); they come out for other stages, as
these have other arguments.

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

from hedgerow.arrays import aligned_zeros
from hedgerow.compile import entry_of
from hedgerow.growing.chunks.stages import passes
from hedgerow.growing.core.state import State
from hedgerow.kernels.primitives.barrier import ThreadTeam, await_order, give_order, last_order
from hedgerow.threads import Team

_STOP, _WORK, _PASS = 0, 1, 100

Stage = Callable[..., None]
Lead = Callable[[int], None]


class ChunkTeam(Team):
    """Threads that run stages together.

    Attributes
    ----------
    where : int64 (WHERE_FIELDS,)
        Where the bins of the chunk lie that the next stage of a pass is for.
    """

    def __init__(self, team: ThreadTeam) -> None:
        self.where = aligned_zeros(passes.WHERE_FIELDS, np.int64)
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

    def run_pass(self, state: State, plan: passes.Plan, visit: Callable[[Lead], None]) -> None:
        """Call ``visit(lead)``; ``lead(order)`` does a stage for the chunk at :attr:`where`."""

        def lead(order: int) -> None:
            passes.take_part(0, state, order, plan, self.where)

        if self._n_threads == 1:
            visit(lead)
            return
        self._job = (passes.take_part, (state, plan))
        begin = (passes.take_part, 0, state, passes.BEGIN, plan, self.where)
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

    def _follow(self, thread: int) -> None:
        number = 0
        while (order := await_order(self._threads, number)) != _STOP:
            number += 1
            assert self._job is not None
            stage, given = self._job
            if order == _PASS:
                state, plan = given
                number = passes.take_part(thread, state, number, plan, self.where)
            else:
                stage(thread, *given)


def _call_in_turn(*calls: tuple[Any, ...]) -> None:
    """Call kernels, each a tuple of the kernel and its arguments."""
    # Python handles signals between its own instructions.  Here C code makes the calls, so no
    # handler runs between them.
    ready = [(entry_of(kernel, *given), *given) for kernel, *given in calls]
    deque(starmap(operator.call, ready), maxlen=0)
