"""Temporary files without a name, in the folders of ``cache_dir``.

Nothing else can open such a file.  The system frees its space when nothing refers to it any more,
also if the process is killed.  (On Windows it has a name, and is deleted when it is closed.)
"""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from io import FileIO

from hedgerow.errors import ParameterError, StorageError

_ADVICE = {
    errno.ENOSPC: "free space there or name a folder on another disk in cache_dir",
    getattr(errno, "EDQUOT", -1): "free space there or name a folder on another disk in cache_dir",
    errno.EACCES: "name a folder in cache_dir in which you may write",
    errno.EPERM: "name a folder in cache_dir in which you may write",
    errno.EROFS: "name a folder in cache_dir in which you may write",
    errno.ENOENT: "make the folder, or name an existing one in cache_dir",
    errno.ENOTDIR: "name a folder in cache_dir",
    errno.EMFILE: "close files or raise the limit of open files (ulimit -n)",
    errno.ENOMEM: "end other programs that take memory",
}


def scratch_file(folder: str | os.PathLike[str]) -> FileIO:
    """Return a new file in an existing folder, without a buffer."""
    if not os.path.isdir(folder):
        raise ParameterError(
            f"cache_dir: {os.fspath(folder)!r} is not a folder: make it first, or name another."
        )
    with explained("make a temporary file in", folder):
        return tempfile.TemporaryFile(buffering=0, dir=folder)


def temporary_folder() -> str:
    """Return the system's folder for temporary files."""
    try:
        return tempfile.gettempdir()
    except OSError as error:
        raise StorageError(
            "no folder for temporary files is writable: name a folder in cache_dir."
        ) from error


def storage_error(error: OSError, doing: str, folder: str | os.PathLike[str]) -> StorageError:
    """Return an error that names the reason, the folder, and a remedy."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    advice = _ADVICE.get(error.errno or 0, "check the disk, or name another folder in cache_dir")
    found = StorageError(f"cannot {doing} {os.fspath(folder)}: {reason}; {advice}.")
    found.errno = error.errno
    return found


@contextlib.contextmanager
def explained(doing: str, folder: str | os.PathLike[str]) -> Iterator[None]:
    """Convert errors of the system to :class:`StorageError`."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise storage_error(error, doing, folder) from error
