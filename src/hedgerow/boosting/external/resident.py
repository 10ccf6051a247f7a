"""Rows in files that are read into memory, for options that need all rows at once.

Growth in chunks (:mod:`hedgerow.boosting.external.fit_files`) supports most parameters.  The
others need all rows for each tree, or each row many times.  For these, rows are read as one
table, with the schema that chunks have, and training uses this table.  So every parameter works
for files; if the rows exceed the limit, an error names the option that needs them and their
size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.boosting.external.file_dataset import FileDataset
from hedgerow.boosting.external.file_table import FileTable
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.boosting.row_data.row_values import FURTHER
from hedgerow.boosting.validation.row_sets import stack_tables
from hedgerow.data.external.memory import shown_bytes
from hedgerow.data.schema import Schema, with_more_levels
from hedgerow.data.sparse import AnyTable, SparseTable
from hedgerow.errors import AllRowsNeededError, DataError, ParameterError
from hedgerow.params import BoostParams

_BYTES_OF_A_CELL = 12
"""Bytes of a value: eight for a number, and its bins in two layouts with space to sort."""


class ResidentRows(Dataset):
    """Rows of files as a table in memory.

    params     only ``zero_as_missing`` and ``seed`` are used
    why        text on what needs all rows, for the message if they are too large
    objective  as for :func:`hedgerow.train`; losses of survival read two columns of times
    """

    def __init__(
        self,
        data: FileDataset,
        params: BoostParams,
        why: str,
        objective: object = None,
    ) -> None:
        requested = data.requested
        super().__init__(
            None,
            categorical_features=requested.categorical,
            unknown_category=requested.unknown,
        )
        self._data, self._why = data, why
        data.read_times(objective, as_given=True)
        # Only the table is made here: it is divided and binned later, so trees do not matter.
        self._params = BoostParams(zero_as_missing=params.zero_as_missing, seed=params.seed)
        self._own: AnyTable | None = None

    @property
    def offset_names(self) -> tuple[str, ...]:
        """Columns that hold the offset."""
        return self._data.offset_names

    def table(
        self,
        schema: Schema | None = None,
        zero_missing: bool = False,
        *,
        more_levels: bool = False,
        reader: str = "Booster",
    ) -> AnyTable:
        """Read all rows; see :meth:`hedgerow.Dataset.table`."""
        if schema is None:
            if self._own is None:
                self._check_size()
                self._own = self._read(self._data.pass_one(self._params).schema)
            return self._own
        self._check_size()
        if more_levels and schema.unknown != "error" and schema.has_categories:
            own = self.table().schema
            levels = {
                column.name: own.columns[own.names.index(column.name)].levels
                for column in schema.columns
                if column.kind == "category"
            }
            schema = with_more_levels(schema, levels)
        self._data.read_like(schema)
        return self._read(schema)

    def _check_size(self) -> None:
        self._data.survey(self._params, sets_aside=False)
        n_rows, n_features = self._data.rows.n_rows, len(self._data.feature_names)
        size = n_rows * n_features * _BYTES_OF_A_CELL  # sparse rows are counted during reading
        if size > self._data.memory_limit:
            raise self._too_large(f"{n_rows:,} rows of {n_features} columns", size)

    def _too_large(self, what: str, size: int) -> ParameterError:
        limit = shown_bytes(self._data.memory_limit)
        return ParameterError(
            f"{self._why} Read into memory, {what} take about {shown_bytes(size)}, and "
            f"memory_limit is {limit}: raise it, or leave that parameter out."
        )

    def _read(self, schema: Schema) -> AnyTable:
        """Read all rows with a schema; also keep their targets, weights and offsets."""
        known, parts, used = self._data.rows, list[AnyTable](), 0
        for part in cast(FileTable, replace(known.table, schema=schema)).blocks():
            parts.append(part)
            used += _bytes_of(part)
            if used > self._data.memory_limit:
                raise self._too_large("the first rows alone", used)
        if not parts:
            raise DataError("the data have no rows.")
        self.y, self.weight = self._data.given_targets, known.weight
        if known.offset is not None:
            self.offset = np.ascontiguousarray(known.offset.T)
        return stack_tables(parts)

    def sample(
        self,
        table: AnyTable,
        target: FloatArray,
        n_outputs: int,
        called: Callable[[str], str] = str,
    ) -> Sample:
        """Combine table and target with the values of the rows."""
        found, known = super().sample(table, target, n_outputs, called), self._data.rows
        return replace(found, **{value.field: getattr(known, value.field) for value in FURTHER})


def in_memory(
    rows: Any, params: BoostParams, reason: AllRowsNeededError, objective: object = None
) -> Dataset:
    """Return rows of files as a Dataset in memory; leave other Datasets unchanged.

    ``objective`` is that of :class:`ResidentRows`.
    """
    if isinstance(rows, FileDataset):
        if rows.communicator.size > 1:
            raise reason
        return ResidentRows(rows, params, str(reason), objective)
    if isinstance(rows, Dataset):
        return rows
    raise reason


def _bytes_of(table: AnyTable) -> int:
    if isinstance(table, SparseTable):
        return int(table.value.nbytes + table.column.nbytes + table.row_start.nbytes)
    return int(table.values.nbytes)
