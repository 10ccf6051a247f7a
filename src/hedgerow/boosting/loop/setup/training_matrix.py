"""Training rows in the form that ``tree_method`` searches: bins, or sorted columns."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from hedgerow.boosting.external.file_table import FileTable, by_dataset, read_together
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.scores import TrainingData
from hedgerow.boosting.loop.setup.resolved import numbers_for, outputs_of_tree
from hedgerow.boosting.resume.continuing import in_bins_of, keep_bins, start_scores
from hedgerow.boosting.row_data.statistics import Encoded, constraints_of_inputs, encode
from hedgerow.data import AnyTable, BinnedMatrix, SparseTable, Table, bin_table, fit_bins
from hedgerow.data.binning.bins import BinSpec, fit_sample, integer_mass, joined_bins, sampled_rows
from hedgerow.data.binning.bundles import BundleRules
from hedgerow.data.binning.cut_sample import CutSample
from hedgerow.data.binning.matrix import (
    bin_bundled,
    bin_unseen,
    check_bundled,
    pair_columns,
    pairs_may_pay,
)
from hedgerow.data.external.blocks import ColumnBlocks, sort_columns
from hedgerow.data.external.disk_store import ChunkStore
from hedgerow.data.external.memory import give_back_memory
from hedgerow.data.inputs import Inputs
from hedgerow.data.reading.mapped_table import MappedTable, RowFile, RowSpace
from hedgerow.errors import ParameterError
from hedgerow.growing.core.setup import holds_vectors
from hedgerow.model.forest import Forest, without_vectors
from hedgerow.model.model import Model
from hedgerow.objectives import Objective
from hedgerow.params import BoostParams


@dataclass(frozen=True, slots=True, eq=False)
class PreparedRows:
    """The rows of a fit in the form for trees, wherever they are.

    train, validation  with the user's columns, each row once
    learned            the training rows on which trees are grown: copies of ``train`` if there are
                       statistics
    seen, unseen       the training and validation rows in the form for trees
    inputs             inputs of the trees, if they differ from the columns of the table
    first              trees of the model to continue
    """

    train: Sample
    learned: Sample
    seen: TrainingData
    unseen: tuple[TrainingData, ...] = ()
    validation: Sequence[Sample] = ()
    inputs: Inputs | None = None
    first: Forest | None = None


def prepare(
    train: Sample,
    validation: Sequence[Sample],
    objective: Objective,
    params: BoostParams,
    n_threads: int,
    start: Model | None = None,
    kept: BinSpec | None = None,
) -> PreparedRows:
    """Encode the rows, and bin them or sort their columns; a continued model has no statistics."""
    # ``kept``: the bins of the columns without statistics, if they are known.
    encoded = Encoded(train, validation)
    if start is None:
        encoded = encode(train, validation, objective, params, n_threads)
    params = constraints_of_inputs(params, encoded.inputs)
    learned, table = encoded.train, encoded.train.table
    first = None if start is None else of_a_kind(start.forest, params)

    def data(sample: Sample, matrix: BinnedMatrix | ColumnBlocks | AnyTable) -> TrainingData:
        n_copies = encoded.n_copies if sample is learned else 1
        given = sample.table, sample.offset, n_threads
        raw = None if first is None else start_scores(first, *given)
        return TrainingData(
            matrix, sample.target, sample.weight, sample.offset, n_copies, raw,
            numbers_for(params, sample.table),
        )  # fmt: skip

    if params.tree_method != "hist":
        check_sortable(table, params.tree_method)
        # Only now that the inputs are known: the mapped files hold nothing else.
        learned, *others = map_files([learned, *encoded.validation])
        columns = cast(Table, learned.table)
        if isinstance(columns, MappedTable):
            seen = data(learned, columns.sorted(n_threads))
        else:
            seen = data(learned, sort_columns(columns, n_threads))
        unseen = [data(rows, rows.table) for rows in others]
    else:
        spec = choose_bins(encoded, params, n_threads, kept)
        if isinstance(table, FileTable):
            table.data.cuts = None  # a part of the memory that the bins may need
        if start is not None:
            spec = keep_bins(spec, start)
            first = of_a_kind(in_bins_of(spec, start), params)
        if isinstance(table, FileTable):
            samples = [learned, *encoded.validation]
            found = bin_files(samples, params, n_threads, objective.n_outputs, spec, first)
            seen = found[id(table)]
            unseen = [
                found.get(id(rows.table))
                or data(rows, bin_table(rows.table, spec, n_threads, columns=False))
                for rows in encoded.validation
            ]
        else:
            matrix = bin_bundled(table, spec, bundle_rules(params), n_threads)
            if pairs_may_pay(matrix):
                matrix = pair_columns(matrix, n_threads)
            unseen = [
                data(rows, bin_unseen(rows.table, matrix, n_threads)) for rows in encoded.validation
            ]
            seen = data(learned, matrix)
    return PreparedRows(train, learned, seen, tuple(unseen), validation, encoded.inputs, first)


def bin_files(
    samples: Sequence[Sample],
    params: BoostParams,
    n_threads: int,
    n_outputs: int,
    spec: BinSpec,
    first: Forest | None,
) -> dict[int, TrainingData]:
    """Return rows of files by table, as bins in chunks, in one pass over the files of a dataset."""
    # The first sample has the training rows.
    # Imported here: most trainings use tables in memory.
    from hedgerow.data.external.disk_store import ChunkSink

    check_bundled(spec, bundle_rules(params))
    give_back_memory()
    by_id, found = {id(one.table): one for one in samples}, dict[int, TrainingData]()
    for tables in by_dataset(one.table for one in by_id.values()):
        rows = [by_id[id(table)] for table in tables]
        n_before = 0 if first is None else first.n_outputs
        starts = [np.zeros((n_before, one.n_rows)) for one in rows]
        places = [0] * len(tables)
        # This one closes the sinks after an error; the stacks of the datasets close the chunks.
        with ExitStack() as stack:
            sinks = []
            for table in tables:
                is_train = table is samples[0].table
                vectors = outputs_of_tree(params, n_outputs) if is_train else 1
                sink = ChunkSink(
                    spec, table.data.cache_dir, table.room, n_outputs=n_outputs, n_vectors=vectors
                )
                sinks.append(stack.enter_context(sink))
            for parts in read_together(tables):
                for k, part in enumerate(parts):
                    if part.n_rows == 0:
                        continue
                    place = slice(places[k], places[k] + part.n_rows)
                    places[k] = place.stop
                    if first is not None:
                        offset = rows[k].offset
                        offset = None if offset is None else offset[:, place]
                        starts[k][:, place] = start_scores(first, part, offset, n_threads)
                    sinks[k].append(bin_table(part, spec, n_threads), numbers_for(params, part))
            stores = [sink.finish() for sink in sinks]
        give_back_memory()  # buffers of reading are not needed beside a single chunk
        for one, table, store, start in zip(rows, tables, stores, starts, strict=True):
            table.data.stack.callback(store.close)
            matrix: BinnedMatrix | ChunkStore = store
            numbers, raw = None, None if first is None else start
            if table.data.communicator.size == 1 and len(store.chunk_sizes) == 1:
                (chunk,) = store.chunks()
                matrix, numbers = chunk.matrix, chunk.numbers if params.linear_leaves else None
            target = np.asfortranarray(one.target)
            found[id(table)] = TrainingData(
                matrix, target, one.weight, one.offset, start=raw, numbers=numbers
            )
    return found


def map_files(samples: Sequence[Sample]) -> list[Sample]:
    """Return rows of files with their values in mapped files; rows in memory are unchanged."""
    found = {}
    for tables in by_dataset(rows.table for rows in samples):
        first = tables[0]
        first.data.cuts = None
        space = RowSpace(first.data.cache_dir, first.data.memory_limit)
        files = [RowFile(first.data.cache_dir[0]) for _ in tables]
        for parts in read_together(tables):
            for file, part in zip(files, parts, strict=True):
                if part.n_rows > 0:
                    file.append(part.values)
        give_back_memory()
        for table, file in zip(tables, files, strict=True):
            found[id(table)] = MappedTable(file.finish(), table.schema, space=space)
    return [replace(rows, table=found.get(id(rows.table), rows.table)) for rows in samples]


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
    rows = sampled_rows(table.n_rows, params.seed)
    if isinstance(table, FileTable):
        assert table.ordered is not None
        values = table.ordered[:, rows].T
    else:
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
        return fit_sample(table.cuts_of(columns), most, n_threads)
    own, numbers = CutSample(table).of_columns(columns).table, numbers or columns
    return fit_bins(own, most, train.weight, params.seed, n_threads, columns=numbers)


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


def check_sortable(table: AnyTable, tree_method: str) -> None:
    """Raise ``ParameterError`` unless the columns of a table can be sorted once."""
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
