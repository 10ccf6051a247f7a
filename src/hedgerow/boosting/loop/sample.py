"""Samples: tables with targets and the values of their rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.boosting.row_data.row_values import RowValues
from hedgerow.data import AnyTable, SparseTable, Table, UnknownPolicy, drop_unused_levels, recode
from hedgerow.errors import DataError, HedgerowError


@dataclass(frozen=True, slots=True, eq=False)
class RowSets:
    """Sets of rows that are scored separately (:mod:`hedgerow.boosting.validation.row_sets`).

    codes   int64 (n_rows,): index of each row's set, ascending
    starts  index in the input of the first row of each set
    """

    codes: IntArray
    names: tuple[str, ...]
    starts: tuple[int, ...] = (0,)

    def take(self, rows: IntArray) -> RowSets:
        """Return the sets of some of the rows."""
        return replace(self, codes=self.codes[rows])


@contextmanager
def counted_rows(are_weighted: bool) -> Iterator[None]:
    """Let errors about a row of files say that only rows with a weight above 0 are counted."""
    try:
        yield
    except DataError as error:
        if are_weighted:
            error.name_row(lambda row: f"row {row} of those with a weight above 0")
        raise


@dataclass(frozen=True, slots=True, eq=False)
class Sample(RowValues):
    """A table with target and the values of its rows.

    target  float64, shape (n_rows,): class indices for classification
    origin  int64, shape (n_rows,): index of each row in the input table; None: all rows, in order
    sets    for validation rows: the sets that are scored separately
    """

    table: AnyTable
    target: FloatArray
    _: KW_ONLY
    origin: IntArray | None = None
    sets: RowSets | None = None

    @staticmethod
    def of(
        table: AnyTable,
        target: FloatArray,
        values: RowValues,
        origin: IntArray | None = None,
        sets: RowSets | None = None,
    ) -> Sample:
        """Combine a table and its target with the values of its rows."""
        return Sample(table, target, origin=origin, sets=sets, **values.present)

    def with_values(self, values: RowValues) -> Sample:
        """Return the rows with these values in place of their own; others stay."""
        return replace(self, **values.present)

    @property
    def n_rows(self) -> int:
        return self.table.n_rows

    def take(self, rows: IntArray) -> Sample:
        """Return some of the rows, in the given order."""
        return Sample.of(
            self.table.take(rows),
            self.target[rows],
            RowValues.take(self, rows),
            rows if self.origin is None else self.origin[rows],
            None if self.sets is None else self.sets.take(rows),
        )

    def name_of(self, row: int) -> str:
        """Return the user's name of a row, such as ``row 3`` or ``validation row 3``."""
        place = row
        if self.origin is not None:
            place = row % len(self.origin)  # rows of target statistics are copies
            row = int(self.origin[place])
        if self.sets is None:
            return f"row {row}"
        code = int(self.sets.codes[place])
        row, name = row - self.sets.starts[code], self.sets.names[code]
        return f"validation row {row}" + ("" if name == "validation" else f" of {name!r}")

    @contextmanager
    def naming_rows(self) -> Iterator[None]:
        """Let errors about a row tell its name."""
        try:
            yield
        except HedgerowError as error:
            error.name_row(self.name_of)
            raise

    def without_zero_weights(self) -> Sample:
        """Drop rows of weight 0, so that they have no influence at all."""
        if self.weight is None:
            return self
        kept = self.weight > 0.0
        sample = self if kept.all() else self.take(np.flatnonzero(kept))
        return sample.without_equal_weights()

    def without_equal_weights(self) -> Sample:
        """Return the rows without weights that are all 1."""
        ones = self.weight is not None and bool((self.weight == 1.0).all())
        return replace(self, weight=None) if ones else self


def counted(values: FloatArray, weight: FloatArray | None) -> FloatArray:
    """Return the values of the rows of positive weight."""
    return values if weight is None else values[weight > 0.0]


def with_own_levels(
    train: Sample, validation: Sample | None, *, lenient: bool = False
) -> tuple[Sample, Sample | None]:
    """Keep only the category levels of the training rows: the model knows no others."""
    if isinstance(train.table, SparseTable) or not train.table.schema.has_categories:
        return train, validation
    table = drop_unused_levels(train.table, weight=train.weight)
    if table.schema is not train.table.schema and validation is not None:
        assert isinstance(validation.table, Table)  # sparse data hold no categories
        policy: UnknownPolicy = table.schema.unknown
        policy = "missing" if lenient and policy == "error" else policy
        validation = replace(validation, table=recode(validation.table, table.schema, policy))
    return replace(train, table=table), validation
