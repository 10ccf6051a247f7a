"""Writer of binned rows to disk in chunks; see :mod:`hedgerow.data.external.disk_store`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.binning.matrix import BinnedMatrix
from hedgerow.data.external.block_files import (
    GRANULE,
    LARGE_PAGE,
    Block,
    BlockFile,
    encode_column,
    find_lz4,
)
from hedgerow.data.external.disk_store import ChunkRecord, DiskStore, RowBuffer, StoreFiles
from hedgerow.data.external.memory_plan import RowShape, divide_memory, file_cache_bytes
from hedgerow.data.external.scratch import ScratchFolder
from hedgerow.errors import StorageError

Compression = Literal["auto", "none", "always"]


class ChunkSink:
    """Writer that takes binned rows in batches of any size and writes chunks of equal size.

    A temporary folder is made in each folder of ``cache_dir``; chunks are distributed over them in
    turn, and each has its own thread that fetches its chunks.  ``memory_limit`` bytes are for the
    store, including the chunks in use.  ``compression`` says which chunks to encode: those that the
    file cache is unlikely to keep, none, or all; models do not depend on it.
    """

    def __init__(
        self,
        spec: BinSpec,
        cache_dir: Sequence[str | os.PathLike[str]],
        memory_limit: int,
        *,
        n_outputs: int = 1,
        n_vectors: int = 1,
        compression: Compression = "auto",
        chunk_rows: int | None = None,
    ) -> None:
        self._spec, self._limit, self._requested_rows = spec, memory_limit, chunk_rows
        self._shape = RowShape(spec.n_features, 0, n_outputs, n_vectors)
        self._lz4 = None if compression == "none" else find_lz4()
        uncoded = {"auto": file_cache_bytes(), "none": 1 << 62, "always": 0}
        self._left_unencoded = uncoded[compression]
        self._buffer: RowBuffer | None = None
        self._spent = False
        self._files = StoreFiles([], [], [])
        self._plan_rows(len(cache_dir))  # check the limit before making files
        try:
            for stripe, path in enumerate(cache_dir):
                folder = ScratchFolder(path)
                self._files.folders.append(folder)
                self._files.blocks.append(BlockFile(folder.path / f"blocks-{stripe}.bin"))
        except BaseException:
            self.close()
            raise

    def append(self, matrix: BinnedMatrix, numbers: FloatArray | None = None) -> None:
        """Add the next rows."""
        if self._spent:
            raise StorageError("the sink is finished or closed and takes no more rows.")
        assert matrix.spec is self._spec
        assert matrix.layout is None
        assert not matrix.paired
        n_numbers = 0 if numbers is None else numbers.shape[1]
        if self._buffer is None:
            self._shape = replace(self._shape, n_numbers=n_numbers)
            rows = self._plan_rows(len(self._files.blocks))
            self._buffer = RowBuffer(rows, self._spec.n_features, n_numbers)
        assert n_numbers == self._shape.n_numbers
        try:
            start = 0
            while start < matrix.n_rows:
                start += self._buffer.fill(matrix, numbers, start)
                if self._buffer.n_rows == self._buffer.capacity:
                    self._write(self._buffer)
        except BaseException:
            self.close()
            raise

    def finish(self) -> DiskStore:
        """Write the last chunk; return a store that owns the files."""
        if self._spent:
            raise StorageError("the sink is already finished or closed.")
        try:
            if self._buffer is not None and self._buffer.n_rows > 0:
                self._write(self._buffer)
        except BaseException:
            self.close()
            raise
        self._spent, self._buffer = True, None
        return DiskStore(self._files, self._shape, self._spec, self._limit)

    def close(self) -> None:
        """Delete the files, unless the store of :meth:`finish` owns them."""
        if not self._spent:
            self._spent, self._buffer = True, None
            self._files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _plan_rows(self, n_stripes: int) -> int:
        """Return the number of rows of a chunk."""
        return divide_memory(self._limit, self._shape, n_stripes, self._requested_rows).chunk_rows

    def _write(self, buffer: RowBuffer) -> None:
        """Write the rows in the buffer as a chunk."""
        stripe, n_rows = len(self._files.chunks) % len(self._files.blocks), buffer.n_rows
        file = self._files.blocks[stripe]
        file.skip_to(GRANULE)
        numbers = buffer.numbers()
        given = None if numbers is None else _append(file, numbers.T)
        by_row, by_column = buffer.bins()
        size = by_row.nbytes + by_column.nbytes
        rows: Block | None = None
        columns: tuple[Block, ...]
        if size <= self._left_unencoded:
            self._left_unencoded -= size
            file.skip_to(LARGE_PAGE if by_row.nbytes >= LARGE_PAGE else 1)
            rows, columns = _append(file, by_row), (_append(file, by_column),)
        else:
            self._left_unencoded = 0  # only the first chunks are mapped
            columns = tuple(
                file.append(*encode_column(column[:n_rows], self._lz4)) for column in by_column
            )
        self._files.chunks.append(ChunkRecord(n_rows, stripe, given, rows, columns))
        buffer.n_rows = 0


def _append(file: BlockFile, array: Any) -> Block:
    """Write an array at the start of a cache line."""
    file.skip_to(64)
    return file.append(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
