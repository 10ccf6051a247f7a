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

A column of bins is encoded, if that saves at least 40% of its bytes::

    codec   bytes
    0       unencoded bins
    1 2 4   at most 2, 4 or 16 different bins: 1, 2 or 4 bits per bin, and a legend
            (:mod:`hedgerow.kernels.histograms.packed_columns`)
    8       LZ4, for columns dominated by one bin or with long runs; needs pyarrow

Bins of a continuous feature
are about equally frequent: no codec shrinks their eight bits of information per bin.
``benchmarks/disk_store.py`` compares the codecs, see docs/out-of-core-store.md.
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
from hedgerow.kernels.histograms.packed_columns import LEGEND, pack_column, unpack_codes

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


class Block(NamedTuple):
    """Location of some bytes in a file."""

    offset: int  # first byte in the file
    size: int  # bytes in the file
    codec: int  # encoding, see :mod:`hedgerow.data.external.block_files`; 0 means none

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

    def append(self, data: BinArray, codec: int = 0) -> Block:
        """Write a block after the last one."""
        block, view = Block(self._size, len(data), codec), data.data
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
    """Return an array in a new file, whose values are not set.

    Its disk space is reserved: a full disk raises an error here and does not kill the process
    later.  The space is free when nothing refers to the array any more.
    """
    size = math.prod(np.atleast_1d(shape).tolist()) * np.dtype(dtype).itemsize
    with scratch_file(folder) as file, explained("reserve space in", folder):
        if size and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            file.truncate(size)
        return np.memmap(file, dtype, "r+", shape=shape).view(np.ndarray)


RAW, LZ4 = 0, 8
PACKED = (1, 2, 4)
_WORTH = 0.6  # largest size of an encoded column, as a fraction: four bits and a legend


def find_lz4() -> Any | None:
    """Return the LZ4 codec of pyarrow, or None if pyarrow is not installed."""
    try:
        from pyarrow import Codec
    except ImportError:
        return None
    return Codec("lz4_raw")


def encode_column(column: BinArray, lz4: Any | None) -> tuple[BinArray, int]:
    """Encode one column."""
    n_rows = len(column)
    best, codec = column, RAW
    packed = np.zeros(packed_size(n_rows, PACKED[-1]), dtype=np.uint8)
    bits = pack_column(column, np.zeros(256, dtype=np.uint8), packed)
    if bits > 0 and packed_size(n_rows, bits) <= _WORTH * n_rows:
        best, codec = packed[: packed_size(n_rows, bits)], bits
    if lz4 is not None:
        data = np.frombuffer(lz4.compress(column), dtype=np.uint8)
        if len(data) <= _WORTH * len(best):  # LZ4 unpacks more slowly than packed bits
            best, codec = data, LZ4
    return best, codec


def packed_size(n_rows: int, bits: int) -> int:
    """Return the bytes of a column with ``bits`` bits per row."""
    return LEGEND + -(-n_rows * bits // 8)


class ColumnDecoder:
    """Decoder of columns from :func:`encode_column`; for one thread."""

    def __init__(self) -> None:
        self._table = np.zeros(2048, dtype=np.uint8)
        self._lz4 = find_lz4()

    def decode(self, data: BinArray, codec: int, n_rows: int, column: BinArray) -> None:
        """Write ``n_rows`` bins to ``column``.

        The array must be at least 8 elements longer; their contents are undefined.
        """
        if codec == RAW:
            column[:n_rows] = data
        elif codec == LZ4:
            assert self._lz4 is not None  # this process has encoded the column
            column[:n_rows] = np.frombuffer(self._lz4.decompress(data, n_rows), dtype=np.uint8)
        else:
            unpack_codes(data, codec, self._table, column)
