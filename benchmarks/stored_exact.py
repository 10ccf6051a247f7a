"""Compare exact growth on columns on disk and in memory: time, peak memory and trees.

::

    python benchmarks/stored_exact.py                        # 2M x 20, a limit of 64 MB
    python benchmarks/stored_exact.py --rows 200000 --trees 2

Each side runs in its own process, on rows that are generated batch by batch.  Files stay in the
system's cache.  "over" is the increase of peak resident memory over that after a fit of few rows;
"table" is the size of the table.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from child import _peak_mib

BATCH = 1 << 15
FIELDS = ("feature", "threshold", "missing_left", "left", "right", "value", "gain", "cover")


def batches(n_rows: int, n_features: int) -> Iterator[np.ndarray]:
    for first in range(0, n_rows, BATCH):
        rng = np.random.default_rng(first)
        X = rng.standard_normal((min(BATCH, n_rows - first), n_features), dtype=np.float32)
        X[:, 1] = np.floor(4 * X[:, 1])
        X[rng.random(len(X)) < 0.3, 2] = np.nan
        yield X


def target(n_rows: int, n_features: int) -> np.ndarray:
    y = np.empty(n_rows)
    for k, X in enumerate(batches(n_rows, n_features)):
        y[k * BATCH : k * BATCH + len(X)] = X[:, 0] + X[:, 1] * np.nan_to_num(X[:, 2])
    return y


def grow(side: str, n_rows: int, options: argparse.Namespace, folder: str) -> dict[str, Any]:
    from hedgerow.data import read_table
    from hedgerow.data.external.blocks import sort_columns
    from hedgerow.data.external.column_files import sort_to_files
    from hedgerow.growing.core.setup import Fit
    from hedgerow.growing.exact.external import ExternalExactGrower
    from hedgerow.growing.exact.grower import ExactGrower
    from hedgerow.objectives import make_objective
    from hedgerow.params import BoostParams

    y, limit, threads = target(n_rows, options.features), options.limit << 20, options.threads
    params, loss = BoostParams(tree_method="exact"), make_objective("squared_error")
    raw = np.zeros((1, n_rows))
    start = time.perf_counter()
    with contextlib.ExitStack() as stack:
        grower: Any
        disk = 0
        if side == "memory":
            X = np.concatenate(list(batches(n_rows, options.features)))
            start = time.perf_counter()
            columns: Any = sort_columns(read_table(X), threads)
            sorting = time.perf_counter() - start
            grower = ExactGrower(columns, Fit(y, None, raw, loss, params, threads))
        else:
            tables = (read_table(X) for X in batches(n_rows, options.features))
            columns = stack.enter_context(
                contextlib.closing(sort_to_files(tables, [folder], limit, threads))
            )
            sorting, disk = time.perf_counter() - start, columns.n_bytes
            grower = ExternalExactGrower(
                columns, Fit(y, None, raw, loss, params, threads), memory_limit=limit
            )
        stack.enter_context(contextlib.closing(grower))
        digest, seconds = hashlib.sha256(), []
        for number in range(options.trees):
            start = time.perf_counter()
            tree = grower.grow(number, 0)
            seconds.append(time.perf_counter() - start)
            for name in FIELDS:
                digest.update(getattr(tree, name).tobytes())
    return {
        "sort_s": round(sorting, 2),
        "tree_s": round(float(np.median(seconds)), 3),
        "disk_mib": round(disk / 2**20, 1),
        "trees": digest.hexdigest()[:16],
    }


def child(side: str, options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        grow(side, 3000, options, folder)
        before = _peak_mib()
        result = grow(side, options.rows, options, folder)
    return {"side": side, **result, "over_mib": round(_peak_mib() - before, 1)}


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--trees", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--limit", type=int, default=64, help="memory limit in MB")
    parser.add_argument("--folder", help="where temporary files go")
    parser.add_argument("--side", choices=("memory", "disk"), help=argparse.SUPPRESS)
    return parser


def main() -> None:
    options = build_parser().parse_args()
    if options.side:
        print(json.dumps(child(options.side, options)))
        return
    table = options.rows * options.features * 4 / 2**20
    print(f"{options.rows} x {options.features}, table of {table:.0f} MiB")
    results = []
    for side in ("memory", "disk"):
        command = [sys.executable, str(Path(__file__)), *sys.argv[1:], "--side", side]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        results.append(json.loads(done.stdout.splitlines()[-1]))
        print(results[-1], flush=True)
    assert results[0]["trees"] == results[1]["trees"], "the trees differ"


if __name__ == "__main__":
    main()
