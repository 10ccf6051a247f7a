"""Interaction constraints, penalties, bins per column, and errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow import Dataset, HedgerowClassifier, HedgerowRegressor, ParameterError, train
from hedgerow.data import fit_bins, read_table
from hedgerow.data.schema import Column, Schema
from hedgerow.growing.core.stages.branches import make_constraints, permit_columns
from hedgerow.growing.core.state import NODE_FEATURE, NODE_FIELDS
from hedgerow.growing.limits.constraints import resolve_constraints
from hedgerow.objectives import make_objective
from hedgerow.params import BoostParams

NAMES = ("age", "income", "rooms", "day")
SCHEMA = Schema(tuple(Column(name, "int" if name == "day" else "float") for name in NAMES), True)


def resolve(schema=SCHEMA, objective="squared_error", **given):
    return resolve_constraints(BoostParams(**given), schema, make_objective(objective))


def table_of(seed=0, n_rows=600, n_features=4, missing=0.1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)).round(1)
    y = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) * X[:, 3] + 0.3 * rng.normal(size=n_rows)
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


def grown(method):
    """Return parameters of a way to grow trees."""
    if method == "vectors":
        return {"multi_strategy": "multi_output_tree"}
    return {"grow_policy": "symmetric"} if method == "symmetric" else {"tree_method": method}


def fit(X, y, **params):
    return HedgerowRegressor(n_estimators=6, early_stopping=False, **params).fit(X, y)


# -- reading ------------------------------------------------------------------------


def test_names_positions_and_words_mean_the_same() -> None:
    expected = (1, 0, 0, -1)
    assert resolve(monotone_constraints={"age": 1, "day": -1}).monotone_constraints == expected
    assert resolve(monotone_constraints={0: "increasing", 3: -1.0}).monotone_constraints == expected
    assert resolve(monotone_constraints=[1, 0, 0, "decreasing"]).monotone_constraints == expected
    assert resolve(monotone_constraints=np.array(expected)).monotone_constraints == expected


def test_columns_in_no_group_are_a_group() -> None:
    resolved = resolve(interaction_constraints=[["income", 0], {"income"}])
    assert resolved.interaction_constraints == ((0, 1), (1,), (2, 3))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("monotone_constraints", [0, 0, 0, 0]),
        ("monotone_constraints", {}),
        ("feature_penalties", {"age": 1}),
        ("max_bins_by_feature", {"age": 255}),
        ("interaction_constraints", [NAMES, ["age"]]),
    ],
)
def test_what_asks_for_nothing_is_none(name, value) -> None:
    assert getattr(resolve(**{name: value}), name) is None


def test_resolving_again_changes_nothing() -> None:
    once = resolve(
        monotone_constraints={"age": 1},
        interaction_constraints=[["age", "income"]],
        feature_penalties={"rooms": 0.5},
        max_bins_by_feature={"day": 7},
    )
    assert resolve_constraints(once, SCHEMA, make_objective("squared_error")) == once


BAD = [
    ({"monotone_constraints": {"agee": 1}}, "no column 'agee'. Did you mean 'age'"),
    ({"monotone_constraints": {4: 1}}, "no column 4; positions go from 0 to 3"),
    ({"monotone_constraints": {1.5: 1}}, "by its name or position; got 1.5"),
    ({"monotone_constraints": {"age": 2}}, "'age' must be -1, 0, 1, .*; got 2"),
    ({"monotone_constraints": {"age": True}}, "got True"),
    ({"monotone_constraints": {"age": float("nan")}}, "got nan"),
    ({"monotone_constraints": [1, 0]}, "2 values for 4 columns"),
    ({"monotone_constraints": "increasing"}, "got 'increasing'"),
    ({"monotone_constraints": {"age": 1, 0: 1}}, "column 'age' twice"),
    ({"interaction_constraints": [["age", "rom"]]}, "list 0: the table has no column 'rom'"),
    ({"interaction_constraints": [["age"], []]}, "list 1 is empty"),
    ({"interaction_constraints": []}, "is empty"),
    ({"interaction_constraints": ["age"]}, "list 0 must be a list of columns; got 'age'"),
    ({"interaction_constraints": [["age", 0]]}, "'age' twice"),
    ({"interaction_constraints": "pairwse"}, "Did you mean 'pairwise'"),
    ({"interaction_constraints": 3}, "list of lists"),
    ({"feature_penalties": {"age": -1}}, "'age' must be a finite number at least 0; got -1"),
    ({"feature_penalties": {"age": float("nan")}}, "got nan"),
    ({"feature_penalties": [1, 1, 1, 10**400]}, "finite"),
    ({"feature_penalties": [0, 0, 0, 0]}, "0 for every column"),
    ({"max_bins_by_feature": {"age": 1}}, "from 2 to 255; got 1"),
    ({"max_bins_by_feature": {"age": 2.5}}, "got 2.5"),
    ({"max_bins_by_feature": {"age": 9}, "tree_method": "approx"}, "with tree_method='hist'"),
]


@pytest.mark.parametrize(("params", "message"), BAD)
def test_bad_constraints_are_named_and_leave_the_estimator_as_it_was(params, message) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({name: np.arange(60.0) for name in NAMES})
    frame["day"] = np.arange(60)
    model = HedgerowRegressor(n_estimators=1).fit(frame, np.arange(60.0))
    before = dict(vars(model.set_params(**params)))
    with pytest.raises(ParameterError, match=message):
        model.fit(frame, np.arange(60.0))
    assert vars(model) == before


def test_monotone_on_a_category_is_refused() -> None:
    schema = Schema((Column("town", "category", ("Bonn", "Oslo")), Column("age")), True)
    with pytest.raises(ParameterError, match="column 'town' is of kind 'category'"):
        resolve(schema, monotone_constraints={"town": 1})
    kept = resolve(schema, interaction_constraints="no_interactions", feature_penalties={"town": 2})
    assert kept.feature_penalties == (2.0, 1.0)


@pytest.mark.parametrize("objective", ["softmax", "one_vs_all"])
def test_monotone_with_several_classes_is_refused(objective) -> None:
    X, _ = table_of()
    model = HedgerowClassifier(objective=objective, monotone_constraints=[1, 0, 0, 0])
    with pytest.raises(ParameterError, match=f"'{objective}' with 3 outputs: a probability dep"):
        model.fit(X, np.arange(len(X)) % 3)


# -- bins ------------------------------------------------------------------------------


def test_each_column_has_its_limit() -> None:
    X = np.random.default_rng(0).normal(size=(500, 3))
    spec = fit_bins(read_table(X), (5, 20, 255))
    assert spec.bin_counts.tolist()[:2] == [5, 20]
    assert spec.n_bins(2) > 200
    for j, most in enumerate((5, 20, 255)):
        alone = fit_bins(read_table(X[:, [j]]), most)
        found = spec.cut_keys[spec.cut_start[j] : spec.cut_start[j + 1]]
        np.testing.assert_array_equal(alone.cut_keys, found)


# -- interactions ------------------------------------------------------------------------


def branches(forest, tree):
    """Return columns that split each branch, from the root to each leaf."""
    one = forest.tree(tree)
    found, stack = [], [(0, frozenset())]
    while stack:
        node, used = stack.pop()
        if one.feature[node] < 0:
            found.append(used)
        else:
            used = used | {int(one.feature[node])}
            stack += [(int(one.left[node]), used), (int(one.right[node]), used)]
    return found


def may_follow(groups, used, n_features):
    """Return columns that scikit-learn allows below a branch."""
    alive = [set(group) for group in groups if used <= set(group)]
    return set().union(*alive) if used else set(range(n_features))


GROUPS = st.lists(
    st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True), min_size=1, max_size=5
)


@given(GROUPS, st.lists(st.integers(0, 5), max_size=5))
def test_permitted_columns_are_those_of_the_groups_that_are_left(groups, path) -> None:
    groups = [*groups, sorted(set(range(6)).difference(*groups))]
    groups = tuple(tuple(group) for group in groups if group)
    table = np.zeros((len(path) + 1, NODE_FIELDS), dtype=np.int64)
    used = set()
    for node, column in enumerate(path):  # only branches that can come to be
        if column not in may_follow(groups, used, 6):
            path = path[:node]
            break
        table[node, NODE_FEATURE] = column
        used.add(column)
    params = BoostParams(interaction_constraints=groups)
    constraints = make_constraints(params, 6, 20, None)
    constraints.parent[: len(path) + 1] = np.arange(len(path) + 1) - 1
    permit_columns(constraints, table, len(path))
    assert set(np.flatnonzero(constraints.permitted).tolist()) == may_follow(groups, used, 6)
    assert not constraints.met.any()


@pytest.mark.parametrize("method", ["hist", "exact", "approx", "symmetric", "vectors"])
@pytest.mark.parametrize(
    "groups", [[[0, 1], [1, 2]], [["x0", "x3"]], "pairwise", "no_interactions", [[0], [0, 1, 2]]]
)
def test_branches_stay_within_a_group(method, groups) -> None:
    X, y = table_of()
    y = np.column_stack([y, y**2]) if method == "vectors" else y
    model = fit(X, y, interaction_constraints=groups, **grown(method), colsample_bynode=0.7)
    forest = model.booster_.model.forest
    words = {"pairwise": 2, "no_interactions": 1}
    if isinstance(groups, str):
        resolved = list(itertools.combinations(range(4), words[groups]))
    else:
        params = model.booster_.model.training["parameters"]
        resolved = params["interaction_constraints"]
    seen = {branch for tree in range(forest.n_trees) for branch in branches(forest, tree)}
    assert all(any(branch <= set(group) for group in resolved) for branch in seen)
    assert seen != {frozenset()}
    free = fit(X, y, **grown(method), colsample_bynode=0.7).booster_.model.forest
    assert any(len(branch) > 2 for branch in branches(free, 0))  # the constraint is felt


def test_categories_keep_to_their_group_and_their_penalty() -> None:
    pandas = pytest.importorskip("pandas")
    X, y = table_of(n_rows=2000)
    code = np.random.default_rng(1).integers(0, 8, len(X))
    frame = pandas.DataFrame(X, columns=list("abcd"))
    frame["town"] = np.array([f"town {k}" for k in range(8)])[code]
    y = y + np.sin(2.0 * code) * np.nan_to_num(X[:, 0])
    groups = [["town", "a"], ["b", "c", "d"]]
    model = fit(frame, y, categorical_features=["town"], interaction_constraints=groups)
    forest = model.booster_.model.forest
    seen = {branch for tree in range(forest.n_trees) for branch in branches(forest, tree)}
    assert {0, 4} in seen
    assert all(branch <= {0, 4} or branch <= {1, 2, 3} for branch in seen)
    without = fit(frame, y, categorical_features=["town"], feature_penalties={"town": 0})
    assert without.booster_.feature_importance("split")[4] == 0
    common = fit(frame, y, categorical_features=["town"], feature_penalties=[0.5] * 5)
    plain = fit(frame, y, categorical_features=["town"])
    np.testing.assert_allclose(common.predict(frame), plain.predict(frame), rtol=1e-12)
    assert plain.booster_.feature_importance("split")[4] > 0


# -- penalties -----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["hist", "exact", "approx", "symmetric"])
def test_penalties_of_zero_exclude_and_small_ones_hold_back(method) -> None:
    X, y = table_of()
    splits = fit(X, y, **grown(method)).booster_.feature_importance("split")
    none = fit(X, y, **grown(method), feature_penalties={"x0": 0})
    less = fit(X, y, **grown(method), feature_penalties={"x0": 0.2})
    found = [model.booster_.feature_importance("split")[0] for model in (none, less)]
    assert found[0] == 0 < found[1] < splits[0]


@pytest.mark.parametrize("method", ["hist", "exact", "approx", "symmetric"])
def test_a_common_penalty_changes_gains_only(method) -> None:
    X, y = table_of()
    plain = fit(X, y, **grown(method)).booster_.model.forest
    scaled = fit(X, y, **grown(method), feature_penalties=[0.5] * 4).booster_.model.forest
    np.testing.assert_array_equal(scaled.feature, plain.feature)
    np.testing.assert_array_equal(scaled.threshold, plain.threshold)
    np.testing.assert_allclose(scaled.gain, 0.5 * plain.gain, rtol=1e-9)


def test_penalties_as_in_lightgbm() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = rng.integers(0, 30, size=(1500, 4)).astype(float)
    y = X[:, 0] * X[:, 1] / 10 + X[:, 2] - X[:, 3] + 5 * rng.normal(size=1500)
    factors = [0.2, 1.0, 0.7, 0.0]
    params = {
        "objective": "regression", "learning_rate": 0.5, "num_leaves": 12, "verbose": -1,
        "min_sum_hessian_in_leaf": 0, "min_data_in_bin": 1, "feature_contri": factors,
        "num_threads": 1,
    }  # fmt: skip
    theirs = lightgbm.train(params, lightgbm.Dataset(X, y), num_boost_round=3)
    ours = HedgerowRegressor(
        n_estimators=3, learning_rate=0.5, max_leaves=12, reg_lambda=0.0, min_child_weight=0.0,
        early_stopping=False, feature_penalties=factors,
    ).fit(X, y)  # fmt: skip
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-4, atol=1e-4)


# -- promises ------------------------------------------------------------------------------


def bounded_loss(x, town, y, sets, shared):
    """Return the least squared error of a tree that divides by x, then by one of the sets.

    Leaf values are means within bounds: those at x = 0 stay below the middle of the means of both
    sides, the others above.  ``shared``: both sides are divided by the same set.
    """
    middle = (y[x == 0].mean(axis=0) + y[x == 1].mean(axis=0)) / 2.0
    losses = []
    for side in (0, 1):
        limits = (-np.inf, middle) if side == 0 else (middle, np.inf)
        losses.append([])
        for chosen in sets:
            inside = np.isin(town, chosen)
            leaves = [y[(x == side) & part] for part in (inside, ~inside)]
            losses[-1].append(sum(((p - np.clip(p.mean(0), *limits)) ** 2).sum() for p in leaves))
    return np.add(*losses).min() if shared else sum(map(min, losses))


@pytest.mark.parametrize("way", ["leaf-wise", "batches", "symmetric"])
def test_sets_of_categories_are_the_best_within_bounds(way) -> None:
    """Against a brute force: the best set without bounds is not the best with them."""
    more = {"grow_policy": "symmetric" if way == "symmetric" else "depthwise"}
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x, town = rng.integers(0, 2, 90), rng.integers(0, 5, 90)
        means = rng.normal(size=(2, 5)) * 1.5
        y = means[x, town] + 2.5 * x + 0.1 * rng.normal(size=90)
        sets = [[k] for k in range(5)]  # each category against all others
        params = {
            "n_estimators": 1, "learning_rate": 1.0, "max_depth": 2, "max_cat_to_onehot": 5,
            "reg_lambda": 0.0, "min_samples_leaf": 1, "monotone_constraints": {"x": 1},
            "early_stopping": False, **more,
        }  # fmt: skip
        frame = {"x": x.astype(float), "town": np.array(list("abcde"), dtype=object)[town]}
        data = Dataset(frame, y)
        if way == "batches":
            data = Dataset.from_batches(lambda rows=(frame, y): iter([rows]))
        model = train(params, data)
        assert model.model.forest.feature[0] in (0, 1)
        if model.model.forest.feature[0] == 1:
            continue  # the tree begins with the categories
        loss = ((y - model.predict(frame)) ** 2).sum()
        assert loss <= bounded_loss(x, town, y, sets, way == "symmetric") * (1.0 + 1e-6)
