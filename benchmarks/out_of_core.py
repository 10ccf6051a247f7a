"""Compare a fit from a file larger than the memory limit with a fit in memory.

    python benchmarks/out_of_core.py --limit "64 MB" --times 10

writes a Parquet file of ``times`` times the limit.  It fits the file with ``Dataset.from_files``
under the limit, and in memory, each in its own process and with the file in the system's cache.  It
prints peak memory and seconds.  Kernels are compiled, and a small fit is done, before the
measurements start: "start" is the memory of Python, its libraries and compiled code.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

_ROWS_AT_ONCE = 200_000


def write_table(path: Path, n_bytes: int, n_columns: int) -> int:
    """Write random float32 numbers, which do not compress; return the number of rows."""
    import pyarrow as pa
    import pyarrow.parquet

    n_rows = -(-n_bytes // (4 * (n_columns + 1)))
    rng = np.random.default_rng(0)
    names = [f"x{j}" for j in range(n_columns)]
    schema = pa.schema([(name, pa.float32()) for name in [*names, "y"]])
    with pyarrow.parquet.ParquetWriter(path, schema, use_dictionary=False) as file:
        for start in range(0, n_rows, _ROWS_AT_ONCE):
            n = min(_ROWS_AT_ONCE, n_rows - start)
            X = rng.normal(size=(n, n_columns)).astype(np.float32)
            y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=n).astype(np.float32)
            columns = [*X.T, y.astype(np.float32)]
            file.write_table(pa.table([pa.array(c) for c in columns], schema=schema))
    return n_rows


def memory(name: str) -> int:
    """Return ``VmRSS`` (current) or ``VmHWM`` (peak) in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise OSError(f"no {name} in /proc/self/status")


def fit(way: str, path: Path, limit: str, folder: Path, params: dict[str, Any]) -> bytes:
    from hedgerow import Dataset, train
    from hedgerow.io import model_to_bytes

    if way == "files":
        data: Any = Dataset.from_files(path, "y", memory_limit=limit, cache_dir=folder)
    else:
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(path)
        data = Dataset(table.drop_columns(["y"]), table["y"].to_numpy())
    return model_to_bytes(train(params, data).model)


def child(options: argparse.Namespace) -> None:
    """Run and measure one fit."""
    folder = Path(options.folder)
    small = folder / "small.parquet"
    params = {"early_stopping": options.early_stopping, **json.loads(options.params)}
    fit(options.child, small, options.limit, folder, params | {"n_estimators": 2})
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    start_bytes, start = memory("VmRSS"), time.perf_counter()
    path = folder / "table.parquet"
    model = fit(
        options.child, path, options.limit, folder, params | {"n_estimators": options.trees}
    )
    found = {
        "seconds": time.perf_counter() - start,
        "start_bytes": start_bytes,
        "peak_bytes": memory("VmHWM"),
        "digest": hashlib.sha256(model).hexdigest(),
    }
    print(json.dumps(found))


def run_child(way: str, options: argparse.Namespace, folder: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", way, "--limit", options.limit]
    command += ["--trees", str(options.trees), "--folder", str(folder)]
    command += ["--params", options.params]
    command += ["--early-stopping"] if options.early_stopping else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", default="64 MB", help="memory limit of the fit from files")
    parser.add_argument(
        "--times", type=float, default=10.0, help="ratio of the table's size to the limit"
    )
    parser.add_argument("--columns", type=int, default=28)
    parser.add_argument("--trees", type=int, default=20)
    parser.add_argument("--early-stopping", action="store_true", help="set rows aside")
    parser.add_argument("--params", default="{}", help="further parameters as JSON")
    parser.add_argument("--files-only", action="store_true", help="skip the fit in memory")
    parser.add_argument("--folder", help="folder of the table; default: a temporary folder")
    parser.add_argument("--json", action="store_true", help="also print the figures as JSON")
    parser.add_argument("--child", choices=("files", "memory"), help=argparse.SUPPRESS)
    return parser


def main() -> None:
    options = build_parser().parse_args()
    if options.child:
        child(options)
        return
    from hedgerow.data.external.memory import memory_bytes, shown_bytes

    limit = memory_bytes(options.limit)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        n_rows = write_table(folder / "table.parquet", int(options.times * limit), options.columns)
        write_table(folder / "small.parquet", 20_000 * 4 * (options.columns + 1), options.columns)
        size = os.path.getsize(folder / "table.parquet")
        found = {}
        for way in ("files",) if options.files_only else ("files", "memory"):
            (folder / "table.parquet").read_bytes()[:0]  # loads the file into the system's cache
            found[way] = run_child(way, options, folder)
    same = len({row["digest"] for row in found.values()}) == 1
    print(
        f"{n_rows:,} rows, {options.columns} columns, {shown_bytes(size)} of Parquet; "
        f"limit {shown_bytes(limit)}; {options.trees} trees"
    )
    print("              seconds    peak memory    of which at the start")
    for way, row in found.items():
        peak, start = shown_bytes(int(row["peak_bytes"])), shown_bytes(int(row["start_bytes"]))
        print(f"from {way:<8} {row['seconds']:>7.1f} {peak:>14} {start:>24}")
    if len(found) == 2:
        print(f"models have {'the same' if same else 'DIFFERENT'} bytes")
    if options.json:
        row = found["files"]
        print(json.dumps({"limit": limit, "table_bytes": size, "same_bytes": same, **row}))


if __name__ == "__main__":
    main()
