"""Training on one worker, for features that need all rows at once.

Training in chunks (:mod:`hedgerow.distributed.work`) supports most parameters.  For other
parameters, the partitions go to the worker with the most memory, which trains as on a table in
memory, so the model has the same bytes.  If that worker has too little memory, an error names
the feature.

::

    partitions on workers ---> one worker: a table ---> hedgerow.train, or fit of an estimator
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.booster import Booster
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.data.external.memory import shown_bytes
from hedgerow.data.sources.batches import one_axis
from hedgerow.data.sparse import is_sparse
from hedgerow.distributed.cluster import Resilience, naming_lost_scheduler
from hedgerow.distributed.collections import NAMES, Tables
from hedgerow.distributed.partition import Partition, column_count
from hedgerow.errors import AllRowsNeededError, ParameterError
from hedgerow.training import train

logger = logging.getLogger("hedgerow")

_SHARE = 0.7
"""Fraction of a worker's memory limit for a table, a copy of the table, and its bins."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainAlone:
    """Call of :func:`hedgerow.train` on all rows, which returns a booster."""

    params: dict[str, Any]
    reading: dict[str, Any]  # further arguments of the Datasets
    init_model: bytes | None = None  # the model to continue

    def __call__(self, rows: Partition, valid: Partition | None, n_threads: int) -> Booster:
        """Train a booster on all rows."""
        start = None if self.init_model is None else Booster.from_bytes(self.init_model)
        return train(
            {**self.params, "n_jobs": self.params.get("n_jobs") or n_threads},
            _dataset(rows, self.reading),
            None if valid is None else _dataset(valid, self.reading),
            init_model=start,
        )


@dataclass(frozen=True, slots=True, eq=False)
class FitAlone:
    """Fit of a local estimator to all rows, which returns the fitted estimator."""

    estimator: Any

    def __call__(self, rows: Partition, valid: Partition | None, n_threads: int) -> Any:
        """Fit the estimator to all rows."""
        requested = self.estimator.n_jobs
        self.estimator.n_jobs = requested or n_threads
        more = {NAMES[name]: given for name, given in rows.given.items()}
        if valid is not None:
            more |= {"X_val": valid.X, "y_val": valid.y}
            more |= {f"{NAMES[name]}_val": given for name, given in valid.given.items()}
        try:
            return self.estimator.fit(rows.X, rows.y, **more)
        finally:
            self.estimator.n_jobs = requested


def run_alone(
    client: Any,
    work: TrainAlone | FitAlone,
    tables: Tables,
    reason: AllRowsNeededError,
    resilience: Resilience | None,
) -> Any:
    """Run a training on the worker with the most memory, if all rows fit there."""
    with naming_lost_scheduler(client):
        size = sum(client.gather(client.map(_size_of, tables.train.futures, pure=False)))
        limits: dict[str, int] = client.run_on_scheduler(limits_of_workers)
        worker = max(limits, key=lambda address: limits[address] or np.inf)
        room = limits[worker]
        if room and 3 * size > _SHARE * room:
            raise ParameterError(
                f"{reason} All rows have {shown_bytes(size)} and need about three times as much on "
                f"one worker, but the largest worker has {shown_bytes(room)}: leave that parameter "
                "out, or add a larger worker."
            )
        logger.info("%s One worker trains on all rows: %s.", reason, worker)
        more = () if tables.validation is None else tuple(tables.validation.futures)
        future = client.submit(
            _run,
            work,
            len(tables.train.futures),
            *tables.train.futures,
            *more,
            workers=[worker],
            allow_other_workers=True,
            retries=(resilience or Resilience()).max_restarts,
            pure=False,
        )
        return future.result()


def _run(work: TrainAlone | FitAlone, n_train: int, *partitions: Partition) -> Any:
    """Train on this worker."""
    from distributed import get_worker

    rows = _all_rows(partitions[:n_train])
    valid = _all_rows(partitions[n_train:]) if partitions[n_train:] else None
    return work(rows, valid, get_worker().state.nthreads)


def _all_rows(partitions: Sequence[Partition]) -> Partition:
    """Concatenate partitions in their order."""

    def column(name: str, parts: list[Any]) -> Any:
        return _joined([one_axis(part, NAMES[name]) for part in parts])

    given = {}
    for name in partitions[0].given:
        own = [part.given[name] for part in partitions]
        given[name] = _joined(list(map(np.asarray, own))) if name == "offset" else column(name, own)
    y = [part.y for part in partitions]
    return Partition(
        _joined([part.X for part in partitions]),
        _joined(y) if column_count(y[0]) > 1 else column("y", y),
        given,
    )


def _dataset(rows: Partition, reading: Mapping[str, Any]) -> Dataset:
    """Return rows as a Dataset for :func:`hedgerow.train`."""
    return Dataset(rows.X, rows.y, **rows.given, **reading)


def limits_of_workers(dask_scheduler: Any = None) -> dict[str, int]:
    """Return the memory limit of each worker, 0 for none; runs on the scheduler."""
    return {
        address: int(worker.memory_limit or 0) for address, worker in dask_scheduler.workers.items()
    }


def _size_of(partition: Partition) -> int:
    """Return the approximate size of a partition's values in bytes."""
    X = partition.X
    if is_sparse(X):
        return int(X.tocsr().data.nbytes * 2)
    return 8 * int(X.shape[0]) * int(X.shape[1])


def _joined(parts: list[Any]) -> Any:
    """Concatenate parts of a table or column."""
    if is_sparse(parts[0]):
        from scipy.sparse import vstack

        return vstack([part.tocsr() for part in parts], format="csr")
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    import pandas as pd

    return pd.concat(_with_common_categories(parts), ignore_index=True)


def _with_common_categories(parts: list[Any]) -> list[Any]:
    """Return frames whose category columns have the categories of all frames.

    pandas concatenates columns of different categories to a column of their values, so whole
    numbers would no longer be categories.
    """
    import pandas as pd

    if not isinstance(parts[0], pd.DataFrame):
        return parts
    parts = [part.copy(deep=False) for part in parts]
    for name in parts[0].columns:
        types = [part[name].dtype for part in parts]
        if len(set(types)) == 1 or not all(isinstance(t, pd.CategoricalDtype) for t in types):
            continue
        known = [t.categories for t in types if len(t.categories)]  # none: of any type
        if known:
            common = functools.reduce(lambda one, other: one.union(other, sort=False), known)
            for part in parts:
                part[name] = part[name].cat.set_categories(common)
    return parts
