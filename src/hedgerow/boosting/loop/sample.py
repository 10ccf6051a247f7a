"""Samples: tables with targets and the values of their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from typing import cast

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.boosting.external.file_table import FileTable
from hedgerow.boosting.row_data.row_values import RowValues
from hedgerow.data import (
    AnyTable,
    Schema,
    SparseTable,
    Table,
    UnknownPolicy,
    drop_unused_levels,
    recode,
)
from hedgerow.data.schema import with_more_levels
from hedgerow.errors import HedgerowError

ONLY = "validation"
"""Name of validation rows without a name."""


@dataclass(frozen=True, slots=True, eq=False)
class Sample(RowValues):
    """A table with target and the values of its rows.

    target    float64, shape (n_rows,): class indices for classification
    origin    int64, shape (n_rows,): index of each row in the input table; None: all rows, in order
    set_name  name of validation rows; None: training rows
    """

    table: AnyTable
    target: FloatArray
    _: KW_ONLY
    origin: IntArray | None = None
    set_name: str | None = None

    @property
    def n_rows(self) -> int:
        return self.table.n_rows

    def take(self, rows: IntArray) -> Sample:
        """Return some of the rows, in the given order."""
        return replace(
            self,
            table=self.table.take(rows),
            target=self.target[rows],
            origin=rows if self.origin is None else self.origin[rows],
            **RowValues.take(self, rows).present,
        )

    def name_of(self, row: int) -> str:
        """Return the user's name of a row, such as ``row 3`` or ``validation row 3``."""
        kind = "row" if self.set_name is None else "validation row"
        if isinstance(self.table, FileTable):
            of = " of those with a weight above 0" if self.table.data.is_weighted else ""
            return f"{kind} {row}{of}"
        if self.origin is not None:
            row = int(self.origin[row % len(self.origin)])  # rows of target statistics are copies
        return f"{kind} {row}" + ("" if self.set_name in (None, ONLY) else f" of {self.set_name!r}")

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
        # Rows of files were dropped as they were read; equal weights may differ on other ranks.
        if self.weight is None or isinstance(self.table, FileTable):
            return self
        kept = self.weight > 0.0
        sample = self if kept.all() else self.take(np.flatnonzero(kept))
        return sample.without_equal_weights()

    def without_equal_weights(self) -> Sample:
        """Return the rows without weights that are all 1."""
        ones = self.weight is not None and bool((self.weight == 1.0).all())
        return replace(self, weight=None) if ones else self


def with_own_levels(
    train: Sample,
    validation: Sequence[Sample] = (),
    *,
    known: Schema | None = None,
    lenient: bool = False,
) -> tuple[Sample, tuple[Sample, ...]]:
    """Keep only the category levels of the training rows, and those ``known`` to a model."""
    table = train.table
    # Tables of files have no other levels.
    if isinstance(table, SparseTable | FileTable) or not table.schema.has_categories:
        return train, tuple(validation)
    own = drop_unused_levels(table, weight=train.weight)
    if known is not None:
        more = {column.name: column.levels for column in own.schema.columns}
        own = recode(table, with_more_levels(known, more), "missing")
    if own.schema is not table.schema:
        policy: UnknownPolicy = own.schema.unknown
        policy = "missing" if lenient and policy == "error" else policy
        validation = [
            replace(rows, table=recode(cast(Table, rows.table), own.schema, policy))
            for rows in validation
        ]
    return replace(train, table=own), tuple(validation)
