"""Code of users of other boosters: training loops, ``cv``, ``eval``, bytes, JSON, first rounds."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import log_loss, mean_absolute_error
from sklearn.model_selection import GroupKFold, KFold

from hedgerow import (
    Booster,
    Dataset,
    HedgerowClassifier,
    HedgerowRanker,
    HedgerowRegressor,
    Training,
    cross_fit,
    cv,
    load,
    train,
)
from hedgerow.errors import DataError, DataTypeError, LossError, ModelFormatError, ParameterError

PLAIN = {"learning_rate": 0.2, "max_leaves": 7, "min_samples_leaf": 5}


def make_rows(n_rows: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    r = np.random.default_rng(seed)
    X = r.normal(size=(n_rows, 4))
    X[r.random(X.shape) < 0.1] = np.nan
    return X, np.nan_to_num(X[:, 0] - X[:, 1]) + r.normal(scale=0.5, size=n_rows)


X, Y = make_rows()
DATA, OTHER = Dataset(X[:200], Y[:200]), Dataset(X[200:], Y[200:])


# -- a round at a time -----------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"subsample": 0.6, "colsample_bynode": 0.5},
        {"boosting": "dart", "drop_rate": 0.5},
        {"objective": "absolute_error"},
        {"sampling": "goss"},
        {"tree_method": "exact"},
        {"grow_policy": "symmetric", "max_leaves": None, "max_depth": 3},
        {"linear_leaves": True},
    ],
)
def test_rounds_give_the_model_of_train(more: dict[str, Any]) -> None:
    params = {**PLAIN, **more}
    with Training(params, DATA, OTHER) as training:
        for _ in range(7):
            scores = training.update()
        found = training.booster()
    expected = train({**params, "n_estimators": 7, "early_stopping": False}, DATA, OTHER)
    assert found.to_bytes() == expected.to_bytes()
    assert scores == {"validation": {"loss": expected.evals_result["validation"]["loss"][-1]}}


def test_forest_a_tree_at_a_time() -> None:
    params = {"boosting": "rf", "subsample": 0.5, "max_leaves": 7}
    with Training(params, DATA) as training:
        for _ in range(5):
            training.update()
        found = training.booster()
    expected = train({**params, "n_estimators": 5, "early_stopping": False}, DATA)
    assert found.to_bytes() == expected.to_bytes()


def test_looking_changes_nothing() -> None:
    with Training(PLAIN, DATA) as training:
        for number in range(4):
            training.update()
            before = training.booster()
            assert before.num_rounds == training.num_rounds == number + 1
            training.eval(OTHER)
        last = training.booster()
    assert (
        last.to_bytes()
        == train({**PLAIN, "n_estimators": 4, "early_stopping": False}, DATA).to_bytes()
    )


def test_changed_rates_are_those_of_a_list() -> None:
    rates = [0.3, 0.3, 0.1, 0.05]
    with Training({**PLAIN, "learning_rate": 0.3}, DATA) as training:
        for number, rate in enumerate(rates):
            if number:
                training.set_params(learning_rate=rate)
            training.update()
        found = training.booster()
    params = {**PLAIN, "learning_rate": rates, "n_estimators": 4, "early_stopping": False}
    expected = train(params, DATA)
    assert found.predict(X).tobytes() == expected.predict(X).tobytes()
    assert found.model.training["parameters"]["learning_rate"] == rates


@pytest.mark.parametrize("boosting", ["gbdt", "dart"])
def test_changed_trees_are_those_of_going_on(boosting: str) -> None:
    """Rounds after a change equal those of a continued fit with the new settings."""
    with Training({**PLAIN, "boosting": boosting}, DATA) as training:
        for _ in range(3):
            training.update()
        first = training.booster()
        training.set_params(max_leaves=3, learning_rate=0.5, reg_lambda=5.0)
        for _ in range(3):
            training.update()
        found = training.booster()
    leaves = [int((found.model.forest.tree(t).feature < 0).sum()) for t in range(6)]
    assert leaves[:3] == [7, 7, 7]
    assert leaves[3:] == [3, 3, 3]
    assert found.model.training["parameters"]["learning_rate"] == [0.2] * 3 + [0.5] * 3
    if boosting == "gbdt":
        params = {**PLAIN, "max_leaves": 3, "learning_rate": 0.5, "reg_lambda": 5.0}
        more = train({**params, "n_estimators": 3, "early_stopping": False}, DATA, init_model=first)
        np.testing.assert_allclose(found.predict(X), more.predict(X), rtol=1e-12)


def test_going_on_from_a_model() -> None:
    first = train({**PLAIN, "n_estimators": 3, "early_stopping": False}, DATA)
    with Training(PLAIN, DATA, OTHER, init_model=first) as training:
        assert training.num_rounds == 3
        training.update()
        training.update()
        found = training.booster()
    expected = train(
        {**PLAIN, "n_estimators": 2, "early_stopping": False}, DATA, OTHER, init_model=first
    )
    assert found.to_bytes() == expected.to_bytes()


def test_scores_by_name_and_of_the_training_rows() -> None:
    with Training({**PLAIN, "eval_metric": ["mae", "mse"]}, DATA, {"a": OTHER, "train": DATA}) as t:
        scores = t.update()
        booster = t.booster()
    assert scores["a"] == pytest.approx(booster.eval(OTHER, ["mae", "mse"]))
    assert scores["train"] == pytest.approx(booster.eval(DATA, ["mae", "mse"]))


def test_a_failed_round_keeps_the_others() -> None:
    calls = []

    def metric(y: Any, prediction: Any, weight: Any) -> float:
        calls.append(1)
        return math.nan if len(calls) == 3 else 1.0

    training = Training({**PLAIN, "eval_metric": metric}, DATA, OTHER)
    training.update()
    training.update()
    with pytest.raises(LossError, match="round 3"):
        training.update()
    assert training.booster().num_rounds == 2
    with pytest.raises(ParameterError, match="closed"):
        training.update()


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"n_estimators": 5}, "update"),
        ({"patience": 5}, "the caller decides"),
        ({"early_stopping": True}, "the caller decides"),
        ({"learning_rate": [0.1, 0.2]}, "set_params"),
        ({"max_leafs": 5}, "no parameter 'max_leafs'. Did you mean"),
    ],
)
def test_training_refuses_what_has_no_effect(params: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        Training(params, DATA)


def test_set_params_refuses() -> None:
    with Training(PLAIN, DATA) as training:
        for wrong in ({"max_bins": 5}, {"learning_rate": -1.0}, {"max_leave": 3}):
            with pytest.raises(ParameterError):
                training.set_params(**wrong)
        with pytest.raises(ParameterError, match="no round"):
            training.booster()


# -- eval ------------------------------------------------------------------------------


def test_eval_is_the_metric_of_the_predictions() -> None:
    weight = np.r_[np.zeros(20), np.linspace(1, 2, 80)]
    booster = train({**PLAIN, "n_estimators": 5}, DATA)
    found = booster.eval(Dataset(X[200:], Y[200:], weight), "mae")
    expected = mean_absolute_error(Y[200:], booster.predict(X[200:]), sample_weight=weight)
    assert found == {"mae": pytest.approx(expected)}


def test_eval_knows_labels_and_class_weights() -> None:
    y = np.where(Y > 0.8, "high", "low")
    model = HedgerowClassifier(n_estimators=5, class_weight="balanced").fit(X, y)
    found = model.booster_.eval(Dataset(X, y), ["loss", "auc"])
    assert found["loss"] == pytest.approx(log_loss(y, model.predict_proba(X)))
    again = Booster.from_bytes(model.booster_.to_bytes())
    assert again.eval(Dataset(X, y), ["loss", "auc"]) == found


def test_eval_of_rankings_and_offsets() -> None:
    qid, grades = np.repeat(np.arange(30), 10), np.random.default_rng(0).integers(0, 3, 300)
    ranker = HedgerowRanker(n_estimators=5).fit(X, grades, qid=qid)
    score = ranker.booster_.eval(Dataset(X, grades, qid=qid), "ndcg")["ndcg"]
    assert score == pytest.approx(ranker.score(X, grades, qid=qid))
    table = {"a": X[:, 0], "b": X[:, 1], "base": np.nan_to_num(X[:, 3])}
    model = HedgerowRegressor(n_estimators=5).fit(table, Y, offset="base")
    assert model.booster_.eval(Dataset(table, Y), "mae")["mae"] == pytest.approx(
        mean_absolute_error(Y, model.predict(table))
    )


@pytest.mark.parametrize("labels", [False, True])
def test_eval_of_files(tmp_path: Path, labels: bool) -> None:
    pytest.importorskip("pyarrow")
    X0 = np.nan_to_num(X)
    y = np.where(Y > 0, "yes", "no") if labels else Y
    lines = ["a,b,c,d,w,y"] + [
        ",".join([*(f"{v:.17g}" for v in row), str(k % 3), str(target)])
        for k, (row, target) in enumerate(zip(X0, y, strict=True))
    ]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(lines) + "\n")
    rows = Dataset.from_files(path, target="y", weight="w")
    table = {name: X0[:, j] for j, name in enumerate("abcd")}
    weight = np.arange(300) % 3
    kind = HedgerowClassifier if labels else HedgerowRegressor
    booster = kind(n_estimators=5).fit(table, y, weight).booster_
    metrics = ["loss", "auc"] if labels else ["mae", "r2"]
    found = booster.eval(rows, metrics)
    assert found == pytest.approx(booster.eval(Dataset(table, y, weight), metrics))


def test_eval_refuses() -> None:
    booster = train({**PLAIN, "n_estimators": 2}, DATA)
    with pytest.raises(DataTypeError, match="Dataset"):
        booster.eval((X, Y))  # type: ignore[arg-type]
    with pytest.raises(DataError, match="target"):
        booster.eval(Dataset(X))
    with pytest.raises(ParameterError):
        booster.eval(DATA, "auk")


# -- cv --------------------------------------------------------------------------------


def test_cv_has_the_curves_of_its_folds() -> None:
    params = {**PLAIN, "n_estimators": 6, "train_scores": True, "eval_metric": ["mae", "loss"]}
    found = cv(params, DATA, 3, keep_models=True)
    assert {rows: sorted(c) for rows, c in found.curves.items()} == {
        "validation": ["loss", "mae"],
        "train": ["loss", "mae"],
    }
    for k, (seen, tested) in enumerate(found.splits):
        for rows, place in (("validation", tested), ("train", seen)):
            score = mean_absolute_error(Y[place], found.boosters[k].predict(X[place]))
            assert found.curves[rows]["mae"][-1, k] == pytest.approx(score)
    mean = found.mean["validation"]["mae"]
    assert mean.tolist() == found.curves["validation"]["mae"].mean(axis=1).tolist()
    assert len(mean) == 6
    assert found.best_round == int(np.argmin(mean)) + 1


def test_cv_is_cross_fit_of_the_estimator() -> None:
    params = {**PLAIN, "n_estimators": 60, "patience": 3}
    found = cv({**params, "early_stopping": True}, DATA, 4)
    fitted = cross_fit(
        HedgerowRegressor(**params, early_stopping=True), X[:200], Y[:200], 4, model=None
    )
    np.testing.assert_array_equal(found.curves["validation"]["loss"], fitted.curves["loss"])
    assert found.best_round == fitted.best_rounds[0]


def test_cv_spreads_classes() -> None:
    y = (Y[:200] > 1.5).astype(float)
    data = Dataset(X[:200], y)
    params = {"objective": "logistic", "n_estimators": 2}
    shares = [y[test].mean() for _, test in cv(params, data, 4).splits]
    assert np.ptp(shares) < 0.03
    plain = cv(params, data, 4, stratified=False)
    assert np.ptp([y[test].mean() for _, test in plain.splits]) > np.ptp(shares)


def test_cv_of_groups_splitters_and_queries() -> None:
    groups = np.arange(200) // 4
    for found in (
        cv({"n_estimators": 2}, DATA, 5, groups=groups),
        cv({"n_estimators": 2}, Dataset(X[:200], Y[:200], groups=groups), 5),
        cv({"n_estimators": 2}, DATA, GroupKFold(5), groups=groups),
    ):
        for seen, tested in found.splits:
            assert not set(groups[seen]) & set(groups[tested])
    folds = list(KFold(4).split(X[:200]))
    found = cv({"n_estimators": 2}, DATA, folds)
    assert all((a[1] == b[1]).all() for a, b in zip(found.splits, folds, strict=True))
    qid, grades = np.repeat(np.arange(20), 10), np.random.default_rng(0).integers(0, 3, 200)
    ranked = cv({"objective": "lambdarank", "n_estimators": 2, "eval_metric": "ndcg"},
                Dataset(X[:200], grades, qid=qid), 4)  # fmt: skip
    assert all(not set(qid[a]) & set(qid[b]) for a, b in ranked.splits)


def test_cv_without_rows_of_weight_0() -> None:
    weight = np.r_[np.zeros(40), np.ones(160)]
    folds = list(KFold(4, shuffle=True, random_state=0).split(X[:200]))

    def scores(start: int, weight: Any, folds: Any) -> Any:
        metrics = ["loss", "mae"]
        params = {"n_estimators": 3, "eval_metric": metrics}
        return cv(params, Dataset(X[start:200], Y[start:200], weight), folds).mean["validation"]

    found = scores(0, weight, folds)
    alone = scores(40, None, [(a[a >= 40] - 40, b[b >= 40] - 40) for a, b in folds])
    assert sorted(found) == sorted(alone)
    for name in found:
        assert found[name] == pytest.approx(alone[name])


@pytest.mark.parametrize(
    ("params", "more", "words"),
    [
        ({"early_stopping": "cv"}, {}, "does not use the test rows"),
        ({"time_budget": 3.0}, {}, "time_budget"),
        ({}, {"folds": KFold(3), "stratified": True}, "stratified"),
        ({}, {"stratified": 3}, "stratified"),
        ({}, {"stratified": True}, "200 rows have 200 different values"),
        ({}, {"stratified": True, "groups": [0, 1, 2, 3] * 50}, "groups or queries"),
        ({}, {"folds": 1}, "at least 2"),
    ],
)
def test_cv_refuses(params: dict[str, Any], more: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        cv(params, DATA, **more)


# -- bytes, attributes -----------------------------------------------------------------


def test_bytes_are_those_of_the_file(tmp_path: Path) -> None:
    y = np.where(Y > 0, "yes", "no")
    booster = HedgerowClassifier(n_estimators=3).fit(X, y).booster_
    booster.save(tmp_path / "model")
    assert booster.to_bytes() == (tmp_path / "model").read_bytes()
    again = Booster.from_bytes(booster.to_bytes())
    assert (again.predict(X) == booster.predict(X)).all()
    with pytest.raises(ModelFormatError):
        Booster.from_bytes(booster.to_bytes()[:-1])


def test_attributes_are_kept(tmp_path: Path) -> None:
    booster = train({**PLAIN, "n_estimators": 2}, DATA)
    assert dict(booster.attributes) == {}
    before = booster.predict(X)
    plain = booster.to_bytes()
    booster.set_attributes(data="2026", note="ä")
    booster.set_attributes(data=None)
    booster.save(tmp_path / "model")
    assert dict(load(tmp_path / "model").attributes) == {"note": "ä"}
    assert (load(tmp_path / "model").predict(X) == before).all()
    booster.set_attributes(note=None)
    assert booster.to_bytes() == plain
    with pytest.raises(DataTypeError, match="must be a text"):
        booster.set_attributes(count=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        booster.attributes["x"] = "y"  # type: ignore[index]


# -- parts of the rounds -----------------------------------------------------------------


def test_rounds_add_up() -> None:
    booster = train({**PLAIN, "n_estimators": 8, "early_stopping": False}, DATA)
    base = booster.model.forest.base_score[0]
    first = booster.predict(X, "raw", n_rounds=3)
    rest = booster.predict(X, "raw", first_round=3)
    np.testing.assert_allclose(first + rest - base, booster.predict(X, "raw"), rtol=1e-12)
    middle = booster.predict(X, "raw", first_round=3, n_rounds=2)
    np.testing.assert_allclose(
        middle - base, booster.predict(X, "raw", n_rounds=5) - first, rtol=1e-9, atol=1e-12
    )
    assert (booster.predict(X, "leaf", first_round=3, n_rounds=2)
            == booster.predict(X, "leaf")[:, 3:5]).all()  # fmt: skip
    for wrong in ({"first_round": 9}, {"first_round": -1}, {"first_round": 4, "n_rounds": 5}):
        with pytest.raises(ParameterError):
            booster.predict(X, **wrong)


@pytest.mark.parametrize("objective", ["squared_error", "softmax"])
def test_prefix_of_a_forest_is_the_smaller_forest(objective: str) -> None:
    y = np.digitize(Y, [-0.5, 0.5]).astype(float) if objective == "softmax" else Y
    params = {"boosting": "rf", "subsample": 0.5, "objective": objective, "early_stopping": False}
    large = train({**params, "n_estimators": 10}, Dataset(X, y))
    small = train({**params, "n_estimators": 4}, Dataset(X, y))
    found = large.predict(X, "raw", n_rounds=4)
    np.testing.assert_allclose(found, small.predict(X, "raw"), rtol=1e-12)
    stages = list(large.staged_predict(X, "raw"))
    assert len(stages) == 10
    np.testing.assert_array_equal(stages[3], found)
    np.testing.assert_array_equal(stages[9], large.predict(X, "raw"))


def test_dart_has_leaves_of_some_rounds_but_no_values() -> None:
    booster = train({**PLAIN, "boosting": "dart", "n_estimators": 4}, DATA)
    with pytest.raises(ParameterError, match="rescaled"):
        booster.predict(X, n_rounds=2)
