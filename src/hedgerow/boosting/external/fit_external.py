"""Training on rows in chunks, on one or several ranks; like :mod:`hedgerow.boosting.loop.fit`.

The model has the same bytes as a model of all rows in memory.  Trees are computed from sums of
integers (:mod:`hedgerow.growing.chunks.grower`), and all other sums over rows are exact
(:mod:`hedgerow.kernels.primitives.exact_sum`).

::

    ExternalSample  -- checks: domain of the targets, weights and offsets in all chunks or none
      |
    start values    -- a few passes over the targets
      |
    rounds          -- hedgerow.boosting.loop.rounds, on the rows of chunk_rows
      |
    Forest up to the best round  ->  Model
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from hedgerow.boosting.automatic.magnitudes import check_differences
from hedgerow.boosting.external.dataset.continued import resolved_to_continue
from hedgerow.boosting.external.external_sample import ExternalSample
from hedgerow.boosting.external.rounds.all_rows import metrics_of_loss, record_of_loss
from hedgerow.boosting.external.rounds.chunk_rows import ChunkRows
from hedgerow.boosting.external.rounds.one_chunk import OneChunkRows, is_one_chunk
from hedgerow.boosting.external.rounds.queries import metrics_of_all, positions_of_all
from hedgerow.boosting.external.rounds.scores import ScoredSample
from hedgerow.boosting.loop.callbacks import (
    Callback,
    with_bar,
    with_final_report,
)
from hedgerow.boosting.loop.rounds import FitRows
from hedgerow.boosting.loop.sample import counted_rows
from hedgerow.boosting.loop.setup.loss_spec import check_queries_given
from hedgerow.boosting.loop.setup.options import FitOptions
from hedgerow.boosting.loop.setup.ready import with_out_of_bag
from hedgerow.boosting.loop.setup.strategy import outputs_of_tree
from hedgerow.boosting.loop.training_loop import grow_forest
from hedgerow.boosting.loop.watch import Watch, best_round_of, record_of
from hedgerow.boosting.resume.checkpoint import Recorder
from hedgerow.boosting.resume.continuing import Start
from hedgerow.boosting.row_data.metric_groups import refuse_groups
from hedgerow.boosting.row_data.positions import bias_record, with_positions
from hedgerow.boosting.row_data.statistics import assembled, constraints_of_inputs
from hedgerow.boosting.validation.budget import budget_of
from hedgerow.boosting.validation.cross_stopping import ChosenRounds
from hedgerow.boosting.validation.row_sets import TRAINING
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.comm.base import Alone, Communicator
from hedgerow.data.external.row_store import TARGETS_ONLY, WorkShape
from hedgerow.errors import AllRowsNeededError, DataError, ParameterError
from hedgerow.growing.chunks.exchange import GrowMode
from hedgerow.growing.chunks.setup import work_of
from hedgerow.metrics import Metric, MetricChoice, make_metrics
from hedgerow.model.forest import Forest
from hedgerow.model.model import Model
from hedgerow.objectives import Objective
from hedgerow.objectives.targets import check_part, leaf_rule_of
from hedgerow.params import BoostParams
from hedgerow.threads import resolve_threads


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
    check_queries_given(objective, train.query is not None)
    options, ranks, sets = options or FitOptions(), communicator or Alone(), validation or {}
    stopping, start, eval_metric = options.stopping, options.start, options.eval_metric
    others: Communicator = ranks if mode == "data" else Alone()
    params = resolve_external(params, objective, train, start)
    objective = with_positions(objective, positions_of_all(train, others), params, start)
    metrics = row_metrics(eval_metric, objective)
    listed, bar = with_bar(options.callbacks, options.progress and ranks.rank == 0)
    scored = bool(sets) or (eval_metric is not None and chosen is None) or stopping.train_scores
    scores_train = scored and (stopping.train_scores or not sets)
    watched = {**sets, TRAINING: train} if scores_train else dict(sets)
    begin_stores(train, sets.values(), objective, params, scores_train)
    n_rows = check_targets(train, objective, others, learned=True) // train.n_copies
    n_validation = [check_targets(sample, objective, others) for sample in sets.values()]
    stops = chosen is None and stopping.is_on(bool(sets))
    params = _stopping_params(stopping, stops, bool(sets), params, n_rows)
    known = _bound(metrics, objective, watched or {TRAINING: train}, others, scored, params)
    if not (single := is_one_chunk(train, ranks)):
        check_chunks(params, objective)
    watch = _watch_of(known, scored, objective, stops, stopping, listed, params, start)
    n_of = dict(zip(sets, n_validation, strict=True)) | {TRAINING: n_rows}
    samples = {name: ScoredSample(rows, known[name], n_of[name]) for name, rows in watched.items()}
    n_threads = resolve_threads(options.n_jobs)

    def assemble(forest: Forest) -> Model:
        record = record_of(n_rows, params, watch)
        if start is not None:
            start.complete(record, watch.n_kept)
        record |= record_of_loss(forest, objective, train, others, n_threads)
        record |= bias_record(objective, forest.n_rounds - watch.n_first)
        if chosen is not None:
            chosen.complete(record, watch.n_kept)
        return assembled(
            forest, train.schema, objective, record, train.inputs, train.n_copies, watch.seconds
        )

    try:
        with budget_of(stopping) as watch.budget, watch.assembling(assemble):
            own = _rounds_of(chosen, constraints_of_inputs(params, train.inputs), watch)
            given = (train, objective, own, samples, n_threads)
            rows = OneChunkRows(*given) if single else ChunkRows(*given, n_rows, ranks, mode)
            if start is not None:
                watch.note_start(rows.scores())
            return with_final_report(bar, assemble(_grow(rows, watch, recorder, ranks, chosen)))
    finally:
        if bar is not None:
            bar.close()


def _bound(
    metrics: tuple[Metric, ...],
    objective: Objective,
    watched: Mapping[str, ExternalSample],
    others: Communicator,
    scored: bool,
    params: BoostParams,
) -> dict[str, tuple[Metric, ...]]:
    """Return the metrics of each set of rows, bound to their queries."""
    by_rows = params.oob_score
    return {
        name: metrics_of_all(metrics, objective, sample, others, scored, by_rows)
        for name, sample in watched.items()
    }


def _grow(
    rows: FitRows,
    watch: Watch,
    recorder: Recorder | None,
    ranks: Communicator,
    chosen: ChosenRounds | None,
) -> Forest:
    """Run the rounds; record how folds chose their number, if they did."""
    forest = grow_forest(rows, watch, recorder, ranks)
    if chosen is not None and watch.stopped_by == "rounds":
        watch.stopped_by = chosen.stopped_by(chosen.params.n_estimators)
    return forest


def _rounds_of(chosen: ChosenRounds | None, params: BoostParams, watch: Watch) -> BoostParams:
    """Return the parameters with the number of rounds that folds have chosen, if they have."""
    if chosen is None:
        return params
    watch.n_rounds, watch.history = chosen.n_rounds, {"cv": chosen.curves}
    return params.with_rounds(chosen.n_rounds)


def begin_stores(
    train: ExternalSample,
    sets: Iterable[ExternalSample],
    objective: Objective,
    params: BoostParams,
    scores_train: bool,
) -> None:
    """Make room for the working arrays of the fit, beside the rows.

    ``scores_train``: whether metrics of training rows are computed.
    """
    n_vectors = outputs_of_tree(params, objective.n_outputs)
    sums_trees = scores_train and params.boosting == "rf"
    train.store.begin(work_of(objective, params, n_vectors, sums_trees))
    for sample in sets:
        sample.store.begin(WorkShape(objective.n_outputs))


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
    return metrics_of_loss(metrics, objective)


def check_targets(
    sample: ExternalSample, objective: Objective, others: Communicator, *, learned: bool = False
) -> int:
    """Check the targets of all ranks; return the number of rows of all ranks.

    ``learned``: whether these are training rows.
    """
    first = b""
    for chunk in sample.store.chunks([0] if sample.n_rows else [], uses=TARGETS_ONLY):
        first = chunk.target[:1].astype("<f8").tobytes()
    origins = [found for found in others.allgather(first) if found]
    if not origins:
        raise DataError("there are no rows with a weight above 0: give some.")
    origin = np.frombuffer(origins[0], dtype="<f8")
    fault, flags = b"", np.zeros(4, dtype=np.int64)
    for chunk in sample.store.chunks(uses=TARGETS_ONLY):
        if chunk.n_rows == 0:
            continue
        flags[0 if chunk.weight is None else 1] = 1
        flags[2 if chunk.offset is None else 3] = 1
        if not fault:
            try:
                with counted_rows(chunk.weight is not None):
                    check_part(objective, chunk.target, chunk.first_row, origin)
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
        raise DataError("has_offset of the sample contradicts its chunks.")
    if learned:
        chunks, own = sample.store.chunks(uses=TARGETS_ONLY), sample.first is None
        batches = ((c.target, c.weight, c.offset if own else None) for c in chunks)
        check_differences(objective, batches, others)
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


def check_chunks(params: BoostParams, objective: Objective) -> None:
    """Raise ``AllRowsNeededError`` if a parameter needs the bins of all rows in memory."""
    searches = params.leaf_estimation == "line_search"
    if searches and leaf_rule_of(objective, 0) is None:
        raise AllRowsNeededError(
            f"leaf_estimation='line_search' with objective {objective.name!r} needs the rows of a "
            "leaf at once, because its leaf_steps follow no leaf_rule: with rows in chunks use "
            "'auto', 'newton' or 'gradient'."
        )
