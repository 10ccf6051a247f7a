"""Monotone constraints with several outputs: targets, labels, quantiles."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from hedgerow import HedgerowClassifier, HedgerowRegressor
from hedgerow.errors import ParameterError

RNG = np.random.default_rng(0)
N = 500
X = np.round(RNG.uniform(0, 10, size=(N, 3)), 1)
NOISE = RNG.normal(size=(N, 2))
Y = np.column_stack([X[:, 0] + 3.0 * np.sin(2 * X[:, 1]), np.sqrt(X[:, 0]) * X[:, 2]]) + 2.0 * NOISE
LABELS = (np.median(Y, axis=0) < Y).astype(int)
SHORT = {"n_estimators": 15, "learning_rate": 0.3, "early_stopping": False}
CONSTRAINTS = {"monotone_constraints": {"x0": 1, "x2": "decreasing"}}


def check_kept(model, rows=X) -> None:
    """Check the constraints by the verifier, and by sweeps over predictions."""
    assert model.verify_monotone().verdict == "proved"
    for column, sign in ((0, 1.0), (2, -1.0)):
        swept = []
        for value in np.linspace(-1.0, 11.0, 60):
            moved = rows[:50].copy()
            moved[:, column] = value
            predict = getattr(model, "predict_proba", model.predict)
            swept.append(np.asarray(predict(moved)))
        assert (sign * np.diff(np.array(swept), axis=0) >= 0.0).all()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"tree_method": "exact"},
        {"grow_policy": "depthwise"},
        {"boosting": "dart"},
        {"boosting": "rf", "subsample": 0.5, "learning_rate": 0.1},
        {"objective": "absolute_error"},
        {"leaf_estimation": "line_search", "objective": "huber"},
    ],
)
def test_each_of_several_targets_keeps_to_it(settings) -> None:
    settings = SHORT | settings
    free = HedgerowRegressor(**settings, multi_strategy="one_output_per_tree").fit(X, Y)
    assert free.verify_monotone("x0", 1).verdict == "violated"
    model = HedgerowRegressor(**settings, **CONSTRAINTS).fit(X, Y)
    parameters = model.booster_.model.training["parameters"]
    assert parameters["multi_strategy"] == "one_output_per_tree"
    check_kept(model)


def test_each_target_has_the_trees_of_a_model_of_its_own() -> None:
    both = HedgerowRegressor(**SHORT, **CONSTRAINTS).fit(X, Y).predict(X)
    for k in range(2):
        alone = HedgerowRegressor(**SHORT, **CONSTRAINTS).fit(X, Y[:, k]).predict(X)
        np.testing.assert_array_equal(both[:, k], alone)


def test_labels() -> None:
    check_kept(HedgerowClassifier(**SHORT, **CONSTRAINTS).fit(X, LABELS))


def test_several_quantiles() -> None:
    model = HedgerowRegressor(
        objective="quantile", quantile=[0.1, 0.5, 0.9], **SHORT, **CONSTRAINTS
    )
    check_kept(model.fit(X, Y[:, 0]))


def test_defaults_keep_to_it() -> None:
    check_kept(HedgerowRegressor(**CONSTRAINTS).fit(X, Y))


VECTORS = {"multi_strategy": "multi_output_tree"}
IN_VECTORS = [
    {},
    {"grow_policy": "depthwise", "max_depth": 4},
    {"path_smooth": 3.0},
    {"extra_trees": True},
    {"monotone_penalty": 1.5},
    {"sampling": "goss"},
    {"boosting": "rf", "subsample": 0.5, "learning_rate": 0.1},
    {"leaf_estimation": "line_search", "objective": "huber"},
    {"reg_alpha": 0.5, "max_delta_step": 0.7, "min_child_weight": 5.0},
    {"feature_penalties": {"x0": 0.5}, "forced_splits": {"feature": "x0", "threshold": 5.0}},
    {"grow_policy": "symmetric", "max_depth": 4},
    {"grow_policy": "symmetric", "path_smooth": 3.0, "extra_trees": True},
    {"grow_policy": "symmetric", "reg_alpha": 0.5, "max_delta_step": 0.7, "sampling": "goss"},
    {"grow_policy": "symmetric", "forced_splits": {"feature": "x0", "threshold": 5.0}},
    {"linear_leaves": True},
    {"linear_leaves": True, "grow_policy": "symmetric", "max_delta_step": 0.7},
    {"linear_leaves": True, "grow_policy": "depthwise", "max_depth": 4, "boosting": "dart"},
]


@pytest.mark.parametrize("settings", IN_VECTORS)
def test_each_output_of_vector_leaves_keeps_to_it(settings) -> None:
    settings = SHORT | VECTORS | settings
    rows = X.copy()
    rows[::13, 0] = rows[::7, 1] = np.nan
    free = {name: value for name, value in settings.items() if name != "monotone_penalty"}
    assert HedgerowRegressor(**free).fit(rows, Y).verify_monotone("x0", 1).verdict == "violated"
    model = HedgerowRegressor(**settings, **CONSTRAINTS).fit(rows, Y)
    forest = model.booster_.model.forest
    assert forest.vectors is not None
    assert 0 in forest.feature
    check_kept(model, np.nan_to_num(rows, nan=3.0))


@pytest.mark.parametrize("policy", ["leafwise", "symmetric"])
def test_categories_beside_ordered_columns_of_vector_leaves(policy) -> None:
    table = pd.DataFrame(X, columns=["x0", "x1", "x2"])
    table["town"] = pd.Categorical(RNG.choice(list("abcdefgh"), N))
    shift = table["town"].cat.codes.to_numpy()[:, None] * np.array([1.0, -2.0])
    settings = SHORT | VECTORS | CONSTRAINTS | {"grow_policy": policy}
    model = HedgerowRegressor(**settings).fit(table, Y + shift)
    assert model.verify_monotone().verdict == "proved"
    assert 3 in model.booster_.model.forest.feature


def test_one_output_twice_has_the_trees_of_one() -> None:
    settings = SHORT | CONSTRAINTS
    alone = HedgerowRegressor(**settings).fit(X, Y[:, 0]).booster_.model.forest
    twice = HedgerowRegressor(**settings, **VECTORS).fit(X, Y[:, [0, 0]]).booster_.model.forest
    np.testing.assert_array_equal(twice.feature, alone.feature)
    np.testing.assert_array_equal(twice.threshold, alone.threshold)
    # Bounds come from histograms, in which the gradients of several outputs have fewer bits.
    np.testing.assert_allclose(twice.vectors, np.column_stack([alone.value] * 2), rtol=1e-5)


def test_distributions_are_refused() -> None:
    with pytest.raises(ParameterError, match="its mean depends on several raw scores"):
        HedgerowRegressor(objective="gamma_dist", **CONSTRAINTS).fit(X, np.exp(Y[:, 0] / 10.0))


# -- predictions that are not finite -----------------------------------------------------


@pytest.mark.parametrize(
    ("objective", "rate"),
    [("aft", 100.0), ("poisson", 100.0), ("tweedie", 1e4), ("squared_log_error", 100.0),
     ("cox", 100.0), ("squared_error", 1e300)],
)  # fmt: skip
def test_infinite_predictions_name_the_cause(objective, rate) -> None:
    time = np.exp(Y[:, 0] / 5.0)
    given = {"learning_rate": rate, "max_delta_step": 1e300}  # in place of the limit on steps
    model = HedgerowRegressor(objective=objective, **(SHORT | given))
    model.fit(X, time)
    words = rf"of 500 predictions are not finite: objective '{objective}'.*the model has {rate!r}"
    with pytest.warns(UserWarning, match=words.replace("+", "[+]")):
        assert not np.isfinite(model.predict(X)).all()
