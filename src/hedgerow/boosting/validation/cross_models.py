"""Models of cross-validation: one of each fold, their average, and a refit on all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hedgerow.boosting.loop.fit import fit
from hedgerow.boosting.loop.options import FitOptions
from hedgerow.boosting.loop.watch import StoppedBy, found_by_loss, record_of
from hedgerow.boosting.row_data.statistics import assembled
from hedgerow.boosting.validation.cross import GrownFold, GrownFolds
from hedgerow.boosting.validation.fold_rows import FoldRows, Weigh
from hedgerow.boosting.validation.folds import Fold
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.model.averaged import average_forests, with_inputs_of_all
from hedgerow.model.model import AVERAGED, Model
from hedgerow.objectives import Objective
from hedgerow.params import BoostParams


def fold_model(
    rows: FoldRows, fold: Fold, grown: GrownFold, params: BoostParams, n_threads: int
) -> Model:
    """Return the model of one fold, as a fit on its rows would; ``params`` are for all rows."""
    record = record_of(grown.n_rows, params, grown.watch)
    record |= _of_loss(rows, fold, grown, n_threads)
    schema, objective = rows.sample.table.schema, grown.watch.objective
    return assembled(grown.forest, schema, objective, record, grown.inputs, grown.n_copies)


def _of_loss(rows: FoldRows, fold: Fold, grown: GrownFold, n_threads: int) -> dict[str, Any]:
    objective = grown.watch.objective
    if not hasattr(objective, "fit_record"):
        return {}
    return found_by_loss(rows.take(fold.train), grown.inputs, objective, grown.forest, n_threads)


def average_model(rows: FoldRows, folds: GrownFolds, params: BoostParams, n_threads: int) -> Model:
    """Return one model whose raw score is the mean of the raw scores of the fold models."""
    grown = folds.folds
    forests = [fold.forest for fold in grown]
    inputs = [fold.inputs for fold in grown if fold.inputs is not None]
    joined = None
    if inputs:
        forests, joined = with_inputs_of_all(forests, inputs)
    forest = average_forests(forests)
    watch = grown[0].watch
    record = record_of(rows.sample.n_rows, params, watch)
    record |= {"history": {"cv": folds.curves}, "best_round": None, AVERAGED: len(grown)}
    record["stopped_by"] = _stopped_by(grown)
    record.pop("out_of_bag", None)
    record |= found_by_loss(rows.sample, joined, watch.objective, forest, n_threads)
    schema = rows.sample.table.schema
    return assembled(forest, schema, watch.objective, record, joined, grown[0].n_copies)


def refit_model(
    rows: FoldRows,
    folds: GrownFolds,
    objective: Objective,
    params: BoostParams,
    n_rounds: int,
    weigh: Weigh | None,
    n_jobs: int | None,
    clock: StoppingParams,
) -> Model:
    """Return a model of all rows with ``n_rounds`` rounds, or fewer if the time runs out."""
    sample = rows.sample
    if weigh is not None:
        sample, _ = weigh(sample, sample)
    requested = params.with_rounds(n_rounds)
    stopping = StoppingParams(False, time_budget=clock.time_budget, began=clock.began)
    model = fit(sample, objective, requested, FitOptions(stopping, n_jobs=n_jobs))
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
