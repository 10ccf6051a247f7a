"""Preparation of a fit for its first round: held-out rows, encoding, bins, the watch.

::

    FitPlan   rows of positive weight, and parameters, checked and resolved
      |
    Ready     rows as trees are grown on them, loss and metrics bound to them, a watch
      |
    rounds    boosting.training_loop runs all; hedgerow.Training runs them one by one
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from hedgerow.boosting.automatic.data_size import DataSize
from hedgerow.boosting.automatic.magnitudes import check_differences
from hedgerow.boosting.automatic.model_selection import with_resolved
from hedgerow.boosting.loop.callbacks import Callback, ProgressBar, with_bar
from hedgerow.boosting.loop.fit_rows import FitRows
from hedgerow.boosting.loop.sample import Sample, with_own_levels
from hedgerow.boosting.loop.scored import ScoredRows
from hedgerow.boosting.loop.scores import TrainingData
from hedgerow.boosting.loop.setup.devices import resolve_device
from hedgerow.boosting.loop.setup.options import FitOptions
from hedgerow.boosting.loop.setup.resolved import resolve
from hedgerow.boosting.loop.setup.strategy import resolve_strategy
from hedgerow.boosting.loop.setup.training_matrix import prepare_rows
from hedgerow.boosting.loop.watch import Watch, best_round_of, found_by_loss, record_of
from hedgerow.boosting.resume.continuing import Start, with_known_levels
from hedgerow.boosting.row_data.metric_groups import bound_metrics, check_watched, read_groups
from hedgerow.boosting.row_data.positions import bias_record, with_positions
from hedgerow.boosting.row_data.queries import (
    check_values,
    split_sample,
    with_queries,
)
from hedgerow.boosting.row_data.statistics import (
    Encoded,
    assembled,
    constraints_of_inputs,
    encode,
)
from hedgerow.boosting.validation.budget import Budget
from hedgerow.boosting.validation.cross_stopping import ChosenRounds, check_folds, choose_rounds
from hedgerow.boosting.validation.row_sets import TRAINING, parts_of
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.data.inputs import Inputs
from hedgerow.data.schema import Schema
from hedgerow.errors import DataError, ParameterError
from hedgerow.growing.limits.constraints import resolve_constraints
from hedgerow.metrics import Metric, make_metrics
from hedgerow.model.forest import Forest
from hedgerow.model.model import Model
from hedgerow.objectives import Objective
from hedgerow.params import BoostParams
from hedgerow.threads import resolve_threads

Choose: TypeAlias = "Callable[[DataSize], tuple[BoostParams, StoppingParams]]"
"""Function that chooses parameters for rows of a size
(:func:`hedgerow.boosting.automatic.defaults.choose`)."""


@dataclass(frozen=True, slots=True, eq=False)
class FitPlan:
    """The resolved arguments of a fit.

    Attributes
    ----------
    train, validation : Sample
        Without rows of weight 0 and, in a new model, without categories that occur only there.
    params : BoostParams
        With column positions instead of names.
    metrics : tuple of Metric
        For the validation rows, or for the training rows if there are none.
    of_train : tuple of Metric
        For the training rows, if they are scored in addition to validation rows.
    is_scored : bool
        Whether training rows are scored if there are no validation rows.
    callbacks : tuple of callable
    bar : ProgressBar or None
        The one among the callbacks; the caller closes it.
    """

    train: Sample
    validation: Sample | None
    objective: Objective
    params: BoostParams
    stopping: StoppingParams
    metrics: tuple[Metric, ...]
    of_train: tuple[Metric, ...]
    is_scored: bool
    callbacks: tuple[Callback, ...]
    bar: ProgressBar | None
    n_threads: int
    start: Start | None
    finish: Callable[[Model], Model]

    @property
    def has_nothing_to_add(self) -> bool:
        """Whether the model to continue already has all requested rounds."""
        return self.start is not None and self.start.rounds_to_add(self.params.n_estimators) == 0


def plan_of(
    train: Sample,
    objective: Objective,
    params: BoostParams,
    options: FitOptions,
    *,
    validation: Sample | None = None,
    finish: Callable[[Model], Model] = lambda model: model,
    choose: Choose | None = None,
) -> FitPlan:
    """Return the resolved plan of a fit; arguments as :func:`hedgerow.boosting.loop.fit.fit`.

    Groups of metrics are those of the given rows.  Everything else is decided after rows of
    weight 0 are gone.
    """
    start, n_threads = options.start, resolve_threads(options.n_jobs)
    stopping, requested = options.stopping, make_metrics(options.eval_metric, objective)
    metrics = read_groups(requested, validation or train)
    of_train = read_groups(requested, train) if stopping.train_scores else ()
    train = train.without_zero_weights()
    validation = None if validation is None else validation.without_zero_weights()
    if start is None:
        train, validation = with_own_levels(train, validation)
    if choose is not None:
        params, stopping = choose(DataSize.of(train, objective))
    params = resolve_constraints(resolve(params, objective), train.table.schema, objective)
    if start is not None:
        params = start.with_strategy(params, objective)
    params = resolve_device(resolve_strategy(params, objective), train.table)
    stopping = with_resolved(stopping, train.table.schema, objective)
    listed, bar = with_bar(options.callbacks, options.progress)
    return FitPlan(
        train,
        validation,
        objective,
        params,
        stopping,
        metrics,
        of_train,
        options.eval_metric is not None,
        listed,
        bar,
        n_threads,
        start,
        finish,
    )


class ModelRows(NamedTuple):
    """What a model tells about its training rows.

    n_rows    of all ranks, without copies
    schema    of the user's columns
    inputs    of the trees, if they differ from the columns
    n_copies  of each row
    """

    n_rows: int
    schema: Schema
    inputs: Inputs | None
    n_copies: int


@dataclass(frozen=True, slots=True, eq=False)
class Ready:
    """A fit before its first round.

    Attributes
    ----------
    rows : FitRows
        Training and validation rows, with parameters for the columns that trees split.
    chosen : ChosenRounds or None
        Result of early stopping by folds.
    assemble : callable
        Makes a model from a forest.
    inputs : Inputs or None
        Inputs of the trees, if they differ from the columns of the table.
    """

    rows: FitRows
    watch: Watch
    chosen: ChosenRounds | None
    assemble: Callable[[Forest], Model]
    inputs: Inputs | None = None


def make_ready(plan: FitPlan, budget: Budget | None, may_run_ahead: bool = False) -> Ready:
    """Prepare the rows; with folds, also choose the number of rounds.

    ``may_run_ahead``: whether nothing but early stopping follows each round.
    """
    stopping, n_threads, params = plan.stopping, plan.n_threads, plan.params
    start, scored, metrics = plan.start, plan.is_scored, plan.metrics
    check_plan(plan)
    if start is not None:
        params = start.params_to_add(params)
    train, validation, stops = _prepare(plan)
    check_watched(metrics, stopping, stops is not None)
    params = with_out_of_bag(params, stopping, train.n_rows)
    chosen = None
    if stopping.by_folds and stops is not None:
        chosen = choose_rounds(
            train, plan.objective, params, stopping, metrics, n_threads, budget, plan.callbacks
        )
        assert chosen.rows is not None
        train, params, stops, scored = chosen.rows.sample, chosen.params, None, False
    encoded = _encoded(train, validation, plan.objective, params, start, n_threads)
    watch, parts = _watch_of(plan, train, validation, encoded, params, stops, scored, budget)

    of_model = ModelRows(train.n_rows, train.table.schema, encoded.inputs, encoded.n_copies)

    def assemble(forest: Forest) -> Model:
        found = found_by_loss(train, encoded.inputs, watch.objective, forest, n_threads)
        model = model_of(forest, watch, params, of_model, chosen, start, found)
        return plan.finish(model)

    requested = constraints_of_inputs(params, encoded.inputs)
    if chosen is not None:
        watch.n_rounds, watch.history = chosen.n_rounds, {"cv": chosen.curves}
        requested = requested.with_rounds(chosen.n_rounds)
    data, unseen, first = _rows_of(encoded, requested, chosen, start, n_threads)
    validation_rows = () if unseen is None else (unseen,)
    rows = FitRows(
        data, watch.objective, requested, validation_rows, n_threads, first, parts,
        may_run_ahead=may_run_ahead and not plan.callbacks,
    )  # fmt: skip
    rows.names = train.row_names
    if first is not None:
        watch.note_start(rows.scores())
    return Ready(rows, watch, chosen, assemble, encoded.inputs)


def _watch_of(
    plan: FitPlan,
    train: Sample,
    validation: Sample | None,
    encoded: Encoded,
    params: BoostParams,
    stops: tuple[int, float] | None,
    scored: bool,
    budget: Budget | None,
) -> tuple[Watch, tuple[ScoredRows, ...]]:
    """Return the watch of the rounds and the scored rows, with metrics bound to them."""
    stopping, start = plan.stopping, plan.start
    objective = with_queries(plan.objective, encoded.train, params.seed, plan.n_threads)
    objective = with_positions(objective, encoded.train.position, params, start)
    found = _scored_rows(plan, train, validation, objective)
    first, n_first = found[0].metrics[0], 0 if start is None else start.forest.n_rounds
    if not (scored or stopping.train_scores or validation is not None):
        found = ()
    watch = Watch(
        objective=objective,
        scored={part.name: part.metrics for part in found},
        best=best_round_of(first, stopping, stops),
        by_out_of_bag=stopping.by_out_of_bag,
        callbacks=plan.callbacks,
        n_rounds=params.n_estimators + n_first,
        n_first=n_first,
        started=stopping.began,
        budget=budget,
    )
    return watch, found


def _scored_rows(
    plan: FitPlan, train: Sample, validation: Sample | None, objective: Objective
) -> tuple[ScoredRows, ...]:
    """Return the rows for metrics: validation sets and, without them or if asked, training rows."""
    found, of_train = list[ScoredRows](), plan.metrics
    if validation is not None:
        of_train = plan.of_train
        for name, place, part in parts_of(validation):
            own = bound_metrics(plan.metrics, part, objective)
            found.append(
                ScoredRows(name, own, part.target, part.weight, place, names=part.row_names)
            )
    if of_train:
        own = bound_metrics(of_train, train, objective)
        rows = slice(0, train.n_rows)  # the first of its copies
        found.append(
            ScoredRows(TRAINING, own, train.target, train.weight, rows, True, train.row_names)
        )
    return tuple(found)


def check_plan(plan: FitPlan) -> None:
    """Raise ``ParameterError`` or ``DataError`` for options that conflict."""
    train, objective, params = plan.train, plan.objective, plan.params
    check_values(train, plan.validation, objective, params, plan.stopping)
    check_folds(plan.stopping, plan.validation is not None, plan.start)
    if plan.start is not None:
        plan.start.check(objective, params, train.table.schema)


def _encoded(
    train: Sample,
    validation: Sample | None,
    objective: Objective,
    params: BoostParams,
    start: Start | None,
    n_threads: int,
) -> Encoded:
    """Encode the rows with target statistics; a continued model has none."""
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
    """Return training rows, validation rows and initial trees in the form for the grower."""
    data = None if chosen is None or chosen.rows is None else chosen.rows.whole()
    if data is not None:
        return data, None, None
    return prepare_rows(encoded, params, n_threads, None, None if start is None else start.model)


def model_of(
    forest: Forest,
    watch: Watch,
    params: BoostParams,
    rows: ModelRows,
    chosen: ChosenRounds | None,
    start: Start | None,
    found: dict[str, Any],
) -> Model:
    """Return the model of a forest, with its training record.

    ``found`` is what the loss adds to the record.
    """
    record = record_of(rows.n_rows, params, watch)
    if start is not None:
        start.complete(record, watch.n_kept)
    if chosen is not None:
        chosen.complete(record, watch.n_kept)
    record |= found
    record |= bias_record(watch.objective, forest.n_rounds - watch.n_first)
    return assembled(
        forest, rows.schema, watch.objective, record, rows.inputs, rows.n_copies, watch.seconds
    )


def with_out_of_bag(params: BoostParams, stopping: StoppingParams, n_rows: int) -> BoostParams:
    """Turn on out-of-bag scores if early stopping uses them."""
    if not stopping.by_out_of_bag:
        return params
    check_out_of_bag(params, n_rows)
    return replace(params, oob_score=True)


def check_out_of_bag(params: BoostParams, n_rows: int) -> None:
    """Raise an error unless rounds leave out rows that represent the others."""
    if params.sampling != "uniform":
        raise ParameterError(
            "early_stopping='oob' scores the rows that a round leaves out, but "
            f"sampling={params.sampling!r} chooses them by gradient, so they do not represent all "
            "rows. Use sampling='uniform', or another early_stopping."
        )
    if params.subsample >= 1.0 or params.boosting != "gbdt":
        raise ParameterError(
            "early_stopping='oob' watches the rows that a round leaves out: it needs subsample "
            f"below 1 (here {params.subsample!r}) and boosting='gbdt' (here {params.boosting!r})."
        )
    if (1.0 - params.subsample) * n_rows < 1.0:
        raise DataError(
            f"early_stopping='oob': with subsample={params.subsample!r} a round leaves out fewer "
            f"than one of {n_rows} rows on average; lower subsample."
        )


def _prepare(plan: FitPlan) -> tuple[Sample, Sample | None, tuple[int, float] | None]:
    """Split rows into training and validation; with ``(patience, min_delta)`` if stopping is on."""
    objective, stopping, start = plan.objective, plan.stopping, plan.start
    train, validation = plan.train, plan.validation
    with train.row_names.reported():
        objective.check_target(train.target)
    check_differences(objective, [(train.target, train.weight, train.offset)])
    stops = stopping.is_on(validation is not None)
    if validation is not None:
        with validation.row_names.reported():
            objective.check_target(validation.target)
    elif stopping.sets_rows_aside:
        kept, aside = split_sample(train, objective, stopping, plan.params.seed)
        train, validation = train.take(kept), train.take(aside)
        if start is None:  # a category that occurs only in held-out rows is not an error
            train, validation = with_own_levels(train, validation, lenient=True)
    if start is not None:
        train, validation = with_known_levels(train, validation, start.model.schema)
    return train, validation, (stopping.patience, stopping.min_delta) if stops else None
