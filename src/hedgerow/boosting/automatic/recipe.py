"""The recipe: values of all automatic parameters for data of a size and a kind.

Glossary
--------
plain      the defaults of :class:`hedgerow.params.BoostParams` and of the C++ libraries:
           100 rounds at a rate of 0.1, and no sampling

Values depend on each other: a small learning rate needs many rounds, and a rule to stop them.
:mod:`hedgerow.boosting.automatic.defaults` decides whether a fit has the recipe.
"""

from __future__ import annotations

from dataclasses import fields
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
