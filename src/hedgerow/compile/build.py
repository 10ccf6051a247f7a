"""The build of the kernels of the package: ``python -m hedgerow.compile.build``.

The build of the wheel runs it (``hatch_build.py``) for all levels of processors and for GPUs, so
that the wheel runs everywhere.  In a checkout it builds what this machine runs: run it after an
edit::

    each variant of the list  ->  an object file for each level of processors
    object files of a level   ->  one shared library in ``hedgerow/built``
    kernels for GPUs          ->  one file of PTX (:mod:`hedgerow.compile.ptx`)
    contents of the libraries ->  ``manifest.json``

Numba finds types and writes LLVM code, most of the work, once for all levels, except for kernels
that depend on the number of SIMD lanes; LLVM makes machine code for each level.  These are two
tasks: one process has Numba write all that grows trees, since it keeps what it found for one entry
for the next, and another has LLVM turn the code into object files.

Object files are cached below the cache folder of :mod:`hedgerow.compile.just_in_time`, by the
digest of their sources: a second build compiles only changed kernels and the kernels that depend
on them.  Each level has its own processes, which end with the build, however it ends.
``benchmarks/build_time.py`` prints where the time goes.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import itertools
import json
import multiprocessing
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor
from concurrent.futures import wait as wait_for
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NamedTuple

from hedgerow.compile import digests, library, ptx
from hedgerow.compile.target import FOLDER, FORMAT, MANIFEST, target_levels, target_system
from hedgerow.compile.variants import Variant, find_kernel, parse_types, read_variants

_AVX2 = "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+popcnt,+sse4.2"
# Split search fills registers with eight numbers; LLVM would halve them, to suit old processors.
_AVX512 = f"{_AVX2},+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl,-prefer-256-bit"


class Level(NamedTuple):
    """A level of processors: LLVM's name, and the features that code may use."""

    processor: str
    features: str


LEVELS = {
    "x86-64-v2": Level("x86-64-v2", "+popcnt,+sse4.2"),
    "x86-64-v3": Level("x86-64-v3", _AVX2),
    "x86-64-v4": Level("x86-64-v4", _AVX512),
    "aarch64": Level("generic", "+neon"),
}


class System(NamedTuple):
    """An operating system and kind of processor that libraries are built for.

    triple    LLVM's name
    linker    target of the linker in the package ziglang
    machine   ``platform.machine()`` on this system
    levels    levels of processors that are built by default
    suffix    suffix of the file name of the library
    """

    triple: str
    linker: str
    machine: str
    levels: tuple[str, ...]
    suffix: str


_X86 = ("x86-64-v3", "x86-64-v4")
SYSTEMS = {
    "linux-x86_64": System(
        "x86_64-unknown-linux-gnu", "x86_64-linux-gnu.2.17", "x86_64", _X86, ".so"
    ),
    "linux-aarch64": System(
        "aarch64-unknown-linux-gnu", "aarch64-linux-gnu.2.17", "aarch64", ("aarch64",), ".so"
    ),
    "macos-arm64": System(
        "arm64-apple-macosx11.0.0", "aarch64-macos.11.0", "arm64", ("aarch64",), ".dylib"
    ),
    "windows-amd64": System("x86_64-pc-windows-gnu", "x86_64-windows-gnu", "amd64", _X86, ".dll"),
}


def this_system() -> str:
    """Return the key of this machine, which ``SYSTEMS`` may or may not have."""
    return f"{target_system()}-{platform.machine().lower()}"


class Entry(NamedTuple):
    """An entry of the library of a level of processors."""

    variant: Variant
    level: str
    symbol: str
    digest: str

    @property
    def file_name(self) -> str:
        """The name under which the object file is kept."""
        return f"{self.symbol}-{self.digest}"


class Written(NamedTuple):
    """The LLVM code of an entry, not optimised, and the processor seconds that Numba took."""

    entry: Entry
    bitcode: bytes
    spent: float


class Compiled(NamedTuple):
    """The object file of an entry.

    written, optimised   processor seconds of Numba and of LLVM; 0.0 for a file made earlier
    """

    entry: Entry
    code: bytes
    written: float = 0.0
    optimised: float = 0.0


# -- in a worker process ------------------------------------------------------------------


def _start_worker(level: str) -> None:
    """Configure this process to compile for ``level``, before it imports Numba."""
    # It ends when the build has ended, even if that was killed.
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C reaches the build, too, and ends it
    parent = multiprocessing.parent_process()
    assert parent is not None
    ended = parent.sentinel

    def watch() -> None:
        wait([ended])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    is_x86 = level.startswith("x86")
    if is_x86:
        os.environ["NUMBA_CPU_NAME"] = LEVELS[level].processor
    os.environ["NUMBA_CPU_FEATURES"] = LEVELS[level].features if is_x86 else ""
    os.environ["HEDGEROW_COMPILE"] = "always"  # an older library does not decide on vectors
    os.environ["HEDGEROW_QUIET"] = "1"
    from hedgerow.compile import just_in_time

    just_in_time.quicken()


def _digests(kernels: Sequence[str]) -> list[str]:
    """Return the digests of kernels for the level of this process."""
    return [digests.digest_of(find_kernel(name)) for name in kernels]


def _write(variant: Variant, levels: Sequence[str], system: str) -> list[Compiled | Written]:
    """Return the object files of a variant that an earlier build made, and the code of others."""
    from hedgerow.compile import just_in_time

    kernel = find_kernel(variant.kernel)
    digest = digests.digest_of(kernel)
    symbol = "hedgerow_" + hashlib.blake2b(str(variant).encode(), digest_size=8).hexdigest()
    kinds, bitcode = parse_types(variant.types), b""
    done: list[Compiled | Written] = []
    for level in levels:
        entry, began = Entry(variant, level, symbol, digest), time.process_time()
        try:
            code = (_object_folder(system, level) / entry.file_name).read_bytes()
            done.append(Compiled(entry, code))
        except OSError:
            bitcode = bitcode or just_in_time.write_entry(kernel, kinds, symbol)
            done.append(Written(entry, bitcode, time.process_time() - began))
    return done


def _optimise(written: Written, system: str) -> list[Compiled]:
    """Have LLVM turn the code of an entry into an object file, and keep that."""
    from hedgerow.compile import just_in_time

    entry, bitcode, spent = written
    began = time.process_time()
    target = just_in_time.Target(SYSTEMS[system].triple, *LEVELS[entry.level])
    code = just_in_time.machine_code(bitcode, entry.symbol, target)
    optimised = time.process_time() - began
    just_in_time.keep(_object_folder(system, entry.level) / entry.file_name, code)
    return [Compiled(entry, code, spent, optimised)]


def _object_folder(system: str, level: str) -> Path:
    from hedgerow.compile import just_in_time

    toolchain = hashlib.blake2b(digest_size=6)
    interface = library.TABLE_FIELDS, library.DTYPES
    toolchain.update(repr((SYSTEMS[system], LEVELS[level], interface)).encode())
    for name in ("entry_code.py", "read_arguments.py", "just_in_time.py"):
        toolchain.update(Path(__file__).with_name(name).read_bytes())
    name = f"{just_in_time.VERSIONS}-{toolchain.hexdigest()}"
    return just_in_time.cache_root() / "objects" / name


def _compile_support(system: str, level: str, build: str) -> bytes:
    """Return the object file with the table of addresses and the name of the build."""
    from hedgerow.compile import just_in_time

    target = just_in_time.Target(SYSTEMS[system].triple, *LEVELS[level])
    return just_in_time.build_support(build, target)


# -- the build ----------------------------------------------------------------------------


def build(
    folder: Path,
    system: str,
    levels: Sequence[str],
    variants: Sequence[Variant],
    n_workers: int,
    for_gpus: bool,
) -> dict[str, list[Compiled]]:
    """Compile the variants for all levels, and for GPUs; write libraries and manifest."""
    began = time.perf_counter()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    name = f"{digests.source_digest()}-{time.time_ns():x}"
    share = max(1, n_workers // len(levels))
    pools = {level: [_pool(level) for _ in range(share)] for level in levels}
    gpu_pool = _pool(levels[0])
    targets, linked = [], 0.0
    libraries: dict[str, dict[str, object]] = {}
    manifest = {
        "format": FORMAT,
        "system": system.partition("-")[0],
        "machine": SYSTEMS[system].machine,
        "build": name,
        "sources": digests.source_digest(),
        "libraries": libraries,
    }
    try:
        gpu_code = gpu_pool.submit(ptx.compile_ptx) if for_gpus else None
        made = _compile_all(pools, variants, system)
        for level in levels:
            support = pools[level][0].submit(_compile_support, system, level, name).result()
            started = time.perf_counter()
            path = _link(folder, system, level, [support, *(one.code for one in made[level])])
            linked += time.perf_counter() - started
            entries: dict[str, list[list[str]]] = {}
            for entry in sorted(one.entry for one in made[level]):
                entries.setdefault(entry.variant.kernel, []).append([entry.symbol, entry.digest])
            size = path.stat().st_size
            libraries[level] = {"file": path.name, "size": size, "entries": entries}
            targets.append(f"{level} ({size / 1e6:.1f} MB)")
        if gpu_code is not None:
            manifest["cuda"] = ptx.write_ptx(folder, gpu_code.result())
    finally:
        for pool in itertools.chain(*pools.values(), [gpu_pool]):
            pool.shutdown(cancel_futures=True)
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    targets.append("GPUs" if for_gpus else "no GPUs (HEDGEROW_GPU=1 adds them)")
    spent = f"{time.perf_counter() - began:.0f} s, {linked:.1f} of them linking"
    print(f"built {len(variants)} kernels for {', '.join(targets)}: {folder} ({spent})", flush=True)
    return made


def _pool(level: str) -> ProcessPoolExecutor:
    """Return one process that compiles for a level."""
    spawn = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(1, spawn, _start_worker, (level,))


def _ordered(variants: Sequence[Variant]) -> list[Variant]:
    """Return the growers of trees and then the rest, the slowest variants at both ends."""

    # Numba compiles an inner kernel once in each process.  Every second process starts at the end
    # of the list: few inner kernels are compiled twice, and the last variants take a moment.  It
    # also optimises what others have written, so those of the growers can go on.
    def position(variant: Variant) -> tuple[bool, int]:
        grows = variant.kernel.startswith("hedgerow.growing.")
        cost = digests.extent_of(find_kernel(variant.kernel))
        return not grows, -cost if grows else cost

    return sorted(variants, key=position)


def _compile_all(
    pools: dict[str, list[ProcessPoolExecutor]], variants: Sequence[Variant], system: str
) -> dict[str, list[Compiled]]:
    """Compile the variants for each level: Numba writes code in one process, LLVM in any."""
    print(f"compiling {len(variants)} kernels for {', '.join(pools)}", flush=True)
    names, levels = [variant.kernel for variant in variants], tuple(pools)
    requested = [of_level[0].submit(_digests, names) for of_level in pools.values()]
    ordered = _ordered(variants)  # while the processes import Numba
    found = dict(zip(variants, zip(*(one.result() for one in requested), strict=True), strict=True))
    unwritten = {level: deque[tuple[Variant, Sequence[str]]]() for level in levels}
    for variant in ordered:
        if len(set(found[variant])) == 1:
            # In a process of a certain level: Numba's own passes ask what a processor can do.
            unwritten[levels[0]].append((variant, levels))
        else:
            for level in levels:
                unwritten[level].append((variant, (level,)))
    written = deque[Written]()
    compiled: dict[tuple[str, Variant], Compiled] = {}

    def start(level: str, k: int) -> Future[Any] | None:
        """Give the next task to a process; every second one starts at the end of the list."""
        pool, listed = pools[level][k], unwritten[level]
        if written and (k % 2 or not listed):
            return pool.submit(_optimise, written.popleft(), system)
        if listed:
            return pool.submit(_write, *(listed.pop() if k % 2 else listed.popleft()), system)
        return None

    idle = [(level, k) for level in levels for k in range(len(pools[level]))]
    running: dict[Future[Any], tuple[str, int]] = {}
    while True:
        for place in tuple(idle):
            task = start(*place)
            if task is not None:
                running[task] = place
                idle.remove(place)
        if not running:
            return {level: [compiled[level, variant] for variant in ordered] for level in levels}
        for task in wait_for(running, return_when=FIRST_COMPLETED).done:
            idle.append(running.pop(task))
            for one in task.result():
                if isinstance(one, Written):
                    written.append(one)
                    continue
                compiled[one.entry.level, one.entry.variant] = one
                if len(compiled) % 20 == 0:
                    print(f"{len(compiled)} of {len(variants) * len(levels)} compiled", flush=True)


def _link(folder: Path, system: str, level: str, objects: list[bytes]) -> Path:
    """Link object files to a shared library."""
    name = f"kernels-{level}{SYSTEMS[system].suffix}"
    # A C compiler of this machine, or else that of ziglang.
    linker = [sys.executable, "-m", "ziglang", "cc", "-target", SYSTEMS[system].linker]
    here = [one for one in ("cc", "gcc", "clang") if shutil.which(one)]
    if here and not os.environ.get("HEDGEROW_TARGET"):
        linker = here[:1]
    elif importlib.util.find_spec("ziglang") is None:
        raise RuntimeError(
            "no linker was found: install the package 'ziglang' or a C compiler, or set "
            "HEDGEROW_PURE=1 to build without kernels."
        )
    with tempfile.TemporaryDirectory() as work:
        linked = Path(work) / name  # some linkers write other files beside it
        files = []
        for k, code in enumerate(objects):
            file = Path(work) / f"{k}.o"
            file.write_bytes(code)
            files.append(str(file))
        arguments = Path(work) / "objects"
        arguments.write_text("\n".join(file.replace("\\", "/") for file in files))
        command = [*linker, "-shared", "-s", "-o", str(linked), f"@{arguments}"]
        if system.startswith("linux"):
            command += ["-lm", "-Wl,--no-undefined"]
        if system.startswith("macos"):  # else the library holds the path of ``work``
            command += [f"-Wl,-install_name,@rpath/{name}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode != 0:
            raise RuntimeError(f"the linker failed: {' '.join(command)}\n{done.stderr}")
        return Path(shutil.copy(linked, folder / name))


def levels_of(chosen: str, system: str) -> Sequence[str]:
    """Return the levels that a list names; ``native`` is the best of this processor."""
    if chosen == "native":
        return target_levels()[:1]
    return SYSTEMS[system].levels if chosen == "all" else chosen.split(",")


def main() -> None:
    """Build for this machine, or for the machine that ``HEDGEROW_TARGET`` names."""
    parser = argparse.ArgumentParser(description="Build the kernels of Hedgerow.")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--levels", help="'native', 'all', or names with commas")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    system = os.environ.get("HEDGEROW_TARGET") or this_system()
    if system not in SYSTEMS:
        parser.error(f"kernels are built for {', '.join(SYSTEMS)}, not for {system}")
    usual = "all" if os.environ.get("HEDGEROW_TARGET") else "native"
    chosen = options.levels or os.environ.get("HEDGEROW_LEVELS") or usual
    levels = levels_of(chosen, system)
    if not levels or not set(levels) <= set(LEVELS):
        parser.error(f"levels are 'native', 'all' or some of {', '.join(LEVELS)}, not {chosen}")
    # End at once, and not after all workers have finished; they end with this process.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.environ["HEDGEROW_COMPILE"] = "auto"  # the variable is for run time: a build compiles
    for_gpus = ptx.is_wanted() and not system.startswith("macos")  # which has no CUDA
    build(options.folder, system, levels, read_variants(), options.workers, for_gpus)


if __name__ == "__main__":
    # Workers must import this module by its name, not as ``__main__``.
    from hedgerow.compile.build import main as named_main

    named_main()
