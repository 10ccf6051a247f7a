"""Inputs computed from rows in batches: target statistics and crosses.

Crosses (:mod:`hedgerow.data.inputs`) need only the row itself.  Statistics
(:mod:`hedgerow.boosting.row_data.statistics`) take a pass of their own::

    pass one    levels of all columns                        (needed for bins in any case)
    one pass    codes of the columns with statistics         -> memory
                ordered values of each statistic, row by row -> a mapped file
    pass two    each batch: kept columns, its part of the mapped file, crosses -> bins

Every rank of a cluster has the codes, targets and weights of all rows, computes the values of all
rows, and uses those of its own.

Few rows are copied several times (:func:`hedgerow.boosting.row_data.statistics.copies_of`): the
mapped file has the values of each copy, and pass two takes place for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.boosting.external.chunked_rows import StorePlan
from hedgerow.boosting.external.file_rows import Rows
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.setup.training_matrix import bins_with_statistics
from hedgerow.boosting.row_data.statistics import (
    Encoded,
    StatisticsRows,
    choose_columns,
    columns_of,
    compute,
    copies_of,
    crosses_of,
    kept_columns,
    n_means_of,
    n_values,
    repeated,
    share_of_copy,
)
from hedgerow.comm.base import Communicator, gather_numbers
from hedgerow.data import Table
from hedgerow.data.binning.bins import BinSpec, fit_sample, sampled_rows
from hedgerow.data.binning.cut_sample import codes_of
from hedgerow.data.external.memory import shown_bytes
from hedgerow.data.external.scratch import ScratchFolder, explained
from hedgerow.data.inputs import Cross, Inputs, with_kept
from hedgerow.data.reading.mapped_table import MappedTable
from hedgerow.data.schema import Schema
from hedgerow.data.sources.survey import Found
from hedgerow.data.sparse import AnyTable, SparseTable
from hedgerow.errors import AllRowsNeededError
from hedgerow.objectives import Objective
from hedgerow.params import BoostParams

Batches: TypeAlias = Callable[[], Iterable[tuple[AnyTable, Rows, Rows]]]
"""Starts a pass over all batches, each with its training rows and its held-out rows."""

_ROW_BYTES, _CODE_BYTES, _CLASS_BYTES, _THREAD_BYTES = 32, 4, 8, 56
"""Memory of a row while statistics are computed: targets, weights and orders; the codes of each
column that a statistic uses; the values for each class or target; and the joint keys, with a hash
table, of the statistic that a thread computes."""

_ROW_SHARE = 0.75
"""Share of the memory limit that this may take; there is no store yet."""


def statistics_of(
    schema: Schema,
    n_rows: int,
    plan: StorePlan,
    n_ranks: int,
    memory_limit: int,
    n_at_once: int = 1,
) -> list[tuple[int, ...]]:
    """Return the columns of each statistic of a fit; none for most fits.

    ``n_at_once`` is the number of folds that compute them at the same time.
    """
    if plan.objective is None or plan.start is not None:
        return []
    groups = choose_columns(schema, n_rows, plan.objective, plan.params)
    if not groups:
        return []
    names = ", ".join(repr(schema.names[j]) for j in columns_of(groups))
    text = (
        f"target_statistics={plan.params.target_statistics!r} computes statistics of the columns "
        f"{names}"
    )
    if n_ranks > 1 and (plan.by_folds or copies_of(n_rows, plan.params) > 1):
        why = "of the rows of each fold" if plan.by_folds else "of several copies of these few rows"
        raise AllRowsNeededError(
            f"{text}, {why}, which needs all rows in memory: use target_statistics=False, or train "
            "on a table in memory."
        )
    each = n_at_once * (_bytes_of_a_row(groups, plan.objective) + _THREAD_BYTES)
    least = int(each * n_rows / _ROW_SHARE)
    if least > memory_limit:
        raise AllRowsNeededError(
            f"{text}, which takes {each} bytes of each of {n_rows:,} rows in memory, and needs a "
            f"memory_limit of {shown_bytes(least)}: raise it, or use target_statistics=False."
        )
    return groups


def _bytes_of_a_row(groups: Sequence[tuple[int, ...]], objective: Objective) -> int:
    """Return the memory of a row beside what each thread needs."""
    n_means = n_means_of(objective)
    return _ROW_BYTES + _CODE_BYTES * len(columns_of(groups)) + _CLASS_BYTES * n_means


def threads_that_fit(
    groups: Sequence[tuple[int, ...]],
    n_rows: int,
    objective: Objective,
    n_threads: int,
    memory_limit: int,
) -> int:
    """Return the number of threads whose arrays fit, at most ``n_threads``, at least one."""
    room = _ROW_SHARE * memory_limit / max(1, n_rows) - _bytes_of_a_row(groups, objective)
    return max(1, min(n_threads, int(room / _THREAD_BYTES)))


@dataclass(frozen=True, slots=True, eq=False)
class EncodedRows:
    """Rows as the trees see them, batch by batch.

    Attributes
    ----------
    inputs : Inputs
        What the trees split.
    schema : Schema
        The user's columns.
    values : float64 (n_values, n_copies * n_rows), or None
        Values of the statistics for the training rows of all ranks, which differ from those of
        new rows; None without statistics, and for rows that are only scored.
    n_copies : int, default=1
        Number of copies of the training rows that are trained on.
    sampled_weight : float64, or None
        Weights of the rows, of all copies, from which the cuts of statistics are chosen.
    """

    inputs: Inputs
    schema: Schema
    n_threads: int
    values: FloatArray | None = None
    n_copies: int = 1
    sampled_weight: FloatArray | None = None

    @staticmethod
    def computed(
        rows: StatisticsRows,
        groups: Sequence[tuple[int, ...]],
        crosses: tuple[Cross, ...],
        objective: Objective,
        params: BoostParams,
        empty: Callable[[tuple[int, int]], FloatArray],
        n_threads: int,
        memory_limit: int,
    ) -> EncodedRows:
        """Compute the statistics of rows; ``empty`` makes the array of their values."""
        n_rows, schema = len(rows.target), rows.schema
        n_copies = copies_of(n_rows, params)
        values = empty((n_values(schema, groups, objective), n_copies * n_rows))
        fitting = threads_that_fit(groups, n_rows, objective, n_threads, memory_limit)
        found = compute(rows, groups, objective, params.seed, n_copies, values, fitting)
        inputs = Inputs(kept_columns(schema, groups), found, crosses)
        weight = share_of_copy(rows.weight, n_rows, n_copies)
        if weight is not None:
            weight = weight[sampled_rows(n_copies * n_rows, params.seed) % n_rows]
        return EncodedRows(inputs, schema, n_threads, values, n_copies, weight)

    def of_training(self, values: AnyArray, rows: slice | IntArray) -> Table:
        """Return training rows from the values of the table.

        ``rows`` are their numbers among those of all copies.
        """
        inputs = self.inputs
        if self.values is None:
            return self._table(inputs.values(values, self.schema, self.n_threads))
        block = np.empty((inputs.n_inputs, len(values)))
        first = inputs.n_inputs - len(inputs.crosses)
        block[len(inputs.kept) : first] = self.values[:, rows]
        inputs.cross(values, self.schema, block[first:, None], self.n_threads)
        return self._table(with_kept(block, values, inputs.kept))

    def bins(self, found: Found, params: BoostParams) -> BinSpec:
        """Choose the bins of the training rows; ``params`` are those of the inputs."""
        inputs, n_threads = self.inputs, self.n_threads
        most, forced = params.max_bins_by_feature or params.max_bins, params.forced_bins
        if isinstance(found.table, SparseTable):  # without statistics, so all columns are kept
            own = replace(found.sample, table=self.of_new(found.table))
            return fit_sample(own, most, n_threads, forced)
        own = found.sample.of_columns(inputs.kept)
        others = Inputs(inputs.kept, (), inputs.crosses)
        own = replace(own, table=self._table_of(found.table.values, others))
        if self.values is None:
            return fit_sample(own, most, n_threads, forced)
        rows = sampled_rows(self.n_copies * found.n_rows, params.seed)
        assert len(self.values) == len(inputs.statistic_columns)
        schema = inputs.schema(self.schema)
        return bins_with_statistics(
            own, self.values[:, rows].T, self.sampled_weight, inputs, schema, params, n_threads
        )

    def of_new(self, table: AnyTable) -> AnyTable:
        """Return rows that no statistics were computed from."""
        if isinstance(table, SparseTable):
            return self.inputs.values(table, self.schema, self.n_threads)
        return self._table_of(table.values, self.inputs)

    def _table_of(self, values: AnyArray, inputs: Inputs) -> Table:
        """Return inputs of which none were computed from these rows."""
        return Table(inputs.values(values, self.schema, self.n_threads), inputs.schema(self.schema))

    def _table(self, values: AnyArray) -> Table:
        return Table(values, self.inputs.schema(self.schema))


def mapped_in(folder: ScratchFolder) -> Callable[[tuple[int, int]], FloatArray]:
    """Return a function that makes an array of statistics in a file of the folder."""

    def empty(shape: tuple[int, int]) -> FloatArray:
        path = folder.path / "statistics"
        with explained("make", path):
            return np.memmap(path, np.float64, "w+", shape=shape).view(np.ndarray)

    return empty


def encode_rows(
    found: Found,
    train: Sample,
    plan: StorePlan,
    batches: Batches,
    others: Communicator,
    memory_limit: int,
    folder: Callable[[], ScratchFolder],
) -> EncodedRows | None:
    """Return the crosses and the statistics of the training rows; None if the fit needs none."""
    schema, objective, params = found.schema, plan.objective, plan.params
    groups = statistics_of(schema, found.n_rows, plan, others.size, memory_limit)
    crosses = crosses_of(params, schema) if plan.start is None else ()
    if not groups:
        inputs = Inputs(kept_columns(schema, groups), (), crosses)
        return EncodedRows(inputs, schema, plan.n_threads) if crosses else None
    assert objective is not None
    rows = read_rows(columns_of(groups), schema, train, batches(), others)
    empty = mapped_in(folder())
    return EncodedRows.computed(
        rows, groups, crosses, objective, params, empty, plan.n_threads, memory_limit
    )


def read_rows(
    used: Sequence[int],
    schema: Schema,
    train: Sample,
    batches: Iterable[tuple[AnyTable, Rows, Rows]],
    others: Communicator,
) -> StatisticsRows:
    """Return what statistics are computed from, of all ranks; ``train`` are the rows of this."""
    codes: dict[int, list[IntArray]] = {j: [np.zeros(0, np.int32)] for j in used}
    for table, rows, _ in batches:
        values = cast(Table, rows.of(table)).values
        for j in used:
            codes[j].append(codes_of(values[:, j], schema.n_levels(j)).astype(np.int32))
    joined = {j: gather_numbers(np.concatenate(parts), others) for j, parts in codes.items()}
    target, weight = train.target, train.weight
    if others.size > 1:
        columns = [gather_numbers(np.ascontiguousarray(y), others) for y in np.atleast_2d(target.T)]
        target = columns[0] if target.ndim == 1 else np.column_stack(columns)
        weight = None if weight is None else gather_numbers(weight, others)
    return StatisticsRows(joined, target, weight, schema)


def encode_on_disk(
    train: Sample,
    table: MappedTable,
    validation: Sample | None,
    groups: Sequence[tuple[int, ...]],
    crosses: tuple[Cross, ...],
    objective: Objective,
    params: BoostParams,
    n_threads: int,
) -> Encoded:
    """Do the work of :func:`hedgerow.boosting.row_data.statistics.encode` for rows in a file.

    ``table`` is that of the training rows.
    """
    schema, n_rows = table.schema, table.n_rows
    encoded = EncodedRows(Inputs(kept_columns(schema, groups), (), crosses), schema, n_threads)
    if groups:
        codes: dict[int, AnyArray] = {j: np.empty(n_rows, np.int32) for j in columns_of(groups)}
        for rows in table.ranges():
            values = table.values[rows]
            for j, found in codes.items():
                found[rows] = codes_of(values[:, j], schema.n_levels(j))
        encoded = EncodedRows.computed(
            StatisticsRows(codes, train.target, train.weight, schema), groups, crosses, objective,
            params, lambda shape: table.empty("statistics", shape), n_threads,
            table.space.memory_limit,
        )  # fmt: skip
    n_copies, names = encoded.n_copies, encoded.inputs.schema(schema)
    blocks = (
        encoded.of_training(table.values[rows], slice(first + rows.start, first + rows.stop)).values
        for first in range(0, n_copies * n_rows, n_rows)
        for rows in table.ranges()
    )
    seen = repeated(train, table.written(blocks, names), n_copies)
    if validation is not None:
        validation = replace(validation, table=_unseen(validation.table, encoded, names))
    return Encoded(seen, validation, encoded.inputs, n_copies)


def _unseen(table: AnyTable, encoded: EncodedRows, names: Schema) -> AnyTable:
    """Return validation rows as trees see them."""
    if isinstance(table, MappedTable):
        inputs = encoded.inputs
        blocks = (inputs.values(table.values[rows], table.schema) for rows in table.ranges())
        return table.written(blocks, names)
    return encoded.of_new(table)
