"""Monotone constraints: the order of leaves, fits, and the verifier."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow import Dataset, HedgerowRegressor, ParameterError, train
from hedgerow.booster import Booster
from hedgerow.growing.core.tree import GrownTree
from hedgerow.growing.limits.isotonic import order_leaves
from hedgerow.model.cells import Cells
from hedgerow.model.predict import Predictor
from tests.helpers.examples import examples
from tests.helpers.random_forests import random_model


def sample(seed=0, n_rows=400, missing=0.15):
    """Return columns with an increasing, decreasing, no, and periodic effect on the target."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4)).round(2)
    y = X[:, 0] - X[:, 1] * (X[:, 3] > 0) + np.sin(3 * X[:, 3]) + rng.normal(size=n_rows)
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


def assert_monotone(predict, X, column, sign, n_rows=40):
    """Check predictions on a dense grid of one column, with other values from some rows."""
    grid = np.unique(np.concatenate([np.linspace(-4, 4, 150), X[:, column]]))
    grid = np.concatenate([[-np.inf], grid[~np.isnan(grid)], [np.inf]])
    rows = np.repeat(X[:n_rows], len(grid), axis=0)
    rows[:, column] = np.tile(grid, n_rows)
    scores = sign * np.asarray(predict(rows)).reshape(n_rows, len(grid))
    assert (np.diff(scores, axis=1) >= 0).all()


# -- leaves in order ------------------------------------------------------------------------


def grown(rng, n_leaves):
    """Return a tree of random shape, with random signs of its splits."""
    left, right, leaves = [0], [0], [0]
    while len(leaves) < n_leaves:
        node = leaves.pop(int(rng.integers(len(leaves))))
        left[node], right[node] = len(left), len(left) + 1
        leaves += [len(left), len(left) + 1]
        left += [0, 0]
        right += [0, 0]
    n_nodes = len(left)
    inner = np.array(left) != 0
    sign = np.where(inner, rng.integers(-1, 2, n_nodes), 0)
    arrays = {"feature": np.where(inner, 0, -1), "left": np.array(left), "right": np.array(right)}
    others = ("threshold", "missing_left", "gain", "count", "bin", "column", "left_bins")
    zeros = {name: np.zeros(n_nodes) for name in others}
    cover = rng.integers(1, 5, n_nodes).astype(float)
    value = rng.integers(-5, 6, n_nodes).astype(float)
    return GrownTree(**arrays, **zeros, value=value, cover=cover), sign


def leaves_below(tree, node):
    if tree.left[node] == 0:
        return [node]
    return leaves_below(tree, tree.left[node]) + leaves_below(tree, tree.right[node])


def order_of(tree, sign):
    """Return pairs (a, b) of leaves with value a <= value b."""
    pairs = set()
    for node in np.flatnonzero(sign):
        sides = leaves_below(tree, tree.left[node]), leaves_below(tree, tree.right[node])
        pairs |= set(itertools.product(*(sides if sign[node] > 0 else sides[::-1])))
    return pairs


def naive_isotonic(value, weight, leaves, pairs):
    """Compute the minimax formula: max over upper sets of the min over lower sets of the mean."""
    sets = [set(chosen) for size in range(1, len(leaves) + 1)
            for chosen in itertools.combinations(leaves, size)]  # fmt: skip
    upper = [s for s in sets if all(b in s for a, b in pairs if a in s)]
    lower = [s for s in sets if all(a in s for a, b in pairs if b in s)]

    def mean(chosen):
        return sum(value[i] * weight[i] for i in chosen) / sum(weight[i] for i in chosen)

    return {
        i: max(min(mean(u & v) for v in lower if i in v) for u in upper if i in u) for i in leaves
    }


@given(st.integers(0, 10**6), st.integers(1, 6))
@settings(max_examples=examples(40))
def test_leaves_are_put_in_order_as_near_as_can_be(seed, n_leaves) -> None:
    tree, sign = grown(np.random.default_rng(seed), n_leaves)
    leaves, pairs = leaves_below(tree, 0), order_of(tree, sign)
    found = order_leaves(tree, tree.value, sign)
    expected = naive_isotonic(tree.value, tree.cover, leaves, pairs)
    for leaf in leaves:
        assert found[leaf] == pytest.approx(expected[leaf], abs=1e-9)


@given(st.integers(0, 10**6), st.integers(1, 60))
def test_ordered_leaves_are_in_order_exactly_and_inner_values_between(seed, n_leaves) -> None:
    rng = np.random.default_rng(seed)
    tree, sign = grown(rng, n_leaves)
    value = rng.normal(size=len(tree.left)) * 10.0 ** rng.integers(-9, 9)
    found = order_leaves(tree, value, sign)
    assert all(found[a] <= found[b] for a, b in order_of(tree, sign))
    for node in np.flatnonzero(tree.left != 0):
        below = found[leaves_below(tree, node)]
        assert below.min() <= found[node] <= below.max()
    again = order_leaves(tree, found, sign)
    np.testing.assert_array_equal(again, found)  # what is in order stays as it is
    if not sign.any():
        leaf = tree.left == 0
        np.testing.assert_array_equal(found[leaf], value[leaf])


# -- fits -----------------------------------------------------------------------------------

OBJECTIVES = ["squared_error", "absolute_error", "quantile", "logistic", "exponential"]
WAYS = [
    {},
    {"leaf_estimation": "line_search"},
    {"leaf_estimation": "gradient", "reg_alpha": 0.5},
    {"boosting": "dart", "skip_drop": 0.0, "drop_rate": 0.5},
    {"boosting": "rf", "subsample": 0.6},
    {"grow_policy": "depthwise", "max_depth": 5, "max_delta_step": 0.4},
    {"subsample": 0.5, "colsample_bynode": 0.6, "reg_lambda": 0.0, "gamma": 0.1},
    {"tree_method": "exact"},
    {"tree_method": "approx", "sketch": "local"},
    {"grow_policy": "symmetric", "max_depth": 5},
    {"grow_policy": "symmetric", "path_smooth": 5.0, "leaf_estimation": "gradient"},
    {"grow_policy": "symmetric", "leaf_estimation": "line_search", "reg_alpha": 0.5},
]


@given(
    seed=st.integers(0, 10**6),
    n_rows=st.integers(5, 300),
    objective=st.sampled_from(OBJECTIVES),
    way=st.sampled_from(WAYS),
    weighted=st.booleans(),
    more=st.sampled_from([{}, {"max_bins": 2}, {"max_bins": 5}]),
    leaf=st.integers(1, 20),
    signs=st.lists(st.sampled_from([-1, 0, 1]), min_size=4, max_size=4),
)
@settings(max_examples=examples(120), deadline=None)
def test_any_fit_is_monotone(seed, n_rows, objective, way, weighted, more, leaf, signs) -> None:
    rng = np.random.default_rng(seed)
    X, y = sample(seed, n_rows, missing=rng.choice([0.0, 0.3]))
    if objective in ("logistic", "exponential"):
        y = (y > 0) * 1.0
        y[:2] = 0, 1
    weight = rng.exponential(size=n_rows) if weighted else None
    params = {
        "objective": objective, "min_samples_leaf": leaf, "n_estimators": 8,
        "monotone_constraints": signs, "min_child_weight": 0.0, "early_stopping": False,
        "learning_rate": 1.0 if way.get("boosting") == "rf" else float(rng.choice([0.1, 1.0])),
        **way, **({} if "tree_method" in way else more),
    }  # fmt: skip
    booster = train(params, Dataset(X, y, weight))
    for column, sign in enumerate(signs):
        if sign != 0:
            assert booster.verify_monotone(column).verdict == "proved"
            assert_monotone(booster.predict, X, column, sign, n_rows=5)


@pytest.mark.parametrize("method", ["hist", "exact"])
@pytest.mark.parametrize("signs", [[1, 0, 0, 0, 0], [1, -1, 1, 0, -1], [0, 0, 1, 1, 1]])
def test_same_trees_as_xgboost(method, signs) -> None:
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = rng.integers(0, 30, size=(1500, 5)).astype(float)
    y = X[:, 0] * X[:, 1] / 10 + X[:, 2] * X[:, 3] / 5 - X[:, 4] + 5 * rng.normal(size=1500)
    theirs = xgboost.XGBRegressor(
        n_estimators=3, learning_rate=0.5, monotone_constraints=tuple(signs), max_depth=4,
        min_child_weight=20, base_score=float(y.mean()), tree_method="exact", n_jobs=1,
    ).fit(X, y)  # fmt: skip
    ours = HedgerowRegressor(
        n_estimators=3, learning_rate=0.5, monotone_constraints=signs, max_depth=4,
        max_leaves=None, grow_policy="depthwise", min_child_weight=0.0, early_stopping=False,
        tree_method=method,
    ).fit(X, y)  # fmt: skip
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-5, atol=1e-4)


def test_wide_integers_and_dates_are_ordered() -> None:
    rng = np.random.default_rng(0)
    X = 2**60 + rng.integers(0, 50, size=(500, 2))
    y = (X[:, 0] - 2**60) * 1.0 + 20 * np.sin((X[:, 0] - 2**60) / 3.0) + rng.normal(size=500)
    for method in ("hist", "exact"):
        params = {"n_estimators": 10, "min_samples_leaf": 3, "tree_method": method}
        booster = train({**params, "monotone_constraints": {"x0": 1}}, Dataset(X, y))
        assert booster.verify_monotone().verdict == "proved"
        free = train(params, Dataset(X, y))
        finding = free.verify_monotone("x0", 1)["x0"]
        assert finding.verdict == "violated"
        assert tuple(free.predict(finding.rows, kind="raw")) == finding.scores


def test_missing_values_may_be_set_apart_against_the_order() -> None:
    X = np.r_[np.arange(100.0), np.full(100, np.nan)].reshape(-1, 1)
    y = np.r_[np.full(100, 5.0), np.zeros(100)]
    for method in ("hist", "exact"):
        model = HedgerowRegressor(n_estimators=50, monotone_constraints=[1], tree_method=method)
        model.fit(X, y)
        np.testing.assert_allclose(model.predict([[50.0], [np.nan]]), [5.0, 0.0], atol=0.1)
        assert model.verify_monotone().verdict == "proved"


# -- verifier -------------------------------------------------------------------------------


def brute_force(model, column, sign, seed=0):
    """Return whether random sweeps over the cells find scores in the wrong order."""
    rng = np.random.default_rng(seed)
    predictor, cells = (
        Predictor(model.forest, model.schema.kinds),
        Cells(model.forest, model.schema),
    )
    keys = np.zeros((60, model.schema.n_features), dtype=np.int64)
    for j in range(model.schema.n_features):
        keys[:, j] = rng.choice(cells.all(j), len(keys))
    values = cells.ordered(column)
    rows = np.repeat(keys, len(values), axis=0)
    rows[:, column] = np.tile(values, len(keys))
    scores = sign * predictor.raw_scores(rows).reshape(-1, len(values))
    return bool((np.diff(scores, axis=1) < 0).any())


@given(
    seed=st.integers(0, 10**6),
    n_rounds=st.integers(1, 4),
    n_outputs=st.sampled_from([1, 1, 3]),
    n_features=st.integers(1, 4),
    max_leaves=st.integers(1, 9),
    sign=st.sampled_from([-1, 1]),
)
@settings(max_examples=examples(100))
def test_verdicts_are_true(seed, n_rounds, n_outputs, n_features, max_leaves, sign) -> None:
    model = random_model(
        seed, n_rounds=n_rounds, n_outputs=n_outputs, n_features=n_features, max_leaves=max_leaves
    )
    booster = Booster(model)
    for column in range(n_features):
        (finding,) = booster.verify_monotone(column, sign).findings.values()
        if finding.verdict == "proved":
            assert not brute_force(model, column, sign)
            continue
        assert finding.verdict == "violated"  # so few cells are all tried
        first, second = finding.rows
        same = [
            a == b or (a is b) or (a != a and b != b) for a, b in zip(first, second, strict=True)
        ]
        assert [j for j, equal in enumerate(same) if not equal] == [column]
        assert first[column] < second[column]
        raw = booster.predict(finding.rows, kind="raw").reshape(2, n_outputs)[:, finding.output]
        assert tuple(raw) == finding.scores
        assert sign * raw[0] > sign * raw[1]


def test_leaves_whose_boxes_do_not_meet_need_no_order() -> None:
    """Leaves above x1 = 0 are higher, and x0 rises on both sides.

    The split on x0 at the root has lower leaves on its right, but only for other x1.
    """
    X = np.array(list(itertools.product([0.0, 1.0], [0.0, 1.0])))
    y = np.array([0.0, 5.0, 1.0, 6.0])
    params = {"n_estimators": 1, "min_samples_leaf": 1, "reg_lambda": 0.0, "learning_rate": 1.0}
    # A penalty on x1 makes x0 come first.
    booster = train({**params, "feature_penalties": {"x1": 0.01}}, Dataset(X, y))
    assert booster.model.forest.feature[0] == 0
    found = booster.verify_monotone("x0", 1)["x0"]
    assert (found.verdict, found.n_tried) == ("proved", 0)
    assert booster.verify_monotone("x0", -1).verdict == "violated"


def test_questions_without_sense_are_refused() -> None:
    X, y = sample()
    booster = train({"n_estimators": 2, "monotone_constraints": {"x0": 1}}, Dataset(X, y))
    assert booster.verify_monotone("x0").verdict == "proved"
    for arguments, message in [
        (("x1",), "column 'x1' was trained without a monotone constraint"),
        (("x9", 1), "feature: the table has no column 'x9'"),
        (("x0", "up"), "direction must be -1, 0, 1, .*; got 'up'"),
        ((None, 1), "direction=1 is given without feature"),
    ]:
        with pytest.raises(ParameterError, match=message):
            booster.verify_monotone(*arguments)
    with pytest.raises(ParameterError, match="n_points must be an integer"):
        booster.verify_monotone(n_points=0)
    with pytest.raises(ParameterError, match="without monotone constraints"):
        train({"n_estimators": 2}, Dataset(X, y)).verify_monotone()


# -- categories -------------------------------------------------------------------------------


def towns(seed=0, n_rows=800):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    X, y = sample(seed, n_rows)
    names = np.array(["Bonn", "Kiev", "Oslo", "Rome", "Turku", "Vaduz"])
    code = rng.integers(0, 6, n_rows)
    town = pandas.Categorical(np.where(rng.random(n_rows) < 0.1, None, names[code]))
    frame = pandas.DataFrame({"x0": X[:, 0], "town": town, "x1": X[:, 1], "x3": X[:, 3]})
    return frame, y + 2 * np.sin(code) * np.nan_to_num(X[:, 0])


@pytest.mark.parametrize("way", [{}, {"objective": "quantile"}, {"max_cat_to_onehot": 1}], ids=str)
def test_monotone_beside_categories(way) -> None:
    frame, y = towns()
    model = HedgerowRegressor(
        n_estimators=20, monotone_constraints={"x0": 1, "x1": -1}, min_samples_leaf=5,
        interaction_constraints="pairwise", feature_penalties={"town": 0.9},
        categorical_features=["town"], **way,
    ).fit(frame, y)  # fmt: skip
    assert (model.booster_.model.forest.feature == 1).any()
    assert model.verify_monotone().verdict == "proved"
    other = frame.copy()
    other["town"] = "Zurich"
    for rows in (frame, other):
        for name, sign in (("x0", 1), ("x1", -1)):
            grid = np.linspace(-3, 3, 50)
            part = rows.iloc[:30].loc[np.repeat(np.arange(30), 50)].reset_index(drop=True)
            part[name] = np.tile(grid, 30)
            scores = sign * model.predict(part).reshape(30, 50)
            assert (np.diff(scores, axis=1) >= 0).all()


@pytest.mark.parametrize("unknown", ["missing", "error"])
@pytest.mark.parametrize("seed", range(6))
def test_violation_beside_categories_is_shown_in_values(unknown, seed) -> None:
    frame, y = towns(seed)
    model = HedgerowRegressor(
        n_estimators=3, categorical_features=["town"], unknown_category=unknown, max_leaves=6
    ).fit(frame, y)
    finding = model.verify_monotone("x0", 1)["x0"]
    assert finding.verdict == "violated"
    raw = model.booster_.predict(finding.rows, kind="raw")
    assert tuple(raw) == finding.scores
    assert raw[0] > raw[1]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_rows_of_a_violation_hold_no_zeros_that_are_missing(seed, whole) -> None:
    r = np.random.default_rng(seed)
    X = r.integers(-4, 5, (150, 2))
    y = X[:, 0] * np.sign(X[:, 1]) + (X[:, 0] == 0) * 2.0
    params = {"n_estimators": 2, "zero_as_missing": True, "min_samples_leaf": 2}
    table = X if whole else X.astype(float)
    booster = train({**params, "linear_leaves": False, "max_leaves": 9}, Dataset(table, y))
    for name, column in (("x0", 0), ("x1", 1)):
        finding = booster.verify_monotone(name, 1)[name]
        assert finding.verdict == "violated"
        first, second = booster.predict(np.array(finding.rows.tolist()), kind="raw")
        assert (first, second) == finding.scores
        assert first > second
        assert finding.rows[0][column] < finding.rows[1][column]
