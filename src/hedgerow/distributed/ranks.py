"""The task of a rank on a worker.

The task leaves the thread pool of the worker (``secede``).  So the worker can compute lost
partitions, and take part in another training, while it trains.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from hedgerow.comm.base import Communicator
from hedgerow.comm.collectives import Collectives
from hedgerow.comm.connections import Listener, Tls, joined
from hedgerow.distributed.checkpoints import store
from hedgerow.errors import CommunicationError


@dataclass(frozen=True, slots=True)
class Assignment:
    """Instructions for a rank."""

    run: bytes  # 16 random bytes of this training
    epoch: int  # number of the attempt
    token: bytes  # random bytes of this attempt, by which ranks know each other
    rank: int
    addresses: tuple[str, ...]  # addresses at which the ranks listen
    numbers: tuple[int, ...]  # numbers of the rank's partitions
    more_numbers: tuple[int, ...]  # numbers of the rank's partitions of the second table
    checkpoint: tuple[bytes, ...]  # the parts saved by earlier attempts, in order
    timeout: float  # see :class:`hedgerow.distributed.cluster.Resilience`
    connect_timeout: float


@dataclass(frozen=True, slots=True, eq=False)
class Shard:
    """Data and resources of a rank."""

    partitions: Sequence[Any]  # partitions of the rank, in order
    numbers: tuple[int, ...]  # positions of these partitions among all partitions
    n_threads: int = 1  # number of threads of the worker
    # The parts saved by earlier attempts, in order; the same on all ranks.
    checkpoint: Sequence[bytes] = ()
    # Stores a part on the scheduler for later attempts; does nothing on ranks other than 0.
    save: Callable[[bytes], None] = lambda content: None
    more: Sequence[Any] = ()  # the same for a second table, for validation
    more_numbers: tuple[int, ...] = ()
    scratch: str = ""  # folder of the worker for temporary files
    memory: int | None = None  # memory limit of the worker in bytes


class Work(Protocol):
    """The function of all ranks, which must return the same bytes on each."""

    def __call__(self, ranks: Communicator, shard: Shard) -> bytes:
        """Work together with the other ranks."""


@dataclass(frozen=True, slots=True)
class RankResult:
    """The result of a rank, or the reason why it could not continue."""

    digest: bytes = b""  # digest of the result
    content: bytes = b""  # the result on rank 0; empty on other ranks
    failure: str | None = None  # failure of the communication
    n_saved: int = 0  # number of parts saved by rank 0 in this attempt


_listeners: dict[tuple[bytes, int], tuple[float, Listener]] = {}
"""The ports of ranks on this worker, by token and rank, until their tasks begin."""

_LONGEST_WAIT = 600.0
"""Seconds after which the task of a rank no longer begins."""


def join(token: bytes, rank: int) -> str:
    """Open the port of a rank on this worker, and return its address."""
    from distributed.comm import get_address_host

    from distributed import get_worker

    for (known, other), (opened, listener) in [*_listeners.items()]:
        if time.monotonic() > opened + _LONGEST_WAIT:
            _listeners.pop((known, other), None)
            listener.close()
    address = str(get_worker().address)
    in_one_process = address.startswith("inproc://")
    listener = Listener("127.0.0.1" if in_one_process else get_address_host(address))
    _listeners[token, rank] = time.monotonic(), listener
    return listener.address


def ranks_of_workers(
    token: bytes, rank: int, addresses: Sequence[str], **options: Any
) -> AbstractContextManager[Collectives]:
    """Return a context of the communicator of a rank, in a task on a worker that has joined."""
    from distributed import get_worker

    worker: Any = get_worker()
    key = worker.get_current_task()
    opened = _listeners.pop((token, rank), None)
    if opened is None:
        raise CommunicationError(
            f"rank {rank} has no open port on {worker.address}: the worker was started again, or "
            "the task began too late"
        )

    def is_cancelled() -> bool:
        task = worker.state.tasks.get(key)
        return task is None or task.state not in ("executing", "long-running")

    server = worker.security.get_listen_args("worker").get("ssl_context")
    client = worker.security.get_connection_args("worker").get("ssl_context")
    tls = None if server is None or client is None else Tls(server, client)
    return joined(opened[1], token, rank, addresses, is_cancelled=is_cancelled, tls=tls, **options)


def rank_task(
    assignment: Assignment, work: Work, partitions: Sequence[Any], more: Sequence[Any]
) -> RankResult:
    """Run the task of one rank."""
    from distributed import get_worker, secede

    worker: Any = get_worker()
    secede()
    n_saved = 0

    def save(part: bytes) -> None:
        nonlocal n_saved
        if assignment.rank == 0:
            store(part, assignment.run, assignment.epoch, n_saved)
            n_saved += 1

    try:
        with ranks_of_workers(
            assignment.token,
            assignment.rank,
            assignment.addresses,
            timeout=assignment.timeout,
            connect_timeout=assignment.connect_timeout,
        ) as ranks:
            shard = Shard(
                partitions,
                assignment.numbers,
                worker.state.nthreads,
                assignment.checkpoint,
                save,
                more,
                assignment.more_numbers,
                str(worker.local_directory),
                worker.memory_manager.memory_limit,
            )
            content = work(ranks, shard)
            ranks.barrier()  # no rank ends before all ranks are done
    except CommunicationError as error:
        return RankResult(failure=str(error))
    digest = hashlib.blake2b(content, digest_size=16).digest()
    return RankResult(digest, content if assignment.rank == 0 else b"", n_saved=n_saved)
