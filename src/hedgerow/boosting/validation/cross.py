"""Cross-validation folds that grow side by side: one round of each, then the next round.

::

    fold 0   round 1   round 2   round 3 ...        a free thread takes the fold with the
    fold 1   round 1   round 2   round 3 ...        fewest rounds; small folds are grown
    fold 2   round 1   round 2   ...                by one thread each
                |         |
                v         v
              score of all folds: continue or stop   (or each fold stops separately)

Each fold is a separate fit; the number of folds grown at the same time changes no bit.  After each
round its test rows are scored, by their bins.  Rows are read and binned once for all folds: cuts
come from the values of all rows, including test rows, but not from their targets.  Encodings by the
target are made for each fold, and sorted columns (``tree_method="exact"``, ``"approx"``), too.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.boosting.loop.driver import FitPlan, Ready, make_ready
from hedgerow.boosting.loop.rounds import BoostState, rounds
from hedgerow.boosting.loop.rounds_ahead import NOT_KNOWN
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.scores import TrainingData
from hedgerow.boosting.loop.setup.training_matrix import PreparedRows, bins_of_columns, prepare
from hedgerow.boosting.row_data.classes import with_class_weights
from hedgerow.boosting.row_data.statistics import choose_columns, kept_columns
from hedgerow.boosting.validation.folds import Fold
from hedgerow.boosting.validation.stopping import BestRound
from hedgerow.data import AnyTable, BinnedMatrix, Table
from hedgerow.data.binning.bins import BinSpec
from hedgerow.errors import LossError
from hedgerow.growing.core.setup import SumsPool
from hedgerow.growing.core.tree import joined
from hedgerow.metrics.queries import query_rows, query_weights
from hedgerow.objectives import Objective
from hedgerow.once import once
from hedgerow.params import BoostParams
from hedgerow.threads import take_turns

_CELLS_SIDE_BY_SIDE = 25_000
"""Smallest table, in values, whose folds two threads grow faster than one: 1.25 times as fast with
30,000 values, 0.8 times with 10,000, where rounds are mostly Python code."""

_RECENT_BYTES = 32_000_000
"""Largest memory for recent scores of a fold; with many test rows, scores of the best round may
have to be recomputed."""

_OF_TREES = (
    *("n_estimators", "learning_rate", "max_leaves", "max_depth", "min_samples_leaf"),
    *("reg_lambda", "subsample", "colsample_bynode", "grow_policy", "max_cat_to_onehot"),
)
"""Parameters that do not affect the form of the rows for the grower."""
_OF_FORM = [field.name for field in fields(BoostParams) if field.name not in _OF_TREES]

_KEPT_CELLS = 1_000_000
"""A fold of fewer values, copies included, is kept in memory for other kinds of trees.  Target
statistics of folds of 431 rows took a sixth of a default fit."""


class FoldRows:
    """All rows, with preparations that all folds share.

    sample  the rows, with only the categories that occur
    params  resolved, with column positions instead of names
    whole   the rows in the form for a fit; None if each fold needs its own form
    """

    def __init__(
        self, sample: Sample, objective: Objective, params: BoostParams, n_threads: int
    ) -> None:
        self.sample, self.params, self.n_threads = sample, params, n_threads
        self._objective = objective
        schema, is_hist = sample.table.schema, params.tree_method == "hist"
        self.whole: PreparedRows | None = None
        self._kept: BinSpec | None = None
        self._kept_folds: dict[Fold, PreparedRows] = {}
        self._sums = SumsPool()
        groups = choose_columns(schema, sample.n_rows, objective, params)
        if is_hist and not groups:
            self.whole = prepare(sample, (), objective, params, n_threads)
        elif is_hist and (kept := kept_columns(schema, groups)):
            self._kept = bins_of_columns(sample, kept, params, n_threads)

    def for_trees(self, params: BoostParams) -> FoldRows:
        """Return the rows for other parameters; prepare again only if their form differs."""
        if params.unlike(self.params, _OF_FORM):
            return FoldRows(self.sample, self._objective, params, self.n_threads)
        other = copy(self)
        other.params = params
        return other

    def close(self) -> None:
        """Forget the folds."""
        self._kept_folds.clear()

    def fold(self, fold: Fold, n_threads: int = 1) -> PreparedRows:
        """Return the rows of one fold; those of small tables are kept for further calls."""
        found = self._kept_folds.get(fold)
        if found is None:
            found = self._make_fold(fold, n_threads)
            if found.seen.matrix.n_rows * found.seen.matrix.n_features < _KEPT_CELLS:
                self._kept_folds[fold] = found
        return found

    def _make_fold(self, fold: Fold, n_threads: int) -> PreparedRows:
        sample, whole = self.sample, self.whole
        # The bins have the values, unless the loss describes a model of the fold.
        if whole is not None and not hasattr(self._objective, "fit_record"):
            table = Table(np.empty((sample.n_rows, 0)), sample.table.schema)
            sample = replace(sample, table=table)

        def part(rows: IntArray, weight: FloatArray | None) -> Sample:
            own = sample.take(rows)
            own = own if weight is None else replace(own, weight=weight)
            return with_class_weights(own, fold.by_class).without_equal_weights()

        train, test = part(fold.train, fold.train_weight), part(fold.test, fold.test_weight)
        if whole is None:  # each fold has inputs of its own
            given = train, (test,), self._objective, self.params, n_threads
            return prepare(*given, kept=self._kept)
        data = whole.seen
        assert isinstance(data.matrix, BinnedMatrix)
        seen = replace(
            _taken(data, train, data.matrix.take(fold.train), fold.train), sums=self._sums
        )
        rows: BinnedMatrix | AnyTable = data.matrix.take(fold.test, columns=False)
        if data.matrix.n_lost > 0:  # conflicts in bundles lost some values
            rows = whole.learned.table.take(fold.test)
        unseen = _taken(data, test, rows, fold.test)
        return PreparedRows(train, train, seen, (unseen,), (test,), whole.inputs)


def _taken(
    data: TrainingData, sample: Sample, matrix: BinnedMatrix | AnyTable, rows: IntArray
) -> TrainingData:
    numbers = data.numbers
    if numbers is not None:
        # Fortran order, for which the kernels are compiled; brackets would change it.
        numbers = np.take(numbers.T, rows, axis=1).T
    return TrainingData(matrix, sample.target, sample.weight, sample.offset, numbers=numbers)


@dataclass(frozen=True, slots=True)
class FoldStopping:
    """Stopping rule of the folds.

    best          tracker of the pooled score, which chooses the same number of rounds for all folds
    limits        patience and smallest improvement, if each fold stops by its own score
    is_late       tells, after each round of a fold, whether time is over.  Without ``limits`` all
                  folds then keep the same number of rounds.
    after_rounds  receives the number of rounds that all folds completed, and their pooled score
    keep_trees    whether the folds keep forests and models
    """

    best: BestRound | None = None
    limits: tuple[int, float] | None = None
    is_late: Callable[[], bool] = lambda: False
    after_rounds: Callable[[int, float], None] = lambda n_rounds, score: None
    keep_trees: bool = True


def grow_folds(
    plan: FitPlan, rows: FoldRows, folds: Sequence[Fold], stopping: FoldStopping
) -> GrownFolds:
    """Grow the trees of all folds, each with training and test rows; the first metric decides."""
    sample, n_threads = rows.sample, plan.n_threads
    # Small folds grow one after another, by one thread.
    if sample.n_rows * sample.table.schema.n_features < _CELLS_SIDE_BY_SIDE:
        n_threads = 1
    at_once = min(n_threads, len(folds))
    shared = replace(plan, n_threads=n_threads // at_once, callbacks=(), limits=stopping.limits)
    grown = [GrownFold(shared, rows, fold, number, stopping) for number, fold in enumerate(folds)]
    found = GrownFolds(grown, stopping)
    try:
        take_turns([fold.advance for fold in grown], at_once, found.after_step)
        for fold in grown:
            fold.finish(found)
    finally:
        for fold in grown:
            fold.close()
    return found


def pooled(scores: Sequence[float], masses: Sequence[float]) -> float:
    """Return the mean of scores of folds, weighted by mass."""
    if not all(map(math.isfinite, scores)):
        return float(np.mean(scores))
    weighted = math.fsum(score * mass for score, mass in zip(scores, masses, strict=True))
    return weighted / math.fsum(masses)


class GrownFolds:
    """All folds, and the best of the rounds that all of them have completed.

    late  whether the time limit ended the folds
    """

    def __init__(self, folds: Sequence[GrownFold], stopping: FoldStopping) -> None:
        self.folds, self._stopping, self.best = folds, stopping, stopping.best
        self.n_rounds, self.late = 0, False

    @once
    def curves(self) -> dict[str, list[float]]:
        """Pooled score of each metric after each round that all folds completed."""
        masses = [fold.mass for fold in self.folds]
        found = [fold.watch.history.get(fold.watch.rows, {}) for fold in self.folds]
        return {
            name: [pooled(part, masses) for part in zip(*(c[name] for c in found), strict=False)]
            for name in found[0]
        }

    def after_step(self) -> bool:
        """Record and report rounds that all folds have completed; return True if all should end."""
        folds, best = self.folds, self.best
        if best is None:
            self.n_rounds = min(len(fold.curve) for fold in folds)
        else:
            before, latest, ended = self.n_rounds, math.nan, False
            masses = [fold.mass for fold in folds]
            while not ended and all(len(fold.curve) > self.n_rounds for fold in folds):
                latest = pooled([fold.curve[self.n_rounds] for fold in folds], masses)
                self.n_rounds += 1
                ended = best.observe(self.n_rounds, latest)
            if self.n_rounds > before:
                self._stopping.after_rounds(self.n_rounds, latest)
            next_end = best.next_end(self.n_rounds)
            for fold in folds:
                fold.best_round, fold.next_end = best.round, next_end
            if ended:
                return True
        self.late = self._stopping.is_late() and self.n_rounds > 0
        return self.late


class GrownFold:
    """The fit of one fold, one round at a time; it holds the fold's rows while it lasts.

    curve       score of the test rows after each round, by the first metric
    mass        mass of the test rows
    best_round  the best round of all folds so far
    next_end    the next round that may end the folds
    watch       with the scores after each round

    After the last round:

    forest   up to the best round, and its model, if trees are kept
    inputs   inputs of the trees, including statistics that no tree uses
    start    float64 (n_outputs, n_test): raw scores of the test rows before the first tree
    raw      the same, from the forest
    scores   scores of the test rows, from the forest, by name of the metric
    trees    up to the best round, as in the model

    Folds continue for a while after their best round.  Recomputing the raw scores of that round
    from the trees took a sixteenth of the time of the fits of small tables, so they are kept.
    """

    def __init__(
        self, plan: FitPlan, rows: FoldRows, fold: Fold, number: int, stopping: FoldStopping
    ) -> None:
        self._plan, self._rows, self._fold = plan, rows, fold
        self._number, self._stopping = number, stopping
        self.best_round, self.next_end, self.mass = 0, NOT_KNOWN, 0.0
        self.curve: list[float] = []
        self._recent = deque[FloatArray]()  # raw scores after the latest rounds
        self._states: Generator[BoostState, None, None] | None = None
        self._ready: Ready | None = None

    def advance(self) -> bool:
        """Run a round, and others that are ready; return True if the last one was among them."""
        if self._states is None or self._ready is None:
            rows = self._rows.fold(self._fold, self._plan.n_threads)
            self._ready = make_ready(self._plan, rows, may_run_ahead=True)
            self.watch, self._states = self._ready.watch, rounds(self._ready.state)
            self.mass = _mass(rows.validation[0])
        state, watch, last = self._ready.state, self.watch, self._plan.params.n_estimators
        state.next_end = self.next_end
        while True:
            try:
                next(self._states)
                ended = watch.after_round(state) or state.n_rounds == last
            except LossError as error:
                raise LossError(f"fold {self._number}, {error}") from error.__cause__
            self.curve = watch.history[watch.rows][watch.metrics[0].name]
            if state.adds_up:
                self._keep(state, state.held_out[0].raw.copy())
            if ended or state.ahead is None or state.ahead.n_ready == 0:
                return ended
            rest = state.take_ready() if watch.best is None else None
            if rest is not None:  # all at once: no other than the pool may end the fit
                watch.note_scores(rest.scores, len(rest.raw))
                self._keep(state, *rest.raw)
                return state.n_rounds == last

    def _keep(self, state: BoostState, *raw: FloatArray) -> None:
        """Keep raw scores after the latest rounds; drop those before the best round."""
        recent, best = self._recent, self.watch.best
        recent.extend(raw)
        best_round = self.best_round if best is None else best.round
        while (
            state.n_rounds - len(recent) + 1 < best_round
            or len(recent) * raw[0].nbytes > _RECENT_BYTES
        ):
            recent.popleft()

    def finish(self, all_folds: GrownFolds) -> None:
        """Make the forest and the scores, and end the fit; a part of a round is ignored."""
        ready, watch = self._ready, self.watch
        assert ready is not None
        state, rows = ready.state, ready.rows
        if all_folds.best is not None:
            watch.best = all_folds.best
        # Otherwise each fold stops separately.
        if all_folds.best is not None or (all_folds.late and self._stopping.limits is None):
            watch.cut(all_folds.n_rounds)
        if all_folds.late and watch.stopped_by == "rounds" and watch.n_done < watch.n_rounds:
            watch.stopped_by = "time_budget"
        kept = watch.n_kept
        if watch.best is not None or kept == state.n_rounds:
            watch.note_forest(state)
        if state.n_rows < 2 * state.params.min_samples_leaf:
            kept = 0  # too few rows for a split
        raw = np.ascontiguousarray(self._scores_after(state, kept))
        start = state.held_out[0].restarted(state.base).raw
        self.scores = state.scored[0].score(watch.objective, raw)
        self.start, self.raw = start, raw
        self.trees, self.n_inputs = state.mode.trees(kept), state.n_features
        self.inputs, self.n_copies = rows.inputs, rows.seen.n_copies
        if self._stopping.keep_trees:
            self.forest = state.freeze(kept)
            self.model = ready.assemble(self.forest)
        self.close()

    def gains(self) -> FloatArray:
        """Return the sum of the gains of the splits of each input, shape (n_inputs,)."""
        if not self.trees:
            return np.zeros(self.n_inputs)
        pieces = joined(self.trees)  # one by one, the arrays took a fifth of a fit of few rows
        feature = np.concatenate([piece.feature for piece in pieces])
        gain = np.concatenate([piece.gain for piece in pieces])
        total = np.bincount(feature + 1, weights=gain, minlength=self.n_inputs + 1)
        return total[1:].astype(np.float64)  # the first entry: leaves

    def _scores_after(self, state: BoostState, n_rounds: int) -> FloatArray:
        """Return raw scores of the test rows from the first ``n_rounds`` rounds alone."""
        place = n_rounds - 1 - (state.n_rounds - len(self._recent))
        if 0 <= place < len(self._recent):
            return self._recent[place]
        unseen = state.held_out[0]
        if n_rounds == state.n_rounds and state.adds_up:
            return unseen.raw
        scores = unseen.restarted(state.base)
        for number, tree in enumerate(state.mode.trees(n_rounds)):
            scores.add(tree, number % len(state.base))
        scores.update()
        return scores.raw

    def close(self) -> None:
        """End the threads of the grower, and release the rows."""
        if self._states is not None:
            self._states.close()
        self._states = self._ready = None
        self._recent.clear()


def _mass(test: Sample) -> float:
    if test.query is not None:
        queries = query_rows(test.query, test.n_rows)
        weights = query_weights(queries, test.weight)
        return float(len(queries.starts) - 1) if weights is None else math.fsum(weights)
    return float(test.n_rows) if test.weight is None else math.fsum(test.weight)
