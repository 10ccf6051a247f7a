"""Size and kind of the data, on which automatic parameters depend."""

from __future__ import annotations

from dataclasses import dataclass

from hedgerow.boosting.loop.sample import Sample
from hedgerow.data import SparseTable
from hedgerow.objectives import Objective, SeveralTargets


@dataclass(frozen=True, slots=True)
class DataSize:
    """Size and kind of the training data.

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
        Whether trees may be symmetric: the table is dense, and no parameter excludes such trees.
    by_lines : bool
        Whether leaves may be linear: the table is dense, has a numeric column, and no parameter
        excludes such leaves.
    by_lists : bool
        Whether the loss is a ranking of the rows of queries.
    by_crosses : bool
        Whether columns may be crossed: the table is dense and has two numeric columns, and no
        parameter excludes crosses.
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
        dense = alone and not isinstance(sample.table, SparseTable)
        return DataSize(
            sample.n_rows,
            schema.n_features,
            objective.n_outputs,
            max(schema.n_levels(j) for j in range(schema.n_features)),
            objective.n_outputs == 1 and objective.name == "squared_error",
            dense,
            dense and set(schema.kinds) != {"category"},
            sample.query is not None,
            dense and sum(kind != "category" for kind in schema.kinds) > 1,
        )
