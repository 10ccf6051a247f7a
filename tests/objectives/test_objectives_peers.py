"""The same losses in LightGBM, XGBoost and scikit-learn are not better on real test data."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import huber
from sklearn import metrics

from hedgerow import HedgerowClassifier, HedgerowRegressor

ROUNDS, RATE, LEAVES = 60, 0.1, 15
EQUAL = {"n_estimators": ROUNDS, "learning_rate": RATE, "max_leaves": LEAVES,
         "early_stopping": False}  # fmt: skip
LIGHT = {"n_estimators": ROUNDS, "learning_rate": RATE, "num_leaves": LEAVES, "reg_lambda": 1.0,
         "min_child_samples": 20, "verbose": -1, "n_jobs": 1}  # fmt: skip


@pytest.fixture(scope="module")
def claims(shared_data):
    """Return policies with numbers of claims, amounts and exposure."""
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(shared_data("fremtpl2") / "data.parquet").to_pandas()
    # Every 40th policy, and with them every second one that had a claim.
    number = np.arange(len(table))
    paid = table["ClaimAmount"].to_numpy() > 0.0
    table = table[(number % 40 == 0) | (paid & (number % 2 == 0))]
    names = ["VehPower", "VehAge", "DrivAge", "BonusMalus", "Density", "Exposure"]
    X = table[names].to_numpy(np.float64)
    count = np.minimum(table["ClaimNb"].to_numpy(np.float64), 4.0)
    amount = np.minimum(table["ClaimAmount"].to_numpy(np.float64), 1e5) / 1000.0
    return X, count, amount


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
    ("objective", "score"),
    [
        ("poisson", metrics.mean_poisson_deviance),
        ("tweedie", lambda y, p: metrics.mean_tweedie_deviance(y, p, power=1.5)),
        ("gamma", metrics.mean_gamma_deviance),
    ],
)
def test_deviances_of_claims(claims, objective, score) -> None:
    X, count, amount = claims
    y = {"poisson": count, "tweedie": amount, "gamma": amount[amount > 0.0]}[objective]
    X = X[amount > 0.0] if objective == "gamma" else X
    X, y, X_test, y_test = halves(X, y)
    more = {"tweedie_variance_power": 1.5} if objective == "tweedie" else {}
    peer = lightgbm(objective, X, y, **more).predict(X_test)
    prediction = HedgerowRegressor(objective=objective, **EQUAL).fit(X, y).predict(X_test)
    assert score(y_test, prediction) <= 1.01 * score(y_test, peer)


@pytest.mark.slow
def test_poisson_of_scikit_learn(claims) -> None:
    from sklearn.ensemble import HistGradientBoostingRegressor

    X, y, X_test, y_test = halves(*claims[:2])
    peer = HistGradientBoostingRegressor(loss="poisson", max_iter=ROUNDS, max_leaf_nodes=LEAVES,
                                         l2_regularization=1.0, early_stopping=False)  # fmt: skip
    peer.fit(X, y)
    prediction = HedgerowRegressor(objective="poisson", **EQUAL).fit(X, y)
    scores = [metrics.mean_poisson_deviance(y_test, m.predict(X_test)) for m in (prediction, peer)]
    assert scores[0] == pytest.approx(scores[1], rel=0.01)


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
        ("poisson", "count:poisson", {}, {}, metrics.mean_poisson_deviance),
        ("gamma", "reg:gamma", {}, {}, metrics.mean_gamma_deviance),
        ("tweedie", "reg:tweedie", {}, {}, lambda y, p: metrics.mean_tweedie_deviance(
            y, p, power=1.5)),
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


def test_one_vs_all_of_lightgbm(houses) -> None:
    module = pytest.importorskip("lightgbm")
    X, y = houses
    X, y, X_test, y_test = halves(X, np.digitize(y, [1.5, 2.5]))
    peer = module.LGBMClassifier(objective="multiclassova", **LIGHT).fit(X, y)
    prediction = HedgerowClassifier(objective="one_vs_all", **EQUAL).fit(X, y)
    losses = [metrics.log_loss(y_test, m.predict_proba(X_test)) for m in (prediction, peer)]
    assert losses[0] <= 1.02 * losses[1]


def test_cox_and_aft_of_xgboost(shared_data) -> None:
    xgboost = pytest.importorskip("xgboost")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(shared_data("survival") / "support2.parquet").to_pandas()
    X = table.filter(like="num_").to_numpy(np.float64)[::3]
    time = table["time"].to_numpy(np.float64)[::3]
    event = table["event"].to_numpy()[::3].astype(bool)
    y = np.where(event, time, -time)
    X, y, X_test, y_test = halves(X, y)
    few = {"eta": RATE, "max_leaves": LEAVES, "max_depth": 0, "grow_policy": "lossguide",
           "nthread": 1}  # fmt: skip
    cox = HedgerowRegressor(objective="cox", **EQUAL).fit(X, y)
    theirs = xgboost.train({**few, "objective": "survival:cox"}, xgboost.DMatrix(X, y), ROUNDS)
    from hedgerow.metrics import METRICS

    concordance = METRICS["concordance"].function
    peer = concordance(y_test, theirs.predict(xgboost.DMatrix(X_test)).astype(float), None)
    assert cox.score(X_test, y_test) >= peer - 0.01
    data = xgboost.DMatrix(X)
    data.set_float_info("label_lower_bound", np.abs(y))
    data.set_float_info("label_upper_bound", np.where(y > 0, y, np.inf))
    theirs = xgboost.train({**few, "objective": "survival:aft",
                            "aft_loss_distribution_scale": 2.0}, data, ROUNDS)  # fmt: skip
    peer = concordance(y_test, -theirs.predict(xgboost.DMatrix(X_test)).astype(float), None)
    aft = HedgerowRegressor(objective="aft", aft_scale=2.0, **EQUAL).fit(X, y)
    assert aft.score(X_test, y_test) >= peer - 0.01
