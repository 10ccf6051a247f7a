"""Losses with several raw scores per row: quantiles that do not cross, one-vs-all."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import mean_pinball_loss

from hedgerow import Dataset, HedgerowClassifier, HedgerowRegressor, load, train
from hedgerow.errors import DataError, ModelFormatError, ParameterError
from hedgerow.io import model_to_bytes
from hedgerow.objectives import make_objective
from hedgerow.objectives.line_search import LeafRows
from hedgerow.objectives.precomputed import gradients_at

LEVELS = [0.05, 0.45, 0.5, 0.55, 0.95]
RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(600, 3)), 1)
Y = X[:, 0] + (0.5 + np.abs(X[:, 1])) * RNG.normal(size=600)
CLASSES = np.digitize(X[:, 0] + 0.5 * X[:, 1] + RNG.normal(0, 0.3, 600), [-0.7, 0.6])


@pytest.fixture(scope="module")
def model():
    return HedgerowRegressor(objective="quantile", quantile=LEVELS, n_estimators=15).fit(X, Y)


def test_columns_do_not_cross_though_scores_do(model) -> None:
    values, raw = model.predict(X), model.booster_.predict(X, "raw")
    assert values.shape == raw.shape == (600, 5)
    assert (np.diff(values, axis=1) >= 0.0).all()
    assert (np.diff(raw, axis=1) < 0.0).any(), "the test is idle: no score crosses another"
    np.testing.assert_array_equal(values, np.sort(raw, axis=1))


def test_rearrangement_never_raises_the_loss(model) -> None:
    values, raw = model.predict(X), model.booster_.predict(X, "raw")

    def loss(columns):
        return np.mean([mean_pinball_loss(Y, c, alpha=a)
                        for a, c in zip(LEVELS, columns.T, strict=True)])  # fmt: skip

    assert loss(values) <= loss(raw)
    assert model.booster_._objective.loss(Y, raw.T, None) == pytest.approx(loss(values))


def test_each_level_is_the_model_of_this_level_alone(model) -> None:
    raw = model.booster_.predict(X, "raw")
    for output, level in enumerate(LEVELS):
        alone = HedgerowRegressor(objective="quantile", quantile=level, n_estimators=15).fit(X, Y)
        np.testing.assert_array_equal(alone.booster_.predict(X, "raw"), raw[:, output])


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_files_keep_the_levels(model, tmp_path, n_jobs) -> None:
    model.save(tmp_path / "model")
    again = HedgerowRegressor.load(tmp_path / "model")
    assert again.quantile == LEVELS
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    booster = load(tmp_path / "model")
    assert booster._objective.levels == tuple(LEVELS)
    fitted = HedgerowRegressor(objective="quantile", quantile=LEVELS, n_estimators=15,
                               n_jobs=n_jobs).fit(X, Y)  # fmt: skip
    assert model_to_bytes(fitted.booster_.model) == model_to_bytes(model.booster_.model)


@pytest.mark.parametrize(
    "level", [[0.1], [0.5, 0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.3, 0.4, "x"], {"a": 1}, 0.5, None]
)
def test_files_with_wrong_levels_are_refused(model, level) -> None:
    broken = model.booster_.model
    training = {**broken.training, "quantile": level}
    with pytest.raises(ModelFormatError, match="quantile"):
        model_to_bytes(type(broken)(broken.forest, broken.schema, "quantile", training))


def test_early_stopping_and_metrics_of_several_levels() -> None:
    model = HedgerowRegressor(
        objective="quantile", quantile=(0.1, 0.9), n_estimators=40, early_stopping=True
    ).fit(X, Y)
    assert model.best_iteration_ <= 40
    assert model.evals_result_["validation"]["loss"]
    with pytest.raises(ParameterError, match="'mae' is for regression, but this model is for quan"):
        model.set_params(eval_metric="mae").fit(X, Y)


# -- one against all -----------------------------------------------------------------------


def test_one_vs_all_is_a_logistic_model_for_each_class() -> None:
    data = Dataset(X, CLASSES)
    model = train({"objective": "one_vs_all", "n_estimators": 10}, data)
    raw = model.predict(X, "raw")
    for label in range(3):
        alone = train({"objective": "logistic", "n_estimators": 10}, Dataset(X, label == CLASSES))
        np.testing.assert_array_equal(alone.predict(X, "raw"), raw[:, label])
    p = 1.0 / (1.0 + np.exp(-raw))
    np.testing.assert_allclose(
        model.predict(X, "probability"), p / p.sum(axis=1, keepdims=True), rtol=1e-12
    )
    np.testing.assert_array_equal(model.predict(X), raw.argmax(axis=1))


def test_one_vs_all_far_probabilities_still_add_up() -> None:
    objective = make_objective("one_vs_all", 3)
    p = objective.predict(np.array([[-900.0, 0.0], [-901.0, 0.0], [-1000.0, 900.0]]))
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert p[0, 0] == pytest.approx(1 / (1 + np.exp(-1.0)), rel=1e-9)
    with pytest.raises(DataError, match=r"targets 0, 1, ... 2; row 1 holds 3.0"):
        objective.check_target(np.array([0.0, 3.0]))


def test_one_vs_all_starts_and_steps_minimise() -> None:
    objective = make_objective("one_vs_all", 3)
    y, weight = CLASSES.astype(float), RNG.uniform(0.5, 2.0, 600)
    start = objective.initial_score(y, weight)
    raw = np.repeat(start[:, None], 600, axis=1)
    for k in range(3):
        g, _ = gradients_at(objective, y, weight, raw, k)
        assert abs(g.sum()) < 1e-9
    moved = raw + RNG.normal(size=raw.shape)
    steps = objective.leaf_steps(LeafRows(y, moved, weight, np.array([0, 300, 600])), 1)
    for rows, step in ((slice(0, 300), steps[0]), (slice(300, 600), steps[1])):
        moved[1, rows] += step
        assert abs(gradients_at(objective, y, weight, moved, 1)[0][rows].sum()) < 1e-6


# -- classes by other losses -----------------------------------------------------------------


@pytest.mark.parametrize("objective", ["focal", "hinge"])
def test_two_classes_by_other_losses(objective, tmp_path) -> None:
    labels = np.where(CLASSES > 0, "yes", "no")
    model = HedgerowClassifier(objective=objective, n_estimators=20).fit(X, labels)
    assert model.score(X, labels) > 0.85
    proba = model.predict_proba(X)
    np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict(X))
    model.save(tmp_path / "model")
    assert HedgerowClassifier.load(tmp_path / "model").score(X, labels) == model.score(X, labels)
    with pytest.raises(ParameterError, match="for two classes"):
        HedgerowClassifier(objective=objective).fit(X, CLASSES)
    if objective == "hinge":
        assert set(proba.ravel()) == {0.0, 1.0}


def test_focal_without_focus_is_the_logistic_loss() -> None:
    y = (CLASSES > 0).astype(int)
    focal = HedgerowClassifier(objective="focal", focal_gamma=0.0, n_estimators=10).fit(X, y)
    plain = HedgerowClassifier(n_estimators=10).fit(X, y)
    np.testing.assert_allclose(focal.predict_proba(X), plain.predict_proba(X), rtol=1e-9)
