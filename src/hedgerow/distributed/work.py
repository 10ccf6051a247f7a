"""Work of a rank: read and bin its partitions, and train together with the other ranks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.boosting.external.external_data import binned
from hedgerow.boosting.external.external_sample import ExternalSample, StorePlan
from hedgerow.boosting.external.file_dataset import FileDataset
from hedgerow.boosting.external.fit_external import fit_external
from hedgerow.boosting.external.queries import DividedQueries, number_queries
from hedgerow.boosting.loop.loss_spec import LossSpec, needs_all_rows
from hedgerow.boosting.resume.checkpoint import Checkpoint, recording
from hedgerow.boosting.resume.continuing import Start
from hedgerow.boosting.resume.fingerprint import Fingerprint, settings_of
from hedgerow.boosting.row_data.class_weights import rescaled
from hedgerow.boosting.validation.hold_out import Chosen, HoldOut
from hedgerow.boosting.validation.row_sets import ONLY
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.comm.base import Alone, Communicator, count_rows
from hedgerow.data.categories.columns import CategoricalFeatures
from hedgerow.data.external.scratch import scratch_folder
from hedgerow.data.schema import UnknownCategory
from hedgerow.data.sources import ReadRequest, Roles, Source
from hedgerow.distributed.checkpoints import ClusterStore
from hedgerow.distributed.partition import (
    Labels,
    NoRows,
    PartitionPart,
    check_unchanged,
    counted_queries,
)
from hedgerow.distributed.ranks import Shard
from hedgerow.growing.chunks.exchange import GrowMode
from hedgerow.io import model_from_bytes, model_to_bytes
from hedgerow.metrics import MetricChoice
from hedgerow.objectives import Objective
from hedgerow.objectives.custom.losses import TRIED
from hedgerow.objectives.global_sums import gather_targets
from hedgerow.params import BoostParams

_MEMORY_SHARE = 0.4
_MEMORY = 4 * 10**9
"""Memory for chunks on a worker: this fraction of its limit, or this size without a limit."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainWork:
    """A training on all ranks; see :class:`hedgerow.distributed.ranks.Work`.

    Attributes
    ----------
    loss : LossSpec
    params : BoostParams
    stopping : StoppingParams
    eval_metric
        As for :func:`hedgerow.train`.
    labels : Labels or None
        Conversion of labels, for classes that are not numbered yet.
    categorical, unknown
        As for :class:`hedgerow.Dataset`.
    mode : {"data", "features"}
    has_validation : bool
    memory_limit : int or None
        Memory for chunks on each worker in bytes.
    n_jobs : int or None
        Number of threads of each worker; None means all.
    checkpoint_every : float
        Seconds between checkpoints.
    checksums : two sequences of int
        Checksums of all training and validation partitions; empty to skip the comparison.
    offsets, targets : tuple of str
        Names of the offset columns, and of the columns of several targets.
    start : bytes or None
        Model file of the model to continue.
    """

    loss: LossSpec
    params: BoostParams
    stopping: StoppingParams
    eval_metric: MetricChoice = None
    labels: Labels | None = None
    categorical: CategoricalFeatures = "auto"
    unknown: UnknownCategory = "missing"
    mode: GrowMode = "data"
    has_validation: bool = False
    memory_limit: int | None = None
    n_jobs: int | None = None
    checkpoint_every: float = 10.0
    checksums: tuple[Sequence[int], Sequence[int]] = ((), ())
    offsets: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    start: bytes | None = None

    def __post_init__(self) -> None:
        self.stopping.check_without_table("on a cluster")

    def __call__(self, ranks: Communicator, shard: Shard) -> bytes:
        """Train with the other ranks; return the bytes of the model."""
        began = time.monotonic()  # on the clock of this machine
        others: Communicator = ranks if self.mode == "data" else Alone()
        n_threads = self.n_jobs or shard.n_threads
        self._check_unchanged(shard)
        with ExitStack() as stack:
            folder = str(stack.enter_context(scratch_folder(shard.scratch or None)))

            def dataset(partitions: Sequence[Any], numbers: Sequence[int]) -> FileDataset:
                found = self._dataset(partitions, numbers, others, folder, shard.memory)
                stack.callback(found.close)
                return found

            data = dataset(shard.partitions, shard.numbers)
            target = _targets(data, self.params)  # of the rows of this rank
            objective = self._objective(target, others)
            if needs_all_rows(objective):
                objective.check_target(gather_targets([target], others))
            start = self._model_to_continue()
            divided = self._divided_queries(shard, others)
            stopping = self.stopping if divided is None else divided.stopping
            set_aside = self._set_aside(target, others) if divided is None else divided.set_aside
            plan = StorePlan(
                self.params,
                objective.n_outputs,
                set_aside=set_aside,
                n_threads=n_threads,
                objective=objective,
                start=start,
            )
            valid = {}
            if self.has_validation:
                valid[ONLY] = dataset(shard.more, shard.more_numbers)
            train, sets = binned(data, valid, plan, stack)
            train, validation = self._with_queries(train, sets.get(ONLY), divided, shard, others)
            checkpoint = Checkpoint(
                ClusterStore(shard.checkpoint, shard.save), self.checkpoint_every
            )
            recorder = stack.enter_context(
                recording(checkpoint, lambda: self._fingerprint(objective, start))
            )
            model = fit_external(
                train,
                objective,
                self.params,
                validation=validation,
                stopping=replace(stopping, began=began),
                eval_metric=self.eval_metric,
                n_jobs=n_threads,
                communicator=ranks,
                mode=self.mode,
                recorder=recorder,
                start=start,
            )
        return model_to_bytes(model)

    def _check_unchanged(self, shard: Shard) -> None:
        """Raise if partitions differ from an earlier attempt."""
        for partitions, numbers, known in (
            (shard.partitions, shard.numbers, self.checksums[0]),
            (shard.more, shard.more_numbers, self.checksums[1]),
        ):
            if shard.checkpoint and known:
                check_unchanged(partitions, numbers, [known[number] for number in numbers])

    def _divided_queries(self, shard: Shard, others: Communicator) -> DividedQueries | None:
        """Return the queries of the rows and those held out; None for losses of rows."""
        if not self.loss.has_queries:
            return None
        query = _queries(shard.partitions, shard.numbers, others)
        return DividedQueries.of(
            query, self.stopping, self.params.seed, self.has_validation, others
        )

    def _with_queries(
        self,
        train: ExternalSample,
        validation: ExternalSample | None,
        divided: DividedQueries | None,
        shard: Shard,
        others: Communicator,
    ) -> tuple[ExternalSample, ExternalSample | None]:
        """Return training and validation rows with their queries, if there are any."""
        if divided is None:
            return train, validation
        train, validation = divided.added_to(train, validation)
        if validation is not None and self.has_validation:
            query = _queries(shard.more, shard.more_numbers, others)
            validation = replace(validation, query=query)
        return train, validation

    def _dataset(
        self,
        partitions: Sequence[Any],
        numbers: Sequence[int],
        others: Communicator,
        folder: str,
        memory: int | None,
    ) -> FileDataset:
        parts = [
            PartitionPart(partition, number, self.labels, self.offsets, self.targets)
            for partition, number in zip(partitions, numbers, strict=True)
        ]
        limit = self.memory_limit
        if limit is None:
            limit = _MEMORY if memory is None else int(_MEMORY_SHARE * memory)
        roles = Roles(offset=self.offsets, named=False)
        if self.targets:
            roles = replace(roles, target=self.targets[0], further=self.targets[1:])
        return FileDataset(
            Source(tuple(parts) or (NoRows(),), roles),
            ReadRequest(categorical=self.categorical, unknown=self.unknown),
            memory_limit=limit,
            cache_dir=[folder],
            communicator=others,
        )

    def _model_to_continue(self) -> Start | None:
        if self.start is None:
            return None
        return Start(rescaled(model_from_bytes(self.start)[0], None))

    def _fingerprint(self, objective: Objective, start: Start | None) -> Fingerprint:
        """Return a fingerprint of sources and settings; checksums verify the partitions."""
        found = Fingerprint(settings_of(objective, self.params, self.stopping, ()), {})
        return found if start is None else start.identified(found, self.params)

    def _objective(self, target: FloatArray, others: Communicator) -> Objective:
        """Return the objective for the targets of all ranks."""
        if not self.loss.counts_classes:
            return self.loss.make(gather_targets([target[:TRIED]], others)[:TRIED])
        largest = int(min(max(target.max(initial=0.0), 0.0), 2.0**53))
        found = others.allreduce(np.array([largest], dtype=np.int64), "max")
        n_rows = count_rows(len(target), others)[1]
        return self.loss.make(target, float(found[0]), n_rows, labelled="DaskHedgerowClassifier")

    def _set_aside(self, target: FloatArray, others: Communicator) -> Chosen | None:
        """Return a function that selects validation rows, if the fit may stop early."""
        if self.has_validation:
            return None
        stopping = self.stopping
        before, n_rows = count_rows(len(target), others)
        if stopping.by_out_of_bag or not stopping.is_on(n_rows, False):
            return None
        hold_out = HoldOut(
            stopping.validation_fraction, self.loss.stratifies, self.params.seed, before
        )
        hold_out.add(target)
        return hold_out.finish(others)


def _queries(partitions: Sequence[Any], numbers: Sequence[int], others: Communicator) -> IntArray:
    """Return the query number of each row of this rank with positive weight."""
    values = [counted_queries(partition) for partition in partitions]
    return number_queries(values, [f"partition {number}" for number in numbers], others)


def _targets(data: FileDataset, params: BoostParams) -> FloatArray:
    """Return the targets of the rows of this rank with positive weight."""
    found: list[FloatArray] = []
    data.survey(lambda target: found.append(target.copy()), params)
    empty = np.zeros((0, data.n_targets)) if data.n_targets > 1 else np.zeros(0)
    return np.concatenate([*found, empty])
