"""Tables in memory-mapped files.

Exact growth sorts their columns (:mod:`hedgerow.data.external.blocks`), and prediction during
training reads rows in their original order.  Mapped files occupy memory only as long as there is
enough.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import IO, Any
from weakref import WeakSet

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, RowArray
from hedgerow.data.external.block_files import mapped_array
from hedgerow.data.external.blocks import ENTRY_BYTES, ColumnBlocks, in_memory, sort_columns
from hedgerow.data.external.memory import give_back_memory
from hedgerow.data.external.scratch import ScratchFolder, explained
from hedgerow.data.reading.table import Table
from hedgerow.data.schema import Schema

BLOCK_ROWS = 1 << 16
"""Rows copied at a time."""

_SORT_SHARE = 0.5
_LIST_SHARE = 0.125
"""Part of the memory for the sorted columns, and again for the lists that a tree divides."""


class RowSpace:
    """Folders for tables in files, and the memory for work on them.

    Rows go to the first folder; sorted lists go to each in turn.  ``n_parts`` selections of rows
    (:meth:`MappedTable.take`) share the memory.  Files are deleted when nothing refers to their
    table any more, or by :meth:`close`.
    """

    def __init__(self, folders: Sequence[str], memory_limit: int, n_parts: int = 1) -> None:
        self._folders, self.memory_limit, self._n_parts = folders, memory_limit, n_parts
        self._open: WeakSet[ScratchFolder] = WeakSet()
        self._own: dict[int, ScratchFolder] = {}
        self._turns = count(1)  # the rows are in the first folder

    def part(self) -> RowSpace:
        """Return the space of one selection."""
        found = RowSpace(self._folders, self.memory_limit // self._n_parts)
        found._open, found._turns = self._open, self._turns
        return found

    def folder(self, number: int = 0) -> ScratchFolder:
        """Return a new folder."""
        found = ScratchFolder(self._folders[number])
        self._open.add(found)
        return found

    def lists(self, n_entries: int) -> RowArray:
        """Return space for sorted lists: memory, or a mapped file if they take more than a part."""
        if ENTRY_BYTES * n_entries <= _LIST_SHARE * self.memory_limit:
            return in_memory(n_entries)
        turn = next(self._turns) % len(self._folders)
        if turn not in self._own:
            self._own[turn] = self.folder(turn)
        return mapped_array(
            self._own[turn].path / f"lists-{secrets.token_hex(8)}", n_entries, np.uint32
        )

    def close(self) -> None:
        """Delete all files; a second call does nothing."""
        for item in list(self._open):
            item.close()


@dataclass(frozen=True, slots=True, eq=False)
class MappedTable(Table):
    """A table in a file."""

    space: RowSpace = field(kw_only=True)
    folder: ScratchFolder = field(kw_only=True)  # has the file

    @property
    def memory_limit(self) -> int:
        return self.space.memory_limit

    def blocks(self) -> Iterator[Table]:
        """Yield the rows, as many as are copied at a time."""
        for start in range(0, self.n_rows, BLOCK_ROWS):
            yield Table(self.values[start : start + BLOCK_ROWS], self.schema)

    def take(self, rows: AnyArray) -> MappedTable:
        """Copy the rows of these positions to another file."""
        starts = range(0, len(rows), BLOCK_ROWS)
        blocks = (self.values[rows[start : start + BLOCK_ROWS]] for start in starts)
        return self.written(blocks, self.schema, self.space.part())

    def written(
        self, blocks: Iterable[AnyArray], schema: Schema, space: RowSpace | None = None
    ) -> MappedTable:
        """Write another table, block by block, to the same space unless another is given."""
        space = space or self.space
        folder = space.folder()
        with closing(RowFile(folder.path / "values")) as file:
            for block in blocks:
                file.append(block)
            return MappedTable(file.finish(), schema, space=space, folder=folder)

    def empty(self, name: str, shape: tuple[int, ...]) -> FloatArray:
        """Return a float64 array in a file beside the table; its values are not set."""
        return mapped_array(self.folder.path / name, shape, np.float64)

    def sorted(self, n_threads: int) -> ColumnBlocks:
        """Return the sorted columns."""
        memory = int(_SORT_SHARE * self.space.memory_limit)
        found = sort_columns(self, n_threads, self.space.lists, memory)
        give_back_memory()
        return found


class RowFile:
    """A new file of numeric rows that is written by appending, and then mapped.

    The owner of its folder deletes it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self._dtype: np.dtype[Any] | None = None
        self._width: tuple[int, ...] = ()
        self.n_rows = 0

    def append(self, values: AnyArray) -> None:
        """Append rows; if they have a wider type, the rows before them are rewritten."""
        if self._dtype is None:
            self._dtype, self._width = values.dtype, values.shape[1:]
            with explained("make", self._path):
                self._file = open(self._path, "wb")  # noqa: SIM115  (closed by `finish`)
        wide = np.result_type(self._dtype, values.dtype)
        if wide != self._dtype:
            self._widen(wide)
        assert self._file is not None
        with explained("write", self._path):
            self._file.write(np.ascontiguousarray(values, dtype=self._dtype).data)
        self.n_rows += len(values)

    def finish(self) -> AnyArray:
        """Map all rows, read-only."""
        self.close()
        if self.n_rows == 0 or self._dtype is None:
            return np.zeros((0, *self._width), self._dtype or np.float64)
        with explained("map", self._path):
            mapped = np.memmap(self._path, self._dtype, "r", shape=(self.n_rows, *self._width))
        return mapped.view(np.ndarray)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._file is not None:
            with explained("write", self._path):
                self._file.close()
        self._file = None

    def _widen(self, dtype: np.dtype[Any]) -> None:
        before = self.finish()
        wider = self._path.with_suffix(".wider")
        with explained("write", wider), open(wider, "wb") as file:
            for start in range(0, len(before), BLOCK_ROWS):
                file.write(np.ascontiguousarray(before[start : start + BLOCK_ROWS], dtype).data)
        del before
        with explained("write", self._path):
            wider.replace(self._path)
            self._file = open(self._path, "ab")  # noqa: SIM115
        self._dtype = dtype
