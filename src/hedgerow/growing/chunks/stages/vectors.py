"""Additional stages of all threads on a chunk of rows with several outputs.

::

    gradients of each output          chunks.stages.start_chunk, one output after the other
    words of the rows                 vectors.gradients.write_words
    sizes of all outputs' gradients   joined again each time that keys are computed
    weights of the sampled rows       multiply the numbers of all outputs
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core.state import (
    COUNT_G_SUM,
    COUNT_H_SUM,
    IS_UNIT_SCALE,
    Outputs,
    Rows,
    Sampler,
    Vectors,
)
from hedgerow.growing.vectors.sampling import join_outputs, weigh_rows
from hedgerow.kernels.primitives.barrier import ThreadTeam, share
from hedgerow.kernels.primitives.intrinsics import array_at, float_of_bits


@kernel(inner=True)
def vectors_at(quantized: int, packed: int, n_rows: int, vectors: Vectors) -> Vectors:
    """Return the arrays of all outputs, with those of the rows of a chunk at these addresses."""
    outputs = vectors.outputs
    return Vectors(
        vectors.used,
        Outputs(
            outputs.target,
            array_at(quantized, (outputs.scalars.shape[0], 2 * n_rows), np.int32),
            array_at(packed, (n_rows * outputs.sums.width,), np.int32),
            outputs.sums,
            outputs.measured,
            outputs.dropped,
            outputs.scalars,
            outputs.vectors,
            outputs.cover,
        ),
        vectors.trial,
    )


@kernel(inner=True)
def join_chunk(
    thread: int,
    team: ThreadTeam,
    sampler: Sampler,
    n_rows: int,
    rows: Rows,
    blocks: FloatArray,
    outputs: Outputs,
    counts: IntArray,
) -> None:
    """Write the sizes of the gradients of all outputs to the numbers of the rows of a chunk."""
    # ``n_rows`` are those of all chunks and ranks.
    place = share(len(rows.quantized) // 2, thread, team.n_threads)
    block, numbers = blocks[thread], rows.quantized
    join_outputs(sampler, n_rows, outputs, place, block, numbers, counts[thread])


@kernel(inner=True)
def weigh_chunk(
    thread: int, team: ThreadTeam, sampler: Sampler, rows: Rows, outputs: Outputs, counts: IntArray
) -> None:
    """Multiply the numbers of all outputs by the weights of the rows; add up the sample."""
    # ``rows.scratch`` marks the sample; ``counts`` are those of each output.
    place = share(len(rows.quantized) // 2, thread, team.n_threads)
    scale = float_of_bits(outputs.scalars[0, IS_UNIT_SCALE])
    for output in range(len(outputs.scalars)):
        numbers = outputs.quantized[output]
        g, h = weigh_rows(numbers, sampler.weights, scale, rows.scratch, place)
        counts[output, thread, COUNT_G_SUM] += g
        counts[output, thread, COUNT_H_SUM] += h
