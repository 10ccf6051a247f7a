"""Out-of-bag scores of a random forest on rows in chunks.

The raw score of a row is its mean over the trees that were not grown on it.  In memory, each round
updates these means.  Here one pass at the end computes them, chunk by chunk, because the number of
a row determines which rounds leave it out.  The values of a row are added in the order of the
trees, so the means have the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hedgerow.arrays import FloatArray, IntArray, RowArray
from hedgerow.boosting.external.external_sample import ExternalSample
from hedgerow.boosting.external.rounds.scores import Tally
from hedgerow.boosting.loop.scores import rows_left_out
from hedgerow.boosting.loop.setup.strategy import trees_of_round
from hedgerow.comm.base import Communicator
from hedgerow.data.external.row_store import TARGETS_ONLY, Chunk, Uses
from hedgerow.growing.core.tree import GrownTree, add_tree, columns_of_lines
from hedgerow.metrics import Metric
from hedgerow.objectives import Objective
from hedgerow.objectives.global_sums import AllRows, Batch
from hedgerow.params import BoostParams


@dataclass(frozen=True, slots=True, eq=False)
class ForestLeftOut:
    """Rows that at least one tree of a forest was not grown on.

    Attributes
    ----------
    sample : ExternalSample
        Training rows of this rank.
    trees : sequence of (GrownTree, int)
        All trees of the forest and their outputs, round by round, in the order of the outputs.
    base : float64 (n_outputs,)
    params : BoostParams
    others : Communicator
        Ranks that have other rows.
    n_threads : int
    """

    sample: ExternalSample
    trees: Sequence[tuple[GrownTree, int]]
    base: FloatArray
    params: BoostParams
    others: Communicator
    n_threads: int

    def scores(self, metrics: Sequence[Metric], objective: Objective) -> Mapping[str, float]:
        """Return the score of each metric on these rows of all ranks; empty without such rows."""
        own = sum(len(target) for target, _ in self._targets())
        n_rows = int(self.others.allreduce(np.array([own], dtype=np.int64))[0])
        if n_rows == 0:
            return {}
        tally = Tally(metrics, objective, AllRows(self._targets, self.others), n_rows)
        columns = columns_of_lines(tree for tree, _ in self.trees)
        uses = Uses(by_row=True, columns=(), reads=(), writes=(), numbers=columns)
        for chunk in self.sample.store.chunks(uses=uses):
            rows, raw = self._means(chunk)
            if len(rows) > 0:
                weight = None if chunk.weight is None else chunk.weight[rows]
                tally.add(chunk.target[rows], raw, weight)
        return tally.finish()

    @property
    def _trees_of_round(self) -> int:
        return trees_of_round(self.params, len(self.base))

    @property
    def _n_rounds(self) -> int:
        return len(self.trees) // self._trees_of_round

    def _outside(self, chunk: Chunk, number: int) -> RowArray:
        """Return the positions of the rows of a chunk that round ``number`` leaves out."""
        params = self.params
        return rows_left_out(params.seed, number, params.subsample, chunk.n_rows, chunk.first_row)

    def _counts(self, chunk: Chunk) -> IntArray:
        """Return the number of rounds that leave out each row."""
        counts = np.zeros(chunk.n_rows, dtype=np.int64)
        for number in range(self._n_rounds):
            counts[self._outside(chunk, number)] += 1
        return counts

    def _targets(self) -> Iterator[Batch]:
        """Yield targets and weights of these rows."""
        for chunk in self.sample.store.chunks(uses=TARGETS_ONLY):
            rows = np.flatnonzero(self._counts(chunk))
            yield chunk.target[rows], None if chunk.weight is None else chunk.weight[rows]

    def _means(self, chunk: Chunk) -> tuple[IntArray, FloatArray]:
        """Return these rows of a chunk, and their out-of-bag raw scores."""
        sums, n_trees = np.zeros((len(self.base), chunk.n_rows)), self._trees_of_round
        for number, (tree, output) in enumerate(self.trees):
            outside = self._outside(chunk, number // n_trees)
            if len(outside) > 0:  # add_tree takes an empty array as all rows
                rows = chunk.matrix, chunk.numbers
                add_tree(tree, rows, outside, sums, output, self.n_threads)
        counts = self._counts(chunk)
        left_out = np.flatnonzero(counts)
        start = np.repeat(self.base[:, None], len(left_out), axis=1)
        if chunk.offset is not None:
            start += chunk.offset[:, left_out]
        return left_out, start + sums[:, left_out] / counts[left_out]
