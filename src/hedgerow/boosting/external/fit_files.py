"""Fits on rows in files, in batches and on ranks of a cluster: from the survey to the model.

See :mod:`hedgerow.boosting.external.chunked_rows` for the protocol.  The model has the same bytes
as a model of all rows in memory.  Trees are computed from sums of integers
(:mod:`hedgerow.growing.chunks.grower`), and all other sums over rows are exact
(:mod:`hedgerow.kernels.primitives.exact_sum`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import fields, replace
from functools import partial

import numpy as np

from hedgerow.arrays import AnyArray
from hedgerow.boosting.automatic.magnitudes import check_differences
from hedgerow.boosting.external.chunked_rows import (
    ChunkedRows,
    StorePlan,
    ValidRows,
    named_valid,
    reads_batches,
    without_values,
)
from hedgerow.boosting.external.encoded import EncodedRows
from hedgerow.boosting.external.file_dataset import FileDataset
from hedgerow.boosting.external.folds import check_folds_in_chunks, choose_rounds_in_chunks
from hedgerow.boosting.external.sorted_data import sorted_rows
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
from hedgerow.boosting.loop.fit import fit
from hedgerow.boosting.loop.rank_leaves import check_rule
from hedgerow.boosting.loop.sample import counted_rows
from hedgerow.boosting.loop.scored import Ranks, ScoredRows
from hedgerow.boosting.loop.setup.loss_spec import LossSpec, check_queries_given, needs_all_rows
from hedgerow.boosting.loop.setup.resolved import numbers_for, resolved
from hedgerow.boosting.resume.checkpoint import Checkpoint
from hedgerow.boosting.resume.continuing import Start, start_scores
from hedgerow.boosting.resume.fingerprint import Fingerprint, schema_digest
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.boosting.row_data.metric_groups import refuse_groups
from hedgerow.boosting.row_data.offsets import check_both_offset
from hedgerow.boosting.row_data.queries import (
    check_values,
    held_out,
    rows_of_queries,
    without_queries,
)
from hedgerow.boosting.row_data.targets import targets_like
from hedgerow.boosting.validation.budget import Budget
from hedgerow.boosting.validation.cross_stopping import ChosenRounds, check_folds
from hedgerow.boosting.validation.row_sets import ONLY
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.comm.base import Alone, Communicator, count_rows
from hedgerow.data import BinnedMatrix
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.binning.matrix import bin_unseen
from hedgerow.data.external.row_store import MemoryStore, Uses
from hedgerow.errors import AllRowsNeededError, DataError, ParameterError
from hedgerow.growing.chunks.exchange import GrowMode
from hedgerow.kernels.tables.keys import float_of_key, keys_of_floats
from hedgerow.metrics import make_metrics, scored_as
from hedgerow.model.model import Model
from hedgerow.objectives import Objective, objective_of_record
from hedgerow.objectives.custom.losses import TRIED
from hedgerow.objectives.global_sums import gather_targets
from hedgerow.params import BoostParams
from hedgerow.threads import resolve_threads


def check_parts(data: object, params: BoostParams) -> None:
    """Before rows are read, reject options that trees on rows in parts do not support.

    Later checks cover options that depend on the rows.  ``data`` is None for rows on a cluster,
    which are never a single chunk.
    """
    if params.device == "cuda":
        raise AllRowsNeededError(
            "device='cuda' needs all rows in memory: give the rows as a table, or use "
            "device='cpu', which gives the same model."
        )
    if data is None and params.tree_method != "hist":
        raise AllRowsNeededError(
            f"tree_method={params.tree_method!r} sorts complete columns, which no worker of a "
            "cluster has: use tree_method='hist', or one worker."
        )


def refuse_members(stopping: StoppingParams) -> None:
    """Raise ``AllRowsNeededError`` for a list of the kinds of trees of a blend."""
    if isinstance(stopping.blend, list | tuple):
        raise AllRowsNeededError(
            "blend: a list of kinds of trees needs all rows in memory: give the rows as a table."
        )


def fit_data(
    data: FileDataset,
    loss: LossSpec,
    params: BoostParams,
    options: FitOptions,
    *,
    valid: ValidRows = None,
    checkpoint: Checkpoint | None = None,
    ranks: Communicator | None = None,
    mode: GrowMode = "data",
) -> Model:
    """Train a model on data that are read in batches."""
    refuse_members(options.stopping)
    start, data = options.start, data.for_one_use()
    sets = {
        name: rows.for_one_use() if reads_batches(rows) else rows
        for name, rows in named_valid(valid).items()
    }
    if start is not None:
        loss = _as_continued(data, loss, start)
    plan = _plan_of(data, loss, params, options, bool(sets), ranks is not None)
    stopping, objective = options.stopping, plan.objective
    assert objective is not None
    if params.tree_method != "hist":
        n_tested = stopping.folds[1] if plan.by_folds else 0
        with sorted_rows(data, objective, plan, sets, n_tested) as (seen, unseen):
            return fit(seen, objective, params, options, validation=unseen, checkpoint=checkpoint)
    with ExitStack() as stack:
        train, validation = _binned(data, sets, plan, stack)
        choose_rounds = None
        if plan.by_folds:
            choose_rounds = partial(choose_rounds_in_chunks, train, data, plan)
        return fit_external(
            train,
            objective,
            params,
            options,
            validation=validation,
            communicator=ranks,
            mode=mode,
            checkpoint=checkpoint,
            choose_rounds=choose_rounds,
        )


def _as_continued(data: FileDataset, loss: LossSpec, start: Start) -> LossSpec:
    """Read the targets in the order of the model to continue; return the loss of these targets.

    Targets with offsets keep their order, as in
    :meth:`hedgerow.boosting.loop.setup.job.Job.continued`.
    """
    roles = data.source.roles
    if roles.offset or not roles.named or start.order_of_targets(roles.targets) is None:
        return loss
    model = start.model
    count = model.forest.n_outputs
    data.match_targets(objective_of_record(model.objective, count, model.training))
    return loss.for_targets(data)


def _plan_of(
    data: FileDataset,
    loss: LossSpec,
    params: BoostParams,
    options: FitOptions,
    has_validation: bool,
    on_cluster: bool,
) -> StorePlan:
    """Survey the rows; return the plan of their bins."""
    stopping, others = options.stopping, data.communicator
    sets_aside = stopping.sets_rows_aside and not has_validation
    data.read_times(loss.objective, loss.target_names)
    data.survey(params, sets_aside)
    objective = _objective_of(data, loss, on_cluster)
    if stopping.by_folds:
        check_folds(stopping, has_validation, options.start)
        check_folds_in_chunks(stopping, on_cluster)
    rows = data.rows
    data.check_offset(objective)
    check_values(
        rows, None, objective, params, stopping, has_validation=has_validation, others=others
    )
    aside = None
    if sets_aside:
        fraction = stopping.validation_fraction
        aside = held_out(rows, rows.target, fraction, loss.stratifies, params.seed, others)
    return StorePlan(
        with_out_of_bag(params, stopping, count_rows(rows.n_rows, others)[1]),
        objective.n_outputs,
        aside,
        n_threads=resolve_threads(options.n_jobs),
        objective=objective,
        start=options.start,
        by_folds=stopping.by_folds,
        names=loss.target_names,
        intervals=data.has_intervals,
    )


def _objective_of(data: FileDataset, loss: LossSpec, on_cluster: bool) -> Objective:
    """Return the loss for the targets of all ranks, which it checks unless the fit will do so."""
    target, others = data.rows.target, data.communicator
    first = gather_targets([target[:TRIED]], others)[:TRIED]
    largest = np.array([-np.inf if len(target) == 0 else float(target.max())])
    largest = others.allreduce(keys_of_floats(largest), "max")
    n_rows = count_rows(len(target), others)[1]
    objective = loss.make(first, float_of_key(int(largest[0])), n_rows)
    if on_cluster and needs_all_rows(objective):
        raise AllRowsNeededError(
            f"objective {getattr(objective, 'label', objective.name)!r} compares all rows, "
            "which workers of a cluster do not have: use a loss of single rows, or train "
            "on a table in memory."
        )
    if not on_cluster:
        with counted_rows(data.source.roles.weight is not None):
            objective.check_target(target)
    return objective


def _binned(
    data: FileDataset,
    valid: Mapping[str, Dataset],
    plan: StorePlan,
    stack: ExitStack,
) -> tuple[ChunkedRows, dict[str, ChunkedRows]]:
    """Return training rows, and validation rows by name; ``stack`` closes them."""
    train, aside = data.stored(plan)
    stack.callback(train.store.close)
    validation = {}
    if aside is not None:
        stack.callback(aside.store.close)
        validation[ONLY] = aside
    for name, rows in valid.items():
        validation[name] = given = _validation(rows, train, replace(plan, aside=None))
        stack.callback(given.store.close)
        check_both_offset(train.rows.offset is not None, given.rows.offset is not None)
    return train, validation


def _validation(valid: Dataset, trained: ChunkedRows, plan: StorePlan) -> ChunkedRows:
    """Return validation rows in chunks; a table in memory is one chunk."""
    if reads_batches(valid):
        assert plan.objective is not None
        valid.match_targets(plan.objective, plan.names, plan.intervals)
        valid.survey(plan.params)
        valid.check_offset(plan.objective)
        return valid.stored_like(trained, plan)
    table = valid.table(trained.schema)
    target = targets_like(valid, table.n_rows, plan.objective, plan.intervals)
    sample = valid.sample(table, target, plan.n_outputs).without_zero_weights()
    start = None
    if trained.first is not None:
        start = start_scores(trained.first, sample, plan.n_threads)
    seen = sample.table
    if trained.inputs is not None:
        seen = EncodedRows(trained.inputs, trained.schema, plan.n_threads).of_new(seen)
    matrix = None
    for chunk in trained.store.chunks([0]):
        matrix = bin_unseen(seen, chunk.matrix, plan.n_threads)
    if not isinstance(matrix, BinnedMatrix):
        raise AllRowsNeededError(
            "the validation rows have categories that no training row has, and with "
            "unknown_category='backoff' their predictions end at inner nodes, which rows in chunks "
            "do not support: use unknown_category='missing', or a table in memory."
        )
    rows = replace(sample, table=without_values(sample.n_rows, trained.schema))
    store = MemoryStore(matrix, numbers_for(plan.params, seen))
    return ChunkedRows(store, rows, 0, trained.first, start, trained.inputs)


def fit_external(
    train: ChunkedRows,
    objective: Objective,
    params: BoostParams,
    options: FitOptions | None = None,
    *,
    validation: Mapping[str, ChunkedRows] | None = None,
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
    plan, stops = _fit_plan_of(train, objective, params, options or FitOptions(), sets, ranks)

    def describe() -> Fingerprint:
        # A cluster verifies its partitions, and may divide them in another way.
        contents = external_contents(train, sets) if communicator is None else {}
        return plan.fingerprint(contents, count_rows(train.store.n_rows, ranks.others)[1])

    with running(plan, checkpoint, describe) as (budget, recorder):
        own, chosen = plan, None
        if plan.start is not None:
            own = replace(plan, params=plan.start.params_to_add(plan.params))
        if choose_rounds is not None:
            chosen = choose_rounds(own, budget)
            own, stops = replace(own, params=chosen.params, is_scored=False), None
        rows = prepared_chunks(train, sets, own.params, ranks)
        runs_ahead = recorder is None and budget is None
        return grow_model(make_ready(own, rows, stops, chosen, budget, runs_ahead), recorder)


def _fit_plan_of(
    train: ChunkedRows,
    objective: Objective,
    params: BoostParams,
    options: FitOptions,
    sets: Mapping[str, ChunkedRows],
    ranks: Ranks,
) -> tuple[FitPlan, Stops]:
    """Return the resolved plan of a fit, checked together with the rows of all ranks."""
    start, stopping = options.start, options.stopping
    params = resolved(params, objective, train.schema, start)
    if start is not None:
        start.check(objective, params, train.schema)
    metrics = make_metrics(options.eval_metric, objective)
    refuse_groups(metrics)
    check_queries_given(objective, train.rows.query is not None)
    if scored_as(objective) == "ranking":
        if params.oob_score or stopping.by_out_of_bag:
            raise rows_of_queries()
        if any(some.rows.query is None for some in sets.values()):
            raise without_queries(objective, "qid of the validation rows")
    n_rows = check_targets(train, objective, ranks.others, learned=True)
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
    train: ChunkedRows,
    sets: Mapping[str, ChunkedRows],
    params: BoostParams,
    ranks: Ranks,
) -> PreparedRows:
    """Return rows in chunks in the form for trees."""
    return PreparedRows(
        train.rows,
        train.learned,
        train.data(params, ranks.communicator.size == 1),
        tuple(rows.data(params, ranks.others.size == 1) for rows in sets.values()),
        tuple(
            ScoredRows(name, rows.rows, number) for number, (name, rows) in enumerate(sets.items())
        ),
        train.inputs,
        train.first,
        ranks,
        train.read_again,
    )


def check_targets(
    sample: ChunkedRows, objective: Objective, others: Communicator, *, learned: bool = False
) -> int:
    """Check the targets of all ranks; return the number of rows of all ranks.

    ``learned``: whether these are training rows.
    """
    rows = sample.rows
    origins = [y for y in others.allgather(rows.target[:1].astype("<f8").tobytes()) if y]
    if not origins:
        raise DataError("there are no rows with a weight above 0: give some.")
    origin = np.frombuffer(origins[0], dtype="<f8")
    fault = b""
    if rows.n_rows > 0:
        try:
            with counted_rows(rows.weight is not None):
                objective.check_target(rows.target, sample.first_row, origin)
        except DataError as error:
            fault = str(error).encode()
    faults = [text.decode() for text in others.allgather(fault) if text]
    if faults:
        raise DataError(faults[0])
    flags = np.zeros((2, 2), dtype=np.int64)
    if rows.n_rows > 0:
        flags[0, int(rows.weight is not None)] = flags[1, int(rows.offset is not None)] = 1
    for name, some in zip(
        ("weight", "offset"), others.allreduce(flags.ravel(), "max").reshape(2, 2), strict=True
    ):
        if some.all():
            raise DataError(
                f"some parts of the rows have {name}s and others not: give all or none."
            )
    if learned:
        own = (rows.target, rows.weight, rows.offset if sample.first is None else None)
        check_differences(objective, [own], others)
    return int(others.allreduce(np.array([rows.n_rows], dtype=np.int64))[0])


def external_contents(train: ChunkedRows, validation: Mapping[str, ChunkedRows]) -> dict[str, str]:
    """Return digests of the training rows and, by name, of validation rows, in row order.

    They cover cuts, bins, numbers of linear leaves, targets and the values of rows.  They depend
    neither on files and batches nor on the division into chunks (the memory limit).  They take one
    pass over the chunks, while each tree takes several.
    """
    contents = {"columns": schema_digest(train.schema), "cuts": cuts_digest(train.store.spec)}
    contents |= _contents_of(train, "")
    for name, sample in validation.items():
        contents |= _contents_of(sample, "_val" if name == ONLY else f"_val[{name!r}]")
    return contents


def cuts_digest(spec: BinSpec) -> str:
    """Return a digest of the cuts and category bins of all columns."""
    digest = hashlib.blake2b(digest_size=20)
    for field in fields(spec):
        values = getattr(spec, field.name)
        if isinstance(values, np.ndarray):
            digest.update(f"{field.name} {values.dtype.str} {values.shape}".encode())
            digest.update(_bytes_of(values))
    return digest.hexdigest()


def _contents_of(sample: ChunkedRows, suffix: str) -> dict[str, str]:
    store = sample.store
    n_features = store.spec.n_features
    # One digest for each tile of columns, because rows are contiguous within a tile.
    found: dict[str, hashlib.blake2b] = {}

    def add(name: str, values: AnyArray) -> None:
        known = found.setdefault(name, hashlib.blake2b(digest_size=20))
        known.update(_bytes_of(values))

    rows = sample.learned
    for output, values in enumerate(np.atleast_2d(rows.target.T)):
        add(f"y {output}", values)
    scores = rows.offset if sample.start is None else sample.start
    for output, values in enumerate([] if scores is None else scores):
        add(f"offset {output}", values)
    for chunk in store.chunks(uses=Uses(columns=(), numbers=range(n_features))):
        matrix, n_rows = chunk.matrix, chunk.n_rows
        width = matrix.by_row.shape[2]
        for tile, bins in enumerate(matrix.by_row):
            add(f"X {tile}", bins[:n_rows, : min(width, n_features - tile * width)])
        if chunk.numbers is not None:
            for column, values in enumerate(chunk.numbers.T):
                add(f"X value {column}", values)
    for name, values in rows.digested().items():
        if name != "offset":
            add(name, values)
    joined: dict[str, list[str]] = {}
    for name, digest in found.items():
        joined.setdefault(name.split()[0], []).append(digest.hexdigest())
    return {f"{name}{suffix}": " ".join(parts) for name, parts in joined.items()}


def _bytes_of(values: AnyArray) -> memoryview:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
