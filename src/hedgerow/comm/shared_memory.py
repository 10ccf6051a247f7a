"""Messages between ranks of one machine through shared memory.

Each rank has an outbox of a few files in ``/dev/shm``, which its neighbours on its machine map.
The message of exchange ``n`` is in file ``n % n_files``::

    word 0                 number of the exchange + 1, written last
    word 1                 the same, by a reader who sleeps until a connection wakes it
    words 8, 9, 10         kind of the collective, hash of its arguments, length of the message
    from the next page on  the message

No acknowledgements are needed, because a rank is at most ``n_files - 1`` exchanges ahead of
another one (:func:`hedgerow.comm.collectives.most_ahead`).  With two ranks, a rank posts in
exchange ``n + 2`` only after it has received the message of exchange ``n + 1``, which the other
rank sent after it had used the message of exchange ``n``.

Files are unlinked as soon as all ranks have mapped them, so a killed process leaves no files
behind.  Their names are a hash of the token of the training.

Shared memory needs Linux.  On other systems, and between ranks of different machines or users,
messages use the connections.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import stat
from collections.abc import Collection

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.comm.collectives import Call, Kind, Message, Payload, most_ahead, neighbours
from hedgerow.kernels.primitives.barrier import is_published, publish

FOLDER = "/dev/shm"  # noqa: S108 (names are random, and files opened by their owner only)
"""A file system in memory, which is local to the machine."""

_KIND, _AGREED, _LENGTH, _N_WORDS = 8, 9, 10, 16
_BY_CONNECTION = 0
"""Kind of an exchange whose message did not fit."""

_LOOKS = 50_000
"""Looks for a message before a rank sleeps: about 25 us."""


class Segment:
    """A file mapped by several processes: words, and messages behind them."""

    start = mmap.PAGESIZE

    def __init__(self, path: str, is_new: bool) -> None:
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
        words = np.frombuffer(self.memory, dtype=np.int64, count=_N_WORDS)
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


class Box:
    """The files of the messages of one rank; ``OSError`` if they cannot be made or mapped."""

    def __init__(self, token: bytes, rank: int, size: int, is_new: bool) -> None:
        name = hashlib.blake2b(token, digest_size=16, person=b"hedgerow").hexdigest()
        self._paths = [
            os.path.join(FOLDER, f"hedgerow-{name}-{rank}-{number}")
            for number in range(most_ahead(size) + 1)
        ]
        self._is_new = is_new
        self._files: list[Segment] = []
        try:
            for path in self._paths:
                self._files.append(Segment(path, is_new))
        except OSError:
            self.close()
            raise

    def file(self, sequence: int) -> Segment:
        """Return the file of an exchange."""
        return self._files[sequence % len(self._files)]

    def unlink(self) -> None:
        """Unlink the files that this rank has made, once all ranks have mapped them."""
        for path in self._paths[: len(self._files) if self._is_new else 0]:
            with contextlib.suppress(OSError):
                os.unlink(path)
        self._paths = []

    def close(self) -> None:
        """Unlink and close the files."""
        self.unlink()
        for file in self._files:
            file.close()
        self._files = []


class SharedMemory:
    """The outbox of a rank, and those of its neighbours on its machine.

    Without an outbox, nothing is shared.
    """

    def __init__(self, outbox: Box | None, token: bytes, rank: int, size: int) -> None:
        self._outbox, self._about = outbox, (token, rank, size)
        self._inboxes: dict[int, Box] = {}

    @classmethod
    def open(cls, token: bytes, rank: int, size: int) -> SharedMemory:
        """Make the outbox of a rank; without one if processes cannot share memory."""
        outbox: Box | None = None
        with contextlib.suppress(OSError):
            if size > 1 and os.path.isdir(FOLDER):
                outbox = Box(token, rank, size, is_new=True)
        return cls(outbox, token, rank, size)

    def map_neighbours(self) -> None:
        """Map the outboxes of the neighbours, as far as this process can."""
        token, rank, size = self._about
        for other in neighbours(rank, size) if self._outbox is not None else ():
            with contextlib.suppress(OSError):
                self._inboxes[other] = Box(token, other, size, is_new=False)

    def keep(self, ranks: Collection[int]) -> None:
        """Use shared memory for these ranks only, after all ranks have mapped it."""
        for rank in self._inboxes.keys() - set(ranks):
            self._inboxes.pop(rank).close()
        if self._outbox is not None:
            self._outbox.unlink()  # mapped files do not need names

    def reads(self, rank: int) -> bool:
        """Return whether messages of a rank come through shared memory."""
        return rank in self._inboxes

    def post(self, target: int, sequence: int, call: Call, payload: Payload) -> Message | None:
        """Write a message; return the one, if any, that is to be sent by the connection."""
        if self._outbox is None or target not in self._inboxes:
            return call, payload
        file = self._outbox.file(sequence)
        try:
            file.reserve(file.start + len(payload))
        except OSError:
            file.words[_KIND] = _BY_CONNECTION
        else:
            file.memory[file.start : file.start + len(payload)] = payload
            file.words[_KIND], file.words[_AGREED] = int(call.kind), call.agreed
            file.words[_LENGTH] = len(payload)
        is_here = file.words[_KIND] != _BY_CONNECTION
        is_awaited = publish(file.words, sequence + 1)
        if not is_here:
            return call, payload
        return (Call(Kind.WAKE), b"") if is_awaited else None

    def take(self, source: int, sequence: int) -> Message | None:
        """Return the message of an exchange; None before it is there, or by the connection."""
        file = self._inboxes[source].file(sequence)
        if not is_published(file.words, sequence + 1, _LOOKS):
            return None
        kind, length = int(file.words[_KIND]), int(file.words[_LENGTH])
        if kind == _BY_CONNECTION:
            return None
        # It stays as it is until this rank posts its message of the exchange after the next.
        payload = file.view(file.start, length)
        return Call(Kind(kind), int(file.words[_AGREED])), payload

    def close(self) -> None:
        """Release the memory."""
        for inbox in self._inboxes.values():
            inbox.close()
        self._inboxes = {}
        if self._outbox is not None:
            self._outbox.close()
            self._outbox = None
