"""The complete training: from a table to a model.

::

    Sample  -- rows of weight 0 dropped, validation rows held out
      |
    Encoded -- target statistics in place of categories with many levels
      |
    BinSpec, BinnedMatrix
      |
    rounds  -- one state after each round: scores, early stopping, callbacks
      |
    Forest up to the best round  ->  Model
"""

from __future__ import annotations

from collections.abc import Callable

from hedgerow.boosting.loop.callbacks import (
    with_final_report,
)
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.setup.options import FitOptions
from hedgerow.boosting.loop.setup.ready import (
    Choose,
    FitPlan,
    Ready,
    check_plan,
    make_ready,
    plan_of,
)
from hedgerow.boosting.loop.training_loop import grow_forest
from hedgerow.boosting.resume.checkpoint import Checkpoint, Recorder, recording
from hedgerow.boosting.resume.fingerprint import Fingerprint, contents_of, fingerprint
from hedgerow.boosting.validation.budget import Budget, budget_of
from hedgerow.comm.base import Communicator
from hedgerow.model.model import Model
from hedgerow.objectives import Objective
from hedgerow.params import BoostParams


def fit(
    train: Sample,
    objective: Objective,
    params: BoostParams,
    options: FitOptions | None = None,
    *,
    validation: Sample | None = None,
    checkpoint: Checkpoint | None = None,
    finish: Callable[[Model], Model] = lambda model: model,
    choose: Choose | None = None,
) -> Model:
    """Train a model.

    Scores are computed after each round on the validation rows.  Without validation rows
    they are computed on the training rows if ``eval_metric`` is given; with ``train_scores``
    on both.  With early stopping the model ends at the round with the best first score on the
    validation rows, or on the first of several sets
    (:mod:`hedgerow.boosting.validation.row_sets`).
    Callbacks and the progress bar do not affect the model unless a callback ends the fit.

    Raise ``DataError``, ``ParameterError`` or ``LossError`` for invalid input; exceptions
    of callbacks propagate. Raise ``StorageError`` if the checkpoint cannot be read, or
    cannot be written when the fit begins.
    """
    options = options or FitOptions()
    plan = plan_of(
        train, objective, params, options, validation=validation, finish=finish, choose=choose
    )
    bar = plan.bar

    def describe() -> Fingerprint:
        named = plan.metrics if plan.is_scored else ()
        rows, others = plan.train, plan.validation
        contents = contents_of(rows, others, named, plan.n_threads)
        sets = () if others is None or others.sets is None else others.sets.names
        found = fingerprint(
            contents, rows.n_rows, objective, plan.params, plan.stopping, named, sets
        )
        return found if plan.start is None else plan.start.identified(found, plan.params)

    try:
        with budget_of(plan.stopping) as budget, recording(checkpoint, describe) as recorder:
            return with_final_report(bar, _fit(plan, budget, recorder))
    finally:
        if bar is not None:
            bar.close()


def _fit(plan: FitPlan, budget: Budget | None, recorder: Recorder | None) -> Model:
    """Run the fit of a plan."""
    if plan.start is not None and plan.has_nothing_to_add:
        check_plan(plan)
        return plan.finish(plan.start.model)
    ready = make_ready(plan, budget, may_run_ahead=recorder is None and budget is None)
    return grow_model(ready, recorder)


def grow_model(ready: Ready, recorder: Recorder | None, ranks: Communicator | None = None) -> Model:
    """Run the rounds of a fit; return its model."""
    watch, chosen = ready.watch, ready.chosen
    with watch.assembling(ready.assemble):
        forest = grow_forest(ready.rows, watch, recorder, ranks)
    if watch.stopped_by == "rounds" and chosen is not None:
        watch.stopped_by = chosen.stopped_by(chosen.params.n_estimators)
    return ready.assemble(forest)
