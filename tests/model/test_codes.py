"""Symmetric trees: the table of codes gives the bits of the walk."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hedgerow import Booster, HedgerowRegressor, load
from hedgerow.boosting.loop.setup.resolved import ALL_OUTPUTS
from hedgerow.model.forest import blended_forests
from hedgerow.model.mask_tables import MOST_CODED
from hedgerow.model.predict import Predictor

catboost = pytest.importorskip("catboost")


def table(n_rows: int = 700) -> np.ndarray:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 6))
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 3] = rng.integers(0, 4, n_rows)
    return X


def target(X: np.ndarray) -> np.ndarray:
    rng = np.random.default_rng(1)
    return np.nan_to_num(X[:, 0] * X[:, 1]) * (X[:, 3] > 1) + rng.normal(size=len(X))


def read(model: Any, pool: Any) -> Booster:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json", pool=pool)
        return load(path)


def fitted(pool: Any, depth: int, kind: Any = catboost.CatBoostRegressor) -> Booster:
    params = {"iterations": 12, "depth": depth, "verbose": 0, "allow_writing_files": False}
    return read(kind(one_hot_max_size=10, **params).fit(pool), pool)


def coded(booster: Booster) -> set[bool]:
    """Return whether trees of more than 32 leaves are coded."""
    forest = booster.model.forest
    is_coded = booster._predictor.tables._mask_tables[0].is_coded
    return set((is_coded == 1)[np.diff(forest.tree_start) > 63].tolist())


def predict_one_by_one(booster: Booster, values: Any) -> np.ndarray:
    """Return raw scores, one row at a time, by another engine."""
    part = values.iloc if isinstance(values, pd.DataFrame) else values
    rows = [booster.predict(part[k : k + 1], kind="raw") for k in range(len(values))]
    return np.concatenate(rows)


@pytest.mark.parametrize("depth", [1, 2, 5, 6, MOST_CODED])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_codes_give_the_scores_of_the_walk(depth, dtype) -> None:
    X = table().astype(dtype)
    booster = fitted(catboost.Pool(X, target(X)), depth)
    assert coded(booster) == ({True} if depth > 5 else set())
    odd = np.vstack([X[:301], np.full((1, 6), np.inf), np.full((1, 6), -np.inf)]).astype(dtype)
    for values in (odd, np.asfortranarray(odd), odd[::-1], np.tile(odd, (3, 1))[5:]):
        found = booster.predict(values, kind="raw")
        assert found.tobytes() == predict_one_by_one(booster, values).tobytes()
    some = booster._predictor.raw_scores(odd, 2, 3, 8)
    by_tree = booster._predictor.raw_scores(odd, 1, 3, 3)
    for number in range(3, 8):
        only = Predictor(booster.model.forest.tree(number), booster.model.schema.kinds)
        only.add_scores(odd, by_tree)
    assert some.tobytes() == by_tree.tobytes()


@pytest.mark.parametrize("leaves", ["lines", "vectors"])
@pytest.mark.parametrize("n_rows", [60, 301, 1_000])
def test_leaves_with_lines_and_vectors(leaves, n_rows) -> None:
    X = table(n_rows)
    y = target(X) if leaves == "lines" else np.column_stack([target(X)] + 9 * [X[:, 3]])
    symmetric = {"grow_policy": "symmetric", "max_depth": 7, "max_leaves": None}
    symmetric["min_samples_leaf"] = 1
    params = {"linear_leaves": leaves == "lines"}
    if leaves != "lines":
        params["multi_strategy"] = ALL_OUTPUTS
    params |= {"n_estimators": 8, "early_stopping": False, **symmetric}
    booster = HedgerowRegressor(**params).fit(X, y).booster_
    if n_rows == 1_000:
        assert coded(booster) == {True}
    odd = np.where(np.random.default_rng(2).random(X.shape) < 0.1, np.inf, X * 1.5)
    found = booster.predict(odd, kind="raw")
    assert found.tobytes() == predict_one_by_one(booster, odd).tobytes()


@pytest.mark.parametrize("kind", [catboost.CatBoostRegressor, catboost.CatBoostClassifier])
def test_categories_and_classes(kind) -> None:
    X = table()
    city = np.array(["p", "q", "r", "s"])[X[:, 3].astype(int)]
    frame = pd.DataFrame(X[:, :3], columns=list("abc")).assign(city=city)
    y = np.digitize(target(X), [-0.2, 0.2])
    booster = fitted(catboost.Pool(frame, y, cat_features=["city"]), 6, kind)
    if kind is catboost.CatBoostRegressor:
        assert coded(booster) == {True}
    unseen = frame.head(300).assign(city=np.resize(["p", "z", None, "s"], 300))
    for rows in (frame.head(300), unseen):
        found = booster.predict(rows, kind="raw")
        assert found.tobytes() == predict_one_by_one(booster, rows).tobytes()


def test_other_trees_have_parts() -> None:
    X = table()
    params = {"n_estimators": 5, "early_stopping": False, "random_state": 0}
    params |= {"min_samples_leaf": 1, "linear_leaves": False}
    leafwise = HedgerowRegressor(max_leaves=80, **params).fit(X, target(X))
    assert coded(leafwise.booster_) == {False}
    assert False in coded(fitted(catboost.Pool(X, target(X)), MOST_CODED + 1))
    constant = HedgerowRegressor(**params).fit(X, np.ones(len(X))).booster_
    assert constant.predict(np.tile(X, (2, 1))).tolist() == [1.0] * (2 * len(X))


def test_members_of_a_blend_mix_all_kinds_of_trees() -> None:
    """Trees with lines stand beside trees of plain values and symmetric ones."""
    X = np.nan_to_num(table())
    params = {"n_estimators": 9, "early_stopping": False, "min_samples_leaf": 1}
    parts = [
        {"linear_leaves": True, "max_leaves": 40, "min_samples_leaf": 5},
        {"linear_leaves": False},
        {"grow_policy": "symmetric", "max_depth": 7, "max_leaves": None, "linear_leaves": False},
    ]
    fits = [HedgerowRegressor(**(params | part)).fit(X, target(X)).booster_ for part in parts]
    forest = blended_forests([fit.model.forest for fit in fits], [0.5, 0.3, 0.2])
    predictor = Predictor(forest, fits[0].model.schema.kinds)
    assert predictor.tables.contents.is_linear.mean() == pytest.approx(1 / 3)
    assert np.unique(predictor.tables._mask_tables[0].is_coded).tolist() == [0, 1]
    odd = np.where(np.random.default_rng(2).random(X.shape) < 0.1, np.inf, X * 1.5)
    found, by_tree = predictor.raw_scores(odd), predictor.raw_scores(odd, 1, 0, 0)
    for number in range(forest.n_trees):
        Predictor(forest.tree(number), fits[0].model.schema.kinds).add_scores(odd, by_tree)
    rows = [predictor.raw_scores(odd[k : k + 1]) for k in range(len(odd))]
    single = [predictor.of_one_row.of_floats(odd[k : k + 1]) for k in range(len(odd))]
    for other in (by_tree, np.hstack(rows), np.hstack(single)):
        assert found.tobytes() == other.tobytes()
