"""The table of all splits holds the split that was made, and agrees with brute force."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris

from hedgerow import Dataset, train
from hedgerow.errors import DataError, ParameterError
from tests.reference import naive

RULES = {"min_samples_leaf": 3, "min_child_weight": 0.5, "reg_lambda": 2.0, "reg_alpha": 0.1}


def trained(objective, **params):
    load = {"logistic": load_breast_cancer, "softmax": load_iris}
    X, y = load.get(objective, load_diabetes)(return_X_y=True)
    X = X.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    data = Dataset(X, y)
    base = {"objective": objective, "n_estimators": 3, "max_leaves": 6, "early_stopping": False}
    return train({**base, **RULES, **params}, data), data


@pytest.mark.parametrize(
    "objective", ["squared_error", "logistic", "softmax", "normal", "negative_binomial"]
)
@pytest.mark.parametrize("params", [{}, {"leaf_estimation": "gradient"}, {"max_delta_step": 0.3}])
def test_best_allowed_row_is_the_split_of_the_node(objective, params) -> None:
    booster, data = trained(objective, **params)
    frame = booster.to_frame("polars").to_dicts()
    inner = [row for row in frame if row["feature"] is not None]
    assert inner
    for row in inner[:: max(1, len(inner) // 6)]:
        table = booster.split_table(row["tree"], row["node"], data)
        allowed = table[table["allowed"]]
        best = allowed.loc[allowed["gain"].idxmax()]
        # Histogram sums are rounded to 2**-30 of the largest gradient.
        assert best["gain"] == pytest.approx(row["gain"], rel=1e-5)
        same = allowed[(allowed["feature"] == row["feature"])]
        gains = same["gain"][np.isclose(same["threshold"], row["threshold"])]
        assert gains.max() == pytest.approx(row["gain"], rel=1e-5)


@pytest.mark.parametrize("objective", ["squared_error", "huber", "softmax"])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"leaf_estimation": "gradient"},
        {"gamma": 0.01},
        {"max_delta_step": 0.3},
        {"max_bins": 7},
    ],
)
def test_splits_of_vector_leaves_have_the_gains_of_all_outputs(objective, params) -> None:
    X, y, targets = rows_of_several_outputs()
    data = Dataset(X, y if objective == "softmax" else targets)
    base = {"objective": objective, "n_estimators": 2, "max_leaves": 6, "min_samples_leaf": 4}
    more = {"multi_strategy": "multi_output_tree", "min_data_per_group": 5, "cat_smooth": 3.0}
    booster = train({**base, **more, "reg_alpha": 0.1, **params}, data)
    assert booster.model.forest.vectors is not None
    inner = [row for row in booster.to_frame("polars").to_dicts() if row["feature"] is not None]
    assert {row["feature"] for row in inner} >= {"size", "town"}
    nodes = booster.to_frame("pandas").set_index(["tree", "node"])
    for row in inner:
        table = booster.split_table(row["tree"], row["node"], data)
        allowed = table[table["allowed"]]
        best = allowed.loc[allowed["gain"].idxmax()]
        assert best["gain"] == pytest.approx(row["gain"], rel=1e-5)
        assert best["feature"] == row["feature"]
        assert len(best["g_left"]) == len(best["h_right"]) == 3
        sides = {best["n_left"], best["n_right"]}
        below = (nodes.loc[(row["tree"], row[side]), "count"] for side in ("left", "right"))
        assert sides == {int(count) for count in below}


def rows_of_several_outputs():
    """Return informative numbers and categories for three outputs; y has three classes."""
    rng = np.random.default_rng(0)
    towns = np.array(list("abcdefghijkl"))
    codes, effect = rng.integers(12, size=500), rng.normal(size=(12, 3))
    X = pd.DataFrame({"size": rng.normal(size=500), "town": towns[codes]})
    X.loc[rng.random(500) < 0.1, "size"] = np.nan
    targets = effect[codes] + np.outer(X["size"].fillna(1.0), [2.0, -1.0, 0.5])
    targets += rng.normal(size=(500, 3)) / 5
    return X, targets.argmax(axis=1), targets


def test_rows_are_all_cuts_with_the_sums_of_their_sides() -> None:
    rng = np.random.default_rng(1)
    X = rng.integers(0, 5, (40, 2)).astype(float)
    X[rng.random(X.shape) < 0.2] = np.nan
    y = rng.normal(size=40)
    data = Dataset(X, y)
    booster = train({"n_estimators": 1, "max_leaves": 2, "min_samples_leaf": 1}, data)
    table = booster.split_table(0, 0, data).to_dict("records")
    g = y.mean() - y
    rules = naive.Rules(reg_lambda=1.0)
    node = naive.loss_reduction(g.sum(), 40.0, rules)
    seen = set()
    for row in table:
        values = X[:, int(row["feature"][1:])]
        missing = np.isnan(values)
        left = np.where(missing, row["missing"] == "left", values <= row["threshold"])
        assert (row["n_left"], row["n_right"]) == (left.sum(), (~left).sum())
        assert row["g_left"] == pytest.approx(g[left].sum(), abs=1e-9)
        gain = (
            naive.loss_reduction(g[left].sum(), float(left.sum()), rules)
            + naive.loss_reduction(g[~left].sum(), float((~left).sum()), rules)
            - node
        )
        assert row["gain"] == pytest.approx(gain, abs=1e-9)
        seen.add((row["feature"], left.tobytes()))
    assert len(seen) == len(table)  # no split is listed twice
    # 5 values: 4 cuts in two ways each, and missing values apart.
    assert len(table) == 2 * (4 * 2 + 1)


def test_two_leaves_of_the_texts_by_hand() -> None:
    # g = -1, -1, 2 with h = 1 and lambda = 1: 1/2 [4/3 + 4/2 - 0] = 5/3
    data = Dataset([[1.0], [2.0], [3.0]], [1.0, 1.0, -2.0])
    booster = train({"n_estimators": 1, "min_samples_leaf": 1, "learning_rate": 1.0}, data)
    table = booster.split_table(0, 0, data)
    assert table["gain"].tolist() == pytest.approx([0.5 * (1 / 2 + 1 / 3), 5 / 3])
    # w* = -G / (H + lambda) = 2/3 and -1; structure score as in equation 6.
    assert sorted(booster.to_frame()["value"].tolist()[1:]) == pytest.approx([-1.0, 2 / 3])
    # With alpha = 0.5: S(G) = 1.5, 1.5, 0.
    with_l1 = train(
        {"n_estimators": 1, "min_samples_leaf": 1, "learning_rate": 1.0, "reg_alpha": 0.5}, data
    )
    gains = with_l1.split_table(0, 0, data)["gain"].tolist()
    assert gains[1] == pytest.approx(0.5 * (1.5**2 / 3 + 1.5**2 / 2))
    assert sorted(with_l1.to_frame()["value"].tolist()[1:]) == pytest.approx([-0.75, 0.5])
    # gamma is the price of the second leaf.
    costly = train({"n_estimators": 1, "min_samples_leaf": 1, "gamma": 0.25}, data)
    assert costly.split_table(0, 0, data)["gain"].tolist()[1] == pytest.approx(5 / 3 - 0.25)


def test_exact_int64_keys_are_shown_as_they_are() -> None:
    big = 2**60
    data = Dataset(np.array([[big], [big + 1], [big + 2]]), [0.0, 0.0, 3.0])
    booster = train({"n_estimators": 1, "min_samples_leaf": 1}, data)
    assert booster.split_table(0, 0, data)["threshold"].tolist() == [big, big + 1]


def test_wrong_questions_are_named() -> None:
    booster, data = trained("squared_error")
    with pytest.raises(ParameterError, match="tree must be from 0 to 2; got 3"):
        booster.split_table(3, 0, data)
    with pytest.raises(ParameterError, match="node must be from 0 to 10; got 99"):
        booster.split_table(0, 99, data)
    elsewhere = Dataset(np.full((2, 10), 1e9), [1.0, 2.0])
    leaf = int(booster.to_frame()["node"][booster.to_frame()["feature"].isna()].iloc[0])
    with pytest.raises(DataError, match="none of the 2 rows reaches node"):
        booster.split_table(0, leaf, elsewhere)
    dart, data = trained("squared_error", boosting="dart")
    with pytest.raises(ParameterError, match="boosting='dart'"):
        dart.split_table(0, 0, data)
