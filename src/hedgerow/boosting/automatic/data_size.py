"""What the choice of parameters depends on."""

from __future__ import annotations

from dataclasses import dataclass

from hedgerow.boosting.loop.sample import Sample
from hedgerow.data import SparseTable
from hedgerow.objectives import Objective, SeveralTargets


@dataclass(frozen=True, slots=True)
class DataSize:
    """What the choice depends on.

    Attributes
    ----------
    n_rows : int
        Of positive weight.
    n_features : int
    n_outputs : int
        Trees of a round.
    most_levels : int
        Categories of the column that has most of them; 0 without such columns.
    squares : bool
        Whether the loss is squared error of one target.
    by_levels : bool
        Whether trees may be symmetric: the table is dense, and nothing is asked that such
        trees do not know.
    by_lines : bool
        Whether leaves may have slopes: likewise, and there is a column of numbers.
    by_lists : bool
        Whether the rows of queries are put in order.
    """

    n_rows: int
    n_features: int = 1
    n_outputs: int = 1
    most_levels: int = 0
    squares: bool = False
    by_levels: bool = False
    by_lines: bool = False
    by_lists: bool = False

    @staticmethod
    def of(sample: Sample, objective: Objective) -> DataSize:
        """The size of the rows of a fit."""
        schema = sample.table.schema
        # Several targets share trees with vectors.
        alone = not isinstance(objective, SeveralTargets)
        dense = alone and not isinstance(sample.table, SparseTable)
        return DataSize(
            sample.n_present,
            schema.n_features,
            objective.n_outputs,
            max(schema.n_levels(j) for j in range(schema.n_features)),
            objective.n_outputs == 1 and objective.name == "squared_error",
            dense,
            dense and set(schema.kinds) != {"category"},
            sample.query is not None,
        )


__all__ = ["DataSize"]
