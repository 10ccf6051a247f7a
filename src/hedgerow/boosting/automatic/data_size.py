"""Size and kind of the data, on which automatic parameters depend."""

from __future__ import annotations

from dataclasses import dataclass

from hedgerow.boosting.loop.sample import Sample
from hedgerow.objectives import Objective, SeveralTargets

_MANY_COLUMNS, _MANY_VALUES = 100, 50_000_000
"""From these numbers of columns and values on, stored or not, leaves are not linear: lines take
eight bytes for each value."""


@dataclass(frozen=True, slots=True)
class DataSize:
    """Size and kind of the training data, however they are stored.

    Attributes
    ----------
    n_rows : int
    n_features : int
    n_outputs : int
        Number of trees of a round.
    most_levels : int
        Largest number of categories of a column; 0 without categorical columns.
    squares : bool
        Whether the loss is squared error of one target.
    by_levels : bool
        Whether trees may be symmetric: no parameter excludes such trees.
    by_lines : bool
        Whether leaves may be linear: the table has a numeric column and not too many values, and
        no parameter excludes such leaves.
    by_lists : bool
        Whether the loss is a ranking of the rows of queries.
    by_crosses : bool
        Whether columns may be crossed: the table has two numeric columns, and no parameter excludes
        crosses.
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
        is_wide = schema.n_features >= _MANY_COLUMNS and n_values >= _MANY_VALUES
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
