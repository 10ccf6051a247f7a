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
from typing import Any

import numpy as np

from hedgerow.comm.collectives import DEFAULT_TIMEOUT, Collectives
from hedgerow.comm.mailbox import Mailbox
from hedgerow.comm.messages import (
    Call,
    Kind,
    Message,
    Payload,
    Stamp,
    copied,
    opened,
    with_checksum,
)
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


class Carrier:
    """Mailboxes of a worker, and the handler that fills them."""

    def __init__(self, worker: Any) -> None:
        self._mailboxes: dict[tuple[Stamp, int], Mailbox] = {}
        self._outboxes: dict[tuple[Stamp, int], Outbox | None] = {}
        self._lock = threading.Lock()
        worker.handlers[OPERATION] = self.read_stream

    def open(self, stamp: Stamp, rank: int, size: int) -> Mailbox:
        """Open the mailbox and outbox of a rank; those of earlier epochs of the run fail."""
        mailbox = Mailbox(stamp, rank, size)
        outbox = open_outbox(stamp, rank, size) if size > 1 else None
        with self._lock:
            older = [
                key
                for key in self._mailboxes
                if key[0].run == stamp.run and key[0].epoch < stamp.epoch
            ]
            for key in older:
                self._mailboxes.pop(key).fail(f"the training was restarted ({stamp.epoch})")
                self._close_outbox(key)
            self._mailboxes[stamp, rank] = mailbox
            self._outboxes[stamp, rank] = outbox
        return mailbox

    def find(self, stamp: Stamp, rank: int) -> Mailbox | None:
        """Return the mailbox of a rank, or None if it is not open on this worker."""
        with self._lock:
            return self._mailboxes.get((stamp, rank))

    def take_outbox(self, stamp: Stamp, rank: int) -> Outbox | None:
        """Return the outbox of a rank; the caller then owns it."""
        with self._lock:
            return self._outboxes.pop((stamp, rank), None)

    def close_mailbox(self, stamp: Stamp, rank: int) -> None:
        """Remove a mailbox."""
        with self._lock:
            self._mailboxes.pop((stamp, rank), None)
            self._close_outbox((stamp, rank))

    def _close_outbox(self, key: tuple[Stamp, int]) -> None:
        outbox = self._outboxes.pop(key, None)
        if outbox is not None:
            outbox.close()

    async def close(self) -> None:
        """Fail all mailboxes; the worker calls this method when it closes."""
        with self._lock:
            for mailbox in self._mailboxes.values():
                mailbox.fail("the worker of this rank is closing")
            self._mailboxes.clear()
            for key in list(self._outboxes):
                self._close_outbox(key)

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

        mailbox = self.find(Stamp(run, epoch), target)
        if mailbox is None:
            comm.abort()  # the run has ended, so close the stream for the sender
            return Status.dont_reply
        reason = "the connection was closed"
        try:
            while True:
                content = await comm.read()
                mailbox.deliver(Message(content["header"], _payload_of(content["payload"])))
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

    def post(self, messages: Sequence[tuple[int, Message]]) -> None:
        """Write messages to ranks on this machine; pass others to the event loop."""
        near = [(rank, message) for rank, message in messages if rank in self.by_memory]
        far = [(rank, message) for rank, message in messages if rank not in self.by_memory]
        if near and not self._write_near(near):
            far += [(rank, with_checksum(message)) for rank, message in near]
        if far:
            self._send(far)

    def _send(self, messages: Sequence[tuple[int, Message]]) -> None:
        messages = [(rank, copied(message)) for rank, message in messages]
        self._pending.append(asyncio.run_coroutine_threadsafe(self._write_all(messages), self.loop))

    def flush(self, timeout: float) -> None:
        """Wait until the event loop has written all posted messages."""
        pending, self._pending = self._pending, []
        for future in pending:
            self._wait_for(future, timeout)

    def receive(self, source: int, sequence: int, timeout: float) -> tuple[Call, Payload]:
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

    def _write_near(self, messages: Sequence[tuple[int, Message]]) -> bool:
        """Write the messages of an exchange to shared memory; False if it is not possible."""
        header = opened(messages[0][1].header)
        if header.call.kind in (Kind.ABORT, Kind.LEAVE):
            return False  # a waiting rank checks its mailbox for these
        payloads = [(rank, message.payload) for rank, message in messages]
        return self._memory.post(header.sequence, header.call, payloads)

    async def _connect(self, rank: int, timeout: float) -> None:
        from distributed.comm import connect

        stream = await connect(
            self._addresses[rank], timeout=timeout, **self._worker.connection_args
        )
        self._streams[rank] = stream
        await stream.write(
            {
                "op": OPERATION,
                "reply": False,
                "run": self.stamp.run,
                "epoch": self.stamp.epoch,
                "source": self.rank,
                "target": rank,
                "address": self._worker.address,
            }
        )

    async def _write_all(self, messages: Sequence[tuple[int, Message]]) -> None:
        problems = await asyncio.gather(
            *(self._write(rank, message) for rank, message in messages), return_exceptions=True
        )
        for problem in problems:
            if problem is not None:
                raise problem

    async def _write(self, rank: int, message: Message) -> None:
        stream = self._streams.get(rank)
        if stream is None:
            raise OSError(f"there is no connection to rank {rank}")
        payload = _content_of(message.payload, stream.peer_address)
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
    worker = _this_worker()
    if EXTENSION not in worker.extensions:
        worker.extensions[EXTENSION] = Carrier(worker)
    worker.extensions[EXTENSION].open(Stamp(run, epoch), rank, size)
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
    worker = _this_worker()
    stamp = Stamp(run, epoch)
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
        carrier.close_mailbox(stamp, rank)


async def _watch(worker: Any, key: Any, mailbox: Mailbox, over: threading.Event) -> None:
    """Fail the mailbox when the task of a rank is cancelled, for example if the client ends."""
    while not over.is_set():
        task = worker.state.tasks.get(key)
        if task is None or task.state not in ("executing", "long-running"):
            mailbox.fail("the training was cancelled, or the client that started it has gone")
            return
        await asyncio.sleep(_WATCH_SECONDS)


def _this_worker() -> Any:
    """Return the worker of the current task."""
    from distributed import get_worker

    return get_worker()


def _content_of(payload: Payload, address: str) -> Any:
    """Return the form in which a payload is written: a separate frame if it is long."""
    from distributed.protocol import to_serialize

    if len(payload) < _FRAME_BYTES or address.startswith("inproc://"):
        return bytes(payload)
    return to_serialize(np.frombuffer(payload, dtype=np.uint8))


def _payload_of(content: Any) -> Payload:
    if isinstance(content, np.ndarray):
        return content.data
    return bytes(content)
