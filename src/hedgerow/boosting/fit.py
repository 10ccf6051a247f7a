"""From a table to a model: the whole training as one recipe.

::

    Sample  -- rows of weight 0 out, validation rows set aside
      |
    Encoded -- means of the target in the place of categories of many levels
      |
    BinSpec, BinnedMatrix
      |
    rounds  -- one state after each round: scores, early stopping, callbacks
      |
    Forest up to the best round  ->  Model
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from hedgerow.boosting.callbacks import (
    Callback,
    ProgressBar,
    check_callbacks,
)
from hedgerow.boosting.checkpoint import Checkpoint, Recorder, recording
from hedgerow.boosting.fingerprint import Fingerprint, fingerprint
from hedgerow.boosting.queries import check_queries, split_sample, stops_early, with_queries
from hedgerow.boosting.rounds import resolve, rounds
from hedgerow.boosting.row_forms import prepare_rows
from hedgerow.boosting.sample import Sample, with_own_levels
from hedgerow.boosting.statistics import (
    Encoded,
    constraints_of_inputs,
    encode,
    without_unused,
)
from hedgerow.boosting.stopping import StoppingParams
from hedgerow.boosting.strategy import resolve_strategy
from hedgerow.boosting.watch import Watch, best_round_of, record_of
from hedgerow.data import (
    numbers_of,
)
from hedgerow.errors import DataError, ParameterError
from hedgerow.growing.constraints import resolve_constraints
from hedgerow.metrics import (
    Metric,
    MetricFunction,
    make_metrics,
)
from hedgerow.model.forest import Forest
from hedgerow.model.model import Model
from hedgerow.model.predict import Predictor
from hedgerow.objectives import Objective
from hedgerow.params import BoostParams
from hedgerow.threads import resolve_threads


def fit(
    train: Sample,
    objective: Objective,
    params: BoostParams,
    *,
    validation: Sample | None = None,
    stopping: StoppingParams | None = None,
    eval_metric: str | MetricFunction | Sequence[str | MetricFunction] | None = None,
    callbacks: Callback | Sequence[Callback] | None = None,
    progress: bool = False,
    n_jobs: int | None = None,
    checkpoint: Checkpoint | None = None,
) -> Model:
    """Train a model.

    Scores are computed after each round on the validation rows or, where there
    are none, on the training rows if ``eval_metric`` is given.  With early
    stopping the model ends at the round with the best first score on the
    validation rows.  Callbacks and progress bar have no part in the model
    unless a callback ends the fit.

    Parameters
    ----------
    train : Sample
    objective : Objective
    params : BoostParams
    validation : Sample, optional
        Read with the schema of the training table.
    stopping : StoppingParams, optional
    eval_metric : str, callable or sequence of these, optional
        See :func:`hedgerow.metrics.make_metrics`.
    callbacks : callable or sequence of callables, optional
        See :mod:`hedgerow.boosting.callbacks`.
    progress : bool, default=False
        Draw a progress bar on standard error if that is a terminal.
    n_jobs : int, optional
        Threads; see :func:`hedgerow.threads.resolve_threads`.
    checkpoint : Checkpoint, optional
        Record the rounds, and go on from those that an earlier run has recorded.

    Returns
    -------
    Model
        Its ``training`` record holds ``parameters``, ``history``,
        ``best_round`` (None without early stopping) and ``n_rows``; with target
        statistics also ``copies``, the times that each row was trained on.

    Raises
    ------
    DataError, ParameterError, LossError
        See the message; whatever a callback raises comes through.
    StorageError
        If the checkpoint cannot be read, or not be written when the fit begins.
    """
    n_threads = resolve_threads(n_jobs)
    params = resolve_constraints(resolve(params, objective), train.table.schema, objective)
    params = resolve_strategy(params, objective)
    metrics = make_metrics(eval_metric, objective)
    listed = check_callbacks(callbacks)
    bar = ProgressBar() if progress else None
    told: tuple[Callback, ...] = listed if bar is None else (*listed, bar)
    stopping = stopping or StoppingParams()
    named = () if eval_metric is None else metrics

    def describe() -> Fingerprint:
        return fingerprint(train, validation, objective, params, stopping, named, n_threads)

    try:
        with recording(checkpoint, describe) as recorder:
            return _fit(
                train, validation, objective, params, stopping, metrics, bool(named), told,
                n_threads, recorder,
            )  # fmt: skip
    finally:
        if bar is not None:
            bar.close()


def _fit(
    train: Sample,
    validation: Sample | None,
    objective: Objective,
    params: BoostParams,
    stopping: StoppingParams,
    metrics: tuple[Metric, ...],
    scored: bool,
    callbacks: tuple[Callback, ...],
    n_threads: int,
    recorder: Recorder | None,
) -> Model:
    """The fit itself, of arguments that are checked; ``scored`` also without validation rows."""
    check_queries(train, validation, objective, params, stopping)
    train, validation, stops = _prepare(train, validation, objective, stopping, params.seed)
    if stopping.by_out_of_bag:
        check_out_of_bag(params, train.n_rows)
        params = replace(params, oob_score=True)
    encoded = encode(train, validation, objective, params, n_threads)
    watched = train if validation is None else validation
    objective, metrics = with_queries(
        objective, metrics, encoded.train, watched, params.seed, n_threads
    )
    watch = Watch(
        objective=objective,
        metrics=metrics if scored or validation is not None else (),
        sample=watched,
        rows="train" if validation is None else "validation",
        best=best_round_of(metrics[0], stopping, stops),
        by_out_of_bag=stopping.by_out_of_bag,
        callbacks=callbacks,
        n_rounds=params.n_estimators,
    )
    asked = constraints_of_inputs(params, encoded.inputs)
    forest = _grow(encoded, objective, asked, watch, n_threads, recorder)
    record = record_of(train.n_rows, params, watch)
    record |= _found_by_loss(train, objective, forest, n_threads)
    inputs = encoded.inputs
    if inputs is not None:
        inputs, forest = without_unused(inputs, forest)
        record["copies"] = encoded.n_copies
    return Model(forest, train.table.schema, objective.name, record, inputs)


def check_out_of_bag(params: BoostParams, n_rows: int) -> None:
    if params.sampling != "uniform":
        raise ParameterError(
            "early_stopping='oob' judges by the rows that a round leaves out, which "
            f"sampling={params.sampling!r} chooses by their gradients: they tell too little of the "
            "others. Use sampling='uniform', or another early_stopping."
        )
    if params.subsample >= 1.0 or params.boosting != "gbdt":
        raise ParameterError(
            "early_stopping='oob' watches the rows that a round leaves out: it needs subsample "
            f"below 1 (got {params.subsample!r}) and boosting='gbdt' (got {params.boosting!r})."
        )
    if (1.0 - params.subsample) * n_rows < 1.0:
        raise DataError(
            f"early_stopping='oob': with subsample={params.subsample!r} a round leaves out less "
            f"than one of {n_rows} rows on average; lower subsample."
        )


def _prepare(
    train: Sample,
    validation: Sample | None,
    objective: Objective,
    stopping: StoppingParams,
    seed: int,
) -> tuple[Sample, Sample | None, tuple[int, float] | None]:
    """Rows for training and validation, and ``(patience, min_delta)`` if the fit may stop."""
    train = train.without_zero_weights()
    objective.check_target(train.target)
    stops = stops_early(train, stopping, validation is not None)
    if validation is not None:
        validation = validation.without_zero_weights()
        objective.check_target(validation.target)
    elif stops and not stopping.by_out_of_bag:
        kept, aside = split_sample(train, objective, stopping.validation_fraction, seed)
        train, validation = train.take(kept), train.take(aside)
        # A category that only rows set aside have is no mistake of the user.
        train, validation = with_own_levels(train, validation, lenient=True)
        return train, validation, (stopping.patience, stopping.min_delta)
    train, validation = with_own_levels(train, validation)
    return train, validation, (stopping.patience, stopping.min_delta) if stops else None


def _grow(
    encoded: Encoded,
    objective: Objective,
    params: BoostParams,
    watch: Watch,
    n_threads: int,
    recorder: Recorder | None,
) -> Forest:
    """Run the rounds; the forest up to the best of them."""
    earlier = None if recorder is None else recorder.earlier
    if earlier is not None:
        earlier = earlier.head(params.n_estimators)
    seen, unseen = prepare_rows(encoded, params, n_threads)
    n_rows = encoded.train.n_rows // encoded.n_copies
    can_split = n_rows >= 2 * params.min_samples_leaf
    states = rounds(seen, objective, params, unseen, n_threads, earlier)
    with closing(states):
        for state in states:
            if not can_split:
                return state.freeze(0)
            if earlier is not None and state.n_rounds == earlier.n_rounds:
                stop = watch.take_over(earlier, state)
            else:
                stop = watch.after_round(state)
                if recorder is not None:
                    recorder.note(watch.last_round(state, stop))
            if stop:
                break
        watch.note_forest(state, seen)
        return state.freeze(watch.best.round if watch.best is not None else None)


def _found_by_loss(
    train: Sample, objective: Objective, forest: Forest, n_threads: int
) -> dict[str, Any]:
    """What a loss adds to the record once the trees are known: a baseline hazard."""
    describe: Callable[..., dict[str, Any]] | None = getattr(objective, "fit_record", None)
    if describe is None:
        return {}
    predictor = Predictor(forest, train.table.schema.kinds)
    raw = predictor.raw_scores(numbers_of(train.table), n_threads)
    if train.offset is not None:
        raw = raw + train.offset
    return describe(train.target, raw, train.weight)


__all__ = ["Sample", "StoppingParams", "fit"]
