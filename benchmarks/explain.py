"""Shapley values: time beside LightGBM, XGBoost and the package ``shap``.

::

    python benchmarks/explain.py                     # about ten minutes
    python benchmarks/explain.py leaves31 --rows 2000 --turns 3

Two models of 28 columns: 100 trees of 31 leaves, and 500 trees of depth 8.  Each library
explains a model of its own, trained on the same rows with the same sizes of trees, on two
threads.  Ours and theirs take turns; a ratio is theirs : ours, the median of the turns.
``shap`` explains our trees, which are handed over as arrays, so that the values are the
same.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np
import xgboost

from hedgerow import Booster, Dataset, train
from hedgerow.kernels.keys import floats_of_keys

MODELS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "leaves31": (
        {"n_estimators": 100, "max_leaves": 31},
        {"num_leaves": 31},
        {"max_leaves": 31, "max_depth": 0, "grow_policy": "lossguide"},
    ),
    "depth8": (
        {"n_estimators": 500, "max_depth": 8, "max_leaves": 256},
        {"num_leaves": 256, "max_depth": 8},
        {"max_depth": 8},
    ),
}
N_TRAIN, N_COLUMNS, N_THREADS = 20_000, 28, 2


def make_table() -> tuple[np.ndarray, np.ndarray]:
    """Numbers, and a target that depends on five of them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_TRAIN, N_COLUMNS))
    return X, X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + X[:, 3] * X[:, 4]


def shap_trees(booster: Booster) -> dict[str, Any]:
    """Our trees as ``shap.TreeExplainer`` takes them."""
    forest, trees = booster.model.forest, []
    for number in range(forest.n_trees):
        part = slice(forest.tree_start[number], forest.tree_start[number + 1])
        inner = forest.feature[part] >= 0
        trees.append(
            {
                "children_left": np.where(inner, forest.left[part], -1),
                "children_right": np.where(inner, forest.right[part], -1),
                "children_default": np.where(inner, forest.right[part], -1),
                "features": forest.feature[part],
                "thresholds": np.where(inner, floats_of_keys(forest.threshold[part]), 0.0),
                "values": forest.value[part, None],
                "node_sample_weight": forest.count[part].astype(float),
            }
        )
    return {"trees": trees, "base_offset": forest.base_score}


def seconds(work: Callable[[], Any]) -> float:
    """Of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compare(what: str, ours: Callable[[], Any], theirs: Callable[[], Any], turns: int) -> str:
    """A line of the table."""
    ours()
    times = []
    for turn in range(turns):
        pair = (ours, theirs) if turn % 2 == 0 else (theirs, ours)
        found = [seconds(work) for work in pair]
        times.append(found if turn % 2 == 0 else found[::-1])
    own, others = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(theirs / ours for ours, theirs in times)
    return f"| {what} | {own:.4f} | {others:.4f} | {ratio:.1f} |"


def measure(name: str, n_rows: int, turns: int) -> list[str]:
    """The lines of one model."""
    ours, lightgbm_sizes, xgboost_sizes = MODELS[name]
    X, y = make_table()
    some, few = X[:n_rows], X[: max(20, n_rows // 100)]
    booster = train({**ours, "n_jobs": N_THREADS}, Dataset(X, y))
    trees = ours["n_estimators"]
    light = lightgbm.train(
        {**lightgbm_sizes, "num_threads": N_THREADS, "verbose": -1}, lightgbm.Dataset(X, y), trees
    )
    other = xgboost.train(
        {**xgboost_sizes, "nthread": N_THREADS, "eta": 0.1}, xgboost.DMatrix(X, y), trees
    )
    rows, pairs = xgboost.DMatrix(some), xgboost.DMatrix(few)

    def explain(table: np.ndarray, **options: Any) -> Any:
        return booster.explain(table, n_jobs=N_THREADS, **options)

    lines = [
        compare(
            f"{name}: {n_rows} rows, LightGBM {lightgbm.__version__}",
            lambda: explain(some),
            lambda: light.predict(some, pred_contrib=True),
            turns,
        ),
        compare(
            f"{name}: {n_rows} rows, XGBoost {xgboost.__version__}",
            lambda: explain(some),
            lambda: other.predict(rows, pred_contribs=True),
            turns,
        ),
        compare(
            f"{name}: interactions of {len(few)} rows, XGBoost",
            lambda: explain(few, interactions=True),
            lambda: other.predict(pairs, pred_interactions=True),
            turns,
        ),
        compare(
            f"{name}: one row, LightGBM",
            lambda: explain(X[:1]),
            lambda: light.predict(X[:1], pred_contrib=True),
            51,
        ),
    ]
    return [*lines, *against_shap(name, booster, X, turns)]


def against_shap(name: str, booster: Booster, X: np.ndarray, turns: int) -> list[str]:
    """A background of 1,000 rows, if ``shap`` is installed."""
    try:
        import shap
    except ImportError:
        return [f"| {name}: shap is not installed | | | |"]
    few, others = X[:20], X[-1000:]
    explainer = shap.TreeExplainer(shap_trees(booster), data=others)
    return [
        compare(
            f"{name}: 20 rows against 1,000 background rows, shap {shap.__version__}",
            lambda: booster.explain(few, background=others, n_jobs=N_THREADS),
            lambda: explainer.shap_values(few, check_additivity=False),
            turns,
        )
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", choices=[*MODELS, []], default=list(MODELS))
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    print("| what | seconds | theirs | theirs : ours |")
    print("|---|---|---|---|")
    for name in options.models:
        for line in measure(name, options.rows, options.turns):
            print(line, flush=True)


if __name__ == "__main__":
    main()
