"""``hedgerow warmup``: compile the kernels in advance."""

from __future__ import annotations

import argparse
import time
from typing import Any

from hedgerow.cli.usage import say


def add_command(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "warmup",
        help="compile the kernels before their first use",
        description="Compile and cache all kernels, for example when a container image is built. "
        "This is not needed if the installation contains compiled kernels.",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from hedgerow.compile.manifest import FOLDER
    from hedgerow.compile.variants import read_variants

    missing = [variant for variant in read_variants() if not _is_built(variant)]
    if not missing:
        say(f"kernels are built into this installation ({FOLDER}): nothing to compile")
        return
    start = time.perf_counter()
    compile_all(missing)
    from hedgerow.compile import just_in_time

    folder = just_in_time.cache_folder()
    kept = (
        f"kept in {folder}"
        if just_in_time.keeps_code()
        else "not cached: no cache folder is writable"
    )
    say(f"{len(missing)} kernels ready after {time.perf_counter() - start:.1f} s, {kept}")


def compile_all(variants: list[Any]) -> None:
    """Compile these variants in this process."""
    from hedgerow.compile.progress import PROGRESS
    from hedgerow.compile.variants import find_kernel, parse_types

    PROGRESS.expected = len(variants)
    for variant in variants:
        find_kernel(variant.kernel).dispatcher.compile(parse_types(variant.types))


def _is_built(variant: Any) -> bool:
    from hedgerow.compile import library
    from hedgerow.compile.policy import compile_policy
    from hedgerow.compile.variants import find_kernel

    return compile_policy() != "always" and bool(library.entries_of(find_kernel(variant.kernel)))
