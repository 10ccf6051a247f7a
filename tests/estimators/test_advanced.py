"""Parameters of the dict ``advanced`` of the estimators."""

from __future__ import annotations

import inspect
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import hedgerow
from hedgerow import (
    Dataset,
    HedgerowClassifier,
    HedgerowRanker,
    HedgerowRegressor,
    ParameterError,
    train,
)
from hedgerow.boosting.inspect.memory_estimate import estimate_memory
from hedgerow.cli.commands.training import parse_settings
from hedgerow.cli.usage import UsageError
from hedgerow.io import model_to_bytes
from hedgerow.params import ADVANCED_NAMES, BOOST_PARAMETER_NAMES, BoostParams, flat, grouped

ESTIMATORS = (HedgerowClassifier, HedgerowRegressor, HedgerowRanker)
VALUES: dict[str, tuple[Any, dict[str, Any]]] = {
    "sketch": ("local", {"tree_method": "approx"}),
    "sketch_eps": (0.3, {"tree_method": "approx"}),
    "bundle_order": ("degree", {"max_conflict_rate": 0.1}),
    "bundle_conflicts": ("max", {"max_conflict_rate": 0.1}),
    "max_conflict_rate": (0.1, {}),
    "statistics_order": (1, {"target_statistics": True}),
}
"""A non-default value of each parameter, and the parameters that it needs."""

RNG = np.random.default_rng(0)
X = np.where(RNG.random((120, 4)) < 0.6, 0.0, RNG.normal(size=(120, 4)))
X[:, 3] = RNG.integers(0, 6, 120)
Y = X[:, 0] + X[:, 1] + 0.1 * RNG.normal(size=120)
SMALL: dict[str, Any] = {"n_estimators": 3, "min_samples_leaf": 5, "early_stopping": False}


def _of(name: str) -> dict[str, Any]:
    """Return parameters of an estimator that uses an advanced one."""
    value, more = VALUES[name]
    categories = {"categorical_features": [3]} if name == "statistics_order" else {}
    return grouped({**SMALL, **more, **categories, name: value})


def test_every_name_is_a_parameter_of_boosting_and_of_no_constructor() -> None:
    assert set(VALUES) == set(ADVANCED_NAMES) <= set(BOOST_PARAMETER_NAMES)
    for kind in (*ESTIMATORS, hedgerow.DaskHedgerowRegressor, hedgerow.DaskHedgerowRanker):
        names = inspect.signature(kind).parameters
        assert "advanced" in names
        assert not set(names) & set(ADVANCED_NAMES)
        assert names["advanced"].default is None
    for name in ADVANCED_NAMES:
        assert f'``"{name}"``' in str(HedgerowClassifier.__doc__)


@pytest.mark.parametrize("name", ADVANCED_NAMES)
def test_a_value_is_used_kept_and_repeated(name: str, tmp_path: Path) -> None:
    params = _of(name)
    model = HedgerowRegressor(**params).fit(X, Y)
    record = model.booster_.model.training["parameters"]
    assert record[name] == VALUES[name][0] != getattr(BoostParams(), name)
    model.save(tmp_path / "m")
    copies = [
        clone(model),
        pickle.loads(pickle.dumps(model)),
        HedgerowRegressor.load(tmp_path / "m"),
        HedgerowRegressor().set_params(**params),
        HedgerowRegressor(**model.repeat_params_),
    ]
    expected = model_to_bytes(model.booster_.model)
    for other in copies:
        assert other.get_params()["advanced"] == params["advanced"]
        assert model_to_bytes(other.fit(X, Y).booster_.model) == expected
    assert json.loads(json.dumps(model.repeat_params_)) == model.repeat_params_


@pytest.mark.parametrize("name", ADVANCED_NAMES)
def test_functions_take_them_both_ways(name: str) -> None:
    params, given = _of(name), {}
    if "categorical_features" in params:
        given["categorical_features"] = params.pop("categorical_features")
    data = Dataset(X, Y, **given)
    inside, beside = train(params, data), train(flat(params, ()), data)
    assert inside.to_bytes() == beside.to_bytes()
    assert estimate_memory(X, params) == estimate_memory(X, flat(params, ()))
    with pytest.raises(ParameterError, match=f"{name} is given directly and in advanced"):
        train({**params, name: VALUES[name][0]}, data)


def test_defaults_in_the_mapping_change_nothing() -> None:
    default = {name: getattr(BoostParams(), name) for name in ADVANCED_NAMES}
    models = [HedgerowRegressor(**SMALL, advanced=each).fit(X, Y) for each in (None, {}, default)]
    assert len({model_to_bytes(model.booster_.model) for model in models}) == 1
    assert "advanced" not in models[0].repeat_params_


@pytest.mark.parametrize("name", ADVANCED_NAMES)
@pytest.mark.parametrize("kind", [*ESTIMATORS, hedgerow.DaskHedgerowClassifier])
def test_a_constructor_says_where_it_belongs(kind: Any, name: str) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: kind(**{name: 1}),
        lambda: kind().set_params(**{name: 1}),
        lambda: kind().fit(X, Y, **{name: 1}),
    ]
    for call in calls[: 2 if kind is hedgerow.DaskHedgerowClassifier else 3]:
        with pytest.raises(ParameterError) as found:
            call()
        assert f'pass advanced={{"{name}": ...}}' in str(found.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("skech", "Did you mean 'sketch'? Pass advanced={\"sketch\": ...}."),
        ("max_leafs", "Did you mean 'max_leaves'?"),
    ],
)
def test_names_that_are_nearly_right(name: str, words: str) -> None:
    with pytest.raises(ParameterError) as found:
        HedgerowRegressor(**{name: 1})
    assert words in str(found.value)


@pytest.mark.parametrize(
    ("advanced", "words"),
    [
        ({"skech": "local"}, ["no parameter 'skech'", "Did you mean 'sketch'?"]),
        ({"max_leaves": 5}, ["'max_leaves' is an ordinary parameter: pass it directly"]),
        ({"objective": "huber"}, ["pass it directly, objective='huber'"]),
        ({"foo": 1, "max_depth": 2}, ["'foo', 'max_depth'", "max_depth=2", "it takes sketch,"]),
        ({"advanced": {}}, ["no parameter 'advanced'"]),
        ({3: 1}, ["no parameter 3"]),
        ("sketch", ["advanced must be a mapping", "got 'sketch'"]),
        ([("sketch", "local")], ["advanced must be a mapping"]),
        ({"sketch": "locale"}, ["sketch must be one of", "Did you mean 'local'?"]),
        ({"sketch_eps": 2.0}, ["sketch_eps must be a number greater than 0"]),
        ({"sketch": "local"}, ["sketch='local' has no effect here"]),
    ],
    ids=str,
)
def test_the_mapping_is_checked(advanced: Any, words: list[str]) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: HedgerowRegressor(n_estimators=2, advanced=advanced).fit(X, Y),
        lambda: HedgerowClassifier(n_estimators=2, advanced=advanced).fit(X, Y > 0),
        lambda: train({"n_estimators": 2, "advanced": advanced}, Dataset(X, Y)),
    ]
    for call in calls:
        with pytest.raises(ParameterError) as found:
            call()
        for word in words:
            assert word in str(found.value)


def test_the_command_line_takes_them_one_by_one() -> None:
    found = parse_settings(["sketch=local", "tree_method=approx"], "regression")
    assert found == {"tree_method": "approx", "advanced": {"sketch": "local"}}
    with pytest.raises(UsageError, match="sketch was already set"):
        parse_settings(["sketch=local", "sketch=global"], "regression")
    with pytest.raises(UsageError, match="Did you mean 'sketch'"):
        parse_settings(["skech=local"], "regression")
    with pytest.raises(UsageError, match="one by one"):
        parse_settings(["advanced={'sketch': 'local'}"], "regression")
