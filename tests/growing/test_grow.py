"""A tree of the engine equals the naive one, and respects all limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.growing.core import grower as grower_module
from hedgerow.objectives import make_objective
from hedgerow.params import BoostParams
from tests.helpers import engine
from tests.reference import naive


def data(n_rows=400, n_features=5, seed=0, missing=0.0, n_values=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    if n_values is not None:
        X = np.floor(n_values * rng.random((n_rows, n_features)))
    y = X[:, 0] + np.sin(2 * X[:, -1]) * X[:, n_features // 2] + 0.5 * rng.normal(size=n_rows)
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


def naive_trees(matrix, y, params, loss, base, weight=None, n_rounds=1, search=None):
    bins, n_bins = engine.columns_of(matrix), matrix.spec.bin_counts.tolist()
    return naive.boosted_trees(
        bins, n_bins, matrix.spec.stride, y, params, loss, base, weight, n_rounds,
        search=search or naive.fast_best_split,
    )  # fmt: skip


def assert_same_trees(trees, naive_ones, scale=1.0, same=("bin",)):
    """Check the shape of trees and the fields in ``same`` exactly, and their numbers nearly."""
    assert len(trees) == len(naive_ones)
    for number, (tree, expected) in enumerate(zip(trees, naive_ones, strict=True)):
        for name in ("feature", "missing_left", "left", "right", "count", *same):
            np.testing.assert_array_equal(
                getattr(tree, name), expected[name], err_msg=f"{name} of tree {number}"
            )
        for name, rtol in (("value", 1e-6), ("gain", 1e-5), ("cover", 1e-6)):
            np.testing.assert_allclose(
                getattr(tree, name), expected[name], rtol=rtol, atol=1e-7 * scale,
                err_msg=f"{name} of tree {number}",
            )  # fmt: skip


SETTINGS = {
    "default": {},
    "one row leaves": {"min_samples_leaf": 1, "max_leaves": 60},
    "large leaves": {"min_samples_leaf": 90},
    "two leaves": {"max_leaves": 2},
    "depth": {"max_depth": 3, "min_samples_leaf": 5},
    "depth alone": {"max_depth": 4, "max_leaves": None, "min_samples_leaf": 3},
    "depthwise": {"grow_policy": "depthwise", "max_leaves": 11, "min_samples_leaf": 4},
    "depthwise to the end": {"grow_policy": "depthwise", "max_depth": 5, "max_leaves": None},
    "no lambda": {"reg_lambda": 0.0},
    "lambda": {"reg_lambda": 25.0},
    "alpha": {"reg_alpha": 3.0},
    "gamma": {"gamma": 2.0, "min_samples_leaf": 2},
    "delta": {"max_delta_step": 0.1},
    "child weight": {"min_child_weight": 30.0, "min_samples_leaf": 1},
    "all": {
        "reg_lambda": 2.0, "reg_alpha": 0.5, "gamma": 0.1, "max_delta_step": 0.4,
        "min_child_weight": 6.0, "min_samples_leaf": 7, "max_depth": 6,
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("loss", "weighted", "missing"),
    [
        ("squared_error", False, 0.0), ("squared_error", False, 0.2),
        ("logistic", False, 0.1), ("logistic", True, 0.1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_trees_equal_the_naive_ones(settings, loss, weighted, missing) -> None:
    X, y = data(missing=missing, seed=1)
    weight = np.random.default_rng(5).uniform(0.2, 4.0, len(y)) if weighted else None
    y = (y > 0).astype(float) if loss == "logistic" else y
    matrix = engine.binned(X, max_bins=60)
    params = BoostParams(**settings)
    trees, _, base = engine.grow(matrix, y, params, loss, weight, n_trees=3)
    assert_same_trees(trees, naive_trees(matrix, y, params, loss, base, weight, n_rounds=3))


@pytest.mark.parametrize("depthwise", [False, True])
def test_softmax_trees_equal_the_naive_ones(depthwise) -> None:
    X, y = data(missing=0.1, seed=2)
    y = np.digitize(y, [-0.8, 0.7]).astype(float)
    matrix = engine.binned(X)
    params = BoostParams(
        max_leaves=9, min_samples_leaf=5, grow_policy="depthwise" if depthwise else "leafwise"
    )
    trees, _, base = engine.grow(matrix, y, params, make_objective("softmax", 3), n_trees=4)
    assert_same_trees(trees, naive_trees(matrix, y, params, "softmax", base, n_rounds=4))


@given(
    seed=st.integers(0, 2**32 - 1),
    n_rows=st.integers(2, 60),
    n_features=st.integers(1, 4),
    missing=st.sampled_from([0.0, 0.4]),
    least=st.integers(1, 5),
    leaves=st.integers(2, 12),
)
def test_small_trees_equal_those_of_the_slowest_search(
    seed, n_rows, n_features, missing, least, leaves
) -> None:
    X, y = data(n_rows, n_features, seed, missing, n_values=12)
    y = np.random.default_rng(seed).normal(size=n_rows)
    params = BoostParams(min_samples_leaf=least, max_leaves=leaves)
    matrix = engine.binned(X)
    trees, _, base = engine.grow(matrix, y, params)
    expected = naive_trees(matrix, y, params, "squared_error", base, search=naive.slow_best_split)
    assert_same_trees(trees, expected)


def test_many_rows_and_missing_values_equal_the_naive_tree() -> None:
    # Large nodes: rows are divided between threads, cells emptied several times.
    X, y = data(70_000, 4, missing=0.1)
    y = np.round(64 * y) / 64
    matrix = engine.binned(X, max_bins=30)
    params = BoostParams(max_leaves=12)
    trees, _, base = engine.grow(matrix, y, params, n_threads=2, n_trees=2)
    assert_same_trees(trees, naive_trees(matrix, y, params, "squared_error", base, n_rounds=2))


def test_several_tiles_equal_the_naive_tree() -> None:
    X, y = data(600, 75)
    matrix = engine.binned(X)
    assert matrix.n_tiles == 3
    params = BoostParams(max_leaves=20, min_samples_leaf=5)
    for n_threads in (1, 2, 4):
        trees, _, base = engine.grow(matrix, y, params, n_threads=n_threads, n_trees=2)
        assert_same_trees(trees, naive_trees(matrix, y, params, "squared_error", base, n_rounds=2))


# -- ties ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n_threads", [2, 3, 7])
def test_ties_go_to_the_first_feature_for_threads_as_well(n_threads) -> None:
    X, y = data(20_000, 1)
    X = np.hstack([X] * 7)
    trees, _, _ = engine.grow(engine.binned(X), y, BoostParams(), n_threads=n_threads)
    assert set(trees[0].feature.tolist()) == {-1, 0}


def test_ties_of_nodes_go_to_the_older_one() -> None:
    # Two halves with the same inside: the left child is split first.
    X = np.array([[a, b] for a in (0.0, 1.0) for b in (0.0, 1.0) for _ in range(4)])
    y = np.where(X[:, 0] == 0, -10.0, 10.0) + np.where(X[:, 1] == 0, -1.0, 1.0)
    params = BoostParams(max_leaves=3, min_samples_leaf=1, reg_lambda=0.0)
    trees, _, _ = engine.grow(engine.binned(X), y, params)
    assert trees[0].left.tolist() == [1, 3, 0, 0, 0]


def test_column_without_missing_values_sends_them_to_the_larger_child() -> None:
    X = np.arange(100.0)[:, None]
    for threshold, expected in ((30, 0), (50, 1), (70, 1)):
        y = (X[:, 0] >= threshold).astype(float)
        trees, _, _ = engine.grow(engine.binned(X), y, BoostParams(max_leaves=2))
        assert trees[0].missing_left[0] == expected


# -- limits -------------------------------------------------------------------------------


@given(
    seed=st.integers(0, 2**32 - 1),
    n_rows=st.integers(1, 300),
    least=st.integers(1, 40),
    objective=st.sampled_from(["squared_error", "logistic"]),
    depthwise=st.booleans(),
    max_depth=st.sampled_from([None, 1, 2, 5]),
    max_leaves=st.sampled_from([None, 2, 3, 31]),
    weighted=st.booleans(),
)
def test_limits_hold_on_the_training_rows(
    seed, n_rows, least, objective, depthwise, max_depth, max_leaves, weighted
) -> None:
    if max_depth is None and max_leaves is None:
        max_leaves = 500
    X, y = data(n_rows, 3, seed, missing=0.2, n_values=20)
    weight = np.random.default_rng(seed).uniform(0.01, 5, n_rows) if weighted else None
    if objective == "logistic":
        y = (y > np.median(y)).astype(float)
    matrix = engine.binned(X)
    params = BoostParams(
        min_samples_leaf=least, max_depth=max_depth, max_leaves=max_leaves, min_child_weight=0.5,
        grow_policy="depthwise" if depthwise else "leafwise",
    )  # fmt: skip
    trees, raw, base = engine.grow(matrix, y, params, objective, weight, n_trees=2)
    walked = np.repeat(base[:, None], n_rows, axis=1)
    for tree in trees:
        check_tree(tree, matrix, params)
        at = naive.leaf_of_rows(
            {name: getattr(tree, name) for name in engine.TREE_FIELDS},
            engine.columns_of(matrix), matrix.spec.missing_bin,
        )  # fmt: skip
        walked[0] += tree.value[at]
    assert walked.tobytes() == raw.tobytes()


def check_tree(tree, matrix, params):
    inner = tree.feature >= 0
    np.testing.assert_array_equal(engine.leaf_rows(tree, matrix), tree.count)
    left, right = tree.left[inner], tree.right[inner]
    np.testing.assert_array_equal(tree.count[left] + tree.count[right], tree.count[inner])
    np.testing.assert_allclose(tree.cover[left] + tree.cover[right], tree.cover[inner], rtol=1e-12)
    n_leaves = int((~inner).sum())
    assert n_leaves == 1 + int(inner.sum())
    assert n_leaves <= (params.max_leaves or n_leaves)
    assert (tree.gain[inner] > 0).all()
    if n_leaves > 1:
        assert tree.count[~inner].min() >= params.min_samples_leaf
        assert tree.cover[~inner].min() >= params.min_child_weight * (1 - 1e-6)
    depth = np.zeros(len(inner), dtype=int)
    for node in np.flatnonzero(inner):
        depth[tree.left[node]] = depth[tree.right[node]] = depth[node] + 1
    assert depth.max() <= (params.max_depth or depth.max())


def test_least_rows_hold_where_gradients_are_rounded() -> None:
    X, y = data(30_000, 3, missing=0.1)
    y = (y > 0).astype(float)
    matrix = engine.binned(X)
    params = BoostParams(min_samples_leaf=777, max_leaves=200, min_child_weight=0.0)
    trees, _, _ = engine.grow(matrix, y, params, "logistic", n_threads=2, n_trees=3)
    for tree in trees:
        check_tree(tree, matrix, params)
        assert len(tree.feature) > 20


# -- shortage and excess ----------------------------------------------------------------------


@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize(("n_rows", "n_threads"), [(3000, 1), (3000, 3), (60_000, 2), (60_000, 3)])
def test_shortage_of_histogram_slots_changes_nothing(
    monkeypatch, n_rows, n_threads, depthwise
) -> None:
    X, y = data(n_rows, 6, missing=0.1)
    matrix = engine.binned(X)
    params = BoostParams(
        max_leaves=60, min_samples_leaf=3, grow_policy="depthwise" if depthwise else "leafwise"
    )
    expected = engine.tree_bytes(engine.grow(matrix, y, params, n_trees=3)[0])
    for slots in (1, 3, 7):
        monkeypatch.setattr(grower_module, "_SLOT_BYTES", slots * 20 * 6 * matrix.spec.stride)
        trees, _, _ = engine.grow(matrix, y, params, n_threads=n_threads, n_trees=3)
        assert engine.tree_bytes(trees) == expected, f"{slots} slots"


@pytest.mark.parametrize(
    ("n_rows", "n_features"),
    [(1, 1), (2, 1), (3, 2), (50, 1), (50, 3), (50, 33), (20_000, 1), (20_000, 2), (20_000, 3)],
)
def test_more_threads_than_rows_or_features(n_rows, n_features) -> None:
    X, y = data(n_rows, n_features)
    matrix = engine.binned(X)
    params = BoostParams(min_samples_leaf=1)
    expected = engine.tree_bytes(engine.grow(matrix, y, params, n_trees=2)[0])
    for n_threads in (2, 4, 9):
        trees, _, _ = engine.grow(matrix, y, params, n_threads=n_threads, n_trees=2)
        assert engine.tree_bytes(trees) == expected


@pytest.mark.parametrize("n_threads", [1, 3])
def test_one_row_is_one_leaf(n_threads) -> None:
    matrix = engine.binned(np.ones((1, 2)))
    trees, raw, _ = engine.grow(matrix, [7.0], BoostParams(), n_threads=n_threads)
    assert trees[0].feature.tolist() == [-1]
    assert trees[0].value.tolist() == [0.0]
    assert raw.tolist() == [[7.0]]


def test_equal_targets_make_no_split() -> None:
    X, _ = data(500, 3)
    for value in (0.0, 0.1, 1e9, -1e-9):
        trees, raw, _ = engine.grow(engine.binned(X), np.full(500, value), BoostParams())
        assert len(trees[0].feature) == 1
        np.testing.assert_array_equal(raw[0], value)


# -- sampling --------------------------------------------------------------------------------


def used_by_depth(tree):
    """Return features of the splits at each depth."""
    depth, used = np.zeros(len(tree.feature), dtype=int), {}
    for node in np.flatnonzero(tree.feature >= 0):
        depth[tree.left[node]] = depth[tree.right[node]] = depth[node] + 1
        used.setdefault(int(depth[node]), set()).add(int(tree.feature[node]))
    return used


def sampled_trees(n_threads=1, n_features=20, seed=0, n_rows=500, **fractions):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features))
    y = X @ rng.uniform(1, 2, n_features)
    params = BoostParams(min_samples_leaf=2, max_leaves=40, seed=seed, **fractions)
    return engine.grow(engine.binned(X), y, params, n_threads=n_threads, n_trees=8)[0]


def test_tree_uses_only_its_columns() -> None:
    trees = sampled_trees(colsample_bytree=0.15)
    sets = [frozenset(tree.feature.tolist()) - {-1} for tree in trees]
    assert max(map(len, sets)) <= 3
    assert len(set(sets)) > 1


def test_level_uses_only_its_columns() -> None:
    trees = sampled_trees(colsample_bylevel=0.1)
    levels = [frozenset(used) for tree in trees for used in used_by_depth(tree).values()]
    assert max(map(len, levels)) <= 2
    assert max(len(set().union(*used_by_depth(tree).values())) for tree in trees) > 2


def test_nodes_draw_columns_of_their_own() -> None:
    trees = sampled_trees(colsample_bynode=0.05)
    # One column a node: nodes of one level still use several.
    assert max(len(used) for tree in trees for used in used_by_depth(tree).values()) > 2


def test_column_samples_are_nested() -> None:
    trees = sampled_trees(colsample_bytree=0.3, colsample_bylevel=0.5, colsample_bynode=0.4)
    for tree in trees:
        used = used_by_depth(tree)
        assert len(set().union(*used.values())) <= 6
        assert max(map(len, used.values())) <= 3


@pytest.mark.parametrize("fraction", [0.01, 0.3, 0.5, 0.9])
def test_row_sample_has_about_its_share(fraction) -> None:
    X, y = data(20_000, 2)
    params = BoostParams(subsample=fraction, max_leaves=2)
    trees, _, _ = engine.grow(engine.binned(X), y, params, n_trees=4)
    sizes = np.array([tree.count[0] for tree in trees])
    deviation = np.sqrt(20_000 * fraction * (1 - fraction))
    assert (np.abs(sizes - 20_000 * fraction) < 5 * deviation).all()
    assert len(set(sizes.tolist())) > 1


def test_empty_row_sample_is_a_leaf_of_value_zero() -> None:
    params = BoostParams(subsample=0.001, min_samples_leaf=1, reg_lambda=0.0)
    trees, raw, base = engine.grow(engine.binned(np.arange(3.0)[:, None]), [1, 2, 4], params)
    assert trees[0].count.tolist() == [0]
    assert trees[0].value.tolist() == [0.0]
    np.testing.assert_array_equal(raw[0], base[0])
