"""``hedgerow serve MODEL``: predictions over HTTP; ``hedgerow warmup``: kernels in advance."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

from hedgerow.cli.usage import UsageError, say

TOKEN = "HEDGEROW_TOKEN"  # noqa: S105  (the name of a variable)


def add_serve(commands: Any) -> None:
    """Add ``serve`` to the parser."""
    parser = commands.add_parser(
        "serve",
        help="serve predictions over HTTP",
        description="Serve a model over HTTP: Open Inference Protocol v2, and POST /predict with "
        "JSON records. When the file is replaced, the server loads the new model without losing a "
        "request. Needs hedgerow[serve].",
        epilog="Example: hedgerow serve model.hedgerow --port 8080; clients' token is read "
        f"from --token-file or from the environment ({TOKEN}).",
    )
    parser.add_argument("model", metavar="MODEL", help="model file of any known format")
    parser.add_argument("--name", default="", help="name of the model (default: name of the file)")
    parser.add_argument("--host", default="127.0.0.1", help="address (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8080, help="port; 0 for any (default: 8080)")
    parser.add_argument("--token-file", metavar="FILE", help="file that holds the token")
    parser.add_argument("--threads", type=int, help="threads for large requests")
    parser.add_argument(
        "--watch", type=float, default=2.0, metavar="S", help="seconds between checks of the file"
    )
    limits = parser.add_argument_group("limits of a request")
    limits.add_argument("--max-body", type=int, default=4 * 2**20, metavar="BYTES")
    limits.add_argument("--max-rows", type=int, default=10_000, metavar="N")
    limits.add_argument("--max-seconds", type=float, default=10.0, metavar="S")
    limits.add_argument("--max-queue", type=int, default=64, metavar="N")
    limits.add_argument("--max-connections", type=int, default=1000, metavar="N")
    limits.add_argument("--shutdown-seconds", type=float, default=30.0, metavar="S")
    parser.set_defaults(run=_serve)


def _serve(options: argparse.Namespace) -> None:
    from hedgerow.serving.requests import Limits, Settings

    try:
        from hedgerow.serving.app import serve
    except ModuleNotFoundError as error:
        raise UsageError(
            f"{error.name} is not installed; serving needs: pip install 'hedgerow[serve]'"
        ) from None
    token = os.environ.get(TOKEN) or None
    if options.token_file is not None:
        token = Path(options.token_file).read_text(encoding="utf-8").strip()
    limits = Limits(
        body_bytes=options.max_body,
        rows=options.max_rows,
        seconds=options.max_seconds,
        queue=options.max_queue,
        connections=options.max_connections,
        shutdown_seconds=options.shutdown_seconds,
    )
    settings = Settings(
        path=options.model,
        name=options.name,
        host=options.host,
        port=options.port,
        token=token,
        watch_seconds=options.watch,
        limits=limits,
        **({} if options.threads is None else {"threads": options.threads}),
    )
    serve(settings, say)


def add_warmup(commands: Any) -> None:
    """Add ``warmup`` to the parser."""
    parser = commands.add_parser(
        "warmup",
        help="compile the kernels before their first use",
        description="Compile and cache all kernels, for example when a container image is built. "
        "This is not needed if the installation contains compiled kernels.",
    )
    parser.set_defaults(run=_warm_up)


def _warm_up(options: argparse.Namespace) -> None:
    from hedgerow.compile import library, variants
    from hedgerow.compile.target import FOLDER, compile_policy

    uses_build = compile_policy() != "always"
    every = [(variants.find_kernel(each.kernel), each) for each in variants.read_variants()]
    missing = [pair for pair in every if not (uses_build and library.entries_of(pair[0]))]
    if not missing:
        say(f"kernels are built into this installation ({FOLDER}): nothing to compile")
        return
    from hedgerow.compile import just_in_time  # Numba may be missing

    start = time.perf_counter()
    for kernel, variant in missing:
        kernel.dispatcher.compile(variants.parse_types(variant.types))
    kept = "not cached: no cache folder is writable"
    if just_in_time.keeps_code():
        kept = f"kept in {just_in_time.cache_folder()}"
    say(f"{len(missing)} kernels ready after {time.perf_counter() - start:.1f} s, {kept}")
