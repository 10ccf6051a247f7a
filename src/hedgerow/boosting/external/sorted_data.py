"""Exact and approximate search on external memory: ``tree_method`` "exact" or "approx" on files.

::

    pass one    schema
    pass two    values, targets, weights, offsets of each row --> memory-mapped files
    rounds      the loop of rows in memory, on these arrays    boosting.loop.fit
                statistics, crosses --> another file           dataset.encoded
                values --> sorted columns                      data.external.blocks
                trees                                          growing.exact.grower

Sorted columns, and the lists that trees divide, are in mapped files if they take more than a part
of the memory (:meth:`hedgerow.data.reading.mapped_table.RowSpace.lists`); they are read from front
to back.  The arrays of a row are in memory, see :func:`bytes_of_a_row`.  Everything else is as for
rows in memory, so the model has the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import cast

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.boosting.external.dataset.continued import as_in_model
from hedgerow.boosting.external.dataset.encoded import statistics_of
from hedgerow.boosting.external.dataset.file_dataset import FileDataset
from hedgerow.boosting.external.dataset.file_rows import Rows
from hedgerow.boosting.external.external_sample import StorePlan
from hedgerow.boosting.external.folds import DRAW_BYTES
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.setup.training_matrix import sortable
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.boosting.row_data.offsets import check_both_offset
from hedgerow.boosting.row_data.statistics import copies_of, kept_columns
from hedgerow.boosting.row_data.targets import targets_like
from hedgerow.boosting.validation.row_sets import stacked
from hedgerow.data.external.blocks import ENTRY_BYTES, SORT_BYTES
from hedgerow.data.external.memory import give_back_memory, shown_bytes
from hedgerow.data.reading.mapped_table import MappedTable, RowFile, RowSpace
from hedgerow.data.reading.table import Table
from hedgerow.data.schema import Schema
from hedgerow.data.sources.survey import Found
from hedgerow.data.sparse import AnyTable
from hedgerow.errors import AllRowsNeededError, ParameterError
from hedgerow.growing.limits.constraints import resolve_constraints
from hedgerow.growing.sampling.goss import weighs_sample
from hedgerow.objectives import RANKING, Objective
from hedgerow.objectives.precomputed import prepared_shape
from hedgerow.params import BoostParams

_ROW_SHARE = 0.75
_GROWER_BYTES = 17
"""Integer gradients, row ids and room to move them, and the side of a split."""

_RANKING_BYTES = 64
_LINE_SEARCH_BYTES = 48
_SAMPLE_WEIGHT_BYTES = 16
_FOLD_BYTES = 24
"""Number, target and weight of a row of a fold, whose arrays are not mapped."""


@contextmanager
def sorted_rows(
    data: FileDataset,
    objective: Objective,
    plan: StorePlan,
    valid: Mapping[str, Dataset],
    n_folds: int = 0,
) -> Iterator[tuple[Sample, Sample | None]]:
    """Yield training rows and validation rows, in files, during a fit that sorts their columns."""
    with ExitStack() as stack:
        space = RowSpace(data.cache_dir, data.memory_limit, max(1, n_folds))
        stack.enter_context(closing(space))
        train, aside = _read_rows(data, plan, n_folds, space, stack)
        given = {
            name: _validation(some, objective, plan, train, stack) for name, some in valid.items()
        }
        values, of_aside = data.divided_values(plan.aside)
        train = train.with_values(values)
        if aside is not None:
            aside = aside.with_values(of_aside)
        if n_folds == 0:  # groups divide rows only once
            train = replace(train, group=None)
        yield train, stacked(given) if given else aside


def bytes_of_a_row(objective: Objective, params: BoostParams, n_threads: int) -> int:
    """Return the memory in bytes that exact growth needs for each row, for any limit.

    It covers raw scores, arrays of the loss and of the grower, one temporary float64, the queries
    of a ranking and, for a line search, the rows by leaf, with the weights of a sample that follows
    gradients; and before that the sorting of a column.
    """
    prepared = prepared_shape(objective, 1)[0]
    searches = params.leaf_estimation == "line_search" or not objective.second_order
    needed = 8 * (objective.n_outputs + prepared + 1) + _LINE_SEARCH_BYTES * searches
    needed += _RANKING_BYTES * (objective.name in RANKING)
    needed += _GROWER_BYTES + ENTRY_BYTES * n_threads
    needed += _SAMPLE_WEIGHT_BYTES * weighs_sample(params)
    return max(needed, SORT_BYTES + 8)


class _RowFiles:
    """Values, targets, weights and offsets of rows, in files of a folder."""

    def __init__(self, space: RowSpace, stack: ExitStack) -> None:
        self._space, self._folder = space, space.folder()
        self._files = [
            RowFile(self._folder.path / what) for what in ("values", "y", "weight", "offset")
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
            MappedTable(values, schema, space=self._space, folder=self._folder),
            target,
            weight=weight if len(weight) else None,
            offset=np.ascontiguousarray(offset.T) if len(offset) else None,
        )


def _read_rows(
    data: FileDataset, plan: StorePlan, n_folds: int, space: RowSpace, stack: ExitStack
) -> tuple[Sample, Sample | None]:
    """Return training rows, and held-out rows."""
    found = data.pass_one(plan)
    table = found.table
    if plan.start is not None:
        table = as_in_model(table, plan.start, data.requested)
    at_once = max(1, min(n_folds, plan.n_threads))
    schema, groups = table.schema, _statistics_of(found, data, plan, at_once)
    _check_sortable(table, groups, plan.params.tree_method)
    n_seen = found.n_rows * 4 // 5 if n_folds > 0 else found.n_rows  # fewer rows, more copies
    _check_room(data, plan, copies_of(n_seen, plan.params) if groups else 1, n_folds)
    train, aside = _RowFiles(space, stack), _RowFiles(space, stack)
    for table, rows, held_out in data.tables(schema, plan):
        train.append(table, rows)
        aside.append(table, held_out)
    give_back_memory()
    return train.finish(schema), aside.finish(schema) if aside.n_rows else None


def _statistics_of(
    found: Found, data: FileDataset, plan: StorePlan, at_once: int
) -> list[tuple[int, ...]]:
    """Return the columns of each target statistic; an error here saves a pass."""
    assert plan.objective is not None
    params = resolve_constraints(plan.params, found.schema, plan.objective)
    resolved = replace(plan, params=params)
    return statistics_of(found.schema, found.n_rows, resolved, 1, data.memory_limit, at_once)


def _check_sortable(table: AnyTable, groups: list[tuple[int, ...]], tree_method: str) -> None:
    """Raise ``ParameterError`` unless the columns that trees split can be sorted."""
    if groups:
        kept = list(kept_columns(table.schema, groups))
        columns = tuple(table.schema.columns[j] for j in kept)
        table = Table(cast(Table, table).values[:, kept], replace(table.schema, columns=columns))
    sortable(table, tree_method)


def _check_room(data: FileDataset, plan: StorePlan, n_copies: int, n_folds: int) -> None:
    objective = plan.objective
    assert objective is not None
    each = n_copies * bytes_of_a_row(objective, plan.params, plan.n_threads)
    each += 8 * objective.n_outputs * (plan.start is not None)  # its scores
    if n_folds > 0:  # they grow side by side
        each = max(DRAW_BYTES, n_folds * (each + _FOLD_BYTES + 8 * objective.n_outputs))
    least = int(each * data.n_counted / _ROW_SHARE)
    if least > data.memory_limit:
        refused = AllRowsNeededError if n_folds > 0 else ParameterError  # a table may take less
        raise refused(
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
) -> Sample:
    """Return validation rows, read with the training schema."""
    schema = train.table.schema
    if not isinstance(valid, FileDataset):
        check_both_offset(train.offset is not None, valid.offset is not None)
        seen = valid.table(schema)
        target = targets_like(valid, seen.n_rows, objective, plan.intervals)
        return valid.sample(seen, target, objective.n_outputs)
    valid.match_targets(objective, plan.times)
    check_both_offset(train.offset is not None, bool(valid.source.roles.offset))
    given = replace(plan, aside=None)
    valid.survey(_ignored, plan.params, sets_aside=True)
    space = stack.enter_context(closing(RowSpace(valid.cache_dir, valid.memory_limit)))
    files = _RowFiles(space, stack)
    for table, rows, _ in valid.tables(schema, given, is_strict=True):
        files.append(table, rows)
    return files.finish(schema).with_values(valid.surveyed_values)


def _ignored(target: FloatArray) -> None:
    """Ignore targets: the fit checks them."""
