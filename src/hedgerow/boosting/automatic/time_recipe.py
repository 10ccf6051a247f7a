"""The recipe for a time budget: the slower the rounds, the larger the learning rate.

``docs/defaults-experiments.md`` has the measurements behind the paths of fits with few rounds.
"""

from __future__ import annotations

import math

from hedgerow.boosting.automatic.budget_schedule import (
    HIGHEST_RATE,
    LOWEST_RATE,
    SHORT_PATH,
    USUAL_PATH,
    BudgetSchedule,
)
from hedgerow.boosting.automatic.data_size import DataSize
from hedgerow.boosting.automatic.recipe import LEVELS, Values, plain_values, recipe

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

    Parameters
    ----------
    size : DataSize
    n_rounds : float
        Approximate number of rounds in the budget.  Below 50 all values are plain.

    Examples
    --------
    >>> [in_a_hurry(DataSize(5_000, n_outputs=3), n)[0]["subsample"] for n in (20, 100)]
    [1.0, 0.65]
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
    (:mod:`hedgerow.boosting.automatic.budget_schedule`).  If there is time for folds, they choose
    as without a budget, and find the path of the model.  Otherwise some rows are set aside for
    early stopping, or none if rounds are few.

    Parameters
    ----------
    values : dict
        Result of :func:`recipe`.
    size : DataSize
    seconds : float
    began : float
        Start of the fit, in seconds of ``time.monotonic``.
    has_validation : bool, default=False
        Whether the user passes validation rows for early stopping, which replace the folds.

    Examples
    --------
    >>> size = DataSize(1_000_000, n_features=28)
    >>> [within_time(recipe(size), size, t, began=0.0)["early_stopping"] for t in (1, 30, 60)]
    [False, True, 'cv']
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
