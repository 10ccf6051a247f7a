"""Symmetric trees with vector leaves: sets of categories."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from hedgerow import HedgerowRegressor
from tests.growing.test_vector_options import RULES, SEED, naive_tree, problem
from tests.helpers.examples import examples
from tests.reference.naive_vector import Sets, Tied, TreeOptions

VECTORS = {"grow_policy": "symmetric", "multi_strategy": "multi_output_tree"}
TOWN = 2  # the category column


def towns(n_rows: int, seed: int, missing: float, n_levels: int) -> tuple[Any, Any]:
    """Return rows with a column of categories, and three targets that depend on them."""
    X, Y = problem(n_rows, seed, missing)
    rng = np.random.default_rng(seed + 1)
    town = rng.integers(0, n_levels, n_rows)
    X[:, TOWN] = np.where(rng.random(n_rows) < missing, np.nan, town)
    return X, Y + rng.normal(size=(n_levels, 3))[town]


def first_tree(X: Any, Y: Any, **options: Any) -> tuple[Any, Any]:
    """Return a model of one tree of three levels, and the gradients behind it."""
    model = HedgerowRegressor(
        n_estimators=1, learning_rate=1.0, max_depth=3, early_stopping=False, subsample=1.0,
        colsample_bynode=1.0, random_state=SEED, **VECTORS, **options,
    ).fit(X, Y)  # fmt: skip
    assert model.booster_.model.forest.vectors is not None
    return model, (Y.mean(axis=0) - Y).T


def check_tree(
    X: Any, Y: Any, tree_options: TreeOptions, rules: Any = RULES, **options: Any
) -> Any:
    """Check that the first tree equals the one that tries every cut; return the model."""
    model, g = first_tree(X, Y, **rules, **options)
    expected = naive_tree(X, g, np.ones_like(g), "symmetric", tree_options, rules) + Y.mean(axis=0)
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-6, atol=1e-6)
    return model


def sets_of(n_levels: int, sorted_: bool, sets: Sets) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return parameters, and the options of the tree that tries every cut."""
    params = {
        "categorical_features": [TOWN], "max_cat_to_onehot": 1 if sorted_ else n_levels + 1,
        "cat_smooth": sets.smooth, "cat_l2": sets.penalty, "min_data_per_group": sets.least,
        "max_cat_threshold": sets.most,
    }  # fmt: skip
    return params, {"categories": (TOWN,), "sets": sets if sorted_ else None}


LOOSE = Sets(0.0, 0.0, 1, 254)
STRICT = Sets(6.0, 3.0, 12, 3)


@pytest.mark.parametrize(
    ("sets", "is_sorted", "missing"), itertools.product([LOOSE, STRICT], [True, False], [0.0, 0.15])
)
def test_sets_of_categories_are_those_of_trying_all(sets, is_sorted, missing) -> None:
    X, Y = towns(160, 1, missing, 7)
    params, tree_options = sets_of(7, is_sorted, sets)
    model = check_tree(X, Y, TreeOptions(**tree_options), **params)
    assert TOWN in model.booster_.model.forest.feature


@settings(max_examples=examples(30), deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_levels=st.sampled_from([2, 3, 12]),
    is_sorted=st.booleans(),
    missing=st.sampled_from([0.0, 0.3]),
    sets=st.sampled_from([LOOSE, STRICT, Sets(2.0, 0.5, 5, 2)]),
)
def test_any_sets_are_those_of_trying_all(seed, n_levels, is_sorted, missing, sets) -> None:
    X, Y = towns(90, seed, missing, n_levels)
    params, tree_options = sets_of(n_levels, is_sorted, sets)
    try:
        check_tree(X, Y, TreeOptions(**tree_options), **params)
    except Tied:
        reject()


@pytest.mark.parametrize("most_one_hot", [1, 40])
def test_one_output_twice_has_the_trees_of_one(most_one_hot) -> None:
    X, Y = towns(3000, 5, 0.1, 25)
    Y += np.where(np.isin(X[:, TOWN], [3, 7]), 5.0, 0.0)[:, None]
    params: dict[str, Any] = {"n_estimators": 5, "early_stopping": False, "max_depth": 4}
    params |= {"categorical_features": [TOWN], "max_cat_to_onehot": most_one_hot, "n_jobs": 1}
    params |= {"subsample": 1.0, "colsample_bynode": 1.0, "grow_policy": "symmetric"}
    one = HedgerowRegressor(**params).fit(X, Y[:, 0]).booster_.model.forest
    twice = HedgerowRegressor(**params | VECTORS).fit(X, Y[:, [0, 0]]).booster_.model.forest
    for name in ("feature", "threshold", "missing_left", "count"):
        np.testing.assert_array_equal(getattr(twice, name), getattr(one, name), err_msg=name)
    assert twice.has_sets.any()
    np.testing.assert_allclose(twice.vectors, np.column_stack([one.value] * 2), rtol=1e-5)
    np.testing.assert_allclose(twice.gain, 2.0 * one.gain, rtol=1e-3)
