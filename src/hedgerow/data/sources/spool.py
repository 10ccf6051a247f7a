"""One number per row, in memory or, for many rows, in a file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import IO

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.errors import StorageError

_AT_ONCE = 1 << 18


class Spool:
    """Sequence of numbers: first appended to, then read from the start any number of times.

    Parameters
    ----------
    folder : str
        Folder for the file, if one is needed.  The file has no name, so it never remains.
    most_bytes : int
        Limit of the memory of the numbers.
    """

    def __init__(self, folder: str, most_bytes: int) -> None:
        self._folder, self._most_bytes = folder, most_bytes
        self._parts: list[FloatArray] = []
        self._file: IO[bytes] | None = None
        self.n_rows = 0

    def append(self, values: FloatArray) -> None:
        """Append the numbers of the next rows."""
        self.n_rows += len(values)
        if self._file is None and 8 * self.n_rows > self._most_bytes:
            self._open()
        if self._file is None:
            self._parts.append(np.array(values, dtype=np.float64))
        else:
            self._write(values)

    def _open(self) -> None:
        try:
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
        except OSError as error:
            raise self._failed(error) from error
        for part in self._parts:
            self._write(part)
        self._parts = []

    def _write(self, values: FloatArray) -> None:
        assert self._file is not None
        try:
            self._file.write(np.ascontiguousarray(values, dtype=np.float64).tobytes())
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> StorageError:
        return StorageError(
            f"the numbers of the rows cannot be kept in {self._folder}: {error.strerror or error}."
        )

    def read(self) -> Iterator[FloatArray]:
        """Yield all numbers in pieces."""
        if self._file is None:
            yield from self._parts
            return
        try:
            self._file.flush()
            self._file.seek(0)
            while part := self._file.read(8 * _AT_ONCE):
                yield np.frombuffer(part, dtype=np.float64)
        except OSError as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Delete the file; a second call does nothing."""
        self._parts = []
        if self._file is not None:
            self._file.close()
            self._file = None
