"""The driver of all fits: from rows in the form for trees to the model.

::

    FitPlan        parameters, loss and metrics, checked and resolved
    PreparedRows   of a table, of files, of one of several ranks, or of a fold
    Ready          loss and metrics bound to the rows; a watch
    rounds         :func:`grow_forest` runs all; hedgerow.Training one by one
    Model

:mod:`hedgerow.boosting.loop.setup.training_matrix` encodes and bins rows, and folds
(:mod:`hedgerow.boosting.validation.cross`) may take theirs from those of all rows.

Reasons why a fit ends (``stopped_by`` in its record):

=================  =====================================================================
``rounds``         ``n_estimators`` rounds are done
``early_stopping`` the watched score has not improved for ``patience`` rounds
``callback``       a callback returned True
``time_budget``    another round would exceed the time budget
``interrupt``      Ctrl-C: the model keeps the complete rounds
=================  =====================================================================

An interrupt of folds, or before the first complete round, raises ``KeyboardInterrupt``.  So does a
second interrupt within :data:`TWICE` seconds, since then the model is not wanted.  The second one
may reach another fit, as in a parameter search, which after one interrupt continues with
the next fit.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from hedgerow.argument_types import check_bool
from hedgerow.arrays import FloatArray
from hedgerow.boosting.automatic.magnitudes import warn_of_no_split, warn_of_short_steps
from hedgerow.boosting.external.file_table import blocks_of
from hedgerow.boosting.loop.callbacks import Callback, ProgressBar
from hedgerow.boosting.loop.rounds import BoostState, rounds
from hedgerow.boosting.loop.sample import ONLY, Sample
from hedgerow.boosting.loop.scored import Ranks, ScoredRows, Tally
from hedgerow.boosting.loop.setup.training_matrix import PreparedRows, prepare
from hedgerow.boosting.loop.watch import StoppedBy, Watch, record_of
from hedgerow.boosting.resume.checkpoint import Checkpoint, Recorder
from hedgerow.boosting.resume.continuing import Start
from hedgerow.boosting.row_data.dataset import TRAINING
from hedgerow.boosting.row_data.queries import bound_metrics, with_queries
from hedgerow.boosting.row_data.statistics import assembled, constraints_of_inputs
from hedgerow.boosting.validation.stopping import BestRound, Budget, StoppingParams
from hedgerow.data.inputs import Inputs, numbers_for_trees
from hedgerow.errors import InterruptedFitWarning
from hedgerow.metrics import Metric, MetricChoice
from hedgerow.model.forest import Forest
from hedgerow.model.model import BLEND, Model
from hedgerow.model.predict import Predictor
from hedgerow.objectives import Objective
from hedgerow.params import BoostParams

if TYPE_CHECKING:
    from hedgerow.boosting.automatic.model_selection import ChosenRounds
    from hedgerow.boosting.validation.folds import Fold

GivenRows: TypeAlias = tuple[Sample, Sequence[Sample]]
"""Training and validation rows without rows of weight 0 and, in a new model, unused categories."""


@dataclass(frozen=True, slots=True, eq=False)
class FitOptions:
    """Options of a fit other than its rows, its loss and the parameters of its trees.

    callbacks  called on every rank
    progress   draw a progress bar, on rank 0
    folds      of early stopping, as the user gave them; None: they are drawn
    """

    stopping: StoppingParams = field(default_factory=StoppingParams)
    eval_metric: MetricChoice = None
    callbacks: Callback | Sequence[Callback] | None = None
    progress: bool = False
    n_jobs: int | None = None
    checkpoint: Checkpoint | None = None
    folds: Any = None

    def __post_init__(self) -> None:
        check_bool(self.progress, "progress")


@dataclass(frozen=True, slots=True, eq=False)
class FitPlan:
    """The resolved arguments of a fit, except for its rows.

    params     with column positions instead of names
    is_scored  whether training rows are scored if there are no validation rows
    bar        the one among the callbacks
    limits     patience and smallest improvement, if early stopping is on
    """

    objective: Objective
    params: BoostParams
    stopping: StoppingParams
    metrics: tuple[Metric, ...]
    is_scored: bool = True
    callbacks: tuple[Callback, ...] = ()
    bar: ProgressBar | None = None
    n_threads: int = 1
    start: Start | None = None
    finish: Callable[[Model], Model] = lambda model: model
    folds: Sequence[Fold] = ()
    ranks: Ranks = field(default_factory=Ranks)
    limits: tuple[int, float] | None = None

    def prepared(self, given: GivenRows) -> PreparedRows:
        """Return the rows in the form for trees."""
        start = None if self.start is None else self.start.model
        return prepare(*given, self.objective, self.params, self.n_threads, start)


@dataclass(frozen=True, slots=True, eq=False)
class Ready:
    """A fit before its first round; ``chosen`` is what folds have found."""

    plan: FitPlan
    rows: PreparedRows
    state: BoostState
    watch: Watch
    chosen: ChosenRounds | None = None

    def assemble(
        self,
        forest: Forest,
        joined: Inputs | None = None,
        members: Sequence[Mapping[str, Any]] = (),
    ) -> Model:
        """Return the model of a forest, or of that of a blend with its inputs and members."""
        inputs = joined if members else self.rows.inputs
        plan, rows, watch, chosen = self.plan, self.rows, self.watch, self.chosen
        record, seconds = record_of(self.state.n_rows, plan.params, watch), watch.seconds
        if plan.start is not None:
            plan.start.complete(record, watch.n_kept)
        if chosen is not None:
            record |= {"best_round": min(chosen.n_rounds, watch.n_kept), "folds": chosen.record}
        if members:
            record[BLEND], seconds = members, []  # which are of the first member only
        record |= found_by_loss(watch.objective, forest, rows.train, inputs, plan.n_threads)
        schema, n_copies = rows.train.table.schema, rows.seen.n_copies
        return plan.finish(
            assembled(forest, schema, watch.objective, record, inputs, n_copies, seconds)
        )


def make_ready(
    plan: FitPlan,
    rows: PreparedRows,
    chosen: ChosenRounds | None = None,
    budget: Budget | None = None,
    may_run_ahead: bool = False,
) -> Ready:
    """Bind the loss and the metrics to the rows, and return the fit before its first round."""
    ranks, n_threads = plan.ranks, plan.n_threads
    params = constraints_of_inputs(plan.params, rows.inputs)
    if chosen is not None:
        params = params.with_rounds(chosen.n_rounds)
    objective = with_queries(plan.objective, rows.learned, params.seed, n_threads, ranks)
    wanted = {part.set_name or ONLY: part for part in rows.validation}
    if plan.metrics and (plan.stopping.train_scores or (plan.is_scored and not wanted)):
        wanted[TRAINING] = rows.train
    scored = []
    for name, part in wanted.items():
        bound, tally = bound_metrics(plan.metrics, part, objective, ranks.others), None
        if ranks.others.size > 1:
            tally = Tally(bound, objective, ranks.rows(part))
        scored.append(ScoredRows(name, part, bound, tally))
    best = None
    if plan.limits is not None:
        watched = scored[0].metrics[0] if scored else plan.metrics[0]
        best = BestRound(watched, *plan.limits)
    state = BoostState(
        rows.seen, objective, params, rows.unseen, n_threads, rows.first, scored,
        may_run_ahead and not plan.callbacks, ranks, rows.train,
    )  # fmt: skip
    watch = Watch(
        objective=objective,
        scored={part.name: part.metrics for part in scored},
        best=best,
        callbacks=plan.callbacks,
        n_rounds=params.n_estimators + state.n_first,
        n_first=state.n_first,
        started=plan.stopping.began,
        budget=budget,
        history={} if chosen is None else {"cv": chosen.curves},
        start_scores={} if plan.start is None else state.scores(),
    )
    return Ready(plan, rows, state, watch, chosen)


def found_by_loss(
    objective: Objective, forest: Forest, train: Sample, inputs: Inputs | None, n_threads: int
) -> dict[str, Any]:
    """Return what a loss adds to the record after training, such as a baseline hazard."""
    # Bins would not do, because the trees of a model to continue split between them, and conflicts
    # in bundles hide values.
    describe: Callable[..., dict[str, Any]] | None = getattr(objective, "fit_record", None)
    if describe is None:
        return {}
    schema = train.table.schema
    predictor = Predictor(forest, schema.kinds if inputs is None else inputs.schema(schema).kinds)
    return describe(train.target, raw_of_rows(predictor, train, inputs, n_threads), train.weight)


def raw_of_rows(
    predictor: Predictor, rows: Sample, inputs: Inputs | None, n_threads: int
) -> FloatArray:
    """Return raw scores of rows, which are read again, as new rows."""
    table, start = rows.table, 0
    parts = []
    for block in blocks_of(table):
        values = numbers_for_trees(block, inputs, n_threads)
        raw, stop = predictor.raw_scores(values, n_threads), start + block.n_rows
        parts.append(raw if rows.offset is None else raw + rows.offset[:, start:stop])
        start = stop
    return np.concatenate(parts, axis=1)


# -- the loop --------------------------------------------------------------------------------

TWICE = 5.0
"""Time in seconds within which a second interrupt ends more than one fit."""

ORDER: tuple[StoppedBy, ...] = ("rounds", "time_budget", "callback", "early_stopping")
"""Precedence of reasons: if ranks end for different reasons, the last of these wins."""


INTERRUPTS = SimpleNamespace(last=-math.inf)
"""``last`` is when an interrupt last ended a fit of this process, to which interrupts are sent."""


def grow_forest(state: BoostState, watch: Watch, recorder: Recorder | None = None) -> Forest:
    """Run the rounds of a fit; return the forest up to the best round."""
    earlier = None if recorder is None else recorder.earlier
    if earlier is not None:
        earlier = earlier.head(state.params.n_estimators)
    together = state.ranks.communicator

    def most(number: int) -> int:
        return int(together.allreduce(np.array([number], dtype=np.int64), "max")[0])

    # A callback or the clock may end the fit on only one rank; all other reasons are the same.
    agrees = together.size > 1 and most(bool(watch.callbacks) or watch.budget is not None)
    with closing(rounds(state, earlier, watch.budget)) as states:
        if state.n_rows < 2 * state.params.min_samples_leaf:  # no split
            return next(states).freeze(state.n_first)
        try:
            for _ in states:
                is_old = earlier is not None and state.n_rounds == state.n_first + earlier.n_rounds
                if is_old and earlier is not None:
                    stop = watch.take_over(earlier, state)
                else:
                    stop = watch.after_round(state)
                if agrees:
                    watch.stopped_by = ORDER[most(ORDER.index(watch.stopped_by))]
                    stop = watch.stopped_by != "rounds"
                if recorder is not None and not is_old:
                    recorder.note(watch.last_round(state))
                if stop:
                    break
        except KeyboardInterrupt:
            before, INTERRUPTS.last = INTERRUPTS.last, time.monotonic()
            is_second = INTERRUPTS.last - before < TWICE
            if together.size > 1 or not watch.seconds or is_second:
                raise
            watch.keep_complete_rounds()
            done, kept = watch.n_done, watch.n_kept
            best = f", and keeps the first {kept}, up to the best one" if kept < done else ""
            warnings.warn(
                f"the fit was interrupted: {watch.subject} has {done} of {watch.n_rounds} rounds"
                f"{best}. Another interrupt within {TWICE:g} seconds stops the program as usual.",
                InterruptedFitWarning,
                stacklevel=2,
            )
        else:
            watch.note_forest(state)
        forest = state.freeze(watch.n_kept)
    if state.first is None:
        warn_of_no_split(forest, state.objective, state.params, state.all_rows)
        warn_of_short_steps(forest, state.objective, state.params, state.all_rows)
    return forest
