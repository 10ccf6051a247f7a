"""Run work on all workers of a cluster, with restarts until an attempt succeeds.

Glossary
--------
rank      one long-running task on each worker; all ranks run the same function and
          communicate over connections of their own (:mod:`hedgerow.comm.connections`)
epoch     number of the attempt, increased when a rank is lost; each has its own token, so
          ranks of older attempts reach nobody, and end
lineage   the tasks that made a partition; Dask runs them again if the workers with the
          partition are lost

::

    partitions ready ---> ranks join ---> ranks work ---> same digest on all: done
         ^                    |               |
         |  lineage           v               v
         +----- epoch + 1, the remaining workers, the last checkpoint

Every wait is limited.  The other ranks and the client notice a lost worker at once, because
connections to it end, and a stalled worker after ``timeout``.  If the client is lost, the
scheduler cancels its tasks, which the workers notice.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hedgerow.comm.connections import TOKEN_BYTES
from hedgerow.distributed.ranks import RankResult, Work, collect, forget, join, rank_task
from hedgerow.errors import CommunicationError, HedgerowError

logger = logging.getLogger("hedgerow")

_POLL_SECONDS = 0.5
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.002, 0.02
"""Seconds between two looks at the tasks."""

_SCHEDULER_SECONDS = 60.0
"""Limit of the time in which the scheduler answers."""

_GRACE_SECONDS = 5.0
"""Time in which ranks notice that a rank is lost, before they are cancelled."""


@dataclass(frozen=True, slots=True)
class Resilience:
    """Timeouts, and limits of restarts and checkpoints.

    Attributes
    ----------
    timeout : float, default 300
        Seconds that a rank waits for the other ranks in one exchange; longer than any worker
        needs for its rows of one level, or for compilation.
    connect_timeout : float, default 30
        Seconds that the client waits for the workers to answer.
    max_restarts : int, default 3
        Largest number of attempts after the first.
    checkpoint_every : float, default 10
        Seconds between checkpoints; 0 means after every round.
    """

    timeout: float = 300.0
    connect_timeout: float = 30.0
    max_restarts: int = 3
    checkpoint_every: float = 10.0


class _Lost(Exception):
    """Failure of an attempt whose ranks could not continue; another attempt may succeed."""


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """The partitions of a table."""

    futures: Sequence[Any]  # futures of all partitions, in order
    lengths: Sequence[int]  # rows of each partition
    everywhere: bool = False  # whether each rank gets all partitions

    def of_ranks(self, n_ranks: int) -> list[tuple[tuple[int, ...], list[Any]]]:
        """Return the numbers of the partitions of each rank, and their futures."""
        numbers = contiguous(self.lengths, n_ranks)
        if self.everywhere:
            numbers = [range(len(self.futures))] * n_ranks
        return [(tuple(own), [self.futures[number] for number in own]) for own in numbers]


def run_on_workers(
    client: Any,
    work: Work,
    parts: Parts,
    *,
    more: Parts | None = None,
    resilience: Resilience | None = None,
) -> bytes:
    """Run a function on all workers, each with its partitions, until an attempt succeeds."""
    resilience = resilience or Resilience()
    tables = (parts, more or Parts((), ()))
    run = os.urandom(16)
    problems: list[str] = []
    saved: list[bytes] = []
    with naming_lost_scheduler(client):
        for epoch in range(resilience.max_restarts + 1):
            try:
                return _attempt(client, work, tables, resilience, run, epoch, saved)
            except _Lost as lost:
                problems.append(str(lost))
                logger.warning("attempt %d of a training failed: %s", epoch, lost)
                more_saved = collect(client, run, epoch)
                forget(client, run, epoch, len(more_saved))
                saved += more_saved
                logger.info("attempt %d continues from %d checkpoints", epoch + 1, len(saved))
    raise CommunicationError(
        f"the training was started {len(problems)} times and workers were lost each time "
        f"(max_restarts={resilience.max_restarts}); the last time: {problems[-1]}"
    )


@contextmanager
def naming_lost_scheduler(client: Any) -> Iterator[None]:
    """Raise ``CommunicationError`` in place of any error of Dask once the scheduler is lost."""
    try:
        yield
    except (Exception, asyncio.CancelledError) as error:
        if isinstance(error, HedgerowError) or client.status == "running":
            raise
        raise CommunicationError(
            f"the connection to the Dask scheduler is lost ({type(error).__name__}: {error}): the "
            "training has ended"
        ) from error


def _attempt(
    client: Any,
    work: Work,
    tables: tuple[Parts, Parts],
    resilience: Resilience,
    run: bytes,
    epoch: int,
    saved: Sequence[bytes],
) -> bytes:
    """Run one attempt on all ranks."""
    for table in tables:
        ready(client, table.futures)
    token = os.urandom(TOKEN_BYTES)
    addresses, ports = _join(client, resilience, token)
    rows, more = (table.of_ranks(len(addresses)) for table in tables)
    futures = [
        client.submit(
            rank_task,
            work,
            rank,
            (run, epoch),
            rows[rank],
            more[rank],
            [*saved],
            token=token,
            addresses=ports,
            timeout=resilience.timeout,
            connect_timeout=resilience.connect_timeout,
            workers=[address],
            allow_other_workers=False,
            pure=False,
            retries=0,
            key=f"hedgerow-rank-{rank}-{epoch}-{run.hex()[:12]}",
        )
        for rank, address in enumerate(addresses)
    ]
    try:
        results = _results(client, futures, addresses)
        forget(client, run, epoch, results[0].n_saved)
        return _agreed(results)
    finally:
        client.cancel(futures, force=True)


def ready(client: Any, futures: Sequence[Any]) -> None:
    """Wait until all partitions are computed; raise the error of a failed partition."""
    # The client calls tasks "lost" that are about to run again.
    while not _wait_for_tasks(client, futures, 60.0, ("pending", "lost")):
        _addresses(client)  # raises if the scheduler is gone
    for number, future in enumerate(futures):
        if future.status == "error":
            future.result()  # raises
        if future.status != "finished":
            _addresses(client)  # raises if the scheduler is gone: the client then cancels all
            raise CommunicationError(
                f"partition {number} is {future.status}, and Dask cannot compute it again: build "
                "the collection from files or delayed functions, not from scattered data"
            )


def _wait_for_tasks(
    client: Any, futures: Sequence[Any], timeout: float, unfinished: Sequence[str] = ("pending",)
) -> bool:
    """Wait until no task is pending; return False if the time runs out."""
    began = time.monotonic()
    while any(future.status in unfinished for future in futures):
        if time.monotonic() > began + timeout or client.status != "running":
            return False
        _pause(began)
    return True


def _pause(began: float) -> None:
    """Sleep for a tenth of the time since ``began``: a short wait ends without much delay."""
    waited = time.monotonic() - began
    time.sleep(min(max(waited / 10.0, _SHORTEST_PAUSE), _LONGEST_PAUSE))


def _join(client: Any, resilience: Resilience, token: bytes) -> tuple[list[str], tuple[str, ...]]:
    """Return the addresses of the participating workers, and of the open port of each rank."""
    chosen = present_workers(client, resilience.connect_timeout)
    futures = [
        client.submit(join, token, rank, workers=[address], pure=False)
        for rank, address in enumerate(chosen)
    ]
    answered = _wait_for_tasks(client, futures, resilience.connect_timeout)
    statuses = [future.status for future in futures]
    for future, status in zip(futures, statuses, strict=True):
        if status == "error":
            _raise_own(future)
    all_open = answered and all(status == "finished" for status in statuses)
    ports = tuple(client.gather(futures)) if all_open else ()
    client.cancel(futures, force=True)
    # Workers that do not answer are removed, so that Dask computes their data on others.
    if not answered:
        silent = [
            address for address, status in zip(chosen, statuses, strict=True) if status == "pending"
        ]
        silence = resilience.connect_timeout / 2
        removed = [
            address
            for address in silent
            if client.run_on_scheduler(_remove_worker, address, silence)
        ]
        raise _Lost(
            f"no sign of life from {', '.join(silent)} within {resilience.connect_timeout:g} s"
            + (f"; removed from the cluster: {', '.join(removed)}" if removed else "")
        )
    if not all_open:
        failed = [status for status in statuses if status != "finished"]
        raise _Lost(f"{len(failed)} of {len(chosen)} workers went away before they could begin")
    return chosen, ports


def present_workers(client: Any, patience: float = 30.0) -> list[str]:
    """Return the addresses of the workers; wait for a worker if there is none."""
    deadline = time.monotonic() + patience
    while True:
        if there := sorted(_addresses(client)):
            return there
        if time.monotonic() > deadline:
            raise CommunicationError("the cluster has no workers")
        time.sleep(_POLL_SECONDS)


def _addresses(client: Any) -> set[str]:
    """Return the addresses of the workers that the scheduler knows."""
    try:
        if client.status != "running":
            raise OSError(f"the client is {client.status}")
        return set(client.sync(client.scheduler.ncores, callback_timeout=_SCHEDULER_SECONDS))
    except OSError as error:  # also a timeout
        raise CommunicationError(
            f"the Dask scheduler does not answer ({type(error).__name__}: {error}): the training "
            "has ended"
        ) from error


def _results(client: Any, futures: Sequence[Any], addresses: Sequence[str]) -> list[RankResult]:
    """Return the results of the ranks; raise as soon as a rank cannot return."""
    began = looked = time.monotonic()
    deadline: float | None = None
    lost: list[str] = []
    while True:
        statuses = [future.status for future in futures]
        for future, status in zip(futures, statuses, strict=True):
            if status == "error":
                _raise_own(future)
        results = [
            future.result() if status == "finished" else None
            for future, status in zip(futures, statuses, strict=True)
        ]
        failed = [result.failure for result in results if result and result.failure]
        missing = [
            address
            for address, result in zip(addresses, results, strict=True)
            if result is None and address in lost
        ]
        if all(status != "pending" for status in statuses) and not missing:
            broken = failed or [status for status in statuses if status != "finished"]
            if broken:
                raise _Lost(_described(failed, broken))
            return [result for result in results if result is not None]
        if failed or missing:
            deadline = deadline or time.monotonic() + _GRACE_SECONDS
            pending = sum(status == "pending" for status in statuses)
            if time.monotonic() > deadline or pending == len(missing):
                raise _Lost(_described(failed, [f"lost {address}" for address in missing]))
        _pause(began)
        if time.monotonic() > looked + _POLL_SECONDS:  # workers may need the scheduler's processor
            looked, there = time.monotonic(), _addresses(client)
            lost = [address for address in addresses if address not in there]


def _described(failed: Sequence[str], otherwise: Sequence[str]) -> str:
    """Choose one reason: the original failure, rather than that another rank gave up."""
    firsthand = [reason for reason in failed if " gave up: " not in reason]
    return (firsthand or failed or otherwise)[0]


def _raise_own(future: Any) -> None:
    """Raise the error of the function; convert errors of Dask about lost workers to ``_Lost``."""
    error = future.exception()
    if not isinstance(error, HedgerowError) and type(error).__module__.startswith("distributed"):
        raise _Lost(f"{type(error).__name__}: {error}") from error
    raise error


def _agreed(results: Sequence[RankResult]) -> bytes:
    """Return the result that all ranks have in common; raise if results differ."""
    digests = {result.digest for result in results}
    if len(digests) != 1:
        raise CommunicationError(
            f"{len(results)} ranks have {len(digests)} different results. Check that all workers "
            "have the same versions of hedgerow and NumPy; if they do, please report this defect."
        )
    return results[0].content


async def _remove_worker(address: str, silence: float, dask_scheduler: Any = None) -> bool:
    """Remove a worker without heartbeats for ``silence`` seconds; runs on the scheduler."""
    worker = dask_scheduler.workers.get(address)
    if worker is None:
        return False
    if time.time() - worker.last_seen < silence:
        return False
    await dask_scheduler.remove_worker(address=address, stimulus_id=f"hedgerow-{time.time()}")
    return True


def contiguous(lengths: Sequence[int], n_ranks: int) -> list[range]:
    """Divide partitions among ranks in order, with about the same number of rows each."""
    total = sum(lengths)
    if total == 0:
        lengths, total = [1] * len(lengths), max(1, len(lengths))
    starts = [0]
    before = 0
    for number, length in enumerate(lengths):
        # The rank whose share of all rows contains the middle row of the partition.
        rank = min(n_ranks - 1, (2 * before + length) * n_ranks // (2 * total))
        starts += [number] * (rank + 1 - len(starts))
        before += length
    starts += [len(lengths)] * (n_ranks + 1 - len(starts))
    return [range(first, last) for first, last in itertools.pairwise(starts)]
