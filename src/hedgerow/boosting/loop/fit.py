"""The fit of a table.

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
from dataclasses import replace
from typing import TypeAlias

from hedgerow.boosting.automatic.blending import joined_members
from hedgerow.boosting.automatic.candidates import DataSize
from hedgerow.boosting.automatic.magnitudes import check_differences
from hedgerow.boosting.automatic.model_selection import of_folds, with_resolved
from hedgerow.boosting.loop.callbacks import with_bar
from hedgerow.boosting.loop.driver import (
    FitOptions,
    FitPlan,
    JoinedForest,
    PreparedRows,
    Stops,
    grow_model,
    make_ready,
    running,
    with_out_of_bag,
)
from hedgerow.boosting.loop.sample import Sample, with_own_levels
from hedgerow.boosting.loop.setup.resolved import resolve_device, resolved
from hedgerow.boosting.loop.setup.training_matrix import prepare_rows
from hedgerow.boosting.resume.checkpoint import Checkpoint
from hedgerow.boosting.resume.continuing import with_known_levels
from hedgerow.boosting.resume.fingerprint import Fingerprint, contents_of
from hedgerow.boosting.row_data.metric_groups import check_watched, read_groups
from hedgerow.boosting.row_data.queries import check_values, split_sample
from hedgerow.boosting.row_data.statistics import Encoded, constraints_of_inputs, encode
from hedgerow.boosting.validation.cross_stopping import check_folds, choose_rounds
from hedgerow.boosting.validation.fold_rows import FoldRows
from hedgerow.boosting.validation.folds import among_weighted
from hedgerow.boosting.validation.row_sets import parts_of
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.metrics import make_metrics
from hedgerow.model.forest import Forest
from hedgerow.model.model import Model
from hedgerow.objectives import Objective
from hedgerow.params import BoostParams
from hedgerow.threads import resolve_threads

Choose: TypeAlias = "Callable[[DataSize], tuple[BoostParams, StoppingParams]]"
"""Function that chooses parameters for rows of a size
(:func:`hedgerow.boosting.automatic.defaults.choose`)."""


GivenRows: TypeAlias = tuple[Sample, Sample | None]
"""Training and validation rows without rows of weight 0 and, in a new model, unused categories."""


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
    """Train a model."""
    plan, given = plan_of(
        train, objective, params, options or FitOptions(),
        validation=validation, finish=finish, choose=choose,
    )  # fmt: skip

    def describe() -> Fingerprint:
        rows, others = given
        named = plan.metrics if plan.is_scored else ()
        sets = () if others is None or others.sets is None else others.sets.names
        contents = contents_of(rows, others, named, plan.n_threads)
        return plan.fingerprint(contents, rows.n_rows, sets)

    with running(plan, checkpoint, describe) as (budget, recorder):
        if plan.start is not None and plan.start.rounds_to_add(plan.params.n_estimators) == 0:
            return plan.finish(plan.start.model)
        own, rows, stops = with_rows_aside(plan, given)
        chosen, prepared = None, None
        if own.stopping.by_folds and stops is not None:
            faster = of_folds(own.params, own.stopping.stride)
            folds = FoldRows(rows[0], objective, faster, own.n_threads)
            chosen = choose_rounds(folds, own, budget)
            assert isinstance(chosen.rows, FoldRows)
            own, stops = replace(own, params=chosen.params, is_scored=False), None
            rows, prepared = (chosen.rows.sample, None), chosen.rows.whole()
        if prepared is None:
            prepared = prepare(own, rows)
        runs_ahead = recorder is None and budget is None
        ready = make_ready(own, prepared, stops, chosen, budget, runs_ahead)
        members = own.stopping.members if chosen is None else chosen.members

        def prepare_again(params: BoostParams) -> PreparedRows:
            return prepare(replace(own, params=params), (rows[0], None))

        def join(forest: Forest) -> JoinedForest | None:
            return joined_members(forest, ready.inputs, own, members, prepare_again)

        return grow_model(ready, recorder, join) if members else grow_model(ready, recorder)


def plan_of(
    train: Sample,
    objective: Objective,
    params: BoostParams,
    options: FitOptions,
    *,
    validation: Sample | None = None,
    finish: Callable[[Model], Model] = lambda model: model,
    choose: Choose | None = None,
) -> tuple[FitPlan, GivenRows]:
    """Return the resolved plan of a fit and its rows; arguments as for :func:`fit`."""
    start, stopping = options.start, options.stopping
    requested = make_metrics(options.eval_metric, objective)
    metrics = read_groups(requested, validation or train)
    of_train = read_groups(requested, train) if stopping.train_scores else ()
    folds = among_weighted(options.folds, train.weight, "folds")
    train = train.without_zero_weights()
    validation = None if validation is None else validation.without_zero_weights()
    if start is None:
        train, validation = with_own_levels(train, validation)
    if choose is not None:
        params, stopping = choose(DataSize.of(train, objective))
    schema = train.table.schema
    params = resolve_device(resolved(params, objective, schema, start), train.table)
    stopping = with_resolved(stopping, schema, objective)
    if folds:
        stopping = replace(stopping, folds=(len(folds), len(folds)))
    check_values(train, validation, objective, params, stopping)
    check_folds(stopping, validation is not None, start, bool(folds))
    if start is not None:
        start.check(objective, params, schema)
    callbacks, bar = with_bar(options.callbacks, options.progress)
    plan = FitPlan(
        objective, params, stopping, metrics, of_train, options.eval_metric is not None, callbacks,
        bar, resolve_threads(options.n_jobs), start, finish, folds,
    )  # fmt: skip
    return plan, (train, validation)


def with_rows_aside(plan: FitPlan, given: GivenRows) -> tuple[FitPlan, GivenRows, Stops]:
    """Return the plan of the rounds to add, and its rows; early stopping may hold some out."""
    objective, stopping, start, (train, validation) = (
        plan.objective, plan.stopping, plan.start, given,
    )  # fmt: skip
    with train.naming_rows():
        objective.check_target(train.target)
    check_differences(objective, [(train.target, train.weight, train.offset)])
    stops = stopping.is_on(validation is not None)
    if validation is not None:
        with validation.naming_rows():
            objective.check_target(validation.target)
    elif stopping.sets_rows_aside:
        kept, aside = split_sample(train, objective, stopping, plan.params.seed)
        train, validation = train.take(kept), train.take(aside)
        if start is None:  # a category that occurs only in held-out rows is not an error
            train, validation = with_own_levels(train, validation, lenient=True)
    params = plan.params
    if start is not None:
        params = start.params_to_add(params)
        train, validation = with_known_levels(train, validation, start.model.schema)
    check_watched(plan.metrics, stopping, stops)
    params = with_out_of_bag(params, stopping, train.n_rows)
    limits = (stopping.patience, stopping.min_delta) if stops else None
    return replace(plan, params=params), (train, validation), limits


def prepare(plan: FitPlan, given: GivenRows) -> PreparedRows:
    """Encode the rows, and bin them or sort their columns; a continued model has no statistics."""
    (train, validation), params, n_threads = given, plan.params, plan.n_threads
    encoded = Encoded(train, validation)
    if plan.start is None:
        encoded = encode(train, validation, plan.objective, params, n_threads)
    own = constraints_of_inputs(params, encoded.inputs)
    before = None if plan.start is None else plan.start.model
    seen, unseen, first = prepare_rows(encoded, own, n_threads, None, before)
    return PreparedRows(
        train, encoded.train, seen, () if unseen is None else (unseen,),
        () if validation is None else parts_of(validation), encoded.inputs, first,
    )  # fmt: skip
