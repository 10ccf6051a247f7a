"""Custom losses: derivatives, forms, faults, pickles and files."""

from __future__ import annotations

import math
import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from hedgerow import Dataset, HedgerowClassifier, HedgerowRegressor, load, train
from hedgerow.errors import DataError, LossError, ModelFormatError, ParameterError
from hedgerow.io import model_to_bytes
from hedgerow.objectives import RowLoss, make_objective
from hedgerow.objectives.custom.losses import make_own_loss
from hedgerow.objectives.custom.row_loops import _by_numpy, _compiled, _meaning_of, _Source
from hedgerow.objectives.precomputed import gradients_at
from tests.helpers import own_losses as own
from tests.helpers.marking import mostly_slow

RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(400, 3)), 1)
Y = X[:, 0] + 0.3 * RNG.normal(size=400)
COUNTS = RNG.poisson(np.exp(0.5 * X[:, 0])).astype(float)
LABELS = (X[:, 0] + 0.5 * RNG.normal(size=400) > 0).astype(int)
SHORT = {"n_estimators": 6}
SCALAR = [own.squared, own.poisson, own.logistic, own.huber, own.smooth]


def loops(function):
    return _compiled(_Source(_meaning_of(function), function))


def derivatives(loop, y, raw):
    g, h = np.empty((2, len(y)))
    loop.derivatives(y, raw, g, h)
    return g, h


# -- derivatives of the loss of a row ------------------------------------------------------


@pytest.mark.parametrize("function", mostly_slow(SCALAR), ids=lambda f: f.__name__)
def test_jets_give_the_derivatives(function) -> None:
    y, raw, step = COUNTS, RNG.normal(size=400), 1e-4
    compiled = loops(function)
    g, h = derivatives(compiled, y, raw)

    def loss(at):
        out = np.empty(len(y))
        compiled.losses(y, at, out)
        return out

    rows = zip(y[:20].tolist(), raw[:20].tolist(), strict=True)
    np.testing.assert_allclose(loss(raw)[:20], [function(a, b) for a, b in rows], rtol=1e-13)
    at = [loss(raw + k * step) for k in (-2, -1, 1, 2)]
    slope = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * step)
    bend = np.diff([derivatives(compiled, y, raw + k * step)[0] for k in (-1, 1)], axis=0)[0]
    smooth = np.abs(np.abs(raw - y) - 1.0) > 1e-3
    smooth &= (np.abs(raw - y) > 1e-3) & (np.abs(raw) > 1e-3)
    np.testing.assert_allclose(g[smooth], slope[smooth], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(h[smooth], (bend / (2 * step))[smooth], rtol=1e-6, atol=1e-7)


HALF, TABLE = 0.5, np.array([0.5, 1.0])


def scaled(factor, more=0.0):
    """Return a new function each time, with a value in its closure and one in its default."""

    def loss(y, raw, shift=more):
        return factor * (raw - y + shift) ** 2

    return loss


def test_functions_of_one_meaning_are_compiled_once(monkeypatch) -> None:
    """The values that code uses count, wherever they stand, and their types."""
    assert loops(scaled(0.25)) is loops(scaled(0.25))
    given = [scaled(2), scaled(2.0), scaled(0.0), scaled(-0.0), scaled(2.0, 1.0)]
    assert len(set(map(_meaning_of, given))) == len(given)
    inner = [eval("lambda y, raw: (lambda r: HALF * r * r)(raw - y)", globals()) for _ in "ab"]
    of_array = eval("lambda y, raw: TABLE[0] * (raw - y) ** 2", globals())
    before = list(map(_meaning_of, (*inner, of_array)))
    assert before[0] == before[1]
    monkeypatch.setitem(globals(), "HALF", 0.75)
    TABLE[0] = 0.75
    after = list(map(_meaning_of, (*inner, of_array)))
    TABLE[0] = 0.5
    assert after[0] == after[1]
    assert set(before).isdisjoint(after)


OPERATIONS = {
    "powers": lambda y, raw: (raw + 3.0) ** 2.5 + 2.0**raw + raw**3 + (raw**2) ** 0.5,
    "quotients": lambda y, raw: (1.0 + raw) / (3.0 + raw * raw) - 1.0 / (4.0 + raw),
    "functions": lambda y, raw: (
        np.log1p(raw * raw) + np.expm1(raw) + np.sqrt(5.0 + raw) + np.log(raw + 5.0)
    ),
    "circles": lambda y, raw: np.sin(raw) * np.cos(raw) + np.arctan(raw) + np.cosh(raw),
    "choices": lambda y, raw: max(raw, y) + min(2.0 * raw, 1.0) + np.where(raw > y, raw, -raw),
    "logs": lambda y, raw: np.logaddexp(0.0, raw) + np.logaddexp(raw, y * raw) - y * -raw,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_of_jets(name) -> None:
    raw, y = RNG.uniform(-2, 2, 300), RNG.normal(size=300)
    exact = derivatives(loops(OPERATIONS[name]), y, raw)
    numeric = derivatives(_by_numpy(OPERATIONS[name]), y, raw)
    far = np.minimum.reduce([np.abs(raw - y), np.abs(raw), np.abs(raw - 0.5)]) > 0.1
    np.testing.assert_allclose(exact[0][far], numeric[0][far], rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(exact[1][far], numeric[1][far], rtol=1e-6, atol=1e-6)


STABLE = {
    "logistic": (
        lambda y, raw: max(raw, 0.0) - y * raw + math.log1p(math.exp(-abs(raw))),
        lambda y: (0.5 - y, np.full(len(y), 0.25)),
    ),
    "log_cosh": (
        lambda y, raw: abs(raw) + math.log1p(math.exp(-2.0 * abs(raw))) - math.log(2.0),
        lambda y: (np.zeros(len(y)), np.ones(len(y))),
    ),
    "softplus by min": (
        lambda y, raw: -min(0.0, -raw) + np.log1p(np.exp(-np.abs(raw))),
        lambda y: (np.full(len(y), 0.5), np.full(len(y), 0.25)),
    ),
    "squares": (
        lambda y, raw: max(abs(raw), 0.0) ** 2 + np.fabs(-raw) * abs(raw),
        lambda y: (np.zeros(len(y)), np.full(len(y), 4.0)),
    ),
}


@pytest.mark.parametrize("name", STABLE)
def test_smooth_losses_have_their_derivatives_at_kinks_of_their_parts(name) -> None:
    function, expected = STABLE[name]
    y = np.array([0.0, 1.0, 0.3])
    g, h = derivatives(loops(function), y, np.zeros(3))
    np.testing.assert_allclose((g, h), expected(y), atol=1e-15)


def test_the_start_of_a_stable_logistic_loss_is_the_log_odds() -> None:
    y = np.repeat([0.0, 1.0], [20, 180])
    loss = make_own_loss(STABLE["logistic"][0], y)
    np.testing.assert_allclose(loss.initial_score(y, None), [math.log(9.0)], rtol=1e-9)


# -- whole fits ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "name", "y"),
    [
        (own.squared, "squared_error", Y),
        (own.squared_pair, "squared_error", Y),
        (own.poisson, "poisson", COUNTS),
        (own.poisson_pair, "poisson", COUNTS),
    ],
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
    with pytest.raises(ParameterError, match="for 3 classes objective 'logistic' is called with"):
        HedgerowClassifier(objective=own.logistic).fit(X, np.arange(400) % 3)
    raw = HedgerowClassifier(objective=own.squared, **SHORT).fit(X, LABELS)
    assert set(raw.predict(X)) <= {0, 1}
    with pytest.raises(ParameterError, match="no probabilities"):
        raw.predict_proba(X)


def test_object_by_way_of_the_base_class() -> None:
    model = HedgerowRegressor(objective=own.Fourth(), n_estimators=60, learning_rate=0.3)
    model.fit(X, Y)
    assert np.mean((model.predict(X) - Y) ** 2) < 0.5 * Y.var()
    start = make_own_loss(own.Fourth(), Y).initial_score(Y, None)
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
    model = HedgerowRegressor(objective=own.poisson, **SHORT).fit(X, COUNTS)
    assert clone(model).objective is own.poisson
    again = pickle.loads(pickle.dumps(model))
    assert again.objective is own.poisson
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    model.save(tmp_path / "model")
    loaded = HedgerowRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.objective == "custom"
    with pytest.raises(ParameterError, match="holds no code"):
        loaded.fit(X, COUNTS)
    loaded.set_params(objective=own.poisson).fit(X, COUNTS)
    booster = load(tmp_path / "model")
    assert booster.objective == "custom"
    assert booster.model.training["loss_parameters"] == {
        "name": "poisson", "link": "log", "task": "regression",
    }  # fmt: skip
    with pytest.raises(ParameterError, match=r"'poisson', and a model file holds no code"):
        booster.eval(Dataset(X, COUNTS), "loss")


def test_files_with_a_wrong_link_are_refused() -> None:
    model = HedgerowRegressor(objective=own.poisson, **SHORT).fit(X, COUNTS).booster_.model
    for record in ({"name": "f", "link": "os.system", "task": "regression"}, {"name": "f"}, 3):
        training = {**model.training, "loss_parameters": record}
        with pytest.raises(ModelFormatError, match="training"):
            model_to_bytes(type(model)(model.forest, model.schema, "custom", training))


@pytest.mark.usefixtures("compiler")
def test_what_cannot_be_compiled_is_called_with_one_notice() -> None:
    with pytest.warns(UserWarning, match="'uncompiled' cannot be compiled") as seen:
        model = HedgerowRegressor(objective=own.uncompiled, **SHORT).fit(X, Y)
    assert len(seen) == 1
    known = HedgerowRegressor(**SHORT).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), known.predict(X), atol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        HedgerowRegressor(objective=own.squared, **SHORT).fit(X, Y)


def test_learning_curves_and_early_stopping() -> None:
    model = HedgerowRegressor(objective=own.poisson, n_estimators=30, early_stopping=True)
    assert model.fit(X, COUNTS).evals_result_["validation"]["loss"][0] > 0.0
    pair = HedgerowRegressor(objective=own.squared_pair, early_stopping=True, n_estimators=5)
    with pytest.raises(LossError, match=r"round 1: .*gives derivatives but no loss"):
        pair.fit(X, Y)
    assert pair.set_params(eval_metric="mae").fit(X, Y).evals_result_["validation"]["mae"]
    model = HedgerowRegressor(objective=own.poisson_pair, early_stopping=True, n_estimators=5)
    assert model.fit(X, COUNTS).evals_result_["validation"]["loss"]


@pytest.mark.usefixtures("compiler")  # finite differences have one, near the kink
def test_losses_without_second_derivative_take_another_leaf_estimation() -> None:
    model = HedgerowRegressor(objective=own.absolute, **SHORT)
    with pytest.raises(LossError, match=r"round 1: .*'absolute' has no positive second"):
        model.fit(X, Y)
    for way in ("gradient", "line_search"):
        found = model.set_params(leaf_estimation=way).fit(X, Y).predict(X)
        assert np.abs(found - Y).mean() < np.abs(Y - np.median(Y)).mean()
    known = HedgerowRegressor(objective="absolute_error", **SHORT).fit(X, Y).predict(X)
    assert np.abs(found - Y).mean() < 1.02 * np.abs(known - Y).mean()


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
    # A trial, and about a dozen calls to find the start.
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

    _, h = gradients_at(make_own_loss(mixed, Y), Y, None, np.zeros((1, 400)), 0)
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
        (nothing, LossError, "must return the loss of a row"),
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
        HedgerowRegressor(objective=own.squared, delta=2.0).fit(X, Y)
    with pytest.raises(DataError, match="within 1e"):
        HedgerowRegressor(objective=own.squared).fit(X, np.where(Y > 0, 1e200, 0.0))


def test_memory_of_the_fit_cannot_be_written_to() -> None:
    def writes(y, raw):
        raw[:] = 0.0
        return raw - y, np.ones(len(y))

    with pytest.raises(LossError, match="read-only"):
        HedgerowRegressor(objective=writes).fit(X, Y)


def test_start_of_a_function_of_all_rows_is_the_least() -> None:
    weight = RNG.uniform(0.5, 2.0, 400)
    for function, name in ((own.squared_pair, "squared_error"), (own.poisson_pair, "poisson")):
        found = make_own_loss(function, COUNTS).initial_score(COUNTS, weight)
        known = make_objective(name).initial_score(COUNTS, weight)
        np.testing.assert_allclose(found, known, rtol=1e-9)
