"""Mailbox for the received messages of a rank.

Messages arrive on one thread (of a sender or an event loop) and are taken on another.  A rank
is never more than one exchange ahead of another rank, because each exchange needs a message
from every rank.  So a mailbox holds at most two messages of each source, and a message from
further ahead is an error.  If collectives go in steps, only a complete collective needs a
message from every rank, and a rank is less than two collectives ahead.

=========================================  ===========================================
message                                    action
=========================================  ===========================================
of another run or epoch                    dropped
of a finished exchange, or a repetition    dropped
two different ones for the same exchange   error
too far ahead, for another rank, damaged   error
=========================================  ===========================================
"""

from __future__ import annotations

import logging
import threading
import time

from hedgerow.comm.messages import Header, Kind, Message, Payload, Stamp, check_payload, opened
from hedgerow.errors import CommunicationError

logger = logging.getLogger("hedgerow")

STEPS_FROM = 5
"""Fewest ranks for which collectives go in steps: three messages instead of four."""


def goes_in_steps(size: int) -> bool:
    """Return whether collectives of ``size`` ranks go in steps."""
    return size >= STEPS_FROM


def most_ahead(size: int) -> int:
    """Return the number of exchanges by which a message may be early."""
    return 2 * (size - 1).bit_length() if goes_in_steps(size) else 1


def took_no_part(source: int, sequence: int) -> CommunicationError:
    """Return the error for a rank that ended before an exchange that needs it."""
    return CommunicationError(
        f"rank {source} has ended its part and takes no part in exchange {sequence}"
    )


def not_answered(source: int, rank: int, sequence: int, timeout: float) -> CommunicationError:
    """Return the error for a rank that did not answer in time."""
    return CommunicationError(
        f"rank {source} did not answer within {timeout:g} s "
        f"(rank {rank}, exchange {sequence}): it stalls or is overloaded"
    )


class Mailbox:
    """The mailbox of one rank, which drops messages with another stamp."""

    def __init__(self, stamp: Stamp, rank: int, size: int) -> None:
        self.stamp = stamp
        self.rank = rank
        self.size = size
        self.n_dropped = 0
        self._changed = threading.Condition()
        self._waiting: dict[tuple[int, int], tuple[Header, Payload]] = {}
        self._wanted = [0] * size  # by source: exchanges before this one are finished
        self._now = 0  # current exchange of this rank
        self._most_ahead = most_ahead(size)
        self._left: set[int] = set()
        self.failure: str | None = None  # the reason why `take` fails

    def deliver(self, message: Message) -> None:
        """Add a received message.  Errors are not raised here, but when messages are taken."""
        with self._changed:
            try:
                self._sort(opened(message.header), message.payload)
            except CommunicationError as error:
                self._fail(str(error))
            self._changed.notify_all()

    def take(self, source: int, sequence: int, timeout: float) -> tuple[Header, Payload]:
        """Return the message of a rank in an exchange; wait at most ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        key = (source, sequence)
        with self._changed:
            self._now = sequence
            while self.failure is None and key not in self._waiting:
                if source in self._left:
                    raise took_no_part(source, sequence)
                left = deadline - time.monotonic()
                if left <= 0:
                    raise not_answered(source, self.rank, sequence, timeout)
                self._changed.wait(left)
            if self.failure is not None:
                raise CommunicationError(self.failure)
            header, payload = self._waiting.pop(key)
            self._wanted[source] = sequence + 1
        check_payload(header, payload)
        return header, payload

    def skip(self, source: int, sequence: int) -> None:
        """Record that the message of an exchange arrived through shared memory."""
        with self._changed:
            self._now = sequence
            self._wanted[source] = sequence + 1

    def has_left(self, source: int) -> bool:
        """Return whether a rank has announced that it no longer takes part."""
        return source in self._left

    def fail(self, reason: str) -> None:
        """Make all current and future calls of ``take`` fail; keep the first reason."""
        with self._changed:
            self._fail(reason)
            self._changed.notify_all()

    def lose(self, source: int, reason: str) -> None:
        """Record that the connection to a rank is lost: an error unless the rank has left."""
        with self._changed:
            if source not in self._left:
                self._fail(reason)
                self._changed.notify_all()

    def _fail(self, reason: str) -> None:
        if self.failure is None:
            self.failure = reason
            self._waiting.clear()

    def _sort(self, header: Header, payload: Payload) -> None:
        """Keep, drop or reject a message."""
        if header.stamp != self.stamp:
            return self._drop(header, "of another run or epoch")
        if header.target != self.rank or not 0 <= header.source < self.size:
            raise CommunicationError(
                f"rank {self.rank} of {self.size} got a message of rank {header.source} "
                f"for rank {header.target}"
            )
        if header.call.kind == Kind.ABORT:
            reason = bytes(payload).decode("utf-8", "replace")
            return self._fail(f"rank {header.source} gave up: {reason}")
        if header.call.kind == Kind.LEAVE:
            self._left.add(header.source)
            return None
        ahead = header.sequence - max(self._now, self._wanted[header.source])
        if ahead < 0:
            return self._drop(header, "late or twice")
        if ahead > self._most_ahead:
            raise CommunicationError(
                f"rank {header.source} is in exchange {header.sequence}, {ahead} ahead of "
                f"rank {self.rank}: messages were lost"
            )
        key = (header.source, header.sequence)
        if key not in self._waiting:
            self._waiting[key] = (header, payload)
        elif self._waiting[key][0] == header:
            self._drop(header, "twice")
        else:
            raise CommunicationError(
                f"rank {header.source} sent two different messages for exchange {header.sequence}"
            )
        return None

    def _drop(self, header: Header, why: str) -> None:
        self.n_dropped += 1
        dropped = f"message {header.sequence} of rank {header.source} (epoch {header.stamp.epoch})"
        logger.debug("rank %d dropped %s: %s", self.rank, dropped, why)
