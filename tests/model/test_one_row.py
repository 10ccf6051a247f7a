"""Prediction of one row has the bits of a table's, from any thread, and after a fork."""

from __future__ import annotations

import datetime as dt
import math
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

from hedgerow import Dataset, HedgerowClassifier, HedgerowRegressor, train
from hedgerow.errors import DataError, DataTypeError, ParameterError
from hedgerow.model import layout
from tests.estimators.test_concurrency import in_child

CITIES = ["Oslo", "Rome", "Kiel", "Bonn", "Turin"]


def table(n_rows: int = 600, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "size": rng.normal(size=n_rows),
            "city": rng.choice(CITIES, n_rows),
            "age": rng.integers(18, 90, n_rows),
            "narrow": rng.normal(size=n_rows).astype(np.float32),
            "code": pd.Categorical(rng.integers(0, 9, n_rows)),
            "street": rng.choice([f"street {k}" for k in range(120)], n_rows),
        }
    )
    X.loc[::9, "size"] = np.nan
    X.loc[::11, "city"] = None
    return X


def target(X: pd.DataFrame, classes: int = 2) -> np.ndarray:
    rng = np.random.default_rng(1)
    score = np.nan_to_num(X["size"]) + (X["city"] == "Oslo") + X["age"] / 40
    score = score + X["street"].str.len() / 5 + rng.normal(size=len(X))
    return pd.qcut(score, classes, labels=False).to_numpy()


PARAMS = {
    "plain": {"linear_leaves": False, "target_statistics": False},
    "lines": {"linear_leaves": True, "target_statistics": False},
    "statistics": {"target_statistics": True, "linear_leaves": False},
    "both": {"target_statistics": True, "linear_leaves": True},
    "no trees": {"n_estimators": 1, "min_samples_leaf": 500},
}


def fitted(name: str, objective: str, X: pd.DataFrame | np.ndarray | None = None):
    X = table() if X is None else X
    y = target(table(), 3 if objective == "softmax" else 2)
    params = {"n_estimators": 13, "max_leaves": 12, "early_stopping": False, "random_state": 0}
    if objective in ("logistic", "softmax", "exponential"):
        labels = np.array(["no", "yes", "perhaps"])[y]
        model = HedgerowClassifier(objective=objective, **{**params, **PARAMS[name]})
        return model.fit(X, labels)
    return HedgerowRegressor(objective=objective, **{**params, **PARAMS[name]}).fit(X, y + 0.5)


def odd_rows() -> list[dict]:
    rows = table(40, seed=5).astype(object).to_dict("records")
    rows += [
        {**rows[0], "city": "Atlantis"},
        {**rows[0], "street": "nowhere", "code": 77},
        {**rows[0], "code": 3.0, "age": 33.0},
        {**rows[0], "code": True, "age": None, "size": None},
        {**rows[0], "age": math.nan, "size": math.inf, "narrow": -0.0},
        {**rows[0], "size": 2**53 + 1, "age": 33.5},
        {**rows[0], "size": np.float32(0.1), "narrow": np.float64(0.1), "age": np.int64(40)},
        {**rows[0], "size": 3, "narrow": True, "code": None, "city": None, "street": None},
    ]
    return rows


def same(one, many) -> bool:
    a, b = np.asarray(one), np.asarray(many)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("objective", ["squared_error", "poisson", "logistic", "softmax"])
@pytest.mark.parametrize("name", list(PARAMS))
def test_dicts_and_lists_have_the_bits_of_tables(name, objective) -> None:
    booster = fitted(name, objective).booster_
    kinds = ["value", "raw", "leaf"]
    kinds += ["probability"] if objective in ("logistic", "softmax") else []
    rows = odd_rows()
    quick = [booster._single.of_row(row) is not None for row in rows]
    assert np.mean(quick) > 0.85
    usual = pd.DataFrame(rows[:40]).astype(object)
    of_usual = {kind: booster.predict(usual, kind=kind) for kind in kinds}
    for number, row in enumerate(rows):
        alone = pd.DataFrame([row]).astype(object)
        # Of the rows with usual values, some are enough for the other kinds.
        for kind in kinds if number % 4 == 0 or number >= 40 else kinds[:1]:
            known = number < 40 and number % 8 != 0
            expected = of_usual[kind][number] if known else booster.predict(alone, kind=kind)[0]
            assert same(booster.predict_one(row, kind), expected), (row, kind)
            assert same(booster.predict_one(list(row.values()), kind), expected)
            shuffled = dict(sorted(row.items()))
            assert same(booster.predict_one(shuffled, kind), expected)


@pytest.mark.parametrize("objective", ["squared_error", "logistic", "softmax", "exponential"])
@pytest.mark.parametrize("name", ["plain", "lines"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_of_one_row_have_the_bits_of_tables(name, objective, dtype) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 7)).astype(dtype)
    X[::5, 2] = np.nan
    X[::7, 3] = 0.0
    model = fitted(name, objective, X)
    wide = np.asfortranarray(np.vstack([X[:60], [[np.inf] * 7, [-np.inf] * 7, [-0.0] * 7]]))
    wide = wide.astype(dtype)
    wide.flags.writeable = False
    for predict in (model.predict, model.booster_.predict, model.apply):
        expected = predict(wide)
        for k in range(len(wide)):
            assert same(predict(wide[k : k + 1]), expected[k : k + 1])
    expected = model.booster_.predict(wide, kind="raw")
    for k, row in enumerate(wide):
        assert same(model.booster_.predict_one(row, kind="raw"), expected[k])
        assert same(model.booster_.predict_one(row.tolist(), kind="raw"), expected[k])
    if hasattr(model, "predict_proba"):
        expected = model.predict_proba(wide)
        assert same(np.vstack([model.predict_proba(row[None, :]) for row in wide]), expected)


def test_several_targets_and_quantiles_and_offsets() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 4)), rng.normal(size=(400, 2))
    for params, Y in (
        ({"multi_strategy": "multi_output_tree"}, y),
        ({"multi_strategy": "one_output_per_tree"}, y),
        ({"objective": "quantile", "quantile": [0.1, 0.9]}, y[:, 0]),
    ):
        model = HedgerowRegressor(n_estimators=11, early_stopping=False, **params).fit(X, Y)
        expected = model.predict(X[:20])
        for k in range(20):
            assert same(model.predict(X[k : k + 1])[0], expected[k])
            assert same(model.predict_one(X[k]), expected[k])
    frame = pd.DataFrame(X, columns=list("abcd"))
    booster = train({"n_estimators": 5}, Dataset(frame, y[:, 0], offset="d"))
    row = frame.iloc[3].to_dict()
    assert booster.predict_one(row) == booster.predict(frame.iloc[[3]])[0]


def test_dates_and_what_is_no_plain_value_go_the_general_way() -> None:
    days = [dt.datetime(2020, 1, 1) + dt.timedelta(days=k) for k in range(200)]
    X = pd.DataFrame({"day": days, "x": np.arange(200.0)})
    booster = train({"n_estimators": 5}, Dataset(X, np.arange(200.0)))
    row = {"day": days[50], "x": 50.0}
    assert booster.predict_one(row) == booster.predict(X.iloc[[50]])[0]


def test_unseen_categories_are_counted() -> None:
    booster = fitted("plain", "squared_error").booster_
    row = odd_rows()[0]
    booster.predict_one({**row, "city": "Atlantis"})
    booster.predict_one({**row, "city": "Atlantis", "street": "nowhere"})
    assert booster.unseen_categories == {"city": 2, "street": 1}


def test_zero_is_missing() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (300, 3)).astype(float)
    model = HedgerowRegressor(zero_as_missing=True, n_estimators=5).fit(X, X[:, 0] == 0)
    expected = model.predict(X[:10])
    for k in range(10):
        assert same(model.predict(X[k : k + 1])[0], expected[k])
        assert same(model.predict_one(X[k].tolist()), expected[k])


@pytest.mark.parametrize(
    ("row", "error", "words"),
    [
        ({"size": 1.0}, DataError, "yet now missing"),
        ({**odd_rows()[0], "more": 1}, DataError, "more"),
        ({**odd_rows()[0], "size": "large"}, DataTypeError, "'size'"),
        ({**odd_rows()[0], "city": 3}, DataTypeError, "'city'"),
        ({**odd_rows()[0], "code": "a"}, DataTypeError, "'code'"),
        ({**odd_rows()[0], "age": -(2**63)}, DataError, "'age'"),
        ({**odd_rows()[0], "age": [1, 2]}, DataTypeError, "'age'|lists"),
        ([1.0, 2.0], DataError, "2 features"),
        (np.zeros((1, 6)), DataError, "one axis"),
        ("row", DataTypeError, "dict"),
        (pd.DataFrame([odd_rows()[0]]), DataTypeError, "DataFrame"),
    ],
)
def test_wrong_rows_are_named(row, error, words) -> None:
    booster = fitted("plain", "squared_error").booster_
    with pytest.raises(error, match=words):
        booster.predict_one(row)


def test_unknown_categories_may_be_an_error() -> None:
    X = pd.DataFrame({"city": ["Oslo", "Rome"] * 50})
    booster = train({"n_estimators": 3}, Dataset(X, [1.0, 0.0] * 50, unknown_category="error"))
    with pytest.raises(DataError, match="Atlantis"):
        booster.predict_one({"city": "Atlantis"})


def test_wrong_kinds() -> None:
    booster = fitted("plain", "squared_error").booster_
    with pytest.raises(ParameterError, match="probability"):
        booster.predict_one(odd_rows()[0], kind="probability")
    with pytest.raises(ParameterError, match="kind"):
        booster.predict_one(odd_rows()[0], kind="log")


def test_estimators_have_it_too() -> None:
    model = fitted("plain", "softmax")
    row = odd_rows()[0]
    frame = pd.DataFrame([row])
    assert model.predict_one(row) == model.predict(frame)[0]
    assert same(model.predict_one(row, kind="probability"), model.predict_proba(frame)[0])
    copy = pickle.loads(pickle.dumps(model))
    assert same(copy.predict_one(row, kind="raw"), model.predict_one(row, kind="raw"))


def test_many_threads_share_a_booster() -> None:
    booster = fitted("both", "softmax").booster_
    rows = odd_rows()
    expected = [booster.predict_one(row, kind="raw").tobytes() for row in rows]
    fresh = pickle.loads(pickle.dumps(booster))  # whose tables are made by the threads
    start = threading.Barrier(16)

    def ask(seed: int) -> bool:
        start.wait()
        order = np.random.default_rng(seed).permutation(len(rows) * 20) % len(rows)
        return all(fresh.predict_one(rows[k], kind="raw").tobytes() == expected[k] for k in order)

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(ask, range(16)))
    assert len(fresh._predictor.of_one_row._free) <= 16


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_forked_during_the_first_prediction_is_not_stuck(monkeypatch) -> None:
    # What a model computes once is being computed by a thread when the child is made.
    booster = fitted("plain", "squared_error").booster_
    expected = booster.predict_one(odd_rows()[0])
    fresh = pickle.loads(pickle.dumps(booster))
    inside, go_on = threading.Event(), threading.Event()
    find_splits = layout.find_splits

    def slowly(forest):
        if threading.current_thread() is not threading.main_thread():
            inside.set()
            go_on.wait(60)
        return find_splits(forest)

    monkeypatch.setattr(layout, "find_splits", slowly)
    thread = threading.Thread(target=fresh.predict_one, args=(odd_rows()[0],))
    thread.start()
    assert inside.wait(60)
    try:
        status = in_child(lambda: fresh.predict_one(odd_rows()[0]) == expected, 30.0)
    finally:
        go_on.set()
        thread.join()
    assert status == 0
