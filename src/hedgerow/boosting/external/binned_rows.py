"""Rows of batches, binned and written to a store; columns and bins of a model to continue."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.boosting.external.chunked_rows import ChunkedRows, StorePlan, without_values
from hedgerow.boosting.external.encoded import EncodedRows
from hedgerow.boosting.external.file_rows import Rows
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.setup.resolved import numbers_for, resolved
from hedgerow.boosting.loop.setup.training_matrix import of_a_kind
from hedgerow.boosting.resume.continuing import (
    Start,
    check_reading,
    in_bins_of,
    keep_bins,
    start_scores,
)
from hedgerow.data import AnyTable, SparseTable, Table, bin_table, recode
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.binning.bundles import Layout
from hedgerow.data.binning.cut_sample import CutSample, masses_of_levels
from hedgerow.data.binning.matrix import spread_bundles
from hedgerow.data.external.chunk_sink import ChunkSink
from hedgerow.data.schema import Schema, check_same_names, with_more_levels
from hedgerow.data.sources.base import ReadRequest
from hedgerow.data.sparse import sparse_of
from hedgerow.errors import AllRowsNeededError
from hedgerow.model.forest import Forest
from hedgerow.params import BoostParams


@dataclass(frozen=True, slots=True, eq=False)
class RowBinning:
    """The mapping of rows to bins.

    Attributes
    ----------
    spec : BinSpec
    schema : Schema
        Of the user's columns.
    params : BoostParams
        Linear leaves need the values of the rows beside the bins.
    n_threads : int
    encoded : EncodedRows or None
        Target statistics and crosses.
    first : Forest or None
        Trees of the model to continue.
    layout : Layout or None
        Bundles of features, whose conflicts hide values of training rows.
    """

    spec: BinSpec
    schema: Schema
    params: BoostParams
    n_threads: int
    encoded: EncodedRows | None = None
    first: Forest | None = None
    layout: Layout | None = None

    @property
    def n_copies(self) -> int:
        """Number of copies of the training rows to append."""
        return 1 if self.encoded is None else self.encoded.n_copies

    def inputs(self, table: AnyTable, rows: Rows, number: int | None) -> AnyTable:
        """Return rows as trees see them; ``number`` is that of the first training row, or None."""
        table = rows.of(table)
        if self.encoded is None:
            return table
        if number is None or isinstance(table, SparseTable):  # which has no statistics
            return self.encoded.of_new(table)
        return self.encoded.of_training(table.values, slice(number, number + rows.n_rows))


class BinnedRows:
    """Rows that are binned batch by batch and written to a store.

    ``number``: that of the first training row among those of all ranks; None for rows that are
    only scored, as trees see new rows.
    """

    def __init__(self, sink: ChunkSink, binning: RowBinning, number: int | None) -> None:
        self._sink, self._binning, self._number = sink, binning, number
        self._scores: list[FloatArray] = []
        self.n_rows = 0

    def append(self, table: AnyTable, rows: Rows) -> None:
        """Append rows of a batch."""
        if rows.n_rows == 0:
            return
        binning, number = self._binning, self._number
        if binning.first is not None:
            own = Sample(rows.of(table), rows.target, offset=rows.offset)
            self._scores.append(start_scores(binning.first, own, binning.n_threads))
        inputs = binning.inputs(table, rows, number)
        if binning.layout is None or number is None:
            matrix = bin_table(inputs, binning.spec, binning.n_threads)
        else:
            entries = inputs if isinstance(inputs, SparseTable) else sparse_of(inputs)
            bundled = bin_table(entries, binning.spec, binning.n_threads, layout=binning.layout)
            matrix = spread_bundles(bundled)
        self._sink.append(matrix, numbers_for(binning.params, inputs))
        self.n_rows += rows.n_rows
        if number is not None:
            self._number = number + rows.n_rows

    def finish(self, rows: Sample, first_row: int = 0) -> ChunkedRows:
        """Return the store with what else is known of its rows."""
        binning, start = self._binning, None
        if binning.first is not None:
            none = np.zeros((binning.first.n_outputs, 0))
            start = np.concatenate([none, *self._scores], axis=1)
        encoded, is_new = binning.encoded, self._number is None
        return ChunkedRows(
            self._sink.finish(), replace(rows, table=without_values(rows.n_rows, binning.schema)),
            first_row, binning.first, start, None if encoded is None else encoded.inputs,
            1 if is_new else binning.n_copies, layout=None if is_new else binning.layout,
        )  # fmt: skip


def as_in_model(table: AnyTable, start: Start, requested: ReadRequest) -> AnyTable:
    """Return rows with the columns of the model, and with the levels of both."""
    known, found = start.model.schema, table.schema
    check_reading(known, requested.categorical, requested.unknown, start.name)
    if known.named:
        check_same_names(found.names, known.names)
    if (found.names, found.types) != (known.names, known.types):
        raise AllRowsNeededError(
            f"{start.name} has its columns in another order or of other kinds than these rows, "
            "which are therefore read into memory."
        )
    if isinstance(table, SparseTable) or not known.has_categories:
        return table
    levels = {column.name: column.levels for column in found.columns if column.kind == "category"}
    schema = known if known.unknown == "error" else with_more_levels(known, levels)
    return recode(table, schema, "missing")


def sample_in_model(sample: CutSample, start: Start, requested: ReadRequest) -> CutSample:
    """Return the sample for cuts, and the masses of levels, in terms of the model."""
    table = as_in_model(sample.table, start, requested)
    masses = {}
    for j, mass in sample.level_mass.items():
        # The code of each level, from a table with a row for each.
        levels = np.full((len(mass), table.n_features), np.nan)
        levels[:, j] = np.arange(len(mass))
        n_levels = table.schema.n_levels(j)
        if len(mass) > 0:
            each = recode(Table(levels, sample.table.schema), table.schema, "missing")
            masses[j] = masses_of_levels(each.values[:, j], n_levels, mass)
    return replace(sample, table=table, level_mass=masses)


def bins_to_continue(spec: BinSpec, plan: StorePlan) -> tuple[BinSpec, Forest | None]:
    """Return bins that keep those of the model apart, and its forest in terms of these bins."""
    start, objective = plan.start, plan.objective
    if start is None:
        return spec, None
    assert objective is not None
    spec = keep_bins(spec, start.model)
    params = resolved(plan.params, objective, spec.schema, start)
    return spec, of_a_kind(in_bins_of(spec, start.model), params)
