"""Shapley values against their definition, the peers, and themselves."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from hedgerow import (
    Booster,
    DataError,
    Dataset,
    Explanation,
    HedgerowClassifier,
    HedgerowRegressor,
    ParameterError,
    cross_fit,
    train,
)
from naive_shap import Game, interactions, values_of_rows

RNG = np.random.default_rng(0)
N = 400
X = np.round(RNG.normal(size=(N, 5)), 1)
X[RNG.random(X.shape) < 0.1] = np.nan
Z = np.nan_to_num(X)
Y = Z[:, 0] * Z[:, 1] + np.sin(2 * Z[:, 2]) + np.abs(Z[:, 3])
CLASSES = np.digitize(Y, [-0.5, 0.8])
COLOURS = np.array(["red", "green", "blue", "grey", "black"])[RNG.integers(0, 5, N)]
TOWNS = np.array([f"t{k}" for k in range(12)])[RNG.integers(0, 12, N)]
CODES = RNG.normal(size=12)[[int(t[1:]) for t in TOWNS]]
FRAME = {"a": Z[:, 0], "colour": COLOURS, "town": TOWNS, "b": Z[:, 1]}
FRAME_Y = Y + CODES + (COLOURS == "red")
SMALL = {"n_estimators": 6, "max_leaves": 12}


def booster_of(kind: str) -> tuple[Booster, object]:
    """A booster of each kind, and a table."""
    numbers = Dataset(X, Y)
    frame = Dataset(FRAME, FRAME_Y)
    if kind == "plain":
        return train(SMALL, numbers), X
    if kind == "float32":
        return train(SMALL, Dataset(X.astype(np.float32), Y)), X.astype(np.float32)
    if kind == "deep":
        return train({**SMALL, "max_leaves": 60, "min_samples_leaf": 1}, numbers), X
    if kind == "exact":
        return train({**SMALL, "tree_method": "exact"}, numbers), X
    if kind == "symmetric":
        return train({"n_estimators": 6, "grow_policy": "symmetric", "max_depth": 4}, numbers), X
    if kind == "linear":
        return train({**SMALL, "linear_leaves": True}, Dataset(X, Y + 2 * Z[:, 4])), X
    if kind == "dart":
        return train({**SMALL, "boosting": "dart", "drop_rate": 0.5}, numbers), X
    if kind == "forest":
        return train(
            {**SMALL, "boosting": "rf", "learning_rate": 1.0, "subsample": 0.6}, numbers
        ), X
    if kind == "classes":
        return train({**SMALL, "objective": "softmax"}, Dataset(X, CLASSES)), X
    if kind == "vectors":
        params = {**SMALL, "objective": "softmax", "multi_strategy": "multi_output_tree"}
        return train(params, Dataset(X, CLASSES)), X
    if kind == "logistic":
        return train({**SMALL, "objective": "logistic"}, Dataset(X, Y > 0)), X
    if kind == "weights":
        return train(SMALL, Dataset(X, Y, weight=RNG.integers(0, 4, N))), X
    if kind == "categories":
        return train({**SMALL, "max_cat_to_onehot": 3}, frame), FRAME
    if kind == "statistics":
        model = HedgerowRegressor(
            **SMALL, target_statistics=True, early_stopping=False, random_state=0
        ).fit(FRAME, FRAME_Y)
        return model.booster_, FRAME
    if kind == "backoff":
        booster = train(SMALL, Dataset(FRAME, FRAME_Y, unknown_category="backoff"))
        strange = {**FRAME, "colour": np.where(np.arange(N) % 3, COLOURS, "pink")}
        return booster, {**strange, "town": np.where(np.arange(N) % 2, TOWNS, "nowhere")}
    if kind == "integers":
        big = np.column_stack([np.arange(N) + 2**60, RNG.integers(-5, 5, N)])
        return train(SMALL, Dataset(big, (np.arange(N) % 90) + big[:, 1])), big
    assert kind == "averaged"
    model = HedgerowRegressor(**SMALL, early_stopping=False)
    return cross_fit(model, X, Y, cv=2).averaged().booster_, X


KINDS = (
    "plain", "float32", "deep", "exact", "symmetric", "linear", "dart", "forest", "classes",
    "vectors", "logistic", "weights", "categories", "statistics", "backoff", "integers",
)  # fmt: skip


def rows_of(table: object, some: np.ndarray) -> object:
    """Some rows of a table."""
    if isinstance(table, dict):
        return {name: column[some] for name, column in table.items()}
    return np.asarray(table)[some]


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_those_of_the_definition(kind: str) -> None:
    booster, table = booster_of(kind)
    found = booster.explain(table)
    values = found.values.reshape(N, booster.num_features, -1)
    some = [0, 1, 7]
    np.testing.assert_allclose(
        values[some], values_of_rows(booster, table, some), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("kind", KINDS)
def test_values_add_up_to_the_raw_score(kind: str) -> None:
    booster, table = booster_of(kind)
    found = booster.explain(table)
    raw = booster.predict(table, "raw")
    total = found.values.sum(axis=1) + found.base_values
    np.testing.assert_allclose(total, raw, rtol=1e-9, atol=1e-9 * np.abs(raw).max())


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "linear"])
def test_interactions_are_those_of_the_definition(kind: str) -> None:
    booster, table = booster_of(kind)
    values = booster.explain(rows_of(table, np.arange(90)), interactions=True).values
    single = booster.explain(rows_of(table, np.arange(90))).values
    np.testing.assert_allclose(values.sum(axis=2), single, rtol=0, atol=1e-11)
    np.testing.assert_allclose(values, values.swapaxes(1, 2), rtol=0, atol=1e-13)
    if kind != "statistics":  # whose pairs are players of their own
        game = Game(booster, table, 1)
        expected = interactions(game.worth, game.n_players)
        found = values.reshape(*values.shape[:3], -1)[1]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in ("linear", "statistics")])
def test_a_background_is_averaged_over(kind: str) -> None:
    """Unknown columns take the values of background rows: prediction itself is the oracle."""
    from naive_shap import shapley

    booster, table = booster_of(kind)
    others = rows_of(table, np.arange(20, 33))
    found = booster.explain(rows_of(table, np.array([0, 5])), background=others)
    names = list(table) if isinstance(table, dict) else range(booster.num_features)

    def worth(row: int, known: frozenset[int]) -> np.ndarray:
        mixed = {k: np.array(v) for k, v in others.items()} if isinstance(others, dict) else others
        mixed = mixed.copy()
        for j in known:
            if isinstance(mixed, dict):
                column = np.asarray(table[names[j]])
                mixed[names[j]] = np.repeat(column[row : row + 1], 13)
            else:
                mixed[:, j] = np.asarray(table)[row, j]
        return booster.predict(mixed, "raw").reshape(13, -1).mean(axis=0)

    for k, row in enumerate((0, 5)):
        expected = shapley(lambda known, row=row: worth(row, known), booster.num_features)
        values = found.values[k].reshape(booster.num_features, -1)
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12)
    raw = booster.predict(rows_of(table, np.array([0, 5])), "raw")
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, raw, atol=1e-11)


@pytest.mark.parametrize("kind", ["plain", "linear", "vectors", "backoff", "statistics"])
def test_bits_do_not_depend_on_threads_or_batches(kind: str) -> None:
    booster, table = booster_of(kind)
    whole = booster.explain(table, n_jobs=1).values
    np.testing.assert_array_equal(booster.explain(table, n_jobs=3).values, whole)
    for some in (np.arange(1), np.arange(63, 200), np.arange(N - 7, N)):
        np.testing.assert_array_equal(booster.explain(rows_of(table, some)).values, whole[some])
    if kind != "linear":
        others = rows_of(table, np.arange(50))
        whole = booster.explain(table, background=others, n_jobs=1).values
        again = booster.explain(table, background=others, n_jobs=2).values
        np.testing.assert_array_equal(again, whole)


@settings(deadline=None)
@given(seed=st.integers(0, 10**6), leaves=st.integers(2, 40), columns=st.integers(1, 7))
def test_any_tree(seed: int, leaves: int, columns: int) -> None:
    rng = np.random.default_rng(seed)
    table = np.round(rng.normal(size=(80, columns)), int(rng.integers(0, 2)))
    table[rng.random(table.shape) < 0.2] = np.nan
    target = np.nan_to_num(table).sum(axis=1) ** 2 + rng.normal(size=80)
    booster = train(
        {"n_estimators": 2, "max_leaves": leaves, "min_samples_leaf": 1}, Dataset(table, target)
    )
    values = booster.explain(table).values
    expected = values_of_rows(booster, table, [0])[0, :, 0]
    np.testing.assert_allclose(values[0], expected, rtol=0, atol=1e-12)


# -- against the peers ----------------------------------------------------------------------


def test_the_package_shap_says_the_same() -> None:
    """Its dictionary form of trees, with splits of numbers and counts of rows."""
    shap = pytest.importorskip("shap")
    booster, table = train(SMALL, Dataset(Z, Y)), Z
    forest = booster.model.forest
    from hedgerow.kernels.keys import floats_of_keys

    trees = []
    for tree in range(forest.n_trees):
        part = slice(forest.tree_start[tree], forest.tree_start[tree + 1])
        inner = forest.feature[part] >= 0
        trees.append(
            {
                "children_left": np.where(inner, forest.left[part], -1),
                "children_right": np.where(inner, forest.right[part], -1),
                "children_default": np.where(inner, forest.right[part], -1),
                "features": forest.feature[part],
                "thresholds": np.where(inner, floats_of_keys(forest.threshold[part]), 0.0),
                "values": forest.value[part, None],
                "node_sample_weight": forest.count[part].astype(float),
            }
        )
    explainer = shap.TreeExplainer({"trees": trees, "base_offset": forest.base_score})
    found = booster.explain(table[:50])
    np.testing.assert_allclose(found.values, explainer.shap_values(table[:50]), atol=1e-6)
    pairs = booster.explain(table[:10], interactions=True).values
    np.testing.assert_allclose(pairs, explainer.shap_interaction_values(table[:10]), atol=1e-6)


def test_lightgbm_says_the_same_of_the_same_trees() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    booster = train({"n_estimators": 1, "learning_rate": 1.0, "max_leaves": 8}, Dataset(Z, Y))
    theirs = lightgbm.train(
        {"num_leaves": 8, "learning_rate": 1.0, "min_data_in_leaf": 20, "verbose": -1,
         "max_bin": 254, "min_sum_hessian_in_leaf": 1e-3, "lambda_l2": 1.0},
        lightgbm.Dataset(Z, Y), 1,
    )  # fmt: skip
    ours = booster.predict(Z)
    if not np.allclose(ours, theirs.predict(Z), atol=1e-6):
        pytest.skip("the two libraries have grown different trees")
    contributions = theirs.predict(Z, pred_contrib=True)
    found = booster.explain(Z)
    np.testing.assert_allclose(found.values, contributions[:, :-1], atol=1e-6)


# -- the interface --------------------------------------------------------------------------


def test_of_an_estimator() -> None:
    labels = np.array(["low", "mid", "high"])[CLASSES]
    model = HedgerowClassifier(**SMALL).fit(X, labels)
    found = model.explain(X[:10])
    assert isinstance(found, Explanation)
    assert found.values.shape == (10, 5, 3)
    assert found.output_names == ("high", "low", "mid")
    one = model.explain(X[:10], outputs="low")
    np.testing.assert_array_equal(one.values, found.values[:, :, 1])
    assert one.base_values == found.base_values[1]
    two = model.explain(X[:10], outputs=[2, "low"])
    np.testing.assert_array_equal(two.values, found.values[:, :, [2, 1]])
    assert two.output_names == ("mid", "low")
    assert len(found) == 10
    assert "10 x 5 x 3" in repr(found)
    again = pickle.loads(pickle.dumps(model)).explain(X[:10])
    np.testing.assert_array_equal(again.values, found.values)
    with pytest.raises(NotFittedError):
        HedgerowClassifier().explain(X)


def test_frames_in_and_out() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(FRAME, index=np.arange(N) + 1000)
    model = HedgerowRegressor(**SMALL).fit(frame, FRAME_Y)
    found = model.explain(frame)
    table = found.to_frame()
    assert table.columns.tolist() == ["a", "colour", "town", "b"]
    assert table.index.equals(frame.index)
    np.testing.assert_array_equal(table.to_numpy(), found.values)
    assert found.importance().shape == (4,)
    several = HedgerowClassifier(**SMALL).fit(frame, CLASSES).explain(frame).to_frame()
    assert several.shape == (N, 12)
    assert several.columns[0] == ("0", "a")
    with pytest.raises(ValueError, match="interactions have a matrix"):
        model.explain(frame[:3], interactions=True).to_frame()


def test_offsets_are_in_the_base_value() -> None:
    offset = RNG.normal(size=N)
    booster = train(SMALL, Dataset(X, Y, offset=offset))
    found = booster.explain(X, offset=offset)
    assert found.base_values.shape == (N,)
    raw = booster.predict(X, "raw", offset=offset)
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, raw, atol=1e-12)


def test_sparse_tables() -> None:
    from scipy.sparse import csr_matrix

    table = np.where(RNG.random((N, 40)) < 0.9, 0.0, RNG.normal(size=(N, 40)))
    booster = train(SMALL, Dataset(csr_matrix(table), table[:, 0] + table[:, 1]))
    np.testing.assert_array_equal(
        booster.explain(csr_matrix(table)).values, booster.explain(table).values
    )


def test_a_constant_model() -> None:
    model = HedgerowRegressor(n_estimators=3).fit(np.zeros((30, 2)), np.ones(30))
    found = model.explain(np.zeros((4, 2)))
    assert (found.values == 0.0).all()
    assert found.base_values == 1.0


def test_to_shap() -> None:
    shap = pytest.importorskip("shap")
    booster, table = booster_of("classes")
    found = booster.explain(table[:20]).to_shap()
    assert isinstance(found, shap.Explanation)
    assert found.values.shape == (20, 5, 3)
    assert found.base_values.shape == (20, 3)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"outputs": 3}, ParameterError, "no output 3; it has: '0', '1', '2'"),
        ({"outputs": "red"}, ParameterError, "no output 'red'"),
        ({"outputs": []}, ParameterError, "outputs must be a name, a number"),
        ({"background": X[:0]}, DataError, "background has no rows|0 sample|at least one row"),
        ({"background": X[:, :2]}, DataError, "2"),
        ({"background": X, "interactions": True}, ParameterError, "cannot be combined"),
    ],
)
def test_bad_input(options: dict[str, object], error: type[Exception], message: str) -> None:
    booster, table = booster_of("classes")
    with pytest.raises(error, match=message):
        booster.explain(table, **options)


def test_what_lines_cannot_have() -> None:
    booster, table = booster_of("linear")
    with pytest.raises(ParameterError, match="interactions=True is not possible"):
        booster.explain(table, interactions=True)
    with pytest.raises(ParameterError, match="background is not possible"):
        booster.explain(table, background=table)


def test_a_result_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from hedgerow.explain import explainer

    monkeypatch.setattr(explainer, "MOST_BYTES", 10_000)
    booster, table = booster_of("plain")
    with pytest.raises(DataError, match=r"takes .* GB, more than .*: explain at most 250 rows"):
        booster.explain(table)
