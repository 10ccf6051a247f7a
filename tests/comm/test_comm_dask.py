"""Collectives between two Dask workers in processes, one of which dies."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.comm.collectives import Collectives
from hedgerow.comm.dask import dask_ranks, join
from hedgerow.comm.threads import run_ranks
from hedgerow.errors import CommunicationError
from tests.helpers.clocks import wait_until

distributed = pytest.importorskip(
    "distributed", reason="distributed is not installed (hedgerow[dask])"
)

LIMIT = 100.0
"""Seconds after which a test is considered hung."""


def collectives(ranks: Collectives) -> list[Any]:
    array = np.random.default_rng(ranks.rank).integers(-(2**60), 2**60, 100_003)
    ranks.barrier()
    found = [
        ranks.allreduce(array),
        ranks.allreduce(array[:50], "max"),
        ranks.reduce_scatter(array, [0, 30, array.size]),
        ranks.allgather(bytes(ranks.rank)),
    ]
    array[:] = 0  # what was sent must be what was there then
    return found


def spin(ranks: Collectives, begun: Path) -> None:
    """Exchange until something fails; return the time."""
    try:
        while True:
            ranks.allreduce(np.ones(60_000, dtype=np.int64))
            ranks.barrier()
            (begun / str(ranks.rank)).touch()
    except CommunicationError as error:
        raise CommunicationError(f"{time.time()} {error}") from error


def stall(ranks: Collectives, over: Path) -> None:
    """Let rank 1 do nothing until the other rank has given up."""
    ranks.barrier()
    if ranks.rank == 1:
        wait_until(over.exists)
    ranks.barrier()


def fail(ranks: Collectives) -> None:
    ranks.barrier()
    if ranks.rank == 1:
        raise KeyError("of its own")
    ranks.barrier()


def part(
    function: Any, run: bytes, epoch: int, rank: int, addresses: list[str], timeout: float,
    shares_memory: bool = True,
) -> Any:  # fmt: skip
    with dask_ranks(
        run, epoch, rank, addresses, timeout=timeout, connect_timeout=30,
        shares_memory=shares_memory,
    ) as ranks:  # fmt: skip
        return function(ranks)


def start(
    client: Any,
    function: Any,
    *,
    run: bytes | None = None,
    epoch: int = 0,
    timeout: float = 60.0,
    shares_memory: bool = True,
) -> list[Any]:
    client.wait_for_workers(2, timeout=LIMIT)
    run = run or os.urandom(16)
    addresses = sorted(client.nthreads())[:2]
    joined = [
        client.submit(join, run, epoch, rank, 2, workers=[address], pure=False)
        for rank, address in enumerate(addresses)
    ]
    assert client.gather(joined) == addresses
    return [
        client.submit(
            part,
            function,
            run,
            epoch,
            rank,
            addresses,
            timeout,
            shares_memory,
            workers=[address],
            pure=False,
        )
        for rank, address in enumerate(addresses)
    ]


@pytest.mark.parametrize("shares_memory", [True, False])
def test_results_are_those_of_ranks_in_threads(client: Any, shares_memory: bool) -> None:
    expected = run_ranks(2, collectives)
    for _ in range(2):
        futures = start(client, collectives, shares_memory=shares_memory)
        results = [future.result(timeout=LIMIT) for future in futures]
        for found, right in zip(results, expected, strict=True):
            for one, other in zip(found[:3], right[:3], strict=True):
                np.testing.assert_array_equal(one, other)
            assert found[3] == right[3]


def test_an_error_of_one_rank_is_raised_on_the_other(client: Any) -> None:
    futures = start(client, fail)
    with pytest.raises(KeyError, match="of its own"):
        futures[1].result(timeout=LIMIT)
    with pytest.raises(CommunicationError, match="rank 1 gave up: KeyError"):
        futures[0].result(timeout=LIMIT)


def test_a_stalled_rank_is_noticed_after_the_timeout(client: Any, tmp_path: Path) -> None:
    over = tmp_path / "over"
    futures = start(client, partial(stall, over=over), timeout=1.0)
    with pytest.raises(CommunicationError, match="rank 1 did not answer within 1 s"):
        futures[0].result(timeout=LIMIT)
    over.touch()
    with pytest.raises(CommunicationError, match="did not answer"):
        futures[1].result(timeout=LIMIT)


def test_a_rank_of_an_older_attempt_has_no_part(client: Any) -> None:
    run = os.urandom(16)
    addresses = sorted(client.nthreads())
    for future in start(client, collectives, run=run, epoch=1):
        future.result(timeout=LIMIT)
    late = client.submit(
        part, collectives, run, 0, 0, addresses, 5.0, workers=addresses[:1], pure=False
    )
    with pytest.raises(CommunicationError, match="has not joined attempt 0"):
        late.result(timeout=LIMIT)


def spinning(client: Any, folder: Path) -> list[Any]:
    """Start ranks that exchange messages, and wait until they do."""
    futures = start(client, partial(spin, begun=folder))
    wait_until(lambda: len(list(folder.iterdir())) == 2, LIMIT)
    return futures


def test_ranks_end_when_nobody_wants_their_results(client: Any, tmp_path: Path) -> None:
    futures = spinning(client, tmp_path)
    client.cancel(futures)
    del futures
    for future in start(client, collectives):  # needs the threads of the workers
        future.result(timeout=LIMIT)


def test_a_killed_worker_is_noticed_before_any_timeout(client: Any, tmp_path: Path) -> None:
    futures = spinning(client, tmp_path)
    addresses = sorted(client.nthreads())
    pids = client.run(os.getpid)
    killed_at = time.time()
    os.kill(pids[addresses[1]], signal.SIGKILL)
    with pytest.raises(CommunicationError, match=r"lost rank 1|rank 0 cannot send") as caught:
        futures[0].result(timeout=LIMIT)
    assert 0 <= float(str(caught.value).split()[0]) - killed_at < 30  # 0.1 s on a quiet machine
    client.cancel(futures)
    wait_until(lambda: set(addresses) != set(client.nthreads()), LIMIT)
    for future in start(client, collectives):
        future.result(timeout=LIMIT)
