"""Inputs of the trees: columns of the user's table, and values computed from them.

::

    schema   age   city        height   weight            columns of the user's table
              |    Rome 0.31      |       |
              |    Oslo 0.07      |       |                statistics and crosses of the model
    inputs   age   height   weight   0.31   weight / height      inputs of the trees
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.data.categories.statistics import Statistic, codes_by_column, joint_keys, meaning_of
from hedgerow.data.crosses import Cross
from hedgerow.data.reading.table import Table
from hedgerow.data.schema import Column, Schema
from hedgerow.data.sparse import AnyTable, SparseTable, with_columns
from hedgerow.kernels.tables.keys import keys_of_floats
from hedgerow.kernels.tables.statistics import look_up
from hedgerow.once import once
from hedgerow.threads import run_blocks

_ROWS_PER_THREAD = 2_000  # each lookup takes 25 ns or more, for each of several statistics


@dataclass(frozen=True, eq=False)
class Inputs:
    """Inputs of the trees of a model: columns of the table, then statistics, then crosses."""

    kept: tuple[int, ...]  # columns of the schema that trees split directly, ascending
    statistics: tuple[Statistic, ...]
    crosses: tuple[Cross, ...] = ()

    @once
    def sources(self) -> tuple[tuple[int, ...], ...]:
        """Columns of the schema from which each input is computed."""
        own = [(position,) for position in self.kept]
        means = [s.columns for s in self.statistics for _ in s.classes]
        return (*own, *means, *(cross.columns for cross in self.crosses))

    @property
    def n_inputs(self) -> int:
        return len(self.sources)

    @property
    def statistic_columns(self) -> range:
        """Positions of the statistics among the inputs."""
        first = len(self.kept)
        return range(first, self.n_inputs - len(self.crosses))

    def are_columns(self, n_columns: int) -> bool:
        """Return whether all inputs but the crosses are the columns of the table, in order."""
        return not self.statistics and self.kept == tuple(range(n_columns))

    def schema(self, schema: Schema) -> Schema:
        """Return the schema of the inputs, from the schema of the user's tables."""
        columns = [schema.columns[position] for position in self.kept]
        for statistic in self.statistics:
            label = " x ".join(schema.names[j] for j in statistic.columns)
            columns += [Column(f"{meaning_of(chosen)} {label}") for chosen in statistic.classes]
        columns += [Column(cross.label(schema)) for cross in self.crosses]
        return replace(schema, columns=tuple(columns))

    @overload
    def values(self, values: AnyArray, schema: Schema, n_threads: int = 1) -> AnyArray: ...

    @overload
    def values(self, values: SparseTable, schema: Schema, n_threads: int = 1) -> SparseTable: ...

    def values(
        self, values: AnyArray | SparseTable, schema: Schema, n_threads: int = 1
    ) -> AnyArray | SparseTable:
        """Compute the inputs of a table."""
        if isinstance(values, SparseTable):
            return self._of_sparse(values, schema, n_threads)
        block = np.empty((self.n_inputs, len(values)))
        codes = codes_by_column(values, schema, self.statistics)
        joint = [joint_keys(codes, schema, s.columns) for s in self.statistics]
        begin = len(self.kept)

        def task(start: int, stop: int) -> None:
            row = begin
            for keys, s in zip(joint, self.statistics, strict=True):
                out = block[row : row + len(s.classes)]
                look_up(keys, s.keys, s.values, s.prior, out, start, stop)
                row += len(s.classes)

        run_blocks(task, len(values), n_threads, _ROWS_PER_THREAD)
        first = self.n_inputs - len(self.crosses)
        self.cross(values, schema, block[first:, None], n_threads)
        return with_kept(block, values, self.kept)

    def of_table(self, table: AnyTable, n_threads: int = 1) -> AnyTable:
        """Return the table of the inputs, of the same kind."""
        if isinstance(table, SparseTable):
            return self.values(table, table.schema, n_threads)
        values = self.values(table.values, table.schema, n_threads)
        return Table(values, self.schema(table.schema))

    def _of_sparse(self, table: SparseTable, schema: Schema, n_threads: int) -> SparseTable:
        """Append the crosses to a sparse table, which has no categories and so no statistics."""
        used = sorted({j for cross in self.crosses for j in cross.columns})
        of_used = replace(schema, columns=tuple(schema.columns[j] for j in used))
        crosses = tuple(
            Cross(used.index(first), used.index(second), operation)
            for first, second, operation in self.crosses
        )
        block = np.empty((len(crosses), 1, table.n_rows))
        Inputs((), (), crosses).cross(table.dense(np.array(used)), of_used, block, n_threads)
        columns: AnyArray = block[:, 0].T
        if table.value.dtype == np.int64:
            columns = keys_of_floats(columns)
        return with_columns(table, columns, self.schema(schema))

    def cross(self, values: AnyArray, schema: Schema, out: FloatArray, n_threads: int = 1) -> None:
        """Write the crosses of a table into ``out``, shape (n_crosses, n_copies, n_rows)."""

        def task(start: int, stop: int) -> None:
            for cross, copies in zip(self.crosses, out, strict=True):
                cross.compute(values[start:stop], schema, copies[0, start:stop])
                copies[1:, start:stop] = copies[0, start:stop]

        run_blocks(task, len(values), n_threads, _ROWS_PER_THREAD)


def with_kept(block: FloatArray, values: AnyArray, kept: Sequence[int]) -> AnyArray:
    """Complete a block of inputs, whose first rows are for the columns ``kept``.

    If ``block`` has a multiple of the rows of ``values`` as columns, the kept columns are
    repeated.
    """
    inputs: AnyArray = block
    if values.dtype == np.int64:
        inputs = np.empty(block.shape, dtype=np.int64)
        inputs[len(kept) :] = keys_of_floats(block[len(kept) :])
    for row, position in enumerate(kept):
        inputs[row].reshape(-1, len(values))[:] = values[:, position]
    return inputs.T
