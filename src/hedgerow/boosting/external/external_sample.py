"""Protocol between a training and rows that are not a table in memory.

::

    train                         data (files, batches, partitions of a cluster)
      |  survey(note) ----------->  reads all rows once; for each batch, in order,
      |  note(targets) <----------  passes the targets of the rows of positive weight
      |
      |  chooses the loss, the number of outputs, and the held-out rows
      |
      |  stored(plan) ----------->  fits bins to the training rows, bins all rows
      |  ExternalSamples <--------
      v
    fit_external

Rows of weight 0 are dropped before anything else: they have no row number, and do not affect
categories or bins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.boosting.loop.strategy import asks_for_vectors
from hedgerow.boosting.resume.continuing import Start
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.boosting.row_data.groups import GroupKeys
from hedgerow.boosting.validation.row_sets import ONLY, check_set_names
from hedgerow.data.external.row_store import RowStore, WorkShape
from hedgerow.data.inputs import Inputs
from hedgerow.data.schema import Schema
from hedgerow.model.forest import Forest
from hedgerow.objectives import Objective, SeveralTargets
from hedgerow.params import BoostParams

Choose: TypeAlias = Callable[[int, FloatArray], npt.NDArray[np.bool_]]
"""``choose(first_row, target)``: which of these rows are held out for validation.

``first_row`` is the number of the first of these rows among all rows of positive weight of all
ranks; ``target`` are their targets.  See :class:`hedgerow.boosting.validation.hold_out.HoldOut`.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Encoding:
    """Inputs that are computed: target statistics in place of columns, and crosses.

    Attributes
    ----------
    inputs : Inputs
        What the trees split.
    schema : Schema
        The user's columns.
    """

    inputs: Inputs
    schema: Schema


@dataclass(frozen=True, slots=True, eq=False)
class ExternalSample:
    """Rows of one rank, in chunks.

    Attributes
    ----------
    store : RowStore
        Rows of positive weight.  Either all chunks of all ranks have weights, or
        none; none if all weights are 1.  Its ``first_row`` is the number of rows of
        the same sample (training or validation rows) on earlier ranks.
    has_offset : bool, default=False
        Whether chunks have offsets: all chunks of all ranks, or none.
    query : int64 (n_rows,), or None
        For rankings, the query of each row of this rank; numbers are common to all ranks.
    first : Forest, or None
        Trees of the model to continue; the offsets of chunks are then its raw scores.
    encoding : Encoding, or None
        Target statistics and crosses, whose values are in the bins of the store.
    """

    store: RowStore
    has_offset: bool = False
    query: IntArray | None = None
    first: Forest | None = None
    encoding: Encoding | None = None

    @property
    def schema(self) -> Schema:
        """Schema of the table, with the categories of the training rows only."""
        return self.store.spec.schema if self.encoding is None else self.encoding.schema

    @property
    def inputs(self) -> Inputs | None:
        """What the trees split, if it differs from the columns of the table."""
        return None if self.encoding is None else self.encoding.inputs

    @property
    def n_rows(self) -> int:
        """Number of rows of this rank."""
        return sum(self.store.chunk_sizes)


@dataclass(frozen=True, slots=True, eq=False)
class ExternalSamples:
    """Training rows, and held-out rows (None if there are none)."""

    train: ExternalSample
    validation: ExternalSample | None = None

    def close(self) -> None:
        """Close the stores."""
        self.train.store.close()
        if self.validation is not None:
            self.validation.store.close()


@dataclass(frozen=True, slots=True, eq=False)
class StorePlan:
    """Plan of the binning and division of rows.

    Attributes
    ----------
    params : BoostParams
        As passed by the user: ``max_bins``, ``max_bins_by_feature``, ``forced_bins``
        (:func:`hedgerow.growing.limits.constraints.resolve_constraints` puts them in column
        order), ``zero_as_missing``, ``seed`` and the parameters of bundles.
    n_outputs : int
        Number of raw scores of a row: chunks have space for them, and offsets have
        this many columns.
    set_aside : callable or None
        Chooses held-out rows; bins, categories and row numbers then come from the
        others only.  None: all rows are for training.
    trained : ExternalSample or None
        Training rows that supply schema and bins, if these rows are for validation.
        Validation rows are stored by row only.
    n_threads : int
    objective : Objective or None
        Used to check constraints, with the schema.
    start : Start or None
        Model to continue.
    """

    params: BoostParams
    n_outputs: int = 1
    set_aside: Choose | None = None
    trained: ExternalSample | None = None
    n_threads: int = 1
    objective: Objective | None = None
    start: Start | None = None

    @property
    def work(self) -> WorkShape:
        """Working arrays of a fit on these rows, as far as they are known before."""
        objective = self.objective
        if objective is None or self.trained is not None:
            return WorkShape(self.n_outputs)
        shares = asks_for_vectors(self.params, isinstance(objective, SeveralTargets))
        n_vectors = objective.n_outputs if shares and objective.n_outputs > 1 else 1
        return WorkShape(self.n_outputs, objective.name == "softmax", n_vectors=n_vectors)

    def chosen(self, first_row: int, target: FloatArray) -> npt.NDArray[np.bool_]:
        """Return which rows are held out."""
        if self.set_aside is None:
            return np.zeros(len(target), dtype=np.bool_)
        return self.set_aside(first_row, target)


@runtime_checkable
class ExternalData(Protocol):
    """Protocol of rows that :func:`hedgerow.train` reads in batches.

    Attributes
    ----------
    has_queries, has_groups : bool
        Whether the rows have queries, for rankings, or groups that stay together.
    n_targets : int
        Number of targets of a row.
    target_names : tuple of str, or None
        Names of several targets; None without names or for one target.
    query : int64 (n_rows,), or None
        After the survey, the query of each row of positive weight; None without queries.
    group : uint64 (n_rows,), or None
        After the survey, the key of the group of each row of positive weight; None without groups.
    """

    @property
    def has_queries(self) -> bool:
        """Whether the rows have queries, for rankings."""

    @property
    def has_groups(self) -> bool:
        """Whether rows have groups, which stay together when rows are held out."""

    @property
    def n_targets(self) -> int:
        """Number of targets of a row."""

    @property
    def target_names(self) -> tuple[str, ...] | None:
        """Names of several targets; None without names or for one target."""

    def match_targets(self, objective: Objective | None) -> None:
        """Use the targets in the order of those of ``objective``, before the rows are read.

        Raises
        ------
        DataError
            If there are more or fewer targets, or others.
        """

    @property
    def query(self) -> IntArray | None:
        """Query of each row of positive weight, after the survey."""

    @property
    def group(self) -> GroupKeys | None:
        """Key of the group of each row of positive weight, after the survey."""

    def survey(
        self, note: Callable[[FloatArray], None], params: BoostParams, sets_aside: bool
    ) -> None:
        """Read all rows once, and pass on the targets of those of positive weight, in order.

        ``note`` is called for each batch with finite float64 (n_rows,), or (n_rows, n_targets) for
        several targets.  ``sets_aside``
        tells whether the plan may hold rows out: if not, this pass may already do part of
        the plan's work, with the same ``params``.
        """

    def stored(self, plan: StorePlan) -> ExternalSamples:
        """Bin the rows; the caller closes the result."""


ValidRows: TypeAlias = "Dataset | ExternalData | Mapping[str, Dataset | ExternalData] | None"
"""Validation rows: none, one set, or several by name; the first set decides."""


def named_valid(valid: ValidRows) -> Mapping[str, Dataset | ExternalData]:
    """Return the sets of validation rows by name.

    Raises
    ------
    DataTypeError, ParameterError
        For invalid names.
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
