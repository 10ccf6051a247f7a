"""Encodings of a column of bins in a block of a file.

======  ==========================================================================
codec   bytes
======  ==========================================================================
0       unencoded bins
1 2 4   at most 2, 4 or 16 different bins: 1, 2 or 4 bits per bin, and a legend
        (:mod:`hedgerow.kernels.histograms.packed_columns`)
8       LZ4, for columns dominated by one bin or with long runs; needs pyarrow
======  ==========================================================================

A column is encoded if this saves at least 40% of its bytes.  Bins of a continuous feature
are about equally frequent: no codec shrinks their eight bits of information per bin.
``benchmarks/disk_store.py`` compares the codecs, see docs/out-of-core-store.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.arrays import BinArray
from hedgerow.errors import StorageError
from hedgerow.kernels.histograms.packed_columns import LEGEND, mark_bins, pack_codes, unpack_codes

RAW, LZ4 = 0, 8
PACKED = (1, 2, 4)
_WORTH = 0.6  # largest size of an encoded column, as a fraction: four bits and a legend


def find_lz4() -> Any | None:
    """Return the LZ4 codec of pyarrow, or None if pyarrow is not installed."""
    try:
        from pyarrow import Codec
    except ImportError:
        return None
    return Codec("lz4_raw")


def encode_column(column: BinArray, lz4: Any | None) -> tuple[BinArray, int]:
    """Encode one column."""
    n_rows = len(column)
    seen = np.zeros(256, dtype=np.uint8)
    mark_bins(column, n_rows, seen)
    bins = np.flatnonzero(seen).astype(np.uint8)
    best, codec = column, RAW
    for bits in PACKED:
        if len(bins) <= 1 << bits and packed_size(n_rows, bits) <= _WORTH * n_rows:
            best, codec = _pack(column, bins, bits), bits
            break
    if lz4 is not None:
        data = np.frombuffer(lz4.compress(column), dtype=np.uint8)
        if len(data) <= _WORTH * len(best):  # LZ4 unpacks more slowly than packed bits
            best, codec = data, LZ4
    return best, codec


def packed_size(n_rows: int, bits: int) -> int:
    """Return the bytes of a column with ``bits`` bits per row."""
    return LEGEND + -(-n_rows * bits // 8)


def _pack(column: BinArray, bins: BinArray, bits: int) -> BinArray:
    data = np.zeros(packed_size(len(column), bits), dtype=np.uint8)
    data[: len(bins)] = bins
    code = np.zeros(256, dtype=np.uint8)
    code[bins] = np.arange(len(bins))
    pack_codes(column, len(column), code, bits, data[LEGEND:])
    return data


class ColumnDecoder:
    """Decoder of columns from :func:`encode_column`; for one thread."""

    def __init__(self) -> None:
        self._table = np.zeros(2048, dtype=np.uint8)
        self._lz4: Any | None = None

    def decode(self, data: BinArray, codec: int, n_rows: int, column: BinArray) -> None:
        """Write ``n_rows`` bins to ``column``.

        The array must be at least 8 elements longer; their contents are undefined.
        """
        if codec == RAW:
            column[:n_rows] = data
        elif codec == LZ4:
            self._lz4 = self._lz4 or find_lz4()
            if self._lz4 is None:
                raise StorageError(
                    "a column was written with LZ4, which needs pyarrow: "
                    "pip install hedgerow[files]."
                )
            column[:n_rows] = np.frombuffer(self._lz4.decompress(data, n_rows), dtype=np.uint8)
        else:
            unpack_codes(data, codec, self._table, column)
