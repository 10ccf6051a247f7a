"""Target statistics: mean targets of categories as numeric inputs of the trees.

Glossary
--------
statistic  mean target of the training rows with each combination of categories of one
           or two columns, shrunk towards the mean of all rows; for more than two
           classes the fraction of each class; for a column of very many levels also
           the number of rows
joint key  a number for the categories of a row in the columns of a statistic
input      a column that trees split: either a column of the user's table, or a value
           of a statistic

::

    schema   age   city        job                columns of the user's table
              |    Rome 0.31   clerk 0.22
              |    Oslo 0.07   ...                statistics of the model
    inputs   age   0.31        0.22               inputs of the trees

A missing value counts as a category.  A combination that no training row had, for example
with an unknown category, gets the mean of all rows, and 0 as its number of rows.

Training rows do not use these means, because each mean includes the row's own target; see
:mod:`hedgerow.boosting.row_data.statistics`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.data.binning.bins import codes_of
from hedgerow.data.schema import Column, Schema
from hedgerow.kernels.tables.keys import keys_of_floats
from hedgerow.kernels.tables.statistics import look_up
from hedgerow.once import once
from hedgerow.threads import run_blocks

TARGET = -1
"""Pseudo-class: the mean of the target itself."""

ROWS = -2
"""Pseudo-class: the number of rows, weighted relative to the mean weight."""

UNKNOWN_KEY = -1
"""Joint key of a row with an unknown category."""

_ROWS_PER_THREAD = 2_000  # each lookup takes 25 ns or more, for each of several statistics


@dataclass(frozen=True, slots=True, eq=False)
class Statistic:
    """Mean target, or class fractions, by category.

    Attributes
    ----------
    columns : tuple of int
        One or two category columns of the schema, ascending.
    classes : tuple of int
        Class of each row of ``values``, ascending; or ``TARGET`` for the mean target.
        ``ROWS``, for the number of rows, may come first.
    keys : int64, shape (n_keys,)
        Joint keys of the training rows, ascending.
    values : float64, shape (n_classes, n_keys)
        Fraction of each class, or mean target, for each key.
    prior : float64, shape (n_classes,)
        Values of all other keys.

    The constructor makes the arrays read-only.
    """

    columns: tuple[int, ...]
    classes: tuple[int, ...]
    keys: IntArray
    values: FloatArray
    prior: FloatArray

    def __post_init__(self) -> None:
        # Arrays from files are read-only, and kernels are compiled for only one kind.
        for array in (self.keys, self.values, self.prior):
            array.flags.writeable = False

    def with_classes(self, chosen: npt.NDArray[np.bool_]) -> Statistic:
        """Return the statistic of the classes in a mask."""
        kept = np.flatnonzero(chosen)
        return replace(
            self,
            classes=tuple(self.classes[k] for k in kept),
            values=np.ascontiguousarray(self.values[kept]),
            prior=self.prior[kept],
        )


@dataclass(frozen=True, eq=False)
class Inputs:
    """Inputs of the trees of a model: columns of the table, then statistics.

    Attributes
    ----------
    kept : tuple of int
        Columns of the schema that trees split directly, ascending.
    statistics : tuple of Statistic
    """

    kept: tuple[int, ...]
    statistics: tuple[Statistic, ...]

    @once
    def sources(self) -> tuple[tuple[int, ...], ...]:
        """Columns of the schema from which each input is computed."""
        own = [(position,) for position in self.kept]
        return (*own, *(s.columns for s in self.statistics for _ in s.classes))

    @property
    def n_inputs(self) -> int:
        return len(self.sources)

    def schema(self, schema: Schema) -> Schema:
        """Return the schema of the inputs, from the schema of the user's tables."""
        columns = [schema.columns[position] for position in self.kept]
        for statistic in self.statistics:
            label = " x ".join(schema.names[j] for j in statistic.columns)
            columns += [Column(f"{_meaning(chosen)} {label}") for chosen in statistic.classes]
        return replace(schema, columns=tuple(columns))

    def values(self, values: AnyArray, schema: Schema, n_threads: int = 1) -> AnyArray:
        """Compute the inputs of a table.

        Parameters
        ----------
        values : float32, float64 or int64, shape (n_rows, n_features)
            Values of a table read with ``schema``.
        schema : Schema
        n_threads : int, default=1

        Returns
        -------
        float64, or int64 if ``values`` are keys, shape (n_rows, n_inputs)
            In Fortran order.
        """
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
        return with_kept(block, values, self.kept)


def _meaning(chosen: int) -> str:
    names = {ROWS: "rows of", TARGET: "mean target of"}
    return names.get(chosen, f"share of class {chosen} by")


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


def codes_by_column(
    values: AnyArray, schema: Schema, statistics: Sequence[Statistic]
) -> dict[int, IntArray]:
    """Return the codes of each category column that a statistic uses."""
    used = sorted({position for s in statistics for position in s.columns})
    return {j: codes_of(values[:, j], len(schema.columns[j].levels)) for j in used}


def joint_keys(codes: dict[int, IntArray], schema: Schema, columns: tuple[int, ...]) -> IntArray:
    """Return the joint key of each row, or ``UNKNOWN_KEY`` for an unknown category.

    Columns have at most 2**31 levels.
    """
    joint = np.zeros(len(codes[columns[0]]), dtype=np.int64)
    unknown = np.zeros(len(joint), dtype=np.bool_)
    for position in columns:
        n_levels = len(schema.columns[position].levels)
        joint = joint * (n_levels + 2) + codes[position]
        unknown |= codes[position] == n_levels
    joint[unknown] = UNKNOWN_KEY
    return joint
