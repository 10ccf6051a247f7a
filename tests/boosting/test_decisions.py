"""What decides the choices of a fit, and what does not."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from hedgerow import (
    Dataset,
    HedgerowClassifier,
    HedgerowRanker,
    HedgerowRegressor,
    cross_fit,
    train,
)
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.validation.folds import divided
from hedgerow.data import read_any
from tests.helpers.examples import examples


def slow(*cases: tuple[Any, ...]) -> list[Any]:
    """Mark cases as slow."""
    return [pytest.param(*case, marks=pytest.mark.slow) for case in cases]


def frame_of(rng: np.random.Generator, n_rows: int, n_levels: int = 60) -> pd.DataFrame:
    """Return two columns of numbers and one of categories."""
    town = pd.Categorical([f"t{k}" for k in rng.integers(0, n_levels, n_rows)])
    return pd.DataFrame({"size": rng.normal(size=n_rows), "age": rng.random(n_rows), "town": town})


def strange_frame(n_rows: int) -> pd.DataFrame:
    """Return rows with huge numbers, and categories that no other row has."""
    town = pd.Categorical([f"z{k}" for k in range(n_rows)])
    return pd.DataFrame(
        {"size": np.full(n_rows, 1e9), "age": np.arange(n_rows) - 1e6, "town": town}
    )


# -- rows of weight 0 ------------------------------------------------------------------------


class Rows(NamedTuple):
    """Arguments of a fit: the table, the target, and one value per row by name."""

    X: Any
    y: Any
    more: dict[str, Any]


def numbers(n_rows: int) -> Rows:
    X = frame_of(np.random.default_rng(n_rows), n_rows)
    y = X["size"] + X["age"] ** 2 + np.random.default_rng(1).normal(size=n_rows)
    return Rows(X, y.to_numpy(), {})


def classes(n_rows: int) -> Rows:
    X, y, _ = numbers(n_rows)
    return Rows(X, np.digitize(y, [0.0, 0.8]), {})


def strange(n_rows: int, name: str = "") -> Rows:
    more = {
        "groups": np.arange(n_rows) % 2 + 1_000,
        "qid": np.arange(n_rows) // 2 + 1_000,
        "offset": np.full(n_rows, 1e6),
    }
    return Rows(strange_frame(n_rows), np.arange(n_rows) + 1e5, {name: more[name]} if name else {})


def sparse_rows(n_rows: int) -> Rows:
    X = sparse.random_array((n_rows, 8), density=0.3, rng=np.random.default_rng(0), format="csr")
    return Rows(X, X.sum(axis=1) + np.random.default_rng(1).normal(size=n_rows), {})


def joined(rows: Rows, others: Rows) -> Rows:
    """Return all rows; the others have weight 0."""
    n_rows, n_others = len(rows.y), len(others.y)
    if sparse.issparse(rows.X):
        X = sparse.vstack([rows.X, np.full((n_others, rows.X.shape[1]), 7e5)]).tocsr()
    else:
        X = pd.concat([rows.X, others.X], ignore_index=True)
        X["town"] = pd.Categorical(X["town"])
    more = {name: np.concatenate([v, others.more[name]]) for name, v in rows.more.items()}
    more["sample_weight"] = np.repeat([1.0, 0.0], [n_rows, n_others])
    return Rows(X, np.concatenate([rows.y, others.y]), more)


def positive(y: np.ndarray, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Own loss for numbers from -10 to 10."""
    assert np.abs(y).max() < 10.0
    return raw - y, np.ones_like(y)


CASES: dict[str, tuple[Any, Rows]] = {
    "levels": (HedgerowRegressor(), numbers(200)),
    "classes": (HedgerowClassifier(), classes(150)),
    "tiny": (HedgerowRegressor(), numbers(90)),
    "tiny, rounds": (HedgerowRegressor(n_estimators=5), numbers(90)),
    "sparse": (HedgerowRegressor(), sparse_rows(200)),
    "no split": (HedgerowRegressor(n_estimators=3), numbers(39)),
    "rows held out": (HedgerowRegressor(n_estimators=9, early_stopping=True), numbers(150)),
    "groups": (HedgerowRegressor(), numbers(150)._replace(more={"groups": np.arange(150)})),
    "queries": (
        HedgerowRanker(n_estimators=5),
        Rows(*numbers(60)[:1], np.arange(60) % 3, {"qid": np.arange(60)}),
    ),
    "offset": (HedgerowRegressor(), numbers(150)._replace(more={"offset": np.ones(150)})),
    "own loss": (HedgerowRegressor(objective=positive, n_estimators=5), numbers(150)),
}  # fmt: skip


def fitted(model: Any, rows: Rows) -> tuple[bytes, list[str]]:
    """Return the bytes of a model, and the warnings of its fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(rows.X, rows.y, **rows.more)
    return model.booster_.to_bytes(), [str(warning.message) for warning in caught]


@pytest.mark.parametrize("name", CASES)
def test_rows_of_weight_zero_decide_nothing(name: str) -> None:
    model, rows = CASES[name]
    others = strange(30, *rows.more)
    if isinstance(model, HedgerowClassifier):
        others = others._replace(y=others.y.astype(int))
    assert fitted(model, joined(rows, others)) == fitted(model, rows)


# -- rounds ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["estimator", "train", "batches", "ranking", "dart"])
def test_a_given_number_of_rounds_is_trained_on_all_rows(kind: str) -> None:
    """No later round helps, so any hold-out would stop the fit."""
    n_rows = 12_000
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 2, (n_rows, 2)).astype(float), rng.integers(0, 2, n_rows).astype(float)
    params: dict[str, Any] = {"n_estimators": 9, "patience": 1, "learning_rate": 1.0}
    if kind == "train":
        booster = train(params, Dataset(X, y))
    elif kind == "batches":
        booster = train(params, Dataset.from_batches(lambda: iter([(X, y)])))
    elif kind == "ranking":
        booster = HedgerowRanker(**params).fit(X, y, qid=np.arange(n_rows) // 20).booster_
    else:
        more = {"boosting": "dart"} if kind == "dart" else {}
        booster = HedgerowRegressor(**params, **more).fit(X, y).booster_
    assert (booster.num_rounds, booster.model.training["n_rows"]) == (9, n_rows)
    assert booster.stopped_by == "rounds"


# -- units, monotone transformations, names, kinds of tables ----------------------------------


def table_of(seed: int, n_rows: int, copies: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return columns of few values, some 0 and some missing, and a target; maybe with copies."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.poisson(1.0, n_rows), rng.integers(0, 4, (n_rows, 2))]).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nansum(X[:, :2], axis=1) + (0.0 if copies else rng.normal(size=n_rows))
    row = rng.integers(0, n_rows, n_rows // 4)
    return (np.concatenate([X, X[row]]), np.concatenate([y, y[row]])) if copies else (X, y)


PLAIN_TREES: dict[str, Any] = {"linear_leaves": False, "feature_crosses": None}
"""Without values that are computed with: lines and crosses depend on units."""


def folds_of(X: Any, y: np.ndarray, seed: int) -> list[tuple[list[int], list[int], Any]]:
    """Return the rows of the folds, and their weights."""
    found = divided(Sample(read_any(X), y), 5, True, seed)[0]
    return [(f.train.tolist(), f.test.tolist(), f.test_weight is None) for f in found]


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 2**20), st.sampled_from([30, 200]), st.booleans())
def test_units_and_kinds_of_tables_draw_no_folds(seed: int, n_rows: int, copies: bool) -> None:
    X, y = table_of(seed, n_rows, copies)
    y = np.minimum(np.round(np.abs(y)), 3.0)
    folds = folds_of(X, y, seed)
    for changed in (2.0 * X, X / 3.0, np.exp(X), np.arctan(X - 5.0), -X, X.astype(np.float32)):
        assert folds_of(changed, y, seed) == folds
    assert folds_of(pd.DataFrame(X, columns=list("zyx")), y, seed) == folds
    assert folds_of(sparse.csr_array(X), y, seed) == folds
    assert folds_of(sparse.csr_array(np.exp(X)), y, seed) == folds


@pytest.mark.parametrize("copies", [True, False])
def test_units_and_names_choose_nothing(copies: bool) -> None:
    X, y = table_of(3, 160, copies)
    model = HedgerowRegressor(**PLAIN_TREES).fit(X, y)
    for changed in (np.exp(X), pd.DataFrame(X, columns=["town", "1", "x0"])):
        other = HedgerowRegressor(**PLAIN_TREES).fit(changed, y)
        assert other.chosen_params_ == model.chosen_params_
        assert (other.predict(changed) == model.predict(X)).all()


def linked(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return columns with many zeros, and a target of products and lines of them."""
    rng = np.random.default_rng(n_rows)
    X = np.where(rng.random((n_rows, 4)) < 0.5, rng.integers(1, 9, (n_rows, 4)), 0.0)
    y = X[:, 0] * X[:, 1] + 3.0 * X[:, 2] + 0.3 * rng.normal(size=n_rows)
    return X, y


TASKS = ["numbers", "classes", "two targets", "lists"]


@pytest.mark.parametrize(
    ("task", "n_rows"),
    [
        *(("numbers", 320), ("classes", 60), ("two targets", 60), ("lists", 60)),
        *slow(*((task, 3_100) for task in TASKS)),
    ],
)
def test_the_kind_of_a_table_decides_nothing(task: str, n_rows: int) -> None:
    X, y = linked(n_rows)
    qid = {"qid": np.arange(n_rows) // 12} if task == "lists" else {}
    kind = {"classes": HedgerowClassifier, "lists": HedgerowRanker}.get(task, HedgerowRegressor)
    if task == "two targets":
        y = np.column_stack([y, X[:, 3]])
    elif task != "numbers":
        y = np.digitize(y, [4.0, 20.0])
    dense = kind().fit(X, y, **qid)
    found = kind().fit(sparse.csr_array(X), y, **qid)
    assert found.chosen_params_ == dense.chosen_params_
    assert found.booster_.to_bytes() == dense.booster_.to_bytes()
    for rows in (X, sparse.csr_array(X)):
        assert (found.predict(rows) == dense.predict(X)).all()


@pytest.mark.parametrize("copies", [True, False])
@pytest.mark.parametrize(
    "more", [{}, {"linear_leaves": True}, {"feature_crosses": [(0, 1, "ratio"), (2, 1, "product")]}]
)
def test_files_of_every_kind_give_one_model(more: dict[str, Any], copies: bool) -> None:
    X, y = table_of(5, 240, copies)
    params = {"early_stopping": "cv", "n_estimators": 12, **more}
    half = len(y) // 2

    def batches(kind: Any) -> Dataset:
        parts = [(kind(X[:half]), y[:half]), (kind(X[half:]), y[half:])]
        return Dataset.from_batches(lambda: iter(parts))

    kinds = [np.array, sparse.csr_array]
    datasets = [Dataset(kind(X), y) for kind in kinds] + [batches(kind) for kind in kinds]
    one, *others = (train(params, data).to_bytes() for data in datasets)
    assert others == [one] * 3


@pytest.mark.parametrize(
    "more",
    [
        {"feature_crosses": [(0, 1, "product"), (2, 1, "ratio")], "linear_leaves": False},
        {"feature_crosses": [(0, 3, "difference")], "linear_leaves": True},
    ],
)
def test_sparse_rows_of_a_model_with_crosses(more: dict[str, Any]) -> None:
    X, y = linked(300)
    rows = sparse.csr_array(X)
    model = HedgerowRegressor(n_estimators=15, **more).fit(X, y)
    booster = model.booster_
    for background in ({}, {"background": X[:9]}, {"interactions": True}):
        found = booster.explain(rows[:20], **background)
        assert (found.values == booster.explain(X[:20], **background).values).all()
    assert (model.apply(rows) == model.apply(X)).all()
    if not more["linear_leaves"]:
        assert booster.refit(rows, y).to_bytes() == booster.refit(X, y).to_bytes()
    assert booster.eval(Dataset(rows, y)) == booster.eval(Dataset(X, y))
    one, other = (cross_fit(model, table, y) for table in (X, rows))
    assert (one.oof_prediction == other.oof_prediction).all()
    watched = HedgerowRegressor(n_estimators=15, **more)
    with_val = [watched.fit(X, y, X_val=Z, y_val=y).evals_result_ for Z in (X, rows)]
    assert with_val[0] == with_val[1]
