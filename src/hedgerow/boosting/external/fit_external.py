"""Training on rows in chunks, on one or several ranks; like :mod:`hedgerow.boosting.loop.fit`.

The model has the same bytes as a model of all rows in memory.  Trees are computed from sums of
integers (:mod:`hedgerow.growing.chunks.grower`), and all other sums over rows are exact
(:mod:`hedgerow.kernels.primitives.exact_sum`).

::

    ExternalSample  -- checks: domain of the targets, weights and offsets on all ranks or none
      |
    rounds          -- hedgerow.boosting.loop.rounds, on the rows of fit_rows
      |
    Forest up to the best round  ->  Model
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.boosting.automatic.magnitudes import check_differences
from hedgerow.boosting.external.dataset.continued import resolved_to_continue
from hedgerow.boosting.external.external_sample import ExternalSample
from hedgerow.boosting.external.queries import metrics_of_all, positions_of_all
from hedgerow.boosting.loop.callbacks import (
    Callback,
    with_bar,
    with_final_report,
)
from hedgerow.boosting.loop.fit import grow_model
from hedgerow.boosting.loop.fit_rows import FitRows
from hedgerow.boosting.loop.rank_leaves import check_rule
from hedgerow.boosting.loop.ranks import Ranks
from hedgerow.boosting.loop.sample import counted_rows
from hedgerow.boosting.loop.scored import ScoredRows, Tally
from hedgerow.boosting.loop.setup.loss_spec import check_queries_given
from hedgerow.boosting.loop.setup.options import FitOptions
from hedgerow.boosting.loop.setup.ready import ModelRows, Ready, model_of, with_out_of_bag
from hedgerow.boosting.loop.watch import Watch, best_round_of
from hedgerow.boosting.resume.checkpoint import Recorder
from hedgerow.boosting.resume.continuing import Start
from hedgerow.boosting.row_data.metric_groups import refuse_groups
from hedgerow.boosting.row_data.positions import with_positions
from hedgerow.boosting.row_data.statistics import constraints_of_inputs
from hedgerow.boosting.validation.budget import budget_of
from hedgerow.boosting.validation.cross_stopping import ChosenRounds
from hedgerow.boosting.validation.row_sets import TRAINING
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.comm.base import Alone, Communicator
from hedgerow.data.sparse import numbers_of
from hedgerow.errors import DataError, ParameterError
from hedgerow.growing.chunks.exchange import GrowMode
from hedgerow.metrics import Metric, MetricChoice, make_metrics
from hedgerow.metrics.queries import query_rows
from hedgerow.model.forest import Forest
from hedgerow.model.model import Model
from hedgerow.model.predict import Predictor
from hedgerow.objectives import Objective
from hedgerow.objectives.ranking.complete import CompleteQueries
from hedgerow.objectives.ranking.losses import RankingLoss
from hedgerow.objectives.targets import check_part
from hedgerow.params import BoostParams
from hedgerow.threads import resolve_threads

if TYPE_CHECKING:
    from hedgerow.growing.chunks.space import Spaces


def fit_external(
    train: ExternalSample,
    objective: Objective,
    params: BoostParams,
    options: FitOptions | None = None,
    *,
    validation: Mapping[str, ExternalSample] | None = None,
    communicator: Communicator | None = None,
    mode: GrowMode = "data",
    recorder: Recorder | None = None,
    chosen: ChosenRounds | None = None,
) -> Model:
    """Train a model on rows in chunks.

    All ranks call this function with the same arguments, except for the samples.
    """
    check_queries_given(objective, train.values.query is not None)
    options, sets = options or FitOptions(), validation or {}
    ranks = Ranks(communicator or Alone(), mode, train.first_row)
    stopping, start, eval_metric = options.stopping, options.start, options.eval_metric
    params = resolve_external(params, objective, train, start)
    objective = with_positions(objective, positions_of_all(train, ranks.others), params, start)
    metrics = row_metrics(eval_metric, objective)
    listed, bar = with_bar(options.callbacks, options.progress and ranks.communicator.rank == 0)
    scored = bool(sets) or (eval_metric is not None and chosen is None) or stopping.train_scores
    watched = dict(sets)
    if scored and (stopping.train_scores or not sets):
        watched[TRAINING] = train
    n_rows = check_targets(train, objective, ranks.others, learned=True) // train.n_copies
    for sample in sets.values():
        check_targets(sample, objective, ranks.others)
    stops = chosen is None and stopping.is_on(bool(sets))
    params = _stopping_params(stopping, stops, bool(sets), params, n_rows)
    known = {
        name: metrics_of_all(metrics, objective, rows, ranks.others, scored, params.oob_score)
        for name, rows in (watched or {TRAINING: train}).items()
    }
    watch = _watch_of(known, scored, objective, stops, stopping, listed, params, start)
    n_threads = resolve_threads(options.n_jobs)

    of_model = ModelRows(n_rows, train.schema, train.inputs, train.n_copies)

    def assemble(forest: Forest) -> Model:
        found = _found_by_loss(forest, objective, train, n_threads)
        return model_of(forest, watch, params, of_model, chosen, start, found)

    try:
        with budget_of(stopping) as watch.budget:
            own = constraints_of_inputs(params, train.inputs)
            if chosen is not None:
                watch.n_rounds, watch.history = chosen.n_rounds, {"cv": chosen.curves}
                own = own.with_rounds(chosen.n_rounds)
            scored_metrics = {name: known[name] for name in watched}
            rows = rows_of_fit(train, sets, scored_metrics, objective, own, n_threads, ranks)
            if start is not None:
                watch.note_start(rows.scores())
            ready = Ready(rows, watch, chosen, assemble)
            return with_final_report(bar, grow_model(ready, recorder, ranks.communicator))
    finally:
        if bar is not None:
            bar.close()


def rows_of_fit(
    train: ExternalSample,
    sets: Mapping[str, ExternalSample],
    metrics: Mapping[str, tuple[Metric, ...]],
    objective: Objective,
    params: BoostParams,
    n_threads: int,
    ranks: Ranks,
    spaces: Spaces | None = None,
) -> FitRows:
    """Return the rows of a fit; ``metrics`` are those of the rows that are scored, by name.

    Training rows have the name ``TRAINING``.
    """
    alone, others = ranks.communicator.size == 1, ranks.others
    data = train.data(objective, params, alone)
    validation = [rows.data(objective, params, others.size == 1) for rows in sets.values()]
    loss = objective
    if isinstance(objective, RankingLoss):
        loss = _of_queries(objective, train, params.seed, n_threads, ranks)
    elif others.size > 1 and params.leaf_estimation == "line_search":
        check_rule(objective, 0)
    scored = []
    for name, own in metrics.items():
        of_training = name == TRAINING
        target, weight, _ = train.scored() if of_training else sets[name].vectors
        columns = slice(0, len(target))
        number = 0 if of_training else list(sets).index(name)
        tally = None
        if others.size > 1:
            tally = Tally(own, objective, ranks.rows(target, weight))
        scored.append(
            ScoredRows(name, own, target, weight, columns, of_training, number=number, tally=tally)
        )
    return FitRows(
        data, loss, params, validation, n_threads, train.first, scored, ranks=ranks, spaces=spaces
    )


def _of_queries(
    objective: RankingLoss, train: ExternalSample, seed: int, n_threads: int, ranks: Ranks
) -> RankingLoss:
    """Return a ranking loss for the queries of the training rows."""
    query, (target, weight, _) = train.values.query, train.vectors
    if ranks.others.size == 1:
        return objective.of_queries(query_rows(query, len(target)), seed, n_threads)
    assert query is not None
    of_all = objective.positions is not None  # whose biases come from all rows
    complete = CompleteQueries(query, target, weight, train.first_row, ranks.others, of_all)
    return objective.on_ranks(complete, seed, n_threads)


def _found_by_loss(
    forest: Forest, objective: Objective, train: ExternalSample, n_threads: int
) -> dict[str, Any]:
    """Return what a loss adds to the record after training, such as a baseline hazard.

    See :func:`hedgerow.boosting.loop.watch.found_by_loss`.  The training rows are read again, as
    new rows: bins would not do, because the trees of a model to continue split between them, and
    conflicts in bundles hide values.
    """
    describe: Any = getattr(objective, "fit_record", None)
    if describe is None:
        return {}
    assert train.read_again is not None
    schema = train.schema if train.inputs is None else train.inputs.schema(train.schema)
    predictor = Predictor(forest, schema.kinds)
    parts = []
    for table, offset in train.read_again():
        raw = predictor.raw_scores(numbers_of(table), n_threads)
        parts.append(raw if offset is None else raw + offset)
    target, weight, _ = train.scored()
    found: dict[str, Any] = describe(target, np.concatenate(parts, axis=1), weight)
    return found


def _watch_of(
    known: Mapping[str, tuple[Metric, ...]],
    scored: bool,
    objective: Objective,
    stops: bool,
    stopping: StoppingParams,
    callbacks: tuple[Callback, ...],
    params: BoostParams,
    start: Start | None,
) -> Watch:
    """Return the watch of the rounds.

    ``known`` has the metrics of each set of rows by name; ``scored`` tells whether they are
    computed after each round.
    """
    limits = (stopping.patience, stopping.min_delta) if stops else None
    n_first = 0 if start is None else start.forest.n_rounds
    return Watch(
        objective=objective,
        scored=known if scored else {},
        best=best_round_of(next(iter(known.values()))[0], stopping, limits),
        callbacks=callbacks,
        n_rounds=params.n_estimators + n_first,
        n_first=n_first,
        by_out_of_bag=stopping.by_out_of_bag,
        started=stopping.began,
    )


def resolve_external(
    params: BoostParams, objective: Objective, train: ExternalSample, start: Start | None = None
) -> BoostParams:
    """Resolve the parameters of the rounds to grow; check that bins suffice for these trees."""
    params = resolved_to_continue(params, objective, train.schema, start)
    if start is None:
        return params
    start.check(objective, params, train.schema)
    return start.params_to_add(params)


def row_metrics(requested: MetricChoice, objective: Objective) -> tuple[Metric, ...]:
    """Return the metrics for rows in parts."""
    metrics = make_metrics(requested, objective)
    refuse_groups(metrics)
    return metrics


def check_targets(
    sample: ExternalSample, objective: Objective, others: Communicator, *, learned: bool = False
) -> int:
    """Check the targets of all ranks; return the number of rows of all ranks.

    ``learned``: whether these are training rows.
    """
    target, weight, offset = sample.vectors
    origins = [found for found in others.allgather(target[:1].astype("<f8").tobytes()) if found]
    if not origins:
        raise DataError("there are no rows with a weight above 0: give some.")
    origin = np.frombuffer(origins[0], dtype="<f8")
    fault, flags = b"", np.zeros(4, dtype=np.int64)
    if len(target) > 0:
        flags[0 if weight is None else 1] = 1
        flags[2 if offset is None else 3] = 1
        try:
            with counted_rows(weight is not None):
                check_part(objective, target, sample.first_row, origin)
        except DataError as error:
            fault = str(error).encode()
    faults = [text.decode() for text in others.allgather(fault) if text]
    if faults:
        raise DataError(faults[0])
    flags = others.allreduce(flags, "max")
    for name, found in (("weight", flags[:2]), ("offset", flags[2:])):
        if found.all():
            raise DataError(
                f"some parts of the rows have {name}s and others not: give all or none."
            )
    if bool(flags[3]) != sample.has_offset:
        raise DataError("has_offset of the sample contradicts its rows.")
    if learned and len(target) > 0:
        own = offset if sample.first is None else None
        check_differences(objective, [(target, weight, own)], others)
    elif learned:
        check_differences(objective, [], others)
    return int(others.allreduce(np.array([sample.n_rows], dtype=np.int64))[0])


def _stopping_params(
    stopping: StoppingParams, stops: bool, has_validation: bool, params: BoostParams, n_rows: int
) -> BoostParams:
    """Return the parameters with the scores that early stopping needs, if it is possible."""
    if stopping.by_out_of_bag:
        return with_out_of_bag(params, stopping, n_rows)
    if stops and not has_validation:
        raise ParameterError(
            f"early_stopping={stopping.early_stopping!r} needs validation rows, which cannot be "
            "set aside once rows are in chunks: give them, or use early_stopping=False or 'oob'."
        )
    return params
