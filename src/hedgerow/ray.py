"""Training on Ray: :class:`HedgerowTrainer` starts the workers, :func:`fit` trains on all of them.

Each worker gets consecutive rows, and is a rank (:mod:`hedgerow.comm.connections`).  ``fit``
reports checkpoints: with ``FailureConfig(max_failures=3)`` Ray starts lost workers again, and they
go on from the last checkpoint, which gives the same bytes.  docs/ray.md has more.
"""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hedgerow.boosting.loop.callbacks import Round
from hedgerow.comm.connections import DEFAULT_TIMEOUT, TOKEN_BYTES, Listener, joined
from hedgerow.distributed.tables import VALIDATION, Columns, estimator_of, fit_tables
from hedgerow.distributed.work import check_for_clusters
from hedgerow.errors import CommunicationError, DataError, DataTypeError
from hedgerow.estimators import HedgerowClassifier, HedgerowRanker, HedgerowRegressor
from hedgerow.estimators.base import HedgerowEstimator
from hedgerow.io import load_model

try:
    import ray
    import ray.train
    from ray.train import Checkpoint, DataConfig
    from ray.train.backend import Backend, BackendConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
except ImportError as error:
    raise ImportError(
        f"training on Ray needs Ray 2.51 or later: pip install 'hedgerow[ray]' ({error})"
    ) from error

__all__ = ["HedgerowTrainer", "RayTrainReportCallback", "fit"]

_ESTIMATOR, _ROUNDS = "estimator.hedgerow", "rounds.zip"
_CLASSES = (HedgerowClassifier, HedgerowRegressor, HedgerowRanker)


class _Meeting:
    """What a worker needs to be a rank; the trainer sets it before the user's function runs."""

    listener: Listener | None = None
    token = b""
    addresses: Sequence[str] = ()


def _listen() -> tuple[int, str]:
    """Open the port of this worker; return its rank and address."""
    _Meeting.listener = Listener(ray.util.get_node_ip_address())
    return ray.train.get_context().get_world_rank(), _Meeting.listener.address


def _meet(token: bytes, addresses: Sequence[str]) -> None:
    """Note the token of this attempt and the addresses of all workers."""
    _Meeting.token, _Meeting.addresses = token, addresses


class _Backend(Backend):
    """Makes ranks of the workers."""

    def on_training_start(self, worker_group: Any, backend_config: Any) -> None:
        """Tell all workers a new token and their addresses: at first, and after each failure."""
        ends = dict(worker_group.execute(_listen))
        addresses = [ends[rank] for rank in range(len(ends))]
        worker_group.execute(_meet, os.urandom(TOKEN_BYTES), addresses)


class _BackendConfig(BackendConfig):
    @property
    def backend_cls(self) -> type[_Backend]:
        return _Backend


class _InOrder(DataConfig):
    """Gives each worker as many rows, the first ones to the first worker.

    Ray's own division is by blocks in any order, and drops the rows by which shares differ.
    """

    def configure(
        self, datasets: Mapping[str, Any], world_size: int, *others: Any, **more: Any
    ) -> list[dict[str, Any]]:
        """Return the data sets of each worker."""
        parts: list[dict[str, Any]] = [{} for _ in range(world_size)]
        for name, dataset in datasets.items():
            ordered = dataset.copy(dataset)
            ordered.context.execution_options = self.default_ingest_options()
            ordered.context.execution_options.preserve_order = True
            rows = ordered.materialize()
            n_rows = rows.count()
            ends = [n_rows * rank // world_size for rank in range(1, world_size)]
            divided = rows.split_at_indices(ends) if ends else [rows]
            for own, part in zip(parts, divided, strict=True):
                own[name] = part.iterator()
        return parts


class HedgerowTrainer(DataParallelTrainer):
    """Run a function on all workers, in which :func:`fit` trains one model.

    Parameters
    ----------
    train_loop_per_worker : callable
        Function without arguments, or with the dict ``train_loop_config``.
    **given
        Those of the trainers of Ray: ``train_loop_config``, ``scaling_config`` (number of workers,
        and the cores of each), ``run_config`` (where checkpoints are stored, and how often lost
        workers are started again), and ``datasets``, of which each worker gets consecutive rows
        by ``ray.train.get_dataset_shard(name)``.

    Examples
    --------
    >>> import ray
    >>> from hedgerow import HedgerowRegressor
    >>> from hedgerow.ray import HedgerowTrainer, RayTrainReportCallback, fit  # doctest: +SKIP
    >>> def train():
    ...     fit(HedgerowRegressor(), ray.train.get_dataset_shard("train"), label="price")
    >>> trainer = HedgerowTrainer(                                             # doctest: +SKIP
    ...     train,
    ...     scaling_config=ray.train.ScalingConfig(num_workers=4),
    ...     datasets={"train": ray.data.read_parquet("rows")},
    ... )
    >>> model = RayTrainReportCallback.get_model(trainer.fit().checkpoint)     # doctest: +SKIP
    """

    def __init__(self, train_loop_per_worker: Callable[..., Any], **given: Any) -> None:
        super().__init__(
            train_loop_per_worker,
            backend_config=_BackendConfig(),
            dataset_config=_InOrder(),
            **given,
        )


class RayTrainReportCallback:
    """Report scores and checkpoints to Ray Train while :func:`fit` trains.

    The last checkpoint has the fitted estimator, those before it the rounds so far.  The metrics
    are ``rounds``, and the scores of the last round, such as ``validation-auc``.

    Parameters
    ----------
    frequency : int, default=20
        Rounds between two reports; 0 for one report at the end.
    """

    def __init__(self, frequency: int = 20) -> None:
        self.frequency = frequency
        self._parts: list[bytes] = []
        self._metrics: dict[str, float] = {}

    @staticmethod
    def get_model(checkpoint: Any) -> Any:
        """Return the fitted estimator of the last checkpoint.

        Parameters
        ----------
        checkpoint : ray.train.Checkpoint
            For example ``trainer.fit().checkpoint``.

        Returns
        -------
        HedgerowClassifier, HedgerowRegressor or HedgerowRanker

        Raises
        ------
        DataError
            If the checkpoint was reported before the training ended.
        """
        with checkpoint.as_directory() as folder:
            path = Path(folder, _ESTIMATOR)
            if not path.exists():
                raise DataError("this checkpoint was reported before the training ended.")
            record = load_model(path)[1] or {}
            kind = next(one for one in _CLASSES if one.__name__ == record.get("class"))
            return kind.load(path)

    def __call__(self, state: Round) -> None:
        """Note the scores of a round."""
        self._metrics = {
            f"{rows}-{name}": scores[-1]
            for rows, curves in state.history.items()
            for name, scores in curves.items()
        }

    def _resume(self) -> list[bytes]:
        """Return the rounds of the last checkpoint of this run."""
        self._parts, checkpoint = [], ray.train.get_checkpoint()
        if checkpoint is not None:
            with checkpoint.as_directory() as folder:
                if Path(folder, _ROUNDS).exists():
                    with zipfile.ZipFile(Path(folder, _ROUNDS)) as file:
                        self._parts = [file.read(name) for name in file.namelist()]
        return [*self._parts]

    def _save(self, part: bytes) -> None:
        """Keep one more round; all workers do at the same time, and report together."""
        self._parts.append(part)
        if self.frequency and len(self._parts) % self.frequency == 0:
            content = io.BytesIO()
            with zipfile.ZipFile(content, "w") as file:
                for number, one in enumerate(self._parts):
                    file.writestr(f"{number:08}", one)
            self._report(_ROUNDS, content.getvalue())

    def _end(self, content: bytes) -> None:
        """Report the file of the estimator."""
        self._report(_ESTIMATOR, content)

    def _report(self, name: str, content: bytes) -> None:
        metrics = {"rounds": len(self._parts), **self._metrics}
        if ray.train.get_context().get_world_rank() > 0:
            ray.train.report(metrics)
            return
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, name).write_bytes(content)
            ray.train.report(metrics, checkpoint=Checkpoint.from_directory(folder))


def fit(
    estimator: HedgerowEstimator,
    rows: Any,
    *,
    label: str,
    features: Sequence[str] | None = None,
    weight: str | None = None,
    offset: str | None = None,
    qid: str | None = None,
    validation: Any = None,
    callback: RayTrainReportCallback | None = None,
    memory_limit: int | None = None,
    timeout: float = DEFAULT_TIMEOUT,
) -> HedgerowEstimator | None:
    """Fit an estimator to the rows of all workers of a :class:`HedgerowTrainer`.

    All workers call it once, with the same parameters.

    Parameters
    ----------
    estimator : HedgerowClassifier, HedgerowRegressor or HedgerowRanker
        Its ``n_jobs`` is the number of threads of each worker, by default the worker's cores.
    rows : ray.data.DataIterator or pyarrow.Table
        The training rows of this worker, such as ``ray.train.get_dataset_shard("train")``.
    label : str
        Column of targets.
    features : sequence of str, optional
        Columns of features, or one column of arrays; by default all others.
    weight, offset, qid : str, optional
        Columns of weights, initial raw scores and queries.
    validation : like rows, optional
        Rows for learning curves and early stopping.
    callback : RayTrainReportCallback, optional
        How often to report; by default every 20 rounds.
    memory_limit : int, optional
        Bytes for binned rows in each worker; others go to disk.  By default 4 GB.
    timeout : float, default=300
        Seconds that a worker waits for another one.

    Returns
    -------
    estimator or None
        The fitted estimator on the first worker, which the last checkpoint also has.

    Raises
    ------
    CommunicationError
        If a worker is lost or stalls.
    DataError, DataTypeError, ParameterError
        If data or parameters are invalid.
    """
    check_for_clusters(estimator)
    if _Meeting.listener is None:
        raise CommunicationError(
            "fit runs once in the function of a HedgerowTrainer, which connects the workers."
        )
    listener, _Meeting.listener = _Meeting.listener, None
    rank = ray.train.get_context().get_world_rank()
    resources = ray.get_runtime_context().get_assigned_resources()
    callback = callback or RayTrainReportCallback()
    table = _table_of(rows)
    if validation is not None:
        divided = ((table, False), (_table_of(validation), True))
        found = [
            part.append_column(VALIDATION, pa.array(np.full(part.num_rows, is_validation)))
            for part, is_validation in divided
            if part is not None
        ]
        table = pa.concat_tables(found, promote_options="permissive") if found else None
    given = {"weight": weight, "offset": offset, "qid": qid}
    columns = Columns(
        None if features is None else tuple(features),
        label,
        {name: column for name, column in given.items() if column is not None},
        None if validation is None else VALIDATION,
    )
    with joined(listener, _Meeting.token, rank, _Meeting.addresses, timeout=timeout) as ranks:
        content = fit_tables(
            estimator,
            ranks,
            table,
            columns,
            n_threads=max(1, int(resources.get("CPU", 1))),
            memory_limit=memory_limit,
            checkpoint=callback._resume(),
            save=callback._save,
            callback=callback,
        )
    callback._end(content)
    return estimator_of(type(estimator), content) if rank == 0 else None


def _table_of(rows: Any) -> Any:
    """Return rows of this worker as an Arrow table without types of Ray; None without rows."""
    if not isinstance(rows, pa.Table):
        if not hasattr(rows, "iter_batches"):
            raise DataTypeError(
                f"rows must be ray.train.get_dataset_shard(name) or an Arrow table; got "
                f"{type(rows).__name__}."
            )
        read = rows.iter_batches(batch_size=None, batch_format="pyarrow")
        batches = [batch for batch in read if batch.num_rows]
        rows = pa.concat_tables(batches, promote_options="permissive") if batches else None
    if rows is None or not rows.num_rows:
        return None
    for k, field in enumerate(rows.schema):
        if isinstance(field.type, pa.BaseExtensionType):  # arrays, as lists
            chunks = [chunk.storage for chunk in rows.column(k).chunks]
            rows = rows.set_column(k, field.name, pa.chunked_array(chunks))
    return rows
