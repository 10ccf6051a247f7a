"""Attributes that an object does not have are absent, as Python's protocols expect."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from hedgerow import (
    CARTClassifier,
    CARTRegressor,
    Dataset,
    DataTypeError,
    HedgerowClassifier,
    HedgerowError,
    HedgerowRanker,
    HedgerowRegressor,
    ParameterError,
    Training,
    cross_fit,
    cv,
    train,
)

ROUNDS = {"n_estimators": 1}
X = np.random.default_rng(0).normal(size=(60, 2))
Y = np.exp(X[:, 0])


def not_fitted() -> Iterator[Any]:
    yield from (HedgerowRegressor(), HedgerowClassifier(), HedgerowRanker())
    yield from (CARTRegressor(), CARTClassifier())


def fitted() -> Iterator[Any]:
    labels, queries = (Y > 1.0).astype(int), np.repeat(np.arange(4), 15)
    for objective in ("squared_error", "poisson", "quantile", "cox", "normal"):
        yield HedgerowRegressor(objective=objective, **ROUNDS).fit(X, Y)
    yield HedgerowRegressor(**ROUNDS).fit(X, np.column_stack([Y, Y]))
    yield HedgerowClassifier(**ROUNDS).fit(X, labels)
    yield HedgerowRanker(**ROUNDS).fit(X, labels, qid=queries)
    yield CARTRegressor(max_depth=1).fit(X, Y)
    yield CARTClassifier(max_depth=1).fit(X, labels)
    yield cross_fit(HedgerowRegressor(**ROUNDS), X, Y, cv=2)


def made() -> Iterator[Any]:
    data = Dataset(X, Y)
    yield from (Dataset(X), data, cv(ROUNDS, data, 2))
    booster = train(ROUNDS, data)
    yield from (booster, booster.explain(X[:2]))
    yield from booster.partial_dependence(X)
    yield from (booster.importance(), booster.importance("permutation", X, Y, n_repeats=2))


def check_attributes(subject: Any, checked: dict[int, Any], depth: int = 0) -> None:
    """Check an object of the package, and those in its public attributes."""
    if id(subject) in checked or not type(subject).__module__.startswith("hedgerow"):
        return
    checked[id(subject)] = subject  # kept, so that no other object gets its id
    assert isinstance(repr(subject), str)
    for copied in (copy.copy(subject), copy.deepcopy(subject), pickle.dumps(subject)):
        assert copied is not None
    for name in dir(subject):
        value = getattr(subject, name, None)
        if depth < 2 and not name.startswith("_") and not callable(value):
            check_attributes(value, checked, depth + 1)


@pytest.mark.parametrize("kind", [not_fitted, fitted, made])
def test_every_attribute_is_a_value_or_absent(kind: Any) -> None:
    checked: dict[int, Any] = {}
    for subject in kind():
        check_attributes(subject, checked)
        if kind is not not_fitted:
            assert inspect.getmembers(subject)
    assert len(checked) >= 5


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("event_times", train(ROUNDS, Dataset(X, Y))),
        ("oob_score_", HedgerowRegressor(**ROUNDS).fit(X, Y)),
        ("oob_improvement_", HedgerowRegressor(**ROUNDS).fit(X, Y)),
    ],
)
def test_attributes_of_other_models(name: str, model: Any) -> None:
    assert not hasattr(model, name)
    with pytest.raises(HedgerowError) as caught:
        getattr(model, name)
    assert isinstance(caught.value, AttributeError)
    assert isinstance(caught.value, ParameterError)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_running_training_is_not_copied(duplicate: Any) -> None:
    with (
        Training({}, Dataset(X, Y)) as training,
        pytest.raises(DataTypeError, match="cannot be copied or pickled"),
    ):
        duplicate(training)
