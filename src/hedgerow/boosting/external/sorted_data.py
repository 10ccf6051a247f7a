"""Exact and approximate search on external memory: ``tree_method`` "exact" or "approx" on files.

::

    pass one    schema
    pass two    values of each row --> a memory-mapped file
    rounds      the loop of rows in memory, on these arrays    boosting.loop.fit
                statistics, crosses --> another file           external.encoded
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
from typing import Self, cast

from hedgerow.boosting.external.binned_rows import as_in_model
from hedgerow.boosting.external.chunked_rows import StorePlan
from hedgerow.boosting.external.encoded import statistics_of
from hedgerow.boosting.external.file_dataset import FileDataset
from hedgerow.boosting.external.file_rows import Rows
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
        train, aside = _read_rows(data, plan, n_folds, space)
        given = {
            name: _validation(some, objective, plan, train, stack) for name, some in valid.items()
        }
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


def _read_rows(
    data: FileDataset, plan: StorePlan, n_folds: int, space: RowSpace
) -> tuple[Sample, Sample | None]:
    """Return training rows, and held-out rows, with their values in files."""
    found = data.pass_one(plan)
    table = found.table
    if plan.start is not None:
        table = as_in_model(table, plan.start, data.requested)
    at_once = max(1, min(n_folds, plan.n_threads))
    schema, groups = table.schema, _statistics_of(found, data, plan, at_once)
    _check_sortable(table, groups, plan.params.tree_method)
    n_seen = found.n_rows * 4 // 5 if n_folds > 0 else found.n_rows  # fewer rows, more copies
    _check_room(data, plan, copies_of(n_seen, plan.params) if groups else 1, n_folds)
    seen, unseen = data.divided(plan.aside)
    with ExitStack() as stack:
        files = [stack.enter_context(_Values(space)) for _ in range(2)]
        for batch, *sides in data.tables(schema, plan):
            for file, rows in zip(files, sides, strict=True):
                file.append(batch, rows)
        give_back_memory()
        train, aside = files
        return train.of(seen, schema), None if unseen is None else aside.of(unseen, schema)


class _Values:
    """Values of rows, in a file of a folder of their own."""

    def __init__(self, space: RowSpace) -> None:
        self._space, self._folder = space, space.folder()
        self._file = RowFile(self._folder.path / "values")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def append(self, table: AnyTable, rows: Rows) -> None:
        """Append rows of a batch."""
        if rows.n_rows > 0:
            self._file.append(cast(Table, rows.of(table)).values)

    def of(self, rows: Sample, schema: Schema) -> Sample:
        """Return the rows with these values, memory-mapped."""
        values, space = self._file.finish(), self._space
        return replace(rows, table=MappedTable(values, schema, space=space, folder=self._folder))


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
    n_rows = data.rows.n_rows
    least = int(each * n_rows / _ROW_SHARE)
    if least > data.memory_limit:
        refused = AllRowsNeededError if n_folds > 0 else ParameterError  # a table may take less
        raise refused(
            f"memory_limit of {shown_bytes(data.memory_limit)} is too small: "
            f"tree_method={plan.params.tree_method!r} keeps {each} bytes of each of "
            f"{n_rows:,} rows in memory, and needs at least {shown_bytes(least)}; give as "
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
    valid.match_targets(objective, plan.names, plan.intervals)
    check_both_offset(train.offset is not None, bool(valid.offset_names))
    valid.survey(plan.params)
    space = stack.enter_context(closing(RowSpace(valid.cache_dir, valid.memory_limit)))
    with _Values(space) as file:
        for table, rows, _ in valid.tables(schema, replace(plan, aside=None), is_strict=True):
            file.append(table, rows)
        return file.of(valid.rows, schema)
