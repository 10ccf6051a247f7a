"""The recipe: values of all automatic parameters for data of a size, and other kinds of trees.

Values depend on each other: a small learning rate needs many rounds, and a rule to stop them.
No recipe is best for all tables of a size.  Symmetric trees with linear leaves suit smooth
targets, trees with random cuts suit small tables, and splits of one category against the
others suit some columns.  So the folds are grown with each candidate
(:mod:`hedgerow.boosting.automatic.model_selection`), and the best one is trained on all rows.
`docs/defaults-experiments.md` has figures for each value and candidate.  Plain values are the
defaults of :class:`hedgerow.params.BoostParams` and of the C++ libraries: 100 rounds at a rate of
0.1, and no sampling.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from itertools import combinations
from typing import Any, TypeAlias

from hedgerow.arrays import FloatArray
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.setup.resolved import ALL_OUTPUTS, ONE_OUTPUT
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.data.inputs import OPERATIONS, Inputs
from hedgerow.data.schema import Schema
from hedgerow.objectives import Objective, SeveralTargets
from hedgerow.params import BoostParams

Values: TypeAlias = "dict[str, Any]"

AUTOMATIC = (
    *("n_estimators", "learning_rate", "max_leaves", "min_samples_leaf", "reg_lambda"),
    *("subsample", "colsample_bynode", "min_data_per_group", "cat_smooth", "cat_l2"),
    *("max_cat_to_onehot", "max_bins", "grow_policy", "multi_strategy", "linear_leaves"),
    *("extra_trees", "feature_crosses", "early_stopping", "patience"),
)
"""Parameters of the estimators that may be ``"auto"``."""

LOWEST_RATE, HIGHEST_RATE = 0.02, 0.3
"""Range of automatic rates: lower rates gain no more, higher rates overshoot."""

_PLAIN_PATH = 10.0
"""Sum of the rates of the plain 100 rounds at a rate of 0.1."""

FEWEST_ROWS = 100
"""Fewer rows cannot distinguish kinds of trees."""

_FEW, _SMALL, MEDIUM, _LARGE = 500, 3_000, 10_000, 100_000
_MANY_SCORES = 200_000
"""Rows times outputs from which on only symmetric trees are a useful candidate."""
_SHARED_TREES = 8
"""From this number of classes on, one tree for all is as good as one for each, in half the time."""
_SETS_OF_FEW_ROWS: Values = {"min_data_per_group": 1, "cat_smooth": 1.0, "cat_l2": 1.0}
"""Sets of categories below 10,000 rows: the rounds that the folds find prevent overfitting."""
_FEW_BINS, _MOST_BINS = 63, 255
_FEW_LEVELS = 4
"""Most categories of a column that splits one category against the others, not sets."""
_MOST_LEVELS = 254
"""Statistics of the target replace columns with more categories."""
_LEAD_OF_LISTS, CLEARLY = 0.7, 1.0
"""Standard errors by which candidates must lead on rankings, and those that are rarely better."""
_STRIDE, _STRIDE_OF_LARGE, _STRIDE_OF_SHARED = 3.0, 2.0, 4.5
"""Learning rate of the folds over that of the model: of most, above 100,000 rows, where 3 was worse
(flights), and of shared trees below 3,000, whose folds would take most of the time."""
_LONGER = 1.15
"""Rounds of the model over those of the folds: small steps overfit later than large ones."""
LEAST_PATIENCE, _EASY_ROUNDS = 10, 500
"""Patience at the first round; models of more rounds than these have a larger learning rate."""
LEVELS = 7
_FEW_COLUMNS, _MANY_COLUMNS = 100, 500
"""Most columns of symmetric trees, which cannot use bundles, in the recipe, and as candidates."""
_WIDE, _MANY_VALUES = 100, 50_000_000
"""From both numbers on, leaves are not linear: lines take eight bytes for each value."""
_MANY_CELLS = 1_000_000
"""Rows times columns times outputs from which on symmetric trees of a small table are too slow."""
_MOST_CROSSED = 4
"""Number of columns to cross: 18 crosses.  Three columns gained less on the same tables."""


@dataclass(frozen=True, slots=True)
class DataSize:
    """Size and kind of the training data, however they are stored.

    n_outputs    number of trees of a round
    most_levels  largest number of categories of a column; 0 without categorical columns
    squares      whether the loss is squared error of one target
    by_levels    whether trees may be symmetric: no parameter excludes such trees
    by_lines     whether leaves may be linear: a column is numeric, and nothing excludes such leaves
    by_lists     whether the loss is a ranking of the rows of queries
    by_crosses   whether columns may be crossed: two are numeric, and no parameter excludes it
    """

    n_rows: int
    n_features: int = 1
    n_outputs: int = 1
    most_levels: int = 0
    squares: bool = False
    by_levels: bool = False
    by_lines: bool = False
    by_lists: bool = False
    by_crosses: bool = False

    @classmethod
    def of(cls, sample: Sample, objective: Objective) -> DataSize:
        """Return the size of these rows."""
        schema = sample.table.schema
        # Several targets share trees with vector leaves.
        alone = not isinstance(objective, SeveralTargets)
        n_numbers = sum(kind != "category" for kind in schema.kinds)
        n_values = sample.n_rows * schema.n_features
        is_wide = schema.n_features >= _WIDE and n_values >= _MANY_VALUES
        return DataSize(
            sample.n_rows,
            schema.n_features,
            objective.n_outputs,
            max(schema.n_levels(j) for j in range(schema.n_features)),
            squares=objective.n_outputs == 1 and objective.name == "squared_error",
            by_levels=alone,
            by_lines=alone and n_numbers > 0 and not is_wide,
            by_lists=sample.query is not None,
            by_crosses=alone and n_numbers > 1,
        )


def plain_values() -> Values:
    """Return the value of each automatic parameter without a recipe."""
    values = {f.name: f.default for f in (*fields(BoostParams), *fields(StoppingParams))}
    return {name: values[name] for name in AUTOMATIC}


def rate_of_rounds(n_rounds: int) -> float:
    """Return the automatic rate of ``n_rounds`` rounds, whose sum is that of the plain rounds."""
    plain = plain_values()["learning_rate"]
    return round(float(min(max(_PLAIN_PATH / n_rounds, LOWEST_RATE), plain)), 6)


def recipe(size: DataSize) -> Values:
    """Return the values for data of this size: of parameters, and of the search by folds."""
    values: Values = {
        "max_cat_to_onehot": _FEW_LEVELS,
        "multi_strategy": ONE_OUTPUT,
        "early_stopping": "cv",
        "stride": _STRIDE if size.n_rows < _LARGE else _STRIDE_OF_LARGE,
        "easy_rounds": _EASY_ROUNDS,
        "least_patience": LEAST_PATIENCE,
    }
    values |= _of_few_rows(size) if size.n_rows < _SMALL else _of_many_rows(size)
    if size.n_outputs >= _SHARED_TREES:
        values["multi_strategy"] = ALL_OUTPUTS
        values["stride"] = _STRIDE_OF_SHARED if size.n_rows < _SMALL else values["stride"]
    if size.by_lists:  # scores of a few lists vary from round to round
        n_tested = 5 if size.n_rows < MEDIUM else 2 if size.n_rows < _LARGE else 1
        values |= {"folds": (5, n_tested), "lead": _LEAD_OF_LISTS, "least_patience": None}
        values["patience"] = 100
    return values


def _of_few_rows(size: DataSize) -> Values:
    # Trees of few leaves on a sample of the rows differ most from each other.
    # Few bins take a third less time at the same scores.
    tiny, few = size.n_rows < FEWEST_ROWS, size.n_rows < _FEW
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
        "max_bins": _FEW_BINS if size.most_levels <= _FEW_BINS else _MOST_BINS,
        # Sums of floats differ between a row of weight 2 and two equal rows.
        "linear_leaves": size.squares and size.by_lines and not tiny,
        "patience": 60 if few else 40,
        "folds": (5, 5),
        "rounds_factor": 1.25,
    }


def _of_many_rows(size: DataSize) -> Values:
    several, large = size.n_outputs > 1, size.n_rows >= MEDIUM
    # Sets of categories fit the errors that each new sample of the rows adds to the means of
    # categories.  On small tables sampling helps more than these errors harm.
    by_sets = large and 0 < size.most_levels <= _MOST_LEVELS
    # Larger trees use statistics of the target better (amazon: 0.1374 with 63 leaves, else 0.1378).
    by_statistics = large and size.most_levels > _MOST_LEVELS
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
        "max_bins": _MOST_BINS,
        "linear_leaves": size.squares and size.by_lines,
        "patience": 20 if several else 60,
        "folds": (10, 1 if large else 2 if several else 4),
        "rounds_factor": _LONGER if size.squares else 1.0,
        "at_equal_rounds": size.n_rows * size.n_outputs >= _MANY_SCORES,
    }


# -- what is tried beside the recipe ------------------------------------------------------------


_OF_PLAIN_TREES = frozenset({
    *("grow_policy", "max_leaves", "max_depth", "min_samples_leaf", "reg_lambda"),
    *("subsample", "colsample_bynode", "linear_leaves", "max_bins"),
})  # fmt: skip


def levels(depth: int) -> Values:
    """Return the shape of symmetric trees of this depth."""
    return {"grow_policy": "symmetric", "max_leaves": None, "max_depth": depth}


def candidates_for(size: DataSize, params: BoostParams) -> list[Values]:
    """Return the candidates for data of this size, in the order in which they are tried."""
    has_statistics = size.most_levels > _MOST_LEVELS
    if size.n_rows < FEWEST_ROWS or (has_statistics and size.n_rows >= MEDIUM):
        return []
    may_be_symmetric = size.by_levels and size.n_features < _MANY_COLUMNS
    shared, squares = size.n_outputs >= _SHARED_TREES, size.squares
    by_level, n_scores = size.most_levels > params.max_cat_to_onehot, size.n_rows * size.n_outputs
    one_by_one: Values = {"max_cat_to_onehot": _MOST_LEVELS}
    by_lines = size.by_lines and not shared
    lines, constant = ({"linear_leaves": one} if by_lines else {} for one in (True, False))
    # One random cut of each column: other errors than those of the best cuts.
    drawn: Values = {"extra_trees": True}
    large: Values = {"max_leaves": 32, "min_samples_leaf": 1}
    narrow: Values = {"colsample_bynode": 0.3}
    found: list[Values] = []
    if size.n_rows < _SMALL:
        if may_be_symmetric and not shared and n_scores * size.n_features < _MANY_CELLS:
            found.append({**levels(4), **lines})
        kinds: list[Values] = [lines, constant | large, constant | narrow | {"max_leaves": 2}]
        if shared:
            kinds = [narrow | {"max_leaves": 64, "min_samples_leaf": 1}]
        found += [drawn | kind for kind in kinds if params.grow_policy != "symmetric"]
        # Folds have few rows of each class: without a lead they choose these two too often.
        if shared and may_be_symmetric:
            found.append({**levels(6), "lead": CLEARLY})
        if by_level:
            found.append(one_by_one)
        if shared:
            found.append({"max_leaves": 16, "min_samples_leaf": 1, **narrow, "lead": CLEARLY})
        return found
    if squares and may_be_symmetric and size.n_rows < MEDIUM:
        # Eight levels took the most time and gained 0.1% in the mean (best on 3 of 14 tables).
        found.append(levels(5))
    if not squares:
        smaller: Values = {"max_leaves": 15, "min_samples_leaf": 1}
        found = [smaller, smaller | one_by_one] if by_level else [smaller]
        found = found if n_scores < _MANY_SCORES else []
        if may_be_symmetric:
            # With several outputs, leaves of one row lost five times as much (shuttle, fold 4).
            few_rows = {} if size.n_outputs > 1 else {"min_samples_leaf": 1}
            found.insert(1, {**levels(6), **few_rows})
    if size.n_rows < MEDIUM:
        drawn |= {"grow_policy": "leafwise", "max_leaves": 31, "max_depth": None}
        found += [] if shared else [drawn | lines]
        found.append(drawn | constant | {"min_samples_leaf": 1})
    return found


def plain_params(params: BoostParams, free: frozenset[str], size: DataSize) -> BoostParams | None:
    """Return the parameters with the trees of other libraries; None if they are not tried."""
    # The recipe is better on nearly all tables.  But if each combination of values of the columns
    # has an unrelated target, larger trees on all rows learn more.
    if not free >= {"grow_policy", "max_leaves", "max_depth"}:
        return None
    if not FEWEST_ROWS <= size.n_rows < (MEDIUM if size.squares else _SMALL):
        return None
    usual = BoostParams()
    # Beside few rows and many columns, the search for splits in more bins takes most of a fit.
    if size.n_features >= _MANY_COLUMNS and size.n_rows < _SMALL:
        usual = replace(usual, max_bins=_FEW_BINS)
    plain = replace(params, **{name: getattr(usual, name) for name in free & _OF_PLAIN_TREES})
    return None if plain == params else plain


def strongest_crosses(
    gains: FloatArray, schema: Schema, inputs: Inputs | None
) -> tuple[tuple[str, str, str], ...]:
    """Return all crosses of the numeric columns with the largest gains."""
    # Crosses of all columns would be too many, and most of them noise.
    columns = range(schema.n_features) if inputs is None else inputs.kept
    found = {
        j: gain
        for j, gain in zip(columns, gains.tolist(), strict=False)
        if gain > 0.0 and schema.kinds[j] != "category"
    }
    strongest = sorted(found, key=lambda j: -found[j])[:_MOST_CROSSED]
    names = [schema.names[j] for j in strongest]
    return tuple((a, b, operation) for a, b in combinations(names, 2) for operation in OPERATIONS)
