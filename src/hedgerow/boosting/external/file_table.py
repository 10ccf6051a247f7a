"""Rows of files as a table whose columns come in batches.

A :class:`hedgerow.boosting.external.file_dataset.FileDataset` has the targets, weights and so on of
all rows in memory; a :class:`FileTable` is some of its rows: names and kinds of their columns, but
no values.  A :class:`hedgerow.boosting.loop.sample.Sample` holds such a table like any other.
Where columns are needed, and only there, one pass over the files reads them for several tables
(:func:`read_together`): codes of target statistics, bins, or values to sort.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.data import AnyTable, Schema, Table
from hedgerow.data.binning.cut_sample import CutSample
from hedgerow.data.inputs import Inputs

if TYPE_CHECKING:
    from hedgerow.boosting.external.file_dataset import FileDataset


@dataclass(frozen=True, slots=True, eq=False)
class FileTable(Table):
    """Rows of files; ``values`` has their number, but no columns.

    room      memory in bytes for their bins
    numbers   ascending numbers of these rows among those of positive weight; None: all of them
    inputs    the inputs of trees in place of the columns; ``schema`` is then theirs
    columns   schema of the user's columns if there are inputs
    ordered   float64 (n_values, n_rows): values of the statistics if these are the training rows,
              which have others than new rows
    """

    data: FileDataset = field(kw_only=True)
    room: int = field(kw_only=True)
    numbers: IntArray | None = field(default=None, kw_only=True)
    inputs: Inputs | None = field(default=None, kw_only=True)
    columns: Schema | None = field(default=None, kw_only=True)
    ordered: FloatArray | None = field(default=None, kw_only=True)

    @property
    def n_features(self) -> int:
        return self.schema.n_features

    def take(self, rows: AnyArray) -> FileTable:
        """Select rows by position; only ascending ones can be read."""
        numbers: IntArray = np.asarray(rows if self.numbers is None else self.numbers[rows])
        return replace(self, values=np.empty((len(numbers), 0)), numbers=numbers)

    def blocks(self) -> Iterator[Table]:
        """Read these rows; yield those of each batch that has some."""
        for (part,) in read_together([self]):
            if part.n_rows > 0:
                yield part

    def cuts_of(self, columns: Sequence[int]) -> CutSample:
        """Return rows from which cuts of columns, or of all inputs but statistics, are chosen."""
        sample, inputs = self.data.cuts, self.inputs
        assert sample is not None
        if inputs is None:
            return sample.of_columns(columns)
        table = replace(inputs, statistics=()).of_table(sample.table)
        return replace(sample.of_columns(inputs.kept), table=table)


def blocks_of(table: AnyTable) -> Iterable[AnyTable]:
    """Return the rows of a table in the blocks in which they are read; in memory they are one."""
    return table.blocks() if isinstance(table, FileTable) else (table,)


def read_together(tables: Sequence[FileTable]) -> Iterator[list[Table]]:
    """Yield the rows of each table in each batch; the tables are rows of one dataset."""
    first, start = tables[0], 0
    for batch, kept in first.data.tables(first.columns or first.schema):
        stop = start + (batch.n_rows if kept is None else len(kept))
        parts = []
        for table in tables:
            rows, own = kept, slice(start, stop)
            if table.numbers is not None:
                own = slice(*np.searchsorted(table.numbers, (start, stop)))
                rows = table.numbers[own] - start
                rows = rows if kept is None else kept[rows]
            part = batch if rows is None or len(rows) == batch.n_rows else batch.take(rows)
            if table.inputs is not None and part.n_rows > 0:
                ordered = None if table.ordered is None else table.ordered[:, own]
                part = cast(Table, table.inputs.of_table(part, ordered=ordered))
            parts.append(part)
        yield parts
        start = stop


def by_dataset(tables: Iterable[AnyTable]) -> list[list[FileTable]]:
    """Return the tables of files, those of one dataset together: they are read together."""
    found: dict[int, list[FileTable]] = {}
    for table in tables:
        if isinstance(table, FileTable):
            found.setdefault(id(table.data), []).append(table)
    return list(found.values())
