"""Packed gradients on a GPU, by the function that packs them on the processor."""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray, RowArray
from hedgerow.compile import kernel
from hedgerow.growing.core.gradients import pack_block
from hedgerow.growing.core.state import Rows
from hedgerow.kernels.cuda.intrinsics import block_number, block_size, n_blocks, thread_number


@kernel
def pack_rows(
    constant: int,
    seed: int,
    scalars: IntArray,
    ids: RowArray,
    quantized: np.ndarray,
    packed: IntArray,
) -> None:
    """Write the packed numbers of all rows, in the sample or not."""
    step, n_rows = n_blocks() * block_size(), len(quantized) // 2
    rows = Rows(ids, ids, quantized, packed)
    for row in range(block_number(0) * block_size() + thread_number(), n_rows, step):
        pack_block(scalars, constant, seed, rows, row, row + 1)
