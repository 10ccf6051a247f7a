"""Memory for rows that arrive in parts, until they are a chunk."""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import BinArray, aligned_zeros
from hedgerow.data.binning.matrix import PAD, BinnedMatrix, tile_shape
from hedgerow.data.external.row_store import Metadata, MetadataSizes


class RowBuffer:
    """Rows with a bin for each column, and their metadata.

    Parameters
    ----------
    capacity : int
        Largest number of rows.
    n_columns : int
    sizes : MetadataSizes

    Attributes
    ----------
    n_rows : int
        Number of rows in the buffer; the caller sets it to 0 to reuse the memory.
    """

    def __init__(self, capacity: int, n_columns: int, sizes: MetadataSizes) -> None:
        self.capacity, self.n_rows, self._sizes = capacity, 0, sizes
        n_tiles, _, width = tile_shape(n_columns)
        self._by_row = aligned_zeros((n_tiles, capacity + PAD, width), np.uint8)
        self._by_column = aligned_zeros((n_columns, capacity + PAD), np.uint8)
        self._target = np.zeros((sizes.n_targets, capacity))
        self._weight = np.zeros(capacity if sizes.weighted else 0)
        self._offset = np.zeros((sizes.n_offsets, capacity))
        self._numbers = np.zeros((sizes.n_numbers, capacity))

    def fill(self, matrix: BinnedMatrix, metadata: Metadata, start: int = 0) -> int:
        """Copy rows from ``start`` on until the buffer is full; return the number of rows."""
        n_taken = min(self.capacity - self.n_rows, matrix.n_rows - start)
        to, source = slice(self.n_rows, self.n_rows + n_taken), slice(start, start + n_taken)
        self._by_row[:, to] = matrix.by_row[:, source]
        self._by_column[:, to] = matrix.by_column[:, source]
        self._target[:, to] = metadata.target[source].T
        if metadata.weight is not None:
            self._weight[to] = metadata.weight[source]
        if metadata.offset is not None:
            self._offset[:, to] = metadata.offset[:, source]
        if metadata.numbers is not None:
            self._numbers[:, to] = metadata.numbers[source].T
        self.n_rows += n_taken
        return n_taken

    def bins(self) -> tuple[BinArray, BinArray]:
        """Return both layouts of the rows in the buffer, followed by zeros."""
        stop = self.n_rows + PAD
        self._by_row[:, self.n_rows : stop] = 0
        self._by_column[:, self.n_rows : stop] = 0
        return self._by_row[:, :stop], self._by_column[:, :stop]

    def metadata(self) -> Metadata:
        """Return target, weight, offset and numbers of the rows in the buffer."""
        sizes, n = self._sizes, self.n_rows
        target = self._target[:, :n]
        return Metadata(
            target[0] if sizes.n_targets == 1 else target.T,
            self._weight[:n] if sizes.weighted else None,
            self._offset[:, :n] if sizes.n_offsets else None,
            self._numbers[:, :n].T if sizes.n_numbers else None,
        )
