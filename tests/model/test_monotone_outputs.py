"""Monotone constraints with several outputs: targets, labels, quantiles."""

from __future__ import annotations

import numpy as np
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


def test_vector_leaves_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"does not go with monotone_constraints.*one_output"):
        HedgerowRegressor(multi_strategy="multi_output_tree", **CONSTRAINTS).fit(X, Y)


def test_distributions_are_refused() -> None:
    with pytest.raises(ParameterError, match="its mean depends on several raw scores"):
        HedgerowRegressor(objective="log_normal", **CONSTRAINTS).fit(X, np.exp(Y[:, 0] / 10.0))


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
