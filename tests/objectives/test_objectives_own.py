"""Custom losses: derivatives, forms, faults, pickles and files."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from hedgerow import Dataset, HedgerowClassifier, HedgerowRegressor, load, train
from hedgerow.errors import DataError, LossError, ModelFormatError, ParameterError
from hedgerow.io import model_to_bytes
from hedgerow.objectives import RowLoss, make_objective
from hedgerow.objectives.own import make_own_loss
from hedgerow.objectives.precomputed import gradients_at
from tests.helpers import own_losses as own

RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(400, 3)), 1)
Y = X[:, 0] + 0.3 * RNG.normal(size=400)
COUNTS = RNG.poisson(np.exp(0.5 * X[:, 0])).astype(float)
LABELS = (X[:, 0] + 0.5 * RNG.normal(size=400) > 0).astype(int)
SHORT = {"n_estimators": 6}


# -- whole fits ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "name", "y"),
    [(own.squared_pair, "squared_error", Y), (own.poisson_pair, "poisson", COUNTS)],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_own_losses_are_those_that_are_built_in(function, name, y, weighted) -> None:
    weight = RNG.integers(1, 4, 400) if weighted else None
    custom = HedgerowRegressor(objective=function, **SHORT).fit(X, y, weight)
    known = HedgerowRegressor(objective=name, **SHORT).fit(X, y, weight)
    np.testing.assert_allclose(custom.predict(X), known.predict(X), rtol=1e-7, atol=1e-9)


def test_own_loss_of_two_classes(tmp_path) -> None:
    custom = HedgerowClassifier(objective=own.logistic, **SHORT).fit(X, LABELS)
    known = HedgerowClassifier(**SHORT).fit(X, LABELS)
    np.testing.assert_allclose(custom.predict_proba(X), known.predict_proba(X), rtol=1e-7)
    np.testing.assert_array_equal(custom.predict(X), known.predict(X))
    custom.save(tmp_path / "model")
    again = HedgerowClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(X), custom.predict_proba(X))
    with pytest.raises(LossError, match="objective 'logistic' raised ValueError"):
        HedgerowClassifier(objective=own.logistic).fit(X, np.arange(400) % 3)
    raw = HedgerowClassifier(objective=own.squared_pair, **SHORT).fit(X, LABELS)
    assert set(raw.predict(X)) <= {0, 1}
    with pytest.raises(ParameterError, match="no probabilities"):
        raw.predict_proba(X)


def test_object_by_way_of_the_base_class() -> None:
    model = HedgerowRegressor(objective=own.Fourth(), n_estimators=60, learning_rate=0.3)
    model.fit(X, Y)
    assert np.mean((model.predict(X) - Y) ** 2) < 0.5 * Y.var()
    start = make_own_loss(own.Fourth()).initial_score(Y, None)
    g, _ = gradients_at(own.Fourth(), Y, None, np.full((1, 400), start[0]), 0)
    assert abs(g.mean()) < 1e-9


def test_an_error_names_the_missing_slopes() -> None:
    class Bare(RowLoss):
        def losses(self, target, raw):
            return (raw[0] - target) ** 2

    with pytest.raises(LossError, match=r"Bare has no slopes.*add it, or derivatives"):
        HedgerowRegressor(objective=Bare()).fit([[1.0], [2.0]], [1.0, 2.0])
    with pytest.raises(TypeError, match=r"abstract method '?losses"):
        type("Nothing", (RowLoss,), {})()


def test_pickles_clones_and_files(tmp_path) -> None:
    model = HedgerowRegressor(objective=own.poisson_pair, **SHORT).fit(X, COUNTS)
    assert clone(model).objective is own.poisson_pair
    again = pickle.loads(pickle.dumps(model))
    assert again.objective is own.poisson_pair
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    model.save(tmp_path / "model")
    loaded = HedgerowRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.objective == "custom"
    with pytest.raises(ParameterError, match="holds no code"):
        loaded.fit(X, COUNTS)
    loaded.set_params(objective=own.poisson_pair).fit(X, COUNTS)
    booster = load(tmp_path / "model")
    assert booster.objective == "custom"
    assert booster.model.training["loss_parameters"] == {
        "name": "poisson_pair", "link": "log", "task": "regression",
    }  # fmt: skip
    with pytest.raises(ParameterError, match=r"'poisson_pair', and a model file holds no code"):
        booster.eval(Dataset(X, COUNTS), "loss")


def test_files_with_a_wrong_link_are_refused() -> None:
    model = HedgerowRegressor(objective=own.poisson_pair, **SHORT).fit(X, COUNTS).booster_.model
    for record in ({"name": "f", "link": "os.system", "task": "regression"}, {"name": "f"}, 3):
        training = {**model.training, "loss_parameters": record}
        with pytest.raises(ModelFormatError, match="training"):
            model_to_bytes(type(model)(model.forest, model.schema, "custom", training))


def test_learning_curves_and_early_stopping() -> None:
    model = HedgerowRegressor(objective=own.poisson_pair, n_estimators=30, early_stopping=True)
    assert model.fit(X, COUNTS).evals_result_["validation"]["loss"][0] > 0.0
    pair = HedgerowRegressor(objective=own.squared_pair, early_stopping=True, n_estimators=5)
    with pytest.raises(LossError, match=r"round 1: .*gives derivatives but no loss"):
        pair.fit(X, Y)
    assert pair.set_params(eval_metric="mae").fit(X, Y).evals_result_["validation"]["mae"]
    model = HedgerowRegressor(objective=own.poisson_pair, early_stopping=True, n_estimators=5)
    assert model.fit(X, COUNTS).evals_result_["validation"]["loss"]


def test_losses_without_second_derivative_take_another_leaf_estimation() -> None:
    model = HedgerowRegressor(objective=own.absolute, **SHORT)
    with pytest.raises(LossError, match=r"round 1: .*'absolute' has no positive second"):
        model.fit(X, Y)
    found = model.set_params(leaf_estimation="gradient").fit(X, Y).predict(X)
    assert np.abs(found - Y).mean() < np.abs(Y - np.median(Y)).mean()


# -- faults ----------------------------------------------------------------------------------


def broken_after(n_calls, how):
    calls = []

    def objective(y, raw):
        calls.append(1)
        g, h = raw - y, np.ones(len(y))
        return how(g, h) if len(calls) > n_calls else (g, h)

    return objective


def raises(g, h):
    raise ZeroDivisionError("no")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (raises, "raised ZeroDivisionError"),
        (lambda g, h: (np.where(np.arange(len(g)) == 7, np.nan, g), h), "gradient of nan in row 7"),
        (lambda g, h: (g, np.where(np.arange(len(g)) == 5, np.inf, h)), "hessian of inf in row 5"),
        (lambda g, h: (g[:-1], h), r"gradient of shape \(399,\).*shape \(400,\)"),
        (lambda g, h: (g, 1.0), r"hessian of shape \(\)"),
        (lambda g, h: (g.astype(str), h), "gradient of shape .* type <U"),
        (lambda g, h: g, "must return gradient and hessian; got ndarray"),
        (lambda g, h: (g, -h), "no positive second derivative"),
    ],
)
def test_faults_name_the_round_and_leave_the_estimator_alone(how, message) -> None:
    model = HedgerowRegressor(**SHORT).fit(X, Y)
    before = model.predict(X)
    # About a dozen calls to find the start.
    probe = broken_after(10_000, how)
    HedgerowRegressor(objective=probe, **SHORT).fit(X, Y)
    n_start = len(probe.__closure__[0].cell_contents) - 6
    model.set_params(objective=broken_after(n_start + 2, how))
    with pytest.raises(LossError, match=rf"round 3: .*'objective' .*{message}"):
        model.fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), before)


def test_negative_hessians_count_as_next_to_nothing() -> None:
    def mixed(y, raw):
        return raw - y, np.where(np.arange(len(y)) % 2 == 0, 1.0, -1.0)

    _, h = gradients_at(make_own_loss(mixed), Y, None, np.zeros((1, 400)), 0)
    assert set(h) == {1.0, 1e-16}


def nothing(y, raw):
    return None


def native_xgboost(preds, dtrain):
    return preds, preds


def backwards(raw, y):
    return (raw - y) ** 2


def one(y):
    return y


def four(y, raw, weight, group):
    return y


class Half:
    n_outputs = 1

    def derivatives(self, rows, output, g, h):
        """Not enough."""


@pytest.mark.parametrize(
    ("given", "fault", "message"),
    [
        (nothing, LossError, "must return gradient and hessian; got NoneType"),
        (native_xgboost, ParameterError, "targets first and the raw scores second"),
        (backwards, ParameterError, "targets first"),
        (one, ParameterError, r"takes \(y\); it must take"),
        (four, ParameterError, "it must take"),
        (Half(), ParameterError, "has no loss, losses, initial_score"),
        (3.0, ParameterError, "a name, a function of"),
        (None, ParameterError, "a name, a function of"),
    ],
)
def test_what_is_no_loss_is_refused(given, fault, message) -> None:
    with pytest.raises(fault, match=message):
        HedgerowRegressor(objective=given).fit(X, Y)
    with pytest.raises(fault, match=message):
        train({"objective": given}, Dataset(X, Y))


def test_other_faults_of_use() -> None:
    def strange(y, raw):
        return (raw - y) ** 2

    strange.link = "cloglog"
    with pytest.raises(ParameterError, match=r"'identity', 'log', 'logit', .*; got 'cloglog'"):
        HedgerowRegressor(objective=strange).fit(X, Y)
    with pytest.raises(ParameterError, match=r"delta=2\.0 has no effect"):
        HedgerowRegressor(objective=own.squared_pair, delta=2.0).fit(X, Y)
    with pytest.raises(DataError, match="within 1e"):
        HedgerowRegressor(objective=own.squared_pair).fit(X, np.where(Y > 0, 1e200, 0.0))


def test_memory_of_the_fit_cannot_be_written_to() -> None:
    def writes(y, raw):
        raw[:] = 0.0
        return raw - y, np.ones(len(y))

    with pytest.raises(LossError, match="read-only"):
        HedgerowRegressor(objective=writes).fit(X, Y)


def test_start_of_a_function_of_all_rows_is_the_least() -> None:
    weight = RNG.uniform(0.5, 2.0, 400)
    for function, name in ((own.squared_pair, "squared_error"), (own.poisson_pair, "poisson")):
        found = make_own_loss(function).initial_score(COUNTS, weight)
        known = make_objective(name).initial_score(COUNTS, weight)
        np.testing.assert_allclose(found, known, rtol=1e-9)
