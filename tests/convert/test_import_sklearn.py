"""scikit-learn models: the same leaves, and the same scores to the last bit where possible."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from sklearn import ensemble, svm, tree

import hedgerow
from hedgerow import ParameterError
from tests.helpers.foreign_models import adult, california, rows_near_cuts


@pytest.fixture(scope="module")
def numbers(shared_data):
    return california(shared_data("california"), 2000)


def few(y):
    return np.array(["low", "middle", "high"], dtype=object)[pd.qcut(y, 3, labels=False)]


TREES = [
    tree.DecisionTreeRegressor(max_depth=8, random_state=0),
    tree.ExtraTreeRegressor(max_depth=8, random_state=0),
    ensemble.RandomForestRegressor(15, random_state=0),
    ensemble.ExtraTreesRegressor(15, random_state=0),
]


@pytest.mark.parametrize("model", TREES, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("gaps", [False, True])
def test_trees_and_forests(numbers, model, gaps) -> None:
    X, y = numbers
    X = X if gaps else np.nan_to_num(X)
    model.fit(X, y)
    booster = hedgerow.from_sklearn(model)
    rows = rows_near_cuts(booster, narrow=True)
    rows = rows if gaps else np.nan_to_num(rows, nan=1.0)
    leaves = model.apply(rows).reshape(len(rows), -1)
    np.testing.assert_array_equal(booster.predict(rows, kind="leaf"), leaves)
    np.testing.assert_allclose(booster.predict(rows), model.predict(rows), rtol=1e-13)
    assert booster.model.forest.cover[0] == pytest.approx(len(X), rel=0.2)


@pytest.mark.parametrize(
    "model",
    [
        ensemble.GradientBoostingRegressor(n_estimators=20),
        ensemble.GradientBoostingRegressor(n_estimators=20, loss="huber", init="zero"),
        ensemble.GradientBoostingRegressor(n_estimators=20, loss="quantile", alpha=0.3),
        ensemble.GradientBoostingRegressor(n_estimators=20, loss="absolute_error"),
    ],
    ids=str,
)
def test_gradient_boosting(numbers, model) -> None:
    X, y = np.nan_to_num(numbers[0]), numbers[1]
    model.fit(X, y)
    booster = hedgerow.from_sklearn(model)
    rows = np.nan_to_num(rows_near_cuts(booster, narrow=True), nan=2.0)
    np.testing.assert_array_equal(booster.predict(rows), model.predict(rows))
    stages = list(booster.staged_predict(rows))
    np.testing.assert_array_equal(stages[4], list(model.staged_predict(rows))[4])


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "model",
    [
        tree.DecisionTreeClassifier(max_depth=5),
        tree.ExtraTreeClassifier(max_depth=5),
        ensemble.RandomForestClassifier(15),
        ensemble.ExtraTreesClassifier(15),
        ensemble.GradientBoostingClassifier(n_estimators=10),
        ensemble.HistGradientBoostingClassifier(max_iter=10),
    ],
    ids=lambda m: type(m).__name__,
)
def test_classifiers(numbers, model, n_classes) -> None:
    X, y = np.nan_to_num(numbers[0]), numbers[1]
    labels = few(y) if n_classes == 3 else np.where(y > np.median(y), 5, -1)
    model.fit(X, labels)
    booster = hedgerow.from_sklearn(model)
    np.testing.assert_array_equal(booster.classes, model.classes_)
    probability = booster.predict(X, kind="probability")
    np.testing.assert_allclose(probability, model.predict_proba(X), atol=1e-14)
    if hasattr(model, "decision_function"):
        np.testing.assert_array_equal(booster.predict(X, kind="raw"), model.decision_function(X))
    assert (booster.predict(X) == model.predict(X)).mean() > 0.999


def test_exponential_loss(numbers) -> None:
    X, y = np.nan_to_num(numbers[0]), numbers[1]
    model = ensemble.GradientBoostingClassifier(loss="exponential", n_estimators=10)
    model.fit(X, y > np.median(y))
    booster = hedgerow.from_sklearn(model)
    np.testing.assert_allclose(
        booster.predict(X, kind="probability"), model.predict_proba(X), atol=1e-15
    )


@pytest.mark.parametrize(
    "loss", ["squared_error", "absolute_error", "poisson", "gamma", "quantile"]
)
def test_hist_gradient_boosting(numbers, loss) -> None:
    X, y = numbers
    more = {"quantile": 0.8} if loss == "quantile" else {}
    model = ensemble.HistGradientBoostingRegressor(loss=loss, max_iter=20, **more).fit(X, y)
    booster = hedgerow.from_sklearn(model)
    rows = rows_near_cuts(booster)
    np.testing.assert_array_equal(booster.predict(rows, kind="raw"), model._raw_predict(rows)[:, 0])
    np.testing.assert_allclose(booster.predict(rows), model.predict(rows), rtol=1e-15)


def test_categories_of_hist_gradient_boosting(shared_data) -> None:
    X, y = adult(shared_data("adult"), 3000)
    model = ensemble.HistGradientBoostingClassifier(max_iter=15).fit(X, y)
    booster = hedgerow.from_sklearn(model)
    np.testing.assert_array_equal(booster.predict(X, kind="raw"), model.decision_function(X))
    odd = X.copy()
    for name in ("occupation", "education"):
        text = odd[name].astype(object)
        text[::3] = "never seen"
        text[::7] = None
        odd[name] = pd.Categorical(text)
    np.testing.assert_array_equal(booster.predict(odd, kind="raw"), model.decision_function(odd))


def test_numbers_as_categories_of_hist_gradient_boosting(numbers) -> None:
    X, y = numbers
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(-2, 30, len(X)), X[:, 0], rng.integers(0, 9, len(X))])
    y = y + X[:, 0] % 3
    model = ensemble.HistGradientBoostingRegressor(categorical_features=[0, 2], max_iter=15)
    model.fit(X, y)
    booster = hedgerow.from_sklearn(model)
    rows = X.copy()
    rows[::5, 0], rows[::7, 2], rows[::11, 0] = 99.0, np.nan, -7.0
    np.testing.assert_array_equal(booster.predict(rows), model.predict(rows))


DAYS = [f"2020-01-{day:02d}" for day in (3, 1, 2, 6, 5, 4)]
LEVELS = {
    "seconds": np.array(DAYS, dtype="M8[s]"),
    "nanoseconds": np.array(DAYS, dtype="M8[ns]"),
    "durations": np.array([5, 4, 3, 2, 1, 6], dtype="m8[s]"),
    "zone": pd.to_datetime(DAYS).tz_localize("Asia/Tokyo"),
    "dates": np.array([dt.date.fromisoformat(day) for day in DAYS], dtype=object),
    "periods": pd.PeriodIndex(DAYS, freq="D"),
    "floats": np.array([0.5, 1.5, -2.0, 3.0, 1e10, 7.0]),
    "bools": np.array([True, False] * 3),
    "text": np.array(["b", "é", "a b", "", "A", "10"]),
}


@pytest.mark.parametrize("kind", LEVELS)
def test_every_type_of_category_of_hist_gradient_boosting(kind) -> None:
    rng = np.random.default_rng(0)
    code, x = rng.integers(0, 6, 300), rng.normal(size=300)
    frame = pd.DataFrame({"x": x, "c": pd.Categorical(pd.Series(LEVELS[kind][code]))})
    y = x + np.array([3.0, -1.0, 2.0, 0.0, 5.0, 1.0])[code]
    model = ensemble.HistGradientBoostingRegressor(
        max_iter=5, categorical_features="from_dtype", min_samples_leaf=2
    ).fit(frame, y)
    booster = hedgerow.from_sklearn(model)
    odd = frame.copy()
    odd.loc[::5, "c"] = np.nan
    for rows in (frame, odd):
        np.testing.assert_array_equal(booster.predict(rows), model.predict(rows))


def test_several_targets(numbers) -> None:
    X, y = np.nan_to_num(numbers[0]), numbers[1]
    model = ensemble.RandomForestRegressor(10).fit(X, np.column_stack([y, -y, y**2]))
    booster = hedgerow.from_sklearn(model)
    np.testing.assert_allclose(booster.predict(X), model.predict(X), rtol=1e-12)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (svm.SVR(), "SVR"),
        (ensemble.IsolationForest(), "IsolationForest"),
        (ensemble.GradientBoostingRegressor(init=tree.DecisionTreeRegressor()), "starts from"),
    ],
)
def test_what_cannot_be_mapped_is_refused(numbers, model, words) -> None:
    X, y = np.nan_to_num(numbers[0]), numbers[1]
    with pytest.raises(ParameterError, match=words):
        hedgerow.from_sklearn(model.fit(X[:200], y[:200]))


def test_several_targets_of_classes_are_refused(numbers) -> None:
    X, y = np.nan_to_num(numbers[0]), numbers[1]
    both = np.column_stack([y > 12, y > 12.5])
    with pytest.raises(ParameterError, match="several targets"):
        hedgerow.from_sklearn(tree.DecisionTreeClassifier().fit(X, both))


def test_what_is_not_fitted_is_refused() -> None:
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        hedgerow.from_sklearn(tree.DecisionTreeClassifier())
