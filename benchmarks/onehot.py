"""Measure bundles and sparse tables on one-hot columns.

::

    python benchmarks/onehot.py bundles            # 50,000 rows, with and without bundles
    python benchmarks/onehot.py peers              # 500,000 x 5,000, and LightGBM
    python benchmarks/onehot.py peers --rows 50000 --rounds 3

``bundles`` fits the same sparse table with ``bundle_features="auto"`` and False, and reports
whether the models are identical.  ``peers`` measures time and memory of a fit and a prediction,
each in its own process.  Memory is the increase of the peak over the memory before the fit, when
libraries are loaded, kernels compiled and data read.  Every row has one entry for each category.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np


def table(n_rows: int, n_categories: int, n_levels: int, seed: int = 0) -> tuple[Any, np.ndarray]:
    """Return a CSR matrix of indicators, and two classes that depend on some of them."""
    from scipy.sparse import csr_matrix

    rng = np.random.default_rng(seed)
    level = rng.integers(0, n_levels, size=(n_rows, n_categories), dtype=np.int32)
    column = (level + n_levels * np.arange(n_categories, dtype=np.int32)).ravel()
    ones = np.ones(column.size, dtype=np.float32)
    starts = np.arange(0, column.size + 1, n_categories)
    X = csr_matrix((ones, column, starts), shape=(n_rows, n_categories * n_levels))
    effect = rng.standard_normal(X.shape[1]) * (rng.random(X.shape[1]) < 0.3)
    return X, (X @ effect + 2.0 * rng.standard_normal(n_rows) > 0).astype(int)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=["bundles", "peers", "child"])
    parser.add_argument("--rows", type=int, default=None, help="default: 50,000 or 500,000")
    parser.add_argument("--categories", type=int, default=50)
    parser.add_argument("--levels", type=int, default=100)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3, help="processes of each (default 3)")
    parser.add_argument("--peer", default="hedgerow", help=argparse.SUPPRESS)
    return parser


def _estimator(peer: str, options: argparse.Namespace, trees: int) -> Any:
    if peer == "lightgbm":
        from lightgbm import LGBMClassifier

        return LGBMClassifier(
            n_estimators=trees, reg_lambda=1.0, n_jobs=options.threads, verbose=-1
        )
    from hedgerow import HedgerowClassifier

    bundled: Any = False if peer == "no bundles" else "auto"
    return HedgerowClassifier(
        n_estimators=trees, early_stopping=False, n_jobs=options.threads, bundle_features=bundled
    )


def _peak_memory() -> int:
    """Return the peak memory of this process in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("memory is read from /proc/self/status, which is not there")


def _reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def child(options: argparse.Namespace) -> dict[str, Any]:
    """Fit and predict once in this process."""
    from sklearn.metrics import roc_auc_score

    X, y = table(options.rows, options.categories, options.levels)
    X_test, y_test = table(20_000, options.categories, options.levels, seed=1)
    rng = np.random.default_rng(0)  # other rows with the effects of the training table
    rng.integers(0, options.levels, size=(options.rows, options.categories), dtype=np.int32)
    effect = rng.standard_normal(X.shape[1]) * (rng.random(X.shape[1]) < 0.3)
    noise = 2.0 * np.random.default_rng(2).standard_normal(len(y_test))
    y_test = (X_test @ effect + noise > 0).astype(int)
    _estimator(options.peer, options, 2).fit(X[:2000], y[:2000]).predict_proba(X[:2000])
    model = _estimator(options.peer, options, options.trees)
    _reset_peak()
    before, start = _peak_memory(), time.perf_counter()
    model.fit(X, y)
    fit_s = time.perf_counter() - start
    fit_bytes = _peak_memory() - before
    _reset_peak()
    before, start = _peak_memory(), time.perf_counter()
    model.predict_proba(X)
    result = {
        "fit_s": fit_s,
        "fit_MB": fit_bytes / 1e6,
        "predict_s": time.perf_counter() - start,
        "predict_MB": (_peak_memory() - before) / 1e6,
        "test_auc": roc_auc_score(y_test, model.predict_proba(X_test)[:, 1]),
    }
    if options.peer != "lightgbm":
        from hashlib import sha256

        from hedgerow.io import model_to_bytes

        result["model"] = sha256(model_to_bytes(model.booster_.model)).hexdigest()[:12]
    return result


def _run(peer: str, options: argparse.Namespace) -> dict[str, Any]:
    arguments = ["--rows", "--categories", "--levels", "--trees", "--threads"]
    values = [getattr(options, name[2:]) for name in arguments]
    pairs = [str(item) for pair in zip(arguments, values, strict=True) for item in pair]
    process = subprocess.run(
        [sys.executable, __file__, "child", "--peer", peer, *pairs],
        env={**os.environ, "OMP_NUM_THREADS": str(options.threads)},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return json.loads(process.stdout.splitlines()[-1])


def compare(peers: list[str], options: argparse.Namespace) -> None:
    """Print the median of every figure; the peers take turns."""
    runs: dict[str, list[dict[str, Any]]] = {peer: [] for peer in peers}
    for _ in range(options.rounds):
        for peer in peers:
            runs[peer].append(_run(peer, options))
    print(
        f"{options.rows:,} rows, {options.categories} categories of {options.levels} levels, "
        f"{options.trees} trees, {options.threads} threads, median of {options.rounds}"
    )
    for peer, results in runs.items():
        figures = [
            f"{name} {statistics.median(result[name] for result in results):.3f}"
            for name in ("fit_s", "fit_MB", "predict_s", "predict_MB", "test_auc")
        ]
        models = sorted({result["model"] for result in results if "model" in result})
        print(f"{peer:12s}", *figures, *models, sep="  ")
    first, second = (statistics.median(result["fit_s"] for result in runs[peer]) for peer in peers)
    print(f"fit: {peers[0]} takes 1/{second / first:.1f} of the time of {peers[1]}")


def main() -> None:
    options = build_parser().parse_args()
    if options.part == "child":
        print(json.dumps(child(options)))
    elif options.part == "bundles":
        options.rows = options.rows or 50_000
        compare(["hedgerow", "no bundles"], options)
    else:
        options.rows = options.rows or 500_000
        compare(["hedgerow", "lightgbm"], options)


if __name__ == "__main__":
    main()
