"""Collectives, built from messages between two ranks.

Glossary
--------
transport  carries messages between ranks: queues between threads, or the connections
           between the workers of a cluster
exchange   every rank sends one message to every other rank and receives one from it; all
           collectives consist of exchanges

==================  =========================================================
collective          exchanges
==================  =========================================================
barrier             one, with empty messages
allgather           one: each rank sends its message to every other rank
reduce_scatter      one: each rank sends every other rank its part of the array, and sums
                    the received parts
allreduce           one with complete arrays if they are small, else
                    a reduce_scatter and an allgather of the sums
==================  =========================================================

A direct exchange sends the fewest bytes for a reduce_scatter, ``(size - 1) / size`` of the
array from each rank, in one step with ``size - 1`` messages per rank.  Many ranks send the
same number of bytes in log2 ``size`` steps of one message (:mod:`hedgerow.comm.steps`).
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.comm import steps
from hedgerow.comm.base import Combine
from hedgerow.comm.mailbox import goes_in_steps
from hedgerow.comm.messages import Call, Kind, Message, Payload, Stamp, sealed
from hedgerow.errors import CommunicationError

DEFAULT_TIMEOUT = 300.0
"""Seconds without an answer after which a rank counts as lost: longer than a first
compilation or a pass over a large part of the rows."""

WHOLE_BYTES = 1 << 16
"""Limit in bytes, times the number of other ranks, for an allreduce in one step."""

_COMBINING = {"sum": np.add, "max": np.maximum}


class Transport(Protocol):
    """Connection that carries messages to and from one rank; all messages have its ``stamp``."""

    stamp: Stamp
    rank: int
    size: int

    @property
    def by_memory(self) -> frozenset[int]:
        """Ranks with shared memory, whose payloads have no checksums."""

    def post(self, messages: Sequence[tuple[int, Message]]) -> None:
        """Start to send messages to ranks; their payloads may be overwritten afterwards."""

    def flush(self, timeout: float) -> None:
        """Wait until all posted messages are sent, or raise if that is impossible."""

    def receive(self, source: int, sequence: int, timeout: float) -> tuple[Call, Payload]:
        """Return the message of a rank in an exchange."""


class Collectives:
    """A :class:`hedgerow.comm.base.Communicator` over any transport."""

    def __init__(self, transport: Transport, timeout: float = DEFAULT_TIMEOUT) -> None:
        self.rank = transport.rank
        self.size = transport.size
        self.n_exchanges = 0
        self.bytes_sent = 0
        self._transport = transport
        self._timeout = timeout
        self._failure: str | None = None
        self._in_steps = goes_in_steps(self.size)

    def allreduce(self, array: IntArray, combine: Combine = "sum") -> IntArray:
        """Return the element-wise sum or maximum of an int64 array over all ranks."""
        flat = _checked(array).reshape(-1)
        kind = Kind.ALLREDUCE_SUM if combine == "sum" else Kind.ALLREDUCE_MAX
        call = Call(kind, flat.size)
        if self.size == 1:
            return array.copy()
        if not self._in_steps and flat.nbytes * (self.size - 1) <= WHOLE_BYTES:
            payloads = self._exchange(call, [_bytes_of(flat)] * self.size)
            return self._combined(flat, payloads, combine).reshape(array.shape)
        starts = [part * flat.size // self.size for part in range(self.size + 1)]
        own = self._part(call, flat, starts, combine)
        parts = self._gather(Call(Kind.ALLREDUCE_PARTS, flat.size), _bytes_of(own))
        return np.concatenate([_integers(part) for part in parts]).reshape(array.shape)

    def reduce_scatter(
        self, array: IntArray, starts: Sequence[int], out: IntArray | None = None
    ) -> IntArray:
        """Return part ``starts[rank] : starts[rank + 1]`` of the sum of a one-dimensional array."""
        array = _checked(array)
        places = [int(start) for start in starts]
        ascending = all(first <= second for first, second in itertools.pairwise(places))
        if (
            array.ndim != 1
            or len(places) != self.size + 1
            or not ascending
            or places[0] != 0
            or places[-1] != array.size
        ):
            raise ValueError(
                f"starts {places} do not divide an array of shape {array.shape} "
                f"between {self.size} ranks"
            )
        agreed = zlib.crc32(np.asarray(places, dtype="<i8").tobytes())
        return self._part(Call(Kind.REDUCE_SCATTER, agreed), array, places, "sum", out)

    def allgather(self, message: bytes) -> list[bytes]:
        """Return the message of each rank, in the order of the ranks."""
        return [bytes(payload) for payload in self._gather(Call(Kind.ALLGATHER), message)]

    def barrier(self) -> None:
        """Return when all ranks have called this method."""
        if self._in_steps:
            steps.meet(self.rank, self.size, self._swap(Call(Kind.BARRIER)))
        else:
            self._exchange(Call(Kind.BARRIER), [b""] * self.size)

    def abort(self, reason: str) -> None:
        """Tell the other ranks, if they are reachable, that this rank gives up."""
        self._failure = self._failure or reason
        self._announce(Kind.ABORT, reason.encode())

    def leave(self) -> None:
        """Tell the other ranks that this rank is done, so that they need not wait for it."""
        self._announce(Kind.LEAVE, b"")

    def _part(
        self,
        call: Call,
        flat: IntArray,
        starts: Sequence[int],
        combine: Combine,
        out: IntArray | None = None,
    ) -> IntArray:
        if self._in_steps:
            swap, combining = self._swap(call), _COMBINING[combine]
            return steps.scatter(self.rank, self.size, swap, flat, starts, combining, out)
        parts = [flat[starts[rank] : starts[rank + 1]] for rank in range(self.size)]
        payloads = self._exchange(call, [_bytes_of(part) for part in parts])
        return self._combined(parts[self.rank], payloads, combine, out)

    def _combined(
        self,
        own: IntArray,
        payloads: Sequence[Payload],
        combine: Combine,
        out: IntArray | None = None,
    ) -> IntArray:
        """Return the sums or maxima of this rank's numbers and those of the others."""
        out, total = np.empty_like(own) if out is None else out, own
        for rank, payload in enumerate(payloads):
            if rank != self.rank:
                total = _COMBINING[combine](total, _integers(payload), out=out)
        return total if total is not own else own.copy()

    def _gather(self, call: Call, message: Payload) -> Sequence[Payload]:
        if self._in_steps:
            return steps.gather(self.rank, self.size, self._swap(call), bytes(message))
        payloads = self._exchange(call, [message] * self.size)
        payloads[self.rank] = message
        return payloads

    def _exchange(self, call: Call, payloads: Sequence[Payload]) -> list[Payload]:
        """Send ``payloads[rank]`` to each other rank; return the payloads received by rank."""
        others = [(self.rank + step) % self.size for step in range(1, self.size)]
        received: list[Payload] = [b""] * self.size
        found = self._send_and_take(call, [(rank, payloads[rank]) for rank in others], others)
        for rank, payload in zip(others, found, strict=True):
            received[rank] = payload
        return received

    def _swap(self, call: Call) -> steps.Swap:
        """Return a function for a step of a collective: send to one rank, receive from another."""

        def swap(target: int, payload: Payload, source: int) -> Payload:
            return self._send_and_take(call, [(target, payload)], [source])[0]

        return swap

    def _send_and_take(
        self, call: Call, sent: Sequence[tuple[int, Payload]], sources: Sequence[int]
    ) -> list[Payload]:
        """Send payloads to ranks; return the messages of the sources."""
        if self._failure is not None:
            raise CommunicationError(self._failure)
        sequence, taken = self.n_exchanges, []
        self.n_exchanges += 1
        try:
            self._transport.post(
                [(rank, self._sealed(call, rank, sequence, payload)) for rank, payload in sent]
            )
            for rank in sources:
                other, payload = self._transport.receive(rank, sequence, self._timeout)
                self._check_same(call, other, rank, sequence)
                taken.append(payload)
            self._transport.flush(self._timeout)
        except CommunicationError as error:
            self.abort(str(error))
            raise
        self.bytes_sent += sum(len(payload) for _, payload in sent)
        return taken

    def _sealed(self, call: Call, target: int, sequence: int, payload: Payload) -> Message:
        checked = target not in self._transport.by_memory
        return sealed(call, self.rank, target, self._transport.stamp, sequence, payload, checked)

    def _check_same(self, own: Call, other: Call, rank: int, sequence: int) -> None:
        if own.kind != other.kind:
            raise CommunicationError(
                f"ranks are out of step in exchange {sequence}: rank {self.rank} calls {own}, "
                f"rank {rank} calls {other}"
            )
        if own.agreed != other.agreed:
            raise CommunicationError(
                f"ranks are out of step in exchange {sequence}: ranks {self.rank} and {rank} call "
                f"{own} for arrays of different lengths or different parts"
            )

    def _announce(self, kind: Kind, payload: bytes) -> None:
        messages = [
            (rank, self._sealed(Call(kind), rank, self.n_exchanges, payload))
            for rank in range(self.size)
            if rank != self.rank
        ]
        try:
            self._transport.post(messages)
            self._transport.flush(min(self._timeout, 1.0))
        except CommunicationError:
            pass  # an unreachable rank notices the failure itself


def _checked(array: IntArray) -> IntArray:
    if array.dtype != np.int64:
        raise TypeError(f"collectives are for arrays of int64, not of {array.dtype}")
    return np.ascontiguousarray(array)


def _bytes_of(array: IntArray) -> memoryview:
    """Return the memory of the array as little-endian bytes."""
    return array.astype("<i8", copy=False).view(np.uint8).data


def _integers(payload: Payload) -> IntArray:
    return np.frombuffer(payload, dtype="<i8").astype(np.int64, copy=False)
