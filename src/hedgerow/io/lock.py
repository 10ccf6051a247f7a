"""A lock that lets only one process at a time use a folder.

The system releases the lock when the process ends, even if it is killed.  Some network file
systems have no locks; the folder is then not locked, and a warning is logged.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import stat
import sys

from hedgerow.errors import StorageError

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
            self._note_holder()
        except OSError as error:
            if error.errno in _BUSY:
                holder = self._holder()
                self.release()
                raise StorageError(f"{path} is locked by {holder}.") from None
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

    def _note_holder(self) -> None:
        """Write the owner into the file, for error messages of other processes; ignore failures."""
        assert self._descriptor is not None
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, f"process {os.getpid()}".encode())

    def _holder(self) -> str:
        assert self._descriptor is not None
        with contextlib.suppress(OSError):
            return os.read(self._descriptor, 40).decode("ascii", "replace") or "another process"
        return "another process"


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
