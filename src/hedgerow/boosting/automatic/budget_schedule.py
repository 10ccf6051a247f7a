"""Learning rates of a fit with a time budget.

::

    sum of the rates so far       20 |                    .--- the path ends with the
                                     |              . '        time budget
                                     |        . '
                                   0 |__. '___________________ seconds

Small rates learn better if there are enough rounds.  The number of rounds is unknown before
some are finished.  So the rate of each round is the remaining path, divided by the number of
rounds that fit into the remaining time at the speed of the latest rounds.

Glossary
--------
path  sum of the rates of all rounds: the distance of a fit from the base score.  If folds
      have found the number of rounds, the path is the sum over these rounds
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from statistics import median_low

LOWEST_RATE, HIGHEST_RATE = 0.02, 0.3
"""Range of automatic rates: lower rates gain no more, higher rates overshoot."""

USUAL_PATH = 20.0
"""Path of most fits that stop early."""

SHORT_PATH = 9.0
"""Path of fits with too few rounds to overfit; the plain 100 rounds at a rate of 0.1 have 10."""

_LAST = 9
"""Number of latest rounds that predict the duration of the next one.  Their median is robust to
rounds that compile kernels."""


class BudgetSchedule:
    """A schedule of learning rates (see :mod:`hedgerow.schedules`) that follows the clock.

    The rate of a round is computed once: later calls for the round return the same rate.

    Parameters
    ----------
    path : float > 0
        Sum of the rates to reach.  If there is enough time, ``n_rounds`` rounds reach it.
    end : float
        End of the time budget, in seconds of ``clock``.
    seconds_a_round : float
        Expected duration of a round, used before the first round is finished.
    lowest, highest : float
        Range of the rates.  All rounds have the lowest rate if there is enough time; rounds
        after the end of the path always have it.
    clock : callable, optional
        Clock in seconds, with any origin.

    Attributes
    ----------
    n_rounds : int
        Largest number of rounds of the path, each at the lowest rate.

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
        """Return the rate after ``rounds_before`` rounds; call this round by round."""
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
        # The lower median, because the first round may have loaded kernels.
        n_rounds = (self._end - now) / max(median_low(self._times), 1e-9)
        rate = min(self._left / min(max(n_rounds, 1.0), n_left), self._highest)
        self._left -= rate
        return rate
