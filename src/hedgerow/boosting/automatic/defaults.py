"""Meaning of ``"auto"``: parameters chosen by the size and the kind of the data.

Glossary
--------
recipe     values of all automatic parameters, which depend on each other: a small learning
           rate needs many rounds, and a rule to stop them
plain      the defaults of :class:`hedgerow.params.BoostParams` and of the C++ libraries:
           100 rounds at a rate of 0.1, and no sampling

``"auto"`` means the recipe if folds or validation rows may find the number of rounds: the number
is ``"auto"`` itself, ``early_stopping`` is ``"auto"`` or ``"cv"``, and trees are boosted on rows
in memory, sampled uniformly or not at all.  Explicit values are kept, and the other values depend
on them: an explicit learning rate determines the limit of the rounds.  In all other cases the
number of rounds is fixed, and ``"auto"`` is plain, except for a rate that depends on the number
of rounds, and small leaves on tiny tables.

Training stops when the loss of rows outside the training rows no longer falls.  Small tables use
the rows of every fold, larger tables those of one fold.  The model is then trained on all rows.
The folds also choose between the recipe and a few candidates
(:mod:`hedgerow.boosting.automatic.candidates`).  `benchmarks/quality` has the evidence,
`docs/defaults-experiments.md` the figures.
"""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any, TypeAlias

from hedgerow.boosting.automatic.budget_schedule import (
    HIGHEST_RATE,
    LOWEST_RATE,
    SHORT_PATH,
    USUAL_PATH,
    BudgetSchedule,
)
from hedgerow.boosting.automatic.candidates import (
    FEWEST_ROWS,
    LARGE,
    MOST_LEVELS,
    candidates_for,
    may_cross,
    plain_params,
)
from hedgerow.boosting.automatic.data_size import DataSize
from hedgerow.boosting.automatic.evidence import compares_rows
from hedgerow.boosting.loop.rounds import resolve
from hedgerow.boosting.loop.setup.slopes import obstacle_to_slopes
from hedgerow.boosting.loop.setup.strategy import (
    ALL_OUTPUTS,
    ONE_OUTPUT,
    asks_for_bundles,
    is_symmetric,
    obstacle_to_levels,
    obstacle_to_vectors,
)
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.growing.core.stages.branches import is_constrained
from hedgerow.objectives import Objective, SeveralTargets
from hedgerow.params import BoostParams
from hedgerow.schedules import is_number

Values: TypeAlias = "dict[str, Any]"

AUTO = "auto"

AUTOMATIC = (
    "n_estimators",
    "learning_rate",
    "max_leaves",
    "min_samples_leaf",
    "reg_lambda",
    "subsample",
    "colsample_bynode",
    "min_data_per_group",
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

ROUNDS = frozenset({"n_estimators", "learning_rate", "early_stopping"})

_OF_TINY = frozenset({"max_leaves", "min_samples_leaf", "reg_lambda", "min_data_per_group"})
"""Parameters of the recipe for tiny tables with a fixed number of rounds: a plain leaf would hold
most of the rows."""

_PLAIN_PATH = 10.0
"""Sum of the rates of the plain 100 rounds at a rate of 0.1."""

_OF_FOLDS = (
    *("folds", "rounds_factor", "stride", "easy_rounds", "finest_rate"),
    *("lead", "least_patience", "at_equal_learning"),
)

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

_TINY, _FEW, _SMALL, _MEDIUM = FEWEST_ROWS, 500, 3_000, 10_000
_MANY_OUTPUTS = 5
_SHARED_TREES = 8
"""From this number of classes on, one tree for all is as good as one for each, in half the time."""
_ROWS_OF_SETS = (10, 100)
_SETS = 20
_FEW_BINS = 63
_FEW_LEVELS = 4
"""Most categories of a column that splits one category against the others, not sets."""
_LEAST_PATIENCE = 10
_MANY_LISTED = 100_000
_LEAD_OF_LISTS = 0.7
"""Standard errors by which a candidate must lead on rankings."""
_STRIDE = 3.0
"""Learning rate of the folds over that of the model.

From 3,000 rows on, fits take 0.7 to 0.8 of the time that they take with 2, at the same scores; 4
was worse (`docs/defaults-experiments.md`).
"""
_EASY_ROUNDS = 500
"""Models of more rounds have a larger learning rate."""
_LONGER = 1.15
"""Rounds of the model over those of the folds: small steps overfit later than large ones."""
_LEVELS = 7
_FEW_COLUMNS = 100
"""Most columns for symmetric trees, which cannot use bundles and so are slow on many columns."""
_MOST_BINS = 255


def plain_values() -> Values:
    """Return the value of each automatic parameter without a recipe."""
    values = {f.name: f.default for f in (*fields(BoostParams), *fields(StoppingParams))}
    return {name: values[name] for name in AUTOMATIC}


def rate_of_rounds(n_rounds: int) -> float:
    """Return the automatic rate of ``n_rounds`` rounds, whose sum is that of the plain rounds.

    Examples
    --------
    >>> [rate_of_rounds(n) for n in (20, 100, 200, 2_000)]
    [0.1, 0.1, 0.05, 0.02]
    """
    plain = plain_values()["learning_rate"]
    return round(float(min(max(_PLAIN_PATH / n_rounds, LOWEST_RATE), plain)), 6)


def rows_of_sets(n_rows: int) -> int:
    """Return ``min_data_per_group``: a twentieth of the rows, between 10 and the plain 100.

    With 100, each set of categories in a table of 200 rows would have to hold half of the rows.

    Examples
    --------
    >>> [rows_of_sets(n) for n in (150, 500, 5_000)]
    [10, 25, 100]
    """
    least, most = _ROWS_OF_SETS
    return min(max(n_rows // _SETS, least), most)


def recipe(size: DataSize) -> Values:
    """Return the value of each automatic parameter for data of this size, and the folds.

    Examples
    --------
    >>> recipe(DataSize(1_000))["max_leaves"], recipe(DataSize(100_000))["max_leaves"]
    (8, 31)
    """
    values = _of_size(size)
    return values | _of_lists(size) if size.by_lists else values


def _of_lists(size: DataSize) -> Values:
    """Return the values for rankings, because scores of a few lists vary from round to round."""
    n_tested = 5 if size.n_rows < _MEDIUM else 2 if size.n_rows < _MANY_LISTED else 1
    patience: Values = {"patience": 100, "least_patience": None}
    return {"folds": (5, n_tested), "lead": _LEAD_OF_LISTS, **patience}


def _of_size(size: DataSize) -> Values:
    """Return the recipe without the changes for rankings."""
    several = size.n_outputs > 1
    strategy = ALL_OUTPUTS if size.n_outputs >= _SHARED_TREES else ONE_OUTPUT
    if size.n_rows < _SMALL:
        # Trees of few leaves on a sample of the rows differ most from each other.
        # Few bins take a third less time at the same scores.
        tiny, few = size.n_rows < _TINY, size.n_rows < _FEW
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
            "min_data_per_group": rows_of_sets(size.n_rows),
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
        "max_depth": _LEVELS if symmetric else None,
        "grow_policy": "symmetric" if symmetric else "leafwise",
        "min_samples_leaf": 10,
        "subsample": 1.0 if by_sets else 0.8,
        "reg_lambda": 1.0,
        "colsample_bynode": 0.7 if several else 0.9,
        "min_data_per_group": rows_of_sets(size.n_rows),
        "max_cat_to_onehot": _FEW_LEVELS,
        "max_bins": _MOST_BINS,
        "multi_strategy": strategy,
        "linear_leaves": size.squares and size.by_lines,
        "early_stopping": "cv",
        "patience": 20 if several else 60,
        "folds": (10, 2 if size.n_rows < _MEDIUM else 1),
        "rounds_factor": _LONGER if size.squares else 1.0,
        "stride": _STRIDE,
        "at_equal_learning": size.n_rows * size.n_outputs >= LARGE,
    }


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
        levels = {"grow_policy": "symmetric", "max_leaves": None, "max_depth": _LEVELS}
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


def suits_recipe(params: BoostParams) -> bool:
    """Return whether the recipe is compatible with the explicit parameters of the trees."""
    return (
        params.boosting == "gbdt"
        and params.tree_method == "hist"
        and params.sampling == "uniform"
        and not params.oob_score
    )


def choose(
    params: BoostParams,
    stopping: StoppingParams,
    automatic: frozenset[str],
    objective: Objective,
    size: DataSize,
    has_validation: bool,
    is_recorded: bool = False,
    goes_on: bool = False,
) -> tuple[BoostParams, StoppingParams]:
    """Return the parameters with a value for each automatic parameter.

    Parameters
    ----------
    params, stopping
        Parameters with plain values instead of ``"auto"``.
    automatic : frozenset of str
        Parameters that are ``"auto"``.
    objective : Objective
    size : DataSize
        Size of the training rows.
    has_validation : bool
        Whether the user passes validation rows, which then decide early stopping.
    is_recorded : bool, default=False
        Whether another run may resume from a checkpoint of this one.  Then only the number of
        rounds depends on the clock, because both runs must grow trees of one kind.
    goes_on : bool, default=False
        Whether this fit continues a model or may be continued, so the number of rounds is fixed.

    Returns
    -------
    tuple of BoostParams and StoppingParams
    """
    rowwise = getattr(objective, "rowwise", True)
    if not ((rowwise or compares_rows(objective)) and suits_recipe(params)):
        return params, stopping
    if goes_on or not _finds_rounds(params, stopping, automatic):
        # With a loss that compares rows, a row of weight 2 is not two rows in leaves of one row.
        few = _of_few_rows(params, automatic, size.n_rows) if rowwise else frozenset()
        return replace(params, **_only(few, recipe(size))), stopping
    size = _but_for_obstacles(size, params, automatic, objective)
    values = recipe(size)
    one_kind = is_recorded and stopping.time_budget is not None
    if stopping.time_budget is not None and not one_kind:
        seconds, began = stopping.time_budget, stopping.began
        values = within_time(values, size, seconds, began, has_validation)
    values = {"easy_rounds": None if one_kind else _EASY_ROUNDS, **values}
    if "learning_rate" not in automatic:
        values |= _at_rate(params.learning_rate, values)
    of_folds: Values = {"least_patience": _LEAST_PATIENCE if "patience" in automatic else None}
    of_folds |= {name: values.pop(name) for name in _OF_FOLDS if name in values}
    if params.forced_bins is not None:
        del values["max_bins"]  # forced bins rely on the largest number of bins
    if isinstance(objective, SeveralTargets) or size.n_outputs == 1 or obstacle_to_vectors(params):
        del values["multi_strategy"]  # "auto" has a meaning of its own here
    may_be_chosen = automatic | {"max_depth"}
    if is_symmetric(params):
        values |= {"max_leaves": None, "max_depth": None}  # the defaults of symmetric trees
    explicit_depth = params.max_depth
    if explicit_depth is not None:
        del values["max_depth"]
    chosen = _only(may_be_chosen, values)
    watches = has_validation and "early_stopping" in automatic
    stopping = replace(
        stopping,
        early_stopping="auto" if watches else chosen.pop("early_stopping", "cv"),
        patience=chosen.pop("patience", stopping.patience),
        is_cautious=True,
        **of_folds,
    )
    chosen.pop("early_stopping", None)
    if one_kind or not stopping.by_folds:
        return replace(params, **chosen), stopping
    free = may_be_chosen - {"max_leaves"} if is_symmetric(params) else may_be_chosen
    params = replace(params, **chosen)
    others = [other for other in candidates_for(size, params) if free.issuperset(other)]
    tried = tuple(replace(params, **other) for other in others)
    plain = plain_params(params, free, size) if explicit_depth is None else None
    crosses = "feature_crosses" in automatic and may_cross(size)
    return params, replace(stopping, candidates=tried, plain=plain, tries_crosses=crosses)


def depends_on_rows(
    params: BoostParams, stopping: StoppingParams, automatic: frozenset[str], n_rows: int
) -> bool:
    """Return whether a value of ``"auto"`` may depend on the rows; arguments as :func:`choose`."""
    if not suits_recipe(params):
        return False
    by_rows = _of_few_rows(params, automatic, n_rows)
    return bool(by_rows) or _finds_rounds(params, stopping, automatic)


def _of_few_rows(params: BoostParams, automatic: frozenset[str], n_rows: int) -> frozenset[str]:
    """Return the parameters that depend on the rows although the number of rounds is fixed."""
    if n_rows >= _TINY or params.max_depth is not None:
        return frozenset()
    few = _OF_TINY & automatic
    return few - {"max_leaves"} if is_symmetric(params) else few


def _finds_rounds(params: BoostParams, stopping: StoppingParams, automatic: frozenset[str]) -> bool:
    """Return whether folds or validation rows find the number of rounds."""
    if automatic >= ROUNDS:
        return True
    is_requested = "early_stopping" in automatic or stopping.by_folds
    is_free = "n_estimators" in automatic and is_number(params.learning_rate)
    return is_free and is_requested and stopping.time_budget is None


def _at_rate(rate: Any, values: Values) -> Values:
    """Return rounds, patience and steps of the folds for an explicit learning rate."""
    times = values["learning_rate"] / rate
    return {
        "n_estimators": math.ceil(values["n_estimators"] * times),
        "patience": max(math.ceil(values["patience"] * times), _LEAST_PATIENCE),
        "stride": max(1.0, min(values["stride"], HIGHEST_RATE / rate)),
        "easy_rounds": None,
    }


def _only(names: frozenset[str], values: Values) -> Values:
    """Return the values with these names."""
    return {name: value for name, value in values.items() if name in names}


def _but_for_obstacles(
    size: DataSize, params: BoostParams, automatic: frozenset[str], objective: Objective
) -> DataSize:
    """Return the size without the kinds of trees that explicit parameters exclude."""
    resolved = resolve(params, objective)
    shape_is_open = automatic >= {"max_leaves", "grow_policy"} and params.max_depth is None
    shared = params.multi_strategy == ALL_OUTPUTS  # with vectors in their leaves
    is_dense = not asks_for_bundles(resolved)  # judged by the parameters only
    fits = is_dense and not obstacle_to_levels(resolved) and not is_constrained(resolved)
    if not shape_is_open or shared or not fits:
        size = replace(size, by_levels=False)
    if shared or obstacle_to_slopes(resolved) or resolved.monotone_constraints is not None:
        size = replace(size, by_lines=False)
    if resolved.zero_as_missing or is_constrained(resolved):
        size = replace(size, by_crosses=False)
    return size


def chosen_names(automatic: frozenset[str], found: Values) -> list[str]:
    """Return the names of the values that a fit reports in ``chosen_params_``."""
    names = sorted(automatic, key=AUTOMATIC.index)
    if "grow_policy" in automatic and found.get("grow_policy") == "symmetric":
        names.append("max_depth")
    return [*names, "folds", "rounds_factor", "stride", "tried"]
