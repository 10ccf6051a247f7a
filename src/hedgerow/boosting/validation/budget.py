"""Time budget of a fit: ``time_budget``.

::

    began                             now                      began + budget
      | reading | binning | round | round |  ... next round | assembling  |

A round begins only if it is expected to take no longer than the last few, and to leave time to
assemble the model; the first round always begins.  The clock decides the number of rounds, so
models may differ from run to run; models with the same number of rounds have the same trees.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from hedgerow.boosting.validation.stopping import StoppingParams

_LAST = 3
"""Number of latest rounds whose times predict the next one."""

_FOR_ASSEMBLY = 0.05
"""Share of the time that is left for assembling models, and for predictions of folds."""


class Budget:
    """Time that a fit may take, from ``began`` on, in seconds of ``clock``."""

    def __init__(
        self, seconds: float, began: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._end, self._clock = began + (1.0 - _FOR_ASSEMBLY) * seconds, clock
        self._times: deque[float] = deque(maxlen=_LAST)
        self.begin_rounds()

    def begin_rounds(self) -> None:
        """Record that a round begins now."""
        self._mark = self._clock()

    def is_spent(self) -> bool:
        """Return whether there is no time for another round; call it after each round."""
        began = self._mark
        self.begin_rounds()
        self._times.append(self._mark - began)
        return self._mark + max(self._times) >= self._end

    def deadline(self, share: float) -> Callable[[], bool]:
        """Return a function that tells whether a share of the remaining time is spent."""
        now = self._clock()
        until = now + share * (self._end - now)
        return lambda: self._clock() >= until


def budget_of(stopping: StoppingParams) -> Budget | None:
    """Return the budget of a fit; None without ``time_budget``."""
    seconds = stopping.time_budget
    return None if seconds is None else Budget(float(seconds), stopping.began)
