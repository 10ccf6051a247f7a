"""Ranks as threads of one process: a test double of a cluster.

Each rank has a mailbox; sending puts a message into another mailbox.
Everything else is the code of a cluster, so tests of lost, late and
damaged messages apply to clusters, too.
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
"""Seconds in addition to the timeout for ranks to notice a failure."""


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
        """None: all messages have checksums, as on a cluster."""
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
    """Like :func:`run_ranks`, but return for each rank what it returned or raised.

    A rank that has not ended ``timeout`` seconds (and a little) after the first failure
    of another rank fails with a CommunicationError; its thread is abandoned.
    """
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
        except BaseException as error:  # the other ranks must know of any error
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
                break
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
    wrap: WrapTransport | None = None,
    epoch: int = 0,
) -> list[Result]:
    """Call a function once on each of some threads, each with its communicator.

    Parameters
    ----------
    size : int
        Number of ranks, from 1.
    function : callable
        Takes a :class:`hedgerow.comm.base.Communicator`; called ``size`` times in parallel.
    timeout : float, default 60
        Seconds that a rank waits for another in one exchange.
    wrap : callable, optional
        Wraps a rank's transport, like the faults of
        :mod:`hedgerow.comm.faults`.
    epoch : int, default 0
        Stamp of messages.

    Returns
    -------
    list
        What each rank returned.

    Raises
    ------
    Exception
        The first error of a rank's own; if ranks only raised
        :class:`~hedgerow.errors.CommunicationError`, the first of these.  When one rank
        fails, the others get a CommunicationError at their next collective.

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow.comm.threads import run_ranks
    >>> sums = run_ranks(3, lambda ranks: ranks.allreduce(np.array([ranks.rank, 1])))
    >>> [part.tolist() for part in sums]
    [[3, 3], [3, 3], [3, 3]]
    """
    outcomes = rank_outcomes(size, function, timeout=timeout, wrap=wrap, epoch=epoch)
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    own = [error for error in errors if not isinstance(error, CommunicationError)]
    for error in own or errors:
        raise error
    return [outcome.result for outcome in outcomes]  # type: ignore[misc]
