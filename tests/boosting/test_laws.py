"""Laws that every fit of numbers obeys; :mod:`test_laws_data` has those of all kinds of data.

If a law changes the order of float additions, or a unit that is not a power of two, results
agree up to rounding.  Otherwise they agree to the last bit.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow import Dataset, HedgerowRegressor, train
from hedgerow.io import model_to_bytes
from tests.helpers.examples import examples

NO_PENALTY = {
    "reg_lambda": 0.0, "reg_alpha": 0.0, "gamma": 0.0, "min_child_weight": 0.0,
    "min_samples_leaf": 1,
}  # fmt: skip
seeds = st.integers(0, 2**32 - 1)
objectives = st.sampled_from(["squared_error", "logistic", "softmax"])


def data(objective="squared_error", n_rows=300, n_features=4, seed=0, missing=0.1, grid=None):
    """Return rows with targets; with ``grid`` all targets are multiples of 1/grid."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    y = X[:, 0] + X[:, -1] * X[:, n_features // 2] + 0.4 * rng.normal(size=n_rows)
    X[rng.random(X.shape) < missing] = np.nan
    if objective == "logistic":
        y = (y > 0).astype(float)
        y[:2] = [0, 1]
    elif objective == "softmax":
        y = np.digitize(y, [-0.7, 0.7]).astype(float)
        y[:3] = [0, 1, 2]
    elif grid:
        y = np.round(grid * y) / grid
    return X, y


def fit(X, y, objective="squared_error", weight=None, offset=None, **params):
    params = {"n_estimators": 5, "max_leaves": 8, "n_jobs": 1, **params}
    return train({"objective": objective, **params}, Dataset(X, y, weight, offset))


def raw(booster, X):
    return booster.predict(X, kind="raw")


def content(booster):
    return model_to_bytes(booster.model)


# -- weights --------------------------------------------------------------------------


@given(seeds, objectives)
def test_weights_of_one_are_no_weights(seed, objective) -> None:
    X, y = data(objective, seed=seed)
    assert content(fit(X, y, objective, np.ones(len(y)))) == content(fit(X, y, objective))


# -- rows and columns -------------------------------------------------------------------


@given(seeds, objectives)
def test_order_of_columns_permutes_importances(seed, objective) -> None:
    X, y = data(objective, seed=seed)
    rng = np.random.default_rng(seed)
    order = rng.permutation(X.shape[1])
    # Gradients that differ: with equal ones features tie, and the first of them wins.
    offset = rng.normal(size=(len(y), 3 if objective == "softmax" else 1))
    a = fit(X, y, objective, None, offset, max_leaves=4, min_samples_leaf=25)
    b = fit(X[:, order], y, objective, None, offset, max_leaves=4, min_samples_leaf=25)
    np.testing.assert_array_equal(raw(a, X), raw(b, X[:, order]))
    np.testing.assert_allclose(
        a.feature_importance()[order], b.feature_importance(), rtol=1e-12, atol=1e-300
    )


@given(seeds, objectives, st.sampled_from(["copy", "constant", "missing", "many copies"]))
def test_columns_that_tell_nothing_new_change_nothing(seed, objective, kind) -> None:
    X, y = data(objective, seed=seed)
    more = {
        "copy": X[:, :1],
        "constant": np.full((len(y), 1), 3.0),
        "missing": np.full((len(y), 1), np.nan),
        "many copies": np.hstack([X] * 9),
    }[kind]
    a, b = fit(X, y, objective), fit(np.hstack([X, more]), y, objective)
    np.testing.assert_array_equal(raw(a, X), raw(b, np.hstack([X, more])))
    assert not b.feature_importance()[X.shape[1] :].any()


TRANSFORMS = {
    "cube": lambda x: x**3,
    "exp": np.exp,
    "arctan": np.arctan,
    "float32": lambda x: np.float32(x) * np.float32(3.0),
    "tiny": lambda x: x * 1e-300,
    "huge": lambda x: x * 1e300,
    "halves to infinity": lambda x: np.where(x > 2, np.inf, x),
    "rank": lambda x: np.where(np.isnan(x), np.nan, np.argsort(np.argsort(x)).astype(float)),
}


@pytest.mark.parametrize(("n_rows", "max_bins"), [(200, 255), (3000, 16)])
@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_rising_transform_of_a_feature_changes_nothing(transform, n_rows, max_bins) -> None:
    X, y = data("logistic", n_rows)
    X = np.float32(X).astype(float)
    if transform is TRANSFORMS["halves to infinity"]:
        X = np.minimum(X, 2.5)
        X[X > 2] = 2.5
    other = X.copy()
    other[:, 0] = transform(X[:, 0])
    a, b = fit(X, y, "logistic", max_bins=max_bins), fit(other, y, "logistic", max_bins=max_bins)
    np.testing.assert_array_equal(raw(a, X), raw(b, other))


# -- targets ----------------------------------------------------------------------------


@given(seeds, st.integers(-60, 60))
def test_power_of_two_on_the_target_scales_predictions(seed, power) -> None:
    X, y = data(seed=seed)
    factor = 2.0**power
    np.testing.assert_array_equal(raw(fit(X, factor * y), X), factor * raw(fit(X, y), X))


@given(seeds, st.integers(-1000, 1000), st.sampled_from([-2.0, -1.0, 0.5, 4.0]))
def test_affine_map_of_the_target_commutes(seed, shift, factor) -> None:
    X, y = data(seed=seed, grid=64)
    y -= np.round(64 * y.mean()) / 64
    expected = factor * raw(fit(X, y, min_samples_leaf=15), X) + shift
    found = raw(fit(X, factor * y + shift, min_samples_leaf=15), X)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * max(1, abs(factor)))


@given(seeds)
def test_swapped_labels_turn_the_margin(seed) -> None:
    X, y = data("logistic", seed=seed)
    a = fit(X, y, "logistic", min_samples_leaf=15)
    b = fit(X, 1 - y, "logistic", min_samples_leaf=15)
    np.testing.assert_allclose(raw(a, X), -raw(b, X), rtol=0, atol=1e-6)


def test_order_of_classes_permutes_probabilities() -> None:
    X, y = data("softmax", 400)
    order = np.array([2, 0, 1])
    a = fit(X, y, "softmax", min_samples_leaf=15).predict(X, kind="probability")
    b = fit(X, order[y.astype(int)], "softmax", min_samples_leaf=15)
    np.testing.assert_allclose(b.predict(X, kind="probability")[:, order], a, atol=1e-6)


# -- training and serving agree -------------------------------------------------------------


def assert_separates(column, dtype=None):
    """Assert that predictions distinguish every value of a column from its neighbours."""
    values = np.asarray(column) if dtype is None else np.array(column, dtype=dtype)
    rng = np.random.default_rng(0)
    target = rng.permutation(len(values)).astype(float)
    model = HedgerowRegressor(
        n_estimators=1, learning_rate=1.0, max_leaves=255, min_samples_leaf=1, reg_lambda=0.0,
        min_child_weight=0.0, n_jobs=1, early_stopping=False,
    )  # fmt: skip
    repeated = np.repeat(values, 3)[:, None]
    model.fit(repeated, np.repeat(target, 3))
    np.testing.assert_allclose(model.predict(values[:, None]), target, atol=1e-6)


def steps(start, n=12, dtype=np.float64):
    values = [dtype(start)]
    for _ in range(n - 1):
        values.append(np.nextafter(values[-1], dtype(np.inf)))
    return np.array(values, dtype=dtype)


@pytest.mark.parametrize("start", [1.0, -1.0, 0.1, 1e-300, -1e300, 2.0**52, 2.0**53, -3e-320, 0.0])
def test_adjacent_float64_are_separated(start) -> None:
    assert_separates(steps(start))


@pytest.mark.parametrize("start", [1.0, -1.0, 0.1, 1e-38, 3e38, 2.0**23, 2.0**24, -1e-44, 0.0])
def test_adjacent_float32_are_separated(start) -> None:
    assert_separates(steps(start, dtype=np.float32))


def test_subnormals_zero_and_infinities_are_separated() -> None:
    tiny = 5e-324
    values = [-np.inf, -1.7e308, -1.0, -tiny, 0.0, tiny, 2 * tiny, 1.0, 1.7e308, np.inf, np.nan]
    assert_separates(values)
    assert_separates(np.float32([-np.inf, -3e38, -1e-45, 0.0, 1e-45, 3e38, np.inf, np.nan]))


@pytest.mark.parametrize("start", [0, 2**53, 2**60, 2**62 + 1, -(2**62), -(2**63) + 1, 2**63 - 13])
def test_adjacent_int64_are_separated(start) -> None:
    assert_separates(np.arange(12, dtype=np.int64) + start)


def test_negative_zero_is_zero() -> None:
    X = np.array([-1.0, -0.0, 0.0, 1.0] * 5)[:, None]
    y = np.array([0.0, 5.0, 7.0, 9.0] * 5)
    booster = fit(X, y, learning_rate=1.0, n_estimators=1, **NO_PENALTY)
    zeros = raw(booster, np.array([[-0.0], [0.0]]))
    assert zeros[0] == zeros[1] == pytest.approx(6.0, abs=1e-6)


@given(seeds, st.sampled_from([np.float32, np.float64, np.int64]), st.sampled_from([4, 31, 255]))
@settings(max_examples=examples(20))
def test_rows_are_served_as_they_were_trained(seed, dtype, max_bins) -> None:
    rng = np.random.default_rng(seed)
    if dtype == np.int64:
        X = rng.integers(-(2**63), 2**63 - 1, (400, 3), dtype=np.int64)
        X[:200] = 2**61 + rng.integers(0, 50, (200, 3))
    else:
        kind = np.int32 if dtype == np.float32 else np.int64
        info = np.iinfo(kind)
        # All bit patterns: subnormals, infinities, every size; NaN is missing.
        X = rng.integers(info.min, info.max, (400, 3), dtype=kind).view(dtype)
        X[:200] = np.nextafter(dtype(1), rng.choice([0, 1, 2], (200, 3)).astype(dtype))
    y = rng.normal(size=400)
    params = {"min_samples_leaf": 1, "max_leaves": 60, "max_bins": max_bins, "n_estimators": 3}
    seen = []
    booster = train(
        {**params, "n_jobs": 1, "early_stopping": False, "eval_metric": "rmse"},
        Dataset(X, y),
        Dataset(X, y),
        callbacks=lambda state: seen.append(state) and False,
    )
    # Validation rows were routed by bins, predictions are routed by values.
    served = np.sqrt(np.mean((booster.predict(X) - y) ** 2))
    history = booster.model.training["history"]["validation"]["rmse"]
    assert served == pytest.approx(history[-1], rel=1e-12)
