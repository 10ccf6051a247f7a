"""Histograms of several outputs from a GPU.

The GPU adds up the words of one output after the other, as if each were the only one, and the
number of rows::

    GPU     a place    output 0: g, h of all bins | output 1 | ... | rows of all bins
    host    a slot     cell: g and h of all outputs | next cell | ...

The sums of a cell are whole numbers of 32 bits in both (:mod:`hedgerow.growing.vectors.gradients`).
"""

from __future__ import annotations

import numpy as np

from hedgerow.compile import kernel
from hedgerow.kernels.cuda.commands import PART_TO, GpuCommands
from hedgerow.kernels.histograms.histogram import Bins
from hedgerow.kernels.histograms.vector_histogram import Sums, place_of_g
from hedgerow.kernels.simd.lanes import N_LANES


@kernel(inner=True)
def take_cell(source: int, to: int, n_outputs: int, sums: Sums, gpu: GpuCommands) -> None:
    """Copy the sums of one bin: of the first output they lie at ``source``."""
    cells, kept, first = sums.cells, gpu.ahead.kept, to * sums.width
    for word in range(first, first + sums.width):
        cells[word] = 0  # of outputs that fill up a line, too
    for output in range(n_outputs):
        own, word = source + gpu.parts[output, PART_TO], first + place_of_g(sums.constant, output)
        cells[word] = np.int32(kept.g[own])
        if sums.constant == 0:
            cells[word + N_LANES] = np.int32(kept.h[own])


@kernel(inner=True)
def take_vectors(
    span: tuple[int, int],
    bins: Bins,
    feature: np.ndarray,
    node: int,
    to: int,
    sums: Sums,
    gpu: GpuCommands,
) -> None:
    """Copy the columns ``span`` of a histogram that was fetched to cell ``to`` and those behind."""
    # All bins of a column are counted, as on the processor: a search looks at those without rows,
    # too.  After an error all are empty, and no split is found.
    ahead, last_part = gpu.ahead, gpu.n_parts[0] - 1
    n_outputs, works = last_part + sums.constant, gpu.status[0] == 0
    first = ahead.of_node[node] * ahead.n_cells
    counts = first + gpu.parts[last_part, PART_TO]
    for k in range(span[0], span[1]):
        at, stride = np.int64(feature[k]) * bins.stride, bins.stride
        for cell in range(at, at + stride):
            count = ahead.kept.n[counts + cell] if works else np.int32(0)
            sums.n[to + cell] = count
            if count != 0:
                take_cell(first + cell, to + cell, n_outputs, sums, gpu)
