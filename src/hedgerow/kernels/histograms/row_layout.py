"""The row layout of a binned matrix, from its column layout."""

from __future__ import annotations

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.compile import kernel

_BLOCK = np.uint64(256)  # rows turned at a time: 256 * 32 bytes stay in the cache


@kernel
def gather_rows(by_column: kt.UInt8_2D, per_tile: int, by_row: kt.UInt8_3D) -> None:
    """Write the row layout (n_tiles, n_rows, tile_width) of a matrix from its column layout."""
    # The last tile may have fewer columns; positions without a column are set to 0.
    n_columns, n_rows = np.uint64(by_column.shape[0]), np.uint64(by_column.shape[1])
    width, per_tile = np.uint64(by_row.shape[2]), np.uint64(per_tile)
    for tile in range(np.uint64(by_row.shape[0])):
        first = tile * per_tile
        n_held = np.uint64(min(per_tile, n_columns - first))
        rows = by_row[tile]
        for block in range(np.uint64(0), n_rows, _BLOCK):
            stop = np.uint64(min(block + _BLOCK, n_rows))
            for j in range(n_held):
                column = by_column[first + j]
                for i in range(block, stop):
                    rows[i, j] = column[i]
            for j in range(n_held, width):
                for i in range(block, stop):
                    rows[i, j] = np.uint8(0)
