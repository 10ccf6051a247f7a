"""The selection of tree parameters by cross-validation.

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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.boosting.automatic.candidates import strongest_crosses
from hedgerow.boosting.automatic.cost import seconds_of_round
from hedgerow.boosting.automatic.evidence import BEYOND_CHANCE, TestedRows
from hedgerow.boosting.loop.callbacks import FoldRound
from hedgerow.boosting.loop.setup.resolved import resolved
from hedgerow.boosting.loop.training_loop import is_second
from hedgerow.boosting.validation.budget import Budget
from hedgerow.boosting.validation.cross import (
    FoldPlan,
    FoldStopping,
    GrownFolds,
    grow_folds,
)
from hedgerow.boosting.validation.fold_rows import FoldRows
from hedgerow.boosting.validation.folds import Fold
from hedgerow.boosting.validation.stopping import BestRound, StoppingParams
from hedgerow.data.schema import Schema
from hedgerow.metrics import Metric, task_of
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
        return out_of_patience or self._is_hopeless() or self._is_ahead()

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

    def _is_ahead(self) -> bool:
        return self.to_beat is not None and self.metric.improves(self.score, self.to_beat)

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


class ModelSelection:
    """Comparison of candidates on the same folds, one candidate after the other.

    rows         rows in the form that the first settings need
    metrics      the first metric decides
    budget       candidates are tried while there is time
    alike        int64 (n_rows,): rows with the same number are one observation
    report       receives the state of the folds after their rounds
    best         the entry with the best score; the first one if scores are equal
    tried        for each entry the best score, its round, and the parameters that differ from the
                 first; ``chosen`` marks the best of several
    entries      all of them if the model may be a blend, otherwise none
    interrupted  whether the user has interrupted the comparison
    """

    best: Entry

    def __init__(
        self,
        rows: FoldRows,
        folds: Sequence[Fold],
        objective: Objective,
        stopping: StoppingParams,
        metrics: Sequence[Metric],
        n_threads: int,
        budget: Budget | None,
        alike: IntArray | None = None,
        report: Callable[[FoldRound], None] = lambda state: None,
    ) -> None:
        self._rows, self._folds, self._objective = rows, folds, objective
        self._request, self._metrics, self._n_threads = stopping, metrics, n_threads
        self._budget, self._report = budget, report
        self._alike = alike
        self._limits = FoldStopping(pooled=True, may_end=lambda: not is_second())
        self._is_solved, self._spent = False, 0.0
        self.tried: list[dict[str, Any]] = []
        self._place = 0  # of the best one
        self.entries: list[Entry] = []
        self.interrupted = False

    def hold(self, params: BoostParams) -> None:
        """Try ``params``, then the candidates, until an interrupt or the end of the budget."""
        share = share_of_folds(self._request)
        if self._budget is not None:
            self._limits = replace(self._limits, is_late=self._budget.deadline(share))
        first = self._try(params)
        assert first is not None
        self._note(params, first)
        self._prefer(first)
        for other, by, may_lose_early in self._others():
            if (may_lose_early and not self._is_promising(other)) or self._is_excluded(other):
                continue
            at_equal_rounds = self._scores_of_best() if may_lose_early else ()
            entry = self._try(other, at_equal_rounds=at_equal_rounds)
            if entry is None:
                continue
            self._note(params, entry)
            improves = self._metrics[0].improves(entry.score, self.best.score)
            if improves and (by is None or self._leads(entry, by)):
                self._prefer(entry)
        if len(self.tried) > 1:
            self.tried[self._place]["chosen"] = True

    @once
    def tested(self) -> TestedRows:
        """The tested rows of all folds."""
        return TestedRows(self._rows.sample, self._folds, self._alike)

    def _crossed(self) -> BoostParams | None:
        """Return the best settings with crosses of the strongest columns; None without crosses.

        Columns are strong only if the best settings gain more than chance explains.
        """
        if not self._request.tries_crosses or self._is_doubtful():
            return None
        folds, schema = self.best.grown.folds, self._rows.sample.table.schema
        gains = np.sum([fold.gains() for fold in folds], axis=0)
        crosses = strongest_crosses(gains, schema, folds[0].inputs)
        return replace(self.best.params, feature_crosses=crosses) if crosses else None

    def _others(self) -> Iterator[tuple[BoostParams, float | None, bool]]:
        """Yield the candidates, each when those before it have been tried.

        Each comes with the standard errors by which it must lead, and whether it may lose on the
        first fold, or at equal rounds.
        """
        request = self._request
        for other in request.candidates:
            yield other, request.lead, False
        for other in request.rare:
            yield other, _CLEARLY, False
        if request.plain is not None:
            yield request.plain, _CLEARLY, True
        if (crossed := self._crossed()) is not None:
            yield crossed, _BEYOND_DOUBT, True
        if (finer := self._finer()) is not None:
            yield finer, None, False

    def _prefer(self, entry: Entry) -> None:
        """Make ``entry``, the latest one, the best one so far."""
        self.best, self._place = entry, len(self.tried) - 1
        self._leave_time_for_model()
        tries_others = not self._request.only_counts_rounds
        if tries_others and task_of(self._objective) in ("two classes", "classes"):
            start, left = (
                self.tested.mean(losses(entry.grown.folds))
                for losses in (self.tested.start_losses, self.tested.losses)
            )
            self._is_solved = left <= _SOLVED * start

    def _is_excluded(self, other: BoostParams) -> bool:
        """Return whether all has been tried, or ``other`` would cost too much at equal rounds."""
        if self.interrupted or self._is_solved or self._limits.is_late():
            return True
        allowance = self._request.allowance
        expected = self._cost(other, len(self._folds), self.best.n_rounds)
        return allowance is not None and self._spent + expected > allowance.candidates

    def _cost(self, params: BoostParams, n_folds: int, n_rounds: int) -> float:
        """Return the estimated seconds of the rounds of folds; 0 if nothing bounds them."""
        allowance = self._request.allowance
        if allowance is None:
            return 0.0
        return n_folds * n_rounds * seconds_of_round(allowance.size, params)

    def _scores_of_best(self) -> Sequence[float]:
        """Return the best score of the best settings up to each round."""
        best = self.best.grown.best
        return best.bests if isinstance(best, CandidateBest) else ()

    def _is_promising(self, other: BoostParams) -> bool:
        """Return whether other settings lead on the first fold, which takes less time than all.

        True without a test if there are few folds, or nothing else is tried.
        """
        first, name = self._folds[:1], self._metrics[0].name
        if len(self._folds) < _MANY_FOLDS or self._is_excluded(other):
            return True
        grown = self.best.grown.folds[0]
        best, curve = grown.scores[name], grown.watch.history[grown.watch.rows][name]
        if len(first[0].test) < _ENOUGH_TESTED:
            curve = []
        at_equal_rounds = best_so_far(curve, self._metrics[0])
        entry = self._try(other, folds=first, to_beat=best, at_equal_rounds=at_equal_rounds)
        return entry is not None and self._metrics[0].improves(
            entry.grown.folds[0].scores[name], best
        )

    def _is_doubtful(self) -> bool:
        """Return whether the best settings so far gain no more than chance explains."""
        grown = self.best.grown.folds
        losses = self.tested.start_losses(grown), self.tested.losses(grown)
        return not self.tested.difference(*losses).exceeds(BEYOND_CHANCE)

    def _leads(self, entry: Entry, by: float) -> bool:
        """Return whether ``entry`` leads the best settings by more than ``by`` standard errors."""
        losses, ours = (self.tested.losses(e.grown.folds) for e in (self.best, entry))
        return self.tested.difference(losses, ours).exceeds(by)

    def _leave_time_for_model(self) -> None:
        """Move the deadline, so that the model with the best settings so far has enough time."""
        if self._budget is not None:
            share = share_of_folds(self._request)
            late = self._budget.late_but_for(self.best.seconds * (1.0 - share) / share)
            self._limits = replace(self._limits, is_late=late)

    def _finer(self) -> BoostParams | None:
        """Return the best settings at the lowest rate; None if there is no time for them.

        The best sum of rates is larger at a low rate, so folds at that rate must find the number
        of rounds.
        """
        best, finest, budget = self.best, self._request.finest_rate, self._budget
        if finest is None or budget is None or best.grown.late:
            return None
        if best.params.learning_rate <= finest:
            return None
        times_finer = best.params.learning_rate / finest
        share = share_of_folds(self._request)
        if budget.late_but_for(best.seconds * times_finer / share)():
            return None
        most = math.ceil(best.params.n_estimators * times_finer)
        return replace(best.params, learning_rate=finest, n_estimators=most)

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
        began = time.monotonic()
        try:
            requested = params_of_folds(params, self._request)
            rows = self._rows.for_trees(requested)
            folds, best = folds or self._folds, self._judge(params, to_beat, at_equal_rounds)
            limits = replace(
                self._limits, best=best, after_rounds=self._reporter(requested, len(folds), best)
            )
            plan = FoldPlan(
                rows, self._objective, requested, limits, self._metrics, self._n_threads,
                keep_trees=False,
            )  # fmt: skip
            grown = grow_folds(plan, folds)
        except KeyboardInterrupt as error:
            twice = isinstance(error.__context__, KeyboardInterrupt)
            if not self.tried or twice or is_second():
                raise
            self.interrupted = True
            return None
        entry = Entry(params, rows, grown, time.monotonic() - began)
        self._spent += self._cost(params, len(folds), entry.n_rounds)
        self.interrupted = grown.interrupted
        return entry

    def _reporter(
        self, requested: BoostParams, n_folds: int, trial: BestRound
    ) -> Callable[[int, float], None]:
        """Return a function that reports the rounds of folds with the parameters ``requested``."""
        request, metric = self._request, self._metrics[0]
        more = (request.plain, request.tries_crosses or None, request.finest_rate)
        others = len(request.candidates) + len(request.rare) + sum(one is not None for one in more)
        # Not this object, which holds the folds: they hold the function.
        tell, number = self._report, len(self.tried) + 1
        before = self.best.score if self.tried else None

        def report(n_rounds: int, score: float) -> None:
            best = trial.score
            if before is not None and metric.improves(before, best):
                best = before
            elapsed = time.monotonic() - request.began
            tell(
                FoldRound(
                    number, 1 + others, n_folds, n_rounds, requested.n_estimators, metric.name,
                    score, best, elapsed,
                )
            )  # fmt: skip

        return report

    def _judge(
        self, params: BoostParams, to_beat: float | None, at_equal_rounds: Sequence[float]
    ) -> BestRound:
        requested, metric = self._request, self._metrics[0]
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

    def _note(self, first: BoostParams, entry: Entry) -> None:
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
        if self._request.most_members > 1:
            self.entries.append(entry)


def best_so_far(scores: Sequence[float], metric: Metric) -> list[float]:
    """Return the best of the scores up to each round."""

    def better(best: float, score: float) -> float:
        return score if metric.improves(score, best) else best

    return list(accumulate(scores, better))


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
