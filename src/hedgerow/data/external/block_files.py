"""Temporary files of blocks: written once from front to back, then read or mapped at any offset.

The files lie in the folders of ``cache_dir`` and have no names, so nothing else can open them.  The
system frees their space when nothing refers to them any more, also if the process is killed.  (On
Windows they have names, and are deleted when they are closed.)

Glossary
--------
block     bytes at an offset of a file
mapping   a part of a file that looks like memory: the system reads pages when they
          are touched and may drop them again; touched pages count as memory of the
          process until the mapping is released

A mapping is released with the last array that refers to it, so an array is always safe to
read.
"""

from __future__ import annotations

import contextlib
import errno
import math
import mmap
import os
import tempfile
import threading
import weakref
from collections.abc import Iterator
from io import FileIO
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, BinArray
from hedgerow.errors import ParameterError, StorageError

GRANULE = max(mmap.ALLOCATIONGRANULARITY, 1 << 16)
"""Mappings start at multiples of this."""

LARGE_PAGE = 1 << 21
"""Alignment at which mapping costs a tenth, if the file cache has pages of this size."""

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


@contextlib.contextmanager
def explained(doing: str, folder: str | os.PathLike[str]) -> Iterator[None]:
    """Convert errors of the system to :class:`StorageError` with a remedy."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        advice = _ADVICE.get(error.errno or 0, "check the disk, or name another in cache_dir")
        found = StorageError(f"cannot {doing} {os.fspath(folder)}: {reason}; {advice}.")
        found.errno = error.errno
        raise found from error


class Block(NamedTuple):
    """Location of some bytes in a file."""

    offset: int  # first byte in the file
    size: int  # bytes in the file

    @property
    def stop(self) -> int:
        return self.offset + self.size


class BlockFile:
    """A new file in a folder; several threads may use it."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._size = 0
        self._file = scratch_file(folder)
        self._close = weakref.finalize(self, self._file.close)

    def skip_to(self, alignment: int) -> int:
        """Start the next block at a multiple of ``alignment``; return its offset."""
        self._size += -self._size % alignment
        return self._size

    def append(self, data: BinArray) -> Block:
        """Write a block after the last one."""
        block, view = Block(self._size, len(data)), data.data
        with self._lock, explained("write a temporary file in", self.folder):
            done = 0
            while done < len(view):
                done += _write_at(self._file, view[done:], block.offset + done)
        self._size = block.stop
        return block

    def read_into(self, offset: int, target: BinArray) -> None:
        """Fill ``target`` with the bytes at ``offset``."""
        view = target.data
        with self._lock, explained("read a temporary file in", self.folder):
            done = 0
            while done < len(view):
                done += _read_at(self._file, view[done:], offset + done)

    def map(self, offset: int, size: int) -> BinArray:
        """Map a part of the file that begins at a multiple of :data:`GRANULE`."""
        with explained("map a temporary file in", self.folder):
            mapping = mmap.mmap(self._file.fileno(), size, access=mmap.ACCESS_COPY, offset=offset)
        return np.frombuffer(mapping, dtype=np.uint8)

    def close(self) -> None:
        """Close the file; mappings stay."""
        self._close()


def _read_at(file: FileIO, target: memoryview, offset: int) -> int:
    """Fill a part of ``target``; return the number of bytes read."""
    if hasattr(os, "preadv"):  # needs no file position, which forked children share
        return os.preadv(file.fileno(), [target], offset)
    file.seek(offset)
    return file.readinto(target)


def _write_at(file: FileIO, data: memoryview, offset: int) -> int:
    """Write a part of ``data``; return the number of bytes written."""
    if hasattr(os, "pwrite"):
        return os.pwrite(file.fileno(), data, offset)
    file.seek(offset)
    return file.write(data)


def mapped_array(
    folder: str | os.PathLike[str], shape: int | tuple[int, ...], dtype: npt.DTypeLike
) -> AnyArray:
    """Return an array in a new file, whose values are not set."""
    # Its disk space is reserved: a full disk raises an error here and does not kill the process
    # later. The space is free when nothing refers to the array any more.
    size = math.prod(np.atleast_1d(shape).tolist()) * np.dtype(dtype).itemsize
    with scratch_file(folder) as file, explained("reserve space in", folder):
        if size and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            file.truncate(size)
        return np.memmap(file, dtype, "r+", shape=shape).view(np.ndarray)


def find_lz4() -> Any | None:
    """Return the LZ4 codec of pyarrow, or None if pyarrow is not installed."""
    try:
        from pyarrow import Codec
    except ImportError:
        return None
    return Codec("lz4_raw")
