"""Exact growth equals brute force over all cuts, histograms with a bin for every value,
and to XGBoost's exact trees."""

from __future__ import annotations

import contextlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.data import read_table
from hedgerow.data.external.blocks import sort_columns
from hedgerow.growing.core.setup import Fit
from hedgerow.growing.exact.grower import ExactGrower
from hedgerow.kernels.presorted import exact as kernels
from hedgerow.kernels.tables.keys import keys_of_floats
from hedgerow.objectives import make_objective
from hedgerow.params import BoostParams
from tests.growing.test_grow import SETTINGS, assert_same_trees, data
from tests.helpers import engine
from tests.reference import naive_exact

FIELDS = (
    "feature", "threshold", "missing_left", "left", "right", "value", "gain", "cover", "count",
)  # fmt: skip


def exact_params(**settings):
    return BoostParams(tree_method="exact", **settings)


def grow(X, y, params, objective="squared_error", weight=None, n_threads=1, n_trees=1, look=None):
    """Return trees, raw scores and base score; call ``look(grower, tree)`` after every tree."""
    loss = make_objective(objective) if isinstance(objective, str) else objective
    table, y = read_table(X), np.asarray(y, dtype=np.float64)
    base = loss.initial_score(y, weight)
    raw = np.repeat(base[:, None], len(y), axis=1)
    blocks = sort_columns(table, n_threads)
    grower = ExactGrower(blocks, Fit(y, weight, raw, loss, params, n_threads))
    trees = []
    with contextlib.closing(grower):
        for number in range(n_trees * loss.n_outputs):
            trees.append(grower.grow(number, number % loss.n_outputs))
            if look is not None:
                look(grower, trees[-1])
    return trees, raw, base


def tree_bytes(trees):
    return b"".join(getattr(tree, name).tobytes() for tree in trees for name in FIELDS)


FULL = kernels.CUTS + kernels.CHUNK
SIZES = [255, 256, 257, 258, kernels.CUTS, kernels.CUTS + 1, FULL - 1, FULL, FULL + 1, 1700]


# -- trees ---------------------------------------------------------------------------------


def assert_routes_as_grown(trees, X):
    """Check that rows reach their nodes by the thresholds, and that cuts are midpoints."""
    X = np.asarray(X, dtype=float)
    for tree in trees:
        members = naive_exact.rows_of_nodes(tree, X)
        assert [len(rows) for rows in members] == tree.count.tolist()
        thresholds = naive_exact.values_of_thresholds(tree, ["float"] * X.shape[1])
        for node in np.flatnonzero(tree.feature >= 0):
            column = X[members[node], tree.feature[node]]
            below, above = column[column <= thresholds[node]], column[column > thresholds[node]]
            if len(above) > 0:
                middle = (below.max() + above.min()) / 2
                assert thresholds[node] in (middle, below.max())
            else:
                assert thresholds[node] == math.inf


@pytest.mark.fast(24)
@pytest.mark.parametrize("n_values", [None, 30])
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_trees_equal_the_naive_ones(settings, missing, n_values) -> None:
    X, y = data(missing=missing, n_values=n_values)
    params = exact_params(**settings)
    trees, _, base = grow(X, y, params, n_trees=3)
    expected = naive_exact.boost(X, y, params, "squared_error", base, n_rounds=3)
    assert_same_trees(trees, expected, same=())
    assert_routes_as_grown(trees, X)


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("n_values", SIZES)
def test_more_cuts_than_the_buffer_holds(n_values, missing) -> None:
    rng = np.random.default_rng(n_values)
    column = np.append(np.arange(n_values), rng.integers(0, n_values, n_values)).astype(float)
    column[rng.random(2 * n_values) < missing] = np.nan
    for max_leaves in (2, 8):
        params = exact_params(max_leaves=max_leaves, min_samples_leaf=1)
        trees, _, base = grow(column[:, None], y := rng.normal(size=len(column)), params)
        expected = naive_exact.boost(column[:, None], y, params, "squared_error", base)
        assert_same_trees(trees, expected, same=())


@pytest.mark.parametrize("weighted", [False, True])
def test_logistic_trees_equal_the_naive_ones(weighted) -> None:
    X, y = data(missing=0.1, seed=1)
    weight = np.random.default_rng(5).uniform(0.2, 4.0, len(y)) if weighted else None
    y = (y > 0).astype(float)
    params = exact_params(min_samples_leaf=3)
    trees, _, base = grow(X, y, params, "logistic", weight, n_trees=3)
    assert_same_trees(
        trees, naive_exact.boost(X, y, params, "logistic", base, weight, n_rounds=3), same=()
    )


@pytest.mark.fast(4)
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_trees_equal_those_of_histograms_with_a_bin_for_every_value(settings) -> None:
    # Large enough that rows are divided between threads, gradients of which no bit is lost.
    X, y = data(20_000, 4, missing=0.1, n_values=50)
    sampled = {"subsample": 0.7, "colsample_bytree": 0.8, "colsample_bynode": 0.7}
    for extra in ({}, sampled):
        params = {**settings, **extra}
        trees, raw, _ = grow(X, y, exact_params(**params), n_trees=2, n_threads=2)
        expected, expected_raw, _ = engine.grow(
            engine.binned(X), y, BoostParams(**params), n_trees=2
        )
        for tree, other in zip(trees, expected, strict=True):
            for name in set(FIELDS) - {"threshold", "value"}:
                np.testing.assert_array_equal(getattr(tree, name), getattr(other, name), name)
            np.testing.assert_array_equal(tree.value, other.value)
        np.testing.assert_array_equal(raw, expected_raw)


# -- thresholds ------------------------------------------------------------------------------


def threshold_of_two(below, above, dtype):
    X = np.array([[below], [above]] * 5, dtype=dtype)
    y = np.tile([0.0, 1.0], 5)
    trees, raw, _ = grow(X, y, exact_params(min_samples_leaf=1, reg_lambda=0.0, learning_rate=1.0))
    assert len(trees[0].feature) == 3
    np.testing.assert_allclose(raw[0], y, atol=1e-8)
    return trees[0].threshold[0], X


@given(
    pair=st.tuples(st.floats(allow_nan=False, width=32), st.floats(allow_nan=False, width=32)),
    dtype=st.sampled_from([np.float32, np.float64]),
    adjacent=st.booleans(),
)
def test_threshold_separates_any_two_floats(pair, dtype, adjacent) -> None:
    below = dtype(min(pair))
    above = np.nextafter(below, dtype(np.inf)) if adjacent else dtype(max(pair))
    if not below < above:
        return
    key, X = threshold_of_two(below, above, dtype)
    keys = keys_of_floats(X[:2, 0].astype(float))
    assert keys[0] <= key < keys[1]
    if np.isfinite(below) and np.isfinite(above):
        with np.errstate(over="ignore"):
            middle = (below + above) * dtype(0.5)
        if np.isfinite(middle) and below <= middle < above:
            assert key == keys_of_floats(np.array(float(middle)))


def test_integer_and_float_columns_side_by_side() -> None:
    pandas = pytest.importorskip("pandas")
    X, y = data(2000, 3, missing=0.1)
    X[:, 0] = np.floor(10 * np.abs(np.nan_to_num(X[:, 0])))
    frame = pandas.DataFrame({"a": X[:, 0].astype(np.int64), "b": X[:, 1], "c": X[:, 2]})
    trees, raw, _ = grow(frame, y, exact_params(), n_trees=3)
    expected, expected_raw, _ = grow(X, y, exact_params(), n_trees=3)
    np.testing.assert_array_equal(raw, expected_raw)
    for tree, other in zip(trees, expected, strict=True):
        assert (tree.feature == 0).any()
        of_a = tree.feature == 0
        np.testing.assert_array_equal(tree.threshold[~of_a], other.threshold[~of_a])
        halves = naive_exact.values_of_thresholds(other, ["float"] * 3)
        floors = [math.floor(half) for half in np.array(halves)[of_a]]
        assert tree.threshold[of_a].tolist() == floors


def test_threshold_of_wide_integers_is_exact() -> None:
    for below, above, expected in (
        (2**62, 2**62 + 1, 2**62),
        (-(2**63) + 1, 2**63 - 1, 0),
        (2**62, 2**62 + 9, 2**62 + 4),
        (-9, -2, -6),
    ):
        key, _ = threshold_of_two(below, above, np.int64)
        assert key == expected


# -- limits and sampling ---------------------------------------------------------------------


@pytest.mark.parametrize("n_threads", [1, 3])
def test_one_row_is_one_leaf(n_threads) -> None:
    """The fit has many trees: a thread that reads the next batch would wait for ever."""
    params = exact_params()
    trees, raw, _ = grow(np.ones((1, 2)), [7.0], params, n_threads=n_threads, n_trees=500)
    assert trees[0].feature.tolist() == [-1]
    assert raw.tolist() == [[7.0]]


@pytest.mark.parametrize("subsample", [1.0, 0.6])
def test_rows_are_ordered_by_leaf(subsample) -> None:
    X, y = data(12_000, 3, missing=0.2)
    params = exact_params(subsample=subsample, max_leaves=40)

    def look(grower, tree):
        rows, leaves, starts = grower.leaf_segments()
        outside = grower.rows_outside()
        assert sorted([*rows.tolist(), *outside.tolist()]) == list(range(len(y)))
        assert (len(outside) > 0) == (subsample < 1.0)
        members = naive_exact.rows_of_nodes(tree, X, rows)
        assert sorted(leaves.tolist()) == np.flatnonzero(tree.feature < 0).tolist()
        for leaf, start, stop in zip(leaves, starts[:-1], starts[1:], strict=True):
            assert sorted(members[leaf].tolist()) == sorted(rows[start:stop].tolist())

    grow(X, y, params, n_threads=2, n_trees=2, look=look)


def test_ties_go_to_the_first_feature_whatever_the_threads() -> None:
    X, y = data(5000, 1)
    for n_threads in (1, 2, 7):
        trees, _, _ = grow(np.hstack([X] * 7), y, exact_params(), n_threads=n_threads)
        assert set(trees[0].feature.tolist()) == {-1, 0}
