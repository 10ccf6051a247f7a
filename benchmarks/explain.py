"""Time Shapley values in Hedgerow, LightGBM, XGBoost and shap: ``python benchmarks/explain.py``.

Each library explains its own models, trained with the same parameters on the same rows: 100 trees
of 31 leaves, and 500 trees of depth 8.  The libraries take turns, and the figures are microseconds
per row, the smallest of several runs.  Slow libraries get fewer rows.  The time for one row is the
median of 200 calls with different rows.

shap reads Hedgerow's own trees.  ``--rows 100000 --threads 2 --rounds 3`` are the defaults;
``--only values,pairs`` names some of: values, one, pairs, background.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from hedgerow import Booster, Dataset, train
from hedgerow.kernels.tables.keys import floats_of_keys
from names import names_in

N_COLUMNS = 28
MODELS: dict[str, dict[str, Any]] = {
    "100 trees of 31 leaves": {"trees": 100, "leaves": 31, "depth": None},
    "500 trees of depth 8": {"trees": 500, "leaves": 256, "depth": 8},
}
PARTS = ("values", "one", "pairs", "background")
N_BACKGROUND = 1000

Work = tuple[Callable[[np.ndarray], Any], int]
"""A function that explains rows, and the number of rows to give it."""


def rows_and_target(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, N_COLUMNS)).astype(np.float32)
    y = X[:, 0] * X[:, 1] + np.sin(2.0 * X[:, 2]) + X[:, 3] * (X[:, 4] > 0) + X[:, 5:12].sum(1) / 4
    return X, y + rng.normal(size=n_rows)


def our_model(X: np.ndarray, y: np.ndarray, shape: dict[str, Any]) -> Booster:
    parameters = {
        "n_estimators": shape["trees"],
        "max_leaves": shape["leaves"],
        "max_depth": shape["depth"],
        "linear_leaves": False,
        "early_stopping": False,
        "learning_rate": 0.1,
    }
    return train(parameters, Dataset(X, y))


def lightgbm_model(X: np.ndarray, y: np.ndarray, shape: dict[str, Any], threads: int) -> Any:
    import lightgbm

    parameters = {
        "num_leaves": shape["leaves"],
        "max_depth": shape["depth"] or -1,
        "num_threads": threads,
        "verbose": -1,
    }
    return lightgbm.train(parameters, lightgbm.Dataset(X, y), shape["trees"])


def xgboost_model(X: np.ndarray, y: np.ndarray, shape: dict[str, Any], threads: int) -> Any:
    import xgboost

    parameters = {
        "max_leaves": 0 if shape["depth"] else shape["leaves"],
        "max_depth": shape["depth"] or 0,
        "grow_policy": "depthwise" if shape["depth"] else "lossguide",
        "nthread": threads,
        "eta": 0.1,
    }
    return xgboost.train(parameters, xgboost.DMatrix(X, y), shape["trees"])


def shap_trees(booster: Booster) -> dict[str, Any]:
    """Return the model in the form that ``shap.TreeExplainer`` reads."""
    forest, trees = booster.model.forest, []
    for number in range(forest.n_trees):
        tree = forest.tree(number)
        inner = tree.feature >= 0
        missing = np.where(tree.missing_left == 1, tree.left, tree.right)
        trees.append(
            {
                "children_left": np.where(inner, tree.left, -1),
                "children_right": np.where(inner, tree.right, -1),
                "children_default": np.where(inner, missing, -1),
                "features": tree.feature,
                "thresholds": floats_of_keys(np.where(inner, tree.threshold, 0)),
                "values": tree.value[:, None],
                "node_sample_weight": tree.count.astype(np.float64),
            }
        )
    return {"trees": trees, "base_offset": float(forest.base_score[0])}


def time_rows(works: dict[str, Work], X: np.ndarray, rounds: int) -> dict[str, float]:
    """Return the microseconds per row of each library."""
    best = dict.fromkeys(works, np.inf)
    for name, (work, _) in works.items():
        work(X[:2])
        print(f"  {name}: ready", flush=True)
    for _ in range(rounds):
        for name, (work, n_rows) in works.items():
            start = time.perf_counter()
            work(X[:n_rows])
            best[name] = min(best[name], 1e6 * (time.perf_counter() - start) / n_rows)
    return best


def time_one_row(works: dict[str, Work], X: np.ndarray, calls: int = 200) -> dict[str, float]:
    """Return the median microseconds of a call with one row, one library after the other."""
    found = {}
    for name, (work, _) in works.items():
        times = []
        for row in range(calls):
            start = time.perf_counter()
            work(X[row : row + 1])
            times.append(1e6 * (time.perf_counter() - start))
        found[name] = float(np.median(times))
        time.sleep(0.5)  # a library's threads may wait for more work for a while
    return found


def show(title: str, found: dict[str, float]) -> None:
    ours = found["hedgerow"]
    print(f"{title}\n")
    print("| | us a row | times hedgerow |\n|---|---|---|")
    for name, microseconds in found.items():
        print(f"| {named(name)} | {microseconds:.4g} | {microseconds / ours:.1f} |")
    print(flush=True)


def named(name: str) -> str:
    try:
        return f"{name} {version('xgboost-cpu' if name == 'xgboost' else name)}"
    except PackageNotFoundError:
        return name


def measure(shape: dict[str, Any], title: str, options: argparse.Namespace) -> None:
    X, y = rows_and_target(options.rows)
    parts, threads = options.only, options.threads
    ours = our_model(X, y, shape)
    deep = shape["depth"] is not None
    if "values" in parts or "pairs" in parts:
        import xgboost

        peer = xgboost_model(X, y, shape, threads)

        def contributions(rows: np.ndarray) -> Any:
            return peer.predict(xgboost.DMatrix(rows, nthread=threads), pred_contribs=True)

        def interactions(rows: np.ndarray) -> Any:
            return peer.predict(xgboost.DMatrix(rows, nthread=threads), pred_interactions=True)

    if "values" in parts:
        other = lightgbm_model(X, y, shape, threads)
        works: dict[str, Work] = {
            "hedgerow": (
                lambda rows: ours.explain(rows, n_jobs=threads),
                2_000 if deep else 20_000,
            ),
            "lightgbm": (
                lambda rows: other.predict(rows, pred_contrib=True, num_threads=threads),
                100 if deep else 1_000,
            ),
            "xgboost": (contributions, 100 if deep else 1_000),
        }
        show(f"values, {title}", time_rows(works, X, options.rounds))
        if "one" in parts:
            show(f"one row, {title}", time_one_row(works, X))
    if "pairs" in parts:
        works = {
            "hedgerow": (
                lambda rows: ours.explain(rows, interactions=True, n_jobs=threads),
                500 if deep else 2_000,
            ),
            "xgboost": (interactions, 4 if deep else 40),
        }
        show(f"pairs, {title}", time_rows(works, X, options.rounds))
    if "background" in parts:
        import shap

        background = X[-N_BACKGROUND:]
        explainer = shap.TreeExplainer(shap_trees(ours), background.astype(np.float64))
        works = {
            "hedgerow": (
                lambda rows: ours.explain(rows, background=background, n_jobs=threads),
                10_000 if deep else 20_000,
            ),
            "shap": (
                lambda rows: explainer.shap_values(rows.astype(np.float64), check_additivity=False),
                2 if deep else 20,
            ),
        }
        show(f"background of {N_BACKGROUND} rows, {title}", time_rows(works, X, options.rounds))


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", type=names_in(PARTS), default=list(PARTS))
    parser.add_argument("--model", default="", help="only models whose title starts with this text")
    return parser


def main() -> None:
    """Run the requested measurements."""
    options = build_parser().parse_args()
    for title, shape in MODELS.items():
        if title.startswith(options.model):
            measure(shape, title, options)


if __name__ == "__main__":
    main()
