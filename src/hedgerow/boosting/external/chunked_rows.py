"""Rows in chunks, and how a training asks for them.

::

    train                         FileDataset (files, batches, partitions of a cluster)
      |  survey() --------------->  reads all rows once
      |  rows <-------------------  targets, weights and so on of the rows of positive weight
      |
      |  chooses the loss, the number of outputs, and the held-out rows
      |
      |  stored(plan) ----------->  fits bins to the training rows, bins all rows
      |  ChunkedRows <------------  training rows, and held-out rows
      v
    fit_external

Rows of weight 0 are dropped before anything else: they have no row number, and do not affect
categories or bins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

import numpy as np

from hedgerow.arrays import BoolArray, FloatArray
from hedgerow.boosting.loop.driver import NewRows
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.scores import TrainingData
from hedgerow.boosting.loop.setup.resolved import asks_for_vectors
from hedgerow.boosting.resume.continuing import Start
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.boosting.row_data.statistics import repeated
from hedgerow.boosting.validation.row_sets import ONLY, check_set_names
from hedgerow.data import Table
from hedgerow.data.binning.bundles import Layout
from hedgerow.data.binning.matrix import BinnedMatrix
from hedgerow.data.external.row_store import ChunkStore
from hedgerow.data.inputs import Inputs
from hedgerow.data.schema import Schema
from hedgerow.model.forest import Forest
from hedgerow.objectives import Objective, SeveralTargets
from hedgerow.params import BoostParams

if TYPE_CHECKING:
    from hedgerow.boosting.external.file_dataset import FileDataset


@dataclass(frozen=True, slots=True, eq=False)
class ChunkedRows:
    """Rows of one rank: their bins in chunks, everything else in memory.

    Attributes
    ----------
    store : ChunkStore
        Bins of the rows of positive weight.
    rows : Sample
        Each row once, with the user's columns, but without values of them.  Either all ranks have
        weights, or none; numbers of queries are common to all.
    first_row : int, default=0
        Number of rows of the same sample (training or validation rows) on earlier ranks.
    first : Forest, or None
        Trees of the model to continue.
    start : float64 (n_outputs, n_rows), or None
        Raw scores by the model to continue, with the offsets.
    inputs : Inputs, or None
        The columns that trees split, if they differ from the columns of the table.
    n_copies : int, default=1
        How often the store has the rows, one copy after another, each with its share of the
        weight (:mod:`hedgerow.boosting.row_data.statistics`).
    read_again : callable or None
        Reads the training rows of this rank in batches, with the user's offsets: as trees see rows
        that are not trained on.
    layout : Layout or None
        Bundles, if conflicts in them hide values of the training rows.
    """

    store: ChunkStore
    rows: Sample
    first_row: int = 0
    first: Forest | None = None
    start: FloatArray | None = None
    inputs: Inputs | None = None
    n_copies: int = 1
    read_again: Callable[[], NewRows] | None = None
    layout: Layout | None = None

    @property
    def schema(self) -> Schema:
        """Schema of the table, with the categories of the training rows only."""
        return self.rows.table.schema

    @property
    def learned(self) -> Sample:
        """The rows with their copies."""
        table = without_values(self.store.n_rows, self.schema)
        return repeated(self.rows, table, self.n_copies)

    def data(self, params: BoostParams, alone: bool) -> TrainingData:
        """Return the rows in the form for the grower.

        ``alone``: whether no rank has other rows; a single chunk is then a matrix in memory.
        """
        rows = self.learned
        matrix: BinnedMatrix | ChunkStore = self.store
        numbers = None
        if alone and len(self.store.chunk_sizes) == 1:
            (chunk,) = self.store.chunks()
            matrix, numbers = chunk.matrix, chunk.numbers if params.linear_leaves else None
        return TrainingData(
            matrix, np.asfortranarray(rows.target), rows.weight,
            rows.offset if self.first is None else None, self.n_copies, self.start, numbers,
        )  # fmt: skip


def without_values(n_rows: int, schema: Schema) -> Table:
    """Return the table of rows whose values are not in memory."""
    return Table(np.empty((n_rows, 0)), schema)


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
    names : tuple of str, or None
        The user's names of several targets, or of two columns of times.
    intervals : bool, default=False
        Whether the targets are ends of intervals of times.
    """

    params: BoostParams
    n_outputs: int = 1
    aside: BoolArray | None = None
    n_threads: int = 1
    objective: Objective | None = None
    start: Start | None = None
    by_folds: bool = False
    names: tuple[str, ...] | None = None
    intervals: bool = False

    @property
    def n_vectors(self) -> int:
        """Outputs of a tree, as far as they are known before the fit."""
        several = isinstance(self.objective, SeveralTargets)
        if self.objective is None or not asks_for_vectors(self.params, several):
            return 1
        return self.objective.n_outputs

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
