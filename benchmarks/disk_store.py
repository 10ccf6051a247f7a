"""Measure passes over chunks on disk with a warm file cache.

::

    python benchmarks/disk_store.py                                   # all parts
    python benchmarks/disk_store.py passes --rows 500000 --folder /tmp

access   ways to access bytes in a file: map it, or read it into memory
codecs   codecs for columns of bins: size, and speed of packing and unpacking
passes   the passes that grow a tree, over chunks that are resident, mapped or encoded

Times are processor times of all threads, and the smallest of several runs: other programs change
them least.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import mmap
import os
import tempfile
import time
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from hedgerow.data import bin_table, fit_bins, read_table
from hedgerow.data.external.disk_store import ROWS_ONLY, ChunkSink, Compression, Uses
from names import name_in

Pack = Callable[[np.ndarray], Any]
Unpack = Callable[[Any], object]
PARTS = ("access", "codecs", "passes")
PART = 4 << 20
MODES: tuple[tuple[str, Compression, int], ...] = (
    ("resident", "none", 1 << 40),
    ("mapped", "none", 1 << 26),
    ("encoded", "always", 1 << 26),
)
# As in hedgerow.growing.chunks.grower: the first pass of a tree, and the next ones.
FIRST, LEVEL, PLAIN = ROWS_ONLY, Uses(True, (3, 4)), Uses(False, ())


@njit(nogil=True)
def read(array: np.ndarray) -> int:
    total = 0
    for i in range(0, len(array), 64):
        total += array[i]
    return total


@njit(nogil=True)
def write(array: np.ndarray) -> None:
    for i in range(0, len(array), 64):
        array[i] += 1


def best(task: Callable[[], object], n_times: int = 7) -> float:
    seconds = []
    for _ in range(n_times):
        start = time.process_time()
        task()
        seconds.append(time.process_time() - start)
    return min(seconds)


def measure_access(folder: str, size: int = 32 << 20) -> None:
    advise = ctypes.CDLL(None, use_errno=True).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    path = os.path.join(folder, "access.bin")
    with open(path, "wb") as written:
        written.write(np.random.default_rng(0).bytes(size))
    file = os.open(path, os.O_RDWR)
    memory, buffer = np.ones(size, np.uint8), np.ones(PART, np.uint8)

    def mapped(
        access: int, work: Callable[[np.ndarray], object], advice: int = 0, odd: int = 0
    ) -> None:
        part = PART >> 2 if odd else PART  # odd: no part holds a large page
        for start in range(odd, size - part + 1, part):
            array = np.frombuffer(mmap.mmap(file, part, access=access, offset=start), np.uint8)
            if advice and advise(array.ctypes.data, part, advice) != 0:
                raise OSError(ctypes.get_errno(), "madvise")
            work(array)

    def copied(back: bool = False, fresh: bool = False) -> None:
        for start in range(0, size, PART):
            to = np.empty(PART, np.uint8) if fresh else buffer
            os.preadv(file, [to.data], start)
            (write if back else read)(to)
            if back:
                os.pwrite(file, to.data, start)

    ways: dict[str, Callable[[], object]] = {
        "read: memory": lambda: read(memory),
        "read: map, faults": lambda: mapped(mmap.ACCESS_COPY, read),
        "read: map, MADV_POPULATE_READ": lambda: mapped(mmap.ACCESS_COPY, read, 22),
        "read: the same, in odd places": lambda: mapped(mmap.ACCESS_COPY, read, 22, 1 << 16),
        "read: preadv, buffer used again": copied,
        "read: preadv, fresh buffer": lambda: copied(fresh=True),
        "write: memory": lambda: write(memory),
        "write: shared map, faults": lambda: mapped(mmap.ACCESS_WRITE, write),
        "write: shared map, MADV_POPULATE_WRITE": lambda: mapped(mmap.ACCESS_WRITE, write, 23),
        "write: shared map, in odd places": lambda: mapped(mmap.ACCESS_WRITE, write, 0, 1 << 16),
        "write: preadv and pwrite": lambda: copied(back=True),
    }
    print(f"ms for {size >> 20} MiB in parts of {PART >> 20} MiB, a byte of each cache line")
    for name, way in ways.items():
        way()
        print(f"  {name:40s} {best(way) * 1e3:7.2f}")
    os.close(file)
    os.unlink(path)


def columns_of_bins(n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    columns = {
        "255 alike": rng.integers(0, 255, n),
        "30% miss": np.where(rng.random(n) < 0.3, 255, rng.integers(0, 200, n)),
        "runs": np.repeat(rng.integers(0, 255, n // 50 + 1), 50)[:n],
        "95% zero": np.where(rng.random(n) < 0.95, 0, rng.integers(0, 255, n)),
        "ten": rng.integers(0, 10, n),
        "binary": rng.integers(0, 2, n),
        "5% ones": rng.random(n) < 0.05,
    }
    return {name: np.ascontiguousarray(column, np.uint8) for name, column in columns.items()}


def codecs(n: int) -> dict[str, tuple[Pack, Unpack]]:
    """Return functions that pack and unpack an array, for each installed library."""
    found: dict[str, tuple[Pack, Unpack]] = {
        "zlib 1": (lambda a: zlib.compress(a.data, 1), zlib.decompress)
    }
    try:
        import pyarrow as pa

        for name in ("lz4_raw", "zstd"):
            codec = pa.Codec(name)
            found[f"pyarrow {name}"] = (
                codec.compress,
                functools.partial(codec.decompress, decompressed_size=n),
            )
    except ImportError:
        pass
    try:
        import lz4.block

        found["lz4"] = (lz4.block.compress, lz4.block.decompress)
    except ImportError:
        pass
    try:
        import zstandard

        found["zstandard 1"] = (
            zstandard.ZstdCompressor(level=1).compress,
            zstandard.ZstdDecompressor().decompress,
        )
    except ImportError:
        pass
    try:
        import blosc2

        blosc2.set_nthreads(1)
        to = np.empty(n, np.uint8)
        shuffle = [blosc2.Filter.BITSHUFFLE]
        found["blosc2 lz4, shuffled bits"] = (
            lambda a: blosc2.compress2(
                a, codec=blosc2.Codec.LZ4, clevel=5, typesize=1, filters=shuffle
            ),
            lambda b: blosc2.decompress2(b, dst=to),
        )
    except ImportError:
        pass
    return found


def measure_codecs(n: int = 1 << 16) -> None:
    columns = columns_of_bins(n)
    print(f"{n} rows: share of the bytes, packing GB/s, unpacking GB/s (one thread)")
    print(" " * 28 + "".join(f"{name:>18s}" for name in columns))
    for name, (pack, unpack) in codecs(n).items():
        cells = ""
        for column in columns.values():
            packed = pack(column)
            size = len(packed)
            calls = functools.partial(pack, column), functools.partial(unpack, packed)
            speeds = [n / best(call, 5) / 1e9 for call in calls]
            cells += f"{size / n:8.2f}{speeds[0]:5.1f}{speeds[1]:5.1f}"
        print(f"  {name:26s}{cells}")
    column = columns["255 alike"]
    print(f"  CRC-32 {n / best(lambda: zlib.crc32(column.data)) / 1e9:.1f} GB/s")


def make_rows(kind: str, n_rows: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    if kind == "continuous":
        return rng.normal(size=(n_rows, 28)).astype(np.float32)
    return rng.integers(0, np.repeat([2, 4, 10, 16], 7), (n_rows, 28)).astype(np.float32)


def measure_passes(folder: str, n_rows: int) -> None:
    for kind in ("continuous", "few bins"):
        table = read_table(make_rows(kind, n_rows))
        spec = fit_bins(table, max_bins=255)
        matrix = bin_table(table, spec)
        print(f"{n_rows} rows x 28, {kind}: ms of a pass for a million rows")
        for mode, compression, limit in MODES:
            with ChunkSink(spec, [folder], limit, compression=compression) as sink:
                start = time.process_time()
                sink.append(matrix)
                store = sink.finish()
                seconds = time.process_time() - start
                files = [one._file.fileno() for one in store.files]
                size = sum(512 * os.fstat(number).st_blocks for number in files)
            with store:
                names = ("checked", "empty", "first of a tree", "next")
                times = zip(names, time_passes(store), strict=True)
                print(
                    f"  {mode:9s}{size / n_rows:5.1f} bytes a row"
                    f"; written{seconds * 1e9 / n_rows:7.1f}"
                    + "".join(f", {name} {t * 1e9 / n_rows:6.2f}" for name, t in times)
                    + f"; {store.n_resident} of {len(store.chunk_sizes)} chunks resident"
                )


def time_passes(store: Any) -> list[float]:
    """Time the pass that checks everything, an empty pass, and the passes of a tree."""

    def nothing() -> None:
        for _ in store.chunks(uses=PLAIN):
            pass

    def first() -> None:
        for chunk in store.chunks(uses=FIRST):
            read(chunk.matrix.by_row.reshape(-1))

    def level() -> None:
        for chunk in store.chunks(uses=LEVEL):
            read(chunk.matrix.by_row.reshape(-1))
            read(chunk.matrix.by_column[3])
            read(chunk.matrix.by_column[4])

    return [best(first, 1), *(best(task, 7) for task in (nothing, first, level))]


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", type=name_in(PARTS), default=list(PARTS))
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--folder", default=tempfile.gettempdir())
    return parser


def main() -> None:
    arguments = build_parser().parse_args()
    for small in (np.zeros(64, np.uint8),):
        read(small), write(small)
    if "access" in arguments.what:
        measure_access(arguments.folder)
    if "codecs" in arguments.what:
        measure_codecs()
    if "passes" in arguments.what:
        measure_passes(arguments.folder, arguments.rows)


if __name__ == "__main__":
    main()
