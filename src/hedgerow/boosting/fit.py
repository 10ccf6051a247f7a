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

from hedgerow.boosting.budget import Budget, budget_of
from hedgerow.boosting.callbacks import (
    Callback,
    ProgressBar,
    check_callbacks,
    told_by,
)
from hedgerow.boosting.checkpoint import Checkpoint, Recorder, recording
from hedgerow.boosting.contest import with_resolved
from hedgerow.boosting.continuing import Start, with_known_levels
from hedgerow.boosting.cross_stopping import ChosenRounds, check_folds, choose_rounds
from hedgerow.boosting.fingerprint import Fingerprint, fingerprint
from hedgerow.boosting.following import follow
from hedgerow.boosting.magnitudes import check_differences, warn_of_no_split
from hedgerow.boosting.metric_groups import check_watched, read_groups
from hedgerow.boosting.positions import bias_record, bound, check_positions
from hedgerow.boosting.queries import check_queries, split_sample, stops_early
from hedgerow.boosting.rounds import TrainingData, resolve, rounds
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
from hedgerow.boosting.watch import Watch, best_round_of, found_by_loss, record_of
from hedgerow.errors import DataError, ParameterError
from hedgerow.growing.constraints import resolve_constraints
from hedgerow.metrics import (
    Metric,
    MetricChoice,
    make_metrics,
)
from hedgerow.model.forest import Forest
from hedgerow.model.model import Model
from hedgerow.objectives import Objective
from hedgerow.objectives.whole import AllRows
from hedgerow.params import BoostParams
from hedgerow.threads import resolve_threads


def fit(
    train: Sample,
    objective: Objective,
    params: BoostParams,
    *,
    validation: Sample | None = None,
    stopping: StoppingParams | None = None,
    eval_metric: MetricChoice = None,
    callbacks: Callback | Sequence[Callback] | None = None,
    progress: bool = False,
    n_jobs: int | None = None,
    checkpoint: Checkpoint | None = None,
    start: Start | None = None,
    finish: Callable[[Model], Model] = lambda model: model,
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
    eval_metric : str, callable, GroupedMetric or sequence of these, optional
        See :func:`hedgerow.metrics.make_metrics`.
    callbacks : callable or sequence of callables, optional
        See :mod:`hedgerow.boosting.callbacks`.
    progress : bool, default=False
        Draw a progress bar on standard error if that is a terminal.
    n_jobs : int, optional
        Threads; see :func:`hedgerow.threads.resolve_threads`.
    checkpoint : Checkpoint, optional
        Record the rounds, and go on from those that an earlier run has recorded.
    start : Start, optional
        A model whose trees the fit begins with; the rows are read with its columns.
    finish : callable, optional
        Makes of a trained model the one that is returned, and that callbacks see.

    Returns
    -------
    Model
        Its ``training`` record holds ``parameters``, ``history``,
        ``best_round`` (None without early stopping) and ``n_rows``; with target
        statistics also ``copies``, the times that each row was trained on; with
        ``start`` also ``init_rounds``, the rounds that were there before, and
        ``init_scores``, the scores after them.

    Raises
    ------
    DataError, ParameterError, LossError
        See the message; whatever a callback raises comes through.
    StorageError
        If the checkpoint cannot be read, or not be written when the fit begins.
    """
    n_threads = resolve_threads(n_jobs)
    params = resolve_constraints(resolve(params, objective), train.table.schema, objective)
    if start is not None:
        params = start.with_strategy(params, objective)
    params = resolve_strategy(params, objective)
    stopping = with_resolved(stopping or StoppingParams(), train.table.schema, objective)
    metrics = read_groups(make_metrics(eval_metric, objective), validation or train)
    listed = check_callbacks(callbacks)
    bar = ProgressBar() if progress else None
    told: tuple[Callback, ...] = listed if bar is None else (*listed, bar)
    named = () if eval_metric is None else metrics

    def describe() -> Fingerprint:
        found = fingerprint(train, validation, objective, params, stopping, named, n_threads)
        return found if start is None else start.identified(found, params)

    try:
        with budget_of(stopping) as budget, recording(checkpoint, describe) as recorder:
            model = _fit(
                train, validation, objective, params, stopping, metrics, bool(named), told,
                n_threads, recorder, budget, start, finish,
            )  # fmt: skip
            return told_by(bar, model)
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
    budget: Budget | None,
    start: Start | None,
    finish: Callable[[Model], Model],
) -> Model:
    """The fit itself, of arguments that are checked; ``scored`` also without validation rows."""
    _check(train, validation, objective, params, stopping, start)
    if start is not None:
        start.check(objective, params, train.table.schema)
        if start.rounds_to_add(params.n_estimators) == 0:
            return finish(start.model)
        params = start.params_to_add(params)
    train, validation, stops = _prepare(train, validation, objective, stopping, params.seed, start)
    check_watched(metrics, stopping, stops is not None)
    params = _with_out_of_bag(params, stopping, train.n_rows)
    chosen = None
    if stopping.by_folds and stops is not None:
        chosen = choose_rounds(train, objective, params, stopping, metrics, n_threads, budget)
        train, params, stops, scored = chosen.rows.sample, chosen.params, None, False
    encoded = _encoded(train, validation, objective, params, start, n_threads)
    watched = train if validation is None else validation
    objective, metrics = bound(objective, metrics, encoded.train, watched, params, n_threads, start)
    n_first = 0 if start is None else start.forest.n_rounds
    watch = Watch(
        objective=objective,
        metrics=metrics if scored or validation is not None else (),
        sample=watched,
        rows="train" if validation is None else "validation",
        best=best_round_of(metrics[0], stopping, stops),
        by_out_of_bag=stopping.by_out_of_bag,
        callbacks=callbacks,
        n_rounds=params.n_estimators + n_first,
        n_first=n_first,
        started=stopping.began,
        budget=budget,
    )

    def assemble(forest: Forest) -> Model:
        return finish(_assemble(forest, train, encoded, params, watch, chosen, start, n_threads))

    watch.assemble = assemble
    asked = constraints_of_inputs(params, encoded.inputs)
    if chosen is not None:
        watch.n_rounds, watch.history = chosen.n_rounds, {"cv": chosen.curves}
        asked = asked.with_rounds(chosen.n_rounds)
    rows = _rows_of(encoded, asked, chosen, start, n_threads)
    forest = _grow(rows, objective, asked, watch, n_threads, recorder)
    if watch.stopped_by == "rounds" and chosen is not None:
        watch.stopped_by = chosen.stopped_by(params.n_estimators)
    return assemble(forest)


def _check(
    train: Sample,
    validation: Sample | None,
    objective: Objective,
    params: BoostParams,
    stopping: StoppingParams,
    start: Start | None,
) -> None:
    """Raise for what does not go together."""
    check_queries(train, validation, objective, params, stopping)
    check_positions(train, objective, params)
    check_folds(stopping, validation is not None, start)


def _encoded(
    train: Sample,
    validation: Sample | None,
    objective: Objective,
    params: BoostParams,
    start: Start | None,
    n_threads: int,
) -> Encoded:
    """The rows with statistics of the target; a model that is gone on from has none."""
    if start is not None:
        return Encoded(train, validation)
    return encode(train, validation, objective, params, n_threads)


def _rows_of(
    encoded: Encoded,
    params: BoostParams,
    chosen: ChosenRounds | None,
    start: Start | None,
    n_threads: int,
) -> tuple[TrainingData, TrainingData | None, Forest | None]:
    """The rows as trees are grown on them, those to watch, and the trees to begin with."""
    data = None if chosen is None else chosen.rows.whole()
    if data is not None:
        return data, None, None
    return prepare_rows(encoded, params, n_threads, None, None if start is None else start.model)


def _assemble(
    forest: Forest,
    train: Sample,
    encoded: Encoded,
    params: BoostParams,
    watch: Watch,
    chosen: ChosenRounds | None,
    start: Start | None,
    n_threads: int,
) -> Model:
    """The model of a forest, with the record of its training."""
    record = record_of(train.n_rows, params, watch)
    if start is not None:
        record["parameters"]["learning_rate"] = start.rates_and(
            record["parameters"]["learning_rate"], watch.n_kept
        )
    if chosen is not None:
        record["best_round"] = min(chosen.n_rounds, watch.n_kept)
        record["folds"] = chosen.record_with(record["parameters"]["learning_rate"])
    record |= found_by_loss(train, watch.objective, forest, n_threads)
    record |= bias_record(watch.objective, forest.n_rounds - watch.n_first)
    inputs, schema = encoded.inputs, train.table.schema
    if inputs is not None:
        inputs, forest = without_unused(inputs, forest)
        record["copies"] = encoded.n_copies
    return Model(forest, schema, watch.objective.name, record, inputs, tuple(watch.seconds))


def _with_out_of_bag(params: BoostParams, stopping: StoppingParams, n_rows: int) -> BoostParams:
    """Settings with which rounds are judged by the rows that they leave out, if they are to be."""
    if not stopping.by_out_of_bag:
        return params
    check_out_of_bag(params, n_rows)
    return replace(params, oob_score=True)


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
    start: Start | None = None,
) -> tuple[Sample, Sample | None, tuple[int, float] | None]:
    """Rows for training and validation, and ``(patience, min_delta)`` if the fit may stop."""
    train = train.without_zero_weights()
    objective.check_target(train.target)
    check_differences(objective, [(train.target, train.weight, train.offset)])
    stops, lenient = stops_early(train, stopping, validation is not None), False
    if validation is not None:
        validation = validation.without_zero_weights()
        objective.check_target(validation.target)
    elif stops and not stopping.by_out_of_bag and not stopping.by_folds:
        kept, aside = split_sample(train, objective, stopping.validation_fraction, seed)
        train, validation = train.take(kept), train.take(aside)
        lenient = True  # a category that only rows set aside have is no mistake of the user
    if start is None:
        train, validation = with_own_levels(train, validation, lenient=lenient)
    else:
        train, validation = with_known_levels(train, validation, start.model.schema)
    return train, validation, (stopping.patience, stopping.min_delta) if stops else None


def _grow(
    rows: tuple[TrainingData, TrainingData | None, Forest | None],
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
    seen, unseen, first = rows
    if first is not None:
        watch.note_start((seen if unseen is None else unseen).start)
    states = rounds(
        seen, objective, params, unseen, n_threads, earlier, first, ready=watch.begin_rounds
    )
    with closing(states):
        if seen.matrix.n_rows // seen.n_copies < 2 * params.min_samples_leaf:  # no split
            state = next(states)
            return state.freeze(state.n_first)
        state = follow(states, watch, recorder)
        if watch.stopped_by != "interrupt":
            watch.note_forest(state, seen)
        forest = state.freeze(watch.n_kept)
    if first is None:
        warn_of_no_split(forest, objective, params, AllRows.of(seen.target, seen.weight))
    return forest


__all__ = ["Sample", "StoppingParams", "fit"]
