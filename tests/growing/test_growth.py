"""Random cuts, smoothed leaves, column penalties and weights."""

from __future__ import annotations

import numpy as np
import pytest

from hedgerow import HedgerowRegressor, ParameterError
from hedgerow.growing.core.setup import drawn_columns
from hedgerow.io import model_to_bytes
from hedgerow.params import BoostParams

FEW = {"n_estimators": 6, "early_stopping": False}


def table_of(n_rows=400, n_features=4, missing=0.15, seed=0):
    """Return columns of few integers, so that each value has a bin, and a target without ties."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 12, size=(n_rows, n_features)).astype(float)
    y = X[:, 0] + np.sin(X[:, 1]) * X[:, 2] + rng.normal(size=n_rows)
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


# -- a tree by the definitions -----------------------------------------------------------


def test_smoothing_in_sorted_columns_is_that_of_bins() -> None:
    X, y = table_of()
    few = {**FEW, "path_smooth": 30.0, "monotone_constraints": {"x1": 1}, "monotone_penalty": 0.4}
    models = [HedgerowRegressor(tree_method=way, **few).fit(X, y) for way in ("hist", "exact")]
    np.testing.assert_allclose(*(model.predict(X) for model in models), rtol=1e-6)


def test_categories_are_divided_at_random() -> None:
    rng = np.random.default_rng(2)
    town = rng.integers(0, 9, 900)
    kind = rng.integers(0, 3, 900)
    y = np.array([3.0, -1, 2, 0, 5, -4, 1, 2, 6])[town] + kind + rng.normal(size=900)
    X = np.column_stack([town, kind]).astype(float)
    few = {
        **FEW,
        "categorical_features": [0, 1],
        "min_data_per_group": 5,
        "target_statistics": False,
    }
    plain = HedgerowRegressor(**few).fit(X, y)
    models = [HedgerowRegressor(extra_trees=True, random_state=s, **few).fit(X, y) for s in (0, 1)]
    assert model_bytes(models[0]) != model_bytes(models[1]) != model_bytes(plain)
    for model in models:
        assert 0.3 < model.score(X, y) < plain.score(X, y)


# -- as in LightGBM ------------------------------------------------------------------------


def fit_lightgbm(X, y, rounds=3, **more):
    lightgbm = pytest.importorskip("lightgbm")
    params = {
        "objective": "regression", "learning_rate": 0.5, "verbose": -1, "num_threads": 1,
        "min_sum_hessian_in_leaf": 0, "min_data_in_bin": 1, "lambda_l2": 1.0, **more,
    }  # fmt: skip
    data = lightgbm.Dataset(X, y, params={"verbose": -1, "min_data_in_bin": 1})
    return lightgbm.train(params, data, num_boost_round=rounds).predict(X)


def fit_hedgerow(X, y, rounds=3, **more):
    return HedgerowRegressor(
        n_estimators=rounds, learning_rate=0.5, reg_lambda=1.0, min_child_weight=0.0,
        early_stopping=False, **more,
    ).fit(X, y).predict(X)  # fmt: skip


def test_smoothing_as_in_lightgbm() -> None:
    X, y = table_of(n_rows=1500, missing=0.0)
    for strength in (1.0, 20.0, 60.0):
        theirs = fit_lightgbm(X, y, max_depth=3, num_leaves=8, path_smooth=strength)
        ours = fit_hedgerow(X, y, max_depth=3, max_leaves=8, path_smooth=strength)
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_penalty_as_in_lightgbm() -> None:
    X, y = table_of(n_rows=1500, missing=0.0)
    signs = [1, 0, 0, -1]
    for penalty in (0.3, 1.0, 1.7, 2.0):
        theirs = fit_lightgbm(
            X, y, num_leaves=8, monotone_constraints=signs, monotone_penalty=penalty
        )
        ours = fit_hedgerow(
            X, y, max_leaves=8, monotone_constraints=signs, monotone_penalty=penalty
        )
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


# -- weights of columns ---------------------------------------------------------------------


def test_columns_are_drawn_by_their_weights() -> None:
    """A column of weight w is drawn first with probability w / sum of all weights."""
    weights = (1.0, 2.0, 0.0, 5.0)
    params = BoostParams(colsample_bytree=0.25, feature_weights=weights)
    drawn = [int(drawn_columns(params, tree, 4)[0]) for tree in range(4000)]
    shares = np.bincount(drawn, minlength=4) / 4000
    np.testing.assert_allclose(shares, np.array(weights) / 8.0, atol=0.03)
    all_but_one = BoostParams(colsample_bytree=0.99, feature_weights=weights)
    assert drawn_columns(all_but_one, 0, 4).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("where", ["colsample_bytree", "colsample_bylevel", "colsample_bynode"])
@pytest.mark.parametrize("policy", ["leafwise", "symmetric"])
def test_columns_of_more_weight_split_more_often(where, policy) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(500, 6))
    y = rng.normal(size=500)
    weights = {"x0": 20.0, "x1": 0.0}
    few = {"n_estimators": 120, "early_stopping": False, "max_depth": 3, where: 0.2,
           "grow_policy": policy}  # fmt: skip
    model = HedgerowRegressor(feature_weights=weights, **few).fit(X, y)
    counts = model.booster_.feature_importance("split")
    assert counts[1] == 0
    assert counts[0] > 2 * counts[2:].max()
    again = HedgerowRegressor(feature_weights=[20, 0, 1, 1, 1, 1], **few).fit(X, y)
    assert model_bytes(again) == model_bytes(model)


def test_exact_growth_and_vectors_draw_by_weights_too() -> None:
    X, y = table_of(n_features=6)
    few = {**FEW, "n_estimators": 30, "colsample_bynode": 0.3, "feature_weights": {"x1": 0.0}}
    exact = HedgerowRegressor(tree_method="exact", **few).fit(X, y)
    vectors = HedgerowRegressor(multi_strategy="multi_output_tree", **few).fit(X, np.c_[y, y**2])
    for model in (exact, vectors):
        counts = model.booster_.feature_importance("split")
        assert counts[1] == 0 < counts[0]


# -- promises ---------------------------------------------------------------------------------


def model_bytes(model) -> bytes:
    return model_to_bytes(model.booster_.model)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"extra_trees": 1}, "extra_trees must be True or False"),
        ({"path_smooth": -1.0}, "path_smooth must be a number at least 0"),
        ({"monotone_penalty": 1.0}, "monotone_penalty=1.0 has no effect.*monotone_constraints"),
        ({"feature_weights": [1, 2, 3, 4]}, "no effect here.*colsample_bytree"),
        ({"feature_weights": [1, 2], "colsample_bytree": 0.5}, "2 values for 4 columns"),
        ({"feature_weights": {"x0": -1}, "colsample_bytree": 0.5}, "at least 0; got -1"),
        ({"feature_weights": [0, 0, 0, 0], "colsample_bytree": 0.5}, "none can be drawn"),
        ({"extra_trees": True, "tree_method": "exact"}, "extra_trees.*tree_method='hist'"),
        ({"path_smooth": 1.0, "linear_leaves": True}, "path_smooth"),
        ({"path_smooth": 1.0, "objective": "absolute_error"}, "path_smooth.*line search"),
    ],
)
def test_what_has_no_effect_is_refused(given, words) -> None:
    X, y = table_of()
    with pytest.raises(ParameterError, match=words):
        HedgerowRegressor(**FEW, **given).fit(X, y)


@pytest.mark.parametrize("given", [{"linear_leaves": True}, {"monotone_constraints": {"x1": 1}}])
def test_automatic_trees_with_lines_or_constraints_have_one_output(given) -> None:
    X, y = table_of()
    model = HedgerowRegressor(**FEW, **given).fit(X, np.c_[y, -y])
    assert model.booster_.model.forest.vectors is None
