"""Time predictions for a table in GPU memory: ``python benchmarks/gpu_predict.py``.

Requires CuPy.  The program predicts raw scores for a CuPy array of float32 rows, and compares with
XGBoost (if it is installed) and with the processor and the same rows in host memory.  They take
turns, and the figures are medians.  XGBoost leaves its scores on the GPU; Hedgerow copies them to
the host.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from gpu import SHAPES, fit_hedgerow, fit_xgboost, table
from hedgerow.cuda.arrays import gpu_array
from hedgerow.cuda.device import first_gpu

TRAIN_ROWS = 1_000_000


def seconds(work: Callable[[], Any]) -> float:
    """Return the seconds of a call, including its asynchronous work on the GPU."""
    import cupy

    start = time.perf_counter()
    work()
    cupy.cuda.Device().synchronize()
    return time.perf_counter() - start


def compare(n_rows: int, shape: str, rounds: int, dtype: str) -> None:
    """Print a line with the medians."""
    import cupy

    X, y = table(max(n_rows, TRAIN_ROWS), 28, 2)
    booster = fit_hedgerow(X[:TRAIN_ROWS], y[:TRAIN_ROWS], shape, "cuda").booster_
    rows = X[:n_rows].astype(dtype)
    on_gpu = cupy.asarray(rows)
    array = gpu_array(on_gpu)
    assert array is not None
    works: dict[str, Callable[[], Any]] = {
        "hedgerow": lambda: booster.raw_scores(on_gpu),
        "on the GPU alone": lambda: booster._gpu_scorer.scores(array, 0, booster.num_trees),
        "processor": lambda: booster.raw_scores(rows),
        "copy of the rows": array.to_host,
    }
    try:
        other = fit_xgboost(X[:TRAIN_ROWS], y[:TRAIN_ROWS], shape)
        works["xgboost"] = lambda: other.inplace_predict(on_gpu, predict_type="margin")
    except ImportError:
        pass
    same = np.array_equal(works["hedgerow"](), works["processor"]())
    times: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for number in range(rounds):
        for name in list(works)[:: 1 if number % 2 == 0 else -1]:
            times[name].append(seconds(works[name]))
    text = ", ".join(f"{name} {statistics.median(found):.4f} s" for name, found in times.items())
    print(f"{n_rows:,} x 28 {dtype}, {shape}: {text}; same bits: {same}", flush=True)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="+", type=int, default=[1_000, 100_000, 10_000_000])
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=["31 leaves"])
    parser.add_argument("--types", nargs="+", default=["float32", "float64"])
    parser.add_argument("--rounds", type=int, default=5)
    return parser


def main() -> None:
    """Run the requested measurements."""
    chosen = build_parser().parse_args()
    print(f"{first_gpu().name}, {os.cpu_count()} processors, {chosen.rounds} rounds")
    for n_rows in chosen.rows:
        for shape in chosen.shapes:
            for dtype in chosen.types:
                compare(n_rows, shape, chosen.rounds, dtype)


if __name__ == "__main__":
    main()
