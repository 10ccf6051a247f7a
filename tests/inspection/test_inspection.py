"""Partial dependence and importances equal their definitions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hedgerow import (
    CARTClassifier,
    CARTRegressor,
    DataError,
    Dataset,
    DataTypeError,
    HedgerowClassifier,
    HedgerowRanker,
    HedgerowRegressor,
    ParameterError,
    from_xgboost,
    inspection,
    train,
)
from hedgerow.inspection.importance import explained_importance

N_ROWS = 300
LEVELS = ["red", "green", "blue", "white", "black"]


def numbers(seed: int = 0, n_columns: int = 4, missing: float = 0.1) -> tuple[Any, Any]:
    """Return numeric columns with missing values, and a target that depends on them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, n_columns))
    full = X.copy()
    X[rng.random(X.shape) < missing] = np.nan
    y = full[:, 0] * full[:, 1] + np.sin(2 * full[:, 2]) + 0.1 * rng.normal(size=N_ROWS)
    return X, y


def mixed(seed: int = 0) -> tuple[pd.DataFrame, Any]:
    """Return numbers, wide integers and two columns of categories, with missing values."""
    X, y = numbers(seed)
    rng = np.random.default_rng(seed + 1)
    colour, size = rng.integers(0, 5, N_ROWS), rng.integers(0, 3, N_ROWS)
    wide = rng.integers(0, 20, N_ROWS) + 2**60
    frame = pd.DataFrame({
        "a": X[:, 0], "b": X[:, 1], "colour": np.array(LEVELS, dtype=object)[colour],
        "size": np.array(["S", "M", "L"], dtype=object)[size], "wide": wide,
    })  # fmt: skip
    frame.loc[rng.random(N_ROWS) < 0.1, "colour"] = None
    return frame, y + (colour == 2) * size + 0.1 * (wide - 2**60)


@dataclass(frozen=True)
class Case:
    """A fitted model, rows, and arguments of their prediction."""

    booster: Any
    X: Any
    offset: Any = None

    def raw(self, X: Any) -> Any:
        """Return raw scores, (n_rows, n_outputs)."""
        if isinstance(self.booster, CARTRegressor):
            return self.booster.predict(X)[:, None]
        if isinstance(self.booster, CARTClassifier):
            return self.booster.predict_proba(X)
        offset = self.offset
        if offset is not None:
            offset = np.tile(offset, len(X) // len(offset))
        return self.booster.raw_scores(X, offset=offset).T


PLAIN: dict[str, Any] = {
    "n_estimators": 12, "max_leaves": 12, "learning_rate": 0.3, "min_samples_leaf": 5,
    "early_stopping": False, "linear_leaves": False, "target_statistics": False, "n_jobs": 1,
    "grow_policy": "leafwise",
}  # fmt: skip


def regressor(X: Any, y: Any, **more: Any) -> Any:
    return HedgerowRegressor(**{**PLAIN, **more}).fit(X, y)


def case_numbers() -> Case:
    X, y = numbers()
    return Case(regressor(X, y).booster_, X)


def case_float32() -> Case:
    X, y = numbers()
    X = X.astype(np.float32)
    return Case(regressor(X, y).booster_, X)


def case_categories() -> Case:
    X, y = mixed()
    return Case(regressor(X, y).booster_, X)


def case_classes() -> Case:
    X, y = mixed()
    model = HedgerowClassifier(**PLAIN).fit(X, np.digitize(y, [-0.5, 1.0]))
    return Case(model.booster_, X)


def case_vectors() -> Case:
    X, y = numbers()
    Y = np.column_stack((y, y**2, -y))
    return Case(regressor(X, Y, multi_strategy="multi_output_tree").booster_, X)


def case_statistics() -> Case:
    X, y = mixed()
    return Case(regressor(X, y, target_statistics=True).booster_, X)


def case_lines() -> Case:
    X, y = numbers()
    return Case(regressor(X, y, linear_leaves=True).booster_, X)


def case_lines_of_mixed() -> Case:
    X, y = mixed()
    booster = regressor(X, y, linear_leaves=True).booster_
    rows = X.copy()
    rows.loc[:20, "colour"] = "unheard of"
    return Case(booster, rows)


def case_tree() -> Case:
    X, y = numbers()
    tree = CARTRegressor(max_depth=5).fit(X, y)
    return Case(tree, X)


def case_tree_of_classes() -> Case:
    X, y = numbers()
    return Case(CARTClassifier(max_depth=4).fit(X, np.digitize(y, [-0.5, 0.5])), X)


def case_offset() -> Case:
    X, y = numbers()
    offset = np.linspace(-1.0, 1.0, N_ROWS)
    model = HedgerowRegressor(**PLAIN).fit(X, y, offset=offset)
    return Case(model.booster_, X, offset)


CASES: dict[str, Callable[[], Case]] = {
    name.removeprefix("case_"): function
    for name, function in list(globals().items())
    if name.startswith("case_")
}
_MADE: dict[str, Case] = {}


def made(name: str) -> Case:
    if name not in _MADE:
        _MADE[name] = CASES[name]()
    return _MADE[name]


def replace_column(X: Any, column: int, value: Any) -> Any:
    """Return the rows with one value in a column."""
    changed = X.copy()
    if isinstance(X, np.ndarray):
        changed[:, column] = np.nan if value is None else value
        return changed
    name = X.columns[column]
    dtype = X.dtypes.iloc[column]
    filled = pd.Series([value] * len(X), index=X.index)
    changed[name] = filled.astype(dtype if value is not None else object)
    if value is None and dtype.kind != "O":
        changed[name] = pd.Series([pd.NA] * len(X), dtype="Int64")
    return changed


def together(tables: list[Any]) -> Any:
    """One table below the other."""
    return np.concatenate(tables) if isinstance(tables[0], np.ndarray) else pd.concat(tables)


def probes(effect: Any) -> list[Any]:
    """Return values of every cell, and on both sides of every cut."""
    if effect.kind == "category":
        return [*effect.levels, None]
    if not effect.is_exact:
        return [*effect.positions.tolist(), None]
    if effect.kind == "int":
        cuts = effect.positions[:-1].tolist()
        return sorted({0, *cuts, *(cut + 1 for cut in cuts)})
    cuts = effect.positions[:-1]
    return [*cuts.tolist(), *np.nextafter(cuts, np.inf).tolist(), -1e9, 1e9, None]


@pytest.mark.parametrize("name", CASES)
def test_partial_dependence_is_the_mean_of_all_rows(name: str) -> None:
    case = made(name)
    weight = np.random.default_rng(5).random(N_ROWS)
    n_points = 12 if name.startswith(("statistics", "lines")) else 1000
    found = case.booster.partial_dependence(
        case.X, sample_weight=weight, offset=case.offset, n_points=n_points
    )
    raw = case.raw(case.X)
    want = np.average(raw, axis=0, weights=weight)
    np.testing.assert_allclose(np.atleast_1d(found.mean), want, rtol=1e-12, atol=1e-12)
    for column, effect in enumerate(found):
        assert effect.is_exact or n_points == 12
        values = probes(effect)
        if name == "float32":  # which rounds what stands in the table
            values = [None if v is None else float(np.float32(v)) for v in values]
        got = effect.at(values).reshape(len(values), -1)
        given = [value for value in values if value is not None]
        rows = case.raw(together([replace_column(case.X, column, value) for value in given]))
        want = np.average(rows.reshape(len(given), N_ROWS, -1), axis=1, weights=weight)
        if None in values:
            rows = case.raw(replace_column(case.X, column, None))
            want = np.insert(want, values.index(None), np.average(rows, 0, weight), axis=0)
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("lines", [False, True])
def test_bits_depend_on_neither_threads_nor_memory(
    lines: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 5))
    booster = regressor(X, X[:, 0] * X[:, 1], n_estimators=20, linear_leaves=lines).booster_
    weight = rng.random(3000)
    found = [booster.partial_dependence(X, sample_weight=weight, n_jobs=n) for n in (1, 2)]
    monkeypatch.setattr("hedgerow.inspection.background._AT_ONCE", 1)
    found.append(booster.partial_dependence(X, sample_weight=weight))
    for effects in zip(*found, strict=True):
        assert len({effect.values.tobytes() for effect in effects}) == 1


def test_rows_are_drawn_by_a_seed_among_those_with_a_weight() -> None:
    case = made("categories")
    weight = np.random.default_rng(0).integers(0, 3, N_ROWS).astype(float)

    def found(**more: Any) -> Any:
        return case.booster.partial_dependence(
            case.X, sample_weight=weight, **{"max_rows": 50, **more}
        )

    def values(effects: Any) -> Any:
        return np.concatenate([effect.values for effect in effects])

    some, every = found(), found(max_rows=None)
    np.testing.assert_array_equal(values(found()), values(some))
    assert not np.array_equal(values(found(random_state=1)), values(some))
    np.testing.assert_array_equal(values(found(max_rows=N_ROWS)), values(every))
    means = np.mean([values(found(random_state=seed)) for seed in range(40)], axis=0)
    assert np.abs(means - values(every)).max() < 0.2 * np.abs(values(every)).max()
    for few, all_ in zip(some, every, strict=True):
        np.testing.assert_array_equal(few.rows, all_.rows)  # of the whole background


def test_strongest_columns_and_frames() -> None:
    case = made("classes")
    found = case.booster.partial_dependence(case.X)
    assert found.output_names == ("0", "1", "2")
    assert found.strength.shape == (5, 3)
    top = found.strongest(2)
    assert len(top) == 2
    assert top.strength.max() == found.strength.max()
    frame = found.to_frame()
    assert set(frame["output"]) == {"0", "1", "2"}
    assert frame.groupby(["column", "output"])["rows"].sum().eq(N_ROWS).all()


def test_importances_of_trees() -> None:
    case = made("categories")
    gain = case.booster.importance()
    np.testing.assert_allclose(gain.values.sum(), 1.0)
    raw = case.booster.feature_importance("gain")
    np.testing.assert_allclose(gain.values, raw / raw.sum())
    assert gain.errors is None
    split = case.booster.importance("split")
    assert split.values.sum() == (case.booster.model.forest.feature >= 0).sum()
    frame = gain.to_frame()
    assert frame["importance"].is_monotonic_decreasing
    assert gain.top(2).names == tuple(frame["column"][:2])


@pytest.mark.parametrize("name", ["numbers", "statistics", "lines", "vectors"])
def test_permutation_importance_scores_the_whole_model(name: str) -> None:
    case = made(name)
    rng = np.random.default_rng(3)
    raw = case.raw(case.X)
    y = raw + rng.normal(size=raw.shape)
    y = y[:, 0] if y.shape[1] == 1 else y
    weight = rng.random(N_ROWS)
    found = case.booster.importance(
        "permutation", case.X, y, metric="mse", n_repeats=3, random_state=7, sample_weight=weight
    )
    values = case.X.to_numpy(dtype=object) if isinstance(case.X, pd.DataFrame) else case.X

    def score(X: Any) -> float:
        squares = (case.raw(X).reshape(y.shape) - y) ** 2
        return float(np.average(squares.reshape(N_ROWS, -1).mean(axis=1), weights=weight))

    assert found.baseline == pytest.approx(score(case.X), rel=1e-12)
    for column in range(values.shape[1]):
        for repeat in range(3):
            order = np.random.default_rng([7, column, repeat]).permutation(N_ROWS)
            rows = case.X.copy()
            if isinstance(rows, pd.DataFrame):
                rows.isetitem(column, case.X.iloc[order, column].to_numpy())
            else:
                rows[:, column] = case.X[order, column]
            want = score(rows) - score(case.X)
            assert found.samples[column, repeat] == pytest.approx(want, rel=1e-8, abs=1e-11)
    np.testing.assert_allclose(found.errors, found.samples.std(axis=1, ddof=1) / np.sqrt(3))


def test_permutation_of_labels_and_queries() -> None:
    X, y = numbers()
    labels = np.where(y > 0, "yes", "no")
    model = HedgerowClassifier(**PLAIN).fit(X, labels)
    found = model.booster_.importance("permutation", X, labels, metric="auc")
    assert found.unit == "auc lost"
    assert found.values.argmax() in (0, 1, 2)
    with pytest.raises(DataError, match="labels that the model lacks"):
        model.booster_.importance("permutation", X, np.full(N_ROWS, "perhaps"))
    qid = np.arange(N_ROWS) // 10
    ranker = HedgerowRanker(n_estimators=5, early_stopping=False).fit(
        X, np.clip(np.round(y + 2), 0, 4), qid=qid
    )
    found = ranker.booster_.importance(
        "permutation", X, np.clip(np.round(y + 2), 0, 4), qid=qid, metric="ndcg"
    )
    assert found.values.max() > 0.0
    with pytest.raises(ParameterError, match="needs qid"):
        ranker.booster_.importance("permutation", X, y)
    with pytest.raises(ParameterError, match="qid is for rankings"):
        model.booster_.importance("permutation", X, labels, qid=qid)


def test_importance_by_shapley_values_of_rows() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    model = HedgerowRegressor(n_estimators=5, early_stopping=False).fit(X, X[:, 0] - 2 * X[:, 1])
    sizes = np.abs(model.explain(X).values)
    for owner in (model, model.booster_):
        found = owner.importance("shap", X, n_jobs=2)
        np.testing.assert_allclose(found.values, sizes.mean(axis=0), rtol=1e-12)
        errors = sizes.std(axis=0, ddof=1) / np.sqrt(len(X))
        np.testing.assert_allclose(found.errors, errors, rtol=1e-12)
        assert found.order[0] == 1
    with pytest.raises(ParameterError, match="has interactions"):
        explained_importance(model.explain(X[:5], interactions=True))
    tree = CARTRegressor(max_depth=3).fit(X, X[:, 0] - 2 * X[:, 1])
    assert tree.importance("shap", X).order[0] == 1
    with pytest.raises(ParameterError, match="n_jobs"):
        tree.importance("shap", X, n_jobs=0)


def test_trees_without_splits() -> None:
    X = np.zeros((20, 2))
    booster = regressor(X, np.arange(20.0)).booster_
    found = booster.partial_dependence(X)
    assert found[0].values.tolist() == [pytest.approx(9.5)]
    assert booster.importance("permutation", X, np.arange(20.0)).values.tolist() == [0.0, 0.0]
    stumps = train({"n_estimators": 2, "max_leaves": 2}, Dataset(X, np.arange(20.0)))
    assert stumps.partial_dependence(X)["x1"].at([3.0]).shape == (1,)


def test_sparse_rows() -> None:
    from scipy.sparse import csr_matrix

    X, y = numbers(missing=0.0)
    X[np.abs(X) < 0.7] = 0.0
    booster = regressor(csr_matrix(X), y).booster_
    dense, sparse = booster.partial_dependence(X), booster.partial_dependence(csr_matrix(X))
    for a, b in zip(dense, sparse, strict=True):
        assert a.values.tobytes() == b.values.tobytes()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda b, X: b.partial_dependence(X, ["nothing"]), "no column 'nothing'"),
        (lambda b, X: b.partial_dependence(X, [9]), "positions go from 0 to 3"),
        (lambda b, X: b.partial_dependence(X, []), "columns is empty"),
        (lambda b, X: b.partial_dependence(X, kind="odds"), "kind must be one of"),
        (lambda b, X: b.partial_dependence(X, kind="probability"), "needs a classifier"),
        (lambda b, X: b.partial_dependence(X, n_points=1), "n_points"),
        (lambda b, X: b.partial_dependence(X, max_rows=0), "max_rows must be an integer"),
        (lambda b, X: b.partial_dependence(X, random_state=-1), "random_state"),
        (lambda b, X: b.importance("worth"), "kind must be one of"),
        (lambda b, X: b.importance("gain", X), "does not use X: "),
        (lambda b, X: b.importance("split", X, X[:, 0], n_repeats=2), "use X, y, n_repeats"),
        (lambda b, X: b.importance("cover", metric="rmse"), "read from the trees and does not use"),
        (lambda b, X: b.importance("shap", X, X[:, 0], random_state=3), "use y, random_state"),
        (lambda b, X: b.importance("shap", X, offset=X[:, 0]), "does not use offset"),
        (lambda b, X: b.importance("permutation", X), "needs X and y"),
        (lambda b, X: b.importance("shap"), "needs X"),
        (lambda b, X: b.importance("permutation", X, X[:, 0], n_repeats=0), "n_repeats"),
        (lambda b, X: b.importance("permutation", X, X[:, 0], metric=["mse", "mae"]), "single"),
    ],
)
def test_wrong_arguments(call: Any, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        call(made("numbers").booster, np.nan_to_num(made("numbers").X))


def test_wrong_rows() -> None:
    booster = made("numbers").booster
    with pytest.raises(DataError, match="0 sample"):
        booster.partial_dependence(np.zeros((0, 4)))
    with pytest.raises(DataError, match="3 features"):
        booster.partial_dependence(np.zeros((5, 3)))
    strict = regressor(*mixed(), unknown_category="error").booster_
    with pytest.raises(DataError, match="'mauve'"):
        strict.partial_dependence(mixed()[0].assign(colour="mauve"))


def test_functions_take_boosters_estimators_and_models() -> None:
    X, y = mixed()
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [-0.5, 0.5])]
    model = HedgerowClassifier(**PLAIN).fit(X, labels)
    function = inspection.partial_dependence
    for known in (model, model.booster_):
        found = function(known, X, ["a"], kind="probability")
        assert found.output_names == ("high", "low", "middle")
    assert function(model.booster_.model, X, ["a"]).output_names == ("0", "1", "2")
    with pytest.raises(DataTypeError, match="must be a Booster, a fitted estimator or a Model"):
        function(X, X, ["a"])
    indices = np.searchsorted(model.classes_, labels)
    one, other = (
        inspection.permutation_importance(known, X, target, n_repeats=1)
        for known, target in ((model, labels), (model.booster_.model, indices))
    )
    assert np.array_equal(one.values, other.values)


# -- single trees ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_single_trees_with_splits_by_categories(dtype: type) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(-9, 9, 500), rng.integers(0, 6, 500)]).astype(dtype)
    y = X[:, 0] * (X[:, 1] > 2) + np.isin(X[:, 1], [1, 4]) * 3.0
    y[X[:, 1] == 5] += rng.normal(size=(X[:, 1] == 5).sum())
    tree = CARTRegressor(max_depth=5, categorical_features=[1]).fit(X, y)
    assert tree.tree_.is_categorical.any()
    found = tree.partial_dependence(X)["x1"]
    assert found.kind == "category"
    for level, value in zip(found.levels, found.values, strict=True):
        mixed = X.copy()
        mixed[:, 1] = level
        np.testing.assert_allclose(value, tree.predict(mixed).mean(), rtol=0, atol=1e-12)
    mixed = X.copy()
    mixed[:, 1] = 77
    np.testing.assert_allclose(found.unknown, tree.predict(mixed).mean(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("lines", [False, True])
def test_effects_at_zeros_that_are_missing(lines) -> None:
    r = np.random.default_rng(0)
    X = np.column_stack([r.integers(-3, 4, 200) * 1.0, r.normal(size=200)])
    params = {"n_estimators": 4, "zero_as_missing": True, "linear_leaves": lines}
    booster = train({**params, "early_stopping": False}, Dataset(X, (X[:, 0] == 0.0) * X[:, 1]))
    effect = booster.partial_dependence(X)["x0"]
    for value in (-1.0, 0.0, 2.0):
        rows = X.copy()
        rows[:, 0] = value
        np.testing.assert_allclose(effect.at([value]), [booster.predict(rows).mean()], atol=1e-12)
    assert effect.at([0.0]) == effect.at([None]) == effect.missing
    assert effect.at([0.0]) != effect.at([-1e-9])
    if lines:  # points, where 0 would be a number
        assert 0.0 not in effect.positions


def test_effects_at_dates() -> None:
    r = np.random.default_rng(0)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(r.integers(0, 30, 200), unit="D")
    hours = pd.to_timedelta(r.integers(0, 24, 200), unit="h")
    table = pd.DataFrame({"day": days, "kind": pd.Categorical(days.floor("10D")), "wait": hours})
    y = table["day"].dt.day + table["wait"].dt.total_seconds() / 7200.0
    params = {"n_estimators": 4, "early_stopping": False, "min_data_per_group": 2}
    booster = train({**params, "linear_leaves": False}, Dataset(table, y + 3.0 * (days.day > 20)))
    found = booster.partial_dependence(table)
    for name in table:
        some = table[name].drop_duplicates()[:3]
        ticks = some.to_numpy().astype("m8[us]" if name == "wait" else "M8[us]").astype("i8")
        expected = [booster.predict(table.assign(**{name: value})).mean() for value in some]
        for given in (some, some.to_list(), ticks):
            np.testing.assert_allclose(found[name].at(given), expected)
    words = [("day", dt.timedelta(1), "holds durations"), ("day", "noon", "ISO 8601|such as")]
    for name, value, expected in words:
        with pytest.raises(DataError, match=expected):
            found[name].at([value])


def test_effects_of_wide_integers_between_and_beyond_their_values() -> None:
    X = np.arange(8)[:, None]
    booster = train({"n_estimators": 1, "min_samples_leaf": 1}, Dataset(X, X[:, 0] > 3))
    effect = booster.partial_dependence(X)["x0"]
    low, high = effect.at([0, 7])
    assert low < high
    at = effect.at([-np.inf, -1e30, 3, 3.5, 4, 1e30, np.inf])
    np.testing.assert_array_equal(at, [low, low, low, high, high, high, high])


def test_effects_of_numbers_refuse_text() -> None:
    booster = train({"n_estimators": 1}, Dataset(np.arange(40.0)[:, None], np.arange(40.0)))
    with pytest.raises(DataTypeError, match="column 'x0' holds numbers; got the text 'old'"):
        booster.partial_dependence([[0.0]])["x0"].at(["old"])


def test_effects_of_categories_that_are_rounded_numbers() -> None:
    xgboost = pytest.importorskip("xgboost")
    code = np.random.default_rng(0).integers(0, 6, 300)[:, None] * 1.0
    types = {"feature_types": ["c"], "enable_categorical": True}
    table = xgboost.DMatrix(code, code[:, 0] % 2 + code[:, 0], **types)
    booster = from_xgboost(xgboost.train({"max_cat_to_onehot": 1}, table, 3))
    effect = booster.partial_dependence(code)[0]
    values = [2.0, 2.7, -0.5, 77.0, None]
    expected = booster.predict(np.array(values, dtype=float)[:, None])
    assert expected[0] == expected[1] != expected[2]
    np.testing.assert_allclose(effect.at(values), expected, rtol=1e-12)


@pytest.mark.parametrize("options", [{"linear_leaves": True}, {"target_statistics": True}])
def test_effects_of_categories_beyond_the_evaluated_ones(options: Any) -> None:
    rng = np.random.default_rng(0)
    letter, x = rng.choice(list("abbcccddddeeeee"), 200), rng.normal(size=200)
    table = pd.DataFrame({"letter": pd.Categorical(letter), "x": x})
    y = (letter > "b") * x + (letter == "a")
    booster = train({"n_estimators": 2, "early_stopping": False, **options}, Dataset(table, y))
    every = booster.partial_dependence(table)["letter"]
    some = booster.partial_dependence(table, n_points=3)["letter"]
    assert (some.levels, some.left_out, every.left_out) == (tuple("cde"), ("a", "b"), ())
    np.testing.assert_array_equal(some.at(["c", "e", "z", None]), every.at(["c", "e", "z", None]))
    with pytest.raises(ParameterError, match=r"'letter'.*level 'a'.*again with n_points=5"):
        some.at(["c", "a"])
