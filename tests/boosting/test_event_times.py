"""Survival times as targets: the forms in which users pass them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from hedgerow import Dataset, HedgerowRegressor, train
from hedgerow.boosting.row_data.targets import read_times
from hedgerow.errors import DataError, DataTypeError

RNG = np.random.default_rng(0)
N = 200
X = RNG.normal(size=(N, 2))
EVENT = np.arange(N) % 3 > 0
TIME = np.round(RNG.exponential(np.exp(X[:, 0])) + 0.01, 3)
SIGNED = np.where(EVENT, TIME, -TIME)
UPPER = np.where(EVENT, TIME, np.inf)
CODES = EVENT.astype(int)
SHORT = {"n_estimators": 3, "learning_rate": 0.1, "early_stopping": False}
SPELLINGS = r'"event": event, "time": time.*"lower": lower, "upper": upper'


def structured(**columns):
    kinds = [(name, values.dtype) for name, values in columns.items()]
    return np.array(list(zip(*columns.values(), strict=True)), dtype=kinds)


def frames(**columns):
    import polars as pl
    import pyarrow as pa

    return [make(columns) for make in (pd.DataFrame, pl.DataFrame, pa.table)]


EVENTS = {
    "dict of integers": lambda: [{"time": TIME, "event": CODES}],
    "frames of integers": lambda: frames(event=CODES, time=TIME),
    "structured, of integers": lambda: [structured(event=CODES, time=TIME)],
    "other names": lambda: frames(Survival_time=TIME, Status=CODES.astype(float)),
    "truth values of any name": lambda: [{"a": TIME, "b": EVENT}, structured(e=EVENT, t=TIME)],
    "truth values as objects": lambda: [np.array(list(zip(EVENT, TIME, strict=True)), object)],
}


@pytest.mark.parametrize("objective", ["cox", "aft"])
@pytest.mark.parametrize("form", EVENTS)
def test_event_and_time_are_recognised_by_names_and_types(objective, form) -> None:
    params = {"objective": objective, **SHORT}
    known = train(params, Dataset(X, SIGNED)).predict(X)
    for y in EVENTS[form]():
        np.testing.assert_array_equal(train(params, Dataset(X, y)).predict(X), known)
        model = HedgerowRegressor(**params).fit(X, y)
        np.testing.assert_array_equal(model.predict(X), known)
        assert model.score(X, y) == model.score(X, SIGNED) > 0.6


@pytest.mark.parametrize(
    "y",
    [
        {"upper": UPPER, "lower": TIME},
        structured(label_lower_bound=TIME, label_upper_bound=UPPER),
        np.column_stack([TIME, UPPER]),
    ],
)
def test_ends_of_intervals(y) -> None:
    params = {"objective": "aft", **SHORT}
    known = train(params, Dataset(X, SIGNED)).predict(X)
    np.testing.assert_array_equal(train(params, Dataset(X, y)).predict(X), known)
    np.testing.assert_array_equal(HedgerowRegressor(**params).fit(X, y).predict(X), known)


@pytest.mark.parametrize(
    "y",
    [
        np.column_stack([CODES, TIME]),
        np.column_stack([TIME, CODES]),
        list(zip(EVENT.tolist(), TIME.tolist(), strict=True)),
        {"a": CODES, "b": TIME},
    ],
)
def test_an_event_without_a_name_is_refused(y) -> None:
    with pytest.raises(DataError, match=f"nothing but 0 and 1.*{SPELLINGS}"):
        HedgerowRegressor(objective="aft").fit(X, y)
    with pytest.raises(DataError, match=f"nothing but 0 and 1.*{SPELLINGS}"):
        train({"objective": "aft", **SHORT}, Dataset(X, y))
    with pytest.raises(DataError, match=r'not support intervals.*"event": event'):
        HedgerowRegressor(objective="cox").fit(X, y)


def test_ends_of_zero_and_one_are_known_by_their_names_or_by_other_rows() -> None:
    lower, upper = np.ones(N), 1.0 + TIME
    params = {"objective": "aft", **SHORT}
    for y in ({"lower": lower, "upper": upper}, {"lower": lower - 1.0, "upper": upper}):
        train(params, Dataset(X, y))
    y, few = np.column_stack([TIME, 2.0 * TIME]), np.column_stack([lower, upper])
    train(params, Dataset(X, y), valid=Dataset(X, few))
    HedgerowRegressor(**params).fit(X, y, X_val=X, y_val=few)


@pytest.mark.parametrize(
    ("y", "fault", "message"),
    [
        ({"event": CODES + 1, "time": TIME}, DataError, r"\(event\) .* row 1 has 2: .*== 2"),
        ({"censored": ~EVENT, "time": TIME}, DataError, "'censored' of y .* which rows are"),
        ({"a": EVENT, "b": EVENT}, DataError, "both columns of y hold booleans"),
        ({"event": CODES, "time": TIME[1:]}, DataError, r"y \(time\) has 199 values"),
        ({"event": CODES, "time": TIME * 0.0}, DataError, r"\(time\): times must be positive"),
        ({"lower": EVENT, "upper": TIME}, DataTypeError, "'?lower'?.* booleans"),
        (np.column_stack([TIME, TIME, TIME]), DataTypeError, f"has 3. .*{SPELLINGS}"),
        ({"a": TIME, "b": TIME, "c": TIME}, DataTypeError, "has 3: 'a', 'b', 'c'"),
    ],
)
def test_columns_that_cannot_be_read_are_named(y, fault, message) -> None:
    with pytest.raises(fault, match=message):
        HedgerowRegressor(objective="aft").fit(X, y)


@pytest.mark.parametrize("tree_method", ["hist", "exact"])
def test_rows_in_batches_take_one_column(tree_method) -> None:
    params = {"objective": "aft", "tree_method": tree_method, **SHORT}

    def of(y):
        return Dataset.from_batches(lambda: iter([(X, y)]))

    named = {"event": CODES, "time": TIME}
    for y in (named, structured(**named), np.column_stack([CODES, TIME])):
        with pytest.raises(DataError, match=r"shape \(200, 2\).*target=\['event', 'time'\]"):
            train(params, of(y))
    known, found = (train(params, of(SIGNED), valid=Dataset(X, y)) for y in (SIGNED, named))
    assert known.model.training["history"] == found.model.training["history"]
    with pytest.raises(DataError, match="y of valid has intervals of times, but y has times"):
        train(params, of(SIGNED), valid=Dataset(X, {"lower": TIME, "upper": UPPER}))


WITHOUT_NAMES = {
    "text": np.array([["x", 1.0], ["y", 2.0]], dtype=object),
    "text above": np.array([[1.0, "x"], [2.0, "y"]], dtype=object),
    "missing": np.array([[1.0, np.nan], [2.0, 3.0]]),
    "none": np.array([[None, 2.5], [2.5, 3.0]], dtype=object),
    "both": np.array([[True, False], [True, True]]),
    "codes": np.array([[1.0, 2.5], [0.0, 3.0]]),
    "event and text": np.array([[True, "x"], [False, "y"]], dtype=object),
    "doubtful event": np.array([[True, -1.0], [False, 2.0]], dtype=object),
    "three": np.ones((2, 3)),
}


@pytest.mark.parametrize("given", WITHOUT_NAMES)
@pytest.mark.parametrize("as_frame", [False, True])
@pytest.mark.parametrize("objective", ["aft", "cox"])
def test_errors_about_columns_without_names_name_no_none(given, as_frame, objective) -> None:
    y = WITHOUT_NAMES[given]
    with pytest.raises((DataError, DataTypeError)) as caught:
        read_times(pd.DataFrame(y) if as_frame else y, 2, "y", objective)
    assert "(None)" not in str(caught.value)
    assert "column None" not in str(caught.value)


def test_errors_about_ends_without_names_tell_which_end() -> None:
    for column, end in ((0, "lower"), (1, "upper")):
        y = np.array([[1.5, 2.5], [2.5, 3.0]], dtype=object)
        y[1, column] = "x"
        with pytest.raises(DataTypeError, match=rf"y \({end} end\)"):
            read_times(y, 2, "y", "aft")
