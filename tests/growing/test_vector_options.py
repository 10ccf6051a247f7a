"""Options of trees of one output and of vector leaves, compared with trees that try every cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from hedgerow import HedgerowRegressor
from hedgerow.kernels.primitives.hashing import hash64
from hedgerow.kernels.splits.constraints import CUT_STREAM
from tests.helpers.examples import examples
from tests.reference.naive_vector import Tied, TreeOptions, grow, grow_levels

SEED = 7
RULES = {"reg_lambda": 1.0, "reg_alpha": 0.0, "gamma": 0.0, "min_samples_leaf": 5}
RULES |= {"min_child_weight": 1e-3, "max_delta_step": 0.0}


def problem(n_rows: int = 150, seed: int = 0, missing: float = 0.1) -> tuple[Any, Any]:
    """Return a table with ties and missing values, and three targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4)).round(1)
    a, b, c, _ = X.T.copy()
    X[rng.random(X.shape) < missing] = np.nan
    Y = np.column_stack([a + b**2, 3.0 * c - a, 0.1 * b])
    return X, Y + 0.05 * rng.normal(size=Y.shape)


def first_tree(
    X: Any, Y: Any, policy: str = "leafwise", rules: Any = RULES, weight: Any = None, **options: Any
) -> tuple[Any, Any, Any]:
    """Return the vectors of a model's first tree for the rows, and the derivatives behind them."""
    columns = {"colsample_bynode": options.pop("colsample_bynode", 1.0)}
    several = {"multi_strategy": "multi_output_tree"} if Y.shape[1] > 1 else {}
    shape: Any = {"max_depth": 3} if policy == "symmetric" else {"max_leaves": 8}
    model = HedgerowRegressor(
        n_estimators=1, learning_rate=1.0, grow_policy=policy, early_stopping=False,
        subsample=options.pop("subsample", 1.0), random_state=SEED, **columns, **several,
        **shape, **rules, **options,
    ).fit(X, Y if several else Y[:, 0], weight)  # fmt: skip
    assert model.booster_.num_trees == 1
    assert (model.booster_.model.forest.vectors is not None) == bool(several)
    base = np.average(Y, axis=0, weights=weight)
    mass = np.ones(len(X)) if weight is None else weight
    found = model.predict(X).reshape(Y.shape) - base
    return found, (base - Y).T * mass, np.tile(mass, (Y.shape[1], 1))


def naive_tree(
    X: Any, g: Any, h: Any, policy: str, tree_options: TreeOptions, rules: Any = RULES
) -> np.ndarray:
    """Return the vectors of the tree that tries every cut, for squared errors."""
    naive = rules | {"longest": rules["max_delta_step"] or np.inf}
    if policy == "symmetric":
        return grow_levels(X, g, h, naive, 3, tree_options)
    return grow(X, g, h, naive, 8, tree_options)


def hashed(seed: int, stream: int, index: int) -> int:
    return int(hash64(np.uint64(seed), np.uint64(stream), np.uint64(index)))


def drawn_cuts() -> dict[str, Any]:
    """Return the random cuts of the first tree."""
    return {
        "draw": lambda key, feature, n: hashed(key, CUT_STREAM, feature) % n,
        "key_of": lambda key, side: hashed(key, CUT_STREAM, side),
        "root_key": hashed(SEED, CUT_STREAM, 0),
    }


@settings(max_examples=examples(120), deadline=None)
@given(
    seed=st.integers(0, 10**6),
    weighted=st.booleans(),
    smooth=st.sampled_from([0.0, 0.5, 40.0]),
    factors=st.none() | st.tuples(*[st.sampled_from([0.0, 0.3, 1.0, 2.0])] * 4).filter(any),
    is_drawn=st.booleans(),
    ordered=st.none()
    | st.tuples(
        st.tuples(*[st.sampled_from([-1, 0, 1])] * 4).filter(any),
        st.sampled_from([0.0, 0.7, 1.0, 2.2]),
    ),
    more=st.sampled_from([
        {},
        {"gamma": 0.05, "reg_alpha": 0.3, "max_delta_step": 0.7},
        {"min_child_weight": 9.0, "reg_lambda": 0.0, "min_samples_leaf": 3},
    ]),
    missing=st.sampled_from([0.0, 0.3]),
    policy=st.sampled_from(["leafwise", "symmetric"]),
    n_outputs=st.sampled_from([1, 1, 3]),
)  # fmt: skip
def test_any_options_are_those_of_trying_every_cut(
    seed, weighted, smooth, factors, is_drawn, ordered, more, missing, policy, n_outputs
) -> None:
    """Columns in order, factors on gains, random cuts and smoothed values."""
    X, Y = problem(80, seed, missing)
    Y, weight = Y[:, :n_outputs], None
    if n_outputs > 1:  # random cuts are the only one of these options for vectors
        smooth, factors, ordered = 0.0, None, None
    if policy == "symmetric":  # has no random cuts
        is_drawn = False
    if weighted:
        weight = np.random.default_rng(seed).integers(1, 4, len(X)).astype(float)
    params: dict[str, Any] = {"path_smooth": smooth, "extra_trees": is_drawn}
    if factors is not None:
        params["feature_penalties"] = list(factors)
    naive: dict[str, Any] = {"smooth": smooth, "factors": factors}
    naive |= drawn_cuts() if is_drawn else {}
    if ordered is not None:
        naive["signs"], naive["penalty"] = ordered
        params["monotone_constraints"], params["monotone_penalty"] = list(ordered[0]), ordered[1]
    rules = RULES | more
    try:
        found, g, h = first_tree(X, Y, policy, rules, weight, **params)
        expected = naive_tree(X, g, h, policy, TreeOptions(**naive), rules)
    except Tied:
        reject()
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("is_drawn", [False, True])
def test_sets_of_two_equal_targets_are_those_of_one(is_drawn: bool) -> None:
    """Two equal targets give the tree of one target, also with sets of categories at random."""
    rng = np.random.default_rng(4)
    X, Y = problem(1500, 4, missing=0.0)
    X[:, 0] = rng.integers(0, 12, len(X))
    y = Y[:, 0] + np.where(np.isin(X[:, 0], [1, 4, 7]), 2.0, 0.0)
    tree_options: dict[str, Any] = {"n_estimators": 3, "early_stopping": False, "subsample": 1.0}
    tree_options |= {"categorical_features": [0], "min_data_per_group": 20, "extra_trees": is_drawn}
    one = HedgerowRegressor(**tree_options).fit(X, y)
    two = HedgerowRegressor(multi_strategy="multi_output_tree", **tree_options).fit(X, np.c_[y, y])
    assert two.booster_.model.forest.vectors is not None
    np.testing.assert_allclose(two.predict(X)[:, 1], one.predict(X), rtol=1e-3, atol=2e-3)
    assert (two.booster_.feature_importance("split") > 0)[0]
