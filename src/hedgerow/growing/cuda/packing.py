"""Packed gradients on a GPU: what histograms add up.

::

    one output      as on the processor, by the function that packs them there
    several         of each output, g << 32 | h: the words of all rows together fit 31 bits
                    (:mod:`hedgerow.growing.vectors.gradients`), so no sum of h reaches g
                    then 1 for each row, which counts them; with a constant hessian, h is this 1
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray, RowArray
from hedgerow.compile import kernel
from hedgerow.growing.core.stages.gradients import pack_block
from hedgerow.growing.core.state import Rows
from hedgerow.kernels.cuda.intrinsics import block_number, block_size, n_blocks, thread_number
from hedgerow.kernels.histograms.vector_histogram import place_of_g
from hedgerow.kernels.simd.lanes import N_LANES

H_BITS = 32


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


@kernel
def pack_vectors(
    n_outputs: int, n_rows: int, width: int, constant: int, words: np.ndarray, packed: IntArray
) -> None:
    """Write the packed numbers of all rows, output after output, from their ``width`` words."""
    step = n_blocks() * block_size()
    for row in range(block_number(0) * block_size() + thread_number(), n_rows, step):
        for output in range(n_outputs):
            at = row * width + place_of_g(constant, output)
            h = np.int64(1) if constant == 1 else np.int64(words[at + N_LANES])
            packed[output * n_rows + row] = (np.int64(words[at]) << H_BITS) + h
        if constant == 0:
            packed[n_outputs * n_rows + row] = 1
