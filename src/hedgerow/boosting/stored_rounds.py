"""The boosting loop over rows in chunks: the rounds of :mod:`hedgerow.boosting.rounds`.

::

    round   grow            gradients at the scores, with the trees that wait added first
            search leaves   for losses whose leaves are quantiles
            add             the new tree waits, for training and for validation rows
            settle          a pass over the training rows, only if something looks at
                            their scores: learning curves, rows left out of the sample

Trees are added to each row in the same order as in memory, so scores have the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from hedgerow.arrays import FloatArray, IntArray, RowArray
from hedgerow.boosting.assembly import make_forest
from hedgerow.boosting.checkpoint import Rounds
from hedgerow.boosting.ensemble import Additive, Dropout, Mode, settled
from hedgerow.boosting.rounds import adds_scores
from hedgerow.boosting.row_sets import TRAINING
from hedgerow.boosting.scores import AddedScores
from hedgerow.boosting.stored_scores import StoredScores, Tally
from hedgerow.comm.base import Communicator
from hedgerow.data.bins import BinSpec
from hedgerow.data.row_store import Chunk
from hedgerow.growing.tree import NO_ROWS, GrownTree
from hedgerow.kernels.exact_sum import ExactSum, weighted_sums
from hedgerow.model.forest import Forest
from hedgerow.objectives import Objective
from hedgerow.objectives.whole import merged
from hedgerow.params import BoostParams


class StoredGrower(Protocol):
    """What grows the trees: :class:`hedgerow.growing.chunk_grower.ChunkGrower`."""

    def set_rate(self, rate: float) -> None:
        """Set the factor on the values of the trees to come."""

    def start(self, base: FloatArray) -> None:
        """Set the raw scores to ``base``, plus offsets."""

    def grow(self, tree: int, output: int) -> GrownTree:
        """Grow a tree on the gradients at the raw scores."""

    def add(self, tree: GrownTree, output: int) -> None:
        """Add a tree to the raw scores when chunks are next visited."""

    def settle(
        self,
        before: Callable[[Chunk], None] | None = None,
        after: Callable[[Chunk], None] | None = None,
    ) -> None:
        """Visit all chunks, before and after the trees that wait are added."""

    def rows_outside(self, chunk: Chunk) -> RowArray:
        """Rows of the chunk that the last tree was not grown on."""

    def leaf_segments(self, chunk: Chunk) -> tuple[RowArray, IntArray, IntArray]:
        """Rows of the chunk by leaf of the last tree: rows, leaves, starts."""

    def close(self) -> None:
        """End the helpers."""


class TrainScores:
    """The training rows as :mod:`hedgerow.boosting.ensemble` sees them."""

    def __init__(self, grower: StoredGrower, n_outputs: int) -> None:
        self.raw: FloatArray = np.empty((n_outputs, 0))
        self._grower = grower

    def add(
        self, tree: GrownTree, output: int, rows: RowArray = NO_ROWS, factor: float = 1.0
    ) -> None:
        """Add ``factor`` times the tree's value to each row; ``rows`` must be empty."""
        assert len(rows) == 0
        self._grower.add(tree if factor == 1.0 else tree.with_values(factor * tree.value), output)


class AverageOnly:
    """A random forest of which no score of a training row is asked for."""

    def __init__(self, n_outputs: int, validation: AddedScores | None) -> None:
        self.grown_at: FloatArray = np.empty((n_outputs, 0))
        self._validation = validation
        self._trees: list[GrownTree] = []

    def start_round(self, number: int) -> None:
        """Nothing to prepare: the gradients are those at the start."""

    def add(self, tree: GrownTree, output: int, rows: RowArray | None) -> None:
        if self._validation is not None:
            self._validation.add(tree, output)
        self._trees.append(tree)

    def end_round(self) -> None:
        """Nothing is left to do."""

    def trees(self, n_rounds: int) -> list[GrownTree]:
        kept = self._trees[: n_rounds * len(self.grown_at)]
        return [tree.with_values(tree.value / n_rounds) for tree in kept]

    def newest(self) -> list[GrownTree]:
        return self._trees[-len(self.grown_at) :]


class ScoresOfSets:
    """Several sets of validation rows, to which each tree is added."""

    def __init__(self, sets: Sequence[AddedScores]) -> None:
        self.raw = sets[0].raw
        self._sets = sets

    def add(
        self, tree: GrownTree, output: int, rows: RowArray = NO_ROWS, factor: float = 1.0
    ) -> None:
        """Add ``factor`` times the tree's value to each row; ``rows`` must be empty."""
        for scores in self._sets:
            scores.add(tree, output, rows, factor)


@dataclass(frozen=True, slots=True, eq=False)
class StoredSet:
    """A set of validation rows: what history calls it, its raw scores, and what scores them."""

    name: str
    scores: StoredScores
    tally: Tally


@dataclass(slots=True, eq=False)
class StoredFit:
    """What the rounds work with.

    Attributes
    ----------
    grower : StoredGrower
        Of the training rows.
    objective : Objective
    params : BoostParams
        Resolved.
    spec : BinSpec
    base : float64 (n_outputs,)
    others : Communicator
        Those that have other rows.
    train_tally : Tally or None
        Evaluates the training rows after each round.
    sets : sequence of StoredSet
        Validation rows; the first decide.
    search : callable or None
        Takes a tree, its output and the parameters of the round, and returns the tree
        with the leaf values of a line search.
    """

    grower: StoredGrower
    objective: Objective
    params: BoostParams
    spec: BinSpec
    base: FloatArray
    others: Communicator
    train_tally: Tally | None = None
    sets: Sequence[StoredSet] = ()
    search: Callable[[GrownTree, int, BoostParams], GrownTree] | None = None


@dataclass(slots=True, eq=False)
class StoredState:
    """The fit after a round; see :class:`hedgerow.boosting.rounds.BoostState`.

    Attributes
    ----------
    n_rounds : int
    oob_improvement : list of float
    scores : dict of dicts
        By name of the rows and metric.
    """

    fit: StoredFit
    mode: Mode
    n_rounds: int = 0
    oob_improvement: list[float] = field(default_factory=list)
    scores: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def base_score(self) -> FloatArray:
        """Raw score before the first tree."""
        return self.fit.base

    def newest(self) -> list[GrownTree]:
        """The trees of the last round as they were added."""
        return self.mode.newest()

    def freeze(self, n_rounds: int | None = None) -> Forest:
        """The forest of the first ``n_rounds`` rounds (default: of all)."""
        kept = self.n_rounds if n_rounds is None else min(n_rounds, self.n_rounds)
        spec = self.fit.spec
        trees, n_parallel = self.mode.trees(kept), self.fit.params.num_parallel_tree
        return make_forest(trees, self.fit.base, spec.n_features, spec, n_parallel)


def stored_rounds(
    fit: StoredFit, earlier: Rounds | None = None
) -> Generator[StoredState, None, None]:
    """Yield the state after each round; the caller closes the grower.

    With ``earlier`` rounds, the same on all ranks, the first state is that after these.
    """
    state = StoredState(fit, _make_mode(fit))
    fit.grower.start(fit.base)
    if earlier is not None:
        earlier.check(fit.base, fit.spec.n_features, fit.spec.n_features)
        _replay(earlier, fit, state)
        yield state
    for number in range(state.n_rounds, fit.params.n_estimators):
        state.mode.start_round(number)
        _grow_round(number, fit, state)
        state.n_rounds += 1
        state.scores = {one.name: _scores_of(one, state.n_rounds) for one in fit.sets}
        if fit.train_tally is not None:
            state.scores[TRAINING] = fit.train_tally.finish()
        yield state


def _scores_of(one: StoredSet, n_rounds: int) -> dict[str, float]:
    for chunk, raw in one.scores.visit(n_rounds):
        one.tally.add(chunk.target, raw, chunk.weight)
    return one.tally.finish()


def _replay(earlier: Rounds, fit: StoredFit, state: StoredState) -> None:
    """Add trees that were grown before, in the same order as when they were new."""
    for number in range(earlier.n_rounds):
        state.mode.start_round(number)
        for turn, tree in enumerate(earlier.of_round(number)):
            state.mode.add(tree, turn % earlier.n_outputs, None)
        state.mode.end_round()
    if fit.params.oob_score:
        state.oob_improvement += earlier.improvement.tolist()
    state.n_rounds = earlier.n_rounds


def _make_mode(fit: StoredFit) -> Mode:
    n_outputs = fit.objective.n_outputs
    validation = ScoresOfSets([one.scores for one in fit.sets]) if fit.sets else None
    if fit.params.boosting == "rf":
        return AverageOnly(n_outputs, validation)
    train = TrainScores(fit.grower, n_outputs)
    if fit.params.boosting == "dart":
        return Dropout(train, validation, fit.params)
    return Additive(train, validation, fit.params)


def _grow_round(number: int, fit: StoredFit, state: StoredState) -> None:
    """The trees of a round, and a pass over the training rows where their scores are asked for."""
    n_outputs, grower = fit.objective.n_outputs, fit.grower
    left_out = LeftOut(fit) if fit.params.oob_score else None
    now = fit.params.of_trees_at(number)
    if now is not fit.params:
        grower.set_rate(now.learning_rate)
    n_trees = n_outputs * fit.params.num_parallel_tree
    for turn in range(n_trees):
        output = turn % n_outputs
        tree = grower.grow(number * n_trees + turn, output)
        if fit.search is not None:
            tree = fit.search(tree, output, now)
        tree = settled(tree, fit.objective, fit.params)
        if left_out is not None and output == 0 and n_outputs > 1:
            grower.settle(before=left_out.before)
        # A tree that the grower adds by itself is new to no training row.
        state.mode.add(tree, output, NO_ROWS if adds_scores(fit.params) else None)
    state.mode.end_round()
    if left_out is None and fit.train_tally is None:
        return

    def after(chunk: Chunk) -> None:
        if left_out is not None:
            left_out.after(chunk)
        if fit.train_tally is not None:
            fit.train_tally.add(chunk.target, chunk.work.raw, chunk.weight)

    first = left_out.before if left_out is not None and n_outputs == 1 else None
    grower.settle(before=first, after=after)
    if left_out is not None:
        state.oob_improvement.append(left_out.improvement())


class LeftOut:
    """Loss, before and after a round, of the rows that it was not grown on."""

    def __init__(self, fit: StoredFit) -> None:
        self._fit = fit
        self._sums = [ExactSum()] * 4

    def before(self, chunk: Chunk) -> None:
        """Note the losses of a chunk before the trees are added."""
        self._note(chunk, 0)

    def after(self, chunk: Chunk) -> None:
        """Note them with the trees."""
        self._note(chunk, 2)

    def improvement(self) -> float:
        """Loss before less loss after; 0 if no row was left out."""
        sums = merged(self._sums, self._fit.others)
        if sums[1] == ExactSum():
            return 0.0
        return sums[0].over(sums[1]) - sums[2].over(sums[3])

    def _note(self, chunk: Chunk, place: int) -> None:
        rows: Any = self._fit.grower.rows_outside(chunk)
        if len(rows) == 0:
            return
        losses = self._fit.objective.losses(chunk.target[rows], chunk.work.raw[:, rows])
        weight = None if chunk.weight is None else chunk.weight[rows]
        above, below = weighted_sums(losses, weight)
        self._sums[place] += above
        self._sums[place + 1] += below
