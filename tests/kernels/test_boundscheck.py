"""No kernel reads or writes out of bounds."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 540  # seconds; compiling with checks takes a minute or two, unless that was done before


def test_no_index_leaves_its_array() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.test_boundscheck"], cwd=ROOT,
        env={**os.environ, "NUMBA_BOUNDSCHECK": "1"},
        capture_output=True, text=True, timeout=LIMIT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["checked"]


# -- what the child process runs -----------------------------------------------------


def data(objective, n_rows, n_features, dtype):
    rng = np.random.default_rng(n_rows + n_features)
    if dtype == np.int64:
        X = rng.integers(-(2**62), 2**62, (n_rows, n_features))
    else:
        X = rng.normal(size=(n_rows, n_features)).astype(dtype)
        X[rng.random(X.shape) < 0.1] = np.nan
        X[rng.random(X.shape) < 0.01] = np.inf
    y = rng.normal(size=n_rows)
    n_classes = {"squared_error": 0, "logistic": 2, "softmax": 3}[objective]
    if n_classes:
        y = np.arange(n_rows) % n_classes
    return X, y.astype(float)


CONSTRAINTS = {
    "monotone_constraints": {"x0": 1, "x8": -1},
    "interaction_constraints": [["x0", "x1", "x8"], ["x1", "x2", "x3"]],
    "feature_penalties": {"x1": 0.5},
    "monotone_penalty": 0.5,
    "path_smooth": 3.0,
}
LEVELS = {"grow_policy": "symmetric", "max_depth": 5}
CASES = (
    ("squared_error", 1, 1, np.float64, {}),
    ("squared_error", 2, 3, np.float32, {"min_samples_leaf": 1}),
    ("squared_error", 500, 3, np.int64, {"min_samples_leaf": 1, "max_leaves": 300}),
    ("squared_error", 20_000, 9, np.float32, {"n_jobs": 2}),
    ("squared_error", 9000, 40, np.float32, {"n_jobs": 2, "weighted": True}),
    ("logistic", 64, 33, np.float64, {"min_samples_leaf": 1}),
    ("logistic", 18_000, 70, np.float32, {"n_jobs": 3, "subsample": 0.5, "max_bins": 13}),
    ("logistic", 9000, 5, np.float32, {"n_jobs": 2, "sampling": "goss"}),
    ("softmax", 3000, 5, np.float32, {"n_jobs": 2, "sampling": "mvs", "subsample": 0.2}),
    ("logistic", 3000, 5, np.float64, {"grow_policy": "depthwise", "max_depth": 3}),
    ("logistic", 9000, 9, np.float64, {"grow_policy": "symmetric", "max_depth": 4, "n_jobs": 2}),
    ("logistic", 900, 9, np.float32, {**LEVELS, **CONSTRAINTS, "n_jobs": 2}),
    ("squared_error", 900, 7, np.float64, {**LEVELS, "min_samples_leaf": 1}),
    ("logistic", 400_000, 2, np.float32, {"n_jobs": 2}),
    ("softmax", 700, 40, np.float64, {"colsample_bytree": 0.5, "colsample_bynode": 0.5}),
    ("softmax", 9000, 6, np.float32, {"colsample_bylevel": 0.5, "early_stopping": True}),
    ("squared_error", 9000, 9, np.float32, {"n_jobs": 2, **CONSTRAINTS}),
    ("logistic", 900, 5, np.int64, {"interaction_constraints": "pairwise", "max_leaves": 300}),
)


def check() -> None:
    from numba import config, njit

    from hedgerow import Dataset, train
    from hedgerow.boosting.loop.setup import resolved
    from hedgerow.growing.core import grower

    assert config.BOUNDSCHECK == 1

    @njit
    def behind(array):
        return array[len(array)]

    try:
        behind(np.zeros(3))
        raise AssertionError("bounds are not checked")
    except IndexError:
        pass
    # An index error in a helper would leave the others waiting: end the process.
    threading.excepthook = lambda error: (sys.__excepthook__(*error[:3]), os._exit(1))
    resolved._CELLS_PER_THREAD = 1
    for slot_bytes in (1 << 30, 1):
        grower._SLOT_BYTES = slot_bytes
        for objective, n_rows, n_features, dtype, params in CASES:
            X, y = data(objective, n_rows, n_features, dtype)
            params = {"n_estimators": 3, "n_jobs": 1, "objective": objective, **params}
            weight = np.linspace(0, 2, n_rows) if params.pop("weighted", False) else None
            booster = train(params, Dataset(X, y, weight=weight))
            for rows in (X[:1], X[:7], X):
                booster.predict(rows)
                booster.predict(rows, kind="leaf")
                booster.predict(rows, kind="raw", n_jobs=2)
    sys.stdout.write("checked\n")


if __name__ == "__main__":
    check()
