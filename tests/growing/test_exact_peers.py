"""Exact trees equal those of XGBoost, node by node, on real data."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.growing.test_exact import exact_params, grow
from tests.reference import naive_exact


def xgboost_trees(X, y, n_trees, depth, objective, base):
    xgboost = pytest.importorskip("xgboost")
    settings = {
        "tree_method": "exact", "max_depth": depth, "learning_rate": 0.3, "nthread": 1,
        "objective": objective, "base_score": base, "verbosity": 0,
    }  # fmt: skip
    booster = xgboost.train(settings, xgboost.DMatrix(X, y, nthread=1), n_trees)
    frame = booster.trees_to_dataframe()
    return [dict(zip(part["ID"], part.to_dict("records"), strict=True))
            for _, part in frame.groupby("Tree")]  # fmt: skip


def assert_equal_to_xgboost(tree, nodes, X, number):
    """Check that rows, thresholds and leaf values are equal; return the number of nodes."""
    thresholds = naive_exact.values_of_thresholds(tree, ["float"] * X.shape[1])
    stack, n_nodes = [(0, f"{number}-0", np.arange(len(X)))], 0
    while stack:
        ours, theirs, rows = stack.pop()
        node, feature, n_nodes = nodes[theirs], int(tree.feature[ours]), n_nodes + 1
        assert (feature < 0) == (node["Feature"] == "Leaf")
        if feature < 0:
            np.testing.assert_allclose(tree.value[ours], node["Gain"], rtol=1e-5, atol=1e-5)
            continue
        assert feature == int(node["Feature"][1:])
        column = X[rows, feature]
        left = np.where(np.isnan(column), tree.missing_left[ours] == 1, column <= thresholds[ours])
        default_left = node["Missing"] == node["Yes"]
        yes = np.where(np.isnan(column), default_left, column < np.float32(node["Split"]))
        children = (node["Yes"], node["No"])
        if math.isfinite(thresholds[ours]):
            assert np.float32(thresholds[ours]) == np.float32(node["Split"])
        elif default_left:  # rows with a value apart from those without: sides may be swapped
            yes, children = ~yes, children[::-1]
        np.testing.assert_array_equal(left, yes)
        # XGBoost takes the difference of scores, which may be much larger, in float32.
        score = (tree.value[ours] / 0.3) ** 2 * (tree.cover[ours] + 1.0)
        precision = 1e-6 * (score + node["Gain"])
        assert 2 * tree.gain[ours] == pytest.approx(node["Gain"], abs=precision)
        stack.append((int(tree.left[ours]), children[0], rows[left]))
        stack.append((int(tree.right[ours]), children[1], rows[~left]))
    return n_nodes


def real_data(name, shared_data):
    if name == "diabetes":
        from sklearn.datasets import load_diabetes

        X, y = load_diabetes(return_X_y=True)
        return X, y - y.mean(), "squared_error"
    if name == "breast_cancer":
        from sklearn.datasets import load_breast_cancer

        X, y = load_breast_cancer(return_X_y=True)
        return X, y.astype(float), "logistic"
    if name == "california":
        import pandas as pd

        numbers = pd.read_parquet(shared_data("california") / "data.parquet").select_dtypes(
            "number"
        )
        target = next(column for column in numbers.columns if "value" in column.lower())
        y = numbers[target].to_numpy(float)
        return (
            numbers.drop(columns=target).to_numpy(float),
            (y - y.mean()) / y.std(),
            "squared_error",
        )
    from hedgerow.datasets import load_pima

    X, y, *_ = load_pima()
    return np.asarray(X, float), np.asarray(y, float), "logistic"


@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize("name", ["diabetes", "breast_cancer", "pima", "california"])
def test_trees_equal_those_of_xgboost(name, missing, shared_data) -> None:
    X, y, objective = real_data(name, shared_data)
    X = X[:6000].astype(np.float32)
    y = y[:6000].astype(np.float32).astype(float)
    X[np.random.default_rng(0).random(X.shape) < missing] = np.nan
    params = exact_params(
        max_depth=6, max_leaves=None, grow_policy="depthwise", min_samples_leaf=1,
        min_child_weight=1.0, learning_rate=0.3,
    )  # fmt: skip
    trees, _, _ = grow(X, y, params, objective, n_trees=5)
    names = {"squared_error": "reg:squarederror", "logistic": "binary:logistic"}
    theirs = xgboost_trees(X, y, 5, 6, names[objective], y.mean())
    n_nodes = [
        assert_equal_to_xgboost(tree, nodes, X, number)
        for number, (tree, nodes) in enumerate(zip(trees, theirs, strict=True))
    ]
    assert sum(n_nodes) > 100
