"""``score`` refuses wrong targets, weights and tables with errors of the package."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import accuracy_score, r2_score

from hedgerow import (
    CARTClassifier,
    CARTRegressor,
    DataError,
    DataTypeError,
    HedgerowClassifier,
    HedgerowRegressor,
)

N = 60
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
Y = X[:, 0] + 0.1 * RNG.normal(size=N)
LETTERS = np.where(Y > 0.0, "a", "b")
WEIGHT = RNG.integers(0, 4, N)
ROUNDS = {"n_estimators": 2}

REGRESSORS = [
    HedgerowRegressor(**ROUNDS).fit(X, Y),
    HedgerowRegressor(objective="quantile", quantile=[0.2, 0.8], **ROUNDS).fit(X, Y),
    HedgerowRegressor(objective="normal", **ROUNDS).fit(X, Y),
    CARTRegressor(max_depth=2).fit(X, Y),
]
CLASSIFIERS = [
    HedgerowClassifier(**ROUNDS).fit(X, LETTERS),
    CARTClassifier(max_depth=2).fit(X, LETTERS),
]
SEVERAL = [HedgerowRegressor(**ROUNDS).fit(X, np.column_stack([Y, -Y]))]


def named(model: Any) -> str:
    return type(model).__name__


def changed(y: Any, value: Any) -> Any:
    other = np.array(y, dtype=object)
    other[7] = value
    return other


@pytest.mark.parametrize("model", [*REGRESSORS, *CLASSIFIERS], ids=named)
def test_wrong_targets_and_weights_are_named(model: Any) -> None:
    y = LETTERS if model in CLASSIFIERS else Y
    wrong = [
        y[:-1], None, 1.0, {"a": 1}, np.zeros((N, 3)), np.zeros((N, 3, 2)), np.full(N, 1j),
        changed(y, np.nan), changed(y, None), [1, "a"] * (N // 2), np.array([object()] * N),
        sparse.csr_matrix((N, 2)), np.zeros(N) if model in CLASSIFIERS else LETTERS,
    ]  # fmt: skip
    for each in wrong:
        with pytest.raises((DataError, DataTypeError), match=r"\by\b"):
            model.score(X, each)
    odd = [np.ones(5), -np.ones(N), np.full(N, np.nan), np.zeros(N), "much", np.ones((N, 2))]
    for weight in odd:
        with pytest.raises((DataError, DataTypeError), match="sample_weight"):
            model.score(X, y, weight)
    for table in (X[:, :2], None):
        with pytest.raises((DataError, DataTypeError)):
            model.score(table, y)


@pytest.mark.parametrize("model", SEVERAL, ids=named)
def test_scores_of_several_targets_need_as_many_columns(model: Any) -> None:
    for y in (Y, np.zeros((N, 3)), np.zeros((N - 1, 2))):
        with pytest.raises(DataError, match=r"\by\b"):
            model.score(X, y)
    both = np.column_stack([Y, -Y])
    found = model.score(X, both, WEIGHT)
    expected = r2_score(both, model.predict(X), sample_weight=WEIGHT)
    assert found == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
def test_scores_are_those_of_scikit_learn(weight: Any) -> None:
    for model in REGRESSORS:
        if model.predict(X).ndim == 1:
            found = model.score(X, Y[:, None].tolist(), weight)
            assert found == r2_score(Y, model.predict(X), sample_weight=weight)
    unknown = changed(LETTERS, "z")  # a label that the model does not know is a wrong prediction
    for model in CLASSIFIERS:
        for y in (LETTERS, LETTERS.tolist(), LETTERS[:, None], unknown):
            expected = accuracy_score(np.ravel(y), model.predict(X), sample_weight=weight)
            assert model.score(X, y, weight) == pytest.approx(expected, abs=1e-15)
