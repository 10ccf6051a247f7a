"""The fit of the rows of a :class:`~hedgerow.boosting.loop.setup.job.FitSpec`.

Rows of weight 0 are dropped, and validation rows held out; target statistics replace categories
with many levels; bins follow, and the rounds (:mod:`hedgerow.boosting.loop.driver`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from hedgerow.boosting.automatic.blending import joined_members
from hedgerow.boosting.automatic.magnitudes import check_differences
from hedgerow.boosting.automatic.model_selection import ModelSelection, of_folds, with_resolved
from hedgerow.boosting.automatic.recipe import DataSize
from hedgerow.boosting.loop.callbacks import with_bar
from hedgerow.boosting.loop.driver import FitOptions, FitPlan, GivenRows, grow_forest, make_ready
from hedgerow.boosting.loop.rank_leaves import check_rule
from hedgerow.boosting.loop.sample import Sample, with_own_levels
from hedgerow.boosting.loop.scored import Ranks
from hedgerow.boosting.loop.setup.job import FitSpec, needs_all_rows
from hedgerow.boosting.loop.setup.resolved import resolve_device, resolved
from hedgerow.boosting.resume.checkpoint import Recorder, fingerprint_of
from hedgerow.boosting.row_data.queries import check_values, split_sample
from hedgerow.boosting.validation.cross import FoldRows
from hedgerow.boosting.validation.folds import Fold, among_weighted, folds_of
from hedgerow.boosting.validation.stopping import StoppingParams, budget_of, check_folds
from hedgerow.comm.base import Communicator, count_rows, gather_numbers
from hedgerow.errors import AllRowsNeededError, DataError
from hedgerow.metrics import MetricChoice, make_metrics
from hedgerow.model.model import Model
from hedgerow.objectives import Objective
from hedgerow.params import BoostParams
from hedgerow.threads import resolve_threads

Choose: TypeAlias = "Callable[[Objective, DataSize, bool], tuple[BoostParams, StoppingParams]]"
"""Function that chooses parameters for a loss and rows of a size, with or without validation rows
(:func:`hedgerow.boosting.automatic.defaults.choose`)."""


def fit(
    spec: FitSpec,
    params: BoostParams,
    options: FitOptions | None = None,
    *,
    choose: Choose | None = None,
    ranks: Ranks | None = None,
) -> Model:
    """Train a model; tables of files are those of this rank, and each validation set is one."""
    options, objective = options or FitOptions(), spec.objective
    on_cluster, ranks = ranks is not None, ranks or Ranks()
    if on_cluster and needs_all_rows(objective):
        raise AllRowsNeededError(
            f"objective {getattr(objective, 'label', objective.name)!r} compares all rows, "
            "which workers of a cluster do not have: use a loss of single rows, or train "
            "on a table in memory."
        )
    plan, given = plan_of(spec, params, options, choose=choose, ranks=ranks)
    recorder: Recorder | None = None
    with ExitStack() as stack:
        if plan.bar is not None:
            stack.callback(plan.bar.close)
        budget = budget_of(plan.stopping)
        if options.checkpoint is not None:
            # A cluster checks its partitions itself, and may divide them anew.
            identity = fingerprint_of(plan, given, ranks.others, with_contents=not on_cluster)
            recorder = Recorder(options.checkpoint, identity)
            stack.callback(recorder.write, last=True)
        if plan.start is not None and plan.start.rounds_to_add(plan.params.n_estimators) == 0:
            return plan.finish(plan.start.model)
        own, rows = with_rows_aside(plan, given)
        chosen, prepared = None, None
        if own.stopping.by_folds:
            faster = of_folds(own.params, own.stopping.search.stride)
            folds = FoldRows(rows[0], objective, faster, own.n_threads)
            chosen = ModelSelection(own, folds, budget).choose()
            chosen.rows.close()
            own = replace(own, params=chosen.params, is_scored=False, limits=None)
            rows, prepared = (chosen.rows.sample, ()), chosen.rows.whole
        if prepared is None:
            prepared = own.prepared(rows)
        runs_ahead = recorder is None and budget is None
        ready = make_ready(own, prepared, chosen, budget, runs_ahead)
        watch = ready.watch
        watch.assemble = ready.assemble  # for callbacks
        try:
            forest = grow_forest(ready.state, watch, recorder)
        finally:  # this frees the rows when the fit ends: they refer to this watch
            watch.assemble = None
        members = own.stopping.members
        if chosen is not None:
            members, fewer = chosen.members, chosen.n_rounds < chosen.params.n_estimators
            if watch.stopped_by == "rounds" and fewer:
                watch.stopped_by = "early_stopping"
        joined = None
        if members and watch.stopped_by not in ("callback", "time_budget", "interrupt"):
            joined = joined_members(forest, ready.rows.inputs, own, members, rows[0])
        model = ready.assemble(*(joined or (forest,)))
        if plan.bar is not None:
            plan.bar.tell(model.training)
        return model


def plan_of(
    spec: FitSpec,
    params: BoostParams,
    options: FitOptions,
    *,
    choose: Choose | None = None,
    ranks: Ranks | None = None,
) -> tuple[FitPlan, GivenRows]:
    """Return the resolved plan of a fit and its rows; arguments as for :func:`fit`."""
    train, objective, start = spec.train, spec.objective, spec.start
    stopping, ranks, sets = options.stopping, ranks or Ranks(), tuple(spec.validation)
    metrics = make_metrics(options.eval_metric, objective)
    folds: list[Fold] = []
    if options.folds is not None:
        folds = folds_of(options.folds, spec, params.seed, "folds")
        folds = among_weighted(folds, train.weight, "folds")
    train = train.without_zero_weights()
    sets = tuple(rows.without_zero_weights() for rows in sets)
    if start is None:
        train, sets = with_own_levels(train, sets)
    if choose is not None:
        params, stopping = choose(objective, DataSize.of(train, objective), bool(sets))
    schema = train.table.schema
    params = resolve_device(resolved(params, objective, schema, start), train.table)
    stopping = with_resolved(stopping, schema, objective)
    if folds:
        search = replace(stopping.search, folds=(len(folds), len(folds)))
        stopping = replace(stopping, search=search)
    check_values(
        train, sets, objective, params, stopping, has_folds=bool(folds), others=ranks.others
    )
    check_folds(stopping, bool(sets), start, bool(folds))
    if start is not None:
        start.check(objective, params, schema)
    if ranks.others.size > 1 and params.leaf_estimation == "line_search":
        check_rule(objective, 0)
    callbacks, bar = with_bar(options.callbacks, options.progress and ranks.communicator.rank == 0)
    plan = FitPlan(
        objective, params, stopping, metrics, options.eval_metric is not None, callbacks, bar,
        resolve_threads(options.n_jobs), start, spec.finish, folds,
        ranks,
    )  # fmt: skip
    return plan, (train, sets)


def rows_of_folds(
    spec: FitSpec, params: BoostParams, stopping: StoppingParams, metric: MetricChoice, n_jobs: int
) -> tuple[FoldRows, FitPlan]:
    """Check the rows that the folds of a user divide; return those to divide, and the plan."""
    # Groups divide the folds, whose test rows are the validation rows.  Each fold has a model of
    # its own, which the caller finishes.
    own = FitSpec(replace(spec.train, group=None, time=None), spec.objective)
    plan, (train, _) = plan_of(own, params, FitOptions(stopping, metric, n_jobs=n_jobs))
    check_targets(train, plan.objective, Ranks().others)
    return FoldRows(train, plan.objective, plan.params, plan.n_threads), plan


def with_rows_aside(plan: FitPlan, given: GivenRows) -> tuple[FitPlan, GivenRows]:
    """Return the plan of the rounds to add, and its rows; early stopping may hold some out."""
    objective, stopping, start, ranks = plan.objective, plan.stopping, plan.start, plan.ranks
    train, sets = given
    for rows in (train, *sets):
        check_targets(rows, objective, ranks.others)
    check_differences(objective, ranks.rows(train))
    limits = (stopping.patience, stopping.min_delta) if stopping.is_on(bool(sets)) else None
    if not sets and stopping.sets_rows_aside:
        kept, aside = split_sample(train, objective, stopping, plan.params.seed)
        train, sets = train.take(kept), [train.take(aside)]
        if start is None:  # a category that occurs only in held-out rows is not an error
            train, sets = with_own_levels(train, sets, lenient=True)
    params = plan.params
    if start is not None:
        params = start.params_to_add(params)
        train, sets = with_own_levels(train, sets, known=start.model.schema, lenient=True)
    return replace(plan, params=params, limits=limits), (train, sets)


def check_targets(rows: Sample, objective: Objective, others: Communicator) -> None:
    """Check the targets of all ranks, which all raise the error of the first wrong one."""
    if others.size == 1:
        with rows.naming_rows():
            objective.check_target(rows.target)
        return
    first_row = count_rows(rows.n_rows, others)[0]
    columns = np.atleast_2d(rows.target.T)
    origin = np.concatenate([gather_numbers(y[:1], others)[:1] for y in columns])
    fault = b""
    if rows.n_rows > 0:
        try:
            with rows.naming_rows():
                objective.check_target(rows.target, first_row, origin)
        except DataError as error:
            fault = str(error).encode()
    faults = [text.decode() for text in others.allgather(fault) if text]
    if faults:
        raise DataError(faults[0])
