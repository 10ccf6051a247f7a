"""What a training asks of rows that are not a table in memory, and what it is given.

::

    train                         data (files, batches, parts of a cluster)
      |  survey(note) ----------->  reads all rows once; for each batch, in order,
      |  note(targets) <----------  the targets of the rows that count
      |
      |  chooses loss, number of outputs, and which rows to set aside
      |
      |  stored(plan) ----------->  fits bins to the training rows, bins all rows
      |  StoredSamples <----------
      v
    fit_stored

Rows of weight 0 are left out before anything else: they have no number, no category
and no part in the bins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.boosting.validation.row_sets import ONLY, check_set_names
from hedgerow.data.external.row_store import RowStore
from hedgerow.data.schema import Schema
from hedgerow.objectives import Objective
from hedgerow.params import BoostParams

Choose: TypeAlias = Callable[[int, FloatArray], npt.NDArray[np.bool_]]
"""``choose(first_row, target)``: which of these rows are set aside for validation.

``first_row`` is the number of the first of them among all rows that count, of all
ranks; ``target`` are their targets.  See :class:`hedgerow.boosting.validation.hold_out.HoldOut`.
"""


@dataclass(frozen=True, slots=True, eq=False)
class ExternalSample:
    """Rows in chunks: those of one rank.

    Attributes
    ----------
    store : RowStore
        Of rows whose weight is above 0.  Weights are in every chunk of every rank or in
        none, and in none if all of them are 1.  Its ``first_row`` counts the rows of
        the same sample (training rows, or validation rows) on the ranks before.
    has_offset : bool, default=False
        Whether chunks have offsets: all of them on every rank, or none.
    query : int64 (n_rows,), or None
        For rankings, the query of each row of this rank, numbered over all ranks.
    """

    store: RowStore
    has_offset: bool = False
    query: IntArray | None = None

    @property
    def schema(self) -> Schema:
        """Of the table, with the categories of training rows alone."""
        return self.store.spec.schema

    @property
    def n_rows(self) -> int:
        """Rows of this rank."""
        return sum(self.store.chunk_sizes)


@dataclass(frozen=True, slots=True, eq=False)
class ExternalSamples:
    """Training rows, and those that were set aside (None if none were)."""

    train: ExternalSample
    validation: ExternalSample | None = None

    def close(self) -> None:
        """Close the stores."""
        self.train.store.close()
        if self.validation is not None:
            self.validation.store.close()


@dataclass(frozen=True, slots=True, eq=False)
class StorePlan:
    """How rows are to be binned and divided.

    Attributes
    ----------
    params : BoostParams
        As given by the user: ``max_bins``, ``max_bins_by_feature``, ``forced_bins``
        (:func:`hedgerow.growing.limits.constraints.resolve_constraints` brings them in the
        order of the columns), ``zero_as_missing``, ``seed`` and what is said of bundles.
    n_outputs : int
        Raw scores of a row: room for them is part of a chunk's work, and offsets have
        this many columns.
    keeps_probability : bool
        Whether there is a probability for each raw score, too.
    set_aside : callable or None
        Chooses validation rows; bins, categories and row numbers are those of the
        others alone.  None: all rows are for training.
    trained : StoredSample or None
        Training rows whose schema and bins these rows, for validation, are read with.
        Without ``by_column``: validation rows need only rows.
    n_threads : int
    objective : Objective or None
        What constraints are checked against, with the schema.
    """

    params: BoostParams
    n_outputs: int = 1
    keeps_probability: bool = False
    set_aside: Choose | None = None
    trained: ExternalSample | None = None
    n_threads: int = 1
    objective: Objective | None = None


@runtime_checkable
class ExternalData(Protocol):
    """Rows that a training reads batch by batch, for :func:`hedgerow.train`."""

    def survey(
        self, note: Callable[[FloatArray], None], params: BoostParams, sets_aside: bool
    ) -> None:
        """Read all rows once; hand over the targets of those that count, in order.

        ``note`` is called for each batch with float64 (n_rows,), finite.  ``sets_aside``
        says whether the plan may set rows aside: if not, this may be a part of the work
        for it, with the same ``params``.
        """

    def stored(self, plan: StorePlan) -> ExternalSamples:
        """Bin the rows; the caller closes what is returned."""


ValidRows: TypeAlias = "Dataset | ExternalData | Mapping[str, Dataset | ExternalData] | None"
"""Validation rows: none, one set, or several by name, the first of which decides."""


def named_valid(valid: ValidRows) -> Mapping[str, Dataset | ExternalData]:
    """The sets of validation rows by name.

    Raises
    ------
    DataTypeError, ParameterError
        For names that cannot be.
    """
    if valid is None:
        return {}
    if isinstance(valid, Mapping):
        check_set_names(valid)
        return valid
    return {ONLY: valid}


__all__ = [
    "Choose",
    "ExternalData",
    "ExternalSample",
    "ExternalSamples",
    "StorePlan",
    "ValidRows",
    "named_valid",
]
