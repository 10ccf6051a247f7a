"""Means of the target by category as columns that trees split like any other.

Glossary
--------
statistic  for each combination of categories of one column, or of two, the mean
           target of the training rows that have it, drawn towards the mean of
           all; for more than two classes the share of each class; of a column
           of very many levels also how many rows have it
joint key  one number for the categories of a row in the columns of a statistic
input      a column that trees split: a column of the user's table that was kept,
           or values of a statistic

::

    schema   age   city        job                what the user gives
              |    Rome 0.31   clerk 0.22
              |    Oslo 0.07   ...                statistics of the model
    inputs   age   0.31        0.22               what the trees split

A missing value is a category like any other.  A combination that no training
row had, and so one with a value that is no level, has the mean of all rows, and 0
rows.

Training rows do not get these means, as each would hold the row's own target;
see :mod:`hedgerow.boosting.row_data.statistics`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.data.bins import codes_of
from hedgerow.data.schema import Column, Schema
from hedgerow.kernels.keys import keys_of_floats
from hedgerow.kernels.statistics import look_up
from hedgerow.once import once
from hedgerow.threads import run_blocks

TARGET = -1
"""In place of a class: the mean of the target itself."""

ROWS = -2
"""In place of a class: how many rows there are, in units of the mean weight of all rows."""

UNKNOWN_KEY = -1
"""Joint key of a row with a value that is no level."""

_ROWS_PER_THREAD = 2_000  # a search of 25 ns and more for each of several statistics


@dataclass(frozen=True, slots=True, eq=False)
class Statistic:
    """Mean of the target, or shares of classes, by category.

    Attributes
    ----------
    columns : tuple of int
        One or two category columns of the schema, ascending.
    classes : tuple of int
        Class whose share each row of ``values`` is, ascending; ``TARGET`` for the
        mean of the target, and before either ``ROWS`` for the number of rows.
    keys : int64, shape (n_keys,)
        Joint keys of the training rows, ascending.
    values : float64, shape (n_classes, n_keys)
    prior : float64, shape (n_classes,)
        Value of all other keys.

    The arrays are made read-only.
    """

    columns: tuple[int, ...]
    classes: tuple[int, ...]
    keys: IntArray
    values: FloatArray
    prior: FloatArray

    def __post_init__(self) -> None:
        # Those of a file are read-only: with one kind of array kernels are compiled once.
        for array in (self.keys, self.values, self.prior):
            array.flags.writeable = False

    def with_classes(self, chosen: npt.NDArray[np.bool_]) -> Statistic:
        """Some of the classes only."""
        kept = np.flatnonzero(chosen)
        return replace(
            self,
            classes=tuple(self.classes[k] for k in kept),
            values=np.ascontiguousarray(self.values[kept]),
            prior=self.prior[kept],
        )


@dataclass(frozen=True, eq=False)
class Inputs:
    """What the trees of a model split: columns that were kept, then statistics.

    Attributes
    ----------
    kept : tuple of int
        Columns of the schema, ascending.
    statistics : tuple of Statistic
    """

    kept: tuple[int, ...]
    statistics: tuple[Statistic, ...]

    @once
    def sources(self) -> tuple[tuple[int, ...], ...]:
        """Columns of the schema that each input is made of."""
        own = [(position,) for position in self.kept]
        return (*own, *(s.columns for s in self.statistics for _ in s.classes))

    @property
    def n_inputs(self) -> int:
        return len(self.sources)

    def schema(self, schema: Schema) -> Schema:
        """Names and kinds of the inputs; ``schema`` is that of the user's tables."""
        columns = [schema.columns[position] for position in self.kept]
        for statistic in self.statistics:
            label = " x ".join(schema.names[j] for j in statistic.columns)
            columns += [Column(f"{_meaning(chosen)} {label}") for chosen in statistic.classes]
        return replace(schema, columns=tuple(columns))

    def values(self, values: AnyArray, schema: Schema, n_threads: int = 1) -> AnyArray:
        """The inputs of some rows.

        Parameters
        ----------
        values : float32, float64 or int64, shape (n_rows, n_features)
            Of a table read with ``schema``.
        schema : Schema
        n_threads : int, default=1

        Returns
        -------
        float64, or int64 where ``values`` are keys, shape (n_rows, n_inputs)
            Column after column in memory.
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
    """A table of inputs whose statistics are rows of ``block``, below those for ``kept``.

    Where ``block`` has several times as many columns as ``values`` has rows, the
    kept columns are repeated.
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
    """Codes of each category column that a statistic needs."""
    used = sorted({position for s in statistics for position in s.columns})
    return {j: codes_of(values[:, j], len(schema.columns[j].levels)) for j in used}


def joint_keys(codes: dict[int, IntArray], schema: Schema, columns: tuple[int, ...]) -> IntArray:
    """One number for the categories of each row in ``columns``.

    ``UNKNOWN_KEY`` where a value is no level.  Columns have at most 2**31 levels.
    """
    joint = np.zeros(len(codes[columns[0]]), dtype=np.int64)
    unknown = np.zeros(len(joint), dtype=np.bool_)
    for position in columns:
        n_levels = len(schema.columns[position].levels)
        joint = joint * (n_levels + 2) + codes[position]
        unknown |= codes[position] == n_levels
    joint[unknown] = UNKNOWN_KEY
    return joint
