"""Presorted columns, which exact growth reads instead of bins.

Glossary
--------
entry     number of a row with a value in a column, and a bit that says whether the value
          differs from the value of the previous entry
run       consecutive entries with equal values
block     the entries of a column, sorted by value

::

    column           3.5  NaN  -1.0  3.5  NaN  7.0          row 0 ... 5
    block           | 2  0  3  5 |                          rows by value
    starts a run    | 1  1  0  1 |                          top bit of each entry

A block holds row numbers, not values (Chen and Guestrin 2016, section 4.1), in four bytes
per entry.  Growth needs to know where values differ, which the bit tells.  It looks up values
in the table only for the threshold of a final split.  Missing values have no entry, so memory
and time are linear in the number of present values.

Columns are sorted once per fit, and every node of every tree reuses the blocks.  Where they do not
fit into memory, the blocks, and the lists of nodes that trees make of them, are mapped files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray, IntArray, RowArray, aligned_empty
from hedgerow.data.reading.table import Table
from hedgerow.errors import DataError
from hedgerow.kernels.tables.keys import keys_of_floats
from hedgerow.threads import run_blocks

PADDING = 64
"""Zero entries after the last block, so that prefetching stays inside the array."""

RUN_BIT = np.uint32(1 << 31)

_MOST_ROWS = 1 << 31
COLUMNS_AT_ONCE = 16
"""Columns that a thread copies together from a table in C order: a cache line of float32."""

ENTRY_BYTES = 4
SORT_BYTES = 41
"""Bytes of a value during sorting: keys, rows, their order, and numbers in place of keys."""

_VALUES_PER_THREAD = 10_000
_ROWS_AT_ONCE = 1 << 16

Empty: TypeAlias = Callable[[int], RowArray]
"""Returns space for this many entries."""


def in_memory(n_entries: int) -> RowArray:
    """Return space for entries in memory."""
    return aligned_empty(n_entries, np.uint32)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnBlocks:
    """The entries of all columns, each sorted by value."""

    # uint32 (n_entries + PADDING,); blocks of column 0, 1, ...  The lower 31 bits are a row; the
    # top bit is set if the value differs from the previous one.  Equal values are sorted by row.
    entries: RowArray
    # int64 (n_features + 1,); the block of column ``j`` is ``entries[starts[j] : starts[j + 1]]``
    starts: IntArray
    table: Table  # the table with the values
    # returns space for the lists of nodes, where that for the blocks came from
    empty: Empty = in_memory

    @property
    def n_rows(self) -> int:
        return self.table.n_rows

    @property
    def n_features(self) -> int:
        return len(self.starts) - 1


def sort_columns(
    table: Table, n_threads: int = 1, empty: Empty = in_memory, memory: int | None = None
) -> ColumnBlocks:
    """Sort every column of a table once."""
    # ``empty`` returns space for the entries. Within ``memory`` bytes columns are sorted side by
    # side, but at least one is. The blocks do not depend on the number of threads.
    if table.n_rows >= _MOST_ROWS:
        raise DataError(
            f"the table has {table.n_rows} rows; sorted columns number at most {_MOST_ROWS - 1}: "
            "use tree_method='hist'."
        )
    values, at_once = table.values, COLUMNS_AT_ONCE
    if memory is not None:
        sorting, column = SORT_BYTES * table.n_rows, values.itemsize * table.n_rows
        n_threads = max(1, min(n_threads, memory // (sorting + column)))
        at_once = max(1, min(at_once, (memory // n_threads - sorting) // column))
    starts = np.zeros(table.n_features + 1, dtype=np.int64)
    for first in range(0, len(values), _ROWS_AT_ONCE):
        part = values[first : first + _ROWS_AT_ONCE]
        present = part != MISSING_KEY if part.dtype == np.int64 else part == part
        starts[1:] += np.count_nonzero(present, axis=0)
    np.cumsum(starts, out=starts)
    entries = empty(int(starts[-1]) + PADDING)
    entries[-PADDING:] = 0

    def sort(start: int, stop: int) -> None:
        for first in range(start, stop, at_once):
            last = min(first + at_once, stop)
            columns = np.ascontiguousarray(values[:, first:last].T)
            for j, column in enumerate(columns, first):
                entries[starts[j] : starts[j + 1]] = sort_column(column)

    run_blocks(sort, table.n_features, n_threads, -(-_VALUES_PER_THREAD // table.n_rows))
    return ColumnBlocks(entries, starts, table, empty)


def sort_column(column: AnyArray) -> RowArray:
    """Return the entries of a contiguous column, sorted by value and then by row."""
    if column.dtype == np.float32:
        rows = np.flatnonzero(~np.isnan(column))
        bits = (column[rows] + np.float32(0.0)).view(np.int32)  # both zeros are equal
        bits ^= (bits >> np.int32(31)) & np.int32(0x7FFFFFFF)  # ascends with the values
        pairs, is_sorted = bits.astype(np.int64), False
        del bits
    else:
        keys = keys_of_floats(column) if column.dtype.kind == "f" else column
        present = np.flatnonzero(keys != MISSING_KEY)
        keys = keys[present]
        rows = np.argsort(keys)
        keys = keys[rows]
        rows = present[rows]
        # The fast sort is not stable: number the values and sort again.
        pairs = np.zeros(len(rows), dtype=np.int64)
        np.cumsum(keys[1:] != keys[:-1], out=pairs[1:])
        del keys, present
        is_sorted = len(rows) == 0 or pairs[-1] + 1 == len(rows)
    # By key (32 bits) and then by row, as one number: faster than by index.
    pairs <<= np.int64(32)
    pairs |= rows
    del rows
    if not is_sorted:
        pairs.sort()
    entries = pairs.astype(np.uint32)
    pairs >>= np.int64(32)
    entries[:1] |= RUN_BIT
    entries[1:][pairs[1:] != pairs[:-1]] |= RUN_BIT
    return entries
