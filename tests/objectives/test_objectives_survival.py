"""Survival losses: Cox with ties, accelerated failure times, survival functions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hedgerow import Dataset, HedgerowRegressor, cross_fit, load, train
from hedgerow.errors import DataError, DataTypeError, ModelFormatError, ParameterError
from hedgerow.io import model_to_bytes
from hedgerow.objectives import make_objective
from hedgerow.objectives.line_search import LeafRows
from hedgerow.objectives.precomputed import gradients_at
from hedgerow.objectives.survival.cox import survival_of_baseline

COX = make_objective("cox")
DISTRIBUTIONS = {"normal": stats.norm, "logistic": stats.logistic, "extreme": stats.gumbel_l}
RNG = np.random.default_rng(0)
N = 300
X = np.round(RNG.normal(size=(N, 3)), 1)
HAZARD = np.exp(X[:, 0] + 0.5 * X[:, 1])
TIME = np.ceil(20.0 * RNG.exponential(1.0 / HAZARD)) + 1.0
CENSOR = np.ceil(RNG.exponential(40.0, N)) + 1.0
EVENT = TIME <= CENSOR
SIGNED = np.where(EVENT, TIME, -CENSOR)
STRUCTURED = np.array(list(zip(EVENT, np.abs(SIGNED), strict=True)),
                      dtype=[("event", bool), ("time", float)])  # fmt: skip
SHORT = {"n_estimators": 10}


def partial_likelihood(y, f, w):
    """Return minus the log of Efron's partial likelihood, with mean weights of tied events."""
    time, event, total = np.abs(y), y > 0, 0.0
    for at in np.unique(time[event]):
        risk, dead = time >= at, (time == at) & event
        n = dead.sum()
        of_risk, of_dead = (w * np.exp(f))[risk].sum(), (w * np.exp(f))[dead].sum()
        total -= (w * f)[dead].sum()
        for k in range(n):
            total += w[dead].mean() * np.log(of_risk - k / n * of_dead)
    return total


# -- Cox ---------------------------------------------------------------------------------


@given(seed=st.integers(0, 2**32 - 1), ties=st.integers(1, 20), weighted=st.booleans())
def test_derivatives_are_those_of_the_partial_likelihood(seed, ties, weighted) -> None:
    rng = np.random.default_rng(seed)
    n = 25
    y = np.where(rng.random(n) < 0.7, 1.0, -1.0) * np.ceil(rng.exponential(ties, n))
    y[0] = abs(y[0])
    f = rng.normal(size=n) * 2.0
    weight = rng.uniform(0.3, 3.0, n) if weighted else None
    w = np.ones(n) if weight is None else weight
    mass = w[y > 0].sum()
    assert COX.loss(y, f[None], weight) * mass == pytest.approx(partial_likelihood(y, f, w))
    g, h = gradients_at(COX, y, weight, f[None], 0)
    for i in range(0, n, 5):
        step = np.zeros(n)
        step[i] = 1e-3
        at = [partial_likelihood(y, f + k * step, w) for k in (-2, -1, 0, 1, 2)]
        slope = (at[0] - 8 * at[1] + 8 * at[3] - at[4]) / 12e-3
        bend = (-at[0] + 16 * at[1] - 30 * at[2] + 16 * at[3] - at[4]) / 12e-6
        assert g[i] == pytest.approx(slope, abs=1e-7)
        assert h[i] == pytest.approx(bend, abs=1e-5)


def test_far_scores_stay_finite() -> None:
    f = np.linspace(-700.0, 700.0, N)
    g, h = gradients_at(COX, SIGNED, None, f[None], 0)
    assert np.isfinite(g).all()
    assert np.isfinite(h).all()
    assert (h > 0.0).all()
    assert np.isfinite(COX.loss(SIGNED, f[None], None))


def test_baseline_hazard_of_equal_rows_is_that_of_efron() -> None:
    # Two of four rows die at time 1: 1/4 + 1/3.  One of the remaining at 2: 1/2.
    y = np.array([1.0, 1.0, 2.0, -3.0])
    found = COX.fit_record(y, np.zeros((1, 4)), None)["baseline"]
    assert found["times"] == [1.0, 2.0]
    assert found["hazard"] == pytest.approx([1 / 4 + 1 / 3, 1 / 4 + 1 / 3 + 1 / 2])


@pytest.mark.parametrize("shift", [-2000.0, -400.0, 0.0, 400.0, 2000.0, 1e6])
def test_survival_does_not_depend_on_where_scores_are(shift) -> None:
    y, raw = np.array([1.0, 1.0, 2.0, -3.0]), np.array([[0.5, -1.0, 0.0, 2.0]])
    times = np.array([0.5, 1.0, 2.5])
    expected = survival_of_baseline(COX.fit_record(y, raw, None)["baseline"], raw[0], times)
    assert (expected[:, 1:] < 1.0).all()
    baseline = COX.fit_record(y, raw + shift, None)["baseline"]
    found = survival_of_baseline(baseline, raw[0] + shift, times)
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    assert ("reference" in baseline) == (abs(shift) >= 400.0)


def test_a_fit_that_runs_away_can_be_saved(tmp_path) -> None:
    weight = np.exp(6.0 * np.random.default_rng(0).normal(size=N))
    params = {"n_estimators": 6, "reg_lambda": 0.0, "learning_rate": 1.0, "min_samples_leaf": 2}
    params["max_delta_step"] = 1e9  # nothing else bounds the steps
    model = HedgerowRegressor(objective="cox", early_stopping=False, **params)
    model.fit(X, SIGNED, sample_weight=weight)
    assert model.booster_.predict(X, kind="raw").max() > 300.0
    model.save(tmp_path / "model")
    again = HedgerowRegressor.load(tmp_path / "model")
    curves = again.predict_survival_function(X[:20])
    assert np.isfinite(curves).all()
    assert (np.diff(curves, axis=1) <= 0.0).all()


@pytest.fixture(scope="module")
def cox():
    return HedgerowRegressor(objective="cox", n_estimators=30).fit(X, SIGNED)


def test_survival_functions_fall_from_one(cox, tmp_path) -> None:
    times = cox.booster_.event_times
    assert set(times) == set(SIGNED[SIGNED > 0])
    curves = cox.predict_survival_function(X[:20])
    assert curves.shape == (20, len(times))
    assert ((curves >= 0.0) & (curves <= 1.0)).all()
    assert (np.diff(curves, axis=1) <= 0.0).all()
    assert (cox.predict_survival_function(X[:20], times[0] / 2.0) == 1.0).all()
    cox.save(tmp_path / "model")
    again = HedgerowRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_survival_function(X[:20]), curves)
    # The mean curve of the training rows is near that of Kaplan and Meier.
    at = np.array([5.0, 10.0, 20.0, 40.0])
    mean = cox.predict_survival_function(X, at).mean(axis=0)
    observed = np.abs(SIGNED)
    product, curve = 1.0, []
    for t in times:
        product *= 1.0 - (EVENT & (observed == t)).sum() / (observed >= t).sum()
        curve.append(product)
    known = [curve[np.searchsorted(times, t, side="right") - 1] for t in at]
    np.testing.assert_allclose(mean, known, atol=0.05)


def test_baselines_that_are_malformed_are_refused(cox) -> None:
    model = cox.booster_.model
    for baseline in ({"times": [1.0]}, {"times": [2.0, 1.0], "hazard": [0.1, 0.2]}, 3, {
        "times": [1.0, 2.0], "hazard": [0.2, 0.1]}, {"times": ["a"], "hazard": [1.0]}, {
        "times": [1.0], "hazard": [1.0], "reference": math.inf}, {
        "times": [1.0], "hazard": [1.0], "reference": "0"}):  # fmt: skip
        training = {**model.training, "baseline": baseline}
        with pytest.raises(ModelFormatError, match="baseline hazard"):
            model_to_bytes(type(model)(model.forest, model.schema, "cox", training))


def test_offsets_have_a_part_in_the_baseline() -> None:
    data = Dataset(X, SIGNED, offset=np.full(N, 2.0))
    with_offset = train({"objective": "cox", **SHORT}, data)
    plain = train({"objective": "cox", **SHORT}, Dataset(X, SIGNED))
    hazards = [np.array(m.model.training["baseline"]["hazard"]) for m in (with_offset, plain)]
    np.testing.assert_allclose(hazards[0] * np.exp(2.0), hazards[1], rtol=1e-6)


def test_crosses_have_a_part_in_the_baseline() -> None:
    settings = {"early_stopping": False, "feature_crosses": [("x0", "x1", "product")]}
    regressor = HedgerowRegressor(objective="cox", **SHORT, **settings)
    fitted = cross_fit(regressor, X, SIGNED, cv=3)
    by_folds = HedgerowRegressor(objective="cox", **SHORT, **{**settings, "early_stopping": "cv"})
    for booster in (regressor.fit(X, SIGNED).booster_, fitted.model.booster_,
                    by_folds.fit(X, SIGNED).booster_):  # fmt: skip
        expected = COX.fit_record(SIGNED, booster.raw_scores(X), None)["baseline"]
        assert booster.model.training["baseline"] == expected
    for booster in fitted.boosters:
        assert len(booster.event_times) > 0


def test_cox_is_fitted_with_all_defaults() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(240, 3))
    time = np.exp(rows[:, 0] * rows[:, 1] + 0.3 * rng.normal(size=240))
    model = HedgerowRegressor(objective="cox").fit(
        rows, np.where(rng.random(240) < 0.7, time, -time)
    )
    assert model.chosen_params_["feature_crosses"]  # or this test proves nothing
    assert np.isfinite(model.predict_survival_function(rows[:5])).all()


# -- accelerated failure times -----------------------------------------------------------


def reference_loss(name, scale, lower, upper, f):
    """Return the loss by SciPy's functions, where they are precise enough."""
    law = DISTRIBUTIONS[name]
    with np.errstate(divide="ignore"):
        low, high = (np.log(lower) - f) / scale, (np.log(upper) - f) / scale
    if lower == upper:
        return -law.logpdf(low) + np.log(scale * lower)
    if upper == np.inf:
        return -law.logsf(low)
    if lower == 0.0:
        return -law.logcdf(high)
    return -np.log(law.cdf(high) - law.cdf(low)) if low < 0 else -np.log(law.sf(low) - law.sf(high))


ROWS = [(2.0, 2.0), (3.0, np.inf), (0.0, 1.5), (1.0, 4.0), (2.0, 2.1), (5.0, 5.0001)]


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("scale", [0.4, 1.0, 2.0])
def test_aft_is_the_likelihood(name, scale) -> None:
    objective = make_objective("aft", parameters={"aft_distribution": name, "aft_scale": scale})
    y = np.array(ROWS)
    for f in (-1.0, 0.3, 1.0, 2.5):
        raw, step = np.full((1, len(y)), f), 1e-4
        found = objective.losses(y, raw)
        known = [reference_loss(name, scale, *row, f) for row in ROWS]
        np.testing.assert_allclose(found, known, rtol=1e-6, atol=1e-9)
        at = [objective.losses(y, raw + k * step) for k in (-2, -1, 1, 2)]
        g, h = gradients_at(objective, y, None, raw, 0)
        np.testing.assert_allclose(
            g, (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * step), rtol=1e-7, atol=1e-9
        )
        bends = [gradients_at(objective, y, None, raw + k * step, 0)[0] for k in (-1, 1)]
        np.testing.assert_allclose(h, (bends[1] - bends[0]) / (2 * step), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_aft_stays_finite_in_the_tails(name) -> None:
    objective = make_objective("aft", parameters={"aft_distribution": name, "aft_scale": 0.1})
    y = np.array(ROWS)
    for f in (-1e4, -300.0, -30.0, 30.0, 300.0, 1e4):
        raw = np.full((1, len(y)), f)
        g, h = gradients_at(objective, y, None, raw, 0)
        assert np.isfinite(g).all()
        assert np.isfinite(h).all()
        assert (h > 0.0).all()
        assert np.isfinite(objective.losses(y, raw)).all()


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_start_and_leaves_minimise(name) -> None:
    objective = make_objective("aft", parameters={"aft_distribution": name})
    weight = RNG.uniform(0.5, 2.0, N)
    (start,) = objective.initial_score(SIGNED, weight)
    g, _ = gradients_at(objective, SIGNED, weight, np.full((1, N), start), 0)
    assert abs(g.sum()) < 1e-8
    raw = RNG.normal(3.0, 1.0, (1, N))
    (step,) = objective.leaf_steps(LeafRows(SIGNED, raw, weight, np.array([0, N])), 0)
    assert abs(gradients_at(objective, SIGNED, weight, raw + step, 0)[0].sum()) < 1e-8


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_aft_models(name, tmp_path) -> None:
    given = {"objective": "aft", "aft_distribution": name, "aft_scale": 0.8, "n_estimators": 30}
    model = HedgerowRegressor(**given).fit(X, SIGNED)
    assert model.score(X, SIGNED) > 0.7
    intervals = np.column_stack([np.abs(SIGNED), np.where(EVENT, np.abs(SIGNED), np.inf)])
    same = HedgerowRegressor(**given).fit(X, intervals)
    np.testing.assert_array_equal(same.predict(X), model.predict(X))
    assert same.score(X, intervals) == model.score(X, SIGNED)
    at = np.array([1.0, 10.0, 100.0])
    curves = model.predict_survival_function(X[:5], at)
    law = DISTRIBUTIONS[name]
    raw = model.booster_.predict(X[:5], "raw")
    np.testing.assert_allclose(curves, law.sf((np.log(at) - raw[:, None]) / 0.8), rtol=1e-9)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again._objective.aft_distribution == name
    np.testing.assert_array_equal(again.predict_survival_function(X[:5], at), curves)
    with pytest.raises(ParameterError, match="give the times"):
        model.predict_survival_function(X)


# -- targets -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objective", "y", "fault", "message"),
    [
        ("cox", np.where(np.arange(N) == 4, 0.0, SIGNED), DataError, r"row 4 holds 0\.0"),
        ("cox", -np.abs(SIGNED), DataError, "all 300 rows are censored"),
        ("cox", np.column_stack([TIME, TIME]), DataError, "two columns of numbers"),
        ("cox", np.where(np.arange(N) == 9, np.nan, SIGNED), DataError, "NaN .*row 9"),
        ("aft", np.column_stack([TIME, TIME - (np.arange(N) == 3)]), DataError, "row 3 holds"),
        ("aft", np.column_stack([TIME * 0.0, TIME * np.inf]), DataError, "row 0 holds 0.0 to inf"),
        ("aft", np.column_stack([np.full(N, np.nan), TIME]), DataError, "NaN"),
        ("aft", np.zeros(N, dtype=[("a", float)]), DataTypeError, "two fields"),
    ],
)
def test_targets_that_are_no_times_are_refused(objective, y, fault, message) -> None:
    with pytest.raises(fault, match=message):
        HedgerowRegressor(objective=objective).fit(X, y)


def test_what_survival_models_cannot_do() -> None:
    model = HedgerowRegressor(objective="cox", **SHORT)
    with pytest.raises(ParameterError, match="no loss per leaf"):
        HedgerowRegressor(objective="cox", leaf_estimation="line_search").fit(X, SIGNED)
    with pytest.raises(ParameterError, match=r"'rmse' is for regression, but .* survival"):
        HedgerowRegressor(objective="cox", eval_metric="rmse").fit(X, SIGNED)
    with pytest.raises(ParameterError, match="aft_scale"):
        HedgerowRegressor(objective="aft", aft_scale=0.0).fit(X, SIGNED)
    with pytest.raises(ParameterError, match="'normal', 'logistic', 'extreme'"):
        HedgerowRegressor(objective="aft", aft_distribution="gauss").fit(X, SIGNED)
    with pytest.raises(ParameterError, match="needs objective 'cox' or 'aft'"):
        HedgerowRegressor(**SHORT).fit(X, TIME).predict_survival_function(X, [1.0])
    model.fit(X, SIGNED)
    for times in ([0.0], ["soon"], "1", [b"1"], [[1.0, 2.0]], [1.0, None], {"a": 1}, object()):
        with pytest.raises(ParameterError, match="times must be positive"):
            model.predict_survival_function(X, times)


@pytest.mark.parametrize("objective", ["cox", "aft"])
def test_early_stopping_by_concordance(objective) -> None:
    model = HedgerowRegressor(
        objective=objective, eval_metric=["concordance", "loss"], early_stopping=True,
        n_estimators=50,
    ).fit(X, STRUCTURED)  # fmt: skip
    curve = model.evals_result_["validation"]["concordance"]
    assert max(curve[: model.best_iteration_]) == curve[model.best_iteration_ - 1] > 0.6


# -- Cox with case weights as R's survival package has it ------------------------------------

# Therneau and Grambsch 2000, appendix E: nine rows with ties, censored ones and weights.
BOOK_TIME = np.array([1, 1, 2, 2, 2, 2, 3, 4, 5], dtype=float)
BOOK_EVENT = np.array([1, 0, 1, 1, 1, 0, 0, 1, 0], dtype=bool)
BOOK_X = np.array([2, 0, 1, 1, 0, 1, 0, 1, 0], dtype=float)
BOOK_WEIGHT = np.array([1, 2, 3, 4, 3, 2, 1, 2, 1], dtype=float)
BOOK_Y = np.where(BOOK_EVENT, BOOK_TIME, -BOOK_TIME)


def book_log_likelihood(beta: float) -> float:
    """Return Efron's weighted log likelihood as the book gives it for these rows."""
    r = np.exp(beta)
    a, b = 7 * r + 3, 4 * r + 2
    tied = np.log(a + b) + np.log(2 * a / 3 + b) + np.log(a / 3 + b)
    return 11 * beta - (np.log(r**2 + 11 * r + 7) + 10 / 3 * tied + 2 * np.log(2 * r + 1))


def book_score(beta: float) -> float:
    """Return the derivative of the book's log likelihood."""
    r = np.exp(beta)
    tied = 11 * r / (11 * r + 5) + 26 * r / (26 * r + 12) + 19 * r / (19 * r + 9)
    return 11 - (2 * r**2 + 11 * r) / (r**2 + 11 * r + 7) - 4 * r / (2 * r + 1) - 10 / 3 * tied


@pytest.mark.parametrize("beta", [-1.0, 0.0, 0.5, 0.8726, 2.0])
def test_cox_with_weights_is_that_of_the_book(beta) -> None:
    mass = BOOK_WEIGHT[BOOK_EVENT].sum()
    raw = beta * BOOK_X[None]
    loss = COX.loss(BOOK_Y, raw, BOOK_WEIGHT) * mass
    assert loss == pytest.approx(-book_log_likelihood(beta), rel=1e-12)
    g, _ = gradients_at(COX, BOOK_Y, BOOK_WEIGHT, raw, 0)
    assert g @ BOOK_X == pytest.approx(-book_score(beta), rel=1e-12, abs=1e-12)


def test_martingale_residuals_at_0_are_those_of_the_book() -> None:
    """Without covariates, the hazards are 1/19, then 10/48, 5/19 and 5/14 for the ties, and 2/3."""
    g, _ = gradients_at(COX, BOOK_Y, None, np.zeros((1, 9)), 0)
    assert g.sum() == pytest.approx(0.0, abs=1e-12)
    g, _ = gradients_at(COX, BOOK_Y, BOOK_WEIGHT, np.zeros((1, 9)), 0)
    hazard = np.array([1 / 19, 5 / 24, 5 / 19, 5 / 14, 2 / 3])
    of_tied = hazard[0] + hazard[1] + hazard[2] * 2 / 3 + hazard[3] / 3
    so_far = hazard.cumsum()
    expected = np.array([so_far[0]] * 2 + [of_tied] * 3 + [so_far[3]] * 2 + [so_far[4]] * 2)
    assert -g / BOOK_WEIGHT == pytest.approx(BOOK_EVENT - expected, rel=1e-12)


# -- steps without penalties -------------------------------------------------------------

FREE = {"reg_lambda": 0.0, "min_child_weight": 0.0, "min_samples_leaf": 1, "random_state": 0}


@pytest.mark.parametrize(
    "more",
    [
        {"learning_rate": 0.3},
        {"learning_rate": 1.0},
        {"learning_rate": 0.3, "boosting": "dart"},
        {"learning_rate": 0.3, "num_parallel_tree": 3},
        {"learning_rate": 0.3, "subsample": 0.5},
        {"learning_rate": [1.0 / (k + 1) for k in range(60)]},
        {"boosting": "rf", "subsample": 0.5},
    ],
    ids=str,
)
def test_steps_are_bounded_without_penalties(more) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    time = np.exp(-X[:, 0])  # no noise: scores rise without end
    y = np.where(rng.random(400) < 0.6, time, -time)
    model = HedgerowRegressor(objective="cox", n_estimators=60, early_stopping=False, **FREE)
    raw = model.set_params(**more).fit(X, y).booster_.predict(X, kind="raw")
    rates = np.resize(more.get("learning_rate", 1.0), 60)
    assert np.abs(raw).max() <= 16.0 * rates.sum()
    assert model.score(X, y) > 0.7


def test_only_long_steps_are_cut_off() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 2))
    time = np.exp(-8.0 * (X[:, 0] > 1.5) + rng.normal(size=4000))
    settings = {
        "objective": "cox",
        "learning_rate": 0.2,
        "early_stopping": False,
        "n_estimators": 3,
    }
    trained = [
        HedgerowRegressor(**settings, **FREE, max_delta_step=longest).fit(X, time).booster_
        for longest in (0.0, 16.0, 1e9)
    ]
    values = [booster.model.forest.value for booster in trained]
    assert np.abs(values[0]).max() == 0.2 * 16.0 < np.abs(values[2]).max()
    refitted = trained[0].refit(X, time, decay=0.0)
    assert np.abs(refitted.model.forest.value).max() == 0.2 * 16.0
    losses = [booster.eval(Dataset(X, time), "loss")["loss"] for booster in trained]
    assert losses[0] < losses[2]
    penalised = {**FREE, "reg_lambda": 1.0}
    free, bounded = (
        HedgerowRegressor(**settings, **penalised, max_delta_step=longest).fit(X, time).booster_
        for longest in (0.0, 1e9)
    )
    assert (free.model.forest.value == bounded.model.forest.value).all()
