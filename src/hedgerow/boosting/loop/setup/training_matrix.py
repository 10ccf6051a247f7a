"""Training rows in the form that ``tree_method`` searches: bins, or sorted columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.external.file_table import FileTable
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.scores import TrainingData
from hedgerow.boosting.loop.setup.resolved import numbers_for
from hedgerow.boosting.resume.continuing import in_bins_of, keep_bins, start_scores
from hedgerow.boosting.row_data.statistics import Encoded
from hedgerow.data import (
    AnyTable,
    BinnedMatrix,
    SparseTable,
    Table,
    fit_bins,
)
from hedgerow.data.binning.bins import (
    BinSpec,
    fit_sample,
    integer_mass,
    joined_bins,
    sampled_rows,
)
from hedgerow.data.binning.bundles import BundleRules, Layout
from hedgerow.data.binning.cut_sample import SAMPLE_ROWS, CutSample, sample_of
from hedgerow.data.binning.matrix import bin_bundled, bin_unseen, pair_columns, pairs_may_pay
from hedgerow.data.external.blocks import ColumnBlocks, sort_columns
from hedgerow.data.inputs import Inputs
from hedgerow.data.reading.mapped_table import MappedTable
from hedgerow.data.schema import Schema
from hedgerow.errors import ParameterError
from hedgerow.growing.core.setup import holds_vectors
from hedgerow.model.forest import Forest, without_vectors
from hedgerow.model.model import Model
from hedgerow.params import BoostParams


def prepare_rows(
    encoded: Encoded,
    params: BoostParams,
    n_threads: int,
    n_outputs: int,
    spec: BinSpec | None = None,
    start: Model | None = None,
    layout: Layout | None = None,
) -> tuple[TrainingData, tuple[TrainingData, ...], Forest | None]:
    """Return the rows in the form that ``tree_method`` searches: bins, or sorted columns.

    ``spec``: the bins, if they are known; ``layout``: bundles of rows of files, if these are, too.
    """
    train, validation = encoded.train, encoded.validation
    if isinstance(train.table, FileTable):
        # Imported here: most trainings use tables in memory.
        from hedgerow.boosting.external.stored import store_rows

        return store_rows(encoded, params, n_threads, n_outputs, spec, start, layout)
    first = None if start is None else of_a_kind(start.forest, params)

    def data(sample: Sample, matrix: BinnedMatrix | ColumnBlocks | AnyTable) -> TrainingData:
        n_copies = encoded.n_copies if sample is train else 1
        raw = None if first is None else start_scores(first, sample, n_threads)
        return TrainingData(
            matrix, sample.target, sample.weight, sample.offset, n_copies, raw,
            numbers_for(params, sample.table),
        )  # fmt: skip

    if params.tree_method != "hist":
        table = sortable(train.table, params.tree_method)
        if isinstance(table, MappedTable):
            seen = data(train, table.sorted(n_threads))
        else:
            seen = data(train, sort_columns(table, n_threads))
        return seen, tuple(data(rows, rows.table) for rows in validation), first
    if spec is None:
        spec = _bins_of(encoded, params, n_threads)
    if start is not None:
        spec = keep_bins(spec, start)
        first = of_a_kind(in_bins_of(spec, start), params)
    matrix = bin_bundled(train.table, spec, bundle_rules(params), n_threads)
    if pairs_may_pay(matrix):
        matrix = pair_columns(matrix, n_threads)
    unseen = tuple(data(rows, bin_unseen(rows.table, matrix, n_threads)) for rows in validation)
    return data(train, matrix), unseen, first


def _bins_of(encoded: Encoded, params: BoostParams, n_threads: int) -> BinSpec:
    """Choose the bins of the inputs of training rows in memory."""
    train, inputs, seed = encoded.train, encoded.inputs, params.seed
    most, forced = params.max_bins_by_feature or params.max_bins, params.forced_bins
    kept = None if inputs is None else inputs.kept
    if inputs is None or not inputs.statistics or train.n_rows <= SAMPLE_ROWS:
        return fit_bins(train.table, most, train.weight, seed, n_threads, forced, columns=kept)
    assert isinstance(train.table, Table)
    # The copies of a row differ in the statistics only.
    n_rows, means = train.n_rows // encoded.n_copies, inputs.statistic_columns
    weight = None if train.weight is None else train.weight[:n_rows] * encoded.n_copies
    mass = None if weight is None else integer_mass(weight)
    own = CutSample(Table(train.table.values[:n_rows], train.table.schema))
    own = own.of_columns([j for j in range(inputs.n_inputs) if j not in means])
    each = np.full(own.table.n_features, params.max_bins)
    own = sample_of(own.table, mass, seed, n_threads, each, kept)
    rows = sampled_rows(train.n_rows, seed)
    values = train.table.values[rows, means.start : means.stop]
    weight = None if train.weight is None else train.weight[rows]
    return bins_with_statistics(own, values, weight, inputs, train.table.schema, params, n_threads)


def bins_with_statistics(
    own: CutSample,
    values: AnyArray,
    weight: FloatArray | None,
    inputs: Inputs,
    schema: Schema,
    params: BoostParams,
    n_threads: int,
) -> BinSpec:
    """Choose the bins of inputs with statistics, which depend on the order of the rows."""
    means = inputs.statistic_columns
    most = list(params.max_bins_by_feature or (params.max_bins,) * inputs.n_inputs)
    columns = schema.columns[means.start : means.stop]
    table = Table(values, replace(schema, columns=columns))
    found = fit_bins(
        table, most[means.start : means.stop], weight, params.seed, n_threads,
        rows=np.arange(table.n_rows),
    )  # fmt: skip
    del most[means.start : means.stop]
    if not most:
        return found
    first = fit_sample(own, most, n_threads, params.forced_bins)
    return joined_bins(first, found, schema, means.start)


def bundle_rules(params: BoostParams) -> BundleRules:
    """Return the rules of feature bundling; a GPU has a column for each feature."""
    return BundleRules(
        params.bundle_features if params.device != "cuda" else False,
        params.bundle_order,
        params.bundle_conflicts,
        params.max_conflict_rate,
    )


def of_a_kind(forest: Forest, params: BoostParams) -> Forest:
    """Return the forest; vector trees are split by output if the new trees have one output."""
    return forest if holds_vectors(params) else without_vectors(forest)


def sortable(table: AnyTable, tree_method: str) -> Table:
    """Return the table if its columns can be sorted once, else raise ``ParameterError``."""
    if isinstance(table, SparseTable):
        raise ParameterError(
            f"tree_method={tree_method!r} sorts dense columns, but X is sparse: use "
            "tree_method='hist', or give X.toarray()."
        )
    for column in table.schema.columns:
        if column.kind == "category":
            raise ParameterError(
                f"tree_method={tree_method!r} sorts numbers, but column {column.name!r} is a "
                "category: use tree_method='hist', or encode the column."
            )
    return table
