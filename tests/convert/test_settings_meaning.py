"""Units, defaults and estimators of LightGBM and XGBoost: a name keeps its meaning."""

from __future__ import annotations

import numpy as np
import pytest

import hedgerow
from hedgerow import (
    Dataset,
    HedgerowClassifier,
    HedgerowRegressor,
    from_lightgbm_params,
    from_xgboost_params,
    train,
)
from hedgerow.convert.settings.xgboost import XGBOOST

FUNCTIONS = [from_lightgbm_params, from_xgboost_params]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    return X, X[:, 0] + X[:, 1] ** 2


# -- units and defaults ----------------------------------------------------------------------


@pytest.mark.parametrize("penalty", [90.0, 110.0])
@pytest.mark.parametrize("peer", ["lightgbm", "xgboost"])
def test_the_penalty_of_splits_has_the_unit_of_the_peer(peer, penalty) -> None:
    library = pytest.importorskip(peer)
    X = np.repeat([0.0, 1.0], 50).reshape(-1, 1)
    y = 2.0 * X[:, 0]  # the only split has a gain of 100 in both libraries
    if peer == "lightgbm":
        given = {"min_gain_to_split": penalty, "learning_rate": 1.0, "num_iterations": 1}
        rows = library.Dataset(X, y)
        theirs = library.train({**given, "verbosity": -1}, rows).predict(X)
        ours = from_lightgbm_params(given)
    else:
        given = {"gamma": penalty, "lambda": 0.0, "eta": 1.0}
        theirs = library.train(given, library.DMatrix(X, y), 1).predict(library.DMatrix(X))
        ours = from_xgboost_params({**given, "n_estimators": 1})
    found = train(ours.params, Dataset(X, y)).predict(X)
    assert len(np.unique(found)) == len(np.unique(theirs)) == (2 if penalty < 100 else 1)
    assert ours.params["gamma"] == penalty / 2
    assert any("half the value" in line for line in ours.differences)


@pytest.mark.parametrize("slope", [0.0, 10.0])
@pytest.mark.parametrize("penalty", [0.0, 2.0, 5.0, 10.0, 120.0, 250.0])
@pytest.mark.parametrize("peer", ["lightgbm", "xgboost"])
def test_penalties_of_absolute_errors_have_the_unit_of_the_peer(peer, penalty, slope) -> None:
    library = pytest.importorskip(peer)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 1)).round(1)
    y = np.floor(2.0 * X[:, 0]) + 0.5 * rng.normal(size=600)
    if peer == "lightgbm":
        given = {"objective": "l1", "min_gain_to_split": penalty, "lambda_l1": slope}
        given |= {"num_leaves": 15, "min_data_in_leaf": 10, "num_iterations": 1}
        fitted = library.train({**given, "verbosity": -1}, library.Dataset(X, y))
        n_leaves = fitted.dump_model()["tree_info"][0]["num_leaves"]
        ours = from_lightgbm_params(given)
    else:
        given = {"objective": "reg:absoluteerror", "gamma": penalty, "alpha": slope, "max_depth": 4}
        fitted = library.train(given, library.DMatrix(X, y), 1)
        n_leaves = (fitted.trees_to_dataframe()["Feature"] == "Leaf").sum()
        ours = from_xgboost_params({**given, "n_estimators": 1})
    found = train(ours.params, Dataset(X, y)).model.forest
    assert (found.feature < 0).sum() == n_leaves
    assert ours.params["gamma"] == penalty / 8
    assert ours.params["reg_alpha"] == slope / 2


@pytest.mark.parametrize("function", FUNCTIONS)
def test_defaults_switch_off_what_the_library_does_not_have(function) -> None:
    found = function({}).params
    assert found["early_stopping"] is False
    assert found["linear_leaves"] is False
    assert found["feature_crosses"] is None
    settings = function({"early_stopping_rounds": "7"}).params
    assert (settings["early_stopping"], settings["patience"]) == (True, 7)
    assert "early_stopping" not in function({}, defaults=False).params
    if function is from_xgboost_params:
        assert (found["max_leaves"], found["grow_policy"]) == (None, "depthwise")


def test_defaults_of_losses() -> None:
    assert from_lightgbm_params({"objective": "quantile"}).params["quantile"] == 0.9
    assert from_lightgbm_params({"objective": "huber"}).params["delta"] == 0.9
    assert from_lightgbm_params({"linear_tree": "true"}).params["linear_lambda"] == 0.0
    for objective in ("rank:ndcg", "rank:map", "rank:pairwise"):
        assert from_xgboost_params({"objective": objective}).params["truncation_level"] == 32
    assert from_xgboost_params({"objective": "count:poisson"}).params["max_delta_step"] == 0.7
    given = {"objective": "count:poisson", "max_delta_step": 2}
    assert from_xgboost_params(given).params["max_delta_step"] == 2
    for function, name in (
        (from_lightgbm_params, "poisson"),
        (from_xgboost_params, "count:poisson"),
    ):
        differences = function({"objective": name}).differences
        assert any("second derivatives" in line for line in differences)
    assert from_xgboost_params({"booster": "dart"}).params["drop_rate"] == 0.0


RATIO_OF_SECOND_DERIVATIVES = {
    "poisson": np.exp(0.7),
    "count:poisson": np.exp(0.7),
    "multi:softprob": 4 / 3,
}


def _difference_of_levels(raw, level):
    return raw[level == 1].mean(axis=0) - raw[level == 0].mean(axis=0)


@pytest.fixture(scope="module")
def two_levels():
    """Return a column of two values, and a target by kind of loss."""
    rng = np.random.default_rng(0)
    level = rng.integers(0, 2, 600).astype(float)
    positive = np.exp(0.3 * rng.normal(size=600) + 0.2 * level)
    classes = np.clip(rng.integers(0, 3, 600) + level, 0, 2)
    return level, {"positive": positive, "share": positive / 10.0, "classes": classes}


@pytest.mark.parametrize(
    ("objective", "target"),
    [
        *((name, "positive") for name in ("regression", "l1", "poisson", "gamma", "tweedie")),
        ("cross_entropy", "share"),
        ("multiclass", "classes"),
        ("multiclassova", "classes"),
    ],
)
def test_a_first_step_is_that_of_lightgbm(two_levels, objective, target) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    level, targets = two_levels
    X, y = level.reshape(-1, 1), targets[target]
    given = {"objective": objective, "num_iterations": 1}
    classes = {"num_class": 3} if target == "classes" else {}
    rows = lightgbm.Dataset(X, y)
    theirs = lightgbm.train({**given, **classes, "verbosity": -1}, rows).predict(X, raw_score=True)
    _compare_steps(from_lightgbm_params(given), objective, level, y, theirs)


@pytest.mark.parametrize(
    ("objective", "target"),
    [
        *((f"reg:{name}", "positive") for name in ("squarederror", "absoluteerror", "gamma")),
        ("reg:tweedie", "positive"),
        ("count:poisson", "positive"),
        ("reg:logistic", "share"),
        ("multi:softprob", "classes"),
    ],
)
def test_a_first_step_is_that_of_xgboost(two_levels, objective, target) -> None:
    xgboost = pytest.importorskip("xgboost")
    level, targets = two_levels
    X, y = level.reshape(-1, 1), targets[target]
    given = {"objective": objective, "eta": 0.1, "lambda": 0.0}
    rows = xgboost.DMatrix(X, y)
    classes = {"num_class": 3} if target == "classes" else {}
    theirs = xgboost.train({**given, **classes}, rows, 1).predict(rows, output_margin=True)
    ours = from_xgboost_params({**given, "n_estimators": 1})
    _compare_steps(ours, objective, level, y, theirs)


@pytest.mark.parametrize(("objective", "factor"), [("rank:ndcg", 2.0), ("rank:map", 2.0)])
def test_a_first_step_of_a_ranking(objective, factor) -> None:
    xgboost, lightgbm = pytest.importorskip("xgboost"), pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    level = rng.integers(0, 2, 300).astype(float)
    X, y, query = level.reshape(-1, 1), rng.integers(0, 2, 300), np.repeat(np.arange(30), 10)

    def step(translated):
        ranker = hedgerow.HedgerowRanker(**translated.params).fit(X, y, qid=query)
        return _difference_of_levels(ranker.predict(X), level)

    given = {"objective": objective, "lambda": 0.0}
    rows = xgboost.DMatrix(X, y, qid=query)
    theirs = _difference_of_levels(xgboost.train(given, rows, 1).predict(rows), level)
    translated = from_xgboost_params({**given, "n_estimators": 1})
    np.testing.assert_allclose(step(translated) / theirs, factor, rtol=1e-3)
    assert any("second derivatives" in line for line in translated.differences)
    given = {"objective": "lambdarank", "num_iterations": 1}
    groups = lightgbm.Dataset(X, y, group=[10] * 30)
    theirs = lightgbm.train({**given, "verbosity": -1}, groups).predict(X)
    step_here = step(from_lightgbm_params(given))
    np.testing.assert_allclose(step_here, _difference_of_levels(theirs, level), rtol=1e-3)


def _compare_steps(translated, objective, level, y, theirs) -> None:
    """Compare the effect of the first tree; a note must say if it differs."""
    X = level.reshape(-1, 1)
    several = np.ndim(theirs) == 2
    estimator = HedgerowClassifier if several else HedgerowRegressor
    ours = estimator(**translated.params).fit(X, y).booster_.predict(X, kind="raw")
    ratio = _difference_of_levels(ours, level) / _difference_of_levels(theirs, level)
    wanted = RATIO_OF_SECOND_DERIVATIVES.get(objective, 1.0)
    np.testing.assert_allclose(ratio, wanted, rtol=1e-3)
    noted = any("second derivatives" in line for line in translated.differences)
    assert noted == (wanted != 1.0)


@pytest.mark.parametrize(
    ("function", "objective"),
    [
        (from_lightgbm_params, "fair"),
        (from_lightgbm_params, "mape"),
        (from_xgboost_params, "reg:pseudohubererror"),
        (from_xgboost_params, "reg:squaredlogerror"),
        (from_xgboost_params, "binary:hinge"),
        (from_xgboost_params, "survival:cox"),
    ],
)
def test_losses_that_differ_have_a_note(function, objective) -> None:
    differences = function({"objective": objective}).differences
    assert any(line.startswith("objective: ") for line in differences)


def test_rows_are_sampled_only_if_lightgbm_does(data) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    X, y = data
    whole = {"num_iterations": 3, "verbosity": -1}
    given = {**whole, "bagging_fraction": 0.5}
    theirs = [lightgbm.train(each, lightgbm.Dataset(X, y)).predict(X) for each in (whole, given)]
    assert (theirs[0] == theirs[1]).all()
    assert from_lightgbm_params(given).params == from_lightgbm_params(whole).params
    drawn = from_lightgbm_params({**given, "bagging_freq": 5}).params
    assert drawn["subsample"] == 0.5


# -- parameters of the libraries' estimators -------------------------------------------------


def test_parameters_of_peer_estimators(data) -> None:
    X, y = data
    lightgbm, xgboost = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
    for function, estimator, model in (
        (from_lightgbm_params, lightgbm.LGBMClassifier(n_estimators=2), HedgerowClassifier),
        (from_xgboost_params, xgboost.XGBClassifier(n_estimators=2), HedgerowClassifier),
        (from_lightgbm_params, lightgbm.LGBMRegressor(n_estimators=2), HedgerowRegressor),
        (from_xgboost_params, xgboost.XGBRegressor(n_estimators=2), HedgerowRegressor),
    ):
        given = estimator.get_params()
        target = y > 0 if model is HedgerowClassifier else y
        fitted = model(**function(given).params).fit(X, target)
        assert fitted.n_iter_ == 2
    assert from_xgboost_params(xgboost.XGBRFRegressor().get_params()).params["subsample"] == 0.8
    found = from_lightgbm_params({"class_weight": {0: 1, 1: 5}}).params
    assert found["class_weight"] == {0: 1, 1: 5}


def test_none_is_not_given() -> None:
    for function, name in (
        (from_lightgbm_params, "num_leaves"),
        (from_xgboost_params, "scale_pos_weight"),
    ):
        assert function({name: None}) == function({})


def test_every_parameter_of_xgboost_is_known() -> None:
    xgboost = pytest.importorskip("xgboost")
    for name in xgboost.XGBRanker().get_params():
        assert XGBOOST.canonical(name), name


def test_parameters_of_other_kinds_of_models_are_left_out(data) -> None:
    X, y = data
    for function, given in (
        (from_lightgbm_params, {"linear_lambda": 1.5, "drop_rate": 0.3, "top_rate": 0.3}),
        (from_xgboost_params, {"rate_drop": 0.3}),
        (from_xgboost_params, {"max_depth": 0}),
    ):
        found = function({**given, "n_estimators": 2})
        train(found.params, Dataset(X, y))
        said = [line for line in found.differences if "no effect without" in line]
        assert {line.partition(":")[0] for line in said} == set(given) - {"max_depth"}


def test_parameters_of_rankers_are_kept_without_an_objective() -> None:
    found = from_lightgbm_params({"label_gain": "0,1,3", "lambdarank_truncation_level": 5})
    assert found.params["label_gain"] == [0.0, 1.0, 3.0]
    assert found.params["truncation_level"] == 5
    assert not any("left out" in line for line in found.differences)
    rng = np.random.default_rng(0)
    X, query = rng.normal(size=(60, 2)), np.repeat(np.arange(6), 10)
    ranker = hedgerow.HedgerowRanker(**{**found.params, "n_estimators": 2})
    ranker.fit(X, rng.integers(0, 3, 60), qid=query)
    assert from_lightgbm_params({"boost": "goss"}).params["sampling"] == "goss"


def test_a_sample_of_all_rows_is_no_sample() -> None:
    found = from_xgboost_params({"sampling_method": "gradient_based"}).params
    assert "sampling" not in found
    sampled = from_xgboost_params({"sampling_method": "gradient_based", "subsample": 0.5}).params
    assert sampled["sampling"] == "mvs"
