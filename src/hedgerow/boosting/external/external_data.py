"""Training on data read in batches: from the survey of targets to the model.

See :mod:`hedgerow.boosting.external.external_sample` for the protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.boosting.external.dataset.continued import scores_before
from hedgerow.boosting.external.dataset.encoded import EncodedRows
from hedgerow.boosting.external.dataset.file_dataset import FileDataset
from hedgerow.boosting.external.external_sample import (
    ExternalSample,
    StorePlan,
    ValidRows,
    beside_vectors,
    named_valid,
    reads_batches,
)
from hedgerow.boosting.external.fit_external import fit_external
from hedgerow.boosting.external.folds import check_folds_in_chunks, choose_rounds_in_chunks
from hedgerow.boosting.external.sorted_data import sorted_rows
from hedgerow.boosting.loop.driver import FitOptions, with_out_of_bag
from hedgerow.boosting.loop.fit import fit
from hedgerow.boosting.loop.sample import counted_rows
from hedgerow.boosting.loop.setup.loss_spec import LossSpec, needs_all_rows
from hedgerow.boosting.loop.setup.resolved import numbers_for
from hedgerow.boosting.resume.checkpoint import Checkpoint
from hedgerow.boosting.resume.continuing import Start
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.boosting.row_data.offsets import check_both_offset
from hedgerow.boosting.row_data.queries import check_values, held_out
from hedgerow.boosting.row_data.targets import targets_like
from hedgerow.boosting.validation.cross_stopping import check_folds
from hedgerow.boosting.validation.row_sets import ONLY
from hedgerow.comm.base import Alone, Communicator, count_rows
from hedgerow.data import BinnedMatrix
from hedgerow.data.binning.matrix import bin_unseen
from hedgerow.data.external.row_store import MemoryStore, RowVectors
from hedgerow.errors import AllRowsNeededError
from hedgerow.growing.chunks.exchange import GrowMode
from hedgerow.kernels.tables.keys import float_of_key, keys_of_floats
from hedgerow.model.model import Model
from hedgerow.objectives import Objective, objective_of_record
from hedgerow.objectives.custom.losses import TRIED
from hedgerow.objectives.global_sums import gather_targets
from hedgerow.params import BoostParams
from hedgerow.threads import resolve_threads


class TargetSurvey:
    """Checks targets, and makes the loss for them, before rows are binned.

    Parameters
    ----------
    loss : LossSpec
    others : Communicator, optional
        Ranks of a cluster with the other rows.  The fit then checks the targets of single rows.

    Attributes
    ----------
    n_rows : int
        Number of rows of positive weight.
    """

    def __init__(self, loss: LossSpec, others: Communicator | None = None) -> None:
        self.n_rows = 0
        self._loss, self._largest = loss, -np.inf
        self._others, self._checks_rows = others or Alone(), others is None
        self._first: FloatArray = np.zeros((0, loss.n_targets) if loss.has_several else 0)
        self._objective: Objective | None = None
        if isinstance(loss.objective, str) and not loss.counts_classes:
            self._objective = loss.make(self._first)
        compares = self._objective is not None and needs_all_rows(self._objective)
        self._all: list[FloatArray] | None = [] if compares else None
        self._unchecked: list[tuple[int, FloatArray]] = []
        self._origin: FloatArray = np.zeros(0)
        self._strange: tuple[int, FloatArray] | None = None

    def note(self, target: FloatArray) -> None:
        """Add the targets of the next rows of positive weight."""
        if len(target) == 0:
            return
        if self.n_rows == 0:
            self._origin = target[0].reshape(-1).copy()
            self._first = target[:0]
        if len(self._first) < TRIED:
            self._first = np.concatenate([self._first, target])[:TRIED]
        if self._checks_rows:
            self._check(target)
        self._largest = max(self._largest, float(target.max()))
        if self._all is not None:
            self._all.append(target.copy())
        self.n_rows += len(target)

    def _check(self, target: FloatArray) -> None:
        """Check targets, once there are enough of them to make the loss."""
        if self._loss.counts_classes:
            strange = (target < 0.0) | (target != np.floor(target))
            if self._strange is None and strange.any():
                row = int(np.argmax(strange))
                self._strange = self.n_rows + row, target[row : row + 1].copy()
            return
        self._unchecked.append((self.n_rows, target))
        if self._objective is None and len(self._first) < TRIED:
            self._unchecked[-1] = self.n_rows, target.copy()  # too few rows to make the loss
            return
        self._check_all()

    def _check_all(self) -> Objective:
        if self._objective is None:
            self._objective = self._make()
        for first_row, target in self._unchecked:
            self._objective.check_target(target, first_row, self._origin)
        self._unchecked = []
        return self._objective

    def _make(self) -> Objective:
        """Return the loss for the targets of all ranks."""
        first = gather_targets([self._first], self._others)[:TRIED]
        largest = self._others.allreduce(keys_of_floats(np.array([self._largest])), "max")
        n_rows = count_rows(self.n_rows, self._others)[1]
        return self._loss.make(first, float_of_key(int(largest[0])), n_rows)

    def finish(self) -> Objective:
        """Return the objective."""
        objective = self._check_all()
        if needs_all_rows(objective):
            if not self._checks_rows:
                raise AllRowsNeededError(
                    f"objective {getattr(objective, 'label', objective.name)!r} compares all rows, "
                    "which workers of a cluster do not have: use a loss of single rows, or train "
                    "on a table in memory."
                )
            if self._all is not None:
                objective.check_target(gather_targets(self._all, self._others))
        self._all = None
        if self._strange is not None:
            row, target = self._strange
            objective.check_target(target, row, self._origin)
        return objective


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
    start, data = options.start, data.for_one_use()
    sets = {name: _for_one_use(rows) for name, rows in named_valid(valid).items()}
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


def _for_one_use(rows: Dataset) -> Dataset:
    return rows.for_one_use() if reads_batches(rows) else rows


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
    """Survey the targets; return the plan of the rows."""
    stopping, n_threads = options.stopping, resolve_threads(options.n_jobs)
    others, sets_aside = data.communicator, stopping.sets_rows_aside and not has_validation
    data.read_times(loss.objective, loss.target_names)
    survey = TargetSurvey(loss, others if on_cluster else None)
    data.survey(survey.note, params, sets_aside)
    with counted_rows(data.source.roles.weight is not None):
        objective = survey.finish()
    if stopping.by_folds:
        check_folds(stopping, has_validation, options.start)
        check_folds_in_chunks(stopping, on_cluster)
    values = data.surveyed_values
    check_values(
        values, None, objective, params, stopping, has_validation=has_validation, others=others
    )
    aside = None
    if sets_aside:
        target = np.concatenate([np.zeros(0), *data.surveyed_targets()])
        fraction = stopping.validation_fraction
        aside = held_out(values, target, fraction, loss.stratifies, params.seed, others)
    return StorePlan(
        with_out_of_bag(params, stopping, count_rows(survey.n_rows, others)[1]),
        objective.n_outputs,
        aside,
        n_threads=n_threads,
        objective=objective,
        start=options.start,
        by_folds=stopping.by_folds,
        times=data.times,
    )


def _binned(
    data: FileDataset,
    valid: Mapping[str, Dataset],
    plan: StorePlan,
    stack: ExitStack,
) -> tuple[ExternalSample, dict[str, ExternalSample]]:
    """Return training rows, and validation rows by name; ``stack`` closes them."""
    train, aside = data.stored(plan)
    stack.callback(train.store.close)
    values, of_aside = data.divided_values(plan.aside)
    train = replace(train, values=values.repeated(train.n_copies))
    validation = {}
    if aside is not None:
        stack.callback(aside.store.close)
        validation[ONLY] = replace(aside, values=of_aside)
    for name, rows in valid.items():
        validation[name] = given = _validation(rows, train, replace(plan, aside=None))
        stack.callback(given.store.close)
        if train.first is None:
            check_both_offset(train.has_offset, given.has_offset)
    return train, validation


def _validation(valid: Dataset, trained: ExternalSample, plan: StorePlan) -> ExternalSample:
    """Return validation rows in chunks; a table in memory is one chunk."""
    if reads_batches(valid):
        valid.match_targets(plan.objective, plan.times)
        sample = valid.stored_like(trained, plan)
        return replace(sample, values=valid.surveyed_values)
    return _of_table(valid, trained, plan)


def _of_table(valid: Dataset, trained: ExternalSample, plan: StorePlan) -> ExternalSample:
    """Return validation rows of a table."""
    table = valid.table(trained.schema)
    target = targets_like(valid, table.n_rows, plan.objective, plan.intervals)
    sample = valid.sample(table, target, plan.n_outputs)
    sample = sample.without_zero_weights()
    offset = sample.offset
    if trained.first is not None:
        offset = scores_before(trained.first, sample.table, sample.target, offset, plan.n_threads)
    if trained.encoding is not None:
        new = EncodedRows(trained.encoding, None, plan.n_threads).of_new(sample.table)
        sample = replace(sample, table=new)
    matrix = None
    for chunk in trained.store.chunks([0]):
        matrix = bin_unseen(sample.table, chunk.matrix, plan.n_threads)
    if not isinstance(matrix, BinnedMatrix):
        raise AllRowsNeededError(
            "the validation rows have categories that no training row has, and with "
            "unknown_category='backoff' their predictions end at inner nodes, which rows in chunks "
            "do not support: use unknown_category='missing', or a table in memory."
        )
    numbers = numbers_for(plan.params, sample.table)
    vectors = RowVectors(sample.target, sample.weight, offset)
    return ExternalSample(
        MemoryStore(matrix, numbers), vectors, 0, offset is not None, beside_vectors(sample),
        trained.first, trained.encoding,
    )  # fmt: skip
