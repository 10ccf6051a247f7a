"""Predictions of classes stop at the round that decides the class."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_iris

from hedgerow import Dataset, HedgerowClassifier, HedgerowRegressor, ParameterError, train
from hedgerow.datasets import load_pima

FEW = {"n_estimators": 47, "early_stopping": False, "linear_leaves": False}
IRIS = load_iris(return_X_y=True)
PIMA = load_pima()[:2]


def naive(booster, X, margin, every):
    """Return raw scores by the definition: round after round for each row."""
    stages = list(booster.staged_predict(X, "raw"))
    found = []
    for row in range(len(X)):
        for number in range(every, len(stages) + every, every):
            raw = np.atleast_1d(stages[min(number, len(stages)) - 1][row])
            ordered = np.sort(raw)
            ahead = 2 * abs(raw[0]) if len(raw) == 1 else ordered[-1] - ordered[-2]
            if ahead >= margin:
                break
        found.append(raw)
    return np.squeeze(np.array(found))


@pytest.mark.parametrize("data", [IRIS, PIMA], ids=["three classes", "two classes"])
@pytest.mark.parametrize(("margin", "every"), [(1.0, 5), (2.5, 10), (0.1, 1), (4.0, 100)])
def test_rows_stop_where_they_are_decided(data, margin, every) -> None:
    X, y = data
    booster = HedgerowClassifier(**FEW).fit(X, y).booster_
    found = booster.predict_decided(X, "raw", margin=margin, every=every)
    np.testing.assert_allclose(found, naive(booster, X, margin, every), rtol=1e-9, atol=1e-9)
    values = booster.predict_decided(X, margin=margin, every=every)
    assert (values == booster.predict(X)).mean() > 0.6
    if every < 47 and margin < 4.0:
        assert not np.allclose(found, booster.predict(X, "raw"))


@pytest.mark.parametrize("kind", ["value", "raw", "probability"])
def test_without_end_all_trees_are_used(kind) -> None:
    X, y = IRIS
    model = HedgerowClassifier(**FEW).fit(X, np.array(["a", "b", "c"])[y])
    found = model.booster_.predict_decided(X, kind, margin=np.inf)
    expected = model.booster_.predict(X, kind)
    if kind == "value":
        assert np.array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_sparse_rows_offsets_and_threads() -> None:
    X, y = PIMA
    offset = np.random.default_rng(0).normal(size=len(y))
    params = {**FEW, "objective": "logistic"}
    booster = train(params, Dataset(X, y, offset=offset))
    few = {"margin": 2.0, "offset": offset, "kind": "raw"}
    dense = booster.predict_decided(X, n_jobs=1, **few)
    assert np.array_equal(dense, booster.predict_decided(X, n_jobs=3, **few))
    assert np.array_equal(dense, booster.predict_decided(csr_matrix(X), **few))
    assert np.array_equal(booster.predict_decided(X[:1], margin=2.0, offset=offset[:1], kind="raw"),
                          dense[:1])  # fmt: skip


def test_what_is_not_decided_is_refused() -> None:
    X, y = PIMA
    booster = HedgerowClassifier(**FEW).fit(X, y).booster_
    for given, words in (
        ({"kind": "leaf"}, "kind must be"),
        ({"margin": 0.0}, "margin must be a number greater than 0"),
        ({"every": 0}, "every must be an integer"),
    ):
        with pytest.raises(ParameterError, match=words):
            booster.predict_decided(X, **given)
    forest = HedgerowClassifier(n_estimators=3, boosting="rf", subsample=0.5).fit(X, y)
    number = HedgerowRegressor(n_estimators=3).fit(X, y)
    labels = HedgerowClassifier(n_estimators=3).fit(X, np.c_[y, 1 - y])
    for other in (forest, number, labels):
        with pytest.raises(ParameterError, match="needs a classifier whose trees are added up"):
            other.booster_.predict_decided(X)
