"""Temporary folders that are deleted with the process that created them.

Glossary
--------
scratch folder  ``hedgerow-<16 hex digits>.scratch`` in a folder that the user chooses,
                readable only for its owner
lock            the file ``owner.lock`` in it, which its creator keeps locked as long as it
                runs, with the names of the machine and the process

A scratch folder is deleted when it is closed, when nothing refers to it any more, and when
the interpreter ends.  A process that is killed leaves its folder behind.  The next process
that creates one next to it tries all locks, and deletes the folders whose owner is gone.
A process does so once in a while only, because listing a large folder takes longer than a fit.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
import secrets
import shutil
import socket
import tempfile
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

from hedgerow.errors import ParameterError, StorageError

LOCK = "owner.lock"
_NAME = re.compile(r"hedgerow-[0-9a-f]{16}\.scratch")
_UNLOCKED_AGE = 3600.0  # seconds within which every process locks its new folder
_UNSURE_AGE = 86400.0  # if files cannot be locked: seconds before the process number is checked
_TRIES = 8
_SEARCH_SECONDS = 600.0
"""Time after which a process looks for leftovers in the same folder again."""

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


def storage_error(error: OSError, doing: str, path: str | os.PathLike[str]) -> StorageError:
    """Return an error that names the reason, the file, and a remedy."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    advice = _ADVICE.get(error.errno or 0, "check the disk, or name another folder in cache_dir")
    found = StorageError(f"cannot {doing} {os.fspath(path)}: {reason}; {advice}.")
    found.errno = error.errno
    return found


@contextlib.contextmanager
def explained(doing: str, path: str | os.PathLike[str]) -> Iterator[None]:
    """Convert errors of the system to :class:`StorageError`."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise storage_error(error, doing, path) from error


class ScratchFolder:
    """A new temporary folder in an existing one.

    Scratch folders beside it whose owners are gone are deleted.
    """

    def __init__(self, parent: str | os.PathLike[str]) -> None:
        if not os.path.isdir(parent):
            raise ParameterError(
                f"cache_dir: {os.fspath(parent)!r} is not a folder: make it first, or name another."
            )
        _remove_leftovers_once(os.path.realpath(parent), int(time.monotonic() // _SEARCH_SECONDS))
        with explained("make a temporary folder in", parent):
            self.path, descriptor = _make(Path(parent))
        self._remove = weakref.finalize(self, _remove, self.path, descriptor, os.getpid())

    def close(self) -> None:
        """Delete the folder and its contents; a second call does nothing."""
        self._remove()


def temporary_folder(advice: str = "name a folder in cache_dir") -> str:
    """Return the system's folder for temporary files."""
    try:
        return tempfile.gettempdir()
    except OSError as error:
        raise StorageError(f"no folder for temporary files is writable: {advice}.") from error


@contextlib.contextmanager
def scratch_folder(parent: str | os.PathLike[str] | None = None) -> Iterator[Path]:
    """Yield a new scratch folder, which is deleted at the end of the block."""
    if parent is None:
        parent = temporary_folder("set TMPDIR to a folder in which you may write")
    with contextlib.closing(ScratchFolder(parent)) as folder:
        yield folder.path


def remove_leftovers(parent: str | os.PathLike[str]) -> list[Path]:
    """Delete the scratch folders in ``parent`` whose owners are gone; return their paths."""
    removed: list[Path] = []
    try:
        names = os.listdir(parent)
    except OSError:
        return removed
    for name in filter(_NAME.fullmatch, names):
        path = Path(parent, name)
        with contextlib.suppress(OSError):
            if not path.is_symlink() and path.is_dir() and _remove_if_left(path):
                removed.append(path)
    return removed


@functools.lru_cache(maxsize=64)
def _remove_leftovers_once(folder: str, period: int) -> None:
    """Call :func:`remove_leftovers`, once in a ``period`` (a number of the clock)."""
    remove_leftovers(folder)


def _make(parent: Path) -> tuple[Path, int]:
    for _ in range(_TRIES):
        path = parent / f"hedgerow-{secrets.token_hex(8)}.scratch"
        path.mkdir(mode=0o700)
        try:
            descriptor = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                os.write(descriptor, f"{socket.gethostname()}\n{os.getpid()}\n".encode())
                # Another process may have deleted the folder as a leftover before the lock.
                if _lock(descriptor) is not False and (path / LOCK).exists():
                    return path, descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)  # deleted as a leftover by another process
        except FileNotFoundError:
            continue  # deleted as a leftover by another process
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise
    raise FileExistsError(errno.EEXIST, "other processes delete every new folder", str(parent))


def _lock(descriptor: int) -> bool | None:
    """Lock a file; return False if another process holds the lock, None if unsupported."""
    try:
        import fcntl
    except ImportError:  # Windows: an open file cannot be deleted, which serves as a lock
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _remove_if_left(path: Path) -> bool:
    """Delete a scratch folder unless its owner is, or may be, alive."""
    lock = path / LOCK
    try:
        descriptor = os.open(lock, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        left = time.time() - path.stat().st_mtime > _UNLOCKED_AGE
        if left:
            shutil.rmtree(path, ignore_errors=True)
        return left
    if os.name == "nt":
        os.close(descriptor)
        lock.unlink()  # on Windows, fails while the owner has it open
        shutil.rmtree(path, ignore_errors=True)
        return True
    try:
        locked = _lock(descriptor)
        left = locked is True or (locked is None and _owner_is_gone(descriptor))
        if left:
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)
    return left


def _owner_is_gone(descriptor: int) -> bool:
    """Return whether the owner is known to have ended, where files cannot be locked."""
    if time.time() - os.fstat(descriptor).st_mtime < _UNSURE_AGE:
        return False
    words = os.pread(descriptor, 4096, 0).decode("utf-8", "replace").split("\n")
    if len(words) < 2 or words[0] != socket.gethostname() or not words[1].isdigit():
        return False
    try:
        os.kill(int(words[1]), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _remove(path: Path, descriptor: int, owner: int) -> None:
    """Delete the folder, unless this process is a forked child of the owner."""
    if os.getpid() != owner:
        return
    if os.name == "nt":
        os.close(descriptor)
        shutil.rmtree(path, ignore_errors=True)
    else:  # keep the lock until everything is deleted
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)
