"""Addresses of the arrays of a chunk, in the table that the stages of a pass read.

See :mod:`hedgerow.growing.chunks.stages.passes`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.data.external.row_store import Chunk
from hedgerow.growing.chunks.stages import passes


class ChunkAddresses:
    """Writes the addresses of one chunk after the other, and keeps its arrays alive.

    Parameters
    ----------
    n_threads : int
        Pieces of a chunk.
    """

    def __init__(self, n_threads: int) -> None:
        self._n_threads = n_threads
        self._chunk: Chunk | None = None
        self._made: list[FloatArray] = []

    def write(self, chunk: Chunk, where: IntArray) -> None:
        """Name the bins and the work of a chunk."""
        matrix, work, n_rows = chunk.matrix, chunk.work, chunk.n_rows
        assert matrix.layout is None  # a byte for each feature
        assert not matrix.paired
        self._chunk = chunk
        where[passes.BY_ROW] = _address(matrix.by_row, np.uint8)
        where[passes.BY_ROW_CELLS] = matrix.by_row.size
        where[passes.TILE_SIZE] = matrix.by_row.shape[1] * matrix.by_row.shape[2]
        where[passes.TILE_WIDTH] = matrix.by_row.shape[2]
        where[passes.BY_COLUMN] = _address(matrix.by_column, np.uint8)
        where[passes.N_COLUMNS : passes.COLUMN_CELLS + 1] = matrix.by_column.shape
        where[passes.ROWS] = _address(work.rows, np.uint32)
        where[passes.N_ROW_IDS] = len(work.rows)
        where[passes.QUANTIZED] = _address(work.quantized, np.int32)
        where[passes.PACKED] = _address(work.packed, np.int64)
        where[passes.RAW] = _address(work.raw, np.float64)
        where[passes.N_OUTPUTS] = len(work.raw)
        where[passes.SAMPLE_WEIGHTS] = _address(work.weights, np.float64)
        where[passes.N_SAMPLE_WEIGHTS] = len(work.weights)
        where[passes.N_ROWS] = n_rows
        where[passes.FIRST_PIECE] = chunk.number * self._n_threads

    def write_loss(
        self,
        chunk: Chunk,
        target: FloatArray,
        precomputed: FloatArray,
        weighted: bool,
        where: IntArray,
    ) -> None:
        """Name what the loss depends on; ``precomputed`` is ``LossData.probability``.

        ``target`` is what the output of the tree learns.

        Rows of a chunk without weights have weight 1 where others have ``weighted`` rows.
        """
        weight = np.zeros(0)
        if weighted:
            weight = np.ones(chunk.n_rows) if chunk.weight is None else chunk.weight
        self._made = [target, weight, precomputed]
        where[passes.TARGET] = _address(target, np.float64)
        where[passes.WEIGHT] = _address(weight, np.float64)
        where[passes.N_WEIGHTS] = len(weight)
        where[passes.PROBABILITY] = _address(precomputed, np.float64)
        where[passes.N_PRECOMPUTED : passes.N_PRECOMPUTED_ROWS + 1] = precomputed.shape


def _address(array: np.ndarray, dtype: Any) -> int:
    """Return where the elements of an array begin."""
    if array.dtype != dtype or not array.flags.c_contiguous:
        raise TypeError(
            f"a chunk has an array of {array.dtype} with strides {array.strides}; C order of "
            f"{np.dtype(dtype)} is needed."
        )
    place: int = array.__array_interface__["data"][0]
    return place
