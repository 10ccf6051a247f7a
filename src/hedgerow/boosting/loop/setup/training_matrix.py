"""Training rows in the form that ``tree_method`` searches: bins, or sorted columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from hedgerow.boosting.external.file_table import FileTable
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.scores import TrainingData
from hedgerow.boosting.loop.setup.resolved import numbers_for
from hedgerow.boosting.resume.continuing import in_bins_of, keep_bins, start_scores
from hedgerow.boosting.row_data.statistics import Encoded
from hedgerow.data import AnyTable, BinnedMatrix, SparseTable, Table, fit_bins
from hedgerow.data.binning.bins import (
    BinSpec,
    fit_sample,
    integer_mass,
    joined_bins,
    sampled_rows,
)
from hedgerow.data.binning.bundles import BundleRules
from hedgerow.data.binning.cut_sample import CutSample
from hedgerow.data.binning.matrix import bin_bundled, bin_unseen, pair_columns, pairs_may_pay
from hedgerow.data.external.blocks import ColumnBlocks, sort_columns
from hedgerow.data.reading.mapped_table import MappedTable
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
) -> tuple[TrainingData, tuple[TrainingData, ...], Forest | None]:
    """Return the rows in the form that ``tree_method`` searches: bins, or sorted columns."""
    # ``spec``: the bins, if they are known.
    train, validation = encoded.train, encoded.validation
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
        spec = choose_bins(encoded, params, n_threads)
        if isinstance(train.table, FileTable):
            train.table.data.cuts = None  # a part of the memory that the bins may need
    if start is not None:
        spec = keep_bins(spec, start)
        first = of_a_kind(in_bins_of(spec, start), params)
    if isinstance(train.table, FileTable):
        # Imported here: most trainings use tables in memory.
        from hedgerow.boosting.external.stored import store_rows

        return *store_rows(encoded, params, n_threads, n_outputs, spec, first), first
    matrix = bin_bundled(train.table, spec, bundle_rules(params), n_threads)
    if pairs_may_pay(matrix):
        matrix = pair_columns(matrix, n_threads)
    unseen = tuple(data(rows, bin_unseen(rows.table, matrix, n_threads)) for rows in validation)
    return data(train, matrix), unseen, first


def choose_bins(
    encoded: Encoded, params: BoostParams, n_threads: int, first: BinSpec | None = None
) -> BinSpec:
    """Choose the bins of the inputs of training rows; those of the ``first`` ones may be known."""
    train, inputs = encoded.train, encoded.inputs
    table, n_inputs, late = train.table, train.table.n_features, range(0)
    if first is not None:
        late = range(first.n_features, n_inputs)
    elif inputs is not None:
        late = inputs.statistic_columns
    if first is None and len(late) < n_inputs:
        own = [place for place in range(n_inputs) if place not in late]
        numbers = own if inputs is None else inputs.kept
        one = train
        if encoded.n_copies > 1:
            # The copies of rows in memory differ in the statistics only.
            n_rows = train.n_rows // encoded.n_copies
            some = Table(cast(Table, table).values[:n_rows], table.schema)
            mass = None if train.weight is None else train.weight[:n_rows] * encoded.n_copies
            one = Sample(some, train.target[:n_rows], weight=mass)
        first = bins_of_columns(one, own, params, n_threads, numbers)
    if first is not None and not late:
        return replace(first, schema=table.schema)
    # Values that depend on the order of the rows, so rows are chosen by number, not by content.
    if isinstance(table, FileTable):
        values, weight = table.computed(late, params.seed)
    else:
        rows = sampled_rows(table.n_rows, params.seed)
        values = cast(Table, table).values[rows, late.start : late.stop]
        weight = None if train.weight is None else train.weight[rows]
    names = replace(table.schema, columns=table.schema.columns[late.start : late.stop])
    drawn = CutSample(Table(values, names), None, None if weight is None else integer_mass(weight))
    found = fit_sample(drawn, _most_bins(params, late), n_threads)
    return found if first is None else joined_bins(first, found, table.schema, late.start)


def bins_of_columns(
    train: Sample,
    columns: Sequence[int],
    params: BoostParams,
    n_threads: int,
    numbers: Sequence[int] | None = None,
) -> BinSpec:
    """Choose the bins of some columns, without statistics, from the contents of rows."""
    # ``numbers`` are those of the first columns in the user's table; default: ``columns``.
    table, most = train.table, _most_bins(params, columns)
    if isinstance(table, FileTable):
        return fit_sample(table.cuts_of(columns), most, n_threads, params.forced_bins)
    own, numbers = CutSample(table).of_columns(columns).table, numbers or columns
    return fit_bins(
        own, most, train.weight, params.seed, n_threads, params.forced_bins, columns=numbers
    )


def _most_bins(params: BoostParams, columns: Sequence[int]) -> list[int]:
    bins = params.max_bins_by_feature
    return [params.max_bins if bins is None else bins[j] for j in columns]


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
