"""Symmetric trees of the engine equal the naive ones, and respect all limits."""

from __future__ import annotations

import contextlib
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from hedgerow import Dataset, HedgerowRegressor, train
from hedgerow.errors import ParameterError
from hedgerow.growing.core.setup import Fit
from hedgerow.growing.core.stages.branches import forced_cuts
from hedgerow.growing.sampling.draws import LEVEL_STREAM, NODE_STREAM
from hedgerow.growing.symmetric.grower import SymmetricGrower
from hedgerow.io import model_from_bytes, model_to_bytes
from hedgerow.kernels.primitives.hashing import hash64
from hedgerow.kernels.splits.growth import CUT_STREAM
from hedgerow.objectives import make_objective
from hedgerow.params import BoostParams
from tests.growing.test_grow import assert_same_trees, data
from tests.helpers import engine
from tests.helpers.examples import examples
from tests.reference import naive, naive_symmetric


def grow(matrix, y, params, objective="squared_error", weight=None, n_threads=1, n_trees=1):
    loss = make_objective(objective) if isinstance(objective, str) else objective
    y = np.asarray(y, dtype=np.float64)
    base = loss.initial_score(y, weight)
    raw = np.repeat(base[:, None], len(y), axis=1)
    grower = SymmetricGrower(matrix, Fit(y, weight, raw, loss, params, n_threads))
    with contextlib.closing(grower):
        numbers = range(n_trees * loss.n_outputs)
        trees = [grower.grow(number, number % loss.n_outputs) for number in numbers]
    return trees, raw, base


def symmetric(depth=4, **others):
    return BoostParams(grow_policy="symmetric", max_depth=depth, **others)


def naive_trees(matrix, y, params, loss, base, weight=None, n_rounds=1, draw=None):
    names = (
        "min_samples_leaf", "min_child_weight", "reg_lambda", "reg_alpha", "gamma",
        "max_delta_step",
    )  # fmt: skip
    rules = naive.Rules(*(getattr(params, name) for name in names))
    return naive_symmetric.boost(
        engine.columns_of(matrix), matrix.spec.bin_counts.tolist(), matrix.spec.stride, y, base,
        rules, n_rounds, loss, weight, max_depth=params.max_depth,
        learning_rate=params.learning_rate, draw=draw,
        signs=params.monotone_constraints, factors=params.feature_penalties,
        draw_cut=partial(hashed_cut, params.seed) if params.extra_trees else None,
        given=forced_cuts(params.forced_splits, matrix.spec)[:, :2].tolist(),
    )  # fmt: skip


def hashed_cut(seed, tree, level, column, n):
    """Return which of ``n`` cuts a column offers in a level."""
    key = int(hash64(np.uint64(seed), np.uint64(CUT_STREAM + tree), np.uint64(level)))
    return int(hash64(np.uint64(key), np.uint64(CUT_STREAM), np.uint64(column))) % n


# -- the naive twin -----------------------------------------------------------------


SETTINGS = {
    "default": {},
    "one row leaves": {"min_samples_leaf": 1},
    "large leaves": {"min_samples_leaf": 60},
    "stump": {"depth": 1},
    "no lambda": {"reg_lambda": 0.0, "min_samples_leaf": 5},
    "alpha and delta": {"reg_alpha": 2.0, "max_delta_step": 0.1, "min_samples_leaf": 5},
    "gamma": {"gamma": 4.0},
    "child weight": {"min_child_weight": 20.0, "min_samples_leaf": 1},
}


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("loss", ["squared_error", "logistic"])
def test_trees_equal_the_naive_ones(loss, settings, missing) -> None:
    X, y = data(250, 4, seed=3, missing=missing)
    weight = None
    if loss == "logistic":
        y = (y > 0).astype(float)
        weight = np.random.default_rng(5).uniform(0.2, 4.0, len(y)) if missing else None
    matrix, params = engine.binned(X, max_bins=30), symmetric(**{"depth": 4, **settings})
    trees, _, base = grow(matrix, y, params, loss, weight, n_trees=2)
    assert_same_trees(trees, naive_trees(matrix, y, params, loss, base, weight, n_rounds=2))
    assert any(len(tree.feature) > 1 for tree in trees)
    for n_threads in (2, 3):
        others, _, _ = grow(matrix, y, params, loss, weight, n_threads, n_trees=2)
        assert engine.tree_bytes(others) == engine.tree_bytes(trees)


def test_softmax_trees_equal_the_naive_ones() -> None:
    X, y = data(250, 4, seed=2, missing=0.1)
    y = np.digitize(y, [-0.8, 0.7]).astype(float)
    matrix, params = engine.binned(X, max_bins=30), symmetric(3, min_samples_leaf=5)
    trees, _, base = grow(matrix, y, params, make_objective("softmax", 3), n_trees=2)
    assert_same_trees(trees, naive_trees(matrix, y, params, "softmax", base, n_rounds=2))


@settings(max_examples=examples(60))
@given(
    seed=st.integers(0, 2**32 - 1),
    n_rows=st.integers(2, 80),
    missing=st.sampled_from([0.0, 0.4]),
    least=st.integers(1, 6),
    depth=st.integers(1, 4),
    n_values=st.sampled_from([2, 5, 100]),
    signs=st.lists(st.sampled_from([-1, 0, 1]), min_size=9, max_size=9),
    factors=st.lists(st.sampled_from([1.0, 0.5, 0.25]), min_size=9, max_size=9),
    others=st.sampled_from([{}, {"gamma": 0.5}, {"reg_alpha": 0.5}, {"max_delta_step": 0.3}]),
    drawn=st.booleans(),
)
def test_bounded_trees_equal_the_naive_ones(
    seed, n_rows, missing, least, depth, n_values, signs, factors, others, drawn
) -> None:
    X, _ = data(n_rows, 9, seed, missing, n_values)
    y = np.random.default_rng(seed).normal(size=n_rows) + np.nan_to_num(X[:, 0])
    matrix = engine.binned(X)
    params = symmetric(
        depth, min_samples_leaf=least, monotone_constraints=tuple(signs),
        feature_penalties=tuple(factors), extra_trees=drawn, **others,
    )  # fmt: skip
    trees, _, base = grow(matrix, y, params, n_trees=2)
    try:
        expected = naive_trees(matrix, y, params, "squared_error", base, n_rounds=2)
    except naive_symmetric.Tied:
        reject()
    assert_same_trees(trees, expected)


FORCED = ((0, 0.5, 1, 1), (2, -0.4, 2, 2), (0, 0.0, -1, -1))


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize(
    "others",
    [
        {},
        {"extra_trees": True},
        {"monotone_constraints": (0, 0, 1), "feature_penalties": (1.0, 0.5, 0.25)},
        {"min_samples_leaf": 90},  # the second split has no gain
        {"gamma": 3.0},
    ],
    ids=str,
)
def test_every_tree_begins_with_the_given_levels(others, missing) -> None:
    X, y = data(300, 3, seed=8, missing=missing)
    matrix = engine.binned(X, max_bins=20)
    params = symmetric(4, **{"min_samples_leaf": 5, "forced_splits": FORCED, **others})
    trees, _, base = grow(matrix, y, params, n_trees=2)
    assert_same_trees(trees, naive_trees(matrix, y, params, "squared_error", base, n_rounds=2))
    assert [tree.feature[0] for tree in trees] == [0, 0]
    others, _, _ = grow(matrix, y, params, n_threads=3, n_trees=2)
    assert engine.tree_bytes(others) == engine.tree_bytes(trees)


def test_the_splits_are_those_of_levels() -> None:
    X, y = data(3000, 4, seed=2)
    below = {"feature": "x1", "threshold": 0.25}
    for splits in (
        {"feature": "x3", "threshold": -0.5, "left": below, "right": below},
        {"feature": "x3", "threshold": -0.5, "right": below},
    ):
        model = HedgerowRegressor(
            grow_policy="symmetric", max_depth=3, n_estimators=3, forced_splits=splits
        ).fit(X, y)
        forest, table = model.booster_.model.forest, model.booster_.to_frame(None)
        for first in forest.tree_start[:-1]:
            level, expected = [first], [("x3", -0.5), ("x1", 0.25)]
            for cut in expected:
                for node in level:
                    assert (table["feature"][node], table["threshold"][node]) == cut
                level = [
                    first + side[node] for node in level for side in (forest.left, forest.right)
                ]
        assert model.booster_.model.training["parameters"]["forced_splits"] == (
            (3, -0.5, 1, 1), (1, 0.25, -1, -1),
        )  # fmt: skip


def test_columns_that_are_not_drawn_are_not_forced() -> None:
    X, y = data(400, 3, seed=8)
    params = {"forced_splits": {"feature": 2, "threshold": 0.5}, "n_estimators": 30}
    forest = model_from_bytes(content(X, y, colsample_bytree=0.4, **params))[0].forest
    roots = forest.feature[forest.tree_start[:-1]]
    assert 0 < (roots == 2).sum() < 30


def test_splits_that_differ_in_a_level_are_refused() -> None:
    X, y = data(100, 3)
    given = {
        "feature": "x0", "threshold": 0,
        "left": {"feature": "x1", "threshold": 1}, "right": {"feature": "x1", "threshold": 2},
    }  # fmt: skip
    words = "level 1 .* asks for 'x1' at 1.0 and for 'x1' at 2.0. Give both sides"
    with pytest.raises(ParameterError, match=words):
        content(X, y, forced_splits=given)
    assert content(X, y, grow_policy="depthwise", forced_splits=given)


def test_ordered_columns_are_held_back_in_the_first_levels() -> None:
    X, _ = data(500, 3)
    y = X[:, 0] + 0.1 * X[:, 1] + 0.01 * X[:, 2]
    params = {"monotone_constraints": (1, 0, 0)}
    matrix = engine.binned(X)
    plain = grow(matrix, y, symmetric(4, **params))[0][0]
    held = grow(matrix, y, symmetric(4, monotone_penalty=2.0, **params))[0][0]
    assert plain.feature[0] == 0
    inner = held.feature >= 0
    depth = np.zeros(len(inner), dtype=int)
    for node in np.flatnonzero(inner):  # children come behind their parents
        depth[[held.left[node], held.right[node]]] = depth[node] + 1
    assert not (held.feature[inner & (depth < 2)] == 0).any()
    assert (held.feature[inner & (depth >= 2)] == 0).any()


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


@settings(max_examples=examples(15))
@given(st.integers(0, 2**32 - 1), st.sampled_from(["squared_error", "logistic"]))
def test_weight_k_is_a_row_repeated_k_times(seed, objective) -> None:
    X, y = data(200, 4, seed, missing=0.1)
    y = (y > 0).astype(float) if objective == "logistic" else y
    rng = np.random.default_rng(seed)
    weight, offset = rng.integers(1, 5, len(y)), rng.normal(size=(len(y), 1))
    params = {
        "objective": objective, "n_estimators": 4, "grow_policy": "symmetric", "max_depth": 3,
        "min_samples_leaf": 1, "min_child_weight": 2.0,
    }  # fmt: skip
    repeated = np.repeat(np.arange(len(y)), weight)
    a = train(params, Dataset(X, y, weight, offset))
    b = train(params, Dataset(X[repeated], y[repeated], None, offset[repeated]))
    np.testing.assert_allclose(
        a.predict(X, kind="raw"), b.predict(X, kind="raw"), rtol=1e-6, atol=1e-6
    )


# -- columns ----------------------------------------------------------------------------


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
@pytest.mark.parametrize("n_threads", [1, 3])
def test_a_level_uses_the_columns_drawn_for_it(by_level, by_node, n_threads) -> None:
    X, y = data(200, 9, seed=4, missing=0.1)
    matrix = engine.binned(X, max_bins=20)
    params = symmetric(
        4, min_samples_leaf=2, colsample_bylevel=by_level, colsample_bynode=by_node, seed=7
    )

    def draw(level):
        columns = range(9)
        if by_level < 1.0:
            columns = shuffled_front(columns, by_level, 7, LEVEL_STREAM + level)
        if by_node < 1.0:
            seed = hash64(np.uint64(7), np.uint64(NODE_STREAM), np.uint64(level))
            columns = shuffled_front(columns, by_node, seed, NODE_STREAM)
        return columns

    trees, _, base = grow(matrix, y, params, n_threads=n_threads)
    assert_same_trees(trees, naive_trees(matrix, y, params, "squared_error", base, draw=draw))


def category_table(n_rows=600, n_levels=8, seed=0, missing=0.1):
    rng = np.random.default_rng(seed)
    code = rng.integers(0, n_levels, n_rows)
    x = rng.normal(size=n_rows)
    effect = rng.normal(size=n_levels)
    y = 2 * effect[code] + x + effect[::-1][code] * (x > 0) + 0.1 * rng.normal(size=n_rows)
    text = np.array([f"c{k}" for k in range(n_levels)], dtype=object)[code]
    text[rng.random(n_rows) < missing] = None
    return pd.DataFrame({"city": text, "x": x}), y


def naive_category_tree(frame, y, depth, most_one_hot):
    """Return predictions of one tree for least squares without penalties or limits."""
    city = frame["city"].fillna("missing").to_numpy()
    x = frame["x"].to_numpy()
    g = y.mean() - y
    names = sorted(set(city), key=lambda name: g[city == name].mean())
    if len(names) <= most_one_hot:
        sets = [{name} for name in names]
    else:
        sets = [set(names[: k + 1]) for k in range(len(names) - 1)]
    ways = [np.isin(city, list(chosen)) for chosen in sets]
    ways += [x <= value for value in np.unique(x)[:-1]]

    def score(rows):
        return g[rows].sum() ** 2 / len(rows) if len(rows) else 0.0

    leaves = [np.arange(len(y))]
    for _ in range(depth):
        totals = [sum(score(r[way[r]]) + score(r[~way[r]]) for r in leaves) for way in ways]
        way = ways[int(np.argmax(totals))]
        parts = [part for rows in leaves for part in (rows[way[rows]], rows[~way[rows]])]
        leaves = [part for part in parts if len(part)]
    value = np.empty(len(y))
    for rows in leaves:
        value[rows] = y.mean() - g[rows].mean()
    return value


@pytest.mark.parametrize("most_one_hot", [4, 20])
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_sets_of_categories_equal_the_naive_ones(most_one_hot, missing) -> None:
    frame, y = category_table(200, missing=missing)
    model = HedgerowRegressor(
        grow_policy="symmetric", max_depth=3, n_estimators=1, learning_rate=1.0, reg_lambda=0.0,
        min_samples_leaf=1, cat_smooth=0.0, cat_l2=0.0, min_data_per_group=1,
        max_cat_threshold=254, max_cat_to_onehot=most_one_hot, categorical_features=["city"],
    ).fit(frame, y)  # fmt: skip
    expected = naive_category_tree(frame, y, 3, most_one_hot)
    np.testing.assert_allclose(model.predict(frame), expected, rtol=1e-6, atol=1e-6)
    splits = model.booster_.model.forest
    assert splits.has_sets.any()


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
        ({"grow_policy": "symetric"}, "Did you mean 'symmetric'"),
    ],
)
def test_what_does_not_go_with_symmetric_trees_is_named(params, named) -> None:
    X, y = data(100, 3)
    with pytest.raises(ParameterError, match=named):
        content(X, y, **params)
