"""The recipe for a time budget: the slower the rounds, the larger the learning rate.

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

``docs/defaults-experiments.md`` has the measurements behind the paths of fits with few rounds.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from statistics import median_low

from hedgerow.boosting.automatic.candidates import DataSize
from hedgerow.boosting.automatic.recipe import (
    HIGHEST_RATE,
    LEVELS,
    LOWEST_RATE,
    Values,
    plain_values,
    recipe,
)

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

    path             sum of the rates to reach.  If there is enough time, ``n_rounds`` rounds reach
                     it.
    end              end of the time budget, in seconds of ``clock``
    seconds_a_round  expected duration of a round, used before the first round is finished
    lowest, highest  range of the rates.  All rounds have the lowest rate if there is enough time;
                     rounds after the end of the path always have it.
    clock            clock in seconds, with any origin
    n_rounds         largest number of rounds of the path, each at the lowest rate
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


_HURRIED_ROUNDS = 300
_VERY_FEW_ROUNDS = 50
_HURRIED_SMALL = 2_000
_HURRIED_PATH_OF_FEW_ROWS = 12.0
_HURRIED_PATH_OF_SQUARES = 11.0
_HURRIED_PATH_OF_LEVELS = 18.0
_HURRIED_PATH_OF_CLASSES = 12.0
"""Paths of fits with few rounds, like ``SHORT_PATH``."""
_HURRIED_LEAVES = 24
_HURRIED_SUBSAMPLE = 0.65
"""Share of the rows if a round has several trees, which would otherwise overfit."""
_PATIENT_PATH = 2.5
_PATHS_FOR_FOLDS = 2.0
"""Folds and model take the time of a model with twice the path: `docs/defaults-experiments.md`."""
_MOST_ROUNDS = 100_000
_SECONDS_A_TREE = 4e-4
_SECONDS_A_CELL = 1.5e-9
"""Measured on two threads of a processor of 2024; on others the rate is slightly off."""


def in_a_hurry(size: DataSize, n_rounds: float) -> tuple[Values, float]:
    """Return the recipe for a time budget of few rounds, and its path.

    The values are plain, because these learn most in a round.  Small trees and samples of columns
    keep hundreds of rounds from overfitting, but do not help few rounds, except on small tables.
    Symmetric trees take less time than others.  Trees shared by all classes learn less.
    """
    values = recipe(size)
    if size.n_rows < _HURRIED_SMALL:
        return values | {"subsample": 1.0}, _HURRIED_PATH_OF_FEW_ROWS
    by_levels = values["grow_policy"] == "symmetric"
    values |= plain_values() | {"max_depth": None}
    if n_rounds < _VERY_FEW_ROUNDS:
        return values, _HURRIED_PATH_OF_SQUARES
    if by_levels:
        levels = {"grow_policy": "symmetric", "max_leaves": None, "max_depth": LEVELS}
        return values | levels, _HURRIED_PATH_OF_LEVELS
    if size.n_outputs > 1:
        return values | {"subsample": _HURRIED_SUBSAMPLE}, _HURRIED_PATH_OF_CLASSES
    if size.squares:
        return values, _HURRIED_PATH_OF_SQUARES
    return values | {"max_leaves": _HURRIED_LEAVES}, SHORT_PATH


def within_time(
    values: Values, size: DataSize, seconds: float, began: float, has_validation: bool = False
) -> Values:
    """Return the recipe for a time budget: the slower the rounds, the larger the learning rate.

    Twice as many rounds at half the rate learn about as much, and generalise a little better.  So
    a budget with time for more rounds has a smaller rate, which follows the clock
    (:mod:`hedgerow.boosting.automatic.time_recipe`).  If there is time for folds, they choose
    as without a budget, and find the path of the model.  Otherwise some rows are set aside for
    early stopping, or none if rounds are few.
    """
    cells = size.n_rows * size.n_features
    seconds_a_round = size.n_outputs * (_SECONDS_A_TREE + _SECONDS_A_CELL * cells)
    n_rounds = seconds / seconds_a_round
    of_folds = _PATHS_FOR_FOLDS * USUAL_PATH / values["learning_rate"]
    if n_rounds >= of_folds and not has_validation:
        return values | {"finest_rate": LOWEST_RATE, "easy_rounds": None}
    hurried = n_rounds < _HURRIED_ROUNDS
    path = USUAL_PATH
    if hurried:  # too few rounds to overfit, so no row is set aside
        values, path = in_a_hurry(size, n_rounds)
    likely = min(max(path * seconds_a_round / seconds, LOWEST_RATE), HIGHEST_RATE)
    schedule = BudgetSchedule(path, began + seconds, seconds_a_round, LOWEST_RATE, HIGHEST_RATE)
    scheduled = {"learning_rate": schedule, "early_stopping": not hurried, **_many_rounds(likely)}
    return values | scheduled


def _many_rounds(rate: float) -> Values:
    """Return a limit of rounds for any rate, and the patience for this rate."""
    return {"n_estimators": _MOST_ROUNDS, "patience": math.ceil(_PATIENT_PATH / rate)}
