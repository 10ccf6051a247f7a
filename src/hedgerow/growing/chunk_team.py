"""The threads of a fit in chunks: they meet in every stage, each with arguments of its own.

Helpers wait inside compiled code, as those of a fit in memory do, but come out for every
stage: its arrays are those of another chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hedgerow.arrays import aligned_zeros
from hedgerow.growing.chunk_stages import listen, tell
from hedgerow.kernels.barrier import SIGNAL_SIZE, Crew
from hedgerow.threads import Team, wait_addresses

_STOP, _WORK = 0, 1

Stage = Callable[..., None]


class ChunkTeam:
    """Threads that run stages together.

    Attributes
    ----------
    n_threads : int
    """

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        pause, sleep = wait_addresses()
        self._crew = Crew(n_threads, aligned_zeros(SIGNAL_SIZE, np.int64), pause, sleep)
        self._job: tuple[Stage, tuple[Any, ...], Sequence[tuple[Any, ...]]] | None = None
        self._team = Team(n_threads, self._follow, lambda: tell(self._crew, _STOP))

    def run(self, stage: Stage, *shared: Any, own: Sequence[tuple[Any, ...]] | None = None) -> None:
        """Call ``stage(thread, crew, *shared, *own[thread])`` in every thread.

        The stage must end with a barrier.
        """
        if own is None:
            own = ((),) * self.n_threads
        if self.n_threads > 1:
            self._job = (stage, shared, own)
            tell(self._crew, _WORK)
        stage(0, self._crew, *shared, *own[0])

    def close(self) -> None:
        """End the helpers."""
        self._team.close()

    def _follow(self, thread: int) -> None:
        number = 0
        while listen(self._crew, number) == _WORK:
            number += 1
            assert self._job is not None
            stage, shared, own = self._job
            stage(thread, self._crew, *shared, *own[thread])
