"""Fault injection for tests: lost ranks and wrong messages.

A :class:`Fault` is injected at one exchange of one rank.  :func:`with_each_fault` runs a
function repeatedly, with the fault at exchange 0, 1, 2, ... until the function
ends before the fault occurs, so every exchange is covered::

    for injection, outcomes in with_each_fault(3, train, Fault.CUT):
        assert all(isinstance(one.error, CommunicationError) for one in outcomes)

======================  ==================================================
faults                  required behaviour
======================  ==================================================
TWICE, STALE, LATE      every rank returns the right result
DIES, STALLS, LOST,     every rank raises, none waits longer than the
CUT, DAMAGED, EARLY     timeout, and none returns a wrong result
======================  ==================================================
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeVar

from hedgerow.comm.collectives import Collectives, Transport
from hedgerow.comm.mailbox import most_ahead
from hedgerow.comm.messages import Call, Header, Kind, Message, Payload, opened, sealed
from hedgerow.comm.threads import Outcome, rank_outcomes

Result = TypeVar("Result")

_SHORT = 0.02
"""Delay of a late message in seconds."""


class Fault(Enum):
    """The kinds of faults."""

    DIES = "the rank raises an unrelated error instead of sending"
    STALLS = "the rank sends only after the timeout of the other ranks"
    LOST = "the messages are never sent"
    CUT = "the last byte of each message is missing"
    DAMAGED = "one bit of each message is flipped"
    EARLY = "a wrong message for the next exchange comes first"
    TWICE = "each message arrives twice"
    STALE = "messages of an earlier epoch and of a finished exchange arrive first"
    LATE = "messages arrive late, at the ranks in reverse order"


HARMLESS = frozenset({Fault.TWICE, Fault.STALE, Fault.LATE})


class RankDied(Exception):
    """Example of an error that ends a rank."""


@dataclass(slots=True)
class Injection:
    """A fault, its rank and exchange, and whether it has happened.

    Attributes
    ----------
    fault : Fault
    rank : int
    exchange : int
    stall : float
        Seconds that a rank stalls.
    happened : bool
        Whether the rank has reached the fault.
    """

    fault: Fault
    rank: int
    exchange: int
    stall: float = 1.0
    happened: bool = False

    def wrap(self, transport: Transport) -> Transport:
        """Return the transport, with the fault if the fault belongs to its rank."""
        return FaultyTransport(transport, self) if transport.rank == self.rank else transport


class FaultyTransport:
    """A transport that fails once."""

    def __init__(self, inner: Transport, injection: Injection) -> None:
        self.rank = inner.rank
        self.size = inner.size
        self.stamp = inner.stamp
        self._inner = inner
        self._injection = injection

    @property
    def by_memory(self) -> frozenset[int]:
        """Ranks with shared memory, as in the wrapped transport."""
        return self._inner.by_memory

    def post(self, messages: Sequence[tuple[int, Message]]) -> None:
        """Send messages, or inject the fault."""
        if messages and not self._injection.happened and self._is_turn(messages[0][1]):
            self._injection.happened = True
            self._post_wrongly(messages)
        else:
            self._inner.post(messages)

    def flush(self, timeout: float) -> None:
        """Wait like the wrapped transport."""
        self._inner.flush(timeout)

    def receive(self, source: int, sequence: int, timeout: float) -> tuple[Call, Payload]:
        """Receive a message from the wrapped transport."""
        return self._inner.receive(source, sequence, timeout)

    def _is_turn(self, message: Message) -> bool:
        header = opened(message.header)
        return header.sequence == self._injection.exchange and header.call.kind not in (
            Kind.ABORT,
            Kind.LEAVE,
        )

    def _post_wrongly(self, messages: Sequence[tuple[int, Message]]) -> None:
        fault = self._injection.fault
        if fault == Fault.DIES:
            raise RankDied(f"rank {self.rank} dies in exchange {self._injection.exchange}")
        if fault == Fault.LOST:
            return
        if fault in (Fault.CUT, Fault.DAMAGED):
            alter = _cut if fault == Fault.CUT else _damaged
            self._inner.post([(rank, alter(message)) for rank, message in messages])
            return
        if fault == Fault.STALLS:
            time.sleep(self._injection.stall)
        elif fault == Fault.LATE:
            time.sleep(_SHORT)
            messages = messages[::-1]
        elif fault == Fault.STALE:
            self._inner.post([(rank, _of_old_epoch(message)) for rank, message in messages])
            # Another rank may be most_ahead exchanges behind; earlier exchanges are finished.
            over = -1 - most_ahead(self.size)
            self._inner.post([(rank, _of_exchange(message, over)) for rank, message in messages])
        elif fault == Fault.EARLY:
            self._inner.post([(rank, _of_exchange(message, 1)) for rank, message in messages])
        self._inner.post(messages)
        if fault == Fault.TWICE:
            self._inner.post(messages)


def with_each_fault(
    size: int,
    function: Callable[[Collectives], Result],
    fault: Fault,
    *,
    rank: int = 0,
    timeout: float = 0.3,
) -> Iterator[tuple[Injection, list[Outcome[Result]]]]:
    """Run a function with a fault at each of the exchanges of one rank.

    Parameters
    ----------
    size : int
        Number of ranks.
    function : callable
        Function of a communicator, which every rank calls.
    fault : Fault
    rank : int, default 0
        The rank with the fault.
    timeout : float, default 0.3
        Seconds that ranks wait for each other; a stalled rank stalls for twice this time.

    Yields
    ------
    (Injection, list of Outcome)
        The injected fault, and the outcome of each rank.  The first run that does not reach
        the fault is the last one.
    """
    exchange = 0
    while True:
        injection = Injection(fault, rank, exchange, stall=2 * timeout)
        outcomes = rank_outcomes(size, function, timeout=timeout, wrap=injection.wrap, epoch=7)
        if not injection.happened:
            return
        yield injection, outcomes
        exchange += 1


def _cut(message: Message) -> Message:
    if len(message.payload) > 0:
        return Message(message.header, message.payload[:-1])
    return Message(message.header[:-1], message.payload)


def _damaged(message: Message) -> Message:
    if len(message.payload) > 0:
        return Message(message.header, _with_other_bit(message.payload))
    return Message(_with_other_bit(message.header), message.payload)


def _with_other_bit(payload: Payload) -> bytes:
    changed = bytearray(payload)
    changed[len(changed) // 2] ^= 16
    return bytes(changed)


def _of_old_epoch(message: Message) -> Message:
    header = opened(message.header)
    older = replace(header.stamp, epoch=header.stamp.epoch - 1)
    return _resealed(header._replace(stamp=older))


def _of_exchange(message: Message, step: int) -> Message:
    header = opened(message.header)
    if header.sequence + step < 0:
        return _of_old_epoch(message)
    return _resealed(header._replace(sequence=header.sequence + step))


def _resealed(header: Header) -> Message:
    return sealed(
        header.call, header.source, header.target, header.stamp, header.sequence, b"\x55" * 24
    )
