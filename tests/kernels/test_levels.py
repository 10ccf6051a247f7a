"""Symmetric trees: the engine of codes has the bits of the other engines."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hedgerow import Booster, HedgerowRegressor, load
from hedgerow.boosting.loop.setup.resolved import ALL_OUTPUTS
from hedgerow.model.engine_tables import MOST_LEVELS
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
    return np.nan_to_num(X[:, 0]) * (X[:, 3] > 1) + 0.1 * rng.normal(size=len(X))


def read(model: Any, pool: Any) -> Booster:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json", pool=pool)
        return load(path)


def fitted(pool: Any, depth: int, kind: Any = catboost.CatBoostRegressor) -> Booster:
    params = {"iterations": 12, "depth": depth, "verbose": 0, "allow_writing_files": False}
    return read(kind(one_hot_max_size=10, **params).fit(pool), pool)


def uses_levels(booster: Booster) -> bool:
    return booster._predictor.tables.levels64 is not None


def predict_one_by_one(booster: Booster, values: Any) -> np.ndarray:
    """Return raw scores, one row at a time, by another engine."""
    part = values.iloc if isinstance(values, pd.DataFrame) else values
    rows = [booster.predict(part[k : k + 1], kind="raw") for k in range(len(values))]
    return np.concatenate(rows)


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 6, MOST_LEVELS])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_codes_give_the_scores_of_the_walk(depth, dtype) -> None:
    X = table().astype(dtype)
    booster = fitted(catboost.Pool(X, target(X)), depth)
    assert uses_levels(booster)
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
    symmetric = {"grow_policy": "symmetric", "max_depth": 5, "min_samples_leaf": 1}
    params = {"linear_leaves": leaves == "lines"}
    if leaves != "lines":
        params["multi_strategy"] = ALL_OUTPUTS
    params |= {"n_estimators": 8, "early_stopping": False, **symmetric}
    booster = HedgerowRegressor(**params).fit(X, y).booster_
    assert uses_levels(booster)
    odd = np.where(np.random.default_rng(2).random(X.shape) < 0.1, np.inf, X * 1.5)
    found = booster.predict(odd, kind="raw")
    assert found.tobytes() == predict_one_by_one(booster, odd).tobytes()


@pytest.mark.parametrize("kind", [catboost.CatBoostRegressor, catboost.CatBoostClassifier])
def test_categories_and_classes(kind) -> None:
    X = table()
    city = np.array(["p", "q", "r", "s"])[X[:, 3].astype(int)]
    frame = pd.DataFrame(X[:, :3], columns=list("abc")).assign(city=city)
    y = np.digitize(target(X), [-0.2, 0.2])
    booster = fitted(catboost.Pool(frame, y, cat_features=["city"]), 5, kind)
    if kind is catboost.CatBoostRegressor:
        assert uses_levels(booster)
    unseen = frame.head(300).assign(city=np.resize(["p", "z", None, "s"], 300))
    for rows in (frame.head(300), unseen):
        found = booster.predict(rows, kind="raw")
        assert found.tobytes() == predict_one_by_one(booster, rows).tobytes()


def test_a_leaf_above_the_last_level_has_all_codes_below_it() -> None:
    X = np.nan_to_num(table())
    model = HedgerowRegressor(
        n_estimators=5, grow_policy="symmetric", max_depth=2, min_samples_leaf=150,
        early_stopping=False, linear_leaves=False, random_state=0,
    )  # fmt: skip
    booster = model.fit(X, target(X)).booster_
    assert uses_levels(booster)
    leaves = np.diff(booster.model.forest.tree_start)
    assert leaves.min() < 7  # nodes of a full tree of two levels
    found = booster.predict(X, kind="raw")
    assert found.tobytes() == predict_one_by_one(booster, X).tobytes()


def test_other_trees_are_left_to_other_engines() -> None:
    X = table()
    params = {"n_estimators": 5, "early_stopping": False, "random_state": 0}
    leafwise = HedgerowRegressor(linear_leaves=False, **params).fit(X, target(X))
    assert not uses_levels(leafwise.booster_)
    booster = fitted(catboost.Pool(X, target(X)), MOST_LEVELS + 1)
    assert not uses_levels(booster)
    lines = HedgerowRegressor(linear_leaves=True, **params).fit(X, target(X)).booster_
    assert lines.model.forest.slopes is not None
    assert not uses_levels(lines)
    constant = HedgerowRegressor(**params).fit(X, np.ones(len(X))).booster_
    assert constant.predict(np.tile(X, (2, 1))).tolist() == [1.0] * (2 * len(X))
