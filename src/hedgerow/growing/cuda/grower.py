"""Growers whose rows are on a GPU: the trees of :class:`~hedgerow.growing.core.grower.TreeGrower`.

::

    host    gradients, row sample
    GPU     packed gradients
    repeat  GPU: rows of nodes divided, histograms of their smaller children
            host: those of the larger ones by subtraction, best splits of both
    GPU     exact sums of the leaves, leaf of each row
    host    leaf values, raw scores

The compiled loop is that of all trees (:mod:`hedgerow.growing.core.grow`), with other stages where
it works on rows (:mod:`hedgerow.growing.cuda.stages`).  What is done on the GPU is done with whole
numbers only, so its order leaves no trace: trees are, bit for bit, those that the host grows.

In the memory of the GPU are::

    bins         by column, as they are uploaded; by row, in tiles, laid out on the GPU
    quantized    g and h of each row, uploaded for each tree; packed on the GPU
    words        several outputs: the coarser g and h of all, uploaded and packed in their place;
                 the quantized ones of each output follow when the leaves are summed
    rows         row ids, the rows of a node side by side
    sums         histograms of nodes, until the host has them
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import IntArray, RowArray, aligned_zeros
from hedgerow.cuda.device import Stream, first_gpu
from hedgerow.data.binning.matrix import BinnedMatrix, tile_shape
from hedgerow.errors import DeviceError
from hedgerow.growing.core import state as s
from hedgerow.growing.core.grower import TreeGrower
from hedgerow.growing.core.setup import Fit
from hedgerow.growing.cuda.stages import H_BITS, pack_rows, pack_vectors
from hedgerow.kernels.cuda import commands, rows
from hedgerow.kernels.cuda.commands import ORDER_FIELDS, Order, Orders
from hedgerow.kernels.cuda.histogram import Part, TiledBins, add_histogram, hand_over, words_of_tile
from hedgerow.kernels.histograms.histogram import HistogramSums, Packing


class CudaGrower(TreeGrower):
    """Grows the trees of one fit on the first GPU; parameters as for ``TreeGrower``.

    Raises
    ------
    DeviceError
        If there is no GPU, if its memory does not suffice, or if it fails.
    """

    def _make_state(self, fit: Fit) -> s.State:
        state = super()._make_state(fit)
        sampler = state.options.sampler._replace(packs=np.int64(0))
        # Linear leaves and line searches add up floats in the order of the rows.
        keeps_order = self._slopes is not None or fit.params.leaf_estimation == "line_search"
        self._on_gpu = RowsOnGpu(first_gpu().stream(), self._matrix, state, keeps_order)
        return state._replace(
            settings=state.settings._replace(packs_all=0),
            options=state.options._replace(sampler=sampler),
            rows=self._on_gpu.rows,
            vectors=self._on_gpu.vectors,
            gpu=self._on_gpu.gpu,
        )

    def _run(self) -> None:
        with self._on_gpu.current():
            super()._run()
        self._on_gpu.check()
        if self._slopes is not None:
            self._read_rows()

    def _read_rows(self) -> None:
        n_inside = int(self._state.scalars[s.IS_N_ROWS])
        self._on_gpu.read_ids(self._state.rows.rows[:n_inside])

    def leaf_segments(self) -> tuple[npt.NDArray[np.uint32], IntArray, IntArray]:
        """Return the last tree's rows by leaf: rows, leaves, starts."""
        self._read_rows()
        return super().leaf_segments()

    def close(self) -> None:
        """End the helpers, and free the memory of the GPU."""
        super().close()
        self._on_gpu.close()


KEPT_BYTES = 64 << 20
"""Memory of histograms that the GPU copies to the host before they are needed."""

N_LIKELY = 7
"""Nodes of a leaf-wise tree that are ordered with another because their gains are large."""

_CELL_BYTES = 20
_N_SPARE = 2


class RowsOnGpu:
    """Rows on a GPU.

    stream       Stream: it is closed with this object, or if there is too little memory
    matrix       BinnedMatrix: with ``by_column``; columns are features
    state        State: settings, scalars and rows of the host; the arrays of rows that are copied
                 are replaced
    keeps_order  bool: whether the order of the rows of a leaf matters

    Attributes
    ----------
    gpu      GpuCommands: tables of commands
    rows     Rows: arrays of the host, from which and to which the GPU copies
    vectors  Vectors: those of the state, with such arrays
    """

    def __init__(
        self, stream: Stream, matrix: BinnedMatrix, state: s.State, keeps_order: bool
    ) -> None:
        self._stream, self._n_rows = stream, matrix.n_rows
        self._parts = _parts_of(state, matrix)
        self._n_cells = int(self._parts[0, commands.PART_CELLS])
        most = max(1, int(state.settings.max_leaves) // 2)
        self._n_likely = 0
        if state.level.used == 0 and state.settings.depthwise == 0:
            self._n_likely = 0 if keeps_order else N_LIKELY
            most = 1 + self._n_likely
        self._n_places = min(most, max(1, KEPT_BYTES // (_CELL_BYTES * self._n_cells)))
        self._n_tiles, per_tile, width = tile_shape(matrix.n_columns)
        n_words = words_of_tile(per_tile, matrix.stride)
        try:
            if 4 * n_words > stream.gpu.most_shared:
                raise DeviceError(
                    f"the GPU {stream.gpu.name} has {stream.gpu.most_shared} bytes of memory for "
                    f"the threads of a block, but histograms need {4 * n_words}: use device='cpu'."
                )
            with stream.current():
                self._allocate(matrix, (per_tile, width), state)
                self._write_commands(n_words, state)
        except BaseException:
            stream.close()
            raise

    def _allocate(self, matrix: BinnedMatrix, tile: tuple[int, int], state: s.State) -> None:
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
        most_leaves = len(state.tree.table)
        n_blocks = -(-n_rows // commands.ROWS_PER_BLOCK) + most_leaves
        self._counts = allocate(n_blocks, np.int64, "counts of rows")
        self._quantized = allocate(2 * n_rows, np.int32, "gradients")
        n_words = len(self._parts)
        self._packed = allocate(n_words * n_rows, np.int64, "packed gradients")
        n_cells = (self._n_places + _N_SPARE) * self._n_cells
        self._sums = _sums(lambda dtype: allocate(n_cells, dtype, "histograms"))
        self._kept = _sums(lambda dtype: pinned(n_cells, dtype))
        self._leaf_of = allocate(n_rows, np.int32, "leaves of rows")
        n_orders = (most_leaves + _N_SPARE) * ORDER_FIELDS
        self._orders = allocate(n_orders, np.int64, "orders")
        self._on_gpu = {
            commands.SCALARS: allocate(s.N_SCALARS, np.int64, "the state of a tree"),
            commands.QUANTIZED: self._quantized,
            commands.ROW_IDS: self._ids,
            commands.LEAF_STARTS: allocate(most_leaves, np.int64, "leaves"),
            commands.LEAF_NODES: allocate(most_leaves, np.int64, "leaves"),
            commands.LEAF_SUMS: allocate(2 * most_leaves, np.int64, "leaves"),
            commands.LEAF_OF: self._leaf_of,
            commands.ORDERS: self._orders,
        }
        self.rows = state.rows._replace(packed=np.zeros(0, dtype=np.int64))
        self.vectors = state.vectors
        if state.vectors.used == 0:
            self.rows = self.rows._replace(quantized=pinned(2 * n_rows, np.int32))
            return
        outputs = state.vectors.outputs
        n_outputs = len(outputs.scalars)
        outputs = outputs._replace(
            quantized=pinned(n_outputs * 2 * n_rows, np.int32).reshape(n_outputs, -1),
            words=pinned(outputs.words.size, np.int32),
        )
        self.vectors = state.vectors._replace(outputs=outputs)
        self._on_gpu[commands.WORDS] = allocate(outputs.words.size, np.int32, "gradients")

    def _write_commands(self, n_words: int, state: s.State) -> None:
        stream, n_rows, most_leaves = self._stream, self._n_rows, len(state.tree.table)
        leaves = aligned_zeros((2, most_leaves), np.int64)
        sums = aligned_zeros((most_leaves, 2), np.int64)
        leaf_of = stream.pinned(n_rows, np.int32)
        # The orders, and the results that the host has not read yet.
        ahead = commands.Ahead(
            listed=stream.pinned(self._orders.length, np.int64).reshape(-1, ORDER_FIELDS),
            counts=aligned_zeros(commands.COUNTS, np.int64),
            free=np.zeros(self._n_places, dtype=np.int64),
            of_parent=np.zeros(most_leaves, dtype=np.int64),
            of_node=np.zeros(most_leaves, dtype=np.int64),
            kept=self._kept,
            n_cells=self._n_cells,
            n_likely=self._n_likely,
        )
        on_host = {
            commands.SCALARS: state.scalars,
            commands.QUANTIZED: self.rows.quantized,
            commands.ROW_IDS: self.rows.rows,
            commands.LEAF_STARTS: leaves[0],
            commands.LEAF_NODES: leaves[1],
            commands.LEAF_SUMS: sums,
            commands.LEAF_OF: leaf_of,
            commands.ORDERS: ahead.listed,
        }
        if self.vectors.used == 1:
            outputs = self.vectors.outputs
            on_host |= {commands.QUANTIZED: outputs.quantized, commands.WORDS: outputs.words}
        copies = aligned_zeros((commands.COPIES, commands.COPY_FIELDS), np.int64)
        for array, host in on_host.items():
            copies[array] = host.ctypes.data, self._on_gpu[array].address
        functions = stream.functions()
        names = ("launch", "upload", "download", "fill", "wait", "stream")
        calls = np.array([functions[name] for name in names], dtype=np.uint64).view(np.int64)
        values = aligned_zeros((commands.KERNELS, commands.MOST_VALUES), np.int64)
        kernels = aligned_zeros((commands.KERNELS, commands.KERNEL_FIELDS), np.int64)
        for which, (kernel, threads, words, arguments) in self._kernels(n_words, state).items():
            kernels[which] = stream.command(kernel, threads, words, values[which], *arguments)
        self.gpu = commands.GpuCommands(
            used=1,
            calls=calls,
            kernels=kernels,
            values=values,
            copies=copies,
            parts=self._parts,
            n_parts=np.array([len(self._parts)]),
            status=np.zeros(1, dtype=np.int64),
            n_tiles=self._n_tiles,
            n_processors=stream.gpu.n_processors,
            leaves=leaves,
            sums=sums,
            leaf_of=leaf_of,
            ahead=ahead,
        )
        for part in self._sums:
            stream.clear(part)
        blocks = (-(-n_rows // commands.THREADS), self._n_tiles)
        stream.launch(rows.lay_rows, blocks, commands.THREADS, n_rows, self._columns, self._bins)
        stream.wait()

    def _kernels(
        self, n_words: int, state: s.State
    ) -> dict[int, tuple[Any, int, int, tuple[Any, ...]]]:
        """Return kernels with their threads, words of shared memory, and arguments."""
        ids, scratch, columns, counts = self._ids, self._scratch, self._columns, self._counts
        settings, n_rows = state.settings, self._n_rows
        orders = Orders(Order(*[0] * ORDER_FIELDS), 0, 0, 0, self._orders)
        arrays = self._on_gpu
        leaves = (arrays[commands.LEAF_STARTS], arrays[commands.LEAF_NODES])
        threads, to_divide = commands.THREADS, rows.MOST_WARPS
        adding = (
            orders, Part(0, 0, 0, 0), Packing(0, 0, 0), self._bins, self._packed, ids, self._sums,
        )  # fmt: skip
        handing = (orders, self._n_cells, self._sums, self._kept)
        finishing = (
            0, 0, *leaves, self._quantized, ids, arrays[commands.LEAF_SUMS], self._leaf_of,
        )  # fmt: skip
        # The gradients of all rows are packed.
        constant = int(settings.constant_hessian)
        if self.vectors.used == 0:
            of_rows = (arrays[commands.SCALARS], ids, self._quantized, self._packed)
            packing = (pack_rows, threads, 0, (constant, int(settings.seed), *of_rows))
        else:
            outputs = self.vectors.outputs
            sizes = (len(outputs.scalars), n_rows, int(outputs.sums.width), constant)
            words = (arrays[commands.WORDS], self._packed)
            packing = (pack_vectors, threads, 0, (*sizes, *words))
        return {
            commands.COUNT_ROWS: (rows.count_rows, threads, 0, (n_rows, ids)),
            commands.PACK_ROWS: packing,
            commands.COUNT_LEFT: (rows.count_left, threads, 1, (orders, columns, ids, counts)),
            commands.DIVIDE: (
                rows.divide_rows, threads, to_divide, (orders, columns, ids, counts, scratch),
            ),
            commands.COPY_BACK: (rows.copy_rows, threads, 0, (orders, ids, scratch)),
            commands.ADD: (add_histogram, threads, n_words, adding),
            commands.HAND_OVER: (hand_over, threads, 0, handing),
            commands.FINISH: (rows.finish_rows, threads, 0, finishing),
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


def _parts_of(state: s.State, matrix: BinnedMatrix) -> IntArray:
    """Return the input of a histogram (:class:`~hedgerow.kernels.cuda.histogram.Part`)."""
    # One output: one word of each row or two, in the same sums; each tree says how they are packed.
    # Several: each output has sums of its own, and behind them are the numbers of rows.
    n_cells, n_rows = matrix.n_columns * matrix.stride, matrix.n_rows
    if state.vectors.used == 0:
        return np.array([[word, word * n_rows, 0, n_cells, 0, 0, 0] for word in range(2)])
    n_outputs = len(state.vectors.outputs.scalars)
    constant = int(state.settings.constant_hessian)
    n_parts = n_outputs + 1 - constant
    parts = np.zeros((n_parts, commands.PART_FIELDS), dtype=np.int64)
    parts[:, commands.PART_START] = np.arange(n_parts) * n_rows
    parts[:, commands.PART_TO] = np.arange(n_parts) * n_cells
    parts[:, commands.PART_CELLS] = n_parts * n_cells
    counted = np.arange(n_parts) >= n_outputs * (1 - constant)
    parts[:, commands.PART_COUNT_BITS] = np.where(counted, H_BITS, 0)
    parts[:, commands.PART_HESSIAN_BITS] = np.where(counted, 0, H_BITS)
    return parts


def _sums(make: Any) -> Any:
    """Return sums of g and h, and numbers of rows, of arrays of these types."""
    return HistogramSums(make(np.int64), make(np.int64), make(np.int32))
