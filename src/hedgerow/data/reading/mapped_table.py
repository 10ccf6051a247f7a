"""Tables in memory-mapped files.

Exact growth on disk reads columns sorted by value (:mod:`hedgerow.data.external.column_files`).
Prediction during training reads rows in their original order, from the mapped file of this
module, which occupies memory only as long as there is enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from hedgerow.arrays import AnyArray
from hedgerow.data.external.column_files import ColumnFiles
from hedgerow.data.external.scratch import explained
from hedgerow.data.reading.table import Table

BLOCK_ROWS = 1 << 16
"""Rows copied at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class MappedTable(Table):
    """A table in a file.

    Attributes
    ----------
    columns : ColumnFiles or None
        The same table as columns sorted by value; None if no trees are grown on it.
    memory_limit : int
        Most bytes for growth on the columns.
    """

    columns: ColumnFiles | None = None
    memory_limit: int = 0


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
