"""Training rows in chunks on disk.

::

    with ChunkSink(spec, cache_dir, memory_limit) as sink:     data.chunk_sink
        for ...:                                         batches of any size, in row order
            sink.append(bin_table(batch, spec), target, weight)
        store = sink.finish()                            a RowStore
    with store:
        store.begin(n_outputs=1, keeps_probability=False)
        for chunk in store.chunks(): ...

Glossary
--------
stripe    a folder, and the thread that fetches the chunks in it
mapped    a chunk with both layouts in the file as they are in memory: its pages are
          read when they are touched, and cost nothing while the file cache has them
encoded   a chunk that is stored by column only, columns of few bins packed; the
          thread of its lane unpacks it and makes the rows from the columns
resident  a chunk that stays in memory: the first ones, as many as the limit allows

The threads of the lanes are used where they gain something: to unpack, and to read from
the disk what the file cache has not kept.  What it has kept is mapped by the thread that
uses it, in a few microseconds a chunk.

A mapped chunk takes two to four times the bytes of an encoded one, and nothing has to be
computed.  So chunks are mapped as long as the file cache may be expected to hold them,
and encoded beyond that.  ``benchmarks/disk_store.py`` measures both, see
docs/out-of-core-store.md.

Work (raw scores, gradients, row order) of resident chunks is in memory, that of the
others in files (:mod:`hedgerow.data.external.work_files`).  What is read from a file is compared
with its checksum the first time.  Files lie in temporary folders
(:mod:`hedgerow.data.external.scratch`) and are gone when the store is closed.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np

from hedgerow.arrays import AnyArray, BinArray, FloatArray, aligned_empty
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.binning.bundles import Layout
from hedgerow.data.binning.matrix import PAD, BinnedMatrix
from hedgerow.data.external.block_files import Block, BlockFile, fetch, let_go
from hedgerow.data.external.column_codec import RAW, ColumnDecoder
from hedgerow.data.external.manifest import ChunkRecord, digest_of, read_manifest
from hedgerow.data.external.memory_plan import RowShape, divide_memory
from hedgerow.data.external.row_store import EVERYTHING, Chunk, ChunkWork, Uses
from hedgerow.data.external.scratch import ScratchFolder
from hedgerow.data.external.work_files import WorkBuffer, WorkFiles, WorkShape
from hedgerow.errors import StorageError
from hedgerow.kernels.histograms.packed_columns import gather_rows
from hedgerow.threads import work_ahead


class _Given(NamedTuple):
    """What the caller has given with the rows."""

    target: FloatArray
    weight: FloatArray | None
    offset: FloatArray | None


class _View(NamedTuple):
    """A chunk as seen through a mapping; its pages come and go."""

    mapping: BinArray
    address: int
    given: _Given
    matrix: BinnedMatrix | None


class _Loaded(NamedTuple):
    """A chunk to work on, and what is to be given back after that."""

    matrix: BinnedMatrix
    given: _Given
    work: ChunkWork
    view: _View | None
    buffers: _Buffers | None
    work_buffer: WorkBuffer | None


class _Buffers(NamedTuple):
    """Where an encoded chunk is unpacked to."""

    by_row: BinArray
    by_column: BinArray


@dataclass(frozen=True, slots=True)
class StoreFiles:
    """What a sink hands over to a store.

    Attributes
    ----------
    folders : list of ScratchFolder
        One for each lane.
    blocks : list of BlockFile
        The file of each lane.
    manifest : Path
    """

    folders: list[ScratchFolder]
    blocks: list[BlockFile]
    manifest: Path

    def close(self) -> None:
        """Delete all."""
        for file in self.blocks:
            file.close()
        for folder in self.folders:
            folder.close()


class DiskStore:
    """Chunks on disk: a :class:`hedgerow.data.external.row_store.RowStore`.

    Made by :meth:`hedgerow.data.external.chunk_sink.ChunkSink.finish`.  Serves one fit at a time,
    any number in turn.

    Parameters
    ----------
    files : StoreFiles
        Deleted by :meth:`close`.
    spec : BinSpec
    layout : Layout or None
        Of bundles.
    memory_limit : int
        Bytes that the store may take up: chunks in use, resident chunks, and their work.
    first_row : int, default=0
        May be set as long as no pass is going on.

    Attributes
    ----------
    spec : BinSpec
    chunk_sizes : list of int
    first_row : int
    memory_limit : int
    n_resident : int
        Chunks that stay in memory, since the last :meth:`begin`.

    Every method raises :class:`hedgerow.errors.StorageError` if a file cannot be read or
    written, or has changed.
    """

    def __init__(
        self,
        files: StoreFiles,
        spec: BinSpec,
        layout: Layout | None,
        memory_limit: int,
        first_row: int = 0,
    ) -> None:
        manifest = read_manifest(files.manifest)
        if manifest.spec != digest_of(spec):
            raise StorageError(f"{files.manifest} belongs to other bins: start again.")
        self.spec, self.first_row, self.memory_limit = spec, first_row, memory_limit
        self._files, self._layout, self._manifest = files, layout, manifest
        self._records = manifest.chunks
        self.chunk_sizes: Sequence[int] = [record.n_rows for record in self._records]
        self._starts = list(itertools.accumulate(self.chunk_sizes, initial=0))
        self._checked: set[int] = set()
        self._resident: dict[int, _Loaded] = {}
        self._decoders = [ColumnDecoder() for _ in files.blocks]
        self._free: list[_Buffers] = []
        self._lock = threading.Lock()
        self._passes: list[Generator[_Loaded, None, None]] = []
        self._work: WorkFiles | None = None
        self._work_shape = WorkShape(0, False)
        self._views: dict[int, _View] = {}
        self._clock = _Clock()
        self.n_resident = 0
        self._closed = False

    def begin(self, n_outputs: int, keeps_probability: bool) -> None:
        """Make room for the work of a fit; contents are undefined.

        Parameters
        ----------
        n_outputs : int
            Raw scores of a row.
        keeps_probability : bool
            Whether there are probabilities as well.

        Raises
        ------
        ParameterError
            If the memory limit is too small for so many outputs.
        """
        self._check_open()
        given = self._manifest
        n_tiles, _, width = given.tile
        weighted = any(record.weight is not None for record in self._records)
        shape = RowShape(
            given.n_columns, n_tiles, width, weighted, given.n_offsets, n_outputs, keeps_probability
        )
        n_stripes, n_chunks = len(self._files.blocks), len(self._records)
        most = max(self.chunk_sizes, default=1)
        plan = divide_memory(self.memory_limit, shape, n_stripes, most)
        self.n_resident = plan.resident_of(n_chunks)
        self._end_work()
        self._work_shape = WorkShape(n_outputs, keeps_probability)
        self._resident = {
            n: loaded._replace(work=self._work_shape.new(self.chunk_sizes[n]))
            for n, loaded in self._resident.items()
            if n < self.n_resident
        }
        paths = [folder.path / f"work-{i}.bin" for i, folder in enumerate(self._files.folders)]
        on_disk = {n: self.chunk_sizes[n] for n in range(self.n_resident, n_chunks)}
        self._work = WorkFiles(paths, on_disk, self._work_shape)

    def chunks(
        self, numbers: Sequence[int] | None = None, uses: Uses = EVERYTHING
    ) -> Iterator[Chunk]:
        """The chunks with these numbers, ascending (default: all).

        One pass at a time.  Before :meth:`begin` there is no work.

        Parameters
        ----------
        numbers : sequence of int, optional
        uses : Uses, default=EVERYTHING
            Bins that the pass reads.

        Yields
        ------
        Chunk
            Its arrays may be used until the next one is asked for.
        """
        self._check_open()
        wanted = range(len(self._records)) if numbers is None else numbers
        ahead = self._load_all([n for n in wanted if n not in self._resident], uses)
        self._passes.append(ahead)
        try:
            for number in wanted:
                loaded = self._resident.get(number) or next(ahead)
                if number < self.n_resident:
                    self._resident[number] = loaded
                first_row = self.first_row + self._starts[number]
                try:
                    yield Chunk(number, first_row, loaded.matrix, *loaded.given, loaded.work)
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
            with contextlib.suppress(ValueError):  # it is just giving out a chunk
                ahead.close()
        self._resident, self._views, self._free = {}, {}, []
        self._end_work()
        self._files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError("the store has been closed and its files deleted: make a new one.")

    def _end_work(self) -> None:
        if self._work is not None:
            self._work.close()
        self._work = None

    def _load_all(self, numbers: Sequence[int], uses: Uses) -> Generator[_Loaded, None, None]:
        """Load chunks one after the other, in the threads of their lanes if that may pay."""
        computed = uses.by_row or uses.columns is None or len(uses.columns) > 0
        encoded = computed and any(self._records[n].by_row is None for n in numbers)
        n_stripes = len(self._files.blocks)
        if encoded or self._clock.is_slow:
            self._clock.restart()
            return work_ahead(lambda n: self._load(n, uses), numbers, n_stripes)
        self._clock.restart()
        return (self._load(n, uses) for n in numbers)

    def _load(self, number: int, uses: Uses) -> _Loaded:
        """Bring a chunk into memory."""
        record = self._records[number]
        file = self._files.blocks[record.file]
        if number not in self._checked:
            file.check(record.blocks)
            self._checked.add(number)
        if number < self.n_resident:
            given, matrix = self._read_given(record, file), self._read_matrix(record, file)
            return _Loaded(matrix, given, self._work_shape.new(record.n_rows), None, None, None)
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
            return _Loaded(view.matrix, view.given, work, view, None, work_buffer)
        buffers = self._take_buffers()
        matrix = self._decode(record, file, uses, buffers)
        return _Loaded(matrix, view.given, work, view, buffers, work_buffer)

    def _fetched(self, record: ChunkRecord, uses: Uses) -> Iterator[tuple[int, int]]:
        """Parts of the mapping of a chunk that are used: where they begin, and bytes."""
        start = record.target.offset
        yield start, record.given[-1].stop - start
        if record.by_row is not None:
            if uses.by_row:
                yield record.by_row.offset, record.by_row.size
            size = record.n_rows + PAD
            columns = range(self._manifest.n_columns) if uses.columns is None else uses.columns
            for j in columns:
                yield record.columns[0].offset + j * size, size

    def _map(self, number: int) -> _View:
        """Map a chunk."""
        record = self._records[number]
        file, start = self._files.blocks[record.file], record.target.offset
        blocks = record.given if record.by_row is None else record.blocks
        mapping = file.map(start, max(block.stop for block in blocks) - start)
        arrays = [
            None if block is None else _part(mapping, record, block).view(np.float64)
            for block in (record.target, record.weight, record.offset)
        ]
        matrix = None
        if record.by_row is not None:
            parts = [_part(mapping, record, b) for b in (record.by_row, record.columns[0])]
            matrix = self._matrix(record, *parts)
        view = _View(mapping, mapping.ctypes.data, _shaped(record, *arrays), matrix)
        self._views[number] = view
        return view

    def _give_back(self, number: int, loaded: _Loaded, uses: Uses) -> None:
        """Keep the work of a chunk, and free what it has taken up."""
        if loaded.buffers is not None:
            with self._lock:
                self._free.append(loaded.buffers)
        view = loaded.view
        if view is not None and not let_go(view.address, len(view.mapping)):
            self._views.pop(number, None)  # the memory goes with the arrays
        if loaded.work_buffer is not None and self._work is not None:
            self._work.keep(number, loaded.work_buffer, uses)

    def _read_matrix(self, record: ChunkRecord, file: BlockFile) -> BinnedMatrix:
        if record.by_row is None:
            return self._decode(record, file, EVERYTHING, self._new_buffers(record.n_rows))
        parts = [aligned_empty(b.size, np.uint8) for b in (record.by_row, record.columns[0])]
        for block, part in zip((record.by_row, record.columns[0]), parts, strict=True):
            file.read_into(block.offset, part)
        return self._matrix(record, *parts)

    def _read_given(self, record: ChunkRecord, file: BlockFile) -> _Given:
        arrays: list[FloatArray | None] = []
        for block in (record.target, record.weight, record.offset):
            array = None
            if block is not None:
                array = aligned_empty(block.size // 8, np.float64)
                file.read_into(block.offset, array.view(np.uint8))
            arrays.append(array)
        return _shaped(record, *arrays)

    def _matrix(self, record: ChunkRecord, by_row: BinArray, by_column: BinArray) -> BinnedMatrix:
        """Bins in the shapes of a matrix, of arrays at least as large."""
        n_tiles, _, width = self._manifest.tile
        n_rows, n_columns = record.n_rows + PAD, self._manifest.n_columns
        return BinnedMatrix(
            by_row[: n_tiles * n_rows * width].reshape(n_tiles, n_rows, width),
            by_column[: n_columns * n_rows].reshape(n_columns, n_rows),
            self.spec,
            self._layout,
            record.n_lost,
        )

    def _decode(
        self, record: ChunkRecord, file: BlockFile, uses: Uses, buffers: _Buffers
    ) -> BinnedMatrix:
        """Unpack the columns that are used, and make rows of them."""
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
            gather_rows(by_column, self._manifest.tile[1], matrix.by_row)
        return matrix

    def _new_buffers(self, n_rows: int) -> _Buffers:
        n_tiles, _, width = self._manifest.tile
        by_row = aligned_empty(n_tiles * (n_rows + PAD) * width, np.uint8)
        return _Buffers(by_row, aligned_empty(self._manifest.n_columns * (n_rows + PAD), np.uint8))

    def _take_buffers(self) -> _Buffers:
        with self._lock:
            if self._free:
                return self._free.pop()
        return self._new_buffers(max(self.chunk_sizes))


class _Clock:
    """How fast chunks are fetched: slowly from a disk, at once from the file cache."""

    _FAST = 4e9  # bytes a second; no disk is as fast, and mapping cached pages faster
    _CALL = 1e-4  # seconds that a chunk may take whatever its size

    def __init__(self) -> None:
        self._seconds, self._allowed = 1.0, 0.0  # the first pass is from a disk

    def restart(self) -> None:
        self._seconds, self._allowed = 0.0, 0.0

    def note(self, n_bytes: int, seconds: float) -> None:
        """A chunk has been fetched."""
        self._allowed += self._CALL + n_bytes / self._FAST
        self._seconds += seconds

    @property
    def is_slow(self) -> bool:
        """Whether the chunks of the last pass were worth to be fetched ahead of use."""
        return self._seconds > self._allowed


_NO_WORK = WorkShape(0, False).new(0)


def _part(mapping: BinArray, record: ChunkRecord, block: Block) -> BinArray:
    start = block.offset - record.target.offset
    return mapping[start : start + block.size]


def _shaped(
    record: ChunkRecord,
    target: AnyArray | None,
    weight: AnyArray | None,
    offset: AnyArray | None,
) -> _Given:
    assert target is not None
    kept = None if offset is None else offset.reshape(-1, record.n_rows)
    return _Given(target, weight, kept)
