"""Training rows in the form that ``tree_method`` searches: bins, or sorted columns."""

from __future__ import annotations

from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.scores import TrainingData
from hedgerow.boosting.loop.setup.slopes import numbers_for
from hedgerow.boosting.loop.setup.strategy import holds_vectors
from hedgerow.boosting.resume.continuing import in_bins_of, keep_bins, start_scores
from hedgerow.boosting.row_data.statistics import Encoded
from hedgerow.data import (
    AnyTable,
    BinnedMatrix,
    SparseTable,
    Table,
    fit_bins,
)
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.binning.bundles import BundleRules
from hedgerow.data.binning.matrix import bin_bundled, bin_unseen
from hedgerow.data.binning.pairs import may_pay, pair_columns
from hedgerow.data.external.blocks import ColumnBlocks, sort_columns
from hedgerow.data.reading.mapped_table import MappedTable
from hedgerow.errors import ParameterError
from hedgerow.model.forest import Forest
from hedgerow.model.model import Model
from hedgerow.model.other_forests import without_vectors
from hedgerow.params import BoostParams


def prepare_rows(
    encoded: Encoded,
    params: BoostParams,
    n_threads: int,
    spec: BinSpec | None = None,
    start: Model | None = None,
) -> tuple[TrainingData, TrainingData | None, Forest | None]:
    """Return the rows in the form that ``tree_method`` searches: bins, or sorted columns.

    ``spec``: known cuts of the encoded columns.  With a model to continue, also return its
    forest, in terms of these bins; the rows then start from its raw scores.
    """
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
        unseen = None if validation is None else data(validation, validation.table)
        return seen, unseen, first
    if spec is None:
        most_bins, forced = params.max_bins_by_feature or params.max_bins, params.forced_bins
        spec = fit_bins(train.table, most_bins, train.weight, params.seed, n_threads, forced)
    if start is not None:
        spec = keep_bins(spec, start)
        first = of_a_kind(in_bins_of(spec, start), params)
    matrix = bin_bundled(train.table, spec, bundle_rules(params), n_threads)
    if may_pay(matrix):
        matrix = pair_columns(matrix, n_threads)
    if validation is None:
        return data(train, matrix), None, first
    unseen = data(validation, bin_unseen(validation.table, matrix, n_threads))
    return data(train, matrix), unseen, first


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
