"""Time fits on a GPU in Hedgerow and XGBoost: ``python benchmarks/gpu.py``.

Both libraries get the same rows (random numbers), 100 trees, learning rate 0.1 and 255 bins.  They
take turns, in an order that changes each round.  The figure is the median time from the user's
array to the model.  A warm-up fit of each loads its kernels.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from hedgerow import HedgerowClassifier, HedgerowRegressor
from hedgerow.cuda.device import first_gpu
from hedgerow.io import model_to_bytes

TREES = 100
SHAPES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "31 leaves": (
        {"max_leaves": 31},
        {"grow_policy": "lossguide", "max_leaves": 31, "max_depth": 0},
    ),
    "255 leaves": (
        {"max_leaves": 255},
        {"grow_policy": "lossguide", "max_leaves": 255, "max_depth": 0},
    ),
    "depth 8": ({"max_leaves": None, "max_depth": 8, "grow_policy": "depthwise"}, {"max_depth": 8}),
}
TABLES = {
    "100k x 28": (100_000, 28, 2),
    "1M x 28": (1_000_000, 28, 2),
    "10M x 28": (10_000_000, 28, 2),
    "100k x 500": (100_000, 500, 2),
    "1M x 28, 7 classes": (1_000_000, 28, 7),
    "1M x 28, 4 targets": (1_000_000, 28, -4),
}
"""Rows, columns, and number of classes; a negative number is that of targets that share trees."""


def table(n_rows: int, n_columns: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Generate random columns, and classes or targets that depend on a few of them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_columns), dtype=np.float32)
    score = X[:, :5].sum(axis=1) + X[:, 5] * X[:, 6]
    score += rng.standard_normal(n_rows, dtype=np.float32)
    if n_classes < 0:
        return X, score[:, None] + X[:, :-n_classes] * X[:, 7:8]
    cuts = np.quantile(score[:100_000], np.arange(1, n_classes) / n_classes)
    return X, np.digitize(score, cuts)


def fit_hedgerow(X: np.ndarray, y: np.ndarray, shape: str, device: Literal["cpu", "cuda"]) -> Any:
    """Train this library's model."""
    params: dict[str, Any] = {
        "n_estimators": TREES, "learning_rate": 0.1, "early_stopping": False, "reg_lambda": 1.0,
        "min_samples_leaf": 20, "subsample": 1.0, "colsample_bynode": 1.0, "max_bins": 255,
        "grow_policy": "leafwise", "linear_leaves": False, "feature_crosses": None,
    }  # fmt: skip
    estimator = HedgerowClassifier if y.ndim == 1 else HedgerowRegressor
    return estimator(device=device, **(params | SHAPES[shape][0])).fit(X, y)


def fit_xgboost(X: np.ndarray, y: np.ndarray, shape: str) -> Any:
    """Train XGBoost's model."""
    import xgboost

    n_classes = int(y.max()) + 1 if y.ndim == 1 else 0
    params: dict[str, Any] = {
        "device": "cuda", "tree_method": "hist", "max_bin": 255, "learning_rate": 0.1,
        "min_child_weight": 1e-3, "reg_lambda": 1.0, "objective": "binary:logistic",
    }  # fmt: skip
    if n_classes == 0:
        params |= {"objective": "reg:squarederror", "multi_strategy": "multi_output_tree"}
    elif n_classes > 2:
        params |= {"objective": "multi:softprob", "num_class": n_classes}
    rows = xgboost.QuantileDMatrix(X, y, max_bin=255)
    return xgboost.train(params | SHAPES[shape][1], rows, TREES)


def seconds(work: Callable[[], Any]) -> float:
    """Return the seconds of a call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compare(name: str, shape: str, rounds: int, on_processor: bool) -> None:
    """Print a line with the medians."""
    X, y = table(*TABLES[name])
    works: dict[str, Callable[[], Any]] = {
        "hedgerow": lambda: fit_hedgerow(X, y, shape, "cuda"),
        "xgboost": lambda: fit_xgboost(X, y, shape),
    }
    if on_processor:
        works["processor"] = lambda: fit_hedgerow(X, y, shape, "cpu")
    times: dict[str, list[float]] = {work: [] for work in works}
    for number in range(rounds):
        for work in list(works)[:: 1 if number % 2 == 0 else -1]:
            times[work].append(seconds(works[work]))
    median = {work: statistics.median(found) for work, found in times.items()}
    ratio = median["hedgerow"] / median["xgboost"]
    text = ", ".join(f"{work} {found:.3f} s" for work, found in median.items())
    print(f"{name}, {shape}: {text}; hedgerow/xgboost {ratio:.2f}", flush=True)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processor", action="store_true", help="also time fits without the GPU")
    return parser


def main() -> None:
    """Run the requested measurements."""
    chosen = build_parser().parse_args()
    print(f"{first_gpu().name}, {os.cpu_count()} processors, {chosen.rounds} rounds")
    X, y = table(20_000, 28, 2)
    models = [fit_hedgerow(X, y, "31 leaves", device) for device in ("cpu", "cuda")]
    same = len({model_to_bytes(model.booster_.model) for model in models}) == 1
    print(f"same bytes as on the processor: {same}")
    fit_xgboost(X, y, "31 leaves")
    for name in chosen.tables:
        for shape in chosen.shapes:
            compare(name, shape, chosen.rounds, chosen.processor)


if __name__ == "__main__":
    main()
