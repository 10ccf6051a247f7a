"""Custom losses of more than two classes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris

from hedgerow import Dataset, HedgerowClassifier, ParameterError, load, train
from hedgerow.errors import LossError

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])
FEW = {"n_estimators": 15, "early_stopping": False, "linear_leaves": False}


def shares(raw):
    e = np.exp(raw - raw.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def own_softmax(y, raw):
    p = shares(raw)
    k = raw.shape[1]
    return p - np.eye(k)[y.astype(int)], p * (1.0 - p) * k / (k - 1)


def weighing(y, raw, weight):
    g, h = own_softmax(y, raw)
    return g * weight[:, None], h * weight[:, None]


def own_logits(y, raw):
    p = 1.0 / (1.0 + np.exp(-raw))
    return p - np.eye(raw.shape[1])[y.astype(int)], p * (1.0 - p)


own_logits.link = "logit"


def with_loss(y, raw):
    return own_softmax(y, raw)


with_loss.loss = lambda y, raw: -np.log(shares(raw)[np.arange(len(y)), y.astype(int)])


@pytest.mark.parametrize("objective", [own_softmax, weighing])
@pytest.mark.parametrize("weighted", [False, True])
def test_softmax_written_anew_is_the_softmax(objective, weighted) -> None:
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(Y)) if weighted else None
    own = HedgerowClassifier(objective=objective, **FEW).fit(X, NAMES[Y], weight)
    built_in = HedgerowClassifier(objective="softmax", **FEW).fit(X, NAMES[Y], weight)
    np.testing.assert_allclose(own.predict_proba(X), built_in.predict_proba(X), rtol=1e-5)
    assert np.array_equal(own.predict(X), built_in.predict(X))


def test_logits_of_each_class() -> None:
    model = HedgerowClassifier(objective=own_logits, **FEW).fit(X, Y)
    raw = model.booster_.predict(X, kind="raw")
    np.testing.assert_allclose(model.predict_proba(X), 1.0 / (1.0 + np.exp(-raw)))
    assert model.score(X, Y) > 0.95


def test_saved_models_predict_classes(tmp_path) -> None:
    model = HedgerowClassifier(objective=own_softmax, **FEW).fit(X, NAMES[Y])
    model.save(tmp_path / "m")
    for loaded in (HedgerowClassifier.load(tmp_path / "m"), load(tmp_path / "m")):
        assert np.array_equal(loaded.predict(X), model.predict(X))
    found = load(tmp_path / "m").predict(X, kind="probability")
    assert np.array_equal(found, model.predict_proba(X))
    few = np.concatenate([load(tmp_path / "m").predict(X[i : i + 1], kind="probability")
                          for i in range(0, 150, 10)])  # fmt: skip
    assert np.array_equal(few, found[::10])


def test_early_stopping_by_its_own_loss_or_a_metric() -> None:
    order = np.random.default_rng(1).permutation(len(Y))
    kept, other = order[:100], order[100:]
    for objective, more in ((with_loss, {}), (own_softmax, {"eval_metric": "logloss"})):
        model = HedgerowClassifier(objective=objective, n_estimators=60, patience=5, **more)
        model.fit(X[kept], Y[kept], X_val=X[other], y_val=Y[other])
        assert model.score(X[other], Y[other]) >= 0.9
    scores = HedgerowClassifier(objective=with_loss, n_estimators=9, train_scores=True).fit(
        X[kept], Y[kept], X_val=X[other], y_val=Y[other]
    )
    assert scores.evals_result_["train"]["loss"][-1] < 0.9
    with pytest.raises(LossError, match="gives derivatives but no loss"):
        HedgerowClassifier(objective=own_softmax, n_estimators=5).fit(
            X[kept], Y[kept], X_val=X[other], y_val=Y[other]
        )


def test_train_takes_the_number_of_classes_from_the_function() -> None:
    def three(y, raw):
        return own_softmax(y, raw)

    three.n_classes = 3
    booster = train({"objective": three, **FEW}, Dataset(X, Y))
    model = HedgerowClassifier(objective=own_softmax, **FEW).fit(X, Y)
    assert np.array_equal(booster.predict(X, kind="probability"), model.predict_proba(X))


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        (lambda y, raw: raw, "must return gradient and hessian"),
        (lambda y, raw: (raw[:, 0], raw[:, 0]), "gradient of shape .* a column for each class"),
        (lambda y, raw: 1 / 0, "raised ZeroDivisionError"),
        (lambda y_pred, y_true: (y_pred, y_pred), "targets first"),
    ],
)
def test_what_is_no_loss_of_classes_is_refused(objective, words) -> None:
    with pytest.raises((LossError, ParameterError), match=words):
        HedgerowClassifier(objective=objective, **FEW).fit(X, Y)


def test_monotone_probabilities_are_not_promised() -> None:
    with pytest.raises(ParameterError, match="depends on the scores of all classes"):
        HedgerowClassifier(objective=own_softmax, monotone_constraints={0: 1}, **FEW).fit(X, Y)
