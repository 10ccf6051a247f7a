"""Single trees equal scikit-learn's and those of a naive search; the estimators' contracts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from hedgerow.cart import CARTClassifier, CARTRegressor
from hedgerow.cart import training as cart_training
from hedgerow.data import read_table
from hedgerow.errors import DataError, ParameterError
from hedgerow.model.predict import Predictor
from hedgerow.plot import tree_rules, tree_text
from tests.reference import naive_cart

CLASSIFICATION = ("gini", "entropy")
REGRESSION = ("squared_error",)


@parametrize_with_checks(
    [
        CARTClassifier(),
        CARTRegressor(),
        CARTClassifier(criterion="entropy", max_leaf_nodes=8, max_features="sqrt"),
        CARTRegressor(max_leaf_nodes=12),
    ]
)
def test_scikit_learn_conventions(estimator, check) -> None:
    check(estimator)


def make(criterion, **params):
    """Return both libraries' trees for a criterion."""
    if criterion in CLASSIFICATION:
        return (
            CARTClassifier(criterion=criterion, n_jobs=1, **params),
            DecisionTreeClassifier(criterion=criterion, random_state=0, **params),
        )
    return (
        CARTRegressor(criterion=criterion, n_jobs=1, **params),
        DecisionTreeRegressor(criterion=criterion, random_state=0, **params),
    )


def make_data(seed=0, n=400, n_features=5, missing=0.0):
    """Return continuous data without ties: X, y of regression, y of five classes."""
    rng = np.random.default_rng(seed)
    X = (100.0 * rng.normal(size=(n, n_features))).astype(np.float32)
    signal = X[:, 0] / 100.0 + np.sin(X[:, 1] / 30.0) + 0.3 * rng.normal(size=n)
    X[rng.random(X.shape) < missing] = np.nan
    return X, signal, np.digitize(signal, [-2.0, -1.0, 0.0, 1.0])


# -- against scikit-learn --------------------------------------------------------


def lost(tree, node):
    mixed = tree.weighted_n_node_samples * tree.impurity
    return mixed[node] - mixed[tree.children_left[node]] - mixed[tree.children_right[node]]


def assert_identical(ours, theirs) -> None:
    """Assert that both trees have the same nodes with the same numbers."""
    assert ours.node_count == theirs.node_count
    np.testing.assert_array_equal(ours.feature, np.where(theirs.feature < 0, -1, theirs.feature))
    for name in ("children_left", "children_right", "n_node_samples"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    np.testing.assert_array_equal(ours.threshold, theirs.threshold)
    for name in ("impurity", "weighted_n_node_samples"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ours.value, theirs.value[:, 0, :], rtol=1e-9, atol=1e-12)
    inner = ours.feature >= 0
    np.testing.assert_array_equal(ours.missing_left[inner], theirs.missing_go_to_left[inner])
    assert ours.max_depth == theirs.max_depth
    assert ours.n_leaves == theirs.n_leaves


@pytest.mark.parametrize(
    "settings",
    [
        {"min_samples_leaf": 20},
        {"max_depth": 4, "min_samples_leaf": 15},
        {"max_leaf_nodes": 9, "min_samples_leaf": 15},
        {"max_leaf_nodes": 40, "max_depth": 5, "min_samples_leaf": 15},
        {"min_samples_leaf": 15, "ccp_alpha": 0.004},
        {"min_samples_leaf": 15, "ccp_alpha": 0.02},
    ],
    ids=str,
)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("criterion", ["gini", "entropy", "squared_error"])
def test_continuous_data_give_the_tree_of_scikit_learn(criterion, weighted, settings) -> None:
    X, signal, classes = make_data(19, n=1500)  # where no two cuts are equally good
    y = classes if criterion in CLASSIFICATION else signal
    w = np.random.default_rng(4).random(len(y)) if weighted else None
    ours, theirs = make(criterion, **settings)
    ours.fit(X, y, w)
    theirs.fit(X, y, w)
    assert_identical(ours.tree_, theirs.tree_)
    np.testing.assert_array_equal(ours.apply(X), theirs.apply(X))
    if criterion in CLASSIFICATION:
        np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    else:
        np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        ours.feature_importances_, theirs.feature_importances_, rtol=1e-8, atol=1e-12
    )
    if criterion in CLASSIFICATION:
        np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-9)
        np.testing.assert_allclose(np.exp(ours.predict_log_proba(X)), ours.predict_proba(X))
    assert ours.get_depth() == theirs.get_depth()
    assert ours.get_n_leaves() == theirs.get_n_leaves()


@pytest.mark.parametrize("criterion", ["gini", "entropy", "squared_error"])
def test_pruning_path_is_that_of_scikit_learn(criterion) -> None:
    X, signal, classes = make_data(5, n=900)
    y = classes if criterion in CLASSIFICATION else signal
    w = np.random.default_rng(6).random(len(y)) + 0.1
    ours, theirs = make(criterion, min_samples_leaf=10)
    path = ours.cost_complexity_pruning_path(X, y, w)
    expected = theirs.cost_complexity_pruning_path(X, y, w)
    # scikit-learn may split pure nodes whose impurity is a rounding error.
    kept = (expected.ccp_alphas == 0.0) | (expected.ccp_alphas > 1e-15)
    np.testing.assert_allclose(path.ccp_alphas, expected.ccp_alphas[kept], atol=1e-10)
    np.testing.assert_allclose(path.impurities, expected.impurities[kept], atol=1e-10)
    sizes = []
    for alpha in path.ccp_alphas[:: max(1, len(path.ccp_alphas) // 6)]:
        one = clone(ours).set_params(ccp_alpha=float(alpha) + 1e-9).fit(X, y, w)
        other = clone(theirs).set_params(ccp_alpha=float(alpha) + 1e-9).fit(X, y, w)
        assert one.get_n_leaves() == other.get_n_leaves()
        sizes.append(one.get_n_leaves())
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0]


# -- against the naive search ------------------------------------------------------


@st.composite
def small_data(draw):
    n, m = draw(st.integers(2, 25)), draw(st.integers(1, 4))
    seed = draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    X = rng.integers(0, draw(st.integers(2, 8)), (n, m)).astype(float)
    X[rng.random(X.shape) < draw(st.sampled_from([0.0, 0.3]))] = np.nan
    y = rng.integers(0, 3, n)
    y[:2] = (0, 1)
    w = None if draw(st.booleans()) else rng.choice([0.0, 0.5, 1.0, 3.7], n)
    if w is not None:
        w[:2] = 1.0
    categorical = [j for j in range(m) if rng.random() < draw(st.sampled_from([0.0, 0.6]))]
    return X, y, w, categorical, draw(st.integers(1, 3))


def rows_by_node(tree, X):
    """Return rows that reach each node, by the naive walk."""
    rows = {0: np.arange(len(X))}
    for node in range(tree.node_count):
        if tree.feature[node] < 0:
            continue
        left = np.array([naive_cart.goes_left(tree, node, X[i]) for i in rows[node]], dtype=bool)
        rows[int(tree.children_left[node])] = rows[node][left]
        rows[int(tree.children_right[node])] = rows[node][~left]
    return rows


@pytest.mark.parametrize("criterion", CLASSIFICATION + REGRESSION)
@given(data=small_data())
def test_every_split_is_the_best_of_all(criterion, data) -> None:
    X, y, w, categorical, least = data
    if categorical:
        least = 1  # the order by mean knows nothing of rows
    model = make(criterion, min_samples_leaf=least)[0]
    model.set_params(categorical_features=categorical).fit(X, y, w)
    weight = np.ones(len(X)) if w is None else w
    kept = weight > 0.0
    X, y, weight = X[kept], y[kept], weight[kept]
    tree = model.tree_
    rows = rows_by_node(tree, X)
    np.testing.assert_array_equal(model.apply(X), [naive_cart.walk(tree, x) for x in X])
    for node, part in rows.items():
        assert tree.n_node_samples[node] == len(part)
        assert tree.weighted_n_node_samples[node] == pytest.approx(weight[part].sum())
        mixed = naive_cart.impurity(criterion, y[part], weight[part])
        assert tree.impurity[node] == pytest.approx(mixed, abs=1e-9)
        best = naive_cart.best_decrease(
            X[part], y[part], weight[part], criterion, categorical, least
        )
        if tree.feature[node] < 0:
            assert best is None or mixed == pytest.approx(0.0, abs=1e-12)
        else:
            got = lost(tree, node)
            assert got == pytest.approx(best, abs=1e-8)


# -- the worked example, and the split table ---------------------------------------


def table_of(model, *rows, **options):
    """Return the split table as a dict of lists."""
    return model.split_table(*rows, **options, backend=None)


INCOME = np.array([60, 70, 75, 85, 90, 95, 100, 120, 125, 220])
CHEAT = list("NNNYYYNNNN")


def test_income_example() -> None:
    model = CARTClassifier(max_depth=1).fit(INCOME[:, None], CHEAT)
    table = table_of(model, 0, INCOME[:, None], CHEAT, outer=True)
    assert table["cut"] == [-np.inf, 65, 72, 80, 87, 92, 97, 110, 122, 172, np.inf]
    printed = [0.420, 0.400, 0.375, 0.343, 0.417, 0.400, 0.300, 0.343, 0.375, 0.400, 0.420]
    assert [round(score, 3) for score in table["score"]] == printed
    assert table["n_left"] == list(range(11))
    assert model.tree_.threshold[0] == 97
    assert table_of(model, 0, INCOME[:, None], CHEAT)["cut"] == table["cut"][1:-1]
    floats = CARTClassifier(max_depth=1).fit(INCOME[:, None].astype(float), CHEAT)
    assert floats.tree_.threshold[0] == 97.5


@pytest.mark.parametrize("criterion", CLASSIFICATION + REGRESSION)
@pytest.mark.parametrize("weighted", [False, True])
def test_split_table_holds_the_cuts_of_the_tree(criterion, weighted) -> None:
    X, signal, classes = make_data(8, n=80, n_features=3, missing=0.1)
    X[:, 2] = np.round(X[:, 2] / 80.0)
    y = classes if criterion in CLASSIFICATION else signal
    w = np.random.default_rng(3).integers(0, 3, len(y)) * 0.5 if weighted else None
    model = make(criterion, max_depth=3)[0].set_params(categorical_features=[2]).fit(X, y, w)
    tree = model.tree_
    weight = np.ones(len(y)) if w is None else w
    rows = rows_by_node(tree, X)
    for node in np.flatnonzero(tree.feature >= 0)[:3]:
        table = table_of(model, int(node), X, y, w)
        part = rows[int(node)]
        part = part[weight[part] > 0]
        for name, kind, cut, side, n_left, n_right, score, gain in zip(
            *table.values(), strict=True
        ):
            x = X[part, int(name[1:])]
            left = x == cut if kind == "==" else np.where(np.isnan(x), side == 1, x <= cut)
            assert (n_left, n_right) == (left.sum(), (~left).sum())
            lost_here = naive_cart.decrease(criterion, y[part], weight[part], left)
            assert gain == pytest.approx(lost_here / weight[part].sum(), abs=1e-9)
            assert score + gain == pytest.approx(tree.impurity[node], abs=1e-9)
        best = max(table["decrease"])
        if not tree.is_categorical[node]:
            assert best * weight[part].sum() == pytest.approx(lost(tree, node), abs=1e-8)


def test_split_table_refuses_what_it_cannot_show() -> None:
    X, _, y = make_data()
    model = CARTClassifier(max_depth=2).fit(X, y)
    for node in (-1, 99, 1.5, "0"):
        with pytest.raises(ParameterError, match="node must be"):
            table_of(model, node, X, y)
    leaf = int(model.apply(X)[0])
    other = model.apply(X) != leaf
    with pytest.raises(DataError, match=f"reaches node {leaf}"):
        table_of(model, leaf, X[other], y[other])
    with pytest.raises(DataError, match="labels that the tree lacks"):
        table_of(model, 0, X, y + 100)


# -- categories ----------------------------------------------------------------------


def test_categories_are_compared_by_value() -> None:
    X = np.array([[3.0], [1.0], [2.0], [7.5], [1.0], [3.0]] * 5)
    y = np.array(["a", "b", "a", "b", "b", "a"] * 5)
    model = CARTClassifier(categorical_features=[0]).fit(X, y)
    assert model.get_n_leaves() == 2
    left, right = model.tree_.categories(0)
    assert {tuple(left), tuple(right)} == {(2.0, 3.0), (1.0, 7.5)}
    assert np.isnan(model.tree_.threshold[0])
    # Unseen and missing categories go with the larger child: that of 'a' and 'b' are equal.
    again = CARTClassifier(categorical_features=[0]).fit(X[:-1], y[:-1])
    assert again.predict([[99.0], [np.nan], [-5.0]]).tolist() == ["b", "b", "b"]


def test_missing_category_goes_where_it_went_in_training() -> None:
    X = np.array([0.0, 1.0, np.nan, 0.0, 1.0, np.nan])[:, None]
    model = CARTRegressor(categorical_features=[0]).fit(X, [0.0, 5.0, 5.0, 0.0, 5.0, 5.0])
    assert model.predict([[np.nan], [0.0], [1.0]]).tolist() == [5.0, 0.0, 5.0]


def test_categories_of_64_bit_integers_and_of_named_columns() -> None:
    pandas = pytest.importorskip("pandas")
    big = 2**60
    frame = pandas.DataFrame({"size": [1, 2, 3, 4] * 6, "code": [big, big + 1, big + 2, big] * 6})
    y = (frame["code"] == big + 1).to_numpy()
    model = CARTClassifier(categorical_features=["code"]).fit(frame, y)
    assert model.get_n_leaves() == 2
    assert (model.predict(frame) == y).all()
    assert (model.predict(frame[["code", "size"]]) == y).all()
    for wrong, message in (
        (["cod"], "Did you mean 'code'"),
        ([2], "names column 2"),
        ("code", "must be a list"),
        ([True], "not a column"),
    ):
        with pytest.raises(ParameterError, match=message):
            CARTClassifier(categorical_features=wrong).fit(frame, y)


# -- promises ------------------------------------------------------------------------


def same_tree(one, other) -> bool:
    names = (name for name in one.__slots__ if name != "schema")
    return all(getattr(one, n).tobytes() == getattr(other, n).tobytes() for n in names)


@pytest.mark.parametrize("criterion", CLASSIFICATION + REGRESSION)
def test_threads_do_not_change_the_tree(criterion, monkeypatch) -> None:
    monkeypatch.setattr(cart_training, "_CELLS_PER_THREAD", 30)
    X, signal, classes = make_data(7, n=700, n_features=7, missing=0.05)
    X[:, 3] = np.round(X[:, 3] / 50.0)
    y = classes if criterion in CLASSIFICATION else signal
    for settings in ({}, {"max_leaf_nodes": 30}, {"max_features": 2}):
        model = make(criterion, **settings)[0].set_params(categorical_features=[3])
        trees = [clone(model).set_params(n_jobs=n).fit(X, y).tree_ for n in (1, 2, 5)]
        assert same_tree(trees[0], trees[1])
        assert same_tree(trees[0], trees[2])


@pytest.mark.parametrize("criterion", CLASSIFICATION + REGRESSION)
def test_weights_count_rows(criterion) -> None:
    X, signal, classes = make_data(9, n=150, missing=0.1)
    y = classes if criterion in CLASSIFICATION else signal
    w = np.random.default_rng(0).integers(0, 4, len(y))
    model = make(criterion)[0]
    one = clone(model).fit(X, y, w)
    many = clone(model).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    without = clone(model).fit(X[w > 0], y[w > 0], w[w > 0])
    assert same_tree(one.tree_, without.tree_)
    for name in ("feature", "threshold_key", "children_left", "children_right"):
        np.testing.assert_array_equal(getattr(one.tree_, name), getattr(many.tree_, name))
    np.testing.assert_allclose(one.tree_.value, many.tree_.value, rtol=1e-12)
    for factor in (0.1, 1e-12, 2.0**40, 3e50):
        scaled = clone(model).fit(X, y, w * factor)
        for name in ("feature", "threshold_key", "children_left", "children_right"):
            np.testing.assert_array_equal(getattr(one.tree_, name), getattr(scaled.tree_, name))


def test_targets_of_any_scale() -> None:
    X, signal, _ = make_data(2)
    for criterion in REGRESSION:
        model = make(criterion, min_samples_leaf=5)[0]
        base = clone(model).fit(X, signal).tree_
        for factor in (2.0**-500, 2.0**300):
            tree = clone(model).fit(X, signal * factor).tree_
            np.testing.assert_array_equal(tree.feature, base.feature)
            np.testing.assert_array_equal(tree.threshold_key, base.threshold_key)
        shifted = clone(model).fit(X, np.round(signal, 3) + 2.0**30).tree_
        flat = clone(model).fit(X, np.round(signal, 3)).tree_
        assert shifted.node_count == flat.node_count
    with pytest.raises(DataError, match="differ by at most 1e"):
        CARTRegressor().fit(X[:2], [0.0, 1e150])


def test_outlier_does_not_hide_the_rest() -> None:
    X = np.arange(40.0)[:, None]
    y = np.where(X[:, 0] < 20, 0.0, 1.0)
    y[39] = 1e17
    model = CARTRegressor().fit(X, y)
    np.testing.assert_array_equal(model.predict(X), y)


@given(st.lists(st.floats(width=64, allow_nan=False), min_size=2, max_size=8, unique=True))
def test_training_and_prediction_agree(values) -> None:
    """A full tree predicts the target of every training value, for any floats."""
    with np.errstate(over="ignore"):
        near = [np.nextafter(v, np.inf) for v in values]
    X = np.unique(np.array([*values, *near, -np.inf, np.inf, 0.0]) + 0.0)[:, None]
    y = np.random.default_rng(len(values)).permutation(len(X)).astype(float)
    model = CARTRegressor().fit(X, y)
    np.testing.assert_array_equal(model.predict(X), y)
    assert model.predict([[-0.0]]) == model.predict([[0.0]])
    ints = np.array([2**62, 2**62 + 1, -(2**63) + 1, 2**63 - 1, 0, 1])[:, None]
    exact = CARTRegressor().fit(ints, np.arange(6.0))
    np.testing.assert_array_equal(exact.predict(ints), np.arange(6.0))


def test_missing_values_are_learned() -> None:
    X = np.array([1.0, 2.0, np.nan, 3.0, np.nan])[:, None]
    model = CARTRegressor(max_depth=1).fit(X, [0.0, 0.0, 7.0, 0.0, 7.0])
    assert model.predict([[np.nan], [-9.0], [np.inf]]).tolist() == [7.0, 0.0, 0.0]
    assert model.tree_.threshold[0] == np.inf
    with_high = CARTRegressor(max_depth=1).fit(X, [0.0, 0.0, 7.0, 7.0, 7.0])
    assert with_high.predict([[np.nan], [2.5], [2.6]]).tolist() == [7.0, 0.0, 7.0]
    all_missing = CARTRegressor().fit(np.full((3, 1), np.nan), [1.0, 2.0, 6.0])
    assert all_missing.predict([[4.0]]).tolist() == [3.0]
    seen_none = CARTRegressor(max_depth=1).fit([[0.0], [1.0], [2.0]], [0.0, 5.0, 5.0])
    assert seen_none.predict([[np.nan]]).tolist() == [5.0]


def test_features_are_drawn_by_the_seed() -> None:
    X, signal, _ = make_data(4, n_features=8)
    draws = {
        tuple(CARTRegressor(max_features=2, random_state=seed).fit(X, signal).tree_.feature[:3])
        for seed in range(8)
    }
    assert len(draws) > 1
    one = CARTRegressor(max_features=0.5).fit(X, signal)
    assert one.max_features_ == 4
    assert same_tree(one.tree_, CARTRegressor(max_features=4, random_state=0).fit(X, signal).tree_)
    # A constant feature that is drawn does not end the node.
    X = np.column_stack([np.zeros((30, 9)), np.arange(30.0)])
    for seed in range(5):
        model = CARTRegressor(max_features=1, random_state=seed).fit(X, np.arange(30.0))
        assert model.get_n_leaves() == 30


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("criterion", "ginny", "Did you mean 'gini'"),
        ("criterion", "squared_error", "one of 'gini', 'entropy', 'log_loss'"),
        ("max_depth", 0, "an integer at least 1"),
        ("max_depth", 2.5, "an integer"),
        ("max_leaf_nodes", 1, "at least 2"),
        ("min_samples_split", 1, "an integer of at least 2"),
        ("min_samples_split", 1.5, "a fraction of the rows"),
        ("min_samples_leaf", 0, "an integer of at least 1"),
        ("min_samples_leaf", 1.0, "less than 1"),
        ("min_samples_leaf", True, "an integer"),
        ("min_weight_fraction_leaf", 0.6, "at most 0.5"),
        ("min_impurity_decrease", -0.1, "at least 0"),
        ("ccp_alpha", -1e-9, "at least 0"),
        ("ccp_alpha", np.nan, "at least 0"),
        ("max_features", 0, "from 1 to the number of features"),
        ("max_features", 6, "from 1 to the number of features"),
        ("max_features", "all", "'sqrt', 'log2'"),
        ("class_weight", "even", "class_weight must be"),
        ("random_state", -1, "random_state must be"),
        ("n_jobs", 0, "n_jobs must be"),
    ],
)
def test_parameters_out_of_range(name, value, message) -> None:
    X, _, y = make_data(n=40)
    model = CARTClassifier(max_depth=1).fit(X, y)
    before = model.tree_
    with pytest.raises(ParameterError, match=message) as raised:
        model.set_params(**{name: value}).fit(X, y)
    assert name in str(raised.value)
    assert model.tree_ is before


def test_class_weights() -> None:
    X, _, y = make_data(n=200)
    by_hand = np.array([3.0, 1.0, 1.0, 0.5, 1.0])[y]
    one = CARTClassifier(class_weight={0: 3.0, 3: 0.5}, max_depth=3).fit(X, y)
    assert same_tree(one.tree_, CARTClassifier(max_depth=3).fit(X, y, by_hand).tree_)
    balanced = CARTClassifier(class_weight="balanced", max_depth=2).fit(X, y)
    np.testing.assert_allclose(balanced.tree_.value[0], 0.2)
    table = table_of(balanced, 0, X, y)
    assert table["score"][0] + table["decrease"][0] == pytest.approx(0.8)


def test_forest_is_the_tree() -> None:

    X, signal, classes = make_data(6, n=300, missing=0.1)
    table = read_table(X)
    for model, target in (
        (CARTRegressor(), signal),
        (CARTClassifier(), (signal > 0).astype(int)),
        (CARTClassifier(), classes),
    ):
        model.fit(X, target)
        n_values = model.tree_.value.shape[1]
        forest = model.tree_.forest([1] if n_values == 2 else list(range(n_values)))
        raw = Predictor(forest, table.schema.kinds).raw_scores(table.values)
        if target is signal:
            np.testing.assert_array_equal(raw[0], model.predict(X))
        elif forest.n_outputs == 1:
            np.testing.assert_array_equal(raw[0], model.predict_proba(X)[:, 1])
        else:
            np.testing.assert_array_equal(raw.T, model.predict_proba(X))
        rules = tree_rules(forest, schema=table.schema)
        assert len(rules) == model.get_n_leaves()
        assert "gain=" in tree_text(forest, schema=table.schema)
    assert len(model.to_rules()) == model.get_n_leaves()  # of five classes


def test_a_tree_deeper_than_any_stack() -> None:
    n = 3000
    X = np.arange(n, dtype=float)[:, None]
    model = CARTRegressor().fit(X, 3.0 ** -np.minimum(np.arange(n), 600.0))
    assert model.get_depth() > 200
    np.testing.assert_array_equal(model.tree_.n_node_samples[0], n)
    assert len(model.to_rules()) == model.get_n_leaves()
