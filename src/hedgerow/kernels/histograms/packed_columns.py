"""Columns of bins with few different values, packed into 1, 2 or 4 bits each.

Glossary
--------
code     index of a bin among the distinct bins of the column: below 2, 4 or 16
per      codes in a byte: 8, 4 or 2; the first code is in the lowest bits
legend   the bins of the codes, ascending, in 16 bytes before the codes
packed   uint8 (LEGEND + n_bytes,); bits after the last code are 0
table    uint8 (2048,), scratch: the bins of each byte

::

    bins     0  9  9  0  0  9  0  0    17 bytes: legend 0 9 0 ... 0, byte 0b00100110

Unpacking copies ``per`` bins for each byte from a table, which is made once per column.
:func:`gather_rows` turns columns into rows, the other layout of a binned matrix.
"""

from __future__ import annotations

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import BinArray
from hedgerow.compile import kernel

LEGEND = 16
"""Bytes of the legend."""

_BLOCK = np.uint64(256)  # rows turned at a time: 256 * 32 bytes stay in the cache


@kernel
def pack_column(column: kt.UInt8_1D, code: kt.UInt8_1D, packed: kt.UInt8_1D) -> int:
    """Pack a column, if it has few bins; return the bits of a code, or 0."""
    # ``code`` is scratch space of 256 zeros, and ``packed``, of zeros, has room for 4 bits a row.
    n = np.uint64(len(column))
    for i in range(n):
        code[column[i]] = 1
    n_bins = 0
    for bin_ in range(256):
        if code[bin_] == 1 and n_bins < LEGEND:
            packed[n_bins], code[bin_] = bin_, n_bins
            n_bins += 1
        elif code[bin_] == 1:
            return 0
    bits = 1 if n_bins <= 2 else 2 if n_bins <= 4 else 4
    per, width = np.uint64(8 // bits), np.uint64(bits)
    for byte in range((n + per - np.uint64(1)) // per):
        value = np.uint64(0)
        for k in range(per):
            i = byte * per + k
            if i < n:
                value |= np.uint64(code[column[i]]) << (k * width)
        packed[np.uint64(LEGEND) + byte] = np.uint8(value)
    return bits


@kernel(inline=True, inner=True)
def _copy(
    packed: BinArray, start: int, n_bytes: int, table: BinArray, per: int, column: BinArray
) -> None:
    """Copy ``per`` bins per byte; with a constant ``per`` a byte costs one load and one store."""
    for i in range(n_bytes):
        source, to = np.uint64(packed[start + i]) * per, i * per
        for k in range(per):
            column[to + k] = table[source + k]


@kernel
def unpack_codes(packed: kt.UInt8_1D, bits: int, table: kt.UInt8_1D, column: kt.UInt8_1D) -> None:
    """Invert :func:`pack_column`."""
    # Items of ``column`` after the last byte stay unchanged.
    per, mask, width = np.uint64(8 // bits), np.uint64((1 << bits) - 1), np.uint64(bits)
    for byte in range(np.uint64(256)):
        for k in range(per):
            table[byte * per + k] = packed[(byte >> (k * width)) & mask]
    start = np.uint64(LEGEND)
    n_bytes = np.uint64(len(packed)) - start
    if bits == 1:
        _copy(packed, start, n_bytes, table, np.uint64(8), column)
    elif bits == 2:
        _copy(packed, start, n_bytes, table, np.uint64(4), column)
    else:
        _copy(packed, start, n_bytes, table, np.uint64(2), column)


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
