"""Learning rates of a fit that has so many seconds.

::

    path                          20 |                    .--- the path is gone when
    (sum of the rates so far)        |              . '        the time is
                                     |        . '
                                   0 |__. '___________________ seconds

Small rates learn better, if there are rounds enough for them to arrive anywhere.  How many
rounds there will be is known only once some are done, so the rate of each round is what is
left of the path over the rounds that there is time left for, as the last ones have gone.

Glossary
--------
path  sum of the rates of all rounds: how far a fit goes from the base score
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from statistics import median

_LAST = 9
"""Rounds whose times tell those of the next; the median hides kernels that were compiled."""


class Pace:
    """A schedule (see :mod:`hedgerow.schedules`) that follows the clock.

    A rate, once given, stays: asked again for a round, it gives the same.

    Parameters
    ----------
    path : float > 0
        Sum of the rates to reach.
    end : float
        When the time is over, in the seconds of ``clock``.
    seconds_a_round : float
        What a round is expected to take before one was done.
    lowest, highest : float
        No rate is beyond these.
    clock : callable, optional
        Seconds from any start.

    Examples
    --------
    >>> now = iter(range(100))
    >>> rate = Pace(10.0, 50.0, 1.0, 0.01, 0.5, clock=lambda: float(next(now)))
    >>> [round(rate(number), 2) for number in range(3)]
    [0.2, 0.2, 0.2]
    """

    def __init__(
        self,
        path: float,
        end: float,
        seconds_a_round: float,
        lowest: float,
        highest: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._left, self._end, self._clock = path, end, clock
        self._lowest, self._highest = lowest, highest
        self._times = deque([seconds_a_round], maxlen=_LAST)
        self._before: float | None = None
        self._rates: list[float] = []

    def __call__(self, rounds_before: int) -> float:
        """The rate after ``rounds_before`` rounds, which are asked for one after the other."""
        while len(self._rates) <= rounds_before:
            self._rates.append(self._next())
        return self._rates[rounds_before]

    def _next(self) -> float:
        now = self._clock()
        if self._before is not None:
            if not self._rates[1:]:
                self._times.clear()  # what was expected has served its turn
            self._times.append(now - self._before)
        self._before = now
        n_rounds = max(1.0, (self._end - now) / max(median(self._times), 1e-9))
        rate = min(max(self._left / n_rounds, self._lowest), self._highest)
        self._left = max(0.0, self._left - rate)
        return rate


__all__ = ["Pace"]
