"""Early stopping by folds of the user: a number, a splitter, or the splits."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, KFold, PredefinedSplit, TimeSeriesSplit

from hedgerow import (
    Dataset,
    FoldsWarning,
    HedgerowClassifier,
    HedgerowRanker,
    HedgerowRegressor,
    ParameterError,
    train,
)
from hedgerow.errors import DataError
from hedgerow.estimators.cross import cross_fit
from hedgerow.io import model_to_bytes

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 3))
Y = X[:, 0] * X[:, 1] + 0.3 * RNG.normal(size=240)
GROUPS = np.arange(240) // 8
SETTINGS = {"early_stopping": "cv", "n_estimators": 60, "learning_rate": 0.2}


def file_of(model: Any) -> bytes:
    return model_to_bytes(model.booster_.model)


@pytest.mark.parametrize(
    ("estimator", "splitter", "fit"),
    [
        (HedgerowRegressor, TimeSeriesSplit(3), {}),
        (HedgerowRegressor, GroupKFold(4), {"groups": GROUPS}),
        (HedgerowClassifier, KFold(4, shuffle=True, random_state=3), {}),
        (HedgerowClassifier, PredefinedSplit(np.arange(240) % 4 - 1), {}),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "split") else "",
)
def test_a_splitter_is_the_list_of_its_splits(estimator: Any, splitter: Any, fit: Any) -> None:
    y = Y if estimator is HedgerowRegressor else Y > 0
    splits = list(splitter.split(X, y, fit.get("groups")))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FoldsWarning)
        model = estimator(folds=splitter, random_state=0).fit(X, y, **fit)
        listed = estimator(folds=splits, random_state=0).fit(X, y, **fit)
    assert file_of(model) == file_of(listed)
    assert model.chosen_params_["folds"] == [len(splits), len(splits)]
    again = estimator(**model.repeat_params_).fit(X, y)
    np.testing.assert_array_equal(again.booster_.raw_scores(X), model.booster_.raw_scores(X))


def test_only_rows_of_the_folds_decide() -> None:
    # Rows in no fold belong to the model, but not to the choice of its rounds.
    splits = [(np.arange(60), np.arange(60, 90)), (np.arange(60, 90), np.arange(60))]
    other = Y.copy()
    other[90:] = RNG.permutation(Y[90:])
    one, two = (
        train(SETTINGS, Dataset(X, y), folds=splits).model.training["history"] for y in (Y, other)
    )
    assert one == two


def test_folds_are_positions_among_all_rows_also_of_weight_0() -> None:
    weight = np.ones(240)
    weight[::5] = 0.0
    kept = np.flatnonzero(weight)
    splits = [(np.arange(120), np.arange(120, 240)), (np.arange(120, 240), np.arange(120))]
    place = np.cumsum(weight > 0) - 1
    fewer = [tuple(place[rows[weight[rows] > 0]] for rows in pair) for pair in splits]
    model = HedgerowRegressor(folds=splits, random_state=0).fit(X, Y, sample_weight=weight)
    bare = HedgerowRegressor(folds=fewer, random_state=0).fit(X[kept], Y[kept])
    np.testing.assert_array_equal(model.predict(X), bare.predict(X))


def test_a_number_is_that_of_the_folds() -> None:
    model = HedgerowRegressor(folds=7, random_state=0).fit(X, Y)
    assert model.chosen_params_["folds"] == [7, 7]
    booster = train(SETTINGS, Dataset(X, Y), folds=5)
    assert model_to_bytes(booster.model) == model_to_bytes(train(SETTINGS, Dataset(X, Y)).model)
    ranks = HedgerowRanker(folds=GroupKFold(3), random_state=0)
    ranks.fit(X, np.digitize(Y, [-0.5, 0.5]), qid=GROUPS)
    assert ranks.chosen_params_["folds"] == [3, 3]


@pytest.mark.parametrize(
    ("params", "fit", "error", "message"),
    [
        ({"folds": "cv"}, {}, ParameterError, "folds must be a number of folds, a splitter"),
        ({"folds": [(np.arange(9), [240])]}, {}, DataError, "row 240, but rows are 0 to 239"),
        ({"folds": 5, "n_estimators": 9}, {}, ParameterError, "folds have no effect"),
        ({"folds": 5}, {"X_val": X, "y_val": Y}, ParameterError, "folds have no effect"),
        ({"folds": KFold(3)}, {"groups": GROUPS % 7}, DataError, "divides the group"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_folds_without_a_meaning_are_refused(
    params: Any, fit: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        HedgerowRegressor(**params).fit(X, Y, **fit)


def test_cross_fit_has_folds_of_its_own() -> None:
    with pytest.raises(ParameterError, match="give them as cv"):
        cross_fit(HedgerowRegressor(folds=3), X, Y)
