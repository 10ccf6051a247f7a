"""The work of chunks that do not stay in memory: files, and buffers that are used again.

What a pass reads of a chunk's work is copied from the file to a buffer, what it writes is
copied back.  Copies between the file cache and a buffer run at the speed of memory; to
write to a mapped file costs a trap for every page, and more the larger the pages of the
file cache are (``benchmarks/disk_store.py access``), and a full disk or a failing one
would kill the process instead of raising an error.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hedgerow.arrays import BinArray, aligned_empty
from hedgerow.data.block_files import BlockFile
from hedgerow.data.matrix import PAD
from hedgerow.data.row_store import ChunkWork, Uses

_LINE = 64


@dataclass(frozen=True, slots=True)
class WorkShape:
    """What is kept of a row.

    Attributes
    ----------
    n_outputs : int
    keeps_probability : bool
    """

    n_outputs: int
    keeps_probability: bool

    def places(self, n_rows: int) -> dict[str, tuple[int, int]]:
        """First byte and bytes of each field, one behind the other."""
        scores = 8 * self.n_outputs * n_rows
        sizes = {
            "raw": scores,
            "probability": scores if self.keeps_probability else 0,
            "fixed": 8 * n_rows,
            "packed": 16 * n_rows,
            "rows": 4 * (n_rows + PAD),
        }
        starts = itertools.accumulate((-(-s // _LINE) * _LINE for s in sizes.values()), initial=0)
        return dict(zip(sizes, zip(starts, sizes.values(), strict=False), strict=True))

    def n_bytes(self, n_rows: int) -> int:
        """Bytes for all fields of a chunk."""
        start, size = self.places(n_rows)["rows"]
        return start + -(-size // _LINE) * _LINE

    def view(self, buffer: BinArray, n_rows: int) -> ChunkWork:
        """The fields in a buffer of at least :meth:`n_bytes`."""
        part = {
            name: buffer[start : start + size]
            for name, (start, size) in self.places(n_rows).items()
        }
        kept = (self.n_outputs, n_rows) if self.keeps_probability else (0, 0)
        return ChunkWork(
            part["raw"].view(np.float64).reshape(self.n_outputs, n_rows),
            part["probability"].view(np.float64).reshape(kept),
            part["fixed"].view(np.int32),
            part["packed"].view(np.int64),
            part["rows"].view(np.uint32),
        )

    def new(self, n_rows: int) -> ChunkWork:
        """Work in memory of its own."""
        return self.view(aligned_empty(self.n_bytes(n_rows), np.uint8), n_rows)


class WorkFiles:
    """The work of some chunks, in a file for each folder.

    Parameters
    ----------
    paths : sequence of Path
        Files to be made; chunk ``n`` is in file ``n % len(paths)``.
    n_rows : mapping of int to int
        Rows of each chunk that is kept here.
    shape : WorkShape

    Raises
    ------
    StorageError
        If there is not enough space for all, and later if a file cannot be read or
        written.
    """

    def __init__(self, paths: Sequence[Path], n_rows: Mapping[int, int], shape: WorkShape) -> None:
        self._n_rows, self._shape = n_rows, shape
        self._most = max(n_rows.values(), default=0)
        self._free: list[BinArray] = []
        self._lock = threading.Lock()
        self._start: dict[int, int] = {}
        self._files: list[BlockFile] = []
        try:
            for lane, path in enumerate(paths):
                size = 0
                for number in sorted(n for n in n_rows if n % len(paths) == lane):
                    self._start[number] = size
                    size += shape.n_bytes(n_rows[number])
                self._files.append(BlockFile(path))
                self._files[-1].reserve(size)
        except BaseException:
            self.close()
            raise

    def load(self, number: int, uses: Uses) -> tuple[ChunkWork, BinArray]:
        """The work of a chunk, with what ``uses`` reads, and the buffer that it is in."""
        with self._lock:
            buffer = self._free.pop() if self._free else None
        if buffer is None:
            buffer = aligned_empty(self._shape.n_bytes(self._most), np.uint8)
        file = self._files[number % len(self._files)]
        for start, stop in self._parts(number, uses.reads, uses.packed_words):
            file.read_into(self._start[number] + start, buffer[start:stop])
        return self._shape.view(buffer, self._n_rows[number]), buffer

    def keep(self, number: int, buffer: BinArray, uses: Uses) -> None:
        """Keep what ``uses`` writes, and the buffer for another chunk."""
        file = self._files[number % len(self._files)]
        for start, stop in self._parts(number, uses.writes, uses.packed_words):
            file.write(self._start[number] + start, buffer[start:stop])
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
        self, number: int, fields: Collection[str], packed_words: int
    ) -> list[tuple[int, int]]:
        """First and last byte of the fields, neighbours in one."""
        parts: list[tuple[int, int]] = []
        for name, (start, size) in self._shape.places(self._n_rows[number]).items():
            if name not in fields or size == 0:
                continue
            stop = start + (size * packed_words // 2 if name == "packed" else size)
            if parts and start - parts[-1][1] < _LINE:
                parts[-1] = parts[-1][0], stop
            else:
                parts.append((start, stop))
        return parts
