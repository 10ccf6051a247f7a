"""Thresholds of the splits of a column, and their histogram."""

from __future__ import annotations

import numpy as np
import pytest

from hedgerow import Dataset, ParameterError, from_lightgbm, train

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
    counts, edges = booster.split_value_histogram(0)
    assert len(counts) == len(np.unique(booster.split_values("size")))
    assert len(edges) == len(counts) + 1
    counts, edges = booster.split_value_histogram("size", "sqrt")
    again = np.histogram(booster.split_values("size"), "sqrt")
    assert np.array_equal(counts, again[0])
    assert np.array_equal(edges, again[1])


def test_a_column_without_splits_has_an_empty_histogram() -> None:
    rows = np.column_stack([Y, np.ones(N)])
    booster = train({"n_estimators": 2}, Dataset(rows, Y))
    assert booster.split_values("x1").tolist() == []
    counts, _ = booster.split_value_histogram("x1")
    assert counts.tolist() == [0]


def test_histogram_is_that_of_lightgbm() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    rows = np.column_stack([X["size"], X["whole"] - 2**55]).astype(float)
    data = lightgbm.Dataset(rows, Y, params={"verbose": -1})
    theirs = lightgbm.train({"verbose": -1, "num_threads": 1}, data, 10)
    ours = from_lightgbm(theirs)
    for column in (0, 1):
        for bins in (None, 5, "auto"):
            expected = theirs.get_split_value_histogram(column, bins)
            found = ours.split_value_histogram(column, bins)
            assert np.array_equal(found[0], expected[0])
            np.testing.assert_allclose(found[1], expected[1], rtol=1e-12)


def test_what_has_no_threshold_is_refused() -> None:
    booster = train({"n_estimators": 2}, Dataset(X, Y))
    for column, words in (
        ("city", "holds categories"),
        ("sizes", "Did you mean 'size'"),
        (3, "from 0 to 2"),
        (None, "no column None"),
    ):
        with pytest.raises(ParameterError, match=words):
            booster.split_values(column)
    with pytest.raises(ParameterError, match="bins=0"):
        booster.split_value_histogram("size", 0)
