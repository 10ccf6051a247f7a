"""Damaged model files of each format give a model or ModelFormatError, fast and in little memory.

Examples::

    python -m tests.helpers.damaged_files --n 100000    # of each model; an error names the file
"""

from __future__ import annotations

import argparse
import faulthandler
import random
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import hedgerow
from hedgerow.convert.reading import format_of, read_foreign
from hedgerow.errors import ModelFormatError
from hedgerow.io import model_from_bytes, model_to_bytes
from hedgerow.model.model import Model

MEMORY = 2**30
"""Address space in bytes that reading a damaged file may add."""

SECONDS = 20.0
"""Longest time for one file."""


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


@contextmanager
def limited_memory() -> Iterator[None]:
    """Let this process add :data:`MEMORY` bytes to its address space at most, on Linux."""
    if sys.platform != "linux":
        yield
        return
    import resource

    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))


def read_damaged(models: Mapping[str, bytes], n: int, seed: int = 0) -> int:
    """Read copies of each model with one to three changes; return how many are models.

    A copy that takes longer than :data:`SECONDS` ends the process with a traceback.
    """
    read = 0
    for data in models.values():
        read_or_refuse(data)  # loads modules that are imported at first use
    with limited_memory():
        for name, data in models.items():
            for number in range(n):
                chance, damaged = random.Random(f"{seed} {name} {number}"), data
                for _ in range(chance.choice((1, 1, 2, 3))):
                    damaged = mutated(damaged, chance) if damaged else damaged
                faulthandler.dump_traceback_later(SECONDS, exit=True, file=sys.__stderr__)
                try:
                    read += read_or_refuse(damaged)
                except Exception as error:
                    raise AssertionError(f"copy {number} of {name}, seed {seed}") from error
                finally:
                    faulthandler.cancel_dump_traceback_later()
    return read


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n", type=int, default=1000, help="damaged copies of each model")
    parser.add_argument("--seed", type=int, default=0)
    return parser


if __name__ == "__main__":
    given = build_parser().parse_args()
    with tempfile.TemporaryDirectory() as folder:
        models = make_models(Path(folder)) | own_models()
    read = read_damaged(models, given.n, given.seed)
    print(f"{read} of {given.n * len(models)} damaged copies are models, the others are refused")
