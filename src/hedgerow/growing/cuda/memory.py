"""The rows of a fit in the memory of a GPU, and the tables of commands that work on them.

::

    bins         by column, as they are uploaded; by row, in tiles, laid out on the GPU
    quantized    g and h of each row, uploaded for each tree; packed on the GPU
    rows         row ids, the rows of a node side by side
    sums         the histogram of a node, until the host has it
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.arrays import RowArray, aligned_zeros
from hedgerow.cuda.device import Stream
from hedgerow.data.binning.matrix import BinnedMatrix, tile_shape
from hedgerow.errors import DeviceError
from hedgerow.growing.core import state as layout
from hedgerow.growing.cuda import stages
from hedgerow.growing.cuda.packing import pack_rows
from hedgerow.kernels.cuda import commands, rows
from hedgerow.kernels.cuda.histogram import (
    NodeRows,
    TiledBins,
    add_histogram,
    hand_over,
    words_of_tile,
)
from hedgerow.kernels.histograms.histogram import HistogramSums, Packing


class RowsOnGpu:
    """Rows on a GPU.

    Parameters
    ----------
    stream : Stream
        It is closed with this object, or if there is too little memory.
    matrix : BinnedMatrix
        With ``by_column``; columns are features.
    state : State
        Settings, scalars and rows of the host; the arrays of rows that are copied are replaced.
    n_cells : int
        Cells of the histograms of the host.

    Attributes
    ----------
    gpu : GpuCommands
        Tables of commands.
    rows : Rows
        Arrays of the host, from which and to which the GPU copies.
    histograms : HistogramSums
        Those of the host, to which the GPU writes.
    """

    def __init__(
        self, stream: Stream, matrix: BinnedMatrix, state: layout.State, n_cells: int
    ) -> None:
        self._stream, self._n_rows = stream, matrix.n_rows
        self._n_tiles, per_tile, width = tile_shape(matrix.n_columns)
        n_words = words_of_tile(per_tile, matrix.stride)
        try:
            if 4 * n_words > stream.gpu.most_shared:
                raise DeviceError(
                    f"the GPU {stream.gpu.name} has {stream.gpu.most_shared} bytes of memory for "
                    f"the threads of a block, but histograms need {4 * n_words}: use device='cpu'."
                )
            with stream.current():
                self._allocate(matrix, (per_tile, width), state, n_cells)
                self._write_commands(matrix, n_words, state)
        except BaseException:
            stream.close()
            raise

    def _allocate(
        self, matrix: BinnedMatrix, tile: tuple[int, int], state: layout.State, n_cells: int
    ) -> None:
        allocate, pinned, n_rows = self._stream.allocate, self._stream.pinned, self._n_rows
        per_tile, width = tile
        by_column = allocate(matrix.by_column.size, np.uint8, "bins")
        self._columns = rows.Columns(by_column, matrix.by_column.shape[1])
        size = n_rows * width // 4
        by_row = allocate(self._n_tiles * size, np.uint32, "bins")
        self._bins = TiledBins(by_row, size, width // 4, per_tile, matrix.n_columns, matrix.stride)
        self._stream.upload(matrix.by_column.reshape(-1), by_column)
        self._ids = allocate(n_rows, np.uint32, "numbers of rows")
        self._scratch = allocate(n_rows, np.uint32, "numbers of rows")
        n_blocks = -(-n_rows // commands.ROWS_PER_BLOCK)
        self._counts = allocate(n_blocks, np.int64, "counts of rows")
        self._quantized = allocate(2 * n_rows, np.int32, "gradients")
        self._packed = allocate(2 * n_rows, np.int64, "packed gradients")
        cells = matrix.n_columns * matrix.stride
        self._sums = _sums(lambda dtype: allocate(cells, dtype, "a histogram"))
        self.histograms = _sums(lambda dtype: pinned(n_cells, dtype))
        for sums in self.histograms:  # cells that no row can be in are not written to
            sums[:] = 0
        self._leaf_of = allocate(n_rows, np.int32, "leaves of rows")
        most_leaves = len(state.tree.table)
        self._on_gpu = {
            stages.SCALARS: allocate(layout.N_SCALARS, np.int64, "the state of a tree"),
            stages.QUANTIZED: self._quantized,
            stages.ROW_IDS: self._ids,
            stages.LEAF_STARTS: allocate(most_leaves, np.int64, "leaves"),
            stages.LEAF_NODES: allocate(most_leaves, np.int64, "leaves"),
            stages.LEAF_SUMS: allocate(2 * most_leaves, np.int64, "leaves"),
            stages.LEAF_OF: self._leaf_of,
        }
        self.rows = state.rows._replace(
            quantized=pinned(2 * n_rows, np.int32), packed=np.zeros(0, dtype=np.int64)
        )

    def _write_commands(self, matrix: BinnedMatrix, n_words: int, state: layout.State) -> None:
        stream, n_rows, most_leaves = self._stream, self._n_rows, len(state.tree.table)
        leaves = aligned_zeros((2, most_leaves), np.int64)
        sums = aligned_zeros((most_leaves, 2), np.int64)
        leaf_of = stream.pinned(n_rows, np.int32)
        on_host = {
            stages.SCALARS: state.scalars,
            stages.QUANTIZED: self.rows.quantized,
            stages.ROW_IDS: self.rows.rows,
            stages.LEAF_STARTS: leaves[0],
            stages.LEAF_NODES: leaves[1],
            stages.LEAF_SUMS: sums,
            stages.LEAF_OF: leaf_of,
        }
        copies = aligned_zeros((stages.COPIES, commands.COPY_FIELDS), np.int64)
        for array, host in on_host.items():
            copies[array] = host.ctypes.data, self._on_gpu[array].address
        functions = stream.functions()
        names = ("launch", "upload", "download", "fill", "wait", "stream")
        calls = np.array([functions[name] for name in names], dtype=np.uint64).view(np.int64)
        values = aligned_zeros((stages.KERNELS, commands.MOST_VALUES), np.int64)
        kernels = aligned_zeros((stages.KERNELS, commands.KERNEL_FIELDS), np.int64)
        for which, (kernel, threads, words, arguments) in self._kernels(n_words, state).items():
            kernels[which] = stream.command(kernel, threads, words, values[which], *arguments)
        self.gpu = commands.GpuCommands(
            calls=calls,
            kernels=kernels,
            values=values,
            copies=copies,
            status=np.zeros(1, dtype=np.int64),
            n_tiles=self._n_tiles,
            n_processors=stream.gpu.n_processors,
            leaves=leaves,
            sums=sums,
            leaf_of=leaf_of,
        )
        for part in self._sums:
            stream.clear(part)
        blocks = (-(-n_rows // stages.THREADS), self._n_tiles)
        stream.launch(rows.lay_rows, blocks, stages.THREADS, n_rows, self._columns, self._bins)
        stream.wait()

    def _kernels(
        self, n_words: int, state: layout.State
    ) -> dict[int, tuple[Any, int, int, tuple[Any, ...]]]:
        """Kernels with their threads, words of shared memory, and arguments."""
        ids, scratch, columns, counts = self._ids, self._scratch, self._columns, self._counts
        settings, n_rows = state.settings, self._n_rows
        division = rows.Division(*[0] * len(rows.Division._fields))
        to_pack = (int(settings.constant_hessian), int(settings.seed))
        arrays = self._on_gpu
        leaves = (arrays[stages.LEAF_STARTS], arrays[stages.LEAF_NODES])
        threads, to_divide = stages.THREADS, rows.MOST_WARPS
        packed = (arrays[stages.SCALARS], ids, self._quantized, self._packed)
        adding = (NodeRows(0, 0, 0), 0, Packing(0, 0, 0), self._bins, self._packed, ids, self._sums)
        finishing = (
            0, 0, *leaves, self._quantized, ids, arrays[stages.LEAF_SUMS], self._leaf_of,
        )  # fmt: skip
        return {
            stages.COUNT_ROWS: (rows.count_rows, threads, 0, (n_rows, ids)),
            stages.PACK_ROWS: (pack_rows, threads, 0, (*to_pack, *packed)),
            stages.COUNT_LEFT: (rows.count_left, threads, 1, (division, columns, ids, counts)),
            stages.DIVIDE: (
                rows.divide_rows, threads, to_divide, (division, columns, ids, counts, scratch),
            ),
            stages.COPY_BACK: (rows.copy_rows, threads, 0, (division, ids, scratch)),
            stages.ADD: (add_histogram, threads, n_words, adding),
            stages.HAND_OVER: (hand_over, threads, 0, (0, self._sums, self.histograms)),
            stages.FINISH: (rows.finish_rows, threads, 0, finishing),
        }  # fmt: skip

    def check(self) -> None:
        """Raise ``DeviceError`` if a command has failed."""
        if self.gpu.status[0] != 0:
            raise DeviceError(
                f"the GPU {self._stream.gpu.name} failed while a tree grew: "
                f"{self._stream.text_of(int(self.gpu.status[0]))}."
            )

    def read_ids(self, out: RowArray) -> None:
        """Read the rows of the last tree, those of a leaf side by side."""
        with self._stream.current():
            self._stream.download(self._ids, out)
            self._stream.wait()

    def current(self) -> Any:
        """Let this thread use the GPU for a while."""
        return self._stream.current()

    def close(self) -> None:
        """Free the memory of the GPU."""
        self._stream.close()


def _sums(make: Any) -> Any:
    """Sums of g and h, and numbers of rows, of arrays of these types."""
    return HistogramSums(make(np.int64), make(np.int64), make(np.int32))
