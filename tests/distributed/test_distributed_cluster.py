"""Training on a cluster whose workers die or stall gives the same bytes, or one clear error."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.comm.base import Communicator
from hedgerow.distributed import cluster as module
from hedgerow.distributed.cluster import Parts, Resilience, contiguous, run_on_workers
from hedgerow.distributed.ranks import Shard
from hedgerow.errors import CommunicationError, DataError
from tests.helpers.clusters import client_of_workers
from tests.helpers.ranks import run_ranks

dask = pytest.importorskip("dask", reason="dask is not installed (hedgerow[dask])")
distributed = pytest.importorskip(
    "distributed", reason="distributed is not installed (hedgerow[dask])"
)

LIMIT = 240.0
"""Seconds after which a test is considered hung."""
ROUNDS = 12
LENGTHS = (40, 0, 25, 60, 1, 10, 33)


@given(lengths=st.lists(st.integers(0, 50), max_size=20), n_ranks=st.integers(1, 9))
def test_ranks_get_neighbouring_partitions_and_about_their_share(
    lengths: list[int], n_ranks: int
) -> None:
    ranges = contiguous(lengths, n_ranks)
    assert len(ranges) == n_ranks
    assert [number for part in ranges for number in part] == list(range(len(lengths)))
    share = sum(lengths) / n_ranks
    for part in ranges:
        assert sum(lengths[number] for number in part) <= share + max(lengths, default=0)


def partition(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 1000, LENGTHS[number])


def work(ranks: Communicator, shard: Shard, fault: str = "", marker: str = "") -> bytes:
    """Simulate a training: each round depends on all rows and on the previous round."""
    rows = np.concatenate([*shard.partitions, np.zeros(0, dtype=np.int64)])
    state, first = bytes(16), 0
    if shard.checkpoint:
        state, first = shard.checkpoint[-1][:16], shard.checkpoint[-1][16]
    for number in range(first, ROUNDS):
        histogram = np.bincount(rows * (1 + state[0]) % 97, minlength=97)
        starts = [part * 97 // ranks.size for part in range(ranks.size + 1)]
        part = ranks.reduce_scatter(histogram, starts)
        if number == 7 and ranks.rank == ranks.size - 1 and taken(marker):
            go_wrong(fault)
        whole = b"".join(ranks.allgather(part.tobytes()))
        state = hashlib.blake2b(state + whole, digest_size=16).digest()
        if number % 3 == 2:
            shard.save(state + bytes([number + 1]))
    return state


def taken(marker: str) -> bool:
    """Return True for the first caller only."""
    try:
        os.unlink(marker)
    except FileNotFoundError:
        return False
    return True


def go_wrong(fault: str) -> None:
    if fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif fault == "slow":
        time.sleep(3.0)
    elif fault == "error":
        raise DataError("column 'a' of partition 5 is of text")


def expected(n_ranks: int = 1) -> bytes:
    ranges = contiguous(LENGTHS, n_ranks)

    def rank(ranks: Any) -> bytes:
        parts = [partition(number) for number in ranges[ranks.rank]]
        return work(ranks, Shard(parts, tuple(ranges[ranks.rank])))

    results = run_ranks(n_ranks, rank)
    assert len(set(results)) == 1
    return results[0]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with client_of_workers(3) as client:
        yield client.cluster


@pytest.fixture
def client(cluster: Any) -> Iterator[Any]:
    with distributed.Client(cluster) as client:
        client.wait_for_workers(3, timeout=LIMIT)
        yield client


@pytest.fixture
def marker(tmp_path: Path) -> str:
    path = tmp_path / "fault"
    path.touch()
    return str(path)


def parts(client: Any, make: Any = partition) -> Parts:
    return Parts(client.map(make, range(len(LENGTHS)), pure=False), LENGTHS)


PATIENT = Resilience(timeout=60.0, connect_timeout=20.0, max_restarts=3)
"""Options for faults that are seen at once."""
QUICK = Resilience(timeout=2.0, connect_timeout=3.0, max_restarts=20)
"""Options for faults that only a timeout shows; more attempts, because the machine may be busy."""


def call_within(seconds: float, function: Any) -> Any:
    """Call a function that must end in time, and return its result."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append((function(), None))
        except BaseException as error:
            outcome.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert outcome, f"hangs for more than {seconds} s"
    result, error = outcome[0]
    if error is not None:
        raise error
    return result


@pytest.mark.slow
def test_data_that_cannot_be_made_again_are_an_error(client: Any, marker: str) -> None:
    data = [partition(number) for number in range(len(LENGTHS))]
    last = sorted(client.nthreads())[2]
    scattered = Parts(client.scatter(data, workers=[last]), LENGTHS)
    failing = partial(work, fault="killed", marker=marker)  # the last rank's worker dies
    with pytest.raises(CommunicationError, match=r"partition \d is cancelled.*scattered"):
        call_within(LIMIT, lambda: run_on_workers(client, failing, scattered, resilience=PATIENT))


@pytest.mark.fast(1)
@pytest.mark.parametrize("n_workers", [3, 2, 1])
def test_the_result_is_the_same_on_any_number_of_workers(
    client: Any, n_workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = sorted(client.nthreads())[:n_workers]
    monkeypatch.setattr(module, "present_workers", lambda client, patience: addresses)
    found = call_within(LIMIT, lambda: run_on_workers(client, work, parts(client)))
    assert found == expected() == expected(5)


def test_an_error_of_the_work_is_raised_at_once(client: Any, marker: str) -> None:
    failing = partial(work, fault="error", marker=marker)
    with pytest.raises(DataError, match="column 'a' of partition 5"):
        call_within(
            LIMIT, lambda: run_on_workers(client, failing, parts(client), resilience=PATIENT)
        )


@pytest.mark.slow
def test_a_slow_rank_is_given_another_chance(client: Any, marker: str) -> None:
    failing = partial(work, fault="slow", marker=marker)
    found = call_within(
        LIMIT, lambda: run_on_workers(client, failing, parts(client), resilience=QUICK)
    )
    assert found == expected()


@pytest.mark.slow
def test_a_stopped_worker_is_removed_and_its_data_made_again(client: Any, marker: str) -> None:
    pids = client.run(os.getpid)
    failing = partial(work, fault="stopped", marker=marker)
    try:
        found = call_within(
            LIMIT, lambda: run_on_workers(client, failing, parts(client), resilience=QUICK)
        )
    finally:
        for pid in pids.values():
            if stopped(pid):
                os.kill(pid, signal.SIGKILL)
    assert found == expected()


def stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


def test_too_many_failures_end_in_one_error(client: Any) -> None:
    never = Resilience(timeout=0.5, connect_timeout=5.0, max_restarts=1)
    began = time.monotonic()
    with pytest.raises(CommunicationError, match=r"started 2 times.*did not answer within 0.5 s"):
        call_within(LIMIT, lambda: run_on_workers(client, stalls, parts(client), resilience=never))
    assert time.monotonic() - began < LIMIT / 2


def stalls(ranks: Communicator, shard: Shard) -> bytes:
    if ranks.rank == 0:
        time.sleep(1.5)
    ranks.barrier()
    return b""


def differs(ranks: Communicator, shard: Shard) -> bytes:
    return bytes([ranks.rank])


def test_different_results_are_an_error(client: Any) -> None:
    with pytest.raises(CommunicationError, match="3 ranks have 3 different results"):
        call_within(
            LIMIT, lambda: run_on_workers(client, differs, parts(client), resilience=PATIENT)
        )


def broken(number: int) -> np.ndarray:
    if number == 3:
        raise OSError("cannot read file 3")
    return partition(number)


def test_an_error_of_a_partition_is_the_error(client: Any) -> None:
    with pytest.raises(OSError, match="cannot read file 3"):
        call_within(
            LIMIT, lambda: run_on_workers(client, work, parts(client, broken), resilience=PATIENT)
        )


def test_no_workers_is_an_error(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = parts(client)
    monkeypatch.setattr(module, "_addresses", lambda client: set())
    with pytest.raises(CommunicationError, match="the cluster has no workers"):
        run_on_workers(client, work, found, resilience=Resilience(connect_timeout=0.5))


def endless(ranks: Communicator, shard: Shard) -> bytes:
    while True:
        ranks.barrier()
        time.sleep(0.01)


def running(dask_worker: Any) -> bool:
    return any(
        str(key).startswith("hedgerow-rank") and task.state in ("executing", "long-running")
        for key, task in dask_worker.state.tasks.items()
    )


@pytest.mark.slow
def test_a_lost_scheduler_is_one_error(tmp_path: Path) -> None:
    place = tmp_path / "scheduler.json"
    command = [sys.executable, "-m", "dask", "scheduler", "--port", "0", "--no-dashboard"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    processes = [
        subprocess.Popen([*command, "--scheduler-file", str(place)], env=environment, cwd=tmp_path)
    ]
    try:
        worker = [sys.executable, "-m", "dask", "worker", "--no-nanny", "--no-dashboard"]
        processes += [
            subprocess.Popen(
                [*worker, "--scheduler-file", str(place), "--death-timeout", "20"],
                env=environment,
                cwd=tmp_path,
            )
            for _ in range(2)
        ]
        with distributed.Client(scheduler_file=str(place), timeout=LIMIT) as client:
            client.wait_for_workers(2, timeout=LIMIT)
            table = parts(client)
            killer = threading.Timer(2.0, processes[0].kill)
            killer.start()
            with pytest.raises(CommunicationError, match="scheduler"):
                call_within(2 * LIMIT, lambda: run_on_workers(client, endless, table))
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_ranks_end_when_the_client_has_gone(cluster: Any, client: Any) -> None:
    leaving = distributed.Client(cluster)
    futures = parts(leaving)
    errors = []

    def train() -> None:
        try:
            run_on_workers(leaving, endless, futures)
        except CommunicationError as error:
            errors.append(error)

    thread = threading.Thread(target=train, daemon=True)
    thread.start()
    deadline = time.monotonic() + LIMIT
    while not all(client.run(running).values()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    leaving.close()
    while any(client.run(running).values()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    thread.join(LIMIT)
    assert len(errors) == 1
