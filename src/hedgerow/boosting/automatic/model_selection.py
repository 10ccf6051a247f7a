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
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.boosting.automatic.blending import Member, weights_of
from hedgerow.boosting.automatic.cost import FastRate, seconds_of_round
from hedgerow.boosting.automatic.evidence import BEYOND_CHANCE, TestedRows, warn_of_doubts
from hedgerow.boosting.automatic.recipe import HIGHEST_RATE, strongest_crosses
from hedgerow.boosting.loop.driver import FitPlan
from hedgerow.boosting.loop.setup.resolved import resolved
from hedgerow.boosting.validation.cross import FoldStopping, GrownFolds, grow_folds
from hedgerow.boosting.validation.fold_rows import FoldRows
from hedgerow.boosting.validation.folds import Fold, can_judge, folds_to_test, forward_folds
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
"""Parameters that the kind of trees determines, and that do not change the model."""

_PATIENCE_SHARE = 0.2
_ROUNDS_TO_JUDGE, _ROUNDS_TO_SIEVE = 40, 24
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

    def observe(self, n_rounds: int, score: float) -> bool:
        """Record the score after ``n_rounds`` rounds; return whether the fit should end."""
        out_of_patience = BestRound.observe(self, n_rounds, score)
        self.bests.append(self.score)
        waited = n_rounds - self._reference_round
        out_of_patience = out_of_patience or waited >= self._grown_patience()
        is_ahead = self.to_beat is not None and self.metric.improves(self.score, self.to_beat)
        return out_of_patience or self._is_hopeless() or is_ahead

    def next_end(self, n_rounds: int) -> int:
        """Return the round in which patience may end, or the first comparison with the rival."""
        # Later comparisons may end the fit before.
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

    params  parameters of the model
    rows    rows in the form that the trees of ``params`` need
    """

    params: BoostParams
    rows: FoldRows
    grown: GrownFolds

    @property
    def score(self) -> float:
        """Best score of all tested rows; NaN without a best round."""
        return math.nan if self.grown.best is None else self.grown.best.score

    @property
    def bests(self) -> Sequence[float]:
        """Best score up to each round, of cautious folds."""
        best = self.grown.best
        return best.bests if isinstance(best, CandidateBest) else ()


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
    tried    for each entry the best score, its round, and the parameters that differ from the
             first; ``chosen`` marks the best of several
    """

    best: Entry

    def __init__(self, plan: FitPlan, rows: FoldRows, budget: Budget | None = None) -> None:
        self.plan, self.rows, self.search = plan, rows, plan.stopping.search
        self._of_folds = replace(plan, stopping=replace(plan.stopping, train_scores=False))
        self._metric = plan.metrics[0]
        self.folds: list[Fold] = []
        self._alike: IntArray | None = None  # rows with the same number are one observation
        self._limits = FoldStopping(pooled=True, keep_trees=False)
        if budget is not None:
            # The share of the folds in the time of the folds and the model together.
            (n_folds, n_tested), search = self.search.folds, self.search
            of_folds = n_tested * (n_folds - 1) / n_folds / search.stride
            late = budget.deadline(of_folds / (of_folds + search.rounds_factor))
            self._limits = replace(self._limits, is_late=late)
        self._is_solved, self._spent = False, 0.0
        self.entries: list[Entry] = []
        self.tried: list[dict[str, Any]] = []

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
        self._note(self._try(Candidate(params), self.folds))
        self._prefer(self.entries[0])
        for other, is_sieved in self._others():
            if self._is_excluded(other.params):
                continue
            if is_sieved and len(self.folds) > 1:
                to_beat, curve = self._on_first_fold()
                first = self._try(other, self.folds[:1], to_beat, curve).grown.folds[0]
                leads = metric.improves(first.scores[metric.name], to_beat)
                if not leads or self._is_excluded(other.params):
                    continue
            entry = self._try(other, self.folds, rival=self.best.bests if is_sieved else ())
            self._note(entry)
            if metric.improves(entry.score, self.best.score) and (
                other.lead is None
                or self.tested.difference(
                    *(self.tested.losses(each.grown.folds) for each in (self.best, entry))
                ).exceeds(other.lead)
            ):
                self._prefer(entry)
        if len(self.tried) > 1:
            self.tried[self.entries.index(self.best)]["chosen"] = True
        return self._found({**record, "tried": self.tried})

    def _draw_folds(self) -> int:
        """Draw the folds, and return how many there are, of which some are tested."""
        rows, (n_folds, n_tested) = self.rows, self.search.folds
        target, time_of_rows = rows.sample.target, rows.sample.time
        if time_of_rows is not None:
            n_folds = n_tested = _FORWARD
        stratify = task_of(self.plan.objective) in ("two classes", "classes")
        drawn, self._alike = rows.divided(n_folds, stratify, self.plan.params.seed, self.plan.folds)
        self.folds = folds_to_test(drawn, target, n_tested)
        if time_of_rows is None:
            return len(drawn)
        later = forward_folds(time_of_rows, _FORWARD, 0.5)
        self.folds += later
        return len(drawn) + len(later)

    @once
    def tested(self) -> TestedRows:
        """The tested rows of all folds."""
        return TestedRows(self.rows.sample, self.folds, self._alike)

    def _others(self) -> Iterator[tuple[Candidate, bool]]:
        """Yield candidates, each with whether the first fold judges it before the others."""
        for other in self.search.candidates:
            yield other, other.is_plain
        # Columns are strong only if the best settings gain more than chance explains.
        if self.search.tries_crosses and not self._is_doubtful():
            grown, schema = self.best.grown.folds, self.rows.sample.table.schema
            gains = np.sum([fold.gains() for fold in grown], axis=0)
            if crosses := strongest_crosses(gains, schema, grown[0].inputs):
                params = replace(self.best.params, feature_crosses=crosses)
                yield Candidate(params, _BEYOND_DOUBT), True

    def _on_first_fold(self) -> tuple[float, Sequence[float]]:
        """Return the best score on the first fold, and, if it is large, that up to each round."""
        metric, grown = self._metric, self.best.grown.folds[0]
        curve: Sequence[float] = ()
        if len(self.folds[0].test) >= _ENOUGH_TESTED:
            curve = grown.watch.history[grown.watch.rows][metric.name]
        best = np.maximum if metric.higher_is_better else np.minimum
        return grown.scores[metric.name], best.accumulate(curve).tolist()

    def _prefer(self, entry: Entry) -> None:
        """Make ``entry`` the best one so far."""
        self.best, search = entry, self.search
        tries_others = bool(search.candidates) or search.tries_crosses
        if tries_others and task_of(self.plan.objective) in ("two classes", "classes"):
            start, left = (
                self.tested.mean(losses(entry.grown.folds))
                for losses in (self.tested.start_losses, self.tested.losses)
            )
            self._is_solved = left <= _SOLVED * start

    def _is_excluded(self, other: BoostParams) -> bool:
        """Return whether all has been tried, or ``other`` would cost too much at equal rounds."""
        if self._is_solved or self._limits.is_late():
            return True
        allowance = self.search.allowance
        expected = self._cost(other, len(self.folds), self.best.grown.n_rounds)
        return allowance is not None and self._spent + expected > allowance.candidates

    def _cost(self, params: BoostParams, n_folds: int, n_rounds: int) -> float:
        """Return the estimated seconds of the rounds of folds; 0 if nothing bounds them."""
        allowance = self.search.allowance
        if allowance is None:
            return 0.0
        return n_folds * n_rounds * seconds_of_round(allowance.size, params)

    def _is_doubtful(self) -> bool:
        """Return whether the best settings so far gain no more than chance explains."""
        return not self.tested.gain(self.best.grown.folds).exceeds(BEYOND_CHANCE)

    def _try(
        self,
        candidate: Candidate,
        folds: Sequence[Fold],
        to_beat: float | None = None,
        rival: Sequence[float] = (),
    ) -> Entry:
        """Grow folds until their score stops falling, beats ``to_beat`` or is behind ``rival``."""
        plan, search, metric = self.plan, self.search, self._metric
        requested = params_of_folds(candidate.params, search)
        # The report must not hold this object, which holds the folds: they hold the report.
        best_before = self.best.score if self.entries else None
        n_folds, bar, most = len(folds), plan.bar, requested.n_estimators
        n_all = 1 + len(search.candidates) + search.tries_crosses
        trial_name = "1 fold" if n_folds == 1 else f"{n_folds} folds"
        trial_name += f": candidate {len(self.tried) + 1} of at most {n_all}"
        began = plan.stopping.began

        def report(n_rounds: int, score: float) -> None:
            if bar is None:
                return
            best = trial.score
            if best_before is not None and metric.improves(best_before, best):
                best = best_before
            elapsed = time.monotonic() - began
            bar.show_folds(trial_name, (n_rounds, most), metric.name, score, best, elapsed)

        trial = self._judge(candidate, to_beat, rival)
        rows, own = self.rows.for_trees(requested), replace(self._of_folds, params=requested)
        limits = replace(self._limits, best=trial, after_rounds=report)
        grown = grow_folds(own, rows, folds, limits)
        self._spent += self._cost(candidate.params, n_folds, grown.n_rounds)
        return Entry(candidate.params, rows, grown)

    def _judge(
        self, candidate: Candidate, to_beat: float | None, rival: Sequence[float]
    ) -> BestRound:
        """Return what ends the folds of a candidate."""
        stopping, search, metric = self.plan.stopping, self.search, self._metric
        stride, rate_ratio, rate = search.stride, 1.0, candidate.params.learning_rate
        if self.entries and rate < self.best.params.learning_rate:
            rate_ratio = rate / self.best.params.learning_rate
        stride *= rate_ratio
        patience = math.ceil(stopping.patience / stride)
        if not search.is_cautious:
            return BestRound(metric, patience, stopping.min_delta)
        least = patience
        if search.least_patience is not None:
            least = math.ceil(search.least_patience / stride)
        if candidate.is_plain and self._is_doubtful():
            # The loss of large trees on columns of names may rise at first; 24 rounds show this.
            least, rival = _ROUNDS_TO_SIEVE, ()
        judge = CandidateBest(metric, patience, stopping.min_delta, least=least)
        judge.rate_ratio, judge.to_beat = rate_ratio, to_beat
        if rival:
            judge.rival, judge.judged_from, judge.farthest = rival, _ROUNDS_OF_EQUALS, 0.0
        elif to_beat is not None:
            judge.rival, judge.judged_from = (to_beat,), _ROUNDS_TO_SIEVE
        elif self.entries and search.at_equal_learning:
            judge.rival, judge.judged_from = self.best.bests, _ROUNDS_AT_EQUAL_LEARNING
        elif self.entries:
            judge.rival = self.best.bests[-1:]
        return judge

    def _note(self, entry: Entry) -> None:
        names = [one.name for one in fields(BoostParams) if one.name not in _WITHOUT_EFFECT]
        others = entry.params.unlike(self.plan.params, names)
        best = entry.grown.best
        rounds = 0 if best is None else best.round
        score = entry.score if math.isfinite(entry.score) else None
        self.tried.append({"score": score, "rounds": rounds, **others})
        self.entries.append(entry)

    # -- what the folds tell about the model ------------------------------------------------

    def _found(self, record: dict[str, Any]) -> ChosenRounds:
        """Derive rounds and rates from the selected parameters."""
        best, grown, search = self.best, self.best.grown, self.search
        if grown.best is None or not self._splits(best):
            n_rounds = best.params.n_estimators
            return ChosenRounds(best.params, n_rounds, grown.curves, best.rows, record)
        if search.is_cautious:
            by_fold = self.tested.gain_by_fold(grown.folds)
            warn_of_doubts(self.tested.gain(grown.folds), by_fold)
        params, n_rounds, times = self._of_all_rows(best)
        record = {**record, "stride": round(search.stride / times, 3)}
        members = self._blended() if search.most_members > 1 else ()
        return ChosenRounds(params, n_rounds, grown.curves, best.rows, record, members)

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
            return math.isfinite(entry.score) and self._splits(entry) and same_bins

        places = [k for k, entry in enumerate(self.entries) if fits(entry)]
        entries = [self.entries[k] for k in places]
        kinds, best = [entry.grown.folds for entry in entries], entries.index(self.best)
        weights = weights_of(self.tested, kinds, best, self.search.most_members)
        if weights[best] == 1.0:
            return ()
        members = []
        for k in sorted(range(len(entries)), key=lambda k: (k != best, -weights[k])):
            if weights[k] > 0.0:
                params, n_rounds, _ = self._of_all_rows(entries[k])
                members.append(Member(params.with_rounds(n_rounds), weights[k]))
                self.tried[places[k]]["weight"] = weights[k]
        return tuple(members)

    def _of_all_rows(self, entry: Entry) -> tuple[BoostParams, int, float]:
        """Return parameters and rounds of a model with a candidate, and the factor on its rate."""
        grown, params, search = entry.grown, entry.params, self.search
        assert grown.best is not None
        best, requested = grown.best.round, params_of_folds(params, search)
        rate, n_rounds, n_seen = requested.learning_rate, best * search.stride, grown.n_rounds
        ended = grown.late
        if isinstance(rate, FastRate):
            ended = ended or n_seen == requested.n_estimators
            n_rounds = rate.path(best) / params.learning_rate
        if ended and best > _STILL_FALLING * n_seen:
            n_rounds *= _FURTHER
        if search.is_cautious:
            trust = self.tested.gain(grown.folds).trust(BEYOND_CHANCE)
            n_rounds = max(1, round(n_rounds * trust))
        n_rounds = min(round(n_rounds * search.rounds_factor), params.n_estimators)
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
            params, n_rounds = of_folds(params, times), round(n_rounds / times)
            params = replace(params, learning_rate=round(params.learning_rate, 6))
        return params, n_rounds, times


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
    candidates = tuple(
        one._replace(params=resolved(one.params, objective, schema))
        for one in stopping.search.candidates
    )
    members = tuple(
        replace(one, params=resolved(one.params, objective, schema)) for one in stopping.members
    )
    return replace(
        stopping, search=replace(stopping.search, candidates=candidates), members=members
    )
