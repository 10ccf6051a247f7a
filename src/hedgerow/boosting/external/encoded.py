"""Inputs computed from rows in batches: target statistics and crosses.

Crosses (:mod:`hedgerow.data.inputs`) need only the row itself.  Statistics
(:mod:`hedgerow.boosting.row_data.statistics`) take a pass of their own::

    pass one    levels of all columns                        (needed for bins in any case)
    one pass    codes of the columns with statistics         -> memory
                ordered values of each statistic, row by row -> a mapped file
    pass two    each batch: kept columns, its part of the mapped file, crosses -> bins

Every rank of a cluster has the codes, targets and weights of all rows, computes the values of all
rows, and uses those of its own.

Few rows are copied several times (:func:`hedgerow.boosting.row_data.statistics.copies_of`): they
are read into memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.external.file_table import FileTable
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.row_data.statistics import (
    Encoded,
    StatisticsRows,
    columns_of,
    compute,
    copies_of,
    kept_columns,
    n_values,
)
from hedgerow.comm.base import Alone, Communicator, count_rows, gather_numbers
from hedgerow.data import Table
from hedgerow.data.binning.bins import sampled_rows
from hedgerow.data.binning.cut_sample import codes_of
from hedgerow.data.inputs import Cross, Inputs, with_kept
from hedgerow.data.reading.mapped_table import MappedTable
from hedgerow.data.schema import Schema
from hedgerow.data.sparse import AnyTable, SparseTable
from hedgerow.errors import AllRowsNeededError
from hedgerow.objectives import Objective
from hedgerow.objectives.global_sums import AllRows
from hedgerow.params import BoostParams

TableOfBlocks: TypeAlias = FileTable | MappedTable
"""Tables whose columns are read block by block: from the user's files, or from a file of ours."""

_THREAD_BYTES = 56
"""Memory for each row of the statistic that a thread computes: joint keys, with a hash table."""


def check_copies(
    groups: Sequence[tuple[int, ...]], schema: Schema, n_rows: int, params: BoostParams
) -> None:
    """Raise ``AllRowsNeededError`` if statistics of these columns are trained on several times."""
    if groups and copies_of(n_rows, params) > 1:
        names = ", ".join(repr(schema.names[j]) for j in columns_of(groups))
        raise AllRowsNeededError(
            f"target_statistics={params.target_statistics!r} computes statistics of the columns "
            f"{names}, of several copies of these few rows, which needs all rows in memory: use "
            "target_statistics=False, or train on a table in memory."
        )


@dataclass(frozen=True, slots=True, eq=False)
class EncodedRows:
    """Rows as the trees see them, block by block.

    inputs          what the trees split
    schema          the user's columns
    values          float64 (n_values, n_rows): values of the statistics for the training rows of
                    all ranks, which differ from those of new rows
    sampled_weight  weights of the rows from which the cuts of statistics are chosen
    first_row       number of training rows of lower ranks
    """

    inputs: Inputs
    schema: Schema
    n_threads: int
    values: FloatArray | None = None
    sampled_weight: FloatArray | None = None
    first_row: int = 0

    def inputs_of(self, rows: AnyTable, place: int | None) -> AnyTable:
        """Return the inputs of some rows."""
        # ``place`` is that of the first training row among those of this rank; None: no statistics
        # were computed from these rows.
        inputs = self.inputs
        if isinstance(rows, SparseTable):  # which has no statistics
            return inputs.values(rows, self.schema, self.n_threads)
        if self.values is None or place is None:
            values = inputs.values(rows.values, self.schema, self.n_threads)
        else:
            block = np.empty((inputs.n_inputs, rows.n_rows))
            first, start = inputs.n_inputs - len(inputs.crosses), self.first_row + place
            block[len(inputs.kept) : first] = self.values[:, start : start + rows.n_rows]
            inputs.cross(rows.values, self.schema, block[first:, None], self.n_threads)
            values = with_kept(block, rows.values, inputs.kept)
        return Table(values, inputs.schema(self.schema))


def encode_blocks(
    train: Sample,
    validation: Sequence[Sample],
    groups: Sequence[tuple[int, ...]],
    crosses: tuple[Cross, ...],
    objective: Objective,
    params: BoostParams,
    n_threads: int,
) -> Encoded:
    """Do the work of :func:`hedgerow.boosting.row_data.statistics.encode`, block by block."""
    table = cast(TableOfBlocks, train.table)
    others: Communicator = table.others if isinstance(table, FileTable) else Alone()
    schema = table.schema
    encoded = EncodedRows(Inputs(kept_columns(schema, groups), (), crosses), schema, n_threads)
    if groups:
        first_row, n_rows = count_rows(train.n_rows, others)
        rows = statistics_rows(columns_of(groups), train, others)
        values = table.empty((n_values(schema, groups, objective), n_rows))
        fitting = max(1, min(n_threads, table.memory_limit // (_THREAD_BYTES * max(1, n_rows))))
        found = compute(rows, groups, objective, params.seed, 1, values, fitting)
        weight = rows.weight
        if weight is not None:
            weight = weight[sampled_rows(n_rows, params.seed)]
        inputs = replace(encoded.inputs, statistics=found)
        encoded = EncodedRows(inputs, schema, n_threads, values, weight, first_row)
    seen, *unseen = (
        replace(one, table=_with_inputs(one.table, encoded, one is train))
        for one in (train, *validation)
    )
    return Encoded(seen, unseen, encoded.inputs)


def _with_inputs(table: AnyTable, encoded: EncodedRows, is_seen: bool) -> AnyTable:
    """Return rows as trees see them; ``is_seen``: they are the training rows."""
    names = encoded.inputs.schema(encoded.schema)
    if isinstance(table, FileTable):
        return replace(table, encoded=encoded, schema=names)
    if not isinstance(table, MappedTable):
        return encoded.inputs_of(table, None)

    def blocks() -> Iterator[AnyArray]:
        place = 0
        for block in table.blocks():
            yield cast(Table, encoded.inputs_of(block, place if is_seen else None)).values
            place += block.n_rows

    return table.written(blocks(), names)


def statistics_rows(used: Sequence[int], train: Sample, others: Communicator) -> StatisticsRows:
    """Return what statistics are computed from, of all ranks; ``train`` are the rows of this."""
    schema, place = train.table.schema, 0
    codes: dict[int, AnyArray] = {j: np.empty(train.n_rows, np.int32) for j in used}
    for block in cast(TableOfBlocks, train.table).blocks():
        values, rows = cast(Table, block).values, slice(place, place + block.n_rows)
        for j, found in codes.items():
            found[rows] = codes_of(values[:, j], schema.n_levels(j))
        place = rows.stop
    joined, target, weight = codes, train.target, train.weight
    if others.size > 1:
        joined = {j: gather_numbers(found, others) for j, found in codes.items()}
        target, weight = AllRows(target, weight, communicator=others).gathered()
    return StatisticsRows(joined, target, weight, schema)
