"""Change in the loss of the rows that a round leaves out, on rows in chunks.

In one pass at the end of a round, the scores of a chunk are seen before and after the trees of the
round are added.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.boosting.external.scores import gather_scores
from hedgerow.comm.base import Communicator
from hedgerow.data.external.row_store import Chunk
from hedgerow.growing.chunks.grower import ChunkGrower
from hedgerow.kernels.primitives.exact_sum import ExactSum
from hedgerow.metrics.making import loss_metric
from hedgerow.objectives import Objective
from hedgerow.objectives.global_sums import AllRows, Batch, merged


class LeftOut:
    """Loss of the rows left out of a round, before and after the round."""

    def __init__(self, grower: ChunkGrower, objective: Objective, others: Communicator) -> None:
        self._grower, self._others = grower, others
        sums = loss_metric(objective).sums
        assert sums is not None
        self._loss = sums
        self._before = [ExactSum()] * sums.n_sums
        self._after = [ExactSum()] * sums.n_sums

    def before(self, chunk: Chunk) -> None:
        """Add the losses of a chunk before the trees are added to its scores."""
        self._before = self._with(chunk, self._before)

    def after(self, chunk: Chunk) -> None:
        """Add the losses of a chunk after the trees are added to its scores."""
        self._after = self._with(chunk, self._after)

    def improvement(self) -> float:
        """Return the loss before minus the loss after; 0 if no row was left out."""
        n_sums, sums = self._loss.n_sums, merged([*self._before, *self._after], self._others)
        if all(total == ExactSum() for total in sums):
            return 0.0
        return self._loss.finish(*sums[:n_sums]) - self._loss.finish(*sums[n_sums:])

    def _with(self, chunk: Chunk, totals: list[ExactSum]) -> list[ExactSum]:
        """Return the totals with the losses of the rows of a chunk that were left out."""
        rows: Any = self._grower.rows_outside(chunk)
        if len(rows) == 0:
            return totals
        weight = None if chunk.weight is None else chunk.weight[rows]
        more = self._loss.sums(chunk.target[rows], chunk.work.raw[:, rows], weight, 0.0)
        return [total + part for total, part in zip(totals, more, strict=True)]


class GatheredLeftOut:
    """The same for a loss that must see all rows at once: every rank has those left out."""

    def __init__(self, grower: ChunkGrower, objective: Objective, others: Communicator) -> None:
        self._grower, self._objective, self._others = grower, objective, others
        self._known: list[Batch] = []
        self._before: list[FloatArray] = []
        self._after: list[FloatArray] = []

    def before(self, chunk: Chunk) -> None:
        """Note targets, weights and scores of a chunk before the trees are added."""
        rows = self._grower.rows_outside(chunk)
        weight = None if chunk.weight is None else chunk.weight[rows]
        self._known.append((chunk.target[rows], weight))
        self._before.append(chunk.work.raw[:, rows])

    def after(self, chunk: Chunk) -> None:
        """Note the scores of a chunk after the trees are added."""
        self._after.append(chunk.work.raw[:, self._grower.rows_outside(chunk)])

    def improvement(self) -> float:
        """Return the loss before minus the loss after; 0 if no row was left out."""
        target, weight = AllRows(lambda: self._known, self._others).gathered()
        before, after = (self._gathered(parts) for parts in (self._before, self._after))
        if len(target) == 0:
            return 0.0
        loss = self._objective.loss
        return loss(target, before, weight) - loss(target, after, weight)

    def _gathered(self, parts: list[FloatArray]) -> FloatArray:
        empty = np.zeros((self._objective.n_outputs, 0))
        return gather_scores(np.concatenate([empty, *parts], axis=1), self._others)


__all__ = ["GatheredLeftOut", "LeftOut"]
