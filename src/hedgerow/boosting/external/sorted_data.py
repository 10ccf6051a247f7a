"""Exact and approximate search on external memory: ``tree_method`` "exact" or "approx" on files.

::

    pass one    schema
    pass two    values, targets, weights, offsets of each row --> memory-mapped files
                values --> sorted columns on disk              data.external.column_files
    rounds      the loop of rows in memory, on these arrays    boosting.loop.fit
                trees                                          growing.exact.external

Columns are read from disk in order, and rows for tree traversal (validation rows, rows
outside a sample).  The other arrays of a fit are in memory: raw scores and
arrays of the loss, see :func:`bytes_of_a_row`.  The loop is the one of rows in memory, so
the model has the same bytes, also with row sampling, DART and random forests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import cast

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.external.dataset.encoded import check_numbers
from hedgerow.boosting.external.dataset.file_dataset import FileDataset
from hedgerow.boosting.external.dataset.file_rows import Rows
from hedgerow.boosting.external.external_sample import StorePlan
from hedgerow.boosting.external.rounds.all_rows import RANKING_BYTES
from hedgerow.boosting.external.rounds.queries import DividedQueries
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.setup.training_matrix import sortable
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.boosting.row_data.offsets import check_both_offset
from hedgerow.boosting.row_data.targets import targets_like
from hedgerow.boosting.validation.row_sets import stacked
from hedgerow.data.external.column_files import LEAST_MEMORY, sort_to_files
from hedgerow.data.external.memory import give_back_memory, shown_bytes
from hedgerow.data.external.scratch import ScratchFolder
from hedgerow.data.reading.mapped_table import BLOCK_ROWS, MappedTable, RowFile
from hedgerow.data.reading.table import Table
from hedgerow.data.schema import Schema
from hedgerow.data.sparse import AnyTable
from hedgerow.errors import ParameterError
from hedgerow.growing.chunks.vectors import weighs_rows
from hedgerow.objectives import RANKING, Objective
from hedgerow.objectives.precomputed import prepared_shape
from hedgerow.params import BoostParams

_SORT_SHARE = 0.5
_ROW_SHARE = 0.75
_LINE_SEARCH_BYTES = 48
_SAMPLE_WEIGHT_BYTES = 16


@contextmanager
def sorted_rows(
    data: FileDataset,
    objective: Objective,
    plan: StorePlan,
    valid: Mapping[str, Dataset],
    divided: DividedQueries | None = None,
) -> Iterator[tuple[Sample, Sample | None]]:
    """Yield training rows with sorted columns on disk, and validation rows, during a fit.

    Parameters
    ----------
    data : FileDataset
        Surveyed; rows in files or batches.
    objective : Objective
    plan : StorePlan
        Its ``tree_method`` is ``"exact"`` or ``"approx"``.
    valid : mapping from str to Dataset
        Validation rows from the user.
    divided : DividedQueries, optional
        Queries of a ranking.

    Raises
    ------
    ParameterError
        For options that need the columns in memory, and if the memory limit is too small
        for the arrays of all rows; the message tells what to do.
    """
    with ExitStack() as stack:
        rows = _SortedRows(data, plan, stack)
        given = {
            name: _validation(some, objective, plan, rows.train, stack, number)
            for number, (name, some) in enumerate(valid.items())
        }
        train, aside = rows.train, None if given else rows.validation
        if divided is not None:
            train, aside = divided.added_to_samples(train, aside)
        yield train, stacked(given) if given else aside


def bytes_of_a_row(objective: Objective, params: BoostParams, n_vectors: int = 1) -> int:
    """Return the memory in bytes that exact growth needs for each row, whatever the limit.

    It covers raw scores, arrays of the loss, one temporary float64, the queries of a ranking and,
    for a line search, the rows by leaf, with the weights of a sample that follows gradients.
    A tree is for ``n_vectors`` outputs.
    """
    prepared = prepared_shape(objective, 1)[0]
    if prepared == 2:  # g and h of each output that a tree is for
        prepared = 2 * n_vectors
    searches = params.leaf_estimation == "line_search" or not objective.second_order
    needed = 8 * (objective.n_outputs + prepared + 1) + _LINE_SEARCH_BYTES * searches
    needed += RANKING_BYTES * (objective.name in RANKING)
    return needed + _SAMPLE_WEIGHT_BYTES * weighs_rows(params, n_vectors)


class _RowFiles:
    """Values, targets, weights and offsets of rows, in files of a folder."""

    def __init__(self, folder: ScratchFolder, name: str, stack: ExitStack) -> None:
        self._files = [
            RowFile(folder.path / f"{name}-{what}") for what in ("values", "y", "weight", "offset")
        ]
        for file in self._files:
            stack.callback(file.close)

    @property
    def n_rows(self) -> int:
        return self._files[0].n_rows

    def append(self, table: AnyTable, rows: Rows) -> None:
        """Append rows of a batch."""
        if rows.n_rows == 0:
            return
        values, target, weight, offset = self._files
        values.append(cast(Table, rows.of(table)).values)
        target.append(rows.target)
        if rows.weight is not None:
            weight.append(rows.weight)
        if rows.offset is not None:
            offset.append(rows.offset.T)

    def finish(self, schema: Schema) -> Sample:
        """Return the rows, memory-mapped."""
        values, target, weight, offset = (file.finish() for file in self._files)
        return Sample(
            MappedTable(values, schema),
            target,
            weight if len(weight) else None,
            np.ascontiguousarray(offset.T) if len(offset) else None,
        )


class _SortedRows:
    """Sorted training rows, and held-out rows."""

    def __init__(self, data: FileDataset, plan: StorePlan, stack: ExitStack) -> None:
        found = data.pass_one(plan)
        check_numbers(found.schema, found.n_rows, plan)
        schema = sortable(found.table, plan.params.tree_method).schema
        _check_room(data, plan)
        folders = [stack.enter_context(closing(ScratchFolder(path))) for path in data.cache_dir]
        train = _RowFiles(folders[0], "train", stack)
        aside = _RowFiles(folders[0], "aside", stack)
        for table, rows, held_out in data.tables(schema, plan):
            train.append(table, rows)
            aside.append(table, held_out)
        sample = train.finish(schema)
        values = cast(MappedTable, sample.table).values
        limit = max(LEAST_MEMORY, int(_SORT_SHARE * data.memory_limit))
        columns = sort_to_files(_parts(values, schema), list(data.cache_dir), limit, plan.n_threads)
        stack.callback(columns.close)
        give_back_memory()
        table = MappedTable(values, schema, columns=columns, memory_limit=data.memory_limit)
        self.train = replace(sample, table=table)
        self.validation = aside.finish(schema) if aside.n_rows else None


def _parts(values: AnyArray, schema: Schema) -> Iterable[Table]:
    for start in range(0, len(values), BLOCK_ROWS):
        yield Table(values[start : start + BLOCK_ROWS], schema)


def _check_room(data: FileDataset, plan: StorePlan) -> None:
    objective = plan.objective
    assert objective is not None
    each = bytes_of_a_row(objective, plan.params, plan.work.n_vectors)
    least = int(each * data.n_counted / _ROW_SHARE)
    if least > data.memory_limit:
        raise ParameterError(
            f"memory_limit of {shown_bytes(data.memory_limit)} is too small: "
            f"tree_method={plan.params.tree_method!r} keeps {each} bytes of each of "
            f"{data.n_counted:,} rows in memory, and needs at least {shown_bytes(least)}; give as "
            "much, or use tree_method='hist'."
        )


def _validation(
    valid: Dataset,
    objective: Objective,
    plan: StorePlan,
    train: Sample,
    stack: ExitStack,
    number: int,
) -> Sample:
    """Return validation rows, read with the training schema; ``number`` is the index of the set."""
    schema = train.table.schema
    if not isinstance(valid, FileDataset):
        check_both_offset(train.offset is not None, valid.offset is not None)
        seen = valid.table(schema)
        target = targets_like(valid, seen.n_rows, objective, plan.intervals)
        return valid.sample(seen, target, objective.n_outputs)
    valid.match_targets(objective, plan.times)
    check_both_offset(train.offset is not None, bool(valid.source.roles.offset))
    given = replace(plan, set_aside=None)
    valid.survey(_ignored, plan.params, sets_aside=True)
    folder = stack.enter_context(closing(ScratchFolder(valid.cache_dir[0])))
    files = _RowFiles(folder, f"valid-{number}", stack)
    for table, rows, _ in valid.tables(schema, given, is_strict=True):
        files.append(table, rows)
    return replace(files.finish(schema), query=valid.query)


def _ignored(target: FloatArray) -> None:
    """Ignore targets: the fit checks them."""
