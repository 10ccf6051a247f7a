"""Take measurements that need a new process: memory, import and first use."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from peers import Peer, peer_version
from workloads import WORKLOADS

_CHILD = Path(__file__).with_name("child.py")
_IMPORTS = {
    "hedgerow": "import hedgerow",
    "lightgbm": "import lightgbm",
    "xgboost": "import xgboost",
    "sklearn_hgb": "import sklearn.ensemble",
    "catboost": "import catboost",
}
_CLASS_IMPORT = "from hedgerow import HedgerowClassifier"
_SKLEARN_IMPORT = "import sklearn.base, sklearn.utils.validation"

Result = dict[str, Any]


@functools.cache
def _environment() -> dict[str, str]:
    """Return the environment of the processes, with compiled bytecode as after ``pip install``."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    spec = importlib.util.find_spec("hedgerow")
    for folder in (spec.submodule_search_locations if spec else None) or ():
        subprocess.run([sys.executable, "-m", "compileall", "-q", folder], env=kept, check=True)
    return kept


def _child(*arguments: str, **environment: str) -> dict[str, Any]:
    result = subprocess.run(
        [sys.executable, str(_CHILD), *arguments],
        env={**_environment(), **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    answer: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return answer


def measure_memory(peers: list[Peer], threads: int, name: str = "1m_31") -> Result:
    """Measure the peak memory of a process that loads a table and fits it.

    The process reads the table from a file, because generating it needs memory too.  ``fit`` is
    the increase by the fit, after the table and the library are loaded.
    """
    workload = WORKLOADS[name]
    with tempfile.TemporaryDirectory() as folder:
        (X, y), _ = workload.split(0)
        np.save(Path(folder) / "X.npy", X)
        np.save(Path(folder) / "y.npy", y)
        del X, y
        results = []
        for peer in peers:
            answer = _child("memory", peer.name, folder, name, str(threads))
            print(f"  {peer.name:20s} {answer}", flush=True)
            results.append({"peer": peer.name, "version": peer_version(peer), **answer})
    return {
        "kind": "memory",
        "workload": f"memory_{name}",
        "title": f"peak memory of fit, {workload.title}",
        "settings": workload.settings.as_dict(),
        "results": results,
    }


def _import_seconds(statement: str) -> float:
    code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=_environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return float(result.stdout)


def measure_import(peers: list[Peer], rounds: int) -> Result:
    """Time ``import`` in a new process, with files in the system's cache."""
    statements = {peer.name: _IMPORTS[peer.name] for peer in peers if peer.name in _IMPORTS}
    if "hedgerow" in statements:
        statements["hedgerow, class loaded"] = _CLASS_IMPORT
        statements["scikit-learn's base alone"] = _SKLEARN_IMPORT
    times: dict[str, list[float]] = {name: [] for name in statements}
    for round_number in range(rounds + 1):
        for name, statement in statements.items():
            seconds = _import_seconds(statement)
            if round_number:
                times[name].append(seconds)
    for name, seconds_list in times.items():
        print(f"  {name:24s} {statistics.median(seconds_list):.3f} s", flush=True)
    return {
        "kind": "import",
        "workload": "import",
        "title": "import",
        "results": [
            {"peer": name, "median_s": statistics.median(times[name]), "seconds": times[name]}
            for name in statements
        ],
    }


def measure_first_use(peers: list[Peer], rounds: int) -> Result:
    """Time the first and the second fit and predict of a process, on 1,000 rows.

    Hedgerow runs with the kernels of the package, and with just-in-time compilation with an
    empty ("cold") and a filled cache ("cached").
    """
    results: list[dict[str, Any]] = []
    for peer in peers:
        for state in ("built", "cold", "cached") if peer.module == "hedgerow" else ("",):
            policy = "never" if state == "built" else "always"
            with tempfile.TemporaryDirectory() as folder:
                setting = {"HEDGEROW_COMPILE": policy, "HEDGEROW_QUIET": "1"}
                if state == "cached":
                    _child("first", peer.name, NUMBA_CACHE_DIR=folder, **setting)
                answers = []
                for _ in range(rounds):
                    with tempfile.TemporaryDirectory() as empty:
                        cache = folder if state == "cached" else empty
                        answer = _child("first", peer.name, NUMBA_CACHE_DIR=cache, **setting)
                        answers.append(answer)
            results.append(_median_of(f"{peer.name} {state}".strip(), peer_version(peer), answers))
    return {
        "kind": "first_use",
        "workload": "first_use",
        "title": "first fit and predict of a process, 1,000 rows",
        "results": results,
    }


def measure_default_use(rounds: int) -> Result:
    """Measure a classifier with default parameters, in turn with LightGBM's.

    Each runs in a new process without a cache, which must not compile or write a folder.
    """
    answers: dict[str, list[dict[str, float]]] = {"hedgerow": [], "lightgbm": []}
    setting = {
        "HEDGEROW_COMPILE": "never",
        "HOME": "/nonexistent",
        "NUMBA_CACHE_DIR": "/nonexistent",
    }
    for round_number in range(rounds + 1):
        for name, found in answers.items():
            answer = _child("defaults", name, **setting)
            if round_number:
                found.append(answer)
    return {
        "kind": "default_use",
        "workload": "default_use",
        "title": "first fit and predict of a process with default parameters, 1,000 rows",
        "results": [_median_of(name, "", found) for name, found in answers.items()],
    }


def _median_of(label: str, version: str, answers: list[dict[str, float]]) -> dict[str, Any]:
    medians = {key: statistics.median(answer[key] for answer in answers) for key in answers[0]}
    print(f"  {label:24s} {medians}", flush=True)
    return {"peer": label, "version": version, **medians}
