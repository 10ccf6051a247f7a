"""Write files atomically.

The content is written to a new file in the same folder and flushed to the disk.  The new
file then replaces the old one atomically (``os.replace``).  Whenever the process or the
machine stops, the path holds either the complete old content or the complete new content.
A process that is killed may leave a file ``.NAME.XXXX.tmp``, which can be deleted.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from hedgerow.argument_types import path_text
from hedgerow.errors import ParameterError, StorageError

logger = logging.getLogger("hedgerow")

_CHUNK = 1 << 24


def check_place(path: str) -> None:
    """Raise ``ParameterError``, before a long computation, if its result cannot be written."""
    file = Path(path)
    if file.is_dir():
        raise ParameterError(f"{path} is a folder: give the name of a file to write.")
    if not file.parent.is_dir():
        raise ParameterError(f"{path}: the folder {file.parent} does not exist; create it first.")
    if not os.access(file.parent, os.W_OK):
        raise ParameterError(f"{path}: no permission to write in {file.parent}.")


def write_atomically(
    path: str | os.PathLike[str], parts: Iterable[bytes | memoryview], *, follow_links: bool = True
) -> None:
    """Replace the content of ``path`` by the concatenation of ``parts``."""
    with open_atomically(path, follow_links=follow_links) as file:
        for part in parts:
            left = memoryview(part)
            while len(left):  # each call may write fewer bytes
                left = left[os.write(file.fileno(), left[:_CHUNK]) :]


@contextlib.contextmanager
def open_atomically(
    path: str | os.PathLike[str], *, follow_links: bool = True
) -> Iterator[BinaryIO]:
    """Open a new file for writing, which replaces ``path`` at the end of the block."""
    shown = path_text(path)
    try:
        with _replacing(os.path.realpath(shown) if follow_links else os.path.abspath(shown)) as f:
            yield f
    except StorageError:  # from reading the file that provides the content
        raise
    except OSError as error:
        if error.errno is None:
            error.args = (f"{error} (while saving {shown!r})",)
        error.filename = shown
        del error.filename2  # None would appear in the message
        raise


@contextlib.contextmanager
def _replacing(target: str) -> Iterator[BinaryIO]:
    folder, name = os.path.split(target)
    old_mode = _mode_of(target)
    temporary = os.path.join(folder, f".{name[:200]}.{secrets.token_hex(4)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(temporary, flags, 0o666), "wb") as file:
            if old_mode is not None and hasattr(os, "fchmod"):
                with contextlib.suppress(PermissionError):  # file systems without modes
                    os.fchmod(file.fileno(), old_mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(folder)


def _mode_of(target: str) -> int | None:
    """Return the permissions of the file to replace; None if there is none, or for a link."""
    try:
        mode = os.lstat(target).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(mode):
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), target)
    return stat.S_IMODE(mode)


def _sync_folder(folder: str) -> None:
    """Flush the folder, if the system can, so that the renaming survives a power cut."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        logger.warning("saved, but the folder %s could not be flushed: %s", folder, error)
