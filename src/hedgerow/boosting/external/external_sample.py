"""Rows in chunks, and how a training asks for them.

::

    train                         FileDataset (files, batches, partitions of a cluster)
      |  survey(note) ----------->  reads all rows once; for each batch, in order,
      |  note(targets) <----------  passes the targets of the rows of positive weight
      |
      |  chooses the loss, the number of outputs, and the held-out rows
      |
      |  stored(plan) ----------->  fits bins to the training rows, bins all rows
      |  ExternalSample <---------  training rows, and held-out rows
      v
    fit_external

Rows of weight 0 are dropped before anything else: they have no row number, and do not affect
categories or bins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

import numpy as np

from hedgerow.arrays import BoolArray
from hedgerow.boosting.loop.driver import NewRows
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.scores import TrainingData
from hedgerow.boosting.loop.setup.resolved import asks_for_vectors
from hedgerow.boosting.resume.continuing import Start
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.boosting.row_data.row_values import FURTHER, RowValues
from hedgerow.boosting.validation.row_sets import ONLY, check_set_names
from hedgerow.data import Table
from hedgerow.data.binning.bundles import Layout
from hedgerow.data.binning.matrix import BinnedMatrix
from hedgerow.data.external.row_store import ChunkStore, RowVectors
from hedgerow.data.inputs import Inputs
from hedgerow.data.schema import Schema
from hedgerow.model.forest import Forest
from hedgerow.objectives import Objective, SeveralTargets
from hedgerow.params import BoostParams

if TYPE_CHECKING:
    from hedgerow.boosting.external.dataset.file_dataset import FileDataset
    from hedgerow.boosting.external.dataset.time_columns import TimeColumns


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


def beside_vectors(values: RowValues) -> RowValues:
    """Return the values of rows whose weights and offsets are vectors of a sample in chunks."""
    return RowValues(**{value.field: getattr(values, value.field) for value in FURTHER})


@dataclass(frozen=True, slots=True, eq=False)
class ExternalSample:
    """Rows of one rank, in chunks.

    Attributes
    ----------
    store : ChunkStore
        Bins of the rows of positive weight.
    vectors : RowVectors
        Their targets, weights and offsets.  Either all ranks have weights, or none; none if all
        weights are 1.
    first_row : int, default=0
        Number of rows of the same sample (training or validation rows) on earlier ranks.
    has_offset : bool, default=False
        Whether rows of any rank have offsets: all have, or none.
    values : RowValues
        Their further values; numbers of queries are common to all ranks.
    first : Forest, or None
        Trees of the model to continue; the offsets are then its raw scores.
    encoding : Encoding, or None
        Target statistics and crosses, whose values are in the bins of the store.
    n_copies : int, default=1
        How often the store has the rows, one copy after another, each with its share of the
        weight (:mod:`hedgerow.boosting.row_data.statistics`).
    has_weight : bool, default=False
        Whether rows that are copied have weights of their own.
    read_again : callable or None
        Reads the training rows of this rank in batches, with the user's offsets: as trees see rows
        that are not trained on.
    layout : Layout or None
        Bundles, if conflicts in them hide values of the training rows.
    """

    store: ChunkStore
    vectors: RowVectors
    first_row: int = 0
    has_offset: bool = False
    values: RowValues = field(default_factory=RowValues)
    first: Forest | None = None
    encoding: Encoding | None = None
    n_copies: int = 1
    has_weight: bool = False
    read_again: Callable[[], NewRows] | None = None
    layout: Layout | None = None

    @property
    def schema(self) -> Schema:
        """Schema of the table, with the categories of the training rows only."""
        return self.store.spec.schema if self.encoding is None else self.encoding.schema

    @property
    def inputs(self) -> Inputs | None:
        """The columns that the trees split, if they differ from the columns of the table."""
        return None if self.encoding is None else self.encoding.inputs

    @property
    def n_rows(self) -> int:
        """Number of rows of this rank, copies included."""
        return self.store.n_rows

    @property
    def learned(self) -> Sample:
        """The rows with their copies, without values."""
        table = Table(np.empty((self.n_rows, 0)), self.schema)
        target, weight, offset = self.vectors
        return Sample(table, target, weight=weight, offset=offset).with_values(self.values)

    @property
    def once(self) -> Sample:
        """The rows that are no copies, the first ones, with their own weights, without values."""
        found = self.learned
        if self.n_copies == 1:
            return found
        weight = None
        if self.has_weight and found.weight is not None:
            # Exact: a float that was divided by 2, 3 or 4 (Goldberg 1991, theorem 7).
            weight = found.weight * self.n_copies
        rows = np.arange(self.n_rows // self.n_copies)
        return replace(replace(found, weight=weight).take(rows), origin=None)

    def data(self, objective: Objective, params: BoostParams, alone: bool) -> TrainingData:
        """Return the rows in the form for the grower.

        ``alone``: whether no rank has other rows; a single chunk is then a matrix in memory.
        """
        target, weight, offset = self.vectors
        if self.n_rows == 0:  # a rank without rows does not know how many columns others have
            if isinstance(objective, SeveralTargets):
                target = np.zeros((0, objective.n_outputs))
            offset = np.zeros((objective.n_outputs, 0)) if self.has_offset else None
        offset, start = (offset, None) if self.first is None else (None, offset)
        matrix: BinnedMatrix | ChunkStore = self.store
        numbers = None
        if alone and len(self.store.chunk_sizes) == 1:
            (chunk,) = self.store.chunks()
            matrix, numbers = chunk.matrix, chunk.numbers if params.linear_leaves else None
        return TrainingData(matrix, target, weight, offset, self.n_copies, start, numbers)


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
    aside : bool (n_rows,), or None
        Whether each row of this rank is held out; bins, categories and row numbers then come from
        the others only.  None: all rows are for training.
    n_threads : int
    objective : Objective or None
        Used to check constraints, with the schema.
    start : Start or None
        Model to continue.
    by_folds : bool, default=False
        Whether folds of these rows are to choose the number of rounds.
    times : TimeColumns or None
        How two columns of targets are read as times of events; None for other targets.
    """

    params: BoostParams
    n_outputs: int = 1
    aside: BoolArray | None = None
    n_threads: int = 1
    objective: Objective | None = None
    start: Start | None = None
    by_folds: bool = False
    times: TimeColumns | None = None

    @property
    def n_vectors(self) -> int:
        """Outputs of a tree, as far as they are known before the fit."""
        several = isinstance(self.objective, SeveralTargets)
        if self.objective is None or not asks_for_vectors(self.params, several):
            return 1
        return self.objective.n_outputs

    @property
    def intervals(self) -> bool:
        """Whether the targets are ends of intervals of times."""
        return self.times is not None and self.times.has_intervals

    def held_out(self, first: int, stop: int) -> BoolArray:
        """Return which rows of a range of this rank are held out."""
        if self.aside is None:
            return np.zeros(stop - first, dtype=np.bool_)
        return self.aside[first:stop]


def reads_batches(rows: object) -> TypeGuard[FileDataset]:
    """Return whether rows are read from files or batches, not held in memory."""
    return isinstance(rows, Dataset) and rows.reads_batches


ValidRows: TypeAlias = "Dataset | Mapping[str, Dataset] | None"
"""Validation rows: none, one set, or several by name; the first set decides."""


def named_valid(valid: ValidRows) -> Mapping[str, Dataset]:
    """Return the sets of validation rows by name."""
    if valid is None:
        return {}
    if isinstance(valid, Mapping):
        check_set_names(valid)
        return valid
    return {ONLY: valid}
