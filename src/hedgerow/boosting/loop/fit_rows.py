"""Rows of a fit: how trees are grown on them, and how they are scored.

The arrays of the rows are in memory; their bins are in memory or in chunks on disk, and the rows
are all rows or those of one of several ranks.  The grower adds a tree to the raw scores of the rows
it was grown on, leaf by leaf.  Rows outside the sample of a tree (row sampling) and validation rows
get their scores by tree traversal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray, IntArray, RowArray
from hedgerow.boosting.loop.leaf_steps import with_searched, with_steps
from hedgerow.boosting.loop.ranks import Ranks
from hedgerow.boosting.loop.rounds_ahead import NOT_KNOWN, RestOfBatch, RoundsAhead
from hedgerow.boosting.loop.sample import RowNames
from hedgerow.boosting.loop.scored import ScoredRows, Tally
from hedgerow.boosting.loop.scores import (
    AddedScores,
    MeanScores,
    Scores,
    TrainingData,
    make_scores,
    rows_left_out,
)
from hedgerow.boosting.loop.setup.devices import on_gpu
from hedgerow.boosting.loop.setup.resolved import adds_scores, resolved, threads_for
from hedgerow.boosting.loop.setup.strategy import holds_vectors, is_symmetric
from hedgerow.comm.base import count_rows
from hedgerow.data import BinnedMatrix
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.external.blocks import ColumnBlocks
from hedgerow.data.external.row_store import ChunkStore
from hedgerow.data.schema import Schema
from hedgerow.growing.core.grower import TreeGrower, rows_without_copies
from hedgerow.growing.core.setup import Fit
from hedgerow.growing.core.tree import NO_ROWS, GrownTree
from hedgerow.growing.exact.grower import ExactGrower
from hedgerow.growing.vectors.grower import VectorGrower
from hedgerow.kernels.primitives.exact_sum import exact_sum
from hedgerow.metrics import Metric, evaluate, make_metrics
from hedgerow.model.forest import Forest
from hedgerow.objectives import Objective
from hedgerow.objectives.base import LossRows
from hedgerow.objectives.line_search import LeafRows, unit_of
from hedgerow.once import once
from hedgerow.params import BoostParams

if TYPE_CHECKING:
    from hedgerow.growing.chunks.space import Spaces


class Grower(Protocol):
    """Protocol of growers, which grow the trees of a fit."""

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of the next trees."""

    def grow(self, tree: int, output: int) -> GrownTree:
        """Grow a tree on the gradients at the raw scores."""

    def rows_outside(self) -> npt.NDArray[np.uint32]:
        """Return the rows on which the last tree was not grown; of chunks in ascending order."""

    def row_weights(self, rows: RowArray) -> FloatArray | None:
        """Return the sampling weight of each of these rows in the last tree; None: all equal."""

    def leaf_segments(self) -> tuple[npt.NDArray[np.uint32], IntArray, IntArray]:
        """Return the rows of the last tree by leaf: rows, leaves, starts."""

    def close(self) -> None:
        """End the worker threads."""


class FitRows:
    """The rows of a fit of this process.

    Parameters
    ----------
    data : TrainingData
    objective : Objective
    params : BoostParams
    validation : sequence of TrainingData
        Rows whose raw scores are updated, too.
    n_threads : int, default=1
        Upper limit; small data use fewer.  The trees do not depend on it.
    first : Forest, optional
        Trees of the model to continue; their scores are in ``start`` of the data.
    scored : sequence of ScoredRows
        Rows that are scored after each round.
    may_run_ahead : bool, default=False
        Whether trees may grow some rounds before :meth:`grow` is called for them: nobody reads the
        training scores, or replays earlier rounds.
    ranks : Ranks, optional
        Those that have the other rows; by default there are none.
    spaces : Spaces, optional
        Memory for histograms of rows in chunks, that other fits use in turn.

    Attributes
    ----------
    objective : Objective
        Bound to the rows.
    params : BoostParams
        Resolved parameters of the next rounds.
    n_rows : int
        Training rows of all ranks, without copies.
    n_features, n_columns : int
        Columns that trees may split, and columns of bins; 0 if trees are not grown on bins.
    spec : BinSpec or None
        The bins on which trees are grown, if any.
    base : float64 (n_outputs,)
        Raw score before the first tree.
    first : Forest or None
        Trees of the model to continue.
    train : Scores or MeanScores
        Raw scores of the training rows.
    held_out : list of Scores or MeanScores
        Raw scores of each set of validation rows.
    validation : sequence of AddedScores
        Those of them to which new trees are added.
    all_rows : AllRows
        Targets and weights of the training rows.
    ranks : Ranks
        Those that train together.
    names : RowNames
        The user's names of the training rows.
    next_end : int
        The next round that may end the fit: trees of later rounds do not grow ahead.
    """

    names = RowNames()

    def __init__(
        self,
        data: TrainingData,
        objective: Objective,
        params: BoostParams,
        validation: Sequence[TrainingData] = (),
        n_threads: int = 1,
        first: Forest | None = None,
        scored: Sequence[ScoredRows] = (),
        may_run_ahead: bool = False,
        ranks: Ranks | None = None,
        spaces: Spaces | None = None,
    ) -> None:
        self.params = resolved(params, objective, _schema_of(data))
        self.data, self.objective, self.first, self.scored = data, objective, first, scored
        self.ranks, self._spaces = ranks or Ranks(), spaces
        others, matrix = self.ranks.others, data.matrix
        self.n_rows = count_rows(matrix.n_rows // data.n_copies, others)[1]
        self.n_features = matrix.n_features
        self.spec: BinSpec | None = None
        self.n_columns = 0
        if isinstance(matrix, BinnedMatrix | ChunkStore):
            self.spec, self.n_columns = matrix.spec, matrix.n_columns
        self._n_vectors = objective.n_outputs if holds_vectors(self.params) else 1
        self._n_threads = threads_for(n_threads, matrix.n_rows, matrix.n_features, self._n_vectors)
        self.all_rows = self.ranks.rows(data.target, data.weight)
        if first is not None:
            self.base = first.base_score
        else:
            self.base = objective.start(replace(self.all_rows, offset=data.offset))
        self._scores = make_scores(data, self.base, self._n_threads)
        self._grown_at = self._scores.raw
        self.train: Scores | MeanScores = self._scores
        self.held_out: list[Scores | MeanScores] = [
            make_scores(rows, self.base, self._n_threads, self.spec) for rows in validation
        ]
        if self.params.boosting == "rf":
            self.train = MeanScores(self._scores)
            self.held_out = [MeanScores(scores) for scores in self.held_out]  # type: ignore[arg-type]
        self.validation: Sequence[AddedScores] = tuple(self.held_out)
        self.objective = objective.limited_for(self.all_rows)
        self._grower: Grower | None = None
        self._may_run_ahead = may_run_ahead
        self.next_end = NOT_KNOWN
        self._ahead: RoundsAhead | None = None
        self._outside: RowArray = NO_ROWS
        self._searched_at, self._loss_before = self._grown_at, 0.0

    def begin(self) -> None:
        """Create the grower, before the first round."""
        self._grower = self._make_grower()
        if self._may_run_ahead and adds_scores(self.params, self.objective):
            self._ahead = self._rounds_ahead()
        if self._ahead is not None:
            self.validation = ()  # batches add their trees to all scores

    @property
    def n_ready(self) -> int:
        """Number of rounds whose trees have grown ahead."""
        return 0 if self._ahead is None else self._ahead.n_ready

    def take_ready(self) -> RestOfBatch | None:
        """Take all rounds that are ready; None if they have to be taken one after the other."""
        return None if self._ahead is None else self._ahead.rest()

    def set_params(self, params: BoostParams) -> None:
        """Use other (resolved) parameters for the next rounds."""
        self.params = params
        if self._grower is not None:
            self._grower.close()
            self.begin()

    def close(self) -> None:
        """End the worker threads."""
        if self._grower is not None:
            try:
                self._grower.close()
            finally:  # again, if an interrupt came before the helpers were told
                self._grower.close()
            self._grower = self._ahead = None

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of the next trees."""
        assert self._grower is not None
        self._grower.set_rate(rate)

    def grow(self, tree: int, output: int, params: BoostParams) -> GrownTree:
        """Grow tree number ``tree`` for ``output``, leaf values included."""
        assert self._grower is not None
        if self._ahead is not None:
            return self._ahead.tree(tree, len(self.base), self.next_end)
        if self.train is self._scores:  # trees of a forest grow at its start
            self._scores.update()
        found = self._grower.grow(tree, output)
        if self.data.n_copies > 1 and isinstance(self.data.matrix, ColumnBlocks):
            found = found.with_counts(rows_without_copies(found.count, self.data.n_copies))
        self._outside = self._grower.rows_outside()
        if params.oob_score:
            self._note_outside(output)
        if params.leaf_estimation == "line_search":
            found = self._searched(found, output, params)
        return found

    def rows_without_tree(self) -> RowArray | None:
        """Return training rows whose scores the grower has not updated; None: all."""
        return self._outside if self._grower_adds_scores else None

    @property
    def _grower_adds_scores(self) -> bool:
        # Linear leaves read numbers, which chunks on disk hold.
        waits = self.params.linear_leaves and isinstance(self.data.matrix, ChunkStore)
        return adds_scores(self.params, self.objective) and not waits

    def replay(self, number: int) -> None:
        """Restore the state that goes with trees of round ``number`` from an earlier run."""
        self._scores.update()
        self._relearn(self._grown_at, number)
        if self.params.oob_score and isinstance(self.train, MeanScores):
            seed, share = self.params.seed, self.params.subsample
            n_rows, first_row = self.data.matrix.n_rows, self.ranks.first_row
            self.train.outside = rows_left_out(seed, number, share, n_rows, first_row)

    def end_round(self) -> float | None:
        """Return the decrease of the out-of-bag loss in the round, if it is computed."""
        if self._ahead is not None:
            self._ahead.end_round()
        if not self.params.oob_score or self.params.boosting != "gbdt":
            return None
        return self._loss_before - self._loss_outside()

    def scores(self) -> Mapping[str, Mapping[str, float]]:
        """Return scores after the last round, by name of the rows and metric."""
        if self._ahead is not None:
            return self._ahead.scores()
        found = {}
        for part in self.scored:
            scores = self.train if part.of_training else self.held_out[part.number]
            scores.update()
            found[part.name] = part.score(self.objective, scores.raw)
        return found

    def out_of_bag(self, metrics: Sequence[Metric]) -> Mapping[str, float]:
        """Return scores of rows by the trees not grown on them; empty if there are no such rows."""
        assert isinstance(self.train, MeanScores)
        rows, raw = self.train.out_of_bag()
        return self._scores_of(metrics, rows, raw)

    def _scores_of(
        self, metrics: Sequence[Metric], rows: RowArray, raw: FloatArray
    ) -> Mapping[str, float]:
        """Return the scores of some training rows of each rank; empty if no rank has some."""
        weight = None if self.data.weight is None else self.data.weight[rows]
        target = self.data.target[rows]
        if self.ranks.others.size == 1:
            return evaluate(metrics, self.objective, target, raw, weight) if len(rows) > 0 else {}
        tally = Tally(metrics, self.objective, self.ranks.rows(target, weight))
        return tally.scores(raw) if tally.n_rows > 0 else {}

    def _rounds_ahead(self) -> RoundsAhead | None:
        assert isinstance(self.train, Scores)
        unseen = self.held_out[0] if self.held_out else None
        assert not isinstance(unseen, MeanScores)
        first = 0 if self.first is None else self.first.n_rounds
        return RoundsAhead.of(
            self._grower, self.train, unseen, self.scored, self.objective, self.params,
            range(first, first + self.params.n_estimators),
        )  # fmt: skip

    def _note_outside(self, output: int) -> None:
        """Record the rows outside the tree's sample, for scores of the round."""
        if isinstance(self.train, MeanScores):
            self.train.outside = self._outside
        elif output == 0:
            self._loss_before = self._loss_outside()

    def _loss_outside(self) -> float:
        """Return the loss of the rows outside the sample; 0 if there are none."""
        self._scores.update()
        rows = self._outside
        if self.ranks.others.size == 1 and len(rows) > 0:
            return self.objective.loss(*self.data.take(rows, self._grown_at))
        (metric,) = make_metrics(None, self.objective)
        return self._scores_of((metric,), rows, self._grown_at[:, rows]).get(metric.name, 0.0)

    def _searched(self, tree: GrownTree, output: int, params: BoostParams) -> GrownTree:
        """Return the tree with leaf values from a line search.

        The trees of a round search their leaves in turn, each at scores that include the
        previous ones; if these trees do not join at once, scores are updated in a copy.
        """
        n_parallel = params.num_parallel_tree
        joins = params.boosting == "gbdt" and n_parallel == 1
        self._scores.update()
        if output == 0:
            self._searched_at = self._grown_at if joins else self._grown_at.copy()
        search = partial(self._search_leaves, params)
        if tree.vectors is not None:
            return with_searched(tree, search)
        found = search(tree, output)
        if not joins:
            # Parallel trees share one step, but each search takes the full step.
            self._scores.add_to(self._searched_at, found, output, factor=float(n_parallel))
        return found

    def _search_leaves(self, params: BoostParams, tree: GrownTree, output: int) -> GrownTree:
        """Return the tree with leaf values that minimise the loss of their rows."""
        grower, data = self._grower, self.data
        assert grower is not None
        rows, leaves, starts = grower.leaf_segments()
        others = self.ranks.others
        if count_rows(len(rows), others)[1] == 0:  # a small sample may be empty
            return tree
        target, at, weight = data.take(rows, self._searched_at)
        mass = np.ones(len(rows)) if weight is None else weight
        sampled = grower.row_weights(rows)
        if sampled is not None:
            mass = mass * sampled
        leaf_rows = LeafRows(target, at, mass, starts)
        if others.size == 1:
            unit = unit_of(len(data.target) if data.weight is None else exact_sum(data.weight))
            steps = self.objective.leaf_steps(replace(leaf_rows, unit=unit), output)
        else:
            from hedgerow.boosting.loop.rank_leaves import steps_on_ranks, unit_on_ranks

            unit = unit_on_ranks(data.weight, len(data.target), others)
            steps = steps_on_ranks(self.objective, output, replace(leaf_rows, unit=unit), others)
        return with_steps(tree, leaves, steps, params, _schema_of(data))

    def _make_grower(self) -> Grower:
        data, matrix = self.data, self.data.matrix
        params = for_copies(self.params, data.n_copies)
        raw, n_threads = self._grown_at, self._n_threads
        fit = Fit(data.target, data.weight, raw, self.objective, params, n_threads)
        shared = fit, self._grower_adds_scores
        if isinstance(matrix, BinnedMatrix):
            kind = _kind_of_grower(params)
            sums = data.sums if kind.shares_histograms else None
            return kind(matrix, *shared, data.n_copies, data.numbers, sums)
        if isinstance(matrix, ColumnBlocks):
            return ExactGrower(matrix, *shared)
        assert isinstance(matrix, ChunkStore)
        from hedgerow.growing.chunks.grower import ChunkGrower
        from hedgerow.growing.chunks.levels import SymmetricChunkGrower

        ranks, symmetric = self.ranks, is_symmetric(params)
        return (SymmetricChunkGrower if symmetric else ChunkGrower)(
            matrix, *shared, data.n_copies, self._n_vectors, ranks.communicator, ranks.mode,
            ranks.first_row, self._spaces,
        )  # fmt: skip

    @once
    def _relearn(self) -> Callable[[FloatArray, int], None]:
        return _relearning(self.objective, self.data)


def _relearning(objective: Objective, data: TrainingData) -> Callable[[FloatArray, int], None]:
    """Return a function that recomputes what the loss learns beside the trees in a round."""
    if getattr(objective, "positions", None) is None:
        return lambda raw, number: None
    loss = objective.bound_to(data.target, data.weight)
    g, h = np.empty((2, len(data.target)))

    def relearn(raw: FloatArray, number: int) -> None:
        loss.derivatives(LossRows(data.target, raw, data.weight, number), 0, g, h)

    return relearn


def _kind_of_grower(params: BoostParams) -> type[TreeGrower]:
    """Return the grower of trees from bins; few fits need the modules that are imported here."""
    symmetric, vectors = is_symmetric(params), holds_vectors(params)
    if on_gpu(params):
        from hedgerow.growing.cuda.grower import kind_on_gpu

        return kind_on_gpu(symmetric, vectors)
    if symmetric:
        from hedgerow.growing.symmetric.grower import SymmetricGrower, SymmetricVectorGrower

        return SymmetricVectorGrower if vectors else SymmetricGrower
    return VectorGrower if vectors else TreeGrower


def for_copies(params: BoostParams, n_copies: int) -> BoostParams:
    """Scale limits in rows by ``n_copies``, for a grower that counts copies as rows."""
    if n_copies == 1:
        return params
    most = 2**31 - 1
    return replace(
        params,
        min_samples_leaf=min(most, n_copies * params.min_samples_leaf),
        min_data_per_group=min(most, n_copies * params.min_data_per_group),
        path_smooth=n_copies * params.path_smooth,
    )


def _schema_of(data: TrainingData) -> Schema:
    matrix = data.matrix
    if isinstance(matrix, BinnedMatrix | ChunkStore):
        return matrix.spec.schema
    return matrix.table.schema if isinstance(matrix, ColumnBlocks) else matrix.schema
