"""Training rows in a single chunk, on which trees grow as on a table in memory.

If all rows of a store fit in memory, the store has a single chunk.  The bins of this chunk are a
matrix as for a fit in memory, so the rows are
:class:`hedgerow.boosting.loop.memory_rows.MemoryRows`.  Validation rows have stores of their own,
and are scored as in all fits on chunks.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hedgerow.boosting.external.external_sample import ExternalSample
from hedgerow.boosting.external.rounds.scores import ScoredSample, WatchedRows, base_beside
from hedgerow.boosting.loop.memory_rows import MemoryRows
from hedgerow.boosting.loop.scores import TrainingData
from hedgerow.comm.base import Alone, Communicator
from hedgerow.metrics.queries import query_rows
from hedgerow.objectives import Objective
from hedgerow.objectives.ranking.losses import RankingLoss
from hedgerow.params import BoostParams


def is_one_chunk(train: ExternalSample, ranks: Communicator) -> bool:
    """Return whether a single chunk has all training rows of all ranks."""
    return ranks.size == 1 and len(train.store.chunk_sizes) == 1


class OneChunkRows(MemoryRows):
    """Rows in one chunk.

    The parameters are as for :class:`hedgerow.boosting.external.rounds.chunk_rows.ChunkRows`.
    """

    def __init__(
        self,
        data: ExternalSample,
        objective: Objective,
        params: BoostParams,
        watched: Mapping[str, ScoredSample],
        n_threads: int,
    ) -> None:
        (chunk,) = data.store.chunks()
        offset, start = (chunk.offset, None) if data.first is None else (None, chunk.offset)
        numbers = chunk.numbers if params.linear_leaves else None
        rows = TrainingData(
            chunk.matrix, chunk.target, chunk.weight, offset, data.n_copies, start, numbers
        )
        bound = objective
        if isinstance(objective, RankingLoss):
            queries = query_rows(data.query, len(chunk.target))
            bound = objective.of_queries(queries, params.seed, n_threads)
        self._scored = data.scored(chunk)
        super().__init__(rows, bound, params, None, n_threads, data.first)
        self._watched = WatchedRows(
            watched, objective, Alone(), base_beside(data, self.base), self._n_threads,
            self.params.boosting == "rf",
        )  # fmt: skip
        self.validation = self._watched.validation

    def scores(self) -> Mapping[str, Mapping[str, float]]:
        training = self._watched.training
        if training is not None:
            target, weight, n_rows = self._scored
            training.add(target, np.ascontiguousarray(self.train.raw[:, :n_rows]), weight)
        return self._watched.scores()
