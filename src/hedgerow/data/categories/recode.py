"""Reduce the levels of a table to the levels of its training rows, or recode them.

A table is read before the rows with weight 0 and the validation rows are removed.  This
module then drops the levels that no longer occur.  If too many levels remain, it keeps the
most frequent ones.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.data.binning.bins import integer_mass
from hedgerow.data.binning.cut_sample import codes_of, masses_of_levels
from hedgerow.data.categories import levels as lv
from hedgerow.data.categories.columns import code_column
from hedgerow.data.reading.columns import float_keys
from hedgerow.data.reading.table import Table, unknown_category
from hedgerow.data.schema import Schema, UnknownPolicy
from hedgerow.errors import DataError


def drop_unused_levels(
    table: Table, most: int = lv.MOST_LEVELS, weight: FloatArray | None = None
) -> Table:
    """Drop levels that do not occur, and all but the ``most`` heaviest ones."""
    # Ties go to the lower level, and dropped categories become missing values. Each row counts its
    # positive ``weight``, by default 1.
    columns, new_codes = list(table.schema.columns), {}
    for j, column in enumerate(columns):
        if column.kind != "category":
            continue
        values, n_levels = table.values[:, j], len(column.levels)
        heavy = masses_of_levels(values, n_levels, None)
        kept = np.flatnonzero(heavy)
        if len(kept) > most:
            if table.schema.unknown == "error":
                raise DataError(
                    f"column {column.name!r} has {len(kept):,} categories, but a model can have "
                    f"{most:,}: use unknown_category='missing' to keep the most "
                    "frequent, merge rare categories, or drop the column."
                )
            if weight is not None:
                heavy = masses_of_levels(values, n_levels, integer_mass(weight))
            kept = np.sort(np.argsort(-heavy, kind="stable")[:most])
        levels = lv.canonical(tuple([column.levels[code] for code in kept.tolist()]))
        if len(kept) == n_levels and levels == column.levels:
            continue
        new = np.full(n_levels + 2, lv.MISSING_CODE, dtype=np.int64)
        new[kept] = np.arange(len(kept))
        columns[j] = replace(column, levels=levels)
        new_codes[j] = new[codes_of(values, n_levels)]
    if not new_codes:
        return table
    schema = replace(table.schema, columns=tuple(columns))
    return _with_codes(table, schema, new_codes, schema.unknown)


def recode(table: Table, schema: Schema, unknown: UnknownPolicy | None = None) -> Table:
    """Convert the category codes of a table to the codes of another schema."""
    unknown = schema.unknown if unknown is None else unknown
    if schema is table.schema:
        return table
    new_codes: dict[int, IntArray] = {}
    unseen: dict[str, int] = {}
    for j, column in enumerate(table.schema.columns):
        if column.kind != "category":
            continue
        n_levels = len(column.levels)
        codes = codes_of(table.values[:, j], n_levels)
        new = np.full(n_levels + 2, lv.UNKNOWN_CODE, dtype=np.int64)
        new[:n_levels] = schema.level_index(j).of_levels(column.levels)
        new[-1] = lv.MISSING_CODE
        found = new[codes]
        n_unseen = int(np.count_nonzero(found == lv.UNKNOWN_CODE))
        if n_unseen and unknown == "error":
            row = int(np.argmax(found == lv.UNKNOWN_CODE))
            raise unknown_category(schema.columns[j], row, column.levels[int(codes[row])])
        if n_unseen:
            unseen[column.name] = n_unseen
        new_codes[j] = found
    recoded = _with_codes(table, schema, new_codes, unknown)
    return Table(recoded.values, schema, unseen) if unseen else recoded


def _with_codes(
    table: Table, schema: Schema, new_codes: dict[int, IntArray], unknown: UnknownPolicy
) -> Table:
    values: AnyArray = table.values.copy(order="K")
    for j, codes in new_codes.items():
        column = code_column(codes, schema.n_levels(j), unknown)
        values[:, j] = float_keys(column) if values.dtype == np.int64 else column
    return Table(values, schema)
