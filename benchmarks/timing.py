"""Take measurements within one process: fit, quality, predict and one row.

The libraries take turns, in an order that changes each round, so that a slow minute of the machine
affects all of them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from peers import Peer, peer_version
from scores import score
from settings import Settings
from workloads import WORKLOADS, Workload

Result = dict[str, Any]


def _seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def _turns(peers: list[Peer], round_number: int) -> list[Peer]:
    """Rotate the order of the peers each round, and reverse it every other round."""
    shift = round_number % len(peers)
    order = peers[shift:] + peers[:shift]
    return order[::-1] if round_number % 2 else order


def _warm_up(peers: list[Peer], workload: Workload) -> None:
    """Load and compile everything on a few rows, so that no measurement includes it."""
    (X, y), _ = workload.split(0) if workload.name in {"1k", "10k"} else _small(workload)
    for peer in peers:
        model = peer.fit(X, y, replace(workload.settings, trees=2))
        peer.predict(model, X[:100], workload.settings)


def _small(workload: Workload) -> tuple[tuple[np.ndarray, np.ndarray], None]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5_000, 10)).astype(np.float32)
    y: np.ndarray = rng.standard_normal(5_000)
    if workload.settings.task != "regression":
        y = np.arange(5_000) % workload.settings.classes * 1.0
    return (X, y), None


def _summary(peer: Peer, seconds: list[float], **more: Any) -> Result:
    return {
        "peer": peer.name,
        "version": peer_version(peer),
        "median_s": statistics.median(seconds),
        "min_s": min(seconds),
        "seconds": seconds,
        **more,
    }


def measure_fit(workload: Workload, peers: list[Peer], settings: Settings, rounds: int) -> Result:
    """Measure the time from the user's arrays to a fitted model, and its test score."""
    (X, y), (X_test, y_test) = workload.split(0)
    _warm_up(peers, workload)
    times: dict[str, list[float]] = {peer.name: [] for peer in peers}
    scores: dict[str, dict[str, float]] = {}
    for round_number in range(rounds):
        for peer in _turns(peers, round_number):
            seconds, model = _seconds(partial(peer.fit, X, y, settings))
            times[peer.name].append(seconds)
            if peer.name not in scores:
                scores[peer.name] = score(
                    settings.task, y_test, peer.predict(model, X_test, settings)
                )
            del model
            print(f"  {peer.name:20s} {seconds:8.3f} s", flush=True)
    return {
        "kind": "fit",
        "workload": workload.name,
        "title": workload.title,
        "rows": len(y),
        "features": X.shape[1],
        "dtype": str(X.dtype),
        "settings": settings.as_dict(),
        "results": [_summary(peer, times[peer.name], scores=scores[peer.name]) for peer in peers],
    }


def measure_quality(
    workload: Workload, peers: list[Peer], settings: Settings, seeds: int
) -> Result:
    """Compute test scores over several tables or splits, without times."""
    scores: dict[str, list[dict[str, float]]] = {peer.name: [] for peer in peers}
    for seed in range(seeds):
        (X, y), (X_test, y_test) = workload.split(seed)
        seeded = replace(settings, seed=seed)
        for peer in peers:
            prediction = peer.predict(peer.fit(X, y, seeded), X_test, seeded)
            scores[peer.name].append(score(settings.task, y_test, prediction))
            print(f"  seed {seed} {peer.name:20s} {scores[peer.name][-1]}", flush=True)
    return {
        "kind": "quality",
        "workload": workload.name,
        "title": workload.title,
        "settings": settings.as_dict(),
        "results": [
            {"peer": peer.name, "version": peer_version(peer), "scores": scores[peer.name]}
            for peer in peers
        ],
    }


def measure_predict(peers: list[Peer], threads: int, rounds: int, leaves: int) -> Result:
    """Time predictions of 500,000 float32 rows with 100 trees."""
    workload = WORKLOADS["100k"]
    settings = replace(workload.settings, leaves=leaves, threads=threads)
    (X, y), _ = workload.split(0)
    rows = np.ascontiguousarray(np.tile(X, (5, 1)))
    models = {peer.name: peer.fit(X, y, settings) for peer in peers}
    times: dict[str, list[float]] = {peer.name: [] for peer in peers}
    for peer in peers:
        peer.predict(models[peer.name], rows[:1000], settings)
    for round_number in range(rounds):
        for peer in _turns(peers, round_number):
            seconds, _ = _seconds(partial(peer.predict, models[peer.name], rows, settings))
            times[peer.name].append(seconds)
            print(f"  {peer.name:20s} {seconds:8.4f} s", flush=True)
    return {
        "kind": "predict",
        "workload": f"predict_{leaves}",
        "title": f"predict 500k rows, {leaves} leaves",
        "rows": len(rows),
        "settings": settings.as_dict(),
        "results": [_summary(peer, times[peer.name]) for peer in peers],
    }


def measure_one_row(peers: list[Peer], threads: int, rounds: int) -> Result:
    """Time ``predict_proba`` of one row through the scikit-learn interface."""
    workload = WORKLOADS["10k"]
    settings = replace(workload.settings, threads=threads)
    (X, y), _ = workload.split(0)
    models = {peer.name: peer.estimator(settings).fit(X, y) for peer in peers}
    times: dict[str, list[float]] = {peer.name: [] for peer in peers}
    calls = 300
    for round_number in range(rounds + 1):
        for peer in _turns(peers, round_number):
            predict = models[peer.name].predict_proba
            start = time.perf_counter()
            for i in range(calls):
                predict(X[i : i + 1])
            if round_number:  # the first round is a warm-up
                times[peer.name].append((time.perf_counter() - start) / calls)
    for peer in peers:
        print(f"  {peer.name:20s} {statistics.median(times[peer.name]) * 1e6:8.1f} us", flush=True)
    return {
        "kind": "one_row",
        "workload": "one_row",
        "title": "predict_proba of one row",
        "settings": settings.as_dict(),
        "results": [_summary(peer, times[peer.name]) for peer in peers],
    }
