"""Laws of weights, of the order of rows, and of names, for the features of a fit.

Laws that hold for some features only:

* Row samples are drawn by the position of a row, so the order of rows and a row repeated k times
  keep them on average only: ``test_goss.py`` compares rows and weights with the definition.
* Ordered target statistics (``docs/categories.md``) depend on the order of the rows: of two equal
  rows the second knows the first.
* Rows set aside for early stopping are drawn by position, too.
* ``min_samples_leaf``, ``cat_smooth``, ``min_data_per_group`` and ``max_conflict_rate`` count
  rows: weight k is k rows where they decide nothing.
* What a node has not seen goes with the side of more rows, counted, not weighed: so weight k is k
  rows for values that were seen.
* MVS evens out the weights of rows whose gradients have one size (absolute error, quantiles), so
  that many cuts tie but for rounding, and a factor on all weights that is no power of two may
  choose another of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from hedgerow import Dataset, HedgerowRegressor, train
from hedgerow.data import drop_unused_levels, read_any
from hedgerow.errors import HedgerowError
from tests.helpers.features import FEATURES, ROWS, parts_of

NO_PENALTY = {
    "reg_lambda": 0.0, "reg_alpha": 0.0, "gamma": 0.0, "min_child_weight": 0.0,
    "cat_l2": 0.0, "cat_smooth": 0.0,
}  # fmt: skip
NO_COUNTS = {
    "min_samples_leaf": 1, "min_child_weight": 2.0, "max_leaves": 6,
    "min_data_per_group": 1, "cat_smooth": 0.0,
}  # fmt: skip
"""Settings of leaves that weigh rows instead of counting them."""


SAMPLED = {
    "sample", "GOSS", "GOSS without top rows", "MVS", "forest", "boosted forests",
    "left out", "stops early", "folds",
}  # fmt: skip
"""Pieces that choose rows by their position."""

ORDERED = {"statistics", "ranking", "pairs", "XE-NDCG"}
"""Pieces for which the order of rows matters, or rows have one weight with others."""

OF_ALL = {"of all", "weighted squares of all", "absolute of all"}
"""Losses of the user that know no weights, and add numbers up in the order of the rows."""

COUNTING = {"Cox", "Cox of events", "Cox of truth values", "smooth", "lines"}
"""Pieces that tell rows from their weight: equal times are ties, and leaves count rows."""

ADDING = {"vectors", "two targets", "two amounts", "lines", "line search"}
"""Pieces that add floats up in the order of the rows."""

TABLE = ROWS.assign(mass=np.random.default_rng(4).uniform(0.5, 2.0, 50)[ROWS.q])
"""Rows with a weight that all rows of a query share."""


def features_without(names: set[str]) -> list[str]:
    return [feature for feature in FEATURES if not set(feature.split(" + ")) & names]


def model_of(feature: str, table: pd.DataFrame, weight: str | None = None, **more: Any) -> Any:
    """Train a feature on another table, whose column ``weight`` has the weights."""
    params, rows = parts_of(feature, table)
    roles = {**rows.roles, "weight": weight} if weight else rows.roles
    if params.get("grow_policy") == "symmetric":
        more.pop("max_leaves", None)
    if "linear_leaves" in params:
        more["linear_lambda"] = 0.0
    return train(params | more, replace(rows, roles=roles).in_memory())


def raw(model: Any, feature: str) -> Any:
    return model.raw_scores(parts_of(feature, TABLE)[1].in_memory().X)


# -- weights --------------------------------------------------------------------------------


# Line searches of amounts end at a limit.
@pytest.mark.fast(16)
@pytest.mark.parametrize("feature", features_without({"two amounts"}))
def test_a_power_of_two_on_all_weights_changes_no_bit(feature: str) -> None:
    one, other = (
        model_of(feature, TABLE.assign(mass=TABLE.mass * factor), "mass", **NO_PENALTY)
        for factor in (1.0, 2.0**-30)
    )
    np.testing.assert_array_equal(raw(one, feature), raw(other, feature))


# Where DART drops all trees of a ranking, rounding alone orders the rows of a query.
@pytest.mark.fast(16)
@pytest.mark.parametrize(
    "feature",
    [
        feature
        for feature in features_without({"quantile", "median", "Cox of events"})
        if feature != "ranking + DART"
    ],
)
def test_a_common_factor_on_weights_changes_nothing(feature: str) -> None:
    params = {**NO_PENALTY, "min_samples_leaf": 15}
    one, other = (
        model_of(feature, TABLE.assign(mass=TABLE.mass * factor), "mass", **params)
        for factor in (1.0, 1.7)
    )
    np.testing.assert_allclose(raw(one, feature), raw(other, feature), rtol=0, atol=1e-6)


@pytest.mark.fast(16)
@pytest.mark.parametrize("feature", features_without(SAMPLED | ORDERED | OF_ALL | COUNTING))
def test_weight_k_is_a_row_repeated_k_times(feature: str) -> None:
    rng = np.random.default_rng(1)
    times, one = rng.integers(1, 5, len(TABLE)), rng.uniform(0.5, 2.0, len(TABLE))
    weighted = model_of(feature, TABLE.assign(mass=one * times), "mass", **NO_COUNTS)
    rows = TABLE.assign(mass=one).loc[np.repeat(TABLE.index, times)].reset_index(drop=True)
    repeated = model_of(feature, rows, "mass", **NO_COUNTS)
    np.testing.assert_allclose(raw(weighted, feature), raw(repeated, feature), rtol=0, atol=1e-6)


# -- order and names ------------------------------------------------------------------------


@pytest.mark.fast(16)
@pytest.mark.parametrize("feature", features_without(SAMPLED | ORDERED | OF_ALL | ADDING))
def test_rows_in_any_order_make_the_same_model(feature: str) -> None:
    table = TABLE[:512].assign(y=(64.0 * TABLE.y).round() / 64.0)  # the base score is then exact
    order = np.random.default_rng(0).permutation(512)
    one, other = (
        model_of(feature, rows) for rows in (table, table.iloc[order].reset_index(drop=True))
    )
    assert one.to_bytes() == other.to_bytes()


def test_zeros_of_either_sign_are_one_target() -> None:
    X = np.arange(20.0)[:, None] % 5
    for objective in ("absolute_error", "quantile", "squared_error"):
        params, files = {"objective": objective, "n_estimators": 5}, set()
        for zeros in ([0.0, -0.0], [-0.0, 0.0], [0.0, 0.0]):
            y = np.concatenate([np.repeat([-1.0, 1.0], 5), zeros * 5])
            files.add(train(params, Dataset(X, y)).to_bytes())
        assert len(files) == 1


@pytest.mark.parametrize("feature", ["towns", "categories", "statistics + towns"])
@pytest.mark.parametrize("kind", ["text", "whole", "halves"])
def test_new_names_in_the_same_order_change_nothing(feature: str, kind: str) -> None:
    params, rows = parts_of(feature, TABLE)
    names = dict(zip("uvwxyz", np.cumsum([3, 8, 1, 1, 5, 2]).tolist(), strict=True))
    if kind != "whole":
        change = "{:09d}~".format if kind == "text" else lambda number: number / 2 - 4
        names = {level: change(number) for level, number in names.items()}
    other = replace(rows, table=TABLE.assign(town=TABLE.town.map(names)))
    named = ["town", "street"][: len(rows.features)] if "street" in rows.features else ["town"]
    one = train(params, rows.in_memory())
    two = train(params, other.in_memory(categorical_features=named))
    expected = one.raw_scores(rows.in_memory().X)
    np.testing.assert_array_equal(two.raw_scores(other.in_memory().X), expected)


# -- failed fits ---------------------------------------------------------------------------------

GOOD = {
    "size": np.arange(60.0) % 7,
    "age": np.arange(60.0) % 11,
    "colour": np.array(["red", "green", "blue"] * 20, dtype=object),
}
GOOD_Y = np.arange(60) % 2


def twice_named():
    pd = pytest.importorskip("pandas")
    return pd.DataFrame(np.zeros((60, 3)), columns=["size", "age", "size"])


def with_column(name, values):
    return {**GOOD, name: np.array(values, dtype=object)}


SPARSE_GOOD = sparse.csr_array(np.eye(60)[:, :8])
BAD = {
    "mixed types": (lambda: with_column("colour", ["red", 1] * 30), {}, {}, ["'colour'", "mixes"]),
    "two of a name": (twice_named, {}, {}, ["names", "size"]),
    "no categories": (lambda: GOOD, {"categorical_features": None}, {}, ["'colour'"]),
    "unknown in validation": (
        lambda: GOOD, {"unknown_category": "error"},
        {"X_val": {**GOOD, "colour": ["red"] * 59 + ["lilac"]}, "y_val": GOOD_Y},
        ["'colour'", "'lilac'", "row 59"],
    ),
    "text in validation": (
        lambda: GOOD, {}, {"X_val": {**GOOD, "age": ["old"] * 60}, "y_val": GOOD_Y},
        ["'age'", "text"],
    ),
    "column not in validation": (
        lambda: GOOD, {},
        {"X_val": {"size": [1.0] * 60, "colour": ["red"] * 60}, "y_val": GOOD_Y},
        ["missing", "age"],
    ),
    "monotone category": (
        lambda: GOOD, {"monotone_constraints": {"colour": 1}}, {},
        ["monotone_constraints", "'colour'"],
    ),
    "sparse categories": (
        lambda: SPARSE_GOOD, {"categorical_features": [1]}, {}, ["'x1'", "category"]
    ),
    "sparse, no column": (
        lambda: SPARSE_GOOD, {"monotone_constraints": {"x8": 1}}, {},
        ["monotone_constraints", "'x8'"],
    ),
    "sparse text": (
        lambda: SPARSE_GOOD.astype(complex), {}, {}, ["omplex"]
    ),
    "sparse exact": (lambda: SPARSE_GOOD, {"tree_method": "exact"}, {}, ["tree_method", "exact"]),
    "exact categories": (
        lambda: GOOD, {"tree_method": "exact"}, {}, ["tree_method", "'colour'"]
    ),
    "bundled categories": (
        lambda: GOOD, {"bundle_features": True}, {}, ["bundle_features", "'colour'"]
    ),
    "statistics of nothing": (
        lambda: SPARSE_GOOD, {"target_statistics": True}, {}, ["target_statistics"]
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD.values(), ids=BAD)
def test_a_failed_fit_leaves_all_as_it_was(case) -> None:
    make, params, more, words = case
    estimator = HedgerowRegressor(n_estimators=2, n_jobs=1).fit(GOOD, GOOD_Y)
    expected = estimator.predict(GOOD)
    before = dict(vars(estimator.set_params(**params)))
    with pytest.raises(HedgerowError) as caught:
        estimator.fit(make(), GOOD_Y, **more)
    assert all(word in str(caught.value) for word in words)
    assert vars(estimator) == before
    np.testing.assert_array_equal(estimator.predict(GOOD), expected)


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 4)), min_size=1),
    st.integers(0, 2**32 - 1),
)
def test_of_too_many_levels_the_heaviest_stay(rows, seed) -> None:
    levels = np.array([level for level, _ in rows], dtype=object)
    weight = np.array([times for _, times in rows], dtype=float)
    table = read_any({"level": levels})
    repeated = read_any({"level": np.repeat(levels, weight.astype(int))})
    expected = drop_unused_levels(repeated, 3).schema
    assert drop_unused_levels(table, 3, weight).schema == expected
    assert drop_unused_levels(table, 3, weight * 2.0**-40).schema == expected
    order = np.random.default_rng(seed).permutation(len(rows))
    assert drop_unused_levels(table.take(order), 3, weight[order]).schema == expected
