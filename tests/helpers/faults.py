"""Fault injection for tests: lost ranks and wrong messages.

A :class:`Fault` is injected at one exchange of one rank.  :func:`with_each_fault` runs a
function repeatedly, with the fault at exchange 0, 1, 2, ... until the function
ends before the fault occurs, so every exchange is covered.  Every rank must raise, none may wait
longer than the timeout, and none may return a wrong result.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar
from unittest import mock

from hedgerow.comm import connections
from hedgerow.comm.collectives import Call, Collectives, Payload
from tests.helpers.ranks import Outcome, rank_outcomes

Result = TypeVar("Result")


class Fault(Enum):
    """The kinds of faults."""

    DIES = "the rank raises an unrelated error instead of sending"
    STALLS = "the rank sends only after the timeout of the other ranks"
    LOST = "the message is never sent"
    CUT = "the connection ends within the message"
    DAMAGED = "one bit of the message is flipped"
    EARLY = "the message of the next exchange comes first"


class RankDied(Exception):
    """Example of an error that ends a rank."""


@dataclass(slots=True)
class Injection:
    """A fault, its rank and exchange, and whether it has happened."""

    fault: Fault
    rank: int
    exchange: int
    stall: float
    happened: bool = False

    def swap(
        self, own: Any, call: Call, sequence: int, target: int, payload: Payload, source: int
    ) -> Any:
        """Exchange messages like a transport, or inject the fault."""
        if own.rank != self.rank or sequence != self.exchange or self.happened:
            return _swap(own, call, sequence, target, payload, source)
        self.happened = True
        if self.fault == Fault.DIES:
            raise RankDied(f"rank {self.rank} dies in exchange {sequence}")
        if self.fault == Fault.STALLS:
            time.sleep(self.stall)
            return _swap(own, call, sequence, target, payload, source)
        sent = own._connections[target]
        if self.fault == Fault.EARLY:
            sent.send(call, sequence + 1, payload)
            return _swap(own, call, sequence, target, payload, source)

        def send(call: Call, sequence: int, payload: Payload) -> None:
            with mock.patch.object(sent, "write"):
                type(sent).send(sent, call, sequence, payload)
            parts = [bytearray(part) for part in sent.unsent]
            if self.fault == Fault.LOST:
                parts = []
            elif self.fault == Fault.DAMAGED:
                parts[-1][len(parts[-1]) // 2] ^= 16
            else:
                del parts[-1][-1]
            sent.unsent.clear()
            sent.unsent.extend(map(memoryview, parts))
            sent.write()
            if self.fault == Fault.CUT:
                sent.stream.shutdown(socket.SHUT_RDWR)

        with mock.patch.object(sent, "send", send):
            return _swap(own, call, sequence, target, payload, source)


_swap = connections._Transport.swap


def with_each_fault(
    size: int,
    function: Callable[[Collectives], Result],
    fault: Fault,
    *,
    rank: int = 0,
    timeout: float = 0.3,
) -> Iterator[tuple[Injection, list[Outcome[Result]]]]:
    """Yield the fault at each of the exchanges of a rank, and the outcome of each rank.

    The first run that ends well without reaching the fault is the last one.  A run that fails
    before the fault has met a busy machine, on which a healthy rank was silent for ``timeout``:
    it is repeated with twice the patience, up to 16 times the first.
    """
    exchange = 0
    most = 16 * timeout
    while True:
        injection = Injection(fault, rank, exchange, stall=2 * timeout)

        def swap(*arguments: Any, injection: Injection = injection) -> Any:
            return injection.swap(*arguments)

        with mock.patch.object(connections._Transport, "swap", swap):
            outcomes = rank_outcomes(size, function, timeout=timeout)
        if not injection.happened:
            errors = [outcome.error for outcome in outcomes if outcome.error is not None]
            if not errors:
                return
            timeout *= 2
            if timeout > most:
                raise errors[0]
            continue
        yield injection, outcomes
        exchange += 1
