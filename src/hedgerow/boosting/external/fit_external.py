"""Training on rows in chunks, on one or several ranks; like :mod:`hedgerow.boosting.loop.fit`.

The model has the same bytes as a model of all rows in memory.  Trees are computed from sums of
integers (:mod:`hedgerow.growing.chunks.grower`), and all other sums over rows are exact
(:mod:`hedgerow.kernels.primitives.exact_sum`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from hedgerow.boosting.automatic.magnitudes import check_differences
from hedgerow.boosting.external.external_sample import ExternalSample
from hedgerow.boosting.external.fingerprint import external_contents
from hedgerow.boosting.loop.callbacks import with_bar
from hedgerow.boosting.loop.driver import (
    FitOptions,
    FitPlan,
    PreparedRows,
    Stops,
    grow_model,
    make_ready,
    running,
    with_out_of_bag,
)
from hedgerow.boosting.loop.rank_leaves import check_rule
from hedgerow.boosting.loop.sample import counted_rows
from hedgerow.boosting.loop.scored import Ranks, ScoredRows
from hedgerow.boosting.loop.setup.loss_spec import check_queries_given
from hedgerow.boosting.loop.setup.resolved import resolved
from hedgerow.boosting.resume.checkpoint import Checkpoint
from hedgerow.boosting.resume.fingerprint import Fingerprint
from hedgerow.boosting.row_data.metric_groups import refuse_groups
from hedgerow.boosting.row_data.queries import rows_of_queries, without_queries
from hedgerow.boosting.validation.budget import Budget
from hedgerow.boosting.validation.cross_stopping import ChosenRounds
from hedgerow.comm.base import Alone, Communicator, count_rows
from hedgerow.errors import DataError, ParameterError
from hedgerow.growing.chunks.exchange import GrowMode
from hedgerow.metrics import make_metrics, scored_as
from hedgerow.model.model import Model
from hedgerow.objectives import Objective
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
    checkpoint: Checkpoint | None = None,
    choose_rounds: Callable[[FitPlan, Budget | None], ChosenRounds] | None = None,
) -> Model:
    """Train a model on rows in chunks.

    All ranks call this function with the same arguments, except for the samples.
    ``choose_rounds`` finds the number of rounds by folds.
    """
    sets = validation or {}
    ranks = Ranks(communicator or Alone(), mode, train.first_row)
    plan, stops = _plan_of(train, objective, params, options or FitOptions(), sets, ranks)

    def describe() -> Fingerprint:
        # A cluster verifies its partitions, and may divide them in another way.
        contents = external_contents(train, sets) if communicator is None else {}
        return plan.fingerprint(contents, count_rows(train.n_rows, ranks.others)[1])

    with running(plan, checkpoint, describe) as (budget, recorder):
        own, chosen = plan, None
        if plan.start is not None:
            own = replace(plan, params=plan.start.params_to_add(plan.params))
        if choose_rounds is not None:
            chosen = choose_rounds(own, budget)
            own, stops = replace(own, params=chosen.params, is_scored=False), None
        rows = prepared_chunks(train, sets, objective, own.params, ranks)
        runs_ahead = recorder is None and budget is None
        return grow_model(make_ready(own, rows, stops, chosen, budget, runs_ahead), recorder)


def _plan_of(
    train: ExternalSample,
    objective: Objective,
    params: BoostParams,
    options: FitOptions,
    sets: Mapping[str, ExternalSample],
    ranks: Ranks,
) -> tuple[FitPlan, Stops]:
    """Return the resolved plan of a fit, checked together with the rows of all ranks."""
    start, stopping = options.start, options.stopping
    params = resolved(params, objective, train.schema, start)
    if start is not None:
        start.check(objective, params, train.schema)
    metrics = make_metrics(options.eval_metric, objective)
    refuse_groups(metrics)
    check_queries_given(objective, train.values.query is not None)
    if scored_as(objective) == "ranking":
        if params.oob_score or stopping.by_out_of_bag:
            raise rows_of_queries()
        if any(rows.values.query is None for rows in sets.values()):
            raise without_queries(objective, "qid of the validation rows")
    n_rows = check_targets(train, objective, ranks.others, learned=True) // train.n_copies
    for sample in sets.values():
        check_targets(sample, objective, ranks.others)
    params = with_out_of_bag(params, stopping, n_rows)
    if ranks.others.size > 1 and params.leaf_estimation == "line_search":
        check_rule(objective, 0)
    stops = stopping.is_on(bool(sets))
    if stops and not (sets or stopping.by_out_of_bag or stopping.by_folds):
        raise ParameterError(
            f"early_stopping={stopping.early_stopping!r} needs validation rows, which cannot be "
            "set aside once rows are in chunks: give them, or use early_stopping=False or 'oob'."
        )
    callbacks, bar = with_bar(options.callbacks, options.progress and ranks.communicator.rank == 0)
    plan = FitPlan(
        objective, params, stopping, metrics, metrics if stopping.train_scores else (),
        options.eval_metric is not None, callbacks, bar, resolve_threads(options.n_jobs), start,
    )  # fmt: skip
    return plan, (stopping.patience, stopping.min_delta) if stops else None


def prepared_chunks(
    train: ExternalSample,
    sets: Mapping[str, ExternalSample],
    objective: Objective,
    params: BoostParams,
    ranks: Ranks,
) -> PreparedRows:
    """Return rows in chunks in the form for trees."""
    return PreparedRows(
        train.once,
        train.learned,
        train.data(objective, params, ranks.communicator.size == 1),
        tuple(rows.data(objective, params, ranks.others.size == 1) for rows in sets.values()),
        tuple(
            ScoredRows(name, rows.learned, number)
            for number, (name, rows) in enumerate(sets.items())
        ),
        train.inputs,
        train.first,
        ranks,
        train.read_again,
    )


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
                objective.check_target(target, sample.first_row, origin)
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
