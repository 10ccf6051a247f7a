"""Approximate growth: candidates are weighted quantiles as defined, and cuts
lie at candidates only."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.kernels.tables.keys import floats_of_keys, keys_of_floats
from hedgerow.params import BoostParams
from tests.growing.test_exact import exact_params, grow, tree_bytes
from tests.growing.test_grow import data
from tests.reference import naive, naive_exact


def approx_params(sketch="global", eps=0.1, **settings):
    return BoostParams(tree_method="approx", sketch=sketch, sketch_eps=eps, **settings)


# -- trees -------------------------------------------------------------------------------------


@pytest.mark.parametrize("sketch", ["global", "local"])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_tiny_eps_is_exact(sketch, missing) -> None:
    for n_values in (None, 12):
        X, y = data(3000, 4, missing=missing, n_values=n_values)
        for settings in ({}, {"subsample": 0.6, "colsample_bynode": 0.5}):
            expected, raw, _ = grow(X, y, BoostParams(tree_method="exact", **settings), n_trees=3)
            trees, approx_raw, _ = grow(X, y, approx_params(sketch, 1e-9, **settings), n_trees=3)
            assert tree_bytes(trees) == tree_bytes(expected)
            np.testing.assert_array_equal(raw, approx_raw)


@given(
    seed=st.integers(0, 2**32 - 1),
    n_rows=st.integers(2, 40),
    missing=st.sampled_from([0.0, 0.4]),
    eps=st.sampled_from([1 / 16, 1 / 8, 1 / 4, 1 / 2]),
    n_values=st.sampled_from([5, 100]),
    sketch=st.sampled_from(["global", "local", None]),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_small_trees_take_the_best_of_all_cuts_at_candidates(
    seed, n_rows, missing, eps, n_values, sketch, dtype
) -> None:
    """Without a sketch growth is exact, and each cut a candidate."""
    X = data(n_rows, 2, seed, missing, n_values=n_values)[0].astype(dtype)
    y = np.random.default_rng(seed).normal(size=n_rows)
    limits = {"min_samples_leaf": 1, "max_leaves": 10}
    params = approx_params(sketch, eps, **limits) if sketch else exact_params(**limits)
    (tree,), _, base = grow(X, y, params)
    g, h = naive.gradients("squared_error", y, np.full((1, n_rows), base))
    g = [Fraction(x) for x in naive.on_grid(g[0])]
    h = [Fraction(x) for x in h[0]]
    members = naive_exact.rows_of_nodes(tree, X.astype(float))
    for node in np.flatnonzero(tree.feature >= 0):
        rows = members[node].tolist()

        def bounds_of(feature, rows=rows):
            among = range(n_rows) if sketch == "global" else rows
            present = [row for row in among if not np.isnan(X[row, feature])]
            values, weights = [X[row, feature] for row in present], [h[row] for row in present]
            return naive_exact.candidates(values, weights, Fraction(eps)) if sketch else None

        rules = naive.rules_of(params)
        cuts = list(naive_exact.cuts_of_node(X, rows, g, h, rules, bounds_of))
        left = frozenset(members[tree.left[node]].tolist())
        chosen = [c for c in cuts if c.feature == tree.feature[node] and c.left == left]
        assert len(chosen) == 1, "a cut that is not allowed"
        best = naive_exact.best_cut(cuts)
        assert chosen[0].value >= best.value * (1 - Fraction(1, 10**12))


def cuts_of(trees, feature):
    """Return thresholds at which the trees cut a column."""
    return {key for tree in trees for key in tree.threshold[tree.feature == feature].tolist()}


@pytest.mark.parametrize("sketch", ["global", "local"])
def test_large_eps_leaves_few_cuts(sketch) -> None:
    X, y = data(5000, 3)
    stumps = {"max_leaves": 2, "min_samples_leaf": 1, "learning_rate": 0.5}
    exact, _, _ = grow(X, y, BoostParams(tree_method="exact", **stumps), n_trees=60)
    coarse, _, _ = grow(X, y, approx_params(sketch, 0.25, **stumps), n_trees=60)
    assert max(len(cuts_of(exact, feature)) for feature in range(3)) > 15
    order = np.sort(X, axis=0)
    above = np.array([1249, 2498, 3747, 4996, 4999])  # candidates but the first
    for feature in range(3):
        column = order[:, feature]
        expected = (column[above - 1] + column[above]) * 0.5
        found = cuts_of(coarse, feature)
        assert len(found) > 1
        assert found <= set(keys_of_floats(expected).tolist())


def test_candidates_follow_the_hessian() -> None:
    # Half of the weight lies in the first hundredth of the rows: so do half of the cuts.
    x = np.arange(10_000.0)
    weight = np.where(x < 100, 99.0, 1.0)
    y = np.sin(x / 7)
    params = approx_params("global", 0.05, max_leaves=64, min_samples_leaf=1)
    trees, _, _ = grow(x[:, None], y, params, weight=weight)
    thresholds = floats_of_keys(np.array(sorted(cuts_of(trees, 0))))
    below = int((thresholds < 100).sum())
    assert 15 <= len(thresholds) <= 23
    assert 8 <= below <= 12


def test_local_candidates_find_what_global_ones_cannot() -> None:
    x = np.arange(4096.0)
    y = ((x > 2000) & (x <= 2040)).astype(float)
    params = {"max_leaves": 16, "min_samples_leaf": 1, "learning_rate": 1.0, "reg_lambda": 0.0}
    errors = {}
    for sketch in ("global", "local"):
        trees, raw, _ = grow(x[:, None], y, approx_params(sketch, 0.2, **params))
        errors[sketch] = np.mean((raw[0] - y) ** 2)
        assert (len(cuts_of(trees, 0)) <= 6) == (sketch == "global")
    assert errors["local"] < 0.3 * errors["global"]
