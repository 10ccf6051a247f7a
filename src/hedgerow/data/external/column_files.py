"""Sorted columns on disk: the blocks of exact growth for data larger than memory.

Glossary
--------
entry   a row with a value, and a bit that says whether the value differs from the previous
        entry, as in :mod:`hedgerow.data.external.blocks`
piece   consecutive entries of a column, read together
run     number of a value in its column: 1 for the lowest value; in the first pass also a
        sorted part of the rows
key     integer that sorts like the value (:mod:`hedgerow.kernels.tables.keys`)

::

    batches of rows --- sorted by column, as many as fit in memory --> runs of (keys, rows)
                                                                           | merged
    folder 0    pieces 0, 2, 4, ... of each column      entries            v
    folder 1    pieces 1, 3, 5, ...                     and the keys of their runs

A piece has the smallest of three encodings: plain entries (32 bits); entries with only the
bits that row numbers need; or differences of row numbers compressed by LZ4, which are small
where values repeat and rows ascend.  Keys are stored apart, because only the thresholds of
final splits need them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import MISSING_KEY, AnyArray, BinArray, IntArray, RowArray, distinct
from hedgerow.data.external.block_files import Block, BlockFile
from hedgerow.data.external.blocks import PADDING, ROW_BITS, RUN_BIT
from hedgerow.data.external.column_codec import find_lz4
from hedgerow.data.external.scratch import ScratchFolder
from hedgerow.data.reading.table import Table
from hedgerow.data.schema import Schema
from hedgerow.errors import DataError, ParameterError, brief
from hedgerow.kernels.presorted.entries import merge_runs, pack_entries, unpack_entries
from hedgerow.kernels.tables.keys import keys_of_floats
from hedgerow.threads import run_blocks

PIECE = 1 << 18
"""Entries of a piece: 1 MB unencoded."""

_RUN_PART = 1 << 14
_SORTING = 56  # bytes per row for sorting a column
_RAW, _PACKED, _LZ4 = 0, 1, 2
_WORTH = 0.9
_MOST_ROWS = 1 << 31
LEAST_MEMORY = 4 << 20


class Piece(NamedTuple):
    """Location of some entries of a column.

    Attributes
    ----------
    first_place : int
        Position of the first entry in the column.
    runs_before : int
        Number of runs that begin before the piece.
    entries, keys : Block
        Encoded entries; int64 keys of the runs that begin in the piece.
    """

    first_place: int
    n_entries: int
    runs_before: int
    entries: Block
    keys: Block


@dataclass(frozen=True, eq=False)
class ColumnFiles:
    """Sorted columns on disk; made by :func:`sort_to_files`.

    Attributes
    ----------
    dtype : dtype
        Type of the values of the table: float32, float64, or int64 for keys.
    pieces : list of lists of Piece
        Pieces of each column.
    """

    schema: Schema
    dtype: np.dtype[Any]
    n_rows: int
    pieces: list[list[Piece]]
    _files: list[BlockFile] = field(repr=False)
    _folders: list[ScratchFolder] = field(repr=False)

    @property
    def n_features(self) -> int:
        return self.schema.n_features

    @property
    def n_folders(self) -> int:
        return len(self._files)

    @property
    def n_bytes(self) -> int:
        """Bytes on disk."""
        return sum(file.size for file in self._files)

    @property
    def scratch_folder(self) -> str:
        """A folder deleted together with the columns."""
        return str(self._folders[0].path)

    def length(self, column: int) -> int:
        """Return the number of rows with a value in a column."""
        pieces = self.pieces[column]
        return pieces[-1].first_place + pieces[-1].n_entries if pieces else 0

    def folder_of(self, number: int) -> int:
        """Return the index of the folder that holds piece ``number`` of every column."""
        return number % len(self._files)

    def read(self, column: int, number: int) -> RowArray:
        """Return the entries of a piece, followed by ``PADDING`` zeros.

        Raise ``StorageError`` if the piece cannot be read, or has changed.
        """
        piece = self.pieces[column][number]
        data = self._files[self.folder_of(number)].read(piece.entries)
        return _decode(data, piece.entries.codec, piece.n_entries, bits_of(self.n_rows))

    def keys(self, column: int, runs: IntArray) -> IntArray:
        """Return the keys of some runs of a column."""
        pieces = self.pieces[column]
        before = np.array([piece.runs_before for piece in pieces], dtype=np.int64)
        found = np.empty(len(runs), dtype=np.int64)
        held = np.searchsorted(before, runs, side="left") - 1
        for number in distinct(held).tolist():
            block = pieces[number].keys
            stored = self._files[self.folder_of(number)].read(block).view(np.int64)
            here = held == number
            found[here] = stored[runs[here] - before[number] - 1]
        return found

    def close(self) -> None:
        """Delete the files; a second call does nothing."""
        for file in self._files:
            file.close()
        for folder in self._folders:
            folder.close()


def bits_of(n_rows: int) -> int:
    """Return the bits of an entry: the bits of a row number, and one."""
    return max(1, int(n_rows - 1).bit_length()) + 1


def sort_to_files(
    batches: Iterable[Table],
    folders: Sequence[str | PathLike[str]],
    memory_limit: int,
    n_threads: int = 1,
) -> ColumnFiles:
    """Sort the columns of a table that is read in batches.

    Raise ``DataError`` if there are no rows, too many rows, category columns, or different
    schemas. Raise ``ParameterError`` if the limit is too small, or ``folders`` is empty.
    Raise ``StorageError`` if the files cannot be written.

    Parameters
    ----------
    batches : iterable of Table
        Batches with one schema, in the order of the rows.
    folders : sequence of path
        Folders, preferably on several disks; pieces are distributed over them in turn.
    memory_limit : int
        Memory for sorting in bytes, at least :data:`LEAST_MEMORY`; the current batch is not
        counted.

    Returns
    -------
    ColumnFiles
        The entries equal the result of :func:`hedgerow.data.external.blocks.sort_columns`,
        for any batches and limit.
    """
    if memory_limit < LEAST_MEMORY:
        raise ParameterError(
            f"memory_limit must be at least {LEAST_MEMORY} bytes; got {brief(memory_limit)}."
        )
    if not folders:
        raise ParameterError("folders is empty: name at least one folder.")
    scratch: list[ScratchFolder] = []
    try:
        scratch += [ScratchFolder(folder) for folder in folders]
        return _Sorter(scratch, memory_limit, n_threads).sort(batches)
    except BaseException:
        for folder in scratch:
            folder.close()
        raise


class _Sorter:
    def __init__(self, folders: list[ScratchFolder], memory_limit: int, n_threads: int) -> None:
        self._folders = folders
        self._memory_limit, self._n_threads = memory_limit, n_threads
        self._lock = threading.Lock()
        self._runs = BlockFile(folders[0].path / "runs")
        self._run_parts: list[list[list[tuple[Block, int]]]] = []  # run, column, part
        self._schema: Schema | None = None
        self._dtype: np.dtype[Any] = np.dtype(np.float32)
        self._n_rows = 0

    def sort(self, batches: Iterable[Table]) -> ColumnFiles:
        waiting: list[AnyArray] = []
        n_waiting = 0
        for values in self._checked(batches):
            most = self._rows_at_once(values.shape[1])
            start = 0
            while start < len(values):
                part = values[start : start + most - n_waiting]
                waiting.append(part)
                n_waiting += len(part)
                start += len(part)
                if n_waiting == most:
                    self._write_run(waiting, n_waiting)
                    waiting, n_waiting = [], 0
        if n_waiting:
            self._write_run(waiting, n_waiting)
        if self._schema is None:
            raise DataError("there are no rows to train on.")
        return self._merge(self._schema)

    def _checked(self, batches: Iterable[Table]) -> Iterator[AnyArray]:
        for table in batches:
            if self._schema is None:
                self._schema = table.schema
                if table.schema.has_categories:
                    name = next(c.name for c in table.schema.columns if c.kind == "category")
                    raise DataError(
                        f"column {name!r} holds categories, which exact growth on disk does not "
                        "take: use tree_method='hist', or numbers."
                    )
            elif table.schema != self._schema:
                raise DataError("all batches must be read with one schema.")
            if table.values.dtype != np.float32:
                self._dtype = table.values.dtype
            yield table.values

    def _rows_at_once(self, n_columns: int) -> int:
        return max(1, self._memory_limit // (8 * n_columns + _SORTING * self._n_threads))

    def _write_run(self, waiting: list[AnyArray], n_rows: int) -> None:
        """Sort some rows by each column, and write them."""
        first_row = self._n_rows
        self._n_rows += n_rows
        if self._n_rows >= _MOST_ROWS:
            raise DataError(
                f"the table has more than {_MOST_ROWS - 1} rows, which sorted columns cannot "
                "number: use tree_method='hist'."
            )
        n_columns = waiting[0].shape[1]
        parts: list[list[tuple[Block, int]]] = [[] for _ in range(n_columns)]

        def write(start: int, stop: int) -> None:
            for j in range(start, stop):
                keys = _keys(np.concatenate([values[:, j] for values in waiting]))
                rows = np.flatnonzero(keys != MISSING_KEY)
                keys = keys[rows]
                order = np.argsort(keys, kind="stable")
                keys, numbers = keys[order], (rows[order] + first_row).astype(np.uint32)
                for at in range(0, len(keys), _RUN_PART):
                    held = keys[at : at + _RUN_PART]
                    data = np.concatenate(
                        [held.view(np.uint8), numbers[at : at + _RUN_PART].view(np.uint8)]
                    )
                    with self._lock:  # blocks are appended one at a time
                        parts[j].append((self._runs.append(data), len(held)))

        run_blocks(write, n_columns, self._n_threads, 1)
        self._run_parts.append(parts)

    def _merge(self, schema: Schema) -> ColumnFiles:
        files = [BlockFile(folder.path / "columns") for folder in self._folders]
        pieces: list[list[Piece]] = [[] for _ in schema.columns]

        def merge(start: int, stop: int) -> None:
            for j in range(start, stop):
                writer = _Writer(files, bits_of(self._n_rows), self._lock)
                for keys, rows in self._merged(j):
                    writer.add(keys, rows)
                pieces[j] = writer.finish()

        run_blocks(merge, schema.n_features, self._n_threads, 1)
        self._runs.close()
        self._runs.path.unlink()
        return ColumnFiles(schema, self._dtype, self._n_rows, pieces, files, self._folders)

    def _merged(self, column: int) -> Iterator[tuple[IntArray, RowArray]]:
        """Yield the keys and rows of a column, sorted by key and then by row."""
        sources = [self._parts(run[column]) for run in self._run_parts if run[column]]
        n_runs = len(sources)
        keys = np.zeros((n_runs, _RUN_PART), dtype=np.int64)
        rows = np.zeros((n_runs, _RUN_PART), dtype=np.uint32)
        at, count = np.zeros(n_runs, dtype=np.int64), np.zeros(n_runs, dtype=np.int64)
        out_keys = np.empty(_RUN_PART, dtype=np.int64)
        out_rows = np.empty(_RUN_PART, dtype=np.uint32)
        live = np.ones(n_runs, dtype=np.uint8)
        while True:
            for r in np.flatnonzero((at == count) & (live == 1)).tolist():
                part = next(sources[r], None)
                if part is None:
                    live[r] = 0
                    continue
                at[r], count[r] = 0, len(part[0])
                keys[r, : count[r]], rows[r, : count[r]] = part
            if not live.any():
                return
            n_out = merge_runs(keys, rows, at, count, live, out_keys, out_rows)
            yield out_keys[:n_out], out_rows[:n_out]

    def _parts(self, parts: list[tuple[Block, int]]) -> Iterator[tuple[IntArray, RowArray]]:
        for block, n_entries in parts:
            data = self._runs.read(block)
            yield data[: 8 * n_entries].view(np.int64), data[8 * n_entries :].view(np.uint32)


def _keys(values: AnyArray) -> IntArray:
    return values if values.dtype == np.int64 else keys_of_floats(values)


class _Writer:
    """Writer that divides the entries of one column into pieces."""

    def __init__(self, files: list[BlockFile], bits: int, lock: threading.Lock) -> None:
        self._files, self._bits, self._lock = files, bits, lock
        self._lz4 = find_lz4()
        self._pieces: list[Piece] = []
        self._entries = np.zeros(PIECE + PADDING, dtype=np.uint32)
        self._keys: list[IntArray] = []
        self._n_held = self._n_written = self._runs = self._runs_before = 0
        self._last_key = int(MISSING_KEY)

    def add(self, keys: IntArray, rows: RowArray) -> None:
        """Append some entries."""
        start = 0
        while start < len(keys):
            stop = min(len(keys), start + PIECE - self._n_held)
            part = keys[start:stop]
            begins = np.empty(len(part), dtype=np.bool_)
            begins[0] = part[0] != self._last_key
            begins[1:] = part[1:] != part[:-1]
            entries = rows[start:stop].copy()
            entries[begins] |= RUN_BIT
            self._entries[self._n_held : self._n_held + len(part)] = entries
            self._keys.append(part[begins])
            self._runs += int(begins.sum())
            self._n_held += len(part)
            self._last_key = int(part[-1])
            start = stop
            if self._n_held == PIECE:
                self._flush()

    def finish(self) -> list[Piece]:
        if self._n_held:
            self._flush()
        return self._pieces

    def _flush(self) -> None:
        file = self._files[len(self._pieces) % len(self._files)]
        data, codec = _encode(self._entries, self._n_held, self._bits, self._lz4)
        with self._lock:
            entries = file.append(data, codec)
            keys = file.append(np.concatenate(self._keys).view(np.uint8))
        self._pieces.append(Piece(self._n_written, self._n_held, self._runs_before, entries, keys))
        self._n_written += self._n_held
        self._runs_before = self._runs
        self._keys = []
        self._n_held = 0


def _encode(entries: RowArray, n: int, bits: int, lz4: Any) -> tuple[BinArray, int]:
    """Return the smallest encoding of ``entries[:n]``."""
    plain = entries[:n]
    best, codec = plain.view(np.uint8), _RAW
    if bits <= 32 * _WORTH:
        best = np.zeros(8 * (-(-n * bits // 64) + 1), dtype=np.uint8)
        pack_entries(plain, n, bits, best.view(np.uint64))
        codec = _PACKED
    if lz4 is not None and _mean_run(plain) > 4.0:
        shuffled = _differences(plain).view(np.uint8).reshape(-1, 4).T
        data = np.frombuffer(lz4.compress(np.ascontiguousarray(shuffled)), dtype=np.uint8)
        if len(data) < _WORTH * len(best):
            best, codec = data, _LZ4
    return best.copy(), codec


def _mean_run(entries: RowArray) -> float:
    return len(entries) / max(1, int(np.count_nonzero(entries & RUN_BIT)))


def _differences(entries: RowArray) -> npt.NDArray[np.uint32]:
    """Return each row number minus the previous one, with the bit of its run."""
    rows = entries & ROW_BITS
    steps = np.diff(rows, prepend=np.uint32(0)) & ROW_BITS
    return steps | (entries & RUN_BIT)


def _decode(data: BinArray, codec: int, n: int, bits: int) -> RowArray:
    entries = np.zeros(n + PADDING, dtype=np.uint32)
    if codec == _RAW:
        entries[:n] = data.view(np.uint32)
    elif codec == _PACKED:
        unpack_entries(data.view(np.uint64), n, bits, entries)
    else:
        lz4 = find_lz4()
        assert lz4 is not None, "pyarrow was there when the piece was written"
        planes = np.frombuffer(lz4.decompress(data, 4 * n), dtype=np.uint8).reshape(4, n)
        steps = np.ascontiguousarray(planes.T).view(np.uint32)[:, 0]
        rows = np.cumsum(steps & ROW_BITS, dtype=np.uint32) & ROW_BITS
        entries[:n] = rows | (steps & RUN_BIT)
    return entries
