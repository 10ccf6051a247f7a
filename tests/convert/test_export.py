"""Exported models: the program of each format predicts the same."""

from __future__ import annotations

import json
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

import hedgerow
from hedgerow import Dataset, ExportError, ParameterError, train
from hedgerow.convert.writers import json as json_writer
from tests.helpers.foreign_models import adult, california

PACKAGE = {"lightgbm": "lightgbm", "onnx": "onnxruntime"}
# The formats whose program is here; a parser of JSON always is.
FORMATS = [
    target for target in ("lightgbm", "onnx", "json") if find_spec(PACKAGE.get(target, "json"))
]
PLAIN = {"target_statistics": False, "n_estimators": 8, "max_leaves": 12}


def exported(booster, path, target, X=None, **more):
    """Export with a check if the program of the format is installed."""
    if target in PACKAGE:
        pytest.importorskip(PACKAGE[target])
    report = booster.export(path, target, check=X, **more)
    if X is not None:
        assert report.rows_checked == (len(X) if not isinstance(X, dict) else len(X["c"]))
    return report


@pytest.fixture(scope="module")
def mixed(shared_data):
    X, y = adult(shared_data("adult"), 3000)
    odd = X.copy()
    for name in ("occupation", "education"):
        text = odd[name].astype(object)
        text[::5] = "never seen"
        text[::7] = None
        odd[name] = pd.Categorical(text)
    odd["age"] = odd["age"].astype(float)
    odd.loc[::3, "age"] = np.nan
    return X, y, odd


@pytest.mark.fast(4)
@pytest.mark.parametrize(
    "objective",
    [
        "logistic",
        "squared_error",
        "poisson",
        "softmax",
        "quantile",
        "absolute_error",
        "cross_entropy",
    ],
)
def test_every_format(mixed, objective, tmp_path) -> None:
    X, y, odd = mixed
    target_values = X["age"] // 30 if objective == "softmax" else y
    booster = train({**PLAIN, "objective": objective}, Dataset(X, target_values))
    for target in FORMATS:
        report = exported(booster, tmp_path / "model", target, odd.head(500))
        assert report.largest_difference <= (0.0 if target == "lightgbm" else 1e-13)


@pytest.mark.parametrize(
    "more",
    [
        {"grow_policy": "symmetric", "max_leaves": None, "max_depth": 4},
        {"boosting": "dart"},
        {"boosting": "rf", "subsample": 0.5, "learning_rate": 1.0},
        {"objective": "softmax", "multi_strategy": "multi_output_tree"},
        {"min_samples_leaf": 100000},
    ],
    ids=str,
)
def test_every_kind_of_trees(mixed, more, tmp_path) -> None:
    X, y, odd = mixed
    booster = train({**PLAIN, **more}, Dataset(X, y))
    for target in FORMATS:
        exported(booster, tmp_path / "model", target, odd.head(300))


def test_whole_numbers_and_silent_checks(tmp_path, capfd, recwarn) -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(-1000, 1000, (500, 3))
    booster = train(PLAIN, Dataset(X, X[:, 0] + X[:, 1] ** 2))
    assert booster.model.schema.kinds[0] == "int"
    for target in FORMATS:
        exported(booster, tmp_path / "model", target, X)
    assert [each for each in recwarn if issubclass(each.category, UserWarning)] == []
    assert "".join(capfd.readouterr()) == ""


@pytest.mark.parametrize("kind", ["Int64", "boolean", "datetime64[us]", "float64"])
def test_splits_between_missing_values_and_all_others(kind, tmp_path) -> None:
    rng = np.random.default_rng(0)
    column = pd.Series(rng.integers(0, 2, 400)).astype(kind).mask(rng.random(400) < 0.4)
    X = pd.DataFrame({"a": column})
    booster = train(PLAIN, Dataset(X, column.isna() + 0.01 * rng.normal(size=400)))
    assert np.isinf([each or 0.0 for each in booster.to_frame(None)["threshold"]]).any()
    for target in FORMATS:
        exported(booster, tmp_path / "model", target, X)


@pytest.mark.parametrize("target", ["lightgbm", "json"])
def test_splits_between_zeros_that_are_missing_and_all_others(target, tmp_path) -> None:
    X = np.random.default_rng(0).integers(0, 3, (300, 1))
    booster = train({**PLAIN, "zero_as_missing": True}, Dataset(X, (X[:, 0] == 0) * 1.0))
    exported(booster, tmp_path / "model", target, X, approximate=target == "lightgbm")


def test_integers_beyond_the_formats(tmp_path) -> None:
    X = np.array([[2**60 + k] for k in range(200)])
    booster = train({"n_estimators": 2, "min_samples_leaf": 5}, Dataset(X, np.arange(200.0)))
    for target in ("lightgbm", "json"):
        with pytest.raises(ParameterError, match=r"2\*\*53"):
            booster.export(tmp_path / "model", target)


NUMBERED = {
    "fractions": np.array([0.5, 1.5, -2.0, 3.0]),
    "whole": np.array([-3, 0, 70, 2**31 - 1]),
    "wide": np.array([-3, 0, 70, 2**31]),
    "dates": np.array(["2020-01-03", "2020-01-01", "2020-01-02", "2020-01-05"], dtype="M8[us]"),
}


@pytest.mark.parametrize("kind", NUMBERED)
def test_numbers_that_are_categories(kind, tmp_path) -> None:
    code = np.random.default_rng(0).integers(0, 4, 300)
    frame = pd.DataFrame({"c": pd.Categorical(NUMBERED[kind][code])})
    booster = train({**PLAIN, "min_data_per_group": 5}, Dataset(frame, code * 1.0 + (code == 1)))
    frame.loc[::5, "c"] = np.nan
    for target in FORMATS:
        exported(booster, tmp_path / "model", target, frame)


NEAR = [0.0, 0.5, -0.5, 0.999, -0.999]
FAR = [1e10, 2.0**32, 2.0**32 + 1, -(2.0**31), 1e300, np.inf, -np.inf, np.nan, -0.0]


def predict_onnx(booster, path, X):
    """Return raw scores of ONNX Runtime for an array, without the codes of ``check``."""
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    booster.export(path, "onnx")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(["raw"], {"X": np.asarray(X, dtype=np.float64)})[0][:, 0]


@pytest.mark.parametrize(
    "levels", [[0, 1, 2, 3], [-2, -1, 0, 1], [-3, 0, 70, 2**31], [-1.5, -1, 0, 0.5]]
)
@pytest.mark.parametrize("more", [{}, {"target_statistics": True}], ids=str)
def test_other_numbers_are_unknown_categories_in_onnx(levels, more, tmp_path) -> None:
    code = np.random.default_rng(0).integers(0, 4, 400)
    frame = pd.DataFrame({"c": pd.Categorical(np.array(levels)[code])})
    params = {**PLAIN, "min_data_per_group": 2, "min_samples_leaf": 2, **more}
    booster = train(params, Dataset(frame, code + 5.0 * (code == 1)))
    values = np.array([level + far for level in levels for far in NEAR] + FAR)
    expected = booster.predict(pd.DataFrame({"c": pd.Categorical(values)}), kind="raw")
    found = predict_onnx(booster, tmp_path / "model.onnx", values[:, None])
    np.testing.assert_allclose(found, expected, atol=1e-13)


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_numbers_are_rounded_to_categories_in_onnx(library, tmp_path) -> None:
    """The models are of arrays, and their library rounds numbers to categories."""
    peer = pytest.importorskip(library)
    code = np.random.default_rng(0).integers(0, 6, 400).astype(float)
    X, y = np.column_stack([code, code**2]), code + 5.0 * (code == 1)
    if library == "lightgbm":
        data = peer.Dataset(X, y, categorical_feature=[0])
        given = {"verbose": -1, "min_data_per_group": 2, "cat_smooth": 0, "min_data_in_leaf": 2}
        booster = hedgerow.from_lightgbm(peer.train(given, data, 5))
    else:
        data = peer.DMatrix(X, y, feature_types=["c", "q"], enable_categorical=True)
        booster = hedgerow.from_xgboost(peer.train({"max_depth": 2}, data, 5))
    values = np.array([level + far for level in range(6) for far in NEAR] + FAR)
    rows = np.column_stack([values, np.full(len(values), 4.0)])
    expected = booster.predict(rows, kind="raw")
    np.testing.assert_allclose(
        predict_onnx(booster, tmp_path / "m.onnx", rows), expected, atol=1e-13
    )


def test_several_targets_of_a_custom_loss(tmp_path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))

    def squares(y, raw):
        return raw - y, np.ones(len(y))

    booster = train({**PLAIN, "objective": squares}, Dataset(X, X))
    for target in FORMATS:
        exported(booster, tmp_path / "model", target, X, raw=target == "lightgbm")


def test_there_and_back(mixed, tmp_path) -> None:
    X, y, odd = mixed
    booster = train({**PLAIN, "objective": "logistic"}, Dataset(X, y))
    exported(booster, tmp_path / "model", "lightgbm")
    again = hedgerow.load(tmp_path / "model")
    assert again.feature_names == booster.feature_names
    np.testing.assert_array_equal(again.predict(odd, kind="raw"), booster.predict(odd, kind="raw"))
    assert again.objective == "logistic"


def test_models_of_others_go_on(mixed, tmp_path) -> None:
    """XGBoost sends unknown categories left; every format that can express this does."""
    xgboost = pytest.importorskip("xgboost")
    X, y, odd = mixed
    data = xgboost.DMatrix(X, y, enable_categorical=True)
    model = xgboost.train({"max_depth": 3, "max_cat_to_onehot": 1}, data, 5)
    booster = hedgerow.from_xgboost(model)
    with pytest.raises(ParameterError, match="unknown"):
        booster.export(tmp_path / "model", "lightgbm")
    for target in set(FORMATS) - {"lightgbm"}:
        exported(booster, tmp_path / "model", target, odd.head(400))


def test_classes_and_links_in_onnx(mixed, tmp_path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    X, y, _ = mixed
    labels = np.array(["poor", "rich"])[y]
    model = hedgerow.HedgerowClassifier(n_estimators=10, target_statistics=False).fit(X, labels)
    path = tmp_path / "model.onnx"
    report = model.export(path, check=X)
    assert report.format == "onnx"
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    feed = {}
    for name in X:
        column = X[name]
        if isinstance(column.dtype, pd.CategoricalDtype):
            feed[name] = column.astype(object).where(column.notna(), "?").to_numpy()[:, None]
        else:
            feed[name] = column.to_numpy(float)[:, None]
    label, probability = session.run(["label", "probability"], feed)
    np.testing.assert_array_equal(label, model.predict(X))
    np.testing.assert_allclose(probability, model.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize("kind", ["regressor", "three classes"])
def test_predictions_in_onnx(shared_data, kind, tmp_path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    X, y = california(shared_data("california"), 1500)
    path = tmp_path / "model.onnx"
    if kind == "regressor":
        model = hedgerow.HedgerowRegressor(objective="gamma", n_estimators=5).fit(X, y)
    else:
        model = hedgerow.HedgerowClassifier(n_estimators=5).fit(X, pd.qcut(y, 3, labels=[3, 5, 9]))
    model.export(path, check=X)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found = session.run(None, {"X": X})
    names = [output.name for output in session.get_outputs()]
    if kind == "regressor":
        np.testing.assert_allclose(
            found[names.index("prediction")][:, 0], model.predict(X), rtol=1e-12
        )
    else:
        np.testing.assert_array_equal(found[names.index("label")], model.predict(X))


def test_sets_of_hundreds_of_categories_in_onnx(tmp_path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2000, 20000)
    X = {"text": [f"k{c}" for c in codes], "number": pd.Categorical(rng.integers(0, 900, 20000))}
    y = rng.normal(size=2000)[codes] + np.asarray(X["number"]) % 3
    frame = pd.DataFrame(X)
    booster = train({**PLAIN, "max_cat_threshold": 254, "min_data_per_group": 1}, Dataset(frame, y))
    exported(booster, tmp_path / "model.onnx", "onnx", frame.head(2000))


@pytest.mark.parametrize("levels", [["", "a", "b"], ["", "a", "missing"]])
@pytest.mark.parametrize("source", ["codes", "statistics", "xgboost"])
def test_empty_text_as_a_category(levels, source, tmp_path) -> None:
    """A missing value differs from the empty text, in every format."""
    rng = np.random.default_rng(1)
    code = rng.integers(0, 4, 400)
    given = [*levels, None]
    frame = pd.DataFrame({"c": pd.Series([given[k] for k in code], dtype=object)})
    y = np.array([0.0, 1.0, 5.0, -4.0])[code]
    targets = ["onnx", "json"]
    if source == "xgboost":
        xgboost = pytest.importorskip("xgboost")
        data = xgboost.DMatrix(frame.astype("category"), y, enable_categorical=True)
        booster = hedgerow.from_xgboost(xgboost.train({"min_child_weight": 0}, data, 5))
    else:
        params = {**PLAIN, "min_data_per_group": 1, "min_samples_leaf": 1}
        params["target_statistics"] = source == "statistics"
        booster = train(params, Dataset(frame, y))
        targets += ["lightgbm"] if source == "codes" else []
    frame.loc[::9, "c"] = "never seen"
    for target in targets:
        exported(booster, tmp_path / "model", target, frame)
    notes = " ".join(exported(booster, tmp_path / "model", "onnx").notes)
    text = "missing1" if "missing" in levels else "missing"
    assert f"the text '{text}' is a missing value" in notes


ODD_NAMES = {
    **{name: name for name in ("é", "价格", "a b", "[x]", "a<b", "{a,b}", "raw", "X", "")},
    **{name: name for name in ("'", "a=b", "#", "&", "hedgerow_features")},
    "quotes": "say \"no\" \\ or 'yes'",
    "lines": "a\nb\r\tc",
    "escapes": "\\u00e9 \\n",
    "controls": "\x01\x1b[31m\b\f\x7f\x85\u2028",
    "spaces": " \xa0\u3000 ",
    "null": "a\0b",
    "half": "\ud800",
    "emoji": "\U0001f600",
    "long": "x" * 300,
    "mark": "\ufeffa",
}
REFUSED = {"lightgbm": {"null", "half"}, "onnx": {"null", "half", "", "raw", "hedgerow_features"}}


@pytest.mark.fast(9)
@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_and_categories(name, tmp_path) -> None:
    """The program of a format reads names and categories as they are, or they are refused."""
    odd = ODD_NAMES[name]
    level = "c" if name == "half" else odd  # fit refuses such a category
    X = {odd: np.arange(120.0) % 7, "c": ["b", level, "a"] * 40}
    y = (X[odd] > 3) * 1.0 + 2.0 * (np.arange(120) % 3 == 1)
    params = {**PLAIN, "min_data_per_group": 1, "min_samples_leaf": 1, "objective": "cross_entropy"}
    booster = train(params, Dataset(X, y / 3.0))
    read = [target for target in FORMATS if name not in REFUSED.get(target, ())]
    for target in FORMATS:
        if target in read:
            exported(booster, tmp_path / f"{target}.json", target, X)
            continue
        with pytest.raises(ParameterError, match="cannot be written to") as caught:
            exported(booster, tmp_path / f"{target}.json", target)
        assert "column" in str(caught.value)
    if "lightgbm" in read:
        lightgbm = pytest.importorskip("lightgbm")
        model = lightgbm.Booster(model_file=tmp_path / "lightgbm.json")
        assert model.feature_name() == ["_".join(odd.split()) or "_", "c"]
        frame = pd.DataFrame({**X, "c": pd.Categorical(X["c"])})
        np.testing.assert_allclose(model.predict(frame), booster.predict(X), rtol=1e-12)


def test_what_no_format_has_is_named(mixed, tmp_path) -> None:
    X, y, _ = mixed
    model = hedgerow.HedgerowClassifier(
        n_estimators=3, class_weight="balanced", target_statistics=False
    ).fit(X, y)
    with pytest.raises(ParameterError, match="class_weight"):
        model.export(tmp_path / "model.json")
    booster = train({**PLAIN, "objective": "normal"}, Dataset(X, y + np.arange(len(y)) % 7))
    with pytest.raises(ParameterError, match="raw=True"):
        booster.export(tmp_path / "model.json")
    booster.export(tmp_path / "model.json", raw=True, check=X.head(100))
    offset = hedgerow.HedgerowRegressor(n_estimators=3, target_statistics=False)
    offset.fit(X.assign(start=1.0), y, offset="start")
    with pytest.raises(ParameterError, match="offset"):
        offset.export(tmp_path / "model.json")
    assert [file.name for file in tmp_path.iterdir()] == ["model.json"]


WITH_LINES = [target for target in FORMATS if target != "lightgbm"]


@pytest.fixture(scope="module")
def odd_numbers():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    X[:, 3] = rng.integers(-3, 4, 600)
    y = X[:, 0] / (2.0 + X[:, 1]) + X[:, 2] * X[:, 3] + 0.1 * rng.normal(size=600)
    X[::11, 0], X[::13, 1], X[::17, 2] = np.nan, np.inf, -np.inf
    X[::19, 1], X[::23, 3] = 0.0, 1e300
    return X, y


@pytest.mark.fast(5)
@pytest.mark.parametrize(
    "params",
    [
        {"linear_leaves": True},
        {"linear_leaves": True, "max_leaves": 2, "n_estimators": 1},
        {"linear_leaves": True, "boosting": "dart"},
        {"linear_leaves": True, "num_parallel_tree": 3, "subsample": 0.5},
        {"linear_leaves": True, "objective": "softmax"},
        {"linear_leaves": True, "monotone_constraints": [1, 0, 0, 0]},
        {"feature_crosses": [(0, 1, "ratio"), (2, 3, "product"), (3, 0, "difference")]},
        {"feature_crosses": [(2, 3, "ratio")], "objective": "softmax"},
        {"feature_crosses": [(2, 3, "product"), (1, 0, "ratio")], "linear_leaves": True},
    ],
    ids=str,
)
def test_linear_leaves_and_crosses(odd_numbers, params, tmp_path) -> None:
    X, y = odd_numbers
    if params.get("objective") == "softmax":
        y = np.digitize(y, [-1.0, 1.0])
    booster = train({**PLAIN, "min_samples_leaf": 5, **params}, Dataset(X, y))
    for target in WITH_LINES:
        exported(booster, tmp_path / "model", target, X)
    with pytest.raises(ParameterError, match=r"linear leaves|crosses of columns"):
        booster.export(tmp_path / "refused", "lightgbm")


def test_crosses_beside_categories_and_integers(mixed, tmp_path) -> None:
    X, y, odd = mixed
    X, odd = (frame.assign(hours=np.arange(len(frame)) % 7) for frame in (X, odd))
    crosses = [("age", "hours", "ratio"), ("hours", "age", "product")]
    params = {**PLAIN, "feature_crosses": crosses, "linear_leaves": True}
    booster = train(params, Dataset(X, X["age"] * X["hours"] + y))
    assert booster.model.inputs is not None
    for target in WITH_LINES:
        exported(booster, tmp_path / "model", target, X.head(300))
        exported(booster, tmp_path / "model", target, odd.head(300))


@pytest.mark.fast(1)
@pytest.mark.parametrize("objective", ["logistic", "squared_error", "softmax"])
def test_target_statistics(mixed, objective, tmp_path) -> None:
    X, _, odd = mixed
    number = pd.Categorical(np.arange(len(X)) % 40 - 3.5)
    X, odd = (frame.assign(number=number, hours=np.arange(len(X)) % 7) for frame in (X, odd))
    odd["number"] = odd["number"].cat.set_categories([0.5, 1.5, 77.25])
    params = {"target_statistics": True, "min_data_per_group": 5, "objective": objective}
    if objective == "squared_error":
        params |= {"linear_leaves": True, "feature_crosses": [("age", "hours", "product")]}
    score = X["occupation"].cat.codes % 3 + X["number"].cat.codes % 5
    if objective == "squared_error":
        target_values = score + X["age"] * X["hours"] / 50
    else:
        target_values = np.digitize(score, [2.5] if objective == "logistic" else [1.5, 3.5])
    booster = train({**PLAIN, **params}, Dataset(X, target_values))
    found = booster.model.inputs
    assert found.statistics
    assert len(found.crosses) == (objective == "squared_error")
    for target in WITH_LINES:
        exported(booster, tmp_path / "model", target, X.head(300))
        exported(booster, tmp_path / "model", target, odd.head(300))
    with pytest.raises(ParameterError, match="target statistics"):
        booster.export(tmp_path / "refused", "lightgbm")


def test_statistics_of_two_columns(tmp_path) -> None:
    catboost = pytest.importorskip("catboost")
    rng = np.random.default_rng(0)
    X = pd.DataFrame({name: rng.choice(list("abcdefgh"), 800) for name in "xyz"})
    y = rng.normal(size=(8, 8))[X["x"].map(ord) - 97, X["y"].map(ord) - 97]
    pool = catboost.Pool(X, y, cat_features=list("xyz"))
    model = catboost.CatBoostRegressor(
        iterations=10, max_ctr_complexity=2, one_hot_max_size=2, verbose=0, thread_count=1
    ).fit(pool)
    booster = hedgerow.from_catboost(model, pool)
    assert any(len(each.columns) == 2 for each in booster.model.inputs.statistics)
    rows = X.head(300).copy()
    rows.loc[::7, "x"], rows.loc[::5, "z"] = "never seen", None
    for target in WITH_LINES:
        exported(booster, tmp_path / "model", target, rows)


def test_linear_trees_of_lightgbm(odd_numbers, tmp_path) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    X, y = odd_numbers
    params = {"linear_tree": True, "min_data_in_leaf": 20, "verbose": -1, "num_leaves": 8}
    known = np.clip(X, -9.0, 9.0)
    data = lightgbm.Dataset(known, y, params={"linear_tree": True})
    booster = hedgerow.from_lightgbm(lightgbm.train(params, data, 5))
    for target in WITH_LINES:
        exported(booster, tmp_path / "model", target, known)


def test_rows_that_the_target_refuses_are_a_plain_error(shared_data, tmp_path, monkeypatch) -> None:
    X, y = california(shared_data("california"), 500)
    booster = train(PLAIN, Dataset(X, y))

    def refuse(*given):
        raise RuntimeError("rows are refused.\ntrace")

    monkeypatch.setattr(json_writer, "predict", refuse)
    words = "cannot predict the rows of check: RuntimeError: rows are refused. Give"
    with pytest.raises(ParameterError, match=words) as e:
        booster.export(tmp_path / "model.json", check=X[:20])
    assert "\n" not in str(e.value)
    assert not (tmp_path / "model.json").exists()


def test_zeros_that_are_missing(shared_data, tmp_path) -> None:
    X, y = california(shared_data("california"), 1500)
    booster = train({**PLAIN, "zero_as_missing": True}, Dataset(X, y))
    with pytest.raises(ParameterError, match="zero_as_missing"):
        exported(booster, tmp_path / "model", "onnx")
    exported(booster, tmp_path / "model", "json", X)
    with pytest.raises(ParameterError, match="1e-35"):
        exported(booster, tmp_path / "model", "lightgbm")
    report = exported(booster, tmp_path / "model", "lightgbm", X, approximate=True)
    assert "1e-35" in " ".join(report.notes)


def test_formats_and_ends_of_names(shared_data, tmp_path) -> None:
    X, y = california(shared_data("california"), 500)
    booster = train(PLAIN, Dataset(X, y))
    assert booster.export(tmp_path / "m.txt").format == "lightgbm"
    with pytest.raises(ParameterError, match="is unknown"):
        booster.export(tmp_path / "m.bin")
    with pytest.raises(ParameterError, match="lightgbm"):
        booster.export(tmp_path / "m.bin", "lightgbn")
    assert not (tmp_path / "m.bin").exists()


def test_a_wrong_export_is_found(shared_data, tmp_path, monkeypatch) -> None:
    """The check finds a wrong export, and no file is written."""
    X, y = california(shared_data("california"), 500)
    booster = train(PLAIN, Dataset(X, y))
    good = json_writer.write

    def bad(plain, approximate, notes):
        document = json.loads(good(plain, approximate, notes))
        document["base_score"][0] += 0.001
        return json.dumps(document).encode()

    monkeypatch.setattr(json_writer, "write", bad)
    with pytest.raises(ExportError, match="row"):
        booster.export(tmp_path / "m.json", check=X)
    assert not (tmp_path / "m.json").exists()


def test_treelite_reads_what_lightgbm_reads(mixed, tmp_path) -> None:
    treelite = pytest.importorskip("treelite")
    X, y, odd = mixed
    booster = train({**PLAIN, "objective": "logistic"}, Dataset(X, y))
    booster.export(tmp_path / "m.txt")
    model = treelite.frontend.load_lightgbm_model(tmp_path / "m.txt")
    codes = np.column_stack(
        [
            pd.Categorical(odd[c.name], c.levels).codes.astype(float) if c.levels else odd[c.name]
            for c in booster.model.schema.columns
        ]
    )
    codes[codes == -1.0] = np.nan
    found = treelite.gtil.predict(model, codes.astype(float))
    np.testing.assert_allclose(found.ravel(), booster.predict_proba(odd)[:, 1], rtol=1e-12)


def test_the_command_line(mixed, tmp_path, capsys) -> None:
    from hedgerow.cli.main import main

    X, y, _ = mixed
    booster = train({**PLAIN, "objective": "logistic"}, Dataset(X, y))
    ours, text, table = tmp_path / "m.hedgerow", tmp_path / "m.txt", tmp_path / "rows.csv"
    booster.save(ours)
    X.head(100).to_csv(table, index=False)
    pytest.importorskip("lightgbm")
    assert main(["convert", str(ours), str(text), "--check", str(table)]) == 0
    assert "100 rows predicted by lightgbm" in capsys.readouterr().out
    assert main(["convert", str(text), str(tmp_path / "again.hedgerow")]) == 0
    again = hedgerow.load(tmp_path / "again.hedgerow")
    np.testing.assert_array_equal(again.predict(X, kind="raw"), booster.predict(X, kind="raw"))
    assert main(["convert", str(ours), str(ours)]) == 2
    assert main(["convert", str(ours), str(tmp_path / "x"), "--raw"]) == 2
    assert main(["inspect", str(text)]) == 0
