"""Scores of a random forest on rows in chunks, each by the trees that were not grown on it.

In memory means over these trees are kept up with each round.  Here one pass at the end makes
them, chunk by chunk: which rows a round leaves out follows from the numbers of the rows.  Values
are added to a row in the order of the trees, so means have the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from hedgerow.arrays import FloatArray, IntArray, RowArray
from hedgerow.boosting.external.external_sample import ExternalSample
from hedgerow.boosting.external.scores import Tally
from hedgerow.boosting.loop.scores import rows_left_out
from hedgerow.comm.base import Communicator
from hedgerow.data.external.row_store import TARGETS_ONLY, Chunk, Uses
from hedgerow.growing.core.tree import GrownTree, add_scores
from hedgerow.metrics import Metric
from hedgerow.objectives import Objective
from hedgerow.objectives.global_sums import AllRows, Batch
from hedgerow.params import BoostParams

_BINS_BY_ROW = Uses(by_row=True, columns=(), reads=(), writes=())


class ForestLeftOut:
    """The rows that some tree of a forest was not grown on.

    Parameters
    ----------
    sample : StoredSample
        Training rows of this rank.
    trees : sequence of (GrownTree, int)
        All trees of the forest and their outputs, one of each output after the other.
    base : float64 (n_outputs,)
    params : BoostParams
    others : Communicator
        Those that have other rows.
    n_threads : int
    """

    def __init__(
        self,
        sample: ExternalSample,
        trees: Sequence[tuple[GrownTree, int]],
        base: FloatArray,
        params: BoostParams,
        others: Communicator,
        n_threads: int,
    ) -> None:
        self._store, self._trees, self._base = sample.store, trees, base
        self._params, self._others, self._n_threads = params, others, n_threads

    def scores(self, metrics: Sequence[Metric], objective: Objective) -> Mapping[str, float]:
        """The score of each metric over these rows of all ranks; none if there are no such rows."""
        own = sum(len(target) for target, _ in self._targets())
        n_rows = int(self._others.allreduce(np.array([own], dtype=np.int64))[0])
        if n_rows == 0:
            return {}
        tally = Tally(metrics, objective, AllRows(self._targets, self._others), n_rows)
        for chunk in self._store.chunks(uses=_BINS_BY_ROW):
            rows, raw = self._means(chunk)
            if len(rows) > 0:
                weight = None if chunk.weight is None else chunk.weight[rows]
                tally.add(chunk.target[rows], raw, weight)
        return tally.finish()

    @property
    def _n_rounds(self) -> int:
        return len(self._trees) // len(self._base)

    def _outside(self, chunk: Chunk, number: int) -> RowArray:
        """Places of the rows of a chunk that round ``number`` leaves out."""
        params = self._params
        return rows_left_out(params.seed, number, params.subsample, chunk.n_rows, chunk.first_row)

    def _counts(self, chunk: Chunk) -> IntArray:
        """Rounds that leave each row out."""
        counts = np.zeros(chunk.n_rows, dtype=np.int64)
        for number in range(self._n_rounds):
            counts[self._outside(chunk, number)] += 1
        return counts

    def _targets(self) -> Iterator[Batch]:
        """Targets and weights of these rows."""
        for chunk in self._store.chunks(uses=TARGETS_ONLY):
            rows = np.flatnonzero(self._counts(chunk))
            yield chunk.target[rows], None if chunk.weight is None else chunk.weight[rows]

    def _means(self, chunk: Chunk) -> tuple[IntArray, FloatArray]:
        """Rows of a chunk, and their raw scores by the trees that were not grown on them."""
        sums, n_outputs = np.zeros((len(self._base), chunk.n_rows)), len(self._base)
        for place, (tree, output) in enumerate(self._trees):
            outside = self._outside(chunk, place // n_outputs)
            if len(outside) > 0:  # no rows would mean all
                add_scores(tree, chunk.matrix, outside, sums[output], self._n_threads)
        counts = self._counts(chunk)
        rows = np.flatnonzero(counts)
        start = np.repeat(self._base[:, None], len(rows), axis=1)
        if chunk.offset is not None:
            start += chunk.offset[:, rows]
        return rows, start + sums[:, rows] / counts[rows]


__all__ = ["ForestLeftOut"]
