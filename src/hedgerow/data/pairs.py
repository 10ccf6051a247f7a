"""Binned matrices with two features of few bins in one byte of a row.

Only the layout by row changes (:mod:`hedgerow.kernels.pairs`): columns, histograms
and splits are those of features, so the model is the same.  What walks down a tree
by the bytes of a row asks with :func:`left_bytes` which bytes go left::

    first of a pair: bin in S     byte in {16 a + b : a in S}
    second                        byte in {16 a + b : b in S}
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, aligned_zeros
from hedgerow.data.matrix import BinnedMatrix, tile_shape
from hedgerow.kernels.pairs import PAIR_STRIDE, put_in_pairs
from hedgerow.threads import run_blocks

FEWEST_ROWS = 100_000
"""Smaller fits gain less than it takes to compile the stages a second time, for pairs.

40 trees of 28 columns: nothing of 0.09 s with 30,000 rows, 17% of 0.3 s with 100,000, 18% of 0.7 s
with 300,000; to compile the stages takes many seconds.
"""

_ROWS_PER_THREAD = 10_000


def can_pair(matrix: BinnedMatrix) -> bool:
    """Whether the bins of two features fit in a byte and features have columns of their own."""
    return (
        matrix.stride == PAIR_STRIDE
        and matrix.layout is None
        and not matrix.paired
        and matrix.n_features > 1
    )


def may_pay(matrix: BinnedMatrix) -> bool:
    """Whether a fit on the matrix is faster with pairs."""
    return can_pair(matrix) and matrix.n_rows >= FEWEST_ROWS


def pair_columns(matrix: BinnedMatrix, n_threads: int = 1) -> BinnedMatrix:
    """The same matrix with features 2k and 2k + 1 in one byte of a row.

    Parameters
    ----------
    matrix : BinnedMatrix
        For which :func:`can_pair` holds.
    n_threads : int
    """
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
    """The bytes of pairs that go left, where the bins of one of the features do.

    Parameters
    ----------
    column : int32, shape (n_nodes,)
        Feature of each node; leaves do not matter.
    left_bins : uint64, shape (n_nodes, 4)
        Its bins that go left, a bit each; the first 16 are read.

    Returns
    -------
    uint64, shape (n_nodes, 4)
    """
    bins: AnyArray = left_bins[:, :1] & np.uint64(0xFFFF)
    second = bins * np.uint64(0x0001_0001_0001_0001)
    first = np.zeros((len(bins), 4), dtype=np.uint64)
    for b in range(PAIR_STRIDE):
        run = np.uint64(0xFFFF) << np.uint64(PAIR_STRIDE * (b % 4))
        first[:, b // 4] |= ((bins[:, 0] >> np.uint64(b)) & np.uint64(1)) * run
    return np.where((column % 2 == 0)[:, None], first, second)


__all__ = ["can_pair", "left_bytes", "may_pay", "pair_columns"]
