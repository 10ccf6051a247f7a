"""Rows from which cuts are chosen, and what is known of the columns from all rows.

Cuts depend on what a table holds, not on how: rows repeated k times give the cuts of rows of weight
k, and rows in another order the same cuts.  Up to 200,000 rows are all used.  Of more rows, the
*contents* count, the distinct rows of numbers: each has the mass of all rows like it, and those
with the lowest hashes are used::

    rows      a  b  a  c  d  b  a          hash   b < d < a < c
    contents  a 3, b 2, c 1, d 1           three contents: b 2, d 1, a 3

Such a sample of a part of the rows can be joined with that of another part, so files, batches and
processes give the same sample as memory.  (A merged quantile sketch, which other libraries use
here, gives different cuts for a different division of the rows.)

A sample misses rare values.  So the distinct values of a column are collected from all rows as
long as they are few: each of them gets a bin.  Categories are counted in all rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import MISSING_KEY, AnyArray, FloatArray, IntArray
from hedgerow.data.reading.columns import as_floats, keys_by_kind
from hedgerow.data.reading.numbers import floats_of_column
from hedgerow.data.reading.table import Table
from hedgerow.data.schema import ColumnKind, Schema
from hedgerow.data.sparse import AnyTable, SparseTable
from hedgerow.kernels.primitives.hashing import CONTENT_STREAM, hash_range
from hedgerow.kernels.tables.contents import (
    N_SLOTS,
    hash_float_entries,
    hash_floats,
    hash_key_entries,
    hash_keys,
    mix_hashes,
    note_entries,
    note_values,
)
from hedgerow.kernels.tables.sparse import Entries, count_entries, gather_entries
from hedgerow.threads import run_blocks

Hashes = npt.NDArray[np.uint64]

SAMPLE_ROWS = 200_000
"""Largest number of rows, or of contents of more rows, from which cuts are chosen."""

MOST_CATEGORY_BINS = 254
"""Most bins of a category column: prediction adds two, for unknown and missing values."""

MOST_VALUES = 255
"""Most values of a column that are collected from all rows: the most bins."""

MOST_PAIRS = 1 << 22
"""Most values of all columns together that are collected from sparse rows."""

_ABSENT = np.uint64(0x9E3779B97F4A7C15)
_ROWS_PER_THREAD = 20_000
_ENTRIES_AT_ONCE = 1 << 22
_MASS_BITS = 52  # sums of masses are exact in a float64
_NO_ROWS: IntArray = np.zeros(0, dtype=np.int64)
_NO_MASS: FloatArray = np.zeros(0)


@dataclass(frozen=True, slots=True, eq=False)
class CutSample:
    """Rows from which cuts are chosen, and what is known of the columns from all rows.

    Attributes
    ----------
    table : Table or SparseTable
    rows : int64, or None
        Those of its rows that are used; None: all.
    mass : float64, or None
        Integer masses of the used rows; None if all are 1.
    few : mapping of int to array
        The ascending values of columns that have few in all rows, in the type of the table.
    level_mass : mapping of int to float64
        Masses of the levels of category columns in all rows; columns that are not among them
        are counted in the used rows.
    """

    table: AnyTable
    rows: IntArray | None = None
    mass: FloatArray | None = None
    few: Mapping[int, AnyArray] = field(default_factory=dict)
    level_mass: Mapping[int, FloatArray] = field(default_factory=dict)

    def of_columns(self, columns: Sequence[int]) -> CutSample:
        """Return the sample of some columns of a dense table."""
        assert isinstance(self.table, Table)
        schema = self.table.schema
        own = replace(schema, columns=tuple(schema.columns[j] for j in columns))
        return replace(
            self,
            table=Table(self.table.values[:, list(columns)], own),
            few={place: self.few[j] for place, j in enumerate(columns) if j in self.few},
            level_mass={
                place: self.level_mass[j] for place, j in enumerate(columns) if j in self.level_mass
            },
        )


def sample_of(
    table: AnyTable,
    mass: FloatArray | None,
    seed: int,
    n_threads: int,
    most_values: IntArray,
    columns: Sequence[int] | None = None,
    most: int | None = None,
) -> CutSample:
    """Return the rows of a table from which cuts are chosen.

    Parameters
    ----------
    mass : float64, shape (n_rows,), or None
        Integer masses of all rows; None if all are 1.
    most_values : int64, shape (n_features,)
        Most values of a column that are collected.
    columns : sequence of int, optional
        Numbers of the first columns in the user's table; further columns are computed from these,
        so they are no contents, and their values are those of the sample.  By default the columns
        are those of the user's table.
    most : int, optional
        Most contents that are used; ``SAMPLE_ROWS`` by default.
    """
    most = SAMPLE_ROWS if most is None else most
    if table.n_rows <= most:
        return CutSample(table, None, mass)
    hashes = np.zeros(table.n_rows, dtype=np.uint64)
    absent = absent_term(table.schema.zero_missing)
    kinds = table.schema.kinds
    numbers = np.arange(table.n_features) if columns is None else np.asarray(columns, np.int64)
    factors = np.zeros(table.n_features, dtype=np.uint64)
    factors[: len(numbers)] = factors_of(seed, numbers)
    factors[[kind == "category" for kind in kinds]] = 0
    is_int = np.array([kind == "int" for kind in kinds], dtype=np.uint8)
    if isinstance(table, SparseTable):
        add_entries(table.entries(), factors, is_int, absent, hashes, n_threads)
        few = _few_of_entries(table)
    else:
        add_columns(table.values, factors, is_int, absent, hashes, n_threads)
        looked_at = np.where(np.arange(table.n_features) < len(numbers), most_values, -1)
        few = _few_of_columns(table, looked_at, n_threads)
    rows, mass_of_rows = _lowest(mixed(hashes, n_threads), mass, most)
    return CutSample(table, rows, mass_of_rows, few, _level_masses(table, mass, most_values))


def factors_of(seed: int, columns: IntArray) -> Hashes:
    """Return the factors of columns in the hashes of rows, by the number of the column."""
    every = hash_range(seed, CONTENT_STREAM, 0, int(columns.max(initial=0)) + 1)
    return every[columns] | np.uint64(1)


def absent_term(zero_missing: bool) -> np.uint64:
    """Return what stands for a missing value; it is 0 where 0 is a missing value."""
    return np.uint64(0) if zero_missing else _ABSENT


def add_columns(
    values: AnyArray,
    factors: Hashes,
    is_int: AnyArray,
    absent: np.uint64,
    hashes: Hashes,
    n_threads: int = 1,
) -> None:
    """Add columns of a dense table to the hashes of its rows."""
    wide = np.broadcast_to(values, (2, *values.shape))

    def add(start: int, stop: int) -> None:
        if values.dtype == np.int64:
            hash_keys(wide, factors, is_int, absent, hashes, start, stop)
        else:
            hash_floats(wide, factors, absent, hashes, start, stop)

    run_blocks(add, len(values), n_threads, _ROWS_PER_THREAD)


def add_entries(
    entries: Entries,
    factors: Hashes,
    is_int: AnyArray,
    absent: np.uint64,
    hashes: Hashes,
    n_threads: int = 1,
) -> None:
    """Add the entries of sparse rows to their hashes."""

    def add(start: int, stop: int) -> None:
        if entries.value.dtype == np.int64:
            hash_key_entries(entries, factors, is_int, absent, hashes, start, stop)
        else:
            hash_float_entries(entries, factors, absent, hashes, start, stop)

    run_blocks(add, len(hashes), n_threads, _ROWS_PER_THREAD)


def mixed(hashes: Hashes, n_threads: int = 1) -> Hashes:
    """Scramble the hashes of rows to which all columns have been added, in place."""
    run_blocks(
        lambda start, stop: mix_hashes(hashes, start, stop),
        len(hashes), n_threads, _ROWS_PER_THREAD,
    )  # fmt: skip
    return hashes


def lowest_contents(
    hashes: Hashes, mass: IntArray, most: int
) -> tuple[IntArray, IntArray, np.uint64 | None]:
    """Find the contents with the lowest hashes: a row of each, and the mass of all rows like it.

    Also return the hash from which on contents are left out; None if there are no more than
    ``most``.
    """
    if len(hashes) == 0:
        return _NO_ROWS, _NO_ROWS, None
    order = np.argsort(hashes)
    ordered = hashes[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    sums = np.add.reduceat(mass[order], starts)
    limit = ordered[starts[most]] if len(starts) > most else None
    return order[starts[:most]], sums[:most], limit


def float_masses(mass: IntArray) -> FloatArray:
    """Convert masses to floats whose sums are exact; huge ones lose their low bits."""
    total = sum(int(part.sum()) for part in np.array_split(mass, 1 + (len(mass) >> 20)))
    return (mass >> max(0, total.bit_length() - _MASS_BITS)).astype(np.float64)


def _lowest(
    hashes: Hashes, mass: FloatArray | None, most: int
) -> tuple[IntArray, FloatArray | None]:
    """Return the first row of each content that is used, ascending, and their masses."""
    share = 1.05 * most / len(hashes)
    while True:
        whole = share >= 1.0
        chosen = np.flatnonzero(hashes <= np.uint64(min(share, 1.0) * (2**64 - 2**11)))
        if whole:
            chosen = np.arange(len(hashes))
        each = np.ones(len(chosen), np.int64) if mass is None else mass[chosen].astype(np.int64)
        places, sums, limit = lowest_contents(hashes[chosen], each, most)
        if limit is not None or whole:
            break
        share *= 4.0  # some of these rows are alike
    ascending = np.argsort(places)
    return chosen[places[ascending]], float_masses(sums[ascending])


# ---- values of columns ----------------------------------------------------------------


def _lowest_of(dtype: np.dtype[Any]) -> Any:
    return dtype.type(-np.inf) if dtype.kind == "f" else np.int64(MISSING_KEY + 1)


def _few_of_columns(table: Table, most: IntArray, n_threads: int) -> dict[int, AnyArray]:
    """Return the values of each column of numbers that has no more than ``most``."""
    values = table.values
    missing = np.nan if values.dtype.kind == "f" else MISSING_KEY
    most = np.where([kind == "category" for kind in table.schema.kinds], -1, most)
    slots = np.full((table.n_features, N_SLOTS), missing, values.dtype)
    counts = np.zeros(table.n_features, dtype=np.int64)
    wide = np.broadcast_to(values, (2, *values.shape))
    run_blocks(
        lambda start, stop: note_values(
            wide, _lowest_of(values.dtype), most, slots, counts, start, stop
        ),
        table.n_features, n_threads, 1,
    )  # fmt: skip
    return {j: _held(slots[j]) for j in np.flatnonzero(counts <= most).tolist()}


def _held(slots: AnyArray) -> AnyArray:
    """Return the values in the slots of a column, ascending."""
    held = slots[slots >= _lowest_of(slots.dtype)]
    held.sort()
    return held


def distinct_values(column: AnyArray) -> AnyArray | None:
    """Return the values of a plain column, ascending; None if there are many."""
    missing = np.nan if column.dtype.kind == "f" else MISSING_KEY
    slots, counts = np.full((1, N_SLOTS), missing, column.dtype), np.zeros(1, np.int64)
    wide = np.broadcast_to(column[:, None], (2, len(column), 1))
    most = np.array([MOST_VALUES])
    note_values(wide, _lowest_of(column.dtype), most, slots, counts, 0, 1)
    return _held(slots[0]) if counts[0] <= MOST_VALUES else None


class ColumnValues:
    """Distinct values of a column of numbers that is read in parts, as long as they are few."""

    def __init__(self) -> None:
        self._parts: dict[str, AnyArray] = {}  # by type
        self._are_many = False

    def add(self, column: AnyArray) -> None:
        """Add a plain column."""
        if not self._are_many:
            found = distinct_values(column)
            self._join([] if found is None else [found], found is None)

    def parts(self) -> list[AnyArray] | None:
        """Return the values of each type for :meth:`merge`; None if there are many."""
        return None if self._are_many else list(self._parts.values())

    def merge(self, parts: Sequence[AnyArray] | None) -> None:
        """Add the result of :meth:`parts` of other rows."""
        self._join(parts or [], parts is None)

    def _join(self, parts: Sequence[AnyArray], are_many: bool) -> None:
        for part in parts:
            known = self._parts.get(part.dtype.char)
            self._parts[part.dtype.char] = part if known is None else np.union1d(known, part)
        lengths = [len(part) for part in self._parts.values()]
        self._are_many |= are_many or max(lengths, default=0) > MOST_VALUES
        if self._are_many:
            self._parts = {}

    def finish(self, kind: ColumnKind, dtype: Any, zero_missing: bool) -> AnyArray | None:
        """Return the values as in a table of ``dtype``, ascending; None if there are many."""
        if self._are_many:
            return None
        parts = [as_in_table(part, np.array(kind == "int"), dtype) for part in self._parts.values()]
        found: AnyArray = np.unique(np.concatenate([np.zeros(0, dtype), *parts]))
        if zero_missing:
            found = found[found != 0]
        return found if len(found) <= MOST_VALUES else None


def as_in_table(values: AnyArray, is_int: AnyArray, dtype: Any) -> AnyArray:
    """Convert plain numbers to the type of a table, which is int64 if it has columns of ints."""
    if dtype == np.int64:
        return keys_by_kind(values, is_int)
    return as_floats(values).astype(dtype)


class EntryValues:
    """Distinct values of each column of sparse rows, as long as they are few.

    Pairs of a column and a value are kept, sorted.  If there are more than ``MOST_PAIRS``, no
    column counts as having few.
    """

    def __init__(self) -> None:
        self._many = np.zeros(0, dtype=np.uint8)
        self._n_entries = np.zeros(0, dtype=np.int64)
        self._pairs: list[tuple[IntArray, AnyArray]] = []
        self._n_known = self._n_new = 0
        self._is_full = False

    def add(self, entries: Entries, n_features: int, rows: tuple[int, int]) -> None:
        """Add some rows; later rows may have more columns."""
        first, last = (int(entries.row_start[row]) for row in rows)
        part = Entries(
            entries.row_start[rows[0] : rows[1] + 1] - first,
            entries.column[first:last], entries.value[first:last], entries.lowest,
        )  # fmt: skip
        counts = np.zeros(n_features, dtype=np.int64)
        count_entries(part, _NO_ROWS, counts)
        self._widen(n_features)
        self._n_entries[:n_features] += counts
        if self._is_full:
            return
        start = np.concatenate(([0], np.cumsum(counts)))
        values = np.empty(len(part.value), dtype=part.value.dtype)
        gather_entries(part, _NO_ROWS, _NO_MASS, start[:-1].copy(), values, np.empty(0))
        slots = np.zeros(N_SLOTS, values.dtype), np.zeros(N_SLOTS, dtype=np.int64)
        found = np.empty(len(values), dtype=np.int64), np.empty_like(values)
        n_pairs = note_entries(start, values, entries.lowest, MOST_VALUES, self._many, slots, found)
        self._append(found[0][:n_pairs].copy(), found[1][:n_pairs].copy())

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
        if n_pairs > MOST_PAIRS:
            self._is_full, self._pairs = True, []

    def arrays(self) -> tuple[bool, list[AnyArray]]:
        """Return whether there are too many pairs, and the arrays for :meth:`merge`."""
        self._join()
        pairs = [array for pair in self._pairs for array in pair]
        return self._is_full, [self._many.astype(np.int64), self._n_entries, *pairs]

    def merge(self, is_full: bool, arrays: Sequence[AnyArray]) -> None:
        """Add the result of :meth:`arrays` of other rows."""
        many, n_entries, *pairs = arrays
        self._widen(len(many))
        self._many[: len(many)] |= many.astype(np.uint8)
        self._n_entries[: len(many)] += n_entries
        self._is_full |= is_full
        for columns, values in zip(pairs[::2], pairs[1::2], strict=True):
            self._append(columns, values)

    def finish(self, schema: Schema, dtype: Any, n_rows: int) -> dict[int, AnyArray]:
        """Return the ascending values of each column that has few, as in a table of ``dtype``."""
        self._widen(schema.n_features)
        self._join()
        if self._is_full:
            return {}
        is_int = np.array([kind == "int" for kind in schema.kinds], dtype=np.bool_)
        columns = [columns for columns, _ in self._pairs]
        values = [as_in_table(part, is_int[own], dtype) for own, part in self._pairs]
        if not schema.zero_missing:  # a value that is not recorded is 0
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


def _few_of_entries(table: SparseTable) -> dict[int, AnyArray]:
    """Return the values of each column of a sparse table that has few."""
    entries, found, row = table.entries(), EntryValues(), 0
    while row < table.n_rows:
        end = int(np.searchsorted(table.row_start, table.row_start[row] + _ENTRIES_AT_ONCE))
        stop = min(max(end, row + 1), table.n_rows)
        found.add(entries, table.n_features, (row, stop))
        row = stop
    return found.finish(table.schema, table.value.dtype, table.n_rows)


# ---- categories -------------------------------------------------------------------------


def _level_masses(
    table: AnyTable, mass: FloatArray | None, most: IntArray
) -> dict[int, FloatArray]:
    """Return the masses of the levels of each category column that has more than ``most``."""
    if isinstance(table, SparseTable):
        return {}
    found = {}
    for j, column in enumerate(table.schema.columns):
        if len(column.levels) > min(int(most[j]), MOST_CATEGORY_BINS):
            found[j] = masses_of_levels(table.values[:, j], len(column.levels), mass)
    return found


def masses_of_levels(values: AnyArray, n_levels: int, mass: FloatArray | None) -> FloatArray:
    """Return the masses of the levels of a category column."""
    codes = codes_of(values, n_levels)
    present = codes < n_levels
    weights = None if mass is None else mass[present]
    return np.bincount(codes[present], weights, minlength=n_levels).astype(np.float64)


def codes_of(values: AnyArray, n_levels: int) -> IntArray:
    """Return the level codes of a category column of a table.

    An unknown category has the code ``n_levels``, a missing value ``n_levels + 1``.
    """
    floats = floats_of_column(values, "category")
    missing = np.isnan(floats)
    codes: IntArray = np.where(missing, n_levels + 1, floats).astype(np.int64)
    return codes
