"""Ranks as threads of this process, connected over TCP like those of a cluster."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Generic, NamedTuple, TypeVar

from hedgerow.comm.collectives import Collectives
from hedgerow.comm.connections import TOKEN_BYTES, Listener, joined
from hedgerow.errors import CommunicationError

Result = TypeVar("Result")

_GRACE = 2.0
"""Seconds added to the timeout, in which ranks notice a failure."""


class Outcome(NamedTuple, Generic[Result]):
    """The outcome of a rank: ``error`` is None if it returned ``result``."""

    result: Result | None
    error: BaseException | None


def rank_outcomes(
    size: int,
    function: Callable[[Collectives], Result],
    *,
    timeout: float = 60.0,
    shares_memory: bool = False,
    **options: Any,
) -> list[Outcome[Result]]:
    """Call a function on several threads, each with its communicator; return what comes of it.

    Threads that do not end after an error of another one are abandoned.
    """
    token = os.urandom(TOKEN_BYTES)
    listeners = [Listener("127.0.0.1") for _ in range(size)]
    addresses = [listener.address for listener in listeners]
    outcomes: list[Outcome[Result] | None] = [None] * size
    changed = threading.Condition()

    def run(rank: int) -> None:
        try:
            with joined(
                listeners[rank], token, rank, addresses, timeout=timeout,
                shares_memory=shares_memory, **options,
            ) as ranks:  # fmt: skip
                outcome = Outcome(function(ranks), None)
        except BaseException as error:
            outcome = Outcome(None, error)
        with changed:
            outcomes[rank] = outcome
            changed.notify_all()

    for rank in range(size):
        threading.Thread(target=run, args=(rank,), name=f"rank {rank}", daemon=True).start()
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
    size: int, function: Callable[[Collectives], Result], *, timeout: float = 60.0, **options: Any
) -> list[Result]:
    """Return the results of all ranks; raise the first error, rather of the function itself."""
    outcomes = rank_outcomes(size, function, timeout=timeout, **options)
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    own = [error for error in errors if not isinstance(error, CommunicationError)]
    for error in own or errors:
        raise error
    return [outcome.result for outcome in outcomes]  # type: ignore[misc]


@contextmanager
def blocked_address() -> Iterator[str]:
    """Yield an address that does not answer, as behind a firewall: its queue of callers is full."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        place = server.getsockname()
        for _ in range(9):
            caller = stack.enter_context(socket.socket())
            caller.settimeout(0.1)
            try:
                caller.connect(place)
            except TimeoutError:
                break
        yield f"{place[0]}:{place[1]}"
