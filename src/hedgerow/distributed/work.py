"""Work of a rank: read and bin its partitions, and train together with the other ranks."""

# ruff: noqa: SLF001  (the code here has the role of the estimators' fit methods)

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.external.file_dataset import FileDataset, check_parts
from hedgerow.boosting.loop.callbacks import Callback
from hedgerow.boosting.loop.driver import FitOptions
from hedgerow.boosting.loop.fit import fit
from hedgerow.boosting.loop.scored import Ranks
from hedgerow.boosting.loop.setup.job import Job, LossSpec
from hedgerow.boosting.resume.checkpoint import Checkpoint
from hedgerow.boosting.resume.continuing import Start
from hedgerow.boosting.row_data.classes import corrected, rescaled
from hedgerow.boosting.row_data.dataset import named_valid
from hedgerow.boosting.row_data.row_values import OF_TRAINING
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.comm.base import Alone, Communicator, count_rows
from hedgerow.data.categories.columns import CategoricalFeatures
from hedgerow.data.external.block_files import temporary_folder
from hedgerow.data.schema import UnknownCategory
from hedgerow.data.sources.base import Roles
from hedgerow.data.sources.opening import Source
from hedgerow.distributed.partition import Labels, NoRows, PartitionPart, check_unchanged
from hedgerow.distributed.ranks import ClusterStore, Shard
from hedgerow.errors import ParameterError, brief
from hedgerow.estimators import HedgerowClassifier, labels
from hedgerow.estimators.base import HedgerowEstimator
from hedgerow.estimators.labels import classes_of_labels
from hedgerow.growing.chunks.exchange import GrowMode
from hedgerow.io import model_from_bytes, model_to_bytes
from hedgerow.metrics import MetricChoice
from hedgerow.model.model import Model
from hedgerow.params import BoostParams

_MEMORY_SHARE = 0.4
_MEMORY = 4 * 10**9
"""Memory for chunks on a worker: this fraction of its limit, or this size without a limit."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainWork:
    """A training on all ranks; see :class:`hedgerow.distributed.ranks.Work`."""

    loss: LossSpec
    params: BoostParams
    stopping: StoppingParams
    eval_metric: MetricChoice = None  # as for :func:`hedgerow.train`
    labels: Labels | None = None  # conversion of labels, for classes that are not numbered yet
    categorical: CategoricalFeatures = "auto"  # as for :class:`hedgerow.Dataset`
    unknown: UnknownCategory = "missing"
    mode: GrowMode = "data"
    has_validation: bool = False
    memory_limit: int | None = None  # memory for chunks on each worker in bytes
    n_jobs: int | None = None  # number of threads of each worker; None means all
    checkpoint_every: float = 10.0  # seconds between checkpoints
    # Checksums of all training and validation partitions; empty to skip the comparison
    checksums: tuple[Sequence[int], Sequence[int]] = ((), ())
    roles: Roles = field(default_factory=Roles)  # of the columns that are not features
    names: tuple[str, ...] | None = None  # column names of X, if it has any
    target_names: tuple[str, ...] | None = None  # the user's names of several targets
    start: bytes | None = None  # model file of the model to continue
    callback: Callback | None = None  # of an engine, called on each rank

    def __post_init__(self) -> None:
        check_parts(None, self.params, self.stopping)

    def __call__(self, ranks: Communicator, shard: Shard) -> bytes:
        """Train with the other ranks; return the bytes of the model."""
        stopping = replace(self.stopping, began=time.monotonic())  # on the clock of this machine
        others: Communicator = ranks if self.mode == "data" else Alone()
        if shard.checkpoint:
            check_unchanged(shard.partitions, shard.numbers, self.checksums[0])
            check_unchanged(shard.more, shard.more_numbers, self.checksums[1])
        store = ClusterStore(shard.checkpoint, shard.save)
        start = None
        if self.start is not None:
            start = Start(rescaled(model_from_bytes(self.start)[0], None))
        with ExitStack() as stack:
            folder = shard.scratch or temporary_folder()

            def dataset(
                partitions: Sequence[Any], numbers: Sequence[int], roles: Roles
            ) -> FileDataset:
                found = self._dataset(partitions, numbers, roles, others, folder, shard.memory)
                stack.callback(found.close)
                return found

            valid: FileDataset | None = None
            if self.has_validation:
                valid = dataset(shard.more, shard.more_numbers, self.roles.without(OF_TRAINING))

            rows = dataset(shard.partitions, shard.numbers, self.roles)
            n_threads = self.n_jobs or shard.n_threads
            kept = Checkpoint(store, self.checkpoint_every)
            options = FitOptions(
                stopping, self.eval_metric, self.callback, n_jobs=n_threads, checkpoint=kept
            )
            spec = Job(rows, named_valid(valid), start).read(self.loss.read, self.params, options)
            model = fit(
                spec,
                self.params,
                options,
                ranks=Ranks(ranks, self.mode, count_rows(spec.train.n_rows, others)[0]),
            )
        return model_to_bytes(model)

    def _dataset(
        self,
        partitions: Sequence[Any],
        numbers: Sequence[int],
        roles: Roles,
        others: Communicator,
        folder: str,
        memory: int | None,
    ) -> FileDataset:
        parts = [
            PartitionPart(partition, number, self.labels, roles)
            for partition, number in zip(partitions, numbers, strict=True)
        ]
        names = None if self.names is None else (*self.names, *roles.aside())
        limit = self.memory_limit
        if limit is None:
            limit = _MEMORY if memory is None else int(_MEMORY_SHARE * memory)
        found = FileDataset(
            Source(tuple(parts) or (NoRows(names),), roles),
            categorical_features=self.categorical,
            unknown_category=self.unknown,
            memory_limit=limit,
            cache_dir=[folder],
            communicator=others,
        )
        found.target_names = self.target_names
        return found


def check_for_clusters(estimator: HedgerowEstimator) -> None:
    """Raise ``ParameterError`` for parameters that need one process, which holds all rows."""
    for name in ("callbacks", "progress"):
        if getattr(estimator, name):
            raise ParameterError(
                f"{name}={brief(getattr(estimator, name))} would be called in the process that "
                f"trains, which is a worker of the cluster: leave {name} out."
            )
    if estimator.folds is not None:
        raise ParameterError(
            "folds number the rows of the whole table, which no worker of a cluster has: give "
            "validation rows."
        )
    if estimator.warm_start and "booster_" in vars(estimator):
        raise ParameterError(
            "warm_start=True continues with rows in memory: on a cluster use init_model of "
            "hedgerow.distributed.train."
        )


def fit_divided(
    estimator: HedgerowEstimator,
    n_targets: int,
    classes: Callable[[], AnyArray],
    masses: Callable[[AnyArray], FloatArray],
    train: Callable[[TrainWork], Model],
    **more: Any,
) -> None:
    """Fit an estimator to rows that workers hold."""
    # ``classes`` finds the labels of rows of positive weight, ``masses`` the weight of each.

    def trained(loss: LossSpec, known: Labels | None = None) -> Model:
        work = TrainWork(
            loss,
            estimator._params(),
            estimator._stopping(),
            estimator.eval_metric,
            known,
            estimator.categorical_features,
            estimator.unknown_category,
            n_jobs=estimator.n_jobs,
            **more,
        )
        return train(work)

    if not isinstance(estimator, HedgerowClassifier):
        estimator._adopt(trained(estimator._loss_spec()))
    elif n_targets > 1:
        model = trained(estimator._loss_spec())
        estimator._adopt(model, classes_=classes_of_labels(model))
    else:
        found = classes()
        is_balanced = isinstance(estimator.class_weight, str)  # else an error
        weights = labels.class_weights(
            estimator.class_weight,
            found,
            np.arange(len(found), dtype=np.float64),
            masses(found) if is_balanced else None,
        )
        model = trained(estimator._loss_spec(found), Labels(found, weights))
        estimator._adopt(corrected(model, weights), classes_=found)


def joined_labels(found: Sequence[AnyArray]) -> AnyArray:
    """Return all labels, ascending, from those of each partition."""
    found = [part for part in found if len(part)] or [np.zeros(0)]
    if len({part.dtype.kind in "OUS" for part in found}) > 1:
        found = [part.astype(object) for part in found]
    return labels.encode(np.concatenate(found), None)[0]
