"""Working arrays of chunks on disk: files, and reusable buffers.

A pass copies the fields that it reads from the file to a buffer, and copies the fields that
it writes back.  Copies between the file cache and a buffer run at the speed of memory.
Writing to a mapped file would cost a page fault for every page, and more for large pages of
the file cache (``benchmarks/disk_store.py access``).  A full or failing disk would then kill
the process instead of raising an error.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from hedgerow.arrays import BinArray, aligned_empty
from hedgerow.data.external.block_files import BlockFile
from hedgerow.data.external.row_store import LINE, ChunkWork, Uses, WorkShape


class WorkBuffer:
    """Reusable memory for the work of one chunk at a time."""

    def __init__(self, shape: WorkShape, most_rows: int) -> None:
        self.data: BinArray = aligned_empty(shape.n_bytes(most_rows), np.uint8)
        self._shape = shape
        self._views: dict[int, ChunkWork] = {}

    def view(self, n_rows: int) -> ChunkWork:
        """Return the fields of a chunk of ``n_rows`` rows."""
        if n_rows not in self._views:
            self._views[n_rows] = self._shape.view(self.data, n_rows)
        return self._views[n_rows]


class WorkFiles:
    """The work of some chunks, in one file per folder.

    Parameters
    ----------
    paths : sequence of Path
        New files; chunk ``n`` is in file ``n % len(paths)``.
    n_rows : mapping of int to int
        Rows of each chunk in the files.
    shape : WorkShape

    Raises
    ------
    StorageError
        If the disk space is insufficient, and later if a file cannot be read or written.
    """

    def __init__(self, paths: Sequence[Path], n_rows: Mapping[int, int], shape: WorkShape) -> None:
        self._n_rows, self._shape = n_rows, shape
        self._most = max(n_rows.values(), default=0)
        self._free: list[WorkBuffer] = []
        self._known_parts: dict[tuple[int, tuple[str, ...], int | None], list[tuple[int, int]]] = {}
        self._lock = threading.Lock()
        self._start: dict[int, int] = {}
        self._files: list[BlockFile] = []
        try:
            for stripe, path in enumerate(paths):
                size = 0
                for number in sorted(n for n in n_rows if n % len(paths) == stripe):
                    self._start[number] = size
                    size += shape.n_bytes(n_rows[number])
                self._files.append(BlockFile(path))
                self._files[-1].reserve(size)
        except BaseException:
            self.close()
            raise

    def load(self, number: int, uses: Uses) -> tuple[WorkBuffer, int]:
        """Load the work that ``uses`` reads; return its buffer and the number of bytes read."""
        with self._lock:
            buffer = self._free.pop() if self._free else None
        if buffer is None:
            buffer = WorkBuffer(self._shape, self._most)
        file, at, n_read = self._files[number % len(self._files)], self._start[number], 0
        for start, stop in self._parts(number, uses.reads, uses.packed_words):
            file.read_into(at + start, buffer.data[start:stop])
            n_read += stop - start
        return buffer, n_read

    def keep(self, number: int, buffer: WorkBuffer, uses: Uses) -> None:
        """Save the work that ``uses`` writes, and reuse the buffer for another chunk."""
        file, at = self._files[number % len(self._files)], self._start[number]
        for start, stop in self._parts(number, uses.writes, uses.packed_words):
            file.write(at + start, buffer.data[start:stop])
        with self._lock:
            self._free.append(buffer)

    def close(self) -> None:
        """Delete the files."""
        self._free = []
        for file in self._files:
            file.close()
            with contextlib.suppress(OSError):
                os.unlink(file.path)
        self._files = []

    def _parts(
        self, number: int, fields: Collection[str], packed_words: int | None
    ) -> list[tuple[int, int]]:
        """Return the byte ranges of the fields; adjacent ranges are merged."""
        key = self._n_rows[number], tuple(fields), packed_words
        if key not in self._known_parts:
            self._known_parts[key] = list(self._parts_of(*key))
        return self._known_parts[key]

    def _parts_of(
        self, n_rows: int, fields: Collection[str], packed_words: int | None
    ) -> Iterator[tuple[int, int]]:
        first = last = 0
        for name, (start, size) in self._shape.extents(n_rows).items():
            if name in fields and size > 0:
                if last > first and start - last >= LINE:
                    yield first, last
                    last = first
                first = first if last > first else start
                if name == "packed" and packed_words is not None:
                    size = 8 * packed_words * n_rows
                last = start + size
        if last > first:
            yield first, last
