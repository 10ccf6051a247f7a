"""Working arrays of the rows of a fit, in parts for the chunks.

The arrays are those of all rows, allocated once a fit by the store, and each chunk has a part of
each::

    quantized   [ chunk 0                | chunk 1          | ... ]     two numbers a row
    rows        [ chunk 0 | padding      | chunk 1 | padding | ... ]    places within the chunk
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.arrays import FloatArray, IntArray, RowArray
from hedgerow.data.binning.matrix import PAD
from hedgerow.data.external.memory_plan import packed_words_of
from hedgerow.data.external.row_store import ChunkStore
from hedgerow.growing.chunks.vectors import weighs_rows
from hedgerow.objectives.base import Objective
from hedgerow.objectives.derivatives import SOFTMAX
from hedgerow.params import BoostParams


class ChunkWork(NamedTuple):
    """Working arrays of the rows of a chunk.

    number       number of the chunk
    place        slice of its rows in arrays of all rows
    quantized    int32 (2 * n_rows,): quantised gradient and hessian of each row, adjacent; for
                 trees with vectors those of each output, one after the other
    packed       int64 (packed words * n_rows,): what histograms add up
    rows         uint32 (n_rows + padding,): places of rows in the chunk, grouped by node
    weights      float64 (n_rows,): what each row stands for in a sample by gradients, where
                 leaves are searched by the loss of their rows, else (0,)
    probability  float64 (n_outputs, n_rows) for softmax, else (0, 0)
    """

    number: int
    place: slice
    quantized: np.ndarray
    packed: IntArray
    rows: RowArray
    weights: FloatArray
    probability: FloatArray

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.place.stop - self.place.start)


def make_work(
    store: ChunkStore, objective: Objective, params: BoostParams, n_vectors: int
) -> list[ChunkWork]:
    """Allocate the working arrays of a fit, for trees of ``n_vectors`` outputs."""
    n_rows, n_chunks = store.n_rows, len(store.chunk_sizes)
    words = packed_words_of(n_vectors)
    n_classes = objective.n_outputs if objective.kernel_id == SOFTMAX else 0
    quantized = store.row_array(2 * n_vectors * n_rows, np.int32)
    packed = store.row_array(words * n_rows, np.int64)
    rows = store.row_array(n_rows + PAD * n_chunks, np.uint32)
    weights = store.row_array(n_rows if weighs_rows(params, n_vectors) else 0, np.float64)
    probability = store.row_array(n_classes * n_rows, np.float64)
    found = []
    for number, (start, size) in enumerate(zip(store.starts, store.chunk_sizes, strict=True)):
        stop, first = start + size, start + PAD * number
        own = probability[n_classes * start : n_classes * stop]
        found.append(
            ChunkWork(
                number,
                slice(start, stop),
                quantized[2 * n_vectors * start : 2 * n_vectors * stop],
                packed[words * start : words * stop],
                rows[first : first + size + PAD],
                weights[start:stop],
                own.reshape(n_classes, size if n_classes else 0),
            )
        )
    return found
