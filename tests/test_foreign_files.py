"""Whatever the bytes of a model file of another library are: a model, or ModelFormatError."""

from __future__ import annotations

import functools
import json
import random
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hedgerow
from hedgerow.convert.readers import ubjson
from hedgerow.convert.reading import format_of, read_foreign
from hedgerow.errors import ModelFormatError

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")
catboost = pytest.importorskip("catboost")


def make_models(folder: Path) -> dict[str, bytes]:
    """Small models of each format, with categories and missing values."""
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


@functools.cache
def all_models() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        return make_models(Path(folder))


@pytest.fixture
def models() -> dict[str, bytes]:
    return all_models()


def read_or_refuse(data: bytes, predict: bool = True) -> bool:
    """Whether the bytes are a model; then it predicts."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        try:
            found = read_foreign(data)
        except ModelFormatError:
            return False
    if found is None:
        return False
    if predict:
        booster = hedgerow.Booster(found.model)
        n = booster.num_features
        if n < 1000:
            columns = [
                (["Oslo"] if column.levels and isinstance(column.levels[0], str) else [1.0])
                if column.kind == "category"
                else [0.5]
                for column in found.model.schema.columns
            ]
            row = dict(zip(booster.feature_names, columns, strict=True))
            booster.predict(row, kind="leaf")
    return True


def test_all_formats_are_read(models) -> None:
    for name, data in models.items():
        assert read_or_refuse(data), name
        assert format_of(data[:4096]) == (
            "lightgbm" if "lightgbm" in name else "ubjson" if name.endswith("ubj") else "json"
        )


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
    """A damaged copy: bytes, numbers, lines or pieces changed."""
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
    """Where the number around or behind a position begins and ends."""
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


def test_damaged_files(models) -> None:
    chance = random.Random(0)
    read = 0
    for data in models.values():
        for _ in range(150):
            damaged = mutated(data, chance)
            for _ in range(chance.randrange(3)):
                damaged = mutated(damaged, chance) if damaged else damaged
            read += read_or_refuse(damaged)
    assert read > 100  # small changes of numbers leave a model


@pytest.mark.slow
def test_many_damaged_files(models) -> None:
    chance = random.Random(1)
    for data in models.values():
        for _ in range(5000):
            damaged = mutated(data, chance)
            read_or_refuse(damaged, predict=False)


STARTS = [
    b"",
    b"tree\n",
    b"tree\nversion=v4\n",
    b"{",
    b'{"learner":{',
    b"{L\0\0\0\0\0\0\0\7learner",
    b'{"features_info":',
    b"{i\7learner{",
]


@given(st.sampled_from(STARTS), st.binary(max_size=300))
def test_any_bytes(start, rest) -> None:
    read_or_refuse(start + rest)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**40) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.integers(0, 10**9), json_values)
def test_any_value_in_any_place(seed, value) -> None:
    """A value of a JSON model takes the place of another one of any type."""
    models = all_models()  # no argument: its text is long
    chance = random.Random(seed)
    names = [name for name in models if name.endswith("json") or "catboost" in name]
    record = json.loads(models[chance.choice(names)])
    place, key = record, next(iter(record))
    while True:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = chance.choice(list(keys))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or chance.random() < 0.15:
            break
        place = inner
    place[key] = value
    read_or_refuse(json.dumps(record).encode())


def test_numbers_of_hundreds_of_digits_and_deep_nesting() -> None:
    for data in (
        b'{"learner":' + b"[" * 100000,
        b'{"learner":' + b"9" * 10**6 + b"}",
        b"{" + b"[" * 10000,
        b"{i\7learner" + b"[" * 100000,
        b"{i\7learner[$D#L\x7f\xff\xff\xff\xff\xff\xff\xff",
        b"{i\7learner[#L\x7f\xff\xff\xff\xff\xff\xff\xff",
        b"{i\7learnerSL\x7f\xff\xff\xff\xff\xff\xff\xff",
        b"{i\7learnerSL\xff\xff\xff\xff\xff\xff\xff\xff",
        b"tree\nversion=v4\nmax_feature_idx=" + b"9" * 10**6 + b"\nend of trees\n",
    ):
        with pytest.raises(ModelFormatError):
            read_foreign(data)


def test_ubjson_numbers() -> None:
    assert ubjson.decode(b"{i\1aU\xffi\1bD?\xf0\0\0\0\0\0\0i\1cT}") == {
        "a": 255,
        "b": 1.0,
        "c": True,
    }
    array = ubjson.decode(b"[$l#i\2\0\0\0\1\xff\xff\xff\xff")
    assert array.tolist() == [1, -1]
    assert ubjson.decode(b"[#i\2i\1Z") == [1, None]
    assert ubjson.decode(b"{#i\1i\1aCx") == {"a": "x"}


def test_a_deep_chain_of_nodes_is_refused(models) -> None:
    record = json.loads(models["xgboost gbtree json"])
    tree = record["learner"]["gradient_booster"]["model"]["trees"][0]
    n = 20001
    chain = [k + 1 if k % 2 == 0 and k + 2 < n else -1 for k in range(n)]
    tree.update(
        left_children=chain,
        right_children=[c + 1 if c >= 0 else -1 for c in chain],
        split_conditions=[0.0] * n,
        split_indices=[0] * n,
        split_type=[0] * n,
        default_left=[0] * n,
        loss_changes=[0.0] * n,
        sum_hessian=[0.0] * n,
        categories=[],
        categories_nodes=[],
        categories_segments=[],
        categories_sizes=[],
    )
    with pytest.raises(ModelFormatError, match="deeper"):
        read_foreign(json.dumps(record).encode())


def test_files_of_ours_and_of_nobody(tmp_path) -> None:
    booster = hedgerow.train(
        {"n_estimators": 2}, hedgerow.Dataset(np.arange(100.0)[:, None], np.arange(100))
    )
    booster.save(tmp_path / "a.hedgerow")
    assert hedgerow.load(tmp_path / "a.hedgerow").num_trees == 2
    (tmp_path / "b").write_bytes(b"PK\x03\x04")
    with pytest.raises(ModelFormatError, match="zip"):
        hedgerow.load(tmp_path / "b")
    (tmp_path / "c.json").write_text('{"a": 1}')
    with pytest.raises(ModelFormatError, match="JSON"):
        hedgerow.load(tmp_path / "c.json")
    with pytest.raises(OSError, match=r"d\.json"):
        hedgerow.load(tmp_path / "d.json")
    with pytest.raises((ModelFormatError, OSError)):
        hedgerow.load(tmp_path)
