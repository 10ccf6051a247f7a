"""Pass two: convert batches to tables.

A batch is read with the schema from pass one, so a row gets the same bins as in memory,
whichever batch contains it.
"""

from __future__ import annotations

from dataclasses import replace

from hedgerow.data.reading.columns import floats_of_column
from hedgerow.data.reading.table import Table, with_schema
from hedgerow.data.schema import Schema
from hedgerow.data.sources.base import Batch
from hedgerow.data.sparse import AnyTable, mark_zeros, read_any
from hedgerow.errors import HedgerowError


class BatchReader:
    """Reader that converts batches to tables.

    Parameters
    ----------
    schema : Schema
        Schema from pass one.
    names : tuple of str
        Names of the columns of batches, in the order of the schema.
    is_strict : bool, default=False
        Raise for unknown categories if the schema says so.  Validation rows are not read
        strictly: their unknown categories are no mistake of the user.
    """

    def __init__(
        self, schema: Schema, names: tuple[str, ...], types_known: bool, is_strict: bool = False
    ) -> None:
        lenient = schema.unknown == "error" and not is_strict
        self.schema = replace(schema, unknown="missing") if lenient else schema
        self._names, self._types_known = names, types_known

    def table(self, batch: Batch, where: str) -> AnyTable:
        """Return all rows of a batch as numbers."""
        try:
            if batch.sparse is not None:
                entries = batch.sparse
                entries.resize((entries.shape[0], self.schema.n_features))
                return read_any(entries, self.schema)
            columns = []
            for name, column in zip(self._names, self.schema.columns, strict=True):
                part = batch.columns[name]
                as_floats = self._types_known and column.kind == "float" and part.codes is None
                if as_floats and part.temporal is None:
                    part = replace(part, values=floats_of_column(part.plain(""), "int"))
                columns.append(part)
            table = with_schema(columns, self.schema, typed=batch.named)
        except HedgerowError as error:
            raise type(error)(f"{where}: {error}") from error
        marked = mark_zeros(table, self.schema.zero_missing)
        return Table(marked.values, self.schema, table.unseen)
