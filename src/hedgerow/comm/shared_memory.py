"""Messages between ranks of one machine through shared memory.

Each rank has an outbox of two files in ``/dev/shm`` (more, if collectives go in steps), which
every other rank of the machine maps.  The messages of exchange ``n`` are in file ``n % 2``::

    word 0                 number of the exchange + 1, written last
    words 8, 9             kind of the collective, hash of its arguments
    words 10 + 2 r, ...    start and length of the message to rank r
    from the next page on  messages; a message to several ranks is stored once

Two files are enough without acknowledgements.  A rank posts in exchange ``n + 2`` only after it
has received all messages of exchange ``n + 1``, and every other rank sent its message of exchange
``n + 1`` after it had used the messages of exchange ``n``.  If collectives go in steps, a rank
may be further ahead (:func:`hedgerow.comm.mailbox.most_ahead`), and there is one more file for
each such exchange.

A waiting rank polls word 0, and occasionally its mailbox, because failures of a training (a
lost worker, a rank that gives up) still arrive over the connections between the workers.
Files are unlinked as soon as all ranks have mapped them, so a killed process leaves no files
behind.

Shared memory needs Linux.  On other systems, and between ranks of different machines or users,
messages use the connections.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
import time
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.comm.mailbox import Mailbox, most_ahead, not_answered, took_no_part
from hedgerow.comm.messages import Call, Kind, Payload, Stamp
from hedgerow.errors import CommunicationError
from hedgerow.kernels.primitives.shared_words import is_published, publish

FOLDER = "/dev/shm"  # noqa: S108 (names are random, and files opened by their owner only)
"""A file system in memory, which is local to the machine."""

_PUBLISHED, _KIND, _AGREED, _PLACES = 0, 8, 9, 10
_BY_CONNECTION = 0
"""Kind of an exchange whose messages did not fit."""

_LINE = 64
_LOOKS = 50_000
"""Polls of the word between two sleeps: about 25 us."""

_FIRST_NAP, _LONGEST_NAP = 1e-5, 1e-3
_NAP_GROWTH = 1.1
"""A sleep is a tenth of the time waited so far, which bounds the delay of a rank."""


class Segment:
    """A file mapped by several processes: words, and messages behind them."""

    def __init__(self, path: str, n_words: int, is_new: bool) -> None:
        self._n_words = n_words
        self.start = -(-8 * n_words // mmap.PAGESIZE) * mmap.PAGESIZE
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(path, flags | (os.O_CREAT | os.O_EXCL if is_new else 0), 0o600)
        try:
            if is_new:
                os.posix_fallocate(self._file, 0, self.start)
            found = os.fstat(self._file)
            if found.st_uid != os.geteuid() or not stat.S_ISREG(found.st_mode):
                raise PermissionError("not a file of this user")
            self._map()
        except OSError:
            os.close(self._file)
            raise

    def _map(self) -> None:
        self.size = os.fstat(self._file).st_size
        self.memory = memoryview(mmap.mmap(self._file, self.size))
        words = np.frombuffer(self.memory, dtype=np.int64, count=self._n_words)
        self.words: IntArray = words

    def reserve(self, size: int) -> None:
        """Extend the file to at least ``size`` bytes; raise ``OSError`` if there is no space."""
        if size > self.size:
            # Writing to pages without space would end the process with SIGBUS.
            os.posix_fallocate(self._file, 0, max(size, 2 * self.size))
            self._map()

    def view(self, start: int, length: int) -> memoryview:
        """Return some bytes, even if the file has grown since it was mapped."""
        if start + length > self.size:
            self._map()
        return self.memory[start : start + length]

    def close(self) -> None:
        """Close the file; the memory is released with the last array that uses it."""
        os.close(self._file)
        self.memory = memoryview(b"")
        self.words = np.zeros(0, dtype=np.int64)


class _Box:
    """The files of the messages of one rank; ``OSError`` if they cannot be mapped."""

    def __init__(self, stamp: Stamp, rank: int, size: int, is_new: bool) -> None:
        name = os.path.join(FOLDER, f"hedgerow-{stamp.run.hex()}-{stamp.epoch}-{rank}")
        self._paths = [f"{name}-{number}" for number in range(most_ahead(size) + 1)]
        self._files: list[Segment] = []
        try:
            for path in self._paths:
                self._files.append(Segment(path, _PLACES + 2 * size, is_new))
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()
        self._files = []


class Outbox(_Box):
    """The messages of a rank to other ranks."""

    def __init__(self, stamp: Stamp, rank: int, size: int) -> None:
        super().__init__(stamp, rank, size, is_new=True)

    def post(self, sequence: int, call: Call, messages: Sequence[tuple[int, Payload]]) -> bool:
        """Write the messages of an exchange; return False if there is no space for them."""
        file = self._files[sequence % len(self._files)]
        starts: dict[int, int] = {}  # by identity of the payload: allgather sends the same to all
        end = file.start
        for _, payload in messages:
            if id(payload) not in starts:
                starts[id(payload)] = end
                end += -(-len(payload) // _LINE) * _LINE
        try:
            file.reserve(end)
        except OSError:
            file.words[_KIND] = _BY_CONNECTION
            publish(file.words, sequence + 1)
            return False
        written = set()
        for rank, payload in messages:
            start, place = starts[id(payload)], _PLACES + 2 * rank
            if id(payload) not in written:
                file.memory[start : start + len(payload)] = payload
                written.add(id(payload))
            file.words[place], file.words[place + 1] = start, len(payload)
        file.words[_KIND], file.words[_AGREED] = int(call.kind), call.agreed
        publish(file.words, sequence + 1)
        return True

    def unlink(self) -> None:
        """Unlink the files, once all ranks have mapped them."""
        for path in self._paths:
            with contextlib.suppress(OSError):
                os.unlink(path)
        self._paths = []

    def close(self) -> None:
        """Unlink and close the files."""
        self.unlink()
        super().close()


class Inbox(_Box):
    """The messages of another rank."""

    def __init__(self, stamp: Stamp, source: int, mailbox: Mailbox) -> None:
        self._source, self._mailbox = source, mailbox
        super().__init__(stamp, source, mailbox.size, is_new=False)

    def receive(self, sequence: int, timeout: float) -> tuple[Call, Payload] | None:
        """Wait for the message of an exchange; return None if it uses the connection."""
        file = self._files[sequence % len(self._files)]
        self._wait_for(file, sequence, timeout)
        kind = int(file.words[_KIND])
        if kind == _BY_CONNECTION:
            return None
        self._mailbox.skip(self._source, sequence)
        place = _PLACES + 2 * self._mailbox.rank
        # The payload stays as it is until this rank posts in the exchange after the next.
        payload = file.view(int(file.words[place]), int(file.words[place + 1]))
        return Call(Kind(kind), int(file.words[_AGREED])), payload

    def _wait_for(self, file: Segment, sequence: int, timeout: float) -> None:
        deadline, nap = time.monotonic() + timeout, _FIRST_NAP
        while True:
            # Read this before the poll: a rank posts all of its messages before it leaves.
            has_left = self._mailbox.has_left(self._source)
            if self._mailbox.failure is not None:
                raise CommunicationError(self._mailbox.failure)
            if is_published(file.words, sequence + 1, _LOOKS):
                return
            if has_left:
                raise took_no_part(self._source, sequence)
            if time.monotonic() > deadline:
                raise not_answered(self._source, self._mailbox.rank, sequence, timeout)
            time.sleep(nap)
            nap = min(_NAP_GROWTH * nap, _LONGEST_NAP)


class SharedMemory:
    """The outbox of a rank, and the inboxes of the ranks on its machine."""

    def __init__(self, outbox: Outbox | None, inboxes: Mapping[int, Inbox]) -> None:
        self._outbox, self._inboxes = outbox, dict(inboxes)
        self.ranks: frozenset[int] = frozenset()

    def keep(self, ranks: Iterable[int]) -> None:
        """Use shared memory for these ranks, after all ranks of the machine have mapped it."""
        self.ranks = frozenset(ranks)
        for rank in self._inboxes.keys() - self.ranks:
            self._inboxes.pop(rank).close()
        if self._outbox is not None:
            self._outbox.unlink()  # mapped files do not need names

    def post(self, sequence: int, call: Call, messages: Sequence[tuple[int, Payload]]) -> bool:
        """Write messages to ranks of this machine; return False if they need the connections."""
        return self._outbox is not None and self._outbox.post(sequence, call, messages)

    def receive(self, source: int, sequence: int, timeout: float) -> tuple[Call, Payload] | None:
        """Return a message of a rank of this machine, or None if it uses the connection."""
        return self._inboxes[source].receive(sequence, timeout)

    def close(self) -> None:
        """Release the memory."""
        for inbox in self._inboxes.values():
            inbox.close()
        if self._outbox is not None:
            self._outbox.close()


def open_outbox(stamp: Stamp, rank: int, size: int) -> Outbox | None:
    """Return the outbox of a rank, or None if processes cannot share memory."""
    try:
        return Outbox(stamp, rank, size) if os.path.isdir(FOLDER) else None
    except OSError:
        return None


def open_inboxes(stamp: Stamp, mailbox: Mailbox) -> dict[int, Inbox]:
    """Return the inboxes of the other ranks whose outboxes this process can map."""
    inboxes = {}
    for source in range(mailbox.size):
        if source != mailbox.rank:
            with contextlib.suppress(OSError):
                inboxes[source] = Inbox(stamp, source, mailbox)
    return inboxes
