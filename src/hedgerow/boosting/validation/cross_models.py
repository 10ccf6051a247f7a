"""Models of cross-validation: one of each fold, their average, and a refit on all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hedgerow.boosting.loop.driver import FitOptions, found_by_loss
from hedgerow.boosting.loop.fit import fit
from hedgerow.boosting.loop.setup.job import FitSpec
from hedgerow.boosting.loop.watch import StoppedBy, record_of
from hedgerow.boosting.row_data.statistics import assembled
from hedgerow.boosting.validation.cross import FoldPlan, GrownFold, GrownFolds
from hedgerow.boosting.validation.folds import Fold
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.model.forest import average_forests, with_inputs_of_all
from hedgerow.model.model import AVERAGED, Model


def fold_model(plan: FoldPlan, fold: Fold, grown: GrownFold) -> Model:
    """Return the model of one fold, as a fit on its rows would."""
    objective, forest, inputs = grown.watch.objective, grown.forest, grown.inputs
    record = record_of(grown.n_rows, plan.params, grown.watch)
    schema, n_threads = plan.rows.sample.table.schema, plan.n_threads
    if hasattr(objective, "fit_record"):
        sample = plan.rows.sample.take(fold.train)
        record |= found_by_loss(objective, forest, sample, inputs, n_threads)
    return assembled(forest, schema, objective, record, inputs, grown.n_copies)


def average_model(plan: FoldPlan, folds: GrownFolds) -> Model:
    """Return one model whose raw score is the mean of the raw scores of the fold models."""
    sample = plan.rows.sample
    grown = folds.folds
    forests = [fold.forest for fold in grown]
    inputs = [fold.inputs for fold in grown if fold.inputs is not None]
    joined = None
    if inputs:
        forests, joined = with_inputs_of_all(forests, inputs)
    forest = average_forests(forests)
    watch = grown[0].watch
    record = record_of(sample.n_rows, plan.params, watch)
    record |= {"history": {"cv": folds.curves}, "best_round": None, AVERAGED: len(grown)}
    record["stopped_by"] = _stopped_by(grown)
    record.pop("out_of_bag", None)
    record |= found_by_loss(watch.objective, forest, sample, joined, plan.n_threads)
    schema = sample.table.schema
    return assembled(forest, schema, watch.objective, record, joined, grown[0].n_copies)


def refit_model(plan: FoldPlan, folds: GrownFolds, n_rounds: int, clock: StoppingParams) -> Model:
    """Return a model of all rows with ``n_rounds`` rounds, or fewer if the time runs out."""
    sample, params = plan.rows.sample, plan.params
    if plan.weigh is not None:
        sample, _ = plan.weigh(sample, sample)
    requested = params.with_rounds(n_rounds)
    stopping = StoppingParams(False, time_budget=clock.time_budget, began=clock.began)
    spec, options = FitSpec(sample, plan.objective), FitOptions(stopping, n_jobs=plan.n_threads)
    model = fit(spec, requested, options)
    by_budget = model.training["stopped_by"] == "time_budget"
    parameters = {**model.training["parameters"], "n_estimators": params.n_estimators}
    record = {
        **model.training,
        "parameters": parameters,
        "history": {"cv": folds.curves},
        "best_round": model.forest.n_rounds,
        "stopped_by": "time_budget" if by_budget else _stopped_by(folds.folds),
    }
    return replace(model, training=record)


def _stopped_by(folds: Sequence[GrownFold]) -> StoppedBy:
    """Return why the first fold ended, or ``"time_budget"`` if that ended any fold."""
    reasons: list[StoppedBy] = [fold.watch.stopped_by for fold in folds]
    return "time_budget" if "time_budget" in reasons else reasons[0]


def rounds_of(folds: Sequence[GrownFold]) -> list[int]:
    """Return the number of rounds in the forest of each fold."""
    return [fold.forest.n_rounds for fold in folds]
