"""Change in the loss of the rows that a round leaves out, on rows in chunks.

In one pass at the end of a round, the scores of a chunk are seen before and after the trees of the
round are added.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import FloatArray, RowArray
from hedgerow.boosting.external.rounds.scores import gather_scores
from hedgerow.boosting.loop.setup.loss_spec import needs_all_rows
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
        self._grower = grower
        self._before = _Loss(objective, others)
        self._after = _Loss(objective, others)

    def before(self, chunk: Chunk) -> None:
        """Add the rows of a chunk before the trees are added to its scores."""
        self._before.add(chunk, self._grower.rows_outside(chunk))

    def after(self, chunk: Chunk) -> None:
        """Add the rows of a chunk after the trees are added to its scores."""
        self._after.add(chunk, self._grower.rows_outside(chunk))

    def improvement(self) -> float:
        """Return the loss before minus the loss after; 0 if no row was left out."""
        return self._before.finish() - self._after.finish()


class _Loss:
    """Loss of rows in parts.

    It comes from sums over rows, or from the rows of all ranks if the loss must see them at once.
    """

    def __init__(self, objective: Objective, others: Communicator) -> None:
        self._objective, self._others = objective, others
        self._sums = None if needs_all_rows(objective) else loss_metric(objective).sums
        self._totals = [] if self._sums is None else [ExactSum()] * self._sums.n_sums
        self._rows: list[Batch] = []
        self._raw: list[FloatArray] = [np.zeros((objective.n_outputs, 0))]

    def add(self, chunk: Chunk, rows: RowArray) -> None:
        """Add some rows of a chunk at its scores."""
        if len(rows) == 0:
            return
        weight = None if chunk.weight is None else chunk.weight[rows]
        target, raw = chunk.target[rows], chunk.work.raw[:, rows]
        if self._sums is None:
            self._rows.append((target, weight))
            self._raw.append(raw)
            return
        more = self._sums.sums(target, raw, weight, 0.0)
        self._totals = [total + part for total, part in zip(self._totals, more, strict=True)]

    def finish(self) -> float:
        """Return the loss of the rows of all ranks; 0 without rows."""
        if self._sums is None:
            target, weight = AllRows(lambda: self._rows, self._others).gathered()
            raw = gather_scores(np.concatenate(self._raw, axis=1), self._others)
            return self._objective.loss(target, raw, weight) if len(target) > 0 else 0.0
        totals = merged(self._totals, self._others)
        has_rows = any(total != ExactSum() for total in totals)
        return self._sums.finish(*totals) if has_rows else 0.0
