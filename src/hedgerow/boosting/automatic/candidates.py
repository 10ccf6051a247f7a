"""What the folds try beside the recipe: other trees, for data that these suit better.

No recipe is the best for all tables of a size: a smooth target wants common cuts and lines in
the leaves, one of few interactions trees of four leaves, and some categories are better tried
one by one.
The folds are grown with each (:mod:`hedgerow.boosting.automatic.model_selection`), and the
best goes on.
`docs/defaults-experiments.md` has the figures of each.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from hedgerow.boosting.automatic.data_size import DataSize
from hedgerow.params import BoostParams

Values: TypeAlias = "dict[str, Any]"

FEWEST_ROWS = 100
"""Fewer rows cannot tell trees from each other."""

_SMALL, _MEDIUM = 3_000, 10_000
LARGE = 200_000
"""Rows times outputs; of more, the choice gains by symmetric trees alone."""

_VECTORS = 8
"""Trees of so many classes are shared, with vectors in their leaves: neither cuts nor leaves of
another kind go with these."""

_MANY_COLUMNS = 500
"""Symmetric trees know no bundles of columns."""

_MANY_CELLS = 1_000_000
"""A small table has so many with hundreds of columns; they are read for each level of each tree."""

MOST_LEVELS = 254
"""Columns of more categories are replaced by statistics of the target."""


def candidates_for(size: DataSize, params: BoostParams) -> list[Values]:
    """What the folds are to try beside ``params``, which are those of the recipe.

    Parameters
    ----------
    size : DataSize
    params : BoostParams

    Returns
    -------
    list of dict
        Values that differ, by parameter, in the order in which they are tried.

    Examples
    --------
    >>> [sorted(values) for values in candidates_for(DataSize(1_000), BoostParams())]
    [['colsample_bynode', 'max_leaves'], ['max_leaves']]
    """
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
        # Eight levels took most time, and gained 0.1% in the mean (best on 3 of 14 tables).
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


def plain_trees(size: DataSize) -> Values:
    """Trees as other libraries have them, which the folds try last; none where nothing is tried.

    The recipe is better on nearly all tables, but of a target without any structure that it could
    use, a value for each combination of the columns, larger trees on all rows learn more.

    Examples
    --------
    >>> plain_trees(DataSize(1_000))["max_leaves"], plain_trees(DataSize(50))
    (31, {})
    """
    if not FEWEST_ROWS <= size.n_rows < (_MEDIUM if size.squares else _SMALL):
        return {}
    return {
        "grow_policy": "leafwise",
        "max_leaves": 31,
        "max_depth": None,
        "min_samples_leaf": 20,
        "reg_lambda": 1.0,
        "subsample": 1.0,
        "colsample_bynode": 1.0,
        "linear_leaves": False,
        "max_bins": 255,
    }


def _levels(depth: int) -> Values:
    """Symmetric trees."""
    return {"grow_policy": "symmetric", "max_leaves": None, "max_depth": depth}


__all__ = ["FEWEST_ROWS", "LARGE", "MOST_LEVELS", "candidates_for", "plain_trees"]
