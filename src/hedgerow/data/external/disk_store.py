"""Training rows in chunks on disk.

::

    with ChunkSink(spec, cache_dir, memory_limit) as sink:     data.chunk_sink
        for ...:                                         batches of any size, in row order
            sink.append(bin_table(batch, spec), target, weight)
        store = sink.finish()                            a RowStore
    with store:
        store.begin(WorkShape())
        for chunk in store.chunks(): ...

Glossary
--------
stripe    a folder, and the thread that fetches its chunks
mapped    a chunk whose file has both layouts as in memory: pages are read when they
          are touched, and cost nothing while they are in the file cache
encoded   a chunk stored by column only, with columns of few bins packed; the thread
          of its stripe unpacks the columns and makes the rows from them
resident  a chunk that stays in memory: the first ones, as many as the limit allows
joined    all rows as a single resident chunk, if the limit allows that

The threads of the stripes work only where they save time: they unpack chunks, and read from
disk the chunks that are not in the file cache.  A chunk in the file cache is mapped by the
thread that uses it, in a few microseconds.

A mapped chunk takes two to four times the bytes of an encoded one, but needs no
computation.  So the first chunks, which the file cache is expected to hold, are mapped, and
the others are encoded.  ``benchmarks/disk_store.py`` measures both, see
docs/out-of-core-store.md.

The work (raw scores, gradients, row order) of resident chunks is in memory; the work of
other chunks is in files (:mod:`hedgerow.data.external.work_files`).  The first read of a
block verifies its checksum.  Files are in temporary folders
(:mod:`hedgerow.data.external.scratch`), which are deleted when the store is closed.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np

from hedgerow.arrays import AnyArray, BinArray, FloatArray, aligned_empty
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.binning.matrix import PAD, BinnedMatrix, tile_shape
from hedgerow.data.external.block_files import Block, BlockFile, fetch, let_go
from hedgerow.data.external.column_codec import RAW, ColumnDecoder
from hedgerow.data.external.memory_plan import RowShape, divide_memory, fits_in_one_chunk
from hedgerow.data.external.row_buffer import RowBuffer
from hedgerow.data.external.row_store import (
    ALL_BINS,
    EVERYTHING,
    Chunk,
    ChunkWork,
    Metadata,
    MetadataSizes,
    Uses,
    WorkShape,
)
from hedgerow.data.external.store_files import ChunkRecord, StoreFiles
from hedgerow.data.external.work_files import WorkBuffer, WorkFiles
from hedgerow.errors import StorageError
from hedgerow.kernels.histograms.packed_columns import gather_rows
from hedgerow.threads import work_ahead


class _View(NamedTuple):
    """A mapped chunk, whose pages the system loads and drops."""

    mapping: BinArray
    address: int
    metadata: Metadata
    matrix: BinnedMatrix | None


class _Loaded(NamedTuple):
    """A chunk in use, and the resources to release afterwards."""

    matrix: BinnedMatrix
    metadata: Metadata
    work: ChunkWork
    view: _View | None
    buffers: _Buffers | None
    work_buffer: WorkBuffer | None


class _Buffers(NamedTuple):
    """Memory for an unpacked chunk."""

    by_row: BinArray
    by_column: BinArray


class DiskStore:
    """Chunks on disk: a :class:`hedgerow.data.external.row_store.RowStore`.

    :meth:`hedgerow.data.external.chunk_sink.ChunkSink.finish` creates it.  A store serves any
    number of fits, one at a time.

    Parameters
    ----------
    files : StoreFiles
        Deleted by :meth:`close`.
    sizes : MetadataSizes
    spec : BinSpec
        One column for each feature: there are no bundles.
    memory_limit : int
        Memory of the store in bytes: chunks in use, resident chunks, and their work.
    first_row : int, default=0
        Number of rows of lower ranks; may be set while no pass is running.

    Attributes
    ----------
    spec : BinSpec
    files : StoreFiles
    chunk_sizes : list of int
        After :meth:`begin` a single one if all rows fit in memory.
    first_row : int
    memory_limit : int
    n_resident : int
        Number of resident chunks, determined by the last :meth:`begin`.

    Every method raises :class:`hedgerow.errors.StorageError` if a file cannot be read or
    written, or has changed.
    """

    def __init__(
        self,
        files: StoreFiles,
        sizes: MetadataSizes,
        spec: BinSpec,
        memory_limit: int,
        first_row: int = 0,
    ) -> None:
        self.spec, self.first_row, self.memory_limit = spec, first_row, memory_limit
        self.files, self._records, self._sizes = files, files.chunks, sizes
        self._n_columns, self._tile = spec.n_features, tile_shape(spec.n_features)
        self._set_sizes([record.n_rows for record in self._records])
        self._checked: set[int] = set()
        self._resident: dict[int, _Loaded] = {}
        self._decoders = [ColumnDecoder() for _ in files.blocks]
        self._free: list[_Buffers] = []
        self._lock = threading.Lock()
        self._passes: list[Generator[_Loaded, None, None]] = []
        self._work: WorkFiles | None = None
        self._work_shape = WorkShape(0)
        self._views: dict[int, _View] = {}
        self._clock = _FetchClock()
        self.n_resident = 0
        self._is_one_chunk = False
        self._closed = False

    def begin(self, shape: WorkShape) -> None:
        """Allocate the working arrays of a fit, with undefined contents.

        Raise ``ParameterError`` if the memory limit is too small for them.
        """
        self._check_open()
        row = RowShape(self._n_columns, self._sizes, shape)
        sizes = [record.n_rows for record in self._records]
        limit, n_stripes = self.memory_limit, len(self.files.blocks)
        plan = divide_memory(limit, row, n_stripes, max(sizes, default=1))
        is_one_chunk = len(sizes) <= plan.n_all and fits_in_one_chunk(limit, row, sizes)
        if is_one_chunk != self._is_one_chunk:
            self._is_one_chunk, self._resident = is_one_chunk, {}
        self._set_sizes([sum(sizes)] if is_one_chunk else sizes)
        n_chunks = len(self.chunk_sizes)
        self.n_resident = plan.resident_of(n_chunks)
        self._end_work()
        self._work_shape = shape
        self._resident = {
            n: loaded._replace(work=self._work_shape.new(self.chunk_sizes[n]))
            for n, loaded in self._resident.items()
            if n < self.n_resident
        }
        paths = [folder.path / f"work-{i}.bin" for i, folder in enumerate(self.files.folders)]
        on_disk = {n: self.chunk_sizes[n] for n in range(self.n_resident, n_chunks)}
        self._work = None if is_one_chunk else WorkFiles(paths, on_disk, self._work_shape)

    def chunks(
        self, numbers: Sequence[int] | None = None, uses: Uses = EVERYTHING
    ) -> Iterator[Chunk]:
        """Yield the chunks with these ascending numbers (default: all).

        Only one pass may run at a time.  Chunks have no work before :meth:`begin`.
        """
        self._check_open()
        wanted = range(len(self.chunk_sizes)) if numbers is None else numbers
        missing = [n for n in wanted if n not in self._resident]
        ahead = self._join(missing) if self._is_one_chunk else self._load_all(missing, uses)
        self._passes.append(ahead)
        try:
            for number in wanted:
                loaded = self._resident.get(number) or next(ahead)
                if number < self.n_resident:
                    self._resident[number] = loaded
                first_row = self.first_row + self._starts[number]
                try:
                    yield Chunk(number, first_row, loaded.matrix, *loaded.metadata, loaded.work)
                finally:
                    self._give_back(number, loaded, uses)
                del loaded
                self._check_open()
        finally:
            self._passes.remove(ahead)
            ahead.close()

    def close(self) -> None:
        """End passes and delete the files; a second call does nothing."""
        self._closed = True
        for ahead in self._passes:
            with contextlib.suppress(ValueError):  # the generator is running
                ahead.close()
        self._resident, self._views, self._free = {}, {}, []
        self._end_work()
        self.files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError("the store has been closed and its files deleted: make a new one.")

    def _set_sizes(self, sizes: Sequence[int]) -> None:
        self.chunk_sizes: Sequence[int] = sizes
        self._starts = list(itertools.accumulate(sizes, initial=0))

    def _end_work(self) -> None:
        if self._work is not None:
            self._work.close()
        self._work = None

    def _load_all(self, numbers: Sequence[int], uses: Uses) -> Generator[_Loaded, None, None]:
        """Load chunks in order; use the threads of the stripes if this may save time."""
        computed = uses.by_row or uses.columns is None or len(uses.columns) > 0
        encoded = computed and any(self._records[n].by_row is None for n in numbers)
        n_stripes = len(self.files.blocks)
        if encoded or self._clock.is_slow:
            self._clock.restart()
            return work_ahead(lambda n: self._load(n, uses), numbers, n_stripes)
        self._clock.restart()
        return (self._load(n, uses) for n in numbers)

    def _join(self, numbers: Sequence[int]) -> Generator[_Loaded, None, None]:
        """Copy the chunks of the files, one at a time, into the one that has all rows."""
        for number in numbers:
            n_rows = self.chunk_sizes[number]
            joined = RowBuffer(n_rows, self._n_columns, self._sizes)
            uses = ALL_BINS._replace(numbers=range(self._sizes.n_numbers))
            for part in range(len(self._records)):
                loaded = self._load(part, uses)
                joined.fill(loaded.matrix, loaded.metadata)
                self._give_back(part, loaded, uses)
            self._views, self._free = {}, []
            matrix, work = BinnedMatrix(*joined.bins(), self.spec), self._work_shape.new(n_rows)
            yield _Loaded(matrix, joined.metadata(), work, None, None, None)

    def _load(self, number: int, uses: Uses) -> _Loaded:
        """Load a chunk into memory."""
        record = self._records[number]
        file = self.files.blocks[record.file]
        if number not in self._checked:
            file.check(record.blocks)
            self._checked.add(number)
        if number < self.n_resident and not self._is_one_chunk:
            metadata, matrix = self._read_metadata(record, file), self._read_matrix(record, file)
            return _Loaded(matrix, metadata, self._work_shape.new(record.n_rows), None, None, None)
        view = self._views.get(number) or self._map(number)
        start, n_bytes = time.perf_counter(), 0
        shift = view.address - record.target.offset
        for offset, size in self._fetched(record, uses):
            fetch(shift + offset, size, file.path)
            n_bytes += size
        work, work_buffer = _NO_WORK, None
        if self._work is not None:
            work_buffer, n_read = self._work.load(number, uses)
            work = work_buffer.view(record.n_rows)
            n_bytes += n_read
        self._clock.note(n_bytes, time.perf_counter() - start)
        if view.matrix is not None:
            return _Loaded(view.matrix, view.metadata, work, view, None, work_buffer)
        buffers = self._take_buffers()
        matrix = self._decode(record, file, uses, buffers)
        return _Loaded(matrix, view.metadata, work, view, buffers, work_buffer)

    def _fetched(self, record: ChunkRecord, uses: Uses) -> Iterator[tuple[int, int]]:
        """Yield the offset and size of each part of a chunk that the pass uses."""
        start = record.target.offset
        yield start, record.metadata[-1].stop - start
        if record.numbers is not None:
            for j in uses.numbers:
                yield record.numbers.offset + 8 * j * record.n_rows, 8 * record.n_rows
        if record.by_row is not None:
            if uses.by_row:
                yield record.by_row.offset, record.by_row.size
            size = record.n_rows + PAD
            columns = range(self._n_columns) if uses.columns is None else uses.columns
            for j in columns:
                yield record.columns[0].offset + j * size, size

    def _map(self, number: int) -> _View:
        """Map a chunk."""
        record = self._records[number]
        file, start = self.files.blocks[record.file], record.target.offset
        plain = [block for block in record.given if block is not None]
        blocks = plain if record.by_row is None else record.blocks
        mapping = file.map(start, max(block.stop for block in blocks) - start)
        arrays = [
            None if block is None else _part(mapping, record, block).view(np.float64)
            for block in record.given
        ]
        matrix = None
        if record.by_row is not None:
            parts = [_part(mapping, record, b) for b in (record.by_row, record.columns[0])]
            matrix = self._matrix(record, *parts)
        view = _View(mapping, mapping.ctypes.data, _metadata_of(record, *arrays), matrix)
        self._views[number] = view
        return view

    def _give_back(self, number: int, loaded: _Loaded, uses: Uses) -> None:
        """Save the work of a chunk, and release its memory."""
        if loaded.buffers is not None:
            with self._lock:
                self._free.append(loaded.buffers)
        view = loaded.view
        if view is not None and not let_go(view.address, len(view.mapping)):
            self._views.pop(number, None)  # the memory is freed with the arrays
        if loaded.work_buffer is not None and self._work is not None:
            self._work.keep(number, loaded.work_buffer, uses)

    def _read_matrix(self, record: ChunkRecord, file: BlockFile) -> BinnedMatrix:
        if record.by_row is None:
            return self._decode(record, file, EVERYTHING, self._new_buffers(record.n_rows))
        parts = [aligned_empty(b.size, np.uint8) for b in (record.by_row, record.columns[0])]
        for block, part in zip((record.by_row, record.columns[0]), parts, strict=True):
            file.read_into(block.offset, part)
        return self._matrix(record, *parts)

    def _read_metadata(self, record: ChunkRecord, file: BlockFile) -> Metadata:
        arrays: list[FloatArray | None] = []
        for block in record.given:
            array = None
            if block is not None:
                array = aligned_empty(block.size // 8, np.float64)
                file.read_into(block.offset, array.view(np.uint8))
            arrays.append(array)
        return _metadata_of(record, *arrays)

    def _matrix(self, record: ChunkRecord, by_row: BinArray, by_column: BinArray) -> BinnedMatrix:
        """Return a matrix of bins that are stored in arrays at least as large."""
        n_tiles, _, width = self._tile
        n_rows, n_columns = record.n_rows + PAD, self._n_columns
        return BinnedMatrix(
            by_row[: n_tiles * n_rows * width].reshape(n_tiles, n_rows, width),
            by_column[: n_columns * n_rows].reshape(n_columns, n_rows),
            self.spec,
        )

    def _decode(
        self, record: ChunkRecord, file: BlockFile, uses: Uses, buffers: _Buffers
    ) -> BinnedMatrix:
        """Unpack the columns that the pass uses, and make rows from them."""
        matrix = self._matrix(record, *buffers)
        decoder = self._decoders[record.file]
        by_column, n_rows = matrix.by_column, record.n_rows
        everything = uses.by_row or uses.columns is None
        for j in range(len(by_column)) if everything else uses.columns or ():
            block, column = record.columns[j], by_column[j]
            if block.codec == RAW:
                file.read_into(block.offset, column[:n_rows])
            else:
                data = aligned_empty(block.size, np.uint8)
                file.read_into(block.offset, data)
                decoder.decode(data, block.codec, n_rows, column)
            column[n_rows:] = 0
        if uses.by_row:
            gather_rows(by_column, self._tile[1], matrix.by_row)
        return matrix

    def _new_buffers(self, n_rows: int) -> _Buffers:
        n_tiles, _, width = self._tile
        by_row = aligned_empty(n_tiles * (n_rows + PAD) * width, np.uint8)
        return _Buffers(by_row, aligned_empty(self._n_columns * (n_rows + PAD), np.uint8))

    def _take_buffers(self) -> _Buffers:
        with self._lock:
            if self._free:
                return self._free.pop()
        return self._new_buffers(max(record.n_rows for record in self._records))


_NO_WORK = WorkShape(0).new(0)


def _part(mapping: BinArray, record: ChunkRecord, block: Block) -> BinArray:
    start = block.offset - record.target.offset
    return mapping[start : start + block.size]


def _metadata_of(
    record: ChunkRecord,
    target: AnyArray | None,
    weight: AnyArray | None,
    offset: AnyArray | None,
    numbers: AnyArray | None,
) -> Metadata:
    assert target is not None
    targets = target.reshape(-1, record.n_rows)
    kept = None if offset is None else offset.reshape(-1, record.n_rows)
    values = None if numbers is None else numbers.reshape(-1, record.n_rows).T
    return Metadata(targets[0] if len(targets) == 1 else targets.T, weight, kept, values)


class _FetchClock:
    """Timer that tells whether chunks come from a disk (slow) or the file cache (fast)."""

    _FAST = 4e9  # bytes per second: disks are slower, mapping of cached pages is faster
    _CALL = 1e-4  # seconds allowed for a chunk of any size

    def __init__(self) -> None:
        self._seconds, self._allowed = 1.0, 0.0  # the first pass reads from a disk

    def restart(self) -> None:
        self._seconds, self._allowed = 0.0, 0.0

    def note(self, n_bytes: int, seconds: float) -> None:
        """Record the time in which a chunk was fetched."""
        self._allowed += self._CALL + n_bytes / self._FAST
        self._seconds += seconds

    @property
    def is_slow(self) -> bool:
        """Whether prefetching would have been worthwhile in the last pass."""
        return self._seconds > self._allowed
