"""Passes over sorted columns on disk, for many nodes at once.

A column is read in pieces from its lowest value on; a thread for each folder fetches
them ahead.  What is done with a piece is in :mod:`hedgerow.kernels.presorted.exact_stream`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import IntArray, RowArray
from hedgerow.data.external.column_files import ColumnFiles
from hedgerow.growing.exact.sketches import ColumnCandidates, Sketch
from hedgerow.kernels.presorted import exact_stream as stream
from hedgerow.kernels.presorted.exact_stream import StreamRows
from hedgerow.kernels.presorted.stream_cuts import (
    CUT_FIELDS,
    SUM_FIELDS,
    ConstrainedNodes,
    Scan,
    SearchedNodes,
    SearchedOutputs,
)
from hedgerow.threads import run_blocks, work_ahead

_ROWS_PER_THREAD = 1 << 16


class _Task(NamedTuple):
    """A piece of a column to be read: for sums of the present rows, or for what else."""

    column: int
    piece: int
    sums: bool


class Move(NamedTuple):
    """Rows with a value that leave a node: those whose places lie from ``first`` to ``stop``.

    Nodes by their numbers + 1.
    """

    stay: int
    go: int
    first: int
    stop: int


@dataclass(frozen=True, slots=True, eq=False)
class Passes:
    """The passes of a grower over all rows, or all columns.

    Parameters
    ----------
    columns : ColumnFiles
    rows : StreamRows
    n_threads : int
        Threads divide the columns.
    sketch : Sketch or None
        None: every cut is scored.
    """

    columns: ColumnFiles
    rows: StreamRows
    n_threads: int
    sketch: Sketch | None

    def send(self, default: npt.NDArray[np.int32], moves: Mapping[int, Sequence[Move]]) -> None:
        """Send the rows of node ``k`` to ``default[k]`` and then, by column, those of ``moves``."""
        node = self.rows.node
        run_blocks(
            lambda start, stop: stream.send_rows(node, start, stop, default),
            len(node),
            self.n_threads,
            _ROWS_PER_THREAD,
        )
        listed = sorted(moves.items())

        def send(start: int, stop: int) -> None:
            for column, moved in listed[start:stop]:
                self._send_present(column, moved, len(default))

        run_blocks(send, len(listed), self.n_threads, 1)

    def search(
        self,
        columns: Sequence[int],
        searched: SearchedNodes,
        sums: IntArray,
        allowed: npt.NDArray[np.uint8],
        constraints: ConstrainedNodes | None,
        outputs: SearchedOutputs | None = None,
    ) -> IntArray:
        """Return the best cuts of some nodes, int64 (nodes, CUT_FIELDS).

        Parameters
        ----------
        columns : sequence of int
            To be scanned: those that some node may use, or more.
        searched : SearchedNodes
        sums : int64 (nodes, SUM_FIELDS)
            g, h and number of rows.
        allowed : uint8 (columns, nodes)
        constraints : ConstrainedNodes or None
            None where gains are not constrained; never with several outputs.
        outputs : SearchedOutputs, optional
            Sums and cuts then have two more fields for each output.
        """
        cuts = _no_cuts(sums)
        lock = threading.Lock()

        def search(start: int, stop: int) -> None:
            found = self._scan(columns[start:stop], searched, sums, allowed, constraints, outputs)
            with lock:
                stream.merge_cuts(found, cuts)

        run_blocks(search, len(columns), self.n_threads, 1)
        return cuts

    def _send_present(self, column: int, moves: Sequence[Move], n_nodes: int) -> None:
        to = np.zeros(n_nodes, dtype=np.int32)
        places = np.zeros((n_nodes, 2), dtype=np.int64)
        for move in moves:
            to[move.stay] = move.go
            places[move.stay] = move.first, move.stop
        first, last = min(move.first for move in moves), max(move.stop for move in moves)
        tasks = [
            _Task(column, number, False)
            for number, piece in enumerate(self.columns.pieces[column])
            if piece.first_place < last and piece.first_place + piece.n_entries > first
        ]
        for task, entries in self._read(tasks):
            piece = self.columns.pieces[column][task.piece]
            stream.send_present(
                entries, piece.n_entries, piece.first_place, self.rows.node, to, places
            )

    def _scan(
        self,
        columns: Sequence[int],
        searched: SearchedNodes,
        sums: IntArray,
        allowed: npt.NDArray[np.uint8],
        constraints: ConstrainedNodes | None,
        outputs: SearchedOutputs | None,
    ) -> IntArray:
        """Return the best cuts in some columns."""
        scan, found = _new_scan(sums), _no_cuts(sums)
        longest = self._longest_piece(columns)
        choice = ColumnCandidates(self.sketch, len(sums), longest, len(scan.cut))
        run = 0
        for task, entries in self._read(list(self._tasks(columns))):
            pieces, length = self.columns.pieces[task.column], self.columns.length(task.column)
            piece, last = pieces[task.piece], task.piece + 1 == len(pieces)
            gaps = length < self.columns.n_rows
            if gaps and (task.sums or len(pieces) == 1):
                if task.piece == 0:
                    scan.absent[:] = 0
                stream.sum_present(
                    entries, piece.n_entries, self.rows, searched.slot_of, scan.absent, outputs
                )
                if last:
                    scan.absent[:] = sums - scan.absent
            if task.sums:
                continue
            if task.piece == 0:
                stream.begin_column(scan)
                run = 0
                if not gaps:
                    scan.absent[:] = 0
                choice.begin(task.column, sums[:, 1] - scan.absent[:, 1])
            run = stream.scan_column(
                entries, piece.n_entries, piece.first_place, run, task.column, self.rows, searched,
                scan, constraints, choice.candidates, choice.quantiles, outputs,
            )  # fmt: skip
            choice.end_piece()
            if last:
                stream.end_column(
                    scan, task.column, allowed[task.column], length, searched, found, constraints,
                    choice.quantiles, outputs,
                )  # fmt: skip
                choice.end(task.column)
        return found

    def _longest_piece(self, columns: Sequence[int]) -> int:
        """Return the number of entries of the longest piece of some columns."""
        pieces = (piece for column in columns for piece in self.columns.pieces[column])
        return max((piece.n_entries for piece in pieces), default=0)

    def _tasks(self, columns: Sequence[int]) -> Iterator[_Task]:
        for column in columns:
            n_pieces = len(self.columns.pieces[column])
            if n_pieces > 1 and self.columns.length(column) < self.columns.n_rows:
                yield from (_Task(column, number, True) for number in range(n_pieces))
            yield from (_Task(column, number, False) for number in range(n_pieces))

    def _read(self, tasks: Sequence[_Task]) -> Iterator[tuple[_Task, RowArray]]:
        """Yield pieces in order; a thread for each folder reads ahead."""
        read, n_folders = self.columns.read, self.columns.n_folders
        if len(tasks) < 2:
            for task in tasks:
                yield task, read(task.column, task.piece)
            return
        folders = [self.columns.folder_of(task.piece) for task in tasks]
        # A number tells its folder by its remainder.
        numbers = [k * n_folders + folder for k, folder in enumerate(folders)]

        def make(number: int) -> tuple[_Task, RowArray]:
            task = tasks[number // n_folders]
            return task, read(task.column, task.piece)

        yield from work_ahead(make, numbers, n_folders)


def _no_cuts(sums: IntArray) -> IntArray:
    """Return empty cuts for the nodes with these sums."""
    return np.full((len(sums), CUT_FIELDS + _more_fields(sums)), -1, dtype=np.int64)


def _more_fields(sums: IntArray) -> int:
    """Return fields of several outputs."""
    return sums.shape[1] - SUM_FIELDS


def _new_scan(sums: IntArray) -> Scan:
    n_more = _more_fields(sums)
    return Scan(
        sums=np.zeros(sums.shape, dtype=np.int64),
        run=np.zeros(len(sums), dtype=np.int64),
        absent=np.zeros(sums.shape, dtype=np.int64),
        best=np.zeros((len(sums), 2, CUT_FIELDS + n_more), dtype=np.int64),
        cut=np.zeros(n_more, dtype=np.int64),
    )
