"""Translation of parameters of LightGBM and XGBoost."""

from __future__ import annotations

import numpy as np
import pytest

import hedgerow
from hedgerow import (
    Dataset,
    HedgerowClassifier,
    HedgerowRegressor,
    ParameterError,
    from_lightgbm_params,
    from_xgboost_params,
    train,
)
from hedgerow.convert.settings.lightgbm import LIGHTGBM
from hedgerow.convert.settings.rules import united
from hedgerow.convert.settings.xgboost import XGBOOST
from hedgerow.params import ADVANCED_NAMES

LIBRARIES = [LIGHTGBM, XGBOOST]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    return X, X[:, 0] + X[:, 1] ** 2


def test_lightgbm_kinds(data) -> None:
    X, y = data
    for given in (
        {"boosting_type": "goss", "n_estimators": 3},
        {"boosting": "dart", "n_estimators": 3, "drop_rate": 0.2},
        {"boosting": "rf", "n_estimators": 3, "bagging_fraction": 0.5, "bagging_freq": 1},
        {"objective": "quantile", "alpha": 0.9, "n_estimators": 3},
        {"objective": "huber", "alpha": 0.9, "n_estimators": 3},
        {"linear_tree": True, "n_estimators": 3},
        {"zero_as_missing": True, "n_estimators": 3},
    ):
        for defaults in (True, False):
            train(from_lightgbm_params(given, defaults=defaults).params, Dataset(X, y))
    assert from_lightgbm_params({"objective": "quantile", "alpha": 0.9}).params["quantile"] == 0.9


@pytest.mark.parametrize(
    ("function", "given", "words"),
    [
        (from_lightgbm_params, {"num_leafs": 3}, "num_leaves|num_leaf"),
        (from_lightgbm_params, {"num_leaves": 3, "max_leaf": 4}, "different values"),
        (from_lightgbm_params, {"scale_pos_weight": 3.0}, "class_weight"),
        (from_lightgbm_params, {"objective": "fairs"}, "fair"),
        (from_lightgbm_params, {"cegb_penalty_split": 1.0}, "gamma"),
        (from_xgboost_params, {"booster": "gblinear"}, "gblinear"),
        (from_xgboost_params, {"learning_rat": 1}, "learning_rate"),
    ],
)
def test_what_is_not_here_is_named(function, given, words) -> None:
    with pytest.raises(ParameterError, match=words):
        function(given)


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.name)
def test_every_name_here_is_one(library) -> None:
    known = set(HedgerowClassifier().get_params()) | set(HedgerowRegressor().get_params())
    known |= set(hedgerow.HedgerowRanker().get_params()) | set(ADVANCED_NAMES)
    for name, rule in library.rules.items():
        assert rule.ours == "" or rule.ours in known, (name, rule.ours)
    assert set(library.aliases.values()) <= set(library.rules)
    assert not set(library.aliases) & set(library.rules)


def test_every_parameter_of_lightgbm_is_known() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    aliases = lightgbm.basic._ConfigAliases._get_all_param_aliases()
    for name, others in aliases.items():
        assert LIGHTGBM.canonical(name) == name
        for other in others:
            assert LIGHTGBM.canonical(other) == name, (name, other)


def test_constraints_that_are_no_lists() -> None:
    with pytest.raises(ParameterError, match="lists of columns"):
        from_xgboost_params({"interaction_constraints": "0, (1"})


def test_parameters_of_other_losses_are_left_out(data) -> None:
    X, y = data
    for function, given, name in (
        (from_xgboost_params, {"quantile_alpha": 0.3}, "quantile_alpha"),
        (from_xgboost_params, {"tweedie_variance_power": 1.2}, "tweedie_variance_power"),
        (
            from_lightgbm_params,
            {"lambdarank_norm": True, "objective": "regression"},
            "lambdarank_norm",
        ),
    ):
        found = function({**given, "n_estimators": 2})
        assert any(line.startswith(f"{name}: it has no effect") for line in found.differences)
        train(found.params, Dataset(X, y))


def test_categories_of_few_rows_are_split_by_as_in_xgboost() -> None:
    rng = np.random.default_rng(0)
    level = rng.integers(0, 3, 32)
    rows = Dataset({"level": [f"level {code}" for code in level]}, level.astype(float))
    params = from_xgboost_params({"n_estimators": 30, "max_cat_to_onehot": 1}).params
    found = train(params, rows).predict(rows.X)
    np.testing.assert_allclose(found, level, atol=0.1)


def test_no_rule_hides_another() -> None:
    with pytest.raises(ValueError, match="names in two tables: b"):
        united({"a": 1, "b": 2}, {"b": 3})


@pytest.mark.parametrize(
    ("function", "name", "values"),
    [
        (from_lightgbm_params, "device_type", {"cpu": "cpu", "gpu": "cuda", "cuda": "cuda"}),
        (from_xgboost_params, "device", {"cpu": "cpu", "cuda": "cuda", "cuda:0": "cuda"}),
    ],
)
def test_devices(function, name, values) -> None:
    for theirs, ours in values.items():
        assert function({name: theirs}, defaults=False).params["device"] == ours
        assert "device" not in function({}, defaults=False).params


def test_another_gpu_is_named_by_the_environment() -> None:
    with pytest.raises(ParameterError, match="CUDA_VISIBLE_DEVICES=1"):
        from_xgboost_params({"device": "cuda:1"})
