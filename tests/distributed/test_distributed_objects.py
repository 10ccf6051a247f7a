"""Columns of Python objects, which Dask turns into text by default."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hedgerow import (
    DaskHedgerowClassifier,
    DaskHedgerowRegressor,
    HedgerowClassifier,
    HedgerowRegressor,
)
from hedgerow.boosting.automatic.recipe import plain_values
from hedgerow.distributed.collections import with_objects
from hedgerow.errors import DataTypeError
from hedgerow.io import model_to_bytes

pytest.importorskip("distributed", reason="distributed is not installed (hedgerow[dask])")
dd = pytest.importorskip(
    "dask.dataframe", reason="dask.dataframe is not installed (hedgerow[dask])"
)
dask = pytest.importorskip("dask")

N = 300
SETTINGS: dict[str, Any] = {
    **plain_values(),
    "n_estimators": 4,
    "max_leaves": 5,
    "early_stopping": False,
}
DAY = dt.date(2024, 1, 1)
VALUES: dict[str, Callable[[int], Any]] = {
    "dates": lambda i: DAY + dt.timedelta(days=i % 50),
    "datetimes": lambda i: dt.datetime(2024, 1, 1) + dt.timedelta(hours=i),
    "timestamps": lambda i: pd.Timestamp("2024-01-01") + pd.Timedelta(i, "h"),
    "durations": lambda i: pd.Timedelta(i, "h"),
    "times": lambda i: dt.time(i % 24),
    "numbers": lambda i: i % 7,
    "text": lambda i: f"level {i % 3}",
}
NUMBERS = np.random.default_rng(0).normal(size=N)


def _table() -> pd.DataFrame:
    found = {name: pd.Series(list(map(of, range(N))), dtype=object) for name, of in VALUES.items()}
    found["dates"][3] = None
    return pd.DataFrame({"x": NUMBERS, **found})


def _delayed(frame: Any) -> Any:
    halves = [dask.delayed(frame.iloc[: N // 2]), dask.delayed(frame.iloc[N // 2 :])]
    return dd.from_delayed(halves, meta=frame.iloc[:0])


MAKERS: dict[str, Callable[[Any], Any]] = {
    "from_pandas": lambda frame: dd.from_pandas(frame, npartitions=3),
    "from_delayed": _delayed,
    "repartitioned": lambda frame: dd.from_pandas(frame, npartitions=5).repartition(npartitions=2),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_objects_give_the_model_of_the_same_table_in_memory(maker: str, shared_client: Any) -> None:
    table, make = _table(), MAKERS[maker]
    y = pd.Series(NUMBERS + np.arange(N) % 50 / 20.0, name="y")
    for columns in (list(table), ["x", "durations"]):
        expected = HedgerowRegressor(**SETTINGS).fit(table[columns], y)
        X = make(table)[columns]
        found = DaskHedgerowRegressor(**SETTINGS).fit(X, make(y))
        assert model_to_bytes(found.booster_.model) == model_to_bytes(expected.booster_.model)
        np.testing.assert_array_equal(found.predict(X).compute(), expected.predict(table[columns]))


def test_labels_that_are_objects_keep_their_type(shared_client: Any) -> None:
    labels = pd.Series([i % 3 for i in range(N)], dtype=object)
    X = dd.from_pandas(_table()[["x", "numbers"]], npartitions=3)
    found = DaskHedgerowClassifier(**SETTINGS).fit(X, dd.from_pandas(labels, npartitions=3))
    expected = HedgerowClassifier(**SETTINGS).fit(_table()[["x", "numbers"]], labels)
    assert found.classes_.tolist() == [0, 1, 2]
    assert model_to_bytes(found.booster_.model) == model_to_bytes(expected.booster_.model)


def test_objects_whose_text_other_steps_may_need_are_an_error(shared_client: Any) -> None:
    X, y = (dd.from_pandas(part, npartitions=2) for part in (_table(), pd.Series(NUMBERS)))
    with pytest.raises(DataTypeError, match=r"column 'dates' of X .*'dataframe.convert-string'"):
        DaskHedgerowRegressor(**SETTINGS).fit(X.assign(more=X.x + 1.0), y)
    texts = X[["x", "text"]].assign(more=X.x + 1.0)
    found = DaskHedgerowRegressor(**SETTINGS).fit(texts, y)
    assert [column.kind for column in found.booster_.model.schema.columns][1] == "category"


def test_frames_of_text_stay_as_they_are(shared_client: Any) -> None:
    X = dd.from_pandas(_table(), npartitions=2)
    texts, dates = X[["x", "text"]], X[["x", "dates"]]
    assert with_objects(texts, "X") is texts
    assert with_objects(dates, "X") is not dates
