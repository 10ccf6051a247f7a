"""Approximate growth: candidates are weighted quantiles as defined, and cuts
lie at candidates only."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.data.binning.sketch import QuantileSketch
from hedgerow.data.external.blocks import ROW_BITS, RUN_BIT
from hedgerow.kernels.presorted import exact as kernels
from hedgerow.kernels.tables.keys import floats_of_keys, keys_of_floats
from hedgerow.params import BoostParams
from tests.growing.test_exact import columns, exact_params, grow, make_entries, tree_bytes
from tests.growing.test_grow import data
from tests.reference import naive, naive_exact


def approx_params(sketch="global", eps=0.1, **settings):
    return BoostParams(tree_method="approx", sketch=sketch, sketch_eps=eps, **settings)


# -- candidates --------------------------------------------------------------------------------


def thinned(column, h, eps, in_place=False):
    """Return the values at the starts of kept runs."""
    entries, n = make_entries(column)
    fixed = np.column_stack([np.zeros(len(h)), h]).astype(np.int32).reshape(-1)
    before = entries.copy()
    target, to = (entries, 0) if in_place else (np.zeros(n + 5, np.uint32), 5)
    kernels.thin_runs(entries, (0, n), fixed, eps, target, to)
    if not in_place:
        np.testing.assert_array_equal(entries, before)
    kept = target[to : to + n]
    np.testing.assert_array_equal(kept & ROW_BITS, before[:n] & ROW_BITS)
    return [column[row] for row, bit in zip(kept & ROW_BITS, kept & RUN_BIT, strict=True) if bit]


@given(
    column=columns | st.lists(st.integers(0, 60).map(float), min_size=1, max_size=80),
    eps=st.sampled_from([Fraction(1, 64), Fraction(1, 8), Fraction(3, 16), Fraction(1, 2)]),
    seed=st.integers(0, 2**32 - 1),
    most=st.sampled_from([0, 1, 5, 1000]),
    in_place=st.booleans(),
)
def test_candidates_equal_their_definition(column, eps, seed, most, in_place) -> None:
    h = np.random.default_rng(seed).integers(min(most, 1), most, len(column), endpoint=True)
    present = [row for row, x in enumerate(column) if not np.isnan(x)]
    expected = naive_exact.candidates(
        [column[row] for row in present], [int(h[row]) for row in present], eps
    )
    # A cut before the smallest value divides nothing: it has no bit.
    assert thinned(column, h, float(eps), in_place) == expected[1:]


def test_neighbouring_candidates_are_closer_than_eps_where_no_value_is_heavy() -> None:
    rng = np.random.default_rng(0)
    column = rng.normal(size=4000)
    h = rng.integers(1, 100, 4000)
    for eps in (0.01, 0.1, 0.3):
        found = [column.min(), *thinned(column, h, eps)]
        rank = np.array([h[column < z].sum() for z in found]) / h.sum()
        assert found[-1] == column.max()
        assert np.diff(rank).max() < eps
        assert len(found) <= 1 / (0.9 * eps) + 2


@pytest.mark.parametrize("n_values", [7, 50, 10**9])
def test_candidates_equal_those_of_a_sketch_that_keeps_all(n_values) -> None:
    rng = np.random.default_rng(n_values)
    for eps in (0.013, 0.0937, 0.41):
        column = rng.integers(0, n_values, 900).astype(float)
        column[rng.random(900) < 0.2] = np.nan
        h = rng.integers(1, 100, 900)
        present = ~np.isnan(column)
        sketch = QuantileSketch.of(column[present], h[present])
        assert sketch.error == 0.0
        expected = floats_of_keys(sketch.cuts(eps)).tolist()
        assert [np.nanmin(column), *thinned(column, h, eps)] == expected


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

        rules = naive_exact.rules_of(params)
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
