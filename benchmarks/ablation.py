"""Measure what each technique is worth, by switching one at a time.

::

    python benchmarks/ablation.py                  # all: some minutes
    python benchmarks/ablation.py search sparsity  # two of them

search    exact search against histograms: time, memory, test error
sparsity  exact search of one-hot columns at 1% density: zeros not stored against zeros stored
growth    leaf-wise against level-wise growth, with equal numbers of leaves
sampling  stochastic boosting against all rows
sketch    quantile proposals, global and local: test AUC by number of candidates
exact     exact search against XGBoost's, 100k x 28, depth 6
cart      single trees against scikit-learn's, 100k x 28, one thread

Every comparison alternates its two sides and gives medians.  The figures go to
``benchmarks/results/<processor>/ablation.json``; ``table.py`` writes them to docs/benchmarks.md.
``designs.py`` measures prefetching, with a separate kernel.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from hedgerow import CARTClassifier, CARTRegressor, HedgerowClassifier
from hedgerow.data import bin_table, fit_bins, read_table
from hedgerow.data.external.blocks import sort_columns
from hedgerow.params import grouped
from names import name_in
from result_files import path_of, save

Rows = list[dict[str, Any]]


def synthetic(n_rows: int, n_features: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Generate two classes from a smooth signal with interactions and noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    score = X[:, 0] + X[:, 1] * X[:, 2] + np.sin(3 * X[:, 3]) + 0.5 * np.abs(X[:, 4])
    return X, (score + rng.standard_normal(n_rows) > 0.4).astype(np.int64)


def measure(sides: dict[str, Callable[[], Any]], rounds: int) -> dict[str, tuple[float, Any]]:
    """Run the sides in turn; return the median seconds and the last result of each."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    results: dict[str, Any] = {}
    for _ in range(rounds):
        for name, run in sides.items():
            start = time.perf_counter()
            results[name] = run()
            seconds[name].append(time.perf_counter() - start)
    return {name: (statistics.median(times), results[name]) for name, times in seconds.items()}


def classifier(**params: Any) -> HedgerowClassifier:
    settings = {"n_estimators": 50, "min_samples_leaf": 1, "early_stopping": False, "n_jobs": 2}
    return HedgerowClassifier(**grouped({**settings, **params}))


def fit_classifier(X: np.ndarray, y: np.ndarray, **params: Any) -> HedgerowClassifier:
    return classifier(**params).fit(X, y)


def compare(title: str, sides: dict[str, dict[str, Any]], data: Any, rounds: int) -> Rows:
    """Fit each side on the same rows, and return its time and test AUC."""
    X, y, X_test, y_test = data
    for params in sides.values():
        classifier(**{**params, "n_estimators": 1}).fit(X[:500], y[:500])  # compile
    measured = measure(
        {name: partial(fit_classifier, X, y, **params) for name, params in sides.items()}, rounds
    )
    rows = []
    for name, (seconds, model) in measured.items():
        auc = float(roc_auc_score(y_test, model.predict_proba(X_test)[:, 1]))
        rows.append({"what": title, "side": name, "seconds": seconds, "auc": auc})
    return rows


def halves(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    middle = len(y) // 2
    return X[:middle], y[:middle], X[middle:], y[middle:]


def search(rounds: int) -> Rows:
    data = halves(*synthetic(200_000, 28))
    levels = {"max_leaves": None, "max_depth": 6, "grow_policy": "depthwise"}
    sides = {
        "exact": {**levels, "tree_method": "exact"},
        "histograms": {**levels, "tree_method": "hist"},
    }
    rows = compare("search, 100k x 28, depth 6", sides, data, rounds)
    table = read_table(data[0])
    blocks = sort_columns(table, 2)
    bins = bin_table(table, fit_bins(table, 255), columns=False)
    # A sorted column is its values and their rows; bins are a byte each.
    presorted = blocks.entries.nbytes + table.values.nbytes
    rows[0]["mib"] = presorted / 2**20
    rows[1]["mib"] = bins.by_row.nbytes / 2**20
    return rows


def sparsity(rounds: int) -> Rows:
    rng = np.random.default_rng(0)
    n_rows, n_levels, n_groups = 40_000, 100, 5
    codes = rng.integers(0, n_levels, (n_rows, n_groups))
    X = np.zeros((n_rows, n_levels * n_groups), dtype=np.float32)
    for group in range(n_groups):
        X[np.arange(n_rows), group * n_levels + codes[:, group]] = 1.0
    effect = rng.normal(size=(n_groups, n_levels))
    score = sum(effect[group][codes[:, group]] for group in range(n_groups))
    y = (score + rng.normal(size=n_rows) > 0).astype(np.int64)
    absent = np.where(X == 0.0, np.float32(np.nan), X)
    levels = {"max_leaves": None, "max_depth": 6, "grow_policy": "depthwise"}
    rows = []
    for name, table in (("zeros are values", X), ("zeros are absent", absent)):
        data = halves(table, y)
        side = {name: {**levels, "tree_method": "exact", "n_estimators": 20}}
        rows += compare("one-hot, 20k x 500, density 1%, exact", side, data, rounds)
    return rows


def growth(rounds: int) -> Rows:
    data = halves(*synthetic(200_000, 28, seed=1))
    rows = []
    for depth in (4, 6):
        leaves = 2**depth
        sides: dict[str, dict[str, Any]] = {
            "leaf-wise": {"max_leaves": leaves},
            "level-wise": {"max_leaves": None, "max_depth": depth, "grow_policy": "depthwise"},
        }
        rows += compare(f"growth, 100k x 28, {leaves} leaves", sides, data, rounds)
    return rows


def sampling(rounds: int) -> Rows:
    data = halves(*synthetic(200_000, 28, seed=2))
    sides: dict[str, dict[str, Any]] = {"all rows": {}, "half of the rows": {"subsample": 0.5}}
    return compare("stochastic boosting, 100k x 28", sides, data, rounds)


def sketch(rounds: int) -> Rows:
    """Compute test AUC by number of candidates, as in the figure of the XGBoost paper."""
    data = halves(*synthetic(60_000, 10, seed=3))
    levels = {"max_leaves": None, "max_depth": 6, "grow_policy": "depthwise"}
    sides: dict[str, dict[str, Any]] = {"exact": {**levels, "tree_method": "exact"}}
    for eps in (0.5, 0.3, 0.2, 0.1, 0.05, 0.02):
        for kind in ("global", "local"):
            name = f"{kind}, eps {eps}"
            sides[name] = {**levels, "tree_method": "approx", "sketch": kind, "sketch_eps": eps}
    return compare("quantile proposals, 30k x 10, depth 6", sides, data, min(rounds, 3))


def exact(rounds: int) -> Rows:
    """Time the same trees in XGBoost and Hedgerow, each through its own interface."""
    import xgboost

    X, y, X_test, y_test = halves(*synthetic(200_000, 28, seed=4))
    params = {"tree_method": "exact", "max_depth": 6, "learning_rate": 0.1, "reg_lambda": 1.0,
              "min_child_weight": 1e-3}  # fmt: skip

    def run_peer() -> Any:
        settings = {**params, "objective": "binary:logistic", "nthread": 2, "verbosity": 0}
        return xgboost.train(settings, xgboost.DMatrix(X, y, nthread=2), num_boost_round=20)

    def run_hedgerow() -> Any:
        levels = {"max_leaves": None, "grow_policy": "depthwise"}
        return classifier(**params, **levels, n_estimators=20).fit(X, y)

    run_hedgerow()
    measured = measure({"Hedgerow": run_hedgerow, "XGBoost": run_peer}, rounds)
    predicted = {
        "Hedgerow": measured["Hedgerow"][1].predict_proba(X_test)[:, 1],
        "XGBoost": measured["XGBoost"][1].predict(xgboost.DMatrix(X_test)),
    }
    return [
        {
            "what": "exact, 100k x 28, depth 6, 20 trees",
            "side": name,
            "seconds": measured[name][0],
            "auc": float(roc_auc_score(y_test, predicted[name])),
        }
        for name in measured
    ]


def cart(rounds: int) -> Rows:
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    X, y, X_test, y_test = halves(*synthetic(200_000, 28, seed=5))
    CARTClassifier(max_depth=2).fit(X[:500], y[:500])
    CARTRegressor(max_depth=2).fit(X[:500], y[:500].astype(float))
    rows = []
    for depth in (8, None):
        for kind, ours, theirs in (
            ("Gini", CARTClassifier, DecisionTreeClassifier),
            ("squared error", CARTRegressor, DecisionTreeRegressor),
        ):
            target = y if kind == "Gini" else y + 0.1 * X[:, 5]
            sides: dict[str, Callable[[], Any]] = {
                "Hedgerow": partial(ours(max_depth=depth, n_jobs=1).fit, X, target),
                "scikit-learn": partial(theirs(max_depth=depth).fit, X, target),
            }
            for name, (seconds, tree) in measure(sides, rounds).items():
                scores = (
                    tree.predict_proba(X_test)[:, 1] if kind == "Gini" else tree.predict(X_test)
                )
                auc = float(roc_auc_score(y_test, scores))
                what = f"one tree, {kind}, 100k x 28, depth {depth or 'full'}"
                rows.append({"what": what, "side": name, "seconds": seconds, "auc": auc})
    return rows


PARTS = {
    "search": search,
    "sparsity": sparsity,
    "growth": growth,
    "sampling": sampling,
    "sketch": sketch,
    "exact": exact,
    "cart": cart,
}


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "parts", nargs="*", type=name_in(PARTS), help=f"any of {', '.join(PARTS)} (default: all)"
    )
    parser.add_argument("--rounds", type=int, default=3)
    return parser


def main() -> None:
    options = build_parser().parse_args()
    kept: dict[str, Any] = {"kind": "ablation", "parts": {}}
    path = path_of("ablation")
    if path.exists() and options.parts:
        kept = json.loads(path.read_text())
    for name in options.parts or PARTS:
        rows = PARTS[name](options.rounds)
        for row in rows:
            memory = f"{row['mib']:8.1f} MiB" if "mib" in row else ""
            print(f"{row['what']:42}{row['side']:20}{row['seconds']:8.2f} s   AUC {row['auc']:.4f}"
                  f"{memory}", flush=True)  # fmt: skip
        kept["parts"][name] = rows
        save(kept, path)


if __name__ == "__main__":
    main()
