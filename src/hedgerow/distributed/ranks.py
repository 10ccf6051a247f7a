"""The task of a rank on a worker, and its checkpoints.

The task leaves the thread pool of the worker (``secede``).  So the worker can compute lost
partitions, and take part in another training, while it trains.

Checkpoints are stored on the scheduler while the workers continue.  Parts
(:class:`hedgerow.boosting.resume.checkpoint.Rounds` as bytes) are variables of the scheduler,
``hedgerow-RUN-EPOCH-NUMBER``.  Rank 0 writes them.  When an attempt has failed, the client collects
the parts of all attempts and passes them to all ranks of the next attempt.  A part that a rank of
an older attempt writes later is never read.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias

from hedgerow.boosting.resume.checkpoint import CheckpointStore, Fingerprint, Rounds
from hedgerow.boosting.resume.checkpoint import joined as joined_rounds
from hedgerow.comm.base import Communicator
from hedgerow.comm.collectives import Collectives
from hedgerow.comm.connections import Listener, Tls, joined
from hedgerow.errors import CommunicationError, StorageError
from hedgerow.io.checkpoint_parts import rounds_from_bytes, rounds_to_bytes


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


Work: TypeAlias = Callable[[Communicator, Shard], bytes]
"""The function of all ranks, which must return the same bytes on each."""


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
    work: Work,
    rank: int,
    attempt: tuple[bytes, int],
    rows: tuple[tuple[int, ...], Sequence[Any]],
    more: tuple[tuple[int, ...], Sequence[Any]],
    checkpoint: Sequence[bytes],
    *,
    token: bytes,
    addresses: Sequence[str],
    timeout: float,
    connect_timeout: float,
) -> RankResult:
    """Run the task of one rank, on the partitions of two tables, each with their numbers."""
    # ``attempt``: random bytes of this training, and the number of the attempt.
    from distributed import get_worker, secede

    worker: Any = get_worker()
    secede()
    n_saved = 0

    def save(part: bytes) -> None:
        nonlocal n_saved
        if rank == 0:
            store(part, *attempt, n_saved)
            n_saved += 1

    try:
        with ranks_of_workers(
            token, rank, addresses, timeout=timeout, connect_timeout=connect_timeout
        ) as ranks:
            shard = Shard(
                partitions=rows[1], numbers=rows[0], n_threads=worker.state.nthreads,
                checkpoint=checkpoint, save=save, more=more[1], more_numbers=more[0],
                scratch=str(worker.local_directory), memory=worker.memory_manager.memory_limit,
            )  # fmt: skip
            content = work(ranks, shard)
            ranks.barrier()  # no rank ends before all ranks are done
    except CommunicationError as error:
        return RankResult(failure=str(error))
    digest = hashlib.blake2b(content, digest_size=16).digest()
    return RankResult(digest, content if rank == 0 else b"", n_saved=n_saved)


_WAIT = "200 ms"
"""Time in which the scheduler finds that a part does not exist."""


class ClusterStore(CheckpointStore):
    """The checkpoint of one rank, which is not shared.

    ``parts`` are those of earlier attempts, in order; ``save`` stores one more.
    """

    def __init__(self, parts: Sequence[bytes], save: Callable[[bytes], None]) -> None:
        self._parts, self._save = parts, save
        self._fit = Fingerprint({}, {})

    def latest(self, fit: Fingerprint) -> Rounds | None:
        """Return all rounds of earlier attempts."""
        self._fit, rounds, n_rounds = fit, list[Rounds](), 0
        for part, kept in map(rounds_from_bytes, self._parts):
            rounds.append(part)
            if kept != fit or part.first != n_rounds or not part.goes_with(rounds[0]):
                raise StorageError("the parts of the checkpoint are not consecutive ones of a fit.")
            n_rounds += part.n_rounds
        return joined_rounds(rounds) if rounds else None

    def save(self, part: Rounds) -> None:
        """Store more rounds."""
        self._save(b"".join(rounds_to_bytes(part, self._fit)))


def store(content: bytes, run: bytes, epoch: int, number: int) -> None:
    """Store a part of an attempt on the scheduler, from a task."""
    from distributed import Variable, get_client

    Variable(_name(run, epoch, number), client=get_client()).set(content)


def collect(client: Any, run: bytes, epoch: int) -> list[bytes]:
    """Return the parts of an attempt, in order."""
    from distributed import Variable

    parts: list[bytes] = []
    while True:
        try:
            part = Variable(_name(run, epoch, len(parts)), client=client).get(timeout=_WAIT)
        except TimeoutError:
            return parts
        parts.append(bytes(part))


def forget(client: Any, run: bytes, epoch: int, n_parts: int) -> None:
    """Remove the parts of an attempt."""
    from distributed import Variable

    for number in range(n_parts):
        Variable(_name(run, epoch, number), client=client).delete()


def _name(run: bytes, epoch: int, number: int) -> str:
    return f"hedgerow-{run.hex()}-{epoch}-{number}"
