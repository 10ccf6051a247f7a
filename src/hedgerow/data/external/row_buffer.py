"""Memory for rows that arrive in parts, until they are a chunk."""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import BinArray, FloatArray, aligned_zeros
from hedgerow.data.binning.matrix import PAD, BinnedMatrix, tile_shape


class RowBuffer:
    """Rows with a bin for each column, and their numbers.

    Parameters
    ----------
    capacity : int
        Largest number of rows.
    n_columns : int
    n_numbers : int
        Columns whose values are kept.

    Attributes
    ----------
    n_rows : int
        Number of rows in the buffer; the caller sets it to 0 to reuse the memory.
    """

    def __init__(self, capacity: int, n_columns: int, n_numbers: int) -> None:
        self.capacity, self.n_rows = capacity, 0
        n_tiles, _, width = tile_shape(n_columns)
        self._by_row = aligned_zeros((n_tiles, capacity + PAD, width), np.uint8)
        self._by_column = aligned_zeros((n_columns, capacity + PAD), np.uint8)
        self._numbers = np.zeros((n_numbers, capacity))

    def fill(self, matrix: BinnedMatrix, numbers: FloatArray | None, start: int = 0) -> int:
        """Copy rows from ``start`` on until the buffer is full; return the number of rows."""
        n_taken = min(self.capacity - self.n_rows, matrix.n_rows - start)
        to, source = slice(self.n_rows, self.n_rows + n_taken), slice(start, start + n_taken)
        self._by_row[:, to] = matrix.by_row[:, source]
        self._by_column[:, to] = matrix.by_column[:, source]
        if numbers is not None:
            self._numbers[:, to] = numbers[source].T
        self.n_rows += n_taken
        return n_taken

    def bins(self) -> tuple[BinArray, BinArray]:
        """Return both layouts of the rows in the buffer, followed by zeros."""
        stop = self.n_rows + PAD
        self._by_row[:, self.n_rows : stop] = 0
        self._by_column[:, self.n_rows : stop] = 0
        return self._by_row[:, :stop], self._by_column[:, :stop]

    def numbers(self) -> FloatArray | None:
        """Return the numbers of the rows in the buffer, in Fortran order."""
        return self._numbers[:, : self.n_rows].T if len(self._numbers) else None
