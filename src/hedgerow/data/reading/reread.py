"""Convert a validated table to the schema of another one.

::

    Table         values: floats, keys or codes of categories
      |  column_of         floats, integers, or levels and the code of each row
      |  with_schema       order, kinds and levels of the other schema
      v
    Table
"""

from __future__ import annotations

import numpy as np

from hedgerow.data.categories.columns import Encoded, PlainOrEncoded
from hedgerow.data.categories.recode import codes_in
from hedgerow.data.reading.numbers import floats_of_column
from hedgerow.data.reading.table import Table, check_n_features, with_schema
from hedgerow.data.reading.temporal import with_temporal
from hedgerow.data.schema import Schema, check_same_names, with_more_levels
from hedgerow.data.sparse import mark_zeros


def read_again(table: Table, schema: Schema, *, more_levels: bool = False) -> Table:
    """Convert a table as if :func:`hedgerow.data.read_any` had read it with ``schema``."""
    own = table.schema
    check_n_features(table.n_features, schema, "Booster")
    order = list(range(table.n_features))
    if schema.named and own.named:
        check_same_names(own.names, schema.names)
        order = [own.names.index(name) for name in schema.names]
    columns = [column_of(table, j) for j in order]
    if more_levels and schema.has_categories and schema.unknown != "error":
        found = {
            name: own.columns[j].levels
            for j, name, kind in zip(order, schema.names, schema.kinds, strict=True)
            if kind == "category"
        }
        schema = with_more_levels(schema, found)
    return mark_zeros(with_schema(columns, schema, typed=own.named), schema.zero_missing)


def column_of(table: Table, j: int) -> PlainOrEncoded:
    """Return column ``j`` as plain numbers, as dates and the like, or as an encoded column."""
    values, column = table.values[:, j], table.schema.columns[j]
    if column.kind == "int":
        return with_temporal(np.asarray(values), column.temporal)
    if column.kind == "float":
        return np.asarray(floats_of_column(values, "float"))
    codes = codes_in(table, j)
    if len(column.levels) and not isinstance(column.levels[0], str):
        return Encoded(np.array(column.levels), codes, column.temporal)
    return Encoded(list(map(str, column.levels)), codes)
