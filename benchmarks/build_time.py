"""Where the build of the kernels spends its time: ``python benchmarks/build_time.py``.

Compiles all kernels, or those of the modules named ``--only``, with an empty cache, and prints
processor seconds for each variant and level: of Numba, which finds types and writes LLVM code, and
of LLVM; the seconds of the linker are in the last line of the build.  Where levels share the work
of Numba, it counts for the first of them.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from hedgerow.compile.build import Compiled, build, levels_of, this_system
from hedgerow.compile.variants import read_variants


def show(level: str, compiled: list[Compiled], n_lines: int) -> None:
    """Print the slowest variants of a level, and the sums of all."""
    print(f"\n{level}\n    Numba     LLVM     bytes  kernel")
    for one in sorted(compiled, key=lambda one: -one.written - one.optimised)[:n_lines]:
        name = one.entry.variant.kernel.removeprefix("hedgerow.")
        print(f"{one.written:9.2f}{one.optimised:9.2f}{len(one.code):10,}  {name}")
    written = sum(one.written for one in compiled)
    optimised = sum(one.optimised for one in compiled)
    size = sum(len(one.code) for one in compiled)
    print(f"{written:9.2f}{optimised:9.2f}{size:10,}  all {len(compiled)}")


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measure the build of the kernels.")
    parser.add_argument("--levels", default="native", help="as for hedgerow.compile.build")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="start of the names of modules")
    parser.add_argument("--lines", type=int, default=30, help="variants that are printed")
    parser.add_argument("--gpu", action="store_true", help="code for GPUs, too")
    return parser


def main() -> None:
    options = build_parser().parse_args()
    variants = [one for one in read_variants() if one.kernel.startswith(options.only)]
    system = this_system()
    levels = levels_of(options.levels, system)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["NUMBA_CACHE_DIR"] = folder
        found = build(
            Path(folder) / "built", system, levels, variants, options.workers, options.gpu
        )
    for level, compiled in found.items():
        show(level, compiled, options.lines)
    children = os.times()
    spent = children.children_user + children.children_system
    print(f"\n{time.perf_counter() - began:.1f} s, {spent:.1f} processor seconds")


if __name__ == "__main__":
    main()
