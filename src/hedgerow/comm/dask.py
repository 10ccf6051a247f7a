"""Ranks on the workers of a Dask cluster, which communicate over the workers' connections.

Glossary
--------
carrier   object of Hedgerow on a worker (in ``worker.extensions``) with the mailboxes of
          the ranks there
stream    a connection between the workers of two ranks, open during the training; it is
          opened like all connections between workers, so it uses the ports, TLS and
          authentication of the cluster

The task of a rank runs in a thread of the worker; streams run on the worker's event loop::

    rank's thread                    event loop of the worker
    post ------- call_soon --------> write to streams ~~~~> read ---> mailbox of the other
    receive <--- mailbox <---------- read <~~~~~~~~~~~~~~~~ streams of others

When a stream ends, every waiting rank knows at once that a worker is lost.
The P2P shuffle of Dask, ``distributed/shuffle/_worker_plugin.py``, uses the same pattern (a
handler of the worker, messages with the number of the run).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.comm import messages as wire
from hedgerow.comm.collectives import DEFAULT_TIMEOUT, Collectives
from hedgerow.comm.mailbox import Mailbox
from hedgerow.comm.shared_memory import Outbox, SharedMemory, open_inboxes, open_outbox
from hedgerow.errors import CommunicationError

EXTENSION = "hedgerow"
OPERATION = "hedgerow_stream"

_FRAME_BYTES = 2048
"""Shorter payloads are part of the message, longer ones are separate frames."""

_LOOK_SECONDS = 0.1
"""Interval in seconds at which a rank that waits for its event loop checks for failures."""

_WATCH_SECONDS = 0.5
"""Interval in seconds of checks whether the task of a rank was cancelled."""


@dataclass(eq=False)
class _Seat:
    """The mailbox of a rank, and its outbox until the rank takes it."""

    mailbox: Mailbox
    outbox: Outbox | None

    def close(self, reason: str) -> None:
        self.mailbox.fail(reason)
        if self.outbox is not None:
            self.outbox.close()


class Carrier:
    """Mailboxes of a worker, and the handler that fills them."""

    def __init__(self, worker: Any) -> None:
        self._seats: dict[tuple[wire.Stamp, int], _Seat] = {}
        self._lock = threading.Lock()
        worker.handlers[OPERATION] = self.read_stream

    def open(self, stamp: wire.Stamp, rank: int, size: int) -> None:
        """Open the mailbox and outbox of a rank; those of earlier epochs of the run fail."""
        seat = _Seat(
            Mailbox(stamp, rank, size), open_outbox(stamp, rank, size) if size > 1 else None
        )
        with self._lock:
            for known in [*self._seats]:
                if known[0].run == stamp.run and known[0].epoch < stamp.epoch:
                    reason = f"the training was restarted ({stamp.epoch})"
                    self._seats.pop(known).close(reason)
            self._seats[stamp, rank] = seat

    def find(self, stamp: wire.Stamp, rank: int) -> Mailbox | None:
        """Return the mailbox of a rank, or None if it is not open on this worker."""
        with self._lock:
            seat = self._seats.get((stamp, rank))
        return None if seat is None else seat.mailbox

    def take_outbox(self, stamp: wire.Stamp, rank: int) -> Outbox | None:
        """Return the outbox of a rank; the caller then owns it."""
        with self._lock:
            seat = self._seats.get((stamp, rank))
            if seat is None:
                return None
            outbox, seat.outbox = seat.outbox, None
            return outbox

    def close_seat(self, stamp: wire.Stamp, rank: int) -> None:
        """Remove what a rank has here."""
        with self._lock:
            seat = self._seats.pop((stamp, rank), None)
        if seat is not None:
            seat.close("this rank has ended")

    async def close(self) -> None:
        """Fail all mailboxes; the worker calls this method when it closes."""
        with self._lock:
            for seat in self._seats.values():
                seat.close("the worker of this rank is closing")
            self._seats.clear()

    async def read_stream(
        self,
        comm: Any,
        run: bytes = b"",
        epoch: int = 0,
        source: int = 0,
        target: int = 0,
        address: str = "",
    ) -> Any:
        """Receive messages of a rank until the rank or the connection ends; a worker handler."""
        from distributed.core import Status

        mailbox = self.find(wire.Stamp(run, epoch), target)
        if mailbox is None:
            comm.abort()  # the run has ended, so close the stream for the sender
            return Status.dont_reply
        reason = "the connection was closed"
        try:
            while True:
                content = await comm.read()
                payload = content["payload"]
                payload = payload.data if isinstance(payload, np.ndarray) else bytes(payload)
                mailbox.deliver(wire.Message(content["header"], payload))
        except OSError as error:
            reason = str(error)
        except Exception as error:  # an unreadable message
            reason = f"{type(error).__name__}: {error}"
            comm.abort()
        finally:
            mailbox.lose(source, f"lost rank {source} at {address}: {reason}")
        return Status.dont_reply


class DaskTransport:
    """Transport of one rank, used from the thread of its task."""

    def __init__(self, worker: Any, mailbox: Mailbox, addresses: Sequence[str]) -> None:
        self.stamp = mailbox.stamp
        self.rank = mailbox.rank
        self.size = mailbox.size
        self._worker = worker
        self.loop: asyncio.AbstractEventLoop = worker.loop.asyncio_loop
        self._mailbox = mailbox
        self._addresses = addresses
        self._streams: dict[int, Any] = {}
        self._pending: list[Any] = []
        self._memory = SharedMemory(None, {})

    @property
    def by_memory(self) -> frozenset[int]:
        """Ranks on this machine that share memory."""
        return self._memory.ranks

    def share_memory(self, outbox: Outbox | None, ranks: Collectives) -> None:
        """Find the ranks with which memory can be shared; every rank calls this."""
        inboxes = open_inboxes(self.stamp, self._mailbox) if outbox is not None else {}
        memory = SharedMemory(outbox, inboxes)
        try:
            readable = ranks.allgather(bytes(rank in inboxes for rank in range(self.size)))
        except BaseException:
            memory.close()
            raise
        memory.keep(rank for rank in inboxes if readable[rank][self.rank])
        self._memory = memory

    def connect(self, timeout: float) -> None:
        """Open a stream to each other rank."""
        others = [rank for rank in range(self.size) if rank != self.rank]

        async def connect_all() -> None:
            await asyncio.gather(*(self._connect(rank, timeout) for rank in others))

        self._wait_for(asyncio.run_coroutine_threadsafe(connect_all(), self.loop), 2 * timeout)

    def post(self, messages: Sequence[tuple[int, wire.Message]]) -> None:
        """Write messages to ranks on this machine; pass others to the event loop."""
        near = [(rank, message) for rank, message in messages if rank in self.by_memory]
        far = [
            (rank, wire.copied(message)) for rank, message in messages if rank not in self.by_memory
        ]
        if near and not self._write_near(near):
            far += [(rank, wire.copied(wire.with_checksum(message))) for rank, message in near]

        async def write_all() -> None:
            written = (self._write(rank, message) for rank, message in far)
            problems = await asyncio.gather(*written, return_exceptions=True)
            for problem in filter(None, problems):
                raise problem

        if far:
            self._pending.append(asyncio.run_coroutine_threadsafe(write_all(), self.loop))

    def flush(self, timeout: float) -> None:
        """Wait until the event loop has written all posted messages."""
        pending, self._pending = self._pending, []
        for future in pending:
            self._wait_for(future, timeout)

    def receive(self, source: int, sequence: int, timeout: float) -> tuple[wire.Call, wire.Payload]:
        """Wait for a message of a rank."""
        if source in self.by_memory:
            found = self._memory.receive(source, sequence, timeout)
            if found is not None:
                return found
        header, payload = self._mailbox.take(source, sequence, timeout)
        return header.call, payload

    def close(self) -> None:
        """Close the streams of this rank, and release shared memory."""
        memory, self._memory = self._memory, SharedMemory(None, {})
        memory.close()
        streams, self._streams = self._streams, {}

        async def close_all() -> None:
            await asyncio.gather(
                *(stream.close() for stream in streams.values()), return_exceptions=True
            )

        asyncio.run_coroutine_threadsafe(close_all(), self.loop)

    def _write_near(self, messages: Sequence[tuple[int, wire.Message]]) -> bool:
        """Write the messages of an exchange to shared memory; False if it is not possible."""
        header = wire.opened(messages[0][1].header)
        if header.call.kind in (wire.Kind.ABORT, wire.Kind.LEAVE):
            return False  # a waiting rank checks its mailbox for these
        payloads = [(rank, message.payload) for rank, message in messages]
        return self._memory.post(header.sequence, header.call, payloads)

    async def _connect(self, rank: int, timeout: float) -> None:
        from distributed.comm import connect

        address = self._addresses[rank]
        stream = await connect(address, timeout=timeout, **self._worker.connection_args)
        self._streams[rank] = stream
        about = {"run": self.stamp.run, "epoch": self.stamp.epoch, "address": self._worker.address}
        ends = {"source": self.rank, "target": rank}
        await stream.write({"op": OPERATION, "reply": False, **about, **ends})

    async def _write(self, rank: int, message: wire.Message) -> None:
        from distributed.protocol import to_serialize

        stream = self._streams.get(rank)
        if stream is None:
            raise OSError(f"there is no connection to rank {rank}")
        payload: Any = bytes(message.payload)
        if len(payload) >= _FRAME_BYTES and not stream.peer_address.startswith("inproc://"):
            payload = to_serialize(np.frombuffer(payload, dtype=np.uint8))
        await stream.write({"header": message.header, "payload": payload})

    def _wait_for(self, future: Any, timeout: float) -> None:
        """Wait for work on the event loop, unless this rank has failed in the meantime."""
        deadline = time.monotonic() + timeout
        while not future.done():
            left = deadline - time.monotonic()
            try:
                future.exception(max(min(left, _LOOK_SECONDS), 0.0))
            except TimeoutError:
                if left > 0 and self._mailbox.failure is None:
                    continue
                future.cancel()
                raise CommunicationError(
                    self._mailbox.failure
                    or f"rank {self.rank} could not reach the others within {timeout:g} s"
                ) from None
        try:
            future.result()
        except OSError as error:
            # The mailbox may have the reason why the other rank left.
            reason = self._mailbox.failure or f"rank {self.rank} cannot send: {error}"
            raise CommunicationError(reason) from error


def join(run: bytes, epoch: int, rank: int, size: int) -> str:
    """Open the mailbox of a rank, before any rank connects; return the address of the worker."""
    from distributed import get_worker

    worker = get_worker()
    if EXTENSION not in worker.extensions:
        worker.extensions[EXTENSION] = Carrier(worker)
    worker.extensions[EXTENSION].open(wire.Stamp(run, epoch), rank, size)
    return str(worker.address)


@contextmanager
def dask_ranks(
    run: bytes,
    epoch: int,
    rank: int,
    addresses: Sequence[str],
    *,
    timeout: float = DEFAULT_TIMEOUT,
    connect_timeout: float = 30.0,
    shares_memory: bool = True,
) -> Iterator[Collectives]:
    """Yield the communicator of a rank, in a task on a worker that has joined before."""
    from distributed import get_worker

    worker: Any = get_worker()
    stamp = wire.Stamp(run, epoch)
    carrier = worker.extensions.get(EXTENSION)
    mailbox = carrier.find(stamp, rank) if carrier is not None else None
    if mailbox is None:
        raise CommunicationError(
            f"rank {rank} has not joined attempt {epoch} of this training on {worker.address}"
        )
    transport = DaskTransport(worker, mailbox, addresses)
    over = threading.Event()
    try:
        asyncio.run_coroutine_threadsafe(
            _watch(worker, worker.get_current_task(), mailbox, over), transport.loop
        )
        transport.connect(connect_timeout)
        communicator = Collectives(transport, timeout)
        try:
            if shares_memory:
                transport.share_memory(carrier.take_outbox(stamp, rank), communicator)
            yield communicator
            communicator.leave()
        except BaseException as error:  # report every error to the other ranks
            communicator.abort(f"{type(error).__name__}: {error}")
            raise
    finally:
        over.set()
        transport.close()
        carrier.close_seat(stamp, rank)


async def _watch(worker: Any, key: Any, mailbox: Mailbox, over: threading.Event) -> None:
    """Fail the mailbox when the task of a rank is cancelled, for example if the client ends."""
    while not over.is_set():
        task = worker.state.tasks.get(key)
        if task is None or task.state not in ("executing", "long-running"):
            mailbox.fail("the training was cancelled, or the client that started it has gone")
            return
        await asyncio.sleep(_WATCH_SECONDS)
