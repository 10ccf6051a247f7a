"""Compare predictions of imported models with the libraries that trained them.

    python benchmarks/convert.py --table fremtpl2 --data ../shared/data --rows 500000
    python benchmarks/convert.py --table noise --rows 500000

Each line compares one program with Hedgerow on one model.  Both predict in turns until the time is
over, so that other work of the machine affects both.  The figure is the median of the ratios of
adjacent calls.  ``--lleaves PYTHON`` names a Python with lleaves, which needs another version of
llvmlite.  lleaves predicts the same rows in its own process, and turns are whole runs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from names import names_in

MODELS = ("lightgbm", "xgboost", "catboost")
LLEAVES = """
import json, sys, time
import lleaves, numpy as np
model = lleaves.Model(model_file=sys.argv[1]); model.compile()
X = np.load(sys.argv[2]); threads = int(sys.argv[3])
model.predict(X[:1000], n_jobs=threads)
seconds = []
for _ in range(int(sys.argv[4])):
    start = time.perf_counter(); found = model.predict(X, n_jobs=threads)
    seconds.append(time.perf_counter() - start)
np.save(sys.argv[5], found); print(json.dumps(seconds))
"""


def table(data: Path, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Load rows of fremtpl2 with text as codes; repeat the rows if there are too few."""
    folder = data / "fremtpl2"
    frames = [pd.read_parquet(file) for file in sorted(folder.glob("*.parquet"))]
    frame = frames[0]
    for name in frame.columns:
        if not pd.api.types.is_numeric_dtype(frame[name].dtype):
            frame[name] = pd.factorize(frame[name], sort=True)[0]
    values = frame.to_numpy(np.float64)
    column = list(frame.columns).index("ClaimNb") if "ClaimNb" in frame.columns else 0
    y = values[:, column]
    X = np.delete(values, column, axis=1)
    rows = np.arange(n_rows) % len(X)
    return np.ascontiguousarray(X[rows]), y[rows]


def noise(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Generate 28 columns with unpredictable branches, and a count that depends on a few."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 28))
    rate = np.exp(0.5 * X[:, 0] * X[:, 1] + 0.3 * np.sin(3.0 * X[:, 2]) + 0.2 * X[:, 3])
    return X, rng.poisson(np.minimum(rate, 20.0)).astype(float)


def time_in_turns(
    ours: Callable[[], Any], theirs: Callable[[], Any], seconds: float
) -> tuple[list[float], list[float]]:
    """Call both functions in turn; return the seconds of each call."""
    ours(), theirs()
    times: tuple[list[float], list[float]] = ([], [])
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 3:
        for call, kept in zip((ours, theirs), times, strict=True):
            start = time.perf_counter()
            call()
            kept.append(time.perf_counter() - start)
    return times


def print_ratio(
    model: str, other: str, ours: list[float], theirs: list[float], difference: float
) -> None:
    ratio = statistics.median(b / a for a, b in zip(ours, theirs, strict=False))
    print(
        f"{model:<34} {other:<14} "
        f"{statistics.median(ours):8.3f} s {statistics.median(theirs):8.3f} s "
        f"{ratio:6.2f}x   raw scores differ by {difference:.1e} at most",
        flush=True,
    )


def lightgbm_models(X: np.ndarray, y: np.ndarray, threads: int) -> dict[str, Any]:
    import lightgbm

    found = {}
    for leaves, rounds in ((31, 100), (127, 300)):
        params = {
            "num_leaves": leaves,
            "num_threads": threads,
            "verbosity": -1,
            "objective": "poisson",
        }
        found[f"LightGBM {rounds} trees x {leaves} leaves"] = lightgbm.train(
            params, lightgbm.Dataset(X[:100_000], y[:100_000]), rounds
        )
    return found


def compare_with_lightgbm(
    name: str, model: Any, X: np.ndarray, options: argparse.Namespace
) -> None:
    import hedgerow

    booster = hedgerow.from_lightgbm(model)

    def ours() -> np.ndarray:
        return booster.predict(X, kind="raw", n_jobs=options.threads)

    def theirs() -> np.ndarray:
        return model.predict(X, raw_score=True, num_threads=options.threads)

    difference = float(np.abs(ours() - theirs()).max())
    print_ratio(name, "LightGBM", *time_in_turns(ours, theirs, options.seconds), difference)
    compare_with_onnx(name, booster, X, options)
    if options.lleaves and model.num_trees() <= 100:  # lleaves compiles larger models for minutes
        compare_with_lleaves(name, model, booster, X, options)


def compare_with_onnx(name: str, booster: Any, X: np.ndarray, options: argparse.Namespace) -> None:
    try:
        import onnx  # noqa: F401
        import onnxruntime
    except ImportError:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        booster.export(path, raw=True)
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = options.threads
        session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])

    def ours() -> np.ndarray:
        return booster.predict(X, kind="raw", n_jobs=options.threads)

    def theirs() -> np.ndarray:
        return session.run(["raw"], {"X": X})[0][:, 0]

    difference = float(np.abs(ours() - theirs()).max())
    print_ratio(name, "ONNX Runtime", *time_in_turns(ours, theirs, options.seconds), difference)


def compare_with_lleaves(
    name: str, model: Any, booster: Any, X: np.ndarray, options: argparse.Namespace
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, file) for file in ("model.txt", "X.npy", "found.npy")]
        model.save_model(paths[0])
        np.save(paths[1], X)
        command = [
            options.lleaves,
            "-c",
            LLEAVES,
            paths[0],
            paths[1],
            str(options.threads),
            "5",
            paths[2],
        ]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode:
            print(f"{name:<34} lleaves        {answer.stderr.strip().splitlines()[-1]}")
            return
        theirs = json.loads(answer.stdout.strip().splitlines()[-1])
        found = np.load(paths[2])
    booster.predict(X, n_jobs=options.threads)
    seconds = []
    for _ in theirs:
        start = time.perf_counter()
        ours = booster.predict(X, n_jobs=options.threads)
        seconds.append(time.perf_counter() - start)
    print_ratio(name, "lleaves", seconds, theirs, float(np.abs(np.log(ours) - np.log(found)).max()))


def compare_with_xgboost(X: np.ndarray, y: np.ndarray, options: argparse.Namespace) -> None:
    import xgboost

    import hedgerow

    params = {"max_depth": 6, "nthread": options.threads, "objective": "count:poisson"}
    model = xgboost.train(params, xgboost.DMatrix(X[:100_000], y[:100_000]), 100)
    booster = hedgerow.from_xgboost(model)

    def ours() -> np.ndarray:
        return booster.predict(X, kind="raw", n_jobs=options.threads)

    def theirs() -> np.ndarray:
        return model.inplace_predict(X, predict_type="margin")

    difference = float(np.abs(ours() - theirs()).max())
    print_ratio(
        "XGBoost 100 trees of depth 6",
        "XGBoost",
        *time_in_turns(ours, theirs, options.seconds),
        difference,
    )


def compare_with_catboost(X: np.ndarray, y: np.ndarray, options: argparse.Namespace) -> None:
    import catboost

    import hedgerow

    for rounds in (100, 500):
        model = catboost.CatBoostRegressor(
            iterations=rounds, depth=6, thread_count=options.threads, verbose=0,
            loss_function="Poisson", allow_writing_files=False,
        ).fit(X[:100_000], y[:100_000])  # fmt: skip
        booster = hedgerow.from_catboost(model)

        def ours(booster: Any = booster) -> np.ndarray:
            return booster.predict(X, kind="raw", n_jobs=options.threads)

        def theirs(model: Any = model) -> np.ndarray:
            return model.predict(X, prediction_type="RawFormulaVal", thread_count=options.threads)

        difference = float(np.abs(ours() - theirs()).max())
        times = time_in_turns(ours, theirs, options.seconds)
        print_ratio(f"CatBoost {rounds} trees of depth 6", "CatBoost", *times, difference)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--lleaves", metavar="PYTHON", help="a Python with lleaves")
    parser.add_argument("--models", type=names_in(MODELS), default=list(MODELS))
    parser.add_argument("--table", choices=("fremtpl2", "noise"), default="fremtpl2")
    return parser


def main() -> None:
    options = build_parser().parse_args()
    make = {
        "fremtpl2": lambda: table(options.data, options.rows),
        "noise": lambda: noise(options.rows),
    }
    X, y = make[options.table]()
    print(
        f"{options.table}: {len(X)} rows, {X.shape[1]} columns, {options.threads} threads, "
        f"Python {sys.version.split()[0]}"
    )
    print(f"{'model':<34} {'beside':<14} {'Hedgerow':>10} {'beside':>10}")
    if "lightgbm" in options.models:
        for name, model in lightgbm_models(X, y, options.threads).items():
            compare_with_lightgbm(name, model, X, options)
    if "xgboost" in options.models:
        compare_with_xgboost(X, y, options)
    if "catboost" in options.models:
        compare_with_catboost(X, y, options)


if __name__ == "__main__":
    main()
