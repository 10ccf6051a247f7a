"""Objectives that learn a distribution for each row, and the methods of distributions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import minimize

from hedgerow import HedgerowRegressor, load
from hedgerow.errors import DataError, DataTypeError, ParameterError
from hedgerow.metrics import make_metrics
from hedgerow.objectives import make_objective
from hedgerow.objectives.base import LossRows
from hedgerow.objectives.distributions import predicted as known
from hedgerow.objectives.line_search import LeafRows
from hedgerow.objectives.precomputed import gradients_at
from tests.helpers.divided_rows import on_ranks

NAMES = ("normal", "log_normal")
LAWS = {
    "normal": lambda a, b: stats.norm(a, np.exp(b)),
    "log_normal": lambda a, b: stats.lognorm(np.exp(b), scale=np.exp(a)),
    "poisson": lambda a, b: stats.poisson(np.exp(a)),
}
"""Negative log likelihoods of two raw scores, by definition."""


def density(name, y, a, b):
    law = LAWS[name](a, b)
    return law.logpmf(y) if name == "poisson" else law.logpdf(y)


def rows_of(name, n, seed=0, spread=1.0):
    """Return targets and raw scores near which they were drawn."""
    rng = np.random.default_rng(seed)
    raw = rng.normal(size=(2, n)) * np.array([[1.0], [0.6]]) * spread
    law = LAWS[name](*raw)
    return law.rvs(size=n, random_state=rng).astype(float), raw


# -- losses ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_loss_is_minus_the_log_density(name) -> None:
    objective = make_objective(name)
    y, raw = rows_of(name, 200)
    np.testing.assert_allclose(objective.losses(y, raw), -density(name, y, *raw), rtol=1e-9)
    found = objective.distribution(raw)
    np.testing.assert_allclose(found.log_pdf(y), -objective.losses(y, raw), rtol=1e-9)
    np.testing.assert_array_equal(objective.predict(raw), found.mean)


def slope_of(objective, y, raw, output, step=1e-4):
    """Return the derivative of the loss of each row in a raw score, by differences."""

    def at(k):
        moved = raw.copy()
        moved[output] += k * step
        return objective.losses(y, moved)

    return (at(-2) - 8 * at(-1) + 8 * at(1) - at(2)) / (12 * step)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("output", [0, 1])
def test_slopes_are_those_of_the_loss(name, output) -> None:
    objective = make_objective(name)
    y, raw = rows_of(name, 60, 1)
    found, _ = objective.slopes_of(y, raw, output)
    np.testing.assert_allclose(found, slope_of(objective, y, raw, output), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_steps_are_natural_gradients(name) -> None:
    """Steps of the mean are full, those of the scale halved: F is the mean square of the slopes."""
    objective = make_objective(name)
    a, b = 0.7, 0.4
    law, n = LAWS[name](a, b), 40_000
    y = law.rvs(size=n, random_state=0).astype(float)
    raw = np.repeat([[a], [b]], n, axis=1)
    for output, part in ((0, 1.0), (1, 0.5)):
        true = slope_of(objective, y, raw, output)
        information = (true**2).mean()
        g, h = gradients_at(objective, y, None, raw, output)
        usual = np.abs(true) < 5.0
        ratio = np.median((g / h)[usual] / (part * true / information)[usual])
        assert 1.0 / 1.12 < ratio < 1.12
    cross = slope_of(objective, y, raw, 0) * slope_of(objective, y, raw, 1)
    assert abs(cross.mean()) < 5.0 * cross.std() / np.sqrt(n), "the information is not diagonal"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("weighted", [False, True])
def test_start_is_the_most_likely_distribution(name, weighted) -> None:
    objective = make_objective(name)
    y, _ = rows_of(name, 300, 2)
    weight = np.random.default_rng(3).uniform(0.5, 2.0, 300) if weighted else None

    def loss(at):
        return objective.loss(y, np.repeat(at[:, None], 300, axis=1), weight)

    start = objective.initial_score(y, weight)
    best = minimize(
        loss, start + 0.3, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13}
    )
    assert loss(start) <= best.fun + 1e-9
    np.testing.assert_array_equal(on_ranks(4, objective.start_of, y, weight), start)


@pytest.mark.parametrize("name", NAMES)
def test_leaf_step_minimises_the_loss_of_the_leaf(name) -> None:
    objective = make_objective(name)
    y, raw = rows_of(name, 60, 4)
    raw += np.random.default_rng(0).normal(size=raw.shape) * 0.3
    weight, starts = np.random.default_rng(5).uniform(0.1, 3.0, 60), np.array([0, 20, 60])
    for output in (0, 1):
        steps = objective.leaf_steps(LeafRows(y, raw, weight, starts), output)
        for step, first, stop in zip(steps, starts, starts[1:], strict=False):
            moved = raw[:, first:stop].copy()
            moved[output] += step
            slope = slope_of(objective, y[first:stop], moved, output)
            assert abs((slope * weight[first:stop]).sum()) < 1e-6 or abs(step) > 15.9


@pytest.mark.parametrize("name", NAMES)
def test_far_scores_stay_finite(name) -> None:
    objective = make_objective(name)
    far = np.array([-1e6, -700.0, -30.0, 0.0, 30.0, 700.0, 1e6])
    raw = np.array(np.meshgrid(far, far)).reshape(2, -1)
    y = np.ones(raw.shape[1])
    for output in (0, 1):
        g, h = gradients_at(objective, y, None, raw, output)
        assert np.isfinite([g, h]).all()
        assert (h > 0.0).all()
        assert max(np.abs(g).max(), h.max()) <= 1e140
    assert np.isfinite(objective.losses(y, raw)).all()
    assert np.isfinite(objective.predict(raw)).all()


@pytest.mark.parametrize("name", NAMES)
def test_equal_targets_and_all_zero(name) -> None:
    X = np.arange(60.0).reshape(-1, 1)
    model = HedgerowRegressor(objective=name, n_estimators=5).fit(X, np.full(60, 3.0))
    np.testing.assert_allclose(model.predict(X), 3.0, rtol=1e-6)
    if name == "normal":
        model.fit(X, np.zeros(60))
        np.testing.assert_allclose(model.predict(X), 0.0, atol=1e-100)


def test_a_row_is_computed_alone() -> None:
    for name in NAMES:
        objective = make_objective(name)
        y, raw = rows_of(name, 101, 6)
        for output in (0, 1):
            g, h = gradients_at(objective, y, None, raw, output)
            for part in (slice(0, 1), slice(1, 50), slice(50, 101)):
                own = np.empty((2, part.stop - part.start))
                objective.derivatives(LossRows(y[part], raw[:, part], None), output, *own)
                np.testing.assert_array_equal(own, np.stack([g, h])[:, part])


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("log_normal", 0.0, r"\[1e-100, 1e\+100\]; row 17 holds 0.0"),
        ("normal", 1e200, r"within 1e\+140.*row 17 holds"),
    ],
)
def test_targets_outside_are_refused(name, value, message) -> None:
    y = np.ones(30)
    y[[17, 23]] = value
    with pytest.raises(DataError, match=message):
        HedgerowRegressor(objective=name).fit(np.zeros((30, 1)), y)


# -- distributions ---------------------------------------------------------------------

SOME = {
    "normal": known.Normal(np.array([0.0, -3.0, 100.0]), np.array([1.0, 0.2, 30.0])),
    "log_normal": known.LogNormal(np.array([0.0, -1.0, 2.0]), np.array([1.0, 0.2, 0.7])),
    "poisson": known.Poisson(np.array([0.1, 3.0, 80.0])),
}


IN_SCIPY = {
    "normal": lambda of: stats.norm(of.location, of.scale),
    "log_normal": lambda of: stats.lognorm(of.scale, scale=np.exp(of.location)),
    "poisson": lambda of: stats.poisson(of.rate),
}


@pytest.mark.parametrize("name", SOME)
def test_moments_quantiles_and_draws(name) -> None:
    found, law = SOME[name], IN_SCIPY[name](SOME[name])
    np.testing.assert_allclose(found.mean, law.mean(), rtol=1e-12)
    np.testing.assert_allclose(found.variance, law.var(), rtol=1e-12)
    np.testing.assert_allclose(found.cdf(found.mean), law.cdf(found.mean), rtol=1e-10)
    assert not hasattr(found, "rate") or ((found.rate == found.mean).all() and found.discrete)
    np.testing.assert_allclose(found.std**2, found.variance)
    quantiles = found.quantile([0.05, 0.5, 0.95])
    assert quantiles.shape == (3, 3)
    np.testing.assert_array_equal(quantiles[:, 1], found.median)
    np.testing.assert_allclose(quantiles[:, ::2], found.interval(0.9), rtol=1e-12)
    for p, column in zip((0.05, 0.5, 0.95), quantiles.T, strict=True):
        assert (found.cdf(column) >= p - 1e-9).all()
        assert (found.cdf(column - 1e-6 - found.discrete) <= p).all()
    drawn = found.sample(20_000)
    assert drawn.shape == (3, 20_000)
    np.testing.assert_array_equal(drawn, found.sample(20_000, random_state=0))
    np.testing.assert_allclose(drawn.mean(axis=1), found.mean, atol=5 * found.std.max() / 140)
    part = found[1:]
    assert len(part) == 2
    np.testing.assert_array_equal(part.mean, found.mean[1:])
    np.testing.assert_array_equal(found[np.array([True, False, False])].mean, found.mean[:1])


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("shift", [-1.5, 0.0, 2.0])
def test_crps_is_its_integral(name, shift) -> None:
    found = SOME[name]
    y = found.mean + shift * found.std
    if name != "normal":
        y = np.maximum(np.round(y) if found.discrete else y, 0.0)
    for row in range(3):
        one = found[[row]]
        cdf = one._law().cdf
        if found.discrete:
            t = np.arange(found.mean[row] + 40 * found.std[row] + 50)
            expected = float(((cdf(t) - (t >= y[row])) ** 2).sum())
        else:
            low, high = np.sort([y[row], *one.quantile([1e-12, 1 - 1e-12])[0]])[[0, 2]]
            parts = [low, y[row], high]
            expected = sum(
                quad(lambda t, i=i: float((cdf(t)[0] - i) ** 2), a, b, limit=400, epsabs=1e-10)[0]  # noqa: B023
                for i, (a, b) in enumerate(pairwise(parts))
            )
        assert one.crps(y[row])[0] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("wrong", ["0.5", ["a"], [b"1"], object(), [0.5, [0.1, 0.2]]])
def test_what_is_no_number_is_refused(wrong) -> None:
    law = known.Normal(np.zeros(2), np.ones(2))
    with pytest.raises(ParameterError, match="p must be a number"):
        law.quantile(wrong)
    with pytest.raises(DataTypeError, match="y must hold numbers"):
        law.cdf(wrong)


def test_wrong_arguments_are_named() -> None:
    found = SOME["normal"]
    for p in (0.0, 1.0, [0.5, np.nan], [[0.5]]):
        with pytest.raises(ParameterError, match="p must be"):
            found.quantile(p)
    for level in (0, 1.0, "high", True):
        with pytest.raises(ParameterError, match="level must be"):
            found.interval(level)
    with pytest.raises(ParameterError, match="n must be"):
        found.sample(0)
    with pytest.raises(DataError, match="each of the 3 rows"):
        found.cdf([1.0, 2.0])


# -- whole fits ------------------------------------------------------------------------

RNG = np.random.default_rng(7)
X = np.round(RNG.uniform(-1.0, 1.0, size=(1500, 3)), 2)
TRUE = np.stack([1.0 + X[:, 0], -0.5 + X[:, 1]])


def target_of(name, seed=8, n=1500):
    return LAWS[name](*TRUE[:, :n]).rvs(n, random_state=np.random.default_rng(seed)).astype(float)


@pytest.fixture(scope="module", params=NAMES)
def fitted(request):
    y = target_of(request.param)
    given = {"n_estimators": 80, "max_leaves": 8, "n_jobs": 1}
    return request.param, y, HedgerowRegressor(objective=request.param, **given).fit(X, y)


def test_scores_that_vary_by_row_are_found(fitted) -> None:
    name, y, model = fitted
    raw = model.booster_.predict(X, "raw").T
    assert np.corrcoef(raw[0], TRUE[0])[0, 1] > 0.8
    assert np.corrcoef(raw[1], TRUE[1])[0, 1] > 0.7
    new = target_of(name, 9)
    found = model.predict_distribution(X)
    truth = -density(name, new, *TRUE).mean()
    start = model.booster_._objective.initial_score(y, None)
    nll, constant = -found.log_pdf(new).mean(), -density(name, new, *start).mean()
    assert nll < truth + 0.7 * (constant - truth)
    low, high = model.predict_interval(X).T
    assert 0.82 < ((low <= new) & (new <= high)).mean() < 0.97


def test_predictions_fit_together_and_survive_files(fitted, tmp_path) -> None:
    name, y, model = fitted
    found = model.predict_distribution(X)
    assert len(found) == len(X)
    np.testing.assert_array_equal(model.predict(X), found.mean)
    np.testing.assert_array_equal(model.predict_interval(X, 0.8), found.interval(0.8))
    assert model.score(X, y) > 0.1
    model.save(tmp_path / "model")
    again = HedgerowRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_interval(X), model.predict_interval(X))
    assert load(tmp_path / "model").objective == name


def test_metrics_of_distributions() -> None:
    y = target_of("normal", n=400)
    model = HedgerowRegressor(
        objective="normal", eval_metric=["nll", "crps", "rmse", "loss"], early_stopping=True
    ).fit(X[:400], y)
    curves = model.evals_result_["validation"]
    np.testing.assert_allclose(curves["nll"], curves["loss"], rtol=1e-10)
    assert curves["crps"][-1] < curves["crps"][0]
    found = model.predict_distribution(X[:400])
    (metric,) = make_metrics("crps", make_objective("normal"))
    raw = model.booster_.raw_scores(X[:400])
    weight = np.arange(400.0)
    expected = np.average(found.crps(y), weights=weight)
    assert metric.function(y, raw, weight) == pytest.approx(expected)
    with pytest.raises(ParameterError, match="'crps' is for objectives that learn a distribution"):
        HedgerowRegressor(eval_metric="crps").fit(X, TRUE[0])
    with pytest.raises(ParameterError, match=r"unknown eval_metric 'crsp'.*'nll'"):
        HedgerowRegressor(objective="normal", eval_metric="crsp").fit(X, TRUE[0])


def test_poisson_has_a_distribution() -> None:
    y = target_of("poisson")
    model = HedgerowRegressor(objective="poisson", n_estimators=20, eval_metric="nll").fit(X, y)
    found = model.predict_distribution(X)
    assert isinstance(found, known.Poisson)
    np.testing.assert_array_equal(found.mean, model.predict(X))
    expected = -stats.poisson(model.predict(X)).logpmf(y).mean()
    assert model.evals_result_["train"]["nll"][-1] == pytest.approx(expected)


def test_models_without_a_distribution_say_so() -> None:
    model = HedgerowRegressor(n_estimators=1).fit(X, TRUE[0])
    for ask in (model.predict_distribution, model.predict_interval):
        with pytest.raises(
            ParameterError, match=r"'squared_error' predicts no distribution.*'norm"
        ):
            ask(X)
    with pytest.raises(ParameterError, match="cannot be kept for objective 'normal'"):
        HedgerowRegressor(objective="normal", monotone_constraints=[1, 0, 0]).fit(X, TRUE[0])


FAR = [
    known.Normal(np.zeros(3), np.ones(3)),
    known.Normal(np.full(3, 5.0), np.full(3, 1e-100)),
    known.LogNormal(np.zeros(3), np.ones(3)),
    known.Poisson(np.ones(3)),
    known.Poisson(np.full(3, 1e9)),
    known.Poisson(np.zeros(3)),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("found", FAR, ids=lambda law: type(law).__name__)
def test_densities_and_scores_of_infinity_and_of_missing_targets(found) -> None:
    odd = [np.inf, -np.inf, np.nan]
    np.testing.assert_array_equal(found.log_pdf(odd), [-np.inf, -np.inf, np.nan])
    np.testing.assert_array_equal(found.crps(odd), [np.inf, np.inf, np.nan])
    np.testing.assert_array_equal(found.cdf(odd), [1.0, 0.0, np.nan])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("found", FAR, ids=lambda law: type(law).__name__)
def test_a_distribution_seen_from_afar_is_a_point(found) -> None:
    for far in (-1e200, 1e200):
        np.testing.assert_allclose(found.crps(far), np.abs(far - found.mean), rtol=1e-12)
        assert (found.log_pdf(far) < -1e4).all()
    assert not np.isnan(found.quantile([1e-300, 0.5, 1 - 1e-16])).any()
