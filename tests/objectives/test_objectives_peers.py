"""The same losses in LightGBM and XGBoost are not better on real test data."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import huber
from sklearn import metrics

from hedgerow import HedgerowRegressor

ROUNDS, RATE, LEAVES = 60, 0.1, 15
EQUAL = {"n_estimators": ROUNDS, "learning_rate": RATE, "max_leaves": LEAVES,
         "early_stopping": False}  # fmt: skip
LIGHT = {"n_estimators": ROUNDS, "learning_rate": RATE, "num_leaves": LEAVES, "reg_lambda": 1.0,
         "min_child_samples": 20, "verbose": -1, "n_jobs": 1}  # fmt: skip


@pytest.fixture(scope="module")
def houses(shared_data):
    """Return prices of houses, above 0."""
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(shared_data("california") / "data.parquet").to_pandas()
    table = table.select_dtypes("number")
    y = table["median_house_value"].to_numpy(np.float64)
    X = table.drop(columns=["median_house_value"]).to_numpy(np.float64)
    return X[::4], y[::4] / np.median(y) * 2.0


def halves(X, y):
    test = np.arange(len(y)) % 2 == 0
    return X[~test], y[~test], X[test], y[test]


def pinball(y, p, level):
    return metrics.mean_pinball_loss(y, p, alpha=level)


def lightgbm(objective, X, y, **more):
    module = pytest.importorskip("lightgbm")
    return module.LGBMRegressor(objective=objective, **LIGHT, **more).fit(X, y)


@pytest.mark.parametrize(
    ("objective", "peer", "more", "peers", "score"),
    [
        ("huber", "huber", {"delta": 0.5}, {"alpha": 0.5},
         lambda y, p: np.mean(huber(0.5, y - p))),
        ("fair", "fair", {"delta": 0.5, "leaf_estimation": "line_search"}, {"fair_c": 0.5},
         lambda y, p: np.mean(np.abs(y - p) / 2 - np.log1p(np.abs(y - p) / 0.5) / 4)),
        ("mape", "mape", {}, {}, metrics.mean_absolute_percentage_error),
        ("quantile", "quantile", {"quantile": 0.9}, {"alpha": 0.9},
         lambda y, p: pinball(y, p, 0.9)),
        ("cross_entropy", "cross_entropy", {}, {}, lambda y, p: -np.mean(
            y * np.log(p) + (1 - y) * np.log1p(-p))),
    ],
)  # fmt: skip
def test_losses_of_lightgbm(houses, objective, peer, more, peers, score) -> None:
    X, y = houses
    y = np.clip(y / 10.0, 0.01, 0.99) if objective == "cross_entropy" else np.maximum(y, 1.0)
    X, y, X_test, y_test = halves(X, y)
    prediction = HedgerowRegressor(objective=objective, **EQUAL, **more).fit(X, y).predict(X_test)
    theirs = lightgbm(peer, X, y, **peers).predict(X_test)
    assert score(y_test, prediction) <= 1.02 * score(y_test, theirs)


@pytest.mark.parametrize(
    ("objective", "peer", "more", "peers", "score"),
    [
        ("pseudo_huber", "reg:pseudohubererror", {"delta": 0.5}, {"huber_slope": 0.5},
         lambda y, p: np.mean(0.25 * (np.sqrt(1 + ((y - p) / 0.5) ** 2) - 1))),
        ("squared_log_error", "reg:squaredlogerror", {}, {}, metrics.mean_squared_log_error),
    ],
)  # fmt: skip
def test_losses_of_xgboost(houses, objective, peer, more, peers, score) -> None:
    xgboost = pytest.importorskip("xgboost")
    X, y, X_test, y_test = halves(*houses)
    model = xgboost.XGBRegressor(objective=peer, n_estimators=ROUNDS, learning_rate=RATE,
                                 max_leaves=LEAVES, max_depth=0, grow_policy="lossguide",
                                 min_child_weight=1e-3, n_jobs=1, **peers).fit(X, y)  # fmt: skip
    prediction = HedgerowRegressor(objective=objective, **EQUAL, **more).fit(X, y).predict(X_test)
    assert score(y_test, prediction) <= 1.02 * score(
        y_test, np.maximum(model.predict(X_test), 1e-6)
    )
