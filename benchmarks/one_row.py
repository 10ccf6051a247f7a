"""Measure predictions of one row, step by step: ``python benchmarks/one_row.py``.

The models have 100 trees of 31 leaves.  One has 28 float columns; the other has 6 float columns and
8 text columns of 12 categories each.  The first figures are microseconds of one thread, the best of
several runs.  The second are rows per second of many threads that share the booster, and of forked
children.  Each row is checked against its prediction in a table.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from hedgerow import HedgerowClassifier, HedgerowRegressor
from hedgerow.kernels.prediction.one_row import add_one_row

TREES: dict[str, Any] = {
    "n_estimators": 100, "max_leaves": 31, "learning_rate": 0.1, "early_stopping": False,
    "random_state": 0, "linear_leaves": False, "target_statistics": False,
}  # fmt: skip


def microseconds(call: Callable[[], object], times: int = 2000, runs: int = 9) -> float:
    """Return the microseconds of one call."""
    call()
    found = []
    for _ in range(runs):
        start = time.perf_counter()
        for _ in range(times):
            call()
        found.append((time.perf_counter() - start) / times)
    return 1e6 * min(found)


def print_time(label: str, call: Callable[[], object]) -> None:
    print(f"{label:58s}{microseconds(call):8.1f}", flush=True)


def numbers() -> tuple[HedgerowRegressor, HedgerowClassifier, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 28))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=len(X)) > 0).astype(int)
    return HedgerowRegressor(**TREES).fit(X, y), HedgerowClassifier(**TREES).fit(X, y), X


def categories() -> tuple[HedgerowClassifier, list[dict[str, Any]]]:
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {f"n{k}": rng.normal(size=20_000) for k in range(6)}
    for k in range(8):
        columns[f"c{k}"] = [f"v{v}" for v in rng.integers(0, 12, 20_000)]
    X = pd.DataFrame(columns)
    score = X["n0"] + X["c0"].str.len() + rng.normal(size=len(X))
    model = HedgerowClassifier(**TREES).fit(X, (score > 2.5).astype(int))
    return model, X.head(500).to_dict("records")


def peers(X: np.ndarray) -> None:
    """Time trees of the same size in LightGBM, through its scikit-learn and native interfaces."""
    try:
        import lightgbm
    except ImportError:
        return
    y = (X[:, 0] > 0).astype(int)
    model = lightgbm.LGBMClassifier(n_estimators=100, verbosity=-1, n_jobs=1).fit(X, y)
    row = X[:1].copy()
    print_time("LightGBM, estimator's predict_proba", lambda: model.predict_proba(row))
    print_time("LightGBM, Booster.predict", lambda: model.booster_.predict(row, num_threads=1))


def one_thread() -> None:
    regressor, classifier, X = numbers()
    row, flat, values = X[:1].copy(), X[0].copy(), X[0].tolist()
    narrow = row.astype(np.float32)
    print_time("28 floats: regressor.predict, float64 (1, 28)", lambda: regressor.predict(row))
    print_time("  float32", lambda: regressor.predict(narrow))
    print_time("  classifier.predict", lambda: classifier.predict(row))
    print_time("  classifier.predict_proba", lambda: classifier.predict_proba(row))
    booster = regressor.booster_
    print_time("  booster.predict_one, array (28,)", lambda: booster.predict_one(flat))
    print_time("  booster.predict_one, list", lambda: booster.predict_one(values))
    scorer = booster._single._scorer
    space, raw = scorer.space(), scorer._base.copy()
    print_time("  of which the kernel", lambda: add_one_row(*space.arguments, raw))
    print_time("  of which the link", lambda: booster.link(raw))
    peers(X)
    model, rows = categories()
    booster, record = model.booster_, rows[0]
    print_time("6 floats, 8 categories: predict_one of a dict", lambda: booster.predict_one(record))
    ask = booster.predict_one
    print_time("  probabilities", lambda: ask(record, kind="probability"))
    single = booster._single
    read = single._reader.read(record)
    assert read is not None, "the record is read in the general way"
    values, _ = read
    print_time("  of which reading the dict", lambda: single._reader.read(record))
    print_time("  of which the score", lambda: single._scorer.of_values(values))
    frame = pd.DataFrame([record])
    print_time("  as a frame of one row, predict_proba", lambda: model.predict_proba(frame))


def many_threads(n_threads: int, seconds: float) -> None:
    model, rows = categories()
    booster = model.booster_
    expected = booster.predict(pd.DataFrame(rows), kind="raw")
    counts, wrong = [0] * n_threads, [0] * n_threads
    stop = time.perf_counter() + seconds

    def ask(number: int) -> None:
        k = number
        while time.perf_counter() < stop:
            wrong[number] += booster.predict_one(rows[k], kind="raw") != expected[k]
            counts[number] += 1
            k = (k + 7) % len(rows)

    threads = [threading.Thread(target=ask, args=(k,)) for k in range(n_threads)]
    for thread in threads:
        thread.start()
    children = 0
    while time.perf_counter() < stop - 0.5:
        child = os.fork()
        if child == 0:
            right = all(
                booster.predict_one(row, kind="raw") == raw
                for row, raw in zip(rows, expected, strict=True)
            )
            os._exit(0 if right else 1)
        wrong[0] += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
        children += 1
    for thread in threads:
        thread.join()
    print(
        f"{n_threads} threads, {seconds:.0f} s: {sum(counts) / seconds:,.0f} rows a second, "
        f"{children} forked children of {len(rows)} rows each, {sum(wrong)} wrong"
    )
    if sum(wrong):
        sys.exit(1)


if __name__ == "__main__":
    one_thread()
    many_threads(1, 3.0)
    many_threads(16, 3.0)
