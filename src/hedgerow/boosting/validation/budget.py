"""Time budget of a fit: ``time_budget``.

::

    began                                       now                      began + budget
      | reading | binning | compiling | round | round |  ... next round | assembling  |

A round begins only if that round and the assembly of the model are expected to end
before the budget is spent; the first round always begins.  The expected time of a round is
the longest of the last few rounds, minus one-time compilation or loading of kernels.  The
assembly time is measured by a trial once half of the time for rounds is over: about half of
the rounds are done by then, so the estimate extrapolates little.  The trial is repeated if
there are four times as many rounds (the first one may have compiled kernels), so all trials
together cost less than the final assembly.

The clock decides the number of rounds, so models may differ from run to run; models with
the same number of rounds have the same trees.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.compile.kernels import compile_seconds

_LAST = 3
"""Number of latest rounds whose times predict the next one."""

_TRIAL_FACTOR = 4


class Budget:
    """Time that a fit may take.

    began     start time of the fit, as ``clock``
    compiled  returns the seconds spent on compiling kernels so far
    clock     returns seconds from any starting point
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
        """Record that a round begins now."""
        self._mark = self._clock(), self._compiled()

    def is_spent(self, n_rounds: int, assemble: Callable[[], object]) -> bool:
        """Return whether there is no time for another round; call it after each round."""
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
        """Return a function that tells whether a share of the remaining time is spent."""
        now = self._clock()
        until = now + share * (self._end - now)
        return lambda: self._clock() >= until


@contextmanager
def budget_of(stopping: StoppingParams) -> Iterator[Budget | None]:
    """Yield the budget of a fit while it runs; None without ``time_budget``."""
    if stopping.time_budget is None:
        yield None
        return
    before = compile_seconds()
    yield Budget(float(stopping.time_budget), stopping.began, lambda: compile_seconds() - before)
