"""Inputs of the trees: columns of the user's table, and values computed from them.

::

    schema   age   city        height   weight            columns of the user's table
              |    Rome 0.31      |       |
              |    Oslo 0.07      |       |                statistics and crosses of the model
    inputs   age   height   weight   0.31   weight / height      inputs of the trees

A *cross* is the product, difference or ratio of two numeric columns.  A tree follows ``a / b`` or
``a * b`` only in steps, with a split of one column for each region of the other; a single split of
the ratio or the product is exact::

    b |  /               b |    /             - - -   splits of a and b
      | /  a / b = 1       |  _|_
      |/                   |_|                ( a / b <= 1 )   one split of the cross
      +----- a             +------- a

A cross is missing if one of its columns is missing, if a ratio divides by zero, and for
``inf - inf``, ``0 * inf`` and ``inf / inf``.  All numbers are float64, so prediction of a
table and of a single row have the same bits.

*Target statistics* are mean targets of categories.

Glossary
--------
statistic  mean target of the training rows with each combination of categories of one
           or two columns, shrunk towards the mean of all rows; for more than two
           classes the fraction of each class, for several targets the mean of each; for a
           column of very many levels also the number of rows
joint key  a number for the categories of a row in the columns of a statistic

A missing value counts as a category.  A combination that no training row had gets the mean of all
rows, and 0 as its number of rows.

Training rows do not use these means, because each mean includes the row's own target; see
:mod:`hedgerow.boosting.row_data.statistics`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray, BoolArray, FloatArray, IntArray
from hedgerow.data.binning.cut_sample import codes_of
from hedgerow.data.reading.columns import floats_of_column
from hedgerow.data.reading.table import Table
from hedgerow.data.schema import Column, Schema
from hedgerow.data.sparse import AnyTable, SparseTable, numbers_of, with_columns
from hedgerow.kernels.tables.keys import keys_of_floats
from hedgerow.kernels.tables.statistics import look_up
from hedgerow.once import once
from hedgerow.threads import run_blocks

TARGET = -1
"""Pseudo-class: the mean of the target itself."""

ROWS = -2
"""Pseudo-class: the number of rows, weighted relative to the mean weight."""

FIRST_TARGET = -3
"""Pseudo-class: the mean of the first of several targets; that of target ``k`` is ``k`` less."""


@dataclass(frozen=True, slots=True, eq=False)
class Statistic:
    """Mean target, or class fractions, by category.

    The constructor makes the arrays read-only.
    """

    columns: tuple[int, ...]  # one or two category columns of the schema, ascending
    # class of each row of ``values``, ascending; or ``TARGET`` for the mean target; or the
    # pseudo-classes of several targets in their order (``FIRST_TARGET``).  ``ROWS``, for the
    # number of rows, may come first.
    classes: tuple[int, ...]
    keys: IntArray  # int64 (n_keys,); joint keys of the training rows, ascending
    # float64 (n_classes, n_keys); fraction of each class, or mean target, for each key
    values: FloatArray
    prior: FloatArray  # float64 (n_classes,); values of all other keys

    def __post_init__(self) -> None:
        # Arrays from files are read-only, and kernels are compiled for only one kind.
        for array in (self.keys, self.values, self.prior):
            array.flags.writeable = False

    def with_classes(self, chosen: BoolArray) -> Statistic:
        """Return the statistic of the classes in a mask."""
        kept = np.flatnonzero(chosen)
        return replace(
            self,
            classes=tuple(self.classes[k] for k in kept),
            values=np.ascontiguousarray(self.values[kept]),
            prior=self.prior[kept],
        )


def joint_keys(codes: dict[int, IntArray], schema: Schema, columns: tuple[int, ...]) -> IntArray:
    """Return the joint key of each row; columns have at most 2**31 levels."""
    joint = np.zeros(len(codes[columns[0]]), dtype=np.int64)
    for position in columns:
        joint = joint * (len(schema.columns[position].levels) + 2) + codes[position]
    return joint


Operation: TypeAlias = Literal["product", "difference", "ratio"]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)

_SIGNS: dict[Operation, str] = {"product": "*", "difference": "-", "ratio": "/"}
_UFUNCS = {"product": np.multiply, "difference": np.subtract, "ratio": np.divide}


class Cross(NamedTuple):
    """A product, difference or ratio of two numeric columns."""

    first: int  # first, second: positions in the schema
    second: int
    operation: Operation

    @property
    def columns(self) -> tuple[int, int]:
        """Both columns, ascending."""
        return min(self.first, self.second), max(self.first, self.second)

    def label(self, schema: Schema) -> str:
        """Return the name of the input, for example ``"weight / height"``."""
        first, second = schema.names[self.first], schema.names[self.second]
        return f"{first} {_SIGNS[self.operation]} {second}"

    def compute(self, values: AnyArray, schema: Schema, out: FloatArray) -> None:
        """Write the cross of each row of a table into ``out``."""
        a, b = (
            floats_of_column(values[:, j], schema.kinds[j]).astype(np.float64, copy=False)
            for j in (self.first, self.second)
        )
        with np.errstate(all="ignore"):
            _UFUNCS[self.operation](a, b, out=out)
        if self.operation == "ratio":
            out[b == 0.0] = np.nan

    def of_row(self, values: Any) -> float:
        """Return the cross of a single row of Python numbers."""
        a, b = (_number(values[j]) for j in (self.first, self.second))
        if self.operation == "product":
            return a * b
        if self.operation == "difference":
            return a - b
        return a / b if b != 0.0 else math.nan


def brief_value(name: str, value: Any) -> str:
    """Return the text of a parameter's value; more than three crosses as their number."""
    is_long = name == "feature_crosses" and isinstance(value, list | tuple) and len(value) > 3
    return f"{len(value)} crosses" if is_long else str(value)


def _number(value: Any) -> float:
    """Return a number of a single row as float."""
    # Integers may be missing keys. Text is an error, which the reader of tables reports.
    if type(value) is str or (type(value) is int and value == MISSING_KEY):
        return math.nan
    return float(value)


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
            for chosen in statistic.classes:
                words = {ROWS: "rows of", TARGET: "mean target of"}.get(chosen)
                if chosen <= FIRST_TARGET:
                    words = f"mean target {FIRST_TARGET - chosen} of"
                columns.append(Column(f"{words or f'share of class {chosen} by'} {label}"))
        columns += [Column(cross.label(schema)) for cross in self.crosses]
        return replace(schema, columns=tuple(columns))

    def values(
        self,
        values: AnyArray,
        schema: Schema,
        n_threads: int = 1,
        ordered: FloatArray | None = None,
    ) -> AnyArray:
        """Compute the inputs of a table, or of training rows with these values of statistics."""
        # ``ordered`` is float64 (n_values, n_copies * n_rows): the result has as many rows.
        n_copies = 1 if ordered is None else ordered.shape[1] // len(values)
        block = np.empty((self.n_inputs, n_copies * len(values)))
        begin, first = len(self.kept), self.n_inputs - len(self.crosses)
        copies = block[first:].reshape(len(self.crosses), n_copies, len(values))
        self.cross(values, schema, copies, n_threads)
        if ordered is not None:
            block[begin:first] = ordered
            return _with_kept(block, values, self.kept)
        used = sorted({position for s in self.statistics for position in s.columns})
        codes = {j: codes_of(values[:, j], schema.n_levels(j)) for j in used}
        joint = [joint_keys(codes, schema, s.columns) for s in self.statistics]

        def task(start: int, stop: int) -> None:
            row = begin
            for keys, s in zip(joint, self.statistics, strict=True):
                out = block[row : row + len(s.classes)]
                look_up(keys, s.keys, s.values, s.prior, out, start, stop)
                row += len(s.classes)

        run_blocks(task, len(values), n_threads, _ROWS_PER_THREAD)
        return _with_kept(block, values, self.kept)

    def of_table(
        self, table: AnyTable, n_threads: int = 1, ordered: FloatArray | None = None
    ) -> AnyTable:
        """Return the table of the inputs, of the same kind."""
        if isinstance(table, SparseTable):
            return self._of_sparse(table, n_threads)
        values = self.values(table.values, table.schema, n_threads, ordered)
        return Table(values, self.schema(table.schema))

    def _of_sparse(self, table: SparseTable, n_threads: int) -> SparseTable:
        """Append the crosses to a sparse table, which has no categories and so no statistics."""
        schema = table.schema
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


def numbers_for_trees(
    table: AnyTable, inputs: Inputs | None, n_threads: int = 1
) -> AnyArray | SparseTable:
    """Return the inputs of the trees, or the columns of the table if these are the inputs."""
    return numbers_of(table if inputs is None else inputs.of_table(table, n_threads))


def _with_kept(block: FloatArray, values: AnyArray, kept: Sequence[int]) -> AnyArray:
    """Complete a block of inputs, whose first rows are for the columns ``kept``."""
    # If ``block`` has a multiple of the rows of ``values`` as columns, the kept columns are
    # repeated.
    inputs: AnyArray = block
    if values.dtype == np.int64:
        inputs = np.empty(block.shape, dtype=np.int64)
        inputs[len(kept) :] = keys_of_floats(block[len(kept) :])
    for row, position in enumerate(kept):
        inputs[row].reshape(-1, len(values))[:] = values[:, position]
    return inputs.T
