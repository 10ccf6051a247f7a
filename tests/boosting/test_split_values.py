"""Thresholds of the splits of a column."""

from __future__ import annotations

import numpy as np
import pytest

from hedgerow import Dataset, ParameterError, train

RNG = np.random.default_rng(0)
N = 600
X = {
    "size": RNG.normal(size=N),
    "whole": RNG.integers(0, 50, N) + 2**55,
    "city": RNG.choice(["Ulm", "Bonn", "Rom"], N).astype(object),
}
Y = X["size"] ** 2 + X["whole"] % 7 + (X["city"] == "Ulm")


@pytest.mark.parametrize("more", [{}, {"target_statistics": True}, {"grow_policy": "symmetric"}])
def test_thresholds_are_those_of_the_trees(more) -> None:
    booster = train({"n_estimators": 7, **more}, Dataset(X, Y))
    table = booster.to_frame(None)
    for name in ("size", "whole"):
        rows = [i for i, feature in enumerate(table["feature"]) if feature == name]
        expected = [float(table["threshold"][i]) for i in rows]
        assert expected
        assert booster.split_values(name).tolist() == expected
    flat = train({"n_estimators": 2}, Dataset(np.column_stack([Y, np.ones(N)]), Y))
    assert flat.split_values("x1").tolist() == []


def test_what_has_no_threshold_is_refused() -> None:
    booster = train({"n_estimators": 2}, Dataset(X, Y))
    for column, words in (
        ("city", "holds categories"),
        ("sizes", "Did you mean 'size'"),
        (3, "from 0 to 2"),
        (None, "by its name or position"),
    ):
        with pytest.raises(ParameterError, match=words):
            booster.split_values(column)


@pytest.mark.parametrize("kind", ["numbers", "dates", "large"])
def test_a_split_that_separates_missing_values_has_an_infinite_threshold(kind: str) -> None:
    missing, whole = np.arange(N) % 3 == 0, RNG.integers(0, 300, N)
    days = (np.datetime64("2024-01-01") + whole.astype("m8[D]")).astype("M8[us]")
    column = {
        "numbers": np.where(missing, np.nan, whole),
        "dates": np.where(missing, np.datetime64("NaT"), days),
        "large": [None if gone else int(x) + 2**60 for gone, x in zip(missing, whole, strict=True)],
    }[kind]
    target = 3.0 * missing + 0.3 * (whole > 100)
    params = {"n_estimators": 3, "max_leaves": 3, "linear_leaves": False, "early_stopping": False}
    booster = train(params, Dataset({"x": column}, target))
    thresholds = booster.split_values("x")
    assert np.isinf(thresholds).sum() == 3
    table = booster.to_frame(None)
    shown = [t for t, name in zip(table["threshold"], table["feature"], strict=True) if name]
    assert list(map(float, shown)) == thresholds.tolist()
    assert f"x <= {shown[0]}" in booster.to_text(0)
    assert np.isfinite(thresholds).sum() == 3
