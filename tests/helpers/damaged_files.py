"""Damaged model files of each format give a model or ModelFormatError, fast and in little memory.

Examples::

    python -m tests.helpers.damaged_files --n 100000          # of each; exit code 1: findings
    python -m tests.helpers.damaged_files --n 100000 --only xgboost

Each format has its own process with limited memory.  A crash or a hang is found and reported with
the number of the file, which determines the file.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

import hedgerow
from hedgerow.convert.reading import format_of, read_foreign
from hedgerow.errors import ModelFormatError
from hedgerow.io import model_from_bytes, model_to_bytes
from hedgerow.model.model import Model

MEMORY = 2**30
"""Address space in bytes that reading a damaged file may add."""

FORMATS = {
    "lightgbm": ("lightgbm plain", "lightgbm linear", "lightgbm zero"),
    "xgboost-json": ("xgboost gbtree json", "xgboost dart json"),
    "xgboost-ubj": ("xgboost gbtree ubj", "xgboost dart ubj", "xgboost vectors ubj"),
    "catboost": ("catboost onehot", "catboost ctr", "catboost nested"),
    "hedgerow": ("hedgerow categories", "hedgerow lines", "hedgerow forests"),
}


def make_models(folder: Path) -> dict[str, bytes]:
    """Return small models of other libraries' formats, with categories and missing values."""
    import catboost
    import lightgbm
    import pandas as pd
    import xgboost

    rng = np.random.default_rng(0)
    n = 400
    X = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "city": pd.Categorical(rng.choice(["Oslo", "Rome", "Kiel"], n)),
            "b": rng.normal(size=n),
        }
    )
    X.loc[::7, "a"] = np.nan
    y = np.nan_to_num(X["a"]) + 2.0 * (X["city"] == "Oslo") + X["b"]
    found = {}
    for name, more in (
        ("plain", {}),
        ("linear", {"linear_tree": True}),
        ("zero", {"zero_as_missing": True}),
    ):
        params = {"verbosity": -1, "num_leaves": 5, **more}
        model = lightgbm.train(params, lightgbm.Dataset(X, y), 3)
        found[f"lightgbm {name}"] = model.model_to_string().encode()
    table = xgboost.DMatrix(X, y, enable_categorical=True)
    for name, more in (("gbtree", {}), ("dart", {"booster": "dart"})):
        model = xgboost.train({"max_depth": 3, "max_cat_to_onehot": 1, **more}, table, 3)
        for suffix in ("json", "ubj"):
            found[f"xgboost {name} {suffix}"] = bytes(model.save_raw(suffix))
    both = xgboost.DMatrix(X[["a", "b"]], np.column_stack([y, -y]))
    model = xgboost.train({"multi_strategy": "multi_output_tree", "max_depth": 2}, both, 2)
    found["xgboost vectors ubj"] = bytes(model.save_raw("ubj"))
    rows = X.assign(city=X["city"].astype(str))
    pool = catboost.Pool(rows, y, cat_features=["city"])
    for name, more in (
        ("onehot", {}),
        ("ctr", {"one_hot_max_size": 1, "max_ctr_complexity": 1}),
        ("nested", {"grow_policy": "Depthwise"}),
    ):
        model = catboost.CatBoostRegressor(
            iterations=3, depth=3, verbose=0, allow_writing_files=False, **more
        ).fit(pool)
        path = folder / "model.json"
        model.save_model(str(path), format="json", pool=pool)
        found[f"catboost {name}"] = path.read_bytes()
    return found


def own_models() -> dict[str, bytes]:
    """Return small models of our own format."""
    rng = np.random.default_rng(0)
    city = rng.choice(["Oslo", "Rome", "Kiel"], 400)
    a = rng.normal(size=400)
    y = a + 2.0 * (city == "Oslo")
    found = {}
    for name, params in (
        ("categories", {"target_statistics": False}),
        ("lines", {"linear_leaves": True}),
        ("forests", {"num_parallel_tree": 2, "subsample": 0.7}),
    ):
        data = hedgerow.Dataset({"a": a.tolist(), "city": city.tolist()}, y)
        booster = hedgerow.train({"n_estimators": 3, "max_leaves": 5, **params}, data)
        found[f"hedgerow {name}"] = model_to_bytes(booster.model)
    return found


def read_any(data: bytes) -> Model | None:
    """Read a model of any format, or return None if the bytes have no known format."""
    if format_of(data[:4096]) is None:
        return model_from_bytes(data)[0]
    found = read_foreign(data)
    return None if found is None else found.model


def read_or_refuse(data: bytes, predict: bool = True) -> bool:
    """Return whether the bytes are a model; check that it predicts."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        try:
            found = read_any(data)
        except ModelFormatError:
            return False
    if found is None:
        return False
    if predict:
        booster = hedgerow.Booster(found)
        n = booster.num_features
        if n < 1000:
            columns = [
                (["Oslo"] if column.levels and isinstance(column.levels[0], str) else [1.0])
                if column.kind == "category"
                else [0.5]
                for column in found.schema.columns
            ]
            row = dict(zip(booster.feature_names, columns, strict=True))
            booster.predict(row, kind="leaf")
    return True


NUMBERS = [
    b"-1",
    b"0",
    b"1",
    b"2",
    b"7",
    b"99999999",
    b"-99999999999999999999",
    b"1e400",
    b"nan",
    b"NaN",
    b"inf",
    b"-Infinity",
    b"1e-320",
    b"null",
    b"true",
    b'"x"',
    b"[]",
    b"{}",
    b"",
]


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Return a damaged copy: bytes, numbers, lines or pieces changed."""
    kind = chance.randrange(7)
    at = chance.randrange(len(data))
    if kind == 0:
        return data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
    if kind == 1:
        return data[:at]
    if kind == 2:
        end = min(len(data), at + chance.randrange(1, 200))
        return data[:at] + data[end:]
    if kind == 3:
        end = min(len(data), at + chance.randrange(1, 200))
        return data[:end] + data[at:end] + data[end:]
    if kind == 4:
        return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]
    start, stop = number_at(data, at)
    return data[:start] + chance.choice(NUMBERS) + data[stop:]


def number_at(data: bytes, at: int) -> tuple[int, int]:
    """Return the start and the end of the number at or after a position."""
    digits = b"0123456789+-.eE"
    start = at
    while start < len(data) and data[start] not in digits:
        start += 1
    while start > 0 and data[start - 1] in digits:
        start -= 1
    stop = start
    while stop < len(data) and data[stop] in digits:
        stop += 1
    return start, stop


def damaged_file(models: dict[str, bytes], names: tuple[str, ...], seed: int, number: int) -> bytes:
    """Return file number ``number``: a model with one to three changes."""
    chance = random.Random(f"{seed} {names[0]} {number}")
    data = models[names[number % len(names)]]
    for _ in range(chance.choice((1, 1, 2, 3))):
        data = mutated(data, chance) if data else data
    return data


def work(name: str, seed: int, first: int, stop: int, patience: float, fault: str) -> None:
    """Read the files in this process; print the number of each before reading it.

    With ``fault``, "hang:NUMBER" or "crash:NUMBER", that file hangs or crashes the process.
    """
    with tempfile.TemporaryDirectory() as folder:
        models = own_models() if name == "hedgerow" else make_models(Path(folder))
    for data in models.values():
        read_or_refuse(data)  # loads modules that are imported at first use
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, hard))
    ends: Counter[bool] = Counter()
    slowest = 0.0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(first, stop):
        data = damaged_file(models, FORMATS[name], seed, number)
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
        faulthandler.dump_traceback_later(max(patience, 1e-6), exit=True)
        start = time.perf_counter()
        if fault == f"hang:{number}":
            time.sleep(600)
        if fault == f"crash:{number}":
            os.abort()
        ends[read_or_refuse(data)] += 1
        slowest = max(slowest, time.perf_counter() - start)
        faulthandler.cancel_dump_traceback_later()
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(
        f"{name}: {stop - first} files, {ends[True]} models, {ends[False]} refused; "
        f"the slowest took {1e3 * slowest:.0f} ms, memory rose by {more:.0f} MB"
    )


def run(name: str, seed: int, first: int, stop: int, patience: float, fault: str) -> list[int]:
    """Read the files in processes; return the numbers of files that ended one."""
    found: list[int] = []
    while first < stop:
        arguments = (name, str(seed), str(first), str(stop), str(patience), fault)
        command = [sys.executable, __file__, "--work", *arguments]
        with tempfile.TemporaryFile("w+") as errors:
            with subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True
            ) as process:
                assert process.stdout is not None
                last = ""
                for line in process.stdout:
                    last = line.strip()
            errors.seek(0)
            text = errors.read()
        if process.returncode == 0:
            print(last, flush=True)
            return found
        if not last.isdigit():
            raise RuntimeError(text[-3000:])
        print(f"{name}: number {last} ended the process ({process.returncode})\n{text[-2000:]}")
        found.append(int(last))
        if len(found) >= 10:
            return found
        first = int(last) + 1
    return found


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n", type=int, default=1000, help="files of each format")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--only", default="", help="formats whose names begin so")
    parser.add_argument("--patience", type=float, default=20.0, help="longest for one, in seconds")
    parser.add_argument("--fault", default="", help="hang:NUMBER or crash:NUMBER: make one of them")
    parser.add_argument("--work", nargs=6, help=argparse.SUPPRESS)
    return parser


def main(arguments: list[str] | None = None) -> int:
    given = build_parser().parse_args(arguments)
    if given.work:
        name, seed, first, stop, patience, fault = given.work
        work(name, int(seed), int(first), int(stop), float(patience), fault)
        return 0
    names = [name for name in FORMATS if name.startswith(given.only)]
    stop = given.first + given.n
    found = [
        number
        for name in names
        for number in run(name, given.seed, given.first, stop, given.patience, given.fault)
    ]
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
