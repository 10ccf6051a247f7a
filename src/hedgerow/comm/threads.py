"""Ranks as threads of one process: a test double of a cluster.

Each rank has a mailbox, and sending puts a message into the mailbox of another rank.  All
other code is shared with clusters, so tests of lost, late and damaged messages also cover
clusters.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from hedgerow.comm.collectives import Collectives, Transport
from hedgerow.comm.mailbox import Mailbox
from hedgerow.comm.messages import Call, Message, Payload, Stamp, copied
from hedgerow.errors import CommunicationError

Result = TypeVar("Result")
WrapTransport = Callable[[Transport], Transport]

_GRACE = 1.0
"""Seconds added to the timeout, in which ranks notice a failure."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Result]):
    """The outcome of a rank: ``error`` is None if it returned ``result``."""

    result: Result | None
    error: BaseException | None


class ThreadTransport:
    """Messages between threads."""

    def __init__(self, mailboxes: Sequence[Mailbox], rank: int) -> None:
        self.rank = rank
        self.size = len(mailboxes)
        self.stamp = mailboxes[rank].stamp
        self._mailboxes = mailboxes

    @property
    def by_memory(self) -> frozenset[int]:
        """Empty: all messages have checksums, as on a cluster."""
        return frozenset()

    def post(self, messages: Sequence[tuple[int, Message]]) -> None:
        """Put messages into mailboxes."""
        for rank, message in messages:
            self._mailboxes[rank].deliver(copied(message))

    def flush(self, timeout: float) -> None:
        """Return at once, because no message is pending."""

    def receive(self, source: int, sequence: int, timeout: float) -> tuple[Call, Payload]:
        """Wait for a message of a rank."""
        header, payload = self._mailboxes[self.rank].take(source, sequence, timeout)
        return header.call, payload


def rank_outcomes(
    size: int,
    function: Callable[[Collectives], Result],
    *,
    timeout: float = 60.0,
    wrap: WrapTransport | None = None,
    epoch: int = 0,
) -> list[Outcome[Result]]:
    """Run a function like :func:`run_ranks`, and return the result or error of each rank."""
    stamp = Stamp(os.urandom(16), epoch)
    mailboxes = [Mailbox(stamp, rank, size) for rank in range(size)]
    outcomes: list[Outcome[Result] | None] = [None] * size
    changed = threading.Condition()

    def run(rank: int) -> None:
        transport: Transport = ThreadTransport(mailboxes, rank)
        if wrap is not None:
            transport = wrap(transport)
        communicator = Collectives(transport, timeout)
        try:
            outcome = Outcome(function(communicator), None)
            communicator.leave()
        except BaseException as error:  # report every error to the other ranks
            outcome = Outcome(None, error)
            communicator.abort(f"{type(error).__name__}: {error}")
        with changed:
            outcomes[rank] = outcome
            changed.notify_all()

    threads = [
        threading.Thread(target=run, args=(rank,), name=f"rank {rank}", daemon=True)
        for rank in range(size)
    ]
    for thread in threads:
        thread.start()
    with changed:
        failed_at: float | None = None
        while any(outcome is None for outcome in outcomes):
            if failed_at is None and any(outcome and outcome.error for outcome in outcomes):
                failed_at = time.monotonic()
            left = None if failed_at is None else failed_at + timeout + _GRACE - time.monotonic()
            if left is not None and left <= 0:
                break  # the threads that have not ended are abandoned
            changed.wait(left)
        return [
            outcome or Outcome(None, CommunicationError(f"rank {rank} has not ended in time"))
            for rank, outcome in enumerate(outcomes)
        ]


def run_ranks(
    size: int,
    function: Callable[[Collectives], Result],
    *,
    timeout: float = 60.0,
) -> list[Result]:
    """Call a function on several threads at once, each with its own communicator.

    If a rank fails, the others raise a CommunicationError at their next collective; the first error
    of another kind is raised here, or else the first CommunicationError.

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow.comm.threads import run_ranks
    >>> sums = run_ranks(3, lambda ranks: ranks.allreduce(np.array([ranks.rank, 1])))
    >>> [part.tolist() for part in sums]
    [[3, 3], [3, 3], [3, 3]]
    """
    outcomes = rank_outcomes(size, function, timeout=timeout)
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    own = [error for error in errors if not isinstance(error, CommunicationError)]
    for error in own or errors:
        raise error
    return [outcome.result for outcome in outcomes]  # type: ignore[misc]
