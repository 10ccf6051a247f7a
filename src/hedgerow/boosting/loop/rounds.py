"""Boosting rounds as a generator: one state after each round.

A round grows ``num_parallel_tree`` trees (default 1) per output on the gradients at the scores
before the round (outputs of a distribution: one after the other), and the ensemble mode adds them::

    round         start         the mode subtracts dropped trees from the scores
                  grow          a tree on the gradients, with the leaf values of its loss
                  add           the mode adds it to the scores of training and validation rows
                  end           record the change of the out-of-bag loss

The arrays of the rows are in memory; their bins are in memory or in chunks on disk, and the rows
are all rows or those of one of several ranks.  The grower adds a tree to the raw scores of the rows
it was grown on, leaf by leaf.  Rows outside the sample of a tree (row sampling) and validation rows
get their scores by tree traversal.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, RowArray
from hedgerow.boosting.loop.ensemble import MODES, Additive, finished_tree, make_forest
from hedgerow.boosting.loop.rank_leaves import steps_on_ranks, unit_on_ranks
from hedgerow.boosting.loop.rounds_ahead import NOT_KNOWN, RestOfBatch, RoundsAhead
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.scored import Ranks, ScoredRows, Tally
from hedgerow.boosting.loop.scores import AddedScores, MeanScores, Scores, TrainingData
from hedgerow.boosting.loop.setup import resolved as kinds
from hedgerow.boosting.resume.checkpoint import Rounds
from hedgerow.boosting.validation.stopping import Budget
from hedgerow.comm.base import count_rows
from hedgerow.data import BinnedMatrix
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.external.blocks import ColumnBlocks
from hedgerow.data.external.disk_store import ChunkStore
from hedgerow.errors import LossError
from hedgerow.growing.core.compiled_grower import CompiledGrower
from hedgerow.growing.core.grower import TreeGrower, rows_without_copies
from hedgerow.growing.core.setup import Fit
from hedgerow.growing.core.tree import NO_ROWS, GrownTree
from hedgerow.growing.exact.grower import ExactGrower
from hedgerow.growing.limits.isotonic import order_leaves, split_signs
from hedgerow.growing.sampling.draws import ROW_STREAM
from hedgerow.kernels.primitives.hashing import hash_range
from hedgerow.metrics import Metric, evaluate, make_metrics
from hedgerow.model.forest import Forest, joined_forests
from hedgerow.objectives import Objective
from hedgerow.objectives.line_search import LeafRows
from hedgerow.params import BoostParams
from hedgerow.schedules import is_number


class BoostState:
    """A fit of this process: its rows with their raw scores, and its trees so far.

    A state is live: it shows the fit as it is until the next round begins.

    unseen                 validation rows
    first                  trees of the model to continue; their scores are in ``start`` of the data
    may_run_ahead          whether trees may grow some rounds before :meth:`grow` is called for
                           them: nobody reads the training scores, or replays earlier rounds
    sample                 the training rows, for the user's names of rows
    n_rows                 training rows of all ranks, without copies
    n_features, n_columns  columns that trees may split, and columns of bins; 0 if trees are not
                           grown on bins
    base                   float64 (n_outputs,): raw score before the first tree
    train, held_out        raw scores of the training rows, and of each set of validation rows
    n_first, n_rounds      number of rounds of the model being continued, and of all rounds done,
                           including these
    improvement            decrease of the out-of-bag loss in the last round, over the rows on which
                           it was not grown; None without ``oob_score``
    next_end               the next round that may end the fit: trees of later rounds do not grow
                           ahead
    """

    def __init__(
        self,
        data: TrainingData,
        objective: Objective,
        params: BoostParams,
        unseen: Sequence[TrainingData] = (),
        n_threads: int = 1,
        first: Forest | None = None,
        scored: Sequence[ScoredRows] = (),
        may_run_ahead: bool = False,
        ranks: Ranks | None = None,
        sample: Sample | None = None,
    ) -> None:
        self.params, self.data, self.first, self.scored = params, data, first, scored
        self.ranks = ranks or Ranks()
        self.naming_rows: Callable[[], AbstractContextManager[None]]
        self.naming_rows = nullcontext if sample is None else sample.naming_rows
        matrix = data.matrix
        self.n_rows = count_rows(matrix.n_rows // data.n_copies, self.ranks.others)[1]
        self.n_features = matrix.n_features
        self.spec: BinSpec | None = None
        self.n_columns = 0
        if isinstance(matrix, BinnedMatrix | ChunkStore):
            self.spec, self.n_columns = matrix.spec, matrix.n_columns
        n_at_once = kinds.outputs_of_tree(params, objective.n_outputs)
        shape = matrix.n_rows, matrix.n_features
        self._n_threads = kinds.threads_for(n_threads, *shape, n_at_once)
        self.all_rows = self.ranks.rows(data)
        self.base = objective.start(self.all_rows) if first is None else first.base_score
        self._scores = Scores(data, self.base, self._n_threads)
        self._grown_at = self._scores.raw
        scores = [Scores(rows, self.base, self._n_threads, self.spec) for rows in unseen]
        added: list[AddedScores] = [self._scores, *scores]
        if params.boosting == "rf":
            added = [MeanScores(self._scores), *map(MeanScores, scores)]
        self.train, *self.held_out = added
        self.objective = objective.limited_for(self.all_rows)
        self.n_first = self.n_rounds = 0 if first is None else first.n_rounds
        self.improvement: float | None = None
        self._grower: CompiledGrower | None = None
        self._may_run_ahead = may_run_ahead
        self.next_end = NOT_KNOWN
        self.ahead: RoundsAhead | None = None
        self._outside: RowArray = NO_ROWS
        self._searched_at, self._loss_before = self._grown_at, 0.0
        self._unit: float | None = None  # of weights in a line search

    # -- the grower ------------------------------------------------------------------------

    def begin(self) -> None:
        """Create the grower, before the first round."""
        self._grower = self._make_grower()
        if self._may_run_ahead and kinds.adds_scores(self.params, self.objective):
            self.ahead = RoundsAhead.of(self, self._grower)
        others = self.held_out if self.ahead is None else []  # batches add their trees to these
        sets = [self.train, *others]
        self.mode = MODES[self.params.boosting](sets, self.params, len(self.base))

    def _make_grower(self) -> CompiledGrower:
        data, matrix, params = self.data, self.data.matrix, self.params
        if data.n_copies > 1:  # growers count copies as rows
            most = 2**31 - 1
            params = replace(
                params,
                min_samples_leaf=min(most, data.n_copies * params.min_samples_leaf),
                min_data_per_group=min(most, data.n_copies * params.min_data_per_group),
                path_smooth=data.n_copies * params.path_smooth,
            )
        raw, n_threads = self._grown_at, self._n_threads
        fit = Fit(data.target, data.weight, raw, self.objective, params, n_threads)
        shared = fit, self._grower_adds_scores
        if isinstance(matrix, BinnedMatrix):
            given = matrix, *shared, data.n_copies, data.numbers
            if params.device != "cuda" or kinds.obstacle_to_gpu(params) is not None:
                return TreeGrower(*given, data.sums)
            from hedgerow.growing.cuda.grower import CudaGrower

            return CudaGrower(*given)
        if isinstance(matrix, ColumnBlocks):
            return ExactGrower(matrix, *shared)
        assert isinstance(matrix, ChunkStore)
        from hedgerow.growing.chunks.grower import ChunkGrower, SymmetricChunkGrower

        ranks = self.ranks
        return (SymmetricChunkGrower if kinds.is_symmetric(params) else ChunkGrower)(
            matrix, *shared, ranks.communicator, ranks.mode, ranks.first_row,
        )  # fmt: skip

    @property
    def _grower_adds_scores(self) -> bool:
        # Linear leaves read numbers, which chunks on disk hold.
        waits = self.params.linear_leaves and isinstance(self.data.matrix, ChunkStore)
        return kinds.adds_scores(self.params, self.objective) and not waits

    def set_params(self, params: BoostParams) -> None:
        """Use other (resolved) parameters for the next rounds."""
        self.params = params
        if self._grower is not None:
            self._grower.close()
            self._grower = self._make_grower()

    def close(self) -> None:
        """End the worker threads."""
        if self._grower is not None:
            try:
                self._grower.close()
            finally:  # again, if an interrupt came before the helpers were told
                self._grower.close()
            self._grower = self.ahead = None

    # -- rounds ----------------------------------------------------------------------------

    def take_ready(self) -> RestOfBatch | None:
        """Take all rounds that are ready; None if they have to be taken one after the other."""
        rest = None if self.ahead is None else self.ahead.rest()
        if rest is not None:
            for place, tree in enumerate(rest.trees):
                self.mode.add(tree, place % len(self.base), NO_ROWS)
            self.n_rounds += len(rest.raw)
        return rest

    @property
    def scores_rows_outside(self) -> bool:
        """Whether each round is scored on the rows on which it was not grown."""
        return self.params.oob_score and self.params.boosting == "gbdt"

    def begin_round(self) -> None:
        """Set the scores and the rate of the next round's trees."""
        assert self._grower is not None
        number, params = self.n_rounds, self.params
        self.mode.start_round(number, params)
        self._rate = params.rate_of_trees(number, self.n_first)
        if params.num_parallel_tree > 1 or not is_number(params.learning_rate):
            self._grower.set_rate(self._rate)

    def grow(self, turn: int, n_trees: int) -> None:
        """Grow the next of the ``n_trees`` of the round, and add it to the fit."""
        tree, n_outputs, params = self.n_rounds * n_trees + turn, len(self.base), self.params
        # A tree with vectors is for all outputs, and is grown with output 0.
        output = turn % (n_trees // params.num_parallel_tree)
        if self.ahead is not None:
            found = self.ahead.tree(tree, n_outputs, self.next_end)
        else:
            assert self._grower is not None
            if self.train is self._scores:  # trees of a forest grow at its start
                self._scores.update()
            found = self._grower.grow(tree, output)
            if self.data.n_copies > 1 and isinstance(self.data.matrix, ColumnBlocks):
                found = found.with_counts(rows_without_copies(found.count, self.data.n_copies))
            self._outside = self._grower.rows_outside()
            if params.oob_score:
                if isinstance(self.train, MeanScores):
                    self.train.outside = self._outside
                elif output == 0:
                    self._loss_before = self._loss_outside()
            found = self._searched(found, output)
        found = finished_tree(found, self.objective, params, self._rate)
        self.mode.add(found, output, self._outside if self._grower_adds_scores else None)

    def end_round(self) -> None:
        """Update the scores with the trees of the round, and count it."""
        self.mode.end_round()
        if self.ahead is not None:
            self.ahead.end_round()
        if self.scores_rows_outside:
            self.improvement = self._loss_before - self._loss_outside()
        self.n_rounds += 1

    def replay(self, earlier: Rounds) -> None:
        """Add trees of an earlier run as if they had just been grown."""
        # Each row gets the same additions in the same order as then. With sampling, the grower
        # added to the rows of the sample; here all rows get them by tree traversal.
        earlier.check(self.base, self.n_features, self.n_columns)
        params = self.params
        for place in range(earlier.n_rounds):
            number = self.n_first + place
            self.mode.start_round(number, params)
            self._scores.update()
            if params.oob_score and isinstance(self.train, MeanScores):
                limit = np.uint64(int(params.subsample * 2.0**63) << 1)  # of growers
                rows = self.ranks.first_row, self.ranks.first_row + self.data.matrix.n_rows
                draws = hash_range(params.seed, ROW_STREAM + number, *rows)
                self.train.outside = np.flatnonzero(draws >= limit).astype(np.uint32)
            for turn, tree in enumerate(earlier.of_round(place)):
                self.mode.add(tree, turn % len(self.base), None)
            self.mode.end_round()
        self.n_rounds += earlier.n_rounds

    # -- the result ------------------------------------------------------------------------

    def freeze(self, n_rounds: int | None = None) -> Forest:
        """Return the forest of the first ``n_rounds`` rounds (default: all)."""
        kept = self.n_rounds if n_rounds is None else min(n_rounds, self.n_rounds)
        first = self.first
        if first is not None and kept < self.n_first:
            return first.first_rounds(kept)
        n_parallel = self.params.num_parallel_tree
        trees = self.mode.trees(kept - self.n_first)
        forest = make_forest(trees, self.base, self.n_features, self.spec, n_parallel)
        return forest if first is None else joined_forests([first, forest], first.base_score)

    @property
    def adds_up(self) -> bool:
        """Whether a round changes the scores only by adding its trees."""
        return type(self.mode) is Additive

    def scores(self) -> Mapping[str, Mapping[str, float]]:
        """Return scores after the last round, by name of the rows and metric."""
        if self.ahead is not None:
            return self.ahead.scores()
        found = {}
        for part, scores in zip(self.scored, [*self.held_out, self.train], strict=False):
            scores.update()
            found[part.name] = part.score(self.objective, scores.raw)
        return found

    def scores_of(
        self, metrics: Sequence[Metric], rows: RowArray, raw: FloatArray
    ) -> Mapping[str, float]:
        """Return the scores of some training rows of each rank; empty if no rank has some."""
        weight = None if self.data.weight is None else self.data.weight[rows]
        given = replace(self.all_rows, target=self.data.target[rows], weight=weight)
        if self.ranks.others.size == 1:
            if len(rows) == 0:
                return {}
            return evaluate(metrics, self.objective, given.target, raw, weight)
        tally = Tally(metrics, self.objective, given)
        return tally.scores(raw) if tally.n_rows > 0 else {}

    def _loss_outside(self) -> float:
        """Return the loss of the rows outside the sample; 0 if there are none."""
        self._scores.update()
        metrics, raw = make_metrics(None, self.objective), self._grown_at[:, self._outside]
        return sum(self.scores_of(metrics, self._outside, raw).values(), 0.0)

    # -- line search -----------------------------------------------------------------------

    def _searched(self, tree: GrownTree, output: int) -> GrownTree:
        """Return the tree with leaf values from a line search, if they are to be searched."""
        # The trees of a round search their leaves in turn, each at scores that include the previous
        # ones; if these trees do not join at once, scores are updated in a copy.
        params, n_parallel = self.params, self.params.num_parallel_tree
        if params.leaf_estimation != "line_search":
            return tree
        joins = params.boosting == "gbdt" and n_parallel == 1
        self._scores.update()
        if output == 0:
            self._searched_at = self._grown_at if joins else self._grown_at.copy()
        if tree.vectors is not None:
            columns = [
                self._search_leaves(tree.with_values(np.ascontiguousarray(values)), k).value
                for k, values in enumerate(tree.vectors.T)
            ]
            return tree.with_vectors(np.column_stack(columns))
        found = self._search_leaves(tree, output)
        if not joins:
            # Parallel trees share one step, but each search takes the full step.
            self._scores.add_to(self._searched_at, found, output, factor=float(n_parallel))
        return found

    def _search_leaves(self, tree: GrownTree, output: int) -> GrownTree:
        """Return the tree with leaf values that minimise the loss of their rows."""
        grower, data, params = self._grower, self.data, self.params
        assert grower is not None
        rows, leaves, starts = grower.leaf_segments()
        others = self.ranks.others
        if count_rows(len(rows), others)[1] == 0:  # a small sample may be empty
            return tree
        mass = np.ones(len(rows)) if data.weight is None else data.weight[rows]
        sampled = grower.row_weights(rows)
        if sampled is not None:
            mass = mass * sampled
        if self._unit is None:
            self._unit = unit_on_ranks(data.weight, len(data.target), others)
        at = self._searched_at[:, rows]
        leaf_rows = LeafRows(data.target[rows], at, mass, starts, self._unit)
        if others.size == 1:
            steps = self.objective.leaf_steps(leaf_rows, output)
        else:
            steps = steps_on_ranks(self.objective, output, leaf_rows, others)
        longest = params.max_delta_step or np.inf
        value = tree.value.copy()
        value[leaves] = self._rate * np.clip(steps, -longest, longest)
        if params.monotone_constraints is not None:
            matrix = data.matrix
            assert isinstance(matrix, BinnedMatrix | ChunkStore | ColumnBlocks)
            schema = (matrix.table if isinstance(matrix, ColumnBlocks) else matrix.spec).schema
            signs = split_signs(tree, params.monotone_constraints, schema)
            value = order_leaves(tree, value, signs)
        return tree.with_values(means_of_leaves(tree.left, tree.right, tree.cover, value))


def rounds(
    state: BoostState, earlier: Rounds | None = None, budget: Budget | None = None
) -> Generator[BoostState, None, None]:
    """Yield the state after each of ``n_estimators`` rounds."""
    # The state may hold threads: close the generator (``contextlib.closing``) unless it is
    # exhausted.
    try:
        with state.naming_rows():
            state.begin()
        if earlier is not None:
            state.replay(earlier)
            yield state
        if budget is not None:  # preparation is not a part of the first round
            budget.begin_rounds()
        last = state.n_first + state.params.n_estimators
        while state.n_rounds < last:
            try:
                with state.naming_rows():
                    state.begin_round()
                    n_trees = kinds.trees_of_round(state.params, len(state.base))
                    for turn in range(n_trees):
                        state.grow(turn, n_trees)
                    state.end_round()
            except LossError as error:
                raise LossError(f"round {state.n_rounds + 1}: {error}") from error.__cause__
            yield state
    finally:
        state.close()


def means_of_leaves(
    left: AnyArray, right: AnyArray, cover: FloatArray, value: FloatArray
) -> FloatArray:
    """Return values whose inner nodes have the mean of their leaves: for rows that stop there."""
    means, mass, one, other = value.tolist(), cover.tolist(), left.tolist(), right.tolist()
    for node in reversed(range(len(means))):  # children come after their parents
        a, b = one[node], other[node]
        if a > 0:
            total = mass[a] + mass[b]
            share = mass[a] / total if total > 0.0 else 0.5
            means[node] = share * means[a] + (1.0 - share) * means[b]
    return np.array(means)
