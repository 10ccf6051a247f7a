"""Processes that end while models are trained or used."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

BEGIN = """
import atexit, sys, threading, time
import numpy as np
from hedgerow import Dataset, train
X = np.random.default_rng(0).normal(size=(5_000, 10))
"""
AT_EXIT = """
from hedgerow import HedgerowRegressor

def fit():
    return HedgerowRegressor(n_estimators=20, n_jobs=2).fit(X, X[:, 0])

before = fit()
atexit.register(lambda: print((fit().predict(X) == before.predict(X)).all(), flush=True))
"""
WHEN_DELETED = """
class Late:
    def __init__(self):
        params = {"n_estimators": 20, "early_stopping": "cv", "n_jobs": 2}
        self.model = train(params, Dataset(X, X[:, 0]))
        self.expected = self.model.predict(X)

    def __del__(self, X=X, print=print):
        print((self.model.predict(X) == self.expected).all(), flush=True)

late = Late()
"""
IN_BACKGROUND = """
def run():
    while True:
        train(params, rows)

rows = Dataset(X, (X[:, 0] > 0) * 1.0)
params = dict(
    objective="logistic", early_stopping="cv", n_jobs={n_jobs}, n_estimators={rounds}
)
threading.Thread(target=run, daemon=True).start()
time.sleep({seconds})
print(True)
"""
REFUSED = """
from hedgerow.threads import run_blocks

def late():
    threading.main_thread().join()
    time.sleep(0.2)  # executors refuse tasks now
    done = []
    run_blocks(lambda start, stop: done.extend(range(start, stop)), 10, 3, 1)
    print(sorted(done) == list(range(10)), flush=True)

threading.Thread(target=late).start()
"""


@pytest.mark.fast(2)
@pytest.mark.parametrize(
    "code",
    [
        AT_EXIT + WHEN_DELETED + REFUSED,
        IN_BACKGROUND.format(n_jobs=2, rounds=5000, seconds=0.5),
        IN_BACKGROUND.format(n_jobs=2, rounds=3, seconds=0.7),
        IN_BACKGROUND.format(n_jobs=1, rounds=5000, seconds=0.4),
    ],
    ids=["later work", "long fit", "short fits", "one thread"],
)
def test_the_end_of_the_interpreter_disturbs_nothing(code: str) -> None:
    # Freed memory is overwritten, so that its use is seen.
    environment = {**os.environ, "PYTHONMALLOC": "debug", "HEDGEROW_QUIET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + code],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == code.count("print(") * "True\n", done.stderr
