"""Lists of the cells of rows that are not at rest, for tiles where few are.

A tile of the binned matrix (:mod:`hedgerow.data.binning.matrix`) holds up to 32 columns.
Where most of a row's cells are the ones at rest, as in text, it is faster to add
up the others alone (:func:`hedgerow.kernels.histograms.histogram.add_listed`).
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.data.binning.matrix import BinnedMatrix
from hedgerow.kernels.histograms.histogram import RowLists
from hedgerow.kernels.histograms.pairs import SPACING
from hedgerow.kernels.tables.sparse import count_cells, list_cells
from hedgerow.threads import run_blocks

_FILLED = 1 / 8
"""Share of cells away from rest below which a tile gets lists.  A cell of a list costs
three to four times as much as one of a whole row."""


def make_row_lists(matrix: BinnedMatrix, n_threads: int = 1) -> RowLists:
    """Return lists for the tiles where they pay off, of a matrix with a layout."""
    n_tiles, n_rows, per_tile = matrix.n_tiles, matrix.n_rows, matrix.features_per_tile
    assert matrix.layout is not None
    default_bin = matrix.layout.default_row(matrix.spec)
    listed = np.zeros(n_tiles, dtype=np.uint8)
    base = np.zeros(n_tiles + 1, dtype=np.int64)
    counts: IntArray = np.zeros(n_tiles, dtype=np.int64)
    resting = np.zeros((n_tiles, per_tile), dtype=np.uint8)
    resting.reshape(-1)[: len(default_bin)] = default_bin
    row_start = np.zeros((n_tiles, n_rows + 1), dtype=np.uint32)

    def count(first: int, last: int) -> None:
        for tile in range(first, last):
            counts[tile] = count_cells(matrix.by_row, tile, resting[tile], row_start[tile])

    run_blocks(count, n_tiles, n_threads, 1)
    most = np.iinfo(row_start.dtype).max
    listed[:] = (counts < _FILLED * n_rows * per_tile) & (counts <= most)
    base[1:] = np.cumsum(np.where(listed == 1, counts, 0))
    cells = np.empty(base[-1], dtype=np.uint16)

    def write(first: int, last: int) -> None:
        for tile in range(first, last):
            if listed[tile] == 1:
                part = cells[base[tile] : base[tile + 1]]
                list_cells(matrix.by_row, tile, resting[tile], SPACING, n_rows, part)

    run_blocks(write, n_tiles, n_threads, 1)
    return RowLists(1, listed, base, row_start, cells, default_bin.astype(np.int64))
