"""Training rows in chunks, read from files or held by one of several ranks.

:class:`ChunkRows` implements :class:`hedgerow.boosting.loop.rounds.FitRows`.  A new tree is
pending until the next pass over the chunks adds it to the raw scores::

    grow            adds the pending trees to the scores, then computes gradients
    search leaves   for losses whose leaves are quantiles
    add             the new tree is pending, for training and for validation rows
    end of a round  a pass over the training rows, only if their scores are needed:
                    for learning curves, or for rows left out of the sample

Trees are added to each row in the same order as in memory, so scores have the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hedgerow.arrays import RowArray
from hedgerow.boosting.external.external_sample import ExternalSample
from hedgerow.boosting.external.rounds.all_rows import (
    AllRowsGradients,
    GatheredRows,
    metrics_of_loss,
)
from hedgerow.boosting.external.rounds.forest_scores import ForestLeftOut
from hedgerow.boosting.external.rounds.leaf_sums import LeafSums
from hedgerow.boosting.external.rounds.leaves import LeafQuantiles
from hedgerow.boosting.external.rounds.left_out import LeftOut
from hedgerow.boosting.external.rounds.queries import CompleteQueries
from hedgerow.boosting.external.rounds.scores import (
    ScoredSample,
    WatchedRows,
    add_scored,
    base_beside,
    offset_rows_of,
    rows_of,
)
from hedgerow.boosting.loop.leaf_steps import with_searched
from hedgerow.boosting.loop.memory_rows import for_copies
from hedgerow.boosting.loop.rounds import FitRows, adds_scores, threads_for
from hedgerow.boosting.loop.setup.loss_spec import needs_all_rows
from hedgerow.boosting.loop.setup.strategy import holds_vectors, outputs_of_tree
from hedgerow.comm.base import Alone, Communicator
from hedgerow.data.external.row_store import TARGETS_ONLY, Chunk
from hedgerow.growing.chunks.exchange import GrowMode
from hedgerow.growing.chunks.gradients import CrossRowGradients
from hedgerow.growing.chunks.grower import ChunkGrower
from hedgerow.growing.chunks.space import Spaces
from hedgerow.growing.core.tree import NO_ROWS, GrownTree
from hedgerow.metrics import Metric
from hedgerow.objectives import Objective
from hedgerow.objectives.base import limited_for
from hedgerow.objectives.beside import start_beside, start_of
from hedgerow.objectives.line_search import QuantileRule
from hedgerow.objectives.ranking.losses import RankingLoss
from hedgerow.objectives.targets import leaf_rule_of
from hedgerow.params import FIRST_ORDER, BoostParams


class ChunkRows(FitRows):
    """Rows in chunks; implements :class:`hedgerow.boosting.loop.rounds.FitRows`.

    Parameters
    ----------
    data : ExternalSample
        Training rows of this rank.
    objective : Objective
    params : BoostParams
        Resolved parameters.
    watched : mapping from str to ScoredSample
        The rows that are scored after each round, by name.  Training rows have the name
        ``TRAINING``.
    n_threads : int
        Largest number of threads.
    n_rows : int
        Number of training rows of all ranks, without copies.
    ranks : Communicator
    mode : {"data", "features"}, default="data"
    spaces : Spaces, optional
        See :class:`hedgerow.growing.chunks.grower.ChunkGrower`.
    """

    def __init__(
        self,
        data: ExternalSample,
        objective: Objective,
        params: BoostParams,
        watched: Mapping[str, ScoredSample],
        n_threads: int,
        n_rows: int,
        ranks: Communicator,
        mode: GrowMode = "data",
        spaces: Spaces | None = None,
    ) -> None:
        self.objective, self.params, self.first = objective, params, data.first
        self.spec = data.store.spec
        self.n_features = self.n_columns = self.spec.n_features
        self.n_rows = n_rows
        self._data, self._ranks, self._mode, self._spaces = data, ranks, mode, spaces
        self._others: Communicator = ranks if mode == "data" else Alone()
        n_vectors = outputs_of_tree(params, objective.n_outputs)
        self._n_threads = threads_for(n_threads, data.n_rows, self.n_features, n_vectors)
        self.all_rows = rows_of(data, self._others)
        self.objective = limited_for(objective, self.all_rows)
        self._gathered: GatheredRows | None = None
        self._compares: CrossRowGradients | None = None
        if needs_all_rows(objective):
            self._gathered = rows = GatheredRows.of(data, self._others)
        if data.first is not None:
            self.base = data.first.base_score
        elif self._gathered is not None:
            self.base = start_of(objective, rows.target, rows.weight, rows.offset)
        elif data.has_offset:
            self.base = start_beside(objective, offset_rows_of(data, self._others))
        else:
            self.base = objective.start_of(self.all_rows)
        averages = params.boosting == "rf"
        self._watched = WatchedRows(
            watched, objective, self._others, base_beside(data, self.base), self._n_threads,
            averages, sums_training=averages,
        )  # fmt: skip
        self.validation = self._watched.validation
        self.train = TrainScores(stay=averages)
        self._leaves: LeafQuantiles | LeafSums | None = None
        self._left_out: LeftOut | None = None

    def begin(self) -> None:
        data, params, n_threads = self._data, self.params, self._n_threads
        self._compares = self._cross_row()
        self.train.made = grower = ChunkGrower(
            data.store,
            self.objective,
            for_copies(params, data.n_copies),
            n_threads,
            self._ranks,
            self._mode,
            adds_scores(params, self.objective),
            data.n_copies,
            cross_row=self._compares,
            n_vectors=outputs_of_tree(params, len(self.base)),
            spaces=self._spaces,
        )
        grower.start(base_beside(data, self.base))
        if params.leaf_estimation == "line_search":
            self._leaves = self._leaf_search(grower)

    def _leaf_search(self, grower: ChunkGrower) -> LeafQuantiles | LeafSums:
        params, of_leaves = self.params, (self._data.store, grower, self.objective)
        if isinstance(leaf_rule_of(self.objective, 0), QuantileRule):
            return LeafQuantiles(*of_leaves, self.spec.schema, self.all_rows)
        joins = params.boosting == "gbdt" and params.num_parallel_tree == 1
        factor = None if joins else float(params.num_parallel_tree)
        return LeafSums(*of_leaves, self.spec.schema, self._others, self._n_threads, factor)

    def _cross_row(self) -> CrossRowGradients | None:
        """Return the gradients of a loss that compares rows; None for other losses."""
        data, objective, params = self._data, self.objective, self.params
        if isinstance(objective, RankingLoss):
            return CompleteQueries(data, objective, self._others, params.seed, self._n_threads)
        if self._gathered is None:
            return None
        newton = params.leaf_estimation not in FIRST_ORDER
        return AllRowsGradients(
            data, self._gathered, objective, self._others, newton, self._n_threads,
            holds_vectors(params),
        )  # fmt: skip

    def close(self) -> None:
        if self.train.made is not None:
            self.train.made.close()

    def set_rate(self, rate: float) -> None:
        self.train.grower.set_rate(rate)

    def grow(self, tree: int, output: int, params: BoostParams) -> GrownTree:
        found = self.train.grower.grow(tree, output)
        if self._leaves is not None:
            found = self._searched(self._leaves, found, output, params)
        if params.oob_score and params.boosting == "gbdt" and output == 0:
            self._left_out = LeftOut(self.train.grower, self.objective, self._others)
            if len(self.base) > 1:  # before the next tree adds this one
                self.train.grower.update_scores(before=self._left_out.before)
        return found

    @staticmethod
    def _searched(
        leaves: LeafQuantiles | LeafSums, tree: GrownTree, output: int, params: BoostParams
    ) -> GrownTree:
        if tree.vectors is None:
            return leaves.search(tree, output, params)
        return with_searched(tree, lambda of_one, k: leaves.search(of_one, k, params))

    def rows_without_tree(self) -> RowArray | None:
        return NO_ROWS if adds_scores(self.params, self.objective) else None

    def replay(self, number: int) -> None:
        """Learn again what a loss learns beside the trees: the biases of positions."""
        if isinstance(self.objective, RankingLoss) and self.objective.positions is not None:
            assert self._compares is not None
            self.train.grower.update_scores(after=self._compares.collect)
            self._compares.fill(0, number)

    def end_round(self) -> float | None:
        left_out, tally = self._left_out, self._watched.training
        if left_out is None and tally is None:
            return None

        def after(chunk: Chunk) -> None:
            if left_out is not None:
                left_out.after(chunk)
            if tally is not None:
                add_scored(tally, self._data, chunk, chunk.work.raw)

        first = left_out.before if left_out is not None and len(self.base) == 1 else None
        self.train.grower.update_scores(before=first, after=after)
        return None if left_out is None else left_out.improvement()

    def scores(self) -> Mapping[str, Mapping[str, float]]:
        tally = self._watched.training
        if tally is not None and self.train.made is None:  # of the model to continue
            for chunk in self._data.store.chunks(uses=TARGETS_ONLY):
                assert chunk.offset is not None
                add_scored(tally, self._data, chunk, chunk.offset)
        return self._watched.scores()

    def out_of_bag(self, metrics: Sequence[Metric]) -> Mapping[str, float]:
        left_out = ForestLeftOut(
            self._data, self.train.trees, self.base, self.params, self._others, self._n_threads
        )
        return left_out.scores(metrics_of_loss(metrics, self.objective), self.objective)


@dataclass(slots=True, eq=False)
class TrainScores:
    """Raw scores of the training rows, to which the grower adds the trees.

    Attributes
    ----------
    stay : bool
        Whether scores keep their start values, as in a random forest.
    made : ChunkGrower or None
        The grower; None before the first round.
    trees : list of (GrownTree, int)
        The trees and their outputs, if scores keep their start values.
    """

    stay: bool
    made: ChunkGrower | None = None
    trees: list[tuple[GrownTree, int]] = field(default_factory=list)

    @property
    def grower(self) -> ChunkGrower:
        """The grower, which adds pending trees to the scores in its next pass over the chunks."""
        assert self.made is not None
        return self.made

    def add(
        self, tree: GrownTree, output: int, rows: RowArray = NO_ROWS, factor: float = 1.0
    ) -> None:
        """Add ``factor`` times the tree's value to each row; ``rows`` must be empty."""
        assert len(rows) == 0
        if self.stay:
            self.trees.append((tree.scaled(factor), output))
        else:
            self.grower.add(tree.scaled(factor), output)
