"""Class weights change trees and decisions, but not probabilities."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, log_loss

from hedgerow import HedgerowClassifier, load
from hedgerow.boosting.row_data.classes import corrected, rescaled, uncorrected
from hedgerow.errors import ModelFormatError
from hedgerow.io import model_to_bytes

RNG = np.random.default_rng(0)
N = 6000
X = RNG.normal(size=(N, 4))
TRUE = 1.0 / (1.0 + np.exp(3.0 - 1.5 * X[:, 0] - X[:, 1] * X[:, 2]))
RARE = (RNG.random(N) < TRUE).astype(int)
THREE = np.where(RARE == 1, "rare", np.where(X[:, 3] > 0.8, "some", "usual"))
SETTINGS = {"n_estimators": 40, "max_leaves": 8, "early_stopping": False, "n_jobs": 1}
WEIGHTS = {"rare": 8.0, "some": 3.0}


def bayes(q, weights):
    """Return probabilities without the weights, by Bayes' rule."""
    share = q / weights
    return share / share.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("objective", ["logistic", "exponential", "softmax", "one_vs_all", "focal"])
def test_probabilities_are_those_of_the_weighted_fit_freed_of_weights(objective) -> None:
    several = objective in ("softmax", "one_vs_all")
    y = THREE if several else np.where(RARE == 1, "rare", "usual")
    weights = np.array([WEIGHTS.get(name, 1.0) for name in np.unique(y)])
    names = {name: WEIGHTS[name] for name in WEIGHTS if name in y}
    model = HedgerowClassifier(**SETTINGS, objective=objective, class_weight=names).fit(X, y)
    rows = weights[np.searchsorted(np.unique(y), y)]
    plain = HedgerowClassifier(**SETTINGS, objective=objective).fit(X, y, sample_weight=rows)
    q = plain.predict_proba(X)
    np.testing.assert_allclose(model.predict_proba(X), bayes(q, weights), atol=1e-9)
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    p = model.predict_proba(X)
    np.testing.assert_array_equal(model.predict(X), model.classes_[(weights * p).argmax(axis=1)])
    stages = list(model.staged_predict_proba(X[:20]))
    np.testing.assert_array_equal(stages[-1], p[:20])
    np.testing.assert_array_equal(list(model.staged_predict(X[:20]))[-1], model.predict(X[:20]))


def test_balanced_moves_decisions_and_leaves_probabilities_calibrated() -> None:
    half = np.arange(N) < N // 2
    plain = HedgerowClassifier(**SETTINGS).fit(X[half], RARE[half])
    model = HedgerowClassifier(**SETTINGS, class_weight="balanced").fit(X[half], RARE[half])
    rest, y = X[~half], RARE[~half]
    assert model.predict_proba(rest)[:, 1].mean() == pytest.approx(TRUE[~half].mean(), abs=0.02)
    assert log_loss(y, model.predict_proba(rest)) < 1.15 * log_loss(y, plain.predict_proba(rest))
    assert model.predict(rest).mean() > 1.8 * plain.predict(rest).mean()
    assert balanced_accuracy_score(y, model.predict(rest)) > 0.05 + balanced_accuracy_score(
        y, plain.predict(rest)
    )


def test_hinge_has_no_probabilities_to_correct() -> None:
    model = HedgerowClassifier(**SETTINGS, objective="hinge", class_weight="balanced").fit(X, RARE)
    np.testing.assert_array_equal(model.predict_proba(X).argmax(axis=1), model.predict(X))


def test_a_loss_of_ones_own() -> None:
    def loss(y, raw):
        p = 1.0 / (1.0 + np.exp(-raw))
        return p - y, p * (1.0 - p)

    loss.link = "logit"
    own = HedgerowClassifier(**SETTINGS, objective=loss, class_weight={1: 5.0}).fit(X, RARE)
    builtin = HedgerowClassifier(**SETTINGS, class_weight={1: 5.0}).fit(X, RARE)
    np.testing.assert_allclose(own.predict_proba(X), builtin.predict_proba(X), atol=0.05)
    assert (own.predict(X) == builtin.predict(X)).mean() > 0.98


def test_equal_weights_are_none() -> None:
    plain = HedgerowClassifier(**SETTINGS).fit(X, RARE).booster_.model
    assert corrected(plain, np.array([2.0, 2.0])) is plain
    assert corrected(plain, None) is plain


def test_the_file_and_the_booster_remember_decisions(tmp_path) -> None:
    model = HedgerowClassifier(**SETTINGS, class_weight="balanced").fit(X, RARE)
    model.save(tmp_path / "m")
    again = HedgerowClassifier.load(tmp_path / "m")
    booster = load(tmp_path / "m")
    for other in (again.predict(X), booster.predict(X), model.booster_.predict(X)):
        np.testing.assert_array_equal(other, model.predict(X))
    np.testing.assert_array_equal(booster.predict(X, "probability"), model.predict_proba(X))
    raw = booster.predict(X, "raw")
    np.testing.assert_array_equal(raw, model.decision_function(X))
    np.testing.assert_allclose(1.0 / (1.0 + np.exp(-raw)), model.predict_proba(X)[:, 1], atol=1e-12)


def test_scales_go_there_and_back_to_the_bit() -> None:
    model = HedgerowClassifier(**SETTINGS, class_weight={1: 7.0}).fit(X, RARE).booster_.model
    back = uncorrected(model)
    assert model_to_bytes(corrected(back, np.array([1.0, 7.0]))) == model_to_bytes(model)
    assert uncorrected(back) is back
    other = rescaled(model, np.array([1.0, 3.0]))
    assert other.forest.base_score[0] == pytest.approx(model.forest.base_score[0] + np.log(3.0))
    assert rescaled(model, None).forest.base_score[0] == model.forest.base_score[0]


@pytest.mark.parametrize(
    "record",
    [
        3,
        {"weights": [1.0, 2.0]},
        {"weights": [1.0], "trained_base": [0.0]},
        {"weights": [1.0, 2.0], "trained_base": [0.0, 1.0]},
        {"weights": [1.0, -2.0], "trained_base": [0.0]},
        {"weights": [1.0, float("nan")], "trained_base": [0.0]},
        {"weights": [1.0, "2"], "trained_base": [0.0]},
        {"weights": [1.0, 2.0], "trained_base": [float("inf")]},
    ],
)
def test_a_wrong_record_is_refused(record) -> None:
    model = (
        HedgerowClassifier(n_estimators=1)
        .fit(X[:100], RARE[:100] | (X[:100, 0] > 1))
        .booster_.model
    )
    with pytest.raises(ModelFormatError, match="class_weight is malformed"):
        model_to_bytes(replace(model, training={**model.training, "class_weight": record}))


@pytest.mark.parametrize("weight", [1, 1.0])
def test_a_class_without_rows_does_not_round_the_weights(weight) -> None:
    """The number of rows is an integer, but the mean of two numbers can be a fraction."""
    first = HedgerowClassifier(**SETTINGS).fit(X[:300], THREE[:300])
    rows = np.flatnonzero(THREE[:300] != "some")[:200]
    assert len(rows) % 2 == 0
    rows = rows[1:]  # an odd number, so that the mean of two classes is a fraction
    mass = None if weight == 1 else np.full(len(rows), weight)
    more = HedgerowClassifier(**SETTINGS, class_weight="balanced")
    more.fit(X[rows], THREE[rows], mass, init_model=first)
    names, counts = np.unique(THREE[rows], return_counts=True)
    balanced = dict(zip(names.tolist(), len(rows) / (2 * counts), strict=True))
    expected = [balanced.get(name, 1.0) for name in more.classes_]
    assert more.booster_.model.training["class_weight"]["weights"] == expected
