"""Take the measurements that :mod:`processes` runs in a new process; print a line of JSON."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from peers import PEERS
from workloads import WORKLOADS


def _peak_mib() -> float:
    """Return the highest resident memory so far.

    ``VmHWM`` starts at 0 with the program; ``ru_maxrss`` may include the peak of the parent
    process.
    """
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 1024)


def memory(peer_name: str, folder: str, workload: str, threads: str) -> dict[str, float]:
    peer = PEERS[peer_name]
    settings = replace(WORKLOADS[workload].settings, threads=int(threads))
    X, y = np.load(Path(folder) / "X.npy"), np.load(Path(folder) / "y.npy")
    # A fit of a few rows loads the library and its compiled code.
    peer.fit(X[:1000], y[:1000], replace(settings, trees=1))
    before = _peak_mib()
    peer.fit(X, y, settings)
    peak = _peak_mib()
    return {
        "peak_mib": round(peak, 1),
        "fit_mib": round(peak - before, 1),
        "table_mib": round((X.nbytes + y.nbytes) / 2**20, 1),
    }


def first(peer_name: str) -> dict[str, float]:
    peer = PEERS[peer_name]
    workload = WORKLOADS["1k"]
    (X, y), _ = workload.split(0)
    start = time.perf_counter()
    peer.load()
    times = [time.perf_counter() - start]
    for _ in range(2):
        start = time.perf_counter()
        model = peer.fit(X, y, workload.settings)
        peer.predict(model, X, workload.settings)
        times.append(time.perf_counter() - start)
    load, first_fit, second_fit = times
    return {
        "load_s": load,
        "first_s": first_fit,
        "second_s": second_fit,
        "extra_s": first_fit - second_fit,
    }


def defaults(library: str) -> dict[str, float]:
    """Time import, first and second use of a classifier with default parameters; measure memory."""
    workload = WORKLOADS["1k"]
    (X, y), _ = workload.split(0)
    start = time.perf_counter()
    if library == "hedgerow":
        from hedgerow import HedgerowClassifier as Classifier
    else:
        from lightgbm import LGBMClassifier as Classifier  # type: ignore[no-redef]
    times = [time.perf_counter() - start]
    for _ in range(2):
        start = time.perf_counter()
        Classifier().fit(X, y).predict_proba(X)
        times.append(time.perf_counter() - start)
    return {
        "load_s": times[0],
        "first_s": times[1],
        "second_s": times[2],
        "extra_s": times[1] - times[2],
        "peak_mib": _peak_mib(),
    }


if __name__ == "__main__":
    jobs: dict[str, Callable[..., dict[str, float]]] = {
        "memory": memory,
        "first": first,
        "defaults": defaults,
    }
    print(json.dumps(jobs[sys.argv[1]](*sys.argv[2:])))
