"""Collectives of W ranks in log2 W steps of one message, instead of W - 1 messages at once.

In each step a rank sends to one rank and receives from another, at distances 1, 2, 4, ... ::

    gather     rank r has the parts of r, r + 1, ...; in the step of distance d it receives
               the next parts from rank r + d (Bruck et al. 1997, for any W)

               5 ranks, parts received by rank 0 in each step:   0 | 1 | 2 3 | 4
    scatter    the reverse: sums of the parts r + d, ... go to rank r + d, which adds them
    meet       messages are empty; after a step of distance d, 2 d ranks have arrived

In gather and scatter each rank sends ``(W - 1) / W`` of an array, as in a direct exchange.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Sequence

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.comm.messages import Payload
from hedgerow.errors import CommunicationError

Swap = Callable[[int, Payload, int], Payload]
"""``swap(target, payload, source)`` sends to one rank and returns the message of another."""


def distances(size: int) -> list[int]:
    """Return the distances of the steps in ascending order: 1, 2 and 4 for five ranks."""
    return [1 << step for step in range((size - 1).bit_length())]


def meet(rank: int, size: int, swap: Swap) -> None:
    """Return when all ranks have called this function."""
    for distance in distances(size):
        swap((rank + distance) % size, b"", (rank - distance) % size)


def gather(rank: int, size: int, swap: Swap, message: bytes) -> list[bytes]:
    """Return the message of each rank, in the order of the ranks."""
    held = [message]
    for distance in distances(size):
        n_parts = min(distance, size - distance)
        sent = _packed(held[:n_parts])
        held += _unpacked(swap((rank - distance) % size, sent, (rank + distance) % size), n_parts)
    return [held[(other - rank) % size] for other in range(size)]


def scatter(
    rank: int,
    size: int,
    swap: Swap,
    array: IntArray,
    starts: Sequence[int],
    combining: np.ufunc,
    out: IntArray | None = None,
) -> IntArray:
    """Return part ``starts[rank] : starts[rank + 1]`` of the sums or maxima over all ranks."""
    first = starts[rank]
    turned = np.concatenate((array[first:], array[:first]))  # parts of rank, rank + 1, ...
    lengths = [starts[(rank + k) % size + 1] - starts[(rank + k) % size] for k in range(size)]
    ends = np.concatenate(([0], np.cumsum(lengths)))
    for distance in reversed(distances(size)):
        n_parts = min(distance, size - distance)
        sent = turned[ends[distance] : ends[distance + n_parts]]
        payload = sent.astype("<i8", copy=False).view(np.uint8).data
        received = swap((rank + distance) % size, payload, (rank - distance) % size)
        own = turned[: ends[n_parts]]
        if len(received) != own.nbytes:
            raise CommunicationError(
                f"rank {(rank - distance) % size} sent {len(received)} bytes of sums, rank {rank} "
                f"expects {own.nbytes}: do all ranks run the same version?"
            )
        combining(own, np.frombuffer(received, dtype="<i8"), out=own)
    part = turned[: ends[1]]
    if out is None:
        return part.copy()
    out[:] = part
    return out


def _packed(parts: Sequence[bytes]) -> bytes:
    """Return the lengths of the parts, followed by their contents."""
    return struct.pack(f"<{len(parts)}Q", *map(len, parts)) + b"".join(parts)


def _unpacked(payload: Payload, n_parts: int) -> list[bytes]:
    head = 8 * n_parts
    lengths = struct.unpack(f"<{n_parts}Q", payload[:head]) if len(payload) >= head else ()
    if len(lengths) != n_parts or head + sum(lengths) != len(payload):
        raise CommunicationError(
            "a message with the parts of several ranks does not have the length in its header"
        )
    ends = np.cumsum((head, *lengths)).tolist()
    return [bytes(payload[start:stop]) for start, stop in itertools.pairwise(ends)]
