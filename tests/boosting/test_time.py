"""Times of rows: later rows are held out, and folds test later rows beside random ones."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import TimeSeriesSplit

from hedgerow import Dataset, HedgerowRanker, HedgerowRegressor, cv
from hedgerow.boosting.row_data.checks import times_of_rows
from hedgerow.boosting.row_data.queries import first_values_aside
from hedgerow.boosting.validation.folds import forward_folds
from hedgerow.comm.base import Alone
from hedgerow.errors import DataError, DataTypeError, ParameterError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
Y = X[:, 0] + RNG.normal(size=300)
TIME = RNG.permutation(300) // 5

times = st.lists(st.integers(0, 30), min_size=4, max_size=60)


@given(times, st.integers(1, 6), st.sampled_from([0.2, 0.5]))
def test_folds_test_later_rows_and_divide_no_time(values, n_folds, start) -> None:
    time = np.array(values, dtype=np.float64)
    if time[np.argsort(time)][int(np.ceil(start * len(time))) - 1] == time.max():
        with pytest.raises(DataError, match="has one time"):
            forward_folds(time, n_folds, start)
        return
    folds = forward_folds(time, n_folds, start)
    assert 1 <= len(folds) <= n_folds
    for fold in folds:
        assert time[fold.train].max() < time[fold.test].min()
        assert len(fold.train) == np.count_nonzero(time <= time[fold.train].max())
    assert len(folds[0].train) >= start * len(time)
    seen = np.concatenate([folds[0].train, *(fold.test for fold in folds)])
    assert sorted(seen) == list(range(len(time)))


@given(times)
def test_the_latest_rows_are_held_out(values) -> None:
    time = np.array(values, dtype=np.float64)
    if len(np.unique(time)) < 2:
        return
    aside = first_values_aside(time, np.zeros(len(time)), 0.2, False, Alone(), np.negative)
    assert time[~aside].max() < time[aside].min()


def test_models_depend_on_the_order_of_times_only() -> None:
    for stopping in ("cv", True):
        plain = HedgerowRegressor(early_stopping=stopping, random_state=0)
        first = plain.fit(X, Y, time=TIME).booster_.to_bytes()
        days = pd.Timestamp("2020-02-01", tz="Asia/Tokyo") + pd.to_timedelta(TIME, unit="D")
        assert plain.fit(X, Y, time=days).booster_.to_bytes() == first
        assert plain.fit(X, Y, time=-TIME).booster_.to_bytes() != first
        assert plain.fit(X, Y).booster_.to_bytes() != first


def test_folds_of_times_stand_beside_random_ones() -> None:
    model = HedgerowRegressor(random_state=0).fit(X, Y, time=TIME)
    assert model.booster_.model.training["folds"]["folds"] == [6, 6]
    found = cv({"n_estimators": 3}, Dataset(X, Y, time=TIME), 4, keep_models=True)
    assert len(found.boosters) == 4


@pytest.mark.parametrize(
    "values",
    [
        pd.to_datetime(["2024-01-01", "2024-01-03"]),
        pd.Series(pd.to_datetime(["2024-01-01", "2024-01-03"]).tz_localize("Asia/Tokyo")),
        [dt.date(2024, 1, 1), dt.date(2024, 1, 3)],
        [dt.datetime(2024, 1, 1, tzinfo=dt.UTC), pd.Timestamp("2024-01-03", tz="UTC")],
        pd.to_timedelta([0, 2], unit="D"),
        [dt.timedelta(0), dt.timedelta(days=2)],
        pd.Series([0, 2], dtype="Int64") * 86400,
    ],
)
def test_times_are_dates_or_numbers(values) -> None:
    assert np.diff(times_of_rows(values, 2)) == [2 * 86400.0]


def test_wrong_times_are_named() -> None:
    model = HedgerowRegressor(n_estimators=3, early_stopping=True)
    for wrong, error, words in (
        (["2024-01-01"] * 300, DataTypeError, "pandas.to_datetime"),
        (np.where(np.arange(300) == 7, np.nan, TIME), DataError, "row 7"),
        (TIME[:4], DataError, "4 values for 300 rows"),
        (np.zeros(300), DataError, "one time"),
        ([dt.datetime(2024, 1, 1), pd.Timestamp("2024", tz="UTC")] * 150, DataTypeError, "a zone"),
    ):
        with pytest.raises(error, match=words):
            model.fit(X, Y, time=wrong)


def test_times_without_effect_are_refused() -> None:
    early = HedgerowRegressor(n_estimators=3)
    with pytest.raises(ParameterError, match="time has no effect here: early_stopping"):
        early.fit(X, Y, time=TIME)
    with pytest.raises(ParameterError, match="time has no effect here: validation rows"):
        early.fit(X, Y, time=TIME, X_val=X, y_val=Y)
    with pytest.raises(ParameterError, match="time has no effect here: folds="):
        HedgerowRegressor(folds=3).fit(X, Y, time=TIME)
    with pytest.raises(ParameterError, match="time and groups cannot be combined"):
        HedgerowRegressor().fit(X, Y, time=TIME, groups=TIME)
    with pytest.raises(ParameterError, match="time has no effect with a splitter"):
        cv({"n_estimators": 3}, Dataset(X, Y, time=TIME), TimeSeriesSplit(3))
    with pytest.raises(TypeError, match="time"):
        HedgerowRanker().fit(X, Y > 0, qid=TIME, time=TIME)
