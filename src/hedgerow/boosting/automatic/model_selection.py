"""The number of rounds and the kind of trees of a fit, by cross-validation.

``early_stopping="cv"`` divides the rows into five folds, whose models grow side by side
until the loss of all test rows together stops falling.  Then the model is trained on all
rows, with the best number of rounds, or with fewer rounds of a larger learning rate.  No row
is lost to validation, and every row contributes to the decision.

The folds may also compare candidates, other tree parameters, with the first ones::

    parameters       folds                             score of all tested rows
    first            1 2 3 4 5   grown side by side    0.412 after 80 rounds
    candidate 1      1 2 3 4 5                         0.405 after 130 rounds   <- the best
    candidate 2      1 2 3 4 5                         0.431 after 60 rounds

The same rows judge all candidates, so chance affects all scores alike.  The folds learn in larger
steps than the model, which show the best trees and rounds nearly as well.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.boosting.automatic.blending import Member, weights_of
from hedgerow.boosting.automatic.cost import FastRate, seconds_of_round
from hedgerow.boosting.automatic.evidence import (
    BEYOND_CHANCE,
    Difference,
    TestedRows,
    warn_of_doubts,
)
from hedgerow.boosting.automatic.recipe import HIGHEST_RATE, strongest_crosses
from hedgerow.boosting.loop.driver import FitPlan
from hedgerow.boosting.loop.setup.resolved import resolved
from hedgerow.boosting.validation.cross import FoldRows, FoldStopping, GrownFolds, grow_folds
from hedgerow.boosting.validation.folds import (
    Fold,
    can_judge,
    divided,
    folds_to_test,
    forward_folds,
)
from hedgerow.boosting.validation.stopping import (
    BestRound,
    Budget,
    Candidate,
    Search,
    StoppingParams,
)
from hedgerow.data.schema import Schema
from hedgerow.errors import DataError
from hedgerow.objectives import Objective
from hedgerow.objectives.catalogue import task_of
from hedgerow.once import once
from hedgerow.params import BoostParams

_WITHOUT_EFFECT = frozenset({"bundle_features"})
"""Parameters that do not change the model."""

_ROUNDS_TO_SIEVE = 24
_ROUNDS_OF_EQUALS, _ENOUGH_TESTED = 16, 200
"""First round at which sieved candidates, which learn as fast as the best one, may not be behind
it, and fewest test rows of one fold for this comparison: no winner was behind on larger folds."""
_ROUNDS_OF_PLATEAUS = 100
"""Curves of many rows have early plateaus, where a slow learner seems to stop improving."""

_BEYOND_DOUBT = 2.0
"""Standard errors by which crosses of columns must lead: most tables have no use for them."""

_SOLVED = 1e-3
"""Nothing else is tried if classes keep no more than this share of the loss of a constant."""

_STILL_FALLING, _FURTHER = 0.8, 2.0
"""Factor on the rounds of the model if the folds reached the bound on their rounds, or their time
was over, while their loss still fell: the best round was in the last fifth."""

_UNTESTED_ROUNDS = 100
"""Number of rounds if folds cannot be drawn, for example with one row of each class."""

_UNJUDGED_ROUNDS = 20
"""Number of rounds if all tested targets are the same: each round then lowers their loss, but after
100 rounds the loss of new rows was 2% above that of a constant."""

_FORWARD = 3
"""Folds that test later rows, and random folds beside them, if rows have times: later rows alone
are few to learn from (`docs/defaults-experiments.md`)."""


class Entry:
    """A candidate and the result of its folds.

    params   parameters of the model
    rows     rows in the form that the trees of ``params`` need
    tracker  of the best round of the folds
    told     the best score, its round, and the parameters that differ from the first ones;
             ``chosen`` marks the best of several
    """

    def __init__(
        self, params: BoostParams, rows: FoldRows, grown: GrownFolds, tracker: BestRound,
        tested: TestedRows,
    ) -> None:  # fmt: skip
        self.params, self.rows, self.grown, self.tracker = params, rows, grown, tracker
        self._tested, self.told = tested, dict[str, Any]()

    @once
    def losses(self) -> FloatArray:
        """Loss of each tested row."""
        return self._tested.losses(self.grown.folds)

    @once
    def gain(self) -> FloatArray:
        """Loss of each tested row before the first tree, minus that by the trees."""
        folds = self.grown.folds
        return self._tested.losses(folds, [fold.start for fold in folds]) - self.losses

    @once
    def mean_gain(self) -> Difference:
        """Mean of these gains."""
        return self._tested.difference(self.gain)


@dataclass(frozen=True, slots=True, eq=False)
class ChosenRounds:
    """Result of early stopping by cross-validation.

    params   the best parameters
    curves   score of all test rows after each round of the folds, by metric
    rows     the rows of all folds
    record   settings of the folds, for the training record
    members  kinds of trees of a blend, the first with ``params``; none: there is one kind
    """

    params: BoostParams
    n_rounds: int
    curves: dict[str, list[float]]
    rows: FoldRows
    record: dict[str, Any]
    members: tuple[Member, ...] = ()


class ModelSelection:
    """Comparison of candidates on the same folds, one candidate after the other.

    plan     of the fit; the first metric decides
    rows     rows in the form that the first settings need
    folds    all of them that are tested
    entries  of all candidates that were grown on all folds
    best     the entry with the best score; the first one if scores are equal
    """

    def __init__(self, plan: FitPlan, rows: FoldRows, budget: Budget | None = None) -> None:
        self.plan, self.rows, self.search = plan, rows, plan.stopping.search
        self._metric = plan.metrics[0]
        self._is_late: Callable[[], bool] = lambda: False
        if budget is not None:
            # The share of the folds in the time of the folds and the model together.
            (n_folds, n_tested), search = self.search.folds, self.search
            of_folds = n_tested * (n_folds - 1) / n_folds / search.stride
            self._is_late = budget.deadline(of_folds / (of_folds + search.rounds_factor))
        self._has_classes = task_of(plan.objective) in ("two classes", "classes")
        self._spent = 0.0
        self.entries: list[Entry] = []

    def choose(self) -> ChosenRounds:
        """Choose the number of rounds of a fit; its parameters too, if others are to be tried."""
        params, search, rows, metric = self.plan.params, self.search, self.rows, self._metric
        record: dict[str, Any] = {
            "early_stopping": "cv",
            "patience": self.plan.stopping.patience,
            "rounds_factor": search.rounds_factor,
            "stride": search.stride,
        }

        def untested(n_rounds: int, n_drawn: int) -> ChosenRounds:
            few = min(n_rounds, params.n_estimators)
            return ChosenRounds(params, few, {}, rows, {**record, "folds": [n_drawn, 0]})

        try:
            n_drawn = self._draw_folds()
        except DataError:
            if not search.is_cautious:
                raise
            return untested(_UNTESTED_ROUNDS, 0)
        if search.is_cautious and not can_judge(self.folds, rows.sample.target):
            return untested(_UNJUDGED_ROUNDS, n_drawn)
        record["folds"] = [n_drawn, len(self.folds)]
        self.best = self._note(self._try(Candidate(params), self.folds))
        for other in self._others():
            if self._is_excluded(other.params):
                continue
            if other.is_sieved and len(self.folds) > 1:
                to_beat = self.best.grown.folds[0].scores[metric.name]
                first = self._try(other, self.folds[:1], to_beat).grown.folds[0]
                leads = metric.improves(first.scores[metric.name], to_beat)
                if not leads or self._is_excluded(other.params):
                    continue
            entry = self._note(self._try(other, self.folds))
            if metric.improves(entry.tracker.score, self.best.tracker.score) and (
                other.lead is None
                or self.tested.difference(self.best.losses - entry.losses).exceeds(other.lead)
            ):
                self.best = entry
        if len(self.entries) > 1:
            self.best.told["chosen"] = True
        return self._found({**record, "tried": [entry.told for entry in self.entries]})

    def _draw_folds(self) -> int:
        """Draw the folds, and return how many there are, of which some are tested."""
        sample, (n_folds, n_tested) = self.rows.sample, self.search.folds
        if sample.time is not None:
            n_folds = n_tested = _FORWARD
        seed, given = self.plan.params.seed, self.plan.folds
        drawn, alike = divided(sample, n_folds, self._has_classes, seed, given)
        later = [] if sample.time is None else forward_folds(sample.time, _FORWARD, 0.5)
        self.folds = folds_to_test(drawn, sample.target, n_tested) + later
        self.tested = TestedRows(sample, self.folds, alike)
        return len(drawn) + len(later)

    def _others(self) -> Iterator[Candidate]:
        yield from self.search.candidates
        # Columns are strong only if the best settings gain more than chance explains.
        if self.search.tries_crosses and self.best.mean_gain.exceeds(BEYOND_CHANCE):
            grown, schema = self.best.grown.folds, self.rows.sample.table.schema
            gains = np.sum([fold.gains() for fold in grown], axis=0)
            if crosses := strongest_crosses(gains, schema, grown[0].inputs):
                params = replace(self.best.params, feature_crosses=crosses)
                yield Candidate(params, _BEYOND_DOUBT, is_sieved=True)

    def _is_excluded(self, other: BoostParams) -> bool:
        """Return whether all has been tried, or ``other`` would cost too much at equal rounds."""
        best, allowance = self.best, self.search.allowance
        if self._is_late():
            return True
        if self._has_classes:
            left, gained = map(self.tested.mean, (best.losses, best.gain))
            if left <= _SOLVED * (left + gained):
                return True
        expected = self._cost(other, len(self.folds), best.grown.n_rounds)
        return allowance is not None and self._spent + expected > allowance.candidates

    def _cost(self, params: BoostParams, n_folds: int, n_rounds: int) -> float:
        """Return the estimated seconds of the rounds of folds; 0 if nothing bounds them."""
        allowance = self.search.allowance
        if allowance is None:
            return 0.0
        return n_folds * n_rounds * seconds_of_round(allowance.size, params)

    def _try(
        self, candidate: Candidate, folds: Sequence[Fold], to_beat: float | None = None
    ) -> Entry:
        """Grow folds until their score stops falling, beats ``to_beat`` or is behind the best."""
        plan, search, metric = self.plan, self.search, self._metric
        params = params_of_folds(candidate.params, search)
        # The report must not hold this object, which holds the folds: they hold the report.
        best_before = self.best.tracker.score if self.entries else None
        n_folds, bar, most = len(folds), plan.bar, params.n_estimators
        n_all = 1 + len(search.candidates) + search.tries_crosses
        trial_name = "1 fold" if n_folds == 1 else f"{n_folds} folds"
        trial_name += f": candidate {len(self.entries) + 1} of at most {n_all}"
        began = plan.stopping.began

        def report(n_rounds: int, score: float) -> None:
            if bar is None:
                return
            shown = best.score
            if best_before is not None and metric.improves(best_before, shown):
                shown = best_before
            elapsed = time.monotonic() - began
            bar.show_folds(trial_name, (n_rounds, most), metric.name, score, shown, elapsed)

        best = self._judge(candidate, to_beat)
        stopping = replace(plan.stopping, train_scores=False)
        rows, own = self.rows.for_trees(params), replace(plan, params=params, stopping=stopping)
        ends = FoldStopping(best, is_late=self._is_late, after_rounds=report, keep_trees=False)
        grown = grow_folds(own, rows, folds, ends)
        self._spent += self._cost(candidate.params, n_folds, grown.n_rounds)
        return Entry(candidate.params, rows, grown, best, self.tested)

    def _judge(self, candidate: Candidate, to_beat: float | None) -> BestRound:
        """Return what ends the folds of a candidate, or the first fold if it is to beat a score."""
        stopping, search, metric = self.plan.stopping, self.search, self._metric
        patience = math.ceil(stopping.patience / search.stride)
        judge = BestRound(metric, patience, stopping.min_delta)
        if not search.is_cautious:
            return judge
        judge.to_beat = to_beat
        if search.least_patience is not None:
            judge.least = math.ceil(search.least_patience / search.stride)
        if not self.entries:
            return judge
        first, bests, rival = self.best.grown.folds[0], self.best.tracker.bests, None
        if candidate.is_sieved and not self.best.mean_gain.exceeds(BEYOND_CHANCE):
            # The loss of large trees on columns of names may rise at first; 24 rounds show this.
            judge.least = _ROUNDS_TO_SIEVE
        elif candidate.is_sieved and to_beat is None:
            rival = bests
        elif candidate.is_sieved and len(self.folds[0].test) >= _ENOUGH_TESTED:
            best_of = np.maximum if metric.higher_is_better else np.minimum
            rival = best_of.accumulate(first.curve).tolist()
        if rival is not None:
            judge.rival, judge.judged_from, judge.farthest = rival, _ROUNDS_OF_EQUALS, 0.0
        elif to_beat is not None:
            judge.rival, judge.judged_from = (to_beat,), _ROUNDS_TO_SIEVE
        elif search.at_equal_rounds:
            judge.rival, judge.judged_from = bests, _ROUNDS_OF_PLATEAUS
        else:
            judge.rival = bests[-1:]
        return judge

    def _note(self, entry: Entry) -> Entry:
        names = [one.name for one in fields(BoostParams) if one.name not in _WITHOUT_EFFECT]
        score = entry.tracker.score if math.isfinite(entry.tracker.score) else None
        entry.told |= {"score": score, "rounds": entry.tracker.round}
        entry.told |= entry.params.unlike(self.plan.params, names)
        self.entries.append(entry)
        return entry

    # -- what the folds tell about the model ------------------------------------------------

    def _found(self, record: dict[str, Any]) -> ChosenRounds:
        """Derive rounds and rates from the selected parameters."""
        best, curves, search = self.best, self.best.grown.curves, self.search
        if not self._splits(best):
            n_rounds = best.params.n_estimators
            return ChosenRounds(best.params, n_rounds, curves, best.rows, record)
        if search.is_cautious:
            warn_of_doubts(best.mean_gain, self.tested.by_fold(best.gain))
        params, n_rounds, times = self._of_all_rows(best)
        record = {**record, "stride": round(search.stride / times, 3)}
        members = self._blended() if search.most_members > 1 else ()
        return ChosenRounds(params, n_rounds, curves, best.rows, record, members)

    def _splits(self, entry: Entry) -> bool:
        """Return whether all folds are large enough for a split: others show no rounds."""
        return entry.params.min_samples_leaf <= min(len(fold.train) for fold in self.folds) // 2

    def _blended(self) -> tuple[Member, ...]:
        """Return the members of a blend; none if the best candidate is better alone."""
        schema, first = self.best.rows.sample.table.schema, self.best.params
        levels = max(schema.n_levels(j) for j in range(schema.n_features))

        def fits(entry: Entry) -> bool:
            bins = {entry.params.max_bins, first.max_bins}
            same_bins = len(bins) == 1 or levels <= min(bins)  # of categories
            return math.isfinite(entry.tracker.score) and self._splits(entry) and same_bins

        entries = [entry for entry in self.entries if fits(entry)]
        kinds, best = [entry.grown.folds for entry in entries], entries.index(self.best)
        weights = weights_of(self.tested, kinds, best, self.search.most_members)
        if weights[best] == 1.0:
            return ()
        members = []
        for k in sorted(range(len(entries)), key=lambda k: (k != best, -weights[k])):
            if weights[k] > 0.0:
                params, n_rounds, _ = self._of_all_rows(entries[k])
                members.append(Member(params.with_rounds(n_rounds), weights[k]))
                entries[k].told["weight"] = weights[k]
        return tuple(members)

    def _of_all_rows(self, entry: Entry) -> tuple[BoostParams, int, float]:
        """Return parameters and rounds of a model with a candidate, and the factor on its rate."""
        grown, params, search, best = entry.grown, entry.params, self.search, entry.tracker.round
        requested = params_of_folds(params, search)
        rate, n_rounds = requested.learning_rate, best * search.stride
        if isinstance(rate, FastRate):
            n_rounds = rate.path(best) / params.learning_rate
        ended = grown.late or grown.n_rounds == requested.n_estimators
        if ended and best > _STILL_FALLING * grown.n_rounds:
            n_rounds *= _FURTHER
        if search.is_cautious:
            n_rounds = max(1, round(n_rounds * entry.mean_gain.trust(BEYOND_CHANCE)))
        n_rounds = round(n_rounds * search.rounds_factor)
        # Small learning rates are worth their time if few rounds suffice.  If many are needed,
        # larger rates learn as well: `docs/defaults-experiments.md` has the figures.
        easy, times = search.easy_rounds, 1.0
        if easy is not None and n_rounds > easy:
            times = round(min(math.sqrt(n_rounds / easy), search.stride), 2)
        if search.allowance is not None:
            most = search.allowance.most_rounds(params)
            highest = max(times, HIGHEST_RATE / params.learning_rate)
            times = min(max(times, math.ceil(100 * n_rounds / most) / 100), highest)
            n_rounds = min(n_rounds, round(most * times))
        if times > 1.0:
            rate = round(params.learning_rate * times, 6)
            params, n_rounds = replace(params, learning_rate=rate), round(n_rounds / times)
        return params, min(n_rounds, params.n_estimators), times


def of_folds(params: BoostParams, stride: float) -> BoostParams:
    """Return the parameters of folds whose learning rate is ``stride`` times that of the model."""
    if stride == 1.0:
        return params
    n_rounds = math.ceil(params.n_estimators / stride)
    return replace(params, learning_rate=params.learning_rate * stride, n_estimators=n_rounds)


def params_of_folds(params: BoostParams, search: Search) -> BoostParams:
    """Return the parameters of folds for a model with ``params``, within the allowed cost."""
    requested = of_folds(params, search.stride)
    return requested if search.allowance is None else search.allowance.within(requested)


def with_resolved(stopping: StoppingParams, schema: Schema, objective: Objective) -> StoppingParams:
    """Return the request, with the parameters of candidates resolved like those of the model."""
    own = partial(resolved, objective=objective, schema=schema)
    candidates = tuple(one._replace(params=own(one.params)) for one in stopping.search.candidates)
    members = tuple(replace(one, params=own(one.params)) for one in stopping.members)
    search = replace(stopping.search, candidates=candidates)
    return replace(stopping, search=search, members=members)
