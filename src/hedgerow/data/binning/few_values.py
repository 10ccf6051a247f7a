"""The distinct values of columns of numbers, collected from all rows as long as they are few.

A sample of the rows misses rare values; each of these values gets a bin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray, FloatArray, IntArray
from hedgerow.data.reading.columns import as_floats, keys_by_kind
from hedgerow.data.schema import Schema
from hedgerow.data.sparse import SparseTable, count_entries
from hedgerow.kernels.tables.contents import N_SLOTS, note_entries, note_values
from hedgerow.kernels.tables.keys import floats_of_keys
from hedgerow.kernels.tables.sparse import Entries, gather_entries
from hedgerow.kernels.tables.values import (
    DTYPES,
    ValueList,
    values_of_list,
    values_of_table,
    views_of,
)
from hedgerow.threads import run_blocks

MOST_VALUES = 255
"""Most values of a column that are collected from all rows: the most bins."""

MOST_PAIRS = 1 << 22
"""Most values of all columns together that are collected from sparse rows."""

_ENTRIES_AT_ONCE = 1 << 22
_NO_ROWS: IntArray = np.zeros(0, dtype=np.int64)
_NO_MASS: FloatArray = np.zeros(0)


def few_of_columns(values: AnyArray, most: IntArray, n_threads: int = 1) -> dict[int, AnyArray]:
    """Return the ascending values of each column of a table that has no more than ``most``."""
    slots = np.full((values.shape[1], N_SLOTS), MISSING_KEY)
    counts, given = np.zeros(len(slots), dtype=np.int64), values_of_table(values)
    run_blocks(
        lambda start, stop: note_values(given, len(values), most, slots, counts, start, stop),
        len(slots), n_threads, 1,
    )  # fmt: skip
    found: dict[int, AnyArray] = {}
    for j in np.flatnonzero(counts <= most).tolist():
        held = np.sort(slots[j][slots[j] != MISSING_KEY])
        found[j] = held if values.dtype == np.int64 else floats_of_keys(held).astype(values.dtype)
    return found


class FewValues:
    """Distinct values of columns that are read in parts, as long as they are few.

    Pairs of a column and a value are kept, sorted.  If there are more than ``most_pairs``, no
    column counts as having few.
    """

    def __init__(self, most_pairs: int | None = None) -> None:
        self._most_pairs = most_pairs
        self._many = np.zeros(0, dtype=np.uint8)
        self._n_entries = np.zeros(0, dtype=np.int64)
        self._pairs: list[tuple[IntArray, AnyArray]] = []
        self._n_known = self._n_new = 0
        self._is_full = False

    def add_column(self, j: int, column: AnyArray) -> None:
        """Add a part of column ``j`` of a dense table, as plain numbers."""
        self._widen(j + 1)
        if self._many[j]:
            return
        few = few_of_columns(column[:, None], np.array([MOST_VALUES]))
        if 0 in few:
            self._append(np.full(len(few[0]), j), few[0])
        else:
            self._many[j] = 1

    def add_entries(self, entries: Entries, n_features: int, rows: tuple[int, int]) -> None:
        """Add some sparse rows; later rows may have more columns."""
        first, last = (int(entries.row_start[row]) for row in rows)
        kind, narrow, wide = entries.value
        part = Entries(
            entries.row_start[rows[0] : rows[1] + 1] - first,
            entries.column[first:last],
            ValueList(kind, narrow[first:last], wide[first:last]),
        )
        counts = count_entries(part, _NO_ROWS, n_features)
        self._widen(n_features)
        self._n_entries[:n_features] += counts
        if self._is_full:
            return
        start = np.concatenate(([0], np.cumsum(counts)))
        values = np.empty(last - first, dtype=DTYPES[kind])
        gather_entries(part, _NO_ROWS, _NO_MASS, start[:-1].copy(), views_of(values), np.empty(0))
        slots = np.zeros(N_SLOTS, dtype=np.int64), np.zeros(N_SLOTS, dtype=np.int64)
        found = np.empty(len(values), dtype=np.int64), np.empty(len(values), dtype=np.int64)
        given = values_of_list(values)
        n_pairs = note_entries(start, given, MOST_VALUES, self._many, slots, found)
        columns, places = (part[:n_pairs] for part in found)
        self._append(columns.copy(), values[places])

    def _widen(self, n_features: int) -> None:
        more = max(0, n_features - len(self._many))
        self._many = np.append(self._many, np.zeros(more, dtype=np.uint8))
        self._n_entries = np.append(self._n_entries, np.zeros(more, dtype=np.int64))

    def _append(self, columns: IntArray, values: AnyArray) -> None:
        self._pairs.append((columns, values))
        self._n_new += len(columns)
        if self._n_new > max(self._n_known, _ENTRIES_AT_ONCE // 16):
            self._join()

    def _join(self) -> None:
        """Sort the pairs, without repeated ones and those of columns of many values."""
        by_type: dict[str, list[tuple[IntArray, AnyArray]]] = {}
        for pair in self._pairs:
            by_type.setdefault(pair[1].dtype.char, []).append(pair)
        self._pairs = []
        for pairs in by_type.values():
            columns = np.concatenate([pair[0] for pair in pairs])
            values = np.concatenate([pair[1] for pair in pairs])
            self._pairs.append(_distinct_pairs(columns, values))
        for columns, _ in self._pairs:
            counts = np.bincount(columns, minlength=len(self._many))
            self._many[counts > MOST_VALUES] = 1
        kept = [(self._many[columns] == 0, columns, values) for columns, values in self._pairs]
        self._pairs = [(columns[few], values[few]) for few, columns, values in kept]
        self._n_known, self._n_new = sum(len(columns) for columns, _ in self._pairs), 0
        # A sum that only rises, whatever the order of the rows.
        n_pairs = self._n_known + int(self._many.sum()) * (MOST_VALUES + 1)
        if self._most_pairs is not None and n_pairs > self._most_pairs:
            self._is_full, self._pairs = True, []

    def arrays(self) -> list[AnyArray]:
        """Return the arrays of a table that is not sparse, for :meth:`merge`."""
        self._join()
        return [self._many.astype(np.int64), *(array for pair in self._pairs for array in pair)]

    def merge(self, arrays: Sequence[AnyArray], places: IntArray | None = None) -> None:
        """Add the result of :meth:`arrays` of other rows; ``places`` are those of their columns."""
        many, *pairs = arrays
        places = np.arange(len(many)) if places is None else places[: len(many)]
        self._widen(int(places.max(initial=-1)) + 1)
        self._many[places] |= many.astype(np.uint8)
        for columns, values in zip(pairs[::2], pairs[1::2], strict=True):
            self._append(places[columns], values)

    def finish(self, schema: Schema, dtype: Any, n_rows: int = 0) -> dict[int, AnyArray]:
        """Return the ascending values of each column that has few, as in a table of ``dtype``."""
        # ``n_rows`` are the sparse rows, whose values that are not recorded are 0.
        self._widen(schema.n_features)
        self._join()
        if self._is_full:
            return {}
        is_int = np.array([kind == "int" for kind in schema.kinds], dtype=np.bool_)
        columns = [columns for columns, _ in self._pairs]
        values: list[AnyArray] = [
            keys_by_kind(part, is_int[own]) if dtype == np.int64 else as_floats(part).astype(dtype)
            for own, part in self._pairs
        ]
        if not schema.zero_missing:
            columns.append(np.flatnonzero(self._n_entries < n_rows))
            values.append(np.zeros(len(columns[-1]), dtype))
        each = np.concatenate([_NO_ROWS, *columns])
        column, value = _distinct_pairs(each, np.concatenate([np.zeros(0, dtype), *values]))
        if schema.zero_missing:
            column, value = column[value != 0], value[value != 0]
        start = np.searchsorted(column, np.arange(schema.n_features + 1))
        few = (self._many == 0) & (np.diff(start) <= MOST_VALUES)
        return {j: value[start[j] : start[j + 1]] for j in np.flatnonzero(few).tolist()}


def _distinct_pairs(columns: IntArray, values: AnyArray) -> tuple[IntArray, AnyArray]:
    """Return the distinct pairs of column and value, in ascending order."""
    order = np.lexsort((values, columns))
    columns, values = columns[order], values[order]
    new = (columns[1:] != columns[:-1]) | (values[1:] != values[:-1])
    first = np.append(np.ones(min(1, len(columns)), dtype=np.bool_), new)
    return columns[first], values[first]


def few_of_entries(table: SparseTable) -> dict[int, AnyArray]:
    """Return the values of each column of a sparse table that has few."""
    entries, found, row = table.entries(), FewValues(MOST_PAIRS), 0
    while row < table.n_rows:
        end = int(np.searchsorted(table.row_start, table.row_start[row] + _ENTRIES_AT_ONCE))
        stop = min(max(end, row + 1), table.n_rows)
        found.add_entries(entries, table.n_features, (row, stop))
        row = stop
    return found.finish(table.schema, table.value.dtype, table.n_rows)
