"""Compare partial dependence of all columns with scikit-learn's brute force.

    python benchmarks/partial_dependence.py                        # 28 columns, 100 trees
    python benchmarks/partial_dependence.py --background 10000 --columns 8 --depth 6

Both predict the same background once for each value of a grid and each column.  Hedgerow predicts
many values at a time, with the trees that use the column.  The program times scikit-learn on some
columns, estimates the time of all columns, and compares the effects of these columns at the grid.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
from sklearn.inspection import partial_dependence as brute_force

from hedgerow import HedgerowRegressor


def table(n_rows: int, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_columns)).astype(np.float32)
    y = X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + X[:, 3 : 3 + n_columns // 2].sum(axis=1)
    return X, y + rng.normal(size=n_rows)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000, help="training rows")
    parser.add_argument("--background", type=int, default=1000, help="rows to average over")
    parser.add_argument("--columns", type=int, default=28)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--leaves", type=int, default=31)
    parser.add_argument("--depth", type=int, help="limit of depth instead of leaves")
    parser.add_argument("--grid", type=int, default=100)
    parser.add_argument(
        "--timed", type=int, default=2, help="number of columns for the brute force"
    )
    return parser


def main() -> None:
    options = build_parser().parse_args()
    X, y = table(options.rows, options.columns)
    shape = {"max_leaves": options.leaves}
    if options.depth:
        shape = {"max_leaves": None, "max_depth": options.depth, "grow_policy": "depthwise"}
    model = HedgerowRegressor(
        n_estimators=options.trees, early_stopping=False, linear_leaves=False, learning_rate=0.1,
        n_jobs=2, **shape,
    ).fit(X, y)  # fmt: skip
    booster, some = model.booster_, X[: options.background]
    booster.partial_dependence(some[:100], n_jobs=2)
    brute_force(model, some[:100], [0], method="brute", grid_resolution=5)

    our_seconds = []
    for _ in range(5):
        start = time.perf_counter()
        booster.partial_dependence(some, n_points=options.grid, n_jobs=2)
        our_seconds.append(time.perf_counter() - start)
    found = booster.partial_dependence(some, n_points=1000, n_jobs=2)
    their_seconds, worst = [], 0.0
    for column in range(options.timed):
        start = time.perf_counter()
        result = brute_force(
            model, some, [column], method="brute", grid_resolution=options.grid, kind="average"
        )
        their_seconds.append(time.perf_counter() - start)
        got = found[column].at(result["grid_values"][0])
        worst = max(worst, float(np.abs(got - result["average"][0]).max()))

    seconds = statistics.median(our_seconds)
    whole = statistics.mean(their_seconds) * options.columns
    print(
        f"{options.columns} columns, {booster.num_trees} trees, {len(some):,} rows, "
        f"{options.grid} values, two threads"
    )
    print(f"Hedgerow, all columns                   {seconds:9.3f} s")
    print(f"scikit-learn, all columns (estimated)   {whole:9.3f} s   {whole / seconds:,.1f} times")
    print(f"largest difference of steps at its grid {worst:9.1e}")


if __name__ == "__main__":
    main()
