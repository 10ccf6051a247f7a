"""Gradients of rows in chunks, for losses whose derivatives are computed before the pass.

In memory such a loss fills g and h of all rows before each tree
(:class:`hedgerow.objectives.precomputed.RowDerivatives`).  Here it fills those of one chunk,
in space that the next chunk takes over: they are computed again for every tree in any case,
so nothing of them is kept.

A loss that compares rows with others (:class:`CrossRowGradients`) gets the scores of all rows
of the rank first, in a pass of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, cast

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.data.external.row_store import Chunk
from hedgerow.growing.chunks.exchange import Exchange
from hedgerow.objectives.base import Objective
from hedgerow.objectives.derivatives import PRECOMPUTED
from hedgerow.objectives.precomputed import BLOCK_ROWS, LossRows, PrecomputedLoss, check_curvature
from hedgerow.threads import run_blocks


class CrossRowGradients(Protocol):
    """A loss that sees all rows of a rank, and those of others that compete with them."""

    def collect(self, chunk: Chunk) -> None:
        """Note the raw scores of a chunk."""

    def fill(self, output: int, round_: int) -> None:
        """Compute g and h of all rows, once the scores of all chunks are noted, on all ranks."""

    def of_chunk(self, chunk: Chunk, output: int) -> FloatArray:
        """G and h of the rows of a chunk, float64 (2, n_rows), C order."""


class ChunkGradients:
    """G and h of one chunk after the other.

    Parameters
    ----------
    objective : Objective
        Of any kind; of others than ``PRECOMPUTED`` nothing is done.
    newton : bool
        Whether trees are grown on h, too.
    most_rows : int
        Of a chunk.
    n_threads : int
    cross_row : CrossRowGradients, optional
        Computes them in place of the objective.
    """

    def __init__(
        self,
        objective: Objective,
        newton: bool,
        most_rows: int,
        n_threads: int,
        cross_row: CrossRowGradients | None = None,
    ) -> None:
        self.cross_row = cross_row
        precomputed = objective.kernel_id == PRECOMPUTED
        self._loss = cast(PrecomputedLoss, objective) if precomputed else None
        self._space: FloatArray = np.empty(2 * most_rows if precomputed else 0)
        self._n_threads = n_threads
        # Only a user's loss may have no positive h in any row.
        watched = precomputed and newton and hasattr(objective, "label")
        self._watches = watched and cross_row is None  # which has all h at hand itself
        self._largest: dict[int, float] = {}

    def begin(self, outputs: Iterable[int]) -> None:
        """Begin a pass over all chunks, for the trees of these outputs."""
        self._largest = dict.fromkeys(outputs, 0.0)

    def probability(self, chunk: Chunk, output: int, round_: int) -> FloatArray:
        """Return ``LossData.probability`` of a chunk: g and h at its raw scores."""
        loss = self._loss
        if loss is None:
            return chunk.work.probability
        if self.cross_row is not None:
            return self.cross_row.of_chunk(chunk, output)
        found = self._space[: 2 * chunk.n_rows].reshape(2, chunk.n_rows)
        target, raw, weight = chunk.target, chunk.work.raw, chunk.weight

        def block(start: int, stop: int) -> None:
            some = None if weight is None else weight[start:stop]
            rows = LossRows(target[start:stop], raw[:, start:stop], some, round_)
            loss.derivatives(rows, output, found[0, start:stop], found[1, start:stop])

        run_blocks(block, chunk.n_rows, self._n_threads if loss.rowwise else 1, BLOCK_ROWS)
        if self._watches:
            self._largest[output] = max(self._largest[output], float(found[1].max(initial=0.0)))
        return found

    def finish(self, exchange: Exchange) -> None:
        """End the pass after all chunks."""
        if self._loss is None or not self._watches:
            return
        # Bit patterns of floats >= 0 sort like the floats.
        bits = np.array(list(self._largest.values())).view(np.int64)
        largest = exchange.measures(bits).max(axis=0).view(np.float64)
        check_curvature(self._loss, float(largest.min()))
