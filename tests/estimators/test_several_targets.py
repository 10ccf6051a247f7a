"""Several targets and labels, from the estimators to the command line."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_array, csr_matrix
from sklearn.metrics import f1_score, log_loss, mean_absolute_error, r2_score
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor

from hedgerow import (
    CARTClassifier,
    CARTRegressor,
    Dataset,
    HedgerowClassifier,
    HedgerowRegressor,
    train,
)
from hedgerow.errors import DataError, DataTypeError, ParameterError

ONE, ALL = "one_output_per_tree", "multi_output_tree"


def make_rows(n=900, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    X[rng.random(X.shape) < 0.05] = np.nan
    Z = np.nan_to_num(X)
    Y = np.column_stack([Z[:, 0] + Z[:, 1] ** 2, Z[:, 0] - Z[:, 2], np.sin(2 * Z[:, 3]) + Z[:, 0]])
    return X, Y + 0.1 * rng.normal(size=Y.shape)


X, Y = make_rows()
L = (Y > 0.3).astype(int)
SMALL = {"n_estimators": 25, "n_jobs": 1}


@pytest.fixture(scope="module")
def regressor():
    return HedgerowRegressor(**SMALL).fit(X, Y)


@pytest.fixture(scope="module")
def classifier():
    return HedgerowClassifier(**SMALL).fit(X, L)


# ------------------------------------------------------------------ several numbers


def test_a_tree_for_each_target_is_a_model_of_each_target() -> None:
    both = HedgerowRegressor(multi_strategy=ONE, **SMALL).fit(X, Y)
    apart = MultiOutputRegressor(HedgerowRegressor(**SMALL)).fit(X, Y)
    np.testing.assert_array_equal(both.predict(X), apart.predict(X))
    assert both.booster_.num_trees == 3 * 25


@pytest.mark.parametrize("strategy", [ONE, ALL])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"learning_rate": [0.3, 0.1, 0.05, 0.2], "n_estimators": 4},
        {"leaf_estimation": "line_search"},
        {"boosting": "dart"},
        *({"objective": name} for name in ("huber", "absolute_error", "poisson", "quantile")),
    ],
    ids=str,
)
def test_equal_targets_give_the_model_of_one(params, strategy) -> None:
    settings = SMALL | {"n_estimators": 8} | params
    same = np.abs(Y[:, [0, 0, 0]]) + 0.5
    one = HedgerowRegressor(**settings).fit(X, same[:, 0]).predict(X)
    model = HedgerowRegressor(multi_strategy=strategy, **settings).fit(X, same)
    for column in model.predict(X).T:
        np.testing.assert_allclose(column, one, rtol=1e-12)


def test_validation_scores_are_means_over_targets() -> None:
    X_val, Y_val = make_rows(300, 9)
    names = ["rmse", "mae", "r2", "loss"]
    model = HedgerowRegressor(n_estimators=400, learning_rate=0.3, patience=5, eval_metric=names)
    model.fit(X, Y, X_val=X_val, y_val=Y_val)
    assert model.best_iteration_ == model.n_iter_ < 400
    scores = {k: v[model.n_iter_ - 1] for k, v in model.evals_result_["validation"].items()}
    prediction = model.predict(X_val)
    assert scores["mae"] == pytest.approx(mean_absolute_error(Y_val, prediction))
    assert scores["r2"] == pytest.approx(r2_score(Y_val, prediction))
    mse = ((Y_val - prediction) ** 2).mean(axis=0)
    assert scores["rmse"] == pytest.approx(np.sqrt(mse).mean())
    assert scores["loss"] == pytest.approx(0.5 * mse.mean())
    assert model.evals_result_["validation"]["rmse"][model.n_iter_ - 1] == min(
        model.evals_result_["validation"]["rmse"]
    )


def test_a_metric_of_the_users_sees_all_targets() -> None:
    shapes = []

    def spread(y_true, prediction, weight):
        shapes.append((y_true.shape, prediction.shape))
        return float(np.abs(y_true - prediction).max())

    HedgerowRegressor(n_estimators=2, eval_metric=spread).fit(X, Y)
    assert shapes == [(Y.shape, Y.shape)] * 2


def test_offsets_have_a_column_for_each_target() -> None:
    data = Dataset(X, Y, offset=Y - 1.0)
    booster = train({"n_estimators": 3, "reg_lambda": 0.0, "learning_rate": 1.0}, data)
    np.testing.assert_allclose(booster.predict(X, kind="raw"), 1.0, atol=1e-7)
    with pytest.raises(DataError, match=r"offset must have shape \(900, 3\)"):
        train(None, Dataset(X, Y, offset=Y[:, :2]))


def test_names_of_targets_are_kept(tmp_path) -> None:
    pl = pytest.importorskip("polars")
    names = ["height", "weight", "age"]
    for frame in (pd.DataFrame(Y, columns=names), pl.DataFrame(Y, schema=names)):
        model = HedgerowRegressor(n_estimators=3).fit(X, frame)
        assert model.booster_.target_names == tuple(names)
        model.save(tmp_path / "model")
        assert HedgerowRegressor.load(tmp_path / "model").booster_.target_names == tuple(names)
    labels = HedgerowClassifier(n_estimators=3).fit(X, pd.DataFrame(L, columns=names))
    assert labels.classes_.tolist() == names
    labels.save(tmp_path / "model")
    assert HedgerowClassifier.load(tmp_path / "model").classes_.tolist() == names
    # Columns of validation rows are found by name.
    turned = pd.DataFrame(Y, columns=names)[["age", "height", "weight"]]
    seen = HedgerowRegressor(n_estimators=3, eval_metric="mae")
    seen.fit(X, pd.DataFrame(Y, columns=names), X_val=X, y_val=turned)
    expected = mean_absolute_error(Y, seen.predict(X))
    assert seen.evals_result_["validation"]["mae"][-1] == pytest.approx(expected)
    other = turned.rename(columns={"weight": "mass"})
    with pytest.raises(DataError, match="lacks the column 'weight'"):
        seen.fit(X, pd.DataFrame(Y, columns=names), X_val=X, y_val=other)


def test_trees_are_shown_with_their_vectors(regressor) -> None:
    booster = regressor.booster_
    assert "value=[" in booster.to_text(max_depth=1)
    assert booster.to_rules()[0].count(",") >= 2
    booster.plot_tree(max_depth=2)
    frame = booster.to_frame()
    assert set(frame["output"]) == {-1}
    np.testing.assert_allclose(frame["value"][0], booster.model.forest.vectors[0])
    report = booster.verify_monotone("x0", "increasing", n_points=1000)
    assert report.findings["x0"].verdict == "violated"


# ------------------------------------------------------------------ labels


def test_labels(classifier) -> None:
    probability, labels = classifier.predict_proba(X), classifier.predict(X)
    assert probability.shape == labels.shape == L.shape
    assert labels.dtype == np.int64
    np.testing.assert_array_equal(labels, probability > 0.5)
    np.testing.assert_array_equal(labels, classifier.decision_function(X) > 0)
    np.testing.assert_array_equal(classifier.classes_, [0, 1, 2])
    np.testing.assert_allclose(classifier.predict_log_proba(X), np.log(probability))
    assert classifier.score(X, L) == pytest.approx((labels == L).all(axis=1).mean())
    *_, last = classifier.staged_predict_proba(X)
    np.testing.assert_array_equal(last, probability)
    assert f1_score(L, labels, average="macro") > 0.9


def test_a_tree_for_each_label_is_a_model_of_each_label() -> None:
    both = HedgerowClassifier(multi_strategy=ONE, **SMALL).fit(X, L)
    apart = MultiOutputClassifier(HedgerowClassifier(**SMALL)).fit(X, L)
    np.testing.assert_array_equal(both.predict(X), apart.predict(X))
    expected = np.column_stack([part[:, 1] for part in apart.predict_proba(X)])
    np.testing.assert_array_equal(both.predict_proba(X), expected)


def test_scores_of_labels_are_means_over_labels() -> None:
    names = ["logloss", "accuracy", "auc"]
    model = HedgerowClassifier(n_estimators=5, eval_metric=names).fit(X, L)
    scores = {name: curve[-1] for name, curve in model.evals_result_["train"].items()}
    probability = model.predict_proba(X)
    expected = np.mean([log_loss(L[:, k], probability[:, k]) for k in range(3)])
    assert scores["logloss"] == pytest.approx(expected)
    assert scores["accuracy"] == pytest.approx((model.predict(X) == L).mean())
    assert scores["auc"] > 0.9


def test_labels_of_other_forms() -> None:
    expected = HedgerowClassifier(n_estimators=3).fit(X, L).predict_proba(X)
    forms = (L.astype(bool), L.tolist(), csr_matrix(L), L.astype("f4"), np.asfortranarray(L))
    for form in forms:
        model = HedgerowClassifier(n_estimators=3).fit(X, form)
        np.testing.assert_array_equal(model.predict_proba(X), expected)
    always = L.copy()
    always[:, 1] = 1
    assert (HedgerowClassifier(n_estimators=3).fit(X, always).predict(X)[:, 1] == 1).all()


# ------------------------------------------------------------------ what cannot be


MANY = np.tile(Y, (1, 11))


@pytest.mark.parametrize(
    ("params", "y", "match"),
    [
        ({"multi_strategy": ALL}, Y[:, 0], "one output"),
        ({"multi_strategy": ONE}, Y[:, 0], "one output"),
        ({"multi_strategy": "vectors"}, Y, "multi_strategy must be one of"),
        ({"multi_strategy": ALL, "bundle_features": True}, Y, "bundle_features=True"),
        ({"multi_strategy": ALL, "tree_method": "exact"}, Y, "'exact': use .*tree_method='hist'"),
        ({"multi_strategy": ALL, "tree_method": "approx"}, Y, "'approx': use .*tree_method='hist'"),
        ({"target_statistics": True, "categorical_features": ["x0"]}, MANY, "most 10 targets"),
        ({"objective": "quantile", "quantile": [0.1, 0.9]}, Y, "several columns of y"),
        ({"objective": "poisson"}, Y, "target 'y0'.*row"),
        ({"eval_metric": "auc"}, Y, "eval_metric 'auc'"),
    ],
)
def test_what_cannot_be_is_named(params, y, match) -> None:
    with pytest.raises((ParameterError, DataError), match=match):
        HedgerowRegressor(**params).fit(np.nan_to_num(X).round(), y)


@pytest.mark.parametrize(
    ("params", "y", "match"),
    [
        ({}, 2 * L, "column 0 holds 2 in row"),
        ({"class_weight": "balanced"}, L, "class_weight does not support several"),
        ({"objective": "softmax"}, L, "exclude each other"),
    ],
)
def test_what_cannot_be_a_label_is_named(params, y, match) -> None:
    with pytest.raises((ParameterError, DataError), match=match):
        HedgerowClassifier(**params).fit(X, y)


@pytest.mark.parametrize("labels", [False, True])
def test_a_model_is_continued_with_its_targets_in_their_order(labels: bool) -> None:
    kind: Any = HedgerowClassifier if labels else HedgerowRegressor
    loss = {"objective": "logistic"} if labels else {}
    y = {"b": Y[:, 0], "a": Y[:, 1], "c": Y[:, 2]}
    if labels:
        y = {name: (column > np.median(column)).astype(float) for name, column in y.items()}
    reordered = {name: y[name] for name in ("c", "b", "a")}
    first = kind(n_estimators=4, early_stopping=False).fit(X, y)
    more = kind(n_estimators=3, early_stopping=False)
    expected = more.fit(X, y, init_model=first, X_val=X, y_val=y).booster_
    found = more.fit(X, y, init_model=first, X_val=X, y_val=reordered)
    assert found.booster_.target_names == ("b", "a", "c")
    assert found.booster_.to_bytes() == expected.to_bytes()
    trees = {"n_estimators": 3, **loss}
    for other in (reordered, {name: y[name] for name in ("b", "a")}):
        with pytest.raises(ParameterError, match=r"targets=\['b', 'a', 'c'\].*this fit has.*give"):
            more.fit(X, other, init_model=first)
        with pytest.raises(ParameterError, match=r"targets=\['b', 'a', 'c'\].*this fit has.*give"):
            train(trees, Dataset(X, other), init_model=first)


@pytest.mark.parametrize("labels", [False, True])
def test_groups_and_columns_of_offsets_of_several_targets(labels: bool) -> None:
    kind: Any = HedgerowClassifier if labels else HedgerowRegressor
    y = L if labels else Y
    # Targets are noise, but neighbours share it: folds that divide them seem to predict it.
    rng, groups = np.random.default_rng(0), np.arange(400) // 10
    noise = rng.normal(size=(40, y.shape[1])).repeat(10, axis=0)
    noise = (noise > 0).astype(float) if labels else noise
    place = np.column_stack([rng.permutation(40)[groups] + rng.uniform(size=400)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        n_rounds = [
            kind(random_state=0, n_jobs=1, learning_rate=0.3, max_leaves=31)
            .fit(place, noise, groups=given)
            .n_iter_
            for given in (None, groups)
        ]
    assert n_rounds[0] > 10 * n_rounds[1]
    columns = {f"x{k}": column for k, column in enumerate(X.T)}
    offset = {f"o{k}": np.full(len(X), 0.1 * k) for k in range(y.shape[1])}
    params = {"n_estimators": 4, "early_stopping": False}
    by_name = kind(**params).fit(columns | offset, y, offset=list(offset))
    values = np.column_stack(list(offset.values()))
    by_array = kind(**params).fit(columns, y, offset=values)
    raw = by_name.booster_.predict(columns | offset, kind="raw")
    plain = by_array.booster_.predict(
        columns, kind="raw", offset=np.column_stack([*offset.values()])
    )
    assert (raw == plain).all()
    with pytest.raises(DataError, match="offset names 1 column"):
        kind(**params).fit(columns | offset, y, offset="o0")


def test_targets_may_be_a_dict() -> None:
    y = {"first": Y[:, 0], "second": Y[:, 1].tolist()}
    model = HedgerowRegressor(n_estimators=3, early_stopping=False).fit(X, y)
    assert model.booster_.target_names == ("first", "second")
    assert (model.predict(X) == model.fit(X, Y[:, :2]).predict(X)).all()
    one = HedgerowRegressor(n_estimators=3, early_stopping=False)
    assert (one.fit(X, {"y": Y[:, 0]}).predict(X) == one.fit(X, Y[:, 0]).predict(X)).all()
    for wrong, match in (
        ({"a": Y[:, 0], 1: Y[:, 1]}, "keys name targets; got 1"),
        ({"a": Y[:, 0], "b": Y[:5, 1]}, r"column 'b'\) has 5 values"),
        ({"a": Y[:, 0], "b": ["x"] * len(Y)}, r"column 'b'\) must hold numbers"),
        ({}, "dict"),
    ):
        with pytest.raises((DataError, DataTypeError), match=match):
            one.fit(X, wrong)


def test_faults_of_targets_are_named() -> None:
    wrong = Y.copy()
    wrong[7, 1] = np.nan
    with pytest.raises(DataError, match=r"y \(column 1\) contains NaN .* row 7"):
        HedgerowRegressor().fit(X, wrong)
    with pytest.raises(DataError, match=r"y_val has 2 column\(s\), but the model predicts 3"):
        HedgerowRegressor().fit(X, Y, X_val=X, y_val=Y[:, :2])
    with pytest.raises(DataError, match="y has 5 values for 900 rows"):
        HedgerowRegressor().fit(X, Y[:5])
    with pytest.raises(ParameterError, match="several columns"):
        train({"objective": "softmax"}, Dataset(X, L))


# ------------------------------------------------------------------ defaults and scores


def test_scores_by_raw_scores_and_scorers() -> None:
    model = HedgerowRegressor(eval_metric="neg_mean_absolute_error", **SMALL).fit(X, Y)
    scores, prediction = model.evals_result_["train"], model.predict(X)
    wanted = mean_absolute_error(Y, prediction)
    assert scores["neg_mean_absolute_error"][-1] == pytest.approx(-wanted)
    model = HedgerowClassifier(eval_metric=["hinge", "f1"], **SMALL).fit(X, L)
    scores, raw = model.evals_result_["train"], model.booster_.predict(X, kind="raw")
    hinge = np.maximum(0.0, 1.0 - np.where(L == 1, 1.0, -1.0) * raw).mean()
    assert scores["hinge"][-1] == pytest.approx(hinge)
    assert scores["f1"][-1] == pytest.approx(f1_score(L, model.predict(X), average="macro"))


@pytest.mark.parametrize("kind", [csr_matrix, coo_array])
def test_a_sparse_target_of_one_column(kind) -> None:
    X, y = np.arange(60.0).reshape(20, 3), np.arange(20.0)
    labels = (y > 9.0).astype(int)
    for model, target in (
        (HedgerowRegressor(n_estimators=3), y),
        (HedgerowClassifier(n_estimators=3), labels),
        (CARTRegressor(), y),
        (CARTClassifier(), labels),
    ):
        expected = model.fit(X, target).predict(X)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = model.fit(X, kind(target[:, None])).predict(X)
        np.testing.assert_array_equal(found, expected)
    whole = train({"n_estimators": 3}, Dataset(X, y)).to_bytes()
    assert train({"n_estimators": 3}, Dataset(X, kind(y[:, None]))).to_bytes() == whole
