"""Any bytes of another library's model file give a model or ModelFormatError."""

from __future__ import annotations

import functools
import json
import pickle
import random
import re
import tempfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hedgerow
from hedgerow.convert.readers import ubjson
from hedgerow.convert.reading import format_of, read_foreign
from hedgerow.errors import ModelFormatError
from tests.helpers.damaged_files import make_models, own_models, read_damaged, read_or_refuse

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")
catboost = pytest.importorskip("catboost")


@functools.cache
def all_models() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        return make_models(Path(folder))


@pytest.fixture
def models() -> dict[str, bytes]:
    return all_models()


def test_all_formats_are_read(models) -> None:
    for name, data in models.items():
        assert read_or_refuse(data), name
        assert format_of(data[:4096]) == (
            "lightgbm" if "lightgbm" in name else "ubjson" if name.endswith("ubj") else "json"
        )


def test_damaged_files(models) -> None:
    assert read_damaged(models, 150) > 100  # small changes of numbers leave a model


@pytest.mark.slow
def test_many_damaged_files(models) -> None:
    read_damaged(models | own_models(), 700, seed=1)


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
    """One value of a JSON model replaces another one of any type."""
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


def test_files_that_look_readable_say_what_to_do(tmp_path) -> None:
    X = np.arange(60.0).reshape(30, 2)
    model = hedgerow.HedgerowRegressor(n_estimators=2).fit(X, X[:, 0])
    model.export(tmp_path / "trees.json", "json")
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(model))
    for level in (1, 3, 6, 9):
        (tmp_path / f"model{level}.joblib").write_bytes(zlib.compress(b"model" * 20, level))
    other = catboost.CatBoostRegressor(iterations=2, verbose=False, allow_writing_files=False)
    other.fit(X, X[:, 0]).save_model(str(tmp_path / "model.cbm"))
    for name, words in {
        "trees.json": "write the model with save",
        "model.pkl": "open it with pickle or joblib",
        "model.cbm": "format='json'",
        **{f"model{level}.joblib": "of joblib" for level in (1, 3, 6, 9)},
    }.items():
        with pytest.raises(ModelFormatError, match=re.escape(words)):
            hedgerow.load(tmp_path / name)
