"""The cost of a fit: bounds on it that are estimated from the size of the data, and time budgets.

A clock would choose other models on other machines, so bounds are estimates in seconds of one
thread.  `docs/defaults-experiments.md` has the measurements.

With a time budget, the slower the rounds, the larger the learning rate.  Small rates learn better
if there are enough rounds, but their number is unknown before some are finished.  So the rate of
each round is the remaining path (the path of a fit is the sum of the rates of all its rounds)
divided by the number of rounds that fit into the remaining time at the speed of the latest rounds.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median_low

from hedgerow.boosting.automatic.recipe import (
    HIGHEST_RATE,
    LEVELS,
    LOWEST_RATE,
    DataSize,
    Values,
    levels,
    plain_values,
    recipe,
)
from hedgerow.boosting.loop.setup.resolved import ALL_OUTPUTS
from hedgerow.params import BoostParams

_SECONDS_A_TREE, _SECONDS_A_ROW, _SECONDS_A_LINE = 2e-4, 2e-8, 2.5e-8
"""Linear leaves read each row once more."""
_SECONDS_A_VALUE = 3.3e-10
"""Each level of a tree reads each value once."""
_SECONDS_A_BIN = 5e-9
"""Each leaf compares all bins of all columns."""
_OF_LEVELS = 0.4
"""Cost of values and bins in symmetric trees, whose levels are built and searched as a whole."""
_OF_VECTORS = 0.2
"""Cost of each output of a tree with vector leaves, as a share of a tree (26 classes)."""

_PLAIN_ROUNDS = 100
"""Rounds of a plain fit, of the trees that are the default of other libraries."""
_FREE_ROWS, _FREE_COLUMNS = 10_000, 100
"""Fits of fewer rows and at most these columns take a few seconds with all candidates."""
_SHORT_FIT = 2.5
"""A plain fit of fewer seconds counts as one of these."""
_SLOW, _FAST, _CANDIDATES, _MODEL = 5.0, 2.0, 11.0, 8.0
"""Plain fits that may be spent on rounds at the usual rate, on fast rounds, on all candidates
together, and on the model."""
_CANDIDATES_OF_FEW_ROWS = 10.0
"""The same for all candidates of fewer rows and many columns: the best of four is often much better
than that of the first two."""
_SMALL, _CANDIDATES_OF_SMALL, _SHORT_CANDIDATES = 3_000, 3.0, 1.2
"""The same below this number of rows, where fits of LightGBM, too, take a second or two; candidates
may take at least these seconds."""


def seconds_of_round(size: DataSize, params: BoostParams) -> float:
    """Return the estimated seconds of a round of one fit of all rows."""
    depth = params.max_depth or 30
    n_leaves = min(params.max_leaves or 2**depth, 2**depth)
    n_leaves = max(2, min(n_leaves, size.n_rows // params.min_samples_leaf))
    n_columns = size.n_features + len(params.feature_crosses or ())
    values = size.n_rows * n_columns * (n_leaves - 1).bit_length()  # the same on every machine
    bins = n_leaves * n_columns * min(params.max_bins, size.n_rows)
    of_histograms = _SECONDS_A_VALUE * values + _SECONDS_A_BIN * bins
    if params.grow_policy == "symmetric":
        of_histograms *= _OF_LEVELS
    a_row = _SECONDS_A_ROW + (_SECONDS_A_LINE if params.linear_leaves else 0.0)
    seconds = _SECONDS_A_TREE + a_row * size.n_rows + of_histograms
    share = _OF_VECTORS if params.multi_strategy == ALL_OUTPUTS else 1.0
    return max(1.0, size.n_outputs * share) * seconds


@dataclass(frozen=True, slots=True)
class FastRate:
    """A schedule (see :mod:`hedgerow.schedules`) whose rate rises after ``n_slow`` rounds."""

    rate: float
    n_slow: int

    def __call__(self, rounds_before: int) -> float:
        """Return the rate after ``rounds_before`` rounds."""
        return self.rate if rounds_before < self.n_slow else max(self.rate, HIGHEST_RATE)

    def path(self, n_rounds: int) -> float:
        """Return the sum of the rates of the first rounds."""
        n_fast = max(n_rounds - self.n_slow, 0)
        return self.rate * (n_rounds - n_fast) + self(self.n_slow) * n_fast


@dataclass(frozen=True, slots=True)
class Allowance:
    """Bounds on the cost of the folds and the model.

    n_slow, n_fast     rounds of the folds at the usual rate, and at the highest
    candidates, model  estimated seconds of all candidates together, and of the model
    """

    size: DataSize
    n_slow: int
    n_fast: int
    candidates: float
    model: float

    def within(self, params: BoostParams) -> BoostParams:
        """Return the parameters of folds with fast rounds instead of very many."""
        if params.n_estimators <= self.n_slow + self.n_fast:
            return params
        rate = FastRate(params.learning_rate, self.n_slow)
        return replace(params, learning_rate=rate, n_estimators=self.n_slow + self.n_fast)

    def most_rounds(self, params: BoostParams) -> int:
        """Return the largest number of rounds of the model."""
        return max(1, round(self.model / seconds_of_round(self.size, params)))


def allowance_of(size: DataSize, params: BoostParams, n_tested: int) -> Allowance | None:
    """Return the bounds for folds that start with ``params``; None where no fit takes long."""
    few_rows = size.n_rows < _FREE_ROWS
    if few_rows and size.n_features <= _FREE_COLUMNS:
        return None
    plain = replace(BoostParams(), max_bins=params.max_bins)
    seconds = _PLAIN_ROUNDS * seconds_of_round(size, plain)
    counted = max(seconds, _SHORT_FIT)
    of_folds = n_tested * seconds_of_round(size, params)
    candidates = _CANDIDATES_OF_FEW_ROWS * seconds if few_rows else _CANDIDATES * counted
    if size.n_rows < _SMALL:
        candidates = max(_CANDIDATES_OF_SMALL * seconds, _SHORT_CANDIDATES)
    n_slow, n_fast = (max(1, round(share * counted / of_folds)) for share in (_SLOW, _FAST))
    return Allowance(size, n_slow, n_fast, candidates, _MODEL * counted)


# -- time budgets -------------------------------------------------------------------------------

_LAST = 9
"""Number of latest rounds that predict the duration of the next one."""


class BudgetSchedule:
    """A schedule of learning rates (see :mod:`hedgerow.schedules`) that follows the clock.

    The rate of a round is computed once: later calls for the round return the same rate.

    path             sum of the rates to reach.  Each round has the lowest rate if there is enough
                     time, and so have rounds after the end of the path.
    end              end of the time budget, in seconds of ``clock``
    seconds_a_round  expected duration of a round, used before the first round is finished
    """

    def __init__(
        self,
        path: float,
        end: float,
        seconds_a_round: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._left, self._end, self._clock = path, end, clock
        self._most_rounds = math.ceil(path / LOWEST_RATE)
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
        n_left = self._most_rounds - len(self._rates)
        if n_left < 1 or self._left <= 0.0:
            return LOWEST_RATE
        # The lower median, because the first round may have loaded kernels.
        n_rounds = (self._end - now) / max(median_low(self._times), 1e-9)
        rate = min(self._left / min(max(n_rounds, 1.0), n_left), HIGHEST_RATE)
        self._left -= rate
        return rate


_USUAL_PATH = 20.0
"""Path of most fits that stop early."""
_HURRIED_ROUNDS, _VERY_FEW_ROUNDS = 300, 50
_HURRIED_SMALL = 2_000
_HURRIED_PATH, _PATH_OF_SQUARES, _PATH_OF_CLASSES, _PATH_OF_LEVELS = 9.0, 11.0, 12.0, 18.0
"""Paths of fits with too few rounds to overfit; the plain 100 rounds at a rate of 0.1 have 10.
Those of classes are also those of few rows."""
_HURRIED_LEAVES = 24
_HURRIED_SUBSAMPLE = 0.65
"""Share of the rows if a round has several trees, which would otherwise overfit."""
_PATIENT_PATH = 2.5
_PATHS_FOR_FOLDS = 2.0
"""Folds and model take about the time of a model with twice the path."""
_MOST_ROUNDS = 100_000
_SECONDS_BESIDE = 2e-4
"""Time of a round besides its trees."""


def in_a_hurry(size: DataSize, n_rounds: float) -> tuple[Values, float]:
    """Return the recipe for a time budget of few rounds, and its path."""
    # Plain values learn most in a round.  Small trees and samples of columns keep hundreds of
    # rounds from overfitting, but do not help few rounds, except on small tables.
    values = recipe(size)
    if size.n_rows < _HURRIED_SMALL:
        return values | {"subsample": 1.0}, _PATH_OF_CLASSES
    by_levels = values["grow_policy"] == "symmetric"
    values |= plain_values() | {"max_depth": None}
    if n_rounds < _VERY_FEW_ROUNDS or (size.squares and not by_levels):
        return values, _PATH_OF_SQUARES
    if by_levels:
        return values | levels(LEVELS), _PATH_OF_LEVELS
    if size.n_outputs > 1:
        return values | {"subsample": _HURRIED_SUBSAMPLE}, _PATH_OF_CLASSES
    return values | {"max_leaves": _HURRIED_LEAVES}, _HURRIED_PATH


def within_time(
    values: Values, size: DataSize, seconds: float, began: float, has_validation: bool = False
) -> Values:
    """Return the recipe for a time budget: the slower the rounds, the larger the learning rate."""
    trees = {n: v for n, v in values.items() if n in BoostParams.__dataclass_fields__}
    seconds_a_round = _SECONDS_BESIDE + seconds_of_round(size, BoostParams(**trees))
    n_rounds = seconds / seconds_a_round
    of_folds = _PATHS_FOR_FOLDS * _USUAL_PATH / values["learning_rate"]
    # If there is time for folds, they choose as without a budget.
    if n_rounds >= of_folds and not has_validation:
        return values
    hurried = n_rounds < _HURRIED_ROUNDS
    path = _USUAL_PATH
    if hurried:  # too few rounds to overfit, so no row is set aside
        values, path = in_a_hurry(size, n_rounds)
    likely = min(max(path * seconds_a_round / seconds, LOWEST_RATE), HIGHEST_RATE)
    return values | {
        "learning_rate": BudgetSchedule(path, began + seconds, seconds_a_round),
        "early_stopping": not hurried,
        "n_estimators": _MOST_ROUNDS,
        "patience": math.ceil(_PATIENT_PATH / likely),
    }
