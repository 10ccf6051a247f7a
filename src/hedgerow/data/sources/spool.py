"""One number per row, in memory or, for many rows, in a file."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import SpooledTemporaryFile

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
        self._folder, self.n_rows = folder, 0
        # A size of 0 would mean no limit.
        self._file = SpooledTemporaryFile(max(1, most_bytes), dir=folder)  # noqa: SIM115
        # A fit that fails leaves the spool to the garbage collector.
        self._finalizer = weakref.finalize(self, self._file.close)

    def append(self, values: FloatArray) -> None:
        """Append the numbers of the next rows."""
        self.n_rows += len(values)
        with self._errors():
            self._file.write(np.ascontiguousarray(values, dtype=np.float64).tobytes())

    def read(self) -> Iterator[FloatArray]:
        """Yield all numbers in pieces."""
        with self._errors():
            self._file.seek(0)
            while part := self._file.read(8 * _AT_ONCE):
                yield np.frombuffer(part, dtype=np.float64)

    def close(self) -> None:
        """Delete the file; a second call does nothing."""
        self._finalizer()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(
                f"the numbers of the rows cannot be kept in {self._folder}: "
                f"{error.strerror or error}."
            ) from error
