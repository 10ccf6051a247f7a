"""XGBoost models: the same leaves; raw scores differ by float32 rounding only."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import hedgerow
from hedgerow import ModelFormatError
from tests.helpers.foreign_models import adult, california, rows_near_cuts, same_partition

xgboost = pytest.importorskip("xgboost")


def brought(model, tmp_path, suffix="json"):
    path = tmp_path / f"model.{suffix}"
    model.save_model(path)
    return hedgerow.load(path)


def assert_same_trees(one, other) -> None:
    """Compare models of both kinds of files: text has fewer digits of gains and covers."""
    a, b = one.model.forest, other.model.forest
    for name in ("feature", "threshold", "missing_left", "left", "right", "base_score", "vectors"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    leaves = a.feature < 0
    np.testing.assert_array_equal(a.value[leaves], b.value[leaves])
    assert one.model.schema == other.model.schema


def summed_in_float32(booster, leaves) -> np.ndarray:
    """Return raw scores added like XGBoost does: float32, tree by tree."""
    forest = booster.model.forest
    scores = np.tile(forest.base_score.astype(np.float32), (len(leaves), 1))
    for tree in range(forest.n_trees):
        values = forest.value[forest.tree_start[tree] + leaves[:, tree]].astype(np.float32)
        scores[:, tree % forest.n_outputs] += values
    return scores


def check(model, booster, table, rows, exact_sums=True) -> None:
    theirs = model.predict(table, pred_leaf=True).reshape(booster.num_trees and len(rows), -1)
    ours = booster.predict(rows, kind="leaf")
    assert same_partition(ours, theirs)
    margin = model.predict(table, output_margin=True)
    raw = booster.predict(rows, kind="raw")
    np.testing.assert_allclose(raw, margin, rtol=2e-5, atol=2e-5)
    if exact_sums and booster.model.forest.vectors is None:
        single = summed_in_float32(booster, ours).reshape(margin.shape)
        np.testing.assert_array_equal(single, margin)


@pytest.fixture(scope="module")
def numbers(shared_data):
    return california(shared_data("california"))


OBJECTIVES = [
    {},
    {"tree_method": "exact"},
    {"tree_method": "approx"},
    {"max_depth": 0, "max_leaves": 30, "grow_policy": "lossguide"},
    {"max_depth": 12, "min_child_weight": 0, "gamma": 1.0},
    {"objective": "reg:absoluteerror"},
    {"objective": "reg:pseudohubererror"},
    {"objective": "reg:squaredlogerror"},
    {"objective": "reg:quantileerror", "quantile_alpha": 0.9},
    {"objective": "count:poisson"},
    {"objective": "reg:gamma"},
    {"objective": "reg:tweedie"},
    {"objective": "reg:squarederror", "base_score": 3.0},
    {"objective": "survival:cox"},
]


@pytest.mark.fast(7)
@pytest.mark.parametrize("params", OBJECTIVES, ids=str)
def test_numbers_on_the_cuts(numbers, params, tmp_path) -> None:
    X, y = numbers
    given = {"max_depth": 5, "nthread": 1, **params}
    model = xgboost.train(given, xgboost.DMatrix(X, y), 15)
    booster = brought(model, tmp_path)
    assert_same_trees(brought(model, tmp_path, "ubj"), booster)
    rows = rows_near_cuts(booster, narrow=True)
    check(model, booster, xgboost.DMatrix(rows), rows)
    np.testing.assert_allclose(
        booster.predict(X), model.predict(xgboost.DMatrix(X)), rtol=1e-4, atol=1e-5
    )


@pytest.mark.fast(6)
@pytest.mark.parametrize(
    "objective",
    [
        "binary:logistic",
        "binary:logitraw",
        "binary:hinge",
        "reg:logistic",
        "multi:softprob",
        "multi:softmax",
    ],
)
@pytest.mark.parametrize("parallel", [1, 3])
def test_classes(numbers, objective, parallel, tmp_path) -> None:
    X, y = numbers
    many = objective.startswith("multi")
    labels = pd.qcut(y, 3, labels=False) if many else (y > np.median(y)).astype(int)
    given = {
        "objective": objective,
        "num_parallel_tree": parallel,
        "subsample": 0.6,
        "max_depth": 3,
    }
    if many:
        given["num_class"] = 3
    table = xgboost.DMatrix(X, labels)
    model = xgboost.train(given, table, 10)
    booster = brought(model, tmp_path)
    margin = model.predict(table, output_margin=True)
    np.testing.assert_allclose(booster.predict(X, kind="raw"), margin, atol=2e-5)
    found = model.predict(table)
    if objective == "binary:logistic":
        np.testing.assert_allclose(booster.predict(X, kind="probability")[:, 1], found, atol=1e-5)
    elif objective == "multi:softprob":
        np.testing.assert_allclose(booster.predict(X, kind="probability"), found, atol=1e-5)
    elif objective in ("binary:hinge", "multi:softmax"):
        assert (booster.predict(X) == found).mean() > 0.999
    else:
        np.testing.assert_allclose(booster.predict(X), found, atol=2e-5)


@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
def test_several_targets(numbers, strategy, tmp_path) -> None:
    X, y = numbers
    table = xgboost.DMatrix(X, np.column_stack([y, -y, y**2]))
    model = xgboost.train({"multi_strategy": strategy, "max_depth": 4}, table, 10)
    booster = brought(model, tmp_path)
    assert_same_trees(brought(model, tmp_path, "ubj"), booster)
    np.testing.assert_allclose(booster.predict(X), model.predict(table), rtol=1e-5)
    assert (booster.model.forest.vectors is None) == (strategy == "one_output_per_tree")


SINGLE = {
    **dict.fromkeys(("reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror"), "all"),
    **dict.fromkeys(("reg:squaredlogerror", "reg:gamma", "reg:tweedie"), "positive"),
    **dict.fromkeys(("reg:logistic", "count:poisson"), "shares"),
    **dict.fromkeys(("binary:logistic", "binary:logitraw", "binary:hinge"), "labels"),
}


@pytest.mark.parametrize("objective", SINGLE)
def test_several_targets_of_every_objective(objective) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = {
        "all": X[:, :2],
        "positive": np.exp(X[:, :2]),
        "shares": 1.0 / (1.0 + np.exp(X[:, :2])),
        "labels": (X[:, :2] > 0.0) * 1.0,
    }[SINGLE[objective]]
    table = xgboost.DMatrix(X, y)
    model = xgboost.train({"objective": objective, "max_depth": 2}, table, 5)
    booster = hedgerow.from_xgboost(model)
    kind = "probability" if objective == "binary:logistic" else "value"
    np.testing.assert_allclose(booster.predict(X, kind=kind), model.predict(table), rtol=1e-5)
    assert len(booster.target_names) == 2


def test_both_files_of_dart_have_the_same_weights(numbers, tmp_path) -> None:
    X, y = numbers
    given = {"booster": "dart", "rate_drop": 0.3, "one_drop": 1, "max_depth": 2}
    model = xgboost.train(given, xgboost.DMatrix(X, y), 8)
    values = [brought(model, tmp_path, suffix).model.forest.value for suffix in ("json", "ubj")]
    np.testing.assert_array_equal(*values)


@pytest.mark.parametrize("onehot", [1, 100])
def test_pandas_categories(shared_data, onehot, tmp_path) -> None:
    X, y = adult(shared_data("adult"))
    given = {"objective": "binary:logistic", "max_cat_to_onehot": onehot, "max_depth": 5}
    table = xgboost.DMatrix(X, y, enable_categorical=True)
    model = xgboost.train(given, table, 15)
    booster = brought(model, tmp_path)
    assert_same_trees(brought(model, tmp_path, "ubj"), booster)
    assert booster.feature_names == tuple(X.columns)
    check(model, booster, table, X)
    booster.save(tmp_path / "again.hedgerow")
    again = hedgerow.load(tmp_path / "again.hedgerow")
    odd = X.copy()
    odd["occupation"] = odd["occupation"].astype(object)
    odd.loc[::3, "occupation"] = "never seen"
    np.testing.assert_array_equal(again.predict(odd), booster.predict(odd))


def test_numbers_as_categories(numbers, tmp_path) -> None:
    """Unknown categories go left, missing ones to the default side."""
    X, y = numbers
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 40, len(X)).astype(float)
    codes[rng.random(len(X)) < 0.2] = np.nan
    X = np.column_stack([X[:, :3], codes])
    y = y + np.nan_to_num(codes % 3)
    types = ["float"] * 3 + ["c"]
    table = xgboost.DMatrix(X, y, feature_types=types, enable_categorical=True)
    model = xgboost.train({"max_cat_to_onehot": 1, "max_depth": 5}, table, 15)
    booster = brought(model, tmp_path)
    pool = np.r_[np.arange(50.0), np.nan, 3.7, 1e6, 2.0**24, -0.0]
    rows = rows_near_cuts(booster, narrow=True, codes={3: pool})
    data = xgboost.DMatrix(rows, feature_types=types, enable_categorical=True)
    check(model, booster, data, rows)
    assert booster.model.schema.unknown == "split"
    booster.save(tmp_path / "again.hedgerow")
    again = hedgerow.load(tmp_path / "again.hedgerow")
    np.testing.assert_array_equal(again.predict(rows), booster.predict(rows))
    single = np.array([again.predict(row[None]) for row in rows[:200]]).ravel()
    np.testing.assert_array_equal(single, booster.predict(rows[:200]))
    assert "other" in booster.to_text() or "left" in booster.to_text()
    with pytest.raises(hedgerow.ParameterError, match="another library"):
        hedgerow.train({"n_estimators": 1}, hedgerow.Dataset(X, y), init_model=booster)


@pytest.mark.parametrize("kind", ["text", "numbers"])
@pytest.mark.parametrize("settings", [{}, {"booster": "dart", "rate_drop": 0.3}])
def test_part_of_the_rounds_keeps_the_categories(kind, settings) -> None:
    rng = np.random.default_rng(0)
    levels = np.array(["red", "green", "blue"]) if kind == "text" else np.array([10, 20, 30])
    code = rng.integers(0, 3, 300)
    frame = pd.DataFrame({"x": rng.normal(size=300), "c": pd.Categorical(levels[code])})
    labels = (frame["x"] + (code == 1) > 0.3).astype(int)
    stopped = xgboost.XGBClassifier(
        n_estimators=20, early_stopping_rounds=2, enable_categorical=True, **settings
    )
    stopped.fit(frame, labels, eval_set=[(frame[:50], 1 - labels[:50])], verbose=False)
    booster = hedgerow.from_xgboost(stopped)
    assert (
        booster.num_rounds
        == stopped.best_iteration + 1
        < stopped.get_booster().num_boosted_rounds()
    )
    np.testing.assert_allclose(
        booster.predict(frame, kind="probability"), stopped.predict_proba(frame), atol=1e-6
    )
    two = hedgerow.from_xgboost(stopped, n_rounds=2).predict(frame, kind="raw")
    theirs = stopped.get_booster().predict(
        xgboost.DMatrix(frame, enable_categorical=True), iteration_range=(0, 2), output_margin=True
    )
    np.testing.assert_allclose(two, theirs, atol=1e-6)


@pytest.mark.parametrize("n_rounds", [0, -1, 4, 2.0, True, "2"])
def test_impossible_numbers_of_rounds_are_named(numbers, n_rounds) -> None:
    X, y = numbers
    model = xgboost.train({"max_depth": 2}, xgboost.DMatrix(X, y), 3)
    with pytest.raises(hedgerow.ParameterError, match="n_rounds must be an integer from 1 to 3"):
        hedgerow.from_xgboost(model, n_rounds=n_rounds)


def edited(model, tmp_path, edit) -> str:
    path = tmp_path / "model.json"
    model.save_model(path)
    record = json.loads(path.read_text())
    edit(record)
    path.write_text(json.dumps(record))
    return str(path)


def test_what_is_no_model_of_trees_is_refused(numbers, tmp_path) -> None:
    X, y = numbers
    with np.errstate(all="ignore"):
        linear = xgboost.train({"booster": "gblinear"}, xgboost.DMatrix(np.nan_to_num(X), y), 2)
    with pytest.raises(ModelFormatError, match="gblinear"):
        brought(linear, tmp_path)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda r: r["learner"]["objective"].update(name="my:loss"), "my:loss"),
        (lambda r: r["learner"]["learner_model_param"].update(num_feature="2"), "column|names"),
        (lambda r: r["learner"]["learner_model_param"].update(base_score="x"), "base_score"),
        (
            lambda r: tree(r).update(left_children=[0] * len(tree(r)["left_children"])),
            "parent|child",
        ),
        (lambda r: tree(r).update(split_conditions=[float("nan")] * 3), "numbers"),
        (lambda r: tree(r)["split_conditions"].__setitem__(0, float("nan")), "NaN"),
        (lambda r: tree(r)["right_children"].__setitem__(0, 10**6), "child"),
        (lambda r: r["learner"].pop("gradient_booster"), "gradient_booster"),
    ],
)
def test_damage_is_named(numbers, edit, words, tmp_path) -> None:
    X, y = numbers
    model = xgboost.train({"max_depth": 3}, xgboost.DMatrix(X, y), 3)
    with pytest.raises(ModelFormatError, match=words):
        hedgerow.load(edited(model, tmp_path, edit))


def tree(record):
    return record["learner"]["gradient_booster"]["model"]["trees"][0]


@pytest.mark.parametrize("missing_left", [0, 1])
@pytest.mark.parametrize(
    "cut",
    [-np.inf, np.inf, 0.0, -0.0, 3.4028234663852886e38, -3.4028234663852886e38, 1e-45, -1e-45],
)
def test_extreme_cuts(numbers, cut, missing_left, tmp_path) -> None:
    X, y = numbers
    model = xgboost.train({"max_depth": 1}, xgboost.DMatrix(X[:, :1], y), 1)

    def edit(record) -> None:
        tree(record)["split_conditions"][0] = cut
        tree(record)["default_left"][0] = missing_left

    booster = hedgerow.load(edited(model, tmp_path, edit))
    values = np.array(
        [
            0.0,
            -0.0,
            1e-45,
            7e-46,
            7.1e-46,
            -1e-45,
            1e38,
            3.4028234663852886e38,
            3.402823567797337e38,
            3.4028235677973366e38,
            np.inf,
            -np.inf,
        ]
    )
    left = np.append(values.astype(np.float32) < np.float32(cut), bool(missing_left))
    leaf = np.array(tree(json.loads((tmp_path / "model.json").read_text()))["split_conditions"])
    expected = np.where(left, np.float32(leaf[1]), np.float32(leaf[2])).astype(np.float64)
    found = booster.predict(np.append(values, np.nan)[:, None], kind="raw")
    np.testing.assert_array_equal(found, booster.model.forest.base_score[0] + expected)
