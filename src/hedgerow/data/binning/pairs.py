"""Pack the bins of two features with few bins into one byte of a row.

Only the layout by row changes (:mod:`hedgerow.kernels.histograms.pairs`).  Columns, histograms and
splits still belong to features, so the model is the same.  Code that sends rows down a
tree by their bytes uses :func:`left_bytes` to learn which bytes go left::

    first of a pair: bin in S     byte in {16 a + b : a in S}
    second                        byte in {16 a + b : b in S}
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, aligned_zeros
from hedgerow.data.binning.matrix import BinnedMatrix, tile_shape
from hedgerow.kernels.histograms.pairs import PAIR_STRIDE, put_in_pairs
from hedgerow.threads import run_blocks

FEWEST_ROWS = 100_000
"""Fewest rows for which pairs save more time than compiling the stages for pairs takes.

40 trees of 28 columns: pairs save nothing of 0.09 s with 30,000 rows, 17% of 0.3 s with 100,000,
and 18% of 0.7 s with 300,000; compiling the stages takes many seconds.
"""

_ROWS_PER_THREAD = 10_000


def can_pair(matrix: BinnedMatrix) -> bool:
    """Return whether the bins of two features fit in a byte and no features are bundled."""
    return (
        matrix.stride == PAIR_STRIDE
        and matrix.layout is None
        and not matrix.paired
        and matrix.n_features > 1
    )


def may_pay(matrix: BinnedMatrix) -> bool:
    """Return whether a fit on the matrix is faster with pairs."""
    return can_pair(matrix) and matrix.n_rows >= FEWEST_ROWS


def pair_columns(matrix: BinnedMatrix, n_threads: int = 1) -> BinnedMatrix:
    """Return the matrix with features 2k and 2k + 1 in the same byte of a row."""
    n_tiles, _, width = tile_shape((matrix.n_features + 1) // 2)
    paired = aligned_zeros((n_tiles, matrix.by_row.shape[1], width), np.uint8)
    run_blocks(
        lambda start, stop: put_in_pairs(matrix.by_row, paired, matrix.n_features, start, stop),
        matrix.n_rows,
        n_threads,
        _ROWS_PER_THREAD,
    )
    return replace(matrix, by_row=paired, paired=True)


def left_bytes(
    column: npt.NDArray[np.int32], left_bins: npt.NDArray[np.uint64]
) -> npt.NDArray[np.uint64]:
    """Convert sets of bins that go left to sets of packed bytes that go left."""
    bins: AnyArray = left_bins[:, :1] & np.uint64(0xFFFF)
    second = bins * np.uint64(0x0001_0001_0001_0001)
    first = np.zeros((len(bins), 4), dtype=np.uint64)
    for b in range(PAIR_STRIDE):
        run = np.uint64(0xFFFF) << np.uint64(PAIR_STRIDE * (b % 4))
        first[:, b // 4] |= ((bins[:, 0] >> np.uint64(b)) & np.uint64(1)) * run
    return np.where((column % 2 == 0)[:, None], first, second)
