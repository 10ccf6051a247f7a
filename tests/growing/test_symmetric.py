"""Symmetric trees: gains, columns of levels, and limits."""

from __future__ import annotations

import numpy as np
import pytest

from hedgerow import Dataset, HedgerowRegressor, train
from hedgerow.errors import ParameterError
from hedgerow.growing.sampling.draws import LEVEL_STREAM, NODE_STREAM
from hedgerow.io import model_to_bytes
from hedgerow.kernels.primitives.hashing import hash64
from tests.growing.test_grow import data
from tests.growing.test_vector_options import SEED, first_tree, naive_tree
from tests.reference import naive, naive_exact
from tests.reference.naive_vector import TreeOptions

# -- numbers of nodes, and columns; test_vector_options.py has the naive trees --------------------


@pytest.mark.parametrize("loss", ["squared_error", "logistic"])
def test_gains_covers_and_values_are_those_of_the_rows(loss) -> None:
    X, y = data(400, 4, seed=3, missing=0.2)
    weight, factors = np.random.default_rng(5).uniform(0.2, 4.0, len(y)), [0.2, 1.0, 0.9, 0.7]
    y = (y > 0).astype(float) if loss == "logistic" else y
    params = {
        "objective": loss, "grow_policy": "symmetric", "max_depth": 4, "n_estimators": 1,
        "learning_rate": 0.3, "min_samples_leaf": 4, "reg_lambda": 2.0, "reg_alpha": 0.5,
        "feature_penalties": factors, "early_stopping": False, "subsample": 1.0,
        "colsample_bynode": 1.0,
    }  # fmt: skip
    forest = train(params, Dataset(X, y, weight)).model.forest
    mean = np.average(y, weights=weight)
    h = weight * (mean * (1.0 - mean) if loss == "logistic" else 1.0)
    rules = naive.Rules(reg_lambda=2.0, reg_alpha=0.5)
    members = naive_exact.rows_of_nodes(forest, X)
    sums = [((weight * (mean - y))[rows].sum(), h[rows].sum()) for rows in members]
    lowered = np.array([naive.loss_reduction(*own, rules) for own in sums])
    assert len(set(forest.feature.tolist())) > 2
    for node, (feature, (g, h_sum)) in enumerate(zip(forest.feature, sums, strict=True)):
        assert forest.count[node] == len(members[node])
        assert forest.cover[node] == pytest.approx(h_sum, rel=1e-5)
        if feature < 0:
            expected = 0.3 * naive.leaf_weight(g, h_sum, rules)
            assert forest.value[node] == pytest.approx(expected, rel=1e-4, abs=1e-6)
            continue
        sides = lowered[[forest.left[node], forest.right[node]]].sum()
        gain = factors[feature] * (sides - lowered[node])
        assert forest.gain[node] == pytest.approx(gain, rel=1e-3, abs=1e-4)


def shuffled_front(columns, fraction, seed, stream):
    """Return the columns that a keyed shuffle puts first."""
    order = list(columns)
    n_taken = max(1, round(fraction * len(order)))
    for i in range(n_taken):
        draw = int(hash64(np.uint64(seed), np.uint64(stream), np.uint64(i)))
        j = i + draw % (len(order) - i)
        order[i], order[j] = order[j], order[i]
    return order[:n_taken]


@pytest.mark.parametrize("by_level", [1.0, 0.7])
@pytest.mark.parametrize("by_node", [0.5, 1.0])
def test_a_level_uses_the_columns_drawn_for_it(by_level, by_node) -> None:
    X, y = data(200, 9, seed=4, missing=0.1, n_values=20)

    def draw(level):
        columns = range(9)
        if by_level < 1.0:
            columns = shuffled_front(columns, by_level, SEED, LEVEL_STREAM + level)
        if by_node < 1.0:
            seed = hash64(np.uint64(SEED), np.uint64(NODE_STREAM), np.uint64(level))
            columns = shuffled_front(columns, by_node, seed, NODE_STREAM)
        return columns

    columns = {"colsample_bylevel": by_level, "colsample_bynode": by_node}
    found, g, h = first_tree(X, y[:, None], "symmetric", **columns)
    expected = naive_tree(X, g, h, "symmetric", TreeOptions(columns=draw))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


# -- levels ---------------------------------------------------------------------------


def wide_open(n_rows=2000):
    """Return rows of six independent signs: every level splits every node."""
    rng = np.random.default_rng(0)
    X = np.sign(rng.normal(size=(n_rows, 6)))
    return X, X @ 2.0 ** np.arange(6) + 0.01 * rng.normal(size=n_rows)


# -- the same bytes -------------------------------------------------------------------


def content(X, y, weight=None, n_jobs=1, categories="auto", **params):
    params = {
        "objective": "squared_error", "n_estimators": 4, "grow_policy": "symmetric",
        "max_depth": 4, "n_jobs": n_jobs, **params,
    }  # fmt: skip
    rows = Dataset(X, y, weight, categorical_features=categories)
    return model_to_bytes(train(params, rows).model)


# -- the whole way ------------------------------------------------------------------------


def test_size_is_six_levels_unless_given() -> None:
    X, y = wide_open()
    model = HedgerowRegressor(
        grow_policy="symmetric", n_estimators=1, early_stopping=False, min_samples_leaf=1,
        reg_lambda=0.0,
    ).fit(X, y)  # fmt: skip
    assert (model.booster_.model.forest.feature < 0).sum() == 64


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"max_leaves": 8}, "max_leaves=8 has no effect"),
        ({"tree_method": "exact"}, "tree_method='exact'"),
        ({"tree_method": "approx"}, "tree_method='approx'"),
        ({"extra_trees": True}, "extra_trees=True"),
        ({"grow_policy": "symetric"}, "Did you mean 'symmetric'"),
    ],
)
def test_what_does_not_go_with_symmetric_trees_is_named(params, named) -> None:
    X, y = data(100, 3)
    with pytest.raises(ParameterError, match=named):
        content(X, y, **params)
