"""What the gradient passes of all ranks have measured."""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.growing.chunks.exchange import Exchange
from hedgerow.growing.core import state as layout

OF_MOST = slice(layout.COUNT_G_MOST, layout.COUNT_H_MOST + 1)
OF_SUMS = slice(layout.COUNT_G_SUM, layout.COUNT_H_SUM + 1)


def sums_of_parts(counts: IntArray) -> IntArray:
    """Sums of ``|g|`` and h of each part: int64 (parts, 2), of counts (parts, threads, COUNTS)."""
    return np.asarray(counts[:, :, OF_SUMS].sum(axis=1))


def gather_counts(exchange: Exchange, counts: IntArray, of_sample: IntArray) -> IntArray:
    """Replace the counts of the threads of this rank by those of all ranks, in part 0.

    Return the sum of ``of_sample`` over all ranks.
    """
    most = counts[:, :, OF_MOST].max(axis=1)
    parts = [part.reshape(-1) for part in (most, sums_of_parts(counts), of_sample)]
    ends = np.cumsum([len(part) for part in parts])[:-1]
    everyone = exchange.measures(np.concatenate(parts).astype(np.int64))
    most, sums, of_sample = np.split(everyone, ends, axis=1)
    counts[:] = 0
    counts[:, 0, OF_MOST] = most.max(axis=0).reshape(-1, 2)
    counts[:, 0, OF_SUMS] = sums.sum(axis=0).reshape(-1, 2)
    return np.asarray(of_sample.sum(axis=0))
