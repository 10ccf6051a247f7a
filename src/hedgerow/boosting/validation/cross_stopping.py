"""Early stopping by cross-validation: the number of rounds for a fit on all rows.

``early_stopping="cv"`` divides the rows into five folds, whose models grow side by side
until the loss of all test rows together stops falling.  Then the model is trained on all
rows, with the best number of rounds, or with fewer rounds of a larger learning rate.  No row
is lost to validation, and every row contributes to the decision.

An interrupt (Ctrl-C) ends the folds once each has completed a round: the model of all rows
then has the best number of rounds so far.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.boosting.automatic.blending import Member, weights_of
from hedgerow.boosting.automatic.cost import FastRate
from hedgerow.boosting.automatic.evidence import BEYOND_CHANCE, warn_of_doubts
from hedgerow.boosting.automatic.model_selection import (
    Entry,
    ModelSelection,
    of_folds,
    params_of_folds,
)
from hedgerow.boosting.automatic.recipe import HIGHEST_RATE
from hedgerow.boosting.automatic.time_recipe import SHORT_PATH, BudgetSchedule
from hedgerow.boosting.loop.callbacks import report_folds
from hedgerow.boosting.loop.driver import FitPlan
from hedgerow.boosting.loop.training_loop import TWICE
from hedgerow.boosting.loop.watch import StoppedBy
from hedgerow.boosting.resume.continuing import Start
from hedgerow.boosting.validation.budget import Budget
from hedgerow.boosting.validation.fold_rows import FoldRows
from hedgerow.boosting.validation.folds import (
    Fold,
    can_judge,
    deal_observations,
    draw_folds,
    folds_to_test,
    forward_folds,
    lists_in_any_order,
)
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.errors import DataError, InterruptedFitWarning, ParameterError
from hedgerow.metrics import task_of
from hedgerow.metrics.queries import first_seen
from hedgerow.params import BoostParams

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

    def stopped_by(self, n_estimators: int) -> StoppedBy:
        """Return why a fit with this number of rounds ends, given ``n_estimators``."""
        if self.interrupted:
            return "interrupt"
        return "early_stopping" if self.n_rounds < n_estimators else "rounds"


def check_folds(
    stopping: StoppingParams,
    has_validation: bool,
    start: Start | None = None,
    has_folds: bool = False,
) -> None:
    """Raise ``ParameterError`` if ``"cv"`` meets validation rows or a model to continue.

    ``has_folds``: whether the user gives folds, which have no effect without ``"cv"``.
    """
    if has_folds and not stopping.by_folds and stopping.time_budget is None:
        raise ParameterError(
            "folds have no effect, because early stopping does not use folds here: use "
            "early_stopping='cv' without validation rows, or leave folds out."
        )
    if stopping.by_folds and start is not None:
        raise ParameterError(
            f"early_stopping='cv' trains folds from the first round, but the rounds of "
            f"{start.name} have seen the rows of all folds: use early_stopping=True or False, or "
            "train a new model."
        )
    if stopping.by_folds and has_validation:
        raise ParameterError(
            "early_stopping='cv' uses folds of the training rows, so validation rows have no "
            "effect: leave them out, or use early_stopping=True."
        )


def choose_rounds(rows: FoldRows, plan: FitPlan, budget: Budget | None = None) -> ChosenRounds:
    """Choose the number of rounds of a fit; its parameters too, if others are to be tried."""
    objective, params, stopping, target = (
        plan.objective, plan.params, plan.stopping, rows.sample.target,
    )  # fmt: skip
    stratify = task_of(objective) in ("two classes", "classes")
    n_folds, n_tested = stopping.folds if rows.sample.time is None else (_FORWARD, _FORWARD)
    record: dict[str, Any] = {
        "early_stopping": "cv",
        "patience": stopping.patience,
        "rounds_factor": stopping.rounds_factor,
        "stride": stopping.stride,
    }
    try:
        folds, alike = divided(rows, n_folds, stratify, params.seed, plan.folds)
    except DataError:
        if not stopping.is_cautious:
            raise
        few = min(_UNTESTED_ROUNDS, params.n_estimators)
        return ChosenRounds(params, few, {}, rows, {**record, "folds": [0, 0]})
    folds, n_drawn = folds_to_test(folds, target, n_tested), len(folds)
    if rows.sample.time is not None:
        later = forward_folds(rows.sample.time, _FORWARD, 0.5)
        folds, n_drawn = folds + later, n_drawn + len(later)
    if stopping.is_cautious and not can_judge(folds, target):
        few = min(_UNJUDGED_ROUNDS, params.n_estimators)
        return ChosenRounds(params, few, {}, rows, {**record, "folds": [n_drawn, 0]})
    record["folds"] = [n_drawn, len(folds)]
    selection = ModelSelection(
        rows, folds, objective, stopping, plan.metrics, plan.n_threads, budget, alike,
        lambda state: report_folds(plan.callbacks, state),
    )  # fmt: skip
    selection.hold(params)
    record["tried"] = selection.tried
    return _found(selection, stopping, folds, record)


def divided(
    rows: FoldRows, n_folds: int, stratify: bool, seed: int, given: Sequence[Fold] = ()
) -> tuple[list[Fold], IntArray | None]:
    """Return folds, and numbers that rows of one observation share; None: each row is one."""
    sample, own = rows.sample, list(given)
    if sample.query is not None:
        folds = own or draw_folds(sample.target, n_folds, False, seed, sample.query)
        return lists_in_any_order(folds, seed), sample.query
    groups = None if sample.group is None else first_seen(sample.group)
    if own:
        return own, groups
    if groups is not None:
        return draw_folds(sample.target, n_folds, stratify, seed, groups), groups
    repeats = rows.repeats(seed, stratify)
    if repeats is None:
        return draw_folds(sample.target, n_folds, stratify, seed), None
    if repeats.row is not None:
        return deal_observations(sample, n_folds, stratify, repeats), None
    alike = repeats.number
    return draw_folds(sample.target, n_folds, stratify, seed, alike=alike), alike


def _found(
    selection: ModelSelection,
    stopping: StoppingParams,
    folds: Sequence[Fold],
    record: dict[str, Any],
) -> ChosenRounds:
    """Derive rounds and rates from the selected parameters."""
    best, grown, interrupted = selection.best, selection.best.grown, selection.interrupted
    # Folds too small for a split show nothing about the rounds for all rows.
    fewest = min(len(fold.train) for fold in folds) // 2
    if grown.best is None or not (interrupted or best.params.min_samples_leaf <= fewest):
        return ChosenRounds(best.params, best.params.n_estimators, grown.curves, best.rows, record)
    n_seen = best.n_rounds
    trust = 1.0
    if stopping.is_cautious:
        losses = selection.tested.start_losses(grown.folds), selection.tested.losses(grown.folds)
        gain = selection.tested.difference(*losses)
        warn_of_doubts(gain, selection.tested.by_fold(*losses))
        trust = gain.trust(BEYOND_CHANCE)
    params, n_rounds, times = _of_all_rows(best, stopping, trust)
    record = {**record, "stride": round(stopping.stride / times, 3)}
    if interrupted:
        warnings.warn(
            "the fit was interrupted while folds chose the number of rounds: the model now trains "
            f"on all rows for {n_rounds} rounds, according to the first {n_seen} rounds of the "
            f"folds. Another interrupt within {TWICE:g} seconds stops the program as usual.",
            InterruptedFitWarning,
            stacklevel=2,
        )
    found = ChosenRounds(params, n_rounds, grown.curves, best.rows, record, interrupted)
    if stopping.most_members > 1 and not interrupted:
        found = replace(found, members=_blended(found, selection, stopping, fewest))
    if stopping.finest_rate is None:
        return found
    return _paced(found, stopping, best.seconds / (len(folds) * n_seen))


def _of_all_rows(
    entry: Entry, stopping: StoppingParams, trust: float
) -> tuple[BoostParams, int, float]:
    """Return parameters and rounds of a model with a candidate, and the factor on its rate."""
    grown, params = entry.grown, entry.params
    assert grown.best is not None
    n_rounds = _as_model(entry, grown.best.round, stopping)
    if grown.late and stopping.finest_rate is not None:
        n_rounds = _likely(n_rounds, grown.best.round / entry.n_rounds, params.learning_rate)
    if stopping.is_cautious:
        n_rounds = max(1, round(n_rounds * trust))
    n_rounds = min(round(n_rounds * stopping.rounds_factor), params.n_estimators)
    times = times_larger(n_rounds, stopping)
    if stopping.allowance is not None:
        most = stopping.allowance.most_rounds(params)
        highest = max(times, HIGHEST_RATE / params.learning_rate)
        times = min(max(times, math.ceil(100 * n_rounds / most) / 100), highest)
        n_rounds = min(n_rounds, round(most * times))
    if times > 1.0:
        params, n_rounds = of_folds(params, times), round(n_rounds / times)
        params = replace(params, learning_rate=round(params.learning_rate, 6))
    return params, n_rounds, times


def _blended(
    found: ChosenRounds, selection: ModelSelection, stopping: StoppingParams, fewest: int
) -> tuple[Member, ...]:
    """Return the members of a blend; none if the best candidate is better alone.

    ``fewest`` is the largest number of rows in all leaves of a tree on any fold.
    """
    schema = selection.best.rows.sample.table.schema
    levels = max(schema.n_levels(j) for j in range(schema.n_features))

    def fits(entry: Entry) -> bool:
        bins = {entry.params.max_bins, selection.best.params.max_bins}
        same_bins = len(bins) == 1 or levels <= min(bins)  # of categories
        is_judged = math.isfinite(entry.score) and entry.params.min_samples_leaf <= fewest
        return is_judged and same_bins

    places = [k for k, entry in enumerate(selection.entries) if fits(entry)]
    entries = [selection.entries[k] for k in places]
    kinds, best = [entry.grown.folds for entry in entries], entries.index(selection.best)
    tested = selection.tested
    weights = weights_of(tested, kinds, best, stopping.most_members)
    if weights[best] == 1.0:
        return ()
    members = []
    for k in sorted(range(len(entries)), key=lambda k: (k != best, -weights[k])):
        if weights[k] > 0.0:
            start, end = tested.start_losses(kinds[k]), tested.losses(kinds[k])
            trust = tested.difference(start, end).trust(BEYOND_CHANCE)
            params, n_rounds, _ = _of_all_rows(entries[k], stopping, trust)
            members.append(Member(params.with_rounds(n_rounds), weights[k]))
            selection.tried[places[k]]["weight"] = weights[k]
    return tuple(members)


def times_larger(n_rounds: int, stopping: StoppingParams) -> float:
    """Return the factor on the learning rate of a model that otherwise needs ``n_rounds``.

    Small learning rates are worth their time if few rounds suffice.  If many are needed, larger
    rates learn as well: `docs/defaults-experiments.md` has the figures.
    """
    easy = stopping.easy_rounds
    if easy is None or n_rounds <= easy:
        return 1.0
    return round(min(math.sqrt(n_rounds / easy), stopping.stride), 2)


def _as_model(best: Entry, n_rounds: int, stopping: StoppingParams) -> float:
    """Return the rounds of the model with the path of the first rounds of the folds."""
    requested = params_of_folds(best.params, stopping)
    rate = requested.learning_rate
    if not isinstance(rate, FastRate):
        return n_rounds * stopping.stride
    still_falls = (
        best.n_rounds == requested.n_estimators and n_rounds > _STILL_FALLING * best.n_rounds
    )
    return (_FURTHER if still_falls else 1.0) * rate.path(n_rounds) / best.params.learning_rate


def _likely(n_rounds: float, part: float, rate: float) -> float:
    """Extrapolate ``n_rounds``, the best so far, if the curve was still falling at the end."""
    if part < _STILL_FALLING:
        return n_rounds
    return max(_FURTHER * n_rounds, SHORT_PATH / rate)


def _paced(chosen: ChosenRounds, stopping: StoppingParams, seconds_a_round: float) -> ChosenRounds:
    """Keep the total step length, but use rounds as small as the remaining time allows."""
    assert stopping.time_budget is not None
    assert stopping.finest_rate is not None
    params = chosen.params
    rate = params.learning_rate
    end = stopping.began + stopping.time_budget
    finest = min(stopping.finest_rate, rate)
    schedule = BudgetSchedule(chosen.n_rounds * rate, end, seconds_a_round, finest, HIGHEST_RATE)
    most = math.ceil(params.n_estimators * rate / finest)
    params = replace(params, learning_rate=schedule, n_estimators=most)
    of_folds = rate * stopping.stride
    return replace(chosen, params=params, n_rounds=schedule.n_rounds, fold_rate=of_folds)
