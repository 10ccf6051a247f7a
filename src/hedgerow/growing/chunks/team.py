"""The threads of a fit in chunks: they meet in every stage, each with arguments of its own.

Helpers wait inside compiled code, as those of a fit in memory do.  For the chunks of a pass
they stay there (:mod:`hedgerow.growing.chunks.passes`); they come out for other stages, as
these have other arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from hedgerow.arrays import aligned_zeros
from hedgerow.growing.chunks import passes
from hedgerow.kernels.primitives.barrier import SIGNAL_SIZE, ThreadTeam, await_order, give_order
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
        pause, sleep = wait_addresses()
        self._threads = ThreadTeam(n_threads, aligned_zeros(SIGNAL_SIZE, np.int64), pause, sleep)
        self._job: tuple[Stage, tuple[Any, ...], Sequence[tuple[Any, ...]]] | None = None
        self._team = Team(n_threads, self._follow, lambda: give_order(self._threads, _STOP))

    def run(self, stage: Stage, *shared: Any, own: Sequence[tuple[Any, ...]] | None = None) -> None:
        """Call ``stage(thread, team, *shared, *own[thread])`` in every thread.

        The stage must end with a barrier.
        """
        if own is None:
            own = ((),) * self.n_threads
        if self.n_threads > 1:
            self._job = (stage, shared, own)
            give_order(self._threads, _WORK)
        stage(0, self._threads, *shared, *own[0])

    @contextmanager
    def leading(self, plan: passes.Plan) -> Iterator[Lead]:
        """Begin a pass; what is given calls a stage, for the chunk at :attr:`where`."""

        def lead(order: int) -> None:
            passes.take_part(0, self._threads, order, plan, self.where)

        if self.n_threads > 1:
            self._plan = plan
            give_order(self._threads, _PASS)
            lead(passes.BEGIN)
        try:
            yield lead
        finally:
            if self.n_threads > 1:
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
                number = passes.take_part(thread, self._threads, number, self._plan, self.where)
                continue
            assert self._job is not None
            stage, shared, own = self._job
            stage(thread, self._threads, *shared, *own[thread])
