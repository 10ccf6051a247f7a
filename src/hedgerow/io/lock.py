"""A lock on a folder: one process at a time.

The system gives it back when a process ends, however it ends, so none is left behind by
a kill.  On file systems without locks (some that are shared over a network) there is
none, which is a warning in the log.
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
    """Held from its making until :meth:`release`.

    Parameters
    ----------
    path : str
        A file, made where it is not there, and left there.

    Raises
    ------
    StorageError
        If another process, or another part of this one, holds it.
    OSError
        If the file cannot be made, or is a link or a device: what is written to it would go
        elsewhere.
    """

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
        """Give it back; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with contextlib.suppress(OSError):
                _give_back(descriptor)  # also of a forked child that has the file open
            os.close(descriptor)

    def _note_holder(self) -> None:
        """Who holds it, for the message to others; no matter if that fails."""
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
    """The file, which may stand in a folder that others may write to."""
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
