"""Single matrix into which the rows of all chunks are copied, chunk by chunk."""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import FloatArray, aligned_empty
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.binning.bundles import Layout
from hedgerow.data.binning.matrix import PAD, BinnedMatrix
from hedgerow.data.external.row_store import Metadata


class JoinedRows:
    """All rows of a store in one matrix, to which chunks are added in order.

    Parameters
    ----------
    n_rows, n_columns : int
    tile : (int, int, int)
        Number of tiles, features of a tile, and bytes of a row of a tile.
    """

    def __init__(self, n_rows: int, n_columns: int, tile: tuple[int, int, int]) -> None:
        n_tiles, _, width = tile
        self._n_rows, self._n_filled, self._n_lost = n_rows, 0, 0
        self._by_row = aligned_empty((n_tiles, n_rows + PAD, width), np.uint8)
        self._by_column = aligned_empty((n_columns, n_rows + PAD), np.uint8)
        self._by_row[:, n_rows:] = 0
        self._by_column[:, n_rows:] = 0
        self._target: FloatArray = np.empty(0)
        self._weight: FloatArray | None = None
        self._offset: FloatArray | None = None
        self._numbers: FloatArray | None = None

    def add(self, matrix: BinnedMatrix, metadata: Metadata) -> None:
        """Append the rows of a chunk."""
        n_rows, start = matrix.n_rows, self._n_filled
        rows = slice(start, start + n_rows)
        self._by_row[:, rows] = matrix.by_row[:, :n_rows]
        self._by_column[:, rows] = matrix.by_column[:, :n_rows]
        if start == 0:
            shape = (self._n_rows, *metadata.target.shape[1:])
            self._target = np.empty(shape, order="F")
        self._target[rows] = metadata.target
        if metadata.weight is not None:
            if self._weight is None:
                self._weight = np.empty(self._n_rows)
            self._weight[rows] = metadata.weight
        if metadata.offset is not None:
            if self._offset is None:
                self._offset = np.empty((len(metadata.offset), self._n_rows))
            self._offset[:, rows] = metadata.offset
        if metadata.numbers is not None:
            if self._numbers is None:
                shape = (self._n_rows, metadata.numbers.shape[1])
                self._numbers = np.empty(shape, order="F")
            self._numbers[rows] = metadata.numbers
        self._n_filled += n_rows
        self._n_lost += matrix.n_lost

    def matrix(self, spec: BinSpec, layout: Layout | None) -> BinnedMatrix:
        """Return the bins of all rows."""
        return BinnedMatrix(self._by_row, self._by_column, spec, layout, self._n_lost)

    @property
    def metadata(self) -> Metadata:
        """Target, weight, offset and numbers of all rows."""
        return Metadata(self._target, self._weight, self._offset, self._numbers)
