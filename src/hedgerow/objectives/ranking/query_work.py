"""Division of queries over threads, and numbers of pairs of rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.kernels.ranking import QueryRows, QuerySpace, make_space
from hedgerow.threads import run_blocks

_LEAST_WORK = 50_000
"""Fewest pairs per thread: waking a thread takes some microseconds."""


def in_blocks(
    queries: QueryRows,
    work: IntArray,
    fill: Callable[[int, int, QuerySpace], None],
    n_threads: int,
) -> None:
    """Call ``fill`` on consecutive queries, divided over threads by their ``work``."""
    so_far = np.cumsum(work)
    n_blocks = int(max(1, min(n_threads, so_far[-1] // _LEAST_WORK)))
    goals = so_far[-1] * np.arange(1, n_blocks) // n_blocks
    edges = np.concatenate([[0], np.searchsorted(so_far, goals), [len(work)]]).tolist()

    def task(start: int, stop: int) -> None:
        for block in range(start, stop):
            fill(edges[block], edges[block + 1], make_space(queries))

    run_blocks(task, n_blocks, n_threads, 1)


def row_share(gain: FloatArray, queries: QueryRows) -> FloatArray:
    """Return the rows of each query divided by its pairs; 0 without pairs."""
    n = np.diff(queries.starts)
    number = np.repeat(np.arange(len(n)), n)
    order = np.lexsort((gain[queries.rows], number))
    ordered, of = gain[queries.rows][order], number[order]
    starts = np.flatnonzero(np.r_[True, (ordered[1:] != ordered[:-1]) | (of[1:] != of[:-1])])
    counts = np.diff(np.r_[starts, len(ordered)])
    equal = np.bincount(of[starts], weights=counts.astype(np.float64) ** 2, minlength=len(n))
    pairs = 0.5 * (n.astype(np.float64) ** 2 - equal)
    return np.divide(n, pairs, out=np.zeros(len(n)), where=pairs > 0.0)
