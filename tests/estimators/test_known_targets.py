"""Targets of scored rows: found by name, and survival times in every form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.metrics import accuracy_score, r2_score

from hedgerow import Dataset, HedgerowClassifier, HedgerowRegressor
from hedgerow.errors import DataError
from hedgerow.report import find

N = 240
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
Y = np.column_stack([X[:, 0], 10.0 * X[:, 1], X[:, 0] + X[:, 2]]) + 0.1 * RNG.normal(size=(N, 3))
LABELS = (Y > 0.3).astype(int)
NAMES = ["height", "weight", "age"]
TURNED = ["age", "height", "weight"]
COLUMNS = {f"x{k}": X[:, k] for k in range(3)}
SMALL: dict[str, Any] = {"n_estimators": 5, "early_stopping": False}

TIME = RNG.exponential(np.exp(-X[:, 0])) + 0.01
EVENT = RNG.random(N) < 0.7
SIGNED = np.where(EVENT, TIME, -TIME)
FORMS: dict[str, Callable[[], Any]] = {
    "dict": lambda: {"event": EVENT, "time": TIME},
    "other order": lambda: {"time": TIME, "status": EVENT.astype(int)},
    "pandas": lambda: pd.DataFrame({"event": EVENT, "time": TIME}),
    "polars": lambda: pl.DataFrame({"event": EVENT, "time": TIME}),
    "structured": lambda: np.array(
        list(zip(EVENT, TIME, strict=True)), dtype=[("event", bool), ("time", float)]
    ),
}


@pytest.fixture(scope="module")
def regressor() -> HedgerowRegressor:
    model = HedgerowRegressor(**SMALL, multi_strategy="one_output_per_tree")
    return model.fit(X, pd.DataFrame(Y, columns=NAMES))


def lost_and_baseline(model: Any, y: Any, **settings: Any) -> list[Any]:
    found = model.importance("permutation", X, y, n_repeats=2, **settings)
    return [*found.values.tolist(), found.baseline]


def test_several_targets_are_found_by_name(regressor: HedgerowRegressor) -> None:
    frame = pd.DataFrame(Y, columns=NAMES)
    booster = regressor.booster_
    expected = r2_score(Y, regressor.predict(X))
    for turned in (frame[TURNED], pl.DataFrame(Y, schema=NAMES).select(TURNED)):
        assert regressor.score(X, turned) == pytest.approx(expected, abs=1e-12)
        assert booster.eval(Dataset(X, turned)) == booster.eval(Dataset(X, frame))
        refitted = booster.refit(X, turned).predict(X)
        np.testing.assert_array_equal(refitted, booster.refit(X, frame).predict(X))
        assert lost_and_baseline(regressor, turned) == lost_and_baseline(regressor, frame)
        assert find(booster, COLUMNS, turned).scores == find(booster, COLUMNS, frame).scores


def test_labels_are_found_by_name() -> None:
    labels = pd.DataFrame(LABELS, columns=NAMES)
    model = HedgerowClassifier(**SMALL).fit(X, labels)
    assert model.score(X, labels[TURNED]) == model.score(X, labels)
    assert model.score(X, LABELS) == accuracy_score(LABELS, model.predict(X))
    assert lost_and_baseline(model, labels[TURNED]) == lost_and_baseline(model, labels)


def test_other_targets_than_those_of_the_model_are_named(regressor: HedgerowRegressor) -> None:
    frame = pd.DataFrame(Y, columns=NAMES)
    renamed = frame.rename(columns={"weight": "mass"})

    def lost(X: Any, y: Any) -> Any:
        return regressor.importance("permutation", X, y)

    for read in (regressor.score, regressor.booster_.refit, lost):
        with pytest.raises(DataError, match="y lacks the column 'weight', a target of the"):
            read(X, renamed)
        with pytest.raises(DataError, match=r"y has 2 column\(s\), but the model predicts 3"):
            read(X, frame[NAMES[:2]])


def test_targets_without_names_keep_their_order() -> None:
    model = HedgerowRegressor(**SMALL).fit(X, Y)
    single = HedgerowRegressor(**SMALL).fit(X, Y[:, 0])
    with pytest.raises(DataError, match=r"y has 3 column\(s\), but the model predicts 1"):
        single.importance("permutation", X, Y)
    named = pd.DataFrame(Y, columns=["c", "b", "a"])
    assert model.score(X, named) == model.score(X, Y)
    assert model.booster_.eval(Dataset(X, named)) == model.booster_.eval(Dataset(X, Y))
    assert lost_and_baseline(model, named) == lost_and_baseline(model, Y)


@pytest.mark.fast(4)
@pytest.mark.parametrize("objective", ["cox", "aft"])
@pytest.mark.parametrize("form", FORMS)
def test_times_of_events_are_read_in_every_form(objective: str, form: str) -> None:
    y = FORMS[form]()
    model = HedgerowRegressor(objective=objective, **SMALL).fit(X, y)
    for metric in (None, "concordance"):
        found = lost_and_baseline(model, y, metric=metric)
        assert found == lost_and_baseline(model, SIGNED, metric=metric)
        assert np.isfinite(found).all()
    assert find(model.booster_, COLUMNS, y).scores == find(model.booster_, COLUMNS, SIGNED).scores


def test_intervals_are_scored_but_have_no_report() -> None:
    ends = {"lower": 0.8 * TIME, "upper": np.where(EVENT, 1.2 * TIME, np.inf)}
    model = HedgerowRegressor(objective="aft", **SMALL).fit(X, ends)
    *lost, baseline = lost_and_baseline(model, ends)
    assert lost[0] == max(lost)
    assert baseline == pytest.approx(model.booster_.eval(Dataset(X, ends))["loss"])
    with pytest.raises(DataError, match="A report on times needs the time of each row"):
        find(model.booster_, COLUMNS, ends)
