"""Linear leaves: equal to naive ones, safe for far values, supported by all readers of models."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_diabetes

from hedgerow import Dataset, HedgerowRegressor, cross_fit, train
from hedgerow.errors import ParameterError
from hedgerow.growing.core.grower import TreeGrower
from hedgerow.growing.core.setup import Fit
from hedgerow.io import model_from_bytes, model_to_bytes
from hedgerow.kernels.prediction.slopes import TERMS
from hedgerow.objectives import make_objective
from hedgerow.params import BoostParams
from tests.helpers import engine
from tests.helpers.examples import examples
from tests.reference import naive_slopes

LINES: dict[str, Any] = {"linear_leaves": True, "early_stopping": False}
LEVELS: dict[str, Any] = {"grow_policy": "symmetric", "max_leaves": None, "max_depth": 4}
SHAPES: dict[str, dict[str, Any]] = {
    "leafwise": {"max_leaves": 8},
    "depthwise": {"grow_policy": "depthwise", "max_depth": 4},
    "symmetric": LEVELS,
}


def table(n_rows=400, n_columns=4, seed=0, missing=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns)) * 10.0 ** np.arange(n_columns)
    y = X[:, 0] + np.sin(X[:, 1] / 10.0) * X[:, 2] / 100.0 + 0.1 * rng.normal(size=n_rows)
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


@pytest.fixture(scope="module")
def rows():
    return table(missing=0.1)


@pytest.fixture(scope="module", params=SHAPES)
def booster(request, rows):
    return train({**LINES, "n_estimators": 20, **SHAPES[request.param]}, Dataset(*rows))


# -- the naive twin -----------------------------------------------------------------


def gradients(loss, y, raw, mass):
    if loss == "poisson":
        return mass * (np.exp(raw) - y), mass * np.exp(raw)
    if loss == "logistic":
        p = 1.0 / (1.0 + np.exp(-raw))
        return mass * (p - y), mass * p * (1.0 - p)
    return mass * (raw - y), mass * np.ones_like(raw)


@pytest.mark.fast(10)
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("penalty", [1.0, 0.01])
@pytest.mark.parametrize("loss", ["squared_error", "logistic", "poisson"])
def test_lines_equal_the_naive_ones(symmetric, weighted, loss, penalty) -> None:
    X, y = table(missing=0.1, seed=3)
    y = {"squared_error": y, "logistic": (y > 0.0).astype(float), "poisson": np.abs(y)}[loss]
    mass = np.random.default_rng(1).uniform(0.5, 2.0, len(y)) if weighted else np.ones(len(y))
    params = {"linear_leaves": True, "linear_lambda": penalty, "subsample": 0.7, "max_leaves": 8}
    if symmetric:
        params |= LEVELS | {"max_depth": 3}
    objective, weight = make_objective(loss), mass if weighted else None
    raw = np.repeat(objective.initial_score(y, weight)[:, None], len(X), axis=1)
    before, fit = raw.copy(), Fit(y, weight, raw, objective, BoostParams(**params), 1)
    matrix = engine.binned(X, weight=weight)
    with contextlib.closing(TreeGrower(matrix, fit, numbers=np.asfortranarray(X))) as made:
        tree = made.grow(0)
        inside, leaves, start = made.leaf_segments()
        outside = np.setdiff1d(np.arange(len(y)), inside)
    slopes = tree.slopes
    assert len(slopes.slope) > 0
    above = naive_slopes.paths(tree.feature, tree.left, tree.right)
    longest = 0.1 if loss == "poisson" else np.inf  # a step of 1, times the learning rate
    g, h = gradients(loss, y, before[0], mass)
    for number, leaf in enumerate(leaves):
        here = inside[start[number] : start[number + 1]]
        chosen, center, slope = naive_slopes.fit_leaf(
            X[here], g[here], h[here], above[leaf], penalty
        )
        there = np.flatnonzero(slope)  # a column that is missing in the whole leaf has no term
        own = slice(slopes.start[leaf], slopes.start[leaf + 1])
        assert slopes.column[own].tolist() == [chosen[t] for t in there]
        np.testing.assert_allclose(slopes.center[own], center[there], rtol=1e-6)
        np.testing.assert_allclose(slopes.slope[own], 0.1 * slope[there], rtol=1e-4, atol=1e-12)
        terms = naive_slopes.terms_of(
            X[here], slopes.column[own], slopes.slope[own], slopes.center[own]
        )
        terms = np.clip(terms, -longest, longest)
        bounds = slopes.low[leaf], slopes.high[leaf]
        np.testing.assert_allclose(bounds, (terms.min(), terms.max()), rtol=1e-9, atol=1e-15)
        # Rows of the sample have their scores already.
        lines = [naive_slopes.line(slopes, own, row, *bounds) for row in X[here]]
        np.testing.assert_array_equal(raw[0, here], before[0, here] + (tree.value[leaf] + lines))
    np.testing.assert_array_equal(raw[:, outside], before[:, outside])


@given(st.integers(0, 10_000), st.sampled_from([np.float32, np.float64]))
@settings(max_examples=examples(25), deadline=None)
def test_predictions_are_constants_plus_terms_within_bounds(booster, seed, dtype) -> None:
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(30, 4)) * 10.0 ** rng.integers(-3, 7, (30, 4))).astype(dtype)
    odd = rng.random(X.shape)
    X[odd < 0.1], X[odd > 0.95], X[(odd > 0.9) & (odd < 0.95)] = np.nan, np.inf, -np.inf
    forest, leaves = booster.model.forest, booster.predict(X, kind="leaf")
    expected = np.full(len(X), forest.base_score[0])
    within = np.stack([expected, expected])
    for t in range(forest.n_trees):
        tree = forest.tree(t)
        slopes = tree.slopes
        for row, node in enumerate(leaves[:, t]):
            own = slice(slopes.start[node], slopes.start[node + 1])
            bounds = slopes.low[node], slopes.high[node]
            line = naive_slopes.line(slopes, own, X[row].astype(float), *bounds)
            expected[row] += tree.value[node] + line
            within[:, row] += tree.value[node] + np.array(bounds)
    # Blocks of rows, a row at a time, and round by round: the same bits.
    np.testing.assert_array_equal(booster.predict(X), expected)
    np.testing.assert_array_equal([booster.predict(row[None])[0] for row in X], expected)
    np.testing.assert_array_equal(list(booster.staged_predict(X))[-1], expected)
    assert (expected >= within[0] - 1e-9).all()
    assert (expected <= within[1] + 1e-9).all()


def test_many_rows_are_predicted_in_parts(booster) -> None:
    X = np.random.default_rng(0).normal(size=(70_000, 4))
    together = booster.predict(X)
    np.testing.assert_array_equal(together[-5_000:], booster.predict(X[-5_000:]))


# -- what slopes are for ------------------------------------------------------------


def test_a_line_is_learned_by_few_rounds_and_never_left() -> None:
    X = np.linspace(0.0, 10.0, 500)[:, None]
    y = 3.0 * X[:, 0] - 7.0
    params = {"n_estimators": 40, "learning_rate": 0.3, "early_stopping": False, "max_leaves": 4}
    constant, lines = (
        HedgerowRegressor(**params, linear_leaves=on).fit(X, y) for on in (False, True)
    )
    errors = [np.abs(model.predict(X) - y).max() for model in (constant, lines)]
    assert errors[1] < 0.01 < errors[0]
    # Beyond the rows of training a prediction stays where the last rows were.
    far = lines.predict([[-1e9], [1e9], [np.inf], [-np.inf]])
    assert np.abs(far).max() < np.abs(y).max() + 0.1


def test_units_of_columns_do_not_matter() -> None:
    X, y = load_diabetes(return_X_y=True)
    model = HedgerowRegressor(n_estimators=30, early_stopping=False, linear_leaves=True)
    first = clone(model).fit(X, y).predict(X)
    # Powers of two change no bit of a mantissa.
    np.testing.assert_array_equal(clone(model).fit(X * 1024.0, y).predict(X * 1024.0), first)


def huge_table(seed):
    """Return rows, a few of which are huge with weights so small that their hessian rounds to 0."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 5))
    raw = 4.0 * X[:, 0] + X[:, 1]
    weight = np.where(rng.random(len(X)) < 0.05, 1e-30, 1.0)
    huge = np.sign(X) * 10.0 ** rng.integers(150, 309, X.shape)
    return np.where(weight[:, None] < 1.0, huge, X), raw, weight


@given(st.integers(0, 10_000))
@settings(max_examples=examples(10), deadline=None)
@pytest.mark.parametrize("grow_policy", ["leafwise", "symmetric"])
@pytest.mark.parametrize("loss", ["logistic", "poisson", "softmax"])
def test_terms_that_overflow_are_left_out(grow_policy, loss, seed) -> None:
    X, raw, weight = huge_table(seed)
    y = {"logistic": raw > 0, "poisson": np.exp(np.clip(raw, -9, 9)), "softmax": np.sign(raw) + 1}
    params = {
        "linear_leaves": True, "objective": loss, "n_estimators": 12, "learning_rate": 1.0,
        "reg_lambda": 0.0, "grow_policy": grow_policy, "min_samples_leaf": 10,
        "min_child_weight": 0.0, "early_stopping": False,
    }  # fmt: skip
    target = y[loss].astype(np.float64)
    booster = train(params, Dataset(X, target, weight))
    slopes = booster.model.forest.slopes
    assert np.isfinite([slopes.low, slopes.high]).all()
    again, _ = model_from_bytes(model_to_bytes(booster.model))
    assert model_to_bytes(again) == model_to_bytes(booster.model)
    assert np.abs(booster.raw_scores(X)).max() < 1e6


def test_a_column_with_one_value_in_a_leaf_has_no_slope() -> None:
    """The mean of equal numbers is rounded; the difference must not count as variance."""
    rng = np.random.default_rng(0)
    X, y, weight = rng.choice([0.1, 0.7], (300, 1)), rng.normal(size=300), rng.random(300)
    model = train({**LINES, "n_estimators": 5, "min_samples_leaf": 5}, Dataset(X, y, weight))
    assert len(model.model.forest.slopes.slope) == 0


def table_of_categories():
    rng = np.random.default_rng(0)
    levels = rng.integers(0, [5, 8, 300, 6], (600, 4))
    frame = pd.DataFrame(levels, columns=list("abcd")).astype("category")
    frame["x"] = rng.normal(size=600)
    y = (levels[:, 2] % 3) * frame["x"] + (levels[:, 3] > 2) + 0.1 * rng.normal(size=600)
    return frame, y


@pytest.mark.parametrize("grow_policy", ["leafwise", "symmetric"])
def test_terms_follow_statistics_that_are_numbered_anew(grow_policy) -> None:
    """Unused statistics are dropped, but a term keeps its column."""
    frame, y = table_of_categories()
    params = {**LINES, "target_statistics": True, "n_estimators": 3, "max_depth": 3}
    model = train({**params, "grow_policy": grow_policy, "max_leaves": None}, Dataset(frame, y))
    forest = model.model.forest
    terms = 0
    for number in range(forest.n_trees):
        tree = forest.tree(number)
        for leaf, above in naive_slopes.paths(tree.feature, tree.left, tree.right).items():
            columns = tree.slopes.column[tree.slopes.start[leaf] : tree.slopes.start[leaf + 1]]
            assert set(columns) <= set(above), (number, leaf)
            terms += len(columns)
    assert terms > 0
    assert forest.n_features < 12  # as many are split in 300 rounds
    model_from_bytes(model_to_bytes(model.model))


# -- losses, modes and ways of training ---------------------------------------------


def test_the_mean_of_folds_with_statistics_of_their_own() -> None:
    frame, y = table_of_categories()
    model = HedgerowRegressor(
        n_estimators=5, early_stopping=False, linear_leaves=True, target_statistics=True
    )
    found = cross_fit(model, frame, y, model="average")
    each = np.mean([fold.predict(frame) for fold in found.boosters], axis=0)
    np.testing.assert_allclose(found.model.predict(frame), each, rtol=1e-12)


# -- models -------------------------------------------------------------------------


def test_texts_and_frames_show_the_terms(booster) -> None:
    text = booster.to_text(0)
    assert " (x0 - " in text or " (x0 + " in text
    frame = booster.to_frame()
    terms = [t for t in frame["terms"] if t]
    assert terms
    assert all(1 <= len(t) <= TERMS for t in terms)
    name, slope, center = terms[0][0]
    assert name in {"x0", "x1", "x2", "x3"}
    assert np.isfinite([slope, center]).all()
    assert (frame["terms_low"] <= frame["terms_high"]).all()


def test_rules_say_what_is_predicted(booster) -> None:
    assert any("within [" in rule for rule in booster.to_rules(0))


@settings(max_examples=examples(25), deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    signs=st.lists(st.sampled_from([-1, 0, 1]), min_size=4, max_size=4).filter(any),
    symmetric=st.booleans(),
    loss=st.sampled_from(["squared_error", "logistic", "poisson"]),
    boosting=st.sampled_from(["gbdt", "dart", "rf"]),
)
def test_lines_keep_monotone_constraints(seed, signs, symmetric, loss, boosting) -> None:
    """The constraints hold exactly, also for far, infinite and missing values of other columns."""
    rng = np.random.default_rng(seed)
    X, y = table(300, seed=seed, missing=0.05)
    X = X / 10.0 ** np.arange(4) + np.where(rng.random((300, 4)) < 0.05, 1e3, 0.0)
    y = X[:, 0] - 2.0 * X[:, 1] + X[:, 2] * X[:, 3]
    y = np.where(np.isnan(y), 0.0, y)
    target = {"squared_error": y, "logistic": y > 0.0, "poisson": np.exp(np.clip(y, -3.0, 3.0))}
    params = {
        **LINES,
        "n_estimators": 12,
        "objective": loss,
        "monotone_constraints": {f"x{j}": sign for j, sign in enumerate(signs) if sign},
        "boosting": boosting,
        "subsample": 0.7 if boosting == "rf" else 1.0,
        **({"grow_policy": "symmetric", "max_depth": 4} if symmetric else {"max_leaves": 12}),
    }
    params["min_samples_leaf"] = 5
    booster = train(params, Dataset(X, target[loss].astype(float)))
    ordered = np.flatnonzero(signs)
    slopes = booster.model.forest.slopes
    assert slopes is not None
    assert not np.isin(slopes.column, ordered).any()
    probe = rng.choice([0.0, -1.0, 1.0, 1e3, -1e3, 1e300, np.inf, np.nan], size=(40, 4))
    probe[::2] = rng.normal(size=(20, 4))
    for j in ordered.tolist():
        ladder = np.unique(np.concatenate([X[:, j][~np.isnan(X[:, j])], [-np.inf, np.inf]]))
        for row in probe:
            rows = np.repeat(row[None], len(ladder), axis=0)
            rows[:, j] = ladder
            steps = signs[j] * np.diff(booster.predict(rows, kind="raw"))
            assert steps.min() >= 0.0
        assert booster.verify_monotone(f"x{j}", signs[j]).verdict == "proved"


# -- sums of rescaled trees, and steps of limited length ------------------------------


@pytest.mark.parametrize("objective", ["poisson", "tweedie"])
def test_lines_of_a_logarithm_do_not_run_away(objective) -> None:
    """Without a bound, the loss of 1,000 rows was thousands of times that of constant leaves."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2000, 5))
    y = rng.poisson(np.exp(0.8 * X[:, 0] + 0.4 * X[:, 1] ** 2 - 0.3)).astype(float)
    params = {"objective": objective, "n_estimators": 3, "learning_rate": 0.3}
    losses = []
    for lines in (False, True):
        model = train({**params, "linear_leaves": lines}, Dataset(X[:1000], y[:1000]))
        losses.append(make_objective(objective).loss(y[1000:], model.raw_scores(X[1000:]), None))
    assert losses[1] < losses[0]


@pytest.mark.parametrize("longest", [0.01, 0.3])
def test_no_line_is_longer_than_max_delta_step(longest, rows) -> None:
    X, y = rows
    params = {**LINES, "n_estimators": 6, "learning_rate": 0.5, "max_delta_step": longest}
    model = train(params, Dataset(X, y))
    before = np.full(len(X), model.model.forest.base_score[0])
    for raw in model.staged_raw_scores(np.nan_to_num(10.0 * X)):
        assert np.abs(raw[0] - before).max() <= 0.5 * longest * (1.0 + 1e-12)
        before = raw[0]
    assert model.model.forest.slopes is not None
    assert len(model.model.forest.slopes.slope) > 0


# -- what does not go together ------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"tree_method": "exact"}, "tree_method='exact'"),
        ({"path_smooth": 1.0}, "path_smooth"),
        ({"leaf_estimation": "line_search"}, "leaf_estimation='line_search'"),
        ({"objective": "absolute_error"}, "leaf_estimation='line_search'"),
    ],
)
def test_other_settings_are_refused_by_name(params, named, rows) -> None:
    with pytest.raises(ParameterError, match=named):
        HedgerowRegressor(linear_leaves=True, n_estimators=2, **params).fit(*rows)


def test_the_penalty_has_a_range_and_a_use(rows) -> None:
    with pytest.raises(ParameterError, match="linear_lambda must be"):
        HedgerowRegressor(linear_leaves=True, linear_lambda=-1.0, n_estimators=2).fit(*rows)
    with pytest.raises(ParameterError, match="no effect"):
        HedgerowRegressor(linear_leaves=False, linear_lambda=2.0, n_estimators=2).fit(*rows)
