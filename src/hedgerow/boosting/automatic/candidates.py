"""Candidates: other kinds of trees that the folds compare with the recipe.

No recipe is best for all tables of a size.  Symmetric trees with linear leaves suit smooth
targets, trees of four leaves suit targets with few interactions, and splits of one category
against the others suit some columns.  The folds are grown with each candidate
(:mod:`hedgerow.boosting.automatic.model_selection`), and the best one is trained on all rows.
`docs/defaults-experiments.md` has figures for each candidate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, TypeAlias

from hedgerow.arrays import FloatArray
from hedgerow.boosting.loop.sample import Sample
from hedgerow.data.inputs import OPERATIONS, Inputs
from hedgerow.data.schema import Schema
from hedgerow.objectives import Objective, SeveralTargets
from hedgerow.params import BoostParams

_WIDE, _MANY_VALUES = 100, 50_000_000
"""From these numbers of columns and values on, stored or not, leaves are not linear: lines take
eight bytes for each value."""


@dataclass(frozen=True, slots=True)
class DataSize:
    """Size and kind of the training data, however they are stored.

    n_outputs    number of trees of a round
    most_levels  largest number of categories of a column; 0 without categorical columns
    squares      whether the loss is squared error of one target
    by_levels    whether trees may be symmetric: no parameter excludes such trees
    by_lines     whether leaves may be linear: the table has a numeric column and not too many
                 values, and no parameter excludes such leaves
    by_lists     whether the loss is a ranking of the rows of queries
    by_crosses   whether columns may be crossed: the table has two numeric columns, and no parameter
                 excludes crosses
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

    @staticmethod
    def of(sample: Sample, objective: Objective) -> DataSize:
        """Return the size of the rows of a fit, which have no rows of weight 0."""
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
            objective.n_outputs == 1 and objective.name == "squared_error",
            alone,
            alone and n_numbers > 0 and not is_wide,
            sample.query is not None,
            alone and n_numbers > 1,
        )


Values: TypeAlias = "dict[str, Any]"

_OF_SHAPE = frozenset({"grow_policy", "max_leaves", "max_depth"})
"""Parameters of the shape of trees, which are chosen together."""

FEWEST_ROWS = 100
"""Fewer rows cannot distinguish kinds of trees."""

_SMALL, _MEDIUM = 3_000, 10_000
LARGE = 200_000
"""Rows times outputs from which on only symmetric trees are a useful candidate."""

_VECTORS = 8
"""From this number of classes on, all classes share trees with vector leaves.  Symmetric trees are
rarely better there (:func:`rare_candidates`), and linear leaves are not tried."""

_MANY_COLUMNS = 500
"""From this number of columns on, symmetric trees, which cannot use bundles, are too slow, and
plain trees of few rows have fewer bins."""

_MANY_CELLS = 1_000_000
"""Rows times columns times outputs from which on symmetric trees of a small table are too slow:
each level of a tree reads all values."""

MOST_LEVELS = 254
"""Statistics of the target replace columns with more categories."""


def candidates_for(size: DataSize, params: BoostParams) -> list[Values]:
    """Return the candidates for data of this size, in the order in which they are tried."""
    has_statistics = size.most_levels > MOST_LEVELS
    if size.n_rows < FEWEST_ROWS or (has_statistics and size.n_rows >= _MEDIUM):
        return []
    symmetric = size.by_levels and size.n_outputs < _VECTORS and size.n_features < _MANY_COLUMNS
    smaller: Values = {"max_leaves": 15, "min_samples_leaf": 1}
    one_by_one: Values = {"max_cat_to_onehot": MOST_LEVELS}
    by_level = size.most_levels > params.max_cat_to_onehot
    found: list[Values]
    if size.n_rows < _SMALL:
        found = [{"max_leaves": 4}]
        if size.n_outputs < _VECTORS:
            found = [{"max_leaves": 4, "colsample_bynode": 0.3}, *found]
        if symmetric and size.n_rows * size.n_features * size.n_outputs < _MANY_CELLS:
            lines = {"linear_leaves": True} if size.by_lines else {}
            found = [{**_levels(4), **lines}, *found, _levels(6)]
        if by_level:
            found.append(one_by_one)
    elif size.squares:
        # Eight levels took the most time and gained 0.1% in the mean (best on 3 of 14 tables).
        found = [_levels(5)] if symmetric and size.n_rows < _MEDIUM else []
    elif size.n_rows * size.n_outputs < LARGE:
        found = [smaller]
        if symmetric and size.n_outputs == 1:
            found.append({**_levels(6), "min_samples_leaf": 1})
        if by_level:
            found.append({**smaller, **one_by_one})
    else:
        found = [{**_levels(6), "min_samples_leaf": 1}] if symmetric and size.n_outputs == 1 else []
    return found


def rare_candidates(size: DataSize) -> list[Values]:
    """Return candidates for many classes of few rows, which are much better on few tables.

    The folds have few rows of each class, so without a required lead they choose these trees too
    often (`docs/defaults-experiments.md`).
    """
    if size.n_outputs < _VECTORS or not FEWEST_ROWS <= size.n_rows < _SMALL:
        return []
    few_columns: Values = {"max_leaves": 16, "min_samples_leaf": 1, "colsample_bynode": 0.3}
    symmetric = size.by_levels and size.n_features < _MANY_COLUMNS
    return [_levels(6), few_columns] if symmetric else [few_columns]


def plain_params(params: BoostParams, free: frozenset[str], size: DataSize) -> BoostParams | None:
    """Return the parameters with the trees of other libraries, the last candidate.

    None if there are no candidates, this changes nothing or is excluded.  The recipe is better on
    nearly all tables.  But if each combination of values of the columns has an unrelated target,
    larger trees on all rows learn more.
    """
    if not free >= _OF_SHAPE:
        return None
    if not FEWEST_ROWS <= size.n_rows < (_MEDIUM if size.squares else _SMALL):
        return None
    values: Values = {
        "grow_policy": "leafwise",
        "max_leaves": 31,
        "max_depth": None,
        "min_samples_leaf": 20,
        "reg_lambda": 1.0,
        "subsample": 1.0,
        "colsample_bynode": 1.0,
        "linear_leaves": False,
        # Beside few rows and many columns, the search for splits in more bins takes most of a fit.
        "max_bins": 63 if size.n_features >= _MANY_COLUMNS and size.n_rows < _SMALL else 255,
    }
    kept = frozenset() if params.forced_bins is None else {"max_bins"}
    changes = {name: value for name, value in values.items() if name in free - kept}
    plain = replace(params, **changes)
    return None if plain == params else plain


def may_cross(size: DataSize) -> bool:
    """Return whether the folds try crosses of columns."""
    return size.by_crosses and not size.by_lists and FEWEST_ROWS <= size.n_rows < _MEDIUM


def _levels(depth: int) -> Values:
    """Return the shape of symmetric trees of this depth."""
    return {"grow_policy": "symmetric", "max_leaves": None, "max_depth": depth}


MOST_CROSSED = 4
"""Number of columns to cross: 18 crosses.  Three columns gained less on the same tables."""


def strongest_crosses(
    gains: FloatArray, schema: Schema, inputs: Inputs | None
) -> tuple[tuple[str, str, str], ...]:
    """Return all crosses of the numeric columns with the largest gains.

    Crosses of all columns would be too many, and most of them noise.  Columns that matter alone
    are also those whose products, differences and ratios matter most often
    (`docs/defaults-experiments.md`).
    """
    columns = range(schema.n_features) if inputs is None else inputs.kept
    found = {
        j: gain
        for j, gain in zip(columns, gains.tolist(), strict=False)
        if gain > 0.0 and schema.kinds[j] != "category"
    }
    strongest = sorted(found, key=lambda j: -found[j])[:MOST_CROSSED]
    names = [schema.names[j] for j in strongest]
    return tuple(
        (first, second, operation)
        for first, second in combinations(names, 2)
        for operation in OPERATIONS
    )
