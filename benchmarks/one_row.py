"""What one row costs, and where its microseconds go: ``python benchmarks/one_row.py``.

Models of 100 trees of 31 leaves: one of 28 float columns, and one of 6 float and 8 text
columns of 12 categories each.  Microseconds of one thread, the best of several runs;
then rows a second of many threads that share the booster, each row checked against its
prediction in a table, and the same in forked children.
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

TREES = {
    "n_estimators": 100, "max_leaves": 31, "learning_rate": 0.1, "early_stopping": False,
    "random_state": 0, "linear_leaves": False, "target_statistics": False,
}  # fmt: skip


def microseconds(call: Callable[[], object], times: int = 2000, runs: int = 9) -> float:
    """Of one call."""
    call()
    found = []
    for _ in range(runs):
        start = time.perf_counter()
        for _ in range(times):
            call()
        found.append((time.perf_counter() - start) / times)
    return 1e6 * min(found)


def tell(what: str, call: Callable[[], object]) -> None:
    print(f"{what:58s}{microseconds(call):8.1f}", flush=True)


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
    """The same trees' size in LightGBM, through its scikit-learn interface and its own."""
    try:
        import lightgbm
    except ImportError:
        return
    y = (X[:, 0] > 0).astype(int)
    model = lightgbm.LGBMClassifier(n_estimators=100, verbosity=-1, n_jobs=1).fit(X, y)
    row = X[:1].copy()
    tell("LightGBM, estimator's predict_proba", lambda: model.predict_proba(row))
    tell("LightGBM, Booster.predict", lambda: model.booster_.predict(row, num_threads=1))


def one_thread() -> None:
    regressor, classifier, X = numbers()
    row, flat, values = X[:1].copy(), X[0].copy(), X[0].tolist()
    narrow = row.astype(np.float32)
    tell("28 floats: regressor.predict, float64 (1, 28)", lambda: regressor.predict(row))
    tell("  float32", lambda: regressor.predict(narrow))
    tell("  classifier.predict", lambda: classifier.predict(row))
    tell("  classifier.predict_proba", lambda: classifier.predict_proba(row))
    booster = regressor.booster_
    tell("  booster.predict_one, array (28,)", lambda: booster.predict_one(flat))
    tell("  booster.predict_one, list", lambda: booster.predict_one(values))
    scorer = booster._single._scorer
    space, raw = scorer._new_space(), scorer._base.copy()
    tell("  of which the kernel", lambda: add_one_row(*space.arguments, raw))
    tell("  of which the link", lambda: booster.link(raw))
    peers(X)
    model, rows = categories()
    booster, record = model.booster_, rows[0]
    tell("6 floats, 8 categories: predict_one of a dict", lambda: booster.predict_one(record))
    ask = booster.predict_one
    tell("  probabilities", lambda: ask(record, kind="probability"))
    single = booster._single
    values, _ = single._reader.read(record)
    tell("  of which reading the dict", lambda: single._reader.read(record))
    tell("  of which the score", lambda: single._scorer.of_values(values))
    frame = pd.DataFrame([record])
    tell("  as a frame of one row, predict_proba", lambda: model.predict_proba(frame))


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
