"""The number of rounds and the kind of trees of a fit, by cross-validation.

``early_stopping="cv"`` divides the rows into five folds, whose models grow side by side
until the loss of all test rows together stops falling.  Then the model is trained on all
rows, with the best number of rounds, or with fewer rounds of a larger learning rate.  No row
is lost to validation, and every row contributes to the decision.

Glossary
--------
candidate   tree parameters to compare with the first ones; rows are divided into folds once,
            and read again only if the tree parameters need another form of the rows
stride      learning rate of the folds over the learning rate of the model: one round of the
            folds equals ``stride`` rounds of the model

::

    parameters       folds                             score of all tested rows
    first            1 2 3 4 5   grown side by side    0.412 after 80 rounds
    candidate 1      1 2 3 4 5                         0.405 after 130 rounds   <- the best
    candidate 2      1 2 3 4 5                         0.431 after 60 rounds

The same rows judge all candidates, so chance affects all scores alike.  A large learning rate
shows which trees suit the data, and how many rounds they need, nearly as well as a small one:
`docs/defaults-experiments.md` has the measurements.

An interrupt (Ctrl-C) ends the folds once each has completed a round: the model of all rows
then has the best number of rounds so far.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.boosting.automatic.blending import Member, weights_of
from hedgerow.boosting.automatic.candidates import strongest_crosses
from hedgerow.boosting.automatic.cost import FastRate, seconds_of_round
from hedgerow.boosting.automatic.evidence import BEYOND_CHANCE, TestedRows, warn_of_doubts
from hedgerow.boosting.automatic.recipe import HIGHEST_RATE, SHORT_PATH, BudgetSchedule
from hedgerow.boosting.loop.driver import TWICE, FitPlan, is_second
from hedgerow.boosting.loop.setup.resolved import resolved
from hedgerow.boosting.loop.watch import StoppedBy
from hedgerow.boosting.validation.budget import Budget
from hedgerow.boosting.validation.cross import (
    FoldPlan,
    FoldStopping,
    GrownFolds,
    grow_folds,
)
from hedgerow.boosting.validation.fold_rows import FoldRows
from hedgerow.boosting.validation.folds import Fold, can_judge, folds_to_test, forward_folds
from hedgerow.boosting.validation.stopping import BestRound, StoppingParams
from hedgerow.data.schema import Schema
from hedgerow.errors import DataError, InterruptedFitWarning
from hedgerow.metrics import task_of
from hedgerow.objectives import Objective
from hedgerow.once import once
from hedgerow.params import BoostParams

_WITHOUT_EFFECT = frozenset({"bundle_features"})
"""Parameters that the kind of trees determines, and that do not change the model."""

_PATIENCE_SHARE = 0.2
_ROUNDS_TO_JUDGE = 40
_ROUNDS_TO_SIEVE = 24
_ROUNDS_OF_EQUALS = 16
"""First round at which trees that learn as fast as those of the rival may not be behind them.

Crosses of columns took 9% of the time of all fits of the suite, and most of them lost.  No winner
on folds 0 and 1 was behind at 16 rounds or later, except on small folds.
"""
_ENOUGH_TESTED = 200
"""Smallest number of test rows for this comparison on one fold.  Crosses that won later were behind
on folds of 33 and 67 rows."""
_ROUNDS_AT_EQUAL_LEARNING = 100
"""Curves of many rows have early plateaus, where a slow learner seems to stop improving."""
_FAR = 1.3
"""Largest distance of a curve to the best one, as a multiple of its gain in the later half."""
_CLEARLY = 1.0
"""Standard errors by which plain and rare settings must lead.  The recipe is better on most tables,
so a small lead of these settings is mostly chance."""

_BEYOND_DOUBT = 2.0
"""Standard errors by which crosses of columns must lead: most tables have no use for them."""

_SOLVED = 1e-3
"""Nothing else is tried if classes keep no more than this share of the loss of a constant."""

_MANY_FOLDS = 2
"""From this number of folds on, the first fold decides whether the others are worth the time."""


_STILL_FALLING = 0.8
_FURTHER = 2.0
"""Factor on the rounds of the model if time ran out while the validation curve still fell, which
means that the best round was in the last fifth."""

_UNTESTED_ROUNDS = 100
"""Number of rounds if folds cannot be drawn, for example with one row of each class."""

_UNJUDGED_ROUNDS = 20
"""Number of rounds if all tested targets are the same: each round then lowers their loss.

With one row of class 1 among 600, 5,000 or 15,000, the loss of new rows is 0.2% below that of a
constant after 10 or 20 rounds, and 2% above it after 100 (means of six generated tables).
"""

_FORWARD = 3
"""Folds that test later rows, and random folds beside them, if rows have times.

`docs/defaults-experiments.md` has the comparison: later rows alone are few to learn from.
"""


@dataclass(slots=True)
class CandidateBest(BestRound):
    r"""The best round of a candidate, which stops early if the candidate is unlikely to win.

    Patience grows with the number of rounds, because later rounds improve the score in longer
    intervals.  A curve also stops if its distance to the best curve so far (the rival) is large
    compared with its own recent gain.  If all scores of the rival are known, both curves are
    compared at equal learning, that is, at equal rounds times rate, because settings that learn
    slowly may reach a better score::

        score
          |  \.
          |   \.`-.___
          |     `-.   `------  candidate; its recent gain is that of the later half of the rounds
          |        `-.     ^
          |           `-.  |   distance, far more than the recent gain
          |..............`-v.  rival

    least        patience at the first round; at most ``patience``
    rival        best score of the rival up to each round; the last score also holds for later
                 rounds
    rate_ratio   learning rate of this candidate over the learning rate of the rival
    judged_from  first round at which the distance to the rival may stop the candidate
    farthest     largest distance to the rival, as a multiple of the recent gain
    to_beat      the candidate stops once its score is better than this one
    bests        best score up to each round
    """

    least: int = 1
    rival: Sequence[float] = ()
    rate_ratio: float = 1.0
    judged_from: int = _ROUNDS_TO_JUDGE
    farthest: float = _FAR
    to_beat: float | None = None
    bests: list[float] = field(default_factory=list, repr=False)

    def again(self) -> CandidateBest:
        """Return a copy in the state before the first round."""
        return replace(BestRound.again(self), bests=[])

    def observe(self, n_rounds: int, score: float) -> bool:
        """Record the score after ``n_rounds`` rounds; return whether the fit should end."""
        out_of_patience = BestRound.observe(self, n_rounds, score)
        self.bests.append(self.score)
        waited = n_rounds - self._reference_round
        out_of_patience = out_of_patience or waited >= self._grown_patience()
        is_ahead = self.to_beat is not None and self.metric.improves(self.score, self.to_beat)
        return out_of_patience or self._is_hopeless() or is_ahead

    def next_end(self, n_rounds: int) -> int:
        """Return the round in which patience may end, or the first comparison with the rival.

        Later comparisons may end the fit before.
        """
        end = self._reference_round + math.ceil(self._grown_patience())
        if self.rival and n_rounds < self.judged_from:
            end = min(end, self.judged_from)
        return max(n_rounds + 1, min(end, BestRound.next_end(self, n_rounds)))

    def _grown_patience(self) -> float:
        return self.least + _PATIENCE_SHARE * self._reference_round

    def _is_hopeless(self) -> bool:
        n = len(self.bests)
        if n < self.judged_from or not self.rival:
            return False
        other = self.rival[min(math.ceil(n * self.rate_ratio), len(self.rival)) - 1]
        if not self.metric.improves(other, self.score):
            return False
        lately = abs(self.score - self.bests[n // 2])
        return abs(other - self.score) > self.farthest * lately


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A candidate and the result of its folds.

    params   parameters of the model
    rows     rows in the form that the trees of ``params`` need
    seconds  duration of the folds
    """

    params: BoostParams
    rows: FoldRows
    grown: GrownFolds
    seconds: float

    @property
    def score(self) -> float:
        """Best score of all tested rows; NaN without a best round."""
        return math.nan if self.grown.best is None else self.grown.best.score

    @property
    def n_rounds(self) -> int:
        """Number of rounds that all folds completed."""
        return len(next(iter(self.grown.curves.values())))


@dataclass(frozen=True, slots=True, eq=False)
class ChosenRounds:
    """Result of early stopping by cross-validation.

    params       the best parameters; with a time budget the learning rate may follow the clock
    curves       score of all test rows after each round of the folds, by metric
    rows         the rows of all folds
    record       settings of the folds, for the training record
    interrupted  whether an interrupt ended the folds
    fold_rate    learning rate of the folds, if the model's rates follow the clock; else NaN
    members      kinds of trees of a blend, the first with ``params``; none: there is one kind
    """

    params: BoostParams
    n_rounds: int
    curves: dict[str, list[float]]
    rows: FoldRows
    record: dict[str, Any]
    interrupted: bool = False
    fold_rate: float = math.nan
    members: tuple[Member, ...] = ()

    def record_with(self, rates: Sequence[float] | float) -> dict[str, Any]:
        """Return the record; its stride compares the folds with the model's ``rates``."""
        if math.isnan(self.fold_rate):
            return self.record
        return {**self.record, "stride": round(self.fold_rate / float(np.mean(rates)), 3)}

    def complete(self, record: dict[str, Any], n_kept: int) -> None:
        """Add the result of the folds to the record of a model of ``n_kept`` rounds."""
        record["best_round"] = min(self.n_rounds, n_kept)
        record["folds"] = self.record_with(record["parameters"]["learning_rate"])

    @property
    def stopped_by(self) -> StoppedBy:
        """Why a fit with this number of rounds ends."""
        if self.interrupted:
            return "interrupt"
        return "early_stopping" if self.n_rounds < self.params.n_estimators else "rounds"


class ModelSelection:
    """Comparison of candidates on the same folds, one candidate after the other.

    plan         of the fit; the first metric decides
    rows         rows in the form that the first settings need
    budget       candidates are tried while there is time
    folds        all of them that are tested
    best         the entry with the best score; the first one if scores are equal
    tried        for each entry the best score, its round, and the parameters that differ from the
                 first; ``chosen`` marks the best of several
    entries      all of them if the model may be a blend, otherwise none
    interrupted  whether the user has interrupted the comparison
    """

    best: Entry

    def __init__(self, plan: FitPlan, rows: FoldRows, budget: Budget | None = None) -> None:
        self.plan, self.rows, self.request = plan, rows, plan.stopping
        self._budget, self._metric = budget, plan.metrics[0]
        self.folds: list[Fold] = []
        self._alike: IntArray | None = None  # rows with the same number are one observation
        self._limits = FoldStopping(pooled=True, may_end=lambda: not is_second())
        self._is_solved, self._spent = False, 0.0
        self.tried: list[dict[str, Any]] = []
        self._place = 0  # of the best one
        self.entries: list[Entry] = []
        self.interrupted = False

    def choose(self) -> ChosenRounds:
        """Choose the number of rounds of a fit; its parameters too, if others are to be tried.

        Candidates are tried until an interrupt or the end of the budget.
        """
        params, request, rows, metric = self.plan.params, self.request, self.rows, self._metric
        sample, target = rows.sample, rows.sample.target
        record: dict[str, Any] = {
            "early_stopping": "cv",
            "patience": request.patience,
            "rounds_factor": request.rounds_factor,
            "stride": request.stride,
        }

        def untested(n_rounds: int, n_drawn: int) -> ChosenRounds:
            few = min(n_rounds, params.n_estimators)
            return ChosenRounds(params, few, {}, rows, {**record, "folds": [n_drawn, 0]})

        n_folds, n_tested = request.folds if sample.time is None else (_FORWARD, _FORWARD)
        stratify = task_of(self.plan.objective) in ("two classes", "classes")
        try:
            folds, self._alike = rows.divided(n_folds, stratify, params.seed, self.plan.folds)
        except DataError:
            if not request.is_cautious:
                raise
            return untested(_UNTESTED_ROUNDS, 0)
        folds, n_drawn = folds_to_test(folds, target, n_tested), len(folds)
        if sample.time is not None:
            later = forward_folds(sample.time, _FORWARD, 0.5)
            folds, n_drawn = folds + later, n_drawn + len(later)
        if request.is_cautious and not can_judge(folds, target):
            return untested(_UNJUDGED_ROUNDS, n_drawn)
        self.folds, record["folds"] = folds, [n_drawn, len(folds)]
        if self._budget is not None:
            late = self._budget.deadline(share_of_folds(request))
            self._limits = replace(self._limits, is_late=late)
        first = self._try(params)
        assert first is not None
        self._note(first)
        self._prefer(first)
        for other, by, may_lose_early in self._others():
            if self._is_excluded(other):
                continue
            at_equal_rounds = self._scores_of_best() if may_lose_early else ()
            if may_lose_early and len(folds) >= _MANY_FOLDS:
                grown, few = self.best.grown.folds[0], len(folds[0].test) < _ENOUGH_TESTED
                best = grown.scores[metric.name]
                curve = () if few else grown.watch.history[grown.watch.rows][metric.name]
                so_far = list(accumulate(curve, lambda a, b: b if metric.improves(b, a) else a))
                entry = self._try(other, folds[:1], to_beat=best, at_equal_rounds=so_far)
                leads = entry is not None and metric.improves(
                    entry.grown.folds[0].scores[metric.name], best
                )
                if not leads or self._is_excluded(other):
                    continue
            entry = self._try(other, folds, at_equal_rounds=at_equal_rounds)
            if entry is None:
                continue
            self._note(entry)
            if metric.improves(entry.score, self.best.score) and (
                by is None
                or self.tested.difference(
                    *(self.tested.losses(each.grown.folds) for each in (self.best, entry))
                ).exceeds(by)
            ):
                self._prefer(entry)
        if len(self.tried) > 1:
            self.tried[self._place]["chosen"] = True
        return self._found({**record, "tried": self.tried})

    @once
    def tested(self) -> TestedRows:
        """The tested rows of all folds."""
        return TestedRows(self.rows.sample, self.folds, self._alike)

    def _others(self) -> Iterator[tuple[BoostParams, float | None, bool]]:
        """Yield the candidates, each when those before it have been tried.

        Each comes with the standard errors by which it must lead, and whether it may lose on the
        first fold, or at equal rounds.
        """
        request = self.request
        for other in request.candidates:
            yield other, request.lead, False
        for other in request.rare:
            yield other, _CLEARLY, False
        if request.plain is not None:
            yield request.plain, _CLEARLY, True
        # Columns are strong only if the best settings gain more than chance explains.
        if request.tries_crosses and not self._is_doubtful():
            grown, schema = self.best.grown.folds, self.rows.sample.table.schema
            gains = np.sum([fold.gains() for fold in grown], axis=0)
            if crosses := strongest_crosses(gains, schema, grown[0].inputs):
                yield replace(self.best.params, feature_crosses=crosses), _BEYOND_DOUBT, True
        # The best sum of rates is larger at a low rate, so folds at that rate must find the number
        # of rounds, if there is time for them.
        best, finest, budget = self.best, request.finest_rate, self._budget
        if finest is None or budget is None or best.grown.late:
            return
        times_finer = best.params.learning_rate / finest
        seconds = best.seconds * times_finer / share_of_folds(request)
        if times_finer > 1.0 and not budget.late_but_for(seconds)():
            most = math.ceil(best.params.n_estimators * times_finer)
            yield replace(best.params, learning_rate=finest, n_estimators=most), None, False

    def _prefer(self, entry: Entry) -> None:
        """Make ``entry``, the latest one, the best one so far."""
        self.best, self._place = entry, len(self.tried) - 1
        if self._budget is not None:  # leave enough time for the model with these settings
            share = share_of_folds(self.request)
            late = self._budget.late_but_for(entry.seconds * (1.0 - share) / share)
            self._limits = replace(self._limits, is_late=late)
        tries_others = not self.request.only_counts_rounds
        if tries_others and task_of(self.plan.objective) in ("two classes", "classes"):
            start, left = (
                self.tested.mean(losses(entry.grown.folds))
                for losses in (self.tested.start_losses, self.tested.losses)
            )
            self._is_solved = left <= _SOLVED * start

    def _is_excluded(self, other: BoostParams) -> bool:
        """Return whether all has been tried, or ``other`` would cost too much at equal rounds."""
        if self.interrupted or self._is_solved or self._limits.is_late():
            return True
        allowance = self.request.allowance
        expected = self._cost(other, len(self.folds), self.best.n_rounds)
        return allowance is not None and self._spent + expected > allowance.candidates

    def _cost(self, params: BoostParams, n_folds: int, n_rounds: int) -> float:
        """Return the estimated seconds of the rounds of folds; 0 if nothing bounds them."""
        allowance = self.request.allowance
        if allowance is None:
            return 0.0
        return n_folds * n_rounds * seconds_of_round(allowance.size, params)

    def _scores_of_best(self) -> Sequence[float]:
        """Return the best score of the best settings up to each round."""
        best = self.best.grown.best
        return best.bests if isinstance(best, CandidateBest) else ()

    def _is_doubtful(self) -> bool:
        """Return whether the best settings so far gain no more than chance explains."""
        grown = self.best.grown.folds
        losses = self.tested.start_losses(grown), self.tested.losses(grown)
        return not self.tested.difference(*losses).exceeds(BEYOND_CHANCE)

    def _try(
        self,
        params: BoostParams,
        folds: Sequence[Fold] | None = None,
        to_beat: float | None = None,
        at_equal_rounds: Sequence[float] = (),
    ) -> Entry | None:
        """Grow all folds, or some folds until they beat a score.

        They also end when their best score is behind that of ``at_equal_rounds``.  A first
        interrupt ends the comparison: None unless the folds have complete rounds.
        """
        began, request, plan, metric = time.monotonic(), self.request, self.plan, self._metric
        folds = folds or self.folds
        requested = params_of_folds(params, request)
        # The report must not hold this object, which holds the folds: they hold the report.
        best_before = self.best.score if self.tried else None
        n_folds, bar, most = len(folds), plan.bar, requested.n_estimators
        more = (request.plain, request.tries_crosses or None, request.finest_rate)
        n_all = 1 + len(request.candidates) + len(request.rare) + len(more) - more.count(None)
        trial_name = "1 fold" if n_folds == 1 else f"{n_folds} folds"
        trial_name += f": candidate {len(self.tried) + 1} of at most {n_all}"

        def report(n_rounds: int, score: float) -> None:
            if bar is None:
                return
            best = trial.score
            if best_before is not None and metric.improves(best_before, best):
                best = best_before
            elapsed = time.monotonic() - request.began
            bar.show_folds(trial_name, (n_rounds, most), metric.name, score, best, elapsed)

        try:
            rows = self.rows.for_trees(requested)
            trial = self._judge(params, to_beat, at_equal_rounds)
            limits = replace(self._limits, best=trial, after_rounds=report)
            grown = grow_folds(
                FoldPlan(
                    rows, plan.objective, requested, limits, plan.metrics, plan.n_threads,
                    keep_trees=False,
                ),
                folds,
            )  # fmt: skip
        except KeyboardInterrupt as error:
            twice = isinstance(error.__context__, KeyboardInterrupt)
            if not self.tried or twice or is_second():
                raise
            self.interrupted = True
            return None
        entry = Entry(params, rows, grown, time.monotonic() - began)
        self._spent += self._cost(params, n_folds, entry.n_rounds)
        self.interrupted = grown.interrupted
        return entry

    def _judge(
        self, params: BoostParams, to_beat: float | None, at_equal_rounds: Sequence[float]
    ) -> BestRound:
        requested, metric = self.request, self._metric
        stride, rate_ratio = requested.stride, 1.0
        if self.tried and params.learning_rate < self.best.params.learning_rate:
            rate_ratio = params.learning_rate / self.best.params.learning_rate
        stride *= rate_ratio
        patience = math.ceil(requested.patience / stride)
        if not requested.is_cautious:
            return BestRound(metric, patience, requested.min_delta)
        least = patience
        if requested.least_patience is not None:
            least = math.ceil(requested.least_patience / stride)
        if params is requested.plain and self._is_doubtful():
            # The loss of large trees on columns of names may rise at first; 24 rounds show this.
            least, at_equal_rounds = _ROUNDS_TO_SIEVE, ()
        judge = CandidateBest(metric, patience, requested.min_delta, least=least)
        judge.rate_ratio, judge.to_beat = rate_ratio, to_beat
        if at_equal_rounds:
            judge.rival, judge.judged_from = at_equal_rounds, _ROUNDS_OF_EQUALS
            judge.farthest = 0.0
        elif to_beat is not None:
            judge.rival, judge.judged_from = (to_beat,), _ROUNDS_TO_SIEVE
        elif self.tried and requested.at_equal_learning:
            judge.rival, judge.judged_from = self._scores_of_best(), _ROUNDS_AT_EQUAL_LEARNING
        elif self.tried:
            judge.rival = self._scores_of_best()[-1:]
        return judge

    def _note(self, entry: Entry) -> None:
        first = self.plan.params
        others = {
            name: getattr(entry.params, name)
            for name in BoostParams.__dataclass_fields__
            if name not in _WITHOUT_EFFECT and getattr(entry.params, name) != getattr(first, name)
        }
        if crosses := others.get("feature_crosses"):
            others["feature_crosses"] = [list(cross) for cross in crosses]  # as in files
        best = entry.grown.best
        rounds = 0 if best is None else best.round
        score = entry.score if math.isfinite(entry.score) else None
        self.tried.append({"score": score, "rounds": rounds, **others})
        if self.request.most_members > 1:
            self.entries.append(entry)

    # -- what the folds tell about the model ------------------------------------------------

    def _found(self, record: dict[str, Any]) -> ChosenRounds:
        """Derive rounds and rates from the selected parameters."""
        best, grown, request = self.best, self.best.grown, self.request
        params, n_rounds = best.params, best.params.n_estimators
        # Folds too small for a split show nothing about the rounds for all rows.
        fewest = min(len(fold.train) for fold in self.folds) // 2
        if grown.best is None or not (self.interrupted or params.min_samples_leaf <= fewest):
            return ChosenRounds(params, n_rounds, grown.curves, best.rows, record)
        n_seen, trust = best.n_rounds, 1.0
        if request.is_cautious:
            losses = self.tested.start_losses(grown.folds), self.tested.losses(grown.folds)
            gain = self.tested.difference(*losses)
            warn_of_doubts(gain, self.tested.by_fold(*losses))
            trust = gain.trust(BEYOND_CHANCE)
        params, n_rounds, times = _of_all_rows(best, request, trust)
        record = {**record, "stride": round(request.stride / times, 3)}
        members: tuple[Member, ...] = ()
        if self.interrupted:
            warnings.warn(
                "the fit was interrupted while folds chose the number of rounds: the model now "
                f"trains on all rows for {n_rounds} rounds, according to the first {n_seen} rounds "
                f"of the folds. Another interrupt within {TWICE:g} seconds stops the program as "
                "usual.",
                InterruptedFitWarning,
                stacklevel=2,
            )
        elif request.most_members > 1:
            members = self._blended(fewest)
        fold_rate = math.nan
        if request.finest_rate is not None:
            # The total step length stays, in rounds as small as the remaining time allows.
            assert request.time_budget is not None
            rate, end = params.learning_rate, request.began + request.time_budget
            finest = min(request.finest_rate, rate)
            seconds = best.seconds / (len(self.folds) * n_seen)
            schedule = BudgetSchedule(n_rounds * rate, end, seconds, finest, HIGHEST_RATE)
            most = math.ceil(params.n_estimators * rate / finest)
            params = replace(params, learning_rate=schedule, n_estimators=most)
            n_rounds, fold_rate = schedule.n_rounds, rate * request.stride
        return ChosenRounds(
            params, n_rounds, grown.curves, best.rows, record, self.interrupted, fold_rate, members
        )

    def _blended(self, fewest: int) -> tuple[Member, ...]:
        """Return the members of a blend; none if the best candidate is better alone.

        ``fewest`` is the largest number of rows in all leaves of a tree on any fold.
        """
        schema, tested = self.best.rows.sample.table.schema, self.tested
        levels = max(schema.n_levels(j) for j in range(schema.n_features))

        def fits(entry: Entry) -> bool:
            bins = {entry.params.max_bins, self.best.params.max_bins}
            same_bins = len(bins) == 1 or levels <= min(bins)  # of categories
            is_judged = math.isfinite(entry.score) and entry.params.min_samples_leaf <= fewest
            return is_judged and same_bins

        places = [k for k, entry in enumerate(self.entries) if fits(entry)]
        entries = [self.entries[k] for k in places]
        kinds, best = [entry.grown.folds for entry in entries], entries.index(self.best)
        weights = weights_of(tested, kinds, best, self.request.most_members)
        if weights[best] == 1.0:
            return ()
        members = []
        for k in sorted(range(len(entries)), key=lambda k: (k != best, -weights[k])):
            if weights[k] > 0.0:
                start, end = tested.start_losses(kinds[k]), tested.losses(kinds[k])
                trust = tested.difference(start, end).trust(BEYOND_CHANCE)
                params, n_rounds, _ = _of_all_rows(entries[k], self.request, trust)
                members.append(Member(params.with_rounds(n_rounds), weights[k]))
                self.tried[places[k]]["weight"] = weights[k]
        return tuple(members)


def _of_all_rows(
    entry: Entry, stopping: StoppingParams, trust: float
) -> tuple[BoostParams, int, float]:
    """Return parameters and rounds of a model with a candidate, and the factor on its rate."""
    grown, params, n_seen = entry.grown, entry.params, entry.n_rounds
    assert grown.best is not None
    best, requested = grown.best.round, params_of_folds(params, stopping)
    rate, n_rounds = requested.learning_rate, best * stopping.stride
    still_falls = best / n_seen >= _STILL_FALLING
    if isinstance(rate, FastRate):
        further = n_seen == requested.n_estimators and best > _STILL_FALLING * n_seen
        n_rounds = (_FURTHER if further else 1.0) * rate.path(best) / params.learning_rate
    if grown.late and stopping.finest_rate is not None and still_falls:
        n_rounds = max(_FURTHER * n_rounds, SHORT_PATH / params.learning_rate)
    if stopping.is_cautious:
        n_rounds = max(1, round(n_rounds * trust))
    n_rounds = min(round(n_rounds * stopping.rounds_factor), params.n_estimators)
    # Small learning rates are worth their time if few rounds suffice.  If many are needed, larger
    # rates learn as well: `docs/defaults-experiments.md` has the figures.
    easy, times = stopping.easy_rounds, 1.0
    if easy is not None and n_rounds > easy:
        times = round(min(math.sqrt(n_rounds / easy), stopping.stride), 2)
    if stopping.allowance is not None:
        most = stopping.allowance.most_rounds(params)
        highest = max(times, HIGHEST_RATE / params.learning_rate)
        times = min(max(times, math.ceil(100 * n_rounds / most) / 100), highest)
        n_rounds = min(n_rounds, round(most * times))
    if times > 1.0:
        params, n_rounds = of_folds(params, times), round(n_rounds / times)
        params = replace(params, learning_rate=round(params.learning_rate, 6))
    return params, n_rounds, times


def share_of_folds(stopping: StoppingParams) -> float:
    """Return the share of the folds in the time of the folds and the model together."""
    n_folds, n_tested = stopping.folds
    folds = n_tested * (n_folds - 1) / n_folds / stopping.stride
    return folds / (folds + stopping.rounds_factor)


def of_folds(params: BoostParams, stride: float) -> BoostParams:
    """Return the parameters of folds whose learning rate is ``stride`` times that of the model."""
    if stride == 1.0:
        return params
    n_rounds = math.ceil(params.n_estimators / stride)
    return replace(params, learning_rate=params.learning_rate * stride, n_estimators=n_rounds)


def params_of_folds(params: BoostParams, stopping: StoppingParams) -> BoostParams:
    """Return the parameters of folds for a model with ``params``, within the allowed cost."""
    requested = of_folds(params, stopping.stride)
    return requested if stopping.allowance is None else stopping.allowance.within(requested)


def with_resolved(stopping: StoppingParams, schema: Schema, objective: Objective) -> StoppingParams:
    """Return the request, with the parameters of candidates resolved like those of the model."""

    def complete(params: BoostParams) -> BoostParams:
        return resolved(params, objective, schema)

    candidates, rare = (tuple(map(complete, each)) for each in (stopping.candidates, stopping.rare))
    plain = None if stopping.plain is None else complete(stopping.plain)
    members = tuple(replace(member, params=complete(member.params)) for member in stopping.members)
    return replace(stopping, candidates=candidates, rare=rare, plain=plain, members=members)
