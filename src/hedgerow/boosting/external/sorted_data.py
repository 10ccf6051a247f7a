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

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from hedgerow.boosting.external.encoded import check_memory
from hedgerow.boosting.external.file_table import FileTable, by_dataset, read_together
from hedgerow.boosting.loop.driver import FitOptions, with_out_of_bag
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.setup.training_matrix import sortable
from hedgerow.boosting.row_data.statistics import choose_columns, copies_of, kept_columns
from hedgerow.data.external.blocks import ENTRY_BYTES, SORT_BYTES
from hedgerow.data.external.memory import give_back_memory, shown_bytes
from hedgerow.data.reading.mapped_table import MappedTable, RowFile, RowSpace
from hedgerow.data.reading.table import Table
from hedgerow.errors import ParameterError
from hedgerow.growing.limits.constraints import resolve_constraints
from hedgerow.growing.sampling.goss import weighs_sample
from hedgerow.objectives import RANKING, Objective
from hedgerow.objectives.precomputed import prepared_shape
from hedgerow.params import BoostParams
from hedgerow.threads import resolve_threads

_ROW_SHARE = 0.75
_GROWER_BYTES = 17
"""Integer gradients, row ids and room to move them, and the side of a split."""

_RANKING_BYTES = 64
_LINE_SEARCH_BYTES = 48
_SAMPLE_WEIGHT_BYTES = 16


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


def check_sorting(
    train: Sample, objective: Objective, params: BoostParams, options: FitOptions, goes_on: bool
) -> None:
    """Raise an error unless the columns can be sorted and the rows fit: it saves a pass."""
    table = cast(FileTable, train.table)
    assert table.data.cuts is not None
    sample, schema, limit = table.data.cuts.table, table.schema, table.memory_limit
    table.data.cuts = None
    n_threads, n_rows = resolve_threads(options.n_jobs), table.data.n_rows
    params = resolve_constraints(params, schema, objective)
    params = with_out_of_bag(params, options.stopping, n_rows)
    groups, n_copies = list[tuple[int, ...]](), 1
    if not goes_on:
        groups = choose_columns(schema, train.n_rows, objective, params)
    if groups:
        check_memory(groups, schema, train.n_rows, objective, params, limit)
        kept = list(kept_columns(schema, groups))
        columns = tuple(schema.columns[j] for j in kept)
        sample = Table(cast(Table, sample).values[:, kept], replace(schema, columns=columns))
        n_copies = copies_of(train.n_rows, params)
    sortable(sample, params.tree_method)
    each = n_copies * bytes_of_a_row(objective, params, n_threads)
    each += 8 * objective.n_outputs * goes_on  # its scores
    least = int(each * n_rows / _ROW_SHARE)
    if least > limit:
        raise ParameterError(
            f"memory_limit of {shown_bytes(limit)} is too small: "
            f"tree_method={params.tree_method!r} keeps {each} bytes of each of "
            f"{n_rows:,} rows in memory, and needs at least {shown_bytes(least)}; give as "
            "much, or use tree_method='hist'."
        )


def mapped(samples: Sequence[Sample]) -> list[Sample]:
    """Return rows of files with their values in mapped files; rows in memory are unchanged."""
    found = {}
    for tables in by_dataset(rows.table for rows in samples):
        first = tables[0]
        space = RowSpace(first.data.cache_dir, first.memory_limit)
        files = [RowFile(first.data.cache_dir[0]) for _ in tables]
        for parts in read_together(tables):
            for file, part in zip(files, parts, strict=True):
                if part.n_rows > 0:
                    file.append(cast(Table, part).values)
        give_back_memory()
        for table, file in zip(tables, files, strict=True):
            found[id(table)] = MappedTable(file.finish(), table.schema, space=space)
    return [replace(rows, table=found.get(id(rows.table), rows.table)) for rows in samples]
