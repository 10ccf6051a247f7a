"""Tables in memory-mapped files.

Exact growth sorts their columns (:mod:`hedgerow.data.external.blocks`), and prediction during
training reads rows in their original order.  Mapped files occupy memory only as long as there is
enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, RowArray
from hedgerow.data.external.block_files import BlockFile, mapped_array
from hedgerow.data.external.blocks import ENTRY_BYTES, ColumnBlocks, in_memory, sort_columns
from hedgerow.data.external.memory import give_back_memory
from hedgerow.data.reading.table import Table

BLOCK_ROWS = 1 << 16
"""Rows copied at a time."""

_SORT_SHARE = 0.5
_LIST_SHARE = 0.125
"""Part of the memory for the sorted columns, and again for the lists that a tree divides."""


class RowSpace:
    """Folders for tables in files, and the memory for work on them.

    Rows go to the first folder; sorted lists go to each in turn.  The space of a file is free when
    nothing refers to its table any more.
    """

    def __init__(self, folders: Sequence[str], memory_limit: int) -> None:
        self.folders, self.memory_limit = folders, memory_limit
        self._turns = count(1)  # the rows are in the first folder

    def lists(self, n_entries: int) -> RowArray:
        """Return space for sorted lists: memory, or a mapped file if they take more than a part."""
        if ENTRY_BYTES * n_entries <= _LIST_SHARE * self.memory_limit:
            return in_memory(n_entries)
        turn = next(self._turns) % len(self.folders)
        return mapped_array(self.folders[turn], n_entries, np.uint32)


@dataclass(frozen=True, slots=True, eq=False)
class MappedTable(Table):
    """A table in a file."""

    space: RowSpace = field(kw_only=True)

    def sorted(self, n_threads: int) -> ColumnBlocks:
        """Return the sorted columns."""
        memory = int(_SORT_SHARE * self.space.memory_limit)
        found = sort_columns(self, n_threads, self.space.lists, memory)
        give_back_memory()
        return found


class RowFile:
    """A new file of numeric rows that is written by appending, and then mapped."""

    def __init__(self, folder: str) -> None:
        self._folder, self._file = folder, BlockFile(folder)
        self._dtype: np.dtype[Any] | None = None
        self._width: tuple[int, ...] = ()
        self.n_rows = 0

    def append(self, values: AnyArray) -> None:
        """Append rows; if they have a wider type, the rows before them are rewritten."""
        if self._dtype is None:
            self._dtype, self._width = values.dtype, values.shape[1:]
        wide = np.result_type(self._dtype, values.dtype)
        if wide != self._dtype:
            before = self.finish()
            self._file, self._dtype = BlockFile(self._folder), wide
            for start in range(0, len(before), BLOCK_ROWS):
                self._write(before[start : start + BLOCK_ROWS])
        self._write(values)
        self.n_rows += len(values)

    def _write(self, values: AnyArray) -> None:
        rows = np.ascontiguousarray(values, dtype=self._dtype)
        self._file.append(rows.reshape(-1).view(np.uint8))

    def finish(self) -> AnyArray:
        """Map all rows, read-only."""
        shape, dtype = (self.n_rows, *self._width), self._dtype or np.dtype(np.float64)
        if self.n_rows == 0:
            return np.zeros(shape, dtype)
        mapped = self._file.map(0, math.prod(shape) * dtype.itemsize)
        self._file.close()
        mapped.flags.writeable = False
        return mapped.view(dtype).reshape(shape)
