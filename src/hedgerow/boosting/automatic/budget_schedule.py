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
path  sum of the rates of all rounds: how far a fit goes from the base score; where folds
      have told the number of rounds, it is that of these rounds
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from statistics import median_low

LOWEST_RATE, HIGHEST_RATE = 0.02, 0.3
"""Of automatic rates: lower ones gain no more, higher ones go past what they should learn."""

USUAL_PATH = 20.0
"""Of most fits that end early."""

SHORT_PATH = 9.0
"""Of so few rounds that none learns too much; the plain 100 at a rate of 0.1 go as far as 10."""

_LAST = 9
"""Rounds whose times tell those of the next; the median hides kernels that were compiled."""


class BudgetSchedule:
    """A schedule (see :mod:`hedgerow.schedules`) that follows the clock.

    A rate, once given, stays: asked again for a round, it gives the same.

    Parameters
    ----------
    path : float > 0
        Sum of the rates to reach.  With time to spare it is gone after ``n_rounds`` rounds.
    end : float
        When the time is over, in the seconds of ``clock``.
    seconds_a_round : float
        What a round is expected to take before one was done.
    lowest, highest : float
        No rate is above the highest.  The lowest is that of all rounds if there is time in
        plenty, and of those that follow when the path is gone.
    clock : callable, optional
        Seconds from any start.

    Attributes
    ----------
    n_rounds : int
        Rounds of the lowest rate, the most that the path is divided into.

    Examples
    --------
    >>> now = iter(range(100))
    >>> rate = BudgetSchedule(10.0, 50.0, 1.0, 0.01, 0.5, clock=lambda: float(next(now)))
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
        self.n_rounds = math.ceil(path / lowest)
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
            self._times.append(now - self._before)
        self._before = now
        n_left = self.n_rounds - len(self._rates)
        if n_left < 1 or self._left <= 0.0:
            return self._lowest
        # The lower median: the first round may have loaded kernels.
        n_rounds = (self._end - now) / max(median_low(self._times), 1e-9)
        rate = min(self._left / min(max(n_rounds, 1.0), n_left), self._highest)
        self._left -= rate
        return rate


__all__ = ["HIGHEST_RATE", "LOWEST_RATE", "SHORT_PATH", "USUAL_PATH", "BudgetSchedule"]
