"""Files of blocks: written once from front to back, then read or mapped at any offset.

Glossary
--------
block     bytes at an offset of a file, with a checksum
mapping   a part of a file that looks like memory: the system reads pages when they
          are touched and may drop them again; touched pages count as memory of the
          process until the mapping is released

A mapping is released with the last array that refers to it, so an array is always safe to
read.  A file must not become shorter than its mapping, because a read beyond its end kills
the process.  :func:`fetch` therefore checks with the system before a mapping is read.

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
import ctypes
import functools
import io
import math
import mmap
import os
import sys
import threading
import weakref
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, BinArray, aligned_empty
from hedgerow.data.external.scratch import explained, storage_error
from hedgerow.errors import StorageError
from hedgerow.kernels.histograms.packed_columns import LEGEND, pack_column, unpack_codes

GRANULE = max(mmap.ALLOCATIONGRANULARITY, 1 << 16)
"""Mappings start at multiples of this."""

LARGE_PAGE = 1 << 21
"""Alignment at which mapping costs a tenth, if the file cache has pages of this size."""

_PIECE = 1 << 20  # bytes read and checked at once: they stay in the processor cache
_LET_GO, _POPULATE_READ = 4, 22  # MADV_DONTNEED and MADV_POPULATE_READ of Linux


@dataclass(frozen=True, slots=True)
class Block:
    """Location of some bytes in a file."""

    offset: int  # first byte in the file
    size: int  # bytes in the file
    codec: int  # encoding, see :mod:`hedgerow.data.external.block_files`; 0 means none
    checksum: int  # CRC-32 of the bytes in the file

    @property
    def stop(self) -> int:
        return self.offset + self.size


class BlockFile:
    """A new file at a path that does not exist; several threads may use it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._size = 0
        with explained("make", path):
            self._file = open_new(self.path)
        self._close = weakref.finalize(self, self._file.close)

    @property
    def size(self) -> int:
        """Bytes written or reserved."""
        return self._size

    def skip_to(self, alignment: int) -> int:
        """Start the next block at a multiple of ``alignment``; return its offset."""
        self._size += -self._size % alignment
        return self._size

    def append(self, data: BinArray, codec: int = 0) -> Block:
        """Write a block after the last one."""
        block = Block(self._size, len(data), codec, zlib.crc32(data.data))
        self.write(block.offset, data)
        self._size = block.stop
        return block

    def read_into(self, offset: int, target: BinArray) -> None:
        """Fill ``target`` with the bytes at ``offset``."""
        view = target.data
        with self._lock, explained("read", self.path):
            done = 0
            while done < len(view):
                n_read = read_at(self._file, view[done:], offset + done)
                if n_read == 0:
                    raise _cut_off(self.path)
                done += n_read

    def check(self, blocks: Sequence[Block]) -> None:
        """Read blocks piece by piece and verify their checksums."""
        piece = aligned_empty(min(_PIECE, max((b.size for b in blocks), default=0)), np.uint8)
        for block in blocks:
            checksum = 0
            for offset in range(block.offset, block.stop, _PIECE):
                part = piece[: min(_PIECE, block.stop - offset)]
                self.read_into(offset, part)
                checksum = zlib.crc32(part.data, checksum)
            if checksum != block.checksum:
                raise _changed(self.path, block)

    def map(self, offset: int, size: int) -> BinArray:
        """Map a part of the file that begins at a multiple of :data:`GRANULE`."""
        with explained("map", self.path):
            try:
                mapping = map_file(self._file.fileno(), size, offset)
            except ValueError:  # beyond the end of the file
                raise _cut_off(self.path) from None
        return np.frombuffer(mapping, dtype=np.uint8)

    def write(self, offset: int, data: BinArray) -> None:
        """Write at any offset."""
        view = data.data
        with self._lock, explained("write", self.path):
            done = 0
            while done < len(view):
                done += write_at(self._file, view[done:], offset + done)

    def reserve(self, size: int) -> None:
        """Extend the file to ``size`` bytes, and reserve disk space if the system can."""
        with self._lock, explained("reserve space in", self.path):
            reserve_space(self._file, size)
        self._size = size

    def close(self) -> None:
        """Close the file; mappings stay."""
        self._close()


def mapped_array(
    path: str | os.PathLike[str], shape: int | tuple[int, ...], dtype: npt.DTypeLike
) -> AnyArray:
    """Return an array in a new file, whose values are not set.

    Its disk space is reserved: a full disk raises an error here and does not kill the process
    later.  Where the system can, the file is deleted at once and its space is free when nothing
    refers to the array any more; elsewhere the owner of its folder deletes it.
    """
    file = BlockFile(path)
    try:
        file.reserve(math.prod(np.atleast_1d(shape).tolist()) * np.dtype(dtype).itemsize)
        with explained("map", path):
            return np.memmap(path, dtype, "r+", shape=shape).view(np.ndarray)
    finally:
        file.close()
        if os.name != "nt":
            with contextlib.suppress(OSError):
                os.unlink(path)


def fetch(address: int, size: int, path: str | os.PathLike[str]) -> None:
    """Read a part of a mapping from the disk now, if the system supports it."""
    advise = _advise()
    if advise is None or size == 0:
        return
    first = address - address % mmap.PAGESIZE
    if advise(first, address + size - first, _POPULATE_READ) != 0:
        number = ctypes.get_errno()
        raise storage_error(OSError(number, os.strerror(number)), "read", path)


def let_go(address: int, size: int) -> bool:
    """Free the memory of a complete mapping; return False if the mapping must be released."""
    advise = _advise()
    return advise is not None and advise(address, size, _LET_GO) == 0


@functools.cache
def _advise() -> Callable[[int, int, int], int] | None:
    """Return the system's ``madvise`` on Linux 5.14 or later, else None.

    The method of :mod:`mmap` is no replacement, because it blocks other Python threads.
    """
    if not sys.platform.startswith("linux"):
        return None
    advise = ctypes.CDLL(None, use_errno=True).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    advise.restype = ctypes.c_int
    with mmap.mmap(-1, mmap.PAGESIZE) as page:
        try:
            page.madvise(_POPULATE_READ)
        except OSError:
            return None
    return advise


def open_new(path: Path) -> io.FileIO:
    """Create a new file; fail if it exists."""
    return io.FileIO(path, "x+")


def read_at(file: io.FileIO, target: memoryview, offset: int) -> int:
    """Fill a part of ``target``, at least one byte unless the file ends; return the bytes read."""
    if hasattr(os, "preadv"):  # needs no file position, which forked children share
        return os.preadv(file.fileno(), [target], offset)
    file.seek(offset)
    return file.readinto(target)


def write_at(file: io.FileIO, data: memoryview, offset: int) -> int:
    """Write a part of ``data``; return the number of bytes written."""
    if hasattr(os, "pwrite"):
        return os.pwrite(file.fileno(), data, offset)
    file.seek(offset)
    return file.write(data)


def reserve_space(file: io.FileIO, size: int) -> None:
    """Extend the file to ``size`` bytes, and reserve them so that the disk cannot fill up."""
    if size and hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
    else:
        file.truncate(size)


def map_file(descriptor: int, size: int, offset: int) -> mmap.mmap:
    """Create a mapping by the system."""
    return mmap.mmap(descriptor, size, access=mmap.ACCESS_COPY, offset=offset)


def _cut_off(path: Path) -> StorageError:
    return StorageError(
        f"{path} is shorter than when it was written: another program has changed it. "
        "Start again, with a cache_dir that nothing else writes to."
    )


def _changed(path: Path, block: Block) -> StorageError:
    return StorageError(
        f"{path}: bytes {block.offset} to {block.stop} differ from what was written "
        "(wrong checksum): another program has changed them, or the disk fails. Start again, "
        "with a cache_dir that nothing else writes to, or on another disk."
    )


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
        self._lz4: Any | None = None

    def decode(self, data: BinArray, codec: int, n_rows: int, column: BinArray) -> None:
        """Write ``n_rows`` bins to ``column``.

        The array must be at least 8 elements longer; their contents are undefined.
        """
        if codec == RAW:
            column[:n_rows] = data
        elif codec == LZ4:
            self._lz4 = self._lz4 or find_lz4()
            if self._lz4 is None:
                raise StorageError(
                    "a column was written with LZ4, which needs pyarrow: "
                    "pip install hedgerow[files]."
                )
            column[:n_rows] = np.frombuffer(self._lz4.decompress(data, n_rows), dtype=np.uint8)
        else:
            unpack_codes(data, codec, self._table, column)
