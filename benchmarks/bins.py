"""Measure fits with 255, 63 and 15 bins, and compare with LightGBM.

::

    python benchmarks/bins.py                          # 300,000 rows, a minute
    python benchmarks/bins.py --rows 1000000 --peers hedgerow "no pairs"
    python benchmarks/bins.py --histogram              # one row added to a histogram

With 15 bins Hedgerow stores two features in a byte; "no pairs" switches that off.  The program
reports whether both models are identical.  Times are processor times of one thread and include
binning.  The libraries take turns, and each time is the smallest of the rounds.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import numpy as np

FEATURES = 28
BINS = (255, 63, 15)
PEERS = ("hedgerow", "no pairs", "lightgbm")


def table(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Generate normal columns; the target depends on three of them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, FEATURES), dtype=np.float32)
    return X, X[:, 0] + X[:, 1] * X[:, 2] + rng.standard_normal(n_rows)


def fit_hedgerow(X: np.ndarray, y: np.ndarray, n_bins: int, trees: int, paired: bool) -> Any:
    """Return the seconds and the model."""
    from hedgerow import Dataset, train
    from hedgerow.boosting.loop.setup import training_matrix
    from hedgerow.data.binning import matrix

    training_matrix.pairs_may_pay = matrix.pairs_may_pay if paired else lambda matrix: False
    params = {"n_estimators": trees, "max_bins": n_bins, "n_jobs": 1}
    start = time.process_time()
    booster = train(params, Dataset(X, y))
    return time.process_time() - start, booster.model


def fit_lightgbm(X: np.ndarray, y: np.ndarray, n_bins: int, trees: int) -> float:
    import lightgbm

    params = {"max_bin": n_bins, "lambda_l2": 1.0, "num_threads": 1, "verbose": -1}
    start = time.process_time()
    lightgbm.train(params, lightgbm.Dataset(X, y, params=params), trees)
    return time.process_time() - start


def compare(options: argparse.Namespace) -> None:
    """Print the seconds of each peer with each number of bins."""
    from hedgerow.io import model_to_bytes

    X, y = table(options.rows)
    seconds: dict[tuple[str, int], float] = {}
    models: dict[int, set[bytes]] = {n_bins: set() for n_bins in BINS}
    for n_bins in BINS:
        fit_hedgerow(X[:10_000], y[:10_000], n_bins, 1, True)  # compiles
    for _ in range(options.rounds):
        for n_bins in BINS:
            for peer in options.peers:
                if peer == "lightgbm":
                    taken = fit_lightgbm(X, y, n_bins, options.trees)
                else:
                    paired = peer == "hedgerow"
                    taken, model = fit_hedgerow(X, y, n_bins, options.trees, paired)
                    models[n_bins].add(model_to_bytes(model))
                seconds[peer, n_bins] = min(taken, seconds.get((peer, n_bins), taken))
    print(
        f"{options.rows:,} x {FEATURES} float32, {options.trees} trees, one thread, "
        f"smallest of {options.rounds}"
    )
    print(f"{'':12}" + "".join(f"{n_bins:>6} bins" for n_bins in BINS))
    for peer in options.peers:
        print(f"{peer:12}" + "".join(f"{seconds[peer, n_bins]:9.2f} s" for n_bins in BINS))
    different = [n_bins for n_bins in BINS if len(models[n_bins]) > 1]
    if len({"hedgerow", "no pairs"} & set(options.peers)) == 2:
        print("models with and without pairs:", f"differ: {different}" if different else "same")


def time_histograms() -> None:
    """Print the cost of adding a row to a histogram, for nodes of several sizes."""
    os.environ["HEDGEROW_OPEN_KERNELS"] = "1"
    from hedgerow.arrays import unused
    from hedgerow.data import bin_table, fit_bins, read_table
    from hedgerow.data.binning.matrix import pair_columns
    from hedgerow.growing.core.grower import _bins, _tile_cells
    from hedgerow.growing.core.setup import list_columns, make_histogram_sums
    from hedgerow.kernels.histograms.histogram import Packing, RowLists, build_histogram

    n_rows = 1_000_000
    X, _ = table(n_rows)
    read = read_table(X)
    plain = bin_table(read, fit_bins(read, 15))
    full = bin_table(read, fit_bins(read, 255))
    rng = np.random.default_rng(0)
    packing = Packing(np.int64(16), np.int64(0), np.int64(0))
    packed = (rng.integers(-1000, 1000, 2 * n_rows) << 16) + 1
    print(f"{'rows':>9}{'255 bins':>10}{'15 bins':>10}{'in pairs':>10}   ns a row")
    for count in (50, 100, 200, 1000, 100_000, n_rows):
        rows = np.append(np.sort(rng.permutation(n_rows)[:count]), np.zeros(64, int))
        figures = []
        for matrix in (full, plain, pair_columns(plain)):
            columns = list_columns(matrix, np.arange(FEATURES, dtype=np.int32))
            wide, cells = (
                make_histogram_sums(FEATURES * matrix.stride, False),
                np.zeros(_tile_cells(matrix), np.int64),
            )
            bins, ids = _bins(matrix), rows.astype(np.uint32)
            calls, best = max(1, 100_000 // count), np.inf
            for _ in range(8):
                start = time.perf_counter()
                for _ in range(calls):
                    build_histogram(
                        bins, packing, packed, columns, (0, FEATURES), ids, 0, count, cells, wide,
                        0, unused(RowLists),
                    )  # fmt: skip
                best = min(best, (time.perf_counter() - start) / calls)
            figures.append(1e9 * best / count)
        print(f"{count:9,}" + "".join(f"{figure:10.1f}" for figure in figures))


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--trees", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--histogram", action="store_true", help="only time histograms")
    return parser


def main() -> None:
    options = build_parser().parse_args()
    if options.histogram:
        time_histograms()
    else:
        compare(options)


if __name__ == "__main__":
    main()
