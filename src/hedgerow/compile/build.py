"""Builds the kernels of the package: ``python -m hedgerow.compile.build``.

Run by the build of the wheel (``hatch_build.py``), and in a checkout after an edit::

    each variant of the list  ->  an object file for each level of processors
    object files of a level   ->  one shared library in ``hedgerow/built``
    what they hold            ->  ``manifest.json``

Object files are kept below the cache folder of :mod:`hedgerow.compile.just_in_time`, by the digest
of what they are made from: a second build compiles what has changed and what depends on
it.  Processes for each level work side by side.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from hedgerow.compile import digests, library
from hedgerow.compile.policy import target_system
from hedgerow.compile.variants import Variant, find_kernel, parse_types, read_variants

_AVX2 = "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+popcnt,+sse4.2"
_AVX512 = f"{_AVX2},+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"


class Level(NamedTuple):
    """A level of processors: LLVM's name, and the features that code may count on."""

    processor: str
    features: str


LEVELS = {
    "x86-64-v2": Level("x86-64-v2", "+popcnt,+sse4.2"),
    "x86-64-v3": Level("x86-64-v3", _AVX2),
    "x86-64-v4": Level("x86-64-v4", _AVX512),
    "aarch64": Level("generic", "+neon"),
}
USUAL_LEVELS = {"x86_64": ("x86-64-v3", "x86-64-v4"), "aarch64": ("aarch64",)}


class Compiled(NamedTuple):
    """An object file with one entry."""

    symbol: str
    digest: str
    code: bytes
    seconds: float


# -- in a worker process ------------------------------------------------------------------


def _start_worker(level: str) -> None:
    """Make this process compile for ``level``; Numba is imported afterwards."""
    os.environ["NUMBA_CPU_NAME"] = LEVELS[level].processor
    os.environ["NUMBA_CPU_FEATURES"] = LEVELS[level].features
    os.environ["HEDGEROW_QUIET"] = "1"


def _compile(variant: Variant, level: str) -> Compiled:
    """The object file of a variant, kept from an earlier build or compiled now."""
    began = time.perf_counter()
    kernel = find_kernel(variant.kernel)
    digest = digests.digest_of(kernel)
    symbol = "hedgerow_" + hashlib.blake2b(str(variant).encode(), digest_size=8).hexdigest()
    kept = _object_folder(level) / f"{symbol}-{digest}"
    try:
        return Compiled(symbol, digest, kept.read_bytes(), 0.0)
    except OSError:
        pass
    from hedgerow.compile import just_in_time

    processor = LEVELS[level].processor
    code = just_in_time.build_entry(kernel, parse_types(variant.types), symbol, processor)
    _keep(kept, code)
    return Compiled(symbol, digest, code, time.perf_counter() - began)


def _object_folder(level: str) -> Path:
    from hedgerow.compile import just_in_time

    toolchain = hashlib.blake2b(digest_size=6)
    for name in ("unpack.py", "just_in_time.py", "library.py"):
        toolchain.update(Path(__file__).with_name(name).read_bytes())
    return (
        just_in_time.cache_root()
        / "objects"
        / f"{just_in_time.VERSIONS}-{toolchain.hexdigest()}"
        / level
    )


def _keep(path: Path, content: bytes) -> None:
    """Write a file in one step; a folder that cannot be written is no error."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(content)
        os.replace(file.name, path)
    except OSError:
        pass


def _compile_support(level: str, build: str) -> bytes:
    """The object file with the table of addresses and the name of the build."""
    from hedgerow.compile import just_in_time

    return just_in_time.build_support(build, LEVELS[level].processor)


# -- the build ----------------------------------------------------------------------------


def build(folder: Path, levels: Sequence[str], variants: Sequence[Variant], n_workers: int) -> None:
    """Compile the variants for all levels and write libraries and manifest.

    Parameters
    ----------
    folder : Path
        It is emptied first.
    levels : sequence of str
        Keys of ``LEVELS``.
    variants : sequence of Variant
    n_workers : int
        Processes in all; at least one a level is used.
    """
    began = time.perf_counter()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    name = f"{digests.source_digest()}-{time.time_ns():x}"
    # Those that take longest first, so that no process is left with one at the end.
    ordered = sorted(variants, key=lambda variant: -len(variant.types))
    spawn = multiprocessing.get_context("spawn")
    share = max(1, n_workers // len(levels))
    pools = {level: ProcessPoolExecutor(share, spawn, _start_worker, (level,)) for level in levels}
    libraries: dict[str, dict[str, object]] = {}
    manifest = {
        "format": library.FORMAT,
        "system": target_system(),
        "machine": platform.machine().lower(),
        "build": name,
        "sources": digests.source_digest(),
        "libraries": libraries,
    }
    try:
        waiting: dict[str, list[tuple[Variant, Future[Compiled]]]] = {
            level: [(variant, pool.submit(_compile, variant, level)) for variant in ordered]
            for level, pool in pools.items()
        }
        for level, pool in pools.items():
            support = pool.submit(_compile_support, level, name)
            compiled = [(variant, future.result()) for variant, future in waiting[level]]
            path = _link(folder, level, [support.result(), *(made.code for _, made in compiled)])
            entries: dict[str, list[list[str]]] = {}
            for variant, made in sorted(compiled, key=lambda pair: pair[0]):
                entry = [made.symbol, made.digest]
                entries.setdefault(variant.kernel, []).append(entry)
            size = path.stat().st_size
            libraries[level] = {"file": path.name, "size": size, "entries": entries}
            _report(level, compiled, size)
    finally:
        for pool in pools.values():
            pool.shutdown(cancel_futures=True)
    (folder / library.MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    print(f"kernels built in {time.perf_counter() - began:.0f} s: {folder}", flush=True)


def _report(level: str, compiled: list[tuple[Variant, Compiled]], size: int) -> None:
    seconds = sum(made.seconds for _, made in compiled)
    n_new = sum(made.seconds > 0.0 for _, made in compiled)
    print(
        f"{level}: {len(compiled)} entries, {n_new} compiled in {seconds:.0f} s, "
        f"library of {size / 1e6:.1f} MB",
        flush=True,
    )
    if os.environ.get("HEDGEROW_BUILD_TIMES"):
        for variant, made in sorted(compiled, key=lambda pair: -pair[1].seconds)[:40]:
            print(f"  {made.seconds:6.2f} s {len(made.code):8d} bytes {str(variant)[:90]}")


def _link(folder: Path, level: str, objects: list[bytes]) -> Path:
    """Link object files to a shared library."""
    suffix = {"windows": ".dll", "macos": ".dylib"}.get(target_system(), ".so")
    path = folder / f"kernels-{level}{suffix}"
    with tempfile.TemporaryDirectory() as work:
        files = []
        for k, code in enumerate(objects):
            file = Path(work) / f"{k}.o"
            file.write_bytes(code)
            files.append(str(file))
        arguments = Path(work) / "objects"
        arguments.write_text("\n".join(file.replace("\\", "/") for file in files))
        command = [
            *find_linker(),
            "-shared",
            "-s",
            "-Wl,--no-undefined",
            "-o",
            str(path),
            f"@{arguments}",
            "-lm",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        raise RuntimeError(f"the linker failed: {' '.join(command)}\n{done.stderr}")
    return path


def find_linker() -> list[str]:
    """The command that links: a C compiler of the system, else that of the package ziglang.

    Raises
    ------
    RuntimeError
        If there is neither.
    """
    configured = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()
    for command in (configured[:1], ["cc"], ["gcc"], ["clang"]):
        if shutil.which(command[0]):
            return command
    try:
        import ziglang  # noqa: F401
    except ImportError as error:
        raise RuntimeError(
            "no linker was found: install the package 'ziglang' or a C compiler, or set "
            "HEDGEROW_PURE=1 to build without kernels."
        ) from error
    return [sys.executable, "-m", "ziglang", "cc"]


def main() -> None:
    """Build for this machine."""
    parser = argparse.ArgumentParser(description="Build the kernels of Hedgerow.")
    parser.add_argument("--folder", type=Path, default=library.FOLDER)
    parser.add_argument("--levels", help="levels of processors, separated by commas")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    usual = USUAL_LEVELS.get(platform.machine().lower(), ())
    levels = tuple(options.levels.split(",")) if options.levels else usual
    build(options.folder, levels, read_variants(), options.workers)


if __name__ == "__main__":
    # Workers import this module by its name, not as the program that runs.
    from hedgerow.compile.build import main as named_main

    named_main()
