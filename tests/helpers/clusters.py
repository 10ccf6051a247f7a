"""Dask clusters for tests."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

SETTINGS: dict[str, Any] = {"distributed.worker.profile.enabled": False}
"""Settings of Dask: its profiler would sample the stacks of workers every 10 ms."""

PRELOADED = [
    *("distributed", "dask.dataframe", "hypothesis", "pytest"),
    *("hedgerow.distributed", "hedgerow.training"),
]
"""What workers need: one process imports it, and each worker is a fork of that process."""

if "forkserver" in multiprocessing.get_all_start_methods():
    SETTINGS["distributed.worker.multiprocessing-method"] = "forkserver"


@contextmanager
def client_of_workers(
    n_workers: int, processes: bool = True, protocol: str | None = None
) -> Iterator[Any]:
    """Yield a client of a new cluster of processes (they start in seconds) or of threads.

    Threads pass objects without copying, unless ``protocol`` is "tcp".
    """
    distributed = pytest.importorskip("distributed", reason="clusters need Dask")
    dask = pytest.importorskip("dask", reason="clusters need Dask")
    with dask.config.set(SETTINGS):
        if processes and "distributed.worker.multiprocessing-method" in SETTINGS:
            distributed.utils.get_mp_context().set_forkserver_preload(PRELOADED)
        with (
            distributed.LocalCluster(
                n_workers=n_workers,
                threads_per_worker=1,
                processes=processes,
                protocol=protocol,
                dashboard_address=None,
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client
