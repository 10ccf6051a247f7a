"""Dask clusters for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

WITHOUT_PROFILE = {"distributed.worker.profile.enabled": False}
"""Settings that stop Dask's profiler, which samples the stacks of workers every 10 ms."""


@contextmanager
def client_of_two_workers(processes: bool = True, protocol: str | None = None) -> Iterator[Any]:
    """Yield a client of a new cluster of two processes (they start in seconds) or threads.

    Threads pass objects without copying, unless ``protocol`` is "tcp".
    """
    distributed = pytest.importorskip("distributed", reason="clusters need Dask")
    dask = pytest.importorskip("dask", reason="clusters need Dask")
    with (
        dask.config.set(WITHOUT_PROFILE),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=processes,
            protocol=protocol,
            dashboard_address=None,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client
