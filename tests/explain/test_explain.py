"""Shapley values equal their definition, for every kind of model."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import NotFittedError

import hedgerow
from hedgerow import (
    CARTClassifier,
    CARTRegressor,
    Dataset,
    HedgerowClassifier,
    HedgerowRegressor,
    cross_fit,
    train,
)
from hedgerow.booster import Booster
from hedgerow.errors import DataError, ParameterError
from hedgerow.explain import background as background_module
from hedgerow.explain import explainer as explainer_module
from tests.reference.naive_explain import NaiveExplainer

N = 600
FAST = {"n_estimators": 6, "early_stopping": False, "max_leaves": 12, "min_samples_leaf": 5}


@cache
def table() -> pd.DataFrame:
    """Return numbers with missing values, wide integers, few and many categories."""
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=N),
            "age": rng.normal(size=N).astype(np.float32),
            "key": rng.integers(0, 40, N) + 2**60,
            "kind": pd.Categorical(rng.choice(list("abcdefg"), N)),
            "city": pd.Categorical(rng.choice([f"c{k}" for k in range(40)], N)),
        }
    )
    frame.loc[rng.random(N) < 0.15, "size"] = np.nan
    frame.loc[rng.random(N) < 0.1, "kind"] = None
    return frame


@cache
def target() -> np.ndarray:
    frame = table()
    size, code = frame["size"].fillna(0.7).to_numpy(), frame["city"].cat.codes.to_numpy()
    y = 2.0 * size * (frame["age"] > 0) + (frame["kind"].isin(["a", "c"]) * 3.0)
    y = y + code % 7 * 0.4 + (frame["key"] - 2**60) * 0.05 * (size > 0)
    return y.to_numpy() + 0.1 * np.random.default_rng(1).normal(size=N)


def strange_rows() -> pd.DataFrame:
    """Return known rows, and rows with categories that no training row had."""
    frame = table().iloc[:8].copy()
    frame["kind"] = frame["kind"].astype(object)
    frame["city"] = frame["city"].astype(object)
    frame.loc[0, "kind"] = "unseen"
    frame.loc[[1, 2], "city"] = "nowhere"
    frame.loc[2, "kind"] = "unseen"
    frame.loc[3, "size"] = np.inf
    frame.loc[4, ["kind", "city"]] = None
    return frame


def three_classes() -> np.ndarray:
    return np.array(["low", "mid", "top"])[np.digitize(target(), np.quantile(target(), [0.3, 0.6]))]


def regressor(**parameters: Any) -> Booster:
    model = HedgerowRegressor(**{**FAST, "linear_leaves": False, **parameters})
    return model.fit(table(), target()).booster_


def classifier(**parameters: Any) -> Booster:
    model = HedgerowClassifier(**{**FAST, **parameters})
    return model.fit(table(), three_classes()).booster_


@cache
def model(name: str) -> Booster:
    """Return a small model of each kind."""
    both = np.column_stack([target(), table()["size"].fillna(0.0) - target()])
    stats: dict[str, Any] = {"target_statistics": True, "advanced": {"statistics_order": 2}}
    pairs = {"objective": "normal", **FAST}
    symmetric = {"grow_policy": "symmetric", "max_leaves": "auto", "max_depth": 4}
    symmetric["target_statistics"] = False
    makers = {
        "numbers and sets": lambda: regressor(target_statistics=False),
        "statistics": lambda: regressor(**stats),
        "lines": lambda: regressor(linear_leaves=True),
        "lines, statistics": lambda: regressor(linear_leaves=True, **stats),
        "symmetric": lambda: regressor(**symmetric),
        "dart": lambda: regressor(boosting="dart", drop_rate=0.5, target_statistics=False),
        "rf": lambda: regressor(boosting="rf", subsample=0.6, target_statistics=False),
        "classes": classifier,
        "vectors": lambda: classifier(multi_strategy="multi_output_tree"),
        "targets": lambda: HedgerowRegressor(**FAST).fit(table(), both).booster_,
        "normal": lambda: HedgerowRegressor(**pairs).fit(table(), target()).booster_,
        "averaged": lambda: (
            cross_fit(HedgerowRegressor(**FAST), table(), target(), cv=2).model.booster_
        ),
        "averaged lines": lambda: (
            cross_fit(
                HedgerowRegressor(**FAST, linear_leaves=True), table(), target(), cv=2
            ).model.booster_
        ),
        "monotone": lambda: regressor(monotone_constraints={"age": 1}),
        "few rounds": lambda: regressor(max_leaves=2),
        "exact": lambda: train(
            {**FAST, "tree_method": "exact"},
            Dataset(table()[["size", "age"]].to_numpy(np.float64), target()),
        ),
        "no split": lambda: train({**FAST, "n_estimators": 2}, Dataset([[0.0]] * 30, [1.0] * 30)),
    }
    return makers[name]()


NAMES = [
    "numbers and sets", "statistics", "lines", "lines, statistics", "symmetric", "dart",
    "rf", "classes", "vectors", "targets", "normal",
    "averaged", "averaged lines", "monotone", "few rounds", "exact", "no split",
]  # fmt: skip
BY_DEFINITION = [name for name in NAMES if not name.startswith("averaged")]


def rows_for(booster: Booster) -> Any:
    if booster.num_features == 5:
        return strange_rows()
    return table()[["size", "age"]].to_numpy(np.float64)[:5, : booster.num_features]


def add_output_axis(values: np.ndarray, booster: Booster) -> np.ndarray:
    return values if booster.model.forest.n_outputs > 1 else values[..., None]


def background_for(booster: Booster) -> Any:
    if booster.num_features == 5:
        return pd.concat([strange_rows().iloc[:3], table().iloc[100:110]])
    return table()[["size", "age"]].to_numpy(np.float64)[20:30, : booster.num_features]


@pytest.mark.fast(9)
@pytest.mark.parametrize("name", BY_DEFINITION)
def test_values_are_those_of_the_definition(name: str) -> None:
    booster = model(name)
    rows = rows_for(booster)
    found = booster.explain(rows)
    naive = NaiveExplainer(booster)
    expected = naive.values(rows)
    np.testing.assert_allclose(add_output_axis(found.values, booster), expected, rtol=0, atol=1e-12)
    base = naive.expected(naive.inputs(rows)[:1], frozenset())
    np.testing.assert_allclose(np.atleast_1d(found.base_values), base, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", BY_DEFINITION)
def test_values_with_a_background_are_those_of_the_definition(name: str) -> None:
    booster = model(name)
    rows, others = rows_for(booster), background_for(booster)
    found = booster.explain(rows, background=others)
    expected = NaiveExplainer(booster).values(rows, others)
    np.testing.assert_allclose(add_output_axis(found.values, booster), expected, rtol=0, atol=1e-12)
    raw = booster.predict(others, kind="raw")
    np.testing.assert_allclose(found.base_values, raw.mean(axis=0), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "name", ["numbers and sets", "vectors", "symmetric", "deep", "many targets"]
)
def test_lists_of_patterns_say_what_tables_of_many_leaves_say(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = {"max_depth": 8, "max_leaves": 200, "min_samples_leaf": 1}
    if name == "many targets":
        y = target()[:, None] * np.arange(1.0, 7.0) + table()["age"].to_numpy()[:, None]
        one = {**FAST, "linear_leaves": False, "multi_strategy": "multi_output_tree"}
        booster = HedgerowRegressor(**one).fit(table(), y).booster_
        assert booster.model.forest.vectors.shape[1] == 6
    else:
        booster = regressor(**deep) if name == "deep" else model(name)
    rows, others = table().iloc[:70], background_for(booster)
    tabled = booster.explain(rows, background=others).values
    monkeypatch.setattr(background_module, "MOST_TABLED", 1)
    listed = booster.explain(rows, background=others).values
    assert (listed != tabled).any()
    np.testing.assert_allclose(listed, tabled, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("with_background", [False, True])
def test_values_add_up_to_the_raw_score(name: str, with_background: bool) -> None:
    booster = model(name)
    rows = table() if booster.num_features == 5 else rows_for(booster)
    found = booster.explain(rows, background=background_for(booster) if with_background else None)
    raw = booster.predict(rows, kind="raw")
    total = found.values.sum(axis=1) + found.base_values
    np.testing.assert_allclose(total, raw, rtol=0, atol=1e-11 * max(1.0, np.abs(raw).max()))


@pytest.mark.parametrize("name", ["lines", "vectors", "classes", "statistics", "symmetric"])
@pytest.mark.parametrize("of", ["rows", "pairs", "rows with a background"])
def test_bits_depend_on_neither_threads_nor_batches(name: str, of: str) -> None:
    booster = model(name)
    more: dict[str, Any] = {"interactions": of == "pairs"}
    more["background"] = background_for(booster) if of == "rows with a background" else None
    whole = booster.explain(table(), n_jobs=1, **more).values
    np.testing.assert_array_equal(booster.explain(table(), n_jobs=3, **more).values, whole)
    for start, stop in ((0, 1), (1, 18), (18, 290), (290, N)):
        part = booster.explain(table().iloc[start:stop], n_jobs=2, **more).values
        np.testing.assert_array_equal(part, whole[start:stop])
    parts = [booster.explain(table().iloc[k : k + 97], **more) for k in range(0, N, 97)]
    np.testing.assert_array_equal(np.concatenate([part.values for part in parts]), whole)


def test_bits_do_not_depend_on_the_memory_of_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    booster = hedgerow.Booster(model("classes").model)
    whole = booster.explain(table()).values
    monkeypatch.setattr(explainer_module, "FACTOR_MEMORY", 1)
    monkeypatch.setattr(explainer_module, "KEPT_MEMORY", 1)
    again = hedgerow.Booster(booster.model)
    np.testing.assert_array_equal(again.explain(table()).values, whole)
    monkeypatch.setattr(background_module, "TABLE_MEMORY", 1)
    others = background_for(booster)
    cut = again.explain(table(), background=others).values
    monkeypatch.undo()
    np.testing.assert_array_equal(again.explain(table(), background=others).values, cut)


def test_a_chain_of_ninety_columns() -> None:
    """Each leaf of a chain depends on one more column: 45 quadrature points are exact."""
    n = 91
    X = np.tri(n, n - 1, -1)
    y = np.arange(n, dtype=float) ** 2
    tree = CARTRegressor().fit(X, y)
    assert tree.get_depth() > 6
    found = tree.explain(X)
    np.testing.assert_allclose(found.values.sum(1) + found.base_values, y, rtol=0, atol=1e-8)


@pytest.mark.parametrize("with_background", [False, True])
def test_sparse_rows_are_explained_as_dense_ones(with_background: bool) -> None:
    X = sparse.random(300, 60, density=0.1, format="csr", random_state=0)
    dense = X.toarray()
    y = dense[:, 0] - 2.0 * dense[:, 5] + dense[:, 7]
    booster = train({"n_estimators": 5, "min_samples_leaf": 3}, Dataset(X, y))
    others = X[:20] if with_background else None
    values = booster.explain(X, background=others).values
    np.testing.assert_array_equal(values, booster.explain(dense, background=others).values)
    if others is not None:
        np.testing.assert_array_equal(
            values, booster.explain(X, background=others.toarray()).values
        )


def test_offsets_belong_to_the_base_values() -> None:
    offset = np.linspace(-1.0, 1.0, N)
    estimator = HedgerowRegressor(**FAST).fit(table(), target(), offset=offset)
    found = estimator.explain(table(), offset=offset)
    assert found.base_values.shape == (N,)
    np.testing.assert_array_equal(found.values, estimator.explain(table()).values)
    predicted = estimator.predict(table(), offset=offset)
    np.testing.assert_allclose(found.values.sum(1) + found.base_values, predicted, atol=1e-12)
    with pytest.raises(DataError, match="offset"):
        estimator.explain(table(), offset=np.where(offset > 0.5, np.nan, offset))


def test_columns_of_offsets_are_no_players() -> None:
    frame = table()[["size", "age"]].assign(start=np.linspace(-1.0, 1.0, N))
    estimator = HedgerowRegressor(**FAST).fit(frame, target(), offset="start")
    found = estimator.explain(frame)
    assert found.feature_names == ("size", "age")
    predicted = estimator.predict(frame)
    np.testing.assert_allclose(found.values.sum(1) + found.base_values, predicted, atol=1e-12)
    assert estimator.explain(frame, background=frame.iloc[:5]).base_values.shape == (N,)


def test_outputs_are_chosen_by_name_or_number() -> None:
    for name in ("classes", "vectors"):
        booster = model(name)
        every = booster.explain(table())
        assert every.output_names == ("low", "mid", "top")
        assert every.base_values.shape == (3,)
        one = booster.explain(table(), outputs="mid")
        np.testing.assert_array_equal(one.values, every.values[..., 1])
        assert one.base_values == every.base_values[1]
        assert one.output_names == ()
        two = booster.explain(table(), outputs=["top", 0])
        np.testing.assert_array_equal(two.values, every.values[..., [2, 0]])
        assert two.output_names == ("top", "low")
    lines = model("averaged lines")
    np.testing.assert_array_equal(lines.explain(table(), outputs=0).values,
                                  lines.explain(table()).values)  # fmt: skip
    assert model("normal").explain(table()).output_names == ("location", "log scale")
    assert model("targets").explain(table()).output_names == ("y0", "y1")


@pytest.mark.parametrize("outputs", ["high", 3, -1, True, ["low", "low"], [], 1.5, [None]])
def test_outputs_that_do_not_exist_are_errors(outputs: Any) -> None:
    with pytest.raises(ParameterError, match="outputs"):
        model("classes").explain(table(), outputs=outputs)


def test_the_only_output_has_number_0() -> None:
    booster = model("numbers and sets")
    assert booster.explain(table(), outputs=[0]).values.shape == (N, 5)
    with pytest.raises(ParameterError, match="one output"):
        booster.explain(table(), outputs="price")


def test_quantiles_are_named_by_their_levels() -> None:
    levels = HedgerowRegressor(objective="quantile", quantile=[0.1, 0.9], **FAST)
    assert levels.fit(table(), target()).explain(table()).output_names == ("0.1", "0.9")


@pytest.mark.parametrize("categorical", [None, [2]])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_single_trees(categorical: list[int] | None, dtype: type) -> None:
    rng = np.random.default_rng(5)
    X = rng.integers(0, 9, size=(N, 3)).astype(dtype)
    y = X[:, 0] * (X[:, 1] > 3) + np.isin(X[:, 2], [1, 4]) * 5.0
    weight = rng.random(N) + 0.1
    tree = CARTRegressor(max_depth=5, categorical_features=categorical)
    tree.fit(X, y, sample_weight=weight)
    found = tree.explain(X)
    np.testing.assert_allclose(found.values.sum(1) + found.base_values, tree.predict(X), atol=1e-12)
    np.testing.assert_allclose(found.base_values, np.average(y, weights=weight), atol=1e-10)
    mixed = tree.explain(X[:40], background=X[40:60])
    np.testing.assert_allclose(
        mixed.values, brute_force_of_rows(tree.predict, X[:40], X[40:60]), rtol=0, atol=1e-12
    )
    classes = CARTClassifier(max_depth=4, categorical_features=categorical).fit(X, X[:, 0] // 3)
    several = classes.explain(X)
    assert several.values.shape == (N, 3, 3)
    shares = classes.predict_proba(X)
    np.testing.assert_allclose(several.values.sum(1) + several.base_values, shares, atol=1e-12)
    np.testing.assert_array_equal(classes.explain(X, outputs=1).values, several.values[..., 1])
    two = CARTClassifier(max_depth=4, categorical_features=categorical).fit(X, X[:, 0] > 4)
    one = two.explain(X)
    shares = two.predict_proba(X)[:, 1]
    np.testing.assert_allclose(one.values.sum(1) + one.base_values, shares, atol=1e-12)


def brute_force_of_rows(predict: Any, X: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return interventional values of three columns from predictions alone."""
    from tests.reference.naive_explain import shapley_values

    found = []
    for row in X:

        def value(s: frozenset[int], row: np.ndarray = row) -> np.ndarray:
            known = np.isin(np.arange(3), list(s))
            return np.atleast_1d(predict(np.where(known, row, others)).mean())

        found.append(shapley_values(value, 3)[:, 0])
    return np.array(found)


def test_rows_of_a_tree_with_unseen_categories() -> None:
    X = np.repeat(np.arange(4.0), 30)[:, None]
    tree = CARTRegressor(categorical_features=[0]).fit(X, np.repeat([1.0, 5.0, 2.0, 9.0], 30))
    rows = np.array([[0.0], [7.0], [np.nan], [-0.0]])
    found = tree.explain(rows)
    np.testing.assert_allclose(found.values[:, 0] + found.base_values, tree.predict(rows))


# ---- what is returned ------------------------------------------------------------------


def test_frames_go_in_and_come_out() -> None:
    booster = model("classes")
    found = booster.explain(table())
    assert found.data is table()
    assert found.feature_names == tuple(table().columns)
    assert found.importance().shape == (5, 3)
    frame = found.to_frame()
    assert list(frame.columns[:2]) == ["size|low", "age|low"]
    assert (frame["city|top"] == found.values[:, 4, 2]).all()
    assert (frame["base_value|mid"] == found.base_values[1]).all()
    assert len(found) == N
    assert repr(found) == "<Explanation: values of 600 x 5 x 3>"
    shuffled = table()[list(table().columns[::-1])]
    np.testing.assert_array_equal(booster.explain(shuffled).values, found.values)
    assert found.to_frame("polars").shape == frame.shape


def test_arrays_have_the_names_of_drawn_trees() -> None:
    assert model("exact").explain(rows_for(model("exact"))).feature_names == ("x0", "x1")


def test_to_shap() -> None:
    shap = pytest.importorskip("shap", reason="the package shap is not installed")
    found = model("lines").explain(table()).to_shap()
    assert isinstance(found, shap.Explanation)
    assert found.shape == (N, 5)
    assert found.base_values.shape == (N,)
    assert found.feature_names == list(table().columns)
    several = model("classes").explain(table().iloc[:9]).to_shap()
    assert several.base_values.shape == (9, 3)
    assert several[..., 1].values.shape == (9, 5)
    # Numbers are numbers there: the violin plot asks which are missing.
    frame = pd.DataFrame({"a": [0.0, np.nan] * 20, "b": range(40)})
    numbers = HedgerowRegressor(**FAST).fit(frame, np.arange(40.0)).explain(frame).to_shap()
    assert numbers.data.dtype == np.float64
    backwards = table()[list(table().columns[::-1])]
    np.testing.assert_array_equal(
        model("lines").explain(backwards).to_shap().data[:, 1], table()["age"]
    )


# ---- bad input -------------------------------------------------------------------------


def test_other_columns_are_one_error() -> None:
    booster = model("numbers and sets")
    with pytest.raises(DataError, match="city"):
        booster.explain(table().drop(columns="city"))
    with pytest.raises(DataError, match="city"):
        booster.explain(table(), background=table().drop(columns="city"))


def test_an_empty_background_is_an_error() -> None:
    with pytest.raises(DataError, match="background"):
        model("numbers and sets").explain(table(), background=table().iloc[:0])


@pytest.mark.parametrize(
    ("interactions", "words"),
    [
        (False, r"\(600, 5, 3\) take 72 kB.*explain fewer rows"),
        (True, r"\(600, 5, 5, 3\) take 360 kB"),
    ],
)
def test_values_beyond_the_limit_of_memory_are_refused(interactions: bool, words: str) -> None:
    with pytest.raises(DataError, match=words):
        model("classes").explain(table(), interactions=interactions, memory_limit="50 kB")
    assert model("classes").explain(table(), memory_limit="72 kB").values.shape == (N, 5, 3)


def test_a_model_without_counts_has_hessians_or_asks_for_a_background() -> None:
    known = model("exact")
    forest, rows = known.model.forest, rows_for(known)
    no_count = replace(forest, count=np.zeros_like(forest.count))
    hessians = Booster(replace(known.model, forest=no_count))
    np.testing.assert_array_equal(hessians.explain(rows).values, known.explain(rows).values)
    bare = replace(no_count, cover=np.zeros_like(forest.cover))
    nothing = Booster(replace(known.model, forest=bare))
    with pytest.raises(ParameterError, match="background"):
        nothing.explain(rows)
    expected = known.explain(rows, background=rows).values
    np.testing.assert_array_equal(nothing.explain(rows, background=rows).values, expected)


# ---- pairs -----------------------------------------------------------------------------


@pytest.mark.fast(3)
@pytest.mark.parametrize("name", BY_DEFINITION)
def test_pairs_are_those_of_the_definition(name: str) -> None:
    booster = model(name)
    rows = rows_for(booster)
    found = booster.explain(rows, interactions=True)
    assert found.interactions
    expected = NaiveExplainer(booster).interactions(rows)
    np.testing.assert_allclose(add_output_axis(found.values, booster), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_pairs_add_up_to_values(name: str) -> None:
    booster = model(name)
    rows = table() if booster.num_features == 5 else rows_for(booster)
    values = booster.explain(rows).values
    pairs = booster.explain(rows, interactions=True).values
    np.testing.assert_allclose(pairs.sum(axis=2), values, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(pairs, pairs.swapaxes(1, 2))


@pytest.mark.parametrize("kind", [HedgerowRegressor, CARTRegressor])
def test_pairs_with_a_background_are_refused(kind: type) -> None:
    X = np.arange(60.0).reshape(-1, 2)
    with pytest.raises(ParameterError, match=r"path-dependent.*leave out the background"):
        kind().fit(X, X[:, 0]).explain(X, background=X, interactions=True)


def test_a_frame_of_pairs_adds_up() -> None:
    booster = model("classes")
    frame = booster.explain(table(), interactions=True).to_frame()
    assert "size x city|top" in frame
    raw = booster.predict(table(), kind="raw")
    for k, name in enumerate(("low", "mid", "top")):
        columns = [column for column in frame if column.endswith(f"|{name}")]
        np.testing.assert_allclose(frame[columns].sum(axis=1), raw[:, k], rtol=0, atol=1e-12)


# ---- more ------------------------------------------------------------------------------


@settings(deadline=None)
@given(seed=st.integers(0, 10**6), leaves=st.integers(2, 40), columns=st.integers(1, 7))
def test_any_tree(seed: int, leaves: int, columns: int) -> None:
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(80, columns)), int(rng.integers(0, 2)))
    X[rng.random(X.shape) < 0.2] = np.nan
    y = np.nan_to_num(X).sum(axis=1) ** 2 + rng.normal(size=80)
    booster = train({"n_estimators": 2, "max_leaves": leaves, "min_samples_leaf": 1}, Dataset(X, y))
    found = booster.explain(X[:1]).values[..., None]
    np.testing.assert_allclose(found, NaiveExplainer(booster).values(X[:1]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [HedgerowClassifier, CARTClassifier])
def test_what_is_not_fitted_explains_nothing(kind: type) -> None:
    with pytest.raises(NotFittedError):
        kind().explain(table())


def test_names_that_would_be_equal_need_a_prefix() -> None:
    X = {"base_value": np.arange(60.0), "x": np.zeros(60)}
    found = train({**FAST, "n_estimators": 1}, Dataset(X, np.arange(60.0))).explain(X)
    with pytest.raises(DataError, match=r"two columns .* 'base_value'"):
        found.to_frame()
    assert list(found.to_frame(prefix="of ").columns) == ["of base_value", "of x", "base_value"]
