"""Addresses of the arrays of a chunk, in the table that the stages of a pass read.

See :mod:`hedgerow.growing.chunks.stages.passes`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.data.binning.matrix import BinnedMatrix
from hedgerow.growing.chunks.stages import passes
from hedgerow.growing.chunks.work import ChunkWork
from hedgerow.objectives.derivatives import LossData


class ChunkAddresses:
    """Writes the addresses of one chunk after the other, and keeps its arrays alive.

    Parameters
    ----------
    n_threads : int
        Pieces of a chunk.
    """

    def __init__(self, n_threads: int) -> None:
        self._n_threads = n_threads
        self._held: list[Any] = []

    def write_work(self, work: ChunkWork, where: IntArray) -> None:
        """Name the working arrays of the rows of a chunk."""
        where[passes.ROWS] = _address(work.rows, np.uint32)
        where[passes.N_ROW_IDS] = len(work.rows)
        where[passes.QUANTIZED] = _address(work.quantized, np.int32)
        where[passes.PACKED] = _address(work.packed, np.int64)
        where[passes.SAMPLE_WEIGHTS] = _address(work.weights, np.float64)
        where[passes.N_SAMPLE_WEIGHTS] = len(work.weights)
        where[passes.N_ROWS] = work.n_rows
        where[passes.FIRST_PIECE] = work.number * self._n_threads

    def write_bins(self, matrix: BinnedMatrix, where: IntArray) -> None:
        """Name the bins of a chunk."""
        assert matrix.layout is None  # a byte for each feature
        assert not matrix.paired
        self._held = [matrix]
        where[passes.BY_ROW] = _address(matrix.by_row, np.uint8)
        where[passes.BY_ROW_CELLS] = matrix.by_row.size
        where[passes.TILE_SIZE] = matrix.by_row.shape[1] * matrix.by_row.shape[2]
        where[passes.TILE_WIDTH] = matrix.by_row.shape[2]
        where[passes.BY_COLUMN] = _address(matrix.by_column, np.uint8)
        where[passes.N_COLUMNS : passes.COLUMN_CELLS + 1] = matrix.by_column.shape

    def write_loss(self, data: LossData, where: IntArray) -> None:
        """Name the inputs of the loss of a chunk's rows."""
        self._held.append(data)
        where[passes.TARGET] = _address(data.target, np.float64)
        where[passes.WEIGHT] = _address(data.weight, np.float64)
        where[passes.N_WEIGHTS] = len(data.weight)
        where[passes.PROBABILITY] = _address(data.probability, np.float64)
        where[passes.N_PRECOMPUTED : passes.N_PRECOMPUTED_ROWS + 1] = data.probability.shape
        self.write_scores(data.raw, where)

    def write_scores(self, raw: FloatArray, where: IntArray) -> None:
        """Name the raw scores of a chunk's rows, (n_outputs, n_rows)."""
        where[passes.RAW] = _address(raw, np.float64)
        where[passes.N_OUTPUTS] = len(raw)


def _address(array: np.ndarray, dtype: Any) -> int:
    """Return where the elements of an array begin."""
    if array.dtype != dtype or not array.flags.c_contiguous:
        raise TypeError(
            f"a chunk has an array of {array.dtype} with strides {array.strides}; C order of "
            f"{np.dtype(dtype)} is needed."
        )
    place: int = array.__array_interface__["data"][0]
    return place
