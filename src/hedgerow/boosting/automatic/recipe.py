"""The recipe: values of all automatic parameters for data of a size and a kind.

Glossary
--------
plain      the defaults of :class:`hedgerow.params.BoostParams` and of the C++ libraries:
           100 rounds at a rate of 0.1, and no sampling
path       sum of the rates of all rounds: the distance of a fit from the base score.  If folds
           have found the number of rounds, the path is the sum over these rounds

Values depend on each other: a small learning rate needs many rounds, and a rule to stop them.
:mod:`hedgerow.boosting.automatic.defaults` decides whether a fit has the recipe.

With a time budget, the slower the rounds, the larger the learning rate::

    sum of the rates so far       20 |                    .--- the path ends with the
                                     |              . '        time budget
                                     |        . '
                                   0 |__. '___________________ seconds

Small rates learn better if there are enough rounds.  The number of rounds is unknown before
some are finished.  So the rate of each round is the remaining path, divided by the number of
rounds that fit into the remaining time at the speed of the latest rounds.
``docs/defaults-experiments.md`` has the measurements behind the paths of fits with few rounds.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import fields
from statistics import median_low
from typing import Any, TypeAlias

from hedgerow.boosting.automatic.candidates import FEWEST_ROWS, LARGE, MOST_LEVELS, DataSize
from hedgerow.boosting.loop.setup.resolved import ALL_OUTPUTS, ONE_OUTPUT
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.params import BoostParams

Values: TypeAlias = "dict[str, Any]"

AUTOMATIC = (
    "n_estimators",
    "learning_rate",
    "max_leaves",
    "min_samples_leaf",
    "reg_lambda",
    "subsample",
    "colsample_bynode",
    "min_data_per_group",
    "cat_smooth",
    "cat_l2",
    "max_cat_to_onehot",
    "max_bins",
    "grow_policy",
    "multi_strategy",
    "linear_leaves",
    "feature_crosses",
    "early_stopping",
    "patience",
)
"""Parameters of the estimators that may be ``"auto"``."""

LOWEST_RATE, HIGHEST_RATE = 0.02, 0.3
"""Range of automatic rates: lower rates gain no more, higher rates overshoot."""

_PLAIN_PATH = 10.0
"""Sum of the rates of the plain 100 rounds at a rate of 0.1."""

TINY, _FEW, _SMALL, _MEDIUM, _LARGE = FEWEST_ROWS, 500, 3_000, 10_000, 100_000
_MANY_OUTPUTS = 5
_SHARED_TREES = 8
"""From this number of classes on, one tree for all is as good as one for each, in half the time."""
_SETS_OF_FEW_ROWS: dict[str, float] = {"min_data_per_group": 1, "cat_smooth": 1.0, "cat_l2": 1.0}
"""Sets of categories below 10,000 rows.

The plain values keep categories of few rows together: in a panel of 100 countries and 12 years, no
tree could separate two countries.  The rounds that the folds find prevent overfitting instead.
"""
_FEW_BINS = 63
_FEW_LEVELS = 4
"""Most categories of a column that splits one category against the others, not sets."""
_MANY_LISTED = 100_000
_LEAD_OF_LISTS = 0.7
"""Standard errors by which a candidate must lead on rankings."""
_STRIDE, _STRIDE_OF_LARGE = 3.0, 2.0
"""Learning rate of the folds over that of the model, below 100,000 rows and above.

From 3,000 to 60,000 rows, fits take 0.7 to 0.8 of the time that they take with 2, at the same
scores; 4 was worse.  On flights of 240,000 rows 3 was worse by 1.3%
(`docs/defaults-experiments.md`).
"""
_LONGER = 1.15
"""Rounds of the model over those of the folds: small steps overfit later than large ones."""
LEVELS = 7
_FEW_COLUMNS = 100
"""Most columns for symmetric trees, which cannot use bundles and so are slow on many columns."""
_MOST_BINS = 255


def plain_values() -> Values:
    """Return the value of each automatic parameter without a recipe."""
    values = {f.name: f.default for f in (*fields(BoostParams), *fields(StoppingParams))}
    return {name: values[name] for name in AUTOMATIC}


def rate_of_rounds(n_rounds: int) -> float:
    """Return the automatic rate of ``n_rounds`` rounds, whose sum is that of the plain rounds."""
    plain = plain_values()["learning_rate"]
    return round(float(min(max(_PLAIN_PATH / n_rounds, LOWEST_RATE), plain)), 6)


def recipe(size: DataSize) -> Values:
    """Return the value of each automatic parameter for data of this size, and the folds."""
    values = _of_size(size)
    if size.by_lists:  # scores of a few lists vary from round to round
        n_tested = 5 if size.n_rows < _MEDIUM else 2 if size.n_rows < _MANY_LISTED else 1
        values |= {"folds": (5, n_tested), "lead": _LEAD_OF_LISTS}
        values |= {"patience": 100, "least_patience": None}
    return values


def _of_size(size: DataSize) -> Values:
    """Return the recipe without the changes for rankings."""
    several = size.n_outputs > 1
    strategy = ALL_OUTPUTS if size.n_outputs >= _SHARED_TREES else ONE_OUTPUT
    if size.n_rows < _SMALL:
        # Trees of few leaves on a sample of the rows differ most from each other.
        # Few bins take a third less time at the same scores.
        tiny, few = size.n_rows < TINY, size.n_rows < _FEW
        return {
            "n_estimators": 1000 if tiny else 3000,
            "learning_rate": 0.05 if few else 0.08,
            "max_leaves": 8,
            "max_depth": None,
            "grow_policy": "leafwise",
            # Without sampling, repeated rows and rows with weights give the same model.
            "min_samples_leaf": 1 if tiny else 3,
            "subsample": 1.0 if tiny else 0.6,
            "reg_lambda": 2.0,
            "colsample_bynode": 0.7,
            **_SETS_OF_FEW_ROWS,
            "max_cat_to_onehot": _FEW_LEVELS,
            "max_bins": _FEW_BINS if size.most_levels <= _FEW_BINS else _MOST_BINS,
            "multi_strategy": strategy,
            # Sums of floats differ between a row of weight 2 and two equal rows.
            "linear_leaves": size.squares and size.by_lines and not tiny,
            "early_stopping": "cv",
            "patience": 60 if few else 40,
            "folds": (5, 2 if size.n_outputs > _MANY_OUTPUTS else 5),
            "rounds_factor": 1.25,
            "stride": _STRIDE,
        }
    # Sets of categories fit the errors that each new sample of the rows adds to the means of
    # categories.  On small tables sampling helps more than these errors harm.
    large = size.n_rows >= _MEDIUM
    by_sets = large and 0 < size.most_levels <= MOST_LEVELS
    # Statistics of the target are numbers: sampling does not harm them, and larger trees use them
    # better (amazon, mean of five seeds: 0.1380; sampled 0.1378; also with 63 leaves 0.1374).
    by_statistics = large and size.most_levels > MOST_LEVELS
    symmetric = size.squares and size.by_levels and size.n_features <= _FEW_COLUMNS
    return {
        "n_estimators": 1000 if several else 3000,
        "learning_rate": 0.1 if several else 0.04,
        "max_leaves": None if symmetric else 63 if by_statistics else 31,
        "max_depth": LEVELS if symmetric else None,
        "grow_policy": "symmetric" if symmetric else "leafwise",
        "min_samples_leaf": 10,
        "subsample": 1.0 if by_sets else 0.8,
        "reg_lambda": 1.0,
        "colsample_bynode": 0.7 if several else 0.9,
        **({} if large else _SETS_OF_FEW_ROWS),
        "max_cat_to_onehot": _FEW_LEVELS,
        "max_bins": _MOST_BINS,
        "multi_strategy": strategy,
        "linear_leaves": size.squares and size.by_lines,
        "early_stopping": "cv",
        "patience": 20 if several else 60,
        "folds": (10, 2 if size.n_rows < _MEDIUM else 1),
        "rounds_factor": _LONGER if size.squares else 1.0,
        "stride": _STRIDE if size.n_rows < _LARGE else _STRIDE_OF_LARGE,
        "at_equal_learning": size.n_rows * size.n_outputs >= LARGE,
    }


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
    a budget with time for more rounds has a smaller rate, which follows the clock.  If there is
    time for folds, they choose as without a budget, and find the path of the model.  Otherwise
    some rows are set aside for early stopping, or none if rounds are few.
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
    return values | {
        "learning_rate": schedule,
        "early_stopping": not hurried,
        "n_estimators": _MOST_ROUNDS,
        "patience": math.ceil(_PATIENT_PATH / likely),
    }
