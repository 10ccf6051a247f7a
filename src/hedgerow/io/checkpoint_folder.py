"""A checkpoint folder with the rounds of one fit.

::

    hedgerow-rounds-00000001-00000120.safetensors    rounds 1 to 120
    hedgerow-rounds-00000121-00000245.safetensors    rounds 121 to 245, and so on
    hedgerow.lock                                    held while a fit is running

Files are only added, each atomically (:mod:`hedgerow.atomic`).  The time of a write
therefore does not grow with the number of rounds, and the folder always holds all rounds up
to some write.  Every part has its rounds, what identifies the fit, and a checksum, so no list of
files is needed.  Reading uses the consecutive parts from round 1 up to the first that is missing or
damaged.  Rounds after a gap are removed and trained again, with the same result.  Incomplete
files of a killed process are also removed.  No other file is changed.

A lock lets only one process at a time use the folder.  The system releases it when the process
ends, even if it is killed.  Some network file systems have no locks: a warning is then logged, and
two runs of the same fit that meet in such a folder would write the same rounds.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import math
import numbers
import os
import re
import stat
import sys
import warnings
from collections.abc import Iterable

from hedgerow.atomic import write_atomically
from hedgerow.boosting.resume.checkpoint import Checkpoint, Fingerprint, Rounds, joined
from hedgerow.errors import (
    HedgerowWarning,
    ModelFormatError,
    ParameterError,
    StorageError,
    brief,
    path_repr,
)
from hedgerow.io.checkpoint_parts import OtherVersionError, rounds_from_bytes, rounds_to_bytes
from hedgerow.params import CHECKPOINT_SECONDS

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

logger = logging.getLogger("hedgerow")

_BUSY = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK}


class FileLock:
    """A lock on a file, held until :meth:`release`; ``StorageError`` if someone else holds it."""

    def __init__(self, path: str) -> None:
        self._descriptor: int | None = _open(path)
        try:
            _acquire(self._descriptor)
            with contextlib.suppress(OSError):  # for the messages of other processes
                os.ftruncate(self._descriptor, 0)
                os.write(self._descriptor, f"process {os.getpid()}".encode())
        except OSError as error:
            if error.errno in _BUSY:
                holder = b""
                with contextlib.suppress(OSError):
                    holder = os.read(self._descriptor, 40)
                self.release()
                named = holder.decode("ascii", "replace") or "another process"
                raise StorageError(f"{path} is locked by {named}.") from None
            logger.warning("%s cannot be locked: %s", path, error)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with contextlib.suppress(OSError):
                _give_back(descriptor)  # also releases the lock of forked children
            os.close(descriptor)


def _open(path: str) -> int:
    """Open the lock file safely, even in a folder where others may write."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError:
        if os.path.islink(path):
            raise _not_its_own(path, "a symbolic link") from None
        raise
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and not os.path.islink(path):
        return descriptor
    os.close(descriptor)
    raise _not_its_own(path, "a link to another file, or no regular file")


def _not_its_own(path: str, what: str) -> OSError:
    return OSError(errno.ELOOP, f"it is {what}, and nothing is written to it: remove it", path)


if sys.platform == "win32":

    def _acquire(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _give_back(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:

    def _acquire(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _give_back(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


LOCK_FILE = "hedgerow.lock"
_PART = re.compile(r"hedgerow-rounds-(\d{8})-(\d{8})\.safetensors", re.ASCII)
_LEFTOVER = re.compile(rf"\.{_PART.pattern}\.[0-9a-f]{{8}}\.tmp", re.ASCII)
_MOST_SHOWN = 6


def checkpoint_at(
    path: str | os.PathLike[str] | None, every: float = CHECKPOINT_SECONDS
) -> Checkpoint | None:
    """Return the checkpoint in a folder, saved every so many seconds; None without a path."""
    number = isinstance(every, numbers.Real) and not isinstance(every, bool)
    if not number or not 0.0 <= every < math.inf:
        raise ParameterError(
            "checkpoint_every must be a number of seconds, at least 0 (0: after every round); "
            f"got {brief(every)}."
        )
    if path is None:
        if every != CHECKPOINT_SECONDS:
            raise ParameterError(
                f"checkpoint_every={brief(every)} has no effect without checkpoint: name a folder, "
                f"or leave it at its default, {CHECKPOINT_SECONDS!r}."
            )
        return None
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise ParameterError(
            f"checkpoint must be the path of a folder, or None; got {brief(path)}."
        )
    return Checkpoint(CheckpointFolder(text), float(every))


class CheckpointFolder:
    """A :class:`hedgerow.boosting.resume.checkpoint.CheckpointStore` in a folder."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)  # a callback may change the working folder
        self._fit = Fingerprint({}, {})
        self._lock: FileLock | None = None

    def open(self) -> None:
        """Create and lock the folder."""
        if self._lock is not None:
            return
        try:
            os.makedirs(self.path, exist_ok=True)
            self._lock = FileLock(self._file(LOCK_FILE))
        except StorageError as error:
            raise StorageError(
                f"another fit is using the checkpoint folder: {error} Wait for its end, or name "
                "another folder."
            ) from None
        except OSError as error:
            raise self._fault("cannot be used", error) from error

    def latest(self, fit: Fingerprint) -> Rounds | None:
        """Return the consecutive rounds of a fit in the folder; remove all other parts."""
        self.open()
        try:
            names = sorted(os.listdir(self.path))
        except OSError as error:
            raise self._fault("cannot be used", error) from error
        self._fit = fit
        parts, used, faults = self._read_parts(names)
        if faults:
            done = parts[-1].end if parts else 0
            warnings.warn(
                f"checkpoint folder {self.path!r}: {'; '.join(faults)}. Training goes on from "
                f"round {done}.",
                HedgerowWarning,
                stacklevel=2,
            )
        self._remove(name for name in names if _LEFTOVER.fullmatch(name))
        self._remove(name for name in names if _PART.fullmatch(name) and name not in used)
        return joined(parts) if parts else None

    def save(self, part: Rounds) -> None:
        """Write a part of the rounds as a new file."""
        name = f"hedgerow-rounds-{part.first + 1:08d}-{part.end:08d}.safetensors"
        try:
            content = rounds_to_bytes(part, self._fit)
            write_atomically(self._file(name), content, follow_links=False)
        except OSError as error:
            raise self._fault("cannot be written", error) from error

    def close(self) -> None:
        """Release the folder; a second call does nothing."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def _fault(self, what: str, error: OSError) -> StorageError:
        place = "" if error.filename in (None, self.path) else f"{error.filename}: "
        return StorageError(
            f"checkpoint folder {path_repr(self.path)} {what}: {place}{error.strerror or error}"
        )

    def _read_parts(self, names: list[str]) -> tuple[list[Rounds], set[str], list[str]]:
        """Return the consecutive parts from the first round, their names, and the faults."""
        parts: list[Rounds] = []
        used: set[str] = set()
        faults: list[str] = []
        end = 0
        # Of two parts that begin with the same round, prefer the longer one if it is valid.
        order = sorted(
            (int(found[1]), -int(found[2]), found[0])
            for found in map(_PART.fullmatch, names)
            if found
        )
        for begin, last, name in order:
            # Parts after a fault are read, too: those of another fit must not be removed.
            try:
                part, kept = rounds_from_bytes(self._read(name))
                self._check_fit(kept)
                if begin <= end:
                    continue
                if begin > end + 1:
                    gap = f"rounds {end + 1} to {begin - 1} are missing"
                    faults += [gap] if not faults else []
                    continue
                if (part.first, part.end) != (end, -last):
                    raise ModelFormatError("its rounds do not match its name")
                if parts and not part.goes_with(parts[0]):
                    raise ModelFormatError("its shape differs from the rounds before it")
            except OtherVersionError as error:
                raise ParameterError(
                    f"checkpoint folder {self.path!r}: {name}: {error} Continue with that version; "
                    "to start anew, remove the folder or name another."
                ) from None
            except ModelFormatError as error:
                if begin == end + 1:
                    faults.append(f"{name} is damaged ({str(error).rstrip('.')})")
            else:
                parts.append(part)
                used.add(name)
                end = part.end
        return parts, used, faults

    def _check_fit(self, kept: Fingerprint) -> None:
        """Raise ``ParameterError`` unless rounds in the folder are of this fit."""
        found = kept.differences(self._fit)
        if found:
            more = f"; and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
            raise ParameterError(
                f"checkpoint folder {self.path!r} holds another fit: "
                f"{'; '.join(found[:_MOST_SHOWN])}{more}. To continue that fit, fit as before; to "
                "start anew, remove the folder or name another."
            )

    def _read(self, name: str) -> bytes:
        path = self._file(name)
        try:
            # A pipe or a device could block when opened, or never end.
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise ModelFormatError("it is not a regular file")
            with open(path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            raise ModelFormatError("it has vanished") from None
        except OSError as error:
            raise self._fault("cannot be read", error) from error

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            with contextlib.suppress(OSError):
                os.unlink(self._file(name))
