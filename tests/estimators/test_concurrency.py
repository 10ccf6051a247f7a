"""Concurrent fits, fits in forked children, and more threads than processors."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from hedgerow import Dataset, train
from hedgerow.boosting.loop.setup import resolved as resolved_module
from hedgerow.io import model_to_bytes


@pytest.fixture(autouse=True)
def _threads_at_once(monkeypatch):
    monkeypatch.setattr(resolved_module, "_CELLS_PER_THREAD", 1)


def data(seed, n_rows=4000, n_features=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    return X, (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=n_rows) > 0).astype(float)


def fit(seed, n_jobs=2, n_rows=4000, **params):
    X, y = data(seed, n_rows)
    params = {"objective": "logistic", "n_estimators": 10, "n_jobs": n_jobs, **params}
    return train(params, Dataset(X, y))


def content(booster):
    return model_to_bytes(booster.model)


def test_fits_at_the_same_time_do_not_meet() -> None:
    expected = [content(fit(seed, n_jobs=1)) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(2):
            found = list(pool.map(lambda seed: content(fit(seed, n_jobs=2)), range(4)))
            assert found == expected


def test_predictions_during_a_fit_do_not_meet() -> None:
    X, _ = data(0)
    booster = fit(0)
    expected = booster.predict(X, kind="raw")
    with ThreadPoolExecutor(3) as pool:
        fits = [pool.submit(fit, seed, 2, 4000, n_estimators=40) for seed in (1, 2)]
        served = [pool.submit(booster.predict, X, kind="raw") for _ in range(12)]
        for future in served:
            np.testing.assert_array_equal(future.result(), expected)
        assert all(future.result().num_rounds == 40 for future in fits)


def in_child(work, seconds: float = 300.0) -> int:
    """Run ``work`` in a forked child; return 0 if it returns True, -1 if it hangs."""
    child = os.fork()
    if child == 0:
        status = 3
        try:
            status = 0 if work() else 2
        finally:
            os._exit(status)
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return -1


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
quiet_fork = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


@pytest.mark.fast(1)
@needs_fork
@quiet_fork
@pytest.mark.parametrize("n_jobs", [3, 1])
def test_child_predicts_and_fits_like_its_parent(n_jobs) -> None:
    # Enough rows that binning and prediction use the pool of threads too.
    X, _ = data(0, 60_000)
    booster = fit(0, n_jobs, 60_000)
    expected, raw = content(booster), booster.predict(X, kind="raw", n_jobs=n_jobs)

    def work():
        same = np.array_equal(booster.predict(X, kind="raw", n_jobs=n_jobs), raw)
        return same and content(fit(0, n_jobs, 60_000)) == expected

    assert in_child(work) == 0
    assert content(fit(0, n_jobs, 60_000)) == expected


@needs_fork
@quiet_fork
def test_child_forked_during_a_fit_of_another_thread_can_fit() -> None:
    expected = content(fit(0))
    stop = threading.Event()

    def fit_on():
        while not stop.is_set():
            fit(1, 2)

    busy = threading.Thread(target=fit_on)
    busy.start()
    try:
        time.sleep(0.05)
        assert in_child(lambda: content(fit(0)) == expected) == 0
    finally:
        stop.set()
        busy.join()


@pytest.mark.fast(1)
@pytest.mark.parametrize("n_rows", [20_000, 2000])
def test_more_threads_than_processors_still_get_through(n_rows) -> None:
    expected = content(fit(0, 1, n_rows, n_estimators=20))
    many = 4 * (os.cpu_count() or 1)
    start = time.process_time()
    assert content(fit(0, max(8, many), n_rows, n_estimators=20)) == expected
    assert time.process_time() - start < 20  # 0.2 s on two idle processors


def test_no_thread_outlives_a_fit() -> None:
    before = {t.name for t in threading.enumerate()}
    fit(0, 4)
    left = {t.name for t in threading.enumerate()} - before
    assert not [name for name in left if name.startswith("hedgerow-")]
