"""Cross-validation folds that grow side by side: one round of each, then the next round.

Glossary
--------
test rows       rows of a fold on which its trees are not grown; they are scored after
                each round, by their bins
pooled score    mean of the scores of all folds after the same number of rounds, weighted
                by the mass of the test rows; for the loss this is the loss of all rows
mass            sum of weights; for rankings, of the weights of queries

::

    fold 0   round 1   round 2   round 3 ...        a free thread takes the fold with the
    fold 1   round 1   round 2   round 3 ...        fewest rounds; small folds are grown
    fold 2   round 1   round 2   ...                by one thread each
                |         |
                v         v
              score of all folds: continue or stop   (or each fold stops separately)

Each fold is a separate fit; the number of folds grown at the same time changes no bit.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.boosting.loop.fit_rows import FitRows
from hedgerow.boosting.loop.rounds import BoostState, rounds
from hedgerow.boosting.loop.rounds_ahead import NOT_KNOWN, take_rounds
from hedgerow.boosting.loop.scored import ScoredRows
from hedgerow.boosting.loop.scores import MeanScores, Scores
from hedgerow.boosting.loop.watch import Watch, best_round_of
from hedgerow.boosting.row_data.metric_groups import bound_metrics
from hedgerow.boosting.row_data.positions import with_positions
from hedgerow.boosting.row_data.queries import with_queries
from hedgerow.boosting.validation.budget import Budget
from hedgerow.boosting.validation.fold_pool import FoldStopping, Pool, pooled_curves
from hedgerow.boosting.validation.fold_rows import FoldData, FoldRows, Weigh
from hedgerow.boosting.validation.folds import Fold
from hedgerow.boosting.validation.recent_scores import RecentScores
from hedgerow.boosting.validation.row_sets import ONLY, TRAINING
from hedgerow.boosting.validation.stopping import BestRound, StoppingParams
from hedgerow.data.inputs import Inputs
from hedgerow.errors import LossError
from hedgerow.growing.core.tree import GrownTree, joined
from hedgerow.metrics import Metric
from hedgerow.metrics.queries import query_rows, query_weights
from hedgerow.model.forest import Forest
from hedgerow.objectives import Objective
from hedgerow.params import BoostParams

_CELLS_SIDE_BY_SIDE = 25_000
"""Smallest table, in values, whose folds two threads grow faster than one.

Python code, which one thread at a time may run, is a large part of the rounds of smaller tables.
Speed-up of two threads, on generated tables: 0.8 to 1.0 with 10,000 values or fewer, 0.9 and 1.1
with 16,000, 1.25 and 1.3 with 30,000, 1.3 and 1.5 with 80,000.
"""

_SHARE_OF_ROUNDS = 0.95
"""Share of a time budget for rounds; assembly of models and predictions take the rest."""


def in_time(
    stopping: FoldStopping, budget: Budget, folds: Sequence[Fold], n_refit: int, n_threads: int
) -> FoldStopping:
    """Return the rule with a time limit that leaves time for a refit on ``n_refit`` rows."""
    n_grown = sum(len(fold.train) for fold in folds)
    share = _SHARE_OF_ROUNDS * n_grown / (n_grown + n_refit)
    late = budget.short_of_a_step(share, min(n_threads, len(folds)))
    return replace(stopping, is_late=late)


@dataclass(frozen=True, slots=True, eq=False)
class GrownFold:
    """A fold after its last round.

    Attributes
    ----------
    forest : Forest
        Up to the best round.
    inputs : Inputs or None
        Inputs of the trees, including statistics that no tree uses.
    raw : float64 (n_outputs, n_test)
        Raw scores of the test rows, from the forest.
    watch : Watch
        With the scores after each round.
    n_rows : int
        Number of rows on which the trees were grown.
    mass : float
        Mass of the test rows.
    scores : dict from str to float
        Scores of the test rows, from the forest, by name of the metric.
    trees : list of GrownTree
        Up to the best round, as in the model.
    n_inputs : int
        Number of inputs of the trees.
    """

    forest: Forest
    inputs: Inputs | None
    n_copies: int
    raw: FloatArray
    watch: Watch
    params: BoostParams
    n_rows: int
    mass: float
    scores: dict[str, float]
    trees: list[GrownTree]
    n_inputs: int

    def gains(self) -> FloatArray:
        """Return the sum of the gains of the splits of each input, shape (n_inputs,)."""
        if not self.trees:
            return np.zeros(self.n_inputs)
        pieces = joined(self.trees)  # one by one, the arrays took a fifth of a fit of few rows
        feature = np.concatenate([piece.feature for piece in pieces])
        gain = np.concatenate([piece.gain for piece in pieces])
        total = np.bincount(feature + 1, weights=gain, minlength=self.n_inputs + 1)
        return total[1:].astype(np.float64)  # the first entry: leaves


@dataclass(frozen=True, slots=True, eq=False)
class GrownFolds:
    """All folds after their last round.

    Attributes
    ----------
    best : BestRound or None
        The best round by the pooled score, if that decides.
    curves : dict from str to list of float
        Pooled score of each metric after each round that all folds completed.
    interrupted : bool
        Whether an interrupt ended the folds.
    late : bool
        Whether the time limit ended the folds.
    """

    folds: list[GrownFold]
    best: BestRound | None
    curves: dict[str, list[float]]
    interrupted: bool = False
    late: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class FoldPlan:
    """Plan of the folds, which they share.

    Attributes
    ----------
    params : BoostParams
        Resolved.
    metrics : sequence of Metric
        The first one decides.
    n_threads : int
        Largest number of folds grown at the same time; spare threads are shared among them.
        Small folds are grown one after another, by one thread.
    weigh : callable, optional
        Changes the weights of a fold's rows.
    keep_trees : bool, default=True
        False: forests keep no trees, only the base score.
    of_train : sequence of Metric, optional
        Metrics for the training rows of each fold, in addition to its test rows.
    """

    rows: FoldRows
    objective: Objective
    params: BoostParams
    stopping: FoldStopping
    metrics: Sequence[Metric]
    n_threads: int
    weigh: Weigh | None = None
    keep_trees: bool = True
    of_train: Sequence[Metric] = ()


def grow_folds(plan: FoldPlan, folds: Sequence[Fold]) -> GrownFolds:
    """Grow the trees of all folds, each with training and test rows.

    Raise ``LossError`` with the number of the fold.
    """
    sample, stopping, n_threads = plan.rows.sample, plan.stopping, plan.n_threads
    if sample.n_rows * sample.table.schema.n_features < _CELLS_SIDE_BY_SIDE:
        n_threads = 1
    at_once = min(n_threads, len(folds))
    shared = replace(plan, n_threads=n_threads // at_once)
    fits = [_FoldFit(shared, number, fold) for number, fold in enumerate(folds)]
    pool = Pool(fits, plan.metrics[0], stopping)
    try:
        interrupted = pool.grow(at_once)
        grown = [fit.finish(pool.best, pool.n_common, interrupted, pool.late) for fit in fits]
    finally:
        for fit in fits:
            fit.close()
    return GrownFolds(grown, pool.best, pooled_curves(grown), interrupted, pool.late)


class _FoldFit:
    """The fit of one fold, one round at a time; it holds the fold's rows while it lasts.

    The owner sets ``best_round``, the best round of all folds so far, and ``next_end``, the next
    round that may end them.
    """

    def __init__(self, shared: FoldPlan, number: int, fold: Fold) -> None:
        self._shared, self._number, self._fold = shared, number, fold
        self._recent, self.best_round = RecentScores(), 0
        self.next_end = NOT_KNOWN
        self._states: Generator[BoostState, None, None] | None = None
        self._state: BoostState | None = None
        self._data: FoldData | None = None
        self._rows: FitRows | None = None
        self.curve: list[float] = []
        self.mass = 0.0

    def advance(self) -> bool:
        """Run a round, and others that are ready; return True if the last one was among them."""
        if self._rows is not None:
            self._rows.next_end = self.next_end
        ended = self._advance()
        while not ended and self._rows is not None and self._rows.n_ready > 0:
            ended = self._advance_all()
        return ended

    def _advance_all(self) -> bool:
        """Do the rounds that are ready: together if no other than the owner may end the fit."""
        state, rows, rest = self._state, self._rows, None
        assert state is not None
        assert rows is not None
        if self._watch.best is None:
            rest = rows.take_ready()
        if rest is None:
            return self._advance()
        take_rounds(rest.trees, state)
        self._watch.note_scores(rest.scores, len(rest.raw))
        for raw in rest.raw:
            self._recent.note(raw, self.best_round)
        self.curve += rest.scores[self._watch.rows][self._watch.metrics[0].name]
        return state.n_rounds == self._shared.params.n_estimators

    def _advance(self) -> bool:
        try:
            if self._states is None:
                self._states = self._begin()
            state = self._state = next(self._states)
            ended = self._watch.after_round(state)
        except LossError as error:
            raise LossError(f"fold {self._number}, {error}") from error.__cause__
        name = self._watch.metrics[0].name
        self.curve.append(self._watch.history[self._watch.rows][name][-1])
        if state.adds_up:
            best = self._watch.best
            best_round = self.best_round if best is None else best.round
            self._recent.note(self._unseen.raw.copy(), best_round)
        return ended or state.n_rounds == self._shared.params.n_estimators

    def _begin(self) -> Generator[BoostState, None, None]:
        shared, stopping = self._shared, self._shared.stopping
        data = self._data = shared.rows.fold(self._fold, shared.weigh, shared.n_threads)
        seen, test, params = data.encoded, data.test, data.params
        objective = with_queries(shared.objective, seen, params.seed, shared.n_threads)
        objective = with_positions(objective, seen.position, params)
        metrics = bound_metrics(shared.metrics, test, objective)
        requested = StoppingParams("oob") if stopping.by_out_of_bag else StoppingParams()
        limits = None if stopping.pooled else stopping.limits
        place, names = slice(0, test.n_rows), test.row_names
        scored = [ScoredRows(ONLY, metrics, test.target, test.weight, place, names=names)]
        if shared.of_train:
            train, place = data.train, slice(0, data.train.n_rows)
            own, names = bound_metrics(shared.of_train, train, objective), train.row_names
            scored.append(ScoredRows(TRAINING, own, train.target, train.weight, place, True, names))
        self._watch = Watch(
            objective=objective,
            scored={part.name: part.metrics for part in scored},
            best=best_round_of(metrics[0], requested, limits),
            by_out_of_bag=stopping.by_out_of_bag,
            callbacks=(),
            n_rounds=params.n_estimators,
        )
        self.mass = _mass(data)
        self._rows = FitRows(
            data.seen, objective, params, (data.unseen,), shared.n_threads, scored=scored,
            may_run_ahead=True,
        )  # fmt: skip
        self._rows.names = data.train.row_names
        return rounds(self._rows)

    @property
    def _unseen(self) -> Scores | MeanScores:
        """Raw scores of the test rows."""
        assert self._rows is not None
        return self._rows.held_out[0]

    def finish(
        self,
        best: BestRound | None,
        n_common: int | None,
        interrupted: bool = False,
        late: bool = False,
    ) -> GrownFold:
        """Return the forest and the scores, and end the fit.

        ``best`` is the best round by the pooled score.  ``n_common`` is the number of rounds
        that all folds keep, None if each fold stops separately.  The remains of an interrupted
        round are ignored.
        """
        state, data, watch = self._state, self._data, self._watch
        assert state is not None
        assert data is not None
        if best is not None:
            watch.best = best
        if n_common is not None:
            watch.cut(n_common)
        if late and watch.stopped_by == "rounds" and watch.n_done < watch.n_rounds:
            watch.stopped_by = "time_budget"
        kept = watch.n_kept
        if not interrupted and (watch.best is not None or kept == state.n_rounds):
            watch.note_forest(state)
        if data.train.n_rows < 2 * data.params.min_samples_leaf:
            kept = 0  # too few rows for a split
        raw = np.ascontiguousarray(self._scores_after(kept, interrupted))
        assert self._rows is not None
        scored = self._rows.scored[0].score(watch.objective, raw)
        forest = state.freeze(kept if self._shared.keep_trees else 0)
        grown = GrownFold(
            forest, data.inputs, data.seen.n_copies, raw, watch, data.params,
            data.train.n_rows, self.mass, scored, state.trees(kept), self._rows.n_features,
        )  # fmt: skip
        self.close()
        return grown

    def _scores_after(self, n_rounds: int, interrupted: bool) -> FloatArray:
        """Return raw scores of the test rows from the first ``n_rounds`` rounds alone.

        If a round was ``interrupted``, the current scores may include a part of it.
        """
        state, recent = self._state, self._recent.after(n_rounds)
        assert state is not None
        if recent is not None:
            return recent
        if n_rounds == state.n_rounds and state.adds_up and not interrupted:
            return self._unseen.raw
        scores = self._unseen.restarted(state.base_score)
        for number, tree in enumerate(state.trees(n_rounds)):
            scores.add(tree, number % len(state.base_score))
        return scores.raw

    def close(self) -> None:
        """End the threads of the grower, and release the rows."""
        if self._states is not None:
            self._states.close()
        self._states = self._state = self._data = self._rows = None
        self._recent = RecentScores()


def _mass(data: FoldData) -> float:
    test = data.test
    if test.query is not None:
        queries = query_rows(test.query, test.n_rows)
        weights = query_weights(queries, test.weight)
        return float(len(queries.starts) - 1) if weights is None else math.fsum(weights)
    return float(test.n_rows) if test.weight is None else math.fsum(test.weight)
