"""Columns of Python objects, which Dask turns into text by default."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hedgerow import DaskHedgerowRegressor, HedgerowRegressor
from hedgerow.errors import DataTypeError
from hedgerow.io import model_to_bytes

pytest.importorskip("distributed", reason="distributed is not installed (hedgerow[dask])")
dd = pytest.importorskip(
    "dask.dataframe", reason="dask.dataframe is not installed (hedgerow[dask])"
)
dask = pytest.importorskip("dask")

N = 300
SETTINGS: dict[str, Any] = {"n_estimators": 4, "max_leaves": 5, "early_stopping": False}
DAY = dt.date(2024, 1, 1)
NUMBERS = np.random.default_rng(0).normal(size=N)
TABLE = pd.DataFrame(
    {
        "x": NUMBERS,
        "dates": pd.Series([DAY + dt.timedelta(days=i % 50) for i in range(N)], dtype=object),
        "text": pd.Series([f"level {i % 3}" for i in range(N)], dtype=object),
    }
)
TARGET = pd.Series(NUMBERS + np.arange(N) % 50 / 20.0, name="y")


def test_objects_that_dask_turns_into_text_are_an_error(shared_client: Any) -> None:
    X, y = (dd.from_pandas(part, npartitions=2) for part in (TABLE, TARGET))
    with pytest.raises(DataTypeError, match=r"column 'dates' of X .*'dataframe.convert-string'"):
        DaskHedgerowRegressor(**SETTINGS).fit(X.assign(more=X.x + 1.0), y)
    found = DaskHedgerowRegressor(**SETTINGS).fit(X[["x", "text"]], y)
    expected = HedgerowRegressor(**SETTINGS).fit(TABLE[["x", "text"]], TARGET)
    assert model_to_bytes(found.booster_.model) == model_to_bytes(expected.booster_.model)
    with pytest.raises(DataTypeError, match="column 'dates' of X"):
        found.predict(X)


def test_objects_that_stay_objects_are_those_of_memory(shared_client: Any) -> None:
    with dask.config.set({"dataframe.convert-string": False}):
        X, y = (dd.from_pandas(part, npartitions=2) for part in (TABLE, TARGET))
        found = DaskHedgerowRegressor(**SETTINGS).fit(X, y)
    expected = HedgerowRegressor(**SETTINGS).fit(TABLE, TARGET)
    assert model_to_bytes(found.booster_.model) == model_to_bytes(expected.booster_.model)
    np.testing.assert_array_equal(found.predict(X).compute(), expected.predict(TABLE))
