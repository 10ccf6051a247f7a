"""Tables in memory-mapped files.

Exact growth on disk reads columns sorted by value (:mod:`hedgerow.data.external.column_files`).
Prediction during training reads rows in their original order, from the mapped file of this
module, which occupies memory only as long as there is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any
from weakref import WeakSet

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.data.external.column_files import LEAST_MEMORY, ColumnFiles, sort_to_files
from hedgerow.data.external.memory import give_back_memory
from hedgerow.data.external.scratch import ScratchFolder, explained
from hedgerow.data.reading.table import Table
from hedgerow.data.schema import Schema

BLOCK_ROWS = 1 << 16
"""Rows copied at a time."""

_SORT_SHARE = 0.5


class RowSpace:
    """Folders for tables in files, and the memory for work on them.

    Files are deleted when nothing refers to their table any more, or by :meth:`close`.

    Parameters
    ----------
    folders : sequence of str
        Rows go to the first; sorted columns are distributed over all.
    memory_limit : int
    n_parts : int, default=1
        Number of selections of rows (:meth:`MappedTable.take`) that share the memory.
    """

    def __init__(self, folders: Sequence[str], memory_limit: int, n_parts: int = 1) -> None:
        self._folders, self.memory_limit, self._n_parts = folders, memory_limit, n_parts
        self._open: WeakSet[ScratchFolder | ColumnFiles] = WeakSet()

    def part(self) -> RowSpace:
        """Return the space of one selection."""
        found = RowSpace(self._folders, self.memory_limit // self._n_parts)
        found._open = self._open
        return found

    def folder(self) -> ScratchFolder:
        """Return a new folder."""
        found = ScratchFolder(self._folders[0])
        self._open.add(found)
        return found

    def sort(self, parts: Iterable[Table], n_threads: int) -> ColumnFiles:
        """Return the sorted columns of a table that is read in parts."""
        limit = max(LEAST_MEMORY, int(_SORT_SHARE * self.memory_limit))
        found = sort_to_files(parts, list(self._folders), limit, n_threads)
        self._open.add(found)
        give_back_memory()
        return found

    def close(self) -> None:
        """Delete all files; a second call does nothing."""
        for item in list(self._open):
            item.close()


@dataclass(frozen=True, slots=True, eq=False)
class MappedTable(Table):
    """A table in a file.

    Attributes
    ----------
    space : RowSpace
    folder : ScratchFolder
        It has the file.
    columns : ColumnFiles or None
        The same table as columns sorted by value; None if no trees are grown on it.
    """

    space: RowSpace = field(kw_only=True)
    folder: ScratchFolder = field(kw_only=True)
    columns: ColumnFiles | None = None

    def ranges(self) -> Iterator[slice]:
        """Yield the ranges of rows that are copied at a time."""
        for start in range(0, self.n_rows, BLOCK_ROWS):
            yield slice(start, min(start + BLOCK_ROWS, self.n_rows))

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
        path = self.folder.path / name
        with explained("make", path):
            return np.memmap(path, np.float64, "w+", shape=shape).view(np.ndarray)

    def with_columns(self, n_threads: int) -> MappedTable:
        """Return the table with its sorted columns."""
        parts = (Table(self.values[rows], self.schema) for rows in self.ranges())
        return replace(self, columns=self.space.sort(parts, n_threads))


class RowFile:
    """A file of numeric rows that is written by appending, and then mapped.

    Parameters
    ----------
    path : Path
        Path of a new file, which the owner of its folder deletes.
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
