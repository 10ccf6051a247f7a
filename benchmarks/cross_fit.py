"""Compare :func:`hedgerow.cross_fit` with fitting the same folds one by one.

::

    python benchmarks/cross_fit.py                    # about a minute on a quiet machine
    python benchmarks/cross_fit.py 1k 20k --turns 9 --trees 50

Both ways train a model for each of five folds with the same parameters, score the test rows after
each round, and predict them.  They take turns, and times are medians of the turns.  The ratio (one
by one / in one call) is the median of the ratios of the turns: other work on the machine changes
it least.  ``cpu`` is the time of all processors.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from hedgerow import HedgerowClassifier, HedgerowRegressor, cross_fit
from hedgerow.threads import available_threads
from names import name_in

TABLES = {"1k": (1_000, 10), "5k": (5_000, 20), "20k": (20_000, 20), "100k": (100_000, 20)}


def make_table(n_rows: int, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Generate numeric columns, and a target that depends on three of them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_columns)).astype(np.float32)
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.standard_normal(n_rows)
    return X, y


def fit_one_by_one(estimator: Any, X: np.ndarray, y: np.ndarray, folds: list[Any]) -> Any:
    """Fit the folds in a loop."""
    found = np.empty(len(y))
    for train, test in folds:
        model = type(estimator)(**estimator.get_params())
        model.fit(X[train], y[train], X_val=X[test], y_val=y[test])
        found[test] = model.booster_.predict(X[test], "raw")
    return found


def fit_in_one_call(estimator: Any, X: np.ndarray, y: np.ndarray, folds: list[Any]) -> Any:
    """Fit the folds with :func:`hedgerow.cross_fit`."""
    return cross_fit(estimator, X, y, folds, model=None).oof_raw


def time_call(work: Callable[[], Any]) -> tuple[float, float]:
    """Return the elapsed seconds, and those of all processors."""
    clock, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - clock, time.process_time() - cpu


def measure(name: str, task: str, turns: int, trees: int, n_jobs: int | None) -> str:
    """Measure one task and return a line of the table."""
    X, y = make_table(*TABLES[name])
    kind: Any = HedgerowRegressor
    if task == "classes":
        kind, y = HedgerowClassifier, (y > 0.0).astype(int)
    estimator = kind(n_estimators=trees, early_stopping=False, n_jobs=n_jobs)
    folds = list(KFold(5, shuffle=True, random_state=0).split(X))
    ways: list[Callable[[], Any]] = [
        lambda: fit_one_by_one(estimator, X, y, folds),
        lambda: fit_in_one_call(estimator, X, y, folds),
    ]
    for way in ways:
        way()  # compiles
    times: list[list[tuple[float, float]]] = [[], []]
    for turn in range(turns):
        for number in (0, 1) if turn % 2 == 0 else (1, 0):
            times[number].append(time_call(ways[number]))
    clock, cpu = ([(a[i], b[i]) for a, b in zip(*times, strict=True)] for i in range(2))
    columns = []
    for pairs in (clock, cpu):
        alone, together = (statistics.median(pair[i] for pair in pairs) for i in range(2))
        ratio = statistics.median(a / b for a, b in pairs)
        columns.append(f"{alone:8.2f} {together:8.2f} {ratio:6.2f}")
    return f"{name:>5} {task:<10} {columns[0]}   {columns[1]}"


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "tables", nargs="*", type=name_in(TABLES), help=f"any of {', '.join(TABLES)} (default: all)"
    )
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--n-jobs", type=int)
    return parser


def main() -> None:
    given = build_parser().parse_args()
    print(f"5 folds, {given.trees} trees, {given.n_jobs or available_threads()} threads, seconds")
    print(
        f"{'':>16} {'clock: alone':>15} {'one':>5} {'ratio':>5} {'cpu: alone':>16} {'one':>7} ratio"
    )
    for name in given.tables or TABLES:
        for task in ("regression", "classes"):
            print(measure(name, task, given.turns, given.trees, given.n_jobs), flush=True)


if __name__ == "__main__":
    main()
