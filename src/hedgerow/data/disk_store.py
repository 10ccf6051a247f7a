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
lane      a folder, and the thread that fetches the chunks in it
mapped    a chunk with both layouts in the file as they are in memory: its pages are
          read when they are touched, and cost nothing while the file cache has them
encoded   a chunk that is stored by column only, columns of few bins packed; the
          thread of its lane unpacks it and makes the rows from the columns
resident  a chunk that stays in memory: the first ones, as many as the limit allows

A mapped chunk takes two to four times the bytes of an encoded one, and nothing has to be
computed.  So chunks are mapped as long as the file cache may be expected to hold them,
and encoded beyond that.  ``benchmarks/disk_store.py`` measures both, see
docs/out-of-core-store.md.

Work (raw scores, gradients, row order) of resident chunks is in memory, that of the
others in mapped files with space reserved for them.  What is read from a file is compared
with its checksum the first time.  Files lie in temporary folders
(:mod:`hedgerow.data.scratch`) and are gone when the store is closed.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np

from hedgerow.arrays import AnyArray, BinArray, FloatArray, aligned_empty
from hedgerow.data.bins import BinSpec
from hedgerow.data.block_files import GRANULE, Block, BlockFile, fetch
from hedgerow.data.bundles import Layout
from hedgerow.data.column_codec import RAW, ColumnDecoder
from hedgerow.data.manifest import ChunkRecord, digest_of, read_manifest
from hedgerow.data.matrix import PAD, BinnedMatrix
from hedgerow.data.memory_plan import RowShape, divide_memory
from hedgerow.data.row_store import EVERYTHING, Chunk, ChunkWork, Uses
from hedgerow.data.scratch import ScratchFolder
from hedgerow.errors import StorageError
from hedgerow.kernels.packed_columns import gather_rows
from hedgerow.threads import work_ahead

_LINE = 64


class _Given(NamedTuple):
    """What the caller has given with the rows."""

    target: FloatArray
    weight: FloatArray | None
    offset: FloatArray | None


class _Loaded(NamedTuple):
    """A chunk in memory, and the buffers that are to be used again."""

    matrix: BinnedMatrix
    given: _Given
    work: ChunkWork
    buffers: _Buffers | None


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
    """Chunks on disk: a :class:`hedgerow.data.row_store.RowStore`.

    Made by :meth:`hedgerow.data.chunk_sink.ChunkSink.finish`.  Serves one fit at a time,
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
        self._work: list[_WorkFile] = []
        self._n_outputs, self._keeps_probability = 0, False
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
        n_lanes, n_chunks = len(self._files.blocks), len(self._records)
        most = max(self.chunk_sizes, default=1)
        plan = divide_memory(self.memory_limit, shape, n_lanes, most)
        self.n_resident = plan.resident_of(n_chunks)
        self._n_outputs, self._keeps_probability = n_outputs, keeps_probability
        self._resident = {
            n: loaded._replace(work=self._new_work(n))
            for n, loaded in self._resident.items()
            if n < self.n_resident
        }
        self._end_work()
        for lane, folder in enumerate(self._files.folders):
            numbers = [n for n in range(self.n_resident, n_chunks) if n % n_lanes == lane]
            sizes = [self._work_size(self.chunk_sizes[n]) for n in numbers]
            self._work.append(_WorkFile(folder.path / f"work-{lane}.bin", numbers, sizes))

    def chunks(
        self, numbers: Sequence[int] | None = None, uses: Uses = EVERYTHING
    ) -> Iterator[Chunk]:
        """The chunks with these numbers, ascending (default: all).

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
        if not self._work:
            raise StorageError("a store gives chunks to a fit only: call begin() before chunks().")
        wanted = range(len(self._records)) if numbers is None else numbers
        fetched = [n for n in wanted if n not in self._resident]
        ahead = work_ahead(lambda n: self._load(n, uses), fetched, len(self._files.blocks))
        self._passes.append(ahead)
        try:
            for number in wanted:
                loaded = self._resident.get(number) or next(ahead)
                if number < self.n_resident:
                    self._resident[number] = loaded
                yield Chunk(
                    number,
                    self.first_row + self._starts[number],
                    loaded.matrix,
                    *loaded.given,
                    loaded.work,
                )
                if loaded.buffers is not None:
                    with self._lock:
                        self._free.append(loaded.buffers)
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
        self._resident, self._free = {}, []
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
        for file in self._work:
            file.close()
        self._work = []

    def _load(self, number: int, uses: Uses) -> _Loaded:
        """Bring a chunk into memory; runs in the thread of its lane."""
        record = self._records[number]
        file = self._files.blocks[record.file]
        if number not in self._checked:
            file.check(record.blocks)
            self._checked.add(number)
        resident, buffers = number < self.n_resident, None
        if resident:
            given, uses = self._read_given(record, file), EVERYTHING
        else:
            stop = max(block.stop for block in record.blocks)
            mapping = file.map(record.target.offset, stop - record.target.offset)
            given = self._map_given(record, mapping, file)
        if record.by_row is None:
            buffers = self._new_buffers(record.n_rows) if resident else self._take_buffers()
            matrix = self._decode(record, file, uses, buffers)
        elif resident:
            parts = (aligned_empty(b.size, np.uint8) for b in (record.by_row, record.columns[0]))
            matrix = self._matrix(record, *parts)
            file.read_into(record.by_row.offset, matrix.by_row.reshape(-1))
            file.read_into(record.columns[0].offset, matrix.by_column.reshape(-1))
        else:
            whole = [_part(mapping, record, b) for b in (record.by_row, record.columns[0])]
            matrix = self._matrix(record, *whole)
            if uses.by_row:
                fetch(whole[0], file.path)
            columns = range(len(matrix.by_column)) if uses.columns is None else uses.columns
            for j in columns:
                fetch(matrix.by_column[j], file.path)
        work = self._new_work(number) if resident else self._map_work(number)
        return _Loaded(matrix, given, work, None if resident else buffers)

    def _read_given(self, record: ChunkRecord, file: BlockFile) -> _Given:
        arrays: list[FloatArray | None] = []
        for block in (record.target, record.weight, record.offset):
            array = None
            if block is not None:
                array = aligned_empty(block.size // 8, np.float64)
                file.read_into(block.offset, array.view(np.uint8))
            arrays.append(array)
        return _shaped(record, *arrays)

    def _map_given(self, record: ChunkRecord, mapping: BinArray, file: BlockFile) -> _Given:
        arrays: list[FloatArray | None] = []
        for block in (record.target, record.weight, record.offset):
            array = None
            if block is not None:
                part = _part(mapping, record, block)
                fetch(part, file.path)
                array = part.view(np.float64)
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

    def _work_size(self, n_rows: int) -> int:
        return sum(_rounded(s) for s in self._work_sizes(n_rows))

    def _work_sizes(self, n_rows: int) -> tuple[int, ...]:
        """Bytes of raw, probability, packed, fixed, rows."""
        scores = 8 * self._n_outputs * n_rows
        kept = scores if self._keeps_probability else 0
        return scores, kept, 16 * n_rows, 8 * n_rows, 4 * (n_rows + PAD)

    def _new_work(self, number: int) -> ChunkWork:
        n_rows = self.chunk_sizes[number]
        return self._split_work(aligned_empty(self._work_size(n_rows), np.uint8), n_rows)

    def _map_work(self, number: int) -> ChunkWork:
        lane = number % len(self._work)
        return self._split_work(self._work[lane].map(number), self.chunk_sizes[number])

    def _split_work(self, data: BinArray, n_rows: int) -> ChunkWork:
        sizes = self._work_sizes(n_rows)
        starts = itertools.accumulate(map(_rounded, sizes), initial=0)
        raw, probability, packed, fixed, rows = (
            data[start : start + size] for start, size in zip(starts, sizes, strict=False)
        )
        kept = (self._n_outputs, n_rows) if self._keeps_probability else (0, 0)
        return ChunkWork(
            raw.view(np.float64).reshape(self._n_outputs, n_rows),
            probability.view(np.float64).reshape(kept),
            fixed.view(np.int32),
            packed.view(np.int64),
            rows.view(np.uint32),
        )


class _WorkFile:
    """The work of the chunks of a lane that are not resident."""

    def __init__(self, path: Path, numbers: Sequence[int], sizes: Sequence[int]) -> None:
        starts = itertools.accumulate((-(-s // GRANULE) * GRANULE for s in sizes), initial=0)
        self._place = dict(zip(numbers, zip(starts, sizes, strict=False), strict=True))
        self._file = BlockFile(path)
        try:
            self._file.reserve(sum(-(-size // GRANULE) * GRANULE for size in sizes))
        except BaseException:
            self.close()
            raise

    def map(self, number: int) -> BinArray:
        return self._file.map(*self._place[number], shared=True)

    def close(self) -> None:
        """Delete the file; arrays that look into it stay what they are."""
        self._file.close()
        with contextlib.suppress(OSError):
            os.unlink(self._file.path)


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


def _rounded(size: int) -> int:
    return -(-size // _LINE) * _LINE
