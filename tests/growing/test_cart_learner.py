"""The exact learner with one round, rate 1 and no penalty grows the trees of CART.

With g = prediction - target and h = weight, the gain of a split is the decrease of the squared
error, and for targets 0 and 1 half of the decrease of the Gini impurity.  Two loops that share no
kernel must find the same trees (docs/decisions.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow import CARTClassifier, CARTRegressor, HedgerowRegressor
from tests.helpers.examples import examples


def learner(depth: int, leaf: int, monotone: Any = None) -> HedgerowRegressor:
    return HedgerowRegressor(
        n_estimators=1,
        learning_rate=1.0,
        tree_method="exact",
        grow_policy="depthwise",
        max_leaves=2**depth,
        max_depth=depth,
        min_samples_leaf=leaf,
        reg_lambda=0.0,
        min_child_weight=0.0,
        linear_leaves=False,
        early_stopping=False,
        monotone_constraints=monotone,
    )


def table(seed: int, n_rows: int, missing: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4)).round(2)
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nan_to_num(X[:, 0]) * 2.0 - np.nan_to_num(X[:, 1]) ** 2 + rng.normal(size=n_rows) / 3
    return X, y


@settings(max_examples=examples(30), deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_rows=st.integers(20, 400),
    depth=st.integers(1, 7),
    leaf=st.integers(1, 9),
    weighted=st.booleans(),
    missing=st.booleans(),
)
def test_squared_error(
    seed: int, n_rows: int, depth: int, leaf: int, weighted: bool, missing: bool
) -> None:
    X, y = table(seed, n_rows, missing)
    weight = np.random.default_rng(seed).integers(1, 4, n_rows) / 2.0 if weighted else None
    cart = CARTRegressor(max_depth=depth, min_samples_leaf=leaf).fit(X, y, weight)
    found = learner(depth, leaf).fit(X, y, weight)
    assert len(found.booster_.model.forest.feature) == len(cart.tree_.feature)
    np.testing.assert_allclose(found.predict(X), cart.predict(X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_gini(seed: int) -> None:
    X, y = table(seed, 300, missing=seed % 2 == 1)
    y = (y > np.median(y)).astype(float)
    cart = CARTClassifier(max_depth=4, min_samples_leaf=5).fit(X, y)
    found = learner(4, 5).fit(X, y)
    chance = cart.predict_proba(X)[:, 1]
    np.testing.assert_allclose(found.predict(X), chance, rtol=1e-6, atol=1e-6)
