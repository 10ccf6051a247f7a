"""Dask clusters for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

WITHOUT_PROFILE = {"distributed.worker.profile.enabled": False}
"""Dask looks at the stacks of its workers every 10 ms, even while modules are imported."""


@contextmanager
def client_of_two_workers(processes: bool = True, protocol: str | None = None) -> Iterator[Any]:
    """Yield a client of a new cluster of two processes, which take seconds to start, or of threads.

    Threads pass objects to each other as they are, unless ``protocol`` is "tcp".
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
