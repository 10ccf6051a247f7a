"""Bins of training rows in chunks on disk.

::

    with ChunkSink(spec, cache_dir, memory_limit) as sink:
        for ...:                                         batches of any size, in row order
            sink.append(bin_table(batch, spec))
        store = sink.finish()                            a ChunkStore
    with store:
        for chunk in store.chunks(): ...

A pass goes through the chunks in order, one at a time; meanwhile the store prefetches the next.

Glossary
--------
chunk     consecutive rows with their bins, few enough to be processed together
store     all chunks of a process
stripe    a folder, and the thread that fetches its chunks
mapped    a chunk whose file has both layouts as in memory: pages are read when they
          are touched, and cost nothing while they are in the file cache
encoded   a chunk stored by column only, compressed by LZ4 where that saves a fifth; the
          thread of its stripe unpacks the columns and makes the rows from them
resident  a chunk that stays in memory: the first ones, as many as the limit allows
joined    all rows as a single resident chunk, if the limit allows that

The threads of the stripes unpack chunks.  A mapped chunk needs none: the thread that uses it maps
it, in a few microseconds if it is in the file cache.

A mapped chunk takes two to four times the bytes of an encoded one, but needs no
computation.  So the first chunks, which the file cache is expected to hold, are mapped, and
the others are encoded.  ``benchmarks/disk_store.py`` measures both, see
docs/out-of-core-store.md.

Only bins are in chunks.  Targets, weights, raw scores, gradients and whatever else a row has are
arrays of all rows (:meth:`ChunkStore.row_array`).
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import threading
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, BinArray, FloatArray, aligned_empty, aligned_zeros
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.binning.matrix import PAD, BinnedMatrix, tile_shape
from hedgerow.data.external import block_files as bf
from hedgerow.data.external.memory import available_memory
from hedgerow.data.external.memory_plan import RowShape, divide_memory, fits_in_one_chunk
from hedgerow.errors import StorageError
from hedgerow.kernels.histograms.row_layout import gather_rows
from hedgerow.threads import work_ahead


class Uses(NamedTuple):
    """What a pass reads; a store on disk loads nothing else, and everything else is undefined.

    by_row   whether the pass reads ``matrix.by_row``
    columns  rows of ``matrix.by_column`` that it reads; None means all
    numbers  columns of the chunk's ``numbers`` that it reads
    """

    by_row: bool = True
    columns: Sequence[int] | None = None
    numbers: Sequence[int] = ()


EVERYTHING = Uses()
ROWS_ONLY = Uses(columns=())


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """A chunk of rows; its arrays are valid until the next chunk is requested."""

    number: int  # position in the store
    start: int  # number of its first row among the rows of the store
    matrix: BinnedMatrix  # bins in both layouts
    # float64 (n_rows, n_features) in Fortran order, or None; values of the columns, for linear
    # leaves
    numbers: FloatArray | None

    @property
    def n_rows(self) -> int:
        return self.matrix.n_rows

    @property
    def rows(self) -> slice:
        """The place of the rows in arrays of all rows."""
        return slice(self.start, self.start + self.n_rows)


@dataclass(frozen=True, slots=True)
class ChunkRecord:
    """Blocks of a chunk."""

    n_rows: int
    file: int  # index of the file with the blocks
    # what is stored as in memory: numbers, one column after the other, if there are any; and bins
    # by row and by column, unless the chunk is encoded
    mapped: tuple[bf.Block, ...]
    columns: tuple[bf.Block, ...]  # of an encoded chunk


class RowBuffer:
    """Rows with a bin for each column, and their numbers.

    The caller sets ``n_rows`` to 0 to reuse the memory.
    """

    def __init__(self, capacity: int, n_columns: int, n_numbers: int) -> None:
        self.capacity, self.n_rows = capacity, 0
        n_tiles, _, width = tile_shape(n_columns)
        self._by_row = aligned_zeros((n_tiles, capacity + PAD, width), np.uint8)
        self._by_column = aligned_zeros((n_columns, capacity + PAD), np.uint8)
        self._numbers = np.zeros((n_numbers, capacity))

    def fill(self, matrix: BinnedMatrix, numbers: FloatArray | None, start: int = 0) -> int:
        """Copy rows from ``start`` on until the buffer is full; return the number of rows."""
        n_taken = min(self.capacity - self.n_rows, matrix.n_rows - start)
        to, source = slice(self.n_rows, self.n_rows + n_taken), slice(start, start + n_taken)
        self._by_row[:, to] = matrix.by_row[:, source]
        self._by_column[:, to] = matrix.by_column[:, source]
        if numbers is not None:
            self._numbers[:, to] = numbers[source].T
        self.n_rows += n_taken
        return n_taken

    def bins(self) -> tuple[BinArray, BinArray]:
        """Return both layouts of the rows in the buffer, followed by zeros."""
        stop = self.n_rows + PAD
        self._by_row[:, self.n_rows : stop] = 0
        self._by_column[:, self.n_rows : stop] = 0
        return self._by_row[:, :stop], self._by_column[:, :stop]

    def numbers(self) -> FloatArray | None:
        """Return the numbers of the rows in the buffer, in Fortran order."""
        return self._numbers[:, : self.n_rows].T if len(self._numbers) else None


_Buffers: TypeAlias = tuple[BinArray, BinArray]
"""Memory for the bins of an unpacked chunk, by row and by column."""


class _Loaded(NamedTuple):
    """A chunk in use, and the buffers to give back afterwards."""

    matrix: BinnedMatrix
    numbers: FloatArray | None
    buffers: _Buffers | None


class ChunkStore:
    """Chunks on disk; they serve any number of fits, one at a time.

    ``memory_limit`` are the bytes of chunks in use and of the first ``n_resident`` chunks.
    """

    def __init__(
        self,
        files: Sequence[bf.BlockFile],  # that of each stripe
        records: Sequence[ChunkRecord],
        shape: RowShape,
        spec: BinSpec,
        memory_limit: int,
    ) -> None:
        self.spec, self.memory_limit = spec, memory_limit
        self.files, self.records, self._shape = files, records, shape
        self._tile = tile_shape(spec.n_features)
        sizes = [record.n_rows for record in records]
        plan = divide_memory(memory_limit, shape, len(files), max(sizes, default=1))
        self._is_one_chunk = fits_in_one_chunk(memory_limit, shape, sizes)
        self.chunk_sizes: Sequence[int] = [sum(sizes)] if self._is_one_chunk else sizes
        self.n_resident = plan.resident_of(len(self.chunk_sizes))
        self._row_room = memory_limit
        self._resident: dict[int, _Loaded] = {}
        self._lz4 = [bf.find_lz4() for _ in files]  # of each stripe's thread
        self._free: list[_Buffers] = []
        self._lock = threading.Lock()
        self._passes: list[Generator[_Loaded, None, None]] = []
        self._closed = False

    @property
    def n_rows(self) -> int:
        return sum(self.chunk_sizes)

    @property
    def n_features(self) -> int:
        """Number of features, each of which has a column of bins."""
        return self.spec.n_features

    n_columns = n_features

    def row_array(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> AnyArray:
        """Allocate values of rows, which are undefined: in memory, beyond its limit in a file."""
        self._check_open()
        size = math.prod(np.atleast_1d(shape).tolist()) * np.dtype(dtype).itemsize
        self._row_room -= size
        if self._row_room >= 0:
            return aligned_empty(shape, dtype)
        return bf.mapped_array(self.files[0].folder, shape, dtype)

    def chunks(
        self, numbers: Sequence[int] | None = None, uses: Uses = EVERYTHING
    ) -> Iterator[Chunk]:
        """Yield the chunks with these ascending numbers (default: all), one pass at a time."""
        self._check_open()
        wanted = range(len(self.chunk_sizes)) if numbers is None else numbers
        starts = list(itertools.accumulate(self.chunk_sizes, initial=0))
        for number in wanted:
            if number < self.n_resident and number not in self._resident:
                self._resident[number] = self._copied(number)
                self._free = []
        read = [number for number in wanted if number >= self.n_resident]
        ahead = (self._load(number, uses) for number in read)
        unpacks = uses.by_row or uses.columns is None or len(uses.columns) > 0
        if unpacks and any(self.records[number].columns for number in read):
            ahead = work_ahead(lambda n: self._load(n, uses), read, len(self.files))
        self._passes.append(ahead)
        try:
            for number in wanted:
                loaded = self._resident.get(number) or next(ahead)
                try:
                    yield Chunk(number, starts[number], loaded.matrix, loaded.numbers)
                finally:
                    self._give_back(loaded)
                del loaded
                self._check_open()
        finally:
            self._passes.remove(ahead)
            ahead.close()

    def close(self) -> None:
        """Free memory, threads and temporary files; a second call does nothing."""
        self._closed = True
        for ahead in self._passes:
            with contextlib.suppress(ValueError):  # the generator is running
                ahead.close()
        self._resident, self._free = {}, []
        for file in self.files:
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError("the store has been closed and its files deleted: make a new one.")

    def _copied(self, number: int) -> _Loaded:
        """Copy a resident chunk into memory: one of the files, or all of them joined."""
        joined = RowBuffer(self.chunk_sizes[number], self.n_columns, self._shape.n_numbers)
        uses = EVERYTHING._replace(numbers=range(self._shape.n_numbers))
        for part in range(len(self.records)) if self._is_one_chunk else (number,):
            loaded = self._load(part, uses)
            joined.fill(loaded.matrix, loaded.numbers)
            self._give_back(loaded)
        matrix = BinnedMatrix(*joined.bins(), self.spec)
        return _Loaded(matrix, joined.numbers(), None)

    def _load(self, number: int, uses: Uses) -> _Loaded:
        """Map what a chunk has in its file as in memory, and unpack the rest."""
        record = self.records[number]
        file, numbers, parts = self.files[record.file], None, list[BinArray]()
        if record.mapped:
            start = record.mapped[0].offset
            mapping = file.map(start, record.mapped[-1].stop - start)
            parts = [mapping[block.offset - start : block.stop - start] for block in record.mapped]
        if self._shape.n_numbers > 0:
            numbers = parts.pop(0).view(np.float64).reshape(-1, record.n_rows).T
        if not record.columns:
            return _Loaded(self._matrix(record, *parts), numbers, None)
        with self._lock:
            buffers = self._free.pop() if self._free else None
        if buffers is None:
            n_tiles, _, width = self._tile
            n_rows = max(record.n_rows for record in self.records) + PAD
            by_row = aligned_empty(n_tiles * n_rows * width, np.uint8)
            buffers = by_row, aligned_empty(self.n_columns * n_rows, np.uint8)
        return _Loaded(self._decode(record, file, uses, buffers), numbers, buffers)

    def _give_back(self, loaded: _Loaded) -> None:
        if loaded.buffers is not None:
            with self._lock:
                self._free.append(loaded.buffers)

    def _matrix(self, record: ChunkRecord, by_row: BinArray, by_column: BinArray) -> BinnedMatrix:
        """Return a matrix of bins that are stored in arrays at least as large."""
        n_tiles, _, width = self._tile
        n_rows, n_columns = record.n_rows + PAD, self.n_columns
        return BinnedMatrix(
            by_row[: n_tiles * n_rows * width].reshape(n_tiles, n_rows, width),
            by_column[: n_columns * n_rows].reshape(n_columns, n_rows),
            self.spec,
        )

    def _decode(
        self, record: ChunkRecord, file: bf.BlockFile, uses: Uses, buffers: _Buffers
    ) -> BinnedMatrix:
        """Unpack the columns that the pass uses, and make rows from them."""
        matrix, lz4 = self._matrix(record, *buffers), self._lz4[record.file]
        by_column, n_rows = matrix.by_column, record.n_rows
        everything = uses.by_row or uses.columns is None
        for j in range(len(by_column)) if everything else uses.columns or ():
            block, column = record.columns[j], by_column[j]
            if block.size == n_rows:  # as it is
                file.read_into(block.offset, column[:n_rows])
            else:
                assert lz4 is not None  # this process has compressed the column
                data = aligned_empty(block.size, np.uint8)
                file.read_into(block.offset, data)
                column[:n_rows] = np.frombuffer(lz4.decompress(data, n_rows), dtype=np.uint8)
            column[n_rows:] = 0
        if uses.by_row:
            gather_rows(by_column, self._tile[1], matrix.by_row)
        return matrix


Compression = Literal["auto", "none", "always"]

_WORTH = 0.8  # largest size of a compressed column, as a fraction


class ChunkSink:
    """Writer that takes binned rows in batches of any size and writes chunks of equal size.

    There is a file in each folder of ``cache_dir``; chunks are distributed over them in turn, and
    each has its own thread that fetches its chunks.  ``memory_limit`` bytes are for the
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
        self._lz4 = None if compression == "none" else bf.find_lz4()
        # The system is expected to keep half of the free memory as file cache.
        uncoded = {"auto": available_memory() // 2, "none": 1 << 62, "always": 0}
        self._left_unencoded = uncoded[compression]
        self._buffer: RowBuffer | None = None
        self._is_finished = False
        self._files, self._records = list[bf.BlockFile](), list[ChunkRecord]()
        self._plan_rows(len(cache_dir))  # check the limit before making files
        self._files += map(bf.BlockFile, cache_dir)

    def append(self, matrix: BinnedMatrix, numbers: FloatArray | None = None) -> None:
        """Add the next rows."""
        assert matrix.spec is self._spec
        assert matrix.layout is None
        assert not matrix.paired
        n_numbers = 0 if numbers is None else numbers.shape[1]
        if self._buffer is None:
            self._shape = replace(self._shape, n_numbers=n_numbers)
            rows = self._plan_rows(len(self._files))
            self._buffer = RowBuffer(rows, self._spec.n_features, n_numbers)
        assert n_numbers == self._shape.n_numbers
        start = 0
        while start < matrix.n_rows:
            start += self._buffer.fill(matrix, numbers, start)
            if self._buffer.n_rows == self._buffer.capacity:
                self._write(self._buffer)

    def finish(self) -> ChunkStore:
        """Write the last chunk; return a store that owns the files."""
        if self._buffer is not None and self._buffer.n_rows > 0:
            self._write(self._buffer)
        self._is_finished, self._buffer = True, None
        return ChunkStore(self._files, self._records, self._shape, self._spec, self._limit)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for file in self._files if not self._is_finished else ():
            file.close()

    def _plan_rows(self, n_stripes: int) -> int:
        """Return the number of rows of a chunk."""
        return divide_memory(self._limit, self._shape, n_stripes, self._requested_rows).chunk_rows

    def _write(self, buffer: RowBuffer) -> None:
        """Write the rows in the buffer as a chunk."""
        stripe, n_rows = len(self._records) % len(self._files), buffer.n_rows
        file = self._files[stripe]
        file.skip_to(bf.GRANULE)
        numbers, columns = buffer.numbers(), list[bf.Block]()
        mapped = [] if numbers is None else [_append(file, numbers.T)]
        by_row, by_column = buffer.bins()
        size = by_row.nbytes + by_column.nbytes
        if size <= self._left_unencoded:
            self._left_unencoded -= size
            file.skip_to(bf.LARGE_PAGE if by_row.nbytes >= bf.LARGE_PAGE else 1)
            mapped += [_append(file, by_row), _append(file, by_column)]
        else:
            self._left_unencoded = 0  # only the first chunks are mapped
            for column in by_column[:, :n_rows]:
                data = column
                if self._lz4 is not None:
                    packed = np.frombuffer(self._lz4.compress(column), dtype=np.uint8)
                    data = packed if len(packed) <= _WORTH * n_rows else column
                columns.append(file.append(data))
        self._records.append(ChunkRecord(n_rows, stripe, tuple(mapped), tuple(columns)))
        buffer.n_rows = 0


def _append(file: bf.BlockFile, array: Any) -> bf.Block:
    """Write an array at the start of a cache line."""
    file.skip_to(64)
    return file.append(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
