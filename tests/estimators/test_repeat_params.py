"""Parameters that repeat a fit: the same trees without cross-validation."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris

from hedgerow import HedgerowClassifier, HedgerowRanker, HedgerowRegressor
from hedgerow.cli import engine
from hedgerow.io import model_to_bytes

OF_THE_CHOICE = (
    "history",
    "folds",
    "best_round",
    "watched",
    "stopped_by",
    "out_of_bag",
    "init_rounds",
)


def _trees(model: Any) -> bytes:
    """Return the model file without the record of the automatic choice."""
    fitted = model.booster_.model
    training = {name: v for name, v in fitted.training.items() if name not in OF_THE_CHOICE}
    training["parameters"] = training["parameters"] | {"n_estimators": 1, "oob_score": False}
    return model_to_bytes(replace(fitted, training=training, seconds=()))


def _repeats(model: Any, *rows: Any, **more: Any) -> Any:
    """Repeat a fit, compare it with the first one, and return it."""
    values = model.repeat_params_
    assert "auto" not in values.values()
    again = type(model)(**values).fit(*rows, **more)
    assert "folds" not in again.booster_.model.training
    assert _trees(again) == _trees(model)
    assert again.repeat_params_ == values
    return again


def _mixed(n_rows: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    town = rng.integers(0, 9, n_rows)
    frame = pd.DataFrame({
        "a": rng.normal(size=n_rows),
        "b": np.where(rng.random(n_rows) < 0.1, np.nan, rng.random(n_rows)),
        "town": pd.Categorical([f"t{k}" for k in town]),
        "n": rng.integers(0, 5, n_rows),
    })  # fmt: skip
    raw = frame["a"] + np.isin(town, [1, 4]) + 0.3 * frame["n"] + 0.5 * rng.normal(size=n_rows)
    return frame, raw.to_numpy()


CLASSES = {
    "two classes": load_breast_cancer(return_X_y=True),
    "three classes": load_iris(return_X_y=True),
    "categories": (lambda X, z: (X, z > 0.5))(*_mixed(700)),
    "words": (lambda X, z: (X, np.array(["low", "mid", "high"])[np.digitize(z, [0, 1])]))(
        *_mixed(400)
    ),
    "tiny": (lambda X, z: (X, z > 0.5))(*_mixed(60)),
    "eight classes": (lambda X, z: (X, np.digitize(z, np.linspace(-0.5, 2, 7))))(*_mixed(900)),
    "noise": (np.random.default_rng(1).normal(size=(150, 3)), np.arange(150) % 2),
    "equal rows": (
        np.arange(600).reshape(-1, 1) % 7,
        (np.arange(600) % 7 < 3) ^ (np.arange(600) % 5 == 0),
    ),
}  # fmt: skip


@pytest.mark.fast(2)
@pytest.mark.parametrize("name", CLASSES)
def test_a_classifier_is_repeated(name: str) -> None:
    X, y = CLASSES[name]
    model = HedgerowClassifier(random_state=3).fit(X, y)
    assert "folds" in model.chosen_params_
    again = _repeats(model, X, y)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.fast(1)
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"objective": "absolute_error"},
        {"objective": "quantile", "quantile": 0.9},
        {"objective": "quantile", "quantile": [0.1, 0.5, 0.9]},
        {"objective": "huber"},
        {"objective": "poisson"},
        {"objective": "normal"},
        {"learning_rate": 0.2},
        {"max_leaves": 5, "subsample": 0.7},
        {"linear_leaves": False},
        {"grow_policy": "symmetric"},
        {"monotone_constraints": [1, 0, 0, 0]},
        {"oob_score": True, "subsample": 0.5},
        {"early_stopping": True},
        {"n_estimators": 30},
    ],
    ids=lambda params: ", ".join(f"{k}={v}" for k, v in params.items()) or "defaults",
)
def test_a_regressor_is_repeated(params: Mapping[str, Any]) -> None:
    X, z = _mixed(500)
    if params.get("objective") == "poisson":
        y = np.random.default_rng(1).poisson(np.exp(0.5 * z)).astype(float)
    else:
        y = z
    weight = np.random.default_rng(2).random(500) + 0.5
    model = HedgerowRegressor(random_state=0, **params).fit(X, y, weight)
    again = _repeats(model, X, y, weight)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


CONSTANTS: dict[str, tuple[int, dict[str, Any]]] = {
    "rows held out": (42, {"early_stopping": True}),
    "a budget": (42, {"time_budget": 0.2}),
    "a budget, rows held out": (42, {"time_budget": 2.0, "early_stopping": True}),
    "a rate for each round": (30, {"n_estimators": 5, "learning_rate": [0.1] * 5}),
    "DART": (42, {"boosting": "dart", "early_stopping": True}),
    "out of bag": (30, {"oob_score": True, "subsample": 0.6}),
    "defaults": (30, {}),
    "one row": (1, {}),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_is_repeated(name: str) -> None:
    n_rows, params = CONSTANTS[name]
    X, y = _mixed(n_rows)
    model = HedgerowRegressor(min_samples_leaf=20, **params).fit(X, y)
    assert model.n_iter_ == 0
    assert _repeats(model, X, y).n_iter_ == 0


@pytest.mark.parametrize("n_rows", [400, 11_000])
def test_rows_that_a_time_budget_holds_out_are_held_out_again(n_rows: int) -> None:
    X, y = _mixed(n_rows)
    seconds = 0.3 if n_rows < 1_000 else 0.45
    model = HedgerowRegressor(time_budget=seconds).fit(X, y)
    assert "folds" not in model.booster_.model.training
    assert model.best_iteration_ is not None
    _repeats(model, X, y)


@pytest.mark.fast(1)
@pytest.mark.parametrize("objective", ["cox", "aft"])
def test_a_model_of_times_is_repeated(objective: str) -> None:
    X, z = _mixed(400)
    time = np.exp(z) * np.where(np.arange(400) % 3, 1.0, -1.0)
    model = HedgerowRegressor(objective=objective).fit(X, time)
    again = _repeats(model, X, time)
    curves = [m.predict_survival_function(X, [0.5, 2.0]) for m in (model, again)]
    np.testing.assert_array_equal(*curves)


def test_a_ranker_is_repeated() -> None:
    X, z = _mixed(600)
    y, qid = np.digitize(z, [0, 1, 2]), np.repeat(np.arange(40), 15)
    model = HedgerowRanker().fit(X, y, qid=qid)
    _repeats(model, X, y, qid=qid)


def test_several_targets_groups_and_validation_rows() -> None:
    X, z = _mixed(500)
    y = np.column_stack([z, X["a"] ** 2])
    _repeats(HedgerowRegressor().fit(X, y), X, y)
    groups = np.arange(500) % 30
    model = HedgerowRegressor().fit(X, z, groups=groups)
    _repeats(model, X, z)
    seen, unseen = slice(0, 400), slice(400, 500)
    given = {"X_val": X[unseen], "y_val": z[unseen]}
    model = HedgerowRegressor().fit(X[seen], z[seen], **given)
    assert model.stopped_by_ == "early_stopping"
    _repeats(model, X[seen], z[seen], **given)


def test_a_large_table_and_one_that_goes_on() -> None:
    X, z = _mixed(3_500)
    _repeats(HedgerowRegressor(patience=5).fit(X, z), X, z)
    grown = HedgerowRegressor(n_estimators=20, warm_start=True).fit(X, z)
    grown = grown.set_params(n_estimators=30).fit(X, z)
    _repeats(grown, X, z)
    more = HedgerowRegressor(n_estimators=10).fit(X, z, init_model=grown)
    with pytest.raises(AttributeError, match="30 rounds of init_model"):
        _ = more.repeat_params_
    assert not hasattr(more, "repeat_params_")


@pytest.fixture(scope="module")
def drawn() -> HedgerowRegressor:
    """Return a fit with a seed that it drew."""
    X, y = load_diabetes(return_X_y=True)
    return HedgerowRegressor(random_state=np.random.RandomState(7), max_bins=40).fit(X, y)


def test_a_drawn_seed_is_kept_and_values_are_plain(drawn: Any) -> None:
    assert isinstance(drawn.repeat_params_["random_state"], int)
    assert json.loads(json.dumps(drawn.repeat_params_)) == drawn.repeat_params_
    _repeats(drawn, *load_diabetes(return_X_y=True))


def test_a_saved_model_is_repeated_and_inspected(tmp_path: Path) -> None:
    model = HedgerowRegressor(n_estimators=4, max_bins=40).fit(*load_diabetes(return_X_y=True))
    model.save(tmp_path / "m.hedgerow")
    read = HedgerowRegressor.load(tmp_path / "m.hedgerow")
    assert read.repeat_params_ == model.repeat_params_
    chosen = engine.chosen_parameters(str(tmp_path / "m.hedgerow"))
    chosen_params = model.chosen_params_
    assert chosen == {name: chosen_params[name] for name in chosen}
    assert {"learning_rate", "max_leaves"} <= set(chosen)
    assert "max_bins" not in chosen
    model.booster_.save(tmp_path / "plain.hedgerow")
    assert engine.chosen_parameters(str(tmp_path / "plain.hedgerow")) == {}


def test_the_view_of_a_notebook_has_every_chosen_value(drawn: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        view = drawn._repr_html_()
    if "Fitted attributes" not in view:
        pytest.skip("scikit-learn shows fitted attributes from 1.9 on")
    for name, value in drawn.chosen_params_.items():
        at = view.index(f"chosen_params_[&#x27;{name}&#x27;]")
        shown = f"{len(value)} settings" if name == "tried" else value
        if isinstance(shown, str | int) and not isinstance(shown, bool):
            assert str(shown) in view[at : at + 600]
    assert "repeat_params_" not in view
