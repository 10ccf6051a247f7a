"""Training on data read in batches: from the survey of targets to the model.

See :mod:`hedgerow.boosting.external.external_sample` for the protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import cast

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.boosting.external.continued import scores_before
from hedgerow.boosting.external.encoded import EncodedRows
from hedgerow.boosting.external.external_sample import (
    Choose,
    ExternalSample,
    StorePlan,
    ValidRows,
    named_valid,
    reads_batches,
)
from hedgerow.boosting.external.file_dataset import FileDataset
from hedgerow.boosting.external.fingerprint import external_contents
from hedgerow.boosting.external.fit_external import fit_external, resolve_external
from hedgerow.boosting.external.queries import DividedQueries, groups_aside
from hedgerow.boosting.external.sorted_data import sorted_rows
from hedgerow.boosting.loop.callbacks import Callback
from hedgerow.boosting.loop.fit import fit
from hedgerow.boosting.loop.loss_spec import LossSpec, needs_all_rows
from hedgerow.boosting.loop.slopes import numbers_for
from hedgerow.boosting.resume.checkpoint import Checkpoint, recording
from hedgerow.boosting.resume.continuing import Start
from hedgerow.boosting.resume.fingerprint import Fingerprint, fingerprint
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.boosting.row_data.groups import check_groups
from hedgerow.boosting.row_data.offsets import check_both_offset
from hedgerow.boosting.row_data.queries import warn_of_single_rows
from hedgerow.boosting.row_data.targets import targets_like
from hedgerow.boosting.validation.hold_out import HoldOut
from hedgerow.boosting.validation.row_sets import ONLY
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.comm.base import Alone
from hedgerow.data import BinnedMatrix, Table
from hedgerow.data.binning.matrix import bin_unseen
from hedgerow.data.external.memory_store import MemoryStore
from hedgerow.data.external.row_store import TARGETS_ONLY
from hedgerow.errors import AllRowsNeededError, DataError
from hedgerow.metrics import MetricChoice, make_metrics
from hedgerow.model.model import Model
from hedgerow.objectives import Objective
from hedgerow.objectives.custom.losses import TRIED
from hedgerow.objectives.targets import check_part
from hedgerow.params import BoostParams
from hedgerow.threads import resolve_threads


class TargetSurvey:
    """Collects what training needs to know about the targets before rows are binned.

    Parameters
    ----------
    loss : LossSpec
    stopping : StoppingParams
    seed : int
    sets_aside : bool
        Whether validation rows may be held out.
    by_row : bool, default=True
        Whether single rows are held out, not complete queries or groups.

    Attributes
    ----------
    n_rows : int
        Number of rows of positive weight.
    largest : float
        Largest target, ``-inf`` before the first row.
    may_set_aside : bool
        Whether some of the rows may be held out.
    """

    def __init__(
        self,
        loss: LossSpec,
        stopping: StoppingParams,
        seed: int,
        sets_aside: bool,
        by_row: bool = True,
    ) -> None:
        stopping.check_without_table("read in batches")
        self.n_rows = 0
        self.largest = -np.inf
        self._stopping = stopping
        self._loss = loss
        self._first: FloatArray = np.zeros((0, loss.n_targets) if loss.n_targets > 1 else 0)
        self._objective: Objective | None = None
        if isinstance(loss.objective, str) and not loss.counts_classes:
            self._objective = loss.make(self._first)
        compares = self._objective is not None and needs_all_rows(self._objective)
        self._all: list[FloatArray] | None = [] if compares else None
        self._unchecked: list[tuple[int, FloatArray]] = []
        self._origin: FloatArray = np.zeros(0)
        self._strange: tuple[int, FloatArray] | None = None
        may_stop = sets_aside and not stopping.by_out_of_bag
        self.may_set_aside = may_stop and bool(stopping.early_stopping)
        self._hold_out: HoldOut | None = None
        if self.may_set_aside and by_row:
            self._hold_out = HoldOut(stopping.validation_fraction, loss.stratifies, seed)

    def note(self, target: FloatArray) -> None:
        """Add the targets of the next rows of positive weight.

        Raises
        ------
        DataError
            With the number of the first row whose target is outside the objective's domain.
        """
        if len(target) == 0:
            return
        if self.n_rows == 0:
            self._origin = target[0].reshape(-1).copy()
        if not self._loss.counts_classes:
            self._check(target)
        elif self._strange is None:
            strange = (target < 0.0) | (target != np.floor(target))
            if strange.any():
                row = int(np.argmax(strange))
                self._strange = self.n_rows + row, target[row : row + 1].copy()
        self.largest = max(self.largest, float(target.max()))
        if self._all is not None:
            self._all.append(target.copy())
        if self._hold_out is not None and self._strange is None:
            self._hold_out.add(target)
        self.n_rows += len(target)

    def _check(self, target: FloatArray) -> None:
        """Check targets, once there are enough of them to make the loss."""
        if len(self._first) < TRIED:
            self._first = np.concatenate([self._first, target])[:TRIED]
        self._unchecked.append((self.n_rows, target))
        if self._objective is None and len(self._first) < TRIED:
            self._unchecked[-1] = self.n_rows, target.copy()  # too few rows to make the loss
            return
        self._check_all()

    def _check_all(self) -> Objective:
        if self._objective is None:
            self._objective = self._loss.make(self._first, self.largest, self.n_rows)
        for first_row, target in self._unchecked:
            check_part(self._objective, target, first_row, self._origin)
        self._unchecked = []
        return self._objective

    def finish(self) -> tuple[Objective, Choose | None]:
        """Return the objective, and a function that chooses held-out rows (None for none).

        Complete queries and groups are chosen elsewhere
        (:mod:`hedgerow.boosting.external.queries`).

        Raises
        ------
        DataError
            If a target is outside the domain, or no row can be held out.
        """
        objective = self._check_all()
        if self._all:
            objective.check_target(np.concatenate(self._all))
            self._all = None
        if self._strange is not None:
            row, target = self._strange
            check_part(objective, target, row, self._origin)
        if self._hold_out is None or not self._stopping.is_on(self.n_rows, False):
            return objective, None
        return objective, self._hold_out.finish()


def fit_data(
    data: FileDataset,
    loss: LossSpec,
    params: BoostParams,
    *,
    valid: ValidRows = None,
    stopping: StoppingParams | None = None,
    eval_metric: MetricChoice = None,
    callbacks: Callback | Sequence[Callback] | None = None,
    progress: bool = False,
    n_jobs: int | None = None,
    checkpoint: Checkpoint | None = None,
    start: Start | None = None,
) -> Model:
    """Train a model on data that are read in batches.

    Parameters
    ----------
    data : FileDataset
    loss : LossSpec
    params : BoostParams
    valid : Dataset, or mapping from str to Dataset, optional
        Validation rows.
    stopping, eval_metric, callbacks, progress, n_jobs
        As for :func:`hedgerow.boosting.external.fit_external.fit_external`.
    checkpoint : Checkpoint, optional
        Records the rounds; the fit continues from rounds that an earlier run recorded.
    start : Start, optional
        A model to continue; the rows are read with its columns.
    """
    requested, sets = stopping or StoppingParams(), named_valid(valid)
    n_threads = resolve_threads(n_jobs)
    plan, divided, requested = _plan_of(data, loss, params, requested, bool(sets), n_threads, start)
    objective = plan.objective
    assert objective is not None
    if params.tree_method != "hist":
        if start is not None:
            raise AllRowsNeededError(
                f"{start.name} with tree_method={params.tree_method!r} needs all rows in memory."
            )
        with sorted_rows(data, objective, plan, sets) as (seen, unseen):
            return fit(
                seen, objective, params, validation=unseen, stopping=requested,
                eval_metric=eval_metric, callbacks=callbacks, progress=progress, n_jobs=n_jobs,
                checkpoint=checkpoint,
            )  # fmt: skip
    with ExitStack() as stack:
        train, validation = binned(data, sets, plan, stack)
        if divided is not None:
            train, held_out = divided.added_to(train, None if sets else validation.get(ONLY))
            validation |= {} if held_out is None else {ONLY: held_out}

        def describe() -> Fingerprint:
            metrics = () if eval_metric is None else make_metrics(eval_metric, objective)
            named = resolve_external(params, objective, train, start)
            contents = external_contents(train, validation)
            found = fingerprint(contents, train.n_rows, objective, named, requested, metrics)
            return found if start is None else start.identified(found, named)

        with recording(checkpoint, describe) as recorder:
            return fit_external(
                train,
                objective,
                params,
                validation=validation or None,
                stopping=requested,
                eval_metric=eval_metric,
                callbacks=callbacks,
                progress=progress,
                n_jobs=n_jobs,
                recorder=recorder,
                start=start,
            )


def _plan_of(
    data: FileDataset,
    loss: LossSpec,
    params: BoostParams,
    stopping: StoppingParams,
    has_validation: bool,
    n_threads: int,
    start: Start | None,
) -> tuple[StorePlan, DividedQueries | None, StoppingParams]:
    """Survey the targets; return the plan of the rows, the queries of a ranking, and stopping."""
    by_row = not (data.has_queries or data.has_groups)
    survey = TargetSurvey(loss, stopping, params.seed, not has_validation, by_row)
    targets: list[FloatArray] = []

    def note(target: FloatArray) -> None:
        survey.note(target)
        if data.has_groups:
            targets.append(target.copy())

    data.survey(note, params, survey.may_set_aside)
    objective, set_aside = survey.finish()
    if data.group is not None:
        check_groups(
            data.group, has_validation=has_validation, is_ranking=data.has_queries,
            stopping=stopping,
        )  # fmt: skip
        target = np.concatenate(targets)
        set_aside = groups_aside(data.group, target, stopping, loss.stratifies, params.seed)
        if set_aside is None and stopping.early_stopping == "auto":
            stopping = replace(stopping, early_stopping=False)  # a group cannot be divided
    divided = None
    if data.query is not None:
        warn_of_single_rows(data.query)
        divided = DividedQueries.of(data.query, stopping, params.seed, has_validation, Alone())
        set_aside, stopping = divided.set_aside, divided.stopping
    plan = StorePlan(
        params,
        objective.n_outputs,
        set_aside,
        n_threads=n_threads,
        objective=objective,
        start=start,
    )
    return plan, divided, stopping


def binned(
    data: FileDataset,
    valid: Mapping[str, Dataset],
    plan: StorePlan,
    stack: ExitStack,
) -> tuple[ExternalSample, dict[str, ExternalSample]]:
    """Return training rows, and validation rows by name; ``stack`` closes them."""
    train, aside = data.stored(plan)
    stack.callback(train.store.close)
    validation = {} if aside is None else {ONLY: aside}
    if aside is not None:
        stack.callback(aside.store.close)
    for name, rows in valid.items():
        validation[name] = given = _validation(rows, train, replace(plan, set_aside=None))
        stack.callback(given.store.close)
        if train.first is None:
            check_both_offset(train.has_offset, given.has_offset)
    return train, validation


def _validation(valid: Dataset, trained: ExternalSample, plan: StorePlan) -> ExternalSample:
    """Return validation rows in chunks; a table in memory is one chunk."""
    if reads_batches(valid):
        valid.match_targets(plan.objective)
        sample = valid.stored_like(trained, plan)
        return replace(sample, query=valid.query)
    return _of_table(valid, trained, plan)


def _of_table(valid: Dataset, trained: ExternalSample, plan: StorePlan) -> ExternalSample:
    """Return validation rows of a table."""
    table = valid.table(trained.schema)
    sample = valid.sample(table, targets_like(valid, table.n_rows, plan.objective), plan.n_outputs)
    sample = sample.without_zero_weights()
    offset = sample.offset
    if trained.first is not None:
        offset = scores_before(trained.first, sample.table, sample.target, offset, plan.n_threads)
    if trained.encoding is not None:
        values = cast(Table, sample.table).values
        new = EncodedRows(trained.encoding, None, plan.n_threads).of_new(values)
        sample = replace(sample, table=new)
    matrix = None
    for chunk in trained.store.chunks([0], TARGETS_ONLY):
        matrix = bin_unseen(sample.table, chunk.matrix, plan.n_threads)
    if not isinstance(matrix, BinnedMatrix):
        raise DataError(
            "the validation rows have values that no training row has (unknown_category='backoff' "
            "or bundled columns) and that have no bin: with training rows in chunks use "
            "unknown_category='missing', or leave such rows out."
        )
    numbers = numbers_for(plan.params, sample.table)
    store = MemoryStore(matrix, sample.target, sample.weight, offset, numbers=numbers)
    has_offset = offset is not None
    return ExternalSample(store, has_offset, sample.query, trained.first, trained.encoding)


__all__ = ["TargetSurvey", "binned", "fit_data"]
