"""The rows of a fit that are one chunk in memory: trees grow on them as on those of a table.

A store whose rows fit in memory has a single chunk, whose bins are the matrix of a fit in
memory.  So the rows are :class:`hedgerow.boosting.loop.memory_rows.MemoryRows`; only validation
rows, in stores of their own, are scored as those of all fits in chunks are.
"""

from __future__ import annotations

from collections.abc import Mapping

from hedgerow.boosting.external.external_sample import ExternalSample
from hedgerow.boosting.external.scores import WatchedRows
from hedgerow.boosting.loop.memory_rows import MemoryRows
from hedgerow.boosting.loop.scores import TrainingData
from hedgerow.comm.base import Alone, Communicator
from hedgerow.metrics import Metric
from hedgerow.objectives import Objective
from hedgerow.params import BoostParams


def is_one_chunk(train: ExternalSample, ranks: Communicator) -> bool:
    """Whether a single chunk has all training rows of all ranks.

    Losses that compare rows get the rows of a query by way of chunks.
    """
    return ranks.size == 1 and len(train.store.chunk_sizes) == 1 and train.query is None


class OneChunkRows(MemoryRows):
    """Rows in one chunk.

    Parameters are those of :class:`hedgerow.boosting.external.chunk_rows.ChunkRows`.
    """

    def __init__(
        self,
        data: ExternalSample,
        objective: Objective,
        params: BoostParams,
        watched: Mapping[str, ExternalSample],
        metrics: Mapping[str, tuple[Metric, ...]],
        n_rows: Mapping[str, int],
        n_threads: int,
    ) -> None:
        (chunk,) = data.store.chunks()
        rows = TrainingData(chunk.matrix, chunk.target, chunk.weight, chunk.offset)
        super().__init__(rows, objective, params, None, n_threads)
        self._watched = WatchedRows(
            watched, metrics, n_rows, objective, Alone(), self.base, self._n_threads,
            self.params.boosting == "rf",
        )  # fmt: skip
        self.validation = self._watched.validation

    def scores(self) -> Mapping[str, Mapping[str, float]]:
        training = self._watched.training
        if training is not None:
            training.add(self.data.target, self.train.raw, self.data.weight)
        return self._watched.scores()


__all__ = ["OneChunkRows", "is_one_chunk"]
