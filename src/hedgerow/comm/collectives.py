"""Collectives of W ranks in log2 W exchanges.

In each exchange a rank sends one message to one rank and receives one from another, at distances
1, 2, 4, ... ::

    gather     rank r has the parts of r, r + 1, ...; in the exchange of distance d it receives
               the next parts from rank r + d (Bruck et al. 1997, for any W)

               5 ranks, parts received by rank 0 in each exchange:   0 | 1 | 2 3 | 4
    scatter    the reverse: sums of the parts r + d, ... go to rank r + d, which adds them
    meet       messages are empty; after an exchange of distance d, 2 d ranks have arrived

==================  =========================================================
collective          exchanges
==================  =========================================================
barrier             meet
allgather           gather
reduce_scatter      scatter
allreduce           gather of complete arrays if they are small or there are two
                    ranks, else scatter and a gather of the sums
==================  =========================================================

In gather and scatter each rank sends ``(W - 1) / W`` of an array, the fewest bytes possible.
"""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.comm.base import Combine
from hedgerow.errors import CommunicationError

Payload: TypeAlias = bytes | bytearray | memoryview

WHOLE_BYTES = 1 << 16
"""Limit in bytes, times the number of other ranks, for an allreduce by one gather."""

_COMBINING = {"sum": np.add, "max": np.maximum}


class Kind(IntEnum):
    """The collective, or the announcement, of the sender of a message."""

    BARRIER = 1
    ALLGATHER = 2
    REDUCE_SCATTER = 3
    ALLREDUCE_SUM = 4
    ALLREDUCE_MAX = 5
    ALLREDUCE_PARTS = 6
    ABORT = 7
    LEAVE = 8
    WAITING = 9
    WAKE = 10


class Call(NamedTuple):
    """A collective, equal on all ranks of an exchange: ``agreed`` is a hash of its arguments."""

    kind: Kind
    agreed: int = 0

    def __str__(self) -> str:
        return self.kind.name.lower()


Message: TypeAlias = tuple[Call, Payload]


class Transport(Protocol):
    """Carries messages to and from one rank; see :mod:`hedgerow.comm.connections`."""

    rank: int
    size: int

    def swap(
        self, call: Call, sequence: int, target: int, payload: Payload, source: int
    ) -> Message:
        """Send to one rank, and return the message of another in the same exchange."""

    def announce(self, kind: Kind, text: str) -> None:
        """Tell the neighbours, if they are reachable, that this rank gives up or is done."""


def distances(size: int) -> list[int]:
    """Return the distances of the exchanges in ascending order: 1, 2 and 4 for five ranks."""
    return [1 << step for step in range((size - 1).bit_length())]


def neighbours(rank: int, size: int) -> list[int]:
    """Return the ranks with which a rank exchanges messages, in ascending order."""
    away = [sign * distance for distance in distances(size) for sign in (1, -1)]
    return sorted({(rank + step) % size for step in away} - {rank})


def most_ahead(size: int) -> int:
    """Return the number of exchanges by which a message may be early."""
    # Each collective needs a message of every rank: a rank is less than two of them ahead.
    return 1 if size == 2 else 2 * len(distances(size))


class Collectives:
    """A :class:`hedgerow.comm.base.Communicator` over any transport."""

    def __init__(self, transport: Transport) -> None:
        self.rank = transport.rank
        self.size = transport.size
        self.n_exchanges = 0
        self.bytes_sent = 0
        self._transport = transport
        self._failure: str | None = None

    def allreduce(self, array: IntArray, combine: Combine = "sum", keep: bool = True) -> IntArray:
        """Return the element-wise sum or maximum of an int64 array over all ranks."""
        flat = _checked(array).reshape(-1)
        call = Call(Kind.ALLREDUCE_SUM if combine == "sum" else Kind.ALLREDUCE_MAX, flat.size)
        if self.size == 2:
            numbers = self._swap_numbers(call, 1, flat, flat.size)
            out = None if keep else flat
            return _COMBINING[combine](flat, numbers, out=out).reshape(array.shape)
        if flat.nbytes * (self.size - 1) <= WHOLE_BYTES:
            gathered = [_integers(part) for part in self._gather(call, bytes(_bytes_of(flat)))]
            return _COMBINING[combine].reduce(gathered).reshape(array.shape)
        starts = [part * flat.size // self.size for part in range(self.size + 1)]
        own = self._scatter(call, flat, starts, combine)
        parts = self._gather(Call(Kind.ALLREDUCE_PARTS, flat.size), bytes(_bytes_of(own)))
        return _integers(bytearray().join(parts)).reshape(array.shape)

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
        return self._scatter(Call(Kind.REDUCE_SCATTER, agreed), array, places, "sum", out)

    def allgather(self, message: bytes) -> list[bytes]:
        """Return the message of each rank, in the order of the ranks."""
        return self._gather(Call(Kind.ALLGATHER), message)

    def barrier(self) -> None:
        """Return when all ranks have called this method."""
        for distance in distances(self.size):
            self._swap(Call(Kind.BARRIER), distance, b"")

    def abort(self, reason: str) -> None:
        """Tell the other ranks, if they are reachable, that this rank gives up."""
        if self._failure is None:
            self._failure = f"rank {self.rank} gave up: {reason}"
            self._transport.announce(Kind.ABORT, self._failure)

    def leave(self) -> None:
        """Tell the other ranks that this rank is done, so that they need not wait for it."""
        self._transport.announce(Kind.LEAVE, "")

    def _gather(self, call: Call, message: bytes) -> list[bytes]:
        held = [message]
        for distance in distances(self.size):
            n_parts = min(distance, self.size - distance)
            held += self._unpacked(self._swap(call, -distance, _packed(held[:n_parts])), n_parts)
        return [held[(other - self.rank) % self.size] for other in range(self.size)]

    def _scatter(
        self,
        call: Call,
        array: IntArray,
        starts: Sequence[int],
        combine: Combine,
        out: IntArray | None = None,
    ) -> IntArray:
        """Return this rank's part of the sums or maxima over all ranks."""
        first = starts[self.rank]
        order = [(self.rank + k) % self.size for k in range(self.size)]
        ends = np.cumsum([0, *(starts[rank + 1] - starts[rank] for rank in order)]).tolist()
        held: IntArray | None = None  # sums of the parts of rank, rank + 1, ...

        def parts(start: int, stop: int) -> IntArray:
            """Return numbers of the parts in the order of ``order``, without a copy if possible."""
            if held is not None:
                return held[start:stop]
            turn = array.size - first  # the part of rank 0 begins here
            if start >= turn or stop <= turn:
                before = first if stop <= turn else -turn
                return array[before + start : before + stop]
            return np.concatenate((array[first + start :], array[: stop - turn]))

        for distance in reversed(distances(self.size)):
            n_parts = min(distance, self.size - distance)
            sent = parts(ends[distance], ends[distance + n_parts])
            numbers = self._swap_numbers(call, distance, sent, ends[n_parts])
            own = parts(0, ends[distance])  # those from n_parts on have no sums yet
            if distance == 1:
                return _COMBINING[combine](own, numbers, out=out)
            if held is None:
                own = own.copy()
            _COMBINING[combine](own[: numbers.size], numbers, out=own[: numbers.size])
            held = own
        if out is None:
            return array.copy()
        out[:] = array
        return out

    def _swap_numbers(self, call: Call, distance: int, sent: IntArray, n_numbers: int) -> IntArray:
        """Send numbers to the rank at a distance; return those of the rank at the opposite one."""
        received = self._swap(call, distance, _bytes_of(sent))
        if len(received) != 8 * n_numbers:
            raise self._give_up(
                f"rank {(self.rank - distance) % self.size} sent {len(received)} bytes of sums, "
                f"{8 * n_numbers} were expected: do all ranks run the same version?"
            )
        return _integers(received)

    def _swap(self, call: Call, distance: int, payload: Payload) -> Payload:
        """Send to the rank at a distance; return the message of the rank at the opposite one."""
        if self._failure is not None:
            raise CommunicationError(self._failure)
        target, source = (self.rank + distance) % self.size, (self.rank - distance) % self.size
        sequence = self.n_exchanges
        self.n_exchanges += 1
        try:
            other, received = self._transport.swap(call, sequence, target, payload, source)
        except CommunicationError as error:
            # The others get the reason as it is: with it, every rank names the same lost rank.
            self._failure = str(error)
            self._transport.announce(Kind.ABORT, self._failure)
            raise
        between = f"ranks are out of step in exchange {sequence}: "
        if other.kind != call.kind:
            raise self._give_up(
                f"{between}rank {self.rank} calls {call}, rank {source} calls {other}"
            )
        if other.agreed != call.agreed:
            raise self._give_up(
                f"{between}ranks {self.rank} and {source} call {call} for arrays of different "
                "lengths or different parts"
            )
        self.bytes_sent += len(payload)
        return received

    def _unpacked(self, payload: Payload, n_parts: int) -> list[bytes]:
        head = 8 * n_parts
        lengths = struct.unpack(f"<{n_parts}Q", payload[:head]) if len(payload) >= head else ()
        if len(lengths) != n_parts or head + sum(lengths) != len(payload):
            raise self._give_up(
                "a message with the parts of several ranks does not have the length in its header"
            )
        ends = np.cumsum((head, *lengths)).tolist()
        return [bytes(payload[start:stop]) for start, stop in itertools.pairwise(ends)]

    def _give_up(self, reason: str) -> CommunicationError:
        self._failure = reason
        self._transport.announce(Kind.ABORT, reason)
        return CommunicationError(reason)


def _checked(array: IntArray) -> IntArray:
    if array.dtype != np.int64:
        raise TypeError(f"collectives are for arrays of int64, not of {array.dtype}")
    return np.ascontiguousarray(array)


def _bytes_of(array: IntArray) -> memoryview:
    """Return the memory of the array as little-endian bytes."""
    return array.astype("<i8", copy=False).view(np.uint8).data


def _integers(payload: Payload) -> IntArray:
    return np.frombuffer(payload, dtype="<i8").astype(np.int64, copy=False)


def _packed(parts: Sequence[bytes]) -> bytes:
    """Return the lengths of the parts, followed by their contents."""
    return struct.pack(f"<{len(parts)}Q", *map(len, parts)) + b"".join(parts)
