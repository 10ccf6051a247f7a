"""A fit that ends in time: ``time_budget``.

::

    began                                       now                      began + budget
      | reading | binning | compiling | round | round |  ... next round | assembling  |

A round begins only if it can be expected to end, and the model to be put together,
before the budget is spent; the first round always does.  What a round takes is what
the longest of the last few has taken, less the time in which kernels were compiled or
loaded, which happens once.  What putting the model together takes is tried once half
of the time for rounds is over: there are then about as many rounds as are to come, and so
little to guess.  It is tried again should there be four times as many after all (the first
may have compiled kernels), so that all trials cost less than the model at the end.

A clock decides how many rounds there are, so models may differ from run to run; with
the same number of rounds they have the same trees.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.compile.kernels import compile_seconds

_LAST = 3
"""Rounds whose times tell that of the next one."""

_TRIAL_FACTOR = 4


class Budget:
    """Seconds that a fit may take.

    Parameters
    ----------
    seconds : float
    began : float
        When the fit began, in the seconds of ``clock``.
    compiled : callable
        Gives the seconds so far in which kernels were compiled.
    clock : callable, optional
        Seconds from any start.
    """

    def __init__(
        self,
        seconds: float,
        began: float,
        compiled: Callable[[], float] = lambda: 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._end = began + seconds
        self._compiled, self._clock = compiled, clock
        self._times: deque[float] = deque(maxlen=_LAST)
        self._first_trial: float | None = None
        self._next_trial = 1
        self._assembly = 0.0  # seconds for each round
        self.begin_rounds()

    def begin_rounds(self) -> None:
        """Note that a round begins now."""
        self._mark = self._clock(), self._compiled()

    def is_spent(self, n_rounds: int, assemble: Callable[[], object]) -> bool:
        """Whether there is no time for another round; call it after each.

        Parameters
        ----------
        n_rounds : int
            Rounds done.
        assemble : callable
            Puts the model of these rounds together.
        """
        now, compiled = self._clock(), self._compiled()
        self._times.append(max(0.0, now - self._mark[0] - (compiled - self._mark[1])))
        if self._first_trial is None:
            self._first_trial = (self._mark[0] + self._end) / 2
        if self._first_trial <= now < self._end and n_rounds >= self._next_trial:
            self._next_trial = _TRIAL_FACTOR * n_rounds
            assemble()
            self._assembly = (self._clock() - now) / n_rounds
        self.begin_rounds()
        return self._mark[0] + max(self._times) + self._assembly * (n_rounds + 1) >= self._end

    def deadline(self, share: float) -> Callable[[], bool]:
        """Tell whether a share of what is left now is spent."""
        now = self._clock()
        until = now + share * (self._end - now)
        return lambda: self._clock() >= until

    def short_of_a_step(self, share: float, at_once: int) -> Callable[[], bool]:
        """Tell, after each step of several fits, whether the next would not end in time.

        Time is a share of what is left now; ``at_once`` steps are done at the same time.
        """
        until = self._clock() + share * (self._end - self._clock())
        steps: deque[float] = deque(maxlen=_LAST * at_once)
        self.begin_rounds()

        def is_short() -> bool:
            began, compiled = self._mark
            self.begin_rounds()
            steps.append(max(0.0, self._mark[0] - began - (self._mark[1] - compiled)))
            return self._mark[0] + at_once * max(steps) >= until

        return is_short

    def late_but_for(self, seconds: float) -> Callable[[], bool]:
        """Tell whether no more than ``seconds`` are left."""
        return lambda: self._clock() + seconds >= self._end


@contextmanager
def budget_of(stopping: StoppingParams) -> Iterator[Budget | None]:
    """The budget of a fit for as long as it goes on; None without ``time_budget``."""
    if stopping.time_budget is None:
        yield None
        return
    before = compile_seconds()
    yield Budget(float(stopping.time_budget), stopping.began, lambda: compile_seconds() - before)


__all__ = ["Budget", "budget_of"]
